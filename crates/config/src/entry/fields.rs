//! Gives typed access to the fields of an entry (the configuration of one server). A field of the wrong type is
//! reported with its name and its place in the file.

use std::{
    collections::{HashMap, HashSet},
    ops::Range,
    time::Duration,
};

use super::Report;
use crate::{
    node::{Member, Node, Value},
    rows::{Kind, NOTES, Row, Table},
    suggest::intended_name,
};

/// The longest time that can be configured.
pub(super) const MAX_DURATION: Duration = Duration::from_secs(24 * 60 * 60);

/// Reads the fields of one entry, and knows which of them are not read yet. Fields that are `null` count as absent.
///
/// If a name is given twice, the first field that is not `null` is used; [`decode`](super::decode) has already reported
/// the error.
#[derive(Debug)]
pub(super) struct Fields<'m, 'r, 'd> {
    /// The rows of the fields.
    table: &'static Table,
    /// The fields that are not read yet, each with its name in the form of [`canonical`].
    remaining: Vec<(String, &'m Member)>,
    report: &'r mut Report<'d>,
}

/// One field as it is written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Field<'m> {
    pub(super) name: &'m str,
    pub(super) name_span: &'m Range<usize>,
    pub(super) node: &'m Node,
}

/// A text that is an item of a list or a member of an object.
#[derive(Clone, Debug)]
pub(super) struct Item<'m> {
    /// Its name in messages, such as `args[0]`, or its key in the object.
    pub(super) name: String,
    pub(super) value: String,
    pub(super) span: &'m Range<usize>,
}

impl<'m, 'r, 'd> Fields<'m, 'r, 'd> {
    pub(super) fn new(table: &'static Table, members: &'m [Member], report: &'r mut Report<'d>) -> Self {
        let mut remaining: Vec<(String, &Member)> = Vec::with_capacity(members.len());
        let mut first_names: HashMap<String, &str> = HashMap::new();
        for member in members.iter().filter(|member| !matches!(member.node.value, Value::Null)) {
            let key = canonical(&member.name);
            match first_names.get(&key) {
                Some(first) if *first == member.name => {}
                Some(first) => report.report_two_names(first, member),
                None => {
                    first_names.insert(key.clone(), &member.name);
                    remaining.push((key, member));
                }
            }
        }
        Self { table, remaining, report }
    }

    pub(super) fn report(&mut self) -> &mut Report<'d> {
        self.report
    }

    /// Returns whether only [notes](is_note) are left.
    pub(super) fn is_exhausted(&self) -> bool {
        self.remaining.iter().all(|(key, _)| is_note(key))
    }

    /// Takes all remaining fields, each with its name in the form of [`canonical`].
    pub(super) fn take_rest(&mut self) -> Vec<(String, Field<'m>)> {
        let rest = std::mem::take(&mut self.remaining);
        rest.into_iter().map(|(key, member)| (key, Field::of(member))).collect()
    }

    /// Returns whether there is the field `key`, under any of its names.
    pub(super) fn has(&self, key: &str) -> bool {
        self.row(key).is_some_and(|row| self.remaining.iter().any(|(name, _)| row.is_called(name)))
    }

    /// Returns the row of `key`. Only a field with a row can be found.
    fn row(&self, key: &str) -> Option<&'static Row> {
        let row = self.table.row(key);
        debug_assert!(row.is_some(), "`{key}` has no row in the table `{}`", self.table.title);
        row
    }

    /// Returns a remaining field that is probably a misspelling of one of `names`, and that name.
    pub(super) fn misspelt_field<'n>(&self, names: &[&'n str]) -> Option<(&'m str, &'n str)> {
        self.remaining
            .iter()
            .find_map(|(key, member)| Some((&*member.name, intended_name(key, names.iter().copied())?)))
    }

    /// Takes the field `key`, under any of its names. Two of them are an error, because they mean the same field.
    pub(super) fn take(&mut self, key: &str) -> Option<Field<'m>> {
        let row = self.row(key)?;
        let mut taken_field: Option<Field<'m>> = None;
        for (_, member) in self.remaining.extract_if(.., |(name, _)| row.is_called(name)) {
            if let Some(first) = taken_field {
                self.report.report_two_names(first.name, member);
            } else {
                taken_field = Some(Field::of(member));
            }
        }
        taken_field
    }

    /// Takes the field `name` where it is an object.
    pub(super) fn take_object(&mut self, name: &str) -> Option<Field<'m>> {
        let is_object = |(key, member): &(String, &Member)| key == name && member.node.members().is_some();
        let index = self.remaining.iter().position(is_object)?;
        Some(Field::of(self.remaining.remove(index).1))
    }

    /// Takes the field `name` if it is a number of a thousand or more, and returns it as milliseconds: no program reads
    /// such a number as seconds. Shortens a time that is longer than [`MAX_DURATION`].
    ///
    /// In Claude Code's `.mcp.json`, such a `timeout` is the whole time of a call; in the files of other programs, it
    /// is the time of a request. Claude Code accepts no number below a thousand, so Toolrack reads a smaller number as
    /// seconds.
    pub(super) fn take_milliseconds(&mut self, name: &str) -> Option<Duration> {
        let number = |member: &Member| match &member.node.value {
            Value::Number(number) => number.as_f64().filter(|number| *number >= 1000.0),
            _ => None,
        };
        let (index, number) = self
            .remaining
            .iter()
            .enumerate()
            .find_map(|(index, (key, member))| Some((index, number(member).filter(|_| key == name)?)))?;
        self.remaining.remove(index);
        Some(seconds(number / 1000.0).map_or(MAX_DURATION, |time| time.min(MAX_DURATION)))
    }

    pub(super) fn flag(&mut self, field: Field<'m>) -> Option<bool> {
        match field.node.value {
            Value::Bool(flag) => Some(flag),
            _ => self.report_invalid(field, "true or false"),
        }
    }

    pub(super) fn text(&mut self, field: Field<'m>) -> Option<String> {
        match &field.node.value {
            Value::Text(text) => Some(text.clone()),
            _ => self.report_invalid(field, "text"),
        }
    }

    /// Reads a list of texts. Numbers and flags are used as they are written.
    pub(super) fn texts(&mut self, field: Field<'m>) -> Vec<Item<'m>> {
        let Value::List(nodes) = &field.node.value else {
            self.report_invalid::<()>(field, "a list of texts, such as `[\"a\", \"b\"]`");
            return Vec::new();
        };
        let items = nodes.iter().enumerate();
        items.filter_map(|(index, node)| self.item(format!("{}[{index}]", field.name), node)).collect()
    }

    /// Reads an object of texts. The name of each item is its key.
    pub(super) fn map(&mut self, field: Field<'m>) -> Vec<Item<'m>> {
        let Some(members) = field.node.members() else {
            self.report_invalid::<()>(field, "an object of texts, such as `{ \"NAME\": \"value\" }`");
            return Vec::new();
        };
        let mut names = HashSet::new();
        let present_members = members.iter().filter(|member| !matches!(member.node.value, Value::Null));
        let first_members = present_members.filter(|member| names.insert(&*member.name));
        let item = |member: &'m Member| {
            let item = self.item(format!("{}.{}", field.name, member.name), &member.node)?;
            Some(Item { name: member.name.clone(), ..item })
        };
        first_members.filter_map(item).collect()
    }

    fn item(&mut self, name: String, node: &'m Node) -> Option<Item<'m>> {
        let value = match &node.value {
            Value::Text(text) => text.clone(),
            Value::Number(number) => number.to_string(),
            Value::Bool(flag) => flag.to_string(),
            _ => {
                let message = format!("`{name}` must be text, not {}", node.kind());
                self.report.error(&node.span, &name, message);
                return None;
            }
        };
        Some(Item { name, value, span: &node.span })
    }

    /// Takes the field `key`, a whole number within the bounds of its row.
    pub(super) fn number(&mut self, key: &str) -> Option<u64> {
        let field = self.take(key)?;
        self.whole_number(field, self.row(key)?.kind)
    }

    /// Reads a whole number within the bounds of `kind`.
    pub(super) fn whole_number(&mut self, field: Field<'m>, kind: Kind) -> Option<u64> {
        let (min, max) = kind.bounds()?;
        match &field.node.value {
            Value::Number(number) => number.as_u64().filter(|number| (min..=max).contains(number)),
            _ => None,
        }
        .or_else(|| self.report_invalid(field, &format!("a whole number from {min} to {max}")))
    }

    /// Takes the text `key`, which must be one of the words of its row, and reads it with `parse`.
    pub(super) fn word<T>(&mut self, key: &str, parse: impl FnOnce(&str) -> Option<T>) -> Option<T> {
        let field = self.take(key)?;
        let word = self.text(field)?;
        let parsed = parse(&word);
        if parsed.is_none() {
            let message = format!("`{key}` must be {}", self.table.words(key));
            self.report.error(&field.node.span, field.name, message);
        }
        parsed
    }

    /// Takes the time `key`: `key` and `key_s` in seconds or with a unit (`"30s"`, `"500ms"`, `"2m"`), `key_ms` in
    /// milliseconds.
    pub(super) fn duration(&mut self, key: &str) -> Option<Duration> {
        let field = self.take(key)?;
        let unit = if canonical(field.name).ends_with("_ms") { 0.001 } else { 1.0 };
        let duration = match &field.node.value {
            Value::Number(number) => number.as_f64().and_then(|number| seconds(number * unit)),
            Value::Text(text) => parse_duration(text, unit),
            _ => None,
        };
        match duration {
            Some(duration) if !duration.is_zero() && duration <= MAX_DURATION => Some(duration),
            _ => self.report_invalid(field, "a time between 1 ms and 24 h, such as `30` or `\"30s\"`"),
        }
    }

    /// Reports that the value of `field` must be `expected`. Always returns `None`, so that the caller can return the
    /// result.
    pub(super) fn report_invalid<T>(&mut self, field: Field<'m>, expected: &str) -> Option<T> {
        let message = format!("`{}` must be {expected}, not {}", field.name, describe(field.node));
        self.report.error(&field.node.span, field.name, message);
        None
    }
}

impl<'m> Field<'m> {
    fn of(member: &'m Member) -> Self {
        Self { name: &member.name, name_span: &member.name_span, node: &member.node }
    }
}

/// Returns whether the field `name` is only a note to readers of the file, such as a comment.
pub(super) fn is_note(name: &str) -> bool {
    NOTES.rows.iter().any(|note| note.is_called(name))
}

/// Describes a node for a message: numbers by their value, because they are not secrets; all others by their kind.
fn describe(node: &Node) -> String {
    match &node.value {
        Value::Number(number) => number.to_string(),
        _ => node.kind().to_owned(),
    }
}

fn seconds(seconds: f64) -> Option<Duration> {
    Duration::try_from_secs_f64(seconds).ok()
}

fn parse_duration(text: &str, unit: f64) -> Option<Duration> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, suffix) = text.split_at(digits);
    let unit = match suffix.trim() {
        "" => unit,
        "ms" => 0.001,
        "s" | "sec" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => return None,
    };
    seconds(number.parse::<f64>().ok()? * unit)
}

/// Returns the name of a field in snake_case, to compare it: `startupTimeout` and `startup-timeout` become
/// `startup_timeout`.
pub(crate) fn canonical(name: &str) -> String {
    // The capacity has room for a few underscores.
    let mut canonical_name = String::with_capacity(name.len() + 4);
    let mut is_after_lower = false;
    for c in name.chars() {
        if c.is_ascii_uppercase() && is_after_lower {
            canonical_name.push('_');
        }
        is_after_lower = c.is_ascii_lowercase() || c.is_ascii_digit();
        canonical_name.push(if c == '-' { '_' } else { c.to_ascii_lowercase() });
    }
    canonical_name
}

#[cfg(test)]
mod tests;
