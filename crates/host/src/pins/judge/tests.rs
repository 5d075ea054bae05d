use std::time::{Duration, Instant};

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::catalog::{ToolSet, tests as made};

fn pinned(set: &ToolSet) -> BTreeMap<String, Pin> {
    let pin = |tool: &Tool| {
        let text = canonical_definition(tool);
        let definition = Definition { hash: DefinitionHash::of(&text), text };
        (tool.name.clone(), Pin { definition, renamed_to: None })
    };
    set.all().map(|listed| pin(&listed.tool)).collect()
}

/// Each look-up takes the same short time; comparing each new tool with all removed ones would take a minute.
#[test]
fn thousands_of_new_tools_are_held_against_thousands_that_have_gone() {
    const TOOLS: usize = 30_000;
    let tools: Vec<_> = (0..TOOLS).map(|n| made::tool(&format!("old{n}"), &format!("{n:08}"), &[])).collect();
    let before = pinned(&made::set(&tools));
    let mut gone = MissingPins::new(&[], &[], &before, TOOLS);
    let rest: Vec<_> =
        (0..TOOLS).map(|n| NamelessDefinition::of(&format!("{{\"description\":\"{:08}\"}}", n + TOOLS))).collect();
    let started = Instant::now();
    assert!(rest.iter().all(|says| gone.position_of_same(&says.body).is_none()));
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
}

#[test]
fn a_removed_tool_is_renamed_to_at_most_one_new_tool() {
    let before = pinned(&made::set(&[made::tool("a", "the same", &[]), made::tool("b", "the same", &[])]));
    let now = ["x", "y", "z"].map(|name| made::tool(name, "the same", &[]));
    let judged = made::set(&now).check_against(&before);
    let was: Vec<_> = judged.mismatches.iter().map(|strange| (strange.tool.as_str(), strange.cause.clone())).collect();
    let renamed = |was: &str| Cause::Renamed { was: was.to_owned() };
    assert_eq!(was, [("x", renamed("a")), ("y", renamed("b"))]);
    assert_eq!(judged.new.len(), 1);
}

/// Forty different words, of which the first `others` differ from those of the other tool.
fn forty_words(others: usize) -> String {
    (0..40).map(|n| if n < others { format!("other{n}") } else { format!("word{n}") }).collect::<Vec<_>>().join(" ")
}

fn compare(set: &[Value], before: &BTreeMap<String, Pin>) -> (Vec<String>, Vec<(String, Cause)>) {
    let judged = made::set(set).check_against(before);
    let new = judged.new.into_iter().map(|(name, _)| name).collect();
    (new, judged.mismatches.into_iter().map(|strange| (strange.tool, strange.cause)).collect())
}

#[test]
fn a_tool_under_another_name_is_known_by_most_of_its_words() {
    let before = pinned(&made::set(&[made::tool("old", &forty_words(0), &[])]));
    for (others, is_renamed) in [(0, true), (1, true), (3, true), (4, false), (10, false), (40, false)] {
        let (new, strange) = compare(&[made::tool("new", &forty_words(others), &[])], &before);
        let renamed = vec![("new".to_owned(), Cause::Renamed { was: "old".to_owned() })];
        assert_eq!((strange == renamed, new.is_empty()), (is_renamed, is_renamed), "{others}: {new:?} {strange:?}");
    }
    // The case and the order of words do not matter, nor does a title.
    let mut shouted = made::tool("new", &forty_words(0).to_uppercase(), &[]);
    shouted["title"] = json!("A wholly different title");
    assert_eq!(compare(&[shouted], &before).1.len(), 1);
    let turned = forty_words(0).split(' ').rev().collect::<Vec<_>>().join(" ");
    assert_eq!(compare(&[made::tool("new", &turned, &[])], &before).1.len(), 1);
}

#[test]
fn a_tool_that_is_still_there_or_hidden_or_was_renamed_has_not_gone() {
    let (old, new) = (made::tool("old", "the same", &[]), made::tool("new", "the same", &[]));
    let mut before = pinned(&made::set(std::slice::from_ref(&old)));
    assert_eq!(compare(&[old.clone(), new.clone()], &before).0, ["new"], "both are listed");
    let tools = made::set(std::slice::from_ref(&new));
    let listed: Vec<_> = tools.all().map(|listed| (&listed.tool, listed.definition_hash())).collect();
    let judged = judge(&listed, &["old".to_owned()], &before);
    assert_eq!((judged.new.len(), judged.mismatches.len()), (1, 0), "the entry's own filter hides it");
    assert_eq!(judge(&listed, &[], &before).mismatches.len(), 1);
    before.get_mut("old").unwrap().renamed_to = Some("elsewhere".to_owned());
    assert_eq!(compare(&[new], &before).0, ["new"], "it is another tool already");
}

#[test]
fn beyond_the_most_pins_no_tool_is_trusted_at_first_sight() {
    let pin = pinned(&made::set(&[made::tool("p", "pinned", &[])])).remove("p").unwrap();
    let pins = |number: usize| (0..number).map(|n| (format!("pin{n:06}"), pin.clone())).collect::<BTreeMap<_, _>>();
    let tools = ["x", "y"].map(|name| made::tool(name, &format!("a new tool called {name}"), &[]));
    for (pinned, new) in [(0, 2), (MAX_PINS - 2, 2), (MAX_PINS - 1, 1), (MAX_PINS, 0), (MAX_PINS + 1, 0)] {
        let (found, strange) = compare(&tools, &pins(pinned));
        let too_many = strange.iter().filter(|(_, cause)| *cause == Cause::TooMany).count();
        assert_eq!((found.len(), too_many), (new, 2 - new), "with {pinned} pins");
    }
}

/// Lists of a few tools, each with one of a few descriptions.
fn lists() -> impl Strategy<Value = Vec<(String, &'static str)>> {
    let says = prop::sample::select(vec!["reads what is in a file", "sends a letter by post", "counts all the beans"]);
    prop::collection::btree_map("[a-e]", says, 0..5).prop_map(|tools| tools.into_iter().collect())
}

fn made_of(list: &[(String, &'static str)]) -> Vec<Value> {
    list.iter().map(|(name, says)| made::tool(name, says, &[])).collect()
}

proptest! {
    #[test]
    fn every_tool_is_as_pinned_or_strange_or_new_and_only_one_of_these(first in lists(), second in lists()) {
        let before = pinned(&made::set(&made_of(&first)));
        let (first, second): (BTreeMap<_, _>, BTreeMap<_, _>) =
            (first.into_iter().collect(), second.into_iter().collect());
        let listed: Vec<_> = second.clone().into_iter().collect();
        let (new, strange) = compare(&made_of(&listed), &before);
        let mut became = BTreeSet::new();
        for (name, says) in &second {
            let cause = strange.iter().find(|(tool, _)| tool == name).map(|(_, cause)| cause);
            match (first.get(name), cause) {
                (Some(was), None) => prop_assert_eq!(was, says),
                (Some(was), Some(cause)) => {
                    prop_assert_ne!(was, says);
                    prop_assert_eq!(cause, &Cause::Changed);
                }
                (None, Some(Cause::Renamed { was })) => {
                    prop_assert!(first.contains_key(was) && !second.contains_key(was), "{} has not gone", was);
                    prop_assert_eq!(&first[was], says);
                    prop_assert!(became.insert(was.clone()), "{} became two tools", was);
                }
                (None, Some(cause)) => prop_assert!(false, "{} {:?}", name, cause),
                (None, None) => prop_assert!(new.contains(name)),
            }
        }
        // No removed tool remains unmatched while a new tool has the same description.
        for name in &new {
            let left = first.iter().filter(|(gone, says)| {
                !second.contains_key(*gone) && !became.contains(*gone) && **says == second[name]
            });
            prop_assert_eq!(left.count(), 0, "{}", name);
        }
        prop_assert_eq!(new.len() + strange.len(), second.iter().filter(|(name, says)| first.get(*name) != Some(says)).count());
    }
}
