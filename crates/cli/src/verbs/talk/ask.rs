//! Runs `toolrack ask`, and decides which tools `ask` and `chat` offer to a model.
//!
//! A turn is one message of the user, and all that the model does until it has answered. `Context` is what a command
//! works with: its configuration, database, screen and servers. A `Journal` writes a conversation into the database.
//! Besides the user's servers, a model gets servers of this program. One finds tools, one reads long results (the
//! artifacts), and with `--code` one runs scripts.

pub(crate) mod code;

use std::{fmt, io::IsTerminal, sync::Arc};

use clap::Args;
use toolrack_agent::{Agent, AgentError, Conceal, End, Limits, Message, Model, Turn};
use toolrack_config::{Loaded, Refresh, Role, Scope};
use toolrack_host::{
    Budget, CatalogTool, Desired, Host, Offer, Pattern, Policy, Selection, ServerName, ServerSpec, ServerStatus, State,
};
use toolrack_store::journal::{Journal, OpenedSession};

use super::sessions;
use crate::{
    args::{OneOffArgs, PolicyArgs, RulesArgs, TalkArgs},
    artifacts::ArtifactServer,
    context::{Context, HostOptions, OnFailure},
    error::{Exit, Failure, with_causes},
    live::{LiveTurn, TurnFormat},
    mention::MentionSources,
    models::{ModelOptions, SelectedModel},
    native::native_server,
    render::count,
    rules::LiveRules,
    screen::Screen,
    verbs::{input, reach},
};

/// `ask`.
#[derive(Debug, Args)]
#[command(
    after_help = "Without --model, the model in `[model]` of toolrack.toml answers. If there is none, the first \
variable that is set of ANTHROPIC_API_KEY, OPENAI_API_KEY, DEEPSEEK_API_KEY, … decides which provider answers.

Examples:
  toolrack ask \"List the files here and tell me which is largest\"
  toolrack ask --model ollama/qwen3:8b --allow 'fs/*' \"What changed here today?\"
  git diff | toolrack ask \"Write a commit message\"
  toolrack ask \"What has changed since @docs:file:///notes.md?\"
  toolrack ask --session last \"And in German?\"
  toolrack ask \"What can you do?\" -- npx -y my-server"
)]
pub(crate) struct AskArgs {
    /// The question; input from a pipe or file on stdin is added
    #[arg(value_name = "WORDS")]
    pub(crate) prompt: Vec<String>,

    /// Continue this conversation: its id, the beginning of its id, or `last`
    #[arg(short, long, value_name = "SESSION", visible_alias = "resume", visible_short_alias = 'r')]
    pub(crate) session: Option<String>,

    /// Do not store this conversation
    #[arg(long, conflicts_with = "session")]
    pub(crate) no_save: bool,

    /// The system prompt for the model
    #[arg(long, value_name = "TEXT")]
    pub(crate) system: Option<String>,

    /// Print events as they happen, one JSON document on each line
    #[arg(long, conflicts_with = "json")]
    pub(crate) stream_json: bool,

    #[command(flatten)]
    pub(crate) talk: TalkArgs,

    #[command(flatten)]
    pub(crate) one_off: OneOffArgs,
}

pub(crate) async fn run(args: Box<AskArgs>, context: &Context) -> Result<Exit, Failure> {
    let prompt = read_prompt(&args.prompt, &context.screen).await?;
    let loaded = context.load().await?;
    let model_options = ModelOptions::from_arguments(&args.talk, &loaded);
    let selected_model = model_options.choose(&context.model_context()).await?;
    context.sample_with(&selected_model);
    let store = || context.store().ok().filter(|_| !args.no_save).cloned();
    let (journal, opened_session) = match &args.session {
        Some(typed_id) => sessions::resume(typed_id, selected_model.model.name(), context).await?,
        None => (Journal::new(store(), selected_model.model.name(), context.conceal()), OpenedSession::default()),
    };
    if prompt.is_none() && opened_session.interrupted_turn.is_none() {
        return Err(Failure::usage("there is no question").hint("toolrack ask \"…\""));
    }
    context.forget_old_sessions(&loaded, journal.id()).await;
    let tools = Tools::start(&args.talk, &loaded, OnFailure::Report, context).await?;
    let message = match prompt {
        Some(prompt) => Some(tools.compose(&prompt.typed_text, prompt.piped_text.as_deref(), &context.screen).await?),
        None => None,
    };
    let mut turn = new_or_resumed_turn(opened_session, message, selected_model.limits);
    let (agent, description) = tools.agent(&selected_model, args.system.clone());
    context.screen.detail(&description);

    let format = match (context.screen.prints_json(), args.stream_json) {
        (_, true) => TurnFormat::JsonRecords,
        (true, _) => TurnFormat::JsonDocument,
        _ => TurnFormat::Text,
    };
    let mut live_turn = LiveTurn::new(Arc::clone(&context.screen), agent.host.catalog(), journal, format);
    let turn_result = agent.run(&mut turn, &mut live_turn).await;
    let report = live_turn.finish(&turn, &agent).await?;
    match turn_result {
        Ok(end) => turn_exit(&end, &report.unapproved_tools),
        Err(error) => {
            let failure = turn_failure(&error);
            Err(match (&error, report.journal.session()) {
                (AgentError::Model { .. }, Some(session)) => {
                    failure.hint(format!("`toolrack ask --session {}` continues this conversation", session.prefix))
                }
                _ => failure,
            })
        }
    }
}

/// The question to the model.
struct Prompt {
    /// The words that the user typed, which may name resources.
    typed_text: String,
    /// The content of stdin, which may come from any source.
    piped_text: Option<String>,
}

/// Reads the typed words and the content of stdin; `None` when both are empty.
async fn read_prompt(words: &[String], screen: &Screen) -> Result<Option<Prompt>, Failure> {
    let typed_text = words.join(" ").trim().to_owned();
    let piped_text = match std::io::stdin().is_terminal() {
        true => String::new(),
        false => input::read("the prompt", "-".to_owned(), screen).await?,
    };
    let piped_text = Some(piped_text.trim_end().to_owned()).filter(|piped_text| !piped_text.is_empty());
    Ok((!typed_text.is_empty() || piped_text.is_some()).then_some(Prompt { typed_text, piped_text }))
}

/// Returns a new turn that answers `message`. Without a message, returns the interrupted turn, which then continues.
fn new_or_resumed_turn(opened_session: OpenedSession, message: Option<Message>, limits: Limits) -> Turn {
    let OpenedSession { messages, interrupted_turn } = opened_session;
    let resumed_turn = interrupted_turn.map(|state| Turn::resume(messages.clone(), state, limits));
    match (message, resumed_turn) {
        (None, Some(turn)) => turn,
        // A new message ends the interrupted turn.
        (message, resumed_turn) => {
            let mut messages = resumed_turn.map_or(messages, Turn::into_messages);
            messages.extend(message);
            Turn::new(messages, limits)
        }
    }
}

/// The connected servers, and which of their tools may be used.
#[derive(Clone)]
pub(crate) struct Tools {
    host: Host,
    selection: Selection,
    /// The server with which a model finds tools that are not in its list.
    discovery_server: ServerName,
    rules: Arc<LiveRules>,
    /// The server with which the model reads results that were too long for it.
    artifacts_server: ServerName,
    /// The server with which the model calls tools in scripts, if the user wants that.
    code_server: Option<ServerName>,
    /// Hides from models the secrets that servers may repeat.
    conceal: Conceal,
    /// Whether the model gets tools at all.
    role: Role,
    /// Whether the model is told within a turn that tools have changed, and not only at the next turn.
    renews_tools: bool,
}

impl fmt::Debug for Tools {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tools").field("selection", &self.selection).finish_non_exhaustive()
    }
}

impl Tools {
    /// Connects to the servers whose tools the model may use, or to none with `--no-tools`.
    pub(crate) async fn start(
        args: &TalkArgs,
        loaded: &Loaded,
        on_failure: OnFailure,
        context: &Context,
    ) -> Result<Self, Failure> {
        match args.no_tools {
            true => Self::without_tools(context).await,
            false => Self::connect(&args.policy, loaded, on_failure, context).await,
        }
    }

    /// Connects to the servers whose tools may be used. Warns of each server that fails.
    async fn connect(
        policy: &PolicyArgs,
        loaded: &Loaded,
        on_failure: OnFailure,
        context: &Context,
    ) -> Result<Self, Failure> {
        let mut desired = reach::select_servers(loaded, &policy.server)?;
        context.take_out_recorded_own(&mut desired, names_like("toolrack"));
        context.take_out_recorded_own(&mut desired, names_like("artifacts"));
        let (discovery_server, artifacts_server) =
            (unused_name(&desired, "toolrack")?, unused_name(&desired, "artifacts")?);
        let selection = match &*policy.tool {
            [] => Selection::all(),
            patterns => Selection::all().only(patterns.iter().cloned().chain(every_tool_of(&artifacts_server))),
        };
        let settings = &loaded.settings;
        let (role, renews_tools) = (settings.role, settings.tools.refresh == Refresh::Turn);
        let wants_code = role == Role::Worker && (policy.code || settings.model.code == Some(true));
        let interpreter = wants_code.then(code::interpreter).transpose()?;
        if wants_code {
            context.take_out_recorded_own(&mut desired, names_like("code"));
        }
        let code_server = interpreter.is_some().then(|| unused_name(&desired, "code")).transpose()?;
        let own_servers: Vec<_> = [&discovery_server, &artifacts_server].into_iter().chain(&code_server).collect();
        warn_of_useless_rules(&policy.rules, loaded, &own_servers, &context.screen);
        let rules = Arc::new(LiveRules::new(rules(&policy.rules, loaded, &own_servers)));
        let gate = Arc::<LiveRules>::clone(&rules);
        let running_host = context.start(HostOptions { gate, asker: context.terminal(), on_failure })?;
        // Add the discovery server from the beginning: whether the model needs it is known only once all tools are
        // known.
        desired.insert(discovery_server.clone(), running_host.host().discovery(&discovery_server, selection.clone()));
        let artifacts = context.artifacts();
        let server = native_server("artifacts", move || ArtifactServer::new(artifacts.clone()));
        desired.insert(artifacts_server.clone(), ServerSpec::native(server));
        let mut host = running_host.connect(desired.clone()).await;
        if let (Some(name), Some(interpreter)) = (&code_server, interpreter) {
            // Add the server for scripts last, because it describes the tools of all other servers to the model.
            // Scripts can find tools without the discovery server.
            let callable_tools = selection.clone().without_servers([discovery_server.clone()]);
            desired.insert(name.clone(), host.scripts(name, callable_tools, interpreter));
            host = running_host.connect(desired).await;
        }
        for failure in reach::server_failures(&host, &policy.server) {
            context.screen.warning(&failure.message);
        }
        warn_of_unmatched(policy, &host, &context.screen);
        Ok(Self {
            host,
            selection,
            discovery_server,
            artifacts_server,
            rules,
            code_server,
            conceal: context.conceal(),
            role,
            renews_tools,
        })
    }

    /// Returns no tools at all, and starts no server.
    async fn without_tools(context: &Context) -> Result<Self, Failure> {
        let desired = Desired::new();
        let (discovery_server, artifacts_server) =
            (unused_name(&desired, "toolrack")?, unused_name(&desired, "artifacts")?);
        let host = context.connect(desired).await?;
        let (selection, rules) = (Selection::all(), Arc::new(LiveRules::new(Policy::default())));
        Ok(Self {
            host,
            selection,
            discovery_server,
            artifacts_server,
            rules,
            code_server: None,
            conceal: context.conceal(),
            role: Role::Worker,
            renews_tools: false,
        })
    }

    /// Returns the rules that decide which calls run without a question.
    pub(crate) fn rules(&self) -> &LiveRules {
        &self.rules
    }

    /// Returns the user's message: `typed_text`, the resources that `typed_text` names, and `appended`. Shows on
    /// `screen` which resources were read.
    ///
    /// # Errors
    /// When one of the resources cannot be read.
    pub(crate) async fn compose(
        &self,
        typed_text: &str,
        appended: Option<&str>,
        screen: &Screen,
    ) -> Result<Message, Failure> {
        let servers: Vec<_> = self.servers().into_iter().map(|server| server.name).collect();
        let sources = MentionSources { host: &self.host, servers: &servers, conceal: &self.conceal };
        let composed = sources.compose(typed_text, appended).await?;
        for line in &composed.resource_lines {
            screen.safe_note(line);
        }
        Ok(composed.message)
    }

    /// Returns the function that hides secrets from the model.
    pub(crate) fn conceal(&self) -> &Conceal {
        &self.conceal
    }

    /// Returns the user's servers, and their states.
    pub(crate) fn servers(&self) -> Vec<ServerStatus> {
        self.host.status().into_iter().filter(|server| !self.is_own_server(&server.name)).collect()
    }

    /// Returns the user's servers that can be asked for resources and prompts. A request starts an idle server.
    pub(crate) fn servers_to_ask(&self) -> Vec<ServerName> {
        reach::servers_to_ask(&self.host).into_iter().filter(|server| !self.is_own_server(server)).collect()
    }

    /// Returns the host that connects the servers.
    pub(crate) fn host(&self) -> &Host {
        &self.host
    }

    /// Returns whether `server` is one of the program's own servers, which only the model uses.
    pub(crate) fn is_own_server(&self, server: &ServerName) -> bool {
        [&self.discovery_server, &self.artifacts_server].into_iter().chain(&self.code_server).any(|own| own == server)
    }

    /// Returns the tools of the user's servers that may be used.
    pub(crate) fn user_tools(&self) -> Selection {
        self.usable_tools().without_servers([self.artifacts_server.clone()])
    }

    /// Returns all tools that a model may find and use. Those of the discovery server and of the server for scripts are
    /// not among them: the model gets these in other ways.
    fn usable_tools(&self) -> Selection {
        self.selection
            .clone()
            .without_servers([self.discovery_server.clone()].into_iter().chain(self.code_server.clone()))
    }

    /// Returns the agent with these tools, and a description of its tools.
    pub(crate) fn agent(self, selected_model: &SelectedModel, system: Option<String>) -> (Agent, String) {
        let (host, model) = (self.host.clone(), Arc::clone(&selected_model.model));
        let (findable, (selection, tools)) = match self.role {
            Role::Worker => (self.usable_tools(), self.clone().tools_for_model(&*model)),
            Role::Channel => (Selection::none(), (Selection::none(), "no tools: its role is \"channel\"".to_owned())),
        };
        let description = format!("{}; {tools}", model.name());
        let mut agent = Agent::new(model, host);
        agent.selection = Arc::new(selection);
        agent.findable = Some(Arc::new(findable));
        agent.conceal = Some(self.conceal);
        agent.renews_tools = self.renews_tools;
        agent.system = system;
        agent.max_tokens = selected_model.max_tokens.map(Into::into);
        (agent, description)
    }

    /// Returns the tools in the list of `model`, and a description of them for the user. The list has all tools if they
    /// leave enough room for the conversation; otherwise the model has to find them.
    fn tools_for_model(self, model: &dyn Model) -> (Selection, String) {
        let usable_tools = self.usable_tools();
        let catalog = self.host.catalog();
        let tool_count = catalog.tools().filter(|tool| usable_tools.has(tool)).count();
        let context_tokens = model.context_tokens().and_then(|tokens| usize::try_from(tokens).ok());
        // The wire is the API format of the provider, which may limit the number of tools.
        let budget = Budget { context_tokens, max_tools: model.wire().max_tools(), ..Budget::default() };
        let is_connected = |server: &&ServerStatus| matches!(server.state, State::Connected { .. });
        // The program's own servers do not count: those for discovery, for artifacts and for scripts.
        let own_servers = 2 + usize::from(self.code_server.is_some());
        let server_count = self.host.status().iter().filter(is_connected).count().saturating_sub(own_servers);
        // The only tool of the artifacts server does not count either, although it is usable.
        let user_tools = tool_count.saturating_sub(1);
        let description = format!("{}, {}", count(server_count, "server"), count(user_tools, "tool"));
        if let Some(code_server) = self.code_server {
            let visible_tools =
                Selection::all().of_servers([code_server, self.discovery_server, self.artifacts_server]);
            return (visible_tools, format!("{description}, called by scripts"));
        }
        match catalog.offer(&budget, &usable_tools) {
            Offer::All => (usable_tools, description),
            Offer::Discovery => (
                Selection::all().of_servers([self.discovery_server, self.artifacts_server]),
                format!("{description}, found by searching"),
            ),
        }
    }
}

/// Returns `name`, with a number appended if a server in `desired` has that name.
pub(crate) fn unused_name(desired: &Desired, name: &str) -> Result<ServerName, Failure> {
    let mut unused_names = names_like(name).filter(|name| !desired.contains_key(name));
    unused_names.next().ok_or_else(|| Failure::new(Exit::Other, "INTERNAL", "every name is taken"))
}

/// Returns `name`, and then `name` with numbers appended.
fn names_like(name: &str) -> impl Iterator<Item = ServerName> {
    let names = std::iter::once(name.to_owned()).chain((2..).map(move |number| format!("{name}-{number}")));
    names.filter_map(|name| ServerName::new(name).ok())
}

/// Returns a pattern for all tools of a server; `None` if a pattern cannot contain the server's name.
pub(crate) fn every_tool_of(server: &ServerName) -> Option<Pattern> {
    format!("{server}/*").parse().ok()
}

/// Returns the rules of the files and those that the user typed. Also allows all tools of built-in servers and of
/// `own_servers`, because they only read.
pub(crate) fn rules(args: &RulesArgs, loaded: &Loaded, own_servers: &[&ServerName]) -> Policy {
    let built_in_servers = loaded.entries.iter().filter(|entry| entry.scope == Scope::BuiltIn);
    let built_in_servers = built_in_servers.filter_map(|entry| ServerName::new(&*entry.name).ok());
    let allowed_servers = built_in_servers.chain(own_servers.iter().map(|name| (*name).clone()));
    let allowed_patterns = allowed_servers.filter_map(|name| every_tool_of(&name));
    let policy = args.allow.iter().cloned().chain(allowed_patterns).fold(loaded.settings.policy.clone(), Policy::allow);
    let policy = args.deny.iter().cloned().fold(policy, Policy::deny);
    if args.yes_read_only { policy.allow_read_only(true) } else { policy }
}

/// Warns of typed rules that do nothing, because no tool of a configured server or of `own_servers` can match them.
pub(crate) fn warn_of_useless_rules(args: &RulesArgs, loaded: &Loaded, own_servers: &[&ServerName], screen: &Screen) {
    let configured_names = loaded.entries.iter().map(|entry| &*entry.name);
    let servers: Vec<&str> = configured_names.chain(own_servers.iter().map(|name| name.as_str())).collect();
    for (option, patterns) in [("--allow", &args.allow), ("--deny", &args.deny)] {
        for pattern in patterns.iter().filter(|pattern| !servers.iter().any(|server| pattern.may_cover_server(server)))
        {
            screen.warning(&format!(
                "{option} {pattern} names no configured server, and does nothing: write server/tool, with a server \
                 that `toolrack list` shows"
            ));
        }
    }
}

/// Warns of each typed pattern that matches no tool, if every server that it may name is connected. The user has
/// probably misspelt the name of a tool.
fn warn_of_unmatched(args: &PolicyArgs, host: &Host, screen: &Screen) {
    let (status, catalog) = (host.status(), host.catalog());
    let options = [("--tool", &args.tool), ("--allow", &args.rules.allow), ("--deny", &args.rules.deny)];
    let typed_patterns =
        options.iter().flat_map(|(option, patterns)| patterns.iter().map(move |pattern| (option, pattern)));
    for (option, pattern) in typed_patterns {
        let mut servers = status.iter().filter(|server| pattern.may_cover_server(server.name.as_str())).peekable();
        let are_connected =
            servers.peek().is_some() && servers.all(|server| matches!(server.state, State::Connected { .. }));
        // Without a slash, a pattern may name the server and the tool in several ways.
        let readings = pattern.every_reading();
        let is_match = |tool: &CatalogTool| {
            let (server, name) = (tool.server.as_str(), &*tool.tool().name);
            pattern.matches_name(&tool.name)
                || std::iter::once(pattern).chain(&readings).any(|reading| reading.matches(server, name))
        };
        if are_connected && !catalog.tools().chain(catalog.quarantined()).any(is_match) {
            screen.warning(&format!(
                "{option} {pattern} matches no tool of its server, and does nothing: `toolrack tools` shows their names"
            ));
        }
    }
}

/// Returns the failure of a turn that an error has ended.
pub(crate) fn turn_failure(error: &AgentError) -> Failure {
    match error {
        AgentError::Model { error, .. } => Failure::new(Exit::Model, error.code(), with_causes(&**error)),
        error => Failure::new(Exit::Other, "NOT_KEPT", error.to_string()),
    }
}

/// Returns the exit code or the failure for a turn that has ended with `end`. `unapproved_tools` are the tools that
/// needed an approval when no user could be asked.
pub(crate) fn turn_exit(end: &End, unapproved_tools: &[String]) -> Result<Exit, Failure> {
    let limit_failure = |code, message: &str| Failure::new(Exit::TurnLimit, code, message);
    let limit_error = |code, message: &str, option: &str| {
        let hint = format!("allow more with {option}, or go on with `toolrack ask --session last \"go on\"`");
        Err(limit_failure(code, message).hint(hint))
    };
    match end {
        End::RoundLimit => limit_error(
            "ROUND_LIMIT",
            "the model gave all the answers that it may give, and was not done",
            "--max-rounds",
        ),
        End::TokenLimit => limit_error("BUDGET", "the turn used all the tokens that it may use", "--max-total-tokens"),
        End::CostLimit => limit_error("BUDGET", "the turn cost all that it may cost", "--max-cost"),
        End::Repeating => Err(limit_failure("REPEATING", "the model made the same call again and again")
            .hint("ask in another way, or choose another model with --model")),
        End::Refused => Err(Failure::new(Exit::Model, "REFUSED", "the model refused to answer")),
        End::BrokenOff(reason) => {
            Err(Failure::new(Exit::Model, "BROKEN_OFF", format!("the provider broke off the answer: {reason}")))
        }
        // The turn has an answer, or was cancelled.
        _ => match unapproved_tools {
            [] => Ok(Exit::Ok),
            [first, ..] => Err(Failure::new(
                Exit::Denied,
                "APPROVAL_NEEDED",
                format!(
                    "{} needed an approval, and there is no person to ask: {}",
                    count(unapproved_tools.len(), "call"),
                    unapproved_tools.join(", ")
                ),
            )
            .hint(format!("allow it with --allow '{first}'"))),
        },
    }
}
