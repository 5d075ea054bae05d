//! The world of a command that a daemon runs for another process: the daemon's servers, that process's terminal.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    path::PathBuf,
    sync::{Arc, OnceLock, atomic::AtomicBool},
    time::Duration,
};

use arc_swap::ArcSwap;
use futures::future::join;
use tokio::{sync::broadcast::error::RecvError, time::timeout};
use toolrack_config::{Environment, Interpolate, Loaded, Places, SecretGate};
use toolrack_daemon::Current;
use toolrack_host::{
    ChildPlan, Desired, Host, Resolver, ServerName, ServerSpec, State,
    spec::{InheritEnv, Stdio, Transport, Trust},
    text,
};

use super::{HostSettings, PROXIES, World};
use crate::{
    aloud::Aloud,
    args::Global,
    asker::Terminal,
    error::{Exit, Failure},
    lending::FarLines,
    screen::Screen,
    secrets,
};

/// How long to wait for a server that is being connected, before the command connects to one of its own.
const PATIENCE: Duration = Duration::from_millis(500);

/// Variables that differ from one terminal to the next and mean nothing to a server behind a pipe.
const OF_TERMINALS: &[&str] = &["OLDPWD", "PWD", "SHLVL", "TERM", "_"];

/// What a daemon lends.
#[derive(Debug)]
pub(super) struct Lent {
    current: Current,
    loaded: Arc<Loaded>,
    host: Host,
    /// The variables of the process that asks.
    environment: Environment,
    /// Why the answer could differ from that of the process alone, once that is known.
    elsewhere: OnceLock<String>,
    /// Shows what the servers say, where the user asked for that.
    aloud: OnceLock<Aloud>,
}

/// What a command wants of servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// To ask something of them.
    Connections,
    /// To show how they are.
    Sight,
}

/// A process that asks the daemon to run a command.
pub(crate) struct Borrower {
    pub(crate) global: Global,
    pub(crate) folder: PathBuf,
    pub(crate) environment: Environment,
    pub(crate) screen: Arc<Screen>,
    pub(crate) lines: FarLines,
    /// What `--args` stands for, where it was read already.
    pub(crate) brought: Option<String>,
}

impl Lent {
    pub(super) fn loaded(&self) -> Loaded {
        Loaded::clone(&self.loaded)
    }
}

impl World {
    /// The world of `borrower` in a daemon with this one.
    ///
    /// # Errors
    /// Why the borrower alone would have another one, in words.
    pub(crate) async fn lend(&self, borrower: Borrower, current: &Current) -> Result<Self, String> {
        let Borrower { global, folder, mut environment, screen, lines, brought } = borrower;
        let key = environment.take(secrets::VARIABLE);
        let same = &self.global;
        let is_at_home = || Places::from_env(&environment).is_ok_and(|places| places == self.places);
        let has_files = global.mcp_config == same.mcp_config && global.strict_mcp_config == same.strict_mcp_config;
        let why = match () {
            () if folder != self.folder => format!("it was started in another folder, {}", self.folder.display()),
            () if !has_files || !self.typed.is_empty() => "it has other `--mcp-config` files".to_owned(),
            () if global.agent != same.agent => "it is for another `--agent`".to_owned(),
            () if !global.root.is_empty() => "its servers know of no `--root`".to_owned(),
            () if !is_at_home() => "its configuration or its data are elsewhere".to_owned(),
            () if !self.stored.is_opened_with(key) => "another key opens its secrets".to_owned(),
            () if self.store.is_none() => "it has no database".to_owned(),
            () => String::new(),
        };
        if !why.is_empty() {
            return Err(why);
        }
        let loaded = current.loaded().await.ok_or("it is ending")?;
        screen.conceal(Arc::clone(&self.secrets));
        let (policy, naming) = (loaded.settings.policy.clone(), loaded.settings.tools.naming.clone());
        let settings = HostSettings { policy, naming, configured: Vec::new() };
        let terminal = Arc::new(Terminal::far(Arc::clone(&screen), lines));
        let lent = Lent {
            current: current.clone(),
            loaded,
            host: self.host(),
            environment: environment.clone(),
            elsewhere: OnceLock::new(),
            aloud: OnceLock::new(),
        };
        Ok(Self {
            screen,
            places: self.places.clone(),
            folder,
            environment,
            global,
            typed: Vec::new(),
            has_proxy: self.has_proxy,
            store: self.store.clone(),
            tracer: None,
            stored: Arc::clone(&self.stored),
            secrets: Arc::clone(&self.secrets),
            egress: self.egress.clone(),
            sign_in: self.sign_in.clone(),
            terminal,
            gate: OnceLock::new(),
            asker: OnceLock::new(),
            stays: AtomicBool::new(false),
            audit: Arc::clone(&self.audit),
            host_settings: ArcSwap::from_pointee(settings),
            running: OnceLock::new(),
            brought: brought.map(Ok),
            lent: Some(Box::new(lent)),
        })
    }

    /// Why the command is to be done by the process that asked: it would have other servers.
    pub(crate) fn elsewhere(&self) -> Option<&str> {
        self.lent.as_ref()?.elsewhere.get().map(String::as_str)
    }

    /// Why the process that asked would do without the daemon for some of its servers, a line for each of them.
    pub(crate) async fn misfits(&self) -> Vec<String> {
        let Some(lent) = &self.lent else { return Vec::new() };
        let mut misfits = Vec::new();
        for (name, spec) in &lent.loaded.desired {
            if spec.enabled && spec.trust == Trust::Trusted {
                misfits.extend(self.misfit(lent, name, spec, Wanted::Connections).await);
            }
        }
        misfits
    }

    /// Shows the last of what the servers have said.
    pub(crate) async fn hush(&self) {
        if let Some(aloud) = self.lent.as_ref().and_then(|lent| lent.aloud.get()) {
            aloud.close().await;
        }
    }

    /// The servers of `desired`, which are there already.
    pub(super) async fn borrow(&self, lent: &Lent, desired: &Desired, wanted: Wanted) -> Result<Host, Failure> {
        let is_ready = wanted == Wanted::Connections || lent.has_tried_all().await;
        let mut why = (!is_ready).then(|| "its servers are still being connected".to_owned());
        for (name, spec) in desired {
            if why.is_none() {
                why = self.misfit(lent, name, spec, wanted).await;
            }
        }
        if let Some(why) = why {
            let _ = lent.elsewhere.set(why);
            return Err(Failure::new(Exit::Other, "ELSEWHERE", "the daemon has other servers"));
        }
        if self.global.verbose > 0 {
            let shown: Vec<_> = desired.keys().cloned().collect();
            lent.aloud.get_or_init(|| self.aloud(&lent.host, move |server| shown.contains(server)));
        }
        let gate = Arc::new(SecretGate::new(self.typed(), Arc::clone(&self.secrets)));
        Ok(lent.host.excerpt(|name| desired.contains_key(name), self.terminal(), gate).await)
    }

    /// Why `name` is not here as the process that asks would have it: not connected, or given other variables.
    async fn misfit(&self, lent: &Lent, name: &ServerName, spec: &ServerSpec, wanted: Wanted) -> Option<String> {
        if let Some(why) = lent.lacks(name, spec, wanted).await {
            return Some(format!("`{name}` {why}"));
        }
        if !spec.enabled || spec.trust == Trust::Pending {
            return None;
        }
        let theirs = self.secrets.with_environment(lent.environment.clone());
        let why = match join(Given::to(name, spec, &self.secrets), Given::to(name, spec, &theirs)).await {
            (Ok(ours), Ok(theirs)) => ours.difference(&theirs)?,
            // What is missing here is missing there.
            (Err(ours), Err(theirs)) if wanted == Wanted::Sight && ours == theirs => return None,
            _ => "needs a variable that is not set in both places".to_owned(),
        };
        Some(format!("`{name}` {why}"))
    }
}

/// What a server is given. Two servers of one entry are the same where they are given the same.
#[derive(PartialEq, Eq)]
enum Given {
    Child {
        /// Without its variables.
        plan: Box<ChildPlan>,
        /// Those that its entry uses: what it does not name, a server is not there for.
        variables: BTreeMap<OsString, OsString>,
        /// The program that its name leads to; `None` where it is a path, or leads to none.
        program: Option<PathBuf>,
    },
    Requests {
        /// `None` where it cannot be filled in.
        url: Option<String>,
        /// `None` where they cannot be filled in.
        headers: Option<Vec<(String, String)>>,
        /// The values of [`PROXIES`].
        proxies: Vec<Option<OsString>>,
    },
    /// A server that this program carries.
    Nothing,
}

impl Given {
    /// What `name` is given by a process that fills placeholders in with `secrets`.
    ///
    /// # Errors
    /// When a child cannot be planned; in words.
    async fn to(name: &ServerName, spec: &ServerSpec, secrets: &Interpolate) -> Result<Self, String> {
        Ok(match &spec.transport {
            Transport::Stdio(stdio) => {
                let plan = secrets.stdio(name, stdio).await.map_err(|error| error.to_string())?;
                let mut variables: BTreeMap<_, _> = plan.env.iter().cloned().collect();
                let path = variables.get(OsStr::new("PATH"));
                let is_named = !plan.command.contains('/') && plan.container.is_none();
                let found = || which::which_in_global(&plan.command, path).ok()?.next();
                let program = is_named.then(found).flatten();
                variables.retain(|name, _| uses(stdio, name));
                Self::Child { plan: Box::new(ChildPlan { env: Vec::new(), ..plan }), variables, program }
            }
            Transport::Http(http) | Transport::Sse(http) => {
                let environment = secrets.environment();
                Self::Requests {
                    url: secrets.url(name, http).await.ok(),
                    headers: secrets.headers(name, http).await.ok(),
                    proxies: PROXIES.iter().map(|proxy| environment.get(proxy).map(ToOwned::to_owned)).collect(),
                }
            }
            Transport::Native(_) => Self::Nothing,
        })
    }
}

impl Given {
    /// How `theirs` is not the same, in words without any value; `None` where it is.
    fn difference(&self, theirs: &Self) -> Option<String> {
        if self == theirs {
            return None;
        }
        Some(match (self, theirs) {
            (Self::Child { plan, variables, .. }, Self::Child { plan: other, variables: others, .. }) => {
                let mut names = variables.keys().chain(others.keys());
                match names.find(|name| variables.get(*name) != others.get(*name)) {
                    Some(name) => format!("has another `{}` there", text::for_line(&name.to_string_lossy())),
                    None if plan != other => {
                        "is started otherwise there: a variable in its entry is another one".into()
                    }
                    None => "is another program there: `PATH` leads to it".into(),
                }
            }
            (Self::Requests { proxies, .. }, Self::Requests { proxies: others, .. }) if proxies != others => {
                "has another proxy there".into()
            }
            _ => "has another address or other headers there".into(),
        })
    }
}

/// Whether the entry uses the variable `name`: it sets it, or says that the server is to inherit it. The client of an
/// engine obeys its variables, so all of those count.
fn uses(stdio: &Stdio, name: &OsStr) -> bool {
    let is = |other: &str| name == other;
    if stdio.env.keys().any(|key| is(key)) {
        return true;
    }
    match &stdio.inherit_env {
        _ if OF_TERMINALS.iter().any(|of_terminal| is(of_terminal)) => false,
        _ if stdio.container.is_some() => true,
        InheritEnv::All => true,
        InheritEnv::Names(names) => names.iter().any(|other| is(other)),
        InheritEnv::Safe | InheritEnv::None => false,
    }
}

impl Lent {
    /// Whether each server has been connected, or has failed, at least once.
    async fn has_tried_all(&self) -> bool {
        timeout(PATIENCE, self.host.settled()).await.is_ok()
    }

    /// Why `name` is not here as a command alone would find it: connected or, to be shown, also not connected.
    async fn lacks(&self, name: &ServerName, spec: &ServerSpec, wanted: Wanted) -> Option<String> {
        if self.current.is_held(name.as_str()) {
            return Some("is held there".to_owned());
        }
        let state = match wanted {
            Wanted::Connections => timeout(PATIENCE, self.settled(name)).await.ok().flatten(),
            Wanted::Sight => self.state(name),
        };
        let word = state.as_ref().map_or("not known", State::word).replace('_', " ");
        let has = match state {
            Some(State::Connected { .. } | State::Idle { .. }) => true,
            Some(State::Disabled) => !spec.enabled,
            Some(State::PendingTrust) => spec.trust == Trust::Pending,
            // Alone, a command that needs the server tries anew.
            Some(_) => wanted == Wanted::Sight,
            None => false,
        };
        (!has).then(|| format!("is {word} there"))
    }

    /// How `name` is; `None` when there is none.
    fn state(&self, name: &ServerName) -> Option<State> {
        self.host.status().into_iter().find(|server| server.name == *name).map(|server| server.state)
    }

    /// How `name` is, once it is connected or has failed; `None` when there is none.
    async fn settled(&self, name: &ServerName) -> Option<State> {
        let mut events = self.host.events();
        loop {
            let state = self.state(name)?;
            if state != State::Connecting {
                return Some(state);
            }
            if let Err(RecvError::Closed) = events.recv().await {
                return None;
            }
        }
    }
}
