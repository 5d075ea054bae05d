//! The context of a command that a daemon runs for another process, the borrower. The daemon lends its servers, and the
//! borrower is the terminal. The daemon lends nothing if the borrower, by itself, would start other servers.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    path::PathBuf,
    sync::{Arc, OnceLock},
    time::Duration,
};

use arc_swap::ArcSwap;
use futures::future::join;
use tokio::{sync::broadcast::error::RecvError, time::timeout};
use toolrack_config::{Environment, Interpolate, Loaded, Places, SecretGate};
use toolrack_daemon::CurrentWorld;
use toolrack_host::{
    ChildPlan, Desired, Host, Resolver, ServerName, ServerSpec, State,
    spec::{InheritEnv, OAuth, Stdio, Transport, Trust},
    text,
};
use toolrack_team::TenantQuotas;

use super::{
    CommandLine, Context, HostParts, HostSettings,
    opening::{PROXIES, on_message},
};
use crate::{
    args::Global,
    asker::Terminal,
    error::{Exit, Failure},
    lending::BorrowerLines,
    screen::Screen,
    secrets,
    server_output::ServerOutput,
};

/// How long to wait for a server that is connecting, before the borrower runs the command itself.
const CONNECT_WAIT: Duration = Duration::from_millis(500);

/// Variables that differ between terminals, and that a server without a terminal does not use.
const TERMINAL_VARIABLES: &[&str] = &["OLDPWD", "PWD", "SHLVL", "TERM", "_"];

/// The parts of a daemon that a command uses.
#[derive(Debug)]
pub(super) struct LentContext {
    /// The daemon's current world (its host, rules and questions). The user may have stopped servers of it.
    daemon_world: CurrentWorld,
    loaded: Arc<Loaded>,
    host: Host,
    /// The variables of the borrower.
    environment: Environment,
    /// Why the borrower must run the command itself, because its result could differ. Set once a reason is known.
    decline_reason: OnceLock<String>,
    /// Shows the messages of the servers, if the user asked for that.
    server_output: OnceLock<ServerOutput>,
}

/// The purpose for which a command needs servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// The command sends requests to the servers, so they must be connected.
    Connections,
    /// The command shows the state of the servers, whether they are connected or not.
    Status,
}

/// A process that asks the daemon to run a command.
pub(crate) struct Borrower {
    pub(crate) global: Global,
    pub(crate) folder: PathBuf,
    pub(crate) environment: Environment,
    pub(crate) screen: Arc<Screen>,
    pub(crate) lines: BorrowerLines,
    /// The text of `--args`, if the process has read it already.
    pub(crate) args_text: Option<String>,
}

impl LentContext {
    pub(super) fn loaded(&self) -> Loaded {
        Loaded::clone(&self.loaded)
    }
}

impl Context {
    /// Returns the context for the command of `borrower`. `self` is the daemon's context, whose servers it lends.
    ///
    /// # Errors
    /// The reason why the borrower by itself would have another configuration, as a text for the user.
    pub(crate) async fn lend(&self, borrower: Borrower, daemon_world: &CurrentWorld) -> Result<Self, String> {
        let Borrower { global, folder, mut environment, screen, lines, args_text } = borrower;
        // Removes the variable, so that no server and no placeholder gets it.
        let given_key = environment.take(secrets::VARIABLE);
        let daemon_options = &self.command_line.global;
        let has_same_places = || Places::from_env(&environment).is_ok_and(|places| places == self.places);
        let has_same_files = global.mcp_config == daemon_options.mcp_config
            && global.strict_mcp_config == daemon_options.strict_mcp_config;
        // The first reason that applies; empty if none does.
        let why = match () {
            () if folder != self.folder => format!("it was started in another folder, {}", self.folder.display()),
            () if !has_same_files || !self.command_line.inline_configs.is_empty() => {
                "it has other `--mcp-config` files".to_owned()
            }
            () if global.agent != daemon_options.agent => "it is for another `--agent`".to_owned(),
            () if !global.root.is_empty() => "its servers have no `--root`".to_owned(),
            () if !has_same_places() => "its configuration or its data are elsewhere".to_owned(),
            () if !self.secret_store.uses_same_key(given_key) => "another key opens its secrets".to_owned(),
            () if !self.has_store() => "it has no database".to_owned(),
            () => String::new(),
        };
        if !why.is_empty() {
            return Err(why);
        }
        let loaded = daemon_world.loaded().await.ok_or("it is ending")?;
        screen.conceal(self.secrets());
        let (policy, naming) = (loaded.settings.policy.clone(), loaded.settings.tools.naming.clone());
        let settings = HostSettings { policy, naming, configured_servers: Vec::new() };
        let terminal = Arc::new(Terminal::for_borrower(Arc::clone(&screen), lines));
        let lent = LentContext {
            daemon_world: daemon_world.clone(),
            loaded,
            host: self.host(),
            environment: environment.clone(),
            decline_reason: OnceLock::new(),
            server_output: OnceLock::new(),
        };
        let host_parts = HostParts {
            keeps_answers: global.one_off.is_none(),
            tape: None,
            on_message: on_message(&global, &screen, &self.host_parts.secrets),
            quotas: TenantQuotas::of_machine(),
            is_shared: false,
            tracer: None,
            ..self.host_parts()
        };
        Ok(Self {
            screen,
            places: self.places.clone(),
            folder,
            environment,
            command_line: CommandLine { global, inline_configs: Vec::new(), args_text: args_text.map(Ok) },
            terminal,
            secret_store: Arc::clone(&self.secret_store),
            database_server: None,
            host_parts,
            host_settings: ArcSwap::from_pointee(settings),
            running_host: OnceLock::new(),
            lent: Some(Box::new(lent)),
        })
    }

    /// Returns why the borrower must run the command itself; `None` while all servers that were compared are the same.
    pub(crate) fn decline_reason(&self) -> Option<&str> {
        self.lent.as_ref()?.decline_reason.get().map(String::as_str)
    }

    /// Compares the daemon's servers with those that the borrower would start. Returns a line for each server that
    /// differs: its name, and how it differs.
    pub(crate) async fn differences(&self) -> Vec<String> {
        let Some(lent) = &self.lent else { return Vec::new() };
        let mut differences = Vec::new();
        for (name, spec) in &lent.loaded.desired {
            // Other servers are started by neither process.
            if spec.enabled && spec.trust == Trust::Trusted {
                differences.extend(self.difference_for(lent, name, spec, Purpose::Connections).await);
            }
        }
        differences
    }

    /// Shows the remaining messages of servers, and then no more.
    pub(crate) async fn close_server_output(&self) {
        if let Some(server_output) = self.lent.as_ref().and_then(|lent| lent.server_output.get()) {
            server_output.close().await;
        }
    }

    /// Returns a host with the servers of `desired` from the daemon's host, if the borrower would have the same
    /// servers. Otherwise sets [`LentContext::decline_reason`], and returns an error that the user does not see.
    pub(super) async fn borrow(
        &self,
        lent: &LentContext,
        desired: &Desired,
        purpose: Purpose,
    ) -> Result<Host, Failure> {
        // For connections, `difference_for` waits for each server that the command needs.
        let is_ready = purpose == Purpose::Connections || lent.has_tried_all().await;
        let mut why = (!is_ready).then(|| "its servers are still being connected".to_owned());
        for (name, spec) in desired {
            if why.is_none() {
                why = self.difference_for(lent, name, spec, purpose).await;
            }
        }
        if let Some(why) = why {
            // The first reason stays.
            let _ = lent.decline_reason.set(why);
            return Err(Failure::new(Exit::Other, "ELSEWHERE", "the daemon has other servers"));
        }
        if self.command_line.global.verbose > 0 {
            let shown_servers: Vec<_> = desired.keys().cloned().collect();
            lent.server_output
                .get_or_init(|| self.server_output(&lent.host, move |server| shown_servers.contains(server)));
        }
        let gate = Arc::new(SecretGate::new(self.gate_for_typed_calls(), self.secrets()));
        Ok(lent.host.excerpt(|name| desired.contains_key(name), self.terminal(), gate).await)
    }

    /// Returns how the daemon's server `name` differs from the borrower's, such as in its state or its variables;
    /// `None` if the two do not differ.
    async fn difference_for(
        &self,
        lent: &LentContext,
        name: &ServerName,
        spec: &ServerSpec,
        purpose: Purpose,
    ) -> Option<String> {
        if let Some(why) = lent.state_difference(name, spec, purpose).await {
            return Some(format!("`{name}` {why}"));
        }
        if !spec.enabled || spec.trust == Trust::Pending {
            return None;
        }
        let borrower_secrets = self.host_parts.secrets.with_environment(lent.environment.clone());
        let why = match join(
            StartValues::resolve(name, spec, &self.host_parts.secrets),
            StartValues::resolve(name, spec, &borrower_secrets),
        )
        .await
        {
            (Ok(daemon), Ok(borrower)) => daemon.difference(&borrower)?,
            // Both lack the same variable, so the server fails in the same way.
            (Err(daemon), Err(borrower)) if purpose == Purpose::Status && daemon == borrower => return None,
            _ => "needs a variable that is not set in both places".to_owned(),
        };
        Some(format!("`{name}` {why}"))
    }
}

/// The resolved values with which a server is started. If they are equal for the daemon and the borrower, the server is
/// the same.
#[derive(PartialEq, Eq)]
enum StartValues {
    Child(Box<ChildValues>),
    Requests {
        /// `None` if its placeholders cannot be resolved.
        url: Option<String>,
        /// `None` if their placeholders cannot be resolved.
        headers: Option<Vec<(String, String)>>,
        /// The program that prints headers; `None` if there is none, or if its placeholders cannot be resolved.
        headers_helper: Option<Box<ChildValues>>,
        /// The settings of the sign-in; `None` if their placeholders cannot be resolved.
        oauth: Option<Box<OAuth>>,
        /// The values of [`PROXIES`].
        proxies: Vec<Option<OsString>>,
    },
    /// The built-in server.
    BuiltIn,
}

/// The resolved values with which a child process is started.
#[derive(PartialEq, Eq)]
struct ChildValues {
    /// How the process is started; its variables are left out here.
    plan: ChildPlan,
    /// The variables that the entry (the server's configuration in a file) uses. Other variables make no difference.
    variables: BTreeMap<OsString, OsString>,
    /// The program that the command resolves to in `PATH`; `None` if the command is a path, or is not found.
    program: Option<PathBuf>,
}

impl ChildValues {
    /// Returns the values of `stdio`, a part of the server `name`, when `secrets` resolves the placeholders.
    ///
    /// # Errors
    /// When a placeholder cannot be resolved, as a text for the user.
    async fn resolve(name: &ServerName, stdio: &Stdio, secrets: &Interpolate) -> Result<Self, String> {
        let plan = secrets.stdio(name, stdio).await.map_err(|error| error.to_string())?;
        let mut variables: BTreeMap<_, _> = plan.env.iter().cloned().collect();
        let path = variables.get(OsStr::new("PATH"));
        let is_searched_in_path = !plan.command.contains('/') && plan.container.is_none();
        let find_program = || which::which_in_global(&plan.command, path).ok()?.next();
        let program = is_searched_in_path.then(find_program).flatten();
        variables.retain(|name, _| uses_variable(stdio, name));
        Ok(Self { plan: ChildPlan { env: Vec::new(), ..plan }, variables, program })
    }
}

impl StartValues {
    /// Returns the start values of the server `name` when `secrets` resolves the placeholders.
    ///
    /// # Errors
    /// When a placeholder of a child process cannot be resolved, as a text for the user.
    async fn resolve(name: &ServerName, spec: &ServerSpec, secrets: &Interpolate) -> Result<Self, String> {
        Ok(match &spec.transport {
            Transport::Stdio(stdio) => Self::Child(Box::new(ChildValues::resolve(name, stdio, secrets).await?)),
            Transport::Http(http) | Transport::Sse(http) => {
                let environment = secrets.environment();
                let headers_helper = match &http.headers_helper {
                    Some(helper) => ChildValues::resolve(name, helper, secrets).await.ok().map(Box::new),
                    None => None,
                };
                Self::Requests {
                    url: secrets.url(name, http).await.ok(),
                    headers: secrets.headers(name, http).await.ok(),
                    headers_helper,
                    oauth: secrets.oauth(name, http).await.ok().map(Box::new),
                    proxies: PROXIES.iter().map(|proxy| environment.get(proxy).map(ToOwned::to_owned)).collect(),
                }
            }
            Transport::Native(_) => Self::BuiltIn,
        })
    }
}

impl StartValues {
    /// Returns the difference to the values of the borrower in words, without any value; `None` if there is none.
    fn difference(&self, borrower: &Self) -> Option<String> {
        if self == borrower {
            return None;
        }
        Some(match (self, borrower) {
            (Self::Child(child), Self::Child(other)) => {
                let mut names = child.variables.keys().chain(other.variables.keys());
                match names.find(|name| child.variables.get(*name) != other.variables.get(*name)) {
                    Some(name) => format!("has another `{}` there", text::for_line(&name.to_string_lossy())),
                    None if child.plan != other.plan => {
                        "is started in another way there: a variable in its entry has another value".into()
                    }
                    None => "is another program there, because `PATH` differs".into(),
                }
            }
            (Self::Requests { proxies, .. }, Self::Requests { proxies: other_proxies, .. })
                if proxies != other_proxies =>
            {
                "has another proxy there".into()
            }
            _ => "has another address, other headers or another sign-in there".into(),
        })
    }
}

/// Returns whether the entry uses the variable `name`: sets it, or lets the server inherit it. For a container all
/// variables count, because the client of the container engine reads variables of its own.
fn uses_variable(stdio: &Stdio, name: &OsStr) -> bool {
    let is_name = |other: &str| name == other;
    if stdio.env.keys().any(|key| is_name(key)) {
        return true;
    }
    match &stdio.inherit_env {
        _ if TERMINAL_VARIABLES.iter().any(|other| is_name(other)) => false,
        _ if stdio.container.is_some() => true,
        InheritEnv::All => true,
        InheritEnv::Names(names) => names.iter().any(|other| is_name(other)),
        InheritEnv::Safe | InheritEnv::None => false,
    }
}

impl LentContext {
    /// Returns whether each server has connected or failed at least once. Waits up to [`CONNECT_WAIT`] for that.
    async fn has_tried_all(&self) -> bool {
        timeout(CONNECT_WAIT, self.host.settled()).await.is_ok()
    }

    /// Returns how the state of `name` differs from the state that the borrower by itself would see; `None` if the two
    /// do not differ.
    async fn state_difference(&self, name: &ServerName, spec: &ServerSpec, purpose: Purpose) -> Option<String> {
        if self.daemon_world.is_stopped(name.as_str()) {
            return Some("is stopped there".to_owned());
        }
        let state = match purpose {
            Purpose::Connections => match timeout(CONNECT_WAIT, self.settled_state(name)).await {
                Ok(state) => state,
                Err(_) => self.state(name),
            },
            Purpose::Status => self.state(name),
        };
        let word = state.as_ref().map_or("not known", State::word).replace('_', " ");
        let is_the_same = match state {
            Some(State::Connected { .. } | State::Idle { .. }) => true,
            Some(State::Disabled) => !spec.enabled,
            Some(State::PendingTrust) => spec.trust == Trust::Pending,
            // The borrower by itself would try to connect again.
            Some(_) => purpose == Purpose::Status,
            None => false,
        };
        (!is_the_same).then(|| format!("is {word} there"))
    }

    /// Returns the state of `name`; `None` if the daemon has no such server.
    fn state(&self, name: &ServerName) -> Option<State> {
        self.host.status().into_iter().find(|server| server.name == *name).map(|server| server.state)
    }

    /// Returns the state of `name`, once it has connected or failed; `None` if the daemon has no such server.
    async fn settled_state(&self, name: &ServerName) -> Option<State> {
        let mut events = self.host.events();
        loop {
            let state = self.state(name)?;
            if state != State::Connecting {
                return Some(state);
            }
            // Other errors mean that events were lost: read the state again.
            if let Err(RecvError::Closed) = events.recv().await {
                return None;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use toolrack_config::UnsetPolicy;
    use toolrack_host::spec::Http;

    use super::*;

    /// Returns how the values differ if the variable `WHO` has another value for the borrower.
    async fn difference(http: Http) -> Option<String> {
        difference_in(http, ["ada", "bob"].map(|who| Environment::new([("WHO", who)]))).await
    }

    /// Returns how the values differ in the environments of the daemon and of the borrower.
    async fn difference_in(http: Http, environments: [Environment; 2]) -> Option<String> {
        let spec = ServerSpec::new(Transport::Http(http));
        let name = ServerName::new("demo").unwrap();
        let mut both = Vec::new();
        for environment in environments {
            let secrets = Interpolate::new(environment, UnsetPolicy::Error);
            both.push(StartValues::resolve(&name, &spec, &secrets).await.unwrap());
        }
        both[0].difference(&both[1])
    }

    #[tokio::test]
    async fn a_variable_in_anything_that_a_request_needs_makes_a_difference() {
        let url = || Http { url: "https://mcp.example".into(), ..Http::default() };
        let helper = || Stdio { command: "key".into(), ..Stdio::default() };
        let helpers = [
            Stdio { args: vec!["--for=${WHO}".into()], ..helper() },
            Stdio { env: [("ACCOUNT".to_owned(), "${WHO}".to_owned())].into(), ..helper() },
            Stdio { inherit_env: InheritEnv::Names(vec!["WHO".to_owned()]), ..helper() },
        ];
        let oauth = OAuth { client_id: Some("${WHO}".into()), ..OAuth::default() };
        let with_helper = |helper| Http { headers_helper: Some(Box::new(helper)), ..url() };
        for http in [url(), with_helper(helper())] {
            assert_eq!(difference(http).await, None);
        }
        let parts = [
            Http { url: "https://${WHO}.example".into(), ..url() },
            Http { headers: [("X-User".to_owned(), "${WHO}".to_owned())].into(), ..url() },
            Http { oauth, ..url() },
        ];
        for http in parts.into_iter().chain(helpers.map(with_helper)) {
            assert!(difference(http).await.is_some());
        }
    }

    #[tokio::test]
    async fn a_program_that_prints_headers_makes_a_difference_if_another_one_is_found() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let environments = ["ada", "bob"].map(|who| {
            let program = folder.path().join(who).join("key");
            std::fs::create_dir(program.parent().unwrap()).unwrap();
            std::fs::write(&program, "").unwrap();
            std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
            Environment::new([("PATH", folder.path().join(who))])
        });
        let with_helper = |command: PathBuf| {
            let helper = Stdio { command: command.to_str().unwrap().into(), ..Stdio::default() };
            Http { url: "https://mcp.example".into(), headers_helper: Some(Box::new(helper)), ..Http::default() }
        };
        assert!(difference_in(with_helper("key".into()), environments.clone()).await.is_some());
        assert_eq!(difference_in(with_helper(folder.path().join("ada/key")), environments).await, None);
    }
}
