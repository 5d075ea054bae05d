//! Edits the entries (each configures one server) of TOML files: Toolrack's `[[defaults.mcp]]` and Codex's
//! `[mcp_servers.name]`.
//!
//! toml_edit only finds the positions. The edits splice the text themselves, because toml_edit changes line ends.

use std::ops::Range;

use serde_json::Value as Json;
use toml_edit::{Document as Toml, InlineTable, Item, Table, TableLike, Value};

use super::{EditError, Parts, add_parts, foreign, render};
use crate::{dialect::toml as reader, document::Document, node::Node, problem::Problem};

/// A TOML file that is being edited.
pub(super) struct TomlFile {
    document: Document,
    parsed: Toml<String>,
    root: Node,
    /// Whether the file is known to be Codex's.
    is_codex: bool,
}

/// The format of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EntryFormat {
    /// Toolrack's own: `[[defaults.mcp]]` with a member `name`.
    Toolrack,
    /// `[mcp_servers.name]`.
    Codex,
}

/// An entry of the file.
struct Entry<'a> {
    format: EntryFormat,
    name: &'a str,
    body: Body<'a>,
}

/// The way in which the members of an entry are written.
enum Body<'a> {
    /// A table with a header, and tables below it.
    Table(&'a Table),
    /// `{ … }`, and the position of its key; `None` where it has no key, because it is an element of a list.
    Inline(&'a InlineTable, Option<Range<usize>>),
    /// Something that is not a table, or a table of dotted keys (`mcp_servers.name.command = "…"`), which has no text
    /// of its own.
    Unsupported,
}

impl<'a> Body<'a> {
    fn table(&self) -> Option<&'a dyn TableLike> {
        match self {
            Self::Table(table) => Some(*table),
            Self::Inline(table, _) => Some(*table),
            Self::Unsupported => None,
        }
    }

    /// Returns the member `name`, if that is a table.
    fn subtable(&self, name: &str) -> Option<Body<'a>> {
        match self.table()?.get(name)? {
            Item::Table(table) => Some(Body::Table(table)),
            Item::Value(Value::InlineTable(table)) => Some(Body::Inline(table, None)),
            _ => None,
        }
    }
}

/// A table with its header and content, in whole lines.
type Block = Range<usize>;

impl TomlFile {
    pub(super) fn open(document: Document) -> Result<Self, EditError> {
        let root = reader::parse(&document).map_err(EditError::Unreadable)?;
        // Checks that `mcp` is a list of servers and `mcp_servers` a table of them: an edit would overwrite other
        // values.
        reader::servers(&document).map_err(EditError::Unreadable)?;
        let parsed = Toml::parse(document.text.clone());
        let parsed = parsed.map_err(|_| EditError::Unreadable(Box::new(Problem::error("this is not TOML"))))?;
        Ok(Self { document, parsed, root, is_codex: false })
    }

    pub(super) fn open_codex(document: Document) -> Result<Self, EditError> {
        Ok(Self { is_codex: true, ..Self::open(document)? })
    }

    /// Returns the entries of both formats.
    fn entries(&self) -> Vec<Entry<'_>> {
        let mut entries = Vec::new();
        match self.parsed.get("defaults").and_then(|defaults| defaults.get("mcp")) {
            Some(Item::ArrayOfTables(tables)) => entries.extend(tables.iter().filter_map(|table| {
                let name = table.get("name")?.as_str()?;
                Some(Entry { format: EntryFormat::Toolrack, name, body: Body::Table(table) })
            })),
            Some(Item::Value(Value::Array(values))) => entries.extend(values.iter().filter_map(|value| {
                let table = value.as_inline_table()?;
                let name = table.get("name")?.as_str()?;
                Some(Entry { format: EntryFormat::Toolrack, name, body: Body::Inline(table, None) })
            })),
            _ => {}
        }
        let codex_table = self.parsed.get("mcp_servers").and_then(Item::as_table_like);
        for (name, item) in codex_table.into_iter().flat_map(TableLike::iter) {
            let key_span = codex_table.and_then(|table| table.key(name)).and_then(toml_edit::Key::span);
            let body = match item {
                Item::Table(table) if !table.is_dotted() => Body::Table(table),
                Item::Value(Value::InlineTable(table)) => Body::Inline(table, key_span),
                _ => Body::Unsupported,
            };
            entries.push(Entry { format: EntryFormat::Codex, name, body });
        }
        entries
    }

    fn entry(&self, name: &str) -> Result<Entry<'_>, EditError> {
        self.entries()
            .into_iter()
            .find(|entry| entry.name == name)
            .ok_or_else(|| super::EditableFile::unsafe_edit_error(self))
    }

    fn has_codex_servers(&self) -> bool {
        self.parsed.contains_key("mcp_servers")
    }

    /// Returns the format of a new entry, derived from the file's name or from the servers in it. It is an error if
    /// neither shows the format.
    fn new_entry_format(&self) -> Result<EntryFormat, EditError> {
        if self.is_codex {
            return Ok(EntryFormat::Codex);
        }
        let path = super::EditableFile::path(self);
        let has_file_name = |name: &str| path.file_name().is_some_and(|file| file == name);
        let has_defaults = self.parsed.get("defaults").and_then(|defaults| defaults.get("mcp")).is_some();
        if has_file_name("toolrack.toml") || (has_defaults && !self.has_codex_servers()) {
            return Ok(EntryFormat::Toolrack);
        }
        let is_codex = has_file_name("config.toml") && path.parent().is_some_and(|folder| folder.ends_with(".codex"));
        if self.has_codex_servers() || is_codex { Ok(EntryFormat::Codex) } else { Err(EditError::UnknownForm { path }) }
    }

    /// Returns the members of `entry` that are not `null`, in the order in which they are written. It is an error if
    /// TOML cannot express one of the values.
    fn rendered(&self, format: EntryFormat, name: &str, entry: &Json) -> Result<Vec<(String, Value)>, EditError> {
        let entry_name = (format == EntryFormat::Toolrack).then(|| Json::from(name));
        let mut fields: Vec<(&str, &Json)> = entry_name.iter().map(|name| ("name", name)).collect();
        let entry_fields = entry.as_object().into_iter().flatten().map(|(name, value)| (name.as_str(), value));
        // In Toolrack's format, `name` is the name of the entry, and cannot be another field.
        fields.extend(entry_fields.filter(|(name, _)| format != EntryFormat::Toolrack || *name != "name"));
        fields.sort_by_key(|(name, _)| render::rank(name));
        let mut rendered_members = Vec::with_capacity(fields.len());
        for (name, value) in fields.into_iter().filter(|(_, value)| !value.is_null()) {
            rendered_members
                .push((name.to_owned(), to_toml(value).ok_or_else(|| super::EditableFile::unsafe_edit_error(self))?));
        }
        Ok(rendered_members)
    }

    /// Returns the lines of a new table.
    fn new_table(&self, format: EntryFormat, name: &str, entry: &Json) -> Result<String, EditError> {
        let newline = self.newline();
        let header = match format {
            EntryFormat::Toolrack => "[[defaults.mcp]]".to_owned(),
            EntryFormat::Codex => format!("[mcp_servers.{}]", toml_edit::Key::new(name).display_repr()),
        };
        let mut table_text = header + newline;
        for (name, value) in self.rendered(format, name, entry)? {
            table_text.push_str(&format!("{} = {value}{newline}", toml_edit::Key::new(name).display_repr()));
        }
        Ok(table_text)
    }

    /// Returns the text with the member `name` of `body` set to `value`, in its place or after all other members.
    /// `None` if the member has a form in which it cannot be changed alone, such as a table with a header.
    fn set_member(&self, body: &Body<'_>, name: &str, value: &Value) -> Option<String> {
        let text = &self.document.text;
        let key = toml_edit::Key::new(name);
        let key = key.display_repr();
        match body.table()?.get(name) {
            None => {}
            Some(Item::Value(old)) => {
                let span = old.span()?;
                return Some(format!("{}{}{}", &text[..span.start], value.to_string().trim(), &text[span.end..]));
            }
            Some(_) => return None,
        }
        match body {
            Body::Table(table) => {
                let insert_at = line_end(text, content_end(table).max(header(table, text)?.end));
                let newline = self.newline();
                let line_break = if text[..insert_at].ends_with('\n') { "" } else { newline };
                Some(format!(
                    "{}{line_break}{key} = {}{newline}{}",
                    &text[..insert_at],
                    value.to_string().trim(),
                    &text[insert_at..]
                ))
            }
            Body::Inline(table, _) => {
                let insert_at = table.iter().filter_map(|(_, value)| value.span()).map(|span| span.end).max()?;
                Some(format!("{}, {key} = {}{}", &text[..insert_at], value.to_string().trim(), &text[insert_at..]))
            }
            Body::Unsupported => None,
        }
    }

    /// Returns the text without the member `name` of `body`. In a table with a header, removes the whole lines of the
    /// member; `None` if other content is on those lines.
    fn remove_member(&self, body: &Body<'_>, name: &str) -> Option<String> {
        let text = &self.document.text;
        match (body, body.table()?.get(name)) {
            (_, None) => Some(text.clone()),
            (Body::Table(table), Some(Item::Value(value))) => {
                let start = table.key(name)?.span()?.start;
                let lines = line_start(text, start)..line_end(text, value.span()?.end);
                text[lines.start..start].trim().is_empty().then(|| cut(text, &[lines]))
            }
            (Body::Table(_), Some(Item::Table(subtable))) => {
                let blocks: Vec<Block> =
                    self.blocks(subtable).iter().map(|block| with_blank_line(text, block)).collect();
                (!blocks.is_empty()).then(|| cut(text, &blocks))
            }
            (Body::Inline(table, _), Some(_)) => {
                let span = table.span()?;
                let mut rest = (*table).clone();
                rest.remove(name);
                Some(format!("{}{}{}", &text[..span.start], rest.to_string().trim(), &text[span.end..]))
            }
            _ => None,
        }
    }

    fn newline(&self) -> &'static str {
        render::Style::detect(&self.document.text).newline
    }

    /// Returns the blocks of `table` and of all tables below it, in the order of the file. Consecutive blocks of one
    /// entry are merged.
    fn blocks(&self, table: &Table) -> Vec<Block> {
        let text = &self.document.text;
        let mut table_blocks = Vec::new();
        collect_blocks(table, text, &mut table_blocks);
        table_blocks.sort_by_key(|block| block.start);
        let mut all_blocks = Vec::new();
        collect_blocks(self.parsed.as_table(), text, &mut all_blocks);
        let mut merged: Vec<Block> = Vec::with_capacity(table_blocks.len());
        for block in table_blocks {
            match merged.last_mut() {
                Some(last) if !all_blocks.iter().any(|other| (last.end..block.start).contains(&other.start)) => {
                    last.end = block.end
                }
                _ => merged.push(block),
            }
        }
        merged
    }

    /// Returns the position of a new table of this form: after the last such table, or at the end of the file.
    fn insert_position(&self, format: EntryFormat) -> usize {
        let mut blocks = Vec::new();
        let tables = match format {
            EntryFormat::Toolrack => self.parsed.get("defaults").and_then(|defaults| defaults.get("mcp")),
            EntryFormat::Codex => self.parsed.get("mcp_servers"),
        };
        collect_item(tables, &self.document.text, &mut blocks);
        blocks.into_iter().map(|block| block.end).max().unwrap_or(self.document.text.len())
    }
}

impl super::EditableFile for TomlFile {
    fn document(&self) -> &Document {
        &self.document
    }

    fn reopened(&self, document: Document) -> Result<Box<dyn super::EditableFile>, EditError> {
        Ok(Box::new(Self { is_codex: self.is_codex, ..Self::open(document)? }))
    }

    fn is_toolrack_file(&self) -> bool {
        self.new_entry_format().is_ok_and(|format| format == EntryFormat::Toolrack)
    }

    fn names(&self) -> Vec<String> {
        self.entries().into_iter().map(|entry| entry.name.to_owned()).collect()
    }

    fn is_toolrack_entry(&self, name: &str) -> bool {
        self.entry(name).is_ok_and(|entry| entry.format == EntryFormat::Toolrack)
    }

    fn translated(&self, name: &str, entry: &Json) -> Result<Json, EditError> {
        let format = self.entry(name).map_or_else(|_| self.new_entry_format(), |entry| Ok(entry.format))?;
        match format {
            EntryFormat::Toolrack => Ok(entry.clone()),
            EntryFormat::Codex => foreign::for_codex(entry).map_err(|field| EditError::Foreign {
                path: self.path(),
                program: "Codex",
                field,
            }),
        }
    }

    fn insert(&self, name: &str, entry: &Json) -> Result<String, EditError> {
        let (text, newline) = (self.text(), self.newline());
        let format = self.new_entry_format()?;
        let table = self.new_table(format, name, entry)?;
        let position = self.insert_position(format);
        let mut new_text = text[..position].to_owned();
        if !new_text.is_empty() && !new_text.ends_with('\n') {
            new_text.push_str(newline);
        }
        if !new_text.trim().is_empty() && !ends_with_blank_line(&new_text) {
            new_text.push_str(newline);
        }
        new_text.push_str(&table);
        Ok(new_text + &text[position..])
    }

    fn replace(&self, name: &str, entry: &Json) -> Result<String, EditError> {
        let text = self.text();
        let old_entry = self.entry(name)?;
        match old_entry.body {
            Body::Table(table) => {
                let table_text = self.new_table(old_entry.format, name, entry)?;
                let blocks = self.blocks(table);
                let (first_block, other_blocks) = blocks.split_first().ok_or_else(|| self.unsafe_edit_error())?;
                let other_blocks: Vec<Block> = other_blocks.iter().map(|block| with_blank_line(text, block)).collect();
                let mut new_text = cut(text, &other_blocks);
                new_text.replace_range(first_block.clone(), &table_text);
                Ok(new_text)
            }
            Body::Inline(table, _) => {
                let span = table.span().ok_or_else(|| self.unsafe_edit_error())?;
                let table: InlineTable = self.rendered(old_entry.format, name, entry)?.into_iter().collect();
                Ok(format!("{}{table}{}", &text[..span.start], &text[span.end..]))
            }
            Body::Unsupported => Err(self.unsafe_edit_error()),
        }
    }

    fn set(&self, name: &str, path: &[String], value: Option<&Json>) -> Option<String> {
        let (last_key, parents) = path.split_last()?;
        let entry = self.entry(name).ok()?;
        if entry.format == EntryFormat::Toolrack && path == ["name"] {
            // The entry was found by its `name`, so it has this value already.
            return Some(self.text().to_owned());
        }
        let mut body = entry.body;
        for parent in parents {
            body = body.subtable(parent)?;
        }
        let value = value.map(to_toml);
        match value {
            Some(value) => self.set_member(&body, last_key, &value?),
            None => self.remove_member(&body, last_key),
        }
    }

    fn remove(&self, name: &str) -> Result<String, EditError> {
        let text = self.text();
        match self.entry(name)?.body {
            Body::Table(table) => {
                let blocks: Vec<Block> = self.blocks(table).iter().map(|block| with_blank_line(text, block)).collect();
                if blocks.is_empty() { Err(self.unsafe_edit_error()) } else { Ok(cut(text, &blocks)) }
            }
            // `name = { … }` is removed by whole lines.
            Body::Inline(table, Some(key_span)) => {
                let end = table.span().ok_or_else(|| self.unsafe_edit_error())?.end;
                let lines = line_start(text, key_span.start)..line_end(text, end);
                let is_alone = text[lines.start..key_span.start].trim().is_empty();
                if is_alone { Ok(cut(text, &[lines])) } else { Err(self.unsafe_edit_error()) }
            }
            Body::Inline(_, None) | Body::Unsupported => Err(self.unsafe_edit_error()),
        }
    }

    fn switch(&self, name: &str, enabled: bool) -> Result<String, EditError> {
        let text = self.text();
        let entry = self.entry(name)?;
        let table = entry.body.table().ok_or_else(|| self.unsafe_edit_error())?;
        for (field, value) in [("enabled", enabled), ("disabled", !enabled)] {
            if let Some(span) = table.get(field).and_then(Item::span) {
                return Ok(format!("{}{value}{}", &text[..span.start], &text[span.end..]));
            }
        }
        self.set_member(&entry.body, "enabled", &Value::from(enabled)).ok_or_else(|| self.unsafe_edit_error())
    }

    fn parts(&self) -> Parts {
        let mut parts = Parts::new();
        let mut top = self.root.to_json();
        if let Some(Json::Object(servers)) = top.as_object_mut().and_then(|top| top.shift_remove("mcp_servers")) {
            add_parts(&mut parts, "codex", Json::Object(servers));
        }
        let defaults = top.get_mut("defaults").and_then(Json::as_object_mut);
        if let Some(Json::Array(servers)) = defaults.and_then(|defaults| defaults.shift_remove("mcp")) {
            for server in servers {
                let name = server.get("name").and_then(Json::as_str).map(str::to_owned);
                // Servers without a name are distinguished by their content.
                parts.insert(("server", name.unwrap_or_else(|| server.to_string())), server);
            }
        }
        // An edit adds `defaults` with the first server, and removes it with the last, so an empty `defaults` counts as
        // missing.
        if top.get("defaults").and_then(Json::as_object).is_some_and(serde_json::Map::is_empty) {
            top.as_object_mut().and_then(|top| top.shift_remove("defaults"));
        }
        add_parts(&mut parts, "top", top);
        parts
    }
}

/// Adds to `blocks` the block of `table`, if it has a header, and the blocks of all tables below it.
fn collect_blocks(table: &Table, text: &str, blocks: &mut Vec<Block>) {
    if let Some(header) = header(table, text) {
        let end = content_end(table).max(header.end);
        blocks.push(line_start(text, header.start)..line_end(text, end));
    }
    table.iter().for_each(|(_, item)| collect_item(Some(item), text, blocks));
}

fn collect_item(item: Option<&Item>, text: &str, blocks: &mut Vec<Block>) {
    match item {
        Some(Item::Table(table)) => collect_blocks(table, text, blocks),
        Some(Item::ArrayOfTables(tables)) => tables.iter().for_each(|table| collect_blocks(table, text, blocks)),
        _ => {}
    }
}

/// Returns the position of the header of `table`, if it has one.
fn header(table: &Table, text: &str) -> Option<Range<usize>> {
    table.span().filter(|span| !table.is_dotted() && text[span.clone()].starts_with('['))
}

/// Returns the end of the last value directly under the header of `table`.
fn content_end(table: &Table) -> usize {
    let ends = table.iter().map(|(_, item)| match item {
        Item::Value(value) => value.span().map_or(0, |span| span.end),
        Item::Table(table) if table.is_dotted() => content_end(table),
        _ => 0,
    });
    ends.max().unwrap_or_default()
}

/// Extends `block` by the blank line before it, if there is one.
fn with_blank_line(text: &str, block: &Block) -> Block {
    let text_before = &text[..block.start];
    let blank_line_bytes =
        if text_before.ends_with("\r\n\r\n") { 2 } else { usize::from(text_before.ends_with("\n\n")) };
    block.start - blank_line_bytes..block.end
}

/// Returns `text` without `blocks`, which must be in order.
fn cut(text: &str, blocks: &[Block]) -> String {
    let mut remaining_text = text.to_owned();
    for block in blocks.iter().rev() {
        remaining_text.replace_range(block.clone(), "");
    }
    remaining_text
}

fn ends_with_blank_line(text: &str) -> bool {
    text.ends_with("\n\n") || text.ends_with("\n\r\n")
}

/// Returns the position of the first byte of the line that contains `offset`.
fn line_start(text: &str, offset: usize) -> usize {
    text[..offset].rfind('\n').map_or(0, |newline| newline + 1)
}

/// Returns the position after the line end that follows `offset`.
fn line_end(text: &str, offset: usize) -> usize {
    text[offset..].find('\n').map_or(text.len(), |newline| offset + newline + 1)
}

/// Converts a value to one line of TOML; `None` for a value that TOML cannot express.
pub(super) fn to_toml(value: &Json) -> Option<Value> {
    Some(match value {
        Json::Null => return None,
        Json::Bool(flag) => Value::from(*flag),
        Json::Number(number) => match number.as_i64() {
            Some(number) => Value::from(number),
            // An integer above `i64::MAX` is refused: TOML has none, and as a float it would lose digits.
            None => Value::from(number.as_f64().filter(|_| !number.is_u64())?),
        },
        Json::String(text) => Value::from(text.as_str()),
        Json::Array(values) => Value::Array(values.iter().map(to_toml).collect::<Option<toml_edit::Array>>()?),
        Json::Object(members) => {
            let members = members.iter().filter(|(_, value)| !value.is_null());
            let members = members.map(|(name, value)| Some((name.as_str(), to_toml(value)?)));
            Value::InlineTable(members.collect::<Option<InlineTable>>()?)
        }
    })
}

#[cfg(test)]
mod tests;
