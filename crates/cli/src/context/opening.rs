//! Opens the context of a command (what the command works with: screen, configuration, database, servers) from the
//! command line and the environment.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
};

use arc_swap::ArcSwap;
use toolrack_auth::{SignIn, SignInBuilder};
use toolrack_config::{Environment, Interpolate, Places, TypedConfig, UnsetPolicy};
use toolrack_host::{Egress, OnMessage, ServerName, Tracer, ask::Root};
use toolrack_store::{ArtifactBounds, ArtifactFolder};
use toolrack_team::TenantQuotas;
use url::Url;

use super::{Context, DatabaseChoice, HostParts, tape::Tape};
use crate::{
    args::{Global, ONE_OFF_NAME, OneOffServer},
    asker::Terminal,
    audit::AuditRecorder,
    database::OpenDatabase,
    editor::Editor,
    error::{Exit, Failure, in_words},
    frames,
    screen::Screen,
    secrets::{self, SecretStore},
    tokens::Tokens,
};

/// The variables that send HTTP through a proxy.
pub(super) const PROXIES: &[&str] =
    &["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"];

/// What the user gave on the command line for any verb.
#[derive(Debug, Default)]
pub(crate) struct CommandLine {
    pub(crate) global: Global,
    /// The configurations that are given as text instead of a file.
    pub(crate) inline_configs: Vec<TypedConfig>,
    /// The text of `--args`, if another process has read it already: stdin can be read only once.
    pub(crate) args_text: Option<ArgsText>,
}

/// The place that errors name for a configuration that is a word of the command line itself.
pub(crate) const TYPED_AS_WORD: &str = "--mcp-config";

impl CommandLine {
    /// Returns the name of a configuration that this process has read from stdin or from a pipe. Another process with
    /// the same command line cannot read it again.
    fn consumed_configuration(&self) -> Option<&str> {
        self.inline_configs.iter().map(|config| &*config.place).find(|place| *place != TYPED_AS_WORD)
    }
}

/// The text of `--args`, or why it cannot be read.
pub(crate) type ArgsText = Result<String, Failure>;

/// The environment in which a command runs.
pub(crate) struct Surroundings {
    pub(crate) environment: Environment,
    /// The working folder.
    pub(crate) folder: PathBuf,
    pub(crate) screen: Arc<Screen>,
    /// Adds calls to OpenTelemetry traces.
    pub(crate) tracer: Option<Arc<dyn Tracer>>,
}

/// Returns the working folder of this process.
///
/// # Errors
/// When there is none, or it cannot be used.
pub(crate) fn working_folder() -> Result<PathBuf, Failure> {
    std::env::current_dir().map_err(|error| {
        let message = format!("the working folder cannot be used: {}", in_words(&error));
        Failure::new(Exit::Other, "NO_WORKING_FOLDER", message)
    })
}

impl Context {
    /// Opens the context of a command.
    ///
    /// # Errors
    /// When the place of the configuration is unknown, a `--root` is not a folder, the database of a team cannot be
    /// opened, or the recording of `record` or `replay` cannot be used.
    pub(crate) async fn open(
        command_line: CommandLine,
        surroundings: Surroundings,
        database_choice: DatabaseChoice<'_>,
    ) -> Result<Self, Failure> {
        let Surroundings { mut environment, folder, screen, tracer } = surroundings;
        let global = &command_line.global;
        // Removes the variable, so that no server and no placeholder gets it.
        let given_key = environment.take(secrets::VARIABLE);
        let places = Places::from_env(&environment).map_err(|error| Failure::config(error.to_string()))?;
        let roots = global.root.iter().map(|folder| mcp_root(folder)).collect::<Result<_, _>>()?;
        let (store, database_server) = match database_choice.open(&places, &environment).await? {
            Ok(OpenDatabase { store, database_server }) => (Some(store), database_server),
            Err(failure) => {
                screen.warning(&failure.message);
                (None, None)
            }
        };
        let keychain = secrets::Keychain::from_environment(&environment);
        let secret_store = Arc::new(SecretStore::new(store.clone(), given_key, places.data(), keychain));
        let secrets = Interpolate::new(environment.clone(), UnsetPolicy::Error)
            .with_secrets(Arc::<SecretStore>::clone(&secret_store))
            .with_homes(places.data().join("sandbox"))
            .with_own_folders(places.own_folders());
        let secrets = Arc::new(secrets);
        screen.conceal(Arc::clone(&secrets));
        let egress = Egress::default().with_proxies_of_environment(proxies_in(&environment));
        let audit = Arc::new(AuditRecorder::new(store.clone(), Arc::clone(&secrets), global.agent.clone()));
        let sign_in = sign_in_builder(&secret_store, &secrets, &egress, &audit, global.one_off.clone()).build();
        let terminal =
            Terminal::new(Arc::clone(&screen), roots, Editor::from_environment(&environment)).with_answers(global)?;
        let host_parts = HostParts {
            artifacts: ArtifactFolder::new(places.data().join("artifacts"), ArtifactBounds::default()),
            keeps_answers: global.one_off.is_none(),
            tape: Tape::open(global.tape.as_ref(), &secrets).await?,
            on_message: on_message(global, &screen, &secrets),
            quotas: TenantQuotas::of_machine(),
            is_shared: false,
            loan: None,
            store,
            secrets,
            sign_in,
            egress,
            tracer,
            audit,
        };
        Ok(Self {
            screen,
            places,
            folder,
            environment,
            command_line,
            terminal: Arc::new(terminal),
            secret_store,
            database_server,
            host_parts,
            host_settings: ArcSwap::default(),
            running_host: OnceLock::new(),
            lent: None,
        })
    }

    /// Refuses a configuration from stdin or a pipe, for a command whose words another process will get.
    ///
    /// # Errors
    /// When there is such a configuration.
    pub(crate) fn refuse_consumed_configuration(&self) -> Result<(), Failure> {
        let Some(place) = self.command_line.consumed_configuration() else { return Ok(()) };
        let message = format!("a daemon in the background cannot read the configuration from {place}");
        Err(Failure::usage(message).hint("write it into a file, and give that to `--mcp-config`"))
    }

    /// Makes this the context of a tenant (a group of members of a team). The members share the servers, and `quotas`
    /// counts what they use.
    pub(crate) fn for_tenant(mut self, quotas: TenantQuotas) -> Self {
        (self.host_parts.quotas, self.host_parts.is_shared) = (quotas, true);
        self
    }
}

/// The proxies that the variables name.
pub(super) fn proxies_in(environment: &Environment) -> impl Iterator<Item = &str> {
    PROXIES.iter().filter_map(|name| environment.get(name)?.to_str()).filter(|value| !value.is_empty())
}

/// Returns a function that shows the messages of servers, if the user asked for that (`-vv`).
pub(super) fn on_message(global: &Global, screen: &Arc<Screen>, secrets: &Arc<Interpolate>) -> Option<OnMessage> {
    (global.verbose > 1).then(|| frames::show_messages(Arc::clone(screen), Arc::clone(secrets)))
}

/// Returns a builder for the sign-in, which authorizes requests to servers with the stored tokens.
pub(super) fn sign_in_builder(
    secret_store: &Arc<SecretStore>,
    secrets: &Arc<Interpolate>,
    egress: &Egress,
    audit: &AuditRecorder,
    one_off: Option<OneOffServer>,
) -> SignInBuilder {
    let known_secrets = Arc::clone(secrets);
    let builder = SignIn::builder(Arc::new(Tokens(Arc::clone(secret_store))))
        .resolver(Arc::<Interpolate>::clone(secrets))
        .sign_in_hint(move |server, scopes| sign_in_command(server, scopes, one_off.as_ref()))
        .egress(egress.clone())
        .secrets(move |secret| known_secrets.add_secret(secret));
    let other_agent = None;
    match audit.witness(other_agent) {
        Some(witness) => builder.witness(witness),
        None => builder,
    }
}

/// Returns the command with which the user signs in to `server`, with these scopes if there are any.
fn sign_in_command(server: &ServerName, scopes: &[String], one_off: Option<&OneOffServer>) -> String {
    if let (Some(OneOffServer::Url(url)), ONE_OFF_NAME) = (one_off, server.as_str()) {
        // A server for one command has no name that `login` could use.
        return format!("toolrack add NAME {}", shell_words::quote(url));
    }
    let words = ["toolrack", "login", server.as_str()].into_iter();
    shell_words::join(words.chain(scopes.iter().flat_map(|scope| ["--scope", scope])))
}

/// Returns `folder` as an MCP root: a folder of which servers may ask to know.
fn mcp_root(folder: &Path) -> Result<Root, Failure> {
    let root_error =
        |why: &str| Failure::usage(format!("--root {}: {why}", folder.display())).hint("give a folder that exists");
    let real_path = folder.canonicalize().map_err(|error| root_error(&in_words(&error)))?;
    if !real_path.is_dir() {
        return Err(root_error("it is not a folder"));
    }
    let uri = Url::from_directory_path(&real_path).map_err(|()| root_error("it has no URL"))?;
    Ok(Root { uri: uri.to_string(), name: real_path.file_name().map(|name| name.to_string_lossy().into_owned()) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_read_from_stdin_or_a_pipe_is_consumed_and_a_word_is_not() {
        let consumed = |places: &[&str]| {
            let config = |place: &&str| TypedConfig { place: (*place).to_owned(), text: String::new() };
            let command_line =
                CommandLine { inline_configs: places.iter().map(config).collect(), ..CommandLine::default() };
            command_line.consumed_configuration().map(str::to_owned)
        };
        assert_eq!(consumed(&[]), None);
        assert_eq!(consumed(&[TYPED_AS_WORD]), None);
        assert_eq!(consumed(&[TYPED_AS_WORD, "/dev/fd/63"]).as_deref(), Some("/dev/fd/63"));
        assert_eq!(consumed(&["stdin"]).as_deref(), Some("stdin"));
    }
}
