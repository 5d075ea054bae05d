//! The composition root: puts configuration, store, built-in server, asker and host together.

mod hosts;
mod lent;
mod reading;

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
    AllowAll, Asker as _, CatalogTool, Conceal, Desired, Egress, Gate, Host, Naming, Policy, Resolver, ServerName,
    SharedAsker, State, Tracer,
    ask::Root,
    spec::{Transport, Trust},
};
use toolrack_store::{ArtifactBounds, ArtifactFolder, Retention, Store, Uuid};
use url::Url;

use self::lent::{Lent, Wanted};
pub(crate) use self::{hosts::Hosts, lent::Borrower};
use crate::{
    aloud::Aloud,
    args::{Global, ONCE, Once},
    asker::{Sampler, Terminal},
    audit::Audited,
    database,
    error::{Exit, Failure, in_words, with_causes},
    keep::LogKeeper,
    models::{Chosen, ModelContext, Wishes},
    notebook::{Configured, Listing, Notebook, Tool},
    screen::Screen,
    secrets::{self, Stored},
    tokens::Tokens,
};

/// How long a user waits before the screen says what for, and how often it says it anew.
const PATIENCE: Duration = Duration::from_millis(500);

/// The variables that send HTTP through a proxy.
const PROXIES: &[&str] = &["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"];

/// Everything a verb works with.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) screen: Arc<Screen>,
    pub(crate) places: Places,
    /// The working folder.
    pub(crate) folder: PathBuf,
    pub(crate) environment: Environment,
    global: Global,
    /// The configurations of the command line that stand in no file.
    typed: Vec<Typed>,
    has_proxy: bool,
    /// `None` when it cannot be opened: everything works without it, only slower and with less remembered.
    store: Option<Store>,
    /// Asks the user: one reader of stdin for all questions.
    terminal: Arc<Terminal>,
    /// What may run; everything, unless a verb says otherwise before it connects.
    gate: OnceLock<Arc<dyn Gate>>,
    /// Answers the questions of servers and rules; the user at the terminal, unless a verb says otherwise before it
    /// connects.
    asker: OnceLock<SharedAsker>,
    /// Servers that fail are connected again.
    stays: AtomicBool,
    /// Ties calls to traces.
    tracer: Option<Arc<dyn Tracer>>,
    /// What `${secret:NAME}` stands for.
    stored: Arc<Stored>,
    /// Fills placeholders in, and remembers which values are secrets.
    secrets: Arc<Interpolate>,
    /// Where requests may go, as the settings say.
    egress: Egress,
    /// Signs in the requests to servers.
    sign_in: SignIn,
    /// Stores what is called and connected.
    audit: Arc<Audited>,
    /// What the files said when they were last read before a verb connects.
    host_settings: ArcSwap<HostSettings>,
    /// Set when a verb connects; closed at the end, whatever happened in between.
    running: OnceLock<Running>,
    /// What `--args` stands for, where it was read already.
    brought: Option<Brought>,
    /// Set in the world of a command that a daemon runs for another process.
    lent: Option<Box<Lent>>,
}

/// What runs once a verb connects.
#[derive(Debug)]
struct Running {
    host: Host,
    /// Stores what its servers say; `None` without a database.
    log: Option<LogKeeper>,
    /// Shows what its servers say; only where the user asked for that.
    aloud: Option<Aloud>,
}

/// What the files say that the host of a command is made with, and what is noted of it at the end.
#[derive(Debug, Default)]
struct HostSettings {
    /// The rules.
    policy: Policy,
    /// How models see tools.
    naming: Naming,
    /// The servers.
    configured: Vec<Configured>,
}

/// What `--args` stands for, or why it cannot be read.
pub(crate) type Brought = Result<String, Failure>;

impl World {
    /// # Errors
    /// When there is no working folder, nothing says where the configuration is, or a `--root` is no folder.
    pub(crate) async fn open(
        (global, typed): (Global, Vec<Typed>),
        mut environment: Environment,
        screen: Arc<Screen>,
    ) -> Result<Self, Failure> {
        // No server and no placeholder gets it.
        let key = environment.take(secrets::VARIABLE);
        let folder = std::env::current_dir().map_err(|error| {
            let message = format!("the working folder cannot be used: {}", in_words(&error));
            Failure::new(Exit::Other, "NO_WORKING_FOLDER", message)
        })?;
        let places = Places::from_env(&environment).map_err(|error| Failure::config(error.to_string()))?;
        let roots = global.root.iter().map(|folder| root(folder)).collect::<Result<_, _>>()?;
        let store = match Store::open(database::file(&places)).await {
            Ok(store) => Some(store),
            Err(error) => {
                screen.warning(&with_causes(&error));
                None
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
        let sign_in = sign_in((&stored, &secrets), &egress, &audit, global.once.clone());
        let terminal = Arc::new(Terminal::new(Arc::clone(&screen), roots).answering(&global)?);
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
            stored,
            secrets,
            egress,
            sign_in,
            gate: OnceLock::new(),
            asker: OnceLock::new(),
            stays: AtomicBool::new(false),
            tracer: None,
            audit,
            host_settings: ArcSwap::default(),
            running: OnceLock::new(),
            brought: None,
            lent: None,
        })
    }

    /// The same world, with its calls tied to traces.
    pub(crate) fn traced(mut self, tracer: Option<Arc<dyn Tracer>>) -> Self {
        self.tracer = tracer;
        self
    }

    /// The same world, where `brought` is what `--args` stands for: stdin can be read but once.
    pub(crate) fn with_brought(mut self, brought: Option<Brought>) -> Self {
        self.brought = brought;
        self
    }

    /// What `--args` stands for, where it was read already.
    pub(crate) fn brought(&self) -> Option<Brought> {
        self.brought.clone()
    }

    /// What fills placeholders in.
    pub(crate) fn resolver(&self) -> &dyn Resolver {
        &*self.secrets
    }

    /// The stored secrets.
    pub(crate) fn stored(&self) -> &Stored {
        &self.stored
    }

    /// What is needed to find a model.
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

    /// Where requests may go.
    pub(crate) fn egress(&self) -> &Egress {
        &self.egress
    }

    /// Whether nothing may be asked, nor read from the terminal.
    pub(crate) fn has_no_input(&self) -> bool {
        self.global.no_input
    }

    /// The server that is used this one time.
    pub(crate) fn once(&self) -> Option<&Once> {
        self.global.once.as_ref()
    }

    /// The agent that was named.
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

    /// The database, for what is useless without it.
    ///
    /// # Errors
    /// When the database could not be opened.
    pub(crate) fn store(&self) -> Result<&Store, Failure> {
        self.store.as_ref().ok_or_else(|| {
            let message = format!("{} cannot be used", database::file(&self.places).display());
            Failure::new(Exit::Other, "NO_DATABASE", message).hint("mend what is reported above")
        })
    }

    /// Deletes the conversations that need not be kept any longer, as the settings say; `in_use` stays.
    pub(crate) async fn forget_old_sessions(&self, loaded: &Loaded, in_use: Option<Uuid>) {
        let Some(store) = &self.store else {
            return;
        };
        let keep = loaded.settings.sessions;
        let retention = Retention { keep_days: keep.days, keep_sessions: keep.number };
        match store.forget_old_sessions(retention, in_use).await {
            Ok(0) => {}
            Ok(forgotten) => tracing::info!(forgotten, "old sessions were deleted, as `[sessions]` says"),
            // They will be looked for again.
            Err(error) => self.screen.warning(&with_causes(&error)),
        }
    }

    /// Hides the secrets that the servers of the configuration are given now, without starting or contacting any: what
    /// was said when they ran may repeat them. Placeholders of entries that wait for approval are not filled in.
    pub(crate) async fn known_secrets(&self, loaded: &Loaded) -> impl Fn(&str) -> String + use<> {
        for (name, spec) in loaded.desired.iter().filter(|(_, spec)| spec.trust != Trust::Pending) {
            // A server that cannot be filled in was given nothing.
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

    /// Hides the secrets that servers have been given when it is called.
    pub(crate) fn concealer(&self) -> impl Fn(&str) -> String + Send + Sync + use<> {
        let secrets = Arc::clone(&self.secrets);
        move |text| secrets.conceal(text).into_owned()
    }

    /// As [`Self::concealer`], to be shared.
    pub(crate) fn conceal(&self) -> Conceal {
        Arc::new(self.concealer())
    }

    /// Asks a question that is answered with yes or no; anything but a clear yes is a no.
    pub(crate) async fn confirm(&self, question: &str) -> bool {
        self.terminal.agrees(question).await
    }

    /// Checks that a question can be asked, before its subject is shown. To agree without being asked takes `--yes`.
    ///
    /// # Errors
    /// When no user can be asked; `why` says why one must be.
    pub(crate) fn person_to_ask(&self, why: &str) -> Result<(), Failure> {
        if self.screen.interactive() {
            return Ok(());
        }
        Err(Failure::usage(format!("{why}, and no person can be asked")).hint("look at it, then say `--yes`"))
    }

    /// Whether a person, or an answer that was given beforehand, can answer a server's form.
    pub(crate) fn can_ask(&self) -> bool {
        self.terminal.abilities().forms
    }

    /// Lets `gate` decide what may run, from now on. Only before anything is connected.
    pub(crate) fn guard(&self, gate: Arc<dyn Gate>) {
        let _ = self.gate.set(gate);
    }

    /// Lets `asker` answer instead of the user at the terminal, from now on. Only before anything is connected.
    pub(crate) fn answers(&self, asker: SharedAsker) {
        let _ = self.asker.set(asker);
    }

    /// What fills placeholders in, for callers that use it for as long as they like.
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

    /// From now on, a server that fails is connected again: the command goes on for long.
    pub(crate) fn stay(&self) {
        self.stays.store(true, Ordering::Relaxed);
    }

    /// Connects to the servers of `desired` and waits until each has succeeded or failed once.
    ///
    /// # Errors
    /// When this program cannot find itself, or this is the world of a command that cannot be done here.
    pub(crate) async fn connect(&self, mut desired: Desired) -> Result<Host, Failure> {
        if let Some(lent) = &self.lent {
            return self.borrow(lent, &desired, Wanted::Connections).await;
        }
        if !self.stays.load(Ordering::Relaxed) {
            for spec in desired.values_mut() {
                // A command is over before a second attempt: the first failure is the answer.
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

    /// As [`Self::connect`], for verbs that only show how servers are and what they have: where a daemon lends them,
    /// those that it could not connect to are shown as it knows them, and nothing is started.
    ///
    /// # Errors
    /// As [`Self::connect`].
    pub(crate) async fn look_at(&self, desired: Desired) -> Result<Host, Failure> {
        match &self.lent {
            Some(lent) => self.borrow(lent, &desired, Wanted::Sight).await,
            None => self.connect(desired).await,
        }
    }

    /// Shows the servers that are waited for. Never ends.
    async fn show_who_connects(&self, host: &Host) {
        loop {
            tokio::time::sleep(PATIENCE).await;
            let servers = host.status().into_iter();
            let waiting: Vec<_> = servers.filter(|server| server.state == State::Connecting).collect();
            let names: Vec<_> = waiting.iter().map(|server| server.name.as_str()).collect();
            self.screen.progress(&format!("connecting to {}", names.join(", ")));
        }
    }

    /// Asks the user.
    pub(crate) fn terminal(&self) -> Arc<Terminal> {
        Arc::clone(&self.terminal)
    }

    /// Lets `chosen` answer sampling requests of servers from now on, each after a yes of the user.
    pub(crate) fn samples_with(&self, chosen: &Chosen) {
        self.terminal.samples_with(Sampler::of(chosen, self.conceal()));
    }

    /// Like [`samples_with`](Self::samples_with), with the model that a variable or `loaded` names: for a command that needs
    /// no model itself.
    pub(crate) fn samples_with_configured(&self, loaded: &Loaded) {
        let wishes = Wishes::in_passing(loaded.settings.model.clone(), &self.environment);
        if let Some(sampler) = Sampler::configured(wishes, self.model_context(), self.conceal()) {
            self.terminal.samples_with(sampler);
        }
    }

    /// The host, which runs nothing before [`Self::connect`].
    pub(crate) fn host(&self) -> Host {
        self.running().host.clone()
    }

    fn running(&self) -> &Running {
        self.running.get_or_init(|| {
            let host = self.new_host();
            let log = self.hosts().log_of(&host);
            let aloud = (self.global.verbose > 0).then(|| self.aloud(&host, |_| true));
            Running { host, log, aloud }
        })
    }

    /// Begins to show what the servers of `host` say that `shows` wants.
    fn aloud(&self, host: &Host, shows: impl Fn(&ServerName) -> bool + Send + 'static) -> Aloud {
        Aloud::start(host.events(), Arc::clone(&self.screen), shows)
    }

    /// The folder for results that are too long.
    pub(crate) fn artifacts(&self) -> ArtifactFolder {
        ArtifactFolder::new(self.places.data().join("artifacts"), ArtifactBounds::default())
    }

    fn new_host(&self) -> Host {
        let gate = self.gate.get().cloned().unwrap_or_else(|| self.typed());
        let asker = self.asker.get().cloned().unwrap_or_else(|| self.terminal());
        let host = self.hosts().make(gate, asker, None);
        host.set_naming(self.host_settings.load().naming.clone());
        host
    }

    /// The gate for what the user types: it runs, unless the files forbid it or want it confirmed.
    fn typed(&self) -> Arc<dyn Gate> {
        let policy = &self.host_settings.load().policy;
        if policy.is_empty() { Arc::new(AllowAll) } else { Arc::new(policy.clone()) }
    }

    /// Makes hosts that share with this world's what a user has once.
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
        }
    }

    /// Notes what the connected servers offer, so that a shell can complete it.
    async fn note_tools(&self, host: &Host) {
        let status = host.status();
        let catalog = host.catalog();
        let is_connected = |name: &str| {
            let status = status.iter().find(|server| server.name.as_str() == name);
            status.is_some_and(|server| matches!(server.state, State::Connected { .. }))
        };
        let configured: Vec<_> =
            self.host_settings.load().configured.iter().filter(|server| is_connected(&server.name)).cloned().collect();
        let notebook = Notebook::below(self.places.data());
        let secrets = Arc::clone(&self.secrets);
        let written = tokio::task::spawn_blocking(move || {
            let conceal = |text: &str| secrets.conceal(text).into_owned();
            for server in configured {
                let tools =
                    || catalog.tools().filter(|tool| tool.server.as_str() == server.name).map(CatalogTool::tool);
                let listing = Listing::of(tools());
                if !notebook.is_of(&server, listing) {
                    notebook.write(&server, listing, tools().map(|tool| Tool::of_mcp(tool, &conceal)).collect());
                }
            }
        });
        // Whether it worked makes no difference to the command.
        let _ = written.await;
    }

    /// Stops everything that [`Self::connect`] started, and waits for it.
    pub(crate) async fn close(&self) {
        let running = self.running.get();
        if let Some(Running { host, .. }) = running {
            // The notes are of what is there when this begins; they are written while the servers end.
            tokio::join!(self.note_tools(host), host.shutdown());
        }
        // Its outcome is a row of the audit log.
        self.sign_in.settled().await;
        if let Some(aloud) = running.and_then(|running| running.aloud.as_ref()) {
            aloud.close().await;
        }
        if let Some(log) = running.and_then(|running| running.log.as_ref()) {
            log.close().await;
        }
        self.audit.close().await;
        if let Some(store) = &self.store {
            store.leave().await;
        }
    }
}

/// Signs in the requests to servers, with the tokens that are stored.
fn sign_in(
    (stored, secrets): (&Arc<Stored>, &Arc<Interpolate>),
    egress: &Egress,
    audit: &Audited,
    once: Option<Once>,
) -> SignIn {
    let kept = Arc::clone(secrets);
    let builder = SignIn::builder(Arc::new(Tokens(Arc::clone(stored))))
        .resolver(Arc::<Interpolate>::clone(secrets))
        .how(move |server, scopes| how_to_sign_in(server, scopes, once.as_ref()))
        .egress(egress.clone())
        .secrets(move |secret| kept.keep_secret(secret));
    match audit.witness(None) {
        Some(witness) => builder.witness(witness).build(),
        None => builder.build(),
    }
}

/// The command that signs in to `server`, with these scopes if there are any.
fn how_to_sign_in(server: &ServerName, scopes: &[String], once: Option<&Once>) -> String {
    if let (Some(Once::Url(url)), ONCE) = (once, server.as_str()) {
        // A sign-in belongs to a name.
        return format!("toolrack add NAME {}", shell_words::quote(url));
    }
    let words = ["toolrack", "login", server.as_str()].into_iter();
    shell_words::join(words.chain(scopes.iter().flat_map(|scope| ["--scope", scope])))
}

/// A folder that servers may know of.
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
