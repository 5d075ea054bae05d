//! The description of tools that a model reads.

use std::sync::Arc;

use toolrack_code::{Bounds, QuickJs};
use toolrack_host::{Event, Host, Selection};

use crate::shelf::{Shelf, default_host, host_with_shelf, name};

fn description(host: &Host) -> String {
    let catalog = host.catalog();
    catalog.select("code/run_code").unwrap().tool().description.clone().unwrap()
}

#[tokio::test]
async fn the_description_lists_what_can_be_called() {
    let host = default_host().await;
    let text = description(&host);
    let (manual, tools) = text.split_once("Tools:\n").unwrap();
    assert!(manual.starts_with("Runs a script of JavaScript"));
    assert_eq!(
        tools,
        r#"tools["my-shelf"].burn(): string
tools["my-shelf"].count({ of: string }): { pages: integer } // Counts the pages of a book.
tools["my-shelf"].fail(): string
tools["my-shelf"].read({ title: string }): string // Reads a book.
tools["my-shelf"].wait(): string"#
    );
}

#[tokio::test]
async fn the_manual_is_listed_again_when_the_tools_change() {
    let (host, mut desired) = host_with_shelf(Host::builder(), Shelf::default(), Bounds::default()).await;
    let mut events = host.events();
    desired.remove(&name("my-shelf"));
    host.apply(desired).await;
    while description(&host).contains("burn") {
        // The catalog changes with an event, or it never does.
        while !matches!(events.recv().await.unwrap(), Event::McpToolsUpdated { .. }) {}
    }
    assert!(description(&host).ends_with("Tools:"));
}

#[tokio::test]
async fn tools_that_do_not_fit_into_the_manual_are_counted() {
    let (host, mut desired) = host_with_shelf(Host::builder(), Shelf::default(), Bounds::default()).await;
    for number in 0..100 {
        let spec = desired[&name("my-shelf")].clone();
        desired.insert(name(&format!("shelf-{number:03}")), spec);
    }
    let scripts = host.scripts(&name("late"), Selection::all(), Arc::new(QuickJs::default()));
    host.apply(desired.clone()).await;
    host.settled().await;
    desired.insert(name("late"), scripts);
    host.apply(desired).await;
    host.settled().await;
    let catalog = host.catalog();
    let text = catalog.select("late/run_code").unwrap().tool().description.clone().unwrap();
    assert!(text.len() < 14_000, "{}", text.len());
    let lines = text.lines().filter(|line| line.starts_with("tools")).count();
    // The script server that was there before is a tool like any other in a list, and refused when it is called.
    let all = 101 * 5 + 1;
    assert!(text.ends_with(&format!("and {} more, which `search_tools` finds", all - lines)), "{text}");
}
