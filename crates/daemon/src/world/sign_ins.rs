//! Signing in to servers, begun by whoever looks at the dashboard and ended by their browser.
//!
//! What is spoken with authorization servers is not known here: a function of [`Parts`](super::Parts) does it. It waits for the
//! browser on an address of this machine that is its own, and takes no other answer than the one to the question that it asked.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use futures::future::BoxFuture;
use serde::Serialize;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use toolrack_host::{ServerName, spec::Http};
use url::Url;
use utoipa::ToSchema;

use super::World;

/// Signs in to a server: tells the page to show, if somebody has to see one, and ends when the browser has come back and
/// tokens are kept. Bounded in time; dropping it gives up.
pub type SignIns =
    Box<dyn Fn(ServerName, Http, oneshot::Sender<Url>) -> BoxFuture<'static, Result<(), NoSignIn>> + Send + Sync>;

/// Why nobody is signed in. None of it holds a secret.
#[derive(Clone, Debug)]
pub struct NoSignIn {
    /// A stable word.
    pub code: &'static str,
    /// For people.
    pub message: String,
    /// What to do next.
    pub hint: Option<String>,
}

/// How far it is.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct SigningIn {
    /// `waiting` for the browser, `done`, or `failed`.
    pub(crate) state: &'static str,
    /// The page of the authorization server, http or https, to be shown in the browser of this machine.
    pub(crate) page: Option<String>,
    /// Why it failed.
    pub(crate) error: Option<String>,
    /// What to do next.
    pub(crate) hint: Option<String>,
}

/// One for each server at most.
#[derive(Default)]
pub(super) struct Begun(Mutex<BTreeMap<String, (SigningIn, CancellationToken)>>);

impl fmt::Debug for Begun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Begun")
    }
}

impl Begun {
    fn all(&self) -> MutexGuard<'_, BTreeMap<String, (SigningIn, CancellationToken)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// In the place of the one before, which is given up.
    fn begin(&self, server: &str, given_up: &CancellationToken) {
        let now = SigningIn { state: "waiting", page: None, error: None, hint: None };
        if let Some((_, before)) = self.all().insert(server.to_owned(), (now, given_up.clone())) {
            before.cancel();
        }
    }

    /// Only if nobody has begun anew meanwhile.
    fn change(&self, server: &str, given_up: &CancellationToken, change: impl FnOnce(&mut SigningIn)) {
        if let Some((now, _)) = self.all().get_mut(server).filter(|_| !given_up.is_cancelled()) {
            change(now);
        }
    }
}

impl World {
    /// How far the last sign-in to this server is.
    pub(crate) fn signing_in(&self, server: &str) -> Option<SigningIn> {
        self.begun.all().get(server).map(|(now, _)| now.clone())
    }

    /// Begins to sign in, and waits until there is a page to show, or until none is needed. Whoever began before gives up.
    pub(crate) async fn sign_in(self: &Arc<Self>, server: ServerName, http: Http) -> Result<SigningIn, NoSignIn> {
        let given_up = self.ending.child_token();
        self.begun.begin(server.as_str(), &given_up);
        let (shows, mut shown) = oneshot::channel();
        let (ended, mut end) = oneshot::channel();
        let signing = (self.sign_ins)(server.clone(), http, shows);
        let (world, token, name) = (Arc::clone(self), given_up.clone(), server.clone());
        self.tasks.spawn(async move {
            let Some(signed) = token.run_until_cancelled(signing).await else {
                return;
            };
            world.begun.change(name.as_str(), &token, |now| match &signed {
                Ok(()) => now.state = "done",
                Err(NoSignIn { message, hint, .. }) => {
                    (now.state, now.error, now.hint) = ("failed", Some(message.clone()), hint.clone());
                }
            });
            if signed.is_ok() {
                // It would look by itself, a little later.
                let _ = world.host.reconnect(name.as_str());
            }
            let _ = ended.send(signed);
        });
        let page = tokio::select! {
            Ok(page) = &mut shown => Some(page),
            signed = &mut end => match signed {
                Ok(signed) => {
                    signed?;
                    None
                }
                Err(_) => return Err(replaced()),
            },
        };
        if let Some(page) = page {
            self.begun.change(server.as_str(), &given_up, |now| now.page = Some(page.into()));
        }
        self.signing_in(server.as_str()).filter(|_| !given_up.is_cancelled()).ok_or_else(replaced)
    }
}

fn replaced() -> NoSignIn {
    let message = "somebody began to sign in anew, or the daemon ends".to_owned();
    NoSignIn { code: "SIGN_IN_GIVEN_UP", message, hint: None }
}
