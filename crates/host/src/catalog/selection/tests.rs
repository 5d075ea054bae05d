use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::catalog::{
    Catalog,
    tests::{catalog, set, tool},
};

const SERVERS: [&str; 3] = ["fs", "git", "my-fs"];
const TOOLS: [&str; 4] = ["list", "log", "read", "write"];

/// Each server with each tool.
fn whole_catalog() -> Catalog {
    let tools = Arc::new(set(&TOOLS.map(|name| tool(name, "Does it.", &[]))));
    catalog(1, &SERVERS.map(|server| (server, Arc::clone(&tools))))
}

/// A pattern as it is written, and what it means in Rust.
type Meaning = (&'static str, fn(&str, &str) -> bool);

const PATTERNS: [Meaning; 7] = [
    ("*", |_, _| true),
    ("*/*", |_, _| true),
    ("fs/*", |server, _| server == "fs"),
    ("read", |_, tool| tool == "read"),
    ("*/l*", |_, tool| tool.starts_with('l')),
    ("*fs/write", |server, tool| server.ends_with("fs") && tool == "write"),
    ("none/*", |_, _| false),
];

/// A step in the making of a selection.
#[derive(Clone, Copy, Debug)]
enum Step {
    OfServer(&'static str),
    WithoutServer(&'static str),
    Only(usize),
    Without(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let (server, pattern) = (prop::sample::select(SERVERS.to_vec()), 0..PATTERNS.len());
    let step = prop_oneof![
        server.clone().prop_map(Step::OfServer),
        server.prop_map(Step::WithoutServer),
        pattern.clone().prop_map(Step::Only),
        pattern.prop_map(Step::Without),
    ];
    prop::collection::vec(step, 0..5)
}

fn name(server: &str) -> ServerName {
    ServerName::new(server).unwrap()
}

fn selection_of(steps: &[Step]) -> Selection {
    let pattern = |at: usize| [PATTERNS[at].0.parse::<Pattern>().unwrap()];
    steps.iter().fold(Selection::all(), |selection, step| match *step {
        Step::OfServer(server) => selection.of_servers([name(server)]),
        Step::WithoutServer(server) => selection.without_servers([name(server)]),
        Step::Only(at) => selection.only(pattern(at)),
        Step::Without(at) => selection.without(pattern(at)),
    })
}

/// Whether a tool is chosen, by the documentation of [`Selection`].
fn is_chosen(steps: &[Step], server: &str, tool: &str) -> bool {
    let any = |of: &dyn Fn(&Step) -> Option<bool>| steps.iter().filter_map(of).any(|is_so| is_so);
    let all_or_any = |of: &dyn Fn(&Step) -> Option<bool>| steps.iter().filter_map(of).count() == 0 || any(of);
    let means = |at: usize| PATTERNS[at].1(server, tool);
    all_or_any(&|step| if let Step::OfServer(named) = step { Some(*named == server) } else { None })
        && !any(&|step| if let Step::WithoutServer(named) = step { Some(*named == server) } else { None })
        && all_or_any(&|step| if let Step::Only(at) = step { Some(means(*at)) } else { None })
        && !any(&|step| if let Step::Without(at) = step { Some(means(*at)) } else { None })
}

proptest! {
    #[test]
    fn a_tool_is_chosen_as_the_documentation_says(steps in steps()) {
        let (catalog, selection) = (whole_catalog(), selection_of(&steps));
        for tool in catalog.tools() {
            let expected = is_chosen(&steps, tool.server.as_str(), &tool.tool().name);
            prop_assert_eq!(selection.has(tool), expected, "{} {:?}", tool.selector(), steps);
        }
    }

    #[test]
    fn the_part_of_a_selection_within_a_server_selects_the_same_tools(steps in steps()) {
        let (catalog, selection) = (whole_catalog(), selection_of(&steps));
        for server in SERVERS.map(name) {
            let within = selection.restricted_to(server.clone());
            for tool in catalog.tools() {
                let expected = tool.server == server && selection.has(tool);
                prop_assert_eq!(within.has(tool), expected, "{} within {}", tool.selector(), server);
            }
        }
    }

    #[test]
    fn a_selection_of_no_tools_stays_empty_whatever_is_added(steps in steps()) {
        let nothing = Selection { selects_nothing: true, ..selection_of(&steps) };
        prop_assert_eq!(whole_catalog().tools().filter(|tool| nothing.has(tool)).count(), 0);
        for server in SERVERS.map(name) {
            prop_assert!(!nothing.may_have(&server) && !nothing.restricted_to(server.clone()).may_have(&server));
        }
    }
}

#[test]
fn a_name_as_a_model_sees_it_chooses_one_tool() {
    let catalog = whole_catalog();
    let chosen = |selection: &Selection| {
        catalog.tools().filter(|tool| selection.has(tool)).map(|tool| tool.selector()).collect::<Vec<_>>()
    };
    for (written, expected) in [
        ("mcp__fs__read", &["fs/read"][..]),
        ("mcp__my-fs__read", &["my-fs/read"]),
        ("fs/read", &["fs/read"]),
        ("mcp__git__*", &["git/list", "git/log", "git/read", "git/write"]),
        ("FS/read", &[]),
        ("mcp__fs", &["fs/list", "fs/log", "fs/read", "fs/write"]),
        ("mcp__f", &[]),
    ] {
        let pattern = || [written.parse::<Pattern>().unwrap()];
        assert_eq!(chosen(&Selection::all().only(pattern())), expected, "{written}");
        let rest = chosen(&Selection::all().without(pattern()));
        assert_eq!(rest.len(), SERVERS.len() * TOOLS.len() - expected.len(), "{written}: {rest:?}");
    }
}

#[test]
fn a_list_of_no_servers_or_patterns_selects_no_tools() {
    let count = |selection: &Selection| whole_catalog().tools().filter(|tool| selection.has(tool)).count();
    assert_eq!(count(&Selection::all().of_servers([])), 0);
    assert_eq!(count(&Selection::all().only([])), 0);
    assert_eq!(count(&Selection::all().without_servers([]).without([])), SERVERS.len() * TOOLS.len());
    assert_eq!(count(&Selection::all().of_servers([]).of_servers([name("fs")])), TOOLS.len());
}
