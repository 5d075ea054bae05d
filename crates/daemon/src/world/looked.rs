//! What a person should look at in the definitions of tools, found once for each catalog.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::task::spawn_blocking;
use toolrack_host::{Catalog, findings::Findings};

/// The findings of the latest catalog that was searched.
#[derive(Debug, Default)]
pub(crate) struct Looked(Mutex<(Option<u64>, Arc<Findings>)>);

impl Looked {
    /// The findings in `catalog`. A catalog other than the last one is searched on a thread that no other request
    /// waits for.
    pub(crate) async fn at(&self, catalog: Arc<Catalog>) -> Arc<Findings> {
        let version = catalog.version();
        if let (Some(known), findings) = &*self.0.lock().unwrap_or_else(PoisonError::into_inner)
            && *known == version
        {
            return Arc::clone(findings);
        }
        // Only a shutdown ends it early: then there is no page to show them.
        let found = Arc::new(spawn_blocking(move || catalog.findings()).await.unwrap_or_default());
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Another task may have searched a newer catalog meanwhile.
        if last.0.is_none_or(|known| known < version) {
            *last = (Some(version), Arc::clone(&found));
        }
        found
    }

    /// The findings of the last search.
    pub(crate) fn last(&self) -> Arc<Findings> {
        Arc::clone(&self.0.lock().unwrap_or_else(PoisonError::into_inner).1)
    }
}
