//! The stage that the tests share: a host that signs in, and a browser that follows redirects.

use std::sync::{Arc, Mutex};

use futures::future::BoxFuture;
use serde_json::json;
use toolrack_auth::{AuthError, Browser, BrowserError, MemoryTokens, SignIn, SignedIn, TokenStore};
use toolrack_host::{
    Call, CallError, ChildPlan, Desired, Destination, Host, ResolveError, Resolver, ServerName, ServerSpec, State,
    Verbatim,
    spec::{Http, OAuth, Stdio, Transport},
};
use toolrack_testkit::authorization::FakeAuthorization;
use url::Url;

pub(crate) const SERVER: &str = "guarded";

/// A browser whose user agrees at once: it returns the URL to which the page redirects, and records the page. From a
/// page without a redirect, such as an error, the user does not return.
#[derive(Default)]
pub(crate) struct AgreeingBrowser(pub(crate) Mutex<Vec<Url>>);

impl Browser for AgreeingBrowser {
    fn redirect_uri(&self) -> String {
        "http://127.0.0.1:1/callback".to_owned()
    }

    fn visit<'a>(&'a self, page: &'a Url) -> BoxFuture<'a, Result<Url, BrowserError>> {
        self.0.lock().unwrap().push(page.clone());
        Box::pin(async move {
            let client = reqwest::Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none());
            let answer = client.build().unwrap().get(page.clone()).send().await.unwrap();
            let location = answer.headers().get("location").ok_or(BrowserError::GivenUp)?;
            Ok(page.join(location.to_str().unwrap()).unwrap())
        })
    }
}

/// A user of this machine, with stored tokens.
pub(crate) struct Stage {
    pub(crate) server: FakeAuthorization,
    pub(crate) store: Arc<MemoryTokens>,
    pub(crate) sign_in: SignIn,
    pub(crate) browser: AgreeingBrowser,
    pub(crate) spec: ServerSpec,
    name: ServerName,
    url: Url,
}

impl Stage {
    /// A stage with an entry for `server`, and without tokens.
    pub(crate) fn of(server: FakeAuthorization) -> Self {
        let store = Arc::new(MemoryTokens::default());
        let url = server.mcp_url();
        Self {
            sign_in: sign_in(&store),
            store,
            browser: AgreeingBrowser::default(),
            spec: ServerSpec::http(&url),
            name: ServerName::new(SERVER).unwrap(),
            url: Url::parse(&url).unwrap(),
            server,
        }
    }

    /// A stage whose entry has this `oauth`.
    pub(crate) fn with(server: FakeAuthorization, oauth: OAuth) -> Self {
        let mut stage = Self::of(server);
        let Transport::Http(http) = &mut stage.spec.transport else { panic!("not HTTP") };
        http.oauth = oauth;
        stage
    }

    pub(crate) fn destination(&self) -> Destination<'_> {
        let Transport::Http(http) = &self.spec.transport else { panic!("not HTTP") };
        Destination { server: &self.name, url: &self.url, posts_to: None, spec: http }
    }

    pub(crate) async fn login(&self) -> Result<SignedIn, AuthError> {
        self.sign_in.login(self.destination(), &[], &self.browser).await
    }

    /// Returns the sign-in of another process of the same user.
    pub(crate) fn other_process(&self) -> SignIn {
        sign_in(&self.store)
    }

    /// A host of this process.
    pub(crate) async fn host(&self) -> Host {
        self.host_with(self.sign_in.clone()).await
    }

    /// Calls a tool before and after the access token has expired.
    pub(crate) async fn call_before_and_after_expiry(&self) {
        let host = self.host().await;
        echo(&host).await.unwrap();
        self.server.expire_access_tokens();
        echo(&host).await.unwrap();
        host.shutdown().await;
    }

    /// A host of a process with `sign_in`, once its server has connected or failed.
    pub(crate) async fn host_with(&self, sign_in: SignIn) -> Host {
        let host = Host::builder().authorizer(Arc::new(sign_in)).build();
        host.apply(Desired::from([(self.name.clone(), self.spec.clone())])).await;
        host.settled().await;
        host
    }
}

fn sign_in(store: &Arc<MemoryTokens>) -> SignIn {
    let store: Arc<dyn TokenStore> = Arc::<MemoryTokens>::clone(store);
    SignIn::builder(store)
        .sign_in_hint(|server, scopes| format!("login {server} {}", scopes.join(" ")).trim().to_owned())
        .build()
}

pub(crate) async fn echo(host: &Host) -> Result<(), CallError> {
    let arguments = json!({ "text": "hello" }).as_object().unwrap().clone();
    host.call(Call::from_map(format!("{SERVER}/echo"), arguments)).await.map(drop)
}

pub(crate) fn state(host: &Host) -> State {
    host.status().remove(0).state
}

/// A resolver that has no value for a placeholder in `oauth`.
pub(crate) struct NoSecret;

impl Resolver for NoSecret {
    fn stdio<'a>(&'a self, name: &'a ServerName, spec: &'a Stdio) -> BoxFuture<'a, Result<ChildPlan, ResolveError>> {
        Verbatim.stdio(name, spec)
    }

    fn url<'a>(&'a self, name: &'a ServerName, spec: &'a Http) -> BoxFuture<'a, Result<String, ResolveError>> {
        Verbatim.url(name, spec)
    }

    fn headers<'a>(
        &'a self,
        name: &'a ServerName,
        spec: &'a Http,
    ) -> BoxFuture<'a, Result<Vec<(String, String)>, ResolveError>> {
        Verbatim.headers(name, spec)
    }

    fn oauth<'a>(&'a self, _: &'a ServerName, _: &'a Http) -> BoxFuture<'a, Result<OAuth, ResolveError>> {
        Box::pin(async { Err(ResolveError::new("oauth.client_secret: ${SECRET} is not set")) })
    }
}
