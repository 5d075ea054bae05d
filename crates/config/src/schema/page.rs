//! Writes the reference page: a table for each section, a line for each field.

use serde_json::Value as Json;
use toolrack_host::spec::FieldScope;

use crate::rows::{ENTRY, Hidden, Kind, NOTES, Row, TOOLRACK, Table};

const HEAD: &str = "# Reference

Every field of an entry, and every setting of `toolrack.toml`. This page is generated from the tables with which Toolrack
reads them (`crates/config/src/rows/`), as are the schemas for editors: [mcp.schema.json](mcp.schema.json) for `.mcp.json`
and `mcp.json`, [toolrack.schema.json](toolrack.schema.json) for `toolrack.toml`.

";

const ENTRIES: &str = "## Entries

An entry is a member of `mcpServers` in `.mcp.json` or `mcp.json`, or one of `[[defaults.mcp]]` or `[[agents.mcp]]` in
`toolrack.toml`. A field that is `null` counts as absent. Every field can also be written in camelCase and in kebab-case.

- A *time* is a number of seconds, or text with a unit: `\"500ms\"`, `\"30s\"`, `\"2m\"`, `\"1h\"`; up to 24 h. If the name
  of the field ends in a unit (`list_timeout_ms`), a number has that unit.
- A *size* is a number of bytes, or text with a unit: `\"512MiB\"`; `KiB`, `MiB` or `GiB`.
- *Filled*: `${VAR}`, `${VAR:-default}`, `${secret:NAME}` and `${user:NAME}` are filled in when the server is connected.
- *Identity*: with another value of this field, the entry counts as another server: what Toolrack remembers of the old one, such as
  your permanent answers, does not hold for it.
- *Hidden*: wherever the field is shown, a value that is a secret as a whole is hidden, except for placeholders in it. In commands,
  arguments, addresses and objects, only what may be a secret is hidden.

Before Toolrack runs an entry that a project brings, it asks whether you agree. It asks again when anything in the entry except
`enabled` has changed.

";

const SETTINGS: &str = "## toolrack.toml

";

/// The suffix of headings of tables in an entry, because some settings have the same names.
const ENTRY_TABLE_SUFFIX: &str = " in an entry";

/// Returns the reference page, in Markdown.
#[must_use]
pub fn reference() -> String {
    let mut page = Page { text: HEAD.to_owned() + ENTRIES, suffix: ENTRY_TABLE_SUFFIX };
    let sections = [
        ("For every server", FieldScope::Any),
        ("For child processes (`stdio`)", FieldScope::Stdio),
        ("For endpoints (`http`, `sse`)", FieldScope::Http),
    ];
    for (title, scope) in sections {
        // Every entry may have notes.
        let notes = NOTES.rows.iter().filter(|_| scope == FieldScope::Any);
        page.section(title, ENTRY.rows.iter().filter(|row| row.servers == scope).chain(notes));
    }
    page.sections_below(ENTRY, &mut Vec::new());
    page.text += SETTINGS;
    page.suffix = "";
    page.section("Top of the file", TOOLRACK.rows);
    page.sections_below(TOOLRACK, &mut Vec::new());
    page.text.truncate(page.text.trim_end().len());
    page.text + "\n"
}

/// A page that is being written.
struct Page {
    text: String,
    /// The suffix of the headings of tables.
    suffix: &'static str,
}

impl Page {
    /// Writes the sections of all tables below `table`, each once.
    fn sections_below(&mut self, table: &Table, written_titles: &mut Vec<&'static str>) {
        for nested_table in table.rows.iter().filter_map(|row| nested_table(&row.kind)) {
            if !written_titles.contains(&nested_table.title) {
                written_titles.push(nested_table.title);
                self.section(&format!("`{}`{}", nested_table.title, self.suffix), nested_table.rows);
                self.sections_below(nested_table, written_titles);
            }
        }
    }

    fn section<'r>(&mut self, title: &str, rows: impl IntoIterator<Item = &'r Row>) {
        self.text += &format!("### {title}\n\n| key | type | default | what it does |\n|---|---|---|---|\n");
        for row in rows {
            let cells = [key_cell(row), self.kind(&row.kind), default_cell(row), description_cell(row)];
            // A bar ends a cell, in code as well.
            self.text += &format!("| {} |\n", cells.map(|cell| cell.replace('|', "\\|")).join(" | "));
        }
        self.text.push('\n');
    }

    fn kind(&self, kind: &Kind) -> String {
        let number = |number: &u64| format!("`{number}`");
        match kind {
            Kind::Text => "text".to_owned(),
            Kind::Flag => "`true`, `false`".to_owned(),
            Kind::Words(words) => words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", "),
            // Such a large maximum comes only from the Rust type, so do not show it.
            Kind::Whole { min, max } if *max >= u64::from(u32::MAX) => format!("whole number from {min}"),
            Kind::Whole { min, max } => format!("whole number, {min} to {max}"),
            Kind::Number { min, max } if *max >= f64::MAX => format!("number from {min}"),
            Kind::Number { min, max } => format!("number, {min} to {max}"),
            Kind::Numbers(numbers) => numbers.iter().map(number).collect::<Vec<_>>().join(", "),
            Kind::Time => "time".to_owned(),
            Kind::Milliseconds => "milliseconds".to_owned(),
            // All sizes in the rows are whole MiB.
            Kind::Size { min } => format!("size from {} MiB", min >> 20),
            Kind::Texts => "list of texts".to_owned(),
            Kind::Ports { .. } => "list of TCP ports".to_owned(),
            Kind::Map => "object of texts".to_owned(),
            Kind::Object => "object".to_owned(),
            Kind::Table(table) => self.link(table),
            Kind::Tables(table) => format!("list of {}", self.link(table)),
            Kind::Entries => "object of [entries](#entries)".to_owned(),
            Kind::NamedEntries => "list of [entries](#entries)".to_owned(),
            Kind::Either(kinds) => kinds.iter().map(|kind| self.kind(kind)).collect::<Vec<_>>().join(", or "),
        }
    }

    /// Returns a link to the section of `table`, with the anchor that GitHub and mdBook make. All titles are in lower
    /// case.
    fn link(&self, table: &Table) -> String {
        let anchor = format!("{}{}", table.title.replace('.', ""), self.suffix.replace(' ', "-"));
        format!("[`{}`](#{anchor})", table.title)
    }
}

fn nested_table(kind: &Kind) -> Option<&'static Table> {
    match kind {
        Kind::Table(table) | Kind::Tables(table) => Some(table),
        Kind::Either(kinds) => kinds.iter().find_map(nested_table),
        _ => None,
    }
}

fn key_cell(row: &Row) -> String {
    let aliases = row.aliases.iter().map(|(name, program)| format!("; `{name}` ({program})"));
    format!("`{}`{}", row.key, aliases.collect::<String>())
}

fn default_cell(row: &Row) -> String {
    match row.default_value() {
        _ if row.is_required => "required".to_owned(),
        Some(default) => format!("`{}`", default_text(row, &default)),
        None => row.otherwise.to_owned(),
    }
}

/// Returns a default as a user would write it.
fn default_text(row: &Row, default: &Json) -> String {
    match (row.kind, default.as_f64(), default.as_u64()) {
        (Kind::Time, Some(seconds), _) => format!("{seconds}s"),
        (Kind::Size { .. }, _, Some(bytes)) => format!("{}MiB", bytes >> 20),
        _ => default.as_str().map_or_else(|| default.to_string(), str::to_owned),
    }
}

fn description_cell(row: &Row) -> String {
    let notes = [
        row.is_filled.then_some("Filled."),
        row.is_identity.then_some("Identity."),
        (row.hidden != Hidden::Nothing).then_some("Hidden."),
    ];
    let notes: String = notes.into_iter().flatten().map(|note| format!(" *{note}*")).collect();
    format!("{}{notes}", row.about)
}
