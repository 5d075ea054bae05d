//! Suspicious parts of tool definitions that a user should look at. They are warnings, and no defence.
//!
//! A text that misleads a model can be worded in more ways than any list knows, and harmless text can look the same: a
//! finding blocks nothing, and the absence of findings proves nothing. Findings are shown where a user decides.
//!
//! The search looks for four things: text that addresses the model instead of describing the tool; invisible
//! characters; names that look like others (Unicode Technical Standard 39, section 4); the name of another server's
//! tool.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet, btree_map::Entry},
    fmt::Write as _,
};

use serde::Serialize;
use serde_json::Value;
use unicode_security::confusable_detection::skeleton;

use crate::{
    catalog::{Catalog, CatalogTool},
    definition::canonical,
    mcp::Tool,
    spec::ServerName,
    text,
};

mod phrases;

/// The most findings that are reported for one tool.
const MAX_FINDINGS: usize = 20;

/// The most bytes of one text that are searched.
const MOST_BYTES: usize = 256 * 1024;

/// The approximate maximum of bytes of a place.
const MOST_PLACE: usize = 300;

/// The length from which a tool's name is recognised in another server's text without the name of its server.
const TELLING_NAME: usize = 6;

/// A part of a definition that a user should look at.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[non_exhaustive]
pub struct Finding {
    /// The kind of finding.
    pub kind: FindingKind,
    /// The place in the definition, such as `description` or `inputSchema.properties.path.description`. Safe to print.
    pub place: String,
    /// A description of the text there. Safe to print.
    pub what: String,
}

/// The kind of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum FindingKind {
    /// Text that instructs a model.
    Instructions,
    /// Invisible characters.
    Hidden,
    /// A name that looks like another one.
    LookAlike,
    /// The name of another server's tool.
    OtherServer,
}

/// Findings in the tools of a catalog, by server and tool.
pub type Findings = BTreeMap<(ServerName, String), Vec<Finding>>;

/// Returns the findings in one definition. `definition` is a tool as JSON, as [`Tool`] serialises it or a pin stores
/// it.
#[must_use]
pub fn in_definition(definition: &Value) -> Vec<Finding> {
    let mut findings = Vec::new();
    each_text(definition, "", &mut |place, found| {
        if findings.len() < MAX_FINDINGS {
            findings.extend(hidden(place, found));
            findings.extend(instructions(place, found));
        }
    });
    findings.truncate(MAX_FINDINGS);
    findings
}

/// Returns the findings in `tool`, without other tools.
#[must_use]
pub fn in_tool(tool: &Tool) -> Vec<Finding> {
    in_definition(&serde_json::from_str(&canonical(tool)).unwrap_or_default())
}

impl Catalog {
    /// Returns the findings in all tools, including those in quarantine. Reads each definition: too slow for every
    /// call.
    #[must_use]
    pub fn findings(&self) -> Findings {
        let all: Vec<&CatalogTool> = self.tools().chain(self.quarantined()).collect();
        let mut findings = Findings::new();
        let names = Names::of(&all);
        for tool in all {
            let found = names.findings(tool);
            if !found.is_empty() {
                findings.insert((tool.server.clone(), tool.tool().name.clone()), found);
            }
        }
        findings
    }

    /// Returns the findings in `tool`, compared with all other tools. Reads their names: too slow for every call.
    #[must_use]
    pub fn findings_of(&self, tool: &CatalogTool) -> Vec<Finding> {
        let all: Vec<&CatalogTool> = self.tools().chain(self.quarantined()).collect();
        Names::of(&all).findings(tool)
    }
}

/// Calls `visit` with each text of `value` and its place, names of members included.
fn each_text(value: &Value, place: &str, visit: &mut dyn FnMut(&str, &str)) {
    match value {
        Value::String(text) => visit(place, text),
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                each_text(item, &below(place, &format!("[{index}]")), visit);
            }
        }
        Value::Object(members) => {
            for (name, value) in members {
                let dot = if place.is_empty() { "" } else { "." };
                let place = below(place, &format!("{dot}{}", text::clip(name, 100)));
                visit(&place, name);
                each_text(value, &place, visit);
            }
        }
        _ => {}
    }
}

/// Returns the name of a place inside another. Deeply nested places keep only the beginning.
fn below<'a>(place: &'a str, part: &str) -> Cow<'a, str> {
    if place.len() >= MOST_PLACE { Cow::Borrowed(place) } else { Cow::Owned(format!("{place}{part}")) }
}

fn start_of(text: &str) -> &str {
    &text[..text.floor_char_boundary(MOST_BYTES)]
}

fn finding(kind: FindingKind, place: &str, what: &str) -> Finding {
    let safe = |text: &str| text::for_line(&text::clip(text, 400)).into_owned();
    Finding { kind, place: safe(place), what: safe(what) }
}

fn instructions(place: &str, found: &str) -> Option<Finding> {
    let phrase = phrases::first_in(start_of(found))?;
    Some(finding(FindingKind::Instructions, place, &format!("it speaks to the model: “{phrase}”")))
}

fn hidden(place: &str, found: &str) -> Option<Finding> {
    let found = start_of(found);
    let visible = text::for_terminal(found);
    if *visible == *found {
        return None;
    }
    // The characters that the sanitiser escapes, other than plain line ends.
    let invisible: Vec<char> = found.chars().filter(|c| is_invisible(*c)).collect();
    if invisible.is_empty() {
        return None;
    }
    let kinds: BTreeSet<char> = invisible.iter().copied().collect();
    let mut what = match invisible.len() {
        1 => "it holds a character that is not seen:".to_owned(),
        many => format!("it holds {many} characters that are not seen:"),
    };
    for c in kinds.iter().take(5) {
        // Writing to a string cannot fail.
        let _ = write!(what, " U+{:04X}", u32::from(*c));
    }
    if kinds.len() > 5 {
        what += " …";
    }
    // Tag characters are an invisible copy of ASCII (Unicode, section 23.9): decode the hidden text.
    let tags = invisible.iter().filter_map(|c| char::from_u32(u32::from(*c).checked_sub(0xe0000)?));
    let spelled: String = tags.filter(|c| (' '..='~').contains(c)).take(200).collect();
    if !spelled.is_empty() {
        let _ = write!(what, "; they spell “{spelled}”");
    }
    Some(finding(FindingKind::Hidden, place, &what))
}

/// Returns whether the sanitiser escapes this character, other than line ends and tabs.
fn is_invisible(c: char) -> bool {
    let mut bytes = [0; 4];
    let alone: &str = c.encode_utf8(&mut bytes);
    !matches!(c, '\n' | '\r' | '\t') && matches!(text::for_terminal(alone), Cow::Owned(_))
}

/// Adds to each finding of hidden characters whether models and clients get them. `shown` has the findings in the shown
/// definition.
fn say_whether_shown(found: &mut [Finding], shown: &[Finding]) {
    for finding in found.iter_mut().filter(|finding| finding.kind == FindingKind::Hidden) {
        let is_shown = shown.iter().any(|left| left.kind == FindingKind::Hidden && left.place == finding.place);
        finding.what += match is_shown {
            true => "; models and clients get them as they are",
            false => "; they are left out of what models and clients get",
        };
    }
}

/// The names of all tools and servers, by look and by spelling.
struct Names<'a> {
    /// By look: the names with that look, each with a server that has the tool.
    tools: BTreeMap<String, BTreeMap<&'a str, &'a ServerName>>,
    servers: BTreeMap<String, BTreeSet<&'a str>>,
    /// By the text that names a tool: the tool.
    written: BTreeMap<String, &'a CatalogTool>,
    /// The names of each server's own tools.
    own: BTreeSet<(&'a str, &'a str)>,
}

impl<'a> Names<'a> {
    fn of(all: &[&'a CatalogTool]) -> Self {
        let mut names =
            Self { tools: BTreeMap::new(), servers: BTreeMap::new(), written: BTreeMap::new(), own: BTreeSet::new() };
        let mut ambiguous = BTreeSet::new();
        for tool in all {
            let (server, name) = (&tool.server, tool.tool().name.as_str());
            names.tools.entry(look(name)).or_default().entry(name).or_insert(server);
            names.servers.entry(look(server.as_str())).or_default().insert(server.as_str());
            names.own.insert((server.as_str(), name));
            names.written.insert(tool.selector(), tool);
            names.written.insert(tool.name.clone(), tool);
            if is_distinctive(name) {
                match names.written.entry(name.to_owned()) {
                    Entry::Vacant(free) => drop(free.insert(tool)),
                    Entry::Occupied(taken) if taken.get().server != *server => {
                        ambiguous.insert(name.to_owned());
                    }
                    Entry::Occupied(_) => {}
                }
            }
        }
        // A name that several servers use identifies no tool.
        names.written.retain(|name, _| !ambiguous.contains(name));
        names
    }

    fn findings(&self, tool: &CatalogTool) -> Vec<Finding> {
        let read = |tool: &Tool| serde_json::from_str(&canonical(tool)).unwrap_or_default();
        let definition = read(tool.as_listed());
        let mut found = in_definition(&definition);
        if found.iter().any(|finding| finding.kind == FindingKind::Hidden) {
            say_whether_shown(&mut found, &in_definition(&read(tool.tool())));
        }
        found.extend(self.like(tool));
        found.extend(self.named_in(tool, &definition));
        found.truncate(MAX_FINDINGS);
        found
    }

    /// Returns findings for other names that look like that of `tool`.
    fn like(&self, tool: &CatalogTool) -> Vec<Finding> {
        let mut findings = Vec::new();
        let name = tool.tool().name.as_str();
        let alike = self.tools.get(&look(name)).into_iter().flatten().find(|(other, _)| **other != name);
        if let Some((other, server)) = alike {
            let what = format!("{name} looks like {other} of {server}");
            findings.push(finding(FindingKind::LookAlike, "name", &what));
        }
        let server = tool.server.as_str();
        let alike = self.servers.get(&look(server)).into_iter().flatten().find(|other| **other != server);
        if let Some(other) = alike {
            let what = format!("the server {server} looks like the server {other}");
            findings.push(finding(FindingKind::LookAlike, "server", &what));
        }
        findings
    }

    /// Returns findings for tools of other servers that the definition of `tool` names.
    fn named_in(&self, tool: &CatalogTool, definition: &Value) -> Vec<Finding> {
        let mut findings = Vec::new();
        let server = tool.server.as_str();
        each_text(definition, "", &mut |place, found| {
            if place == "name" || findings.len() >= MAX_FINDINGS {
                return;
            }
            let is_of_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '/' | '.');
            for word in start_of(found).split(|c: char| !is_of_name(c)).map(|word| word.trim_matches(['.', '/', '-'])) {
                if let Some(meant) = self.written.get(word)
                    && meant.server != tool.server
                    && !self.own.contains(&(server, word))
                {
                    let what = format!("it names {}, a tool of another server", meant.selector());
                    let finding = finding(FindingKind::OtherServer, place, &what);
                    if !findings.contains(&finding) {
                        findings.push(finding);
                    }
                }
            }
        });
        findings
    }
}

/// Returns the look of a name: names with the same look can be confused.
fn look(name: &str) -> String {
    skeleton(name).collect::<String>().to_lowercase().replace('-', "_")
}

/// Returns whether a name is too distinctive to be a word of a sentence.
fn is_distinctive(name: &str) -> bool {
    let mut inner = name.chars().skip(1);
    name.len() >= TELLING_NAME && inner.any(|c| matches!(c, '_' | '-' | '.' | '/') || c.is_uppercase())
}

#[cfg(test)]
mod tests;
