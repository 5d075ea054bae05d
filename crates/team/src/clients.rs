//! Finds OAuth clients. There are two kinds. Some clients registered themselves (RFC 7591). The id of all others is the
//! address of a document that describes the client (Client ID Metadata Documents).
//!
//! A client can claim anything about itself. The only fact that a user can trust is the host to which the answers for
//! the client go.

mod redirect_uri;
mod sealed;

use std::{num::NonZeroU32, sync::Arc, time::Duration};

use governor::{DefaultDirectRateLimiter, Quota, RateLimiter};
use parking_lot::Mutex;
use serde::Deserialize;
use tokio::time::Instant;
use toolrack_host::{egress::Egress, text};
use toolrack_store::{RegisteredClient, StoreError, TeamStore};
use url::Url;
use zeroize::Zeroizing;

pub(crate) use self::redirect_uri::{Target, check as check_redirect_uri, target_of};
use self::sealed::Sealer;
use crate::{
    fetch::{Http, Unreachable},
    random::NoRandom,
};

/// The maximum number of redirect addresses of one client.
pub(crate) const MAX_REDIRECT_URIS: usize = 10;
/// The maximum size of the name of a client, in bytes. A longer one is cut.
const MAX_NAME: usize = 80;
/// The maximum size of the document of a client, in bytes.
const MAX_DOCUMENT: usize = 64 * 1024;
/// The maximum size of the id of a client, in bytes. The id may be the address of the client's document.
const MAX_ID: usize = 1024;
/// How long a fetched document is used before it is fetched again.
const DOCUMENT_LIFETIME: Duration = Duration::from_secs(10 * 60);
/// The maximum number of documents that are kept in memory.
const MAX_DOCUMENTS: usize = 256;
/// The maximum number of documents that are fetched in a minute. All of them may be fetched at once.
const DOCUMENTS_PER_MINUTE: NonZeroU32 = NonZeroU32::new(60).unwrap();

/// A client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Client {
    pub(crate) id: String,
    /// The name that the client gives itself, on one line. Untrusted.
    pub(crate) name: String,
    redirect_uris: Vec<String>,
}

/// Why there is no such client.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoClient {
    /// No client is registered under this id, or its registration has ended.
    #[error(
        "no client is registered under this id; it may have been removed because it was never used: remove what the client remembers of this server, and connect again"
    )]
    Unknown,
    /// The document cannot be fetched, or does not describe the client.
    #[error("the document that describes this client cannot be used: {0}")]
    Document(String),
    /// Too many clients with different documents ask at the same time.
    #[error("too many clients are looked up at once: try again in a minute")]
    Busy,
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<Unreachable> for NoClient {
    fn from(error: Unreachable) -> Self {
        Self::Document(error.to_string())
    }
}

impl Client {
    /// Returns the address for the answer: the `requested` address, if the client has registered it. If the client
    /// requests no address, returns its registered address, or `None` if it has registered several. For an address of
    /// this machine, the port may differ (RFC 8252, 7.3).
    pub(crate) fn redirect_uri(&self, requested: Option<&str>) -> Option<String> {
        match requested {
            Some(requested) => self
                .redirect_uris
                .iter()
                .any(|registered| redirect_uri::is_registered_as(registered, requested))
                .then(|| requested.to_owned()),
            None => match &self.redirect_uris[..] {
                [only] => Some(only.clone()),
                _ => None,
            },
        }
    }

    /// The host that publishes the document of the client, if there is one.
    pub(crate) fn document_host(&self) -> Option<String> {
        document_url(&self.id).and_then(|url| url.host_str().map(ToOwned::to_owned))
    }
}

impl From<RegisteredClient> for Client {
    fn from(client: RegisteredClient) -> Self {
        Self { id: client.id, name: client.name, redirect_uris: client.redirect_uris }
    }
}

/// The name of a client as it is shown: on one line, without characters that hide or reorder text.
pub(crate) fn shown_name(name: Option<&str>) -> String {
    let name = text::for_line(&text::clip(name.unwrap_or_default().trim(), MAX_NAME)).into_owned();
    if name.is_empty() { "a client without a name".to_owned() } else { name }
}

/// Parses an id that is the address of a document: with http or https, with a path, and without user and fragment.
/// `None` for all other ids, also for an address in another spelling, such as with dots in its path.
fn document_url(id: &str) -> Option<Url> {
    if id.len() > MAX_ID {
        return None;
    }
    let url: Url = id.parse().ok()?;
    let has_plain_form =
        url.as_str() == id && url.username().is_empty() && url.password().is_none() && url.fragment().is_none();
    (matches!(url.scheme(), "https" | "http") && has_plain_form && url.path().len() > 1).then_some(url)
}

/// The document of a client. Its other fields are ignored.
#[derive(Deserialize)]
struct Document {
    client_id: String,
    client_name: Option<String>,
    redirect_uris: Vec<String>,
    token_endpoint_auth_method: Option<String>,
}

/// Finds clients.
pub(crate) struct Clients {
    store: TeamStore,
    http: Http,
    sealer: Sealer,
    /// Whether the team is on this machine, so that documents may be fetched with http.
    is_local: bool,
    /// Documents that were fetched in the last [`DOCUMENT_LIFETIME`], the newest last.
    documents: Mutex<Vec<(Instant, Arc<Client>)>>,
    fetch_limit: DefaultDirectRateLimiter,
}

impl Clients {
    /// Finds the clients of the team at `url`. Fetches documents only from public addresses, unless the team is on this
    /// machine. `key` protects the ids of clients that the store does not keep: see [`Self::create_sealed`].
    pub(crate) fn new(store: TeamStore, url: &Url, egress: &Egress, key: Zeroizing<String>) -> reqwest::Result<Self> {
        Ok(Self {
            store,
            sealer: Sealer::new(key),
            http: Http::new(egress.guard_for_server(url), MAX_DOCUMENT)?,
            // The team file allows http only on this machine.
            is_local: url.scheme() == "http",
            documents: Mutex::default(),
            fetch_limit: RateLimiter::direct(Quota::per_minute(DOCUMENTS_PER_MINUTE)),
        })
    }

    /// Returns the client, if it can be found without a request to another program. Returns `Ok(None)` if its document
    /// has to be fetched: see [`Self::find`].
    pub(crate) async fn find_without_fetch(&self, id: &str) -> Result<Option<Arc<Client>>, NoClient> {
        if self.allowed_document_url(id).is_some() {
            return Ok(self.client_in_memory(id));
        }
        let sealed = self.sealer.open(id);
        let client = match sealed {
            Some(client) => Some(client),
            None if id.len() > MAX_ID => None,
            None => self.store.registered_client(id).await?,
        };
        client.map(|client| Some(Arc::new(client.into()))).ok_or(NoClient::Unknown)
    }

    /// Returns the client. Fetches its document if the document is not in memory.
    pub(crate) async fn find(&self, id: &str) -> Result<Arc<Client>, NoClient> {
        if let Some(client) = self.find_without_fetch(id).await? {
            return Ok(client);
        }
        let Some(url) = self.allowed_document_url(id) else { return Err(NoClient::Unknown) };
        self.fetch_limit.check().map_err(|_| NoClient::Busy)?;
        let client = Arc::new(check_document(self.http.json(&url).await?, id)?);
        let mut documents = self.documents.lock();
        documents.retain(|(fetched_at, other)| fetched_at.elapsed() < DOCUMENT_LIFETIME && other.id != id);
        let surplus_count = (documents.len() + 1).saturating_sub(MAX_DOCUMENTS);
        documents.drain(..surplus_count);
        documents.push((Instant::now(), Arc::clone(&client)));
        Ok(client)
    }

    /// Creates a client whose id contains its description and a seal (an HMAC) over it. The store keeps nothing of such
    /// a client until a user agrees. `None` if the description is too long for an id.
    pub(crate) fn create_sealed(
        &self,
        name: &str,
        redirect_uris: &[String],
    ) -> Result<Option<RegisteredClient>, NoRandom> {
        self.sealer.seal(name, redirect_uris)
    }

    /// Stores `client`, because a user has agreed to it. Does nothing if it is stored already.
    pub(crate) async fn store_if_sealed(&self, client: &Client) -> Result<(), StoreError> {
        match self.sealer.open(&client.id) {
            Some(sealed) if self.store.registered_client(&client.id).await?.is_none() => {
                self.store.put_client(&sealed).await
            }
            _ => Ok(()),
        }
    }

    /// Returns `id` as a URL, if it is the address of a document and the document may be fetched from there.
    fn allowed_document_url(&self, id: &str) -> Option<Url> {
        document_url(id).filter(|url| url.scheme() == "https" || self.is_local)
    }

    /// The client whose document is in memory.
    fn client_in_memory(&self, id: &str) -> Option<Arc<Client>> {
        let documents = self.documents.lock();
        let cached_document =
            documents.iter().find(|(fetched_at, client)| client.id == id && fetched_at.elapsed() < DOCUMENT_LIFETIME);
        cached_document.map(|(_, client)| Arc::clone(client))
    }
}

/// Checks the document from the address `id`, and returns the client that it describes.
fn check_document(document: Document, id: &str) -> Result<Client, NoClient> {
    let unusable = |why: &str| Err(NoClient::Document(why.to_owned()));
    if document.client_id != id {
        return unusable("it describes a client with another address");
    }
    if document.token_endpoint_auth_method.is_some_and(|method| method != "none") {
        return unusable(
            "its client wants to prove itself with a secret or a key, and only public clients (`none`) are served here",
        );
    }
    if document.redirect_uris.is_empty() || document.redirect_uris.len() > MAX_REDIRECT_URIS {
        return Err(NoClient::Document(format!("it has none or more than {MAX_REDIRECT_URIS} redirect URIs")));
    }
    if let Some(why) = document.redirect_uris.iter().find_map(|uri| check_redirect_uri(uri).err()) {
        return unusable(why);
    }
    let name = shown_name(document.client_name.as_deref());
    Ok(Client { id: document.client_id, name, redirect_uris: document.redirect_uris })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_plain_address_with_a_path_is_the_address_of_a_document() {
        for id in ["https://app.example/client.json", "http://127.0.0.1:9/c", "https://app.example/c?v=1"] {
            assert!(document_url(id).is_some(), "{id}");
        }
        for id in [
            "",
            "trc_0123",
            "https://app.example",
            "https://app.example/",
            "https://app.example/a/../c",
            "https://APP.example/c",
            "https://app.example:443/c",
            "https://ann@app.example/c",
            "https://:word@app.example/c",
            "https://app.example/c#x",
            "ftp://app.example/c",
            "file:///etc/passwd",
        ] {
            assert!(document_url(id).is_none(), "{id}");
        }
        let long = format!("https://app.example/{}", "c".repeat(MAX_ID));
        assert!(document_url(&long[..MAX_ID]).is_some() && document_url(&long[..=MAX_ID]).is_none());
    }

    #[test]
    fn the_name_of_a_client_is_one_bounded_line_that_hides_nothing() {
        assert_eq!(shown_name(Some("  Editor ")), "Editor");
        for none in [None, Some(""), Some(" \n ")] {
            assert_eq!(shown_name(none), "a client without a name");
        }
        let hiding = shown_name(Some("Editor\nthat Toolrack trusts\u{202e}\u{200b}\u{7}"));
        assert!(!hiding.contains(['\n', '\u{202e}', '\u{200b}', '\u{7}']), "{hiding:?}");
        let long = shown_name(Some(&"ä".repeat(1_000)));
        assert!(long.len() < 2 * MAX_NAME, "{} bytes", long.len());
    }
}
