//! Runs `toolrack serve` and `toolrack up`: starts the daemon, and makes its worlds. A world is a host with its rules,
//! questions and events, for the machine, one agent, one tenant or one member. `Context` is what a command works with:
//! its configuration, database, screen and servers.

pub(crate) mod args;
mod audit_export;
mod certificate;
mod descriptors;
mod lender;
mod process_start;
pub(crate) mod record;
mod sessions;
pub(crate) mod team;
mod token_file;

use std::{borrow::Cow, io, sync::Arc, time::Duration};

use futures::future::BoxFuture;
use serde::Serialize;
use tokio_util::sync::CancellationToken;
use toolrack_auth::{AuthError, SignIn};
use toolrack_config::{Interpolate, Loaded, Request, ServeSettings, Watcher};
use toolrack_daemon::{
    ChosenModel, Daemon, MakeWorld, Models, NoModel, NoSignIn, Options, Parts, Questions, SignInChannels, SignIns,
    StartError, Token, WorldKind, WorldParts, discovery_name, gateway::AnyClient,
};
use toolrack_host::{Destination, Policy, Resolver as _};
use url::Url;

use self::{
    certificate::CertificateFiles,
    record::{DaemonRecord, listen, make_socket_folder},
    sessions::{UserParts, session_world_maker},
    team::ServedTeam,
};
use crate::{
    args::{LimitArgs, ModelArgs, RulesArgs},
    browser::DashboardBrowser,
    context::{Context, HostOptions, OnFailure},
    credentials::MachineCredentials,
    error::{Exit, Failure, with_causes},
    local_socket::{self, Key, LocalSocket, SocketGuard},
    log_keeper::LogKeeper,
    metrics::MetricsSender,
    models::{ModelContext, ModelOptions, SelectedModel},
    rules::LiveRules,
    secrets::SecretStore,
    stop::StopSignals,
    team_file,
    verbs::{
        Verb,
        talk::ask::{rules, warn_of_useless_rules},
    },
};
use args::ServeArgs;
use lender::{CommandSocket, lend};

/// What `serve --json` prints once the daemon listens.
#[derive(Debug, Serialize)]
pub(crate) struct StartedDaemon {
    /// The URL of the dashboard, with the token that opens it.
    url: String,
    address: String,
    /// The address at which other MCP clients find every tool.
    mcp: String,
    token: String,
    pid: u32,
}

impl From<&DaemonRecord> for StartedDaemon {
    fn from(record: &DaemonRecord) -> Self {
        Self {
            url: record.url(),
            address: record.address.clone(),
            mcp: record.mcp_url(),
            token: record.token.clone(),
            pid: record.pid,
        }
    }
}

/// What all worlds of the daemon have in common: options of the command line, and the watcher of configuration files.
#[derive(Clone)]
struct WorldOptions {
    rules: RulesArgs,
    model: ModelArgs,
    answer_timeout: Duration,
    watcher: Watcher,
}

impl WorldOptions {
    fn from_args(args: &ServeArgs) -> Self {
        let (rules, model) = (args.rules.clone(), args.model.clone());
        Self { rules, model, answer_timeout: args.answer_timeout, watcher: Watcher::new() }
    }
}

pub(crate) async fn run(args: ServeArgs, context: &Context) -> Result<Exit, Failure> {
    let mut stop = StopSignals::new()?;
    if args.detached {
        // Leaves the session of the terminal. Fails only if the process leads a group: it is detached already in that
        // case.
        let _ = nix::unistd::setsid();
    }
    let token = match &args.token_file {
        Some(file) => token_file::read_or_make(file, args.new_token)?,
        None => token_file::new_token()?,
    };
    let loaded = context.load().await?;
    let mut options =
        descriptors::limit_connections(daemon_options(&args, &loaded.settings.serve, token), &context.screen);
    let certificate = CertificateFiles::from_args(&args);
    options.tls = certificate.as_ref().map(CertificateFiles::read).transpose()?;
    // The rule for the daemon's own server is added once its name is known: `before_applying` in `start_world`.
    let own_servers = [];
    warn_of_useless_rules(&args.rules, &loaded, &own_servers, &context.screen);
    let world_options = WorldOptions::from_args(&args);
    let gate = Arc::new(LiveRules::new(rules(&args.rules, &loaded, &own_servers)));
    let (team, exporter) = match &args.team {
        Some(file) => {
            let ServedTeam { team, replica, exporter } = team::prepare(file, &args, &world_options, context).await?;
            options.replica = replica;
            (Some(team), exporter)
        }
        None => (None, None),
    };
    let parts = start_world(&world_options, context, gate)?;
    let make_session_world = session_world_maker(UserParts::of_machine(&world_options, context, &parts));
    let make_agent_world = agent_world_maker(&world_options, context, WorldKind::Machine);
    let mut daemon = match Daemon::start(parts, make_agent_world, Some(make_session_world), team, options.clone()).await
    {
        Ok(daemon) => daemon,
        Err(StartError::InUse(address)) => return handle_address_in_use(&address.to_string(), &args, context).await,
        Err(error) => return Err(start_failure(&error)),
    };
    if let Some(file) = &args.token_file {
        token_file::store(file, &options.token)?;
    }
    let address = daemon.address().to_string();
    let (base, token) = (daemon.base_url().to_owned(), options.token.reveal().to_owned());
    let record = DaemonRecord::of_this_process(address, base, token, args.time_for_calls());
    let data = context.places.data().to_owned();
    let command_socket = publish(&mut daemon, &record, args.detached, context)?;
    // In the background, output goes to the log of the daemon, which must not contain the token.
    if !args.detached {
        show_address(&record, args.no_open, context).await?;
    }
    if !args.with_parent && !args.detached {
        context.screen.note("Ctrl-C ends the daemon");
    }
    let (metrics, why_unsent) = MetricsSender::begin(&context.environment, &daemon.metrics());
    if let Some(why) = why_unsent {
        context.screen.warning(&why);
    }
    let current_world = daemon.current();
    let commands = async {
        if let Some(command_socket) = command_socket
            && let Err(error) = lend(command_socket, context, &current_world, args.grace, Verb::run_lent).await
        {
            tracing::warn!("other commands will not find the daemon: {error}");
        }
    };
    let renewals = async {
        if let Some((files, tls)) = certificate.zip(options.tls) {
            files.follow_until(tls, &world_options.watcher, current_world.ending()).await;
        }
    };
    let exports = async {
        if let Some(exporter) = exporter {
            exporter.run_until(current_world.ending()).await;
        }
    };
    let background_work = async { tokio::join!(commands, renewals, exports) };
    let exit = Box::pin(serve(daemon, background_work, &mut stop, args.with_parent)).await;
    metrics.close().await;
    record.remove(&data);
    Ok(exit)
}

/// Checks the configuration and the files that the options name: a daemon reads them before it listens.
///
/// # Errors
/// When such a daemon could not start.
pub(crate) async fn check_startable(args: &ServeArgs, context: &Context) -> Result<(), Failure> {
    context.load().await?;
    if let Some(file) = &args.token_file {
        token_file::read_or_make(file, args.new_token).map(drop)?;
    }
    if let Some(files) = CertificateFiles::from_args(args) {
        files.read().map(drop)?;
    }
    if let Some(file) = &args.team {
        team_file::read(file).map(drop)?;
    }
    Ok(())
}

/// Returns the options from the command line and from `[serve]`. All other options have the daemon's defaults.
fn daemon_options(args: &ServeArgs, settings: &ServeSettings, token: Token) -> Options {
    let unused_port = 0; // `listen` below replaces the address.
    let defaults = Options::local(unused_port, token);
    Options {
        listen: args.listen,
        hosts: args.allow_host.clone(),
        remote: args.allow_remote,
        grace: args.grace,
        drain: args.drain.unwrap_or(defaults.drain),
        agent_idle: args.agent_idle,
        session_worlds: settings.session_worlds.unwrap_or(defaults.session_worlds),
        connections: settings.connections.unwrap_or(defaults.connections),
        member_connections: settings.member_connections.or(defaults.member_connections),
        unauthenticated: settings.unauthenticated_connections.unwrap_or(defaults.unauthenticated),
        head_timeout: settings.head_timeout.unwrap_or(defaults.head_timeout),
        idle_timeout: settings.idle_timeout.unwrap_or(defaults.idle_timeout),
        ..defaults
    }
}

/// Lets other commands find the daemon, unless they find another daemon already. Returns the socket on which the daemon
/// accepts commands; warns and returns `None` if other commands will not find it.
///
/// # Errors
/// When other commands will not find a daemon in the background: `daemon start` would wait for it, and no command could
/// end it.
fn publish(
    daemon: &mut Daemon,
    record: &DaemonRecord,
    is_detached: bool,
    context: &Context,
) -> Result<Option<CommandSocket>, Failure> {
    if let Some(other_daemon) = DaemonRecord::read(context.places.data()).filter(DaemonRecord::is_alive) {
        let message =
            format!("another daemon is up at {}: it is the one that other commands find", other_daemon.address);
        if is_detached {
            return Err(Failure::new(Exit::Other, "ALREADY_UP", message).hint("`toolrack daemon restart` replaces it"));
        }
        context.screen.warning(&message);
        return Ok(None);
    }
    match open_sockets(daemon, record, context) {
        Ok(command_socket) => Ok(Some(command_socket)),
        Err(error) if is_detached => {
            let folder = local_socket::folder(context.places.data());
            let message = format!("the sockets in {} cannot be opened: {}", folder.display(), with_causes(&error));
            let hint = "set TOOLRACK_HOME to another folder, with a short path";
            Err(Failure::new(Exit::Other, "NO_SOCKETS", message).hint(hint))
        }
        Err(error) => {
            context.screen.warning(&format!("other commands will not find the daemon: {}", with_causes(&error)));
            Ok(None)
        }
    }
}

/// Opens the local sockets, and writes the record in which other commands look for the daemon.
fn open_sockets(daemon: &mut Daemon, record: &DaemonRecord, context: &Context) -> io::Result<CommandSocket> {
    let data = context.places.data();
    make_socket_folder(data)?;
    // The witness records in the audit log which processes the guard refuses.
    let guard = Arc::new(SocketGuard::new(Key::create(data)?, context.witness()));
    let clients_guard = Arc::clone(&guard);
    let admit = move |stream| -> BoxFuture<'static, _> {
        let guard = Arc::clone(&clients_guard);
        Box::pin(async move { guard.admit(LocalSocket::Clients, stream).await })
    };
    daemon.serve_local_socket(listen(LocalSocket::Clients, data)?, Arc::new(admit))?;
    let socket = listen(LocalSocket::Commands, data)?;
    record.write(data)?;
    Ok(CommandSocket { socket, guard })
}

/// Runs the daemon together with `background_work`, until both have ended or a second signal comes. Returns the exit
/// code of the signal that ended the daemon.
async fn serve<B>(
    daemon: Daemon,
    background_work: impl Future<Output = B>,
    stop: &mut StopSignals,
    with_parent: bool,
) -> Exit {
    let end = CancellationToken::new();
    let daemon_and_work = async { tokio::join!(daemon.run(end.clone().cancelled_owned()), background_work) };
    tokio::pin!(daemon_and_work);
    let exit = tokio::select! {
        _ = &mut daemon_and_work => return Exit::Ok,
        exit = stop.requested() => exit,
        () = parent_ended(), if with_parent => Exit::Ok,
    };
    end.cancel();
    tokio::select! {
        _ = daemon_and_work => exit,
        second_signal_exit = stop.requested() => second_signal_exit,
    }
}

/// Returns when the other end of stdin is closed, because the parent has ended.
async fn parent_ended() {
    let mut sink = tokio::io::sink();
    // A stdin that cannot be read counts as closed.
    let _ = tokio::io::copy(&mut tokio::io::stdin(), &mut sink).await;
}

/// Starts the host of `context`, which is the world of the machine or of a tenant. Returns the parts that the daemon
/// runs.
///
/// # Errors
/// When the host has been started already.
fn start_world(world_options: &WorldOptions, context: &Context, gate: Arc<LiveRules>) -> Result<Parts, Failure> {
    let questions = Questions::new(world_options.answer_timeout);
    let (live_rules, typed_rules) = (Arc::clone(&gate), world_options.rules.clone());
    let asker = Arc::new(AnyClient::with_fallback(Arc::new(questions.clone())));
    let running_host = context.start(HostOptions { gate, asker, on_failure: OnFailure::Reconnect })?;
    let (add_log_sources, set_audit, egress) =
        (running_host.log_source_adder(), context.audit_settings_applier(), context.egress().clone());
    let quotas = context.quotas().clone();
    let (host, host_for_naming) = (running_host.host().clone(), running_host.host().clone());
    Ok(Parts {
        host,
        request: context.request(),
        watcher: world_options.watcher.clone(),
        environment: context.environment.clone(),
        store: context.store().ok().cloned(),
        secrets: context.secrets(),
        vault: Arc::<SecretStore>::clone(context.secret_store()),
        questions,
        quotas: context.quotas().clone(),
        models: model_chooser(world_options.model.clone(), context.model_context()),
        sign_ins: sign_in_starter(context.sign_in().clone(), context.secrets()),
        kind: WorldKind::Machine,
        credentials: MachineCredentials::finder(Arc::clone(context.secret_store())),
        own_servers: None,
        before_applying: Box::new(move |loaded: &Loaded| {
            live_rules.replace(rules(&typed_rules, loaded, &[&discovery_name(&loaded.desired)]));
            add_log_sources(&loaded.desired);
            set_audit(loaded.settings.audit);
            host_for_naming.set_naming(loaded.settings.tools.naming.clone());
            egress.set(loaded.settings.egress.clone());
            quotas.set_profiles(&loaded.settings.profiles);
        }),
    })
}

/// Returns the function that makes the world of an agent, from a new host for the agent alone and from parts of
/// `context`. `kind` says whose shared servers an agent also has: those of the machine or of a tenant.
fn agent_world_maker(world_options: &WorldOptions, context: &Context, kind: WorldKind) -> MakeWorld {
    let (host_parts, model_context, set_audit) =
        (context.host_parts(), context.model_context(), Arc::new(context.audit_settings_applier()));
    let (request, environment, sign_in) = (context.request(), context.environment.clone(), context.sign_in().clone());
    let (store, secrets, world_options) = (context.store().ok().cloned(), context.secrets(), world_options.clone());
    let (vault, quotas) = (Arc::clone(context.secret_store()), context.quotas().clone());
    Box::new(move |id, _member| {
        let questions = Questions::new(world_options.answer_timeout);
        // Replaced by the rules of the agent's files before any of its servers runs.
        let gate = Arc::new(LiveRules::new(Policy::default()));
        let asker = Arc::new(AnyClient::with_fallback(Arc::new(questions.clone())));
        let host = host_parts.create_host(Arc::<LiveRules>::clone(&gate), asker, Some(&id));
        let log_keeper = host_parts.start_log_keeper(&host);
        let (log_sources, set_audit, typed_rules) =
            (log_keeper.as_ref().map(LogKeeper::sources), Arc::clone(&set_audit), world_options.rules.clone());
        let host_for_naming = host.clone();
        let parts = Parts {
            host,
            request: Request { agent: Some(id), ..request.clone() },
            watcher: world_options.watcher.clone(),
            environment: environment.clone(),
            store: store.clone(),
            secrets: Arc::clone(&secrets),
            vault: Arc::<SecretStore>::clone(&vault),
            questions,
            quotas: quotas.clone(),
            models: model_chooser(world_options.model.clone(), model_context.clone()),
            sign_ins: sign_in_starter(sign_in.clone(), Arc::clone(&secrets)),
            kind: kind.clone(),
            // No user gives values to the servers of an agent.
            credentials: Box::new(|_| None),
            own_servers: None,
            before_applying: Box::new(move |loaded: &Loaded| {
                gate.replace(rules(&typed_rules, loaded, &[&discovery_name(&loaded.desired)]));
                if let Some(log_sources) = &log_sources {
                    log_sources.add(&loaded.desired);
                }
                set_audit(loaded.settings.audit);
                host_for_naming.set_naming(loaded.settings.tools.naming.clone());
            }),
        };
        let after_end = async move {
            if let Some(log_keeper) = log_keeper {
                log_keeper.close().await;
            }
        };
        let world_parts = WorldParts {
            parts,
            make_agent_world: None,
            make_member_world: None,
            make_session_world: None,
            after_end: Box::pin(after_end),
        };
        Box::pin(async move { Ok(world_parts) })
    })
}

/// Returns the function that signs in to a server as `toolrack login` does, but in the browser with the dashboard.
fn sign_in_starter(sign_in: SignIn, secrets: Arc<Interpolate>) -> SignIns {
    Box::new(move |server, http, channels: SignInChannels| {
        let (sign_in, secrets) = (sign_in.clone(), Arc::clone(&secrets));
        Box::pin(async move {
            let to_no_sign_in = |error: &AuthError| NoSignIn {
                code: error.code(),
                message: secrets.conceal(&format!("cannot sign in to `{server}`: {error}")).into_owned(),
                hint: error.hint().map(Cow::into_owned),
            };
            let bad_url = |why: String| to_no_sign_in(&AuthError::Config { why });
            let url = secrets.url(&server, &http).await.map_err(|error| bad_url(error.to_string()))?;
            let url = Url::parse(url.trim()).map_err(|_| bad_url("its `url` is not a URL".to_owned()))?;
            let browser = DashboardBrowser::bind(channels).await.map_err(|error| to_no_sign_in(&error.into()))?;
            let destination = Destination { server: &server, url: &url, posts_to: None, spec: &http };
            let scopes = []; // The entry or the server names the scopes.
            sign_in.login(destination, &scopes, &browser).await.map(drop).map_err(|error| to_no_sign_in(&error))
        })
    })
}

/// Returns the function that finds a model as `toolrack ask` does.
fn model_chooser(args: ModelArgs, model_context: ModelContext) -> Models {
    Box::new(move |name, loaded| {
        let (model, model_context) = (args.clone(), model_context.clone());
        let started_with =
            ModelOptions { model, limits: LimitArgs::default(), configured: loaded.settings.model.clone() };
        let model_options = match name {
            Some(name) => started_with.with_model(name),
            None => started_with,
        };
        Box::pin(async move {
            let result = model_options.choose(&model_context).await;
            let to_no_model =
                |failure: Failure| NoModel { code: failure.code, message: failure.message, hint: failure.hint };
            result.map_err(to_no_model).map(|SelectedModel { model, max_tokens, limits, has_price }| ChosenModel {
                model,
                max_tokens: max_tokens.map(Into::into),
                limits,
                has_price,
            })
        })
    })
}

/// Prints the address of the dashboard, and opens it in a browser unless `no_open`.
async fn show_address(record: &DaemonRecord, no_open: bool, context: &Context) -> Result<(), Failure> {
    print_address(record, context).await?;
    if !no_open && context.screen.is_interactive() && !context.screen.prints_json() {
        // If there is no browser, the user still sees the address on the screen.
        let _ = open::that_detached(record.url());
    }
    Ok(())
}

/// Prints the address of the dashboard and the address for MCP clients.
pub(crate) async fn print_address(record: &DaemonRecord, context: &Context) -> Result<(), Failure> {
    let started_daemon = StartedDaemon::from(record);
    if context.screen.prints_json() {
        return context.screen.document(&started_daemon).await;
    }
    context.screen.verbatim(started_daemon.url).await?;
    context
        .screen
        .note(&format!("MCP clients: {} with `Authorization: Bearer {}`", started_daemon.mcp, started_daemon.token));
    Ok(())
}

/// Ends the command when its address is in use. The command succeeds if a daemon of the same user listens there,
/// because that daemon is as good as a new one.
async fn handle_address_in_use(address: &str, args: &ServeArgs, context: &Context) -> Result<Exit, Failure> {
    match DaemonRecord::read(context.places.data()) {
        Some(record) if record.address == address && record.is_alive() => {
            context.screen.note(&format!("a daemon is up already (process {})", record.pid));
            show_address(&record, args.no_open, context).await?;
            Ok(Exit::Ok)
        }
        _ => Err(start_failure(&StartError::InUse(args.listen))),
    }
}

fn start_failure(error: &StartError) -> Failure {
    let (exit, code, hint) = match error {
        StartError::Remote(_) => (Exit::Usage, "REMOTE", "listen on 127.0.0.1, or say --allow-remote"),
        StartError::InUse(_) => (Exit::Other, "ADDRESS_IN_USE", "choose another port with --listen 127.0.0.1:0"),
        _ => (Exit::Other, "NOT_LISTENING", "choose another address with --listen"),
    };
    Failure::new(exit, code, with_causes(error)).hint(hint)
}
