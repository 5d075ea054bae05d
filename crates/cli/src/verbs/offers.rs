//! Contains the verbs that use what servers offer: tools, resources and prompts.

pub(crate) mod call;
pub(crate) mod deliver;
pub(crate) mod prompts;
pub(crate) mod recordings;
pub(crate) mod resources;
pub(crate) mod tools;

use futures::future::join_all;
use serde::Serialize;
use toolrack_config::Loaded;
use toolrack_host::{Host, ServerName};

use crate::{context::Context, error::Failure, verbs::reach};

/// An item of one server, as JSON documents show it.
#[derive(Debug, Serialize)]
struct ServerItem<'a, T> {
    server: &'a str,
    #[serde(flatten)]
    item: &'a T,
}

impl<'a, T> ServerItem<'a, T> {
    /// Returns the items of all servers in one list. `server_and_items` returns the name and the items of one server.
    fn all<O>(offers: &'a [O], server_and_items: impl Fn(&'a O) -> (&'a str, &'a [T])) -> Vec<Self> {
        let items_of = |offer| {
            let (server, items) = server_and_items(offer);
            items.iter().map(move |item| Self { server, item })
        };
        offers.iter().flat_map(items_of).collect()
    }
}

/// Asks the servers in `server_names` for their items, or all servers if `server_names` is empty. `O` is the answer of
/// one server. The second list has the failures of servers that did not answer.
async fn ask_named_servers<O, F: Future<Output = Result<O, Failure>>>(
    context: &Context,
    loaded: &Loaded,
    server_names: &[String],
    ask: impl Fn(Host, ServerName) -> F,
) -> Result<(Vec<O>, Vec<Failure>), Failure> {
    let host = reach::connect_for_list(context, loaded, server_names).await?;
    let mut failures = reach::server_failures(&host, server_names);
    let (offers, ask_failures) = ask_each_server(&host, &reach::servers_to_ask(&host), ask).await;
    failures.extend(ask_failures);
    Ok((offers, failures))
}

/// Returns the answers of `servers` to `ask`, and the failures of those that do not answer.
async fn ask_each_server<O, F: Future<Output = Result<O, Failure>>>(
    host: &Host,
    servers: &[ServerName],
    ask: impl Fn(Host, ServerName) -> F,
) -> (Vec<O>, Vec<Failure>) {
    let (mut offers, mut failures) = (Vec::new(), Vec::new());
    for answer in join_all(servers.iter().map(|server| ask(host.clone(), server.clone()))).await {
        match answer {
            Ok(offer) => offers.push(offer),
            Err(failure) => failures.push(failure),
        }
    }
    (offers, failures)
}

/// Prints `document` with `--json`, and otherwise `page`. If the page is empty and there are no failures, prints
/// `empty_note`.
async fn show(
    context: &Context,
    failures: &[Failure],
    document: impl Serialize,
    page: impl FnOnce() -> String,
    empty_note: &str,
) -> Result<(), Failure> {
    if context.screen.prints_json() {
        return context.screen.document(&document).await;
    }
    let page = page();
    if page.is_empty() && failures.is_empty() {
        context.screen.note(empty_note);
    }
    context.screen.page(page).await
}
