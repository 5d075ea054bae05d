//! A team whose front door listens on loopback.

use std::{path::Path, sync::Arc};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use serde_json::json;
use sha2::{Digest as _, Sha256};
use tokio::{net::TcpListener, task::JoinSet};
use toolrack_host::{Caller, Principal, Way, principal::Kind};
use toolrack_store::{
    MemberIdentity, NewToken, Purpose, Store, TeamStore, TokenHash,
    audit::{AuditQuery, Entry},
};
use toolrack_team::{FrontDoor, Secret, TeamFile};
use url::Url;

use crate::browser::{Answer, Browser, parameter};

pub(crate) const BACK: &str = "http://127.0.0.1:4999/back?here=1";
pub(crate) const VERIFIER: &str = "a-verifier-of-pkce-that-is-long-enough-for-it";

pub(crate) struct Stage {
    pub(crate) url: Url,
    pub(crate) store: TeamStore,
    pub(crate) team: Arc<TeamFile>,
    pub(crate) door: Arc<FrontDoor>,
    folder: tempfile::TempDir,
    _tasks: JoinSet<()>,
}

/// Serves `router` on `listener`.
pub(crate) async fn serve(tasks: &mut JoinSet<()>, listener: TcpListener, router: axum::Router) {
    tasks.spawn(async move { axum::serve(listener, router).await.unwrap() });
}

/// Listens on loopback, and returns the address.
pub(crate) async fn listen() -> (TcpListener, Url) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
    (listener, url)
}

/// The part of a team file about the provider that signs people in.
pub(crate) fn sign_in(issuer: &Url) -> String {
    let issuer = issuer.as_str().trim_end_matches('/');
    format!("[sign_in]\nissuer = \"{issuer}\"\nclient_id = \"toolrack\"\n")
}

impl Stage {
    /// A team whose provider no test reaches.
    pub(crate) async fn new() -> Self {
        Self::signing_in_at(&"http://127.0.0.1:9".parse().unwrap()).await
    }

    /// A team whose people the provider at `issuer` signs in.
    pub(crate) async fn signing_in_at(issuer: &Url) -> Self {
        Self::with(&sign_in(issuer)).await
    }

    /// A team with two tenants and `more` in its file.
    pub(crate) async fn with(more: &str) -> Self {
        let (listener, url) = listen().await;
        Self::on(listener, url, more).await
    }

    /// Like [`Self::with`], at `url`, the address of `listener`.
    pub(crate) async fn on(listener: TcpListener, url: Url, more: &str) -> Self {
        let file = format!(
            "url = \"{url}\"\n{more}\n\
             [[tenants]]\nid = \"acme\"\nmembers = [\"*@acme.example\"]\nroles = {{ operator = [\"ops\"] }}\n\
             [[tenants]]\nid = \"bolt\"\nmembers = [\"*@bolt.example\"]\ngroups = [\"bolt-staff\"]\n"
        );
        let folder = tempfile::tempdir().unwrap();
        let team = Arc::new(TeamFile::parse(&file, Path::new("/team")).unwrap());
        let store = Store::open(folder.path().join("toolrack.db")).await.unwrap().with_team().await.unwrap();
        let secret = Some("s3cret/of the+client".to_owned());
        let door = FrontDoor::new(Arc::clone(&team), secret, store.clone()).unwrap();
        let mut tasks = JoinSet::new();
        serve(&mut tasks, listener, door.router()).await;
        Self { url, store, team, door, folder, _tasks: tasks }
    }

    pub(crate) fn at(&self, path: &str) -> Url {
        self.url.join(path).unwrap()
    }

    pub(crate) fn resource(&self) -> String {
        self.at("/mcp").into()
    }

    /// A browser in which Ann of acme is signed in.
    pub(crate) async fn ann(&self) -> Browser {
        self.person("ann", "acme").await
    }

    pub(crate) async fn person(&self, subject: &str, tenant: &str) -> Browser {
        let person = Principal::new(Kind::Person, tenant, "https://login.example", subject).unwrap();
        let by = Caller::local(Way::Daemon);
        self.store.put_member(&person, &by).await.unwrap();
        let secret = Secret::new(Purpose::Browser).unwrap();
        let label = "a browser".to_owned();
        let token = NewToken { label, ..NewToken::new(secret.hash(), Purpose::Browser) };
        let owner = MemberIdentity { issuer: "https://login.example", subject };
        self.store.keep_token(owner, &token, &by).await.unwrap();
        let mut browser = Browser::new();
        browser.set_cookie(&self.url, "toolrack", secret.reveal());
        browser
    }

    /// The id of a new client, which gets its answers at [`BACK`].
    pub(crate) async fn client(&self) -> String {
        self.client_called("A client", BACK).await
    }

    pub(crate) async fn client_called(&self, name: &str, redirect_uri: &str) -> String {
        let asked = json!({ "client_name": name, "redirect_uris": [redirect_uri] });
        let answer = Browser::new().post_json(&self.at("/oauth/register"), &asked).await;
        assert_eq!(answer.status, 201, "{}", answer.body);
        answer.json()["client_id"].as_str().unwrap().to_owned()
    }

    /// The request of a client that does nothing wrong, with some parameters changed; an empty value leaves one out.
    pub(crate) fn authorize(&self, client: &str, changed: &[(&str, &str)]) -> Url {
        let (challenge, resource) = (challenge(), self.resource());
        let right = [
            ("response_type", "code"),
            ("client_id", client),
            ("redirect_uri", BACK),
            ("state", "the state"),
            ("scope", "mcp"),
            ("code_challenge", &challenge),
            ("code_challenge_method", "S256"),
            ("resource", &resource),
        ];
        let mut url = self.at("/oauth/authorize");
        for (name, value) in right {
            let value = changed.iter().find(|(other, _)| *other == name).map_or(value, |(_, value)| value);
            if !value.is_empty() {
                url.query_pairs_mut().append_pair(name, value);
            }
        }
        for (name, value) in changed.iter().filter(|(name, _)| !right.iter().any(|(other, _)| other == name)) {
            url.query_pairs_mut().append_pair(name, value);
        }
        url
    }

    /// The answer of a person who allows what the page asks.
    pub(crate) async fn allow(&self, browser: &mut Browser, page: &Answer) -> Answer {
        let (request, ends, seal) = (page.field("request"), page.field("ends"), page.field("seal"));
        let form = [("request", &*request), ("ends", &*ends), ("seal", &*seal), ("answer", "allow")];
        browser.post(&self.at("/oauth/authorize"), &form).await
    }

    /// A code for the client, from Ann.
    pub(crate) async fn code(&self, client: &str) -> String {
        let mut ann = self.ann().await;
        let page = ann.get(&self.authorize(client, &[])).await;
        let answer = self.allow(&mut ann, &page).await;
        parameter(&answer.location().unwrap(), "code").unwrap()
    }

    /// Exchanges a code, with some parameters changed.
    pub(crate) async fn exchange(&self, client: &str, code: &str, changed: &[(&str, &str)]) -> Answer {
        let resource = self.resource();
        let right = [
            ("grant_type", "authorization_code"),
            ("client_id", client),
            ("code", code),
            ("redirect_uri", BACK),
            ("code_verifier", VERIFIER),
            ("resource", &resource),
        ];
        self.ask_token(&right, changed).await
    }

    pub(crate) async fn refresh(&self, client: &str, token: &str, changed: &[(&str, &str)]) -> Answer {
        let right = [("grant_type", "refresh_token"), ("client_id", client), ("refresh_token", token)];
        self.ask_token(&right, changed).await
    }

    async fn ask_token(&self, right: &[(&str, &str)], changed: &[(&str, &str)]) -> Answer {
        let changed_to = |name: &str| changed.iter().find(|(other, _)| *other == name).map(|(_, value)| *value);
        let form = right.iter().map(|(name, value)| (*name, changed_to(name).unwrap_or(value)));
        let more = changed.iter().filter(|(name, _)| !right.iter().any(|(other, _)| other == name)).copied();
        let form: Vec<_> = form.chain(more).filter(|(_, value)| !value.is_empty()).collect();
        Browser::new().post(&self.at("/oauth/token"), &form).await
    }

    /// Access and refresh token of a client that Ann allowed.
    pub(crate) async fn tokens(&self, client: &str) -> (String, String) {
        let code = self.code(client).await;
        let answer = self.exchange(client, &code, &[]).await;
        assert_eq!(answer.status, 200, "{}", answer.body);
        pair(&answer)
    }

    /// Whether a token proves a member.
    pub(crate) async fn is_valid(&self, token: &str) -> bool {
        self.store.team_token(TokenHash::of(token)).await.unwrap().is_some()
    }

    /// The refusals in the audit log: the door and the code of each.
    pub(crate) async fn refusals(&self) -> Vec<(String, String)> {
        let rows = self.audit().await.into_iter().filter(|entry| entry.kind == "refused_at_the_door");
        rows.map(|entry| (entry.who.unwrap(), entry.code.unwrap())).collect()
    }

    pub(crate) async fn audit(&self) -> Vec<Entry> {
        let rows = self.store.audit(&AuditQuery { limit: 999, ..AuditQuery::default() }).await.unwrap();
        rows.into_iter().map(|row| row.entry).collect()
    }

    /// Whether a file of the store contains this text.
    #[expect(clippy::disallowed_methods, reason = "a test reads what the store wrote")]
    pub(crate) fn has_in_a_file(&self, text: &str) -> bool {
        let files =
            std::fs::read_dir(self.folder.path()).unwrap().map(|file| std::fs::read(file.unwrap().path()).unwrap());
        files.into_iter().any(|bytes| bytes.windows(text.len()).any(|window| window == text.as_bytes()))
    }
}

pub(crate) fn pair(answer: &Answer) -> (String, String) {
    let json = answer.json();
    let text = |name: &str| json[name].as_str().unwrap().to_owned();
    (text("access_token"), text("refresh_token"))
}

pub(crate) fn challenge() -> String {
    URL_SAFE_NO_PAD.encode(Sha256::digest(VERIFIER))
}
