//! Where a person signs in.

use std::time::Duration;

use futures::future::BoxFuture;
use url::Url;

/// Shows a page of an authorization server to a person, and learns where that sends them in the end.
pub trait Browser: Send + Sync {
    /// Where the person is to be sent back to; the same until [`Self::visit`] has returned.
    fn redirect_uri(&self) -> String;

    /// Shows `page`, which is http or https, and waits for the URL that the browser was sent back to. Bounded in time.
    ///
    /// # Errors
    /// [`BrowserError`].
    fn visit<'a>(&'a self, page: &'a Url) -> BoxFuture<'a, Result<Url, BrowserError>>;
}

/// Nobody came back from the browser.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BrowserError {
    /// There is no address on which the browser could be waited for.
    #[error("nothing can be waited for on 127.0.0.1, port {port}: {why}")]
    Port {
        /// The port that was asked for; 0 is any.
        port: u16,
        /// What the system said.
        why: String,
    },
    /// Nobody came back in time.
    #[error("the browser did not come back within {} minutes", .after.as_secs() / 60)]
    TimedOut {
        /// How long was waited.
        after: Duration,
    },
    /// The person gave up.
    #[error("the sign-in was given up")]
    GivenUp,
}

impl BrowserError {
    /// A stable code for programs.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Port { .. } => "SIGN_IN_NO_PORT",
            Self::TimedOut { .. } => "SIGN_IN_TIMED_OUT",
            Self::GivenUp => "SIGN_IN_GIVEN_UP",
        }
    }
}
