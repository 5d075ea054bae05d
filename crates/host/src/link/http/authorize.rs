//! Signing requests in, and sending one again that was refused for want of a token.
//!
//! A request is sent a second time here, a `tools/call` too, and that breaks no promise: a server that answers 401, or 403
//! with `insufficient_scope`, has looked at the token and at nothing else (RFC 6750, 3.1). It is the answer to a request that
//! was refused, not one whose fate is unknown.

use http::{HeaderMap, HeaderValue, header};
use reqwest::{Method, RequestBuilder, Response};

use super::{
    super::{
        error::{LinkError, quote},
        wire::Outgoing,
    },
    Endpoint, sensitive, text_header,
};
use crate::resolve::{Challenge, Destination, NotAuthorized};

/// How often one request is sent again because a token with more scopes was had for it.
const STEP_UPS: u32 = 3;
/// Challenges of one answer that are looked at, and how long each may be.
const CHALLENGES: usize = 8;
const CHALLENGE_BYTES: usize = 8 * 1024;

/// Who signed a request in.
pub(super) enum Signed {
    /// The entry itself, or nobody, and nobody can be asked.
    ByEntry,
    /// The host's authorizer was asked, and this is what it gave.
    ByAuthorizer(Option<HeaderValue>),
}

impl Endpoint {
    fn destination(&self) -> Destination<'_> {
        Destination { server: &self.server, url: &self.url, spec: &self.spec }
    }

    /// Gives a request its `Authorization` header, unless its entry has one.
    pub(super) async fn sign(&self, headers: &mut HeaderMap) -> Result<Signed, LinkError> {
        let Some(authorizer) = self.authorizer.as_ref().filter(|_| !headers.contains_key(header::AUTHORIZATION)) else {
            return Ok(Signed::ByEntry);
        };
        let given = authorizer.header(self.destination()).await.map_err(|error| refused(error, 401, None))?;
        let given = given.map(sensitive);
        if let Some(value) = &given {
            headers.insert(header::AUTHORIZATION, value.clone());
        }
        Ok(Signed::ByAuthorizer(given))
    }

    /// Sends what `finish` makes of a request; once more when the server refuses it and the authorizer has found another
    /// token, and up to three times more when that has more scopes each time.
    pub(super) async fn send(
        &self,
        method: Method,
        of: Option<&Outgoing>,
        finish: impl Fn(RequestBuilder) -> RequestBuilder,
    ) -> Result<Response, LinkError> {
        let (mut renewals, mut step_ups) = (1, STEP_UPS);
        loop {
            let (request, signed) = self.request(method.clone(), of).await?;
            let response = finish(request).send().await.map_err(|error| self.unreachable(error))?;
            let left = match response.status().as_u16() {
                401 => &mut renewals,
                403 if asks_for_scopes(response.headers()) => &mut step_ups,
                _ => return Ok(response),
            };
            let (Signed::ByAuthorizer(sent), Some(authorizer)) = (signed, &self.authorizer) else {
                return Ok(response);
            };
            if *left == 0 {
                return Ok(response);
            }
            *left -= 1;
            let status = response.status().as_u16();
            let said = text_header(&response, &header::WWW_AUTHENTICATE);
            let challenge = Challenge { status, www_authenticate: challenges(response.headers()), sent };
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

/// Whether a 403 is about the scopes of the token (RFC 6750, 3.1), and not about what its owner may do.
fn asks_for_scopes(headers: &HeaderMap) -> bool {
    challenges(headers).iter().any(|challenge| challenge.contains("insufficient_scope"))
}
