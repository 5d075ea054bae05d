//! Runs `toolrack login`, `logout` and `auth status`. An entry is the configuration of one server in a file. `Context`
//! is what a command works with: its configuration, database, screen and servers.

pub(crate) mod args;
pub(crate) mod render;
mod team;

use std::sync::Arc;

use toolrack_auth::{AuthError, Loopback, SignedIn, SignedOut};
use toolrack_config::{Loaded, is_account_name};
use toolrack_host::{
    Desired, Destination, ServerName, ServerSpec,
    spec::{Http, Transport, Trust},
    text,
};
use url::Url;

use crate::{
    browser::TerminalBrowser,
    context::Context,
    error::{Exit, Failure},
    verbs::reach,
};
use args::{AccountArg, AuthVerb, LoginArgs, LogoutArgs};
use render::{AccountRow, LoggedIn, LoggedOut, StatusDocument};

/// A server that can be signed in to.
struct Target {
    name: ServerName,
    url: Url,
    http: Http,
    spec: ServerSpec,
}

impl Target {
    fn destination(&self) -> Destination<'_> {
        Destination { server: &self.name, url: &self.url, posts_to: None, spec: &self.http }
    }
}

pub(crate) async fn login(args: LoginArgs, context: &Context) -> Result<Exit, Failure> {
    let server = match (&args.to, args.server) {
        (Some(to), name) => team::server_at(to, name, context).await?,
        (None, Some(name)) => name,
        (None, None) => return Err(Failure::usage("say which server")),
    };
    let loaded = context.load().await?;
    let target = find_target(&server, &args.account, &loaded, context).await?;
    let has_header = target.http.headers.keys().any(|name| name.eq_ignore_ascii_case("authorization"));
    if has_header {
        let message = format!("the entry of `{}` has an `Authorization` header, which is sent instead", target.name);
        return Err(Failure::config(message).hint("remove the header from the entry").server(target.name.as_str()));
    }
    let loopback = Loopback::bind(args.port.unwrap_or(0))
        .await
        .map_err(|error| sign_in_failure(SIGN_IN, &error.into(), &target))?;
    let browser = TerminalBrowser {
        screen: Arc::clone(&context.screen),
        terminal: context.terminal(),
        loopback,
        opens_browser: !args.no_browser && context.screen.is_interactive(),
        can_paste: args.no_browser && !context.has_no_input(),
    };
    let sign_in = context.sign_in();
    let signed_in = Box::pin(sign_in.login(target.destination(), &args.scope, &browser)).await;
    let signed_in = signed_in.map_err(|error| sign_in_failure(SIGN_IN, &error, &target))?;
    let account = args.account.account.as_deref();
    connect_and_show(target, &signed_in, account, context).await
}

/// Connects to the server with the new sign-in, and shows the sign-in and how many tools the server has.
async fn connect_and_show(
    target: Target,
    signed_in: &SignedIn,
    account: Option<&str>,
    context: &Context,
) -> Result<Exit, Failure> {
    let Target { name, spec, .. } = target;
    let mut tool_count = None;
    let mut failure = None;
    let host = context.connect_to_check(Desired::from([(name.clone(), spec)])).await?;
    // The host has only this one server.
    for status in host.status() {
        tool_count = Some(status.tools);
        failure = reach::server_failure(&host, &status);
    }
    let logged_in = LoggedIn {
        server: name.as_str(),
        account,
        issuer: &signed_in.issuer,
        scopes: &signed_in.scopes,
        expires_at: signed_in.expires,
        renewable: signed_in.renewable,
        tools: tool_count.filter(|_| failure.is_none()),
    };
    if context.screen.prints_json() {
        context.screen.document(&logged_in).await?;
    } else {
        context.screen.page(render::logged_in(&logged_in)).await?;
    }
    failure.map_or(Ok(Exit::Ok), Err)
}

pub(crate) async fn logout(args: LogoutArgs, context: &Context) -> Result<Exit, Failure> {
    let loaded = context.load().await?;
    let target = find_target(&args.server, &args.account, &loaded, context).await?;
    let signed_out = context
        .sign_in()
        .logout(target.destination())
        .await
        .map_err(|error| sign_in_failure("sign out of", &error, &target))?;
    let revoked = match &signed_out {
        SignedOut::WasNotSignedIn => None,
        SignedOut::Revoked => Some(true),
        SignedOut::CannotRevoke => Some(false),
        SignedOut::NotRevoked(error) => {
            context.screen.warning(&error.to_string());
            Some(false)
        }
    };
    let logged_out = LoggedOut { server: target.name.as_str(), was_signed_in: revoked.is_some(), revoked };
    if context.screen.prints_json() {
        context.screen.document(&logged_out).await?;
    } else {
        context.screen.page(render::logged_out(&logged_out)).await?;
    }
    Ok(Exit::Ok)
}

pub(crate) async fn auth(verb: AuthVerb, context: &Context) -> Result<Exit, Failure> {
    let AuthVerb::Status = verb;
    let loaded = context.load().await?;
    let accounts = context.sign_in().accounts().await.map_err(|error| auth_failure(&error))?;
    let mut rows = Vec::new();
    for account in accounts {
        let servers = servers_using_account(&account.key.resource, &account.key.account, &loaded, context).await;
        rows.push(AccountRow::new(account, servers));
    }
    let status = StatusDocument { accounts: rows };
    if context.screen.prints_json() {
        context.screen.document(&status).await?;
        return Ok(Exit::Ok);
    }
    if status.accounts.is_empty() {
        context.screen.note("you are not signed in to any server; `toolrack login SERVER` signs in");
    }
    context.screen.page(render::page(&status, context.screen.layout())).await?;
    Ok(Exit::Ok)
}

/// Returns the configured servers that use the sign-in of `account` at `resource`. Leaves out entries whose URL has a
/// placeholder without a value. Also leaves out entries that wait for the user's agreement: their placeholders must not
/// be filled in yet.
async fn servers_using_account(resource: &str, account: &str, loaded: &Loaded, context: &Context) -> Vec<String> {
    let mut servers = Vec::new();
    for (name, spec) in loaded.desired.iter().filter(|(_, spec)| spec.trust == Trust::Trusted) {
        let (Transport::Http(http) | Transport::Sse(http)) = &spec.transport else {
            continue;
        };
        let url = context.resolver().url(name, http).await.ok().and_then(|url| Url::parse(url.trim()).ok());
        let is_at_resource = url.is_some_and(|url| toolrack_auth::TokenKey::of(&url).resource == resource);
        // The account without a name is stored with an empty one.
        if is_at_resource && http.oauth.account.as_deref().unwrap_or_default() == account {
            servers.push(name.to_string());
        }
    }
    servers
}

/// Returns the server that is called `name`. If the command line names an account, the server uses that account.
async fn find_target(name: &str, account: &AccountArg, loaded: &Loaded, context: &Context) -> Result<Target, Failure> {
    let Some((name, spec)) = loaded.desired.get_key_value(name) else {
        return Err(reach::no_such_server(name, loaded, Exit::Usage));
    };
    let config_failure = |message: String| Failure::config(message).server(name.as_str());
    if !spec.enabled {
        return Err(config_failure(format!("`{name}` is switched off")).hint(format!("toolrack enable {name}")));
    }
    if spec.trust != Trust::Trusted {
        let failure = Failure::new(Exit::NotTrusted, "NOT_TRUSTED", format!("`{name}` is not approved yet"));
        return Err(failure.hint("look at the entry, then trust it: `toolrack trust`").server(name.as_str()));
    }
    let mut spec = spec.clone();
    let (Transport::Http(http) | Transport::Sse(http)) = &mut spec.transport else {
        let message = format!("`{name}` runs on this machine and needs no sign-in");
        return Err(
            config_failure(message).hint("only servers with a URL have a sign-in; give others their secrets in `env`")
        );
    };
    if let Some(account) = &account.account {
        if !is_account_name(account) {
            let message = "the name of an account has 1 to 64 letters, digits and `_.-@+`";
            return Err(Failure::usage(message));
        }
        http.oauth.account = Some(account.clone());
    }
    let http = http.clone();
    let url = context.resolver().url(name, &http).await.map_err(|error| config_failure(error.to_string()))?;
    let url = Url::parse(url.trim()).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
    let url = url.ok_or_else(|| config_failure(format!("the url of `{name}` is neither http nor https")))?;
    Ok(Target { name: name.clone(), url, http, spec })
}

/// The action of `login`, in messages.
const SIGN_IN: &str = "sign in to";

/// Returns the failure of `action`, such as [`SIGN_IN`], at a server.
fn sign_in_failure(action: &str, error: &AuthError, target: &Target) -> Failure {
    let Target { name, spec, .. } = target;
    let message = format!("cannot {action} `{name}` ({}): {error}", spec.source);
    let mut failure = Failure { message, ..auth_failure(error) }.server(name.as_str());
    failure.hint = error.hint().map(|hint| text::for_line(&hint).into_owned());
    failure
}

fn auth_failure(error: &AuthError) -> Failure {
    let exit = match error {
        AuthError::Unavailable { .. } => Exit::Unreachable,
        AuthError::Config { .. } | AuthError::Egress(_) => Exit::Usage,
        AuthError::Store(_) => Exit::Other,
        _ => Exit::SignIn,
    };
    Failure::new(exit, error.code(), error.to_string())
}
