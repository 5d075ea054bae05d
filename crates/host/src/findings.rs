//! What a person should look at in the definitions of tools. Warnings, and no defence.
//!
//! Text that is written to mislead a model can be put in more ways than any list knows, and harmless text can look the
//! same: a finding stops nothing, and no finding proves nothing. Findings are shown where a person decides.
//!
//! The search is for four things: words that speak to the model rather than about the tool; invisible characters; names
//! that look like others (Unicode Technical Standard 39, section 4); the name of another server's tool.

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

/// Most findings that are reported of one tool.
const MOST: usize = 20;

/// Most bytes of one text that are searched.
const MOST_BYTES: usize = 256 * 1024;

/// Most bytes of a place, about.
const MOST_PLACE: usize = 300;

/// How long a tool's name must be to be recognised in another server's text, unless it stands there with its server.
const TELLING_NAME: usize = 6;

/// Something that a person should look at.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[non_exhaustive]
pub struct Finding {
    /// What kind of thing.
    pub kind: FindingKind,
    /// Where in the definition, such as `description` or `inputSchema.properties.path.description`. Safe to print.
    pub place: String,
    /// The text found there, in words. Safe to print.
    pub what: String,
}

/// What kind of thing was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum FindingKind {
    /// Text that tells a model what to do.
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

/// Findings in a definition alone. `definition` is a tool as JSON, as [`Tool`] serialises or a pin keeps it.
#[must_use]
pub fn in_definition(definition: &Value) -> Vec<Finding> {
    let mut findings = Vec::new();
    each_text(definition, "", &mut |place, found| {
        if findings.len() < MOST {
            findings.extend(hidden(place, found));
            findings.extend(instructions(place, found));
        }
    });
    findings.truncate(MOST);
    findings
}

/// Findings in `tool` alone.
#[must_use]
pub fn in_tool(tool: &Tool) -> Vec<Finding> {
    in_definition(&serde_json::from_str(&canonical(tool)).unwrap_or_default())
}

impl Catalog {
    /// Findings in all tools, those in quarantine included. Reads each definition: too slow for every call.
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

    /// Findings in `tool`, compared with all others. Reads their names: too slow for every call.
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

/// A place inside another. Deep down, only the beginning is kept.
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
    let said = phrases::first_in(start_of(found))?;
    Some(finding(FindingKind::Instructions, place, &format!("it speaks to the model: “{said}”")))
}

fn hidden(place: &str, found: &str) -> Option<Finding> {
    let found = start_of(found);
    let visible = text::for_terminal(found);
    if *visible == *found {
        return None;
    }
    // Characters that the sanitiser escapes and that are no plain line ends.
    let unseen: Vec<char> = found.chars().filter(|c| is_unseen(*c)).collect();
    if unseen.is_empty() {
        return None;
    }
    let kinds: BTreeSet<char> = unseen.iter().copied().collect();
    let mut what = match unseen.len() {
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
    // Tag characters are a hidden alphabet: what they spell is ASCII, moved (Unicode, section 23.9).
    let tags = unseen.iter().filter_map(|c| char::from_u32(u32::from(*c).checked_sub(0xe0000)?));
    let spelled: String = tags.filter(|c| (' '..='~').contains(c)).take(200).collect();
    if !spelled.is_empty() {
        let _ = write!(what, "; they spell “{spelled}”");
    }
    Some(finding(FindingKind::Hidden, place, &what))
}

/// Whether the sanitiser would escape this character alone, line ends and tabs excepted.
fn is_unseen(c: char) -> bool {
    let mut bytes = [0; 4];
    let alone: &str = c.encode_utf8(&mut bytes);
    !matches!(c, '\n' | '\r' | '\t') && matches!(text::for_terminal(alone), Cow::Owned(_))
}

/// Adds to each finding of hidden characters whether models and clients get them. `told` has the findings that they
/// get.
fn say_who_gets_them(found: &mut [Finding], told: &[Finding]) {
    for finding in found.iter_mut().filter(|finding| finding.kind == FindingKind::Hidden) {
        let is_told = told.iter().any(|left| left.kind == FindingKind::Hidden && left.place == finding.place);
        finding.what += match is_told {
            true => "; models and clients get them as they are",
            false => "; they are left out of what models and clients get",
        };
    }
}

/// The names of all tools and servers, as they look and as they are written.
struct Names<'a> {
    /// By look: the names with that look, each with a server that has it.
    tools: BTreeMap<String, BTreeMap<&'a str, &'a ServerName>>,
    servers: BTreeMap<String, BTreeSet<&'a str>>,
    /// By the text that names it: the tool.
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
            if is_telling(name) {
                match names.written.entry(name.to_owned()) {
                    Entry::Vacant(free) => drop(free.insert(tool)),
                    Entry::Occupied(taken) if taken.get().server != *server => {
                        ambiguous.insert(name.to_owned());
                    }
                    Entry::Occupied(_) => {}
                }
            }
        }
        // A name that several servers have belongs to none of them.
        names.written.retain(|name, _| !ambiguous.contains(name));
        names
    }

    fn findings(&self, tool: &CatalogTool) -> Vec<Finding> {
        let read = |tool: &Tool| serde_json::from_str(&canonical(tool)).unwrap_or_default();
        let definition = read(tool.as_listed());
        let mut found = in_definition(&definition);
        if found.iter().any(|finding| finding.kind == FindingKind::Hidden) {
            say_who_gets_them(&mut found, &in_definition(&read(tool.tool())));
        }
        found.extend(self.like(tool));
        found.extend(self.named_in(tool, &definition));
        found.truncate(MOST);
        found
    }

    /// Other names that look like those of `tool`.
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

    /// Tools of other servers that the definition of `tool` names.
    fn named_in(&self, tool: &CatalogTool, definition: &Value) -> Vec<Finding> {
        let mut findings = Vec::new();
        let server = tool.server.as_str();
        each_text(definition, "", &mut |place, found| {
            if place == "name" || findings.len() >= MOST {
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

/// The look of a name: names with the same look can be taken for each other.
fn look(name: &str) -> String {
    skeleton(name).collect::<String>().to_lowercase().replace('-', "_")
}

/// Whether a name is too distinctive to be a word of a sentence.
fn is_telling(name: &str) -> bool {
    let mut inner = name.chars().skip(1);
    name.len() >= TELLING_NAME && inner.any(|c| matches!(c, '_' | '-' | '.' | '/') || c.is_uppercase())
}

#[cfg(test)]
mod tests;
