//! The actions of the commands that begin with a slash.

use toolrack_agent::Message;
use toolrack_host::text;
use toolrack_store::journal::{Journal, Opened};

use super::{
    Chat, Conversation,
    commands::{BESIDE, COMMANDS, Command},
};
use crate::{
    args::ModelArgs,
    error::{Exit, Failure},
    models::ModelOptions,
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
pub(super) enum After {
    Next,
    Leave,
    /// The user says this.
    Say(Vec<Message>),
}

impl Chat<'_> {
    /// Runs `command`.
    ///
    /// # Errors
    /// When it does not work. The conversation stays as it was.
    pub(super) async fn does(&mut self, command: Command, now: &mut Conversation) -> Result<After, Failure> {
        match command {
            Command::Quit => return Ok(After::Leave),
            Command::Help => self.show(help()).await?,
            Command::Mcp => {
                let servers: Vec<_> = self.tools.servers().into_iter().map(list::render::Server::from).collect();
                self.show(list::render::page(&servers, self.world.screen.look())).await?;
            }
            Command::Tools(search) => self.show_tools(search).await?,
            Command::Resources => {
                let (offers, failures) = resources::offers(&self.agent.host, &self.tools.connected()).await;
                self.show_offers("resources", resources::render::page(&offers), &failures).await?;
            }
            Command::Prompts => {
                let (offers, failures) = prompts::offers(&self.agent.host, &self.tools.connected()).await;
                self.show_offers("prompts", prompts::render::page(&offers), &failures).await?;
            }
            Command::Allow(pattern) => {
                self.world.screen.note(&format!("`{pattern}` runs without asking, unless it is denied"));
                self.tools.rules().allow(pattern);
            }
            Command::Deny(pattern) => {
                self.world.screen.note(&format!("`{pattern}` does not run"));
                self.tools.rules().deny(pattern);
            }
            Command::Model(None) => self.world.screen.note(self.agent.model.name()),
            Command::Model(Some(name)) => self.take_model(name, now).await?,
            Command::System(None) => {
                let system = self.agent.system.as_deref().unwrap_or("nothing");
                self.world.screen.say(&text::for_terminal(system));
            }
            Command::System(system) => self.agent.system = system,
            Command::Sessions => {
                let list = ListSessionsArgs { limit: MAX_SHOWN, search: None, after: None };
                sessions::run(SessionsVerb::List(list), self.world).await?;
            }
            Command::Resume(typed) => *now = self.opened(&typed).await?,
            Command::New => now.begin_new(self),
            Command::Export(file) => self.export(file, now).await?,
            Command::Cost => self.show_cost(now).await?,
            Command::Clear => self.world.screen.clear_all(),
            Command::Prompt(meant) => return self.prompt(meant).await.map(After::Say),
        }
        Ok(After::Next)
    }

    /// Shows a page for users. There is no JSON form of it.
    pub(super) async fn show(&self, page: String) -> Result<(), Failure> {
        if self.world.screen.json() {
            self.world.screen.say(&page);
            return Ok(());
        }
        self.world.screen.page(page).await
    }

    async fn show_offers(&self, what: &str, page: String, failures: &[Failure]) -> Result<(), Failure> {
        for failure in failures {
            self.world.screen.warning(&failure.message);
        }
        if page.is_empty() && failures.is_empty() {
            self.world.screen.note(&format!("there are no {what}"));
        }
        self.show(page).await
    }

    async fn show_tools(&self, search: Option<String>) -> Result<(), Failure> {
        let selection = self.tools.of_user();
        let found = match &search {
            Some(words) => tools::search(&self.agent.host, words, MAX_SHOWN, &selection).await,
            None => {
                let mut found = tools::all(&self.agent.host.catalog());
                found.retain(|shown| selection.has(&shown.tool));
                found
            }
        };
        if found.is_empty() {
            self.world.screen.note(if search.is_some() { "no tool fits" } else { "there are no tools" });
        }
        self.show(if search.is_some() {
            tools::render::ranked(&found, false)
        } else {
            tools::render::page(&found, &[], Detail::default())
        })
        .await
    }

    async fn take_model(&mut self, name: String, now: &mut Conversation) -> Result<(), Failure> {
        let args = ModelArgs { model: Some(name), ..self.model_options.model.clone() };
        let chosen =
            ModelOptions { model: args, ..self.model_options.clone() }.chosen(&self.world.model_context()).await?;
        now.journal.answered_by(chosen.model.name());
        self.world.samples_with(&chosen);
        let (agent, at_hand) = self.tools.clone().agent(&chosen, self.agent.system.take());
        (self.agent, self.limits) = (agent, chosen.limits);
        self.world.screen.note(&at_hand);
        Ok(())
    }

    /// The conversation that `typed` names.
    async fn opened(&self, typed: &str) -> Result<Conversation, Failure> {
        let session = sessions::named(typed, self.world).await?;
        let opened = Journal::open(self.world.store()?, session, self.agent.model.name(), self.world.conceal()).await;
        let conversation = Conversation::resumed(opened.map_err(|error| sessions::failed(&error))?);
        self.greet(&conversation).await?;
        Ok(conversation)
    }

    async fn export(&self, file: Option<String>, now: &Conversation) -> Result<(), Failure> {
        let session = now.journal.id().ok_or_else(nothing_stored)?.to_string();
        let is_json = file.as_deref().is_some_and(|file| file.to_ascii_lowercase().ends_with(".json"));
        let format = if is_json { Format::Json } else { Format::Md };
        let export = ExportSessionArgs { session, format, output: file.map(Into::into) };
        sessions::run(SessionsVerb::Export(export), self.world).await.map(drop)
    }

    async fn show_cost(&self, now: &Conversation) -> Result<(), Failure> {
        let session = now.journal.id().ok_or_else(nothing_stored)?;
        let session = self.world.store()?.session(session).await.map_err(|error| sessions::failed(&error))?;
        let cost = ShownSession::new(session, &str::to_owned).cost(self.world.screen.look());
        self.show(cost.unwrap_or_else(|| "the model has not reported its usage".to_owned())).await
    }
}

impl Conversation {
    /// Begins an empty conversation. The one before stays stored.
    fn begin_new(&mut self, chat: &Chat<'_>) {
        let store = chat.world.store().ok().cloned();
        *self = Self::resumed((Journal::new(store, chat.agent.model.name(), chat.world.conceal()), Opened::default()));
    }
}

fn nothing_stored() -> Failure {
    Failure::new(Exit::Usage, "NO_SESSIONS", "this conversation is not stored yet")
}

fn help() -> String {
    let rows: Vec<_> = (COMMANDS.iter().chain(BESIDE))
        .map(|known| {
            let slash = if known.name.starts_with('@') { "" } else { "/" };
            let words = format!("{slash}{} {}", known.name, known.argument);
            vec![Cell::new(Tone::Strong, words.trim_end()), Cell::new(Tone::Plain, known.about)]
        })
        .collect();
    columns(&rows).join("\n")
}
