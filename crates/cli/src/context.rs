//! Puts together the [`Context`], with which one command works: the configuration, the database, the built-in server,
//! the terminal that asks the user, and the host. The host connects to servers and runs the calls of their tools.

mod hosts;
mod lent;
mod members;
mod notes;
mod opening;
mod reading;
mod rows;
mod running;
mod tape;

use std::{
    path::PathBuf,
    sync::{Arc, OnceLock},
};

use arc_swap::ArcSwap;
use toolrack_auth::SignIn;
use toolrack_config::{Audit, Environment, Interpolate, Loaded, Places};
use toolrack_host::{
    Asker as _, Conceal, Egress, Naming, Policy, Resolver,
    spec::{Transport, Trust},
};
use toolrack_store::{ArtifactFolder, Retention, Store, Uuid};

use self::lent::LentContext;
pub(crate) use self::{
    hosts::HostParts,
    lent::Borrower,
    members::MemberParts,
    opening::{ArgsText, CommandLine, Surroundings, TYPED_AS_WORD, working_folder},
    reading::read_stream,
    rows::DatabaseChoice,
    running::{HostOptions, OnFailure, RunningHost},
};
use crate::{
    args::OneOffServer,
    asker::{Sampler, Terminal},
    database::{self, DatabaseServer},
    error::{Exit, Failure, with_causes},
    models::{ModelContext, ModelOptions, SelectedModel},
    notebook::ConfiguredServer,
    screen::Screen,
    secrets::SecretStore,
};

/// Everything that a command works with.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) screen: Arc<Screen>,
    pub(crate) places: Places,
    /// The working folder.
    pub(crate) folder: PathBuf,
    pub(crate) environment: Environment,
    command_line: CommandLine,
    /// Asks the user: one reader of stdin for all questions.
    terminal: Arc<Terminal>,
    /// The values of `${secret:NAME}`.
    secret_store: Arc<SecretStore>,
    /// The database server, if the database is not a file. The daemon of a team opens the stores of its tenants on this
    /// server.
    database_server: Option<DatabaseServer>,
    /// The parts of the hosts of this context.
    host_parts: HostParts,
    /// The settings for the host, from the files that the command has read.
    host_settings: ArcSwap<HostSettings>,
    /// The host of the command, once it is started. [`Context::close`] ends it, even after a failure.
    running_host: OnceLock<RunningHost>,
    /// The daemon's servers, if a daemon runs this command for another process.
    lent: Option<Box<LentContext>>,
}

/// The settings with which the host is created. Also the servers for the notebook (the cache of names for completion),
/// which is written when the context closes.
#[derive(Debug, Default)]
struct HostSettings {
    policy: Policy,
    /// The names under which models see tools.
    naming: Naming,
    /// The configured servers, for the notebook.
    configured_servers: Vec<ConfiguredServer>,
}

impl Context {
    /// Returns the text of `--args`, if another process has read it already.
    pub(crate) fn args_text(&self) -> Option<ArgsText> {
        self.command_line.args_text.clone()
    }

    /// Returns the resolver of placeholders.
    pub(crate) fn resolver(&self) -> &dyn Resolver {
        &*self.host_parts.secrets
    }

    /// Returns the stored secrets.
    pub(crate) fn secret_store(&self) -> &Arc<SecretStore> {
        &self.secret_store
    }

    /// Returns everything that is needed to find a model.
    pub(crate) fn model_context(&self) -> ModelContext {
        ModelContext {
            environment: self.environment.clone(),
            interpolate: Arc::clone(&self.host_parts.secrets),
            file: self.places.settings(),
        }
    }

    /// Returns the [`SignIn`], which signs in to servers and out of them.
    pub(crate) fn sign_in(&self) -> &SignIn {
        &self.host_parts.sign_in
    }

    /// Returns the egress rules: the addresses to which requests may be sent.
    pub(crate) fn egress(&self) -> &Egress {
        &self.host_parts.egress
    }

    /// Returns whether the command must not ask or read anything from the terminal.
    pub(crate) fn has_no_input(&self) -> bool {
        self.command_line.global.no_input
    }

    /// Returns the server that the command line gives for this one command.
    pub(crate) fn one_off(&self) -> Option<&OneOffServer> {
        self.command_line.global.one_off.as_ref()
    }

    /// Returns the agent that `--agent` names.
    pub(crate) fn agent(&self) -> Option<&str> {
        self.command_line.global.agent.as_deref()
    }

    /// Returns whether an MCP client of this process may share the servers of a running daemon: no option and no
    /// variable asks for others.
    pub(crate) fn may_share_daemon(&self) -> bool {
        let CommandLine { global, inline_configs, .. } = &self.command_line;
        let has_own_servers = !global.mcp_config.is_empty()
            || global.strict_mcp_config
            || !inline_configs.is_empty()
            || global.agent.is_some();
        !has_own_servers && global.reason_against_daemon(&self.environment).is_none()
    }

    /// Returns whether the environment names a proxy for HTTP.
    pub(crate) fn has_proxy(&self) -> bool {
        opening::proxies_in(&self.host_parts.secrets.environment()).next().is_some()
    }

    /// Returns whether the database could be opened.
    pub(crate) fn has_store(&self) -> bool {
        self.host_parts.store.is_some()
    }

    /// Returns the database, for commands that cannot work without it.
    ///
    /// # Errors
    /// When the database could not be opened.
    pub(crate) fn store(&self) -> Result<&Store, Failure> {
        self.host_parts.store.as_ref().ok_or_else(|| {
            let message = format!("{} cannot be used", database::file(&self.places).display());
            Failure::new(Exit::Other, "NO_DATABASE", message).hint("correct the problem that is reported above")
        })
    }

    /// Deletes conversations as `[sessions]` of the settings says: those that are too old, and the oldest ones if there
    /// are too many. Keeps `in_use`.
    pub(crate) async fn forget_old_sessions(&self, loaded: &Loaded, in_use: Option<Uuid>) {
        let Some(store) = &self.host_parts.store else {
            return;
        };
        let limits = loaded.settings.sessions;
        let retention = Retention { keep_days: limits.days, keep_sessions: limits.number };
        match store.forget_old_sessions(retention, in_use).await {
            Ok(0) => {}
            Ok(forgotten) => tracing::info!(forgotten, "old sessions were deleted, as `[sessions]` says"),
            // A warning is enough: the next command tries again.
            Err(error) => self.screen.warning(&with_causes(&error)),
        }
    }

    /// Returns a function that hides the secrets of all configured servers, for stored logs, which may repeat them.
    /// Starts and contacts no server, and resolves no placeholder of an entry (a server's configuration in a file) that
    /// waits for the user's agreement.
    pub(crate) async fn concealer_of_configured(&self, loaded: &Loaded) -> impl Fn(&str) -> String + use<> {
        for (name, spec) in loaded.desired.iter().filter(|(_, spec)| spec.trust != Trust::Pending) {
            // `secrets` remembers each value that it fills in, so the results themselves are not needed. If the
            // placeholders of an entry cannot be resolved, its server has not been given any secret.
            match &spec.transport {
                Transport::Stdio(stdio) => drop(self.host_parts.secrets.stdio(name, stdio).await),
                Transport::Http(http) | Transport::Sse(http) => {
                    drop(self.host_parts.secrets.url(name, http).await);
                    drop(self.host_parts.secrets.headers(name, http).await);
                }
                Transport::Native(_) => {}
            }
        }
        self.concealer()
    }

    /// Returns a function that hides secrets: at each call, all that servers have been given until then.
    pub(crate) fn concealer(&self) -> impl Fn(&str) -> String + Send + Sync + use<> {
        let secrets = Arc::clone(&self.host_parts.secrets);
        move |text| secrets.conceal(text).into_owned()
    }

    /// Returns the same function as [`Self::concealer`], in an `Arc`.
    pub(crate) fn conceal(&self) -> Conceal {
        Arc::new(self.concealer())
    }

    /// Asks the user a yes-or-no question. Returns `false` for anything but a clear yes.
    pub(crate) async fn confirm(&self, question: &str) -> bool {
        self.terminal.ask_confirmation(question).await
    }

    /// Checks that a user can be asked, before the command shows what it will ask about. Without a user, the command
    /// needs `--yes`.
    ///
    /// # Errors
    /// When no user can be asked; `why` says why a user must be asked.
    pub(crate) fn require_askable_user(&self, why: &str) -> Result<(), Failure> {
        if self.screen.is_interactive() {
            return Ok(());
        }
        Err(Failure::usage(format!("{why}, and no user can be asked")).hint("check it, then add `--yes`"))
    }

    /// Returns whether a user at the terminal, or `--answer`, can answer a server's form.
    pub(crate) fn can_answer_forms(&self) -> bool {
        self.terminal.abilities().forms
    }

    /// Returns the resolver of placeholders, for callers that outlive this context.
    pub(crate) fn secrets(&self) -> Arc<Interpolate> {
        Arc::clone(&self.host_parts.secrets)
    }

    /// Returns the witness (the observer that records facts in the audit log); `None` without a database.
    pub(crate) fn witness(&self) -> Option<Arc<dyn toolrack_host::Witness>> {
        let other_agent = None;
        self.host_parts.audit.witness(other_agent)
    }

    /// Returns a function that passes the settings to the audit log. It does nothing without a database.
    pub(crate) fn audit_settings_applier(&self) -> impl Fn(Audit) + Send + Sync + use<> {
        let audit = Arc::clone(&self.host_parts.audit);
        move |settings| audit.apply_settings(settings)
    }

    /// Returns the terminal, which asks the user.
    pub(crate) fn terminal(&self) -> Arc<Terminal> {
        Arc::clone(&self.terminal)
    }

    /// Lets `model` answer sampling requests of servers from now on. The user has to agree to each request.
    pub(crate) fn sample_with(&self, model: &SelectedModel) {
        self.terminal.sample_with(Sampler::from_selected(model, self.conceal()));
    }

    /// Like [`sample_with`](Self::sample_with), with the model that `TOOLRACK_MODEL` or `loaded` names. For commands
    /// that need no model themselves.
    pub(crate) fn sample_with_configured_model(&self, loaded: &Loaded) {
        let model_options = ModelOptions::without_arguments(loaded.settings.model.clone(), &self.environment);
        if let Some(sampler) = Sampler::from_options(model_options, self.model_context(), self.conceal()) {
            self.terminal.sample_with(sampler);
        }
    }

    /// Returns the folder for results that are too long for a model.
    pub(crate) fn artifacts(&self) -> ArtifactFolder {
        self.host_parts.artifacts.clone()
    }

    /// Returns the parts for more hosts, which share the user's store, sign-ins and secrets with the host of this
    /// context.
    pub(crate) fn host_parts(&self) -> HostParts {
        self.host_parts.clone()
    }

    /// Stops everything that [`Self::connect`] started, and waits until it has ended. Leaves the database open: the
    /// caller closes it.
    pub(crate) async fn close(&self) {
        let running = self.running_host.get();
        if let Some(running) = running {
            // `note_tools` must come first: when it is first polled, it reads the catalog (the list of all tools),
            // while the servers are still connected. It writes the notes while the servers end.
            tokio::join!(self.note_tools(running.host()), running.host().shutdown());
        }
        // Wait for sign-ins and renewals before the audit log closes, because their outcomes become rows of it.
        self.host_parts.sign_in.settled().await;
        if let Some(running) = running {
            running.close_output().await;
        }
        self.host_parts.audit.close().await;
    }
}
