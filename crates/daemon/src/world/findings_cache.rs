//! Caches findings: suspicious parts of tool definitions, at which a user should look. They are searched once for each
//! catalog (the immutable list of the tools of all servers; each change makes a new catalog).

use std::sync::Arc;

use arc_swap::ArcSwap;
use tokio::task::spawn_blocking;
use toolrack_host::{Catalog, findings::Findings};

/// The findings of the latest catalog that was searched.
#[derive(Debug, Default)]
pub(crate) struct FindingsCache(ArcSwap<CachedFindings>);

#[derive(Debug, Default)]
struct CachedFindings {
    /// The version of the catalog; `None` before the first search.
    version: Option<u64>,
    findings: Arc<Findings>,
}

impl FindingsCache {
    /// Returns the findings in `catalog`. A catalog other than the last one is searched on a blocking thread.
    pub(crate) async fn for_catalog(&self, catalog: Arc<Catalog>) -> Arc<Findings> {
        let version = catalog.version();
        let cache = self.0.load();
        if cache.version == Some(version) {
            return Arc::clone(&cache.findings);
        }
        drop(cache);
        // Only a shutdown ends the search early; no page shows the findings then.
        let findings = Arc::new(spawn_blocking(move || catalog.findings()).await.unwrap_or_default());
        let entry = Arc::new(CachedFindings { version: Some(version), findings: Arc::clone(&findings) });
        // Another task may have searched a newer catalog meanwhile.
        self.0.rcu(|cache| Arc::clone(if cache.version < entry.version { &entry } else { cache }));
        findings
    }

    /// The findings of the last search.
    pub(crate) fn last(&self) -> Arc<Findings> {
        Arc::clone(&self.0.load().findings)
    }
}
