//! The codes of JSON-RPC errors have names, in one place.

use crate::none_of;
use crate::source::{code, sources};

/// The file with the names of the codes.
const NAMES: &str = "crates/host/src/mcp/codes.rs";

/// Returns the numbers in code that JSON-RPC reserves for errors: -32768 to -32000.
fn codes(code: &str) -> Vec<String> {
    let numbers = code.split('-').skip(1).map(|after| {
        let digits = after.split(|c: char| c != '_' && !c.is_ascii_digit()).next().unwrap_or_default();
        digits.replace('_', "")
    });
    numbers.filter(|digits| digits.parse().is_ok_and(|number: u32| (32_000..=32_768).contains(&number))).collect()
}

#[test]
fn the_codes_of_json_rpc_are_written_in_one_file() {
    let sources: Vec<_> = sources().into_iter().filter(|source| !source.is_test()).collect();
    let named = sources.iter().find(|source| source.path == NAMES).map(|source| codes(&source.code()).len());
    assert!(named.is_some_and(|count| count > 10), "{NAMES} has {named:?} codes");
    let others = sources.iter().filter(|source| source.path != NAMES);
    let found = others.flat_map(|source| {
        codes(&code(source.without_tests())).into_iter().map(|found| format!("{}: -{found}", source.path))
    });
    none_of(&found.collect::<Vec<_>>(), "use the names in crates/host/src/mcp/codes.rs:");
}

#[test]
fn a_code_is_found_however_it_is_written() {
    assert_eq!(codes("f(-32601, - 1, -32_000) - 32002; x-3200; -32_768i64"), ["32601", "32000", "32768"]);
}
