//! Reads the configuration, and the user's approvals of its entries (each configures one server).

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use toolrack_config::{
    Entry, Loaded, Problem, Request, TypedConfig,
    trust::{Candidate, Ledger},
};
use toolrack_daemon::approval_of;
use toolrack_host::{Caller, Way};
use toolrack_store::{Approval, LogLine, LogQuery, Refusal};

use super::{Context, HostSettings, notes::servers_to_note};
use crate::{args::ONE_OFF_NAME, builtin, database, error::Failure, models};

impl Context {
    /// Reads the configuration and shows what is wrong with it.
    ///
    /// # Errors
    /// When a file of `--mcp-config` cannot be used, or there is no agent with the name in `--agent`. The command would
    /// then run without that agent's rules. In other files, only the broken parts are ignored.
    pub(crate) async fn load(&self) -> Result<Loaded, Failure> {
        let loaded = self.read().await;
        let is_named = |path: &PathBuf| {
            let mut inline_configs = self.command_line.inline_configs.iter();
            self.command_line.global.mcp_config.iter().any(|named| self.folder.join(named) == *path)
                || inline_configs.any(|config| *path == Path::new(&config.place))
        };
        let unusable =
            loaded.errors().find(|problem| problem.entry.is_none() && problem.path.as_ref().is_some_and(is_named));
        if let Some(problem) = unusable {
            return Err(unusable_file(problem));
        }
        if let Some(problem) = self.command_line.global.agent.as_deref().and_then(|agent| loaded.unknown_agent(agent)) {
            return Err(Failure { hint: problem.hint, ..Failure::config(problem.message) });
        }
        for problem in loaded.problems.iter().filter(|problem| !problem.is_minor) {
            self.screen.problem(problem);
        }
        Ok(loaded)
    }

    /// With `--strict`, checks that nothing in the configuration is broken.
    ///
    /// # Errors
    /// When something is broken; names the first problem.
    pub(crate) async fn check_strict(&self) -> Result<(), Failure> {
        if !self.command_line.global.strict {
            return Ok(());
        }
        let loaded = self.read().await;
        let Some(problem) = loaded.errors().next() else { return Ok(()) };
        let message = format!("{}: {} (--strict)", problem.place(), problem.message);
        let hint = "`toolrack config validate` shows all that is wrong".to_owned();
        Err(Failure { hint: problem.hint.clone().or(Some(hint)), ..Failure::config(message) })
    }

    /// Whether `--strict` was given.
    pub(crate) fn is_strict(&self) -> bool {
        self.command_line.global.strict
    }

    /// Returns the request for the configuration: which files to read, and for which agent.
    pub(crate) fn request(&self) -> Request {
        let mut request = Request::new(self.places.clone(), &self.folder);
        request.mcp_config.clone_from(&self.command_line.global.mcp_config);
        request.strict = self.command_line.global.strict_mcp_config;
        request.agent.clone_from(&self.command_line.global.agent);
        request.check_model = Some(models::check_name);
        request.built_in = builtin::desired_servers(&self.folder);
        request.typed.clone_from(&self.command_line.inline_configs);
        if self.command_line.global.one_off.is_some() {
            // Only the server of this one command: no other server is started or can interfere.
            request.strict = true;
            request.built_in.clear();
        }
        request
    }

    /// Reads the configuration, and applies its settings to the parts of this context. Shows no problem of the
    /// configuration, only a warning if the approvals cannot be read.
    pub(crate) async fn read(&self) -> Loaded {
        if let Some(lent) = &self.lent {
            return lent.loaded();
        }
        let request = self.request();
        let approvals = self.approvals().await.unwrap_or_else(|failure| {
            self.screen.warning(&failure.message);
            Vec::new()
        });
        let loaded = load_on_thread(request, move |candidate: &Candidate<'_>| {
            approvals.iter().any(|approval| approval.covers(candidate.project, candidate.name, candidate.hash))
        })
        .await;
        let loaded = if self.command_line.global.one_off.is_some() { only_one_off_server(loaded) } else { loaded };
        let loaded = self.with_recorded_servers(loaded).await;
        self.host_parts.secrets.set_unset(loaded.settings.unset);
        match self.running_host.get() {
            Some(running) => running.host().set_naming(loaded.settings.tools.naming.clone()),
            None => self.host_settings.store(Arc::new(host_settings(&loaded))),
        }
        self.host_parts.egress.set(loaded.settings.egress.clone());
        self.host_parts.audit.apply_settings(loaded.settings.audit);
        loaded
    }

    /// Reads `files` and no other configuration, to check them.
    pub(crate) async fn read_files(&self, files: &[PathBuf]) -> Loaded {
        let mut request = Request::new(self.places.clone(), &self.folder);
        request.check_model = Some(models::check_name);
        let mut unreadable = Vec::new();
        for file in files {
            let path = self.folder.join(file);
            match on_thread(move || TypedConfig::read_stream(&path)).await {
                Ok(Some(configuration)) => request.typed.push(configuration),
                Ok(None) => request.mcp_config.push(file.clone()),
                Err(problem) => unreadable.push(*problem),
            }
        }
        let mut loaded = on_thread(move || toolrack_config::check(&request)).await;
        loaded.problems.extend(unreadable);
        loaded
    }

    /// The approvals of the entries of projects; none if there is no database.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub(crate) async fn approvals(&self) -> Result<Vec<Approval>, Failure> {
        match &self.host_parts.store {
            Some(store) => store.approvals().await.map_err(|error| database::unusable(&error)),
            None => Ok(Vec::new()),
        }
    }

    /// The entries that the user refused to run, in all projects.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub(crate) async fn refusals(&self) -> Result<Vec<Refusal>, Failure> {
        match &self.host_parts.store {
            Some(store) => store.refusals().await.map_err(|error| database::unusable(&error)),
            None => Ok(Vec::new()),
        }
    }

    /// Stores that the user at the terminal refused to run `entry` as it is. Does nothing for an entry of the user's
    /// own files.
    ///
    /// # Errors
    /// When it cannot be stored; the entry then still waits for the user's agreement.
    pub(crate) async fn refuse(&self, entry: &Entry) -> Result<(), Failure> {
        let Some(project) = &entry.project else {
            return Ok(());
        };
        let refusal = Refusal { project: project.clone(), name: entry.name.clone(), hash: entry.agreement.clone() };
        let result = self.store()?.refuse(&refusal, &Caller::local(Way::Cli)).await;
        result.map_err(|error| database::unusable(&error).server(&*entry.name))
    }

    /// Stores that the user at the terminal approved `entry`. Does nothing for an entry of the user's own files.
    ///
    /// # Errors
    /// When it cannot be stored; the entry then waits for the user's agreement.
    pub(crate) async fn approve(&self, entry: &Entry) -> Result<(), Failure> {
        let Some(approval) = approval_of(entry) else {
            return Ok(());
        };
        let result = self.store()?.approve(&approval, &Caller::local(Way::Cli)).await;
        result.map_err(|error| database::unusable(&error).server(&*entry.name))
    }

    /// Revokes the approval to run `name` of `project`.
    ///
    /// # Errors
    /// When that cannot be stored; the approval then stays in force.
    pub(crate) async fn revoke(&self, project: &Path, name: &str) -> Result<(), Failure> {
        let result = self.store()?.revoke(project, name, &Caller::local(Way::Cli)).await;
        result.map(drop).map_err(|error| database::unusable(&error).server(name))
    }

    /// The stored log lines of servers.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub(crate) async fn stored_log_lines(&self, query: &LogQuery) -> Result<Vec<LogLine>, Failure> {
        self.store()?.log(query).await.map_err(|error| database::unusable(&error))
    }
}

/// Returns the loaded configuration with only the one-off server, which the command line gives for this one command.
fn only_one_off_server(mut loaded: Loaded) -> Loaded {
    loaded.desired.retain(|name, _| name.as_str() == ONE_OFF_NAME);
    loaded.entries.retain(|entry| entry.name == ONE_OFF_NAME);
    loaded
}

fn host_settings(loaded: &Loaded) -> HostSettings {
    HostSettings {
        policy: loaded.settings.policy.clone(),
        naming: loaded.settings.tools.naming.clone(),
        configured_servers: servers_to_note(loaded).collect(),
    }
}

/// Reads the configuration in `path` now if it gives its content only once, such as a pipe; `None` for other files.
///
/// # Errors
/// When it cannot be read.
pub(crate) async fn read_stream(path: PathBuf) -> Result<Option<TypedConfig>, Failure> {
    let result = on_thread(move || TypedConfig::read_stream(&path)).await;
    result.map_err(|problem| unusable_file(&problem))
}

async fn load_on_thread(request: Request, ledger: impl Ledger + Send + 'static) -> Loaded {
    on_thread(move || toolrack_config::load(&request, &ledger)).await
}

/// Reads files on a thread of its own: a pipe may have no writer, a file system may not answer, and Ctrl-C must work
/// meanwhile.
async fn on_thread<T: Send + 'static>(read: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(read).await {
        Ok(result) => result,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The runtime is shutting down: no task waits for the result.
            Err(_) => std::future::pending().await,
        },
    }
}

/// Returns the failure for a file that the user named and that cannot be read.
fn unusable_file(problem: &Problem) -> Failure {
    Failure { hint: problem.hint.clone(), ..Failure::config(format!("{}: {}", problem.place(), problem.message)) }
}
