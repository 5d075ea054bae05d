//! Runs sign-ins to servers, which begin in the dashboard and end in the user's browser.
//!
//! [`Parts::sign_ins`](super::Parts::sign_ins) implements the protocol of authorization servers. It waits for the
//! browser on its own loopback address, and accepts only the answer to its own request.

use std::{collections::BTreeMap, sync::Arc};

use futures::future::BoxFuture;
use serde::Serialize;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use toolrack_host::{ServerName, spec::Http};
use url::Url;
use utoipa::ToSchema;

use super::World;

/// The channels between a sign-in and the dashboard.
#[derive(Debug)]
pub struct SignInChannels {
    /// Takes the page to show, if the user has to see one.
    pub page: oneshot::Sender<Url>,
    /// Brings the address at which a browser ended up, if that browser cannot reach this machine. It begins with the
    /// `redirect_uri` of the page that was shown, and has its `state`. Closed without a value if the user pastes none.
    pub pasted_address: oneshot::Receiver<Url>,
}

/// The maximum length of a pasted address, in bytes.
const MAX_ADDRESS_BYTES: usize = 16 * 1024;

/// Signs in to a server: sends the page to show, if the user has to see one, and ends when the browser was redirected
/// back and the tokens are stored. The future has a time limit; dropping it cancels the sign-in.
pub type SignIns =
    Box<dyn Fn(ServerName, Http, SignInChannels) -> BoxFuture<'static, Result<(), NoSignIn>> + Send + Sync>;

/// Why a sign-in failed. It holds no secret.
#[derive(Clone, Debug)]
pub struct NoSignIn {
    /// A stable word.
    pub code: &'static str,
    /// A message for users.
    pub message: String,
    /// The next step for the user.
    pub hint: Option<String>,
}

/// The state of a sign-in.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = SigningIn)]
pub(crate) struct SignInStatus {
    /// `waiting` for the browser, `done`, or `failed`.
    pub(crate) state: &'static str,
    /// The page of the authorization server, http or https, to be shown in the browser of this machine.
    pub(crate) page: Option<String>,
    /// Why it failed.
    pub(crate) error: Option<String>,
    /// The next step for the user.
    pub(crate) hint: Option<String>,
}

/// Why a pasted address was not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PasteRefused {
    /// No sign-in waits for an address.
    NotAwaited,
    /// The address does not belong to the page that was shown.
    WrongAddress,
}

/// The latest sign-in of each server.
#[derive(Default)]
pub(super) struct LatestSignIns(BTreeMap<String, ActiveSignIn>);

struct ActiveSignIn {
    status: SignInStatus,
    /// Cancels the sign-in.
    cancellation: CancellationToken,
    /// Sends the pasted address to the sign-in. `None` once an address was pasted.
    paste_sender: Option<oneshot::Sender<Url>>,
}

impl LatestSignIns {
    /// Begins a sign-in in place of an earlier one. Returns the token that cancels the earlier sign-in.
    fn begin(
        &mut self,
        server: &str,
        cancellation: &CancellationToken,
        paste_sender: oneshot::Sender<Url>,
    ) -> Option<CancellationToken> {
        let status = SignInStatus { state: "waiting", page: None, error: None, hint: None };
        let sign_in = ActiveSignIn { status, cancellation: cancellation.clone(), paste_sender: Some(paste_sender) };
        self.0.insert(server.to_owned(), sign_in).map(|earlier| earlier.cancellation)
    }

    /// Passes an address on to the sign-in that waits for it.
    fn paste(&mut self, server: &str, pasted: &str) -> Result<(), PasteRefused> {
        let sign_in = self
            .0
            .get_mut(server)
            .filter(|sign_in| sign_in.status.state == "waiting" && !sign_in.cancellation.is_cancelled());
        let sign_in = sign_in.filter(|sign_in| sign_in.paste_sender.is_some()).ok_or(PasteRefused::NotAwaited)?;
        let page =
            sign_in.status.page.as_deref().and_then(|page| Url::parse(page).ok()).ok_or(PasteRefused::NotAwaited)?;
        let redirected_to = redirect_address(&page, pasted).ok_or(PasteRefused::WrongAddress)?;
        let send_result = sign_in.paste_sender.take().map(|sender| sender.send(redirected_to));
        send_result.and_then(Result::ok).ok_or(PasteRefused::NotAwaited)
    }

    /// Changes the state of a sign-in. Does nothing if another sign-in has begun meanwhile.
    fn change(&mut self, server: &str, cancellation: &CancellationToken, change: impl FnOnce(&mut SignInStatus)) {
        if let Some(sign_in) = self.0.get_mut(server).filter(|_| !cancellation.is_cancelled()) {
            change(&mut sign_in.status);
        }
    }
}

impl World {
    /// The state of the last sign-in to this server.
    pub(crate) fn sign_in_status(&self, server: &str) -> Option<SignInStatus> {
        self.work_in_progress.sign_ins(|latest| latest.0.get(server).map(|sign_in| sign_in.status.clone()))
    }

    /// Passes on the address that the user has pasted from a browser on another machine to the sign-in that waits for
    /// it.
    pub(crate) fn accept_pasted_address(&self, server: &str, pasted: &str) -> Result<(), PasteRefused> {
        self.work_in_progress.sign_ins(|latest| latest.paste(server, pasted))
    }

    /// Begins to sign in, and waits until there is a page to show, or no page is needed. An earlier sign-in is
    /// cancelled.
    pub(crate) async fn sign_in(self: &Arc<Self>, server: ServerName, http: Http) -> Result<SignInStatus, NoSignIn> {
        let cancellation = self.ending.child_token();
        let (paste_sender, pasted_address) = oneshot::channel();
        let earlier_cancellation =
            self.work_in_progress.sign_ins(|latest| latest.begin(server.as_str(), &cancellation, paste_sender));
        earlier_cancellation.inspect(CancellationToken::cancel);
        let (page_sender, mut page) = oneshot::channel();
        let (result_sender, mut result_receiver) = oneshot::channel();
        let sign_in_future =
            (self.sign_ins)(server.clone(), http, SignInChannels { page: page_sender, pasted_address });
        let (world, task_cancellation, name) = (Arc::clone(self), cancellation.clone(), server.clone());
        self.tasks.spawn(async move {
            let Some(result) = task_cancellation.run_until_cancelled(sign_in_future).await else {
                return;
            };
            let record_result = |status: &mut SignInStatus| match &result {
                Ok(()) => status.state = "done",
                Err(NoSignIn { message, hint, .. }) => {
                    (status.state, status.error, status.hint) = ("failed", Some(message.clone()), hint.clone());
                }
            };
            world.work_in_progress.sign_ins(|latest| latest.change(name.as_str(), &task_cancellation, record_result));
            if result.is_ok() {
                // The host would reconnect without this, but later. Fails only if the server was removed meanwhile.
                let _ = world.host.reconnect(name.as_str());
            }
            // Fails if `sign_in` has returned already, because it had a page to show.
            let _ = result_sender.send(result);
        });
        let page = tokio::select! {
            Ok(page) = &mut page => Some(page),
            received = &mut result_receiver => match received {
                Ok(result) => {
                    result?;
                    None
                }
                Err(_) => return Err(given_up_error()),
            },
        };
        if let Some(page) = page {
            let record_page = |status: &mut SignInStatus| status.page = Some(page.into());
            self.work_in_progress.sign_ins(|latest| latest.change(server.as_str(), &cancellation, record_page));
        }
        self.sign_in_status(server.as_str()).filter(|_| !cancellation.is_cancelled()).ok_or_else(given_up_error)
    }
}

/// The pasted address, if it is the redirect address of `page` and has the `state` of `page`.
fn redirect_address(page: &Url, pasted: &str) -> Option<Url> {
    // A parameter that occurs twice has no value here, because it is ambiguous.
    let value_of = |url: &Url, parameter: &str| {
        let mut values = url.query_pairs().filter(|(name, _)| name == parameter);
        values.next().map(|(_, value)| value.into_owned()).filter(|_| values.next().is_none())
    };
    let pasted_url = Url::parse(pasted.trim()).ok().filter(|_| pasted.len() <= MAX_ADDRESS_BYTES)?;
    let redirect_uri = Url::parse(&value_of(page, "redirect_uri")?).ok()?;
    let is_redirect = pasted_url.origin() == redirect_uri.origin() && pasted_url.path() == redirect_uri.path();
    let state = value_of(page, "state").filter(|state| value_of(&pasted_url, "state").as_ref() == Some(state));
    (is_redirect && state.is_some()).then_some(pasted_url)
}

fn given_up_error() -> NoSignIn {
    let message = "a new sign-in began, or the daemon ends".to_owned();
    NoSignIn { code: "SIGN_IN_GIVEN_UP", message, hint: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_answer_to_the_page_that_was_shown_is_taken() {
        let page = "https://as.example/authorize?redirect_uri=http%3A%2F%2F127.0.0.1%3A9%2Fcallback&state=s1";
        let page = Url::parse(page).unwrap();
        assert!(redirect_address(&page, " http://127.0.0.1:9/callback?code=c&state=s1\n").is_some());
        for other in [
            "",
            "code=c&state=s1",
            "http://127.0.0.1:9/callback?code=c",
            "http://127.0.0.1:9/callback?code=c&state=s2",
            "http://127.0.0.1:9/callback?code=c&state=s1&state=s2",
            "http://127.0.0.1:8/callback?code=c&state=s1",
            "https://127.0.0.1:9/callback?code=c&state=s1",
            "http://127.0.0.1:9/other?code=c&state=s1",
            "http://evil.example/callback?code=c&state=s1",
        ] {
            assert_eq!(redirect_address(&page, other), None, "{other}");
        }
        let long = format!("http://127.0.0.1:9/callback?state=s1&code={}", "x".repeat(MAX_ADDRESS_BYTES));
        assert_eq!(redirect_address(&page, &long), None);
    }

    #[test]
    fn an_address_is_taken_once_and_only_while_it_is_waited_for() {
        let mut started = LatestSignIns::default();
        let back = "http://127.0.0.1:9/callback?code=c&state=s1";
        assert_eq!(started.paste("a", back), Err(PasteRefused::NotAwaited));
        let cancellation = CancellationToken::new();
        let (pastes, mut pasted) = oneshot::channel();
        started.begin("a", &cancellation, pastes);
        assert_eq!(started.paste("a", back), Err(PasteRefused::NotAwaited), "there is no page yet");
        let page = "https://as.example/?redirect_uri=http%3A%2F%2F127.0.0.1%3A9%2Fcallback&state=s1";
        started.change("a", &cancellation, |status| status.page = Some(page.to_owned()));
        assert_eq!(started.paste("a", "http://127.0.0.1:9/callback?state=s2"), Err(PasteRefused::WrongAddress));
        assert_eq!(started.paste("b", back), Err(PasteRefused::NotAwaited));
        assert_eq!(started.paste("a", back), Ok(()));
        assert_eq!(pasted.try_recv().unwrap().as_str(), back);
        assert_eq!(started.paste("a", back), Err(PasteRefused::NotAwaited));
        let (pastes, _pasted) = oneshot::channel();
        let before = started.begin("a", &CancellationToken::new(), pastes);
        before.unwrap().cancel();
        assert!(cancellation.is_cancelled(), "the sign-in before is the one to give up");
    }
}
