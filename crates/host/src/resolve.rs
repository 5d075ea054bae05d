//! The traits through which a host reaches the outside: values for child processes and requests, and storage.
//!
//! The host reads no environment, no files and no database. It calls these traits, at the moment it needs an answer.

mod inheriting;

use std::{ffi::OsString, fmt, path::PathBuf};

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{HeaderValue, Method};
use toolrack_supervisor::Confinement;
use url::Url;

pub(crate) use inheriting::Inheriting;

use crate::{
    definition::DefinitionHash,
    spec::{Container, Era, Http, OAuth, ServerName, Stdio, acts_on_the_client},
    witness::Way,
};

/// Turns placeholders into values, at the last moment.
///
/// The default takes everything as written, as [`Verbatim`] does, and passes on the variables of
/// [`HostBuilder::environment`](crate::HostBuilder::environment).
pub trait Resolver: Send + Sync {
    /// The child process to start. Called before each spawn, so that a changed environment takes effect on reconnect.
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

    /// A program of this server's entry has printed these values of headers: treat them as secrets from now on. The
    /// default ignores it.
    fn given(&self, server: &ServerName, secrets: Vec<String>) {
        let _ = (server, secrets);
    }

    /// The OAuth settings of an entry. For implementors of [`Authorizer`]; the host does not call this. The default
    /// takes everything as written.
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
    /// Its sandbox, if there is one.
    pub sandbox: Option<Box<Confinement>>,
    /// Its container, if there is one. `env` is then that of the engine's client.
    pub container: Option<Box<ContainerPlan>>,
}

/// A container with every value resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerPlan {
    /// The container.
    pub container: Container,
    /// Which variables of the client's environment the server in the container gets, by name.
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

/// Takes every string as it is written; children inherit only what their entry names.
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

/// Authorizes requests: gives them their `Authorization` header, and a proof where the token is bound to a key; decides
/// what to do when a server refuses one.
///
/// The host calls it for HTTP servers whose entry has no `Authorization` header of its own. Without one, the default,
/// such servers get no such header, and one that wants it waits as [`State::NeedsAuth`](crate::State::NeedsAuth).
pub trait Authorizer: Send + Sync {
    /// The signature for a request with this method to the URL of `to`; `None` when there is no sign-in. Called for
    /// every request, and again when one is sent again: it must be quick while there is a usable token.
    ///
    /// # Errors
    /// [`NotAuthorized::Unavailable`] fails this request alone, [`NotAuthorized::SignIn`] the connection.
    fn sign<'a>(
        &'a self,
        to: Destination<'a>,
        method: &'a Method,
    ) -> BoxFuture<'a, Result<Option<Signature>, NotAuthorized>>;

    /// Handles the refusal of a request. `Ok` when it is worth sending once more: there is another token, one with more
    /// scopes, or a nonce for its proof.
    ///
    /// # Errors
    /// As [`Self::sign`].
    fn challenged<'a>(&'a self, to: Destination<'a>, challenge: Challenge) -> BoxFuture<'a, Result<(), NotAuthorized>>;

    /// The server named the nonce for later proofs (RFC 9449, 8.2 and 9). Called for responses to requests with a
    /// proof, before [`Self::challenged`] for the same response. The value is as it came. The default ignores it.
    fn nonce(&self, to: Destination<'_>, nonce: &HeaderValue) {
        let _ = (to, nonce);
    }

    /// Waits until the user has signed in to a server that waits for that; the host then connects it again. The default
    /// waits for ever.
    fn signed_in<'a>(&'a self, to: Destination<'a>) -> BoxFuture<'a, ()> {
        let _ = to;
        Box::pin(std::future::pending())
    }
}

/// The signature of one request. Its `Debug` shows no values.
#[derive(Clone)]
pub struct Signature {
    /// The header `Authorization`.
    pub authorization: HeaderValue,
    /// The header `DPoP`: proof that the sender has the key to which the token is bound (RFC 9449). Good for this
    /// request alone.
    pub proof: Option<HeaderValue>,
}

impl From<HeaderValue> for Signature {
    /// With a bearer token.
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

/// A server's refusal of a request. Its `Debug` does not show the `Authorization` header.
#[derive(Clone)]
pub struct Challenge {
    /// 401 or 403.
    pub status: u16,
    /// The values of its `WWW-Authenticate` headers, as they came; at most eight of at most 8 KiB.
    pub www_authenticate: Vec<String>,
    /// The `Authorization` header of the request.
    pub sent: Option<HeaderValue>,
}

impl Challenge {
    /// Whether the server wants a nonce in the proof, and accepts the token (RFC 9449, 9).
    #[must_use]
    pub fn wants_nonce(&self) -> bool {
        self.status == 401 && self.names("use_dpop_nonce")
    }

    /// Whether the server wants a token with more scopes (RFC 6750, 3.1), and does not mean what its owner may do.
    pub(crate) fn wants_scopes(&self) -> bool {
        self.status == 403 && self.names("insufficient_scope")
    }

    fn names(&self, error: &str) -> bool {
        self.www_authenticate.iter().any(|value| value.contains(error))
    }
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

/// A request cannot be authorized. Neither text holds a secret; the host makes both safe to print.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotAuthorized {
    /// A person has to sign in first.
    #[error("{how}")]
    SignIn {
        /// What that person should do, such as `toolrack login sentry`.
        how: String,
    },
    /// No token is available at the moment.
    #[error("{why}")]
    Unavailable {
        /// What went wrong.
        why: String,
    },
}

/// Storage that outlives a connection: the last era of a server, and the tools of servers that start on demand.
///
/// Every method is best effort and must be quick; a failure is its own to log.
pub trait Memory: Send + Sync {
    /// The last era that worked with the server of this [fingerprint](crate::ServerSpec::fingerprint).
    fn era<'a>(&'a self, fingerprint: &'a str) -> BoxFuture<'a, Option<Era>>;
    /// Remembers it.
    fn remember_era<'a>(&'a self, fingerprint: &'a str, era: Era) -> BoxFuture<'a, ()>;
    /// The tools of a server as [`Self::remember_tools`] stored them. The default remembers none.
    fn tools<'a>(&'a self, fingerprint: &'a str) -> BoxFuture<'a, Option<Bytes>> {
        let _ = fingerprint;
        Box::pin(async { None })
    }
    /// Stores them. The bytes are opaque, in the host's own format.
    fn remember_tools<'a>(&'a self, fingerprint: &'a str, tools: Bytes) -> BoxFuture<'a, ()> {
        drop((fingerprint, tools));
        Box::pin(async {})
    }
}

/// Answers that count for good, to questions whether a call may run.
///
/// Consulted before each question, so that a revoked answer counts no more at the next call.
pub trait Answers: Send + Sync {
    /// The answer that lets calls like this run, in a few words with its date; `None` when a person has to be asked.
    /// Must be quick. A failure is its own to log, and no answer.
    fn recall<'a>(&'a self, about: AnswerAbout<'a>) -> BoxFuture<'a, Option<String>>;

    /// Stores an answer, in place of earlier ones about the same tools. Returns whether that worked; a failure is its
    /// own to log.
    fn remember<'a>(&'a self, answer: NewAnswer<'a>) -> BoxFuture<'a, bool>;
}

impl fmt::Debug for dyn Answers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Answers")
    }
}

/// The call that an answer must cover.
#[derive(Clone, Copy, Debug)]
pub struct AnswerAbout<'a> {
    /// The server's name.
    pub server: &'a ServerName,
    /// The [fingerprint](crate::ServerSpec::fingerprint) of its entry: another command or URL is another server.
    pub fingerprint: &'a str,
    /// The tool's own name; untrusted.
    pub tool: &'a str,
    /// The hash of its definition: another definition is another tool.
    pub definition: DefinitionHash,
}

/// An answer to be stored.
#[derive(Clone, Copy, Debug)]
pub struct NewAnswer<'a> {
    /// The server's name.
    pub server: &'a ServerName,
    /// The fingerprint of its entry.
    pub fingerprint: &'a str,
    /// The tools that it covers, with the hashes of their definitions.
    pub tools: &'a [(String, DefinitionHash)],
    /// It covers all tools of the server.
    pub of_server: bool,
    /// The way in of the call in question.
    pub by: Way,
}

/// Keeps results that are too long for a model.
pub trait Artifacts: Send + Sync {
    /// Keeps `bytes` and returns a handle to them, such as a path or an id.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_wants_a_nonce_or_more_scopes_only_where_its_status_and_its_words_say_so() {
        let challenge =
            |status, value: &str| Challenge { status, www_authenticate: vec![value.to_owned()], sent: None };
        for (status, value, nonce, scopes) in [
            (401, "DPoP error=\"use_dpop_nonce\"", true, false),
            (403, "DPoP error=\"use_dpop_nonce\"", false, false),
            (401, "DPoP error=\"invalid_token\"", false, false),
            (403, "Bearer error=\"insufficient_scope\"", false, true),
            (401, "Bearer error=\"insufficient_scope\"", false, false),
        ] {
            let challenge = challenge(status, value);
            assert_eq!((challenge.wants_nonce(), challenge.wants_scopes()), (nonce, scopes), "{status} {value}");
        }
    }
}
