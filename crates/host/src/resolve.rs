//! Defines the traits through which a host gets values for child processes and requests, and through which it stores
//! data.
//!
//! The host reads no environment, no files and no database. It calls these traits when it needs a value.

mod inheriting;

use std::{ffi::OsString, fmt, path::PathBuf};

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{HeaderValue, Method};
use toolrack_supervisor::Confinement;
use url::Url;

pub(crate) use inheriting::InheritingResolver;

use crate::{
    definition::DefinitionHash,
    principal::Principal,
    spec::{Container, Era, Http, OAuth, ServerName, Stdio, affects_engine_client},
    witness::Way,
};

/// Replaces the placeholders of an entry (the configuration of a server) by values, when the host needs these values.
///
/// The default is [`Verbatim`]: it uses every string as written, and child processes inherit the variables of
/// [`HostBuilder::environment`](crate::HostBuilder::environment) that their entry names.
pub trait Resolver: Send + Sync {
    /// Resolves the child process to start. Called before each spawn, so that a changed environment takes effect on
    /// reconnect.
    ///
    /// # Errors
    /// [`ResolveError`], which names the field and the variable that has no value.
    fn stdio<'a>(&'a self, server: &'a ServerName, spec: &'a Stdio) -> BoxFuture<'a, Result<ChildPlan, ResolveError>>;

    /// Resolves the endpoint's URL. Called once per connection.
    ///
    /// # Errors
    /// The same as for [`Self::stdio`].
    fn url<'a>(&'a self, server: &'a ServerName, spec: &'a Http) -> BoxFuture<'a, Result<String, ResolveError>>;

    /// Resolves the configured headers of one request. Called for every request, so that a token can change in between.
    fn headers<'a>(
        &'a self,
        server: &'a ServerName,
        spec: &'a Http,
    ) -> BoxFuture<'a, Result<Vec<(String, String)>, ResolveError>>;

    /// Reports header values that the [`headers_helper`](Http::headers_helper) of this server has printed. The resolver
    /// must treat them as secrets. The default ignores them.
    fn add_secrets(&self, server: &ServerName, secrets: Vec<String>) {
        let _ = (server, secrets);
    }

    /// Resolves the OAuth settings of an entry. For implementors of [`Authorizer`]; the host does not call this. The
    /// default returns the settings unchanged.
    ///
    /// # Errors
    /// The same as for [`Self::stdio`].
    fn oauth<'a>(&'a self, server: &'a ServerName, spec: &'a Http) -> BoxFuture<'a, Result<OAuth, ResolveError>> {
        let _ = server;
        Box::pin(std::future::ready(Ok(spec.oauth.clone())))
    }
}

/// A child process with every value resolved. Its `Debug` shows no values.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct ChildPlan {
    /// The program's name or path.
    pub command: String,
    /// Arguments.
    pub args: Vec<String>,
    /// The whole environment of the child.
    pub env: Vec<(OsString, OsString)>,
    /// The working folder; `None` means that of the host.
    pub cwd: Option<PathBuf>,
    /// The sandbox, if there is one.
    pub sandbox: Option<Box<Confinement>>,
    /// The container, if there is one. `env` is then the environment of the engine's client, which starts the
    /// container.
    pub container: Option<Box<ContainerPlan>>,
}

/// A container with every value resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerPlan {
    /// The container.
    pub container: Container,
    /// The variables of the client's environment that the server in the container gets, by name.
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
    /// Creates the error; `message` names the field and the variable, and must not contain a value.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into() }
    }
}

/// Uses every string unchanged; child processes inherit only the variables that their entry names.
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
                let variables = spec.env.keys().filter(|name| !affects_engine_client(name)).cloned().collect();
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

/// Authorizes requests: provides their `Authorization` header, and a proof if the token is bound to a key. When a
/// server refuses a request, decides whether to send it again.
///
/// The host calls the authorizer for HTTP servers whose entry has no `Authorization` header. By default
/// there is no authorizer: requests then have no such header, and a server that requires the header is in the state
/// [`State::NeedsAuth`](crate::State::NeedsAuth).
pub trait Authorizer: Send + Sync {
    /// Returns the signature for a request with this method to the URL of `destination`; `None` if there is no sign-in.
    /// Called each time that a request is sent, also for a repetition, so it must be quick while there is a usable
    /// token.
    ///
    /// # Errors
    /// With [`NotAuthorized::Unavailable`], only this request fails. With [`NotAuthorized::SignIn`], the connection
    /// fails.
    fn sign<'a>(
        &'a self,
        destination: Destination<'a>,
        method: &'a Method,
    ) -> BoxFuture<'a, Result<Option<Signature>, NotAuthorized>>;

    /// Handles the refusal of a request. Returns `Ok` when the request should be sent once more, because there is
    /// another token, one with more scopes, or a nonce for its proof.
    ///
    /// # Errors
    /// The same as for [`Self::sign`].
    fn challenged<'a>(
        &'a self,
        destination: Destination<'a>,
        challenge: Challenge,
    ) -> BoxFuture<'a, Result<(), NotAuthorized>>;

    /// Reports the server's nonce for later proofs (RFC 9449, 8.2 and 9). Called for responses to requests with a
    /// proof, before [`Self::challenged`] for the same response. The value is unchanged. The default ignores it.
    fn nonce(&self, destination: Destination<'_>, nonce: &HeaderValue) {
        let _ = (destination, nonce);
    }

    /// Waits until the user has signed in to a server that needs it; the host then reconnects. The default waits
    /// forever.
    fn signed_in<'a>(&'a self, destination: Destination<'a>) -> BoxFuture<'a, ()> {
        let _ = destination;
        Box::pin(std::future::pending())
    }
}

/// The signature of one request. Its `Debug` shows no values.
#[derive(Clone)]
pub struct Signature {
    /// The header `Authorization`.
    pub authorization: HeaderValue,
    /// The header `DPoP`: proof that the sender has the key to which the token is bound (RFC 9449). Valid only for this
    /// request.
    pub proof: Option<HeaderValue>,
}

impl From<HeaderValue> for Signature {
    /// Creates a signature with a bearer token.
    fn from(authorization: HeaderValue) -> Self {
        Self { authorization, proof: None }
    }
}

impl fmt::Debug for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Signature").field("proof", &self.proof.is_some()).finish_non_exhaustive()
    }
}

/// The destination of a request.
#[derive(Clone, Copy)]
pub struct Destination<'a> {
    /// The name in the configuration.
    pub server: &'a ServerName,
    /// The URL of the entry, with every value resolved, which identifies the server. Its query may hold a secret.
    pub url: &'a Url,
    /// The URL of the request, if it is another one: HTTP+SSE posts to a second endpoint, which the server names.
    pub posts_to: Option<&'a Url>,
    /// The entry, with its placeholders.
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
    /// The values of its `WWW-Authenticate` headers, unchanged; at most eight of at most 8 KiB.
    pub www_authenticate: Vec<String>,
    /// The `Authorization` header of the request.
    pub sent: Option<HeaderValue>,
}

impl Challenge {
    /// Returns whether the server requires a nonce in the proof, and accepts the token (RFC 9449, 9).
    #[must_use]
    pub fn wants_nonce(&self) -> bool {
        self.status == 401 && self.has_error("use_dpop_nonce")
    }

    /// Returns whether the server requires a token with more scopes (RFC 6750, 3.1), as opposed to more rights of the
    /// token's owner.
    pub(crate) fn wants_scopes(&self) -> bool {
        self.status == 403 && self.has_error("insufficient_scope")
    }

    fn has_error(&self, error: &str) -> bool {
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

/// A request cannot be authorized. Neither text may contain a secret; the host makes both safe to print.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotAuthorized {
    /// A user has to sign in first.
    #[error("{how}")]
    SignIn {
        /// The next step for the user, such as `toolrack login sentry`.
        how: String,
    },
    /// No token is available at the moment.
    #[error("{why}")]
    Unavailable {
        /// The problem.
        why: String,
    },
}

/// Stores facts across connections: the last era of a server (the generation of MCP that it used), and the tools of
/// servers that start on demand.
///
/// Every method is best effort and must be quick; the implementation logs failures.
pub trait Memory: Send + Sync {
    /// Returns the last era that worked with the server of this [fingerprint](crate::ServerSpec::fingerprint).
    fn era<'a>(&'a self, fingerprint: &'a str) -> BoxFuture<'a, Option<Era>>;
    /// Stores the last era that worked with a server.
    fn remember_era<'a>(&'a self, fingerprint: &'a str, era: Era) -> BoxFuture<'a, ()>;
    /// Returns the tools of a server as [`Self::remember_tools`] stored them. The default returns none.
    fn tools<'a>(&'a self, fingerprint: &'a str) -> BoxFuture<'a, Option<Bytes>> {
        let _ = fingerprint;
        Box::pin(async { None })
    }
    /// Stores the tools of a server. The bytes are opaque, in the host's own format.
    fn remember_tools<'a>(&'a self, fingerprint: &'a str, tools: Bytes) -> BoxFuture<'a, ()> {
        drop((fingerprint, tools));
        Box::pin(async {})
    }
}

/// Stores permanent answers to the question whether a call may run.
///
/// The host looks for an answer before each question, so a revoked answer does not apply to the next call.
pub trait Answers: Send + Sync {
    /// Returns a short description, with the date, of the answer that allows calls like this; `None` when the user has
    /// to be asked. Must be quick. The implementation logs a failure, and then returns `None`.
    fn recall<'a>(&'a self, query: AnswerQuery<'a>) -> BoxFuture<'a, Option<String>>;

    /// Stores an answer, replacing earlier ones about the same tools. Returns whether that succeeded; the
    /// implementation logs a failure.
    fn remember<'a>(&'a self, answer: NewAnswer<'a>) -> BoxFuture<'a, bool>;
}

impl fmt::Debug for dyn Answers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Answers")
    }
}

/// The call that an answer must cover.
#[derive(Clone, Copy, Debug)]
pub struct AnswerQuery<'a> {
    /// The server's name.
    pub server: &'a ServerName,
    /// The [fingerprint](crate::ServerSpec::fingerprint) of the entry: another command or URL means another server.
    pub fingerprint: &'a str,
    /// The tool's own name; untrusted.
    pub tool: &'a str,
    /// The hash of the tool's definition: another definition means another tool.
    pub definition: DefinitionHash,
    /// The person or service that calls.
    pub principal: &'a Principal,
}

/// An answer to store.
#[derive(Clone, Copy, Debug)]
pub struct NewAnswer<'a> {
    /// The server's name.
    pub server: &'a ServerName,
    /// The fingerprint of the server's entry.
    pub fingerprint: &'a str,
    /// The tools that the answer covers, with the hashes of their definitions.
    pub tools: &'a [(String, DefinitionHash)],
    /// Whether the answer covers all tools of the server.
    pub of_server: bool,
    /// The principal whose calls the answer covers; `None` for the calls of all principals.
    pub principal: Option<&'a Principal>,
    /// How the call that the user was asked about reached the host.
    pub by: Way,
}

/// Stores results that are too long for a model.
pub trait Artifacts: Send + Sync {
    /// Stores `bytes` and returns a handle to them, such as a path or an id.
    fn keep<'a>(
        &'a self,
        server: &'a ServerName,
        tool: &'a str,
        media_type: &'a str,
        bytes: &'a [u8],
    ) -> BoxFuture<'a, Result<String, KeepError>>;
}

/// An artifact could not be stored.
#[derive(Debug, thiserror::Error)]
#[error("the full result could not be stored: {why}")]
pub struct KeepError {
    /// The problem, as text for users.
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
