//! What should run: plain data, without behaviour, without IO.
//!
//! A [`Desired`] world is a map from [`ServerName`] to [`ServerSpec`]. Strings in a spec may hold placeholders such as
//! `${TOKEN}`; they are kept verbatim and resolved at connection time by the host's [`Resolver`](crate::Resolver), so
//! that a spec can be printed, stored and compared without a secret in it.

use std::{
    collections::BTreeMap,
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use serde::{Deserialize, Serialize};

use crate::{glob::ToolFilter, native::Native};

mod bounds;
mod checks;
mod container;
mod identity;
mod inherit;
mod setting;

pub use bounds::{Limits, Timeouts};
pub use checks::{Invisible, OutputSchema, PinMode, ValidateArgs};
pub use container::{Container, Engine, Mount, Pull, acts_on_the_client};
pub use inherit::{InheritEnv, absolute_path, passes_to_the_client};
pub use setting::Setting;

/// The desired world, for [`Host::apply`](crate::Host::apply).
pub type Desired = BTreeMap<ServerName, ServerSpec>;

/// The name of a server in the configuration: the only name that people, policies and the catalog use.
///
/// It never comes from the server (`serverInfo` is not an identity).
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ServerName(Arc<str>);

impl ServerName {
    /// The longest name in bytes.
    pub const MAX_BYTES: usize = 128;

    /// Takes `name` as it is written in the configuration.
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

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A server name that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{name}` cannot be a server name: {why}")]
pub struct BadServerName {
    /// The refused name, made safe to print.
    pub name: String,
    /// What is wrong with it.
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

/// One server as configured. Two equal specs need no reconnect.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerSpec {
    /// How to reach it.
    pub transport: Transport,
    /// `false` keeps it listed and never started. Default `true`.
    pub enabled: bool,
    /// Whether a person has agreed to run it. Nothing but [`Trust::Trusted`] is ever started or resolved.
    pub trust: Trust,
    /// Where the entry was configured; for messages.
    pub source: Source,
    /// Which protocol eras may be spoken. Default [`Protocol::Auto`].
    pub protocol: Protocol,
    /// Which of its tools the host offers.
    pub tools: ToolFilter,
    /// Time bounds.
    pub timeouts: Timeouts,
    /// Size and count bounds.
    pub limits: Limits,
    /// What to do when the connection ends.
    pub retry: Retry,
    /// When it is started. Default [`Start::Eager`].
    pub start: Start,
    /// It is stopped when unused for this long, twice that at the latest, and started again by a call. Default `None`:
    /// never.
    pub idle_stop: Option<Duration>,
    /// What happens to a tool that changes after it was first seen, where the host has [`Pins`](crate::Pins). Default
    /// `None`: it is in quarantine. Ignored for a server in this process, which is part of the program.
    pub pins: Option<PinMode>,
    /// What happens to a result that breaks the output schema of its tool. Default [`OutputSchema::Warn`].
    pub output_schema: OutputSchema,
    /// What happens to arguments that do not fit the tool's input schema. Default `None`: nothing, the server judges.
    pub validate_args: Option<ValidateArgs>,
    /// What happens to invisible characters in the server's texts. Default `None`: they are removed.
    pub invisible: Option<Invisible>,
}

/// When a server is started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Start {
    /// At once.
    #[default]
    Eager,
    /// When one of its tools is called, as long as the host's [`Memory`](crate::Memory) knows its tools; otherwise it
    /// starts at once, to list them.
    Lazy,
}

impl ServerSpec {
    /// A spec with every default around `transport`, trusted because a program (not a project file) made it.
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
        }
    }

    /// A child process that speaks MCP on its stdin and stdout.
    pub fn stdio(command: impl Into<String>, args: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self::new(Transport::Stdio(Stdio {
            command: command.into(),
            args: args.into_iter().map(Into::into).collect(),
            ..Stdio::default()
        }))
    }

    /// A Streamable HTTP endpoint.
    pub fn http(url: impl Into<String>) -> Self {
        Self::new(Transport::Http(Http { url: url.into(), ..Http::default() }))
    }

    /// A server in this process; see [`Native`].
    #[must_use]
    pub fn native(server: Native) -> Self {
        Self::new(Transport::Native(server))
    }

    /// A stable hash of everything that decides which program answers, with placeholders unresolved: command,
    /// arguments, variables, working folder and image of a child process; address, headers and account of an endpoint.
    /// The key for the remembered era of a server, its tools and answers that count for good: another command or URL is
    /// another server, other time-outs or limits are not.
    #[must_use]
    pub fn fingerprint(&self) -> String {
        identity::of(&self.transport)
    }
}

/// How a server is reached.
#[derive(Clone, Debug, PartialEq)]
pub enum Transport {
    /// A child process (MCP "stdio").
    Stdio(Stdio),
    /// MCP "Streamable HTTP".
    Http(Http),
    /// The two-endpoint HTTP+SSE transport of 2024-11-05; only when asked for by name, never as a fallback.
    Sse(Http),
    /// A server in this process.
    Native(Native),
}

impl Transport {
    /// The configuration's word for it: `stdio`, `http`, `sse` or `native`.
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
    /// Program name (looked up in the child's `PATH`) or path.
    pub command: String,
    /// Its arguments; no shell is involved.
    pub args: Vec<String>,
    /// Added to the inherited variables, and overriding them.
    pub env: BTreeMap<String, String>,
    /// Working folder; default: that of the host.
    pub cwd: Option<PathBuf>,
    /// Which variables of the host's environment the child inherits. By default a host has no environment: see
    /// [`HostBuilder::environment`](crate::HostBuilder::environment).
    pub inherit_env: InheritEnv,
    /// Its sandbox. Default: none; it may do everything that the user may.
    pub sandbox: Option<Box<Sandbox>>,
    /// Its container. `command` and `cwd` are then in the image (an empty `command` is the image's own), only named
    /// variables are inherited, and there is no `sandbox`. Default: none.
    pub container: Option<Box<Container>>,
}

/// What a child process, with everything that it starts, may do. Beyond the settings here, it may read and run what
/// every program needs of its system ([`Confinement::SYSTEM`](crate::Confinement::SYSTEM)) and its own installation,
/// and change its working folder, unless that is the user's home or holds it.
///
/// Linux only, from 6.7 on (6.2 without ports). Elsewhere the server is not started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sandbox {
    /// Files and folders that it may read, and run programs from. They must exist.
    pub read: Vec<String>,
    /// Files and folders that it may change as well. They must exist.
    pub write: Vec<String>,
    /// TCP ports that it may connect to. Default: 443, and 53, where names are looked up.
    pub connect: Ports,
    /// TCP ports that it may listen on. Default: none.
    pub bind: Ports,
    /// Memory of each of its processes in bytes. Default: no bound.
    pub memory: Option<u64>,
    /// Processes at once, all that it starts included. Default 128.
    pub processes: Option<u32>,
    /// Open files of each process. Default: no bound of its own.
    pub files: Option<u64>,
    /// Processor time of each process. Default: no bound.
    pub cpu: Option<Duration>,
    /// Leaves out what this system cannot enforce, instead of refusing to start. Default `false`.
    pub best_effort: bool,
    /// Datagrams of the internet (UDP) to and from everywhere, and the list of network interfaces. Without them, names
    /// are resolved over TCP port 53, if `connect` has it and the program's resolver can (the GNU C library and Go can,
    /// musl cannot). Default `false`.
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

/// Some ports, or all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ports {
    /// All of them.
    Any,
    /// These.
    Only(Vec<u16>),
}

impl Sandbox {
    /// This sandbox as a confinement, with every path taken as it is written and no home known.
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
    /// Sent with every request; their values are secrets.
    pub headers: BTreeMap<String, String>,
    /// A program that prints headers as a JSON object, for requests of a connection. Its headers win over `headers`,
    /// and with it there is no sign-in. See `docs/sign-in.md`.
    pub headers_helper: Option<Box<Stdio>>,
    /// How its requests are authorized, if the server wants that and no `Authorization` header is configured.
    pub oauth: OAuth,
    /// For TCP and TLS together. Configured as `open_timeout`. Default 5 s.
    pub open_timeout: Duration,
    /// Silence allowed between two pieces of a JSON body. Configured as `read_timeout`. Default 30 s. Event streams
    /// have the call's own clock.
    pub read_timeout: Duration,
    /// For the answer to the first request of a server whose era is unknown; after that, the older era is assumed.
    /// Configured as `probe_timeout`. Default 3 s.
    pub probe_timeout: Duration,
    /// For posting a message without an answer, such as a cancellation or an answer to the server's question.
    /// Configured as `post_timeout`. Default 5 s.
    pub post_timeout: Duration,
    /// Reconnects of one broken event stream, over its whole life. Default 20.
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

/// Settings for signing in with OAuth 2.1. All are optional: a server says what it needs.
///
/// The host only passes them to its [`Authorizer`](crate::Authorizer). The client's strings may hold placeholders.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OAuth {
    /// A client that was registered by hand at the authorization server.
    pub client_id: Option<String>,
    /// Its secret, if it has one.
    pub client_secret: Option<String>,
    /// The key that authenticates it, instead of a secret (`private_key_jwt`: RFC 7523, OpenID Connect Core 9): PEM, of
    /// a P-256, P-384, Ed25519 or RSA key.
    pub private_key: KeptText,
    /// The `kid` under which the authorization server knows that key, if it wants one.
    pub key_id: Option<String>,
    /// The URL of a Client ID Metadata Document of this program; used where the authorization server supports it and no
    /// `client_id` is given.
    pub client_metadata_url: Option<String>,
    /// The scopes to ask for. Default: those that the server names.
    pub scopes: Vec<String>,
    /// Which of several accounts at this URL to use. Default: the one without a name.
    pub account: Option<String>,
    /// How to get a token.
    pub grant: Grant,
    /// A statement by another party about who this is, as a JWT: the workload's own with [`Grant::JwtBearer`], a
    /// person's ID token with [`Grant::EnterpriseManaged`].
    pub assertion: KeptText,
    /// The issuer of ID-JAGs for ID tokens, with [`Grant::EnterpriseManaged`].
    pub idp: Option<IdentityProvider>,
    /// Whether each request must prove that it has the key to which the token is bound (RFC 9449).
    pub dpop: bool,
}

/// A text, or the file that holds it; both may hold placeholders. A resolver leaves only the text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeptText {
    /// The text itself, which is a secret.
    pub text: Option<String>,
    /// An absolute path. The file is read on each use: a mounted secret can be renewed.
    pub file: Option<String>,
}

impl KeptText {
    /// Whether neither is set.
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
    /// The secret for it.
    pub client_secret: Option<String>,
}

/// How to get a token.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Grant {
    /// A person signs in with a browser.
    #[default]
    AuthorizationCode,
    /// The client itself, with its secret or its key; no person takes part.
    ClientCredentials,
    /// A workload, with a JWT that its platform gives it (RFC 7523, 2.1; workload identity federation).
    JwtBearer,
    /// A person who has signed in to an enterprise, whose identity provider decides what they may use: their ID token
    /// becomes an ID-JAG there, and that a token (RFC 8693, and MCP's extension `enterprise-managed-authorization`).
    EnterpriseManaged,
}

impl Grant {
    /// Whether a person has to sign in with a browser.
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
    /// Configured by a file of a project, or dependent on the folder where it is used; waits for approval and is
    /// neither started nor resolved.
    Pending,
}

/// Where an entry was configured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Source {
    /// The layer: `user`, `project`, `local`, `command line`, `program`, `built in`, …
    pub scope: String,
    /// The file, when there is one.
    pub path: Option<PathBuf>,
}

impl Source {
    /// An entry made by code.
    #[must_use]
    pub fn program() -> Self {
        Self { scope: "program".into(), path: None }
    }

    /// An entry of the file `path` in the layer `scope`.
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

/// Which eras of MCP may be spoken with a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// Detect the era, remember it, fall back.
    #[default]
    Auto,
    /// 2025-11-25 and older, opened by `initialize`.
    Legacy,
    /// 2026-07-28, stateless.
    Modern,
}

/// The era a connection speaks.
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

/// What to do when a connection fails or ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retry {
    /// Attempts after the first, before the server is parked as failed. Default 12; 0 never reconnects.
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
