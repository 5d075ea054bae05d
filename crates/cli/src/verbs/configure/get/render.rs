//! Shows the entry of a server (its configuration): its content, and the file that it is in.

use serde::Serialize;
use serde_json::{Map, Value};
use toolrack_config::{Entry, Loaded};
use toolrack_host::{spec::Trust, text};

use crate::render::{Layout, Sign, Tone, paint};

/// `get --json`, and one server of `config show --json`.
#[derive(Debug, Serialize)]
pub(crate) struct Document<'a> {
    name: &'a str,
    scope: &'static str,
    /// The file that the entry is in.
    source: Option<String>,
    line: Option<usize>,
    /// Whether the entry can be used as it is written.
    valid: bool,
    enabled: bool,
    /// The file of another scope that switched the entry on or off.
    switched_by: Option<String>,
    trusted: bool,
    /// The content of the entry, without secrets; `null` when the entry is not valid.
    entry: &'a Value,
    hash: &'a str,
    /// The entries of other files that this entry replaces, the strongest first.
    shadows: Vec<ShadowedDocument>,
    /// The problems of the entry.
    problems: Vec<String>,
}

#[derive(Debug, Serialize)]
struct ShadowedDocument {
    scope: &'static str,
    source: Option<String>,
}

impl<'a> Document<'a> {
    pub(crate) fn new(entry: &'a Entry, loaded: &Loaded) -> Self {
        let source_path =
            |source: &toolrack_host::spec::Source| source.path.as_ref().map(|path| path.display().to_string());
        let shadows = entry.shadows.iter();
        Self {
            name: &entry.name,
            scope: entry.scope.as_str(),
            source: source_path(&entry.source),
            line: entry.line,
            valid: entry.is_valid,
            enabled: entry.enabled,
            switched_by: entry.switched_by.as_ref().and_then(source_path),
            trusted: entry.trust == Trust::Trusted,
            entry: &entry.view,
            hash: &entry.hash,
            shadows: shadows
                .map(|shadow| ShadowedDocument { scope: shadow.scope.as_str(), source: source_path(&shadow.source) })
                .collect(),
            // `{:#}` is the headline of a problem, without the snippet of the file and the hint.
            problems: problems(entry, loaded).map(|problem| format!("{problem:#}")).collect(),
        }
    }
}

fn problems<'a>(entry: &'a Entry, loaded: &'a Loaded) -> impl Iterator<Item = &'a toolrack_config::Problem> {
    let is_about_entry = |problem: &&toolrack_config::Problem| {
        problem.entry.as_ref() == Some(&entry.name) && problem.path == entry.source.path
    };
    loaded.problems.iter().filter(is_about_entry)
}

/// Shows the entry, its state, and the entries that it replaces.
pub(crate) fn page(entry: &Entry, loaded: &Loaded, layout: Layout) -> String {
    let (sign, tone, state) = if !entry.is_valid {
        (Sign::Bad, Tone::Bad, "broken")
    } else if entry.trust == Trust::Pending {
        (Sign::Paused, Tone::Waiting, "pending approval")
    } else if entry.enabled {
        (Sign::Good, Tone::Good, "enabled")
    } else {
        (Sign::Off, Tone::Faint, "disabled")
    };
    let name = paint(Tone::Strong, &text::for_line(&entry.name));
    let sign = paint(tone, layout.sign(sign));
    let mut lines = vec![format!("{sign} {name}  {}  {}", paint(tone, state), paint(Tone::Faint, &location(entry)))];
    lines.extend(details(&entry.view));
    if let Some(source) = &entry.switched_by {
        let state_word = if entry.enabled { "on" } else { "off" };
        lines.push(paint(Tone::Faint, &format!("  switched {state_word} by {source}")));
    }
    for shadow in &entry.shadows {
        lines.push(paint(Tone::Faint, &format!("  replaces the entry of {} ({})", shadow.source, shadow.scope)));
    }
    for problem in problems(entry, loaded) {
        lines.push(paint(Tone::Waiting, &format!("  {}", text::for_line(&problem.message))));
    }
    lines.join("\n")
}

/// Returns where the entry is configured, such as `project /home/ada/shop/.mcp.json:3`.
pub(crate) fn location(entry: &Entry) -> String {
    let Some(path) = &entry.source.path else {
        return entry.scope.to_string();
    };
    let line = entry.line.map_or_else(String::new, |line| format!(":{line}"));
    format!("{} {}{line}", entry.scope, text::for_line(&path.display().to_string()))
}

/// Shows an entry, a line per field; its command or address comes first.
pub(crate) fn details(view: &Value) -> Vec<String> {
    let nothing = Map::new();
    let fields = view.as_object().unwrap_or(&nothing);
    let mut lines = Vec::new();
    let mut push_line = |label: &str, words: &str| {
        lines.push(format!("  {} {}", paint(Tone::Faint, &format!("{label:<9}")), text::for_line(words)));
    };
    let args = fields.get("args").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
    match fields.get("command").and_then(Value::as_str) {
        Some(command) => push_line("runs", &shell_words::join(std::iter::once(command).chain(args))),
        None if fields.contains_key("container") => {
            push_line("runs", format!("the command of its image {}", shell_words::join(args)).trim_end());
        }
        None => {}
    }
    if let Some(url) = fields.get("url").and_then(Value::as_str) {
        push_line("contacts", url);
    }
    if let Some(folder) = fields.get("cwd").and_then(Value::as_str) {
        push_line("in", folder);
    }
    for (field, label, separator) in [("env", "with", "="), ("headers", "sends", ": ")] {
        for (name, value) in fields.get(field).and_then(Value::as_object).into_iter().flatten() {
            push_line(label, &format!("{name}{separator}{}", value.as_str().unwrap_or_default()));
        }
    }
    // Only an entry that the user is asked to agree to has `files`.
    for (name, fingerprint) in fields.get("files").and_then(Value::as_object).into_iter().flatten() {
        push_line("file", &format!("{name}  {}", fingerprint.as_str().unwrap_or_default()));
    }
    // The lines above show these fields already, except `type`, which follows from them, and `enabled`, which the
    // caller shows.
    let fields_shown_elsewhere = ["type", "command", "args", "url", "cwd", "env", "headers", "enabled", "files"];
    for (name, value) in fields.iter().filter(|(name, _)| !fields_shown_elsewhere.contains(&name.as_str())) {
        push_line("setting", &format!("{name} = {value}"));
    }
    lines
}
