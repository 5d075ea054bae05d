//! Signs requests in, and sends one again that was refused for lack of a token.
//!
//! A request is sent a second time here, a `tools/call` too, and that breaks no promise: a server that answers 401, or
//! 403 with `insufficient_scope`, has looked at the token and at nothing else (RFC 6750, 3.1). The request was refused;
//! its outcome is not unknown.

use std::sync::Arc;

use http::{HeaderMap, HeaderName, HeaderValue, header};
use reqwest::{Method, RequestBuilder, Response};

use crate::{
    link::{
        error::LinkError,
        http::{Endpoint, helper::Given, sensitive, text_header},
        message::Outgoing,
    },
    resolve::{Challenge, Destination, NotAuthorized, Signature},
    text::quote,
};

/// How often one request is sent again with a token of more scopes.
const STEP_UPS: u32 = 3;
/// A proof that the sender has the key which its token is bound to, and the nonce that the next one is to hold (RFC 9449).
const PROOF: HeaderName = HeaderName::from_static("dpop");
const NONCE: HeaderName = HeaderName::from_static("dpop-nonce");
/// Challenges of one answer that are looked at, and how long each may be.
const CHALLENGES: usize = 8;
const CHALLENGE_BYTES: usize = 8 * 1024;

/// What signed a request in.
pub(super) enum Signed {
    /// The entry itself, or nothing, and there is no authorizer to ask.
    Entry,
    /// A program of the entry, with what it printed.
    Helper(Arc<Given>),
    /// The host's authorizer: the token that it returned, and whether a proof came with it.
    Authorizer(Option<HeaderValue>, bool),
}

impl Endpoint {
    fn destination(&self) -> Destination<'_> {
        Destination { server: &self.server, url: &self.url, spec: &self.spec }
    }

    /// Gives a request its `Authorization` header, and the proof that goes with it, unless its entry has one.
    pub(super) async fn sign(&self, headers: &mut HeaderMap, method: &Method) -> Result<Signed, LinkError> {
        let Some(authorizer) = self.authorizer.as_ref().filter(|_| !headers.contains_key(header::AUTHORIZATION)) else {
            return Ok(Signed::Entry);
        };
        let given = authorizer.sign(self.destination(), method).await.map_err(|error| refused(error, 401, None))?;
        let Some(Signature { authorization, proof }) = given else {
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

    /// Sends what `finish` makes of a request; once more when the server refuses it and there is another token or there are
    /// other headers, once more when it wants a nonce in the proof, and up to three times more when there is a token with more
    /// scopes each time.
    pub(super) async fn send(
        &self,
        method: Method,
        of: Option<&Outgoing>,
        finish: impl Fn(RequestBuilder) -> RequestBuilder,
    ) -> Result<Response, LinkError> {
        let (mut renewals, mut nonces, mut step_ups) = (1, 1, STEP_UPS);
        loop {
            let (request, signed) = self.request(method.clone(), of).await?;
            let response = finish(request).send().await.map_err(|error| self.unreachable(error))?;
            if let (Signed::Authorizer(_, true), Some(authorizer)) = (&signed, &self.authorizer)
                && let Some(nonce) = response.headers().get(NONCE)
            {
                authorizer.nonce(self.destination(), nonce);
            }
            if let (401, Signed::Helper(given), Some(helper)) = (response.status().as_u16(), &signed, &self.helper)
                && renewals > 0
            {
                renewals -= 1;
                helper.refused(given);
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
                        // The token may be as good as any: a sign-in would not help.
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
            let said = text_header(&response, &header::WWW_AUTHENTICATE);
            drop(response);
            let again = authorizer.challenged(self.destination(), challenge).await;
            again.map_err(|error| refused(error, status, said))?;
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
    values.filter(|value| value.len() <= CHALLENGE_BYTES).take(CHALLENGES).map(str::to_owned).collect()
}
