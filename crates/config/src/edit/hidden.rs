//! Puts secrets back into an entry (the configuration of one server) that an editor showed with `***` in their place.
//! Refuses a `***` whose value is unknown.

use std::ops::ControlFlow;

use serde_json::{Map, Value as Json};

use super::EditError;
use crate::{Problem, mask::HIDDEN};

/// Refuses an entry that contains `***`, because no value is known for it, and the `***` itself would be written.
pub(super) fn refuse_hidden(name: &str, entry: &Json) -> Result<(), EditError> {
    match first_hidden(entry, "") {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(field) => Err(hidden_value_error(name, &field, "no value is known for it")),
    }
}

/// Replaces the hidden texts of `entry`, which was shown as `view`, by the values of the file.
///
/// # Errors
/// [`EditError::Invalid`] with the field whose value is not in the file, or is one of several that look the same.
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

/// Restores the hidden texts of `entry`, which is at `path` and was shown as `view`. `values` is what the file has at
/// that path. The error is the path of a text without a value.
fn restore(entry: &mut Json, view: &Json, values: &Json, path: &str) -> Result<(), String> {
    if *entry == *view && !values.is_null() {
        // An unchanged part stays as the file has it, where a placeholder may have another form than it is shown in.
        entry.clone_from(values);
        return Ok(());
    }
    match entry {
        Json::String(text) if text.contains(HIDDEN) => Err(path.to_owned()),
        Json::Array(items) => {
            let empty = Vec::new();
            let shown = view.as_array().unwrap_or(&empty);
            let list = ShownList { shown, values: values.as_array().unwrap_or(&empty) };
            let sent = items.clone();
            for (index, item) in items.iter_mut().enumerate() {
                let item_path = format!("{path}[{index}]");
                // The item may have moved.
                let shown_index = match item {
                    Json::String(text) if text.contains(HIDDEN) => list.shown_index(&sent, index).ok_or(&item_path)?,
                    _ => index,
                };
                let view = list.shown.get(shown_index).unwrap_or(&Json::Null);
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

/// A list as it was shown, with its values.
struct ShownList<'a> {
    shown: &'a [Json],
    values: &'a [Json],
}

impl ShownList<'_> {
    /// Returns the index at which the item at `index` of `sent` was shown. Items that look the same are distinguished
    /// by the option before them (`--key ***`), and then by their order. `None` if such an item was added or removed,
    /// so that the order says nothing.
    fn shown_index(&self, sent: &[Json], index: usize) -> Option<usize> {
        let alike: Vec<usize> = indexes_where(self.shown, |other| self.shown[other] == sent[index]);
        let mut values = alike.iter().map(|at| self.values.get(*at));
        let first = values.next()?;
        // If all have the same value, any of them will do. But a new copy of a single item may mean another value.
        if values.all(|value| value == first)
            && (alike.len() > 1 || indexes_where(sent, |at| sent[at] == sent[index]).len() == 1)
        {
            return alike.first().copied();
        }
        let is_same =
            |list: &[Json], at: usize| list[at] == sent[index] && option_before(list, at) == option_before(sent, index);
        let alike_shown = indexes_where(self.shown, |at| is_same(self.shown, at));
        let alike_sent = indexes_where(sent, |at| is_same(sent, at));
        let nth = alike_sent.iter().position(|at| *at == index)?;
        if alike_shown.len() == alike_sent.len() { alike_shown.get(nth).copied() } else { None }
    }
}

fn indexes_where(list: &[Json], matches: impl Fn(usize) -> bool) -> Vec<usize> {
    (0..list.len()).filter(|at| matches(*at)).collect()
}

/// Returns the option before an item, if the item is its value.
fn option_before(list: &[Json], at: usize) -> Option<&str> {
    list.get(at.checked_sub(1)?)?.as_str().filter(|text| text.starts_with('-'))
}

#[cfg(test)]
mod tests;
