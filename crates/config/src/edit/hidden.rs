//! Restores the values of texts that were shown hidden.

use std::ops::ControlFlow;

use serde_json::{Map, Value as Json};

use super::EditError;
use crate::{Problem, mask::HIDDEN};

/// Refuses an entry with a hidden text that has no known value, because it would be written as the value.
pub(super) fn refuse(name: &str, entry: &Json) -> Result<(), EditError> {
    match first_hidden(entry, "") {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(field) => Err(no_value(name, &field, "there is no value that it stands for")),
    }
}

/// Replaces the hidden texts of `entry`, which was shown as `view`, by the values of the file.
///
/// # Errors
/// [`EditError::Invalid`] with the field whose value is not in the file, or is one of several that look the same.
pub(super) fn reveal(name: &str, entry: &mut Json, view: &Json, values: &Json) -> Result<(), EditError> {
    put_back(entry, view, values, "").map_err(|field| {
        no_value(name, &field, "the file has no such value to keep, or several that cannot be told apart")
    })
}

fn no_value(name: &str, field: &str, why: &str) -> EditError {
    let field = field.trim_start_matches('.');
    let problem = Problem::error(format!("`{field}` is hidden, and {why}")).field(field);
    let problems = vec![problem.hint("give the value, or a placeholder such as ${NAME}")];
    EditError::Invalid { name: name.to_owned(), problems }
}

fn first_hidden(value: &Json, at: &str) -> ControlFlow<String> {
    match value {
        Json::String(text) if text.contains(HIDDEN) => ControlFlow::Break(at.to_owned()),
        Json::Array(items) => {
            items.iter().enumerate().try_for_each(|(index, item)| first_hidden(item, &format!("{at}[{index}]")))
        }
        Json::Object(members) => {
            members.iter().try_for_each(|(name, member)| first_hidden(member, &format!("{at}.{name}")))
        }
        _ => ControlFlow::Continue(()),
    }
}

/// Restores the values; the error is the field that has no value.
fn put_back(entry: &mut Json, view: &Json, values: &Json, at: &str) -> Result<(), String> {
    if *entry == *view && !values.is_null() {
        // Placeholders are shown in one form, and may be written in another.
        entry.clone_from(values);
        return Ok(());
    }
    match entry {
        Json::String(text) if text.contains(HIDDEN) => Err(at.to_owned()),
        Json::Array(items) => {
            let empty = Vec::new();
            let shown = view.as_array().unwrap_or(&empty);
            let shown = List { shown, values: values.as_array().unwrap_or(&empty) };
            let sent = items.clone();
            for (index, item) in items.iter_mut().enumerate() {
                let place = format!("{at}[{index}]");
                // The item may have moved.
                let origin = match item {
                    Json::String(text) if text.contains(HIDDEN) => shown.origin(&sent, index).ok_or(&place)?,
                    _ => index,
                };
                let view = shown.shown.get(origin).unwrap_or(&Json::Null);
                put_back(item, view, shown.values.get(origin).unwrap_or(&Json::Null), &place)?;
            }
            Ok(())
        }
        Json::Object(members) => {
            let empty = Map::new();
            let (views, values) = (view.as_object().unwrap_or(&empty), values.as_object().unwrap_or(&empty));
            for (name, member) in members {
                let (view, value) = (views.get(name).unwrap_or(&Json::Null), values.get(name).unwrap_or(&Json::Null));
                put_back(member, view, value, &format!("{at}.{name}"))?;
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

/// A list as it was shown, with its values.
struct List<'a> {
    shown: &'a [Json],
    values: &'a [Json],
}

impl List<'_> {
    /// Returns the index that the item at `index` of the list `sent` had before. Items that look the same are
    /// distinguished by the option before them, whose value they are, and then by their order, unless one of them was
    /// added or removed.
    fn origin(&self, sent: &[Json], index: usize) -> Option<usize> {
        let alike: Vec<usize> = places(self.shown, |other| self.shown[other] == sent[index]);
        let mut values = alike.iter().map(|at| self.values.get(*at));
        let first = values.next()?;
        if values.all(|value| value == first)
            && (alike.len() > 1 || places(sent, |at| sent[at] == sent[index]).len() == 1)
        {
            return alike.first().copied();
        }
        let is_same = |list: &[Json], at: usize| list[at] == sent[index] && option(list, at) == option(sent, index);
        let (were, are) = (places(self.shown, |at| is_same(self.shown, at)), places(sent, |at| is_same(sent, at)));
        let nth = are.iter().position(|at| *at == index)?;
        if were.len() == are.len() { were.get(nth).copied() } else { None }
    }
}

fn places(list: &[Json], is_meant: impl Fn(usize) -> bool) -> Vec<usize> {
    (0..list.len()).filter(|at| is_meant(*at)).collect()
}

/// Returns the option before an item, if the item is its value.
fn option(list: &[Json], at: usize) -> Option<&str> {
    list.get(at.checked_sub(1)?)?.as_str().filter(|text| text.starts_with('-'))
}

#[cfg(test)]
mod tests;
