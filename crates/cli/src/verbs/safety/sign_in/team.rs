//! Runs `login --to`, which adds the gateway of a team to the user's servers.

use serde_json::json;
use toolrack_config::{
    Loaded,
    edit::{self, Options},
    trust::content_hash,
};
use toolrack_host::{ServerName, spec::Transport, text};
use url::{Host, Url};

use crate::{args::Scope, context::Context, error::Failure, verbs::configure::edits};

/// The most bytes of a wrong address that its failure repeats.
const MAX_SHOWN_BYTES: usize = 200;

/// Returns the name of the server that has the address of the team's gateway. If there is no such server, adds one to
/// the user's file.
///
/// # Errors
/// When `to` is not an address, the name is taken, or the file cannot be written.
pub(super) async fn server_at(to: &str, name: Option<String>, context: &Context) -> Result<String, Failure> {
    let url = gateway_url(to)?;
    let loaded = context.read().await;
    if let Some(existing_server) = server_with_url(&url, &loaded) {
        return match name {
            Some(name) if name != existing_server => {
                let message = format!("{url} is the server `{existing_server}` already");
                Err(Failure::usage(message).hint(format!("toolrack login {existing_server}")))
            }
            _ => Ok(existing_server),
        };
    }
    let name = name.unwrap_or_else(|| default_name(&url));
    let server = ServerName::new(name).map_err(|error| Failure::usage(error.to_string()))?;
    let entry = json!({ "type": "http", "url": url.as_str() });
    let (hash, edit_target) = (content_hash(&entry), edits::target_for_new_entry(Scope::User, context));
    let (path, added_name) = (edit_target.path, server.clone());
    let options = Options { replace: false, dry_run: false };
    let edit_result = edits::run(server.as_str(), move || edit::add(&path, added_name.as_str(), &entry, options)).await;
    let edit_result = edit_result.map_err(|failure| match failure.code == "EXISTS" {
        true => failure.hint("give the team another name: toolrack login NAME --to URL"),
        false => failure,
    })?;
    edits::approve_written(server.as_str(), &hash, context).await?;
    context.screen.note(&format!("added the http server {server} to {}", edits::path_text(&edit_result.path)));
    Ok(server.to_string())
}

/// Returns the address of the team's MCP endpoint. `to` is the address of the team or of the endpoint.
fn gateway_url(to: &str) -> Result<Url, Failure> {
    let address_failure = || {
        let message = format!("`{}` is not an address of a team", text::for_line(&text::clip(to, MAX_SHOWN_BYTES)));
        Failure::usage(message).hint("it begins with https://, such as https://tools.example")
    };
    let mut url = Url::parse(to).map_err(|_| address_failure())?;
    let is_plain = url.query().is_none() && url.fragment().is_none() && url.username().is_empty();
    if !matches!(url.scheme(), "http" | "https") || !is_plain || url.password().is_some() {
        return Err(address_failure());
    }
    if url.path() == "/" {
        url.set_path("/mcp");
    }
    Ok(url)
}

/// Returns the configured server with this address.
fn server_with_url(url: &Url, loaded: &Loaded) -> Option<String> {
    let has_url = |transport: &Transport| match transport {
        Transport::Http(http) => Url::parse(http.url.trim()).is_ok_and(|server_url| server_url == *url),
        _ => false,
    };
    loaded.desired.iter().find(|(_, spec)| has_url(&spec.transport)).map(|(name, _)| name.to_string())
}

/// Returns the first part of the host's name, or `team` for `localhost` and for a host without a name.
fn default_name(url: &Url) -> String {
    let label = match url.host() {
        Some(Host::Domain(domain)) if domain != "localhost" => domain.split('.').next().unwrap_or_default().to_owned(),
        _ => String::new(),
    };
    if label.is_empty() { "team".to_owned() } else { label }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gateway_of_a_team_is_below_its_address_and_is_called_like_its_host() {
        for (to, endpoint, name) in [
            ("https://tools.example", "https://tools.example/mcp", "tools"),
            ("https://Tools.example:8443/", "https://tools.example:8443/mcp", "tools"),
            ("https://tools.example/p/review/mcp", "https://tools.example/p/review/mcp", "tools"),
            ("http://127.0.0.1:4000", "http://127.0.0.1:4000/mcp", "team"),
            ("http://localhost:4000", "http://localhost:4000/mcp", "team"),
        ] {
            let url = gateway_url(to).unwrap();
            assert_eq!((url.as_str(), &*default_name(&url)), (endpoint, name));
        }
        for to in ["tools.example", "", "file:///etc", "https://ann@tools.example", "https://tools.example/?x=1"] {
            assert!(gateway_url(to).is_err(), "{to}");
        }
    }
}
