//! Finds out which member of the team a token proves, and ends tokens that are no longer valid.
//!
//! There are two kinds of tokens. Random tokens are the team's own, and the store has their hashes. Signed tokens come
//! from an issuer that the team trusts. The authority keeps proofs of both kinds in memory. After each change of the
//! team, which raises the version that the store counts, the authority reads these proofs again.

use std::{
    collections::HashMap,
    fmt,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use chrono::{DateTime, Utc};
use parking_lot::Mutex;
use tokio::{
    sync::watch,
    time::{MissedTickBehavior, interval, timeout},
};
use tokio_util::sync::CancellationToken;
use toolrack_host::Principal;
use toolrack_store::{Purpose, StoreError, TeamStore, TeamToken, TokenFilter, TokenHash};

use crate::{
    endpoint::Endpoint,
    fetch::Unreachable,
    issuers::{Issuers, ProvedPrincipal},
    refusals::Refusals,
    tokens::looks_like_token,
};

/// How often [`Authority::watch`] asks the store whether the team has changed. A token that was revoked is no longer
/// valid after this time.
const WATCH_INTERVAL: Duration = Duration::from_millis(500);

/// How long the store may take to answer [`Authority::watch`]. After this time, [`Authority::has_store`] returns
/// `false`.
const STORE_TIMEOUT: Duration = Duration::from_secs(2);

/// The maximum number of tokens that the authority keeps in memory. Beyond that, it forgets the tokens that no request
/// uses.
const MAX_CACHED_TOKENS: usize = 10_000;

/// The number of tokens that one query reads again after a change of the team.
const TOKENS_PER_QUERY: usize = 500;

/// The maximum number of times that the authority reads a token for one request. It reads again when the team has
/// changed meanwhile, and refuses the request when the team changes each time.
const MAX_READS: usize = 8;

/// Why a token cannot be checked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Unavailable {
    /// The store cannot be read.
    #[error("tokens cannot be checked now")]
    Store(#[source] StoreError),
    /// The keys of the issuer that signed the token cannot be fetched.
    #[error("the issuer of the token cannot be reached now")]
    Issuer(#[source] Unreachable),
    /// Requests with too many different tokens are under way, or the team changes too fast.
    #[error("too many tokens are in use at once")]
    Busy,
}

/// A checked token, with the member whom it proves. Clones share the token: when it ends, [`Self::ended`] returns for
/// all of them.
#[derive(Clone)]
pub struct ProvedToken(Arc<TokenState>);

struct TokenState {
    proof: Proof,
    /// Cancelled when the token is no longer valid.
    ended: CancellationToken,
}

/// The proof that a token belongs to its member.
#[derive(Clone, PartialEq)]
enum Proof {
    /// The store has the hash of the token.
    Stored(TeamToken),
    /// An issuer that the team trusts has signed the token.
    Signed(ProvedPrincipal),
}

impl fmt::Debug for ProvedToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProvedToken").field("member", self.member()).field("purpose", &self.purpose()).finish()
    }
}

impl ProvedToken {
    /// The member whom the token proves.
    #[must_use]
    pub fn member(&self) -> &Principal {
        match &self.0.proof {
            Proof::Stored(token) => &token.member,
            Proof::Signed(signed) => &signed.principal,
        }
    }

    /// The purpose of the token. A token that an issuer signed is for the MCP endpoint.
    #[must_use]
    pub fn purpose(&self) -> Purpose {
        match &self.0.proof {
            Proof::Stored(token) => token.purpose,
            Proof::Signed(_) => Purpose::Access,
        }
    }

    /// Whether the token is valid for `path`. A personal token is valid everywhere, unless it is for one profile. The
    /// token of an OAuth client is valid for the MCP endpoint for which it was issued. The cookie of a browser is valid
    /// everywhere but at MCP endpoints. No token is valid for an endpoint of another tenant.
    #[must_use]
    pub fn opens(&self, path: &str) -> bool {
        let endpoint = Endpoint::at(path);
        if endpoint.is_some_and(|endpoint| !endpoint.is_for(self.member().tenant())) {
            return false;
        }
        match (self.purpose(), self.profile()) {
            (Purpose::Personal, None) => true,
            (Purpose::Browser, _) => endpoint.is_none(),
            (_, profile) => endpoint.is_some_and(|endpoint| endpoint.profile() == profile),
        }
    }

    /// The profile, if the token is valid only for the MCP endpoint of that profile.
    #[must_use]
    pub fn profile(&self) -> Option<&str> {
        match &self.0.proof {
            Proof::Stored(token) => token.profile.as_deref(),
            Proof::Signed(signed) => signed.profile.as_deref(),
        }
    }

    /// The stored token; `None` when an issuer signed it.
    #[must_use]
    pub fn token(&self) -> Option<&TeamToken> {
        match &self.0.proof {
            Proof::Stored(token) => Some(token),
            Proof::Signed(_) => None,
        }
    }

    /// Waits until the token ends or is revoked, or the rights of its member change. Requests under way with this token
    /// must end then.
    pub async fn ended(&self) {
        self.0.ended.cancelled().await;
    }

    fn has_ended(&self, now: DateTime<Utc>) -> bool {
        self.0.ended.is_cancelled() || self.ends_at().is_some_and(|at| at <= now)
    }

    fn ends_at(&self) -> Option<DateTime<Utc>> {
        match &self.0.proof {
            Proof::Stored(token) => token.ends_at,
            Proof::Signed(signed) => Some(signed.ends_at),
        }
    }

    fn new(proof: Proof) -> Self {
        Self(Arc::new(TokenState { proof, ended: CancellationToken::new() }))
    }
}

/// Finds the member whom a token proves.
///
/// Until the team changes, the authority keeps in memory what it has read from the store, so most requests need no
/// query. One task ([`Self::watch`]) notices changes, and ends the tokens that were revoked or whose members have other
/// rights now.
pub struct Authority {
    store: TeamStore,
    issuers: Option<Issuers>,
    refusals: Option<Arc<Refusals>>,
    cache: Mutex<TokenCache>,
    /// Notifies receivers of each change of the team, once the tokens that the change revoked have ended.
    changes: watch::Sender<()>,
    /// Whether the store gave no answer, or an error, when [`Self::watch`] last asked it.
    is_store_unreachable: AtomicBool,
}

/// The proved tokens that the authority keeps in memory.
#[derive(Default)]
struct TokenCache {
    /// The version of the team for which the tokens are valid. `None` if the version is not known; the tokens must then
    /// be read again.
    version: Option<i64>,
    by_hash: HashMap<TokenHash, ProvedToken>,
}

impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authority").field("store", &self.store).finish_non_exhaustive()
    }
}

impl Authority {
    /// Creates the authority over the members and tokens in `store`. [`Self::watch`] has to run at the same time.
    #[must_use]
    pub fn new(store: TeamStore) -> Self {
        let (cache, changes, is_store_unreachable) = (Mutex::default(), watch::Sender::new(()), AtomicBool::new(false));
        Self { store, issuers: None, refusals: None, cache, changes, is_store_unreachable }
    }

    /// The store with the members.
    #[must_use]
    pub fn store(&self) -> &TeamStore {
        &self.store
    }

    /// Returns a receiver that notices each change of the team, once the tokens that the change revoked are no longer
    /// valid.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<()> {
        self.changes.subscribe()
    }

    /// Whether the store answers, as far as [`Self::watch`] has noticed. This may be out of date by about three
    /// seconds.
    #[must_use]
    pub fn has_store(&self) -> bool {
        !self.is_store_unreachable.load(Ordering::Relaxed)
    }

    /// Also accepts the tokens of `issuers`. What an issuer's token says about a person is valid until the token ends.
    #[must_use]
    pub fn with_issuers(self, issuers: Issuers) -> Self {
        Self { issuers: Some(issuers), ..self }
    }

    /// Records in the audit log when a token proves no member. For tokens that an issuer could have signed, [`Issuers`]
    /// does this itself.
    #[must_use]
    pub fn with_refusals(self, refusals: Arc<Refusals>) -> Self {
        Self { refusals: Some(refusals), ..self }
    }

    /// Returns the proof of `token`, if it is in memory. Sends no query, and checks no signature.
    #[must_use]
    pub fn proof_in_memory(&self, token: &str) -> Option<ProvedToken> {
        let proved_token = self.cache.lock().by_hash.get(&TokenHash::of(token)).cloned();
        proved_token.filter(|proved_token| !proved_token.has_ended(Utc::now()))
    }

    /// Checks `token`. `None` when it is not a token of the team, has ended or was revoked.
    ///
    /// # Errors
    /// [`Unavailable`]. The caller must refuse the request then.
    pub async fn prove(&self, token: &str) -> Result<Option<ProvedToken>, Unavailable> {
        if let Some(proved_token) = self.proof_in_memory(token) {
            return Ok(Some(proved_token));
        }
        let proved_token = match (looks_like_token(token), &self.issuers) {
            (true, _) => self.prove_stored(TokenHash::of(token)).await?,
            (false, Some(issuers)) => return self.prove_signed(issuers, token).await,
            (false, None) => None,
        };
        if let (None, Some(refusals)) = (&proved_token, &self.refusals) {
            refusals.record_unknown_token().await;
        }
        Ok(proved_token)
    }

    /// Checks a token whose hash the store may have.
    async fn prove_stored(&self, hash: TokenHash) -> Result<Option<ProvedToken>, Unavailable> {
        // The store alone proves this token.
        let signed_principal = None;
        self.read_and_cache(hash, signed_principal).await
    }

    /// Checks a token that one of the issuers may have signed.
    async fn prove_signed(&self, issuers: &Issuers, token: &str) -> Result<Option<ProvedToken>, Unavailable> {
        let Some(signed_principal) = issuers.verify(token).await.map_err(Unavailable::Issuer)? else { return Ok(None) };
        self.read_and_cache(TokenHash::of(token), Some(signed_principal)).await
    }

    /// Reads the proof of a token from the store. For a token of an issuer, which proves `signed_principal`, the store
    /// has only one fact: how many times the person was removed from the team.
    async fn read_proof(
        &self,
        hash: TokenHash,
        signed_principal: Option<&ProvedPrincipal>,
    ) -> Result<Option<Proof>, StoreError> {
        let Some(signed_principal) = signed_principal else {
            return Ok(self.store.team_token(hash).await?.map(Proof::Stored));
        };
        let person = signed_principal.principal.person_key();
        let memberships = self.store.memberships(std::slice::from_ref(&person)).await?;
        // The store leaves out people who were never removed.
        let membership = memberships.get(&person).copied().unwrap_or_default();
        let principal = signed_principal.principal.clone().in_membership(membership);
        Ok(Some(Proof::Signed(ProvedPrincipal { principal, ..signed_principal.clone() })))
    }

    /// Reads the proof of a token, and keeps it in memory for the version of the team from which it was read.
    async fn read_and_cache(
        &self,
        hash: TokenHash,
        signed_principal: Option<ProvedPrincipal>,
    ) -> Result<Option<ProvedToken>, Unavailable> {
        for _ in 0..MAX_READS {
            let version = self.cache.lock().version;
            let Some(proof) = self.read_proof(hash, signed_principal.as_ref()).await.map_err(Unavailable::Store)?
            else {
                return Ok(None);
            };
            let mut cache = self.cache.lock();
            // If the team has changed meanwhile, the proof may be from before the change.
            if cache.version == version {
                return cache.keep(hash, ProvedToken::new(proof)).map(Some).ok_or(Unavailable::Busy);
            }
        }
        Err(Unavailable::Busy)
    }

    /// Looks for changes of the team until `shutdown` is cancelled, and ends the tokens that are no longer valid. While
    /// the store cannot be read, the tokens in memory stay valid until they expire.
    pub async fn watch(self: Arc<Self>, shutdown: CancellationToken) {
        let mut ticks = interval(WATCH_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut has_warned = false;
        loop {
            tokio::select! {
                () = shutdown.cancelled() => return,
                _ = ticks.tick() => {}
            }
            self.cache.lock().end_expired(Utc::now());
            match self.check_store().await {
                Ok(()) => has_warned = false,
                Err(error) if !has_warned => {
                    has_warned = true;
                    tracing::warn!("changes of the team have no effect until the store can be read again: {error}");
                }
                Err(_) => {}
            }
        }
    }

    /// Looks for changes of the team, and records whether the store answers. Waits for the answer even after
    /// [`STORE_TIMEOUT`], so that only one query at a time hangs.
    async fn check_store(&self) -> Result<(), StoreError> {
        let mut refresh = pin!(self.refresh());
        let result = match timeout(STORE_TIMEOUT, &mut refresh).await {
            Ok(result) => result,
            Err(_) => {
                self.is_store_unreachable.store(true, Ordering::Relaxed);
                refresh.await
            }
        };
        self.is_store_unreachable.store(result.is_err(), Ordering::Relaxed);
        result
    }

    /// Reads the tokens in memory again if the team has changed.
    async fn refresh(&self) -> Result<(), StoreError> {
        let version = self.store.team_version().await?;
        if self.cache.lock().version == Some(version) {
            return Ok(());
        }
        let tokens_in_use = self.cache.lock().set_version(version);
        let mut result = Ok(());
        for batch in tokens_in_use.chunks(TOKENS_PER_QUERY) {
            // One query reads many tokens, because each query has to wait for the queries of requests.
            if self.read_again(batch).await.is_ok() {
                continue;
            }
            // One unreadable row makes the whole query fail. Read the tokens one by one, so that only the tokens that
            // cannot be read stay valid.
            for single_token in batch.chunks(1) {
                result = self.read_again(single_token).await.and(result);
            }
        }
        if result.is_err() {
            // A token that could not be read may have ended, so the next round reads all of them again.
            self.cache.lock().version = None;
        } else {
            self.changes.send_replace(());
        }
        result
    }

    /// Reads tokens again, and ends those that have changed or are gone.
    async fn read_again(&self, tokens_in_use: &[(TokenHash, ProvedToken)]) -> Result<(), StoreError> {
        let hashes: Vec<_> = tokens_in_use.iter().map(|(hash, _)| *hash).collect();
        let stored_tokens = self.store.team_tokens(TokenFilter::Hashes(&hashes)).await?;
        let people: Vec<_> = tokens_in_use.iter().map(|(_, proved_token)| proved_token.member().person_key()).collect();
        let memberships = self.store.memberships(&people).await?;
        for ((hash, proved_token), person) in tokens_in_use.iter().zip(&people) {
            let is_valid = match &proved_token.0.proof {
                Proof::Stored(token) => stored_tokens.contains(token),
                Proof::Signed(signed) => {
                    signed.principal.membership() == memberships.get(person).copied().unwrap_or_default()
                }
            };
            if !is_valid {
                self.cache.lock().end(hash, proved_token);
            }
        }
        Ok(())
    }
}

impl TokenCache {
    /// Sets `version` as the current version of the team. Forgets the tokens that no request uses, and returns the
    /// others, which have to be read again.
    fn set_version(&mut self, version: i64) -> Vec<(TokenHash, ProvedToken)> {
        self.version = Some(version);
        self.forget_unused();
        self.by_hash.iter().map(|(hash, proved_token)| (*hash, proved_token.clone())).collect()
    }

    /// Ends `proved_token`, which is no longer valid.
    fn end(&mut self, hash: &TokenHash, proved_token: &ProvedToken) {
        self.by_hash.remove(hash);
        proved_token.0.ended.cancel();
    }

    /// Forgets the tokens that no request uses. A request that uses a token holds a clone of it.
    fn forget_unused(&mut self) {
        self.by_hash.retain(|_, proved_token| Arc::strong_count(&proved_token.0) > 1);
    }

    /// Ends the tokens whose time is over.
    fn end_expired(&mut self, now: DateTime<Utc>) {
        self.by_hash.retain(|_, proved_token| {
            let has_ended = proved_token.has_ended(now);
            if has_ended {
                proved_token.0.ended.cancel();
            }
            !has_ended
        });
    }

    /// Keeps `proved_token` in memory, and returns it. If another request has kept the same proof meanwhile, returns
    /// that one. `None` when there is no room.
    fn keep(&mut self, hash: TokenHash, proved_token: ProvedToken) -> Option<ProvedToken> {
        if let Some(cached) = self.by_hash.get(&hash)
            && cached.0.proof == proved_token.0.proof
        {
            return Some(cached.clone());
        }
        if self.by_hash.len() >= MAX_CACHED_TOKENS {
            self.forget_unused();
        }
        if self.by_hash.len() >= MAX_CACHED_TOKENS {
            return None;
        }
        // The replaced token had another proof, for example with another role.
        if let Some(replaced) = self.by_hash.insert(hash, proved_token.clone()) {
            replaced.0.ended.cancel();
        }
        Some(proved_token)
    }
}

#[cfg(test)]
mod tests;
