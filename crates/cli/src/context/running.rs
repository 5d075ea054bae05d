//! Starts, connects and closes the host of a command. A host connects to servers and runs the calls of their tools.

use std::{sync::Arc, time::Duration};

use toolrack_host::{AllowAll, Desired, Gate, Host, ServerName, SharedAsker, State};

use super::{Context, lent::Purpose};
use crate::{
    error::{Exit, Failure},
    log_keeper::LogKeeper,
    screen::Screen,
    server_output::ServerOutput,
};

/// The wait before the screen shows which servers are still connecting, and between two updates of that line.
const WAITING_NOTICE_INTERVAL: Duration = Duration::from_millis(500);

/// What decides about the calls of a host, and who answers its questions.
pub(crate) struct HostOptions {
    /// Decides which calls may run.
    pub(crate) gate: Arc<dyn Gate>,
    /// Answers the questions of servers and rules.
    pub(crate) asker: SharedAsker,
    pub(crate) on_failure: OnFailure,
}

/// What a host does when a server cannot be connected, or its connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnFailure {
    /// The host tells the command, which reports the first failure.
    Report,
    /// The host connects again, as often as the configuration of the server says: for a command that runs for long.
    Reconnect,
}

/// A started host, with the tasks that store and show its logs.
#[derive(Debug)]
pub(crate) struct RunningHost {
    host: Host,
    on_failure: OnFailure,
    /// Stores the logs of the host's servers; `None` without a database.
    log_keeper: Option<LogKeeper>,
    /// Shows the logs of the host's servers, if the user asked for that (`-v`).
    server_output: Option<ServerOutput>,
    screen: Arc<Screen>,
}

impl RunningHost {
    /// The host. It runs no server before it is connected.
    pub(crate) fn host(&self) -> &Host {
        &self.host
    }

    /// Returns a function that tells the log keeper which servers are configured. It does nothing without a database.
    pub(crate) fn log_source_adder(&self) -> impl Fn(&Desired) + Send + Sync + use<> {
        let sources = self.log_keeper.as_ref().map(LogKeeper::sources);
        move |desired| {
            if let Some(sources) = &sources {
                sources.add(desired);
            }
        }
    }

    /// Connects to the servers of `desired`, which replace those of an earlier call, and waits until each has connected
    /// or failed once.
    pub(crate) async fn connect(&self, mut desired: Desired) -> Host {
        if self.on_failure == OnFailure::Report {
            for spec in desired.values_mut() {
                spec.retry.attempts = 0;
            }
        }
        if let Some(log_keeper) = &self.log_keeper {
            log_keeper.sources().add(&desired);
        }
        self.host.apply(desired).await;
        self.settle().await;
        self.host.clone()
    }

    /// Waits until each server has connected or failed once, and shows which ones are still connecting.
    async fn settle(&self) {
        tokio::select! {
            () = self.host.settled() => {}
            () = self.show_connecting() => {}
        }
    }

    /// Shows the servers that are still connecting. Never returns.
    async fn show_connecting(&self) {
        loop {
            tokio::time::sleep(WAITING_NOTICE_INTERVAL).await;
            let servers = self.host.status().into_iter();
            let connecting: Vec<_> = servers.filter(|server| server.state == State::Connecting).collect();
            let names: Vec<_> = connecting.iter().map(|server| server.name.as_str()).collect();
            self.screen.progress(&format!("connecting to {}", names.join(", ")));
        }
    }

    /// Shows and stores the rest of the logs, after the host has ended.
    pub(super) async fn close_output(&self) {
        if let Some(server_output) = &self.server_output {
            server_output.close().await;
        }
        if let Some(log_keeper) = &self.log_keeper {
            log_keeper.close().await;
        }
    }
}

impl Context {
    /// Starts the host of this command with `options`, for a command that needs other options than those of
    /// [`Self::connect`].
    ///
    /// # Errors
    /// When the host has been started already; it keeps its options.
    pub(crate) fn start(&self, options: HostOptions) -> Result<&RunningHost, Failure> {
        if self.running_host.get().is_some() {
            return Err(Failure::new(Exit::Other, "INTERNAL", "the host of this command has been started already"));
        }
        Ok(self.running_host.get_or_init(|| self.start_host(options)))
    }

    /// Returns the host of this command. If none was started, starts one for calls that the user types.
    fn running_host(&self) -> &RunningHost {
        self.running_host.get_or_init(|| {
            self.start_host(HostOptions {
                gate: self.gate_for_typed_calls(),
                asker: self.terminal(),
                on_failure: OnFailure::Report,
            })
        })
    }

    fn start_host(&self, options: HostOptions) -> RunningHost {
        let HostOptions { gate, asker, on_failure } = options;
        // The audit log names the agent of `--agent`, if there is one.
        let other_agent = None;
        let host = self.host_parts.create_host(gate, asker, other_agent);
        host.set_naming(self.host_settings.load().naming.clone());
        let log_keeper = self.host_parts.start_log_keeper(&host);
        // All servers of this host are the command's own, so all of them are shown.
        let server_output = (self.command_line.global.verbose > 0).then(|| self.server_output(&host, |_| true));
        RunningHost { host, on_failure, log_keeper, server_output, screen: Arc::clone(&self.screen) }
    }

    /// Returns the gate, which decides which calls run, for calls that the user types: they run unless a rule denies
    /// them or wants a confirmation.
    pub(super) fn gate_for_typed_calls(&self) -> Arc<dyn Gate> {
        let policy = &self.host_settings.load().policy;
        if policy.is_empty() { Arc::new(AllowAll) } else { Arc::new(policy.clone()) }
    }

    /// Starts to show the logs of those servers of `host` for which `shows` returns true.
    pub(super) fn server_output(
        &self,
        host: &Host,
        shows: impl Fn(&ServerName) -> bool + Send + 'static,
    ) -> ServerOutput {
        ServerOutput::start(host.events(), Arc::clone(&self.screen), shows)
    }

    /// Returns the host of this command; if there is none yet, starts one for calls that the user types. It runs no
    /// server before it is connected.
    pub(crate) fn host(&self) -> Host {
        self.running_host().host.clone()
    }

    /// Connects to the servers of `desired`, for calls that the user types, and waits until each has connected or
    /// failed once. If a daemon runs the command, returns a host with the daemon's connections instead.
    ///
    /// # Errors
    /// When a daemon runs the command and cannot lend it these servers.
    pub(crate) async fn connect(&self, desired: Desired) -> Result<Host, Failure> {
        match &self.lent {
            Some(lent) => self.borrow(lent, &desired, Purpose::Connections).await,
            None => Ok(self.running_host().connect(desired).await),
        }
    }

    /// As [`Self::connect`], for commands that say whether servers work. Also starts each idle server (one that
    /// normally starts at its first call): until it starts, only the data that an earlier run stored are known.
    ///
    /// # Errors
    /// As [`Self::connect`].
    pub(crate) async fn connect_to_check(&self, desired: Desired) -> Result<Host, Failure> {
        let host = self.connect(desired).await?;
        for server in host.status() {
            if matches!(server.state, State::Idle { .. }) {
                // Fails only if the host has no such server.
                let _ = host.reconnect(server.name.as_str());
            }
        }
        match &self.lent {
            Some(_) => host.settled().await,
            None => self.running_host().settle().await,
        }
        Ok(host)
    }

    /// As [`Self::connect`], for commands that only show servers and their tools. If a daemon lends its servers, the
    /// command also shows those to which the daemon could not connect, and does not connect to them itself.
    ///
    /// # Errors
    /// As [`Self::connect`].
    pub(crate) async fn connect_for_list(&self, desired: Desired) -> Result<Host, Failure> {
        match &self.lent {
            Some(lent) => self.borrow(lent, &desired, Purpose::Status).await,
            None => Ok(self.running_host().connect(desired).await),
        }
    }
}
