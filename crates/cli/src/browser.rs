//! The browsers of the user at the terminal and of the user at the dashboard.

use std::{sync::Arc, time::Duration};

use arc_swap::ArcSwapOption;
use futures::future::BoxFuture;
use toolrack_auth::{Browser, BrowserError, Loopback};
use toolrack_daemon::SignInPage;
use url::Url;

use crate::{asker::Terminal, render::link, screen::Screen};

/// How long a user may take to sign in.
const PATIENCE: Duration = Duration::from_secs(300);
/// The most lines that are searched for an address.
const MAX_TRIES: usize = 20;

/// Shows a page and waits until the browser is redirected to this machine, or the user pastes its address at the
/// terminal.
#[derive(Debug)]
pub(crate) struct Person {
    pub(crate) screen: Arc<Screen>,
    pub(crate) terminal: Arc<Terminal>,
    pub(crate) here: Loopback,
    /// Whether a browser is opened.
    pub(crate) opens: bool,
    /// Whether the user may type the address that the browser was sent to.
    pub(crate) reads: bool,
}

impl Browser for Person {
    fn redirect_uri(&self) -> String {
        self.here.redirect_uri()
    }

    fn visit<'a>(&'a self, page: &'a Url) -> BoxFuture<'a, Result<Url, BrowserError>> {
        Box::pin(async move {
            self.screen.say(&format!("Sign in here: {}", link(page.as_str())));
            // An address from a server is opened as a web page or not at all, and without a shell.
            if self.opens && matches!(page.scheme(), "http" | "https") {
                // If there is no browser, the user still sees the address on the screen.
                let _ = open::that_detached(page.as_str());
            }
            if !self.reads {
                return self.here.wait(page, PATIENCE).await;
            }
            self.screen.say(&format!(
                "If your browser cannot reach {}, paste the address here that it ends up at.",
                self.redirect_uri()
            ));
            tokio::select! {
                back = self.here.wait(page, PATIENCE) => back,
                back = self.pasted() => Ok(back),
            }
        })
    }
}

/// The browser that shows a dashboard. The dashboard sends it to the page, and the page sends it back to this machine.
/// If it runs on another machine, the user pastes the address at which it ends up.
#[derive(Debug)]
pub(crate) struct Visitor {
    here: Loopback,
    /// The first visit takes it.
    page: ArcSwapOption<SignInPage>,
}

impl Visitor {
    /// Waits on any port that is free.
    pub(crate) async fn bind(page: SignInPage) -> Result<Self, BrowserError> {
        Ok(Self { here: Loopback::bind(0).await?, page: ArcSwapOption::from_pointee(page) })
    }
}

impl Browser for Visitor {
    fn redirect_uri(&self) -> String {
        self.here.redirect_uri()
    }

    fn visit<'a>(&'a self, page: &'a Url) -> BoxFuture<'a, Result<Url, BrowserError>> {
        Box::pin(async move {
            let theirs = self.page.swap(None).and_then(Arc::into_inner);
            let SignInPage { shows, pasted } = theirs.ok_or(BrowserError::GivenUp)?;
            shows.send(page.clone()).map_err(|_| BrowserError::GivenUp)?;
            tokio::select! {
                back = self.here.wait(page, PATIENCE) => back,
                // Fails when no address can be pasted any more.
                Ok(back) = pasted => Ok(back),
            }
        })
    }
}

impl Person {
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
                Ok(back) if typed.starts_with(&self.redirect_uri()) => return back,
                _ => self.screen.say(&format!("That is another address; it begins with {}", self.redirect_uri())),
            }
        }
        std::future::pending().await
    }
}
