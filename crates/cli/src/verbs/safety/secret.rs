//! Runs `toolrack secret set`, `list`, `rm` and `key`. Secrets are stored sealed: encrypted with a key. An entry is the
//! configuration of one server in a file.
//!
//! The user types values unseen, and only servers get them: nothing here prints a value.

pub(crate) mod args;
pub(crate) mod render;

use std::{collections::BTreeMap, io::IsTerminal};

use chrono::{DateTime, SecondsFormat};
use serde::Serialize;
use toolrack_config::{Loaded, closest, is_stored_secret_name, secrets_in, user_values_in};

use crate::{
    context::Context,
    error::{Exit, Failure, with_causes},
    secrets::{KeyLocation, SecretStore, SecretsError, VARIABLE},
    verbs::input,
};
use args::{KeyArgs, KeyPlace, RemoveSecretArgs, SecretVerb, SetSecretArgs};
use render::{ListedSecret, SecretList};

/// A value with fewer bytes is not hidden where a server repeats it, because it would be found by chance in other text.
const MIN_HIDDEN_LENGTH: usize = 6;

/// `secret set --json`.
#[derive(Debug, Serialize)]
struct StoredSecret<'a> {
    name: &'a str,
    /// Whether there was a secret of this name before.
    replaced: bool,
    /// The servers with this secret in their entries.
    used_by: Vec<String>,
}

/// `secret rm --json`.
#[derive(Debug, Serialize)]
struct RemoveDocument<'a> {
    removed: &'a str,
}

/// `secret key --json`.
#[derive(Debug, Serialize)]
struct KeyDocument {
    /// The kind of place that has the key.
    source: KeyLocation,
    /// The place that has the key, in words.
    place: String,
    /// Whether this command moved or made the key.
    moved: bool,
    /// How many secrets and tokens this command sealed with a new key.
    resealed: Option<usize>,
    /// When the key was last replaced.
    changed_at: Option<String>,
}

pub(crate) async fn run(verb: SecretVerb, context: &Context) -> Result<Exit, Failure> {
    match verb {
        SecretVerb::Set(args) => set(args, context).await,
        SecretVerb::List => list(context).await,
        SecretVerb::Rm(args) => remove(&args, context).await,
        SecretVerb::Key(args) => key(&args, context).await,
    }
}

async fn set(args: SetSecretArgs, context: &Context) -> Result<Exit, Failure> {
    let name = args.name.as_str();
    if !is_stored_secret_name(name) {
        let message = "the name of a secret has 1 to 64 letters, digits and `_.-`, and does not begin with `.` or `-`";
        return Err(Failure::usage(message).hint("toolrack secret set github"));
    }
    let secret_store = context.secret_store();
    let replaced = secret_store
        .names()
        .await
        .map_err(|error| secrets_failure(&error))?
        .iter()
        .any(|stored_name| stored_name == name);
    let value = read_value(name, context).await?;
    let had_key = secret_store.key_location() != KeyLocation::None;
    secret_store.set(name, &value).await.map_err(|error| secrets_failure(&error))?;
    if value.trim().len() < MIN_HIDDEN_LENGTH {
        context.screen.warning(&format!("`{name}` is so short that it is not hidden where a server repeats it"));
    }
    let used_by = servers_by_secret(&context.read().await).remove(name).unwrap_or_default();
    if context.screen.prints_json() {
        context.screen.document(&StoredSecret { name, replaced, used_by }).await?;
        return Ok(Exit::Ok);
    }
    let done_word = if replaced { "replaced" } else { "stored" };
    context.screen.page(format!("{done_word} the secret {name}")).await?;
    if !had_key && let Some(message) = new_key_note(secret_store) {
        context.screen.note(&message);
    }
    if used_by.is_empty() {
        context.screen.note(&format!("write ${{secret:{name}}} where an entry needs it"));
    }
    Ok(Exit::Ok)
}

/// Returns a note about the place of a new key, if the key is in a keychain or could not be stored in one.
fn new_key_note(secret_store: &SecretStore) -> Option<String> {
    match (secret_store.key_location(), secret_store.refusal()) {
        (KeyLocation::Keychain, _) => Some(format!("the key to it is in {}", secret_store.key_place())),
        (_, Some(why)) => Some(format!("the key to it is in {}: {why}", secret_store.key_place())),
        _ => None,
    }
}

/// Reads a value: at a terminal, the user types it; otherwise, it is the content of stdin without the last line break.
async fn read_value(name: &str, context: &Context) -> Result<String, Failure> {
    if context.screen.is_interactive() {
        return input::ask_secret(name).await;
    }
    if std::io::stdin().is_terminal() {
        return Err(Failure::usage("no user can be asked for the value").hint("give it on stdin"));
    }
    let mut value = input::read("a secret", "-".to_owned(), &context.screen).await?;
    let end = value.strip_suffix('\n').map(|rest| rest.strip_suffix('\r').unwrap_or(rest).len());
    value.truncate(end.unwrap_or(value.len()));
    match value.is_empty() {
        true => Err(Failure::usage(format!("no value for `{name}` was given")).hint("give it on stdin")),
        false => Ok(value),
    }
}

async fn list(context: &Context) -> Result<Exit, Failure> {
    let mut servers = servers_by_secret(&context.load().await?);
    let secret_store = context.secret_store();
    let names = secret_store.names().await.map_err(|error| secrets_failure(&error))?;
    let mut secrets: Vec<ListedSecret> = names
        .into_iter()
        .map(|name| ListedSecret { used_by: servers.remove(&name).unwrap_or_default(), name, is_set: true })
        .collect();
    secrets.extend(servers.into_iter().map(|(name, used_by)| ListedSecret { name, is_set: false, used_by }));
    secrets.sort_by(|a, b| a.name.cmp(&b.name));
    let list = SecretList { secrets, key: secret_store.key_place() };
    if context.screen.prints_json() {
        context.screen.document(&list).await?;
        return Ok(Exit::Ok);
    }
    if list.secrets.is_empty() {
        context.screen.note("there are no secrets; `toolrack secret set NAME` stores one");
    }
    context.screen.page(render::page(&list, context.screen.layout())).await?;
    if list.secrets.iter().any(|secret| secret.is_set) {
        context.screen.note(&format!("sealed with the key in {}", list.key));
    }
    for secret in list.secrets.iter().filter(|secret| !secret.is_set) {
        context.screen.note(&format!("`{0}` is not set: toolrack secret set {0}", secret.name));
    }
    Ok(Exit::Ok)
}

async fn remove(args: &RemoveSecretArgs, context: &Context) -> Result<Exit, Failure> {
    let name = args.name.as_str();
    if !context.secret_store().remove(name).await.map_err(|error| secrets_failure(&error))? {
        let names = context.secret_store().names().await.map_err(|error| secrets_failure(&error))?;
        let unknown = Failure::new(Exit::Usage, "UNKNOWN_SECRET", format!("there is no secret `{name}`"));
        let similar_name = closest(name, names.iter().map(String::as_str));
        return Err(unknown.with_suggestion(similar_name, "`toolrack secret list` shows all"));
    }
    let used_by = servers_by_secret(&context.read().await).remove(name).unwrap_or_default();
    if context.screen.prints_json() {
        context.screen.document(&RemoveDocument { removed: name }).await?;
        return Ok(Exit::Ok);
    }
    context.screen.page(format!("deleted the secret {name}")).await?;
    if !used_by.is_empty() {
        context.screen.warning(&format!("{} cannot be connected without it", used_by.join(", ")));
    }
    Ok(Exit::Ok)
}

async fn key(args: &KeyArgs, context: &Context) -> Result<Exit, Failure> {
    let secret_store = context.secret_store();
    let moved = match args.to {
        Some(to) => {
            let to_keychain = to == KeyPlace::Keychain;
            secret_store.move_key(to_keychain).await.map_err(|error| secrets_failure(&error))?
        }
        None => false,
    };
    let resealed = match args.rotate {
        true => {
            let typed_key = if secret_store.requires_given_key() { Some(new_key(context).await?) } else { None };
            secret_store.rotate(typed_key).await.map_err(|error| secrets_failure(&error))?
        }
        false => None,
    };
    let (source, place) = (secret_store.key_location(), secret_store.key_place());
    // Without a database, the time of the change is not known, but the place is.
    let changed_at = secret_store.key_changed_at().await.ok().flatten().and_then(|at| DateTime::from_timestamp(at, 0));
    let changed_at = changed_at.map(|at| at.to_rfc3339_opts(SecondsFormat::Secs, true));
    if context.screen.prints_json() {
        context.screen.document(&KeyDocument { source, place, moved, resealed, changed_at }).await?;
        return Ok(Exit::Ok);
    }
    let message = match (source, resealed) {
        (KeyLocation::None, _) => "there is no key yet: it is made with the first secret".to_owned(),
        (KeyLocation::Variable, Some(count)) => format!("{} sealed with the new key", sealed_values(count)),
        (_, Some(count)) => format!("{} sealed with a new key, which is in {place}", sealed_values(count)),
        (_, None) if moved => format!("the key to stored secrets is in {place} now"),
        (_, None) => format!("the key to stored secrets is in {place}"),
    };
    context.screen.page(message).await?;
    match (source, resealed, changed_at) {
        (KeyLocation::Variable, Some(_), _) => context
            .screen
            .note(&format!("set {VARIABLE} to the new key from now on, and start daemons and gateways again with it")),
        (_, None, Some(at)) => context.screen.note(&format!("it was changed last at {at}")),
        _ => {}
    }
    Ok(Exit::Ok)
}

/// Returns the beginning of a sentence about this many sealed values, with its verb.
fn sealed_values(count: usize) -> String {
    match count {
        1 => "1 secret or token is".to_owned(),
        count => format!("{count} secrets and tokens are"),
    }
}

/// Reads the new key, which replaces the one in the variable. At a terminal the user types it twice, because it is not
/// shown: a key with a typing error would make everything unreadable.
async fn new_key(context: &Context) -> Result<String, Failure> {
    let key = read_value("new key", context).await?;
    if context.screen.is_interactive() && input::ask_secret("new key again").await? != key {
        return Err(Failure::usage("these are two different keys, and nothing was changed"));
    }
    Ok(key)
}

/// Returns the secrets that entries refer to, each with the servers whose entries name it.
fn servers_by_secret(loaded: &Loaded) -> BTreeMap<String, Vec<String>> {
    let mut servers: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (server, spec) in &loaded.desired {
        // Without a team, `${user:NAME}` means the stored secret of that name as well.
        for name in secrets_in(spec).into_iter().chain(user_values_in(spec)) {
            servers.entry(name).or_default().push(server.to_string());
        }
    }
    servers
}

/// Returns the secrets that entries refer to and that are not stored. If the names of the stored secrets cannot be
/// read, returns an empty list.
pub(crate) async fn unset_secrets(loaded: &Loaded, context: &Context) -> Vec<String> {
    let servers = servers_by_secret(loaded);
    if servers.is_empty() {
        return Vec::new();
    }
    let stored_names = context.secret_store().names().await.ok();
    stored_names
        .map_or_else(Vec::new, |stored_names| servers.into_keys().filter(|name| !stored_names.contains(name)).collect())
}

fn secrets_failure(error: &SecretsError) -> Failure {
    Failure::new(Exit::Other, "SECRETS", with_causes(error))
}
