//! The task that keeps the search index up to date, in the background: no call and no server waits for it.

use std::{sync::Arc, time::Duration};

use arc_swap::ArcSwap;
use tokio::{sync::Notify, task::spawn_blocking, time::timeout};
use tokio_util::sync::CancellationToken;

use crate::catalog::Catalog;

/// The wait after the last change, before the tools are indexed: a catalog that changes all the time is indexed by the
/// first search, and a program that makes one call and ends has no use for an index.
const QUIET: Duration = Duration::from_millis(100);

/// Indexes each catalog that lasts a moment; ends when `stop` is cancelled.
pub(super) async fn run(catalog: Arc<ArcSwap<Catalog>>, changed: Arc<Notify>, stop: CancellationToken) {
    let indexing = async {
        loop {
            changed.notified().await;
            while timeout(QUIET, changed.notified()).await.is_ok() {}
            let (catalog, stop) = (catalog.load_full(), stop.clone());
            // A search indexes whatever is missing.
            let _ = spawn_blocking(move || catalog.index(&|| stop.is_cancelled())).await;
        }
    };
    stop.run_until_cancelled(indexing).await;
}
