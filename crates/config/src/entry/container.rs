//! Reads `container` of an entry: the container in which the server runs, and how an engine such as Podman starts it.

use std::{ops::Range, path::Path};

use toolrack_host::spec::{Container, Engine, InheritEnv, Mount, Pull, Stdio, affects_engine_client};

use super::{
    fields::{Field, Fields, Item},
    sandbox::{limits, report_unknown, size},
    transport::check_template,
};
use crate::{
    home::is_full_or_placeholder,
    node::Value,
    placeholder,
    problem::Problem,
    rows::{CONTAINER, CONTAINER_LIMITS},
};

/// The maximum of `cpus`, in thousandths of a processor.
const MAX_MILLICPUS: f64 = 1_024_000.0;

/// Reads `container = "IMAGE"`, or `{ image, engine, pull, network, mounts, tmpfs, read_only, user, limits }`. An
/// unknown field is an error, as in a sandbox.
pub(super) fn container(fields: &mut Fields<'_, '_, '_>) -> Option<Container> {
    let field = fields.take("container")?;
    let members = match &field.node.value {
        Value::Text(image) => {
            let item = Item { name: field.name.to_owned(), value: image.clone(), span: &field.node.span };
            return Some(Container { image: checked_image(fields, item), ..Container::default() });
        }
        Value::Map(members) => members,
        _ => {
            return fields
                .report_invalid(field, "the name of an image, or an object such as `{ \"image\": \"mcp/fetch\" }`");
        }
    };
    let mut container = Container::default();
    let mut inner_fields = Fields::new(CONTAINER, members, fields.report());
    match inner_fields.take("image") {
        Some(image) => {
            let value = inner_fields.text(image).unwrap_or_default();
            let item = Item { name: "container.image".to_owned(), value, span: &image.node.span };
            container.image = checked_image(&mut inner_fields, item);
        }
        None => inner_fields.report().error(field.name_span, "container.image", "`container.image` is missing"),
    }
    read_words(&mut inner_fields, &mut container);
    container.mounts = mounts(&mut inner_fields);
    if let Some(field) = inner_fields.take("tmpfs") {
        let items = inner_fields.texts(field);
        container.tmpfs = items.into_iter().filter_map(|item| container_folder(&mut inner_fields, item)).collect();
    }
    if let Some(field) = inner_fields.take("read_only") {
        container.writable = !inner_fields.flag(field).unwrap_or(true);
    }
    limits(&mut inner_fields, CONTAINER_LIMITS, r#"{ "memory": "512MiB" }"#, |limit_fields| {
        read_limits(limit_fields, &mut container)
    });
    report_unknown(&mut inner_fields, "container.");
    Some(container)
}

/// Reports fields that an entry cannot have together with a container. `name_span` is the position of the entry's name.
pub(super) fn check_conflicts(fields: &mut Fields<'_, '_, '_>, stdio: &Stdio, name_span: &Range<usize>) {
    if stdio.container.is_none() {
        return;
    }
    let mut report_error = |name: &str, message: String, hint: &str| {
        fields.report().add(Problem::error(message).field(name).hint(hint), name_span);
    };
    if stdio.sandbox.is_some() {
        let message =
            "`sandbox` and `container` exclude each other: a sandbox would confine the engine's client".to_owned();
        report_error(
            "sandbox",
            message,
            "keep `container`, whose server can access only the parts of this machine that it mounts",
        );
    }
    if stdio.inherit_env == InheritEnv::All {
        let message =
            "`inherit_env` cannot be `all` with a container: a container has its own folders and programs".to_owned();
        report_error("inherit_env", message, "list the names of variables that it needs");
    }
    if let Some(cwd) = stdio.cwd.as_deref().filter(|cwd| !is_full_in_image(cwd)) {
        let message = format!("`cwd` must be a full path in the container, not {}", cwd.display());
        report_error("cwd", message, "write it as the image has it, or leave it out");
    }
    for name in stdio.env.keys() {
        let field = format!("env.{name}");
        if !placeholder::is_variable_name(name) {
            report_error(&field, format!("`{field}` cannot be given to a container"), "use letters, digits and `_`");
        } else if affects_engine_client(name) {
            let message = format!("`{field}` would act on the engine's client, which is outside of the container");
            report_error(&field, message, "set it in the image, or run `env NAME=VALUE COMMAND` in it");
        }
    }
    if let InheritEnv::Names(names) = &stdio.inherit_env
        && let Some(name) = names.iter().find(|name| !placeholder::is_variable_name(name))
    {
        let message = format!("`inherit_env` names `{name}`, which cannot be given to a container");
        report_error("inherit_env", message, "use letters, digits and `_`");
    }
}

/// Returns whether a path in an image is full, or begins with a placeholder, whose value is not known yet.
fn is_full_in_image(path: &Path) -> bool {
    path.has_root() || path.as_os_str().as_encoded_bytes().starts_with(b"$")
}

/// Returns the name of an image, and reports an error if it is none. A name that begins with `-` would be an option of
/// the engine.
fn checked_image(fields: &mut Fields<'_, '_, '_>, item: Item<'_>) -> String {
    let is_name = !item.value.is_empty()
        && !item.value.starts_with('-')
        && !item.value.contains(|c: char| c.is_whitespace() || c.is_control());
    if !is_name {
        let message = format!("`{}` must be the name of an image, such as `mcp/fetch@sha256:…`", item.name);
        fields.report().error(item.span, &item.name, message);
    }
    check_template(fields, &item);
    item.value
}

/// Reads `engine`, `pull`, `network` and `user`.
fn read_words(fields: &mut Fields<'_, '_, '_>, container: &mut Container) {
    container.engine = fields.word("engine", Engine::parse).unwrap_or_default();
    if let Some(field) = fields.take("pull") {
        match fields.text(field).as_deref() {
            // Missing images are pulled by default. Without a text, the error is reported already.
            Some("missing") | None => {}
            Some("never") => container.pull = Pull::Never,
            Some(_) => drop(fields.report_invalid::<()>(field, "`missing` or `never`")),
        }
    }
    if let Some(field) = fields.take("network")
        && let Some(network) = fields.text(field)
    {
        match &*network {
            "none" => {}
            "host" => {
                let problem =
                    Problem::error("`container.network` cannot be `host`: it reaches all that listens on this machine");
                let problem = problem.field("container.network").hint("`bridge` gives access to other networks");
                fields.report().add(problem, &field.node.span);
            }
            name if is_plain_name(name) => container.network = Some(network),
            _ => drop(fields.report_invalid::<()>(field, "`none`, `bridge` or the name of a network of the engine")),
        }
    }
    if let Some(field) = fields.take("user")
        && let Some(user) = fields.text(field)
    {
        // `USER` or `USER:GROUP`.
        match user.split(':').all(is_plain_name) && user.split(':').count() <= 2 {
            true => container.user = Some(user),
            false => drop(fields.report_invalid::<()>(field, "a user, such as `1000` or `1000:1000`")),
        }
    }
}

/// Returns whether `word` can be the name of a network or of a user: `[a-zA-Z0-9_][a-zA-Z0-9_.-]*`.
fn is_plain_name(word: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
    word.starts_with(is_plain) && word.chars().all(|c| is_plain(c) || matches!(c, '.' | '-'))
}

/// Reads `SOURCE:TARGET`, `SOURCE:TARGET:ro` or `SOURCE:TARGET:rw`; without `rw`, the mount is read-only.
fn mounts(fields: &mut Fields<'_, '_, '_>) -> Vec<Mount> {
    let Some(field) = fields.take("mounts") else { return Vec::new() };
    let items = fields.texts(field);
    items.into_iter().filter_map(|item| mount(fields, item)).collect()
}

fn mount(fields: &mut Fields<'_, '_, '_>, mut item: Item<'_>) -> Option<Mount> {
    item.name = format!("container.{}", item.name);
    check_template(fields, &item);
    let (rest, write) = match item.value.strip_suffix(":rw") {
        Some(rest) => (rest, true),
        None => (item.value.strip_suffix(":ro").unwrap_or(&item.value), false),
    };
    let Some((source, target)) = rest.rsplit_once(':').filter(|(source, _)| !source.is_empty()) else {
        let message =
            format!("`{}` must be `SOURCE:TARGET`, with `:rw` after it if the server may change it", item.name);
        fields.report().error(item.span, &item.name, message);
        return None;
    };
    let problem = if !is_full_or_placeholder(source) || !is_container_folder(target) || target == "/" {
        Problem::error(format!("`{}` must be two full paths; the first may begin with `~/`", item.name))
    } else if Mount::gives_too_much(Path::new(source), false) {
        Problem::error(format!("`{}` would give the whole machine to the container: {source}", item.name))
            .hint("a server that reaches an engine's socket can start anything, outside of any container")
    } else if Mount::gives_too_much(Path::new(source), write) {
        Problem::error(format!("`{}` would let the container change the system: {source}", item.name))
            .hint("leave `:rw` out, or name the folder in it that is to be changed")
    } else {
        return Some(Mount { source: source.to_owned(), target: target.to_owned(), write });
    };
    fields.report().add(problem.field(&item.name), item.span);
    None
}

fn container_folder(fields: &mut Fields<'_, '_, '_>, item: Item<'_>) -> Option<String> {
    if is_container_folder(&item.value) && item.value != "/" {
        return Some(item.value);
    }
    let message = format!("`container.{}` must be a full path in the container", item.name);
    fields.report().error(item.span, &item.name, message);
    None
}

/// Returns whether `path` can be a folder in a container. It has no colon or comma, because engines read the text after
/// it as options.
fn is_container_folder(path: &str) -> bool {
    path.starts_with('/') && !path.contains([':', ',', '\0', '\n'])
}

fn read_limits(fields: &mut Fields<'_, '_, '_>, container: &mut Container) {
    if let Some(field) = fields.take("memory")
        && let Some(memory) = memory(fields, field)
    {
        container.memory = memory;
    }
    if let Some(count) = fields.number("processes") {
        container.processes = u32::try_from(count).unwrap_or(u32::MAX);
    }
    if let Some(field) = fields.take("cpus") {
        let cpus = match &field.node.value {
            Value::Number(number) => number.as_f64().map(|cpus| cpus * 1000.0),
            _ => None,
        };
        container.millicpus = match cpus {
            // Within these bounds, the cast only drops fractions of a thousandth.
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "within 10 and 1,024,000")]
            Some(cpus) if (10.0..=MAX_MILLICPUS).contains(&cpus) => Some(cpus as u32),
            _ => fields.report_invalid(field, "a number of processors from 0.01 to 1024, such as `1.5`"),
        };
    }
}

fn memory(fields: &mut Fields<'_, '_, '_>, field: Field<'_>) -> Option<u64> {
    // Engines take no less than 6 MiB.
    let bytes = size(field).filter(|bytes| *bytes >= 6 << 20);
    if bytes.is_none() {
        let message = format!("`{}` must be a size of 6 MiB or more, such as `\"512MiB\"`", field.name);
        fields.report().error(&field.node.span, field.name, message);
    }
    bytes
}
