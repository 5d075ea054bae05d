//! Compares a list of tools with the pins (the definitions that these tools had when they were first seen or approved),
//! without side effects.
//!
//! A tool that has changed, or that looks like a removed tool under a new name, is a *mismatch*, and waits for a user's
//! approval. Any other new tool is pinned.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use super::{Cause, Definition, MAX_PINS, Pin, PinMismatch};
use crate::{
    definition::{DefinitionHash, canonical_definition},
    mcp::Tool,
};

/// The minimum share of common words for two definitions to be similar.
const MIN_SIMILARITY: f64 = 0.85;

/// The most pairs of a removed and a new tool that are compared word by word.
const MAX_PAIRS: usize = 10_000;

/// The result of a comparison.
#[derive(Debug, Default)]
pub(crate) struct ListComparison {
    /// The new tools that do not resemble a removed one.
    pub(crate) new: Vec<(String, Definition)>,
    pub(crate) mismatches: Vec<PinMismatch>,
}

/// Compares `listed` with `pins`. `hidden` are the names of listed tools that the filter in the server's configuration
/// hides.
pub(crate) fn judge(
    listed: &[(&Tool, DefinitionHash)],
    hidden: &[String],
    pins: &BTreeMap<String, Pin>,
) -> ListComparison {
    let mut comparison = ListComparison::default();
    let mut unpinned = Vec::new();
    for (tool, hash) in listed {
        match pins.get(&tool.name) {
            Some(pin) if pin.definition.hash == *hash => {}
            Some(_) => comparison.mismatches.push(mismatch(tool, *hash, Cause::Changed)),
            None => unpinned.push((*tool, *hash)),
        }
    }
    let mut missing = MissingPins::new(listed, hidden, pins, unpinned.len());
    for (tool, hash) in unpinned {
        match missing.take_similar(tool) {
            Some(was) => comparison.mismatches.push(mismatch(tool, hash, Cause::Renamed { was })),
            None if pins.len() + comparison.new.len() >= MAX_PINS => {
                comparison.mismatches.push(mismatch(tool, hash, Cause::TooMany));
            }
            None => comparison.new.push((tool.name.clone(), Definition { hash, text: canonical_definition(tool) })),
        }
    }
    comparison
}

fn mismatch(tool: &Tool, hash: DefinitionHash, cause: Cause) -> PinMismatch {
    let definition = Definition { hash, text: canonical_definition(tool) };
    PinMismatch { tool: tool.name.clone(), definition, cause }
}

/// The pinned tools that are no longer listed. Each may have been renamed to one new tool.
struct MissingPins<'a> {
    /// The names of the tools and the words of their definitions; `None` for a tool that was matched with a new tool.
    tools: Vec<Option<(&'a str, BTreeSet<String>)>>,
    /// The positions of the tools by definition. A look-up is quick, even with thousands of missing and of new tools.
    by_definition: HashMap<String, VecDeque<usize>>,
    /// Whether there are few enough tools to compare their definitions word by word.
    compares_words: bool,
}

impl<'a> MissingPins<'a> {
    fn new(
        listed: &[(&Tool, DefinitionHash)],
        hidden: &[String],
        pins: &'a BTreeMap<String, Pin>,
        unpinned_count: usize,
    ) -> Self {
        if unpinned_count == 0 {
            return Self { tools: Vec::new(), by_definition: HashMap::new(), compares_words: false };
        }
        let listed_names: BTreeSet<&str> =
            listed.iter().map(|(tool, _)| tool.name.as_str()).chain(hidden.iter().map(String::as_str)).collect();
        // A tool that a user allowed to be renamed is not missing: it is listed under its new name.
        let missing_pins =
            pins.iter().filter(|(name, pin)| pin.renamed_to.is_none() && !listed_names.contains(name.as_str()));
        let (mut tools, mut by_definition) = (Vec::new(), HashMap::<_, VecDeque<_>>::new());
        for (name, pin) in missing_pins {
            let NamelessDefinition { body, words } = NamelessDefinition::of(&pin.definition.text);
            by_definition.entry(body).or_default().push_back(tools.len());
            tools.push(Some((name.as_str(), words)));
        }
        let compares_words = tools.len().saturating_mul(unpinned_count) <= MAX_PAIRS;
        Self { tools, by_definition, compares_words }
    }

    /// Takes the missing tool with the same definition as `tool`, or else a missing tool with a similar definition.
    /// Returns the name of the missing tool.
    fn take_similar(&mut self, tool: &Tool) -> Option<String> {
        if self.tools.is_empty() {
            return None;
        }
        let new_definition = NamelessDefinition::of(&canonical_definition(tool));
        let position = self.position_of_same(&new_definition.body).or_else(|| {
            let is_similar =
                |(_, words): &(&str, BTreeSet<String>)| similarity(words, &new_definition.words) >= MIN_SIMILARITY;
            if self.compares_words {
                self.tools.iter().position(|missing| missing.as_ref().is_some_and(is_similar))
            } else {
                None
            }
        })?;
        self.tools[position].take().map(|(name, _)| name.to_owned())
    }

    /// Returns the position of the first tool with exactly this definition that has not been taken yet.
    fn position_of_same(&mut self, body: &str) -> Option<usize> {
        let positions = self.by_definition.get_mut(body)?;
        while let Some(position) = positions.pop_front() {
            if self.tools[position].is_some() {
                return Some(position);
            }
        }
        None
    }
}

/// A definition without its names, so that a renamed tool can be recognised.
struct NamelessDefinition {
    /// The definition as JSON.
    body: String,
    /// All words in the definition, in lower case.
    words: BTreeSet<String>,
}

impl NamelessDefinition {
    fn of(definition: &str) -> Self {
        let body = match serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(definition) {
            Ok(mut members) => {
                members.shift_remove("name");
                members.shift_remove("title");
                serde_json::Value::Object(members).to_string()
            }
            // A definition that cannot be parsed is compared whole, with its names.
            Err(_) => definition.to_owned(),
        };
        let words = body.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
        let words = words.map(str::to_lowercase).collect();
        Self { body, words }
    }
}

/// Returns the share of words that both have, from 0 to 1.
#[expect(clippy::cast_precision_loss, reason = "a definition has fewer than 2^52 words")]
fn similarity(first: &BTreeSet<String>, second: &BTreeSet<String>) -> f64 {
    let common = first.intersection(second).count();
    let total = first.len() + second.len() - common;
    if total == 0 { 1.0 } else { common as f64 / total as f64 }
}

#[cfg(test)]
mod tests;
