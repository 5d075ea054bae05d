//! Puts secrets back into an entry (the configuration of one server) that an editor showed with `***` in their place.
//! A `***` whose value is unknown is an error.

use std::ops::ControlFlow;

use serde_json::{Map, Value as Json};

use super::EditError;
use crate::{Problem, mask::HIDDEN};

/// Returns an error if the entry contains `***`: no value is known for it, and the `***` itself would be written.
pub(super) fn refuse_hidden(name: &str, entry: &Json) -> Result<(), EditError> {
    match first_hidden(entry, "") {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(field) => Err(hidden_value_error(name, &field, "no value is known for it")),
    }
}

/// Replaces the hidden texts of `entry`, which was shown as `view`, by the values of the file.
///
/// # Errors
/// [`EditError::Invalid`] with the first field whose value is not in the file, or that could be one of several values.
pub(super) fn reveal(name: &str, entry: &mut Json, view: &Json, values: &Json) -> Result<(), EditError> {
    restore(entry, view, values, "").map_err(|field| {
        hidden_value_error(name, &field, "the file has no such value to keep, or several that cannot be told apart")
    })
}

fn hidden_value_error(name: &str, field: &str, why: &str) -> EditError {
    let field = field.trim_start_matches('.');
    let problem = Problem::error(format!("`{field}` is hidden, and {why}")).field(field);
    let problems = vec![problem.hint("give the value, or a placeholder such as ${NAME}")];
    EditError::Invalid { name: name.to_owned(), problems }
}

/// Breaks with the path of the first text in `value` that contains `***`. `path` is the path of `value`.
fn first_hidden(value: &Json, path: &str) -> ControlFlow<String> {
    match value {
        Json::String(text) if text.contains(HIDDEN) => ControlFlow::Break(path.to_owned()),
        Json::Array(items) => {
            items.iter().enumerate().try_for_each(|(index, item)| first_hidden(item, &format!("{path}[{index}]")))
        }
        Json::Object(members) => {
            members.iter().try_for_each(|(name, member)| first_hidden(member, &format!("{path}.{name}")))
        }
        _ => ControlFlow::Continue(()),
    }
}

/// Restores the hidden texts of `entry`, which is at `path` and was shown as `view`. `values` is the value of the file
/// at that path. The error is the path of a text for which there is no value.
fn restore(entry: &mut Json, view: &Json, values: &Json, path: &str) -> Result<(), String> {
    if *entry == *view && !values.is_null() {
        // An unchanged part stays as it is in the file, because the view shows some placeholders in another form.
        entry.clone_from(values);
        return Ok(());
    }
    match entry {
        Json::String(text) if text.contains(HIDDEN) => Err(path.to_owned()),
        Json::Array(items) => {
            let empty = Vec::new();
            let shown_items = view.as_array().unwrap_or(&empty);
            let list = ShownList { shown_items, values: values.as_array().unwrap_or(&empty) };
            let sent_items = items.clone();
            for (index, item) in items.iter_mut().enumerate() {
                let item_path = format!("{path}[{index}]");
                // The item may have moved.
                let shown_index = match item {
                    Json::String(text) if text.contains(HIDDEN) => {
                        list.shown_index(&sent_items, index).ok_or(&item_path)?
                    }
                    _ => index,
                };
                let view = list.shown_items.get(shown_index).unwrap_or(&Json::Null);
                restore(item, view, list.values.get(shown_index).unwrap_or(&Json::Null), &item_path)?;
            }
            Ok(())
        }
        Json::Object(members) => {
            let empty = Map::new();
            let (views, values) = (view.as_object().unwrap_or(&empty), values.as_object().unwrap_or(&empty));
            for (name, member) in members {
                let (view, value) = (views.get(name).unwrap_or(&Json::Null), values.get(name).unwrap_or(&Json::Null));
                restore(member, view, value, &format!("{path}.{name}"))?;
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

/// A list as the editor showed it, with the value of each item.
struct ShownList<'a> {
    shown_items: &'a [Json],
    values: &'a [Json],
}

impl ShownList<'_> {
    /// Returns the index at which the editor showed the item at `index` of `sent_items`. Items that look the same are
    /// distinguished by the option before them (`--key ***`), and then by their order. `None` if the user has added or
    /// removed such an item, so that the order says nothing.
    fn shown_index(&self, sent_items: &[Json], index: usize) -> Option<usize> {
        let sent_item = &sent_items[index];
        let equal_shown_indexes: Vec<usize> =
            indexes_where(self.shown_items, |other| self.shown_items[other] == *sent_item);
        let mut values = equal_shown_indexes.iter().map(|shown_index| self.values.get(*shown_index));
        let first_value = values.next()?;
        // If all have the same value, any of them will do. But a new copy of a single item may mean another value.
        if values.all(|value| value == first_value)
            && (equal_shown_indexes.len() > 1
                || indexes_where(sent_items, |other| sent_items[other] == *sent_item).len() == 1)
        {
            return equal_shown_indexes.first().copied();
        }
        let has_same_option = |list: &[Json], other: usize| {
            list[other] == *sent_item && option_before(list, other) == option_before(sent_items, index)
        };
        let shown_candidates = indexes_where(self.shown_items, |other| has_same_option(self.shown_items, other));
        let sent_candidates = indexes_where(sent_items, |other| has_same_option(sent_items, other));
        let position = sent_candidates.iter().position(|other| *other == index)?;
        if shown_candidates.len() == sent_candidates.len() { shown_candidates.get(position).copied() } else { None }
    }
}

/// Returns the indexes of `list` for which `matches` returns `true`.
fn indexes_where(list: &[Json], matches: impl Fn(usize) -> bool) -> Vec<usize> {
    (0..list.len()).filter(|index| matches(*index)).collect()
}

/// Returns the text before the item at `index`, if that text is an option such as `--key`.
fn option_before(list: &[Json], index: usize) -> Option<&str> {
    list.get(index.checked_sub(1)?)?.as_str().filter(|text| text.starts_with('-'))
}

#[cfg(test)]
mod tests;
