//! The browsers of the user at the terminal and of the user at the dashboard.

use std::{sync::Arc, time::Duration};

use arc_swap::ArcSwapOption;
use futures::future::BoxFuture;
use toolrack_auth::{Browser, BrowserError, Loopback};
use toolrack_daemon::SignInPage;
use url::Url;

use crate::{asker::Terminal, render::link, screen::Screen};

/// How long a user may take to sign in.
const SIGN_IN_TIMEOUT: Duration = Duration::from_secs(300);
/// The most lines that are searched for an address.
const MAX_TRIES: usize = 20;

/// Shows a page and waits until the browser is redirected to this machine, or the user pastes its address at the
/// terminal.
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

    fn visit<'a>(&'a self, page: &'a Url) -> BoxFuture<'a, Result<Url, BrowserError>> {
        Box::pin(async move {
            self.screen.say(&format!("Sign in here: {}", link(page.as_str())));
            // An address from a server is opened as a web page or not at all, and without a shell.
            if self.opens_browser && matches!(page.scheme(), "http" | "https") {
                // If there is no browser, the user still sees the address on the screen.
                let _ = open::that_detached(page.as_str());
            }
            if !self.can_paste {
                return self.loopback.wait(page, SIGN_IN_TIMEOUT).await;
            }
            self.screen.say(&format!(
                "If your browser cannot reach {}, paste the address here that it shows at the end.",
                self.redirect_uri()
            ));
            tokio::select! {
                redirect = self.loopback.wait(page, SIGN_IN_TIMEOUT) => redirect,
                redirect = self.pasted() => Ok(redirect),
            }
        })
    }
}

/// The browser that shows a dashboard. The dashboard sends it to the page, and the page sends it back to this machine.
/// If it runs on another machine, the user pastes the address at which it ends up.
#[derive(Debug)]
pub(crate) struct DashboardBrowser {
    loopback: Loopback,
    /// The first visit takes it.
    page: ArcSwapOption<SignInPage>,
}

impl DashboardBrowser {
    /// Waits on any port that is free.
    pub(crate) async fn bind(page: SignInPage) -> Result<Self, BrowserError> {
        Ok(Self { loopback: Loopback::bind(0).await?, page: ArcSwapOption::from_pointee(page) })
    }
}

impl Browser for DashboardBrowser {
    fn redirect_uri(&self) -> String {
        self.loopback.redirect_uri()
    }

    fn visit<'a>(&'a self, page: &'a Url) -> BoxFuture<'a, Result<Url, BrowserError>> {
        Box::pin(async move {
            let page_of_dashboard = self.page.swap(None).and_then(Arc::into_inner);
            let SignInPage { shows, pasted } = page_of_dashboard.ok_or(BrowserError::GivenUp)?;
            shows.send(page.clone()).map_err(|_| BrowserError::GivenUp)?;
            tokio::select! {
                redirect = self.loopback.wait(page, SIGN_IN_TIMEOUT) => redirect,
                // Fails when no address can be pasted any more.
                Ok(redirect) = pasted => Ok(redirect),
            }
        })
    }
}

impl TerminalBrowser {
    /// Waits for the address that the user types; forever if there is none.
    async fn pasted(&self) -> Url {
        for _ in 0..MAX_TRIES {
            let Some(line) = self.terminal.line().await else {
                break;
            };
            let typed = line.trim();
            if typed.is_empty() {
                continue;
            }
            match Url::parse(typed) {
                Ok(redirect) if typed.starts_with(&self.redirect_uri()) => return redirect,
                _ => self
                    .screen
                    .say(&format!("That is another address: the right one begins with {}", self.redirect_uri())),
            }
        }
        std::future::pending().await
    }
}
