//! Holds a list of tools against the pins. Pure.

use std::collections::{BTreeMap, BTreeSet};

use super::{Cause, Definition, MAX_PINS, Pin, Strange};
use crate::catalog::definition::{DefinitionHash, canonical};
use crate::mcp::Tool;

/// How much of their words two definitions must share to be nearly the same.
const NEARLY: f64 = 0.85;

/// Pairs of a tool that has gone and one that is new which are compared word by word.
const MOST_PAIRS: usize = 10_000;

/// What was found.
#[derive(Debug, Default)]
pub(crate) struct Judged {
    /// Never seen, and like nothing that has gone.
    pub(crate) new: Vec<(String, Definition)>,
    pub(crate) strange: Vec<Strange>,
}

/// Holds `listed` against `pins`; `hidden` are names that the server lists too and that nobody is shown.
pub(crate) fn judge(listed: &[(&Tool, DefinitionHash)], hidden: &[String], pins: &BTreeMap<String, Pin>) -> Judged {
    let mut judged = Judged::default();
    let mut unseen = Vec::new();
    for (tool, hash) in listed {
        match pins.get(&tool.name) {
            Some(pin) if pin.definition.hash == *hash => {}
            Some(_) => judged.strange.push(strange(tool, *hash, Cause::Changed)),
            None => unseen.push((*tool, *hash)),
        }
    }
    let mut gone = Gone::new(listed, hidden, pins, unseen.len());
    for (tool, hash) in unseen {
        match gone.like(tool) {
            Some(was) => judged.strange.push(strange(tool, hash, Cause::Renamed { was })),
            None if pins.len() + judged.new.len() >= MAX_PINS => {
                judged.strange.push(strange(tool, hash, Cause::TooMany));
            }
            None => judged.new.push((tool.name.clone(), Definition { hash, text: canonical(tool) })),
        }
    }
    judged
}

fn strange(tool: &Tool, hash: DefinitionHash, cause: Cause) -> Strange {
    let definition = Definition { hash, text: canonical(tool) };
    Strange { tool: tool.name.clone(), definition, cause }
}

/// The pinned tools that are no longer listed. Each of them can have become one other.
struct Gone<'a> {
    tools: Vec<(&'a str, Says)>,
    /// Whether there are few enough to compare them word by word.
    closely: bool,
}

impl<'a> Gone<'a> {
    fn new(
        listed: &[(&Tool, DefinitionHash)],
        hidden: &[String],
        pins: &'a BTreeMap<String, Pin>,
        unseen: usize,
    ) -> Self {
        if unseen == 0 {
            return Self { tools: Vec::new(), closely: false };
        }
        let here: BTreeSet<&str> =
            listed.iter().map(|(tool, _)| tool.name.as_str()).chain(hidden.iter().map(String::as_str)).collect();
        let gone = pins.iter().filter(|(name, pin)| pin.renamed_to.is_none() && !here.contains(name.as_str()));
        let tools: Vec<_> = gone.map(|(name, pin)| (name.as_str(), Says::of(&pin.definition.text))).collect();
        let closely = tools.len().saturating_mul(unseen) <= MOST_PAIRS;
        Self { tools, closely }
    }

    /// Takes the tool that `tool` says the same as.
    fn like(&mut self, tool: &Tool) -> Option<String> {
        if self.tools.is_empty() {
            return None;
        }
        let says = Says::of(&canonical(tool));
        let same = self.tools.iter().position(|(_, gone)| gone.body == says.body);
        let found = same.or_else(|| {
            let nearly = |(_, gone): &(&str, Says)| gone.likeness(&says) >= NEARLY;
            if self.closely { self.tools.iter().position(nearly) } else { None }
        })?;
        Some(self.tools.swap_remove(found).0.to_owned())
    }
}

/// What a definition says beside its names.
struct Says {
    body: String,
    words: BTreeSet<String>,
}

impl Says {
    fn of(definition: &str) -> Self {
        let body = match serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(definition) {
            Ok(mut members) => {
                members.remove("name");
                members.remove("title");
                serde_json::Value::Object(members).to_string()
            }
            Err(_) => definition.to_owned(),
        };
        let words = body.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
        let words = words.map(str::to_lowercase).collect();
        Self { body, words }
    }

    /// The share of their words that both have, from 0 to 1.
    #[expect(clippy::cast_precision_loss, reason = "a definition has no 2^52 words")]
    fn likeness(&self, other: &Self) -> f64 {
        let both = self.words.intersection(&other.words).count();
        let all = self.words.len() + other.words.len() - both;
        if all == 0 { 1.0 } else { both as f64 / all as f64 }
    }
}
