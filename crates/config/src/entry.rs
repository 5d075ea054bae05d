//! Reads one entry of a file, which is the configuration of one server. The result is a [`ServerSpec`], or all problems
//! of the entry.
//!
//! Entries are the same in all dialects. The name of a field may be in `camelCase`, `kebab-case` or `snake_case`. It
//! may also be the name that another program has for the same thing, so that programs can share a file. An unknown
//! field is a warning, and stays when the file is edited. A field of the other transport (a local program or a remote
//! address) is an error: the entry does not do what its author thinks.

mod bounds;
mod container;
mod fields;
mod sandbox;
mod sign_in;
mod tools;
mod transport;

use std::{collections::HashSet, ops::Range};

use toolrack_host::{
    ServerName, ServerSpec, Who,
    spec::{FieldScope, Protocol, Share},
};

use crate::{
    document::Document,
    needs::user_values_in,
    node::{Member, Node, Value},
    problem::Problem,
    rows::{ENTRY, Row},
    suggest::intended_name,
};
use fields::Fields;
pub(crate) use fields::canonical;
pub use sign_in::is_account_name;

/// The result of reading an entry.
#[derive(Debug)]
pub(crate) enum Decoded {
    /// A server.
    Server(Box<ServerSpec>),
    /// Only `enabled`, which enables or disables the entry of this name in a weaker layer (another file).
    Switch(bool),
    /// An entry with errors. No server runs under this name.
    Broken,
}

/// Collects the problems of one entry.
#[derive(Debug)]
pub(crate) struct Report<'a> {
    document: Option<&'a Document>,
    entry_name: &'a str,
    problems: Vec<Problem>,
    /// The names of the fields that set nothing: unknown fields, notes, and fields of the other transport.
    ignored_names: Vec<String>,
}

impl<'a> Report<'a> {
    /// Creates a report on the entry `entry_name` of `document`. An entry without a document is in no file.
    pub(crate) fn new(document: Option<&'a Document>, entry_name: &'a str) -> Self {
        Self { document, entry_name, problems: Vec::new(), ignored_names: Vec::new() }
    }

    /// Adds `problem`, which is at the bytes `span` of the document.
    pub(crate) fn add(&mut self, problem: Problem, span: &Range<usize>) {
        let problem = problem.in_entry(self.entry_name);
        self.problems.push(match self.document {
            Some(document) => document.locate(problem, span.clone()),
            None => problem,
        });
    }

    fn error(&mut self, span: &Range<usize>, field: &str, message: impl Into<String>) {
        self.add(Problem::error(message).field(field), span);
    }

    /// Adds the error that an entry has the fields `first` and `second`, which are two names of the same field.
    fn report_two_names(&mut self, first: &str, second: &Member) {
        let message = format!("`{first}` and `{}` are two names of the same field", second.name);
        self.add(Problem::error(message).field(&second.name).hint("keep one of them"), &second.name_span);
    }

    pub(crate) fn has_errors(&self) -> bool {
        self.problems.iter().any(Problem::is_error)
    }

    pub(crate) fn into_problems(self) -> Vec<Problem> {
        self.problems
    }

    /// Returns the names of the fields that set nothing: unknown fields, which may be those of other programs, notes,
    /// and fields of the other transport.
    pub(crate) fn into_ignored(self) -> Vec<String> {
        self.ignored_names
    }
}

/// Reads the entry `raw_entry`, which is as the file has it.
pub(crate) fn decode(raw_entry: &Member, report: &mut Report<'_>) -> Decoded {
    if let Err(error) = ServerName::new(raw_entry.name.as_str()) {
        report.add(Problem::error(error.to_string()).hint("rename the entry"), &raw_entry.name_span);
    }
    let Some(members) = raw_entry.node.members() else {
        let message = format!("an entry must be an object, not {}", raw_entry.node.kind());
        report.add(Problem::error(message), &raw_entry.node.span);
        return Decoded::Broken;
    };
    report_duplicates(&raw_entry.node, report);
    let mut fields = Fields::new(ENTRY, members, report);
    let enabled = enabled(&mut fields);
    if fields.is_exhausted() {
        return match enabled {
            _ if fields.report().has_errors() => Decoded::Broken,
            Some(enabled) => Decoded::Switch(enabled),
            None => {
                fields.report().add(
                    Problem::error("the entry is empty").hint("a server needs `command` or `url`"),
                    &raw_entry.name_span,
                );
                Decoded::Broken
            }
        };
    }
    let spec = server_spec(&mut fields, &raw_entry.name_span)
        .map(|spec| ServerSpec { enabled: enabled.unwrap_or(true), ..spec });
    match spec {
        Some(spec) if !report.has_errors() => Decoded::Server(Box::new(spec)),
        _ => Decoded::Broken,
    }
}

/// Reports every name that an object in `node` has twice, even with the value `null`. Some parsers use the first value,
/// others the last, so the user could agree to one program, and another one would run.
pub(crate) fn report_duplicates(node: &Node, report: &mut Report<'_>) {
    match &node.value {
        Value::List(nodes) => nodes.iter().for_each(|node| report_duplicates(node, report)),
        Value::Map(members) => {
            let mut names = HashSet::with_capacity(members.len());
            for member in members {
                if !names.insert(&*member.name) {
                    let problem = Problem::error(format!("`{}` is given twice", member.name));
                    report.add(problem.field(&member.name).hint("keep one of them"), &member.name_span);
                }
                report_duplicates(&member.node, report);
            }
        }
        _ => {}
    }
}

/// Reads the fields of a server. Returns `None` if the entry does not say how the server is reached. After any other
/// error, which is in the report, the result must not be used.
fn server_spec(fields: &mut Fields<'_, '_, '_>, name_span: &Range<usize>) -> Option<ServerSpec> {
    let kind = transport::kind(fields, name_span)?;
    let mut spec = ServerSpec::new(transport::decode(kind, fields, name_span));
    let is_for_transport = |row: &Row| !kind.excludes(row);
    // `read_rows` runs three times. First come the fields of this transport.
    bounds::read_rows(fields, &mut spec, |row| {
        is_for_transport(row) && row.servers != FieldScope::Any && !row.is_alias()
    });
    spec.protocol = fields.word("protocol", Protocol::parse).unwrap_or_default();
    // Then come the fields of both transports. `timeout` sets several times at once. The fields for single times come
    // later and override it.
    bounds::read_timeout(fields, &mut spec.timeouts);
    // Checked here, because the next `read_rows` takes the field.
    let has_max_call_time = fields.has("max_call_time");
    bounds::read_rows(fields, &mut spec, |row| row.servers == FieldScope::Any);
    if !has_max_call_time {
        // The default of `max_call_time` must not be shorter than the `call_timeout` of the entry.
        spec.timeouts.call_total = spec.timeouts.call_total.max(spec.timeouts.call);
    }
    // Aliases come last, because they replace the fields whose values they set.
    bounds::read_rows(fields, &mut spec, |row| is_for_transport(row) && row.is_alias());
    bounds::read_retry(fields, &mut spec.retry);
    spec.tools = tools::filter(fields, name_span);
    spec.members = members(fields);
    check_share(fields, &spec, name_span);
    report_unread_fields(fields, kind);
    Some(spec)
}

/// Reads the members of a team who have the server. An item that cannot be read makes the entry unusable: if it were
/// ignored, more members could have the server than the operator meant.
fn members(fields: &mut Fields<'_, '_, '_>) -> Vec<Who> {
    let Some(field) = fields.take("for") else { return Vec::new() };
    let mut members = Vec::new();
    let items = fields.texts(field);
    if items.is_empty() {
        fields.report().error(
            &field.node.span,
            "for",
            "`for` must name at least one member or group, such as `group:eng`",
        );
    }
    for item in items {
        match Who::read(&item.value) {
            Ok(who) => members.push(who),
            Err(error) => fields.report().error(item.span, "for", error.to_string()),
        }
    }
    members
}

/// Reports an error if the members of a tenant share the server although each member gives values of their own for it.
fn check_share(fields: &mut Fields<'_, '_, '_>, spec: &ServerSpec, name_span: &Range<usize>) {
    let Some(name) = user_values_in(spec).pop_first().filter(|_| spec.share == Some(Share::Tenant)) else { return };
    let problem = Problem::error(format!(
        "`share` is `tenant`, but each member gives a value of their own for `${{user:{name}}}`"
    ));
    fields.report().add(problem.field("share").hint("leave `share` out, or use `${secret:…}`"), name_span);
}

/// Reads `enabled` and its opposite, `disabled`; `None` if the entry has neither.
fn enabled(fields: &mut Fields<'_, '_, '_>) -> Option<bool> {
    let enabled = fields.take("enabled");
    let disabled = fields.take("disabled");
    let is_enabled = enabled.and_then(|field| fields.flag(field));
    let is_disabled = disabled.and_then(|field| fields.flag(field));
    if let (Some(field), true) = (disabled, is_enabled.is_some() && is_enabled == is_disabled) {
        let message = "`enabled` and `disabled` contradict each other";
        fields.report().error(&field.node.span, field.name, message);
    }
    is_enabled.or(is_disabled.map(|is_disabled| !is_disabled))
}

/// Reports the fields that are not read yet: fields of the other transport, and unknown fields.
fn report_unread_fields(fields: &mut Fields<'_, '_, '_>, kind: transport::TransportKind) {
    for (key, field) in fields.take_rest() {
        fields.report().ignored_names.push(field.name.to_owned());
        if ENTRY.rows.iter().any(|row| kind.excludes(row) && row.is_called(&key)) {
            if is_empty(field.node) {
                continue;
            }
            let problem =
                Problem::error(format!("`{}` means nothing to a server of type `{}`", field.name, kind.word()));
            fields.report().add(
                problem.field(field.name).hint("remove the field, or set `type` to the right transport"),
                field.name_span,
            );
        } else if !fields::is_note(&key) {
            let known_names = ENTRY.rows.iter().filter(|row| !kind.excludes(row)).flat_map(Row::names);
            let problem = Problem::warning(format!("`{}` is not a known field", field.name)).field(field.name);
            let problem = match intended_name(&key, known_names) {
                Some(name) => problem.hint(format!("did you mean `{name}`?")),
                // Fields of other programs have no meaning here.
                None => problem.hint("it is ignored, and kept when the file is edited").minor(),
            };
            fields.report().add(problem, field.name_span);
        }
    }
}

/// Returns whether a field has an empty value. Some programs write all of their defaults, so an empty field of the
/// other transport is no mistake.
fn is_empty(node: &Node) -> bool {
    match &node.value {
        Value::Text(text) => text.is_empty(),
        Value::List(nodes) => nodes.is_empty(),
        Value::Map(members) => members.is_empty(),
        _ => false,
    }
}

/// Returns whether `node` could be a server: it names a command or a URL, or switches a server.
pub(crate) fn looks_like_server(node: &Node) -> bool {
    let is_characteristic = |member: &Member| {
        let name = canonical(&member.name);
        ENTRY.rows.iter().any(|row| row.is_characteristic && row.is_called(&name))
    };
    node.members().is_some_and(|members| members.iter().any(is_characteristic))
}

#[cfg(test)]
mod tests;
