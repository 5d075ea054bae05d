//! Runs the commands that begin with a slash. A `Journal` is where a conversation is stored.

use toolrack_agent::Message;
use toolrack_host::text;
use toolrack_store::journal::{Journal, OpenedSession};

use super::{
    Chat, Conversation,
    commands::{COMMANDS, Command, PROMPT_AND_RESOURCE_HELP},
};
use crate::{
    error::{Exit, Failure},
    render::{Cell, Tone, columns},
    verbs::{
        look::list,
        offers::{
            prompts, resources,
            tools::{self, render::Detail},
        },
        talk::sessions::{
            self,
            args::{ExportSessionArgs, Format, ListSessionsArgs, SessionsVerb},
            render::ShownSession,
        },
    },
};

/// The most tools that a search shows, and the most conversations that are listed.
const MAX_SHOWN: usize = 20;

/// The next step after a command.
#[derive(Debug)]
pub(super) enum NextStep {
    ReadInput,
    Leave,
    /// Send these messages to the model as the user's next message.
    SendTurn(Vec<Message>),
}

impl Chat<'_> {
    /// Runs `command`.
    ///
    /// # Errors
    /// When the command fails. The conversation stays as it was.
    pub(super) async fn run_command(
        &mut self,
        command: Command,
        conversation: &mut Conversation,
    ) -> Result<NextStep, Failure> {
        match command {
            Command::Quit => return Ok(NextStep::Leave),
            Command::Help => self.show(help()).await?,
            Command::Mcp => {
                let servers: Vec<_> = self.tools.servers().into_iter().map(list::render::Server::from).collect();
                self.show(list::render::page(&servers, self.context.screen.layout())).await?;
            }
            Command::Tools(search) => self.show_tools(search).await?,
            Command::Resources => {
                let (offers, failures) =
                    resources::list_for_servers(&self.agent.host, &self.tools.servers_to_ask()).await;
                self.show_offers("resources", resources::render::page(&offers), &failures).await?;
            }
            Command::Prompts => {
                let (offers, failures) =
                    prompts::list_for_servers(&self.agent.host, &self.tools.servers_to_ask()).await;
                self.show_offers("prompts", prompts::render::page(&offers), &failures).await?;
            }
            Command::Allow(pattern) => {
                self.context
                    .screen
                    .note(&format!("tools that match `{pattern}` run without asking, unless they are denied"));
                self.tools.rules().allow(pattern);
            }
            Command::Deny(pattern) => {
                self.context.screen.note(&format!("tools that match `{pattern}` do not run"));
                self.tools.rules().deny(pattern);
            }
            Command::Model(None) => self.context.screen.note(self.agent.model.name()),
            Command::Model(Some(name)) => self.change_model(name, conversation).await?,
            Command::System(None) => {
                let system = self.agent.system.as_deref().unwrap_or("nothing");
                self.context.screen.message(&text::for_terminal(system));
            }
            Command::System(system) => self.agent.system = system,
            Command::Sessions => {
                let list = ListSessionsArgs { limit: MAX_SHOWN, search: None, after: None };
                sessions::run(SessionsVerb::List(list), self.context).await?;
            }
            Command::Resume(typed_id) => *conversation = self.resume(&typed_id).await?,
            Command::New => conversation.begin_new(self),
            Command::Export(file) => self.export(file, conversation).await?,
            Command::Cost => self.show_cost(conversation).await?,
            Command::Clear => self.context.screen.clear_all(),
            Command::Prompt(request) => return self.get_prompt(request).await.map(NextStep::SendTurn),
        }
        Ok(NextStep::ReadInput)
    }

    /// Shows a page for users, which has no JSON form.
    pub(super) async fn show(&self, page: String) -> Result<(), Failure> {
        if self.context.screen.prints_json() {
            self.context.screen.message(&page);
            return Ok(());
        }
        self.context.screen.page(page).await
    }

    /// Shows `page`, which lists prompts or resources. `plural` names these items in messages.
    async fn show_offers(&self, plural: &str, page: String, failures: &[Failure]) -> Result<(), Failure> {
        for failure in failures {
            self.context.screen.warning(&failure.message);
        }
        if page.is_empty() && failures.is_empty() {
            self.context.screen.note(&format!("there are no {plural}"));
        }
        self.show(page).await
    }

    async fn show_tools(&self, search: Option<String>) -> Result<(), Failure> {
        let selection = self.tools.user_tools();
        let listed_tools = match &search {
            Some(words) => tools::search(&self.agent.host, words, MAX_SHOWN, &selection).await,
            None => {
                let mut listed_tools = tools::all_tools(&self.agent.host.catalog());
                listed_tools.retain(|listed_tool| selection.has(&listed_tool.tool));
                listed_tools
            }
        };
        if listed_tools.is_empty() {
            self.context.screen.note(if search.is_some() { "no tool fits" } else { "there are no tools" });
        }
        let with_schema = false;
        self.show(if search.is_some() {
            tools::render::ranked(&listed_tools, with_schema)
        } else {
            tools::render::page(&listed_tools, &[], Detail::default())
        })
        .await
    }

    async fn change_model(&mut self, name: String, conversation: &mut Conversation) -> Result<(), Failure> {
        let selected_model = self.model_options.with_model(name).choose(&self.context.model_context()).await?;
        conversation.journal.set_model(selected_model.model.name());
        self.context.sample_with(&selected_model);
        let (agent, description) = self.tools.clone().agent(&selected_model, self.agent.system.take());
        (self.agent, self.limits) = (agent, selected_model.limits);
        self.context.screen.note(&description);
        Ok(())
    }

    /// Opens the conversation that `typed_id` names, and shows its end.
    async fn resume(&self, typed_id: &str) -> Result<Conversation, Failure> {
        let session = sessions::find_session(typed_id, self.context).await?;
        let opened_session =
            Journal::open(self.context.store()?, session, self.agent.model.name(), self.context.conceal()).await;
        let conversation = Conversation::resumed(opened_session.map_err(|error| sessions::session_failure(&error))?);
        self.show_resumed(&conversation).await?;
        Ok(conversation)
    }

    async fn export(&self, file: Option<String>, conversation: &Conversation) -> Result<(), Failure> {
        let session = conversation.journal.id().ok_or_else(not_stored_failure)?.to_string();
        let is_json = file.as_deref().is_some_and(|file| file.to_ascii_lowercase().ends_with(".json"));
        let format = if is_json { Format::Json } else { Format::Md };
        let export = ExportSessionArgs { session, format, output: file.map(Into::into) };
        sessions::run(SessionsVerb::Export(export), self.context).await.map(drop)
    }

    async fn show_cost(&self, conversation: &Conversation) -> Result<(), Failure> {
        let session = conversation.journal.id().ok_or_else(not_stored_failure)?;
        let session =
            self.context.store()?.session(session).await.map_err(|error| sessions::session_failure(&error))?;
        // The cost shows no title, so no secret has to be concealed.
        let cost = ShownSession::new(session, &str::to_owned).cost(self.context.screen.layout());
        self.show(cost.unwrap_or_else(|| "the model has not reported its usage".to_owned())).await
    }
}

impl Conversation {
    /// Begins an empty conversation. The previous conversation stays stored.
    fn begin_new(&mut self, chat: &Chat<'_>) {
        let store = chat.context.store().ok().cloned();
        *self = Self::resumed((
            Journal::new(store, chat.agent.model.name(), chat.context.conceal()),
            OpenedSession::default(),
        ));
    }
}

fn not_stored_failure() -> Failure {
    Failure::new(Exit::Usage, "NO_SESSIONS", "this conversation is not stored yet")
}

fn help() -> String {
    let rows: Vec<_> = (COMMANDS.iter().chain(PROMPT_AND_RESOURCE_HELP))
        .map(|command| {
            let slash = if command.name.starts_with('@') { "" } else { "/" };
            let words = format!("{slash}{} {}", command.name, command.argument);
            vec![Cell::new(Tone::Strong, words.trim_end()), Cell::new(Tone::Plain, command.about)]
        })
        .collect();
    columns(&rows).join("\n")
}
