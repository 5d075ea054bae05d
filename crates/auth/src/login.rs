//! Sign-in and sign-out by a user, and the sign-in without a user that a server's configuration can ask for.
//!
//! A slot is the state of one sign-in in this process. A lease is the right to change the stored credentials, which one
//! process at a time has.

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

/// What became of the tokens when a user signed out. In any case, the store has deleted them.
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
    /// unless the grant of the entry needs no user. Once the browser has come back, the sign-in runs to its end even if
    /// this future is dropped.
    ///
    /// # Errors
    /// [`AuthError`]. An earlier sign-in then stays as it is.
    pub async fn login(
        &self,
        to: Destination<'_>,
        scopes: &[String],
        browser: &dyn Browser,
    ) -> Result<SignedIn, AuthError> {
        let inner = &self.0;
        let context = inner.context(to).await?;
        let AuthContext { oauth, slot, .. } = &context;
        let scopes = if scopes.is_empty() { &oauth.scopes } else { scopes };
        // The user begins this sign-in, and not a request that the server has refused.
        let challenge = None;
        if !oauth.grant.needs_user() {
            return inner.sign_in_without_user(to.server, &context, scopes, challenge).await;
        }
        // If the earlier sign-in has registered a client with the same authorization server, that client is used again.
        let earlier_credentials = inner.load(&slot.key).await?;
        inner
            .sign_in_with_browser(
                to.server,
                &context,
                SignInRequest { scopes, challenge, earlier_credentials: earlier_credentials.as_ref() },
                browser,
            )
            .await
    }

    /// Deletes the tokens for a server, and then revokes them if its authorization server supports that. Runs to its
    /// end even if this future is dropped. If a placeholder in the `oauth` of the server's entry has no value, the
    /// tokens are deleted, but not revoked.
    ///
    /// # Errors
    /// [`AuthError::Store`] when the tokens cannot be deleted.
    pub async fn logout(&self, to: Destination<'_>) -> Result<SignedOut, AuthError> {
        let inner = &self.0;
        let (slot, context, name) = (inner.slot(&to), inner.context(to).await, to.server.clone());
        let task_inner = Arc::clone(inner);
        let signed_out = inner.run_to_completion(async move {
            let signed_out = task_inner.delete_and_revoke(&slot, context).await?;
            if let Some(outcome) = signed_out.outcome() {
                task_inner.report(Fact::SignedOut { server: name, outcome });
            }
            Ok(signed_out)
        });
        signed_out.await
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
        name: &ServerName,
        context: &AuthContext,
        mut inputs: SignInRequest<'_>,
        browser: &dyn Browser,
    ) -> Result<SignedIn, AuthError> {
        loop {
            let visited = self.visit_page(context, inputs, browser).await;
            let (inner, name, context) = (Arc::clone(self), name.clone(), context.clone());
            // `None` if the authorization server has forgotten the client.
            let signed = self.run_to_completion(async move {
                let (reuses_client, signed) = match visited {
                    Ok((request, redirect)) => {
                        (request.reuses_client, inner.exchange_code(&context, request, &redirect).await)
                    }
                    Err(error) => (false, Err(error)),
                };
                if reuses_client && matches!(signed, Err(AuthError::NoClient { .. })) {
                    return Ok(None);
                }
                inner.record_outcome(&name, signed).map(Some)
            });
            if let Some(signed) = signed.await? {
                return Ok(signed);
            }
            // Without them, no client is used again: the loop ends with the next page.
            inputs.earlier_credentials = None;
        }
    }

    /// Signs in with a grant that needs no user, and stores the tokens.
    pub(crate) async fn sign_in_without_user(
        self: &Arc<Self>,
        name: &ServerName,
        context: &AuthContext,
        scopes: &[String],
        challenge: Option<&str>,
    ) -> Result<SignedIn, AuthError> {
        let (inner, name, context) = (Arc::clone(self), name.clone(), context.clone());
        let (scopes, challenge) = (scopes.to_vec(), challenge.map(str::to_owned));
        let signed = self.run_to_completion(async move {
            let signed = inner.exchange_grant(&context, &scopes, challenge.as_deref()).await;
            inner.record_outcome(&name, signed)
        });
        signed.await
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
        let fresh =
            with_operation_timeout(authorization_server.token_without_user(oauth, scopes, &self.http_maker)).await?;
        let signed = SignedIn::of(&fresh);
        self.save_new(slot, fresh).await?;
        Ok(signed)
    }

    /// Reports the outcome of a sign-in to the witness (the observer that writes the audit log), and returns it.
    fn record_outcome(&self, server: &ServerName, signed: Result<SignedIn, AuthError>) -> Result<SignedIn, AuthError> {
        match &signed {
            Ok(signed) => self.report(Fact::SignedIn { server: server.clone(), issuer: signed.issuer.clone() }),
            Err(error) => self.report_failure(server, error),
        }
        signed
    }

    /// Shows the page to the user. Returns the state of the sign-in, and the URL to which the browser was redirected.
    async fn visit_page(
        self: &Arc<Self>,
        context: &AuthContext,
        inputs: SignInRequest<'_>,
        browser: &dyn Browser,
    ) -> Result<(AuthorizationRequest, Url), AuthError> {
        let AuthContext { oauth, server, slot, .. } = context;
        let http = self.http_for(context)?;
        let redirect_uri = browser.redirect_uri();
        let request = async {
            let authorization_server = AuthorizationServer::discover(http, server, inputs.challenge).await?;
            authorization_server
                .authorization_request(oauth, inputs.scopes, &redirect_uri, inputs.earlier_credentials)
                .await
        };
        let request = with_operation_timeout(request).await?;
        check_page(&request.authorization_url)?;
        if request.reuses_client {
            self.doubt_client(slot, request.client_id()).await?;
        }
        let redirect = browser.visit(&request.authorization_url).await?;
        Ok((request, redirect))
    }

    /// Stores that the registered client is in doubt until a sign-in with it has succeeded. Most authorization servers
    /// do not redirect a client that they have forgotten, but show an error to the user (RFC 6749, 4.1.2.1). The user
    /// then gives up, and each later sign-in would fail in the same way.
    async fn doubt_client(self: &Arc<Self>, slot: &Arc<Slot>, client_id: &str) -> Result<(), AuthError> {
        let (inner, slot, client_id) = (Arc::clone(self), Arc::clone(slot), client_id.to_owned());
        let stored = self.run_to_completion(async move {
            let lease = inner.lease(&slot.key).await?;
            let stored = inner.store_doubt(&slot, lease.as_ref(), &client_id).await;
            lease.release().await;
            Ok(stored?)
        });
        stored.await
    }

    /// Does the work of [`Self::doubt_client`] under the lease. Leaves the slot as it is, because its tokens stay
    /// valid.
    async fn store_doubt(&self, slot: &Slot, lease: &dyn TokenLease, client_id: &str) -> Result<(), TokenStoreError> {
        match self.load(&slot.key).await? {
            Some(mut stored) if stored.client.id == client_id => {
                stored.client.in_doubt = true;
                lease.save(stored.to_bytes()).await
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
        let fresh = with_operation_timeout(request.exchange(redirect, oauth.client_secret.as_deref())).await?;
        let signed = SignedIn::of(&fresh);
        self.save_new(slot, fresh).await?;
        Ok(signed)
    }

    /// Deletes what the store has under the key of `slot`, and then revokes the tokens in it if the authorization
    /// server supports that. They cannot be revoked without `context`.
    async fn delete_and_revoke(
        &self,
        slot: &Slot,
        context: Result<AuthContext, AuthError>,
    ) -> Result<SignedOut, AuthError> {
        // The lease keeps another process from renewing and storing the tokens meanwhile.
        let lease = self.lease(&slot.key).await?;
        let outcome = async {
            let stored = self.load(&slot.key).await?;
            // From now on, requests of this process are sent without the tokens.
            slot.set_cached(None);
            // This also deletes a registered client without tokens, and bytes that cannot be read.
            lease.delete().await?;
            let Some(stored) = stored.filter(|stored| stored.tokens.is_some()) else {
                return Ok(SignedOut::WasNotSignedIn);
            };
            let revoked = match context {
                Ok(context) => self.revoke_tokens(&context, &stored).await,
                Err(error) => Err(error),
            };
            Ok(match revoked {
                Ok(true) => SignedOut::Revoked,
                Ok(false) => SignedOut::CannotRevoke,
                Err(error) => SignedOut::NotRevoked(error),
            })
        }
        .await;
        lease.release().await;
        outcome
    }

    /// Revokes the tokens of `stored`, which the store has no longer. Returns `false` if the authorization server
    /// cannot revoke tokens.
    async fn revoke_tokens(&self, context: &AuthContext, stored: &Credentials) -> Result<bool, AuthError> {
        let AuthContext { oauth, server, .. } = context;
        let http = self.http_for(context)?;
        with_operation_timeout(revoke(http, server, stored, oauth)).await
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
