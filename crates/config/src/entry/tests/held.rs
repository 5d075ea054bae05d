//! Compares what the row of each field says with what the reader does.

use futures::FutureExt;
use toolrack_host::Resolver;

use super::*;
use crate::{
    Environment, Interpolate, UnsetPolicy, placeholder,
    redact::{proposal, redact},
    rows::{
        CONTAINER, CONTAINER_LIMITS, Hidden, IDP, OAUTH, SANDBOX, SANDBOX_LIMITS, TOOL_LISTS, Table,
        samples::{sample, with_text},
    },
};

/// Each table, a valid entry, and the place in the entry where the fields of the table belong.
fn tables() -> Vec<(&'static Table, Json, &'static str)> {
    let stdio = json!({ "command": "x" });
    let http = json!({ "url": "https://x" });
    let idp = json!({
        "grant": "enterprise_managed", "client_id": "x", "assertion": "x", "idp": { "token_url": "https://x" },
    });
    let contained = json!({ "command": "x", "container": { "image": "x" } });
    vec![
        (ENTRY, stdio.clone(), ""),
        (TOOL_LISTS, stdio.clone(), "/tools"),
        (SANDBOX, json!({ "command": "x", "sandbox": true }), "/sandbox"),
        (SANDBOX_LIMITS, json!({ "command": "x", "sandbox": true }), "/sandbox/limits"),
        (CONTAINER, contained.clone(), "/container"),
        (CONTAINER_LIMITS, contained, "/container/limits"),
        (OAUTH, http, "/oauth"),
        (IDP, json!({ "url": "https://x", "oauth": idp }), "/oauth/idp"),
    ]
}

/// The other fields that an entry with this field requires.
fn companions(table: &Table, row: &Row) -> Json {
    match (table.title, row.key) {
        ("oauth", "client_secret" | "private_key" | "private_key_file") => json!({ "client_id": "x" }),
        ("oauth", key @ ("assertion" | "assertion_file")) => json!({ "grant": "jwt_bearer", key: "x" }),
        ("oauth.idp", "client_secret") => json!({ "client_id": "x" }),
        _ => json!({}),
    }
}

/// `entry` with `members` in the object at `place`.
fn with(entry: &Json, place: &str, members: &[(&str, Json)]) -> Json {
    let mut entry = entry.clone();
    let mut at = &mut entry;
    for name in place.split('/').skip(1) {
        let inner = &mut at[name];
        if !inner.is_object() {
            *inner = json!({});
        }
        at = inner;
    }
    for (name, value) in members {
        at[*name] = value.clone();
    }
    entry
}

/// A field in its place.
struct Case {
    row: &'static Row,
    /// The entry without the field.
    base: Json,
    place: &'static str,
}

impl Case {
    fn entry(&self, name: &str, value: Json) -> Json {
        with(&self.base, self.place, &[(name, value)])
    }

    fn path(&self) -> String {
        format!("{}/{}", self.place, self.row.key)
    }
}

/// All fields of all tables, each with an entry that lacks only that field.
fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (table, base, place) in tables() {
        for row in table.rows {
            let is_endpoint = row.servers == FieldScope::Http || row.key == "type";
            let base = if is_endpoint { json!({ "url": "https://x" }) } else { base.clone() };
            let Json::Object(companions) = companions(table, row) else { unreachable!() };
            let companions: Vec<_> = companions.iter().map(|(name, value)| (&**name, value.clone())).collect();
            cases.push(Case { row, base: with(&base, place, &companions), place });
        }
    }
    assert!(cases.len() > 80, "{}", cases.len());
    cases
}

fn server(entry: &Json) -> ServerSpec {
    match read(entry) {
        (Decoded::Server(spec), problems) if problems.is_empty() => *spec,
        other => panic!("{entry}: {other:?}"),
    }
}

#[test]
fn each_field_changes_the_server_under_each_of_its_names() {
    for case in cases() {
        let Some(sample) = sample(case.row) else { continue };
        let (base, path) = (server(&case.base), case.path());
        for name in case.row.names() {
            // The alias takes the place of `url`: an entry cannot have both.
            let mut entry = case.entry(name, sample.clone());
            if name != case.row.key && case.row.key == "url" {
                entry.as_object_mut().expect("an object").shift_remove("url");
            }
            let spec = server(&entry);
            assert_ne!(spec, base, "{path} as {name}");
            assert_eq!(spec.fingerprint() != base.fingerprint(), case.row.is_identity, "{path} as {name}");
        }
    }
}

#[test]
fn a_user_who_is_asked_to_agree_to_an_entry_sees_each_field() {
    for case in cases() {
        let Some(sample) = sample(case.row) else { continue };
        let (base, spec) = (server(&case.base), server(&case.entry(case.row.key, sample)));
        let place = format!("{}/{}", case.place, case.row.shown_as.unwrap_or(case.row.key));
        let (before, shown) = (proposal(&base), proposal(&spec));
        assert!(shown.pointer(&place).is_some(), "{}: {shown}", case.path());
        assert_ne!(before.pointer(&place), shown.pointer(&place), "{}", case.path());
    }
}

#[test]
fn an_absent_field_equals_its_documented_default() {
    for case in cases() {
        let (Some(default), Some(_)) = (case.row.default_value(), sample(case.row)) else { continue };
        assert_eq!(server(&case.entry(case.row.key, default)), server(&case.base), "{}", case.path());
    }
}

#[test]
fn placeholders_are_checked_exactly_where_they_are_filled_in() {
    let malformed = placeholder::check("${").expect_err("an error").to_string();
    for case in cases() {
        let Some(value) = with_text(case.row, "${") else { continue };
        let (_, problems) = read(&case.entry(case.row.key, value));
        let is_checked = problems.iter().any(|problem| problem.message.contains(&malformed));
        assert_eq!(is_checked, case.row.is_filled, "{}: {problems:?}", case.path());
    }
}

/// The errors of looking up all placeholders of a server.
fn unresolved(spec: &ServerSpec) -> Vec<String> {
    let environment = Environment::new([("PATH", "/bin"), ("HOME", "/home/me")]);
    let interpolate = Interpolate::new(environment, UnsetPolicy::Error);
    let name = ServerName::new("demo").expect("a name");
    let child = |stdio: &Stdio| interpolate.stdio(&name, stdio).now_or_never().expect("no wait").err();
    let errors = match &spec.transport {
        Transport::Stdio(stdio) => vec![child(stdio)],
        Transport::Http(http) | Transport::Sse(http) => vec![
            interpolate.url(&name, http).now_or_never().expect("no wait").err(),
            interpolate.headers(&name, http).now_or_never().expect("no wait").err(),
            interpolate.oauth(&name, http).now_or_never().expect("no wait").err(),
            http.headers_helper.as_deref().and_then(child),
        ],
        Transport::Native(_) => Vec::new(),
    };
    errors.into_iter().flatten().map(|error| error.to_string()).collect()
}

#[test]
fn placeholders_are_looked_up_exactly_where_they_are_filled_in() {
    let mut filled = 0;
    for case in cases() {
        let text = if case.row.key == "mounts" { "${NOT_SET}:/sample" } else { "${NOT_SET}" };
        let Some(value) = with_text(case.row, text) else { continue };
        // The field does not accept a placeholder: there is nothing to look up.
        let (Decoded::Server(spec), _) = read(&case.entry(case.row.key, value)) else {
            assert!(!case.row.is_filled, "{}", case.path());
            continue;
        };
        let errors = unresolved(&spec);
        let is_looked_up = errors.iter().any(|error| error.contains("NOT_SET"));
        assert_eq!(is_looked_up, case.row.is_filled, "{}: {errors:?}", case.path());
        filled += usize::from(is_looked_up);
    }
    assert!(filled >= 20, "{filled}");
}

#[test]
fn possible_secrets_are_hidden_except_from_a_user_who_is_asked_to_agree() {
    for case in cases() {
        let text = match case.row.hidden {
            Hidden::Nothing => {
                let Some(sample) = sample(case.row) else { continue };
                let spec = server(&case.entry(case.row.key, sample));
                let place = format!("{}/{}", case.place, case.row.shown_as.unwrap_or(case.row.key));
                assert_eq!(redact(&spec).pointer(&place), proposal(&spec).pointer(&place), "{}", case.path());
                continue;
            }
            // An address is not a program.
            Hidden::Parts if case.row.key == "command" => "./x=https://u:canary@h/",
            Hidden::Parts => "https://u:canary@h/",
            Hidden::Everything => "canary",
        };
        let value = with_text(case.row, text).expect("a text");
        let entry = case.entry(case.row.key, value);
        let spec = server(&entry);
        let (shown, agreed) = (redact(&spec).to_string(), proposal(&spec).to_string());
        assert!(!shown.contains("canary") && agreed.contains("canary"), "{}: {shown}", case.path());
        let file = json!({ "mcpServers": { "x": entry } }).to_string();
        let shown = crate::redact::redact_file(&Document::new(None, &file));
        assert!(!shown.contains("canary"), "{}: {shown}", case.path());
    }
}

#[test]
fn each_field_of_the_other_transport_is_an_error() {
    for row in ENTRY.rows.iter().filter(|row| row.servers != FieldScope::Any) {
        let (base, kind) = match row.servers {
            FieldScope::Stdio => (json!({ "type": "http", "url": "https://x" }), "http"),
            FieldScope::Any | FieldScope::Http => (json!({ "type": "stdio", "command": "x" }), "stdio"),
        };
        for name in row.names() {
            let (_, problems) = read(&with(&base, "", &[(name, json!(1))]));
            let messages: Vec<_> = problems.into_iter().map(|problem| problem.message).collect();
            assert_eq!(messages, [format!("`{name}` means nothing to a server of type `{kind}`")]);
        }
    }
}

#[test]
fn each_setting_that_an_error_can_name_has_a_row() {
    for setting in Setting::ALL {
        assert!(ENTRY.row(setting.key()).is_some_and(|row| row.sets.is_some()), "{setting}");
    }
}

#[test]
fn no_two_fields_of_a_table_share_a_name() {
    for (table, ..) in tables() {
        for row in table.rows {
            for name in row.names() {
                let rows_with_the_name = table.rows.iter().filter(|other| other.is_called(name));
                assert_eq!(rows_with_the_name.count(), 1, "{}.{name}", table.title);
                assert_eq!(canonical(name), name, "{}.{name}", table.title);
            }
        }
    }
}

#[test]
fn the_schema_takes_each_field_under_each_of_its_names() {
    let schema = toolrack_host::Validator::compile(&crate::schema::servers()).expect("a schema");
    for case in cases() {
        let Some(sample) = sample(case.row) else { continue };
        for name in case.row.names() {
            for spelled in [name.to_owned(), name.replace('_', "-"), camel(name)] {
                let entry = case.entry(&spelled, sample.clone());
                assert!(schema.validate(&json!({ "mcpServers": { "x": entry } })).is_ok(), "{entry}");
                let wrong = case.entry(&spelled, json!({ "no": ["such", "form"] }));
                assert!(schema.validate(&json!({ "mcpServers": { "x": wrong } })).is_err(), "{wrong}");
            }
        }
    }
}

fn camel(name: &str) -> String {
    let mut after = false;
    let letters = name.chars().filter_map(|c| match c {
        '_' => {
            after = true;
            None
        }
        c if std::mem::take(&mut after) => Some(c.to_ascii_uppercase()),
        c => Some(c),
    });
    letters.collect()
}
