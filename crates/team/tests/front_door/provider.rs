//! A provider that does what a test wants: an OpenID provider for browsers, and an issuer of access tokens.

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

/// What goes wrong.
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

pub(crate) struct Plan {
    /// What it says of the person.
    pub(crate) person: Value,
    /// What it says at its userinfo endpoint alone.
    pub(crate) userinfo: Value,
    pub(crate) fault: Option<Fault>,
    /// The keys, of which the first signs, and all are published.
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

    pub(crate) fn goes_wrong(&self, fault: Fault) {
        self.plan.lock().fault = Some(fault);
    }

    pub(crate) fn is_well(&self) {
        self.plan.lock().fault = None;
    }

    fn is(&self, fault: Fault) -> bool {
        self.plan.lock().fault == Some(fault)
    }

    /// Signs what is said, as far as the fault of the moment lets it.
    pub(crate) fn signed(&self, mut said: Value, kind: &str) -> String {
        let plan = self.plan.lock();
        let now = Utc::now().timestamp();
        let set = |said: &mut Value, name: &str, value: Value| said[name] = value;
        match plan.fault {
            Some(Fault::Audience) => set(&mut said, "aud", json!(["other", "https://other.example/mcp"])),
            Some(Fault::Issuer) => set(&mut said, "iss", json!("https://evil.example")),
            Some(Fault::Nonce) => set(&mut said, "nonce", json!("another")),
            Some(Fault::NoNonce) => drop(said.as_object_mut().unwrap().shift_remove("nonce")),
            Some(Fault::Azp) => set(&mut said, "azp", json!("another")),
            Some(Fault::Expired) => set(&mut said, "exp", json!(now - 61)),
            Some(Fault::Early) => set(&mut said, "nbf", json!(now + 120)),
            Some(Fault::Future) => set(&mut said, "iat", json!(now + 120)),
            Some(Fault::NoExpiry) => drop(said.as_object_mut().unwrap().shift_remove("exp")),
            _ => {}
        }
        let key = &plan.keys[0];
        let mut header = Header::new(Algorithm::ES256);
        header.typ = (!kind.is_empty()).then(|| kind.to_owned());
        header.kid = Some(key.id.clone());
        match plan.fault {
            Some(Fault::OtherKey) => encode(&header, &said, &Key::new("k-1").secret).unwrap(),
            Some(Fault::UnknownKid) => {
                header.kid = Some("unknown".to_owned());
                encode(&header, &said, &key.secret).unwrap()
            }
            Some(Fault::Critical) => {
                header.crit = Some(vec!["b64".to_owned()]);
                encode(&header, &said, &key.secret).unwrap()
            }
            Some(Fault::AlgNone) => {
                let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
                format!("{}.{}.", part(&json!({ "alg": "none", "typ": kind, "kid": key.id })), part(&said))
            }
            Some(Fault::HmacWithPublicKey) => {
                let mut header = Header::new(Algorithm::HS256);
                (header.typ, header.kid) = (Some(kind.to_owned()), Some(key.id.clone()));
                let public = URL_SAFE_NO_PAD.decode(key.public["x"].as_str().unwrap()).unwrap();
                encode(&header, &said, &EncodingKey::from_secret(&public)).unwrap()
            }
            _ => encode(&header, &said, &key.secret).unwrap(),
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
    // Kinds that are not known yet spoil nothing.
    keys.insert(0, json!({ "kty": "AKP", "alg": "ML-DSA-65", "kid": "new", "pub": "x" }));
    Json(json!({ "keys": keys })).into_response()
}

/// Signs the person in without asking.
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
    let wrong = |error: &str| (StatusCode::BAD_REQUEST, Json(json!({ "error": error }))).into_response();
    let form: HashMap<String, String> = url::form_urlencoded::parse(body.as_bytes()).into_owned().collect();
    // Each part is encoded as in a form before it goes into the header (RFC 6749, 2.3.1).
    let basic = base64::engine::general_purpose::STANDARD.encode("toolrack:s3cret%2Fof+the%2Bclient");
    if headers.get("authorization").unwrap() != &format!("Basic {basic}") {
        return wrong("invalid_client");
    }
    let Some(asked) = provider.plan.lock().codes.remove(&form["code"]) else { return wrong("invalid_grant") };
    let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(&form["code_verifier"]));
    if asked["code_challenge"] != challenge || asked["redirect_uri"] != form["redirect_uri"] {
        return wrong("invalid_grant");
    }
    let now = Utc::now().timestamp();
    let mut said = provider.plan.lock().person.clone();
    let fixed =
        json!({ "iss": provider.issuer(), "aud": "toolrack", "exp": now + 300, "iat": now, "nonce": asked["nonce"] });
    said.as_object_mut().unwrap().extend(fixed.as_object().unwrap().clone());
    let id_token = provider.signed(said, "JWT");
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
