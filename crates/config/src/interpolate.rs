//! Replaces placeholders such as `${TOKEN}` by values when the host connects to a server. An entry is the configuration
//! of one server.
//!
//! - `paths` resolves the paths of an entry, and `sign_in` the settings of its sign-in.
//! - `working_folder` prepares the working folder of a child process, and `container` the environment of a container.
//! - `known_secrets` remembers the secrets that servers have received, and finds them in texts. It searches for each
//!   secret in its usual encodings (`forms`), and in several `views` of a text, which `unescaped` and `unwrapped` make.

mod container;
mod forms;
mod known_secrets;
mod paths;
mod sign_in;
mod unescaped;
mod unwrapped;
mod views;
mod working_folder;

use std::{
    borrow::Cow,
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    ffi::OsString,
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
};

use data_encoding::HEXLOWER;
use futures::future::BoxFuture;
use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use toolrack_host::{
    ChildPlan, Confinement, ResolveError, Resolver, ServerName,
    spec::{Http, OAuth, Stdio},
};

use self::known_secrets::{KnownSecrets, Retention};
use crate::{
    environment::Environment,
    mask,
    needs::paths_of,
    placeholder::{self, BareName, Reference, TemplateError, expand},
};

/// The treatment of a placeholder whose variable has no value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UnsetPolicy {
    /// Fail, with an error that names the variable and the field. The default.
    #[default]
    Error,
    /// Put an empty text in its place, as shells do.
    Empty,
}

impl UnsetPolicy {
    /// Reads the word of the setting `unset`.
    pub(crate) fn parse(word: &str) -> Option<Self> {
        match word {
            "error" => Some(Self::Error),
            "empty" => Some(Self::Empty),
            _ => None,
        }
    }
}

/// The store that `${secret:NAME}` reads from.
///
/// The store is read for each connection and each request, so a changed secret takes effect with the next one.
pub trait Secrets: Send + Sync {
    /// Returns the secret of this name; `None` when it is not set. An error is for the user, and never contains the
    /// secret.
    fn secret<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Option<String>, String>>;

    /// Returns the value of `${user:NAME}`, which the user of the servers has given; `None` when it is not set. By
    /// default it is the secret of this name, because on a machine with a single user secrets belong to that user.
    fn user_value<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Option<String>, String>> {
        self.secret(name)
    }
}

/// Returns whether `name` is valid for a stored secret: 1 to 64 letters, digits and `_`, `.`, `-`, the first one no dot
/// or dash.
#[must_use]
pub fn is_stored_secret_name(name: &str) -> bool {
    placeholder::is_stored_name(name)
}

/// Resolves `${NAME}` and similar placeholders from environment variables; the host's [`Resolver`].
///
/// | written | means |
/// |---|---|
/// | `${NAME}`, `${env:NAME}` | the variable; an error when it is not set |
/// | `${NAME:-text}` | the variable, or `text` when it is not set or empty; `text` may hold placeholders |
/// | `$NAME`, `$env:NAME` | the same as `${NAME}`, only in values of `env` and `headers` |
/// | `${secret:NAME}` | a [stored secret](Self::with_secrets); an error when it is not set |
/// | `${user:NAME}` | a value that the user of the server [has given](Secrets::user_value); an error without one |
/// | `$$` | one `$` |
/// | `${}`, and braces around anything else, such as `${NAME%x}` | themselves |
///
/// The current variables are read each time. No error and no `Debug` contains a value.
pub struct Interpolate {
    state: RwLock<State>,
    secret_store: Option<Arc<dyn Secrets>>,
    /// The folder in which each confined server has its own home folder.
    homes_folder: Option<PathBuf>,
    /// The folder in which each server has its own working folder. Entries name their working folders by it.
    own_folders: Option<PathBuf>,
    /// The folder in which the working folders are created, if it is not `own_folders`.
    own_folders_moved_to: Option<PathBuf>,
    /// Another resolver, whose secrets this one also conceals.
    other_resolver: Option<Arc<Interpolate>>,
}

/// The parts of an [`Interpolate`] that change while it is in use.
struct State {
    source: Source,
    /// The secrets that servers have received: see [`Interpolate::conceal`].
    known_secrets: KnownSecrets,
}

/// The variables that placeholders get their values from.
#[derive(Clone, Debug)]
struct Source {
    environment: Arc<Environment>,
    unset: UnsetPolicy,
}

impl Interpolate {
    /// Resolves from `environment`.
    #[must_use]
    pub fn new(environment: Environment, unset: UnsetPolicy) -> Self {
        let source = Source { environment: Arc::new(environment), unset };
        let state = RwLock::new(State { source, known_secrets: KnownSecrets::default() });
        Self {
            state,
            secret_store: None,
            homes_folder: None,
            own_folders: None,
            own_folders_moved_to: None,
            other_resolver: None,
        }
    }

    /// Sets the store of secrets; without it there are none.
    #[must_use]
    pub fn with_secrets(mut self, store: Arc<dyn Secrets>) -> Self {
        self.secret_store = Some(store);
        self
    }

    /// Gives each confined server its own home folder below `folder`. Without this, `HOME` of a confined server is the
    /// user's home folder, in which it can see nothing.
    #[must_use]
    pub fn with_homes(mut self, folder: PathBuf) -> Self {
        self.homes_folder = Some(folder);
        self
    }

    /// Creates the working folders of servers below `folder`, which is
    /// [`Places::own_folders`](crate::Places::own_folders). Without this, they must exist already.
    #[must_use]
    pub fn with_own_folders(mut self, folder: PathBuf) -> Self {
        self.own_folders = Some(folder);
        self
    }

    /// Like [`Self::with_own_folders`], but the entries name working folders in `own_folders`: each of them is created
    /// below `folder` instead, under the same name.
    #[must_use]
    pub fn with_own_folders_in(mut self, folder: PathBuf, own_folders: PathBuf) -> Self {
        (self.own_folders_moved_to, self.own_folders) = (Some(folder), Some(own_folders));
        self
    }

    /// Also conceals the secrets that servers received from `other`, and finds them in the arguments of calls.
    #[must_use]
    pub fn also_concealing(mut self, other: Arc<Self>) -> Self {
        self.other_resolver = Some(other);
        self
    }

    /// Returns `text` with `***` in place of every secret that a server has received so far. Secrets are the
    /// values of variables, headers and placeholders with the name of a secret (`API_TOKEN`, `OPENAI_KEY`,
    /// `Authorization`, …). So is each part that [`redact()`](crate::redact()) hides in arguments, values and URLs.
    /// Secrets are also found
    /// in JSON at any depth; secrets of 8 bytes or more are also found in base64, hex or percent-encoding, even across
    /// line breaks of the encoder.
    ///
    /// A server can repeat its secrets, on stderr or in an error. Values of less than 6 bytes are not found. The cost
    /// grows with the length of `text`, not with the number of secrets. At most 10,000 secrets and 16 MiB of them are
    /// remembered. Beyond that, the oldest are forgotten, and secrets of [`Self::add_secret`] before all others.
    #[must_use]
    pub fn conceal<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let concealed = self.read_state().known_secrets.conceal(text);
        match (&self.other_resolver, concealed) {
            (None, concealed) => concealed,
            (Some(other), Cow::Borrowed(text)) => other.conceal(text),
            (Some(other), Cow::Owned(text)) => Cow::Owned(other.conceal(&text).into_owned()),
        }
    }

    /// Returns how many bytes of `text`, the beginning of a stream, can be [concealed](Self::conceal) and shown now. No
    /// secret begins in these bytes and continues after them, whatever text follows.
    #[must_use]
    pub fn safe_len(&self, text: &str) -> usize {
        let length = self.read_state().known_secrets.safe_len(text);
        self.other_resolver.as_ref().map_or(length, |other| length.min(other.safe_len(text)))
    }

    /// Resolves a setting of the program itself: fills in the placeholders of `text`, the value of `field`. With
    /// `is_secret`, its value is concealed from now on, regardless of the variable's name.
    ///
    /// # Errors
    /// [`ResolveError`], which names the field and the variable that has no value.
    pub async fn setting(&self, field: &str, text: &str, is_secret: bool) -> Result<String, ResolveError> {
        let mut user_values = BTreeSet::new();
        placeholder::collect_user_value_names(text, &mut user_values);
        if let Some(name) = user_values.first() {
            let why = format!(
                "`{field}`: `${{user:{name}}}` is for servers only; use `${{secret:NAME}}` or an environment variable"
            );
            return Err(ResolveError::new(why));
        }
        let server = None; // The value is for this program, and goes to no server.
        let values = self.values(server, [text]).await;
        let value = values.resolve(field, text, BareName::Literal)?;
        let secret_parts = if is_secret { vec![value.clone()] } else { mask::secrets_of(&value) };
        self.remember(server, values.into_secrets().into_iter().chain(secret_parts));
        Ok(value)
    }

    /// Conceals `secret` from now on: a value that comes from no placeholder and will be renewed, such as a token.
    pub fn add_secret(&self, secret: &str) {
        let server = None; // It is unknown which servers received the secret.
        self.remember_as(Retention::Short, server, [secret.to_owned()]);
    }

    /// Returns whether `arguments` contain a secret that other servers received, but `server` did not. Such a call
    /// would pass the secret from one server to another. Searches as [`Self::conceal`] does, for secrets of 8 bytes or
    /// more.
    #[must_use]
    pub fn has_foreign_secret(&self, arguments: &Map<String, Value>, server: &ServerName) -> bool {
        let in_other = || self.other_resolver.as_ref().is_some_and(|other| other.has_foreign_secret(arguments, server));
        self.read_state().known_secrets.has_foreign_secret(arguments, server) || in_other()
    }

    /// Remembers `secrets`, which `server` received; `None` if no server did.
    fn remember(&self, server: Option<&ServerName>, secrets: impl IntoIterator<Item = String>) {
        self.remember_as(Retention::Long, server, secrets);
    }

    fn remember_as(
        &self,
        retention: Retention,
        server: Option<&ServerName>,
        secrets: impl IntoIterator<Item = String>,
    ) {
        let known_secrets = &mut self.write_state().known_secrets;
        secrets.into_iter().for_each(|secret| known_secrets.add(server, secret, retention));
    }

    fn read_state(&self) -> RwLockReadGuard<'_, State> {
        self.state.read()
    }

    fn write_state(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write()
    }

    /// Returns a copy that resolves from `environment` instead. The copy has given no secret to a server yet, so at
    /// first it conceals no secrets, except those of the other resolver ([`Self::also_concealing`]).
    #[must_use]
    pub fn with_environment(&self, environment: Environment) -> Self {
        let (secret_store, homes_folder, own_folders) =
            (self.secret_store.clone(), self.homes_folder.clone(), self.own_folders.clone());
        let (own_folders_moved_to, other_resolver) = (self.own_folders_moved_to.clone(), self.other_resolver.clone());
        let unset = self.read_state().source.unset;
        Self {
            secret_store,
            homes_folder,
            own_folders,
            own_folders_moved_to,
            other_resolver,
            ..Self::new(environment, unset)
        }
    }

    /// Returns the variables that it resolves from.
    #[must_use]
    pub fn environment(&self) -> Arc<Environment> {
        Arc::clone(&self.read_state().source.environment)
    }

    /// Resolves from `environment` from now on. Servers see it when they connect the next time, and HTTP headers with
    /// the next request.
    pub fn set_environment(&self, environment: Environment) {
        self.write_state().source.environment = Arc::new(environment);
    }

    /// Sets the treatment of variables without a value.
    pub fn set_unset(&self, unset: UnsetPolicy) {
        self.write_state().source.unset = unset;
    }

    /// Returns the values for the placeholders in `texts`, which `server` receives. From now on, [`Self::conceal`]
    /// hides the stored secrets among them, whatever their names are.
    async fn values<'t>(&self, server: Option<&ServerName>, texts: impl IntoIterator<Item = &'t str>) -> Values {
        let (mut secret_names, mut user_value_names) = (BTreeSet::new(), BTreeSet::new());
        for text in texts {
            placeholder::collect_secret_names(text, &mut secret_names);
            placeholder::collect_user_value_names(text, &mut user_value_names);
        }
        let stored_secrets = self.look_up_all(server, secret_names, |source, name| source.secret(name)).await;
        let user_values = self.look_up_all(server, user_value_names, |source, name| source.user_value(name)).await;
        let Source { environment, unset } = self.read_state().source.clone();
        Values { environment, unset, stored_secrets, user_values, secrets: RefCell::default() }
    }

    /// Looks up the values of `names` in the store, and conceals them from now on.
    async fn look_up_all(
        &self,
        server: Option<&ServerName>,
        names: BTreeSet<String>,
        look_up: impl for<'a> Fn(&'a dyn Secrets, &'a str) -> BoxFuture<'a, LookUpResult> + Send,
    ) -> BTreeMap<String, LookUpResult> {
        let mut values = BTreeMap::new();
        for name in names {
            // No secret can have an invalid name.
            let result = match &self.secret_store {
                Some(source) if placeholder::is_stored_name(&name) => look_up(&**source, &name).await,
                _ => Ok(None),
            };
            self.remember(server, result.iter().flatten().cloned());
            values.insert(name, result);
        }
        values
    }
}

impl fmt::Debug for Interpolate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Interpolate").field("source", &self.read_state().source).finish_non_exhaustive()
    }
}

/// Returns the name of the home folder of a confined server. It depends on the command, because two projects may have
/// servers of the same name. The names must never change, because a server would lose its files; a test makes sure of
/// it.
fn home_name(server: &ServerName, spec: &Stdio, cwd: Option<&PathBuf>) -> String {
    let to_file_name_char = |c: char| if c.is_ascii_alphanumeric() || c == '-' || c == '_' { c } else { '_' };
    let mut hashed_parts = vec![server.as_str().as_bytes(), spec.command.as_bytes()];
    hashed_parts.extend(cwd.map(|cwd| cwd.as_os_str().as_encoded_bytes()));
    hashed_parts.extend(spec.args.iter().map(String::as_bytes));
    // The first byte distinguishes a working folder from a first argument.
    let mut hash = Sha256::new_with_prefix([u8::from(cwd.is_some())]);
    for part in hashed_parts {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    // The hash distinguishes servers whose names become equal.
    let hash = hash.finalize();
    let name: String = server.as_str().chars().map(to_file_name_char).take(32).collect();
    format!("{name}-{}", HEXLOWER.encode(&hash[..4]))
}

/// A stored value; `None` if there is none, and an error for the user if it cannot be read.
type LookUpResult = Result<Option<String>, String>;

/// The values of placeholders during one call of the resolver.
struct Values {
    environment: Arc<Environment>,
    unset: UnsetPolicy,
    /// The stored secrets that the texts refer to.
    stored_secrets: BTreeMap<String, LookUpResult>,
    /// The values of the server's user that the texts refer to.
    user_values: BTreeMap<String, LookUpResult>,
    /// The secrets among the values that were resolved so far.
    secrets: RefCell<Vec<String>>,
}

impl Values {
    fn look_up(&self, reference: Reference<'_>) -> Result<Option<String>, TemplateError> {
        match reference {
            Reference::Variable(name) => self.variable(name),
            Reference::Secret(name) => match self.stored_secrets.get(name) {
                Some(Ok(value)) => Ok(value.clone()),
                Some(Err(why)) => Err(TemplateError::UnreadableSecret { name: name.to_owned(), why: why.clone() }),
                None => Ok(None),
            },
            Reference::UserValue(name) => match self.user_values.get(name) {
                Some(Ok(value)) => Ok(value.clone()),
                Some(Err(why)) => Err(TemplateError::UnreadableUserValue { name: name.to_owned(), why: why.clone() }),
                None => Ok(None),
            },
        }
    }

    fn variable(&self, name: &str) -> Result<Option<String>, TemplateError> {
        match self.environment.get(name) {
            Some(value) => match value.to_str() {
                Some(value) => {
                    self.record_secrets(name, value);
                    Ok(Some(value.to_owned()))
                }
                None => Err(TemplateError::NotUnicode(name.to_owned())),
            },
            None if self.unset == UnsetPolicy::Empty => Ok(Some(String::new())),
            None => Ok(None),
        }
    }

    /// Records the secret parts of `value`, which is the value of the variable or header `name`.
    fn record_secrets(&self, name: &str, value: &str) {
        self.record_all(mask::secrets_in_value_of(name, value));
    }

    fn record_all(&self, secrets: Vec<String>) {
        self.secrets.borrow_mut().extend(secrets);
    }

    fn into_secrets(self) -> Vec<String> {
        self.secrets.into_inner()
    }

    /// Returns `text`, the value of `field`, with its placeholders replaced.
    fn resolve(&self, field: &str, text: &str, bare_name: BareName) -> Result<String, ResolveError> {
        expand(text, bare_name, &|reference| self.look_up(reference))
            .map_err(|error| ResolveError::new(format!("`{field}`: {error}; {}", error.hint())))
    }

    fn child_environment(&self, spec: &Stdio) -> Result<Vec<(OsString, OsString)>, ResolveError> {
        let inherited = self.environment.inherited(&spec.inherit_env);
        let mut variables: BTreeMap<OsString, OsString> =
            inherited.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        for (name, value) in &spec.env {
            let value = self.resolve(&format!("env.{name}"), value, BareName::Placeholder)?;
            variables.insert(name.into(), value.into());
        }
        // Includes the inherited variables, because the child can print those, too.
        for (name, value) in &variables {
            if let (Some(name), Some(value)) = (name.to_str(), value.to_str()) {
                self.record_secrets(name, value);
            }
        }
        Ok(variables.into_iter().collect())
    }
}

impl Interpolate {
    /// Gives a confined child its own home folder, in which package managers can store packages; the child can neither
    /// see nor change the user's home folder.
    fn confine(&self, server: &ServerName, spec: &Stdio, plan: &mut ChildPlan, mut confinement: Confinement) {
        if let Some(homes_folder) = &self.homes_folder {
            // The server's own working folder depends only on its name, so the name of the home does not need it.
            let is_own_folder = |cwd: &&PathBuf| cwd.parent().is_some() && cwd.parent() == self.own_folders.as_deref();
            let home = homes_folder.join(home_name(server, spec, spec.cwd.as_ref().filter(|cwd| !is_own_folder(cwd))));
            for (name, folder) in [("HOME", home.clone()), ("TMPDIR", home.join("tmp"))] {
                if !spec.env.contains_key(name) {
                    plan.env.retain(|(other, _)| other != name);
                    plan.env.push((name.into(), folder.into()));
                }
            }
            confinement.own_folder = Some(home);
        }
        plan.sandbox = Some(Box::new(confinement));
    }

    /// Creates the working folder of a child if it is directly below `own_folders`. All other folders must exist.
    fn create_working_folder(&self, plan: &mut ChildPlan) -> Result<(), ResolveError> {
        let (Some(cwd), Some(own_folders)) = (&plan.cwd, &self.own_folders) else { return Ok(()) };
        let moved_to =
            self.own_folders_moved_to.as_ref().filter(|_| cwd.parent() == Some(own_folders)).zip(cwd.file_name());
        plan.cwd = Some(match moved_to {
            Some((folder, name)) => working_folder::create_own_folder(&folder.join(name), folder)?,
            None => working_folder::create_own_folder(cwd, own_folders)?,
        });
        Ok(())
    }

    async fn child_plan(&self, server: &ServerName, spec: &Stdio) -> Result<ChildPlan, ResolveError> {
        let cwd = spec.cwd.as_deref().and_then(Path::to_str);
        let texts = spec.args.iter().chain(spec.env.values()).map(String::as_str);
        let values = self.values(Some(server), texts.chain(cwd).chain(paths_of(spec)).chain([&*spec.command])).await;
        let args = spec.args.iter().enumerate();
        let (command, folder) = values.program(spec)?;
        let mut plan = ChildPlan {
            command,
            args: args
                .map(|(index, arg)| values.resolve(&format!("args[{index}]"), arg, BareName::Literal))
                .collect::<Result<_, _>>()?,
            env: values.child_environment(spec)?,
            cwd: folder,
            sandbox: None,
            container: None,
        };
        if let (Some(text), Some(folder)) = (cwd, &plan.cwd)
            && text.contains('$')
            && !folder.is_absolute()
        {
            return Err(ResolveError::new("`cwd` must be the full path of a folder, beginning with `/`"));
        }
        values.record_all(mask::secrets_of(&plan.command));
        values.record_all(mask::secrets_of_arguments(plan.args.iter().map(String::as_str)));
        if let Some(container) = &spec.container {
            self.add_container(spec, &mut plan, &values, container)?;
        }
        working_folder::clean_environment(spec, &mut plan);
        if let Some(sandbox) = &spec.sandbox {
            self.confine(server, spec, &mut plan, values.confinement(sandbox)?);
        }
        self.remember(Some(server), values.into_secrets());
        self.create_working_folder(&mut plan)?;
        Ok(plan)
    }

    async fn resolved_url(&self, server: &ServerName, spec: &Http) -> Result<String, ResolveError> {
        let values = self.values(Some(server), [&*spec.url]).await;
        let url = values.resolve("url", &spec.url, BareName::Literal)?;
        values.record_all(mask::secrets_of(&url));
        self.remember(Some(server), values.into_secrets());
        Ok(url)
    }

    async fn resolved_headers(&self, server: &ServerName, spec: &Http) -> Result<Vec<(String, String)>, ResolveError> {
        let values = self.values(Some(server), spec.headers.values().map(String::as_str)).await;
        let headers = spec
            .headers
            .iter()
            .map(|(name, value)| {
                let value = values.resolve(&format!("headers.{name}"), value, BareName::Placeholder)?;
                values.record_secrets(name, &value);
                // The server may repeat the credential without its scheme: only `abc` of `Bearer abc`.
                values.record_secrets(name, value.rsplit(' ').next().unwrap_or_default());
                Ok((name.clone(), value))
            })
            .collect();
        self.remember(Some(server), values.into_secrets());
        headers
    }
}

impl Resolver for Interpolate {
    fn stdio<'a>(&'a self, server: &'a ServerName, spec: &'a Stdio) -> BoxFuture<'a, Result<ChildPlan, ResolveError>> {
        Box::pin(self.child_plan(server, spec))
    }

    fn url<'a>(&'a self, server: &'a ServerName, spec: &'a Http) -> BoxFuture<'a, Result<String, ResolveError>> {
        Box::pin(self.resolved_url(server, spec))
    }

    fn headers<'a>(
        &'a self,
        server: &'a ServerName,
        spec: &'a Http,
    ) -> BoxFuture<'a, Result<Vec<(String, String)>, ResolveError>> {
        Box::pin(self.resolved_headers(server, spec))
    }

    fn add_secrets(&self, server: &ServerName, secrets: Vec<String>) {
        // The server may repeat the credential without its scheme: only `abc` of `Bearer abc`.
        let bare_credentials =
            secrets.iter().filter_map(|secret| secret.rsplit_once(' ')).map(|(_, credential)| credential.to_owned());
        let bare_credentials: Vec<String> = bare_credentials.collect();
        self.remember_as(Retention::Short, Some(server), secrets.into_iter().chain(bare_credentials));
    }

    fn oauth<'a>(&'a self, _: &'a ServerName, spec: &'a Http) -> BoxFuture<'a, Result<OAuth, ResolveError>> {
        Box::pin(self.filled_oauth(&spec.oauth))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use futures::FutureExt;
    use proptest::prelude::*;
    use serde_json::json;
    use toolrack_host::spec::{Container, InheritEnv, Sandbox};

    use super::*;

    fn name() -> ServerName {
        ServerName::new("demo").unwrap()
    }

    fn interpolate(unset: UnsetPolicy) -> Interpolate {
        let environment = Environment::new([("PATH", "/bin"), ("TOKEN", "canary"), ("DIR", "/data")]);
        Interpolate::new(environment, unset)
    }

    fn stdio(env: &[(&str, &str)], inherit_env: InheritEnv) -> Stdio {
        Stdio {
            command: "${DIR}/server".into(),
            args: vec!["--token=${TOKEN}".into(), "$TOKEN".into()],
            env: env.iter().map(|&(name, value)| (name.into(), value.into())).collect(),
            cwd: Some("${DIR}".into()),
            inherit_env,
            ..Stdio::default()
        }
    }

    fn stdio_with(env: &[(&str, &str)]) -> Stdio {
        let env = env.iter().map(|&(name, value)| (name.into(), value.into())).collect();
        Stdio { command: "x".into(), env, ..Stdio::default() }
    }

    #[test]
    fn every_field_of_a_child_is_resolved() {
        let spec = stdio(&[("KEY", "$TOKEN"), ("PATH", "/opt:${PATH}")], InheritEnv::Safe);
        let plan = interpolate(UnsetPolicy::Error).stdio(&name(), &spec).now_or_never().unwrap().unwrap();
        assert_eq!(plan.command, "/data/server");
        assert_eq!(plan.args, ["--token=canary", "$TOKEN"]);
        assert_eq!(plan.cwd.as_deref(), Some(std::path::Path::new("/data")));
        assert_eq!(plan.env, [("KEY".into(), "canary".into()), ("PATH".into(), "/opt:/bin".into())]);
    }

    #[test]
    fn a_leading_tilde_is_the_home_folder_in_command_and_cwd_but_not_in_arguments_or_containers() {
        let environment = || Environment::new([("HOME", "/home/me"), ("BIN", "~/bin")]);
        let plan = |environment: Environment, spec: &Stdio| {
            Interpolate::new(environment, UnsetPolicy::Error).stdio(&name(), spec).now_or_never().unwrap()
        };
        let entry = |command: &str, cwd: &str| Stdio {
            command: command.into(),
            args: vec!["~/notes".into()],
            cwd: Some(cwd.into()),
            ..Stdio::default()
        };
        for (command, cwd, resolved) in [
            ("~/bin/server", "~/data", ("/home/me/bin/server", "/home/me/data")),
            ("${BIN}/server", "~", ("/home/me/bin/server", "/home/me")),
            ("~ada/server", "/~/x", ("~ada/server", "/~/x")),
        ] {
            let plan = plan(environment(), &entry(command, cwd)).unwrap();
            assert_eq!((&*plan.command, plan.cwd.as_deref()), (resolved.0, Some(Path::new(resolved.1))));
            assert_eq!(plan.args, ["~/notes"]);
        }
        let container = Some(Box::new(Container { image: "x".into(), ..Container::default() }));
        let in_image = plan(environment(), &Stdio { container, ..entry("~/bin/server", "/app") }).unwrap();
        assert_eq!(in_image.command, "~/bin/server");
        let error = plan(Environment::default(), &entry("~/bin/server", "/")).unwrap_err().to_string();
        assert!(error.contains("`command`") && error.contains("HOME"), "{error}");
    }

    #[test]
    fn a_confined_child_has_a_home_of_its_own() {
        let environment = Environment::new([("HOME", "/home/me"), ("PATH", "/bin"), ("DIR", "/data")]);
        let interpolate = Interpolate::new(environment, UnsetPolicy::Error).with_homes("/homes".into());
        let sandbox = |read: &[&str]| {
            let read = read.iter().map(|path| (*path).to_owned()).collect();
            Some(Box::new(Sandbox { read, ..Sandbox::default() }))
        };
        let spec = Stdio { sandbox: sandbox(&["~/notes", "${DIR}/x", "~", "~you/x", "rel"]), ..stdio_with(&[]) };
        let plan = interpolate.stdio(&name(), &spec).now_or_never().unwrap().unwrap();
        let confinement = plan.sandbox.unwrap();
        let read: Vec<_> = confinement.read.iter().map(|path| path.to_str().unwrap()).collect();
        assert_eq!(read, ["/home/me/notes", "/data/x", "/home/me/", "~you/x", "rel"]);
        assert_eq!(confinement.home.as_deref(), Some(Path::new("/home/me")));
        let own = confinement.own_folder.unwrap();
        assert!(own.starts_with("/homes") && own.to_str().unwrap().contains("/demo-"), "{own:?}");
        let variable =
            |name: &str| plan.env.iter().find(|(other, _)| other == name).map(|(_, value)| PathBuf::from(value));
        assert_eq!((variable("HOME"), variable("TMPDIR")), (Some(own.clone()), Some(own.join("tmp"))));
        let chosen = Stdio { sandbox: sandbox(&[]), ..stdio_with(&[("HOME", "/elsewhere")]) };
        let plan = interpolate.stdio(&name(), &chosen).now_or_never().unwrap().unwrap();
        assert!(plan.env.contains(&("HOME".into(), "/elsewhere".into())), "{:?}", plan.env);
        let other = Stdio { command: "other".into(), ..spec };
        let plan = interpolate.stdio(&name(), &other).now_or_never().unwrap().unwrap();
        assert_ne!(plan.sandbox.unwrap().own_folder, Some(own), "another program of the same name has another home");
    }

    #[test]
    fn a_child_inherits_what_its_entry_says() {
        let names = |inherit_env| {
            let plan = interpolate(UnsetPolicy::Error)
                .stdio(&name(), &stdio(&[], inherit_env))
                .now_or_never()
                .unwrap()
                .unwrap();
            plan.env.into_iter().map(|(name, _)| name).collect::<Vec<_>>()
        };
        assert_eq!(names(InheritEnv::Safe), ["PATH"]);
        assert_eq!(names(InheritEnv::All), ["DIR", "PATH", "TOKEN"]);
        assert_eq!(names(InheritEnv::Names(vec!["DIR".into(), "NO".into()])), ["DIR", "PATH"]);
        assert!(names(InheritEnv::None).is_empty());
    }

    #[test]
    fn the_error_of_an_unset_variable_names_the_variable_and_the_field() {
        let spec = stdio(&[("KEY", "${NO}")], InheritEnv::Safe);
        let error =
            interpolate(UnsetPolicy::Error).stdio(&name(), &spec).now_or_never().unwrap().unwrap_err().to_string();
        assert!(error.contains("`env.KEY`") && error.contains("`NO` is not set"), "{error}");
        assert!(error.contains("${NO:-default}"), "{error}");
        let interpolate = interpolate(UnsetPolicy::Error);
        interpolate.set_unset(UnsetPolicy::Empty);
        let plan = interpolate.stdio(&name(), &spec).now_or_never().unwrap().unwrap();
        assert_eq!(plan.env[0].1, "");
    }

    #[test]
    fn a_confined_server_finds_its_home_again_with_every_version() {
        let spec = Stdio { command: "npx".into(), args: vec!["-y".into(), "x".into()], ..stdio(&[], InheritEnv::Safe) };
        let shifted = Stdio { command: "npx".into(), args: vec!["-yx".into()], ..spec.clone() };
        let cwd = PathBuf::from("/project");
        assert_eq!(home_name(&name(), &spec, None), "demo-820f0869");
        assert_eq!(home_name(&name(), &spec, Some(&cwd)), "demo-c01b7aef");
        assert_ne!(home_name(&name(), &spec, None), home_name(&name(), &shifted, None));
    }

    #[test]
    fn a_changed_environment_applies_to_the_next_header() {
        let interpolate = interpolate(UnsetPolicy::Error);
        let spec = Http {
            url: "https://x/${DIR}".into(),
            headers: [("Authorization".into(), "Bearer $TOKEN".into())].into(),
            ..Http::default()
        };
        assert_eq!(interpolate.url(&name(), &spec).now_or_never().unwrap().unwrap(), "https://x//data");
        let header = || interpolate.headers(&name(), &spec).now_or_never().unwrap().unwrap()[0].1.clone();
        assert_eq!(header(), "Bearer canary");
        interpolate.set_environment(Environment::new([("TOKEN", "fresh")]));
        assert_eq!(header(), "Bearer fresh");
        assert!(!format!("{interpolate:?}").contains("fresh"));
    }

    #[test]
    fn secrets_that_servers_received_are_concealed_in_texts() {
        let environment = Environment::new([("API_TOKEN", "canary-1\"x"), ("DIR", "/data/dir")]);
        let interpolate = Interpolate::new(environment, UnsetPolicy::Error);
        let text = r#"canary-1"x {"t":"canary-1\"x"} canary-2 canary-3 canary-4 /data/dir"#;
        assert_eq!(interpolate.conceal(text), text, "no server has received a secret yet");

        let spec = stdio_with(&[("A", "${API_TOKEN}"), ("MY_SECRET", "canary-2"), ("ROOT", "${DIR}")]);
        interpolate.stdio(&name(), &spec).now_or_never().unwrap().unwrap();
        let headers = [("Authorization".into(), "Bearer canary-3".into()), ("X-Team".into(), "canary-4".into())].into();
        let http = Http { url: "https://x".into(), headers, ..Http::default() };
        interpolate.headers(&name(), &http).now_or_never().unwrap().unwrap();
        assert_eq!(interpolate.conceal(text), r#"*** {"t":"***"} *** *** canary-4 /data/dir"#);
        assert!(!format!("{interpolate:?}").contains("canary"));
    }

    /// A store of secrets that a test changes between two connections.
    #[derive(Debug, Default)]
    struct Stored(Mutex<BTreeMap<String, String>>);

    impl Stored {
        fn set(&self, name: &str, value: &str) {
            self.0.lock().unwrap().insert(name.to_owned(), value.to_owned());
        }
    }

    impl Secrets for Stored {
        fn secret<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Option<String>, String>> {
            let found = self.0.lock().unwrap().get(name).cloned();
            Box::pin(async move { if name == "shut" { Err("wrong key".to_owned()) } else { Ok(found) } })
        }
    }

    #[test]
    fn values_hidden_in_a_view_are_concealed_in_the_server_s_output() {
        let environment = Environment::new([
            ("OPENAI_KEY", "canary-1"),
            ("DATABASE_URL", "postgres://u:canary-2@h/db"),
            ("GITHUB_PAT", "canary-3"),
            ("MONKEY", "banana-4"),
        ]);
        let interpolate = Interpolate::new(environment, UnsetPolicy::Error);
        let mut spec = stdio_with(&[
            ("A", "${OPENAI_KEY}"),
            ("B", "${DATABASE_URL}"),
            ("DB_PASS", "canary-5"),
            ("LEAK_URL", "postgres://u:canary%2F6@h/db"),
            ("MODE", "verbose"),
            ("C", "${MONKEY}"),
        ]);
        spec.inherit_env = InheritEnv::Names(vec!["GITHUB_PAT".into()]);
        let args = ["--api-key", "canary-7", "--password=canary-8", "--header", "Authorization: Bearer canary-9"];
        spec.args = args.iter().map(|&arg| arg.to_owned()).collect();
        interpolate.stdio(&name(), &spec).now_or_never().unwrap().unwrap();
        let http = Http { url: "https://x/?key=canary-0".into(), ..Http::default() };
        interpolate.url(&name(), &http).now_or_never().unwrap().unwrap();
        let text = "canary-1 canary-2 canary-3 canary-5 canary/6 canary-7 canary-8 canary-9 canary-0";
        assert_eq!(interpolate.conceal(text), ["***"; 9].join(" "));
        assert_eq!(interpolate.conceal("verbose banana-4 postgres"), "verbose banana-4 postgres");
    }

    #[test]
    fn a_stored_secret_is_looked_up_each_time_and_concealed_wherever_it_went() {
        let stored = Arc::new(Stored::default());
        let interpolate = interpolate(UnsetPolicy::Error).with_secrets(stored.clone());
        let spec = Http {
            url: "https://x/${secret:path}".into(),
            headers: [("X-Team".into(), "t ${secret:key}".into())].into(),
            ..Http::default()
        };
        let error = interpolate.url(&name(), &spec).now_or_never().unwrap().unwrap_err().to_string();
        assert_eq!(error, "`url`: the secret `path` is not set; set it: `toolrack secret set path`");
        stored.set("path", "first-path");
        stored.set("key", "canary-1");
        let url = || interpolate.url(&name(), &spec).now_or_never().unwrap().unwrap();
        assert_eq!(url(), "https://x/first-path");
        stored.set("path", "second$PATH");
        assert_eq!(url(), "https://x/second$PATH", "a value is not a template");
        let headers = interpolate.headers(&name(), &spec).now_or_never().unwrap().unwrap();
        assert_eq!(headers[0].1, "t canary-1");
        let child = Stdio {
            command: "${secret:key}".into(),
            args: vec!["a=${NO:-${secret:path}}".into()],
            cwd: Some("/${secret:key}".into()),
            ..stdio_with(&[("X", "${secret:key}")])
        };
        let plan = interpolate.stdio(&name(), &child).now_or_never().unwrap().unwrap();
        assert_eq!((plan.command.as_str(), plan.args[0].as_str()), ("canary-1", "a=second$PATH"));
        assert_eq!(interpolate.conceal("first-path canary-1 second$PATH"), "*** *** ***");
    }

    #[test]
    fn a_secret_is_foreign_to_every_server_that_was_not_given_it() {
        let stored = Arc::new(Stored::default());
        stored.set("key", "canary-1\"x");
        stored.set("short", "1234567");
        let interpolate = interpolate(UnsetPolicy::Error).with_secrets(stored);
        let arguments = |value: Value| Map::from_iter([("a".to_owned(), value)]);
        let foreign = |value: Value, server: &str| {
            interpolate.has_foreign_secret(&arguments(value), &ServerName::new(server).unwrap())
        };
        let canary = || Value::from("the key is canary-1\"x!");
        assert!(!foreign(canary(), "other"), "no server has received a secret yet");
        let spec = stdio_with(&[("A", "${secret:key}"), ("B", "${secret:short}")]);
        interpolate.stdio(&name(), &spec).now_or_never().unwrap().unwrap();
        assert!(foreign(canary(), "other") && !foreign(canary(), "demo"));
        assert!(foreign(serde_json::json!([{ "x": [canary()] }]), "other"));
        assert!(foreign(serde_json::json!({ "canary-1\"x": 1 }), "other"));
        assert!(!foreign(Value::from("1234567 canary"), "other"));
        interpolate.setting("model.key", "model-key-1", true).now_or_never().unwrap().unwrap();
        assert!(foreign(Value::from("model-key-1"), "demo"), "a secret that no server received is foreign to all");
    }

    #[test]
    fn a_secret_without_a_value_has_an_error_with_the_next_step() {
        let error = |interpolate: &Interpolate, name_of: &str| {
            let spec = Http { url: format!("https://x/${{secret:{name_of}}}"), ..Http::default() };
            interpolate.url(&name(), &spec).now_or_never().unwrap().unwrap_err().to_string()
        };
        let without = interpolate(UnsetPolicy::Empty);
        assert!(error(&without, "key").contains("`key` is not set; set it: `toolrack secret set key`"));
        let with = interpolate(UnsetPolicy::Empty).with_secrets(Arc::new(Stored::default()));
        assert!(error(&with, "key").contains("`key` is not set"));
        assert!(error(&with, "shut").contains("`shut` cannot be read: wrong key"));
        assert!(error(&with, "a b").contains("letters, digits"), "{}", error(&with, "a b"));
    }

    #[cfg(unix)]
    #[test]
    fn a_value_that_is_not_text_can_be_inherited_but_not_inserted() {
        use std::os::unix::ffi::OsStringExt;
        let odd = OsString::from_vec(vec![0xff]);
        let environment = Environment::new([(OsString::from("HOME"), odd.clone())]);
        let interpolate = Interpolate::new(environment, UnsetPolicy::Error);
        let plan = interpolate
            .stdio(&name(), &Stdio { command: "x".into(), ..Stdio::default() })
            .now_or_never()
            .unwrap()
            .unwrap();
        assert_eq!(plan.env, [("HOME".into(), odd)]);
        let spec = Stdio { command: "$$${HOME}".into(), ..Stdio::default() };
        assert!(interpolate.stdio(&name(), &spec).now_or_never().unwrap().unwrap_err().to_string().contains("UTF-8"));
    }

    /// Returns a resolver that conceals `secrets`.
    fn that_knows(secrets: &[&str]) -> Interpolate {
        let interpolate = Interpolate::new(Environment::default(), UnsetPolicy::Error);
        interpolate.remember(None, secrets.iter().map(|secret| (*secret).to_owned()));
        interpolate
    }

    #[test]
    fn a_possible_beginning_of_a_secret_is_held_back() {
        let known = that_knows(&["abcabd", "bdxyzzy", "two words"]);
        for (text, whole) in [
            ("", 0),
            ("hello", 5),
            ("hello a", 6),
            ("hello abcab", 6),
            ("hello abcabc", 9),
            ("hello abcabd", 6),
            ("hello abcabd.", 13),
            ("in two wor", 3),
            ("日本語", 9),
        ] {
            assert_eq!(known.safe_len(text), whole, "{text}");
        }
    }

    #[test]
    fn an_encoded_secret_is_concealed_and_foreign_to_other_servers() {
        let known = that_knows(&["canary-5f0e/9c1d"]);
        let (mine, other) = (name(), ServerName::new("other").unwrap());
        known.remember(Some(&mine), ["canary-5f0e/9c1d".to_owned()]);
        for (encoded, shown) in [
            ("Basic dXNlcjpjYW5hcnktNWYwZS85YzFk.", "Basic dXNlcjp***."),
            ("?key=canary-5f0e%2F9c1d&x", "?key=***&x"),
            ("Y2FuYXJ5LTVmMGUvOWMxZA==", "***"),
        ] {
            assert_eq!(known.conceal(encoded), shown);
            let arguments = json!({ "deep": [{ "text": encoded }] });
            let arguments = arguments.as_object().unwrap();
            assert!(known.has_foreign_secret(arguments, &other), "{encoded}");
            assert!(!known.has_foreign_secret(arguments, &mine), "{encoded}");
        }
    }

    #[test]
    fn a_secret_in_json_is_concealed_in_every_escaping_and_at_every_depth() {
        let secret = "p\"ä/w\\ord\t🔑\u{c}\u{8}-x";
        let known = that_knows(&[secret]);
        let other = ServerName::new("other").unwrap();
        let every = |text: &str| text.encode_utf16().map(|unit| format!("\\u{unit:04x}")).collect::<String>();
        let ascii = |text: &str| {
            let unit = |c: char| if c.is_ascii() { c.to_string() } else { every(c.encode_utf8(&mut [0; 4])) };
            text.chars().map(unit).collect::<String>()
        };
        for once in [
            json!(secret).to_string(),
            ascii(&json!(secret).to_string()),
            json!(secret).to_string().replace('/', "\\/").replace("\\\"", "\\u0022").replace("\\t", "\\u0009"),
            format!("\"{}\"", every(secret)),
            format!("\"{}{}\"", every(&secret[..4]), every(&secret[4..]).to_uppercase().replace("\\U", "\\u")),
        ] {
            assert_eq!(serde_json::from_str::<String>(&once).unwrap(), secret, "the test writes valid JSON");
            let mut text = once;
            for depth in 0..6 {
                let concealed = known.conceal(&text);
                assert_eq!(concealed.trim_matches(['"', '\\']), "***", "{text}");
                assert!(serde_json::from_str::<String>(&concealed).is_ok(), "it is JSON as before: {concealed}");
                let arguments = json!({ "text": &text });
                assert!(known.has_foreign_secret(arguments.as_object().unwrap(), &other), "{text}");
                // Writes the text as a string in JSON once more, in turn with and without escapes of letters.
                text = if depth % 2 == 0 { ascii(&json!(text).to_string()) } else { json!(text).to_string() };
            }
        }
        assert_eq!(known.conceal(r#"{"a":"p\"ä\/w"}"#), r#"{"a":"p\"ä\/w"}"#, "a part of a secret is not a secret");
    }

    #[test]
    fn a_secret_after_a_backslash_is_concealed_for_every_first_letter() {
        for secret in ["n\"token-1", "t\"token-1", "u0041\"tok-1", "\\\\\\token\"b", "token-1\\"] {
            let known = that_knows(&[secret]);
            let mut text = format!("C:\\{secret}\\n.");
            for depth in 0..5 {
                let concealed = known.conceal(&text);
                assert!(
                    concealed.contains("***") && !concealed.contains("oken") && !concealed.contains("tok-"),
                    "{depth} {concealed}"
                );
                text = json!(text).to_string();
            }
        }
    }

    #[test]
    fn an_encoded_secret_over_several_lines_is_concealed() {
        let known = that_knows(&["canary-5f0e/9c1d"]);
        let other = ServerName::new("other").unwrap();
        for (encoded, shown) in [
            ("dXNlcjpjYW5hcnkt\nNWYwZS85YzFk.", "dXNlcjp***."),
            ("dXNlcjpjYW5hcnkt\r\n    NWYwZS85YzFk\r\nend", "dXNlcjp***\r\nend"),
            (r"Y2FuYX\nJ5LTVmMG\nUvOWMxZA==", "***"),
            ("63616e6172792d356630\n652f39633164", "***"),
            ("a canary-5f0e/9c1d\nb", "a ***\nb"),
        ] {
            assert_eq!(known.conceal(encoded), shown);
            let arguments = json!({ "text": encoded });
            assert!(known.has_foreign_secret(arguments.as_object().unwrap(), &other), "{encoded}");
        }
        for encoded in ["dXNlcjpjYW5hcnkt\n\tNWYwZS85YzFk.", "dXNlcjpjYW5hcnkt\r\n\t NWYwZS85YzFk."] {
            let (once, twice) = (json!(encoded).to_string(), json!(json!([encoded]).to_string()).to_string());
            assert_eq!(known.conceal(&once), r#""dXNlcjp***.""#);
            assert_eq!(known.conceal(&twice), r#""[\"dXNlcjp***.\"]""#);
        }
        assert_eq!(known.safe_len("so dXNlcjpjYW5hcnkt\n"), "so dXNlcjp".len(), "the rest may follow on the next line");
        assert_eq!(known.safe_len("two\nlines\n"), "two\nlines\n".len());
    }

    proptest! {
        #[test]
        fn a_cut_text_never_shows_part_of_a_secret(pieces in prop::collection::vec("[abé \\\\n\n]{0,6}", 0..40)) {
            let secrets = ["ababab", "babbab", "aa éab a", "ééééab"];
            let known = that_knows(&secrets);
            let (mut held, mut shown) = (String::new(), String::new());
            for piece in &pieces {
                held.push_str(piece);
                let full: String = held.drain(..known.safe_len(&held)).collect();
                shown.push_str(&known.conceal(&full));
            }
            shown.push_str(&known.conceal(&held));
            let full = pieces.concat();
            prop_assert_eq!(&shown, &*known.conceal(&full), "{:?}", pieces);
        }

        #[test]
        fn a_cut_json_text_never_shows_part_of_a_secret(
            parts in prop::collection::vec((0_u8..12, "[abun0 6é\"\\\\\n\t]{0,4}"), 0..12), depth in 0..4, cuts in prop::collection::vec(1_usize..9, 1..20),
        ) {
            let secrets = ["ab\"é\\b🔑", "nb\tub06", "\\aab/ab\\"];
            let known = that_knows(&secrets);
            let mut full: String = parts.iter().fold(String::new(), |text, (kind, part)| match kind {
                0..3 => text + part + secrets[usize::from(*kind)],
                3..6 => text + part + &secrets[usize::from(kind - 3)].encode_utf16().map(|unit| format!("\\u{unit:04x}")).collect::<String>(),
                6 => text + part + "YWIiw6lcYvC\n\tfkpE=",
                _ => text + part,
            });
            for _ in 0..depth {
                full = json!(full).to_string();
            }
            let (mut held, mut shown) = (String::new(), String::new());
            let (mut left, mut sizes) = (&*full, cuts.iter().cycle());
            while !left.is_empty() {
                let (piece, rest) = left.split_at(left.ceil_char_boundary(*sizes.next().unwrap()));
                held.push_str(piece);
                left = rest;
                let ready: String = held.drain(..known.safe_len(&held)).collect();
                shown.push_str(&known.conceal(&ready));
            }
            shown.push_str(&known.conceal(&held));
            prop_assert_eq!(&shown, &*known.conceal(&full), "{:?}", full);
        }
    }
}
