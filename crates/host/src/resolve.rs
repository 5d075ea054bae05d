//! The seams to the world outside: what a child process is started with, what a request carries, what is remembered.
//!
//! The host reads no environment, no files and no database. It asks these traits, at the moment it needs an answer.

mod inheriting;

use std::{ffi::OsString, fmt, path::PathBuf};

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{HeaderValue, Method};
use toolrack_supervisor::Confinement;
use url::Url;

pub(crate) use inheriting::Inheriting;

use crate::{
    catalog::DefinitionHash,
    spec::{Container, Era, Http, OAuth, ServerName, Stdio, acts_on_the_client},
    witness::Way,
};

/// Turns placeholders into values, at the last moment.
///
/// The default takes everything as written, as [`Verbatim`] does, and passes on what there is of
/// [`HostBuilder::environment`](crate::HostBuilder::environment).
pub trait Resolver: Send + Sync {
    /// What to start. Called before each spawn, so that a changed environment takes effect on reconnect.
    ///
    /// # Errors
    /// [`ResolveError`] names the field and the variable that has no value.
    fn stdio<'a>(&'a self, server: &'a ServerName, spec: &'a Stdio) -> BoxFuture<'a, Result<ChildPlan, ResolveError>>;

    /// The endpoint's URL. Called once per connection.
    ///
    /// # Errors
    /// As [`Self::stdio`].
    fn url<'a>(&'a self, server: &'a ServerName, spec: &'a Http) -> BoxFuture<'a, Result<String, ResolveError>>;

    /// The configured headers of one request. Called for every request, so that a token can change between two.
    fn headers<'a>(
        &'a self,
        server: &'a ServerName,
        spec: &'a Http,
    ) -> BoxFuture<'a, Result<Vec<(String, String)>, ResolveError>>;

    /// A program of this server's entry has printed these as values of headers: they are secrets from now on. The default
    /// ignores it.
    fn given(&self, server: &ServerName, secrets: Vec<String>) {
        let _ = (server, secrets);
    }

    /// What is known in advance of signing in. For whoever implements [`Authorizer`]; the host does not ask for it. The
    /// default takes everything as written.
    ///
    /// # Errors
    /// As [`Self::stdio`].
    fn oauth<'a>(&'a self, server: &'a ServerName, spec: &'a Http) -> BoxFuture<'a, Result<OAuth, ResolveError>> {
        let _ = server;
        Box::pin(std::future::ready(Ok(spec.oauth.clone())))
    }
}

/// A child process with every value resolved. Its `Debug` shows no values.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct ChildPlan {
    /// Program name or path.
    pub command: String,
    /// Arguments.
    pub args: Vec<String>,
    /// The whole environment of the child.
    pub env: Vec<(OsString, OsString)>,
    /// Working folder; default: that of the host.
    pub cwd: Option<PathBuf>,
    /// What it may do, if not everything.
    pub sandbox: Option<Box<Confinement>>,
    /// What it runs in, if not on this system. `env` is that of the engine's client then.
    pub container: Option<Box<ContainerPlan>>,
}

/// A container with every value resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerPlan {
    /// The container.
    pub container: Container,
    /// Which variables of the client's environment are given to the server in it, by name.
    pub variables: Vec<String>,
}

impl fmt::Debug for ChildPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChildPlan")
            .field("command", &self.command)
            .field("args", &self.args.len())
            .field("env", &self.env.len())
            .field("cwd", &self.cwd)
            .field("sandbox", &self.sandbox)
            .field("container", &self.container.as_ref().map(|plan| &plan.variables))
            .finish()
    }
}

/// A value could not be resolved.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ResolveError {
    message: String,
}

impl ResolveError {
    /// `message` names field and variable and never a value.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into() }
    }
}

/// Takes every string as it is written; children inherit nothing but what their entry says.
#[derive(Clone, Copy, Debug, Default)]
pub struct Verbatim;

impl Resolver for Verbatim {
    fn stdio<'a>(&'a self, _: &'a ServerName, spec: &'a Stdio) -> BoxFuture<'a, Result<ChildPlan, ResolveError>> {
        let plan = ChildPlan {
            command: spec.command.clone(),
            args: spec.args.clone(),
            env: spec.env.iter().map(|(name, value)| (name.into(), value.into())).collect(),
            cwd: spec.cwd.clone(),
            sandbox: spec.sandbox.as_ref().map(|sandbox| Box::new(sandbox.confinement())),
            container: spec.container.as_ref().map(|container| {
                let variables = spec.env.keys().filter(|name| !acts_on_the_client(name)).cloned().collect();
                Box::new(ContainerPlan { container: Container::clone(container), variables })
            }),
        };
        Box::pin(std::future::ready(Ok(plan)))
    }

    fn url<'a>(&'a self, _: &'a ServerName, spec: &'a Http) -> BoxFuture<'a, Result<String, ResolveError>> {
        Box::pin(std::future::ready(Ok(spec.url.clone())))
    }

    fn headers<'a>(
        &'a self,
        _: &'a ServerName,
        spec: &'a Http,
    ) -> BoxFuture<'a, Result<Vec<(String, String)>, ResolveError>> {
        let headers = spec.headers.clone().into_iter().collect();
        Box::pin(async move { Ok(headers) })
    }
}

/// Signs requests in: gives them their `Authorization` header, and a proof where the token is bound to a key; says what to do
/// when a server refuses one.
///
/// It is asked about HTTP servers whose entry has no `Authorization` header of its own. Without one, the default, such
/// servers get no such header, and one that wants it waits as [`State::NeedsAuth`](crate::State::NeedsAuth).
pub trait Authorizer: Send + Sync {
    /// What a request with this method that is about to be sent to the URL of `to` is signed with; `None` when nobody has
    /// signed in. Asked for every request, and again when one is sent again: it must be quick while there is a token that
    /// can be used.
    ///
    /// # Errors
    /// [`NotAuthorized::Unavailable`] fails this request alone, [`NotAuthorized::SignIn`] the connection.
    fn sign<'a>(
        &'a self,
        to: Destination<'a>,
        method: &'a Method,
    ) -> BoxFuture<'a, Result<Option<Signature>, NotAuthorized>>;

    /// A request was refused. `Ok` when it is worth sending once more: there is another token, one with more scopes, or a
    /// nonce for its proof.
    ///
    /// # Errors
    /// As [`Self::sign`].
    fn challenged<'a>(&'a self, to: Destination<'a>, challenge: Challenge) -> BoxFuture<'a, Result<(), NotAuthorized>>;

    /// The server named the nonce that proofs are to hold from now on (RFC 9449, 8.2 and 9). Told of answers to requests that
    /// had a proof, and before [`Self::challenged`] is asked about the same answer. The value is as it came. The default
    /// ignores it.
    fn nonce(&self, to: Destination<'_>, nonce: &HeaderValue) {
        let _ = (to, nonce);
    }

    /// Waits until somebody has signed in to a server that waits for that; the server is then connected again. The default
    /// waits for ever.
    fn signed_in<'a>(&'a self, to: Destination<'a>) -> BoxFuture<'a, ()> {
        let _ = to;
        Box::pin(std::future::pending())
    }
}

/// What one request is signed with. Its `Debug` shows neither.
#[derive(Clone)]
pub struct Signature {
    /// The header `Authorization`.
    pub authorization: HeaderValue,
    /// The header `DPoP`: that whoever sends the request has the key which the token is bound to (RFC 9449). Good for this
    /// request alone.
    pub proof: Option<HeaderValue>,
}

impl From<HeaderValue> for Signature {
    /// With a token that whoever has it can use.
    fn from(authorization: HeaderValue) -> Self {
        Self { authorization, proof: None }
    }
}

impl fmt::Debug for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Signature").field("proof", &self.proof.is_some()).finish_non_exhaustive()
    }
}

/// Where a request goes.
#[derive(Clone, Copy)]
pub struct Destination<'a> {
    /// The name in the configuration.
    pub server: &'a ServerName,
    /// The endpoint, with every value resolved. Its query may hold a secret.
    pub url: &'a Url,
    /// The entry, as it is written.
    pub spec: &'a Http,
}

impl fmt::Debug for Destination<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Destination").field("server", self.server).finish_non_exhaustive()
    }
}

/// How a server refused a request. Its `Debug` does not show what was sent.
#[derive(Clone)]
pub struct Challenge {
    /// 401 or 403.
    pub status: u16,
    /// The values of its `WWW-Authenticate` headers, as they came; at most eight of at most 8 KiB.
    pub www_authenticate: Vec<String>,
    /// The `Authorization` header that the request had.
    pub sent: Option<HeaderValue>,
}

impl fmt::Debug for Challenge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Challenge")
            .field("status", &self.status)
            .field("www_authenticate", &self.www_authenticate)
            .field("sent", &self.sent.is_some())
            .finish()
    }
}

/// A request cannot be signed in. Neither text holds a secret; both are made safe to print by the host.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotAuthorized {
    /// A person has to sign in first.
    #[error("{how}")]
    SignIn {
        /// What that person should do, such as `toolrack login sentry`.
        how: String,
    },
    /// No token can be had at the moment.
    #[error("{why}")]
    Unavailable {
        /// What went wrong.
        why: String,
    },
}

/// What outlives a connection: the era that worked with a server, and the tools of servers that are started when they are
/// needed.
///
/// Every method is best effort and must be quick; a failure is its own to log.
pub trait Memory: Send + Sync {
    /// The era that worked last with the server of this [fingerprint](crate::ServerSpec::fingerprint).
    fn era<'a>(&'a self, fingerprint: &'a str) -> BoxFuture<'a, Option<Era>>;
    /// Remembers it.
    fn remember_era<'a>(&'a self, fingerprint: &'a str, era: Era) -> BoxFuture<'a, ()>;
    /// The tools of a server as they were given to [`Self::remember_tools`]. The default remembers none.
    fn tools<'a>(&'a self, fingerprint: &'a str) -> BoxFuture<'a, Option<Bytes>> {
        let _ = fingerprint;
        Box::pin(async { None })
    }
    /// Remembers them. What the bytes mean is the host's business.
    fn remember_tools<'a>(&'a self, fingerprint: &'a str, tools: Bytes) -> BoxFuture<'a, ()> {
        drop((fingerprint, tools));
        Box::pin(async {})
    }
}

/// What people answered for good when they were asked whether a call may run.
///
/// Asked each time before somebody would be asked, so that what is taken back counts no more at the next call.
pub trait Answers: Send + Sync {
    /// The answer that lets calls like this run, in a few words with its date; `None` when somebody has to be asked. Must be
    /// quick. A failure is its own to log, and no answer.
    fn recall<'a>(&'a self, about: AnswerAbout<'a>) -> BoxFuture<'a, Option<String>>;

    /// Remembers an answer, in the place of earlier ones about the same tools. Whether that could be done; a failure is its own
    /// to log.
    fn remember<'a>(&'a self, answer: NewAnswer<'a>) -> BoxFuture<'a, bool>;
}

impl fmt::Debug for dyn Answers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Answers")
    }
}

/// What an answer has to be about.
#[derive(Clone, Copy, Debug)]
pub struct AnswerAbout<'a> {
    /// The server's name.
    pub server: &'a ServerName,
    /// [What](crate::ServerSpec::fingerprint) is configured under that name: another command or URL is another server.
    pub fingerprint: &'a str,
    /// The tool's own name; untrusted.
    pub tool: &'a str,
    /// What the tool is: another definition is another tool.
    pub definition: DefinitionHash,
}

/// An answer to be remembered.
#[derive(Clone, Copy, Debug)]
pub struct NewAnswer<'a> {
    /// The server's name.
    pub server: &'a ServerName,
    /// What is configured under that name.
    pub fingerprint: &'a str,
    /// The tools that it is about, with what they are now.
    pub tools: &'a [(String, DefinitionHash)],
    /// It was given for all that the server has.
    pub of_server: bool,
    /// How the call came in that was asked about.
    pub by: Way,
}

/// Keeps what is too long for a model.
pub trait Artifacts: Send + Sync {
    /// Keeps `bytes` and returns a handle that leads back to them, such as a path or an id.
    fn keep<'a>(
        &'a self,
        server: &'a ServerName,
        tool: &'a str,
        media_type: &'a str,
        bytes: &'a [u8],
    ) -> BoxFuture<'a, Result<String, KeepError>>;
}

/// An artifact could not be kept.
#[derive(Debug, thiserror::Error)]
#[error("the full result could not be kept: {why}")]
pub struct KeepError {
    /// What went wrong, in words for a person.
    pub why: String,
}
