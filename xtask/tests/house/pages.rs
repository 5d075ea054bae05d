//! Promises of the pages.

use std::collections::BTreeSet;

use crate::source::sources;
use crate::{none_of, root};

#[test]
fn every_test_that_the_security_page_names_is_there() {
    let page = std::fs::read_to_string(root().join("SECURITY.md")).unwrap();
    let threats = page.lines().filter(|line| line.starts_with("| ") && line.ends_with(" |"));
    let shown = threats.filter_map(|line| line.trim_end_matches(" |").rsplit(" | ").next());
    let named: BTreeSet<_> = shown.flat_map(|cell| cell.split('`').skip(1).step_by(2)).collect();
    assert!(named.len() > 40, "the page names {} tests", named.len());
    let sources = sources();
    let is_there = |name: &str| sources.iter().any(|source| source.text.contains(&format!("fn {name}(")));
    let missing: Vec<_> = named.into_iter().filter(|name| !is_there(name)).map(str::to_owned).collect();
    none_of(&missing, "SECURITY.md names tests that are not there:");
}
