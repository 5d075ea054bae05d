//! Runs the background task that keeps the search index up to date. Calls and servers do not wait for this task.

use std::{sync::Arc, time::Duration};

use arc_swap::ArcSwap;
use tokio::{sync::Notify, task::spawn_blocking, time::timeout};
use tokio_util::sync::CancellationToken;

use crate::catalog::Catalog;

/// How long the catalog must stay unchanged before this task indexes it. If the catalog keeps changing, the first
/// search indexes it. A program that makes one call and ends needs no index.
const QUIET_TIME: Duration = Duration::from_millis(100);

/// Indexes each catalog that stays current for a moment. Ends when `stop` is cancelled.
pub(super) async fn run(catalog: Arc<ArcSwap<Catalog>>, wake: Arc<Notify>, stop: CancellationToken) {
    let indexing = async {
        loop {
            wake.notified().await;
            while timeout(QUIET_TIME, wake.notified()).await.is_ok() {}
            let (catalog, stop) = (catalog.load_full(), stop.clone());
            // If this fails, the next search indexes what is missing.
            let _ = spawn_blocking(move || catalog.index(&|| stop.is_cancelled())).await;
        }
    };
    stop.run_until_cancelled(indexing).await;
}
