//! What a person should look at in the definitions of tools, found once for each catalog.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::task::spawn_blocking;
use toolrack_host::{Catalog, findings::Findings};

/// The findings of the catalog that was looked at last.
#[derive(Debug, Default)]
pub(crate) struct Looked(Mutex<(Option<u64>, Arc<Findings>)>);

impl Looked {
    /// What is found in `catalog`. Each definition is read, where it is not the catalog of the last time, on a thread that no
    /// other request waits for.
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
        // Another look at a newer catalog meanwhile knows better.
        if last.0.is_none_or(|known| known < version) {
            *last = (Some(version), Arc::clone(&found));
        }
        found
    }

    /// What was found the last time.
    pub(crate) fn last(&self) -> Arc<Findings> {
        Arc::clone(&self.0.lock().unwrap_or_else(PoisonError::into_inner).1)
    }
}
