//! Finds the member of a team who sends a request, by a token or by the session cookie of a browser.

use std::sync::Arc;

use http::{HeaderMap, Method, StatusCode, header::AUTHORIZATION};
use toolrack_store::{Purpose, audit::DoorRefusal};
use toolrack_team::{Authority, Endpoint, FrontDoor, ProvedToken, Unavailable};
use url::Url;

use super::{BUSY_RETRY_AFTER, bearer, is_protected, too_many};
use crate::{error::ApiError, membership::Membership};

/// Checks the tokens and session cookies of a team's members.
pub(crate) struct Members {
    authority: Arc<Authority>,
    /// The sign-in of the team, which sets the session cookies.
    door: Arc<FrontDoor>,
}

impl Members {
    pub(crate) fn new(authority: Arc<Authority>, door: Arc<FrontDoor>) -> Self {
        Self { authority, door }
    }

    /// Returns the URL under which browsers reach the team.
    pub(super) fn url(&self) -> &Url {
        self.door.url()
    }

    /// Returns the member of the team who sends a request. `may_ask_store` limits how often this looks up a token in
    /// the store, so that guessed tokens do not keep the store busy.
    ///
    /// # Errors
    /// When the store fails, and when the proof is not valid for this request.
    pub(super) async fn prove(
        &self,
        method: &Method,
        path: &str,
        headers: &HeaderMap,
        may_ask_store: impl Fn() -> bool,
    ) -> Result<Option<ProvedToken>, ApiError> {
        if !is_protected(path) {
            return Ok(None);
        }
        // A client that sends a token acts with that token, and not with a cookie that its browser adds.
        let has_authorization = headers.contains_key(AUTHORIZATION);
        let secret = if has_authorization { bearer(headers) } else { self.door.session_in(headers) };
        let Some(secret) = secret.filter(|secret| !secret.is_empty()) else { return Ok(None) };
        let proved_token = match self.authority.proof_in_memory(secret) {
            Some(proved_token) => Some(proved_token),
            None if !may_ask_store() => return Err(too_many("too many requests")),
            None => self.authority.prove(secret).await.map_err(|error| unavailable(&error))?,
        };
        let Some(proved_token) = proved_token else { return Ok(None) };
        match (proved_token.purpose(), has_authorization) {
            (Purpose::Personal | Purpose::Access, true) if proved_token.opens(path) => Ok(Some(proved_token)),
            (Purpose::Personal | Purpose::Access, true) => {
                let why = "a client sent its token to another address than the one for which the token was issued";
                self.record_refusal("wrong_audience", why, &proved_token).await;
                Err(wrong_audience(path, &proved_token))
            }
            // Another site can make a browser send a request with the cookie, and could call tools that way.
            (Purpose::Browser, false) if !method.is_safe() && !self.door.is_from_own_page(headers) => {
                let why = "a page of another site sent a request with the cookie of a member";
                self.record_refusal("cross_site", why, &proved_token).await;
                Err(cross_site())
            }
            (Purpose::Browser, false) if proved_token.opens(path) => Ok(Some(proved_token)),
            // Another site can make a browser send such a request, but cannot read the answer.
            (Purpose::Browser, false) => Ok(None),
            // The secret of a cookie is not valid as a token, nor a token as a cookie: the secret was probably copied.
            _ => {
                self.record_refusal(
                    "wrong_place",
                    "a cookie was sent as a token, or a token as a cookie",
                    &proved_token,
                )
                .await;
                Ok(None)
            }
        }
    }

    /// Returns the data about the member behind `proved_token` that the control API needs.
    pub(super) fn membership(&self, proved_token: &ProvedToken) -> Option<Membership> {
        Membership::of(self.authority.store(), proved_token)
    }

    /// Returns the `WWW-Authenticate` for a client without a valid token; `is_wrong` says whether the client
    /// sent an invalid token.
    pub(super) fn challenge(&self, endpoint: Endpoint<'_>, is_wrong: bool) -> String {
        self.door.challenge(endpoint, is_wrong)
    }

    /// Returns the page on which a user signs in.
    pub(super) fn sign_in_page(&self) -> Option<&'static str> {
        self.door.signs_in().then_some("/sign-in")
    }

    /// Returns the next step for a user without a valid token.
    pub(super) fn hint(&self) -> String {
        if self.door.signs_in() {
            return format!("sign in at {}, or send a token of the team", self.door.url());
        }
        "send `Authorization: Bearer TOKEN` with a token that the operator of the team gave you".to_owned()
    }

    /// Records the refusal of a request in the audit log.
    async fn record_refusal(&self, code: &str, why: &str, proved_token: &ProvedToken) {
        let member = Some(proved_token.member());
        self.door
            .refusals()
            .record(DoorRefusal { door: "daemon", code, why, by: member, ..DoorRefusal::default() })
            .await;
    }
}

/// The refusal of a token that was issued for another address than `path`.
fn wrong_audience(path: &str, proved_token: &ProvedToken) -> ApiError {
    let is_of_other_tenant = |endpoint: Endpoint<'_>| !endpoint.is_for(proved_token.member().tenant());
    let (message, hint) = match Endpoint::at(path) {
        Some(endpoint) if is_of_other_tenant(endpoint) => {
            let tenant = proved_token.member().tenant();
            (
                format!("this token is of a member of the tenant `{tenant}`, and the address is not of that tenant"),
                "use the address without `/t/TENANT`, or sign in as a member of the tenant in the address",
            )
        }
        _ => (
            format!("this token opens only the MCP endpoint `{}`", Endpoint::of(proved_token.profile())),
            "sign the client in at this address, or make a personal token for other programs",
        ),
    };
    ApiError::new(StatusCode::FORBIDDEN, "WRONG_AUDIENCE", message).hint(hint)
}

/// The refusal of a request that a page of another site has made a browser send.
fn cross_site() -> ApiError {
    let message = "a request that changes something must come from a page of this server";
    ApiError::new(StatusCode::FORBIDDEN, "CROSS_SITE", message).hint("use the dashboard, or a personal token")
}

/// The error for a token that could not be checked.
fn unavailable(error: &Unavailable) -> ApiError {
    ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "NOT_CHECKED", error.to_string())
        .hint("try again in a second")
        .retry_after(BUSY_RETRY_AFTER)
}
