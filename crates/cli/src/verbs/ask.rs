//! `toolrack ask`

use std::{io::IsTerminal, sync::Arc};

use toolrack_agent::{Agent, AgentError, End, Limits, Message, Model, Role, Turn};
use toolrack_config::{Loaded, Scope};
use toolrack_host::{
    Budget, Desired, Host, Native, Offer, Otherwise, Pattern, Rules, Selection, ServerName, ServerSpec, ServerStatus,
    State,
};

use super::{input, sessions};
use crate::{
    args::{AskArgs, PolicyArgs},
    error::{Exit, Failure, with_causes},
    journal::{Journal, Opened},
    kept::Kept,
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
    let mut turn = turn(opened, prompt, limits(&args))?;

    let loaded = world.load().await?;
    world.forget_old_sessions(&loaded, journal.id()).await;
    let tools = Tools::connect(&args.policy, &loaded, world).await?;
    let host = tools.host.clone();
    let (selection, words) = tools.offered_to(&*model);
    world.screen.detail(&format!("{}; {words}", model.name()));
    let mut agent = Agent::new(model, host.clone());
    agent.selection = Arc::new(selection);
    agent.conceal = Some(Arc::new(world.concealer()));
    agent.system = args.system.clone();
    agent.max_tokens = args.model.max_tokens.map(Into::into);

    let shown = match (world.screen.json(), args.stream_json) {
        (_, true) => Shown::AsRecords,
        (true, _) => Shown::AsDocument,
        _ => Shown::ToPeople,
    };
    let mut live = Live::new(Arc::clone(&world.screen), host.catalog(), journal, shown);
    let ended = agent.run(&mut turn, &mut live).await;
    let report = live.finish(&turn, &agent).await?;
    match ended {
        Ok(end) => exit_of(&end, &report.unasked),
        Err(AgentError::Model { error, .. }) => {
            let failure = Failure::new(Exit::Model, error.code(), with_causes(&*error));
            Err(match report.session {
                Some(session) => failure.hint(format!("`toolrack ask --session {session}` goes on from here")),
                None => failure,
            })
        }
        Err(error) => Err(Failure::new(Exit::Other, "NOT_KEPT", error.to_string())),
    }
}

fn limits(args: &AskArgs) -> Limits {
    let mut limits = Limits::default();
    limits.rounds = args.max_rounds.get();
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

/// The connected servers, and what of their tools may be used.
struct Tools {
    host: Host,
    selection: Selection,
    /// The server through which a model finds tools that it is not shown.
    discovery: ServerName,
    /// The server through which it reads what was too long for it.
    kept: ServerName,
}

impl Tools {
    /// Connects to the servers whose tools may be used. One that fails is told of, and nothing more.
    async fn connect(policy: &PolicyArgs, loaded: &Loaded, world: &World) -> Result<Self, Failure> {
        let mut desired = super::only(loaded, &policy.server)?;
        let (discovery, kept) = (name_beside(&desired, "toolrack")?, name_beside(&desired, "artifacts")?);
        let selection = match &*policy.tool {
            [] => Selection::all(),
            only => Selection::all().only(only.iter().cloned().chain(every_tool_of(&kept))),
        };
        world.guard(Arc::new(rules(policy, loaded, &[&discovery, &kept])));
        // It is there from the beginning, so that it can be used as soon as it is known how many tools there are.
        desired.insert(discovery.clone(), world.host().discovery(&discovery, selection.clone()));
        let artifacts = world.artifacts();
        let server = Native::rmcp("artifacts", move || Kept::new(artifacts.clone()));
        desired.insert(kept.clone(), ServerSpec::native(server));
        let host = world.connect(desired).await?;
        for failure in super::complaints(&host, &policy.server).await {
            world.screen.warning(&failure.message);
        }
        Ok(Self { host, selection, discovery, kept })
    }

    /// What `model` is shown: every tool, as long as they leave room for the conversation; and both in words.
    fn offered_to(self, model: &dyn Model) -> (Selection, String) {
        let every = self.selection.without_servers([self.discovery.clone()]);
        let catalog = self.host.catalog();
        let (tools, tokens) = catalog
            .tools()
            .filter(|tool| every.has(tool))
            .fold((0_usize, 0_usize), |(tools, tokens), tool| (tools + 1, tokens.saturating_add(tool.tokens)));
        let context_tokens = model.context_tokens().and_then(|tokens| usize::try_from(tokens).ok());
        let budget = Budget { context_tokens, max_tools: model.wire().max_tools(), ..Budget::default() };
        let is_connected = |server: &&ServerStatus| matches!(server.state, State::Connected { .. });
        let servers = self.host.status().iter().filter(is_connected).count().saturating_sub(2);
        let words = format!("{}, {}", count(servers, "server"), count(tools.saturating_sub(1), "tool"));
        match budget.offer(tools, tokens) {
            Offer::All => (every, words),
            Offer::Discovery => {
                (Selection::all().of_servers([self.discovery, self.kept]), format!("{words}, found by searching"))
            }
        }
    }
}

/// A name that no other server has.
fn name_beside(desired: &Desired, name: &str) -> Result<ServerName, Failure> {
    let names = std::iter::once(name.to_owned()).chain((2..).map(|number| format!("{name}-{number}")));
    let mut free = names.filter_map(|name| ServerName::new(name).ok()).filter(|name| !desired.contains_key(name));
    free.next().ok_or_else(|| Failure::new(Exit::Other, "INTERNAL", "every name is taken"))
}

/// A pattern for all tools of a server.
fn every_tool_of(server: &ServerName) -> Option<Pattern> {
    format!("{server}/*").parse().ok()
}

/// What may run unasked: what was allowed by name, and what the program itself carries, which only reads.
fn rules(policy: &PolicyArgs, loaded: &Loaded, ours: &[&ServerName]) -> Rules {
    let own = loaded.entries.iter().filter(|entry| entry.scope == Scope::BuiltIn);
    let own = own.filter_map(|entry| ServerName::new(&*entry.name).ok());
    let own = own.chain(ours.iter().map(|name| (*name).clone())).filter_map(|name| every_tool_of(&name));
    Rules {
        allow: policy.allow.iter().cloned().chain(own).collect(),
        deny: policy.deny.clone(),
        allow_read_only: policy.yes_read_only,
        otherwise: Otherwise::Confirm,
        ..Rules::default()
    }
}

fn exit_of(end: &End, unasked: &[String]) -> Result<Exit, Failure> {
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
