//! Authorizes requests, and sends a request again that was refused for lack of a token.
//!
//! A request may be sent a second time here, even a `tools/call`. That is safe: a server that answers 401, or 403 with
//! `insufficient_scope`, has checked only the token (RFC 6750, 3.1). The request was refused, so its outcome is known.

use std::sync::Arc;

use http::{HeaderMap, HeaderName, HeaderValue, header};
use reqwest::{Method, RequestBuilder, Response};

use crate::{
    link::{
        error::LinkError,
        http::{Endpoint, helper::HelperHeaders, sensitive, text_header},
        message::Outgoing,
    },
    resolve::{Challenge, Destination, NotAuthorized, Signature},
    text::quote,
};

/// How often one request is sent again, each time with a token of more scopes.
const MAX_STEP_UPS: u32 = 3;
/// The header of a proof that the sender has the key of its token; in answers, `DPoP-Nonce` has the nonce for the next
/// proof (RFC 9449).
const PROOF: HeaderName = HeaderName::from_static("dpop");
const NONCE: HeaderName = HeaderName::from_static("dpop-nonce");
/// The most challenges of one answer that are read, and the longest of them.
const MAX_CHALLENGES: usize = 8;
const CHALLENGE_BYTES: usize = 8 * 1024;

/// The source of a request's authorization.
pub(super) enum Signed {
    /// The entry itself, or nothing, if there is no authorizer.
    Entry,
    /// A program of the entry, with its output.
    Helper(Arc<HelperHeaders>),
    /// The host's authorizer: the token that it returned, and whether there was a proof.
    Authorizer(Option<HeaderValue>, bool),
}

impl Endpoint {
    fn destination(&self) -> Destination<'_> {
        Destination { server: &self.server, url: &self.url, spec: &self.spec }
    }

    /// Adds the `Authorization` header and its proof to a request, unless its entry has that header.
    pub(super) async fn sign(&self, headers: &mut HeaderMap, method: &Method) -> Result<Signed, LinkError> {
        let Some(authorizer) = self.authorizer.as_ref().filter(|_| !headers.contains_key(header::AUTHORIZATION)) else {
            return Ok(Signed::Entry);
        };
        let signature = authorizer.sign(self.destination(), method).await.map_err(|error| refused(error, 401, None))?;
        let Some(Signature { authorization, proof }) = signature else {
            return Ok(Signed::Authorizer(None, false));
        };
        let authorization = sensitive(authorization);
        headers.insert(header::AUTHORIZATION, authorization.clone());
        let is_proved = proof.is_some();
        if let Some(proof) = proof {
            headers.insert(PROOF, sensitive(proof));
        }
        Ok(Signed::Authorizer(Some(authorization), is_proved))
    }

    /// Sends the request that `finish` completes. Sends it once more if the server refuses it and there is another
    /// token or there are other headers, once more if the server requires a nonce in the proof, and up to three times
    /// more with a token of more scopes each time.
    pub(super) async fn send(
        &self,
        method: Method,
        of: Option<&Outgoing>,
        finish: impl Fn(RequestBuilder) -> RequestBuilder,
    ) -> Result<Response, LinkError> {
        let (mut renewals, mut nonces, mut step_ups) = (1, 1, MAX_STEP_UPS);
        loop {
            let (request, signed) = self.request(method.clone(), of).await?;
            let response = finish(request).send().await.map_err(|error| self.unreachable(error))?;
            if let (Signed::Authorizer(_, true), Some(authorizer)) = (&signed, &self.authorizer)
                && let Some(nonce) = response.headers().get(NONCE)
            {
                authorizer.nonce(self.destination(), nonce);
            }
            if let (401, Signed::Helper(headers), Some(helper)) = (response.status().as_u16(), &signed, &self.helper)
                && renewals > 0
            {
                renewals -= 1;
                helper.refused(headers);
                continue;
            }
            let status = response.status().as_u16();
            if !matches!(status, 401 | 403) {
                return Ok(response);
            }
            let (Signed::Authorizer(sent, is_proved), Some(authorizer)) = (signed, &self.authorizer) else {
                return Ok(response);
            };
            let challenge = Challenge { status, www_authenticate: challenges(response.headers()), sent };
            let left = match status {
                401 if is_proved && challenge.wants_nonce() => {
                    if nonces == 0 {
                        // The token may be valid, so a sign-in would not help.
                        let why = "the server refuses the nonce that it named itself (DPoP)".to_owned();
                        return Err(LinkError::NoToken { why });
                    }
                    &mut nonces
                }
                401 => &mut renewals,
                403 if challenge.wants_scopes() => &mut step_ups,
                _ => return Ok(response),
            };
            if *left == 0 {
                return Ok(response);
            }
            *left -= 1;
            let www_authenticate = text_header(&response, &header::WWW_AUTHENTICATE);
            drop(response);
            let again = authorizer.challenged(self.destination(), challenge).await;
            again.map_err(|error| refused(error, status, www_authenticate))?;
        }
    }
}

fn refused(error: NotAuthorized, status: u16, challenge: Option<String>) -> LinkError {
    match error {
        NotAuthorized::SignIn { how } => LinkError::NeedsAuth { status, challenge, how: Some(quote(&how)) },
        NotAuthorized::Unavailable { why } => LinkError::NoToken { why: quote(&why) },
    }
}

fn challenges(headers: &HeaderMap) -> Vec<String> {
    let values = headers.get_all(header::WWW_AUTHENTICATE).iter().filter_map(|value| value.to_str().ok());
    values.filter(|value| value.len() <= CHALLENGE_BYTES).take(MAX_CHALLENGES).map(str::to_owned).collect()
}
