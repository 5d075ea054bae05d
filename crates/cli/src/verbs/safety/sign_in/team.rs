//! `login --to`: the gateway of a team becomes one of the user's servers.

use serde_json::json;
use toolrack_config::{
    Loaded,
    edit::{self, Options},
    trust::content_hash,
};
use toolrack_host::{ServerName, spec::Transport, text};
use url::{Host, Url};

use crate::{args::Scope, error::Failure, verbs::configure::edits, wire::World};

/// Returns the name of the server with the address of the team's gateway. If no server has it, adds one to the user's
/// file.
///
/// # Errors
/// When `to` is not an address, the name is taken, or the file cannot be written.
pub(super) async fn server_at(to: &str, name: Option<String>, world: &World) -> Result<String, Failure> {
    let url = gateway_at(to)?;
    let loaded = world.read().await;
    if let Some(known) = known_at(&url, &loaded) {
        return match name {
            Some(name) if name != known => {
                let message = format!("{url} is the server `{known}` already");
                Err(Failure::usage(message).hint(format!("toolrack login {known}")))
            }
            _ => Ok(known),
        };
    }
    let name = name.unwrap_or_else(|| name_of(&url));
    let server = ServerName::new(name).map_err(|error| Failure::usage(error.to_string()))?;
    let entry = json!({ "type": "http", "url": url.as_str() });
    let (hash, place) = (content_hash(&entry), edits::place(Scope::User, world));
    let (path, added) = (place.path, server.clone());
    let options = Options { replace: false, dry_run: false };
    let edited = edits::run(server.as_str(), move || edit::add(&path, added.as_str(), &entry, options)).await;
    let edited = edited.map_err(|failure| match failure.code == "EXISTS" {
        true => failure.hint("give the team another name: toolrack login NAME --to URL"),
        false => failure,
    })?;
    edits::approve_written(server.as_str(), &hash, world).await?;
    world.screen.note(&format!("added the http server {server} to {}", edits::path_text(&edited.path)));
    Ok(server.to_string())
}

/// The address of the MCP endpoint of the team at `to`, which may name the team or the endpoint.
fn gateway_at(to: &str) -> Result<Url, Failure> {
    let refused = || {
        let message = format!("`{}` is not an address of a team", text::for_line(&text::clip(to, 200)));
        Failure::usage(message).hint("it begins with https://, such as https://tools.example")
    };
    let mut url = Url::parse(to).map_err(|_| refused())?;
    let is_plain = url.query().is_none() && url.fragment().is_none() && url.username().is_empty();
    if !matches!(url.scheme(), "http" | "https") || !is_plain || url.password().is_some() {
        return Err(refused());
    }
    if url.path() == "/" {
        url.set_path("/mcp");
    }
    Ok(url)
}

/// The configured server with this address.
fn known_at(url: &Url, loaded: &Loaded) -> Option<String> {
    let has_url = |transport: &Transport| match transport {
        Transport::Http(http) => Url::parse(http.url.trim()).is_ok_and(|known| known == *url),
        _ => false,
    };
    loaded.desired.iter().find(|(_, spec)| has_url(&spec.transport)).map(|(name, _)| name.to_string())
}

/// The first part of the host's name; `team` where the host has none.
fn name_of(url: &Url) -> String {
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
            let url = gateway_at(to).unwrap();
            assert_eq!((url.as_str(), &*name_of(&url)), (endpoint, name));
        }
        for to in ["tools.example", "", "file:///etc", "https://ann@tools.example", "https://tools.example/?x=1"] {
            assert!(gateway_at(to).is_err(), "{to}");
        }
    }
}
