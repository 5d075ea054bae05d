use std::{cell::Cell, sync::Arc};

use proptest::prelude::*;

use super::*;
use crate::{
    catalog::tests::{catalog, set, tool},
    spec::ServerName,
};

fn office() -> Catalog {
    let files = set(&[
        tool("read_file", "Reads a text file.", &[("path", "Where it is.")]),
        tool("write_file", "Writes a text file.", &[("path", "Where it is."), ("content", "What to write.")]),
        tool("list_directory", "Lists what is in a directory.", &[("path", "Which directory.")]),
    ]);
    let tracker = set(&[
        tool("createIssue", "Opens an issue.", &[("title", ""), ("assignee", "Who is to mend it.")]),
        tool("search_issues", "Finds issues.", &[("query", "")]),
        tool("add_comment", "Comments on an issue.", &[("visibility", "")]),
    ]);
    catalog(1, &[("files", Arc::new(files)), ("tracker", Arc::new(tracker))])
}

fn found(catalog: &Catalog, query: &str) -> Vec<String> {
    catalog.search(query, 10, &Selection::all()).iter().map(|hit| hit.tool.selector()).collect()
}

fn first(query: &str) -> String {
    found(&office(), query).into_iter().next().unwrap_or_default()
}

#[test]
fn a_tool_is_found_by_its_name_however_it_is_written() {
    for query in [
        "read_file",
        "read-file",
        "readFile",
        "READ FILE",
        "readfile",
        "file reading",
        "mcp__files__read_file",
        "files/read_file",
    ] {
        assert_eq!(first(query), "files/read_file", "{query}");
    }
    for query in ["create issue", "createissue", "create_issues", "creating an issue", "issue creation"] {
        assert_eq!(first(query), "tracker/createIssue", "{query}");
    }
}

#[test]
fn a_tool_is_found_by_its_description_and_its_arguments() {
    assert_eq!(first("opens"), "tracker/createIssue");
    assert_eq!(first("assignee"), "tracker/createIssue");
    assert_eq!(first("mend"), "tracker/createIssue");
    assert_eq!(first("visibility"), "tracker/add_comment");
}

#[test]
fn other_words_for_the_same_find_it_too() {
    assert_eq!(first("make a bug report"), "tracker/createIssue");
    assert_eq!(first("show the folder"), "files/list_directory");
}

#[test]
fn a_slip_of_the_finger_is_forgiven() {
    for query in ["craete issue", "creat isue", "create issuee"] {
        assert_eq!(first(query), "tracker/createIssue", "{query}");
    }
    assert_eq!(first("lst direcotry"), "files/list_directory");
    assert!(found(&office(), "xylophone").is_empty());
    assert!(found(&office(), "isle").is_empty(), "a short word of another meaning is one letter away from many");
}

#[test]
fn the_last_word_may_be_incomplete() {
    assert_eq!(first("list dire"), "files/list_directory");
    assert_eq!(first("comm"), "tracker/add_comment");
    // A space ends the word.
    assert!(found(&office(), "co ").is_empty());
}

#[test]
fn the_name_of_a_server_counts_for_its_tools() {
    let all = found(&office(), "tracker");
    assert_eq!(all.len(), 3);
    assert!(all.iter().all(|tool| tool.starts_with("tracker/")), "{all:?}");
}

#[test]
fn equal_tools_come_in_the_order_of_their_names() {
    let same = || Arc::new(set(&[tool("b", "Counts beans.", &[]), tool("a", "Counts beans.", &[])]));
    let catalog = catalog(1, &[("two", same()), ("one", same())]);
    for _ in 0..3 {
        assert_eq!(found(&catalog, "count beans"), ["one/a", "one/b", "two/a", "two/b"]);
    }
}

#[test]
fn an_empty_query_finds_nothing() {
    for query in ["", " ", "?!", "\u{1b}[31m", "xyz"] {
        assert!(found(&office(), query).is_empty(), "{query:?}");
    }
    assert!(found(&Catalog::default(), "file").is_empty());
}

#[test]
fn words_that_say_nothing_count_only_alone() {
    assert_eq!(first("what do I do to read the file"), "files/read_file");
    let catalog = catalog(1, &[("s", Arc::new(set(&[tool("about_me", "", &[]), tool("other", "Me.", &[])])))]);
    assert_eq!(found(&catalog, "about me"), ["s/about_me"]);
}

#[test]
fn only_the_selected_are_found_and_no_more_than_wanted() {
    let catalog = office();
    let only = Selection::all().of_servers([ServerName::new("tracker").unwrap()]);
    let hits = catalog.search("read file issue", 10, &only);
    assert!(!hits.is_empty() && hits.iter().all(|hit| hit.tool.server.as_str() == "tracker"));
    // Tools that are left out do not affect the scores of the others.
    let body = catalog.search("read_file read file visibility", 10, &only);
    assert!(body.iter().any(|hit| hit.tool.selector() == "tracker/add_comment"), "{body:?}");
    assert_eq!(catalog.search("issue", 2, &Selection::all()).len(), 2);
    assert!(catalog.search("issue", 0, &Selection::all()).is_empty());
}

#[test]
fn scores_fall_and_are_above_zero() {
    let hits = office().search("comment on an issue", 10, &Selection::all());
    assert!(hits.is_sorted_by(|one, next| one.score >= next.score) && hits.iter().all(|hit| hit.score > 0.0));
    assert_eq!(hits[0].tool.selector(), "tracker/add_comment");
}

#[test]
fn other_scripts_are_found() {
    let catalog = catalog(
        1,
        &[(
            "s",
            Arc::new(set(&[
                tool("t", "从本地磁盘读取一个文本文件的全部内容并以字符串形式返回给调用者", &[]),
                tool("u", "Öffnet die Tür.", &[]),
            ])),
        )],
    );
    assert_eq!(found(&catalog, "文件"), ["s/t"]);
    assert_eq!(found(&catalog, "tür öffnen"), ["s/u"]);
}

#[test]
fn a_server_that_did_not_change_is_not_indexed_again() {
    let (one, other) = (Arc::new(set(&[tool("a", "Ants.", &[])])), Arc::new(set(&[tool("b", "Bees.", &[])])));
    let before = catalog(1, &[("one", one.clone()), ("other", other)]);
    assert_eq!(before.index_bytes(), 0, "no search was made yet");
    before.index(&|| false);
    let part = std::ptr::from_ref(one.search_index(&|| true).unwrap());
    let bytes = before.index_bytes();
    assert!(bytes > 0);
    let after = catalog(2, &[("one", one.clone()), ("other", Arc::new(set(&[tool("c", "Cows.", &[])])))]);
    assert!((1..bytes).contains(&after.index_bytes()), "one part is there already");
    assert_eq!(found(&after, "cow"), ["other/c"]);
    assert_eq!(part, std::ptr::from_ref(one.search_index(&|| true).unwrap()));
    assert_eq!(found(&before, "bee"), ["other/b"], "the catalog before is as it was");
}

#[test]
fn indexing_can_be_stopped_and_a_search_completes_it() {
    let many: Vec<_> = (0..100).map(|n| tool(&format!("tool{n}"), "Does things.", &[])).collect();
    let catalog = catalog(1, &[("s", Arc::new(set(&many)))]);
    let asked = Cell::new(0);
    catalog.index(&|| {
        asked.set(asked.get() + 1);
        asked.get() > 10
    });
    assert_eq!((asked.get(), catalog.index_bytes()), (11, 0));
    assert_eq!(found(&catalog, "tool42"), ["s/tool42"]);
}

#[test]
fn a_huge_tool_is_read_in_part() {
    let about = "word ".repeat(1_000_000);
    let arguments: Vec<_> = (0..5_000).map(|n| (format!("argument{n}"), "x".repeat(1_000))).collect();
    let arguments: Vec<_> = arguments.iter().map(|(name, about)| (name.as_str(), about.as_str())).collect();
    let catalog = catalog(1, &[("s", Arc::new(set(&[tool("huge", &about, &arguments)])))]);
    assert_eq!(found(&catalog, "huge"), ["s/huge"]);
    assert!(catalog.index_bytes() < 64 * 1024, "{}", catalog.index_bytes());
    let _ = found(&catalog, &"word ".repeat(100_000));
}

#[test]
fn a_schema_of_any_shape_can_be_searched() {
    let deep = (0..30).fold(
        serde_json::json!({ "type": "string" }),
        |inner, n| serde_json::json!({ "type": "object", "properties": { format!("level{n}"): inner } }),
    );
    let odd = serde_json::json!({ "name": "odd", "inputSchema": {
        "properties": [1, 2], "items": 3, "anyOf": { "a": 1 }, "allOf": [null, { "properties": { "inner": 5 } }], "$defs": [],
    } });
    let deep = serde_json::json!({ "name": "deep", "inputSchema": deep });
    let catalog = catalog(1, &[("s", Arc::new(set(&[odd, deep])))]);
    assert_eq!(found(&catalog, "inner"), ["s/odd"]);
    assert_eq!(found(&catalog, "level29"), ["s/deep"]);
}

proptest! {
    #[test]
    fn no_query_is_too_strange(query in any::<String>()) {
        let catalog = office();
        let hits = catalog.search(&query, 10, &Selection::all());
        prop_assert!(hits.iter().all(|hit| hit.score.is_finite() && hit.score > 0.0));
        prop_assert_eq!(hits.len(), catalog.search(&query, 10, &Selection::all()).len());
    }

    #[test]
    fn a_tool_is_found_by_each_word_of_its_description(words in prop::collection::vec("[a-z]{3,12}", 1..20)) {
        let catalog = catalog(1, &[("s", Arc::new(set(&[tool("t", &words.join(" "), &[])])))]);
        for word in words.iter().filter(|word| !words::is_noise(word)) {
            prop_assert_eq!(found(&catalog, word), ["s/t"]);
        }
    }

    #[test]
    fn a_smaller_limit_returns_the_first_results_of_a_larger_one(query in queries(), limit in 0_usize..8) {
        let catalog = office();
        let all = catalog.search(&query, 100, &Selection::all());
        let some = catalog.search(&query, limit, &Selection::all());
        prop_assert_eq!(some.len(), limit.min(all.len()));
        for (one, other) in some.iter().zip(&all) {
            prop_assert_eq!((one.tool.selector(), one.score), (other.tool.selector(), other.score));
        }
    }

    #[test]
    fn a_search_of_some_servers_ranks_as_a_search_of_all(query in queries()) {
        let catalog = office();
        for server in ["files", "tracker"] {
            let only = Selection::all().of_servers([ServerName::new(server).unwrap()]);
            let within = catalog.search(&query, 100, &only);
            let all = catalog.search(&query, 100, &Selection::all());
            let of_it: Vec<_> = all.iter().filter(|hit| hit.tool.server.as_str() == server).collect();
            prop_assert!(within.len() >= of_it.len(), "{}", query);
            for (one, other) in of_it.into_iter().zip(&within) {
                prop_assert_eq!((one.tool.selector(), one.score), (other.tool.selector(), other.score));
            }
        }
    }

    #[test]
    fn a_query_ignores_case_and_separators(
        words in prop::collection::vec(prop::sample::select(WORDS.to_vec()), 1..4),
    ) {
        let catalog = office();
        let plain = found(&catalog, &words.join(" "));
        for written in [words.join(" ").to_uppercase(), words.join(", "), words.join("  "), words.join("/"), words.join("_")] {
            prop_assert_eq!(&found(&catalog, &written), &plain, "{}", written);
        }
    }
}

/// Words that the tools of the office know, and one that none of them knows.
const WORDS: &[&str] = &["read", "text", "file", "issue", "comment", "directory", "assignee", "write", "zebra"];

fn queries() -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(WORDS.to_vec()), 0..4).prop_map(|words| words.join(" "))
}
