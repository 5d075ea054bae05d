//! Finds suspicious parts of tool definitions that a user should look at. These findings are warnings, not a defence.
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
    definition::canonical_definition,
    mcp::Tool,
    spec::ServerName,
    text,
};

mod phrases;

/// The most findings that are reported for one tool.
const MAX_FINDINGS: usize = 20;

/// The longest part of one text that is searched, in bytes.
const MAX_SEARCHED_BYTES: usize = 256 * 1024;

/// The approximate maximum length of a place in a definition, in bytes.
const MAX_PLACE_BYTES: usize = 300;

/// The longest part of a member's name in a place, in bytes.
const MAX_MEMBER_NAME_BYTES: usize = 100;

/// The maximum length of each text of a finding, in bytes.
const MAX_FINDING_BYTES: usize = 400;

/// The maximum number of different invisible characters that a finding lists.
const MAX_LISTED_CHARACTERS: usize = 5;

/// The maximum number of characters of a hidden text that a finding decodes.
const MAX_DECODED_CHARACTERS: usize = 200;

/// A tool's name must have at least this many bytes to be recognised alone, without the name of its server, in the text
/// of another server.
const MIN_DISTINCTIVE_NAME_BYTES: usize = 6;

/// A part of a definition that a user should look at.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[non_exhaustive]
pub struct Finding {
    /// The kind of finding.
    pub kind: FindingKind,
    /// The place in the definition, such as `description` or `inputSchema.properties.path.description`. Safe to print.
    pub place: String,
    /// A description of the text at that place. Safe to print.
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

/// Returns the findings in one definition. `definition` is a tool as JSON, as [`Tool`] serialises it or a pin (the
/// trusted definition of a tool) stores it.
#[must_use]
pub fn in_definition(definition: &Value) -> Vec<Finding> {
    let mut findings = Vec::new();
    for_each_text(definition, "", &mut |place, content| {
        if findings.len() < MAX_FINDINGS {
            findings.extend(find_hidden(place, content));
            findings.extend(find_instructions(place, content));
        }
    });
    findings.truncate(MAX_FINDINGS);
    findings
}

/// Returns the findings in `tool` alone, without a comparison with other tools.
#[must_use]
pub fn in_tool(tool: &Tool) -> Vec<Finding> {
    // A listed tool nests less deep than the parser allows, so this does not fail.
    in_definition(&serde_json::from_str(&canonical_definition(tool)).unwrap_or_default())
}

impl Catalog {
    /// Returns the findings in all tools, including those in quarantine, whose definitions have changed. Reads each
    /// definition: too slow for every call.
    #[must_use]
    pub fn findings(&self) -> Findings {
        let all_tools: Vec<&CatalogTool> = self.tools().chain(self.quarantined()).collect();
        let mut findings = Findings::new();
        let names = NameIndex::of(&all_tools);
        for tool in all_tools {
            let tool_findings = names.findings(tool);
            if !tool_findings.is_empty() {
                findings.insert((tool.server.clone(), tool.tool().name.clone()), tool_findings);
            }
        }
        findings
    }

    /// Returns the findings in `tool`, compared with all other tools. Reads their names: too slow for every call.
    #[must_use]
    pub fn findings_of(&self, tool: &CatalogTool) -> Vec<Finding> {
        let all_tools: Vec<&CatalogTool> = self.tools().chain(self.quarantined()).collect();
        NameIndex::of(&all_tools).findings(tool)
    }
}

/// Calls `visit` with each text of `value` and its place, names of members included.
fn for_each_text(value: &Value, place: &str, visit: &mut dyn FnMut(&str, &str)) {
    match value {
        Value::String(text) => visit(place, text),
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                for_each_text(item, &join_place(place, &format!("[{index}]")), visit);
            }
        }
        Value::Object(members) => {
            for (name, value) in members {
                let dot = if place.is_empty() { "" } else { "." };
                let place = join_place(place, &format!("{dot}{}", text::clip(name, MAX_MEMBER_NAME_BYTES)));
                visit(&place, name);
                for_each_text(value, &place, visit);
            }
        }
        _ => {}
    }
}

/// Returns the place `part` inside `place`. Deeply nested places keep only the beginning.
fn join_place<'a>(place: &'a str, part: &str) -> Cow<'a, str> {
    if place.len() >= MAX_PLACE_BYTES { Cow::Borrowed(place) } else { Cow::Owned(format!("{place}{part}")) }
}

fn searched_part(text: &str) -> &str {
    &text[..text.floor_char_boundary(MAX_SEARCHED_BYTES)]
}

fn new_finding(kind: FindingKind, place: &str, what: &str) -> Finding {
    let safe = |text: &str| text::for_line(&text::clip(text, MAX_FINDING_BYTES)).into_owned();
    Finding { kind, place: safe(place), what: safe(what) }
}

/// Returns a finding if the text has a phrase that addresses the model.
fn find_instructions(place: &str, content: &str) -> Option<Finding> {
    let phrase = phrases::find_phrase(searched_part(content))?;
    Some(new_finding(FindingKind::Instructions, place, &format!("it speaks to the model: “{phrase}”")))
}

/// Returns a finding if the text has invisible characters.
fn find_hidden(place: &str, content: &str) -> Option<Finding> {
    let content = searched_part(content);
    // Most texts have nothing to escape. Such a text is not searched character by character.
    if *text::for_terminal(content) == *content {
        return None;
    }
    let invisible: Vec<char> = content.chars().filter(|c| is_invisible(*c)).collect();
    if invisible.is_empty() {
        return None;
    }
    let distinct: BTreeSet<char> = invisible.iter().copied().collect();
    let mut what = match invisible.len() {
        1 => "it contains an invisible character:".to_owned(),
        many => format!("it contains {many} invisible characters:"),
    };
    for c in distinct.iter().take(MAX_LISTED_CHARACTERS) {
        // Writing to a string cannot fail.
        let _ = write!(what, " U+{:04X}", u32::from(*c));
    }
    if distinct.len() > MAX_LISTED_CHARACTERS {
        what += " …";
    }
    // Tag characters are an invisible copy of ASCII (Unicode, section 23.9): decode the hidden text.
    let decoded = invisible.iter().filter_map(|c| char::from_u32(u32::from(*c).checked_sub(0xe0000)?));
    let hidden_text: String = decoded.filter(|c| (' '..='~').contains(c)).take(MAX_DECODED_CHARACTERS).collect();
    if !hidden_text.is_empty() {
        let _ = write!(what, "; they spell “{hidden_text}”");
    }
    Some(new_finding(FindingKind::Hidden, place, &what))
}

/// Returns whether [`text::for_terminal`] escapes this character. Line ends and tabs do not count.
fn is_invisible(c: char) -> bool {
    let mut bytes = [0; 4];
    let as_text: &str = c.encode_utf8(&mut bytes);
    !matches!(c, '\n' | '\r' | '\t') && matches!(text::for_terminal(as_text), Cow::Owned(_))
}

/// Adds to each finding of hidden characters whether models and clients get these characters. `shown_findings` are the
/// findings in the definition that models and clients get.
fn add_whether_shown(findings: &mut [Finding], shown_findings: &[Finding]) {
    for finding in findings.iter_mut().filter(|finding| finding.kind == FindingKind::Hidden) {
        let is_shown =
            shown_findings.iter().any(|other| other.kind == FindingKind::Hidden && other.place == finding.place);
        finding.what += match is_shown {
            true => "; models and clients get them as they are",
            false => "; they are left out of what models and clients get",
        };
    }
}

/// The names of all tools and servers, to find those that look alike and those that a text mentions.
struct NameIndex<'a> {
    /// The names of tools by their [`look_alike_key`], each with one server that has the tool.
    tools: BTreeMap<String, BTreeMap<&'a str, &'a ServerName>>,
    /// The names of servers by their [`look_alike_key`].
    servers: BTreeMap<String, BTreeSet<&'a str>>,
    /// The tools by each text that names them without ambiguity.
    by_mention: BTreeMap<String, &'a CatalogTool>,
    /// All pairs of a server and the name of one of its tools.
    pairs: BTreeSet<(&'a str, &'a str)>,
}

impl<'a> NameIndex<'a> {
    fn of(all_tools: &[&'a CatalogTool]) -> Self {
        let mut names = Self {
            tools: BTreeMap::new(),
            servers: BTreeMap::new(),
            by_mention: BTreeMap::new(),
            pairs: BTreeSet::new(),
        };
        let mut ambiguous = BTreeSet::new();
        for tool in all_tools {
            let (server, name) = (&tool.server, tool.tool().name.as_str());
            names.tools.entry(look_alike_key(name)).or_default().entry(name).or_insert(server);
            names.servers.entry(look_alike_key(server.as_str())).or_default().insert(server.as_str());
            names.pairs.insert((server.as_str(), name));
            names.by_mention.insert(tool.selector(), tool);
            names.by_mention.insert(tool.name.clone(), tool);
            if is_distinctive(name) {
                match names.by_mention.entry(name.to_owned()) {
                    Entry::Vacant(vacant) => drop(vacant.insert(tool)),
                    Entry::Occupied(occupied) if occupied.get().server != *server => {
                        ambiguous.insert(name.to_owned());
                    }
                    Entry::Occupied(_) => {}
                }
            }
        }
        // A name that several servers use identifies no tool.
        names.by_mention.retain(|name, _| !ambiguous.contains(name));
        names
    }

    fn findings(&self, tool: &CatalogTool) -> Vec<Finding> {
        // As in `in_tool`, this does not fail.
        let to_json = |tool: &Tool| serde_json::from_str(&canonical_definition(tool)).unwrap_or_default();
        let definition = to_json(tool.as_listed());
        let mut findings = in_definition(&definition);
        if findings.iter().any(|finding| finding.kind == FindingKind::Hidden) {
            add_whether_shown(&mut findings, &in_definition(&to_json(tool.tool())));
        }
        findings.extend(self.look_alikes(tool));
        findings.extend(self.mentions(tool, &definition));
        findings.truncate(MAX_FINDINGS);
        findings
    }

    /// Returns findings for other names that look like that of `tool`.
    fn look_alikes(&self, tool: &CatalogTool) -> Vec<Finding> {
        let mut findings = Vec::new();
        let name = tool.tool().name.as_str();
        let look_alike = self.tools.get(&look_alike_key(name)).into_iter().flatten().find(|(other, _)| **other != name);
        if let Some((other, server)) = look_alike {
            let what = format!("{name} looks like {other} of {server}");
            findings.push(new_finding(FindingKind::LookAlike, "name", &what));
        }
        let server = tool.server.as_str();
        let look_alike =
            self.servers.get(&look_alike_key(server)).into_iter().flatten().find(|other| **other != server);
        if let Some(other) = look_alike {
            let what = format!("the server {server} looks like the server {other}");
            findings.push(new_finding(FindingKind::LookAlike, "server", &what));
        }
        findings
    }

    /// Returns findings for tools of other servers that the definition of `tool` names.
    fn mentions(&self, tool: &CatalogTool, definition: &Value) -> Vec<Finding> {
        let mut findings = Vec::new();
        let server = tool.server.as_str();
        for_each_text(definition, "", &mut |place, content| {
            // The tool's own name mentions no other tool.
            if place == "name" || findings.len() >= MAX_FINDINGS {
                return;
            }
            let is_name_char = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '/' | '.');
            let words = searched_part(content).split(|c: char| !is_name_char(c));
            for word in words.map(|word| word.trim_matches(['.', '/', '-'])) {
                // If the server has a tool of this name itself, the word means that tool.
                if let Some(mentioned) = self.by_mention.get(word)
                    && mentioned.server != tool.server
                    && !self.pairs.contains(&(server, word))
                {
                    let what = format!("it names {}, a tool of another server", mentioned.selector());
                    let finding = new_finding(FindingKind::OtherServer, place, &what);
                    if !findings.contains(&finding) {
                        findings.push(finding);
                    }
                }
            }
        });
        findings
    }
}

/// Returns a key that is the same for names that look alike.
fn look_alike_key(name: &str) -> String {
    skeleton(name).collect::<String>().to_lowercase().replace('-', "_")
}

/// Returns whether a name cannot be an ordinary word of a sentence.
fn is_distinctive(name: &str) -> bool {
    let mut inner = name.chars().skip(1);
    name.len() >= MIN_DISTINCTIVE_NAME_BYTES && inner.any(|c| matches!(c, '_' | '-' | '.' | '/') || c.is_uppercase())
}

#[cfg(test)]
mod tests;
