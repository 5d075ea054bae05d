//! The trait that shows a sign-in page to a user, and its errors.

use std::time::Duration;

use futures::future::BoxFuture;
use url::Url;

/// Shows a page of an authorization server to the user, and returns the URL to which the server redirects.
pub trait Browser: Send + Sync {
    /// Returns the URI to which the authorization server redirects. It stays the same until [`Self::visit`] has
    /// returned.
    fn redirect_uri(&self) -> String;

    /// Shows `page`, an http or https URL, and waits until the browser is redirected back. Returns the URL of that
    /// redirect. An implementation limits the time of the wait, and ends it if the future is dropped.
    ///
    /// # Errors
    /// [`BrowserError`] when the browser was not redirected back.
    fn visit<'a>(&'a self, page: &'a Url) -> BoxFuture<'a, Result<Url, BrowserError>>;
}

/// The reason why the browser was not redirected back.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BrowserError {
    /// The local port for the redirect cannot be used.
    #[error("cannot listen on 127.0.0.1, port {port}: {why}")]
    Port {
        /// The requested port; 0 is any.
        port: u16,
        /// The system's error message.
        why: String,
    },
    /// The browser did not come back in time.
    #[error("the browser did not return within {} minutes", .after.as_secs() / 60)]
    TimedOut {
        /// The time-out.
        after: Duration,
    },
    /// The user cancelled the sign-in.
    #[error("the sign-in was abandoned")]
    GivenUp,
}

impl BrowserError {
    /// Returns a stable code for programs.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Port { .. } => "SIGN_IN_NO_PORT",
            Self::TimedOut { .. } => "SIGN_IN_TIMED_OUT",
            Self::GivenUp => "SIGN_IN_GIVEN_UP",
        }
    }
}
