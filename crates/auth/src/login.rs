//! Sign-in and sign-out by a user, and the sign-in without a user that a server's configuration can ask for.
//!
//! A slot is the state of one sign-in in this process. A lease is the right to change the stored credentials; one
//! process at a time has it.

use std::sync::Arc;

use toolrack_host::{Destination, Fact, ServerName, page};
use url::Url;

use crate::{
    browser::Browser,
    credentials::Credentials,
    engine::{AuthorizationRequest, AuthorizationServer, with_operation_timeout},
    error::AuthError,
    revoke::revoke,
    sign_in::{AuthContext, Inner, SignIn},
    slot::Slot,
    store::{TokenLease, TokenStoreError},
};

/// A successful sign-in. Untrusted: the server chooses the issuer and the scopes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SignedIn {
    /// The authorization server that issued the tokens.
    pub issuer: String,
    /// The granted scopes.
    pub scopes: Vec<String>,
    /// The expiry of the access token, in seconds since 1970; `None` if it is not known.
    pub expires: Option<u64>,
    /// Whether the access token can be renewed without the user.
    pub renewable: bool,
}

impl SignedIn {
    fn of(credentials: &Credentials) -> Self {
        let tokens = credentials.tokens.as_ref();
        Self {
            issuer: credentials.issuer.clone(),
            scopes: tokens.map(|tokens| tokens.scopes.clone()).unwrap_or_default(),
            expires: tokens.and_then(|tokens| tokens.expires),
            renewable: tokens.is_some_and(|tokens| tokens.refresh.is_some()),
        }
    }
}

/// How the authorization server treated the tokens when a user signed out. The store has always deleted them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SignedOut {
    /// There were no tokens: the user was not signed in.
    WasNotSignedIn,
    /// The authorization server revoked the tokens.
    Revoked,
    /// The authorization server cannot revoke tokens. A copied token stays valid until it expires.
    CannotRevoke,
    /// The authorization server did not revoke the tokens, for this reason. A copied token may stay valid until it
    /// expires.
    NotRevoked(AuthError),
}

impl SignedOut {
    /// Returns the outcome in words, for the audit log; `None` if the user was not signed in.
    fn outcome(&self) -> Option<String> {
        match self {
            Self::WasNotSignedIn => None,
            Self::Revoked => Some("the tokens were revoked".to_owned()),
            Self::CannotRevoke => {
                Some("the tokens were deleted here; the authorization server cannot revoke tokens".to_owned())
            }
            Self::NotRevoked(error) => Some(format!("the tokens were deleted here, but not revoked: {error}")),
        }
    }
}

impl SignIn {
    /// Signs in to a server, even if the user is signed in already. Requests `scopes`; if there are none, the scopes of
    /// the server's entry in the configuration, or else those that the server names. Shows the page in `browser`,
    /// unless the grant of the entry needs no user. Once the browser has returned, or with such a grant, the sign-in
    /// runs to its end even if this future is dropped.
    ///
    /// # Errors
    /// [`AuthError`] when the sign-in failed. The tokens of an earlier sign-in stay stored.
    pub async fn login(
        &self,
        destination: Destination<'_>,
        scopes: &[String],
        browser: &dyn Browser,
    ) -> Result<SignedIn, AuthError> {
        let inner = &self.0;
        let context = inner.context(destination).await?;
        let AuthContext { oauth, slot, .. } = &context;
        let scopes = if scopes.is_empty() { &oauth.scopes } else { scopes };
        // The user begins this sign-in, so there is no request that the server has refused.
        let challenge = None;
        if !oauth.grant.needs_user() {
            return inner.sign_in_without_user(destination.server, &context, scopes, challenge).await;
        }
        // If the earlier sign-in has registered a client with the same authorization server, that client is used again.
        let earlier_credentials = inner.load(&slot.key).await?;
        inner
            .sign_in_with_browser(
                destination.server,
                &context,
                SignInRequest { scopes, challenge, earlier_credentials: earlier_credentials.as_ref() },
                browser,
            )
            .await
    }

    /// Deletes the tokens for a server, and then revokes them if its authorization server supports that. Runs to its
    /// end even if this future is dropped. If a placeholder in the `oauth` of the server's entry has no value, deletes
    /// the tokens without revoking them.
    ///
    /// # Errors
    /// [`AuthError::Store`] when the tokens cannot be deleted, and [`AuthError::Unavailable`] when another process kept
    /// the lease.
    pub async fn logout(&self, destination: Destination<'_>) -> Result<SignedOut, AuthError> {
        let inner = &self.0;
        let (slot, context, server_name) =
            (inner.slot(&destination), inner.context(destination).await, destination.server.clone());
        let inner_for_task = Arc::clone(inner);
        let sign_out = inner.run_to_completion(async move {
            let signed_out = inner_for_task.delete_and_revoke(&slot, context).await?;
            if let Some(outcome) = signed_out.outcome() {
                inner_for_task.report(Fact::SignedOut { server: server_name, outcome });
            }
            Ok(signed_out)
        });
        sign_out.await
    }
}

/// The inputs of a sign-in.
#[derive(Clone, Copy)]
pub(crate) struct SignInRequest<'a> {
    /// The scopes to request. If there are none, those that the server names are requested.
    pub(crate) scopes: &'a [String],
    /// The challenge with which the server refused a request, if it did.
    pub(crate) challenge: Option<&'a str>,
    /// The stored credentials of an earlier sign-in.
    pub(crate) earlier_credentials: Option<&'a Credentials>,
}

impl Inner {
    /// Shows the page on which the user signs in, and stores the tokens. If the authorization server no longer knows
    /// the client that an earlier sign-in registered, registers a new one (RFC 7591) and shows another page.
    pub(crate) async fn sign_in_with_browser(
        self: &Arc<Self>,
        server_name: &ServerName,
        context: &AuthContext,
        mut request: SignInRequest<'_>,
        browser: &dyn Browser,
    ) -> Result<SignedIn, AuthError> {
        loop {
            let page_result = self.visit_page(context, request, browser).await;
            let (inner, server_name, context) = (Arc::clone(self), server_name.clone(), context.clone());
            // `None` if the authorization server has forgotten the client.
            let sign_in = self.run_to_completion(async move {
                let (reuses_client, result) = match page_result {
                    Ok((page_request, redirect)) => {
                        (page_request.reuses_client, inner.exchange_code(&context, page_request, &redirect).await)
                    }
                    Err(error) => (false, Err(error)),
                };
                if reuses_client && matches!(result, Err(AuthError::NoClient { .. })) {
                    return Ok(None);
                }
                inner.record_outcome(&server_name, result).map(Some)
            });
            if let Some(signed_in) = sign_in.await? {
                return Ok(signed_in);
            }
            // Without earlier credentials, the next page has a new client, so the loop ends.
            request.earlier_credentials = None;
        }
    }

    /// Signs in with a grant that needs no user, and stores the tokens.
    pub(crate) async fn sign_in_without_user(
        self: &Arc<Self>,
        server_name: &ServerName,
        context: &AuthContext,
        scopes: &[String],
        challenge: Option<&str>,
    ) -> Result<SignedIn, AuthError> {
        let (inner, server_name, context) = (Arc::clone(self), server_name.clone(), context.clone());
        let (scopes, challenge) = (scopes.to_vec(), challenge.map(str::to_owned));
        let sign_in = self.run_to_completion(async move {
            let result = inner.exchange_grant(&context, &scopes, challenge.as_deref()).await;
            inner.record_outcome(&server_name, result)
        });
        sign_in.await
    }

    /// Gets tokens from the authorization server with the grant of the entry, and stores them.
    async fn exchange_grant(
        &self,
        context: &AuthContext,
        scopes: &[String],
        challenge: Option<&str>,
    ) -> Result<SignedIn, AuthError> {
        let AuthContext { oauth, slot, server, .. } = context;
        let discovery = AuthorizationServer::discover(self.http_for(context)?, server, challenge);
        let authorization_server = with_operation_timeout(discovery).await?;
        let credentials =
            with_operation_timeout(authorization_server.token_without_user(oauth, scopes, &self.http_maker)).await?;
        let signed_in = SignedIn::of(&credentials);
        self.save_new(slot, credentials).await?;
        Ok(signed_in)
    }

    /// Reports the outcome of a sign-in to the witness (the observer that writes the audit log), and returns it.
    fn record_outcome(&self, server: &ServerName, result: Result<SignedIn, AuthError>) -> Result<SignedIn, AuthError> {
        match &result {
            Ok(signed_in) => self.report(Fact::SignedIn { server: server.clone(), issuer: signed_in.issuer.clone() }),
            Err(error) => self.report_failure(server, error),
        }
        result
    }

    /// Shows the page to the user. Returns the state of the sign-in, and the URL to which the browser was redirected.
    async fn visit_page(
        self: &Arc<Self>,
        context: &AuthContext,
        sign_in_request: SignInRequest<'_>,
        browser: &dyn Browser,
    ) -> Result<(AuthorizationRequest, Url), AuthError> {
        let AuthContext { oauth, server, slot, .. } = context;
        let http = self.http_for(context)?;
        let redirect_uri = browser.redirect_uri();
        let authorization_request = async {
            let authorization_server = AuthorizationServer::discover(http, server, sign_in_request.challenge).await?;
            authorization_server
                .authorization_request(
                    oauth,
                    sign_in_request.scopes,
                    &redirect_uri,
                    sign_in_request.earlier_credentials,
                )
                .await
        };
        let authorization_request = with_operation_timeout(authorization_request).await?;
        check_page(&authorization_request.authorization_url)?;
        if authorization_request.reuses_client {
            self.doubt_client(slot, authorization_request.client_id()).await?;
        }
        let redirect = browser.visit(&authorization_request.authorization_url).await?;
        Ok((authorization_request, redirect))
    }

    /// Stores that the registered client is in doubt until a sign-in with it has succeeded. Most authorization servers
    /// do not redirect a client that they have forgotten, but show an error to the user (RFC 6749, 4.1.2.1). The user
    /// then gives up, and each later sign-in would fail in the same way.
    async fn doubt_client(self: &Arc<Self>, slot: &Arc<Slot>, client_id: &str) -> Result<(), AuthError> {
        let (inner, slot, client_id) = (Arc::clone(self), Arc::clone(slot), client_id.to_owned());
        let marking = self.run_to_completion(async move {
            let lease = inner.lease(&slot.key).await?;
            let result = inner.store_doubt(&slot, lease.as_ref(), &client_id).await;
            lease.release().await;
            Ok(result?)
        });
        marking.await
    }

    /// Does the work of [`Self::doubt_client`] under the lease. Leaves the slot as it is, because its tokens stay
    /// valid.
    async fn store_doubt(&self, slot: &Slot, lease: &dyn TokenLease, client_id: &str) -> Result<(), TokenStoreError> {
        match self.load(&slot.key).await? {
            Some(mut stored_credentials) if stored_credentials.client.id == client_id => {
                stored_credentials.client.in_doubt = true;
                lease.save(stored_credentials.to_bytes()).await
            }
            // Another process has signed in or out meanwhile.
            _ => Ok(()),
        }
    }

    /// Exchanges the code of the redirect for tokens, and stores them.
    async fn exchange_code(
        &self,
        context: &AuthContext,
        request: AuthorizationRequest,
        redirect: &Url,
    ) -> Result<SignedIn, AuthError> {
        let AuthContext { oauth, slot, .. } = context;
        let credentials = with_operation_timeout(request.exchange(redirect, oauth.client_secret.as_deref())).await?;
        let signed_in = SignedIn::of(&credentials);
        self.save_new(slot, credentials).await?;
        Ok(signed_in)
    }

    /// Deletes the credentials under the key of `slot`, and then revokes their tokens if the authorization server
    /// supports that. If `context` is an error, the tokens are not revoked.
    async fn delete_and_revoke(
        &self,
        slot: &Slot,
        context: Result<AuthContext, AuthError>,
    ) -> Result<SignedOut, AuthError> {
        // The lease keeps another process from renewing and storing the tokens meanwhile.
        let lease = self.lease(&slot.key).await?;
        let outcome = async {
            let stored_credentials = self.load(&slot.key).await?;
            // From now on, requests of this process are sent without the tokens.
            slot.set_cached(None);
            // This also deletes a registered client without tokens, and bytes that cannot be read.
            lease.delete().await?;
            let Some(stored_credentials) = stored_credentials.filter(|credentials| credentials.tokens.is_some()) else {
                return Ok(SignedOut::WasNotSignedIn);
            };
            let revocation = match context {
                Ok(context) => self.revoke_tokens(&context, &stored_credentials).await,
                Err(error) => Err(error),
            };
            Ok(match revocation {
                Ok(true) => SignedOut::Revoked,
                Ok(false) => SignedOut::CannotRevoke,
                Err(error) => SignedOut::NotRevoked(error),
            })
        }
        .await;
        lease.release().await;
        outcome
    }

    /// Revokes the tokens of credentials that the store has deleted. Returns `false` if the authorization server cannot
    /// revoke tokens.
    async fn revoke_tokens(&self, context: &AuthContext, deleted_credentials: &Credentials) -> Result<bool, AuthError> {
        let AuthContext { oauth, server, .. } = context;
        let http = self.http_for(context)?;
        with_operation_timeout(revoke(http, server, deleted_credentials, oauth)).await
    }
}

/// Refuses a sign-in page whose URL could mislead the user.
fn check_page(url: &Url) -> Result<(), AuthError> {
    page::judge(url).map_err(|why| AuthError::Unsafe { what: "sign-in page", why: why.to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_user_signs_in_on_a_page_with_a_name_before_its_host() {
        let judged = |page: &str| check_page(&Url::parse(page).unwrap()).map_err(|error| error.to_string());
        let refused = judged("https://good.example@evil.example/authorize?state=x").unwrap_err();
        assert!(refused.starts_with("its sign-in page is not used: the text before its @"), "{refused}");
        assert_eq!(judged("https://good.example/authorize?login_hint=a@b.example"), Ok(()));
    }
}
