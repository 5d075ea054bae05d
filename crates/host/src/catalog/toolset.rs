//! Holds the tools of one server, in the form in which the server listed them. The *entry* (the server's configuration)
//! filters them.
//!
//! A *pin* is the definition of a tool as it was first seen, or as a user approved it later. A tool that differs from
//! its pin is *mismatched*. It is in *quarantine*, and cannot be used, unless the entry asks only for a warning.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::Arc,
};

use sha2::{Digest as _, Sha256};

use crate::{
    catalog::{Listed, ListedTool, UnusableTool, search::LazyIndex},
    pins::{Cause, ListComparison, Pin, Quarantined, judge},
    spec::ServerSpec,
};

/// The tools of one server. Immutable; shared by every catalog that shows them.
#[derive(Debug, Default)]
pub(crate) struct ToolSet {
    /// The usable tools that the filter shows, in the server's order.
    pub(crate) tools: Box<[Arc<ListedTool>]>,
    /// Names that the entry's filter hides.
    pub(crate) hidden: Vec<String>,
    /// Tools that cannot be used.
    pub(crate) unusable: Vec<UnusableTool>,
    /// Tools that differ from their pins. Those in quarantine are not among [`Self::tools`].
    pub(crate) mismatched: Box<[MismatchedTool]>,
    /// The number of the version of the pins with which each tool was compared; `None` if the tools were not compared.
    pub(crate) generation: Option<u64>,
    /// The index that searches use.
    pub(crate) search_index: LazyIndex,
}

/// A tool that does not match its pin.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct MismatchedTool {
    pub(crate) listed: Arc<ListedTool>,
    pub(crate) cause: Cause,
    /// Whether the tool can be used nevertheless.
    pub(crate) usable: bool,
}

impl MismatchedTool {
    fn name(&self) -> &str {
        &self.listed.tool.name
    }

    pub(crate) fn to_quarantined(&self) -> Quarantined {
        Quarantined {
            tool: self.listed.tool.name.clone(),
            definition: self.listed.definition_hash(),
            cause: self.cause.clone(),
            usable: self.usable,
        }
    }
}

/// Compares the server's data, but no derived data, and not the order of the tools: some servers list theirs in another
/// order each time.
impl PartialEq for ToolSet {
    fn eq(&self, other: &Self) -> bool {
        have_same_items(&self.tools, &other.tools, |listed| listed.tool.name.as_str())
            && have_same_items(&self.hidden, &other.hidden, String::as_str)
            && have_same_items(&self.unusable, &other.unusable, |unusable| (&unusable.name, &unusable.why))
            && have_same_items(&self.mismatched, &other.mismatched, MismatchedTool::name)
    }
}

/// Returns whether both lists have the same items, in any order. `key` distinguishes the items of one list.
fn have_same_items<'a, T: PartialEq, K: Ord>(one: &'a [T], other: &'a [T], key: impl Fn(&'a T) -> K) -> bool {
    let sorted = |list: &'a [T]| {
        let mut items: Vec<&'a T> = list.iter().collect();
        items.sort_by_key(|&item| key(item));
        items
    };
    one.len() == other.len() && (one == other || sorted(one) == sorted(other))
}

impl ToolSet {
    /// Builds the set from a list. The server's configuration says which tools are shown, and in which form.
    pub(crate) fn new(listed: Listed, spec: &ServerSpec) -> Self {
        let (shown, hidden): (Vec<_>, Vec<_>) =
            listed.tools.into_iter().partition(|listed| spec.tools.shows(&listed.tool.name));
        let (mut tools, mut unusable) = (Vec::new(), listed.unusable);
        for tool in shown {
            match tool.shown_as(spec) {
                Ok(tool) => tools.push(Arc::new(tool)),
                Err(tool) => unusable.push(tool),
            }
        }
        Self {
            tools: tools.into(),
            hidden: hidden.into_iter().map(|listed| listed.tool.name).collect(),
            unusable,
            mismatched: Box::default(),
            generation: None,
            search_index: LazyIndex::default(),
        }
    }

    /// Returns the same set, with unchanged tools taken from `previous`, so that their derived data, such as schemas
    /// for providers, need not be computed again.
    pub(crate) fn reusing_unchanged(mut self, previous: &Self) -> Self {
        let previous_tools: HashMap<_, _> =
            previous.tools.iter().map(|previous_tool| (previous_tool.tool.name.as_str(), previous_tool)).collect();
        for tool in &mut self.tools {
            if let Some(previous_tool) = previous_tools.get(tool.tool.name.as_str())
                && *previous_tool == tool
            {
                tool.clone_from(previous_tool);
            }
        }
        self
    }

    /// Returns all tools that the server lists and the filter shows, usable or not.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<ListedTool>> {
        let quarantined = self.mismatched.iter().filter(|mismatched| !mismatched.usable);
        self.tools.iter().chain(quarantined.map(|mismatched| &mismatched.listed))
    }

    /// Returns the tool `name` in quarantine.
    pub(crate) fn quarantined_tool(&self, name: &str) -> Option<&MismatchedTool> {
        self.mismatched.iter().find(|mismatched| !mismatched.usable && mismatched.listed.tool.name == name)
    }

    /// Returns the mismatched tools that are new or differ from those of `previous`. There may be thousands, so each is
    /// compared only with the tool of its name.
    pub(crate) fn mismatched_since(&self, previous: &Self) -> Vec<&MismatchedTool> {
        let old_mismatches: HashMap<_, _> =
            previous.mismatched.iter().map(|mismatched| (mismatched.name(), mismatched)).collect();
        self.mismatched.iter().filter(|mismatched| old_mismatches.get(mismatched.name()) != Some(mismatched)).collect()
    }

    /// Returns the unusable tools that were usable in `previous`, or were unusable there for another reason.
    pub(crate) fn unusable_since(&self, previous: &Self) -> Vec<&UnusableTool> {
        let old_unusable: HashSet<_> = previous.unusable.iter().collect();
        self.unusable.iter().filter(|unusable| !old_unusable.contains(unusable)).collect()
    }

    /// Returns SHA-256 of all data about the tools, in the order of their names, to identify the list. A list with the
    /// same meaning but other bytes has another hash; the caller then compares the tools one by one.
    pub(crate) fn hash(&self) -> [u8; 32] {
        let mut tools: Vec<_> = self.all().map(|listed| &listed.tool).collect();
        tools.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        let mut hash = Sha256::new();
        for tool in tools {
            let schemas = [Some(&tool.input_schema), tool.output_schema.as_ref()];
            let texts = [Some(tool.name.as_str()), tool.title.as_deref(), tool.description.as_deref()];
            for part in texts.into_iter().chain(schemas.map(|schema| schema.map(|schema| schema.get()))) {
                // The length plus one, so that an absent text (0) differs from an empty one (1).
                hash.update(part.map_or(0, |part| part.len() as u64 + 1).to_be_bytes());
                hash.update(part.unwrap_or_default());
            }
            let hints = &tool.annotations;
            let title = hints.title.as_deref();
            hash.update(title.map_or(0, |title| title.len() as u64 + 1).to_be_bytes());
            hash.update(title.unwrap_or_default());
            for hint in [hints.read_only, hints.destructive, hints.idempotent, hints.open_world] {
                // 0 and 1 are the values of a hint, 2 is an absent one.
                hash.update([hint.map_or(2, u8::from)]);
            }
        }
        hash.finalize().into()
    }

    /// Checks the tools against `pins`. Slow for very many tools.
    pub(crate) fn check_against(&self, pins: &BTreeMap<String, Pin>) -> ListComparison {
        let listed: Vec<_> = self.all().map(|listed| (&listed.tool, listed.definition_hash())).collect();
        judge(&listed, &self.hidden, pins)
    }

    /// Returns this set with other mismatches: a tool is mismatched if `cause` returns a value for its name. `usable`
    /// says whether mismatched tools can be used nevertheless.
    pub(crate) fn with_mismatches(&self, cause: impl Fn(&str) -> Option<Cause>, usable: bool) -> Self {
        let (mut tools, mut mismatched) = (Vec::new(), Vec::new());
        for listed in self.all() {
            if let Some(cause) = cause(&listed.tool.name) {
                mismatched.push(MismatchedTool { listed: listed.clone(), cause, usable });
                if !usable {
                    continue;
                }
            }
            tools.push(listed.clone());
        }
        Self {
            tools: tools.into(),
            mismatched: mismatched.into(),
            generation: None,
            hidden: self.hidden.clone(),
            unusable: self.unusable.clone(),
            search_index: LazyIndex::default(),
        }
    }

    /// Returns the estimated tokens that the definitions of the usable tools take in a model's context.
    pub(crate) fn tokens(&self) -> usize {
        self.tools.iter().map(|listed| listed.tokens()).sum()
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use serde_json::value::RawValue;

    use super::*;
    use crate::{catalog::tests as made, link::decode, spec::Invisible};

    #[test]
    fn a_tool_whose_schema_could_hide_characters_and_cannot_be_parsed_is_unusable() {
        let listed = |name: &str, property: &str| {
            let written =
                format!(r#"{{"name":"{name}","inputSchema":{{"type":"object","properties":{{"x":{property}}}}}}}"#);
            let tool = decode::tool(&RawValue::from_string(written).unwrap()).unwrap();
            ListedTool::new(tool, Default::default())
        };
        for invisible in [Invisible::Remove, Invisible::Keep] {
            let tools = vec![
                listed("escaped", r#"{"maximum":1e999,"description":"a\u200bb"}"#),
                listed("raw", "{\"maximum\":1e999,\"description\":\"a\u{200b}b\"}"),
                listed("surrogate", r#"{"description":"a\u200bb\ud800"}"#),
                listed("large", r#"{"maximum":1e999,"description":"ab"}"#),
            ];
            let spec = ServerSpec { invisible: Some(invisible), ..ServerSpec::stdio("server", [""; 0]) };
            let set = ToolSet::new(Listed { tools, ..Listed::default() }, &spec);
            let unusable: Vec<_> = set.unusable.iter().map(|tool| &*tool.name).collect();
            assert_eq!(unusable, ["escaped", "raw", "surrogate"]);
            assert!(set.unusable.iter().all(|tool| tool.why.starts_with("its inputSchema cannot be read: ")));
            assert_eq!(set.tools.iter().map(|tool| &*tool.tool.name).collect::<Vec<_>>(), ["large"]);
        }
    }

    #[test]
    fn the_order_in_which_a_server_lists_its_tools_does_not_matter() {
        let set = |names: [&str; 3]| made::set(&names.map(|name| made::tool(name, "Does it.", &[])));
        assert!(set(["a", "b", "c"]) == set(["c", "a", "b"]));
        assert!(set(["a", "b", "c"]) != set(["c", "a", "d"]));
    }

    /// Checks the time as well: to compare each of 20,000 tools with all others would take a minute, on a thread that
    /// also serves other servers.
    #[test]
    fn each_unknown_server_is_compared_with_its_own_pins() {
        let listed = |changed: &str| {
            let tools: Vec<_> = (0..20_000)
                .map(|n| made::tool(&format!("tool{n}"), if changed == format!("tool{n}") { "other" } else { "" }, &[]))
                .collect();
            made::set(&tools).with_mismatches(|_| Some(Cause::TooMany), false)
        };
        let (before, same, other) = (listed(""), listed(""), listed("tool7"));
        let started = Instant::now();
        assert!(same.mismatched_since(&before).is_empty());
        let new = other.mismatched_since(&before);
        assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());
        assert_eq!(new.iter().map(|mismatched| mismatched.name()).collect::<Vec<_>>(), ["tool7"]);
        assert_eq!(same.mismatched_since(&ToolSet::default()).len(), 20_000);
    }
}
