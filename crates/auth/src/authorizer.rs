//! Stays signed in: the host's [`Authorizer`].

mod builder;

use std::{
    collections::HashMap,
    fmt, mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures::future::BoxFuture;
use http::{HeaderValue, Method};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{sleep, timeout},
};
use tokio_util::task::TaskTracker;
use toolrack_host::{
    Authorizer, Challenge, Destination, Fact, NotAuthorized, Resolver, ServerName, Signature, Witness, spec::OAuth,
};
use tracing::Instrument as _;
use url::Url;

pub use builder::SignInBuilder;

use crate::{
    browser::Browser,
    challenge,
    credentials::{Credentials, now},
    dpop::{Nonce, ProofKey},
    engine::{self, Found, within},
    error::AuthError,
    login::Wanted,
    store::{Lease, MemoryTokens, StoreError, TokenKey, TokenStore, resource},
    wire::Wires,
};

/// How long a lease lasts at most; longer than any work under one.
const LEASE: Duration = Duration::from_secs(120);
/// How long to wait for another process's refresh.
const LEASE_WAIT: Duration = Duration::from_secs(60);
/// For work that must not stop in the middle: a wait for the lease, and what is done under it.
const LONGEST: Duration = Duration::from_secs(LEASE_WAIT.as_secs() + LEASE.as_secs());
/// How long the end of a program may wait for that work.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often the store is read while a server waits for a sign-in.
const LOOK_AGAIN: Duration = Duration::from_secs(2);

/// What the user should do, in words: for this server, with these scopes if there are any.
type How = dyn Fn(&ServerName, &[String]) -> String + Send + Sync;
/// Receives every secret before it is used.
type Hears = dyn Fn(&str) + Send + Sync;

/// Signs the requests of a host in. Cheap to clone.
///
/// It renews a token before it expires, and once when a server refuses it. Of several tasks and processes that want to,
/// one does, and the others use its result. Without a [`Browser`] it asks no user: a server that wants one reports so.
#[derive(Clone)]
pub struct SignIn(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    store: Arc<dyn TokenStore>,
    resolver: Arc<dyn Resolver>,
    pub(crate) browser: Option<Arc<dyn Browser>>,
    tenant: String,
    user: String,
    how: Box<How>,
    hears: Box<Hears>,
    witness: Option<Arc<dyn Witness>>,
    pub(crate) wires: Wires,
    /// One for each server and account that was ever used; no more than are configured.
    slots: Mutex<HashMap<TokenKey, Arc<Slot>>>,
    /// Work that runs to its end, whichever task waits. Closed from the beginning: it can be waited for at any time.
    under_way: TaskTracker,
}

/// What this process knows of one sign-in.
pub(crate) struct Slot {
    pub(crate) key: TokenKey,
    known: Mutex<Known>,
    /// The nonce that the server wants in proofs.
    nonce: Mutex<Option<Nonce>>,
    /// Why the last renewal failed, if it did: each request tries again, and a lasting failure is reported once.
    failing: Mutex<Option<&'static str>>,
    /// The task with the permit looks into the store or renews; the others wait for its result.
    turn: Arc<Semaphore>,
}

/// The turn of a slot, where a task has it. It ends with the last copy.
type Turn = Option<Arc<OwnedSemaphorePermit>>;

/// A request, or a user, that wants to be signed in somewhere.
#[derive(Clone)]
pub(crate) struct Errand {
    pub(crate) oauth: OAuth,
    pub(crate) slot: Arc<Slot>,
    /// The server's URL as authorization servers know it.
    pub(crate) server: Url,
    /// The turn of a request, which is kept until the work that it began is done.
    turn: Turn,
}

#[derive(Clone)]
enum Known {
    /// The store was not read yet.
    Unknown,
    Nothing,
    Something(Arc<Credentials>),
}

impl Slot {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn knows(&self, credentials: Option<Arc<Credentials>>) {
        *self.known() = match credentials.filter(|credentials| credentials.tokens.is_some()) {
            Some(credentials) => Known::Something(credentials),
            None => Known::Nothing,
        };
    }

    /// What can be used without a look into the store or a refresh; `None` when one of them is needed.
    fn at_hand(&self) -> Option<Option<Arc<Credentials>>> {
        match &*self.known() {
            Known::Unknown => None,
            Known::Nothing => Some(None),
            Known::Something(credentials) => {
                let is_stale = credentials.tokens.as_ref().is_none_or(|tokens| tokens.is_stale(now()));
                (!is_stale).then(|| Some(Arc::clone(credentials)))
            }
        }
    }

    async fn turn(&self) -> Turn {
        Arc::clone(&self.turn).acquire_owned().await.ok().map(Arc::new)
    }

    fn nonce(&self) -> MutexGuard<'_, Option<Nonce>> {
        self.nonce.lock().unwrap_or_else(PoisonError::into_inner)
    }
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
    /// The server and the account.
    pub key: TokenKey,
    /// The authorization server that issued the tokens.
    pub issuer: String,
    /// The granted scopes.
    pub scopes: Vec<String>,
    /// When the access token ends, in seconds since 1970; `None` if that is not known.
    pub expires: Option<u64>,
    /// Whether it can be renewed without the user.
    pub renewable: bool,
    /// Whether there are tokens. Otherwise only the registration at the issuer is kept.
    pub signed_in: bool,
}

impl SignIn {
    /// Every sign-in of this tenant and user.
    ///
    /// # Errors
    /// [`AuthError::Store`] when they cannot be read.
    pub async fn accounts(&self) -> Result<Vec<Account>, AuthError> {
        let mut accounts = Vec::new();
        let own = |key: &TokenKey| key.tenant == self.0.tenant && key.user == self.0.user;
        for key in self.0.store.keys().await?.into_iter().filter(own) {
            let Some(kept) = self.0.load(&key).await? else {
                continue;
            };
            let tokens = kept.tokens.as_ref();
            accounts.push(Account {
                key,
                scopes: tokens.map(|tokens| tokens.scopes.clone()).unwrap_or_default(),
                expires: tokens.and_then(|tokens| tokens.expires),
                renewable: tokens.is_some_and(|tokens| tokens.refresh.is_some()),
                signed_in: tokens.is_some(),
                issuer: kept.issuer,
            });
        }
        Ok(accounts)
    }

    /// Waits until no renewal, sign-in or sign-out is at a point where it must not stop, at most for five seconds: for
    /// the end of a program, after its hosts have ended. A renewal outlives the request that began it, because the
    /// server may have spent the old refresh token already.
    pub async fn settled(&self) {
        if timeout(PATIENCE, self.0.under_way.wait()).await.is_err() {
            tracing::warn!("a sign-in is under way while the program ends: the user may have to sign in again");
        }
    }
}

impl Inner {
    pub(crate) async fn errand(&self, to: Destination<'_>) -> Result<Errand, AuthError> {
        let resolved = self.resolver.oauth(to.server, to.spec).await;
        let oauth = resolved.map_err(|error| AuthError::Config { why: error.to_string() })?;
        Ok(Errand { oauth, slot: self.slot(&to), server: resource(to.url), turn: None })
    }

    fn slot(&self, to: &Destination<'_>) -> Arc<Slot> {
        let key = TokenKey {
            tenant: self.tenant.clone(),
            user: self.user.clone(),
            account: to.spec.oauth.account.clone().unwrap_or_default(),
            ..TokenKey::of(to.url)
        };
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        let slot = slots.entry(key).or_insert_with_key(|key| {
            let (known, nonce) = (Mutex::new(Known::Unknown), Mutex::default());
            Arc::new(Slot {
                key: key.clone(),
                known,
                nonce,
                failing: Mutex::default(),
                turn: Arc::new(Semaphore::new(1)),
            })
        });
        Arc::clone(slot)
    }

    pub(crate) async fn load(&self, key: &TokenKey) -> Result<Option<Credentials>, StoreError> {
        let kept = self.store.load(key).await?.as_deref().and_then(Credentials::from_bytes);
        kept.iter().flat_map(Credentials::secrets).for_each(|secret| (self.hears)(secret));
        Ok(kept)
    }

    /// Keeps new credentials, under the lease.
    async fn save(&self, slot: &Slot, lease: &dyn Lease, credentials: Credentials) -> Result<(), StoreError> {
        // Known first: a token that cannot be kept is still good for as long as this process lives.
        credentials.secrets().into_iter().for_each(|secret| (self.hears)(secret));
        let bytes = credentials.to_bytes();
        slot.knows(Some(Arc::new(credentials)));
        lease.save(bytes).await
    }

    /// Keeps the credentials of a new sign-in, which no renewal of the old ones overwrites.
    pub(crate) async fn keep(&self, slot: &Slot, credentials: Credentials) -> Result<(), AuthError> {
        let lease = self.lease(&slot.key).await?;
        let saved = self.save(slot, lease.as_ref(), credentials).await;
        lease.release().await;
        Ok(saved?)
    }

    /// Begins `work`, which runs to its end even when no task waits for it any more: a response that is thrown away
    /// would be lost with the token in it, and a lease that is not released holds up every process until it runs out.
    pub(crate) fn whole<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, AuthError>> + Send + 'static,
    ) -> BoxFuture<'static, Result<T, AuthError>> {
        let late = |_| AuthError::Unavailable { why: format!("it was not done within {} s", LONGEST.as_secs()) };
        let stopped = |_| AuthError::Unavailable { why: "it was stopped before it was done".to_owned() };
        let work = self.under_way.spawn(timeout(LONGEST, work).in_current_span());
        Box::pin(async move { work.await.map_err(stopped)?.map_err(late)? })
    }

    pub(crate) async fn lease(&self, key: &TokenKey) -> Result<Box<dyn Lease>, AuthError> {
        let late = || AuthError::Unavailable {
            why: format!("another process renews this sign-in for longer than {} s", LEASE_WAIT.as_secs()),
        };
        let lease = timeout(LEASE_WAIT, self.store.lease(key, LEASE)).await.map_err(|_| late())?;
        lease.map_err(AuthError::Store)
    }

    /// The signature for a request, with tokens renewed if it is time.
    async fn sign(self: &Arc<Self>, to: Destination<'_>, method: &Method) -> Result<Option<Signature>, AuthError> {
        let slot = self.slot(&to);
        let usable = match slot.at_hand() {
            Some(usable) => usable,
            None => self.usable(to, &slot).await?,
        };
        let Some(credentials) = usable else {
            return Ok(None);
        };
        let Some(authorization) = credentials.header() else {
            return Ok(None);
        };
        let prove = |key: &ProofKey| key.proof(method.as_str(), to.url, credentials.access(), slot.nonce().as_ref());
        let proof = credentials.key.as_ref().map(prove).transpose()?;
        Ok(Some(Signature { authorization, proof }))
    }

    /// The stored credentials, renewed if it is time.
    async fn usable(self: &Arc<Self>, to: Destination<'_>, slot: &Slot) -> Result<Option<Arc<Credentials>>, AuthError> {
        let turn = slot.turn().await;
        if let Some(usable) = slot.at_hand() {
            return Ok(usable);
        }
        let kept = match self.load(&slot.key).await {
            Ok(kept) => kept.map(Arc::new),
            // Most servers want no token; one that does is told why there is none.
            Err(error) => {
                tracing::warn!(server = %to.server, %error, "kept tokens cannot be read");
                None
            }
        };
        slot.knows(kept.clone());
        if let Some(usable) = slot.at_hand() {
            return Ok(usable);
        }
        let Some(kept) = kept else {
            return Ok(None);
        };
        let errand = Errand { turn, ..self.errand(to).await? };
        match self.renewed(to.server, &errand, Stale::Old(Arc::clone(&kept))).await {
            Ok(()) => {}
            Err(AuthError::Ended) => return Ok(None),
            // It is renewed ahead of time: the next request tries again.
            Err(error) if kept.tokens.as_ref().is_some_and(|tokens| !tokens.has_expired(now())) => {
                tracing::warn!(server = %to.server, %error, "a token could not be renewed yet");
            }
            Err(error) => return Err(error),
        }
        Ok(match &*slot.known() {
            Known::Something(credentials) => Some(Arc::clone(credentials)),
            Known::Unknown | Known::Nothing => None,
        })
    }

    /// Renews stale credentials, unless another process has done so meanwhile. The caller has the turn of the slot.
    async fn renewed(self: &Arc<Self>, server: &ServerName, errand: &Errand, stale: Stale) -> Result<(), AuthError> {
        let (inner, server, errand) = (Arc::clone(self), server.clone(), errand.clone());
        let renewed = self.whole(async move {
            let renewed = inner.renewed_under_lease(&errand, &stale).await;
            inner.tell_if_new(&server, &errand.slot, renewed.as_ref().err());
            renewed
        });
        renewed.await
    }

    async fn renewed_under_lease(&self, errand: &Errand, stale: &Stale) -> Result<(), AuthError> {
        let lease = self.lease(&errand.slot.key).await?;
        let renewed = self.renew(errand, stale, lease.as_ref()).await;
        lease.release().await;
        renewed
    }

    /// Reports a failure, once for as long as it lasts.
    fn tell_if_new(&self, server: &ServerName, slot: &Slot, error: Option<&AuthError>) {
        let code = error.map(AuthError::code);
        let before = {
            let mut failing = slot.failing.lock().unwrap_or_else(PoisonError::into_inner);
            mem::replace(&mut *failing, code)
        };
        if let Some(error) = error.filter(|_| code != before) {
            self.tell_of_failure(server, error);
        }
    }

    /// Passes `fact` to the witness, where there is one.
    pub(crate) fn tell(&self, fact: Fact) {
        if let Some(witness) = &self.witness {
            witness.saw(fact);
        }
    }

    pub(crate) fn tell_of_failure(&self, server: &ServerName, error: &AuthError) {
        self.tell(Fact::SignInFailed { server: server.clone(), error: error.to_string(), code: error.code() });
    }

    async fn renew(&self, errand: &Errand, stale: &Stale, lease: &dyn Lease) -> Result<(), AuthError> {
        let Errand { oauth, slot, server, .. } = errand;
        let kept = self.load(&slot.key).await?;
        let Some(kept) = kept.filter(|kept| kept.tokens.is_some()) else {
            slot.knows(None);
            return Err(AuthError::Ended);
        };
        if kept.access() != stale.access() {
            slot.knows(Some(Arc::new(kept)));
            return Ok(());
        }
        let wire = self.wires.to(server)?;
        if !oauth.grant.needs_a_person() {
            let found = within(Found::out(wire, server, stale.challenge())).await?;
            let fresh = within(found.without_a_person(oauth, &kept.asked, &self.wires)).await?;
            return Ok(self.save(slot, lease, fresh).await?);
        }
        let mut kept = kept;
        if let Stale::Refused(_, challenge) = stale {
            // A server can have moved to another issuer, and the tokens of the first must not go to the second.
            let found = within(Found::out(Arc::clone(&wire), server, challenge.as_deref())).await?;
            if found.issuer != kept.issuer {
                slot.knows(None);
                lease.delete().await?;
                return Err(AuthError::Ended);
            }
            kept.metadata = found.into_metadata();
        }
        match within(engine::refresh(wire, server, &kept, oauth)).await {
            Ok(fresh) => Ok(self.save(slot, lease, fresh).await?),
            Err(AuthError::Ended) => {
                kept.tokens = None;
                self.save(slot, lease, kept).await?;
                Err(AuthError::Ended)
            }
            Err(error) => Err(error),
        }
    }

    /// Finds another token after a refusal.
    async fn again(self: &Arc<Self>, to: Destination<'_>, challenge: &Challenge) -> Result<(), Refused> {
        if challenge.status == 401 && challenge::wants_nonce(&challenge.www_authenticate) {
            return match &*self.slot(&to).nonce() {
                Some(_) => Ok(()),
                None => Err(Refused::Error(AuthError::Unavailable {
                    why: "the server wants a nonce in proofs (DPoP), and named none that can be used".to_owned(),
                })),
            };
        }
        let mut errand = self.errand(to).await?;
        errand.turn = errand.slot.turn().await;
        let Errand { oauth, slot, server, .. } = &errand;
        let kept = self.load(&slot.key).await.map_err(AuthError::Store)?.map(Arc::new);
        let sent = challenge.sent.as_ref();
        if let Some(kept) = kept.as_ref().filter(|kept| kept.tokens.is_some())
            && kept.header().as_ref() != sent
        {
            // The user has signed in, or another process has renewed, since.
            slot.knows(Some(Arc::clone(kept)));
            return Ok(());
        }
        let leading = challenge::leading(&challenge.www_authenticate);
        let is_bound = oauth.dpop || kept.as_ref().is_some_and(|kept| kept.key.is_some());
        // No renewal makes a token bound that is not.
        let must_begin_anew = !is_bound && challenge::wants_bound(&challenge.www_authenticate);
        if must_begin_anew {
            let found = within(Found::out(self.wires.to(server)?, server, leading)).await;
            if !found.is_ok_and(|found| found.wants_bound()) {
                return Err(Refused::Error(AuthError::NotBound));
            }
        }
        let missing = match challenge.status {
            403 => challenge::scopes(&challenge.www_authenticate, to.url),
            _ => Vec::new(),
        };
        let (asked, is_tried) = match &kept {
            Some(kept) if challenge.status == 403 => {
                let union = challenge::union(&kept.asked, &missing);
                let is_tried = union == kept.asked;
                (union, is_tried)
            }
            _ => (oauth.scopes.clone(), false),
        };
        if is_tried {
            // They were asked for, and a token without them came: asking again changes nothing.
            return Err(Refused::SignIn(asked));
        }
        if !oauth.grant.needs_a_person() {
            return Ok(self.by_itself(to.server, &errand, &asked, leading).await.map(drop)?);
        }
        if challenge.status == 401
            && !must_begin_anew
            && let Some(kept) = kept.as_ref().filter(|kept| kept.tokens.is_some())
        {
            let stale = Stale::Refused(Arc::clone(kept), leading.map(str::to_owned));
            match self.renewed(to.server, &errand, stale).await {
                Err(AuthError::Ended) => {}
                renewed => return Ok(renewed?),
            }
        }
        slot.knows(if challenge.status == 403 { kept.clone() } else { None });
        let Some(browser) = &self.browser else {
            return Err(Refused::SignIn(if challenge.status == 403 { asked } else { Vec::new() }));
        };
        let wanted = Wanted { scopes: &asked, challenge: leading, before: kept.as_deref() };
        Ok(self.signed(to.server, &errand, wanted, browser.as_ref()).await.map(drop)?)
    }
}

/// The credentials to renew, and why.
enum Stale {
    /// They are old.
    Old(Arc<Credentials>),
    /// A server refused them, with this challenge.
    Refused(Arc<Credentials>, Option<String>),
}

impl Stale {
    fn access(&self) -> Option<&str> {
        match self {
            Self::Old(credentials) | Self::Refused(credentials, _) => credentials.access(),
        }
    }

    fn challenge(&self) -> Option<&str> {
        match self {
            Self::Old(_) => None,
            Self::Refused(_, challenge) => challenge.as_deref(),
        }
    }
}

/// Why there is no other token.
enum Refused {
    /// The user has to sign in, with these scopes if there are any.
    SignIn(Vec<String>),
    Error(AuthError),
}

impl From<AuthError> for Refused {
    fn from(error: AuthError) -> Self {
        Self::Error(error)
    }
}

impl Inner {
    fn told(&self, server: &ServerName, refused: Refused) -> NotAuthorized {
        match refused {
            Refused::SignIn(scopes) => NotAuthorized::SignIn { how: (self.how)(server, &scopes) },
            Refused::Error(error @ (AuthError::Unavailable { .. } | AuthError::Store(_))) => {
                NotAuthorized::Unavailable { why: error.to_string() }
            }
            Refused::Error(error) => NotAuthorized::SignIn { how: format!("{} ({error})", (self.how)(server, &[])) },
        }
    }
}

impl Authorizer for SignIn {
    fn sign<'a>(
        &'a self,
        to: Destination<'a>,
        method: &'a Method,
    ) -> BoxFuture<'a, Result<Option<Signature>, NotAuthorized>> {
        Box::pin(async move {
            let signed = Box::pin(self.0.sign(to, method)).await;
            signed.map_err(|error| self.0.told(to.server, error.into()))
        })
    }

    fn nonce(&self, to: Destination<'_>, nonce: &HeaderValue) {
        *self.0.slot(&to).nonce() = Nonce::of(nonce);
    }

    fn challenged<'a>(&'a self, to: Destination<'a>, challenge: Challenge) -> BoxFuture<'a, Result<(), NotAuthorized>> {
        Box::pin(async move {
            let again = Box::pin(self.0.again(to, &challenge)).await;
            again.map_err(|refused| self.0.told(to.server, refused))
        })
    }

    fn signed_in<'a>(&'a self, to: Destination<'a>) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            loop {
                let slot = self.0.slot(&to);
                let before = match &*slot.known() {
                    Known::Something(credentials) => credentials.access().map(str::to_owned),
                    Known::Unknown | Known::Nothing => None,
                };
                sleep(LOOK_AGAIN).await;
                if let Ok(Some(kept)) = self.0.load(&slot.key).await
                    && kept.tokens.is_some()
                    && kept.access() != before.as_deref()
                {
                    slot.knows(Some(Arc::new(kept)));
                    return;
                }
            }
        })
    }
}
