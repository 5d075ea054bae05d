//! A provider whose faults a test sets: an OpenID provider for browsers, and an issuer of access tokens.

use std::{collections::HashMap, sync::Arc};

use aws_lc_rs::{
    rand::SystemRandom,
    signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair},
};
use axum::{
    Json, Router,
    extract::{Query, State},
    http::{HeaderMap, StatusCode},
    response::{IntoResponse as _, Redirect, Response},
    routing::{get, post},
};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use chrono::Utc;
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode, jwk::Jwk};
use parking_lot::Mutex;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tokio::task::JoinSet;
use url::Url;

use crate::stage::{listen, serve};

/// A fault of the provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    Audience,
    Issuer,
    Nonce,
    NoNonce,
    Azp,
    Expired,
    Early,
    Future,
    NoExpiry,
    OtherKey,
    AlgNone,
    HmacWithPublicKey,
    UnknownKid,
    Critical,
    NoIdToken,
    AnotherPersonInUserinfo,
    WrongIssParameter,
    Refuses,
    Down,
    TokenDown,
}

/// The answers of the provider.
pub(crate) struct Plan {
    /// The claims about the user.
    pub(crate) person: Value,
    /// The claims at the userinfo endpoint.
    pub(crate) userinfo: Value,
    pub(crate) fault: Option<Fault>,
    /// The published keys; the first one signs.
    pub(crate) keys: Vec<Key>,
    /// How often its keys were fetched.
    pub(crate) keys_fetched: usize,
    codes_given: usize,
    codes: HashMap<String, HashMap<String, String>>,
}

#[derive(Clone)]
pub(crate) struct Key {
    id: String,
    secret: EncodingKey,
    public: Value,
}

impl Key {
    pub(crate) fn new(id: &str) -> Self {
        let pkcs8 = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new()).unwrap();
        let secret = EncodingKey::from_ec_der(pkcs8.as_ref());
        let mut public = Jwk::from_encoding_key(&secret, Algorithm::ES256).unwrap();
        public.common.key_id = Some(id.to_owned());
        Self { id: id.to_owned(), secret, public: serde_json::to_value(public).unwrap() }
    }
}

#[derive(Clone)]
pub(crate) struct Provider {
    pub(crate) url: Url,
    pub(crate) plan: Arc<Mutex<Plan>>,
    _tasks: Arc<Mutex<JoinSet<()>>>,
}

impl Provider {
    pub(crate) async fn new() -> Self {
        let (listener, url) = listen().await;
        let plan = Plan {
            person: json!({ "sub": "u-1", "name": "Ann", "email": "ann@acme.example", "email_verified": true, "groups": ["eng"] }),
            userinfo: json!({ "sub": "u-1" }),
            fault: None,
            keys: vec![Key::new("k-1")],
            keys_fetched: 0,
            codes_given: 0,
            codes: HashMap::new(),
        };
        let provider = Self { url, plan: Arc::new(Mutex::new(plan)), _tasks: Arc::default() };
        let router = Router::new()
            .route("/.well-known/openid-configuration", get(metadata))
            .route("/authorize", get(authorize))
            .route("/token", post(token))
            .route("/userinfo", get(userinfo))
            .route("/keys", get(keys))
            .with_state(provider.clone());
        let mut tasks = JoinSet::new();
        serve(&mut tasks, listener, router).await;
        *provider._tasks.lock() = tasks;
        provider
    }

    pub(crate) fn issuer(&self) -> &str {
        self.url.as_str().trim_end_matches('/')
    }

    pub(crate) fn set_fault(&self, fault: Fault) {
        self.plan.lock().fault = Some(fault);
    }

    pub(crate) fn clear_fault(&self) {
        self.plan.lock().fault = None;
    }

    fn is(&self, fault: Fault) -> bool {
        self.plan.lock().fault == Some(fault)
    }

    /// Signs the claims, after the current fault has changed them.
    pub(crate) fn signed(&self, mut claims: Value, kind: &str) -> String {
        let plan = self.plan.lock();
        let now = Utc::now().timestamp();
        let set = |claims: &mut Value, name: &str, value: Value| claims[name] = value;
        match plan.fault {
            Some(Fault::Audience) => set(&mut claims, "aud", json!(["other", "https://other.example/mcp"])),
            Some(Fault::Issuer) => set(&mut claims, "iss", json!("https://evil.example")),
            Some(Fault::Nonce) => set(&mut claims, "nonce", json!("another")),
            Some(Fault::NoNonce) => drop(claims.as_object_mut().unwrap().shift_remove("nonce")),
            Some(Fault::Azp) => set(&mut claims, "azp", json!("another")),
            Some(Fault::Expired) => set(&mut claims, "exp", json!(now - 61)),
            Some(Fault::Early) => set(&mut claims, "nbf", json!(now + 120)),
            Some(Fault::Future) => set(&mut claims, "iat", json!(now + 120)),
            Some(Fault::NoExpiry) => drop(claims.as_object_mut().unwrap().shift_remove("exp")),
            _ => {}
        }
        let key = &plan.keys[0];
        let mut header = Header::new(Algorithm::ES256);
        header.typ = (!kind.is_empty()).then(|| kind.to_owned());
        header.kid = Some(key.id.clone());
        match plan.fault {
            Some(Fault::OtherKey) => encode(&header, &claims, &Key::new("k-1").secret).unwrap(),
            Some(Fault::UnknownKid) => {
                header.kid = Some("unknown".to_owned());
                encode(&header, &claims, &key.secret).unwrap()
            }
            Some(Fault::Critical) => {
                header.crit = Some(vec!["b64".to_owned()]);
                encode(&header, &claims, &key.secret).unwrap()
            }
            Some(Fault::AlgNone) => {
                let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
                format!("{}.{}.", part(&json!({ "alg": "none", "typ": kind, "kid": key.id })), part(&claims))
            }
            Some(Fault::HmacWithPublicKey) => {
                let mut header = Header::new(Algorithm::HS256);
                (header.typ, header.kid) = (Some(kind.to_owned()), Some(key.id.clone()));
                let public = URL_SAFE_NO_PAD.decode(key.public["x"].as_str().unwrap()).unwrap();
                encode(&header, &claims, &EncodingKey::from_secret(&public)).unwrap()
            }
            _ => encode(&header, &claims, &key.secret).unwrap(),
        }
    }
}

async fn metadata(State(provider): State<Provider>) -> Response {
    if provider.is(Fault::Down) {
        return StatusCode::BAD_GATEWAY.into_response();
    }
    let at = |path: &str| provider.url.join(path).unwrap().to_string();
    Json(json!({
        "issuer": provider.issuer(), "authorization_endpoint": at("authorize"), "token_endpoint": at("token"),
        "jwks_uri": at("keys"), "userinfo_endpoint": at("userinfo"),
        "authorization_response_iss_parameter_supported": true,
    }))
    .into_response()
}

async fn keys(State(provider): State<Provider>) -> Response {
    if provider.is(Fault::Down) {
        return StatusCode::BAD_GATEWAY.into_response();
    }
    let mut plan = provider.plan.lock();
    plan.keys_fetched += 1;
    let mut keys: Vec<_> = plan.keys.iter().map(|key| key.public.clone()).collect();
    // A key of an unknown kind must not disturb the others.
    keys.insert(0, json!({ "kty": "AKP", "alg": "ML-DSA-65", "kid": "new", "pub": "x" }));
    Json(json!({ "keys": keys })).into_response()
}

/// Signs the user in without asking.
async fn authorize(State(provider): State<Provider>, Query(asked): Query<HashMap<String, String>>) -> Redirect {
    let mut to: Url = asked["redirect_uri"].parse().unwrap();
    let code = {
        let mut plan = provider.plan.lock();
        plan.codes_given += 1;
        format!("code-{}", plan.codes_given)
    };
    let refuses = provider.is(Fault::Refuses);
    {
        let mut pairs = to.query_pairs_mut();
        if refuses {
            pairs.append_pair("error", "access_denied").append_pair("error_description", "<b>no</b>");
        } else {
            pairs.append_pair("code", &code);
        }
        pairs.append_pair("state", &asked["state"]);
        let iss = if provider.is(Fault::WrongIssParameter) { "https://evil.example" } else { provider.issuer() };
        pairs.append_pair("iss", iss);
    }
    provider.plan.lock().codes.insert(code, asked);
    Redirect::to(to.as_str())
}

async fn token(State(provider): State<Provider>, headers: HeaderMap, body: String) -> Response {
    if provider.is(Fault::TokenDown) {
        return StatusCode::BAD_GATEWAY.into_response();
    }
    let refuse = |error: &str| (StatusCode::BAD_REQUEST, Json(json!({ "error": error }))).into_response();
    let form: HashMap<String, String> = url::form_urlencoded::parse(body.as_bytes()).into_owned().collect();
    // Each part is encoded as in a form before it goes into the header (RFC 6749, 2.3.1).
    let basic = base64::engine::general_purpose::STANDARD.encode("toolrack:s3cret%2Fof+the%2Bclient");
    if headers.get("authorization").unwrap() != &format!("Basic {basic}") {
        return refuse("invalid_client");
    }
    let Some(asked) = provider.plan.lock().codes.remove(&form["code"]) else { return refuse("invalid_grant") };
    let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(&form["code_verifier"]));
    if asked["code_challenge"] != challenge || asked["redirect_uri"] != form["redirect_uri"] {
        return refuse("invalid_grant");
    }
    let now = Utc::now().timestamp();
    let mut claims = provider.plan.lock().person.clone();
    let standard_claims =
        json!({ "iss": provider.issuer(), "aud": "toolrack", "exp": now + 300, "iat": now, "nonce": asked["nonce"] });
    claims.as_object_mut().unwrap().extend(standard_claims.as_object().unwrap().clone());
    let id_token = provider.signed(claims, "JWT");
    let id_token = if provider.is(Fault::NoIdToken) { Value::Null } else { id_token.into() };
    Json(json!({ "access_token": "access", "token_type": "Bearer", "id_token": id_token })).into_response()
}

async fn userinfo(State(provider): State<Provider>) -> Json<Value> {
    let mut person = provider.plan.lock().userinfo.clone();
    if provider.is(Fault::AnotherPersonInUserinfo) {
        person["sub"] = json!("u-2");
    }
    Json(person)
}
