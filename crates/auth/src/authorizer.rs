//! The host's [`Authorizer`]: it signs requests, renews tokens and answers challenges.
//!
//! A challenge is a server's refusal of a request (HTTP 401 or 403), with its `WWW-Authenticate` headers. A slot is the
//! state of one sign-in in this process. Only the task that holds the slot's permit reads the store or renews tokens. A
//! lease is the right to change the stored credentials; one process at a time has it. A bound token works only together
//! with a key (DPoP), a bearer token by itself.

use std::{sync::Arc, time::Duration};

use futures::future::BoxFuture;
use http::{HeaderValue, Method};
use tokio::time::sleep;
use toolrack_host::{Authorizer, Challenge, Destination, NotAuthorized, ServerName, Signature};
use url::Url;

use crate::{
    challenge,
    clock::now,
    credentials::Credentials,
    dpop::{Nonce, ProofKey},
    engine::{self, AuthorizationServer, with_operation_timeout},
    error::AuthError,
    login::SignInRequest,
    sign_in::{AuthContext, Inner, SignIn},
    slot::{NotReady, Slot},
    store::TokenLease,
};

/// How often the store is read while a server waits for the user to sign in. The user may do so in another process.
const POLL_INTERVAL: Duration = Duration::from_secs(2);

impl Inner {
    /// Returns the headers that authorize a request. Renews the tokens first if they expire soon. `None` if there are
    /// no tokens.
    async fn sign(
        self: &Arc<Self>,
        destination: Destination<'_>,
        method: &Method,
    ) -> Result<Option<Signature>, AuthError> {
        let slot = self.slot(&destination);
        let usable = match slot.usable() {
            Ok(usable) => usable,
            Err(NotReady) => self.load_usable(destination, &slot).await?,
        };
        let Some(credentials) = usable else {
            return Ok(None);
        };
        let Some(authorization) = credentials.authorization_header() else {
            return Ok(None);
        };
        let nonce = slot.nonce();
        let request_url = destination.posts_to.unwrap_or(destination.url);
        let proof_with =
            |key: &ProofKey| key.proof(method.as_str(), request_url, credentials.access(), nonce.as_deref());
        let proof = credentials.key.as_ref().map(proof_with).transpose()?;
        Ok(Some(Signature { authorization, proof }))
    }

    /// Loads the stored credentials, and renews them if they expire soon. `None` if there are none that can be used.
    async fn load_usable(
        self: &Arc<Self>,
        destination: Destination<'_>,
        slot: &Slot,
    ) -> Result<Option<Arc<Credentials>>, AuthError> {
        let permit = slot.permit().await;
        // While this task waited, the task that had the permit may have loaded or renewed the credentials.
        if let Ok(usable) = slot.usable() {
            return Ok(usable);
        }
        let stored_credentials = match self.load(&slot.key).await {
            Ok(stored_credentials) => stored_credentials.map(Arc::new),
            // Most servers want no token, so the request is sent without one. If this server wants one, it answers 401,
            // and the error for that reports the failure of the store. The slot is not changed, so that the next
            // request reads the store again.
            Err(error) => {
                tracing::warn!(server = %destination.server, %error, "the stored tokens cannot be read");
                return Ok(None);
            }
        };
        slot.set_cached(stored_credentials.clone());
        if let Ok(usable) = slot.usable() {
            return Ok(usable);
        }
        let Some(stored_credentials) = stored_credentials else {
            return Ok(None);
        };
        let context = AuthContext { permit, ..self.context(destination).await? };
        match self
            .renew_in_own_task(
                destination.server,
                &context,
                StaleCredentials::Expiring(Arc::clone(&stored_credentials)),
            )
            .await
        {
            Ok(()) => {}
            Err(AuthError::Ended) => return Ok(None),
            // The token has not expired yet: this request uses it, and the next one tries to renew it again.
            Err(error) if stored_credentials.tokens.as_ref().is_some_and(|tokens| !tokens.has_expired(now())) => {
                tracing::warn!(server = %destination.server, %error, "a token could not be renewed yet");
            }
            Err(error) => return Err(error),
        }
        Ok(slot.cached())
    }

    /// Renews stale credentials, unless another process has done so meanwhile. The renewal runs to its end even if this
    /// future is dropped. `context` has the slot's permit, which the caller has taken.
    async fn renew_in_own_task(
        self: &Arc<Self>,
        server: &ServerName,
        context: &AuthContext,
        stale: StaleCredentials,
    ) -> Result<(), AuthError> {
        let (inner, server, context) = (Arc::clone(self), server.clone(), context.clone());
        let renewal = self.run_to_completion(async move {
            let result = inner.renew_under_lease(&context, &stale).await;
            inner.report_failure_once(&server, &context.slot, result.as_ref().err());
            result
        });
        renewal.await
    }

    /// Takes the lease of the credentials, renews them, and gives the lease back.
    async fn renew_under_lease(&self, context: &AuthContext, stale: &StaleCredentials) -> Result<(), AuthError> {
        let lease = self.lease(&context.slot.key).await?;
        let result = self.renew(context, stale, lease.as_ref()).await;
        lease.release().await;
        result
    }

    /// Reports a failure to the witness (the observer that writes the audit log), unless the previous renewal failed
    /// for the same reason.
    fn report_failure_once(&self, server: &ServerName, slot: &Slot, error: Option<&AuthError>) {
        let differs_from_previous = slot.record_renewal(error.map(AuthError::code));
        if let Some(error) = error.filter(|_| differs_from_previous) {
            self.report_failure(server, error);
        }
    }

    /// Renews the stored credentials if they are still the stale ones. The caller holds the lease. Returns
    /// [`AuthError::Ended`] if the user must sign in again.
    async fn renew(
        &self,
        context: &AuthContext,
        stale: &StaleCredentials,
        lease: &dyn TokenLease,
    ) -> Result<(), AuthError> {
        let AuthContext { oauth, slot, server, .. } = context;
        let stored_credentials = self.load(&slot.key).await?;
        let Some(stored_credentials) = stored_credentials.filter(|credentials| credentials.tokens.is_some()) else {
            slot.set_cached(None);
            return Err(AuthError::Ended);
        };
        if stored_credentials.access() != stale.access() {
            slot.set_cached(Some(Arc::new(stored_credentials)));
            return Ok(());
        }
        let http = self.http_for(context)?;
        if !oauth.grant.needs_user() {
            let authorization_server =
                with_operation_timeout(AuthorizationServer::discover(http, server, stale.challenge())).await?;
            let new_credentials = with_operation_timeout(authorization_server.token_without_user(
                oauth,
                &stored_credentials.requested,
                &self.http_maker,
            ))
            .await?;
            return Ok(self.save(slot, lease, new_credentials).await?);
        }
        let mut stored_credentials = stored_credentials;
        if let StaleCredentials::Refused(_, challenge) = stale {
            // The server may have moved to another authorization server, which must not get the tokens of the old one.
            let authorization_server =
                with_operation_timeout(AuthorizationServer::discover(Arc::clone(&http), server, challenge.as_deref()))
                    .await?;
            if authorization_server.issuer != stored_credentials.issuer {
                slot.set_cached(None);
                lease.delete().await?;
                return Err(AuthError::Ended);
            }
            stored_credentials.metadata = authorization_server.into_metadata();
        }
        match with_operation_timeout(engine::refresh(http, server, &stored_credentials, oauth)).await {
            Ok(new_credentials) => Ok(self.save(slot, lease, new_credentials).await?),
            Err(AuthError::Ended) => {
                stored_credentials.tokens = None;
                self.save(slot, lease, stored_credentials).await?;
                Err(AuthError::Ended)
            }
            // The authorization server has forgotten the client that it once registered. The next sign-in registers a
            // new one.
            Err(AuthError::NoClient { .. }) if stored_credentials.client.registered => {
                slot.set_cached(None);
                lease.delete().await?;
                Err(AuthError::Ended)
            }
            Err(error) => Err(error),
        }
    }

    /// Gets another token after the server has refused a request: a newer token from the store, else a renewed token,
    /// else a token from a new sign-in.
    async fn reauthorize(
        self: &Arc<Self>,
        destination: Destination<'_>,
        challenge: &Challenge,
    ) -> Result<(), NoNewToken> {
        if challenge.wants_nonce() {
            return self.check_nonce(&destination);
        }
        let mut context = self.context(destination).await?;
        context.permit = context.slot.permit().await;
        let AuthContext { oauth, slot, .. } = &context;
        let mut stored_credentials = self.load(&slot.key).await.map_err(AuthError::Store)?.map(Arc::new);
        // A bearer token stays a bearer token when it is renewed, so bound tokens need a new sign-in.
        let needs_new_sign_in = challenge::requires_bound_tokens(&challenge.www_authenticate)
            && stored_credentials.as_ref().is_none_or(|credentials| credentials.key.is_none());
        let sent_authorization = challenge.sent.as_ref();
        if let Some(stored_credentials) =
            stored_credentials.as_ref().filter(|credentials| credentials.tokens.is_some() && !needs_new_sign_in)
            && stored_credentials.authorization_header().as_ref() != sent_authorization
        {
            // Since the request was sent, the user has signed in or another process has renewed the tokens.
            slot.set_cached(Some(Arc::clone(stored_credentials)));
            return Ok(());
        }
        let primary_header = challenge::primary_header(&challenge.www_authenticate);
        if needs_new_sign_in && !oauth.dpop {
            self.check_issues_bound_tokens(&context, primary_header).await?;
        }
        let scopes = scopes_to_request(challenge, destination.url, stored_credentials.as_deref(), &oauth.scopes)?;
        if !oauth.grant.needs_user() {
            return Ok(self
                .sign_in_without_user(destination.server, &context, &scopes, primary_header)
                .await
                .map(drop)?);
        }
        if challenge.status == 401
            && !needs_new_sign_in
            && let Some(refused_credentials) =
                stored_credentials.as_ref().filter(|credentials| credentials.tokens.is_some())
        {
            let stale = StaleCredentials::Refused(Arc::clone(refused_credentials), primary_header.map(str::to_owned));
            match self.renew_in_own_task(destination.server, &context, stale).await {
                // The store may still have the registered client, which the next sign-in uses.
                Err(AuthError::Ended) => {
                    stored_credentials = self.load(&slot.key).await.map_err(AuthError::Store)?.map(Arc::new);
                }
                result => return Ok(result?),
            }
        }
        // A 403 means that the token lacks scopes. Other requests continue to use it.
        if challenge.status == 403 {
            slot.set_cached(stored_credentials.clone());
        } else {
            slot.set_refused(stored_credentials.clone());
        }
        let Some(browser) = &self.browser else {
            return Err(NoNewToken::SignIn(if challenge.status == 403 { scopes } else { Vec::new() }));
        };
        let request = SignInRequest {
            scopes: &scopes,
            challenge: primary_header,
            earlier_credentials: stored_credentials.as_deref(),
        };
        Ok(self.sign_in_with_browser(destination.server, &context, request, browser.as_ref()).await.map(drop)?)
    }

    /// Returns an error unless this server has sent a nonce for the next proof.
    fn check_nonce(&self, destination: &Destination<'_>) -> Result<(), NoNewToken> {
        match self.slot(destination).nonce() {
            Some(_) => Ok(()),
            None => Err(NoNewToken::Error(AuthError::Unavailable {
                why: "the server wants a nonce in proofs (DPoP), but sent none that can be used".to_owned(),
            })),
        }
    }

    /// Returns an error unless the metadata of the server say that its tokens are bound to a key. Only then does a new
    /// sign-in get such tokens.
    async fn check_issues_bound_tokens(
        &self,
        context: &AuthContext,
        challenge: Option<&str>,
    ) -> Result<(), NoNewToken> {
        let discovery = AuthorizationServer::discover(self.http_for(context)?, &context.server, challenge);
        let authorization_server = with_operation_timeout(discovery).await;
        match authorization_server.is_ok_and(|server| server.requires_bound_tokens()) {
            true => Ok(()),
            false => Err(NoNewToken::Error(AuthError::NotBound)),
        }
    }
}

/// Returns the scopes to request after a challenge: the configured ones or, after a 403, those of the last sign-in and
/// the missing ones. If the last sign-in requested all of them already, returns an error: the server would not grant
/// them now either.
fn scopes_to_request(
    challenge: &Challenge,
    url: &Url,
    stored_credentials: Option<&Credentials>,
    configured_scopes: &[String],
) -> Result<Vec<String>, NoNewToken> {
    let Some(stored_credentials) = stored_credentials.filter(|_| challenge.status == 403) else {
        return Ok(configured_scopes.to_vec());
    };
    let missing_scopes = challenge::missing_scopes(&challenge.www_authenticate, url);
    let scopes = challenge::union(&stored_credentials.requested, &missing_scopes);
    if scopes == stored_credentials.requested { Err(NoNewToken::SignIn(scopes)) } else { Ok(scopes) }
}

/// The credentials to renew, and why.
enum StaleCredentials {
    /// The credentials expire soon, or have expired.
    Expiring(Arc<Credentials>),
    /// The server refused the credentials, with this `WWW-Authenticate` header.
    Refused(Arc<Credentials>, Option<String>),
}

impl StaleCredentials {
    /// Returns the access token.
    fn access(&self) -> Option<&str> {
        match self {
            Self::Expiring(credentials) | Self::Refused(credentials, _) => credentials.access(),
        }
    }

    /// Returns the `WWW-Authenticate` header with which the server refused the credentials.
    fn challenge(&self) -> Option<&str> {
        match self {
            Self::Expiring(_) => None,
            Self::Refused(_, challenge) => challenge.as_deref(),
        }
    }
}

/// Why the host gets no new token after a challenge.
enum NoNewToken {
    /// The user has to sign in, with these scopes if there are any.
    SignIn(Vec<String>),
    Error(AuthError),
}

impl From<AuthError> for NoNewToken {
    fn from(error: AuthError) -> Self {
        Self::Error(error)
    }
}

impl Inner {
    /// Returns the error for the host. Advises the user to sign in, unless a later attempt may work without that.
    fn not_authorized(&self, destination: Destination<'_>, reason: NoNewToken) -> NotAuthorized {
        match reason {
            NoNewToken::SignIn(scopes) => {
                NotAuthorized::SignIn { how: (self.sign_in_hint)(destination.server, &scopes) }
            }
            NoNewToken::Error(error @ (AuthError::Unavailable { .. } | AuthError::Egress(_) | AuthError::Store(_))) => {
                NotAuthorized::Unavailable { why: error.to_string() }
            }
            // A file with an assertion, or metadata, may be missing for a moment. This grant needs no user, so the next
            // request tries again by itself.
            NoNewToken::Error(error @ (AuthError::Config { .. } | AuthError::Discovery { .. }))
                if !destination.spec.oauth.grant.needs_user() =>
            {
                NotAuthorized::Unavailable { why: error.to_string() }
            }
            NoNewToken::Error(error) => {
                NotAuthorized::SignIn { how: format!("{} ({error})", (self.sign_in_hint)(destination.server, &[])) }
            }
        }
    }
}

impl Authorizer for SignIn {
    fn sign<'a>(
        &'a self,
        destination: Destination<'a>,
        method: &'a Method,
    ) -> BoxFuture<'a, Result<Option<Signature>, NotAuthorized>> {
        Box::pin(async move {
            let signature = Box::pin(self.0.sign(destination, method)).await;
            signature.map_err(|error| self.0.not_authorized(destination, error.into()))
        })
    }

    fn nonce(&self, destination: Destination<'_>, nonce: &HeaderValue) {
        self.0.slot(&destination).set_nonce(Nonce::from_header(nonce));
    }

    fn challenged<'a>(
        &'a self,
        destination: Destination<'a>,
        challenge: Challenge,
    ) -> BoxFuture<'a, Result<(), NotAuthorized>> {
        Box::pin(async move {
            let result = Box::pin(self.0.reauthorize(destination, &challenge)).await;
            result.map_err(|reason| self.0.not_authorized(destination, reason))
        })
    }

    fn signed_in<'a>(&'a self, destination: Destination<'a>) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            loop {
                let slot = self.0.slot(&destination);
                // The store may still have a refused token. Only another token shows that the user has signed in.
                let previous_credentials = slot.last_stored();
                sleep(POLL_INTERVAL).await;
                if let Ok(Some(stored_credentials)) = self.0.load(&slot.key).await
                    && stored_credentials.tokens.is_some()
                    && stored_credentials.access()
                        != previous_credentials.as_ref().and_then(|credentials| credentials.access())
                {
                    slot.set_cached(Some(Arc::new(stored_credentials)));
                    return;
                }
            }
        })
    }
}
