//! Lists the prompts and resources of all servers, under unique names.
//!
//! A prompt gets its name in the same way as a tool: the name depends only on the server and the prompt's own name. A
//! resource keeps its URI, because results and definitions contain links to it, and the gateway forwards those
//! unchanged. Only a URI that several servers list gets a long form, `toolrack://SERVER/URI`, for each of these
//! servers. Clients may use the long form for every resource. So no server can replace a resource of another server: at
//! worst, clients need the long form for both.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

use arc_swap::ArcSwapOption;
use futures::{
    FutureExt as _,
    future::{BoxFuture, Shared, join_all},
};
use serde_json::{Map, Value};
use tokio::time::{Instant, timeout};
use toolrack_host::{Host, Listing, ServerName, ServerStatus, State};

use super::view::View;

/// The beginning of the long form of URIs.
const SCHEME: &str = "toolrack://";

/// How long one server may take to list something. After this time, clients get the list without that server.
const SERVER_TIMEOUT: Duration = Duration::from_secs(10);
/// A list that a client asks for is at most this old.
const MAX_LISTED_AGE: Duration = Duration::from_millis(500);
/// A list in which the gateway looks up what a client calls or reads is at most this old.
const MAX_LOOKUP_AGE: Duration = Duration::from_secs(60);

/// A prompt, a resource or a resource template, as the list of a server has it.
type Item = Map<String, Value>;

/// A future that reads all lists. Several clients can await its result.
type IndexFuture = Shared<BoxFuture<'static, Arc<ItemIndex>>>;

/// An item of one server, with the server's own name for it.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) server: ServerName,
    /// The name, URI or URI template that the server has for the item.
    pub(super) native_name: String,
    /// The item as clients see it, with the name that they use.
    pub(super) item: Item,
}

/// The prompts and resources of all servers, each list by the names that clients use.
#[derive(Debug, Default)]
pub(super) struct ItemIndex {
    pub(super) prompts: BTreeMap<String, Entry>,
    pub(super) resources: BTreeMap<String, Entry>,
    pub(super) templates: BTreeMap<String, Entry>,
    /// The servers that list each URI.
    owners: HashMap<String, Vec<ServerName>>,
    /// The servers that list a resource or a template.
    resource_servers: Vec<ServerName>,
}

/// The server that a URI belongs to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Owner {
    /// One server, and the URI as that server knows it.
    One(ServerName, String),
    /// Several servers, so that the client must use the long form.
    Several(Vec<ServerName>),
    Unknown,
}

/// Reads the prompts and resources of all servers, and caches them for a while.
#[derive(Default)]
pub(super) struct Directory {
    cached: ArcSwapOption<CachedIndex>,
}

/// The last index, which may still be being read.
struct CachedIndex {
    began_at: Instant,
    index: IndexFuture,
}

impl Directory {
    /// The items of all servers, at most [`MAX_LISTED_AGE`] old.
    pub(super) async fn read_fresh(&self, host: &Host) -> Arc<ItemIndex> {
        self.read(host, MAX_LISTED_AGE).await
    }

    /// Searches the items with `find`, which returns what it has found. Reads the items again if it finds nothing in
    /// those that are cached.
    pub(super) async fn find<T>(&self, host: &Host, find: impl Fn(&ItemIndex) -> Option<T>) -> Option<T> {
        let cached = self.read(host, MAX_LOOKUP_AGE).await;
        if let Some(found) = find(&cached) {
            return Some(found);
        }
        let fresh = self.read_fresh(host).await;
        find(&fresh)
    }

    /// Clears the cache, because servers or their lists have changed.
    pub(super) fn forget(&self) {
        self.cached.store(None);
    }

    /// Returns the items of all servers, at most `max_age` old.
    async fn read(&self, host: &Host, max_age: Duration) -> Arc<ItemIndex> {
        let begin_read = || {
            let host = host.clone();
            async move { Arc::new(read_all(&host).await) }.boxed().shared()
        };
        self.get_or_read(begin_read, max_age).await
    }

    /// Returns the index that was read at most `max_age` ago or is being read now. If there is none, `begin_read`
    /// starts to read it.
    async fn get_or_read(&self, begin_read: impl FnOnce() -> IndexFuture, max_age: Duration) -> Arc<ItemIndex> {
        let index = self.get_cached(max_age).unwrap_or_else(|| {
            let new_index = begin_read();
            self.cached.rcu(|cached| match cached {
                // Another client has begun to read at this moment.
                Some(cached) if is_recent(cached, max_age) => Some(Arc::clone(cached)),
                _ => Some(Arc::new(CachedIndex { began_at: Instant::now(), index: new_index.clone() })),
            });
            self.get_cached(max_age).unwrap_or(new_index)
        });
        index.await
    }

    fn get_cached(&self, max_age: Duration) -> Option<IndexFuture> {
        let cached = self.cached.load();
        cached.as_ref().filter(|cached| is_recent(cached, max_age)).map(|cached| cached.index.clone())
    }
}

/// Whether the cached index is recent enough for a caller that accepts at most `max_age`.
fn is_recent(cached: &CachedIndex, max_age: Duration) -> bool {
    match cached.index.peek() {
        Some(_) => cached.began_at.elapsed() <= max_age,
        // The index is still being read. Later callers wait for it as long as another waiting caller polls the future:
        // once all of these are dropped, the future makes no progress. One of the clones is in the cache itself.
        None => cached.index.strong_count().is_some_and(|clones| clones > 1),
    }
}

/// Reads the lists of all connected servers, and gives each item the name that clients use.
async fn read_all(host: &Host) -> ItemIndex {
    let is_connected =
        |status: &ServerStatus| matches!(status.state, State::Connected { .. } | State::ToolsFailed { .. });
    let servers: Vec<_> = host.status().into_iter().filter(is_connected).map(|status| status.name).collect();
    let list_all = async |listing: Listing, key: &'static str| -> Vec<(ServerName, String, Item)> {
        let lists = servers.iter().map(|server| read_list(host, server, listing, key));
        join_all(lists).await.into_iter().flatten().collect()
    };
    let (prompts, resources, templates) = tokio::join!(
        list_all(Listing::Prompts, "name"),
        list_all(Listing::Resources, "uri"),
        list_all(Listing::ResourceTemplates, "uriTemplate"),
    );
    let mut index = ItemIndex::default();
    for (server, uri, _) in &resources {
        let owners = index.owners.entry(uri.clone()).or_default();
        if !owners.contains(server) {
            owners.push(server.clone());
        }
    }
    let mut template_owners: HashMap<&str, Vec<&ServerName>> = HashMap::new();
    for (server, template, _) in &templates {
        template_owners.entry(template).or_default().push(server);
    }
    index.resource_servers = resources.iter().chain(&templates).map(|(server, ..)| server.clone()).collect();
    index.resource_servers.sort();
    index.resource_servers.dedup();
    let names = host.naming().assign(prompts.iter().map(|(server, name, _)| (server.as_str(), name.as_str())));
    index.prompts = index_entries(&prompts, "name", |server, name| names.get(&(server.as_str(), name)).cloned());
    index.resources = index_entries(&resources, "uri", |server, uri| {
        let is_unique = index.owners.get(uri).is_none_or(|owners| owners.len() < 2);
        Some(if is_unique && !uri.starts_with(SCHEME) { uri.to_owned() } else { long_uri(server, uri) })
    });
    index.templates = index_entries(&templates, "uriTemplate", |server, template| {
        let is_unique = template_owners.get(template).is_none_or(|owners| owners.len() < 2);
        Some(if is_unique && !template.starts_with(SCHEME) { template.to_owned() } else { long_uri(server, template) })
    });
    index
}

/// Returns the entries of one list, by the names that clients use. `key` is the field of an item with the server's own
/// name for it. `client_name` returns the name for clients, or `None` to leave an item out.
fn index_entries(
    items: &[(ServerName, String, Item)],
    key: &str,
    client_name: impl Fn(&ServerName, &str) -> Option<String>,
) -> BTreeMap<String, Entry> {
    let mut entries = BTreeMap::new();
    for (server, native_name, item) in items {
        let Some(unique_name) = client_name(server, native_name) else { continue };
        let mut item = item.clone();
        item.insert(key.to_owned(), Value::from(unique_name.as_str()));
        entries.insert(unique_name, Entry { server: server.clone(), native_name: native_name.clone(), item });
    }
    entries
}

/// Reads a list of one server. Empty if the list cannot be read, so that clients still get the items of other servers.
async fn read_list(host: &Host, server: &ServerName, listing: Listing, key: &str) -> Vec<(ServerName, String, Item)> {
    let items = match timeout(SERVER_TIMEOUT, host.listing(server.as_str(), listing)).await {
        Ok(Ok(items)) => items,
        Ok(Err(error)) => {
            tracing::warn!(%error, "a list of a server is left out");
            return Vec::new();
        }
        Err(_) => {
            tracing::warn!(%server, what = ?listing, "a list of a server is left out: the server takes too long");
            return Vec::new();
        }
    };
    let with_native_name = |item: Item| {
        let native_name = item.get(key)?.as_str()?.to_owned();
        Some((server.clone(), native_name, item))
    };
    items.into_iter().filter_map(with_native_name).collect()
}

/// The long form of a URI. It names the resource of one server, even if other servers have resources of the same URI.
pub(super) fn long_uri(server: &ServerName, uri: &str) -> String {
    format!("{SCHEME}{server}/{uri}")
}

impl ItemIndex {
    /// Returns the server of a view that `uri` belongs to.
    pub(super) fn owner(&self, uri: &str, view: &View) -> Owner {
        if let Some((server, uri)) = uri.strip_prefix(SCHEME).and_then(|rest| rest.split_once('/')) {
            return match self.resource_servers.iter().find(|name| name.as_str() == server && view.may_have(name)) {
                Some(server) => Owner::One(server.clone(), uri.to_owned()),
                None => Owner::Unknown,
            };
        }
        let visible_owners: Vec<_> =
            self.owners.get(uri).into_iter().flatten().filter(|server| view.may_have(server)).collect();
        match visible_owners[..] {
            [] => self.owner_by_template(uri, view),
            [server] => Owner::One(server.clone(), uri.to_owned()),
            _ => Owner::Several(visible_owners.into_iter().cloned().collect()),
        }
    }

    /// The owner of a URI that no server lists: the server with a template that fits the URI, or else the only server
    /// that lists any resource or template.
    fn owner_by_template(&self, uri: &str, view: &View) -> Owner {
        let matching = self
            .templates
            .values()
            .filter(|entry| view.may_have(&entry.server) && matches_template(&entry.native_name, uri));
        let mut servers: Vec<_> = matching.map(|entry| entry.server.clone()).collect();
        servers.sort();
        servers.dedup();
        if servers.is_empty() {
            servers = self.resource_servers.iter().filter(|server| view.may_have(server)).cloned().collect();
            if servers.len() > 1 {
                return Owner::Unknown;
            }
        }
        match servers.len() {
            0 => Owner::Unknown,
            1 => Owner::One(servers.remove(0), uri.to_owned()),
            _ => Owner::Several(servers),
        }
    }
}

/// Returns whether a URI may have been made from an RFC 6570 template. The match is lenient: each expression matches
/// any text that is not empty, up to the first occurrence of the next literal, and without a `/` unless the expression
/// allows one.
fn matches_template(template: &str, uri: &str) -> bool {
    let mut parts = template.split('{');
    let Some(mut rest) = parts.next().and_then(|literal| uri.strip_prefix(literal)) else { return false };
    let mut parts = parts.peekable();
    if parts.peek().is_none() {
        return rest.is_empty();
    }
    while let Some(part) = parts.next() {
        let Some((expression, literal)) = part.split_once('}') else { return false };
        // At least one character belongs to the expression.
        let Some(first_len) = rest.chars().next().map(char::len_utf8) else { return false };
        let end = match (parts.peek(), rest.len().checked_sub(literal.len())) {
            (Some(_), _) => rest[first_len..].find(literal).map(|offset| first_len + offset),
            (None, Some(end)) if end >= first_len && rest.ends_with(literal) => Some(end),
            (None, _) => None,
        };
        let Some(end) = end else { return false };
        if rest[..end].contains('/') && !expression.starts_with(['+', '#', '/', '?', '&', '.', ';']) {
            return false;
        }
        rest = &rest[end + literal.len()..];
    }
    true
}

#[cfg(test)]
mod tests {
    use std::{
        pin::pin,
        sync::atomic::{AtomicUsize, Ordering},
    };

    use futures::poll;
    use tokio::time::{advance, sleep};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_list_that_no_caller_waited_for_is_read_again_and_one_that_a_caller_waits_for_is_not() {
        let directory = Directory::default();
        let started = Arc::new(AtomicUsize::new(0));
        let begin = || {
            let started = Arc::clone(&started);
            let slow = async move {
                started.fetch_add(1, Ordering::Relaxed);
                // The longest time that a server may take; after that, its items are left out.
                let read = timeout(SERVER_TIMEOUT, sleep(SERVER_TIMEOUT / 2)).await;
                let resource_servers = read.map(|()| ServerName::new("slow").unwrap()).into_iter().collect();
                Arc::new(ItemIndex { resource_servers, ..ItemIndex::default() })
            };
            slow.boxed().shared()
        };
        for max_age in [MAX_LISTED_AGE, MAX_LOOKUP_AGE] {
            {
                let mut abandoned = pin!(directory.get_or_read(begin, max_age));
                assert!(poll!(&mut abandoned).is_pending());
            }
            advance(Duration::from_secs(3_600)).await;
            let before = started.load(Ordering::Relaxed);
            assert_eq!(directory.get_or_read(begin, max_age).await.resource_servers.len(), 1, "a part is missing");
            assert_eq!(started.load(Ordering::Relaxed) - before, 1, "a reading that was given up begins again");
            directory.forget();
            tokio::join!(directory.get_or_read(begin, max_age), directory.get_or_read(begin, max_age));
            assert_eq!(started.load(Ordering::Relaxed) - before, 2, "two callers at the same time share one reading");
            directory.forget();
        }
    }

    #[test]
    fn templates_are_distinguished_by_the_text_around_their_expressions() {
        for (template, uri, expected) in [
            ("fake://note/{name}", "fake://note/ada", true),
            ("fake://note/{name}", "fake://note/", false),
            ("fake://note/{name}", "fake://note/a/b", false),
            ("fake://note/{+path}", "fake://note/a/b", true),
            ("test://{id}/data", "test://7/data", true),
            ("test://{id}/data", "test://7/other", false),
            ("{+any}", "x:y", true),
            ("plain", "plain", true),
            ("bro{ken", "broken", false),
            ("x://{a}{b}/{c}", "x://12/3", true),
            ("x://{a}{b}/{c}", "x://1/3", false),
        ] {
            assert_eq!(matches_template(template, uri), expected, "{template} {uri}");
        }
    }
}
