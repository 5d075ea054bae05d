//! Extends the requests that `rmcp` sends to a token endpoint. A client assertion, a JWT that the client has signed,
//! replaces the client's secret (`private_key_jwt`). A DPoP proof binds the tokens to a key.

use http::{HeaderName, Method, Request, Response, header};
use rmcp::transport::auth::AuthorizationMetadata;
use serde_json::Value;
use toolrack_host::spec::OAuth;
use url::{Url, form_urlencoded::Serializer};

use crate::{
    dpop::{Nonce, ProofKey},
    error::AuthError,
    jose::{AssertionClaims, SigningKey},
};

const PROOF_HEADER: HeaderName = HeaderName::from_static("dpop");
const NONCE_HEADER: HeaderName = HeaderName::from_static("dpop-nonce");
const ASSERTION_TYPE: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";

/// Makes the client assertions for one authorization server.
pub(crate) struct ClientAssertion {
    key: SigningKey,
    client: String,
    audience: String,
    key_id: Option<String>,
    /// The algorithms that the server accepts, if it lists them.
    accepted_algorithms: Option<Vec<Value>>,
}

impl ClientAssertion {
    /// Creates a maker of assertions that are valid only at the authorization server `issuer`. `None` if `oauth` has no
    /// private key or no client id.
    pub(crate) fn of(oauth: &OAuth, issuer: &str, metadata: &AuthorizationMetadata) -> Result<Option<Self>, AuthError> {
        let (Some(pem), Some(client)) = (&oauth.private_key.text, &oauth.client_id) else {
            return Ok(None);
        };
        let accepted_algorithms = metadata.additional_fields.get("token_endpoint_auth_signing_alg_values_supported");
        Ok(Some(Self {
            key: SigningKey::from_pem(pem)?,
            client: client.clone(),
            audience: issuer.to_owned(),
            key_id: oauth.key_id.clone(),
            accepted_algorithms: accepted_algorithms.and_then(Value::as_array).cloned(),
        }))
    }

    /// Adds a new assertion to a form (RFC 7523, 2.2). A server accepts each assertion once.
    pub(crate) fn add_to(&self, form: &mut Serializer<'_, String>) -> Result<(), AuthError> {
        let claims = AssertionClaims { client: &self.client, audience: &self.audience, key_id: self.key_id.as_deref() };
        let assertion = self.key.assertion(&claims, self.accepted_algorithms.as_deref())?;
        form.append_pair("client_assertion_type", ASSERTION_TYPE).append_pair("client_assertion", &assertion);
        Ok(())
    }
}

/// Adds the client assertion and the DPoP proof to requests to one token endpoint.
pub(crate) struct RequestSigner {
    /// The token endpoint. Requests to other URLs stay as they are.
    pub(crate) endpoint: Url,
    /// Makes the client assertions; `None` if the client has no private key.
    pub(crate) assertion: Option<ClientAssertion>,
    /// The key of the DPoP proofs; `None` for bearer tokens.
    pub(crate) proof_key: Option<ProofKey>,
}

impl RequestSigner {
    /// Returns whether this signer extends the request.
    pub(crate) fn is_for(&self, request: &Request<Vec<u8>>) -> bool {
        request.method() == Method::POST && request.uri() == self.endpoint.as_str()
    }

    /// Returns a copy of the request with assertion and proof; `nonce` is the nonce that the server demands in proofs.
    pub(crate) fn authenticated(
        &self,
        request: &Request<Vec<u8>>,
        nonce: Option<&Nonce>,
    ) -> Result<Request<Vec<u8>>, AuthError> {
        let mut authenticated = request.clone();
        if let Some(assertion) = &self.assertion {
            // `rmcp` writes forms in ASCII, so this does not fail.
            let form = String::from_utf8(std::mem::take(authenticated.body_mut())).unwrap_or_default();
            // Starts from the existing form, so that the serializer puts an `&` before the assertion.
            let mut form = Serializer::new(form);
            assertion.add_to(&mut form)?;
            *authenticated.body_mut() = form.finish().into_bytes();
            authenticated.headers_mut().remove(header::CONTENT_LENGTH);
        }
        if let Some(key) = &self.proof_key {
            // A request for tokens carries no access token.
            let token = None;
            let proof = key.proof("POST", &self.endpoint, token, nonce)?;
            authenticated.headers_mut().insert(PROOF_HEADER, proof);
        }
        Ok(authenticated)
    }

    /// Returns the nonce of a response, if requests to this endpoint carry proofs.
    pub(crate) fn nonce_in(&self, answer: &Response<Vec<u8>>) -> Option<Nonce> {
        self.proof_key.as_ref()?;
        answer.headers().get(NONCE_HEADER).and_then(Nonce::from_header)
    }
}

/// Returns whether the server asks to repeat the request with its nonce (RFC 9449, 8).
pub(crate) fn wants_nonce(response: &Response<Vec<u8>>) -> bool {
    let body: Value = serde_json::from_slice(response.body()).unwrap_or_default();
    matches!(response.status().as_u16(), 400 | 401) && body["error"] == "use_dpop_nonce"
}

/// Returns whether the server refuses the client itself (RFC 6749, 5.2): it does not know the client, or the client may
/// not use this grant.
pub(crate) fn refuses_client(response: &Response<Vec<u8>>) -> bool {
    if !matches!(response.status().as_u16(), 400 | 401) {
        return false;
    }
    let body: Value = serde_json::from_slice(response.body()).unwrap_or_default();
    body["error"].as_str().is_some_and(is_client_refusal)
}

/// Returns whether this error code of OAuth means that the server refuses the client itself (RFC 6749, 4.1.2.1 and
/// 5.2).
pub(crate) fn is_client_refusal(code: &str) -> bool {
    matches!(code, "invalid_client" | "unauthorized_client")
}

#[cfg(test)]
mod tests;
