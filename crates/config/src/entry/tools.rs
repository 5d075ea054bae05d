//! Reads which tools of a server are used: the lists of allowed and of denied names in its entry.

use std::ops::Range;

use toolrack_host::ToolFilter;

use super::fields::{Field, Fields};
use crate::{node::Value, problem::Problem, rows::TOOL_LISTS};

/// The names and patterns of allowed and of denied tools, collected from all fields.
#[derive(Default)]
struct ToolLists {
    allow: Vec<String>,
    deny: Vec<String>,
}

impl ToolLists {
    fn add_allowed<'m>(&mut self, fields: &mut Fields<'m, '_, '_>, field: Field<'m>) {
        let globs = globs(fields, field);
        if globs.is_empty() {
            // An empty allow list allows no tool, while an absent one allows all.
            self.deny.push("*".to_owned());
        }
        self.allow.extend(globs);
    }

    fn add_denied<'m>(&mut self, fields: &mut Fields<'m, '_, '_>, field: Field<'m>) {
        self.deny.extend(globs(fields, field));
    }
}

/// Reads `tools = { allow, deny }`, a list of allowed tools, or the fields of other programs for the two.
pub(super) fn filter(fields: &mut Fields<'_, '_, '_>, name_span: &Range<usize>) -> ToolFilter {
    let mut lists = ToolLists::default();
    if let Some(field) = fields.take("tools") {
        match &field.node.value {
            Value::List(_) => lists.add_allowed(fields, field),
            Value::Map(members) => read_lists(&mut Fields::new(TOOL_LISTS, members, fields.report()), &mut lists),
            _ => {
                fields.report_invalid::<()>(field, "a list of names, or an object with `allow` and `deny`");
            }
        }
    }
    if let Some(field) = fields.take("enabled_tools") {
        lists.add_allowed(fields, field);
    }
    if let Some(field) = fields.take("disabled_tools") {
        lists.add_denied(fields, field);
    }
    // Each list was checked separately; together they may still be too long.
    ToolFilter::new(&lists.allow, &lists.deny).unwrap_or_else(|error| {
        fields.report().error(name_span, "tools", format!("`tools`: {error}"));
        ToolFilter::default()
    })
}

fn read_lists(fields: &mut Fields<'_, '_, '_>, lists: &mut ToolLists) {
    if let Some(field) = fields.take("allow") {
        lists.add_allowed(fields, field);
    }
    if let Some(field) = fields.take("deny") {
        lists.add_denied(fields, field);
    }
    for (_, field) in fields.take_rest() {
        let path = format!("tools.{}", field.name);
        let problem = Problem::error(format!("`{path}` is not a known field"));
        fields.report().add(problem.field(path).hint("`tools` has `allow` and `deny`"), field.name_span);
    }
}

/// Reads a list of names and patterns. After an error, it is empty.
fn globs<'m>(fields: &mut Fields<'m, '_, '_>, field: Field<'m>) -> Vec<String> {
    let globs: Vec<String> = fields.texts(field).into_iter().map(|item| item.value).collect();
    match ToolFilter::new(&globs, &[]) {
        Ok(_) => globs,
        Err(error) => {
            fields.report().error(&field.node.span, field.name, format!("`{}`: {error}", field.name));
            Vec::new()
        }
    }
}
