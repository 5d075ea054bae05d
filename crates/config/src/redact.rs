//! Hides the secrets in entries and files before Toolrack shows them. An entry configures one server. Placeholders stay
//! visible. When Toolrack asks a user to agree to an entry, the user sees [all of it](proposal).

mod container;
mod file;

use std::{collections::BTreeMap, path::Path};

use serde_json::{Map, Value as Json, json};
use toolrack_host::{
    ServerSpec,
    spec::{FieldScope, Grant, Http, InheritEnv, OAuth, Ports, Protocol, Sandbox, Stdio, Transport},
};

use crate::{
    Problem,
    document::Document,
    mask::{self, hide_literals},
    placeholder::BareName,
    rows::{ENTRY, Row, SANDBOX, SpecSetting},
};
pub(crate) use file::redact_file;

/// Returns the text of the configuration file at `path`, safe to print, with secrets hidden. If the file cannot be
/// parsed, all values are hidden. `None` if there is no such file.
///
/// # Errors
/// When the file cannot be read.
pub fn show(path: &Path) -> Result<Option<String>, Box<Problem>> {
    Ok(Document::read(path)?.as_ref().map(redact_file))
}

/// Returns `spec` as an entry of a configuration file, safe to print: it hides the values of `env` and `headers` except
/// for their placeholders, and the secret parts of arguments and URLs. Defaults are left out.
#[must_use]
pub fn redact(spec: &ServerSpec) -> Json {
    entry(spec, ValueForm::Hidden)
}

/// Returns `spec` as an entry with every value unchanged, for the user who is asked to agree to it. Hiding values would
/// not help: the user can read the project's file anyway, and a value that looks like a secret may be part of a
/// command.
pub(crate) fn proposal(spec: &ServerSpec) -> Json {
    entry(spec, ValueForm::Written)
}

/// The form in which the values of an entry are shown.
#[derive(Clone, Copy)]
enum ValueForm {
    /// With possible secrets hidden.
    Hidden,
    /// Unchanged.
    Written,
}

impl ValueForm {
    /// Returns `text`, which `hide` makes safe if values are hidden.
    fn text(self, text: &str, hide: impl FnOnce(&str) -> String) -> Json {
        Json::String(match self {
            Self::Hidden => hide(text),
            Self::Written => text.to_owned(),
        })
    }

    /// Returns `text`, which is a secret except for its placeholders.
    fn secret(self, text: &str) -> Json {
        self.text(text, |text| hide_literals(text, BareName::Literal))
    }

    /// Returns the arguments of a program, which may have secret parts.
    fn arguments<'a>(self, arguments: impl IntoIterator<Item = &'a String>) -> Json {
        let arguments = arguments.into_iter().map(String::as_str);
        match self {
            Self::Hidden => json!(mask::hide_in_arguments(arguments)),
            Self::Written => arguments.collect(),
        }
    }

    /// Returns the values of `env` or `headers`, each of which may be a secret.
    fn named_values(self, values: &BTreeMap<String, String>) -> Json {
        let shown_value = |value: &String| self.text(value, |value| hide_literals(value, BareName::Placeholder));
        values.iter().map(|(name, value)| (name.clone(), shown_value(value))).collect::<Map<_, _>>().into()
    }
}

/// Returns `spec` as an entry without defaults, with its values in this form.
fn entry(spec: &ServerSpec, form: ValueForm) -> Json {
    let mut entry = match &spec.transport {
        Transport::Stdio(stdio) => stdio_fields(stdio, form),
        Transport::Http(http) => http_fields("http", http, form),
        Transport::Sse(http) => http_fields("sse", http, form),
        Transport::Native(_) => Map::from_iter([("type".to_owned(), json!("native"))]),
    };
    add_rows(&mut entry, spec, |row| row.servers != FieldScope::Any);
    if !spec.enabled {
        entry.insert("enabled".to_owned(), json!(false));
    }
    if spec.protocol != Protocol::Auto {
        entry.insert("protocol".to_owned(), json!(spec.protocol));
    }
    if !spec.tools.allow().is_empty() || !spec.tools.deny().is_empty() {
        entry.insert("tools".to_owned(), json!({ "allow": spec.tools.allow(), "deny": spec.tools.deny() }));
    }
    add_rows(&mut entry, spec, |row| row.servers == FieldScope::Any);
    Json::Object(entry)
}

/// Adds the fields of the rows that `is_selected` accepts. Leaves out defaults, and rows without a function to show
/// their value.
fn add_rows(entry: &mut Map<String, Json>, spec: &ServerSpec, is_selected: impl Fn(&Row) -> bool) {
    for row in ENTRY.rows.iter().filter(|row| is_selected(row) && !row.is_alias()) {
        let Some(setting) = row.sets else { continue };
        let value = setting.shown(spec).filter(|value| Some(value) != setting.default_value().as_ref());
        entry.extend(value.map(|value| (row.key.to_owned(), value)));
    }
}

fn stdio_fields(stdio: &Stdio, form: ValueForm) -> Map<String, Json> {
    let mut entry = Map::new();
    entry.insert("type".to_owned(), json!("stdio"));
    if stdio.container.is_none() || !stdio.command.is_empty() {
        entry.insert("command".to_owned(), form.text(&stdio.command, mask::hide_in_argument));
    }
    if !stdio.args.is_empty() {
        entry.insert("args".to_owned(), form.arguments(&stdio.args));
    }
    if !stdio.env.is_empty() {
        entry.insert("env".to_owned(), form.named_values(&stdio.env));
    }
    if let Some(cwd) = &stdio.cwd {
        entry.insert("cwd".to_owned(), json!(cwd.display().to_string()));
    }
    if let Some(sandbox) = &stdio.sandbox {
        entry.insert("sandbox".to_owned(), sandbox_value(sandbox));
    }
    if let Some(container) = &stdio.container {
        entry.insert("container".to_owned(), container::container_value(container));
    }
    let inherit_env = match &stdio.inherit_env {
        InheritEnv::Safe => return entry,
        InheritEnv::All => json!("all"),
        InheritEnv::None => json!("none"),
        InheritEnv::Names(names) => json!(names),
    };
    entry.insert("inherit_env".to_owned(), inherit_env);
    entry
}

/// Returns the sandbox. Includes its ports and its limit of processes even if they are the defaults: a user who agrees
/// to the entry should see them.
fn sandbox_value(sandbox: &Sandbox) -> Json {
    let ports_value = |ports: &Ports| match ports {
        Ports::Any => json!("any"),
        Ports::Only(ports) => json!(ports),
    };
    let mut fields = Map::from_iter([
        ("connect".to_owned(), ports_value(&sandbox.connect)),
        ("bind".to_owned(), ports_value(&sandbox.bind)),
    ]);
    for (name, paths) in [("read", &sandbox.read), ("write", &sandbox.write)] {
        if !paths.is_empty() {
            fields.insert(name.to_owned(), json!(paths));
        }
    }
    let limits = [
        ("memory", sandbox.memory),
        ("processes", sandbox.processes.map(u64::from)),
        ("files", sandbox.files),
        ("cpu", sandbox.cpu.map(|cpu| cpu.as_secs())),
    ];
    let limits = limits.into_iter().filter_map(|(name, limit)| Some((name.to_owned(), json!(limit?))));
    fields.insert("limits".to_owned(), Json::Object(limits.collect()));
    let (mut sandbox, mut defaults) = (sandbox.clone(), Sandbox::default());
    for row in SANDBOX.rows {
        if let Some(SpecSetting::SandboxFlag(flag_of)) = row.sets
            && flag_of(&mut sandbox) != flag_of(&mut defaults)
        {
            fields.insert(row.key.to_owned(), json!(flag_of(&mut sandbox)));
        }
    }
    Json::Object(fields)
}

fn http_fields(kind: &str, http: &Http, form: ValueForm) -> Map<String, Json> {
    let mut entry = Map::new();
    entry.insert("type".to_owned(), json!(kind));
    entry.insert("url".to_owned(), form.text(&http.url, mask::hide_in_argument));
    if !http.headers.is_empty() {
        entry.insert("headers".to_owned(), form.named_values(&http.headers));
    }
    if let Some(helper) = &http.headers_helper {
        let command_line = std::iter::once(&helper.command).chain(&helper.args);
        entry.insert("headers_helper".to_owned(), form.arguments(command_line));
    }
    let oauth = oauth_fields(&http.oauth, form);
    if !oauth.is_empty() {
        entry.insert("oauth".to_owned(), Json::Object(oauth));
    }
    entry
}

fn oauth_fields(oauth: &OAuth, form: ValueForm) -> Map<String, Json> {
    let mut fields = Map::new();
    let plain_fields = [("client_id", &oauth.client_id), ("account", &oauth.account)];
    for (name, value) in plain_fields {
        fields.extend(value.as_ref().map(|value| (name.to_owned(), json!(value))));
    }
    let credentials = [
        ("client_secret", &oauth.client_secret),
        ("private_key", &oauth.private_key.text),
        ("assertion", &oauth.assertion.text),
    ];
    for (name, value) in credentials {
        fields.extend(value.as_ref().map(|value| (name.to_owned(), form.secret(value))));
    }
    let harmless_texts = [
        ("private_key_file", &oauth.private_key.file),
        ("key_id", &oauth.key_id),
        ("assertion_file", &oauth.assertion.file),
    ];
    for (name, value) in harmless_texts {
        fields.extend(value.as_ref().map(|value| (name.to_owned(), json!(value))));
    }
    if let Some(idp) = &oauth.idp {
        let mut provider =
            Map::from_iter([("token_url".to_owned(), form.text(&idp.token_url, mask::hide_in_argument))]);
        provider.extend(idp.client_id.as_ref().map(|id| ("client_id".to_owned(), json!(id))));
        let secret = idp.client_secret.as_ref().map(|secret| form.secret(secret));
        provider.extend(secret.map(|secret| ("client_secret".to_owned(), secret)));
        fields.insert("idp".to_owned(), Json::Object(provider));
    }
    if oauth.dpop {
        fields.insert("dpop".to_owned(), json!(true));
    }
    let metadata_url = oauth.client_metadata_url.as_ref().map(|url| form.text(url, mask::hide_in_argument));
    fields.extend(metadata_url.map(|url| ("client_metadata_url".to_owned(), url)));
    if !oauth.scopes.is_empty() {
        fields.insert("scopes".to_owned(), json!(oauth.scopes));
    }
    if oauth.grant != Grant::default() {
        fields.insert("grant".to_owned(), json!(oauth.grant));
    }
    fields
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_spec_is_shown_as_an_entry_without_its_secrets() {
        let mut spec = ServerSpec::stdio("npx", ["-y", "pg", "postgres://a:canary@h/d", "--token", "canary"]);
        if let Transport::Stdio(stdio) = &mut spec.transport {
            stdio.env.insert("KEY".into(), "canary".into());
            stdio.env.insert("URL".into(), "${URL}".into());
        }
        spec.enabled = false;
        assert_eq!(
            redact(&spec),
            json!({
                "type": "stdio",
                "command": "npx",
                "args": ["-y", "pg", "postgres://a:***@h/d", "--token", "***"],
                "env": { "KEY": "***", "URL": "${URL}" },
                "enabled": false,
            })
        );
        let mut spec = ServerSpec::http("https://h/mcp?api_key=canary");
        if let Transport::Http(http) = &mut spec.transport {
            http.headers.insert("X".into(), "canary".into());
            http.oauth.client_id = Some("id".into());
            http.oauth.client_secret = Some("canary".into());
        }
        assert_eq!(redact(&spec)["oauth"], json!({ "client_id": "id", "client_secret": "***" }));
        if let Transport::Http(http) = &mut spec.transport {
            let stored = |text: &str| toolrack_host::spec::TextOrFile { text: Some(text.into()), file: None };
            (http.oauth.private_key, http.oauth.assertion) = (stored("canary"), stored("canary"));
            http.oauth.idp = Some(toolrack_host::spec::IdentityProvider {
                token_url: "https://idp/token?key=canary".into(),
                client_id: None,
                client_secret: Some("canary".into()),
            });
        }
        assert!(!redact(&spec).to_string().contains("canary"), "{}", redact(&spec));
    }

    proptest! {
        #[test]
        fn a_user_who_agrees_sees_every_letter_of_the_entry(
            words in prop::collection::vec(".{0,12}", 1..6),
            name in "[A-Z_]{0,6}(TOKEN|AUTH|KEY|OPTIONS)",
            value in "(--|token=|Bearer |https://a:b@|\\$\\{)?.{0,20}",
        ) {
            let mut spec = ServerSpec::stdio(&*value, words.iter().map(|word| format!("{name}={word}")).chain(words.clone()));
            let Transport::Stdio(stdio) = &mut spec.transport else { unreachable!() };
            stdio.env.insert(name.clone(), value.clone());
            let shown = proposal(&spec);
            let Transport::Stdio(stdio) = &spec.transport else { unreachable!() };
            prop_assert_eq!(&shown["command"], &json!(value));
            prop_assert_eq!(&shown["args"], &json!(stdio.args));
            prop_assert_eq!(&shown["env"], &json!(stdio.env));

            let mut spec = ServerSpec::http(&*value);
            let Transport::Http(http) = &mut spec.transport else { unreachable!() };
            http.headers.insert(name.clone(), value.clone());
            http.headers_helper = Some(Box::new(Stdio { command: name.clone(), args: words.clone(), ..Stdio::default() }));
            http.oauth.client_secret = Some(value.clone());
            let shown = proposal(&spec);
            let helper: Vec<_> = std::iter::once(&name).chain(&words).collect();
            prop_assert_eq!(&shown["url"], &json!(value));
            prop_assert_eq!(&shown["headers"][&name], &json!(value));
            prop_assert_eq!(&shown["headers_helper"], &json!(helper));
            prop_assert_eq!(&shown["oauth"]["client_secret"], &json!(value));
        }
    }
}
