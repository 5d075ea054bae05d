//! The configuration of servers: plain data, without behaviour and without IO.
//!
//! A [`Desired`] set is a map from [`ServerName`] to [`ServerSpec`]. Strings in a spec may contain placeholders such as
//! `${TOKEN}`; they are kept verbatim, and the host's [`Resolver`](crate::Resolver) fills them in at connection time,
//! so that a spec can be printed, stored and compared without a secret in it.

use std::{
    collections::BTreeMap,
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use serde::{Deserialize, Serialize};

use crate::{glob::ToolFilter, native::Native, principal::Principal, who::Who};

mod bounds;
mod checks;
mod container;
mod identity;
mod inherit;

pub use bounds::{Bound, BoundPlace, Limits, Setting, Timeouts};
pub use checks::{Invisible, OutputSchema, PinMode, ValidateArgs};
pub use container::{Container, Engine, Mount, Pull, acts_on_the_client};
pub use inherit::{InheritEnv, absolute_path, passes_to_the_client};

/// The desired servers, for [`Host::apply`](crate::Host::apply).
pub type Desired = BTreeMap<ServerName, ServerSpec>;

/// The name of a server in the configuration: the only name that users, policies and the catalog use.
///
/// It never comes from the server (`serverInfo` is not an identity).
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
        Err(BadServerName { name: crate::text::for_line(&name).into_owned(), why })
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
    /// The refused name, safe to print.
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

/// The configuration of one server. A change to an equal spec needs no reconnect.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerSpec {
    /// The transport to it.
    pub transport: Transport,
    /// Whether it is started; `false` keeps it listed only. Default `true`.
    pub enabled: bool,
    /// Whether a user has agreed to run it. Only entries with [`Trust::Trusted`] are ever started or resolved.
    pub trust: Trust,
    /// The place where the entry was configured; for messages.
    pub source: Source,
    /// The protocol eras that may be used. Default [`Protocol::Auto`].
    pub protocol: Protocol,
    /// The filter of the tools that the host offers.
    pub tools: ToolFilter,
    /// Time bounds.
    pub timeouts: Timeouts,
    /// Size and count bounds.
    pub limits: Limits,
    /// The reconnects when the connection ends.
    pub retry: Retry,
    /// When it is started. Default [`Start::Eager`].
    pub start: Start,
    /// The time without use after which it is stopped, at the latest after twice that time; a call starts it again.
    /// Default `None`: never.
    pub idle_stop: Option<Duration>,
    /// The treatment of a tool that changes after it was first seen, if the host has [`Pins`](crate::Pins). Default
    /// `None`: it is in quarantine. Ignored for a server in this process, which is part of the program.
    pub pins: Option<PinMode>,
    /// The treatment of a result that does not match the output schema of its tool. Default [`OutputSchema::Warn`].
    pub output_schema: OutputSchema,
    /// The treatment of arguments that do not match the tool's input schema. Default `None`: they are sent, and the
    /// server decides.
    pub validate_args: Option<ValidateArgs>,
    /// The treatment of invisible characters in the server's texts. Default `None`: they are removed.
    pub invisible: Option<Invisible>,
    /// How far the server is shared between the people of a team. Default `None`: as its placeholders need it. A host
    /// pays no attention to it.
    pub share: Option<Share>,
    /// The members of a team who have it: those for whom one of the conditions is true. Default: all. A host pays no
    /// attention to it, except to what it [lends](crate::HostBuilder::lender).
    pub members: Vec<Who>,
}

/// How far a server is shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Share {
    /// One for all members of a tenant.
    Tenant,
    /// One for each member who uses it.
    User,
}

impl Share {
    /// Parses the word of a share.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        match word {
            "tenant" => Some(Self::Tenant),
            "user" => Some(Self::User),
            _ => None,
        }
    }
}

/// The time at which a server is started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Start {
    /// Immediately.
    #[default]
    Eager,
    /// When one of its tools is called, if the host's [`Memory`](crate::Memory) knows its tools; otherwise immediately,
    /// to list them.
    Lazy,
}

impl ServerSpec {
    /// Returns the strict check that this library cannot make, because it is built without the feature
    /// `schema-validation`.
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
        Self {
            transport,
            enabled: true,
            trust: Trust::Trusted,
            source: Source::program(),
            protocol: Protocol::Auto,
            tools: ToolFilter::default(),
            timeouts: Timeouts::default(),
            limits: Limits::default(),
            retry: Retry::default(),
            start: Start::default(),
            idle_stop: None,
            pins: None,
            output_schema: OutputSchema::default(),
            validate_args: None,
            invisible: None,
            share: None,
            members: Vec::new(),
        }
    }

    /// Returns whether `principal` has the server. The person of a machine has every server.
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

    /// Returns a stable hash of the fields that decide which program answers, with placeholders unresolved: command,
    /// arguments, variables, working folder and image of a child process; address, headers and account of an endpoint.
    /// It is the key for the stored era of a server, its tools and permanent answers: another command or URL means
    /// another server, other time-outs or limits do not.
    #[must_use]
    pub fn fingerprint(&self) -> String {
        identity::of(&self.transport)
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

/// A child process to start. All strings may hold placeholders.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stdio {
    /// The program's name (looked up in the child's `PATH`) or path.
    pub command: String,
    /// Its arguments; no shell is involved.
    pub args: Vec<String>,
    /// Variables to add to the inherited ones, and to override them.
    pub env: BTreeMap<String, String>,
    /// The working folder; default: that of the host.
    pub cwd: Option<PathBuf>,
    /// The variables of the host's environment that the child inherits. By default a host has no environment: see
    /// [`HostBuilder::environment`](crate::HostBuilder::environment).
    pub inherit_env: InheritEnv,
    /// Its sandbox. Default: none; it has all rights of the user.
    pub sandbox: Option<Box<Sandbox>>,
    /// Its container. `command` and `cwd` are then in the image (an empty `command` is the image's own), only named
    /// variables are inherited, and there is no `sandbox`. Default: none.
    pub container: Option<Box<Container>>,
}

/// The rights of a child process and its descendants. In addition to the settings here, it may read and run the parts
/// of the system that every program needs ([`Confinement::SYSTEM`](crate::Confinement::SYSTEM)) and its own
/// installation, and change its working folder, unless that is or contains the user's home.
///
/// Linux only, from 6.7 on (6.2 without ports). Elsewhere the server is not started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sandbox {
    /// Files and folders that it may read, and run programs from. They must exist.
    pub read: Vec<String>,
    /// Files and folders that it may change as well. They must exist.
    pub write: Vec<String>,
    /// TCP ports that it may connect to. Default: 443, and 53 for name resolution.
    pub connect: Ports,
    /// TCP ports that it may listen on. Default: none.
    pub bind: Ports,
    /// The memory of each of its processes in bytes. Default: no bound.
    pub memory: Option<u64>,
    /// The most processes at once, including all that it starts. Default 128.
    pub processes: Option<u32>,
    /// The most open files of each process. Default: the system's bound.
    pub files: Option<u64>,
    /// The processor time of each process. Default: no bound.
    pub cpu: Option<Duration>,
    /// Whether to leave out restrictions that this system cannot enforce, instead of refusing to start. Default
    /// `false`.
    pub best_effort: bool,
    /// Whether it may use UDP to and from everywhere, and list the network interfaces. Without them, names are resolved
    /// over TCP port 53, if `connect` has it and the program's resolver can (the GNU C library and Go can, musl
    /// cannot). Default `false`.
    pub udp: bool,
}

impl Default for Sandbox {
    fn default() -> Self {
        Self {
            read: Vec::new(),
            write: Vec::new(),
            connect: Ports::Only(vec![53, 443]),
            bind: Ports::Only(Vec::new()),
            memory: None,
            processes: Some(128),
            files: None,
            cpu: None,
            best_effort: false,
            udp: false,
        }
    }
}

/// A set of ports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ports {
    /// All ports.
    Any,
    /// These ports.
    Only(Vec<u16>),
}

impl Sandbox {
    /// Converts the sandbox into a confinement, with every path unchanged and no known home.
    #[must_use]
    pub fn confinement(&self) -> crate::Confinement {
        let ports = |ports: &Ports| match ports {
            Ports::Any => None,
            Ports::Only(ports) => Some(ports.clone()),
        };
        crate::Confinement {
            read: self.read.iter().map(PathBuf::from).collect(),
            write: self.write.iter().map(PathBuf::from).collect(),
            own: None,
            home: None,
            connect: ports(&self.connect),
            bind: ports(&self.bind),
            memory: self.memory,
            processes: self.processes,
            files: self.files,
            cpu: self.cpu.map(|cpu| cpu.as_secs().max(1)),
            best_effort: self.best_effort,
            udp: self.udp,
            bare: false,
        }
    }
}

/// An HTTP endpoint. `url` and header values may hold placeholders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Http {
    /// The MCP endpoint.
    pub url: String,
    /// Headers for every request; their values are secrets.
    pub headers: BTreeMap<String, String>,
    /// A program that prints headers as a JSON object, for requests of a connection. Its headers override `headers`,
    /// and exclude a sign-in. See `docs/sign-in.md`.
    pub headers_helper: Option<Box<Stdio>>,
    /// The authorization of its requests, if the server requires it and no `Authorization` header is configured.
    pub oauth: OAuth,
    /// The time-out for TCP and TLS together. Configured as `open_timeout`. Default 5 s.
    pub open_timeout: Duration,
    /// The longest silence between two pieces of a JSON body. Configured as `read_timeout`. Default 30 s. Event streams
    /// use the clock of the call.
    pub read_timeout: Duration,
    /// The time-out for the answer to the first request to a server of unknown era; after that, the older era is
    /// assumed. Configured as `probe_timeout`. Default 3 s.
    pub probe_timeout: Duration,
    /// The time-out for posting a message without an answer, such as a cancellation or an answer to the server's
    /// question. Configured as `post_timeout`. Default 5 s.
    pub post_timeout: Duration,
    /// The most reconnects of one broken event stream, over its whole life. Default 20.
    pub sse_max_reconnects: u32,
}

impl Default for Http {
    fn default() -> Self {
        Self {
            url: String::new(),
            headers: BTreeMap::new(),
            headers_helper: None,
            oauth: OAuth::default(),
            open_timeout: Duration::from_secs(5),
            read_timeout: Duration::from_secs(30),
            probe_timeout: Duration::from_secs(3),
            post_timeout: Duration::from_secs(5),
            sse_max_reconnects: 20,
        }
    }
}

/// Settings for signing in with OAuth 2.1. All are optional, because a server announces its requirements.
///
/// The host only passes them to its [`Authorizer`](crate::Authorizer). The client's strings may hold placeholders.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OAuth {
    /// A client that was registered manually at the authorization server.
    pub client_id: Option<String>,
    /// Its secret, if it has one.
    pub client_secret: Option<String>,
    /// The key that authenticates it, instead of a secret (`private_key_jwt`: RFC 7523, OpenID Connect Core 9): PEM, of
    /// a P-256, P-384, Ed25519 or RSA key.
    pub private_key: TextOrFile,
    /// The `kid` of that key at the authorization server, if it requires one.
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
    /// Its token endpoint.
    pub token_url: String,
    /// This program's client id there.
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
    /// A user has signed in to an enterprise, whose identity provider decides what the user may access: it exchanges
    /// the ID token for an ID-JAG, and the authorization server exchanges that for a token (RFC 8693, and MCP's
    /// extension `enterprise-managed-authorization`).
    EnterpriseManaged,
}

impl Grant {
    /// Returns whether a user has to sign in with a browser.
    #[must_use]
    pub fn needs_a_person(self) -> bool {
        self == Self::AuthorizationCode
    }
}

/// Whether an entry may run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trust {
    /// Configured by the user or a program.
    Trusted,
    /// Configured by a file of a project, or dependent on the folder where it is used; it waits for approval and is
    /// neither started nor resolved.
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

/// The eras of MCP that may be used with a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// Detect the era, remember it, and fall back to the other one.
    #[default]
    Auto,
    /// 2025-11-25 and older, opened by `initialize`.
    Legacy,
    /// 2026-07-28, stateless.
    Modern,
}

/// The era of a connection.
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

/// The reconnects after a connection fails or ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retry {
    /// The attempts after the first, before the server counts as failed. Default 12; 0 never reconnects.
    pub attempts: u32,
    /// The first wait; doubled each time, with jitter. Default 1 s.
    pub first: Duration,
    /// The longest wait. Default 60 s.
    pub longest: Duration,
}

impl Default for Retry {
    fn default() -> Self {
        Self { attempts: 12, first: Duration::from_secs(1), longest: Duration::from_secs(60) }
    }
}
