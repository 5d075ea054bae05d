//! Reads the transport of a server from its entry: the program that Toolrack starts (`stdio`), or the address to which
//! it sends requests (`http`, `sse`).

use std::{collections::BTreeMap, ops::Range, path::PathBuf};

use toolrack_host::{
    spec::{FieldScope, Http, InheritEnv, Stdio, Transport},
    text,
};
use url::Url;

use super::fields::{Field, Fields, Item};
use crate::{node::Value, placeholder, problem::Problem, rows::Row};

/// The types of servers that a file can describe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TransportKind {
    Stdio,
    Http,
    Sse,
}

impl TransportKind {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Stdio => "stdio",
            Self::Http => "http",
            Self::Sse => "sse",
        }
    }

    /// Returns whether the field of `row` has no meaning for such a server.
    pub(super) fn excludes(self, row: &Row) -> bool {
        match row.servers {
            FieldScope::Any => false,
            FieldScope::Stdio => self != Self::Stdio,
            FieldScope::Http => self == Self::Stdio,
        }
    }
}

/// Returns the type of the server: as `type` says, or else by the presence of `command`, `container` or `url`. If that
/// gives no type or two of them, reports an error and returns `None`.
pub(super) fn kind(fields: &mut Fields<'_, '_, '_>, name_span: &Range<usize>) -> Option<TransportKind> {
    if let Some(field) = fields.take("type") {
        let word = fields.text(field)?;
        return match word.to_ascii_lowercase().replace(['-', '_'], "").as_str() {
            // `local` and `remote` are opencode's words.
            "stdio" | "local" => Some(TransportKind::Stdio),
            "http" | "streamablehttp" | "remote" => Some(TransportKind::Http),
            "sse" => Some(TransportKind::Sse),
            _ => {
                let message = format!("`{}` must be `stdio`, `http` or `sse`", field.name);
                fields.report().error(&field.node.span, field.name, message);
                None
            }
        };
    }
    let has_url = fields.has("url");
    // A container needs no `command`: the image's own program runs by default.
    let problem = match (fields.has("command") || fields.has("container"), has_url) {
        (true, false) => return Some(TransportKind::Stdio),
        (false, true) => return Some(TransportKind::Http),
        (true, true) => Problem::error("both `command` and `url` are given").hint("keep one of them"),
        (false, false) => {
            let hint = match fields.misspelt_field(&["command", "url", "container"]) {
                Some((written, meant)) => format!("`{written}` is not a known field; did you mean `{meant}`?"),
                None => "give it `command` or `url`".to_owned(),
            };
            Problem::error("nothing says how to reach the server").hint(hint)
        }
    };
    fields.report().add(problem, name_span);
    None
}

pub(super) fn decode(kind: TransportKind, fields: &mut Fields<'_, '_, '_>, name_span: &Range<usize>) -> Transport {
    match kind {
        TransportKind::Stdio => Transport::Stdio(stdio(fields, name_span)),
        TransportKind::Http => Transport::Http(http(fields, name_span)),
        TransportKind::Sse => Transport::Sse(http(fields, name_span)),
    }
}

fn stdio(fields: &mut Fields<'_, '_, '_>, name_span: &Range<usize>) -> Stdio {
    let container = super::container::container(fields);
    let command_field = fields.take("command");
    let (command, listed_args) = match command_field.filter(|field| matches!(field.node.value, Value::List(_))) {
        // opencode's form: the program and its arguments in one list.
        Some(field) => listed_command(fields, field),
        None if command_field.is_none() && container.is_some() => (String::new(), None),
        None => (required_text(fields, command_field, "command", name_span), None),
    };
    let args = fields.take("args").map(|field| fields.texts(field));
    let args = match (listed_args, args) {
        (Some(listed_args), args) => {
            Some(listed_args.into_iter().chain(args.into_iter().flatten()).collect::<Vec<_>>())
        }
        (None, args) => args,
    };
    if let Some(field) = command_field
        && ["http://", "https://"].iter().any(|scheme| starts_with_ignoring_case(command.trim_start(), scheme))
    {
        let message = format!("`{}` is an address, not a program: write it as `url`", field.name);
        fields.report().error(&field.node.span, field.name, message);
    }
    if let Some(field) = command_field
        && args.is_none()
        && command.trim().contains(char::is_whitespace)
        // With `/` or `\`, the command is a path, and with `$` it has a placeholder. Both may contain white space.
        && !command.contains(['/', '\\', '$'])
    {
        fields.report().add(
            Problem::warning("`command` holds white space, and no shell will split it")
                .field(field.name)
                .hint("move everything after the program's name into `args`"),
            &field.node.span,
        );
    }
    for item in args.iter().flatten() {
        check_template(fields, item);
        warn_of_secret(fields, item);
    }
    let args = args.into_iter().flatten().map(|item| item.value).collect();
    // Every field of an entry has a row in `crate::rows`. A row may name a setting that the host's `spec.rs` defines
    // (`Row::sets`): `bounds::read_rows` reads these fields. Read only the others here.
    let mut stdio = Stdio { command, args, ..Stdio::default() };
    stdio.env = env(fields);
    stdio.cwd = cwd(fields);
    stdio.inherit_env = inherit_env(fields);
    stdio.sandbox = super::sandbox::sandbox(fields);
    stdio.container = container.map(Box::new);
    super::container::check_conflicts(fields, &stdio, name_span);
    stdio
}

fn http(fields: &mut Fields<'_, '_, '_>, name_span: &Range<usize>) -> Http {
    let mut http = Http::default();
    let field = fields.take("url");
    http.url = required_text(fields, field, "url", name_span);
    if let Some(field) = field
        && !http.url.is_empty()
        && let Some(problem) = url_problem(&http.url)
    {
        let message = format!("`{}` {problem}", field.name);
        fields.report().error(&field.node.span, field.name, message);
    }
    http.headers = headers(fields);
    http.headers_helper = headers_helper(fields).map(Box::new);
    http.oauth = super::sign_in::oauth(fields);
    http
}

/// Returns the mistake in the address of a server, as a text that continues the name of the field.
fn url_problem(url: &str) -> Option<String> {
    if !["http://", "https://", "$"].iter().any(|prefix| starts_with_ignoring_case(url.trim_start(), prefix)) {
        return Some("must begin with `http://` or `https://`".to_owned());
    }
    // The values of placeholders are not known yet.
    if url.contains('$') {
        return None;
    }
    Url::parse(url).err().map(|error| format!("is not a URL: {error}"))
}

/// Returns whether `text` begins with `start`, ignoring case, because the scheme of a URL may have either.
fn starts_with_ignoring_case(text: &str, start: &str) -> bool {
    text.get(..start.len()).is_some_and(|beginning| beginning.eq_ignore_ascii_case(start))
}

/// Reads a program that prints headers: a list, or one text that is split into words as in a shell, with quotes. No
/// shell runs it.
fn headers_helper(fields: &mut Fields<'_, '_, '_>) -> Option<Stdio> {
    let field = fields.take("headers_helper")?;
    let Value::Text(line) = &field.node.value else {
        let (command, args) = listed_command(fields, field);
        let args: Vec<_> = args?;
        for arg in &args {
            check_template(fields, arg);
            warn_of_secret(fields, arg);
        }
        return Some(Stdio { command, args: args.into_iter().map(|arg| arg.value).collect(), ..Stdio::default() });
    };
    let report_error = |fields: &mut Fields<'_, '_, '_>, message: &str| {
        fields.report().error(&field.node.span, field.name, format!("`{}` {message}", field.name));
        None
    };
    let Ok(mut words) = shell_words::split(line) else {
        return report_error(fields, "has an unclosed quotation mark");
    };
    if words.is_empty() {
        return report_error(fields, "is empty");
    }
    if words.iter().any(|word| ["|", "||", "&&", "&", ";", ">", "<"].contains(&&**word)) || line.contains("$(") {
        fields.report().add(
            Problem::warning(format!("`{}` has shell syntax, and no shell runs it", field.name))
                .field(field.name)
                .hint("put it into a script, or write `[\"sh\", \"-c\", \"…\"]`"),
            &field.node.span,
        );
    }
    for word in &words {
        let item = Item { name: field.name.to_owned(), value: word.clone(), span: &field.node.span };
        check_template(fields, &item);
        warn_of_secret(fields, &item);
    }
    let command = words.remove(0);
    Some(Stdio { command, args: words, ..Stdio::default() })
}

/// Reads a program and its arguments from one list. After an error, returns no arguments (`None`).
fn listed_command<'m>(fields: &mut Fields<'m, '_, '_>, field: Field<'m>) -> (String, Option<Vec<Item<'m>>>) {
    let mut items = fields.texts(field);
    if items.first().is_none_or(|item| item.value.trim().is_empty()) {
        fields.report().error(&field.node.span, field.name, format!("`{}` is empty", field.name));
        return (String::new(), None);
    }
    let command = items.remove(0);
    warn_of_white_space(fields, &command);
    check_template(fields, &command);
    (command.value, Some(items))
}

/// Reads a text that is required and must not be empty. After an error, returns a text anyway, so that the reader goes
/// on and the user sees all errors of an entry at once.
fn required_text(
    fields: &mut Fields<'_, '_, '_>,
    field: Option<Field<'_>>,
    name: &str,
    name_span: &Range<usize>,
) -> String {
    let Some(field) = field else {
        fields.report().error(name_span, name, format!("`{name}` is missing"));
        return String::new();
    };
    let Value::Text(value) = &field.node.value else {
        let message = format!("`{}` must be text, not {}", field.name, field.node.kind());
        fields.report().error(&field.node.span, field.name, message);
        return String::new();
    };
    if value.trim().is_empty() {
        fields.report().error(&field.node.span, field.name, format!("`{}` is empty", field.name));
    }
    let item = Item { name: field.name.to_owned(), value: value.clone(), span: &field.node.span };
    warn_of_white_space(fields, &item);
    check_template(fields, &item);
    item.value
}

fn env(fields: &mut Fields<'_, '_, '_>) -> BTreeMap<String, String> {
    let Some(field) = fields.take("env") else {
        return BTreeMap::new();
    };
    let items = fields.map(field);
    for item in &items {
        let env_item = Item { name: format!("env.{}", item.name), ..item.clone() };
        if item.name.is_empty() || item.name.contains(['=', '\0']) {
            let message = "a variable's name cannot be empty or hold `=`";
            fields.report().error(item.span, &env_item.name, message);
        }
        if item.value.contains('\0') {
            fields.report().error(item.span, &env_item.name, format!("`{}` holds a NUL character", env_item.name));
        }
        warn_of_white_space(fields, &env_item);
        check_template(fields, &env_item);
    }
    items.into_iter().map(|item| (item.name, item.value)).collect()
}

fn cwd(fields: &mut Fields<'_, '_, '_>) -> Option<PathBuf> {
    let field = fields.take("cwd")?;
    let value = fields.text(field)?;
    let item = Item { name: field.name.to_owned(), value, span: &field.node.span };
    check_template(fields, &item);
    Some(item.value.into())
}

/// Reads `inherit_env`, and Codex's `env_vars`, a list of further variables to inherit. Warns if `inherit_env` is
/// `none`, because the server then inherits none of them.
fn inherit_env(fields: &mut Fields<'_, '_, '_>) -> InheritEnv {
    let env_vars = fields.take("env_vars");
    let env_vars: Vec<String> =
        env_vars.map(|field| fields.texts(field)).into_iter().flatten().map(|item| item.value).collect();
    let inherit_safe_and =
        |names: Vec<String>| if names.is_empty() { InheritEnv::Safe } else { InheritEnv::Names(names) };
    let Some(field) = fields.take("inherit_env") else { return inherit_safe_and(env_vars) };
    match &field.node.value {
        Value::Text(word) if word == "safe" => inherit_safe_and(env_vars),
        Value::Text(word) if word == "all" => InheritEnv::All,
        Value::Text(word) if word == "none" => {
            if !env_vars.is_empty() {
                let message = format!("`{}` is `none`, so the variables of `env_vars` are not inherited", field.name);
                let hint = "leave one of the two out";
                fields.report().add(Problem::warning(message).field(field.name).hint(hint), &field.node.span);
            }
            InheritEnv::None
        }
        Value::List(_) => {
            InheritEnv::Names(fields.texts(field).into_iter().map(|item| item.value).chain(env_vars).collect())
        }
        _ => {
            let message = format!("`{}` must be `safe`, `all`, `none` or a list of names", field.name);
            fields.report().error(&field.node.span, field.name, message);
            InheritEnv::Safe
        }
    }
}

/// Reads `headers`, and Codex's other fields for headers: `env_http_headers` and `bearer_token_env_var`.
fn headers(fields: &mut Fields<'_, '_, '_>) -> BTreeMap<String, String> {
    let mut headers = BTreeMap::new();
    if let Some(field) = fields.take("headers") {
        for item in fields.map(field) {
            let item = Item { name: format!("headers.{}", item.name), ..item };
            warn_of_white_space(fields, &item);
            check_template(fields, &item);
            add_header(fields, &mut headers, item);
        }
    }
    if let Some(field) = fields.take("env_http_headers") {
        for item in fields.map(field) {
            let item = Item { name: format!("headers.{}", item.name), ..item };
            if let Some(value) = variable_placeholder(fields, &item, "") {
                add_header(fields, &mut headers, Item { value, ..item });
            }
        }
    }
    if let Some(field) = fields.take("bearer_token_env_var")
        && let Some(value) = fields.text(field)
    {
        let item = Item { name: "headers.Authorization".to_owned(), value, span: &field.node.span };
        if let Some(value) = variable_placeholder(fields, &item, "Bearer ") {
            add_header(fields, &mut headers, Item { value, ..item });
        }
    }
    headers
}

/// Returns the placeholder of the variable that `item` names, after `prefix`. Reports an error for any other text.
fn variable_placeholder(fields: &mut Fields<'_, '_, '_>, item: &Item<'_>, prefix: &str) -> Option<String> {
    if placeholder::is_variable_name(&item.value) {
        return Some(format!("{prefix}${{{}}}", item.value));
    }
    let message = "this must be the name of an environment variable";
    fields.report().error(item.span, &item.name, message);
    None
}

/// Adds the header `headers.NAME` if it is valid (RFC 9110, 5.1 and 5.5); otherwise reports an error.
fn add_header(fields: &mut Fields<'_, '_, '_>, headers: &mut BTreeMap<String, String>, item: Item<'_>) {
    let name = item.name.strip_prefix("headers.").unwrap_or(&item.name);
    let is_token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    if name.is_empty() || !name.chars().all(is_token) {
        fields.report().error(item.span, &item.name, "this cannot be the name of a header");
    } else if item.value.chars().any(|c| c.is_control() && c != '\t') {
        let message = format!("`{}` holds control characters", item.name);
        fields.report().error(item.span, &item.name, message);
    } else if headers.keys().any(|other| other.eq_ignore_ascii_case(name)) {
        fields.report().error(item.span, &item.name, format!("`{}` is given twice", item.name));
    } else {
        headers.insert(name.to_owned(), item.value);
    }
}

/// Warns of a secret in an argument: every user of the machine can see the arguments of every process.
fn warn_of_secret(fields: &mut Fields<'_, '_, '_>, item: &Item<'_>) {
    if ["${secret:", "${user:"].iter().any(|secret| item.value.contains(secret)) {
        let message = format!("`{}` puts a secret where every user of this machine can see it with `ps`", item.name);
        let hint = "give it to the server in `env`; many programs read a variable in place of an argument";
        fields.report().add(Problem::warning(message).field(&item.name).hint(hint).minor(), item.span);
    }
}

/// Reports malformed placeholders in a text, and those of opencode. Looks up no values.
pub(super) fn check_template(fields: &mut Fields<'_, '_, '_>, item: &Item<'_>) {
    if let Err(error) = placeholder::check(&item.value) {
        let problem = Problem::error(format!("`{}`: {error}", item.name)).field(&item.name);
        fields.report().add(problem.hint(error.hint()), item.span);
    }
    if let Some(name) = placeholder::opencode_variable(&item.value) {
        let problem = Problem::warning(format!("`{}`: `{{env:{name}}}` is not looked up", item.name));
        fields.report().add(problem.field(&item.name).hint(format!("write `${{{name}}}`")), item.span);
    }
}

/// Warns of characters that were probably pasted by mistake: white space at the ends, and invisible characters.
fn warn_of_white_space(fields: &mut Fields<'_, '_, '_>, item: &Item<'_>) {
    let flaw = if item.value.trim() != item.value {
        "begins or ends with white space"
    } else if item.value.lines().any(|line| text::for_line(line) != line) {
        "holds characters that cannot be seen"
    } else {
        return;
    };
    let problem = Problem::warning(format!("`{}` {flaw}", item.name)).field(&item.name);
    fields.report().add(problem.hint("it is used unchanged"), item.span);
}
