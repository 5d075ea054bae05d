//! Defines the configuration of servers as plain data, without behaviour and without IO.
//!
//! A [`Desired`] set is a map from [`ServerName`] to [`ServerSpec`]. An *entry* is the part of a configuration file
//! from which a spec was read. Strings in a spec may contain placeholders such as `${TOKEN}`. A spec keeps placeholders
//! verbatim; the host's [`Resolver`](crate::Resolver) replaces them by values when it connects. So a spec can be
//! printed, stored and compared without a secret in it.
//!
//! The macro `spec!` makes a struct from plain fields and from rows; [`Field`] says what comes from a row.

use std::{
    collections::BTreeMap,
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use serde::{Deserialize, Serialize};

use crate::{glob::ToolFilter, native::Native, principal::Principal, who::Who};

#[macro_use]
mod fields;
mod added_by;
mod bounds;
mod checks;
mod container;
mod identity;
mod inherit;
mod sandbox;

pub use added_by::AddedBy;
pub use bounds::{Limits, Setting, Timeouts};
pub use checks::{Invisible, OutputSchema, PinMode, ValidateArgs};
pub use container::{Container, Engine, Mount, Pull, affects_engine_client};
pub use fields::{Field, FieldKind, FieldScope, FieldValue};
pub use inherit::{InheritEnv, absolute_path, passes_to_the_client};
pub use sandbox::{Ports, Sandbox};

/// The desired servers, for [`Host::apply`](crate::Host::apply).
pub type Desired = BTreeMap<ServerName, ServerSpec>;

/// The name of a server in the configuration: the only name that users, policies and the catalog use.
///
/// The name never comes from the server (`serverInfo` is not an identity).
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ServerName(Arc<str>);

impl ServerName {
    /// The longest name in bytes.
    pub const MAX_BYTES: usize = 128;

    /// Checks `name`, as it is written in the configuration.
    ///
    /// # Errors
    /// [`BadServerName`] when it is empty, longer than [`Self::MAX_BYTES`], holds `/` (which separates server and tool
    /// in `server/tool`) or a control character.
    pub fn new(name: impl Into<Arc<str>>) -> Result<Self, BadServerName> {
        let name: Arc<str> = name.into();
        let why = if name.trim().is_empty() {
            "it is empty"
        } else if name.len() > Self::MAX_BYTES {
            "it is longer than 128 bytes"
        } else if name.contains('/') {
            "`/` separates server and tool"
        } else if crate::text::for_line(&name) != *name {
            "it holds control or invisible characters"
        } else {
            return Ok(Self(name));
        };
        let clipped = crate::text::clip(&name, Self::MAX_BYTES);
        Err(BadServerName { name: crate::text::for_line(&clipped).into_owned(), why })
    }

    /// Returns the name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A server name that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{name}` cannot be a server name: {why}")]
pub struct BadServerName {
    /// The refused name, safe to print, cut at [`ServerName::MAX_BYTES`].
    pub name: String,
    /// The problem.
    pub why: &'static str,
}

impl fmt::Display for ServerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for ServerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, f)
    }
}

impl std::borrow::Borrow<str> for ServerName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

spec! {
    /// The configuration of one server. A change to an equal spec needs no reconnect.
    #[derive(Clone, Debug, PartialEq)]
    pub struct ServerSpec for Any {
        /// The transport to the server.
        pub transport: Transport = Transport::Http(Http::default()),
        /// Whether the server is started; with `false`, it is only listed. Default `true`.
        pub enabled: bool = true,
        /// Whether a user has agreed to run it. Only entries with [`Trust::Trusted`] are ever started or resolved.
        pub trust: Trust = Trust::Trusted,
        /// The place where the entry was configured; for messages.
        pub source: Source = Source::program(),
        /// The eras (generations of MCP) that may be used. Default [`Protocol::Auto`].
        pub protocol: Protocol = Protocol::Auto,
        /// The filter of the tools that the host offers.
        pub tools: ToolFilter = ToolFilter::default(),
        /// The members of a team who have the server: those who meet at least one of these conditions. Default: all. A
        /// host lends the server to no other member ([`HostBuilder::lender`](crate::HostBuilder::lender)), and refuses
        /// their calls as if it had no such server.
        pub members: Vec<Who> = Vec::new(),
        /// The limits in time.
        pub timeouts: Timeouts = Timeouts::default(),
        /// The limits in size and number.
        pub limits: Limits = Limits::default(),
        /// How often, and after which waits, the host reconnects when the connection ends.
        pub retry: Retry = Retry::default(),
    }
    rows {
        /// When the server is started: at once, or when one of its tools is called, if its tools are already known.
        start: Start = Start::Eager;
        /// Stops the server after this time without a call; the next call starts it again.
        idle_stop: Option<Duration> = None, otherwise = "never",
            detail = "It is stopped at the latest after twice that time.";
        /// What happens to a tool whose definition has changed: nothing, a warning, or quarantine.
        pins: Option<PinMode> = None, otherwise = "`pins` of `toolrack.toml`, which is `enforce`",
            detail = "It applies only if the host has [`Pins`](crate::Pins), and never to a server in this process, \
                      which is part of the program. If it is not set, a host does what [`PinMode::Enforce`] says.";
        /// What happens to arguments that do not fit the tool's schema: nothing, a warning, or they are not sent.
        validate_args: Option<ValidateArgs> = None, otherwise = "`validate_args` in `[tools]`, which is `off`",
            detail = "If it is not set, a host does what [`ValidateArgs::Off`] says.";
        /// What happens to invisible characters in the texts of the server.
        invisible: Option<Invisible> = None, otherwise = "`invisible` in `[tools]`, which is `remove`",
            detail = "If it is not set, a host does what [`Invisible::Remove`] says.";
        /// Who shares the server: all members of a tenant share one, or each member has their own, or each session of
        /// an MCP client has its own.
        share: Option<Share> = None,
            otherwise = "`user` if a placeholder `${user:NAME}` is in the entry, else `tenant`",
            detail = "A host ignores it.";
        /// What happens to a result that breaks the output schema of its tool: a warning, or an error in its place.
        output_schema: OutputSchema = OutputSchema::Warn;
    }
}

words! {
    /// How far a server is shared.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Share {
        /// One for all members of a tenant.
        Tenant "tenant",
        /// One for each member who uses it.
        User "user",
        /// One for each session of an MCP client.
        Session "session",
    }
}

words! {
    /// The time at which a server is started.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Start {
        /// Immediately.
        #[default]
        Eager "eager",
        /// When one of its tools is called, if the host's [`Memory`](crate::Memory) knows its tools; otherwise
        /// immediately, to list them.
        Lazy "lazy",
    }
}

impl ServerSpec {
    /// Returns the setting of this spec that requires the feature `schema-validation`, if this library is built without
    /// the feature.
    pub(crate) fn setting_without_validator(&self) -> Option<&'static str> {
        if cfg!(feature = "schema-validation") {
            return None;
        }
        if self.validate_args == Some(ValidateArgs::Strict) {
            return Some("`validate_args = \"strict\"`");
        }
        (self.output_schema == OutputSchema::Reject).then_some("`output_schema = \"reject\"`")
    }

    /// Creates a spec with defaults for all other fields, trusted because a program (not a project file) made it.
    #[must_use]
    pub fn new(transport: Transport) -> Self {
        Self { transport, ..Self::with_defaults() }
    }

    /// Returns whether `principal` has the server. The only user of a machine has every server.
    #[must_use]
    pub fn is_for(&self, principal: &Principal) -> bool {
        principal.is_local() || self.members.is_empty() || self.members.iter().any(|who| who.fits(principal))
    }

    /// Creates a spec for a child process that speaks MCP on its stdin and stdout.
    pub fn stdio(command: impl Into<String>, args: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self::new(Transport::Stdio(Stdio {
            command: command.into(),
            args: args.into_iter().map(Into::into).collect(),
            ..Stdio::default()
        }))
    }

    /// Creates a spec for a Streamable HTTP endpoint.
    pub fn http(url: impl Into<String>) -> Self {
        Self::new(Transport::Http(Http { url: url.into(), ..Http::default() }))
    }

    /// Creates a spec for a server in this process; see [`Native`].
    #[must_use]
    pub fn native(server: Native) -> Self {
        Self::new(Transport::Native(server))
    }

    /// Returns a stable hash of the fields that decide which program answers, with placeholders unresolved. For a child
    /// process, these are command, arguments, variables, working folder and image; for an endpoint, address, headers
    /// and account. The hash is the key for the stored era of a server, its tools and permanent answers: another
    /// command or URL means another server, other time-outs or limits do not.
    #[must_use]
    pub fn fingerprint(&self) -> String {
        identity::fingerprint(&self.transport)
    }
}

/// The transport to a server.
#[derive(Clone, Debug, PartialEq)]
pub enum Transport {
    /// A child process (MCP "stdio").
    Stdio(Stdio),
    /// MCP "Streamable HTTP".
    Http(Http),
    /// The two-endpoint HTTP+SSE transport of 2024-11-05; only if the entry names it, never as a fallback.
    Sse(Http),
    /// A server in this process.
    Native(Native),
}

impl Transport {
    /// Returns the configuration's word for it: `stdio`, `http`, `sse` or `native`.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Stdio(_) => "stdio",
            Self::Http(_) => "http",
            Self::Sse(_) => "sse",
            Self::Native(_) => "native",
        }
    }
}

spec! {
    /// A child process to start. All strings may hold placeholders.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Stdio for Stdio {
        /// The program's name (looked up in the child's `PATH`) or path.
        pub command: String = String::new(),
        /// The arguments; no shell is involved.
        pub args: Vec<String> = Vec::new(),
        /// Variables to add to the inherited ones, and to override them.
        pub env: BTreeMap<String, String> = BTreeMap::new(),
        /// The working folder; default: that of the host.
        pub cwd: Option<PathBuf> = None,
        /// The variables of the host's environment that the child inherits. By default a host has no environment: see
        /// [`HostBuilder::environment`](crate::HostBuilder::environment).
        pub inherit_env: InheritEnv = InheritEnv::default(),
        /// The sandbox. Default: none; the child has all rights of the user.
        pub sandbox: Option<Box<Sandbox>> = None,
        /// The container. `command` and `cwd` are then in the image (an empty `command` is the image's own), only named
        /// variables are inherited, and there is no `sandbox`. Default: none.
        pub container: Option<Box<Container>> = None,
    }
    rows {}
}

impl Default for Stdio {
    fn default() -> Self {
        Self::with_defaults()
    }
}

spec! {
    /// An HTTP endpoint. `url` and header values may hold placeholders.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Http for Http {
        /// The MCP endpoint.
        pub url: String = String::new(),
        /// Headers for every request; their values are secrets.
        pub headers: BTreeMap<String, String> = BTreeMap::new(),
        /// A program that prints headers as a JSON object, for requests of a connection. Its headers override
        /// `headers`, and exclude a sign-in. See `docs/sign-in.md`.
        pub headers_helper: Option<Box<Stdio>> = None,
        /// The authorization of requests, if the server requires it and no `Authorization` header is configured.
        pub oauth: OAuth = OAuth::default(),
        /// The member of a team who has added the server; no file names one.
        pub added_by: Option<AddedBy> = None,
    }
    rows {
        /// How long TCP and TLS together may take.
        open_timeout: Duration = Duration::from_secs(5);
        /// How long the server may be silent between two pieces of a JSON body.
        read_timeout: Duration = Duration::from_secs(30), detail = "Event streams use the clock of the call.";
        /// How long the first request to a server of an unknown era may take; after that, the older era is assumed.
        probe_timeout: Duration = Duration::from_secs(3);
        /// How long it may take to post a message without an answer, such as a cancellation.
        post_timeout: Duration = Duration::from_secs(5);
        /// How often one broken stream of events is reconnected, over its whole life.
        sse_max_reconnects: u32 = 20, range = (0, Retry::MAX_ATTEMPTS);
    }
}

impl Default for Http {
    fn default() -> Self {
        Self::with_defaults()
    }
}

/// Settings for signing in with OAuth 2.1. All are optional, because a server announces its requirements.
///
/// The host only passes them to its [`Authorizer`](crate::Authorizer). The client's strings may hold placeholders.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OAuth {
    /// A client that was registered manually at the authorization server.
    pub client_id: Option<String>,
    /// The secret of that client, if there is one.
    pub client_secret: Option<String>,
    /// The key that authenticates the client, instead of a secret (`private_key_jwt`: RFC 7523, OpenID Connect Core 9):
    /// PEM, of a P-256, P-384, Ed25519 or RSA key.
    pub private_key: TextOrFile,
    /// The `kid` of that key at the authorization server, if the server requires one.
    pub key_id: Option<String>,
    /// The URL of a Client ID Metadata Document of this program; used if the authorization server supports it and no
    /// `client_id` is given.
    pub client_metadata_url: Option<String>,
    /// The scopes to request. Default: those that the server names.
    pub scopes: Vec<String>,
    /// The account at this URL, if there are several. Default: the account without a name.
    pub account: Option<String>,
    /// The way to get a token.
    pub grant: Grant,
    /// A statement of identity by another party, as a JWT: the workload's own with [`Grant::JwtBearer`], a user's ID
    /// token with [`Grant::EnterpriseManaged`].
    pub assertion: TextOrFile,
    /// The identity provider that issues ID-JAGs for ID tokens, with [`Grant::EnterpriseManaged`].
    pub idp: Option<IdentityProvider>,
    /// Whether each request must prove that it has the key to which the token is bound (RFC 9449).
    pub dpop: bool,
}

/// A text, or the file that contains it; both may contain placeholders. A resolver returns only the text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TextOrFile {
    /// The text itself, which is a secret.
    pub text: Option<String>,
    /// An absolute path. The file is read on each use, so that a mounted secret can be renewed.
    pub file: Option<String>,
}

impl TextOrFile {
    /// Returns whether neither is set.
    #[must_use]
    pub fn is_none(&self) -> bool {
        self.text.is_none() && self.file.is_none()
    }
}

/// The identity provider of an enterprise. Its strings may hold placeholders.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IdentityProvider {
    /// The token endpoint.
    pub token_url: String,
    /// This program's client id at that endpoint.
    pub client_id: Option<String>,
    /// The secret of that client.
    pub client_secret: Option<String>,
}

/// The way to get a token.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Grant {
    /// A user signs in with a browser.
    #[default]
    AuthorizationCode,
    /// The client authenticates itself with its secret or its key; no user takes part.
    ClientCredentials,
    /// A workload authenticates with a JWT that its platform issues (RFC 7523, 2.1; workload identity federation).
    JwtBearer,
    /// The identity provider of an enterprise decides what a signed-in user may access. It exchanges the user's ID
    /// token for an ID-JAG (a signed grant), and the authorization server exchanges the ID-JAG for a token (RFC 8693,
    /// and MCP's extension `enterprise-managed-authorization`).
    EnterpriseManaged,
}

impl Grant {
    /// Returns whether a user has to sign in with a browser.
    #[must_use]
    pub fn needs_user(self) -> bool {
        self == Self::AuthorizationCode
    }
}

/// Whether an entry may run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trust {
    /// Configured by the user or a program.
    Trusted,
    /// Configured by a file of a project, or dependent on the folder where it is used. It waits for the user's
    /// agreement, and is neither started nor resolved until then.
    Pending,
}

/// The place where an entry was configured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Source {
    /// The layer: `user`, `project`, `local`, `command line`, `program`, `built in`, …
    pub scope: String,
    /// The file, if there is one.
    pub path: Option<PathBuf>,
}

impl Source {
    /// Returns the source of an entry that a program made.
    #[must_use]
    pub fn program() -> Self {
        Self { scope: "program".into(), path: None }
    }

    /// Returns the source of an entry of the file `path` in the layer `scope`.
    pub fn file(scope: impl Into<String>, path: impl AsRef<Path>) -> Self {
        Self { scope: scope.into(), path: Some(path.as_ref().to_owned()) }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.path {
            Some(path) => f.write_str(&crate::text::for_line(&path.display().to_string())),
            None => f.write_str(&self.scope),
        }
    }
}

words! {
    /// The eras of MCP that may be used with a server.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    pub enum Protocol {
        /// Detect the era, remember it, and fall back to the other one.
        #[default]
        Auto "auto",
        /// 2025-11-25 and older, opened by `initialize`.
        Legacy "legacy",
        /// 2026-07-28, stateless.
        Modern "modern",
    }
}

/// The era of a connection: the generation of MCP that it uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Era {
    /// 2025-11-25 and older.
    Legacy,
    /// 2026-07-28.
    Modern,
}

impl fmt::Display for Era {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Legacy => "legacy",
            Self::Modern => "modern",
        })
    }
}

/// How often, and after which waits, the host reconnects when a connection fails or ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retry {
    /// The number of attempts after the first one, before the server counts as failed. Default 12; 0 never reconnects.
    pub attempts: u32,
    /// The first wait. Each further wait is twice as long, with jitter. Default 1 s.
    pub first: Duration,
    /// The longest wait. Default 60 s.
    pub longest: Duration,
}

impl Retry {
    /// The maximum number of attempts that an entry may set.
    pub const MAX_ATTEMPTS: u64 = 1000;
}

impl Default for Retry {
    fn default() -> Self {
        Self { attempts: 12, first: Duration::from_secs(1), longest: Duration::from_secs(60) }
    }
}
