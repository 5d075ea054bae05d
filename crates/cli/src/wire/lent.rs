//! The world of a command that a daemon runs for another process: the daemon's servers, that process's terminal.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    path::PathBuf,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use arc_swap::ArcSwap;
use futures::future::join;
use tokio::{sync::broadcast::error::RecvError, time::timeout};
use toolrack_config::{Environment, Interpolate, Loaded, Places, SecretGate};
use toolrack_daemon::Current;
use toolrack_host::{
    ChildPlan, Desired, Host, Resolver, ServerName, ServerSpec, State,
    spec::{Transport, Trust},
};

use super::{PROXIES, Said, World};
use crate::{
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
    /// Set when the answer could differ from that of the process alone.
    is_elsewhere: AtomicBool,
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
    /// The world of `borrower` in a daemon with this one; `None` where the borrower alone would have another.
    pub(crate) async fn lend(&self, borrower: Borrower, current: &Current) -> Option<Self> {
        let Borrower { global, folder, mut environment, screen, lines, brought } = borrower;
        let key = environment.take(secrets::VARIABLE);
        let is_same = folder == self.folder
            && global.mcp_config == self.global.mcp_config
            && global.strict_mcp_config == self.global.strict_mcp_config
            && global.agent == self.global.agent
            && global.root.is_empty()
            && self.typed.is_empty()
            && self.stored.is_opened_with(key)
            && Places::from_env(&environment).is_ok_and(|places| places == self.places);
        if !is_same || self.store.is_none() {
            return None;
        }
        let loaded = current.loaded().await?;
        screen.conceal(Arc::clone(&self.secrets));
        let (policy, naming) = (loaded.settings.policy.clone(), loaded.settings.tools.naming.clone());
        let said = Said { policy, naming, configured: Vec::new() };
        let terminal = Arc::new(Terminal::far(Arc::clone(&screen), lines));
        let is_elsewhere = AtomicBool::new(false);
        Some(Self {
            screen,
            places: self.places.clone(),
            folder,
            environment: environment.clone(),
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
            said: ArcSwap::from_pointee(said),
            running: OnceLock::new(),
            brought: brought.map(Ok),
            lent: Some(Lent { current: current.clone(), loaded, host: self.host(), environment, is_elsewhere }),
        })
    }

    /// Whether the command is to be done by the process that asked, because it would have other servers.
    pub(crate) fn is_elsewhere(&self) -> bool {
        self.lent.as_ref().is_some_and(|lent| lent.is_elsewhere.load(Ordering::Relaxed))
    }

    /// The servers of `desired`, which are there already.
    pub(super) async fn borrow(&self, lent: &Lent, desired: &Desired, wanted: Wanted) -> Result<Host, Failure> {
        let mut is_here = wanted == Wanted::Connections || lent.has_tried_all().await;
        for (name, spec) in desired {
            is_here =
                is_here && lent.has(name, spec, wanted).await && self.is_given_the_same(lent, name, spec, wanted).await;
        }
        if !is_here {
            lent.is_elsewhere.store(true, Ordering::Relaxed);
            return Err(Failure::new(Exit::Other, "ELSEWHERE", "the daemon has other servers"));
        }
        let gate = Arc::new(SecretGate::new(self.typed(), Arc::clone(&self.secrets)));
        Ok(lent.host.excerpt(|name| desired.contains_key(name), self.terminal(), gate).await)
    }

    /// Whether `name` was given what the process that asks would give it: its variables may differ.
    async fn is_given_the_same(&self, lent: &Lent, name: &ServerName, spec: &ServerSpec, wanted: Wanted) -> bool {
        if !spec.enabled || spec.trust == Trust::Pending {
            return true;
        }
        let theirs = self.secrets.with_environment(lent.environment.clone());
        match join(Given::to(name, spec, &self.secrets), Given::to(name, spec, &theirs)).await {
            (Ok(ours), Ok(theirs)) => ours == theirs,
            // What is missing here is missing there.
            (Err(ours), Err(theirs)) => wanted == Wanted::Sight && ours == theirs,
            _ => false,
        }
    }
}

/// What a server is given. Two servers of one entry are the same where they are given the same.
#[derive(PartialEq, Eq)]
enum Given {
    /// The plan of a child without its variables, and those that do not only describe the terminal of a command.
    Child(ChildPlan, BTreeMap<OsString, OsString>),
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
                variables.retain(|name, _| !OF_TERMINALS.iter().any(|of_terminal| name == of_terminal));
                Self::Child(ChildPlan { env: Vec::new(), ..plan }, variables)
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

impl Lent {
    /// Whether each server has been connected, or has failed, at least once.
    async fn has_tried_all(&self) -> bool {
        timeout(PATIENCE, self.host.settled()).await.is_ok()
    }

    /// Whether `name` is here as a command alone would find it: connected or, to be shown, also not connected.
    async fn has(&self, name: &ServerName, spec: &ServerSpec, wanted: Wanted) -> bool {
        if self.current.is_held(name.as_str()) {
            return false;
        }
        let state = match wanted {
            Wanted::Connections => timeout(PATIENCE, self.settled(name)).await.ok().flatten(),
            Wanted::Sight => self.state(name),
        };
        match state {
            Some(State::Connected { .. } | State::Idle { .. }) => true,
            Some(State::Disabled) => !spec.enabled,
            Some(State::PendingTrust) => spec.trust == Trust::Pending,
            // Alone, a command that needs the server tries anew.
            Some(_) => wanted == Wanted::Sight,
            None => false,
        }
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
