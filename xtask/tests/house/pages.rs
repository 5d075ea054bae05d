//! Promises of the pages.

use std::collections::BTreeSet;

use crate::source::sources;
use crate::{none_of, root};

/// Finds tests that the last column of a page's tables names and that are not there.
fn missing(page: &str, at_least: usize) -> Vec<String> {
    let text = std::fs::read_to_string(root().join(page)).unwrap();
    let rows = text.lines().filter(|line| line.starts_with("| ") && line.ends_with(" |"));
    let last = rows.filter_map(|line| line.trim_end_matches(" |").rsplit(" | ").next());
    let named = last.flat_map(|cell| cell.split('`').skip(1).step_by(2));
    // A test's name has many words; what else is in a column of code is a place or a type.
    let named: BTreeSet<_> = named.filter(|name| name.matches('_').count() > 2 || page == "SECURITY.md").collect();
    assert!(named.len() > at_least, "{page} names {} tests", named.len());
    let sources = sources();
    let is_there = |name: &str| sources.iter().any(|source| source.text.contains(&format!("fn {name}(")));
    named.into_iter().filter(|name| !is_there(name)).map(str::to_owned).collect()
}

#[test]
fn every_test_that_the_security_page_names_is_there() {
    none_of(&missing("SECURITY.md", 40), "SECURITY.md names tests that are not there:");
}

#[test]
fn every_test_that_holds_an_invariant_is_there() {
    none_of(&missing("ARCHITECTURE.md", 15), "ARCHITECTURE.md names tests that are not there:");
}
