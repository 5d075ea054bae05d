//! `toolrack ask`

use std::{io::IsTerminal, num::NonZeroU32, sync::Arc};

use toolrack_agent::{Agent, AgentError, End, Limits, Message, Model, Role, Turn};
use toolrack_config::{Loaded, Scope};
use toolrack_host::{Host, Otherwise, Pattern, Rules, Selection, ServerName, State};

use super::{input, sessions};
use crate::{
    args::{AskArgs, ModelArgs, PolicyArgs},
    error::{Exit, Failure, with_causes},
    journal::{Journal, Opened},
    models,
    render::{
        count,
        turn::{Live, Shown},
    },
    wire::World,
};

pub(super) async fn run(args: AskArgs, world: &World) -> Result<Exit, Failure> {
    let prompt = prompt(&args.prompt).await?;
    let model = models::chosen(&args.model, &world.environment).await?;
    let store = || world.store().ok().filter(|_| !args.no_save).cloned();
    let (journal, opened) = match &args.session {
        Some(typed) => {
            let session = sessions::named(typed, world).await?;
            let opened = Journal::open(world.store()?, session, model.name()).await;
            opened.map_err(|error| sessions::failed(&error))?
        }
        None => (Journal::new(store(), model.name()), Opened::default()),
    };
    let mut turn = turn(opened, prompt, limits(args.max_rounds))?;

    let loaded = world.load().await?;
    world.forget_old_sessions(&loaded, journal.id()).await;
    let host = connect(&args.policy, &loaded, world).await?;
    let system = args.system.clone();
    let agent = agent(model, host, &args.policy, &args.model, system);
    world.screen.detail(&at_hand(&agent));

    let shown = match (world.screen.json(), args.stream_json) {
        (_, true) => Shown::AsRecords,
        (true, _) => Shown::AsDocument,
        _ => Shown::ToPeople,
    };
    let mut live = Live::new(Arc::clone(&world.screen), agent.host.catalog(), journal, shown);
    let ended = agent.run(&mut turn, &mut live).await;
    let report = live.finish(&turn, &agent).await?;
    match ended {
        Ok(end) => exit_of(&end, &report.unasked),
        Err(error) => {
            let failure = failed(&error);
            Err(match (&error, report.journal.session()) {
                (AgentError::Model { .. }, Some(session)) => {
                    failure.hint(format!("`toolrack ask --session {}` goes on from here", session.prefix))
                }
                _ => failure,
            })
        }
    }
}

/// Who answers, with the tools that may be used.
pub(super) fn agent(
    model: Arc<dyn Model>,
    host: Host,
    policy: &PolicyArgs,
    args: &ModelArgs,
    system: Option<String>,
) -> Agent {
    let mut agent = Agent::new(model, host);
    agent.selection = Arc::new(Selection::all().only(policy.tool.clone()));
    agent.system = system;
    agent.max_tokens = args.max_tokens.map(Into::into);
    agent
}

/// `anthropic/claude-sonnet-5-5; 2 servers, 24 tools`
pub(super) fn at_hand(agent: &Agent) -> String {
    let tools = agent.host.catalog().tools().filter(|tool| agent.selection.has(tool)).count();
    let status = agent.host.status();
    let servers = status.iter().filter(|server| matches!(server.state, State::Connected { .. })).count();
    format!("{}; {}, {}", agent.model.name(), count(servers, "server"), count(tools, "tool"))
}

pub(super) fn limits(rounds: NonZeroU32) -> Limits {
    let mut limits = Limits::default();
    limits.rounds = rounds.get();
    limits
}

/// What was typed, and what stdin has to say; `None` when neither says anything.
async fn prompt(words: &[String]) -> Result<Option<String>, Failure> {
    let typed = words.join(" ");
    let piped = match std::io::stdin().is_terminal() {
        true => String::new(),
        false => input::read("the prompt", "-".to_owned()).await?,
    };
    let parts: Vec<_> = [typed.trim(), piped.trim_end()].into_iter().filter(|part| !part.is_empty()).collect();
    Ok((!parts.is_empty()).then(|| parts.join("\n\n")))
}

/// The turn that answers `prompt`, or goes on where one was interrupted.
fn turn(opened: Opened, prompt: Option<String>, limits: Limits) -> Result<Turn, Failure> {
    let Opened { messages, open } = opened;
    let resumed = open.map(|state| Turn::resume(messages.clone(), state, limits));
    match (prompt, resumed) {
        (Some(prompt), resumed) => {
            let mut messages = resumed.map_or(messages, Turn::into_messages);
            messages.push(Message::new(Role::User, prompt));
            Ok(Turn::new(messages, limits))
        }
        (None, Some(turn)) => Ok(turn),
        (None, None) => Err(Failure::usage("what to ask?").hint("toolrack ask \"…\"")),
    }
}

/// Connects to the servers whose tools may be used. One that fails is told of, and nothing more.
pub(super) async fn connect(policy: &PolicyArgs, loaded: &Loaded, world: &World) -> Result<Host, Failure> {
    let desired = super::only(loaded, &policy.server)?;
    world.guard(Arc::new(rules(policy, loaded)));
    let host = world.connect(desired).await?;
    for failure in super::complaints(&host, &policy.server).await {
        world.screen.warning(&failure.message);
    }
    Ok(host)
}

/// What may run unasked: what was allowed by name, and what the program itself carries, which only reads.
fn rules(policy: &PolicyArgs, loaded: &Loaded) -> Rules {
    let own = loaded.entries.iter().filter(|entry| entry.scope == Scope::BuiltIn);
    let own = own.filter_map(|entry| format!("{}/*", ServerName::new(&*entry.name).ok()?).parse::<Pattern>().ok());
    Rules {
        allow: policy.allow.iter().cloned().chain(own).collect(),
        deny: policy.deny.clone(),
        allow_read_only: policy.yes_read_only,
        otherwise: Otherwise::Confirm,
        ..Rules::default()
    }
}

/// A turn that stopped short.
pub(super) fn failed(error: &AgentError) -> Failure {
    match error {
        AgentError::Model { error, .. } => Failure::new(Exit::Model, error.code(), with_causes(&**error)),
        error => Failure::new(Exit::Other, "NOT_KEPT", error.to_string()),
    }
}

pub(super) fn exit_of(end: &End, unasked: &[String]) -> Result<Exit, Failure> {
    let limit = |code, what: &str, hint: &str| Err(Failure::new(Exit::TurnLimit, code, what).hint(hint));
    match end {
        End::RoundLimit => limit(
            "ROUND_LIMIT",
            "the model was not done after as many answers as it may give",
            "allow more with --max-rounds, or go on with `toolrack ask --session last \"go on\"`",
        ),
        End::TokenLimit | End::CostLimit => {
            limit("BUDGET", "the turn used up what it may", "go on with `toolrack ask --session last \"go on\"`")
        }
        End::Repeating => limit(
            "REPEATING",
            "the model made the same call again and again",
            "ask in another way, or take another model with --model",
        ),
        End::Refused => Err(Failure::new(Exit::Model, "REFUSED", "the model refused to answer")),
        _ => match unasked {
            [] => Ok(Exit::Ok),
            [first, ..] => Err(Failure::new(
                Exit::Denied,
                "APPROVAL_NEEDED",
                format!(
                    "{} needed somebody to ask, and nobody is there: {}",
                    count(unasked.len(), "call"),
                    unasked.join(", ")
                ),
            )
            .hint(format!("allow it with --allow '{first}'"))),
        },
    }
}
