//! The client: a program that embeds the host, with a browser that follows the first redirect. It configures no era:
//! the host detects the era of each server.

use std::{process::ExitCode, sync::Arc, time::Duration};

use futures::future::BoxFuture;
use serde_json::Value;
use toolrack_auth::{Browser, BrowserError, MemoryTokens, SignIn};
use toolrack_host::{
    Desired, Host, ServerName, ServerSpec, State,
    spec::{Grant, IdentityProvider, OAuth, TextOrFile, Transport},
};
use url::Url;

use crate::scenarios::{Scenario, asker};

/// The name of the suite's server in the host.
pub(crate) const SERVER: &str = "conformance";
/// The client id that the suite expects where an authorization server reads client metadata documents.
const METADATA_URL: &str = "https://conformance-test.local/client-metadata.json";

/// Follows the redirect of a page, without a user.
struct RedirectingBrowser;

impl Browser for RedirectingBrowser {
    fn redirect_uri(&self) -> String {
        "http://localhost:3000/callback".to_owned()
    }

    fn visit<'a>(&'a self, page: &'a Url) -> BoxFuture<'a, Result<Url, BrowserError>> {
        Box::pin(async move {
            let client = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).build();
            let answer = client.map_err(|_| BrowserError::GivenUp)?.get(page.clone()).send().await;
            let answer = answer.map_err(|_| BrowserError::GivenUp)?;
            let location = answer.headers().get("location").and_then(|location| location.to_str().ok());
            location.and_then(|location| page.join(location).ok()).ok_or(BrowserError::GivenUp)
        })
    }
}

#[expect(clippy::disallowed_methods, reason = "the suite passes the scenario in variables")]
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// Acts as the client if the suite has started this program.
pub(crate) fn run_if_suite_started_us() -> Option<ExitCode> {
    let scenario = variable("MCP_CONFORMANCE_SCENARIO")?;
    let url = std::env::args().nth(1)?;
    let context = variable("MCP_CONFORMANCE_CONTEXT").and_then(|context| serde_json::from_str(&context).ok());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let done = runtime.block_on(client(&scenario, &url, &context.unwrap_or_default()));
    Some(done.map_or_else(
        |why| {
            print_error(&why);
            ExitCode::FAILURE
        },
        |()| ExitCode::SUCCESS,
    ))
}

/// The client's settings that are known in advance, as its entry would have them.
fn oauth(scenario: &str, context: &Value) -> OAuth {
    let text = |name: &str| context[name].as_str().map(str::to_owned);
    let stored = |name: &str| TextOrFile { text: text(name), file: None };
    let known = OAuth {
        client_id: text("client_id"),
        client_secret: text("client_secret"),
        client_metadata_url: Some(METADATA_URL.to_owned()),
        private_key: stored("private_key_pem"),
        ..OAuth::default()
    };
    match scenario.trim_start_matches("auth/") {
        "client-credentials-basic" | "client-credentials-jwt" => OAuth { grant: Grant::ClientCredentials, ..known },
        "wif-jwt-bearer" => OAuth { grant: Grant::JwtBearer, assertion: stored("valid_jwt"), ..known },
        "enterprise-managed-authorization" => OAuth {
            grant: Grant::EnterpriseManaged,
            assertion: stored("idp_id_token"),
            idp: Some(IdentityProvider {
                token_url: text("idp_token_endpoint").unwrap_or_default(),
                client_id: text("idp_client_id"),
                client_secret: None,
            }),
            ..known
        },
        "dpop" | "dpop-nonce" => OAuth { dpop: true, ..known },
        _ => known,
    }
}

async fn client(scenario: &str, url: &str, context: &Value) -> Result<(), String> {
    let mut spec = ServerSpec::http(url);
    spec.timeouts.call = Duration::from_secs(20);
    if let Transport::Http(http) = &mut spec.transport {
        http.oauth = oauth(scenario, context);
    }
    let sign_in = SignIn::builder(Arc::new(MemoryTokens::default())).browser(Arc::new(RedirectingBrowser)).build();
    let host = Host::builder().authorizer(Arc::new(sign_in)).asker(asker());
    let host = host.client("toolrack-conformance", "1").build();
    let name = ServerName::new(SERVER).map_err(|error| error.to_string())?;
    host.apply(Desired::from([(name, spec)])).await;
    host.settled().await;
    let state = host.status().into_iter().map(|server| server.state).next();
    let played = Scenario { host: &host, name: scenario, context }.play().await;
    host.shutdown().await;
    match (state, played) {
        (Some(State::Connected { .. }), Ok(())) => Ok(()),
        (state, played) => Err(format!("{state:?} {played:?}")),
    }
}

#[expect(clippy::print_stderr, reason = "the suite shows stderr of a client that fails")]
fn print_error(message: &str) {
    eprintln!("{message}");
}
