//! Authorizes requests, and sends a request again if the server refused it for lack of a token. An authorizer is the
//! part of the program that signs in to servers. The host asks it only if the server's entry (its configuration) has
//! neither an `Authorization` header nor a `headers_helper`, a program that prints headers.
//!
//! A request may be sent a second time here, even a `tools/call`. That is safe: a server that answers 401, or 403 with
//! `insufficient_scope`, has checked only the token (RFC 6750, 3.1). The request was refused, so its outcome is known.

use std::sync::Arc;

use http::{HeaderMap, HeaderName, HeaderValue, header};
use reqwest::{Method, Response};

use crate::{
    link::{
        error::{LinkError, RefusedPart},
        http::{Endpoint, Outgoing, helper::HelperHeaders, sensitive, text_header},
    },
    resolve::{Challenge, Destination, NotAuthorized, Signature},
    text::quote,
};

/// How often one request is sent again because the server requires a token with more scopes.
const MAX_STEP_UPS: u32 = 3;
/// The header of a request that proves that the sender has the key of its token (RFC 9449).
const DPOP: HeaderName = HeaderName::from_static("dpop");
/// The header of an answer with the nonce for the next proof.
const DPOP_NONCE: HeaderName = HeaderName::from_static("dpop-nonce");
/// The most challenges of one answer that are read.
const MAX_CHALLENGES: usize = 8;
/// The longest challenge that is read, in bytes.
const MAX_CHALLENGE_BYTES: usize = 8 * 1024;

/// The source of a request's authorization.
pub(super) enum AuthorizedBy {
    /// The server's configuration (its entry), or nothing, if there is no authorizer.
    Entry {
        /// Whether the entry has an `Authorization` header.
        has_authorization: bool,
    },
    /// A program that the configuration names, with the program's output.
    Helper(Arc<HelperHeaders>),
    /// The host's authorizer.
    Authorizer {
        /// The token that the authorizer returned.
        token: Option<HeaderValue>,
        /// Whether the authorizer returned a proof as well.
        has_proof: bool,
    },
}

impl Endpoint {
    /// Describes the destination of requests for the authorizer.
    fn destination(&self) -> Destination<'_> {
        let posts_to = (self.url != self.server_url).then_some(&self.url);
        Destination { server: &self.server, url: &self.server_url, posts_to, spec: &self.spec }
    }

    /// Adds the `Authorization` header and its proof to a request, unless the server's configuration has set that
    /// header.
    pub(super) async fn sign(&self, headers: &mut HeaderMap, method: &Method) -> Result<AuthorizedBy, LinkError> {
        let has_authorization = headers.contains_key(header::AUTHORIZATION);
        let Some(authorizer) = self.authorizer.as_ref().filter(|_| !has_authorization) else {
            return Ok(AuthorizedBy::Entry { has_authorization });
        };
        let signature = authorizer.sign(self.destination(), method).await;
        // No request was sent, so there is no status and no challenge. Report the error of a request without a token.
        let signature = signature.map_err(|error| authorization_error(error, 401, None))?;
        let Some(Signature { authorization, proof }) = signature else {
            return Ok(AuthorizedBy::Authorizer { token: None, has_proof: false });
        };
        let authorization = sensitive(authorization);
        headers.insert(header::AUTHORIZATION, authorization.clone());
        let has_proof = proof.is_some();
        if let Some(proof) = proof {
            headers.insert(DPOP, sensitive(proof));
        }
        Ok(AuthorizedBy::Authorizer { token: Some(authorization), has_proof })
    }

    /// Sends a request. If the server refuses it, sends it again: once with another token or with new headers of the
    /// helper, once with a nonce that the server requires in the proof, and up to three times with a token that has
    /// more scopes.
    pub(super) async fn send(&self, outgoing: &Outgoing<'_>) -> Result<Response, LinkError> {
        let session_headers = self.session_headers.load_full();
        // How often the request may still be sent again, for each reason.
        let (mut renewals_left, mut nonces_left, mut step_ups_left) = (1, 1, MAX_STEP_UPS);
        loop {
            let (request, authorized_by) = self.build_request(outgoing, &session_headers).await?;
            let response = request.send().await.map_err(|error| self.link_error(error))?;
            if let (AuthorizedBy::Authorizer { has_proof: true, .. }, Some(authorizer)) =
                (&authorized_by, &self.authorizer)
                && let Some(nonce) = response.headers().get(DPOP_NONCE)
            {
                // Tells the authorizer the nonce for its next proofs.
                authorizer.nonce(self.destination(), nonce);
            }
            let status = response.status().as_u16();
            if !matches!(status, 401 | 403) {
                return Ok(response);
            }
            let (token, has_proof) = match authorized_by {
                AuthorizedBy::Authorizer { token, has_proof } => (token, has_proof),
                AuthorizedBy::Entry { has_authorization } => {
                    return Err(needs_auth_error(&response, has_authorization.then_some(RefusedPart::Authorization)));
                }
                AuthorizedBy::Helper(headers) => {
                    if let (401, Some(helper)) = (status, &self.helper)
                        && renewals_left > 0
                    {
                        renewals_left -= 1;
                        helper.forget(&headers);
                        continue;
                    }
                    return Err(needs_auth_error(&response, Some(RefusedPart::HeadersHelper)));
                }
            };
            // This authorizer has signed the request, so it is there.
            let Some(authorizer) = &self.authorizer else {
                return Ok(response);
            };
            let challenge = Challenge { status, www_authenticate: challenges(response.headers()), sent: token };
            let retries_left = match status {
                401 if has_proof && challenge.wants_nonce() => {
                    if nonces_left == 0 {
                        // The token may be valid, so a sign-in would not help.
                        let why = "the server refuses the nonce that it named itself (DPoP)".to_owned();
                        return Err(LinkError::NoToken { why });
                    }
                    &mut nonces_left
                }
                401 => &mut renewals_left,
                403 if challenge.wants_scopes() => &mut step_ups_left,
                _ => return Ok(response),
            };
            if *retries_left == 0 {
                return Ok(response);
            }
            *retries_left -= 1;
            let www_authenticate = text_header(&response, &header::WWW_AUTHENTICATE);
            drop(response);
            let handled = authorizer.challenged(self.destination(), challenge).await;
            handled.map_err(|error| authorization_error(error, status, www_authenticate))?;
        }
    }
}

/// Returns the error for an answer 401 or 403 if no authorizer can help. `refused` is the part of the server's entry
/// that authorized the request, if any.
pub(super) fn needs_auth_error(response: &Response, refused: Option<RefusedPart>) -> LinkError {
    let challenge = text_header(response, &header::WWW_AUTHENTICATE);
    LinkError::NeedsAuth { status: response.status().as_u16(), challenge, how: None, refused }
}

fn authorization_error(error: NotAuthorized, status: u16, challenge: Option<String>) -> LinkError {
    match error {
        NotAuthorized::SignIn { how } => {
            LinkError::NeedsAuth { status, challenge, how: Some(quote(&how)), refused: None }
        }
        NotAuthorized::Unavailable { why } => LinkError::NoToken { why: quote(&why) },
    }
}

/// Returns the `WWW-Authenticate` headers that are short enough.
fn challenges(headers: &HeaderMap) -> Vec<String> {
    let values = headers.get_all(header::WWW_AUTHENTICATE).iter().filter_map(|value| value.to_str().ok());
    values.filter(|value| value.len() <= MAX_CHALLENGE_BYTES).take(MAX_CHALLENGES).map(str::to_owned).collect()
}
