//! The findings in the definitions of tools, computed once for each catalog.

use std::sync::Arc;

use arc_swap::ArcSwap;
use tokio::task::spawn_blocking;
use toolrack_host::{Catalog, findings::Findings};

/// The findings of the latest catalog that was searched.
#[derive(Debug, Default)]
pub(crate) struct FindingsCache(ArcSwap<Search>);

#[derive(Debug, Default)]
struct Search {
    /// The version of the catalog; `None` before the first search.
    version: Option<u64>,
    found: Arc<Findings>,
}

impl FindingsCache {
    /// Returns the findings in `catalog`. A catalog other than the last one is searched on a blocking thread.
    pub(crate) async fn of_catalog(&self, catalog: Arc<Catalog>) -> Arc<Findings> {
        let version = catalog.version();
        let last = self.0.load();
        if last.version == Some(version) {
            return Arc::clone(&last.found);
        }
        drop(last);
        // Only a shutdown ends the search early; no page shows the findings then.
        let found = Arc::new(spawn_blocking(move || catalog.findings()).await.unwrap_or_default());
        let search = Arc::new(Search { version: Some(version), found: Arc::clone(&found) });
        // Another task may have searched a newer catalog meanwhile.
        self.0.rcu(|last| Arc::clone(if last.version < search.version { &search } else { last }));
        found
    }

    /// The findings of the last search.
    pub(crate) fn last(&self) -> Arc<Findings> {
        Arc::clone(&self.0.load().found)
    }
}
