//! Runs `toolrack chat`: one turn after another, each of them a message of the user and all that the model does until
//! it has answered. `Context` is what a command works with: its configuration, database, screen and servers. A
//! `Journal` writes the conversation into the database.

mod actions;
mod commands;
mod completer;
mod editor;
mod input;
mod known_items;
mod news;
mod prompt;

use std::{pin::pin, sync::Arc};

use clap::Args;
use toolrack_agent::{Agent, AgentError, End, Limits, Message, Turn};
use toolrack_store::journal::{Journal, OpenedSession};

use super::{
    ask,
    sessions::{
        self,
        args::{SessionsVerb, ShowSessionArgs},
    },
};
use crate::{
    args::TalkArgs,
    context::{Context, OnFailure},
    error::{Exit, Failure},
    live::{LiveTurn, TurnFormat},
    models::ModelOptions,
    render::{Tone, paint},
    screen::Screen,
    stop::StopSignals,
};
use actions::NextStep;
use input::{InputSource, UserInput};
use known_items::{ItemCollector, KnownItems};
use news::News;

/// `chat`.
#[derive(Debug, Args)]
#[command(
    after_help = "At a terminal, Alt-Enter or a \\ at the end of a line begins a new line. Ctrl-C cancels the calls under way, a second \
Ctrl-C cancels the turn, and Ctrl-D ends the conversation. Without a terminal, each line of stdin is a turn, and the \
first turn that fails ends the command.

In a message, @server:uri adds a resource. /server:prompt sends a prompt of a server, and /help shows all commands.

Examples:
  toolrack chat
  toolrack chat --model ollama/qwen3:8b --allow 'fs/read_*'
  toolrack chat --resume last"
)]
pub(crate) struct ChatArgs {
    /// The first message
    #[arg(value_name = "WORDS")]
    pub(crate) prompt: Vec<String>,

    /// Continue this conversation: its id, the beginning of its id, or `last`
    #[arg(short, long, value_name = "SESSION", visible_alias = "session", visible_short_alias = 's')]
    pub(crate) resume: Option<String>,

    /// The system prompt for the model
    #[arg(long, value_name = "TEXT")]
    pub(crate) system: Option<String>,

    #[command(flatten)]
    pub(crate) talk: TalkArgs,
}

/// How many of the last messages are shown when a conversation is resumed.
const REPLAYED_MESSAGES: usize = 6;

pub(crate) async fn run(args: Box<ChatArgs>, context: &Context) -> Result<Exit, Failure> {
    let mut interrupts = StopSignals::new()?;
    let prepared_chat = tokio::select! {
        biased;
        () = interrupts.interrupted() => return Ok(Exit::Interrupted),
        prepared_chat = start(&args, context) => prepared_chat?,
    };
    let PreparedChat { tools, agent, model_options, limits, conversation } = prepared_chat;
    let news = News::subscribe(&agent.host, context.screen.layout());
    let mut chat = Chat { context, tools, agent, model_options, limits, news, interrupts };
    let first_message = args.prompt.join(" ");
    chat.talk(conversation, Some(first_message).filter(|first_message| !first_message.trim().is_empty())).await
}

/// The conversation so far, and where it is stored.
struct Conversation {
    journal: Journal,
    messages: Vec<Message>,
}

/// Everything that a conversation needs, once the servers are connected.
struct PreparedChat {
    tools: ask::Tools,
    agent: Agent,
    model_options: ModelOptions,
    limits: Limits,
    conversation: Conversation,
}

/// Chooses the model, opens the conversation and connects the servers.
async fn start(args: &ChatArgs, context: &Context) -> Result<PreparedChat, Failure> {
    let loaded = context.load().await?;
    let model_options = ModelOptions::from_arguments(&args.talk, &loaded);
    let selected_model = model_options.choose(&context.model_context()).await?;
    context.sample_with(&selected_model);
    let model = selected_model.model.name();
    let conversation = match &args.resume {
        Some(typed_id) => Conversation::resumed(sessions::resume(typed_id, model, context).await?),
        None => Conversation {
            journal: Journal::new(context.store().ok().cloned(), model, context.conceal()),
            messages: Vec::new(),
        },
    };
    context.forget_old_sessions(&loaded, conversation.journal.id()).await;
    let tools = ask::Tools::start(&args.talk, &loaded, OnFailure::Reconnect, context).await?;
    let (agent, description) = tools.clone().agent(&selected_model, args.system.clone());
    if context.screen.is_interactive() {
        context.screen.note(&description);
    }
    Ok(PreparedChat { tools, agent, model_options, limits: selected_model.limits, conversation })
}

impl Conversation {
    /// Returns a stored conversation. A turn that was interrupted is not continued, and ends at the point of the
    /// interruption.
    fn resumed((journal, opened_session): (Journal, OpenedSession)) -> Self {
        let OpenedSession { messages, interrupted_turn } = opened_session;
        let messages = match interrupted_turn {
            // The limits do not matter, because this turn does not run.
            Some(state) => Turn::resume(messages, state, Limits::default()).into_messages(),
            None => messages,
        };
        Self { journal, messages }
    }
}

impl ask::Tools {
    /// Collects the prompts and resources of the user's servers while the returned value exists.
    fn collect_items(&self, known_items: &Arc<KnownItems>) -> ItemCollector {
        let tools = self.clone();
        ItemCollector::start(self.host(), known_items, move |server| !tools.is_own_server(server))
    }
}

/// How a turn ended for the user.
enum TurnOutcome {
    /// The turn ended, with or without a failure.
    Ended(Result<Exit, Failure>),
    /// The user cancelled the turn.
    Cancelled,
    /// The conversation cannot continue, because the turn could not be stored.
    Broken(Failure),
}

/// A running conversation.
struct Chat<'a> {
    context: &'a Context,
    tools: ask::Tools,
    agent: Agent,
    /// How the model was chosen.
    model_options: ModelOptions,
    limits: Limits,
    /// Changes of the servers during the conversation.
    news: News,
    interrupts: StopSignals,
}

impl Chat<'_> {
    /// Runs one turn after another, until the user leaves.
    async fn talk(
        &mut self,
        mut conversation: Conversation,
        mut first_message: Option<String>,
    ) -> Result<Exit, Failure> {
        let known_items = Arc::<KnownItems>::default();
        let input = InputSource::open(self.context, &known_items)?;
        // Collects items for the completion until the conversation ends.
        let _collector = input.is_terminal().then(|| self.tools.collect_items(&known_items));
        self.show_resumed(&conversation).await?;
        // Whether the user has just pressed Ctrl-C: another Ctrl-C then ends the conversation.
        let mut interrupted_before = false;
        loop {
            let user_input = match first_message.take() {
                Some(first_message) => UserInput::Text(first_message),
                None => tokio::select! {
                    user_input = read_input(&input, &mut self.news, &self.context.screen) => user_input?,
                    () = self.interrupts.interrupted() => return Ok(self.leave(&conversation, Exit::Interrupted)),
                },
            };
            let prompt = match user_input {
                UserInput::Text(text) if text.trim().is_empty() => continue,
                UserInput::Text(text) => text,
                UserInput::Interrupted if interrupted_before => return Ok(self.leave(&conversation, Exit::Ok)),
                UserInput::Interrupted => {
                    interrupted_before = true;
                    self.context.screen.note("press Ctrl-C again, or Ctrl-D, to leave");
                    continue;
                }
                UserInput::End => return Ok(self.leave(&conversation, Exit::Ok)),
            };
            let outcome = match self.handle(&prompt, &mut conversation).await {
                Ok(NextStep::Leave) => return Ok(self.leave(&conversation, Exit::Ok)),
                Ok(NextStep::ReadInput) => TurnOutcome::Ended(Ok(Exit::Ok)),
                Ok(NextStep::SendTurn(messages)) => {
                    let (next_conversation, outcome) = self.turn(conversation, messages).await?;
                    conversation = next_conversation;
                    outcome
                }
                Err(failure) => TurnOutcome::Ended(Err(failure)),
            };
            interrupted_before = matches!(outcome, TurnOutcome::Cancelled);
            match outcome {
                TurnOutcome::Broken(failure) => return Err(failure),
                // Without a terminal, no user can decide how to go on after the failure.
                TurnOutcome::Ended(Err(failure)) if !input.is_terminal() => return Err(failure),
                TurnOutcome::Cancelled if !input.is_terminal() => return Ok(Exit::Interrupted),
                TurnOutcome::Ended(Err(failure)) => self.context.screen.failure(&failure),
                TurnOutcome::Cancelled => self.context.screen.safe_note(&paint(Tone::Waiting, "cancelled")),
                TurnOutcome::Ended(Ok(_)) => {}
            }
        }
    }

    /// Runs the command that the user typed, or turns other text into a message. Ctrl-C cancels the command or the
    /// message, but does not end the conversation.
    async fn handle(&mut self, typed_text: &str, conversation: &mut Conversation) -> Result<NextStep, Failure> {
        // A separate receiver, because the command borrows all of `self`.
        let mut interrupts = StopSignals::new()?;
        let next_step = tokio::select! {
            biased;
            () = interrupts.interrupted() => None,
            next_step = self.run_or_compose(typed_text, conversation) => Some(next_step),
        };
        if next_step.is_none() {
            // The old receiver would report the same Ctrl-C once more.
            self.interrupts = interrupts;
        }
        next_step.unwrap_or(Ok(NextStep::ReadInput))
    }

    async fn run_or_compose(&mut self, typed_text: &str, conversation: &mut Conversation) -> Result<NextStep, Failure> {
        let servers: Vec<_> = self.tools.servers().into_iter().map(|server| server.name).collect();
        match commands::parse(typed_text, &servers) {
            Some(command) => self.run_command(command?, conversation).await,
            None => {
                let message = self.tools.compose(typed_text, None, &self.context.screen).await?;
                Ok(NextStep::SendTurn(vec![message]))
            }
        }
    }

    /// Shows the end of a resumed conversation, at a terminal.
    async fn show_resumed(&self, conversation: &Conversation) -> Result<(), Failure> {
        let Some(session) = conversation.journal.session() else {
            return Ok(());
        };
        if self.context.screen.is_interactive() && !self.context.screen.prints_json() {
            let show_args =
                ShowSessionArgs { session: session.id.to_string(), limit: Some(REPLAYED_MESSAGES), full: false };
            sessions::run(SessionsVerb::Show(show_args), self.context).await?;
        }
        Ok(())
    }

    /// Tells the user, at a terminal, how to continue this conversation later. Returns `exit`.
    fn leave(&self, conversation: &Conversation, exit: Exit) -> Exit {
        if let (true, Some(session)) = (self.context.screen.is_interactive(), conversation.journal.session()) {
            self.context
                .screen
                .note(&format!("`toolrack chat --resume {}` continues this conversation", session.prefix));
        }
        exit
    }

    /// Runs one turn that begins with `new_messages`, and stores it. Returns the conversation with this turn, and
    /// how the turn ended.
    ///
    /// # Errors
    /// When stdout cannot be written.
    async fn turn(
        &mut self,
        conversation: Conversation,
        new_messages: Vec<Message>,
    ) -> Result<(Conversation, TurnOutcome), Failure> {
        let Conversation { journal, mut messages } = conversation;
        messages.extend(new_messages);
        let mut turn = Turn::new(messages, self.limits);
        let format = if self.context.screen.prints_json() { TurnFormat::JsonDocument } else { TurnFormat::Text };
        let screen = Arc::clone(&self.context.screen);
        let mut live_turn = LiveTurn::new(screen, self.agent.host.catalog(), journal, format);
        let turn_result = self.run_turn(&mut turn, &mut live_turn).await;
        // Without a terminal, a turn stays open if the model has failed. Another command can then continue it.
        let is_interactive = self.context.screen.is_interactive();
        let cancel_result = match &turn_result {
            None => live_turn.cancel(&mut turn).await,
            Some(Err(AgentError::Model { .. })) if is_interactive => live_turn.cancel(&mut turn).await,
            _ => Ok(()),
        };
        let report = live_turn.finish(&turn, &self.agent).await?;
        let outcome = match (cancel_result, turn_result) {
            (Err(store_error), _) => TurnOutcome::Broken(ask::turn_failure(&store_error.into())),
            (_, Some(Err(error @ AgentError::NotStored(_)))) => TurnOutcome::Broken(ask::turn_failure(&error)),
            (_, Some(Err(error))) => TurnOutcome::Ended(Err(ask::turn_failure(&error))),
            (_, None) => TurnOutcome::Cancelled,
            (_, Some(Ok(end))) => {
                TurnOutcome::Ended(ask::turn_exit(&end, &report.unapproved_tools).map_err(|failure| match end {
                    End::RoundLimit | End::TokenLimit | End::CostLimit => failure.hint("say `go on` to continue"),
                    _ => failure,
                }))
            }
        };
        Ok((Conversation { journal: report.journal, messages: turn.into_messages() }, outcome))
    }

    /// Runs `turn`, and meanwhile shows changes of the servers. Ctrl-C cancels the calls that are under way, or if
    /// there are none, the turn. Returns `None` when the user cancelled the turn.
    async fn run_turn(&mut self, turn: &mut Turn, live_turn: &mut LiveTurn) -> Option<Result<End, AgentError>> {
        // The brake cancels the calls, or the turn, while `run` has borrowed `live_turn`.
        let (brake, news_sender) = (live_turn.brake(), live_turn.news_sender());
        let mut run = Box::pin(self.agent.run(turn, live_turn));
        loop {
            tokio::select! {
                biased;
                () = self.interrupts.interrupted() => {
                    if !brake.cancel_calls() {
                        return brake.stop(&mut run).await;
                    }
                }
                turn_result = &mut run => return Some(turn_result),
                line = self.news.next() => news_sender.show(line),
            }
        }
    }
}

/// Reads the user's next message, and meanwhile shows changes of the servers.
async fn read_input(input: &InputSource, news: &mut News, screen: &Screen) -> Result<UserInput, Failure> {
    let mut next_input = pin!(input.next());
    loop {
        tokio::select! {
            user_input = &mut next_input => return user_input,
            line = news.next() => input.show_line(&line, screen),
        }
    }
}
