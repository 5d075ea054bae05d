//! Runs `toolrack add` and `toolrack add-json`.
//!
//! An entry is the configuration of one server in a file. The secrets of a new entry are sealed: each value goes into
//! the secret store, and the entry gets a reference to it. `Context` is what a command works with: its configuration,
//! database, screen and servers.

pub(crate) mod args;
mod dialog;

use std::{ffi::OsString, io::IsTerminal, net::IpAddr, time::Duration};

use serde::Serialize;
use serde_json::{Map, Value, json};
use toolrack_config::{
    edit::{self, EditTarget, Edited, Options},
    import::Sealed,
    trust::content_hash,
};
use toolrack_host::{ServerName, text};

use super::{
    edits::{self, Document},
    entry_secrets,
};
use crate::{
    context::Context,
    error::{Exit, Failure},
    verbs::{
        input,
        look::list::render::{self, Server},
        reach,
    },
};
use args::{AddArgs, AddJsonArgs, AddOptions, Target, TransportKind};

/// `add --json`.
#[derive(Debug, Serialize)]
struct AddDocument<'a> {
    #[serde(flatten)]
    edit: &'a Document,
    /// The state of the server; `None` if the server was not tried, because of `--no-test` or `--dry-run`, or because
    /// another entry of the same name is used here.
    server: Option<Server>,
}

/// An entry, and how it is added to a file.
struct Addition {
    name: ServerName,
    entry: Value,
    edit_target: EditTarget,
    options: Options,
    /// Whether to connect to the server afterwards.
    connects_afterwards: bool,
    /// The secrets that were taken out of the entry. They are stored before the entry is written.
    sealed_secrets: Sealed,
}

pub(crate) async fn run(mut args: AddArgs, words: &[OsString], context: &Context) -> Result<Exit, Failure> {
    dialog::ask_for_missing(&mut args, context).await?;
    let follows_dashes = args.follows_dashes(words);
    // `ask_for_missing` has made sure that there is a name.
    let name = parse_new_name(args.name.as_deref().unwrap_or_default())?;
    let target = args.target(follows_dashes).map_err(|error| invalid_options_failure(&error))?;
    let mut options = args.options;
    if let Target::Command { command, .. } = &target {
        // Before any message shows the command: the value of the variable may be a secret.
        refuse_assignment(command, context)?;
    }
    if let (Target::Command { command, .. }, None, false) = (&target, options.transport, follows_dashes) {
        refuse_address(command, context)?;
    }
    let target = split_command(target, context)?;
    let asked_variables = ask_for_values(&mut options, context).await?;
    let mut sealed_secrets = Sealed::default();
    if !options.plain && !asked_variables.is_empty() {
        let used_names = entry_secrets::stored_names(context).await?;
        for (variable, value) in options.env.iter_mut().filter(|(variable, _)| asked_variables.contains(variable)) {
            *value = value.take().map(|value| sealed_secrets.add(name.as_str(), variable, value, &used_names));
        }
    }
    let mut entry = build_entry(&target, &options, context)?;
    if !options.plain {
        entry_secrets::take_out(&mut sealed_secrets, name.as_str(), &mut entry, context).await?;
    }
    let addition = Addition {
        entry,
        edit_target: edits::target_for_new_entry(options.scope.unwrap_or_default(), context),
        options: Options { replace: options.replace, dry_run: options.dry_run },
        connects_afterwards: !options.no_test,
        name,
        sealed_secrets,
    };
    add(addition, context).await
}

pub(crate) async fn add_json(args: AddJsonArgs, context: &Context) -> Result<Exit, Failure> {
    let name = parse_new_name(&args.name)?;
    let text = input::read("the entry", args.entry, &context.screen).await?;
    let value = serde_json::from_str(&text)
        .map_err(|error| Failure::usage(format!("the entry of `{name}` is not JSON: {error}")))?;
    let (mut entry, mut sealed_secrets) = (find_entry(name.as_str(), value)?, Sealed::default());
    if !args.plain {
        entry_secrets::take_out(&mut sealed_secrets, name.as_str(), &mut entry, context).await?;
    }
    let addition = Addition {
        entry,
        edit_target: edits::target_for_new_entry(args.write.scope.unwrap_or_default(), context),
        options: Options { replace: args.replace, dry_run: args.write.dry_run },
        connects_afterwards: !args.no_test,
        name,
        sealed_secrets,
    };
    add(addition, context).await
}

async fn add(addition: Addition, context: &Context) -> Result<Exit, Failure> {
    let Addition { name, entry, edit_target, mut options, connects_afterwards, sealed_secrets } = addition;
    let hash = content_hash(&entry);
    let transport = transport_word(&entry);
    let run_edit = |options: Options| {
        let (path, server, entry) = (edit_target.path.clone(), name.clone(), entry.clone());
        edits::run(name.as_str(), move || edit::add(&path, server.as_str(), &entry, options))
    };
    // Tries the edit before a secret is stored. Otherwise an edit that fails would leave a secret behind.
    let preview = match run_edit(Options { dry_run: true, ..options }).await {
        Err(exists_failure)
            if exists_failure.code == "EXISTS" && context.screen.is_interactive() && !context.screen.prints_json() =>
        {
            options.replace = true;
            let preview = run_edit(Options { dry_run: true, ..options }).await?;
            context.screen.message(preview.diff.trim_end());
            if !options.dry_run && !context.confirm(&format!("Replace `{}`?", text::for_line(name.as_str()))).await {
                return Err(exists_failure);
            }
            preview
        }
        preview => preview?,
    };
    let edit_result = if options.dry_run {
        preview
    } else {
        entry_secrets::store(&sealed_secrets, context).await?;
        run_edit(options).await?
    };
    // A user who types an entry thereby agrees to run it in this folder.
    if !options.dry_run {
        edits::approve_written(name.as_str(), &hash, context).await?;
    }
    let document = Document::new(name.as_str(), edit_target.scope, &edit_result, options.dry_run);
    if !context.screen.prints_json() {
        let done_message = format!("added the {transport} server {name} to {}", edits::path_text(&edit_result.path));
        edits::report(&done_message, &document, context).await?;
    }
    entry_secrets::report_stored(&sealed_secrets, context);
    for problem in &edit_result.warnings {
        context.screen.problem(problem);
    }
    let trial =
        if connects_afterwards && !options.dry_run { try_server(&name, &edit_result, context).await? } else { None };
    let (server, failure) = trial.map_or((None, None), |trial| (Some(trial.server), trial.failure));
    if context.screen.prints_json() {
        context.screen.document(&AddDocument { edit: &document, server }).await?;
    } else if let (Some(server), None) = (server, &failure) {
        let page = render::page(&[server], context.screen.layout());
        context.screen.page(page).await?;
    }
    // The entry is written nevertheless: the failure names the next step, and its exit code shows that one is needed.
    failure.map_or(Ok(Exit::Ok), Err)
}

/// The result of connecting to a new server.
struct Trial {
    server: Server,
    failure: Option<Failure>,
}

/// Checks the name of a new server. The name must need no quotes in any shell.
fn parse_new_name(name: &str) -> Result<ServerName, Failure> {
    let server = ServerName::new(name).map_err(|error| Failure::usage(error.to_string()))?;
    let is_plain = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '@' | ':');
    if name.chars().all(is_plain) && !name.starts_with('-') {
        return Ok(server);
    }
    let suggestion: Vec<&str> = name.split(|c| !is_plain(c)).filter(|part| !part.is_empty()).collect();
    let suggestion = suggestion.join("-");
    let suggestion = suggestion.trim_start_matches('-');
    let failure = Failure::usage(format!(
        "`{}` is not a name for a server: a name has only letters, digits and `_-.@:`, and does not begin with `-`",
        text::for_line(name)
    ));
    Err(if suggestion.is_empty() { failure } else { failure.hint(format!("call it `{suggestion}`")) })
}

/// Splits a command that was given as one word, as a shell would, unless a program has the whole word as its name.
/// Refuses an address.
fn split_command(target: Target, context: &Context) -> Result<Target, Failure> {
    let Target::Command { command, arguments } = &target else { return Ok(target) };
    let escaped = text::for_line(command);
    if args::looks_like_url(command) {
        let message = format!("`{escaped}` is an address, not a program");
        return Err(
            Failure::usage(message).hint("write it directly after the name, without `--` and without `-t stdio`")
        );
    }
    let exists = |program: &str| context.folder.join(program).exists();
    if !command.contains(char::is_whitespace) || exists(command) {
        return Ok(target);
    }
    // A command with an open quotation mark becomes no words, which the last arm below refuses.
    let words = shell_words::split(command).unwrap_or_default();
    match words.split_first() {
        Some((program, rest)) if arguments.is_empty() && (!program.contains('/') || exists(program)) => {
            refuse_operators(rest)?;
            let name = text::for_line(program);
            context.screen.note(&format!("`{escaped}` was one word: the program is `{name}`, and the rest its arguments"));
            Ok(Target::Command { command: program.clone(), arguments: rest.to_vec() })
        }
        _ => Err(Failure::usage(format!("`{escaped}` is one word with spaces in it, and no program has that name")).hint(
            "write the program and each of its arguments as words of their own, and options of `add` before the name",
        )),
    }
}

/// Refuses a `command` that begins with `NAME=VALUE`, which sets a variable where a shell runs a command. No message
/// shows the value.
fn refuse_assignment(command: &str, context: &Context) -> Result<(), Failure> {
    match command.split_once('=').map(|(name, _)| args::variable_name(name)) {
        Some(Ok(name)) if !context.folder.join(command).exists() => {
            Err(Failure::usage(format!("`{name}=…` sets a variable, and is not a program"))
                .hint(format!("write it as an option before the name of the server: -e {name}=VALUE")))
        }
        _ => Ok(()),
    }
}

/// Refuses words that only a shell understands, because no shell runs the command.
fn refuse_operators(words: &[String]) -> Result<(), Failure> {
    // A word with white space was in quotes, such as the program of `sh -c 'a; b;'`.
    let is_operator = |word: &&String| {
        ["|", "||", "&", "&&", ">", ">>", "<", "2>", "2>&1"].contains(&word.as_str())
            || (word.ends_with(';') && !word.contains(char::is_whitespace))
    };
    match words.iter().find(is_operator) {
        Some(word) => {
            Err(Failure::usage(format!("no shell runs the command, and `{}` is for a shell", text::for_line(word)))
                .hint("write only the program and its arguments; if it needs a shell, its command is `sh -c '…'`"))
        }
        None => Ok(()),
    }
}

/// Refuses a `command` that is probably meant as an address. Otherwise, `add` would take it for a program, and the
/// options after it for arguments of that program.
fn refuse_address(command: &str, context: &Context) -> Result<(), Failure> {
    let escaped = text::for_line(command);
    if command.contains("://") {
        let message = format!("`{escaped}` is not an address of a server: it must begin with http:// or https://");
        return Err(Failure::usage(message).hint("a command that looks like an address goes after `--`"));
    }
    if looks_like_address(command) && !context.folder.join(command).exists() {
        let message = format!("`{escaped}` looks like an address, and there is no such program");
        return Err(Failure::usage(message).hint(format!(
            "write https://{escaped}, or http://{escaped}; a command that looks like an address goes after `--`"
        )));
    }
    Ok(())
}

/// Returns whether `word` is the name of a host with a port or a path behind it.
fn looks_like_address(word: &str) -> bool {
    let (authority, has_path) = word.split_once('/').map_or((word, false), |(authority, _)| (authority, true));
    let (host, port) = authority.rsplit_once(':').map_or((authority, None), |(host, port)| (host, Some(port)));
    let is_port = port.is_some_and(|port| port.parse::<u16>().is_ok());
    let is_label = |label: &str| !label.is_empty() && label.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
    // No top-level domain has only one letter.
    let is_domain = host.rsplit_once('.').is_some_and(|(before, last)| {
        before.split('.').all(is_label) && last.len() >= 2 && last.chars().all(|c| c.is_ascii_alphabetic())
    });
    let is_host = host == "localhost" || is_domain || host.trim_matches(['[', ']']).parse::<IpAddr>().is_ok();
    is_host && (is_port || (has_path && port.is_none()))
}

/// Returns the failure for words that follow a URL and are not options.
fn invalid_options_failure(error: &clap::Error) -> Failure {
    let rendered = error.render().to_string();
    let first_line = rendered.lines().next().unwrap_or_default();
    let message = first_line.strip_prefix("error: ").unwrap_or(first_line);
    Failure::usage(message).hint("toolrack add --help")
}

/// Reads a value for each variable that was given without one. At a terminal, the user types the value unseen;
/// otherwise it is the next line of stdin. Returns the names of these variables.
async fn ask_for_values(options: &mut AddOptions, context: &Context) -> Result<Vec<String>, Failure> {
    let mut asked_variables = Vec::new();
    for (name, value) in options.env.iter_mut().filter(|(_, value)| value.is_none()) {
        if !context.screen.is_interactive() && std::io::stdin().is_terminal() {
            return Err(Failure::usage(format!("`-e {name}` has no value, and no user can be asked for it"))
                .hint(format!("write -e {name}='${{{name}}}' to take it from the environment each time")));
        }
        let typed_value = match context.screen.is_interactive() {
            true => input::ask_secret(name).await?,
            false => input::read_secret_line(name).await?,
        };
        *value = Some(typed_value);
        asked_variables.push(name.clone());
    }
    Ok(asked_variables)
}

/// Finds the entry for `name` in `value`. If `value` is a whole file with `mcpServers` or `servers`, that is the entry
/// called `name` in it, or its only entry. Otherwise it is `value` itself.
fn find_entry(name: &str, value: Value) -> Result<Value, Failure> {
    let servers = ["mcpServers", "servers"].iter().find_map(|key| value.get(key)?.as_object().cloned());
    let Some(mut servers) = servers else {
        return Ok(value);
    };
    if let Some(entry) = servers.shift_remove(name) {
        return Ok(entry);
    }
    let mut entries = servers.into_iter();
    match (entries.next(), entries.next()) {
        (Some((_, entry)), None) => Ok(entry),
        _ => Err(Failure::usage(format!("the JSON has several servers, and none of them is called `{name}`"))
            .hint("add them one by one, each by its name")),
    }
}

/// Returns the entry as it is written to the file. Does not check it: [`edit::add`] does.
fn build_entry(target: &Target, options: &AddOptions, context: &Context) -> Result<Value, Failure> {
    let mut entry = Map::new();
    let mut set_field = |name: &str, value: Value| entry.insert(name.to_owned(), value);
    match target {
        Target::Command { command, arguments } => {
            set_field("type", "stdio".into());
            set_field("command", command.as_str().into());
            if !arguments.is_empty() {
                set_field("args", json!(arguments));
            }
        }
        Target::Url(url) => {
            let is_sse = options.transport == Some(TransportKind::Sse);
            set_field("type", if is_sse { "sse" } else { "http" }.into());
            set_field("url", url.as_str().into());
        }
    }
    if !options.env.is_empty() {
        // `ask_for_values` has given every variable a value.
        let pairs = options.env.iter().cloned();
        set_field(
            "env",
            pairs.map(|(name, value)| (name, value.unwrap_or_default().into())).collect::<Map<_, _>>().into(),
        );
    }
    let headers = headers(options)?;
    if !headers.is_empty() {
        set_field("headers", headers.into());
    }
    if let Some(cwd) = &options.cwd {
        // The file is read from other folders too, so a relative path would mean something else each time.
        let cwd = context.folder.join(cwd);
        set_field("cwd", cwd.to_string_lossy().into());
    }
    if !options.tools.is_empty() {
        set_field("tools", json!({ "allow": options.tools }));
    }
    if let Some(timeout) = options.timeout {
        set_field("call_timeout", seconds(timeout));
    }
    Ok(entry.into())
}

fn headers(options: &AddOptions) -> Result<Map<String, Value>, Failure> {
    let mut headers: Map<String, Value> =
        options.header.iter().cloned().map(|(name, value)| (name, value.into())).collect();
    if let Some(variable) = &options.bearer_token_env {
        if headers.keys().any(|name| name.eq_ignore_ascii_case("authorization")) {
            return Err(Failure::usage(
                "`--bearer-token-env` and a header `Authorization` set the same header: give one of them",
            )
            .hint("keep one of them"));
        }
        headers.insert("Authorization".to_owned(), format!("Bearer ${{{variable}}}").into());
    }
    Ok(headers)
}

fn transport_word(entry: &Value) -> &'static str {
    let kind = entry.get("type").or_else(|| entry.get("transport")).and_then(Value::as_str);
    match kind {
        Some("sse") => "sse",
        Some("stdio") => "stdio",
        Some(_) => "http",
        None if entry.get("command").or_else(|| entry.get("container")).is_some() => "stdio",
        None => "http",
    }
}

fn seconds(time: Duration) -> Value {
    if time.subsec_nanos() == 0 { json!(time.as_secs()) } else { json!(time.as_secs_f64()) }
}

/// Connects to the new server, even if other commands would start it only for a call, and returns the outcome. If
/// another entry of the same name is used here instead of the new one, warns and returns `None`.
async fn try_server(name: &ServerName, edit_result: &Edited, context: &Context) -> Result<Option<Trial>, Failure> {
    let loaded = context.load().await?;
    let entry = loaded.entry(name.as_str());
    if entry.and_then(|entry| entry.source.path.as_ref()) != Some(&edit_result.path) {
        let used_entry = entry.map_or_else(|| "nothing".to_owned(), |entry| entry.source.to_string());
        context.screen.warning(&format!("the new entry is not used here: `{name}` is {used_entry}"));
        return Ok(None);
    }
    let desired = reach::select_servers(&loaded, &[name.to_string()])?;
    let host = context.connect_to_check(desired).await?;
    let Some(status) = host.status().into_iter().find(|server| server.name == *name) else {
        return Ok(None);
    };
    let failure = reach::server_failure(&host, &status);
    let mut server = Server::from(status);
    if context.screen.prints_json() {
        server.count_findings(&host.catalog().findings());
    }
    Ok(Some(Trial { server, failure }))
}
