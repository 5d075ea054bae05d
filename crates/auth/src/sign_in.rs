//! [`SignIn`], and the state that its parts share: the slots, the store with its leases, and the work that must run to
//! its end.
//!
//! A slot is the state of one sign-in in this process: one account at one MCP server. A lease is the right to change
//! the stored credentials of a sign-in; one process at a time has it.

mod builder;

use std::{collections::HashMap, fmt, sync::Arc, time::Duration};

use futures::future::BoxFuture;
use parking_lot::Mutex;
use tokio::time::timeout;
use tokio_util::task::TaskTracker;
use toolrack_host::{Destination, Egress, Fact, Resolver, ServerName, Witness, spec::OAuth};
use tracing::Instrument as _;
use url::Url;

pub use builder::SignInBuilder;

use crate::{
    browser::Browser,
    credentials::Credentials,
    error::AuthError,
    guarded_http::{GuardedHttp, GuardedHttpMaker},
    slot::{Slot, SlotPermit},
    store::{MemoryTokens, TokenKey, TokenLease, TokenStore, TokenStoreError, resource},
};

/// How long a lease is valid. No work under a lease takes that long.
const LEASE_DURATION: Duration = Duration::from_secs(120);
/// How long to wait for a lease while another process renews the tokens.
const LEASE_WAIT: Duration = Duration::from_secs(60);
/// The time-out of work that must not be interrupted. It covers the wait for the lease, and the work under the lease.
const WORK_TIMEOUT: Duration = Duration::from_secs(LEASE_WAIT.as_secs() + LEASE_DURATION.as_secs());
/// How long a program waits for that work before it ends.
const SHUTDOWN_WAIT: Duration = Duration::from_secs(5);

/// Returns the line that tells the user how to sign in to a server and request the given scopes.
type SignInHint = dyn Fn(&ServerName, &[String]) -> String + Send + Sync;
/// Gets every secret before it is used, so that the program can keep it out of logs.
type SecretListener = dyn Fn(&str) + Send + Sync;

/// Adds access tokens to the requests of a host, and gets these tokens by signing in. Cheap to clone.
///
/// It renews a token before the token expires, and once when a server refuses it. If several tasks and processes need
/// the same renewal, one performs it, and the others use its result. Without a [`Browser`] it asks no user: the host
/// then reports that the server requires a sign-in.
#[derive(Clone)]
pub struct SignIn(pub(crate) Arc<Inner>);

/// The state that the clones of a [`SignIn`] share. The fields up to `witness` come from the [`SignInBuilder`].
pub(crate) struct Inner {
    store: Arc<dyn TokenStore>,
    resolver: Arc<dyn Resolver>,
    pub(crate) browser: Option<Arc<dyn Browser>>,
    tenant: String,
    user: String,
    pub(crate) sign_in_hint: Box<SignInHint>,
    secret_listener: Box<SecretListener>,
    witness: Option<Arc<dyn Witness>>,
    pub(crate) http_maker: GuardedHttpMaker,
    /// One slot, the state of a sign-in, for each server and account that was used: at most as many as are configured.
    slots: Mutex<HashMap<TokenKey, Arc<Slot>>>,
    /// Work that runs to its end even if the future that waits for it is dropped. The tracker is closed from the start,
    /// because `TaskTracker::wait` returns only on a closed tracker.
    tasks: TaskTracker,
}

/// The data of one sign-in or renewal: the server, its configuration and its slot.
#[derive(Clone)]
pub(crate) struct AuthContext {
    pub(crate) oauth: OAuth,
    pub(crate) slot: Arc<Slot>,
    /// The server's URL without query, user and fragment.
    pub(crate) server: Url,
    /// The egress rules (which addresses requests may reach) for a server that a member of a team has added; `None` for
    /// those of the program.
    pub(crate) egress: Option<Egress>,
    /// The slot's permit. The task holds it until its work is done; `None` if the work needs no permit.
    pub(crate) permit: SlotPermit,
}

impl fmt::Debug for SignIn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SignIn").field("browser", &self.0.browser.is_some()).finish_non_exhaustive()
    }
}

impl Default for SignIn {
    /// Keeps tokens for as long as this process lives.
    fn default() -> Self {
        Self::builder(Arc::new(MemoryTokens::default())).build()
    }
}

/// One stored sign-in. Untrusted: servers choose the issuer and the scopes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Account {
    /// The server and the account of the sign-in.
    pub key: TokenKey,
    /// The authorization server that issued the tokens.
    pub issuer: String,
    /// The granted scopes.
    pub scopes: Vec<String>,
    /// The expiry of the access token, in seconds since 1970; `None` if it is not known.
    pub expires: Option<u64>,
    /// Whether the access token can be renewed without the user.
    pub renewable: bool,
    /// Whether there are tokens. If not, only the registration of the client at the issuer is kept.
    pub signed_in: bool,
}

impl SignIn {
    /// Returns every stored sign-in of this tenant and user.
    ///
    /// # Errors
    /// [`AuthError::Store`] when the store cannot be read.
    pub async fn accounts(&self) -> Result<Vec<Account>, AuthError> {
        let mut accounts = Vec::new();
        let has_this_owner = |key: &TokenKey| key.tenant == self.0.tenant && key.user == self.0.user;
        for key in self.0.store.keys().await?.into_iter().filter(has_this_owner) {
            let Some(stored_credentials) = self.0.load(&key).await? else {
                continue;
            };
            let tokens = stored_credentials.tokens.as_ref();
            accounts.push(Account {
                key,
                scopes: tokens.map(|tokens| tokens.scopes.clone()).unwrap_or_default(),
                expires: tokens.and_then(|tokens| tokens.expires),
                renewable: tokens.is_some_and(|tokens| tokens.refresh.is_some()),
                signed_in: tokens.is_some(),
                issuer: stored_credentials.issuer,
            });
        }
        Ok(accounts)
    }

    /// Waits until all renewals, sign-ins and sign-outs that are under way are done, but at most five seconds. Call
    /// this at the end of the program, after its hosts have ended. A renewal continues after its request has ended. If
    /// it is cut off, the authorization server may have invalidated the old refresh token, and the user must sign in
    /// again.
    pub async fn settled(&self) {
        if timeout(SHUTDOWN_WAIT, self.0.tasks.wait()).await.is_err() {
            tracing::warn!("a sign-in is under way while the program ends: the user may have to sign in again");
        }
    }
}

impl Inner {
    /// Returns the data for a sign-in or a renewal at a server, with the placeholders in the `oauth` of the
    /// server's entry (its configuration) filled in.
    pub(crate) async fn context(&self, destination: Destination<'_>) -> Result<AuthContext, AuthError> {
        let resolution = self.resolver.oauth(destination.server, destination.spec).await;
        let oauth = resolution.map_err(|error| AuthError::Config { why: error.to_string() })?;
        let egress = destination.spec.added_by.as_ref().map(|added_by| added_by.egress.clone());
        Ok(AuthContext {
            oauth,
            slot: self.slot(&destination),
            server: resource(destination.url),
            egress,
            permit: None,
        })
    }

    /// Returns a new HTTP client for one operation, such as a sign-in to the server of `context`.
    pub(crate) fn http_for(&self, context: &AuthContext) -> Result<Arc<GuardedHttp>, AuthError> {
        match &context.egress {
            Some(egress) => self.http_maker.http_under(egress, &context.server),
            None => self.http_maker.http_for(&context.server),
        }
    }

    /// Returns the slot of a server and the account that its entry names.
    pub(crate) fn slot(&self, destination: &Destination<'_>) -> Arc<Slot> {
        let key = TokenKey {
            tenant: self.tenant.clone(),
            user: self.user.clone(),
            account: destination.spec.oauth.account.clone().unwrap_or_default(),
            ..TokenKey::of(destination.url)
        };
        let mut slots = self.slots.lock();
        let slot = slots.entry(key).or_insert_with_key(|key| Arc::new(Slot::new(key.clone())));
        Arc::clone(slot)
    }

    /// Loads the stored credentials. `None` if nothing is stored, or if the stored bytes cannot be read.
    pub(crate) async fn load(&self, key: &TokenKey) -> Result<Option<Credentials>, TokenStoreError> {
        let stored_credentials = self.store.load(key).await?.as_deref().and_then(Credentials::from_bytes);
        stored_credentials.iter().flat_map(Credentials::secrets).for_each(|secret| (self.secret_listener)(secret));
        Ok(stored_credentials)
    }

    /// Stores new credentials, under the lease that the caller holds.
    pub(crate) async fn save(
        &self,
        slot: &Slot,
        lease: &dyn TokenLease,
        credentials: Credentials,
    ) -> Result<(), TokenStoreError> {
        // The slot is set first: if the store fails, this process can still use the token.
        credentials.secrets().into_iter().for_each(|secret| (self.secret_listener)(secret));
        let bytes = credentials.to_bytes();
        slot.set_cached(Some(Arc::new(credentials)));
        lease.save(bytes).await
    }

    /// Stores the credentials of a new sign-in. Takes the lease, so that no renewal of the old credentials overwrites
    /// them.
    pub(crate) async fn save_new(&self, slot: &Slot, credentials: Credentials) -> Result<(), AuthError> {
        let lease = self.lease(&slot.key).await?;
        let result = self.save(slot, lease.as_ref(), credentials).await;
        lease.release().await;
        Ok(result?)
    }

    /// Spawns `work`, so that it runs to its end even if the returned future is dropped, but at most for
    /// [`WORK_TIMEOUT`]. An interruption could lose a new token with its response, or leave a lease that blocks every
    /// process until it expires.
    pub(crate) fn run_to_completion<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, AuthError>> + Send + 'static,
    ) -> BoxFuture<'static, Result<T, AuthError>> {
        let timed_out = |_| AuthError::Unavailable {
            why: format!("the work on this sign-in was not done within {} s", WORK_TIMEOUT.as_secs()),
        };
        let cancelled =
            |_| AuthError::Unavailable { why: "the work on this sign-in was stopped before it was done".to_owned() };
        let work = self.tasks.spawn(timeout(WORK_TIMEOUT, work).in_current_span());
        Box::pin(async move { work.await.map_err(cancelled)?.map_err(timed_out)? })
    }

    /// Takes the lease of the credentials under `key`. An error if another process holds it for [`LEASE_WAIT`].
    pub(crate) async fn lease(&self, key: &TokenKey) -> Result<Box<dyn TokenLease>, AuthError> {
        let timed_out = || AuthError::Unavailable {
            why: format!("another process has been renewing this sign-in for {} s", LEASE_WAIT.as_secs()),
        };
        let lease = timeout(LEASE_WAIT, self.store.lease(key, LEASE_DURATION)).await.map_err(|_| timed_out())?;
        lease.map_err(AuthError::Store)
    }

    /// Passes `fact` to the witness (the observer that writes the audit log), if there is one.
    pub(crate) fn report(&self, fact: Fact) {
        if let Some(witness) = &self.witness {
            witness.record(fact);
        }
    }

    pub(crate) fn report_failure(&self, server: &ServerName, error: &AuthError) {
        self.report(Fact::SignInFailed { server: server.clone(), error: error.to_string(), code: error.code() });
    }
}
