//! The composition root: puts configuration, store, built-in server, asker and host together.

mod hosts;
mod lent;
mod members;
mod notes;
mod reading;
mod rows;
mod tape;

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use arc_swap::ArcSwap;
use toolrack_auth::SignIn;
use toolrack_config::{Audit, Environment, Interpolate, Loaded, Places, Typed, Unset};
use toolrack_host::{
    AllowAll, Asker as _, Conceal, Desired, Egress, Gate, Host, Naming, OnMessage, Policy, Resolver, ServerName,
    SharedAsker, State, Tracer,
    ask::Root,
    spec::{Transport, Trust},
};
use toolrack_store::{ArtifactBounds, ArtifactFolder, Retention, Store, Uuid};
use toolrack_team::TenantQuotas;
use url::Url;

pub(crate) use self::{hosts::Hosts, lent::Borrower, members::MemberParts, rows::Rows};
use self::{
    lent::{LentWorld, Need},
    tape::Tape,
};
use crate::{
    args::{Global, ONCE, Once},
    asker::{Sampler, Terminal},
    audit::Audited,
    database::{self, Opened, Server},
    editor::Editor,
    error::{Exit, Failure, in_words, with_causes},
    frames,
    log_keeper::LogKeeper,
    models::{Chosen, ModelContext, ModelOptions},
    notebook::Configured,
    screen::Screen,
    secrets::{self, Stored},
    server_output::ServerOutput,
    tokens::Tokens,
};

/// How long to wait for servers before the screen shows which ones, and how often it updates that.
const WAITING_NOTICE_INTERVAL: Duration = Duration::from_millis(500);

/// The variables that send HTTP through a proxy.
const PROXIES: &[&str] = &["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"];

/// Everything that a command works with.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) screen: Arc<Screen>,
    pub(crate) places: Places,
    /// The working folder.
    pub(crate) folder: PathBuf,
    pub(crate) environment: Environment,
    global: Global,
    /// The configurations that the command line gives as text instead of a file.
    typed: Vec<Typed>,
    has_proxy: bool,
    /// The database; `None` when it cannot be opened. Everything works without it, but slower and with less memory.
    store: Option<Store>,
    /// The server of that database, if it is not a file: the daemon of a team opens the stores of its tenants there.
    server: Option<Server>,
    /// Asks the user: one reader of stdin for all questions.
    terminal: Arc<Terminal>,
    /// Decides which calls may run: all of them, unless a command sets a gate before it connects.
    gate: OnceLock<Arc<dyn Gate>>,
    /// Answers the questions of servers and rules: the user at the terminal, unless a command sets another asker before
    /// it connects.
    asker: OnceLock<SharedAsker>,
    /// Whether to reconnect servers that fail.
    keeps_reconnecting: AtomicBool,
    /// Adds calls to OpenTelemetry traces.
    tracer: Option<Arc<dyn Tracer>>,
    /// The values of `${secret:NAME}`.
    stored: Arc<Stored>,
    /// Resolves placeholders, and remembers which values are secrets.
    secrets: Arc<Interpolate>,
    /// The egress rules of the settings.
    egress: Egress,
    /// Counts what each caller uses.
    quotas: TenantQuotas,
    /// Whether members of a tenant share the servers.
    is_shared: bool,
    /// Signs in the requests to servers.
    sign_in: SignIn,
    /// Records calls and connections in the audit log.
    audit: Arc<Audited>,
    /// The settings for the host, from the files that the command has read.
    host_settings: ArcSwap<HostSettings>,
    /// Set when the command connects. [`World::close`] ends it, also after a failure.
    running: OnceLock<Running>,
    /// The text of `--args`, if another process has read it already.
    args_text: Option<ArgsText>,
    /// The request of `record` or `replay`.
    tape: Option<Tape>,
    /// The daemon's servers, if a daemon runs this command for another process.
    lent: Option<Box<LentWorld>>,
}

/// The tasks that run once the command has connected.
#[derive(Debug)]
struct Running {
    host: Host,
    /// Stores the logs of its servers; `None` without a database.
    log: Option<LogKeeper>,
    /// Shows the logs of its servers, if the user asked for that (`-v`).
    server_output: Option<ServerOutput>,
}

/// The part of the configuration that the host is made with, and that the notebook needs at the end.
#[derive(Debug, Default)]
struct HostSettings {
    /// The rules.
    policy: Policy,
    /// How models see tools.
    naming: Naming,
    /// The servers.
    configured: Vec<Configured>,
}

/// The working folder of this process.
///
/// # Errors
/// When there is none, or it cannot be used.
pub(crate) fn working_folder() -> Result<PathBuf, Failure> {
    std::env::current_dir().map_err(|error| {
        let message = format!("the working folder cannot be used: {}", in_words(&error));
        Failure::new(Exit::Other, "NO_WORKING_FOLDER", message)
    })
}

/// The text of `--args`, or why it cannot be read.
pub(crate) type ArgsText = Result<String, Failure>;

impl World {
    /// The world of a command that is run in `folder`.
    ///
    /// # Errors
    /// When the place of the configuration is unknown, a `--root` is not a folder, or the database of a team cannot be
    /// opened.
    pub(crate) async fn open(
        (global, typed): (Global, Vec<Typed>),
        mut environment: Environment,
        folder: PathBuf,
        (screen, rows): (Arc<Screen>, Rows<'_>),
    ) -> Result<Self, Failure> {
        // Removes the variable, so that no server and no placeholder gets it.
        let key = environment.take(secrets::VARIABLE);
        let places = Places::from_env(&environment).map_err(|error| Failure::config(error.to_string()))?;
        let roots = global.root.iter().map(|folder| root(folder)).collect::<Result<_, _>>()?;
        let (store, server) = match rows.open(&places, &environment).await? {
            Ok(Opened { store, server }) => (Some(store), server),
            Err(failure) => {
                screen.warning(&failure.message);
                (None, None)
            }
        };
        let proxies = PROXIES.iter().filter_map(|name| environment.get(name)?.to_str());
        let proxies = proxies.filter(|value| !value.is_empty());
        let has_proxy = proxies.clone().next().is_some();
        let keychain = secrets::Keychain::of(&environment);
        let stored = Arc::new(Stored::new(store.clone(), key, places.data(), keychain));
        let secrets = Interpolate::new(environment.clone(), Unset::Error)
            .with_secrets(Arc::<Stored>::clone(&stored))
            .with_homes(places.data().join("sandbox"))
            .with_own_folders(places.own_folders());
        let secrets = Arc::new(secrets);
        screen.conceal(Arc::clone(&secrets));
        let egress = Egress::default().with_proxies_of_environment(proxies);
        let audit = Arc::new(Audited::new(store.clone(), Arc::clone(&secrets), global.agent.clone()));
        let sign_in = sign_in((&stored, &secrets), &egress, &audit, global.once.clone(), None);
        let terminal =
            Arc::new(Terminal::new(Arc::clone(&screen), roots, Editor::of(&environment)).answering(&global)?);
        Ok(Self {
            screen,
            terminal,
            places,
            folder,
            environment,
            global,
            typed,
            has_proxy,
            store,
            server,
            stored,
            secrets,
            egress,
            quotas: TenantQuotas::of_machine(),
            is_shared: false,
            sign_in,
            gate: OnceLock::new(),
            asker: OnceLock::new(),
            keeps_reconnecting: AtomicBool::new(false),
            tracer: None,
            audit,
            host_settings: ArcSwap::default(),
            running: OnceLock::new(),
            args_text: None,
            tape: None,
            lent: None,
        })
    }

    /// This world with a tracer.
    pub(crate) fn traced(mut self, tracer: Option<Arc<dyn Tracer>>) -> Self {
        self.tracer = tracer;
        self
    }

    /// This world with the text of `--args` that another process has read, because stdin can be read only once.
    pub(crate) fn with_args_text(mut self, args_text: Option<ArgsText>) -> Self {
        self.args_text = args_text;
        self
    }

    /// The text of `--args`, if another process has read it already.
    pub(crate) fn args_text(&self) -> Option<ArgsText> {
        self.args_text.clone()
    }

    /// Resolves placeholders.
    pub(crate) fn resolver(&self) -> &dyn Resolver {
        &*self.secrets
    }

    /// The stored secrets.
    pub(crate) fn stored(&self) -> &Arc<Stored> {
        &self.stored
    }

    /// Everything that is needed to find a model.
    pub(crate) fn model_context(&self) -> ModelContext {
        ModelContext {
            environment: self.environment.clone(),
            secrets: Arc::clone(&self.secrets),
            file: self.places.settings(),
        }
    }

    /// Signs in and out.
    pub(crate) fn sign_in(&self) -> &SignIn {
        &self.sign_in
    }

    /// The egress rules.
    pub(crate) fn egress(&self) -> &Egress {
        &self.egress
    }

    /// Whether the command must not ask or read anything from the terminal.
    pub(crate) fn has_no_input(&self) -> bool {
        self.global.no_input
    }

    /// The server that the command line gives for this one command.
    pub(crate) fn once(&self) -> Option<&Once> {
        self.global.once.as_ref()
    }

    /// The agent that `--agent` names.
    pub(crate) fn agent(&self) -> Option<&str> {
        self.global.agent.as_deref()
    }

    /// Whether HTTP goes through a proxy.
    pub(crate) fn has_proxy(&self) -> bool {
        self.has_proxy
    }

    /// Whether the database could be opened.
    pub(crate) fn has_store(&self) -> bool {
        self.store.is_some()
    }

    /// The database, for commands that cannot work without it.
    ///
    /// # Errors
    /// When the database could not be opened.
    pub(crate) fn store(&self) -> Result<&Store, Failure> {
        self.store.as_ref().ok_or_else(|| {
            let message = format!("{} cannot be used", database::file(&self.places).display());
            Failure::new(Exit::Other, "NO_DATABASE", message).hint("correct the problem that is reported above")
        })
    }

    /// Deletes the conversations that are older or more than `[sessions]` allows, except `in_use`.
    pub(crate) async fn forget_old_sessions(&self, loaded: &Loaded, in_use: Option<Uuid>) {
        let Some(store) = &self.store else {
            return;
        };
        let keep = loaded.settings.sessions;
        let retention = Retention { keep_days: keep.days, keep_sessions: keep.number };
        match store.forget_old_sessions(retention, in_use).await {
            Ok(0) => {}
            Ok(forgotten) => tracing::info!(forgotten, "old sessions were deleted, as `[sessions]` says"),
            // An error does not matter: the next command tries again.
            Err(error) => self.screen.warning(&with_causes(&error)),
        }
    }

    /// Returns a function that hides the secrets of all configured servers, because stored logs may repeat them. Starts
    /// and contacts no server, and resolves no placeholder of an entry that waits for the user's agreement.
    pub(crate) async fn known_secrets(&self, loaded: &Loaded) -> impl Fn(&str) -> String + use<> {
        for (name, spec) in loaded.desired.iter().filter(|(_, spec)| spec.trust != Trust::Pending) {
            // If the placeholders of an entry cannot be resolved, its server has not been given any secret.
            match &spec.transport {
                Transport::Stdio(stdio) => drop(self.secrets.stdio(name, stdio).await),
                Transport::Http(http) | Transport::Sse(http) => {
                    drop(self.secrets.url(name, http).await);
                    drop(self.secrets.headers(name, http).await);
                }
                Transport::Native(_) => {}
            }
        }
        self.concealer()
    }

    /// Returns a function that hides the secrets that servers have been given up to the moment of its call.
    pub(crate) fn concealer(&self) -> impl Fn(&str) -> String + Send + Sync + use<> {
        let secrets = Arc::clone(&self.secrets);
        move |text| secrets.conceal(text).into_owned()
    }

    /// As [`Self::concealer`], to be shared.
    pub(crate) fn conceal(&self) -> Conceal {
        Arc::new(self.concealer())
    }

    /// Asks a yes-or-no question; anything but a clear yes is a no.
    pub(crate) async fn confirm(&self, question: &str) -> bool {
        self.terminal.agrees(question).await
    }

    /// Checks that there is a user to ask, before the command shows what the question is about. Without one, the user
    /// has to give `--yes`.
    ///
    /// # Errors
    /// When no user can be asked; `why` says why one must be.
    pub(crate) fn require_user(&self, why: &str) -> Result<(), Failure> {
        if self.screen.interactive() {
            return Ok(());
        }
        Err(Failure::usage(format!("{why}, and no user can be asked")).hint("check it, then add `--yes`"))
    }

    /// Whether a user at the terminal, or `--answer`, can answer a server's form.
    pub(crate) fn can_ask(&self) -> bool {
        self.terminal.abilities().forms
    }

    /// Makes `gate` decide which calls may run. Call it before [`Self::connect`].
    pub(crate) fn set_gate(&self, gate: Arc<dyn Gate>) {
        let _ = self.gate.set(gate);
    }

    /// Makes `asker` answer instead of the user at the terminal. Call it before [`Self::connect`].
    pub(crate) fn set_asker(&self, asker: SharedAsker) {
        let _ = self.asker.set(asker);
    }

    /// Resolves placeholders; shared, for callers that outlive this world.
    pub(crate) fn secrets(&self) -> Arc<Interpolate> {
        Arc::clone(&self.secrets)
    }

    /// Returns a function that tells the log keeper where servers are configured. Does nothing without a database.
    pub(crate) fn log_keeper(&self) -> impl Fn(&Desired) + Send + Sync + use<> {
        let sources = self.running().log.as_ref().map(LogKeeper::sources);
        move |desired| {
            if let Some(sources) = &sources {
                sources.expect(desired);
            }
        }
    }

    /// The writer of the audit log; `None` without a database.
    pub(crate) fn witness(&self) -> Option<Arc<dyn toolrack_host::Witness>> {
        self.audit.witness(None)
    }

    /// Returns a function that passes the settings to the audit log. Does nothing without a database.
    pub(crate) fn audit_settings(&self) -> impl Fn(Audit) + Send + Sync + use<> {
        let audit = Arc::clone(&self.audit);
        move |settings| audit.set(settings)
    }

    /// Makes the host reconnect servers that fail, for a command that runs for long.
    pub(crate) fn keep_reconnecting(&self) {
        self.keeps_reconnecting.store(true, Ordering::Relaxed);
    }

    /// Connects to the servers of `desired` and waits until each has succeeded or failed once.
    ///
    /// # Errors
    /// When the path of this program is unknown, or when a daemon runs the command and cannot lend it these servers.
    pub(crate) async fn connect(&self, mut desired: Desired) -> Result<Host, Failure> {
        if let Some(lent) = &self.lent {
            return self.borrow(lent, &desired, Need::Connections).await;
        }
        if !self.keeps_reconnecting.load(Ordering::Relaxed) {
            for spec in desired.values_mut() {
                // A command does not retry: it reports the first failure.
                spec.retry.attempts = 0;
            }
        }
        let Running { host, log, .. } = self.running();
        if let Some(log) = log {
            log.sources().expect(&desired);
        }
        host.apply(desired).await;
        tokio::select! {
            () = host.settled() => {}
            () = self.show_who_connects(host) => {}
        }
        Ok(host.clone())
    }

    /// As [`Self::connect`], for commands that only show servers and their tools. If a daemon lends its servers, the
    /// command shows the failed ones as the daemon knows them, and starts none.
    ///
    /// # Errors
    /// As [`Self::connect`].
    pub(crate) async fn connect_to_show(&self, desired: Desired) -> Result<Host, Failure> {
        match &self.lent {
            Some(lent) => self.borrow(lent, &desired, Need::Status).await,
            None => self.connect(desired).await,
        }
    }

    /// Shows the servers that are still connecting. Never returns.
    async fn show_who_connects(&self, host: &Host) {
        loop {
            tokio::time::sleep(WAITING_NOTICE_INTERVAL).await;
            let servers = host.status().into_iter();
            let waiting: Vec<_> = servers.filter(|server| server.state == State::Connecting).collect();
            let names: Vec<_> = waiting.iter().map(|server| server.name.as_str()).collect();
            self.screen.progress(&format!("connecting to {}", names.join(", ")));
        }
    }

    /// The terminal, which asks the user.
    pub(crate) fn terminal(&self) -> Arc<Terminal> {
        Arc::clone(&self.terminal)
    }

    /// Lets `chosen` answer sampling requests of servers from now on. The user has to agree to each request.
    pub(crate) fn samples_with(&self, chosen: &Chosen) {
        self.terminal.samples_with(Sampler::of(chosen, self.conceal()));
    }

    /// Like [`samples_with`](Self::samples_with), with the model that `TOOLRACK_MODEL` or `loaded` names. For commands
    /// that need no model themselves.
    pub(crate) fn samples_with_configured(&self, loaded: &Loaded) {
        let model_options = ModelOptions::without_arguments(loaded.settings.model.clone(), &self.environment);
        if let Some(sampler) = Sampler::configured(model_options, self.model_context(), self.conceal()) {
            self.terminal.samples_with(sampler);
        }
    }

    /// The host. It runs no server before [`Self::connect`].
    pub(crate) fn host(&self) -> Host {
        self.running().host.clone()
    }

    fn running(&self) -> &Running {
        self.running.get_or_init(|| {
            let host = self.new_host();
            let log = self.hosts().log_of(&host);
            let server_output = (self.global.verbose > 0).then(|| self.server_output(&host, |_| true));
            Running { host, log, server_output }
        })
    }

    /// Starts to show the logs of those servers of `host` for which `shows` returns true.
    fn server_output(&self, host: &Host, shows: impl Fn(&ServerName) -> bool + Send + 'static) -> ServerOutput {
        ServerOutput::start(host.events(), Arc::clone(&self.screen), shows)
    }

    /// The folder for results that are too long.
    pub(crate) fn artifacts(&self) -> ArtifactFolder {
        ArtifactFolder::new(self.places.data().join("artifacts"), ArtifactBounds::default())
    }

    fn new_host(&self) -> Host {
        let gate = self.gate.get().cloned().unwrap_or_else(|| self.gate_for_typed_calls());
        let asker = self.asker.get().cloned().unwrap_or_else(|| self.terminal());
        let host = self.hosts().make(gate, asker, None);
        host.set_naming(self.host_settings.load().naming.clone());
        host
    }

    /// The gate for calls that the user types: they run unless a rule denies them or wants a confirmation.
    fn gate_for_typed_calls(&self) -> Arc<dyn Gate> {
        let policy = &self.host_settings.load().policy;
        if policy.is_empty() { Arc::new(AllowAll) } else { Arc::new(policy.clone()) }
    }

    /// Makes more hosts, which share the user's store, sign-ins and secrets with the host of this world.
    pub(crate) fn hosts(&self) -> Hosts {
        Hosts {
            store: self.store.clone(),
            secrets: Arc::clone(&self.secrets),
            sign_in: self.sign_in.clone(),
            artifacts: self.artifacts(),
            egress: self.egress.clone(),
            tracer: self.tracer.clone(),
            audit: Arc::clone(&self.audit),
            keeps_answers: self.global.once.is_none(),
            tape: self.tape.clone(),
            quotas: self.quotas.clone(),
            on_message: self.on_message(),
            is_shared: self.is_shared,
            loan: None,
        }
    }

    /// Shows the messages of servers, if the user asked for everything (`-vv`).
    fn on_message(&self) -> Option<OnMessage> {
        (self.global.verbose > 1).then(|| frames::on(Arc::clone(&self.screen), Arc::clone(&self.secrets)))
    }

    /// Stops everything that [`Self::connect`] started, and waits for it. The database is still open, for the caller to
    /// close.
    pub(crate) async fn close(&self) {
        let running = self.running.get();
        if let Some(Running { host, .. }) = running {
            // Takes the catalog first, and writes the notes while the servers end.
            tokio::join!(self.note_tools(host), host.shutdown());
        }
        // Waits for sign-ins and renewals before the audit log closes, because each outcome is a row of it.
        self.sign_in.settled().await;
        if let Some(server_output) = running.and_then(|running| running.server_output.as_ref()) {
            server_output.close().await;
        }
        if let Some(log) = running.and_then(|running| running.log.as_ref()) {
            log.close().await;
        }
        self.audit.close().await;
    }
}

/// Signs in the requests to servers, with the tokens that are stored.
fn sign_in(
    (stored, secrets): (&Arc<Stored>, &Arc<Interpolate>),
    egress: &Egress,
    audit: &Audited,
    once: Option<Once>,
    member: Option<&str>,
) -> SignIn {
    let kept = Arc::clone(secrets);
    let builder = SignIn::builder(Arc::new(Tokens(Arc::clone(stored))))
        .resolver(Arc::<Interpolate>::clone(secrets))
        .how(move |server, scopes| how_to_sign_in(server, scopes, once.as_ref()))
        .egress(egress.clone())
        .secrets(move |secret| kept.add_secret(secret));
    let builder = match member {
        Some(member) => builder.owner("", member),
        None => builder,
    };
    match audit.witness(None) {
        Some(witness) => builder.witness(witness).build(),
        None => builder.build(),
    }
}

/// The command that signs in to `server`, with these scopes if there are any.
fn how_to_sign_in(server: &ServerName, scopes: &[String], once: Option<&Once>) -> String {
    if let (Some(Once::Url(url)), ONCE) = (once, server.as_str()) {
        // A server for one command has no name that `login` could use.
        return format!("toolrack add NAME {}", shell_words::quote(url));
    }
    let words = ["toolrack", "login", server.as_str()].into_iter();
    shell_words::join(words.chain(scopes.iter().flat_map(|scope| ["--scope", scope])))
}

/// A folder that servers may ask for as an MCP root.
fn root(folder: &Path) -> Result<Root, Failure> {
    let refused =
        |why: &str| Failure::usage(format!("--root {}: {why}", folder.display())).hint("give a folder that exists");
    let real = folder.canonicalize().map_err(|error| refused(&in_words(&error)))?;
    if !real.is_dir() {
        return Err(refused("it is not a folder"));
    }
    let uri = Url::from_directory_path(&real).map_err(|()| refused("it has no URL"))?;
    Ok(Root { uri: uri.to_string(), name: real.file_name().map(|name| name.to_string_lossy().into_owned()) })
}
