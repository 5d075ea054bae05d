//! A scripted authorization server, in front of an MCP server that needs its tokens.
//!
//! It implements what MCP requires (RFC 9728, RFC 8414, RFC 7591, OAuth 2.1 with PKCE, RFC 8707, RFC 9207, RFC 7009)
//! and checks what clients must send. `authorize` redirects immediately, as if a user had agreed. A refresh token works
//! once: the server refuses and counts a second use, and revokes the tokens that were issued for the first use (RFC
//! 9700, 4.14.2). If a client proves that it has a key when it asks for tokens, the tokens are bound to that key (RFC
//! 9449). [`AuthorizationFault`] lists the faults that a test can give the server, at the start or later.
//!
//! The server runs on its own thread, for tests with and without a runtime, and ends when it is dropped.
//!
//! ```no_run
//! use toolrack_testkit::authorization::{AuthorizationFault, FakeAuthorization};
//!
//! let server = FakeAuthorization::start([AuthorizationFault::Expires(3)]);
//! // … sign in to `server.mcp_url()` and call `echo` four times, then:
//! assert_eq!((server.counts().refreshes, server.counts().reused), (1, 0));
//! ```

mod faults;
mod grants;
mod pages;
mod proofs;
mod statements;

use std::{net::SocketAddr, sync::Arc, thread::JoinHandle};

use parking_lot::Mutex;
use serde_json::Value;
use tokio::{
    net::TcpListener,
    sync::{oneshot, watch},
};

use crate::FakeHttp;
pub use faults::AuthorizationFault;
use grants::{Grants, Recipient};
use proofs::Proofs;
use statements::Statements;

/// The id of a client that the server knows without registration.
pub const CLIENT: &str = "known-client";

/// The secret of [`CLIENT`].
pub const CLIENT_SECRET: &str = "known-secret";

/// The assertion that the server accepts from a workload, or for a user of an enterprise.
pub const ASSERTION: &str = "workload-assertion";

/// Counts of events so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Clients that registered.
    pub registrations: u64,
    /// Redirects with a code.
    pub authorizations: u64,
    /// Codes that clients exchanged for tokens.
    pub exchanges: u64,
    /// Refresh tokens that clients exchanged for new tokens.
    pub refreshes: u64,
    /// Refresh tokens that clients sent a second time.
    pub reused: u64,
    /// Requests that the token endpoint refused.
    pub refused: u64,
    /// Tokens that clients revoked.
    pub revocations: u64,
    /// MCP requests that the server admitted.
    pub admitted: u64,
    /// MCP requests that the server refused.
    pub rejected: u64,
    /// Valid proofs of a key (RFC 9449).
    pub proofs: u64,
    /// Proofs that clients sent a second time.
    pub replayed: u64,
}

/// A request to any of the pages.
#[derive(Clone, Debug)]
pub struct RecordedRequest {
    /// Method and path, such as `GET /authorize`.
    pub endpoint: String,
    /// The parameters of query and form, in order.
    pub parameters: Vec<(String, String)>,
    /// The header `Authorization`.
    pub authorization: Option<String>,
    /// The header `DPoP`.
    pub proof: Option<String>,
}

impl RecordedRequest {
    /// Returns the first parameter of this name.
    #[must_use]
    pub fn parameter(&self, name: &str) -> Option<&str> {
        self.parameters.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}

/// The state that all pages share.
#[derive(Debug)]
struct Shared {
    address: SocketAddr,
    /// The MCP server behind this one.
    mcp_server: FakeHttp,
    /// The client that passes requests on to the MCP server.
    client: reqwest::Client,
    state: Mutex<State>,
    /// Signals that the state has changed.
    changed: watch::Sender<()>,
}

#[derive(Debug, Default)]
struct State {
    faults: Vec<AuthorizationFault>,
    grants: Grants,
    proofs: Proofs,
    statements: Statements,
    counts: Counts,
    requests: Vec<RecordedRequest>,
    /// The number of answers that the token endpoint has held back so far.
    held_back: u64,
}

impl Shared {
    fn issuer(&self) -> String {
        format!("http://{}", self.address)
    }

    fn mcp_url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    /// Holds an answer of the token endpoint back while the server has the fault [`AuthorizationFault::HoldsTokens`].
    async fn hold_back(&self) {
        let holds_back = |state: &State| state.faults.contains(&AuthorizationFault::HoldsTokens);
        if holds_back(&self.state.lock()) {
            self.state.lock().held_back += 1;
            self.changed.send_replace(());
            self.wait_until(|state| !holds_back(state)).await;
        }
    }

    /// Waits until the state meets `condition`.
    async fn wait_until(&self, condition: impl Fn(&State) -> bool) {
        let mut changes = self.changed.subscribe();
        while !condition(&self.state.lock()) {
            // Cannot fail: `self` owns the sender.
            let _ = changes.changed().await;
        }
    }

    /// Returns the value that `find` takes from the first fault that it accepts.
    fn fault<T>(&self, find: impl Fn(&AuthorizationFault) -> Option<T>) -> Option<T> {
        self.state.lock().faults.iter().find_map(find)
    }
}

/// The server, on a port of 127.0.0.1.
#[derive(Debug)]
pub struct FakeAuthorization {
    shared: Arc<Shared>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl FakeAuthorization {
    /// Starts the server with these faults, in front of a fake MCP server of both eras.
    ///
    /// # Panics
    /// When the server cannot be started.
    #[must_use]
    pub fn start(faults: impl IntoIterator<Item = AuthorizationFault>) -> Self {
        Self::in_front_of(FakeHttp::start(&["--era", "both"]), faults)
    }

    /// Starts the server with these faults, in front of this MCP server.
    ///
    /// # Panics
    /// When the server cannot be started.
    #[must_use]
    pub fn in_front_of(mcp_server: FakeHttp, faults: impl IntoIterator<Item = AuthorizationFault>) -> Self {
        let state = State { faults: faults.into_iter().collect(), ..State::default() };
        let (stop, stopped) = oneshot::channel();
        let (started, ready) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let runtime = runtime.unwrap_or_else(|error| panic!("no runtime: {error}"));
            runtime.block_on(async move {
                let listener = TcpListener::bind(("127.0.0.1", 0)).await;
                let listener = listener.unwrap_or_else(|error| panic!("no port: {error}"));
                let address = listener.local_addr().unwrap_or_else(|error| panic!("no address: {error}"));
                let client = reqwest::Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none()).build();
                let client = client.unwrap_or_else(|error| panic!("no client: {error}"));
                let changed = watch::Sender::new(());
                let shared = Arc::new(Shared { address, mcp_server, client, state: Mutex::new(state), changed });
                // Fails only if the test has panicked meanwhile.
                let _ = started.send(Arc::clone(&shared));
                tokio::select! {
                    ended = axum::serve(listener, pages::router(shared)) => panic!("the authorization server ended: {ended:?}"),
                    _ = stopped => {}
                }
            });
        });
        let shared = ready.recv().unwrap_or_else(|error| panic!("the authorization server did not start: {error}"));
        Self { shared, stop: Some(stop), thread: Some(thread) }
    }

    /// The issuer: its address without a path.
    #[must_use]
    pub fn issuer(&self) -> String {
        self.shared.issuer()
    }

    /// The MCP endpoint, which needs tokens.
    #[must_use]
    pub fn mcp_url(&self) -> String {
        self.shared.mcp_url()
    }

    /// The counts of events so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.shared.state.lock().counts
    }

    /// Returns every request so far, in order.
    #[must_use]
    pub fn requests(&self) -> Vec<RecordedRequest> {
        self.shared.state.lock().requests.clone()
    }

    /// Replaces the faults by these.
    pub fn set_faults(&self, faults: impl IntoIterator<Item = AuthorizationFault>) {
        self.shared.state.lock().faults = faults.into_iter().collect();
        self.shared.changed.send_replace(());
    }

    /// Waits until the server has held back this many answers in total; see [`AuthorizationFault::HoldsTokens`].
    pub async fn wait_for_held_back(&self, answers: u64) {
        self.shared.wait_until(|state| state.held_back >= answers).await;
    }

    /// Registers a client that signs in with a key instead of a secret (`private_key_jwt`). Returns its id, and the key
    /// in PEM.
    #[must_use]
    pub fn client_with_key(&self) -> (String, String) {
        let mut state = self.shared.state.lock();
        let with_secret = false;
        let (id, _) = state.grants.register(with_secret);
        let key = state.statements.make_key(&id);
        (id, key)
    }

    /// Issues an access token without a sign-in, as if a user had created it on a web page.
    #[must_use]
    pub fn issue_token(&self) -> String {
        let (resource, with_refresh) = (self.mcp_url(), false);
        self.shared
            .state
            .lock()
            .grants
            .issue_tokens(Recipient { client: CLIENT, key: None }, &resource, "tools", with_refresh)
            .access
    }

    /// Forgets all clients that have registered, as when the server loses its database.
    pub fn forget_clients(&self) {
        self.shared.state.lock().grants.forget_clients();
    }

    /// Expires all access tokens; refresh tokens stay valid.
    pub fn expire_access_tokens(&self) {
        self.shared.state.lock().grants.expire();
    }

    /// Revokes all tokens, as when a user withdraws an agreement.
    pub fn revoke(&self) {
        self.shared.state.lock().grants.revoke_all();
    }

    /// Returns every token and secret that the server has issued, so that a test can search for them.
    #[must_use]
    pub fn issued_secrets(&self) -> Vec<String> {
        self.shared.state.lock().grants.issued()
    }
}

impl Drop for FakeAuthorization {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // An error is a panic of the server, which its thread has reported already.
            let _ = thread.join();
        }
    }
}

/// Returns `base` with the members of `changes`, which replace those of the same name; `null` removes a member.
fn merged(mut base: Value, changes: &Value) -> Value {
    for (name, value) in changes.as_object().into_iter().flatten() {
        match (&mut base, value) {
            (Value::Object(members), Value::Null) => drop(members.shift_remove(name)),
            (base, value) => base[name] = value.clone(),
        }
    }
    base
}
