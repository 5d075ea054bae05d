//! Shows sign-in pages in the browser of the user at the terminal, or of the user at the dashboard.

use std::{sync::Arc, time::Duration};

use arc_swap::ArcSwapOption;
use futures::future::BoxFuture;
use toolrack_auth::{Browser, BrowserError, Loopback};
use toolrack_daemon::SignInChannels;
use url::Url;

use crate::{asker::Terminal, render::link, screen::Screen};

/// How long a user may take to sign in.
const SIGN_IN_TIMEOUT: Duration = Duration::from_secs(300);
/// The most lines that are read as attempts to paste the address.
const MAX_TRIES: usize = 20;

/// Shows the sign-in page. Then waits until the page redirects the browser to this machine, or until the user pastes
/// the address of that redirect at the terminal.
#[derive(Debug)]
pub(crate) struct TerminalBrowser {
    pub(crate) screen: Arc<Screen>,
    pub(crate) terminal: Arc<Terminal>,
    pub(crate) loopback: Loopback,
    /// Whether to open a browser.
    pub(crate) opens_browser: bool,
    /// Whether the user may paste the address to which the browser was redirected.
    pub(crate) can_paste: bool,
}

impl Browser for TerminalBrowser {
    fn redirect_uri(&self) -> String {
        self.loopback.redirect_uri()
    }

    fn visit<'a>(&'a self, authorization_url: &'a Url) -> BoxFuture<'a, Result<Url, BrowserError>> {
        Box::pin(async move {
            self.screen.message(&format!("Sign in here: {}", link(authorization_url.as_str())));
            // An address from a server is opened as a web page or not at all, and without a shell.
            if self.opens_browser && matches!(authorization_url.scheme(), "http" | "https") {
                // If there is no browser, the user still sees the address on the screen.
                let _ = open::that_detached(authorization_url.as_str());
            }
            if !self.can_paste {
                return self.loopback.wait(authorization_url, SIGN_IN_TIMEOUT).await;
            }
            self.screen.message(&format!(
                "If your browser cannot reach {}, paste here the address that it shows at the end.",
                self.redirect_uri()
            ));
            tokio::select! {
                redirect = self.loopback.wait(authorization_url, SIGN_IN_TIMEOUT) => redirect,
                redirect = self.wait_for_pasted_url() => Ok(redirect),
            }
        })
    }
}

/// The browser in which a user has the dashboard open. The dashboard opens the sign-in page there, and that page
/// redirects the browser to this machine. If the browser runs on another machine, the user pastes the address to which
/// it was redirected.
#[derive(Debug)]
pub(crate) struct DashboardBrowser {
    loopback: Loopback,
    /// The two channels to the dashboard. The first visit takes them, so a second visit fails.
    channels: ArcSwapOption<SignInChannels>,
}

impl DashboardBrowser {
    /// Listens for the redirect on any port that is free.
    pub(crate) async fn bind(channels: SignInChannels) -> Result<Self, BrowserError> {
        Ok(Self { loopback: Loopback::bind(0).await?, channels: ArcSwapOption::from_pointee(channels) })
    }
}

impl Browser for DashboardBrowser {
    fn redirect_uri(&self) -> String {
        self.loopback.redirect_uri()
    }

    fn visit<'a>(&'a self, authorization_url: &'a Url) -> BoxFuture<'a, Result<Url, BrowserError>> {
        Box::pin(async move {
            let channels = self.channels.swap(None).and_then(Arc::into_inner);
            let SignInChannels { page, pasted_address } = channels.ok_or(BrowserError::GivenUp)?;
            page.send(authorization_url.clone()).map_err(|_| BrowserError::GivenUp)?;
            tokio::select! {
                redirect = self.loopback.wait(authorization_url, SIGN_IN_TIMEOUT) => redirect,
                // `pasted_address` fails when the user can no longer paste an address.
                Ok(redirect) = pasted_address => Ok(redirect),
            }
        })
    }
}

impl TerminalBrowser {
    /// Waits for the address that the user types. Never returns if no right address is typed.
    async fn wait_for_pasted_url(&self) -> Url {
        for _ in 0..MAX_TRIES {
            let Some(line) = self.terminal.next_line().await else {
                break;
            };
            let typed_text = line.trim();
            if typed_text.is_empty() {
                continue;
            }
            match Url::parse(typed_text) {
                Ok(redirect) if typed_text.starts_with(&self.redirect_uri()) => return redirect,
                _ => self
                    .screen
                    .message(&format!("That is another address: the right one begins with {}", self.redirect_uri())),
            }
        }
        std::future::pending().await
    }
}
