//! What a server may make this host do, and where that ends.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use serde_json::{json};
use toolrack_host::{Era, Host};

use crate::{
    scripted::{Reaction, Scripted, tool},
    worlds::{settle, status, world},
};

#[tokio::test]
async fn a_list_is_bounded_in_bytes_and_the_error_names_the_bound() {
    let pages = Arc::new(AtomicUsize::new(0));
    let text = "x".repeat(1 << 20);
    let counted = pages.clone();
    let server = Scripted::new(Era::Legacy, move |method, _| {
        let page = || counted.fetch_add(1, Ordering::SeqCst);
        (method == "tools/list").then(page).map(|page| {
            let mut tool = tool(&format!("tool{page}"));
            tool["description"] = json!(text);
            Reaction::Answer(json!({"tools": [tool], "nextCursor": page.to_string()}))
        })
    });
    let mut spec = server.spec();
    spec.limits.listing_bytes = 8 << 20;
    let host = Host::builder().build();
    settle(&host, world([("server", spec)])).await;
    let state = status(&host, "server").state;
    assert_eq!(state.word(), "tools_failed");
    assert!(state.error().unwrap().contains("more than 8388608 bytes"), "{:?}", state.error());
    assert_eq!(pages.load(Ordering::SeqCst), 8);
    host.shutdown().await;
}
