//! Searching the tools of a running host.

use std::time::Duration;

use tokio::time::sleep;
use toolrack_host::{Host, Selection};

use crate::{
    scripted::{Scripted, tool},
    worlds::{catalog_has, host_of, name, settle, soon, world},
};

async fn found(host: &Host, query: &str) -> Vec<String> {
    let hits = soon("a search", host.search(query, 5, &Selection::all())).await;
    hits.iter().map(|hit| hit.tool.selector()).collect()
}

#[tokio::test(start_paused = true)]
async fn a_search_right_after_a_change_sees_it() {
    let server = Scripted::plain().with_tools([tool("count_sheep")]);
    let host = host_of([("farm", server.spec())]).await;
    assert_eq!(host.catalog().index_bytes(), 0, "the search comes first");
    assert_eq!(found(&host, "counting sheep").await, ["farm/count_sheep"]);
    server.set_tools([tool("count_sheep"), tool("shear_sheep")]);
    server.say_changed();
    catalog_has(&host, "farm/shear_sheep", true).await;
    assert_eq!(found(&host, "shear the sheep").await[0], "farm/shear_sheep");
}

#[tokio::test(start_paused = true)]
async fn tools_are_indexed_in_the_background_once_for_each_change() {
    let still = Scripted::plain().with_tools([tool("wait")]);
    let moving = Scripted::plain().with_tools([tool("walk")]);
    let host = host_of([("still", still.spec()), ("moving", moving.spec())]).await;
    sleep(Duration::from_secs(1)).await;
    let both = host.catalog().index_bytes();
    assert!(both > 0, "the index is built before any search");
    moving.set_tools([tool("walk"), tool("run")]);
    moving.say_changed();
    catalog_has(&host, "moving/run", true).await;
    let kept = host.catalog().index_bytes();
    assert!((1..both).contains(&kept), "the part of the server that did not change is kept: {kept} of {both}");
    sleep(Duration::from_secs(1)).await;
    assert!(host.catalog().index_bytes() > both);
}

#[tokio::test(start_paused = true)]
async fn a_search_keeps_to_its_selection() {
    let (one, other) = (Scripted::plain(), Scripted::plain());
    let host = Host::builder().build();
    settle(&host, world([("one", one.spec()), ("other", other.spec())])).await;
    let hits = host.search("echo", 5, &Selection::all().of_servers([name("other")])).await;
    assert_eq!(hits.iter().map(|hit| hit.tool.selector()).collect::<Vec<_>>(), ["other/echo"]);
    assert!(host.search("nothing of the kind", 5, &Selection::all()).await.is_empty());
}
