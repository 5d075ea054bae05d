mod held;
mod values;

use std::time::Duration;

use proptest::prelude::*;
use serde_json::{Value as Json, json};
use toolrack_host::{
    CallError, LinkError,
    spec::{
        FieldKind, FieldScope, Grant, Http, InheritEnv, Limits, Ports, Sandbox, Setting, Stdio, Timeouts, Transport,
    },
};

use super::*;

/// Reads `entry` as the server `demo` of no file.
fn read(entry: &Json) -> (Decoded, Vec<Problem>) {
    let raw_entry = Member { name: "demo".into(), name_span: 0..0, node: Node::from_json(entry) };
    let mut report = Report::new(None, "demo");
    let decoded = decode(&raw_entry, &mut report);
    (decoded, report.into_problems())
}

/// Reads an entry that has no problems.
fn server(entry: Json) -> ServerSpec {
    match read(&entry) {
        (Decoded::Server(spec), problems) if problems.is_empty() => *spec,
        other => panic!("{entry}: {other:?}"),
    }
}

fn stdio(entry: Json) -> Stdio {
    match server(entry).transport {
        Transport::Stdio(stdio) => stdio,
        other => panic!("{other:?}"),
    }
}

fn http(entry: Json) -> Http {
    match server(entry).transport {
        Transport::Http(http) => http,
        other => panic!("{other:?}"),
    }
}

/// Reads an entry that is in error, and returns the messages of the errors.
fn broken(entry: Json) -> Vec<String> {
    match read(&entry) {
        (Decoded::Broken, problems) => {
            let errors = problems.into_iter().filter(Problem::is_error);
            errors.map(|problem| problem.message).collect()
        }
        other => panic!("{entry}: {other:?}"),
    }
}

/// Reads an entry that can be used, and returns the one warning about it.
fn warned(entry: Json) -> Problem {
    match read(&entry) {
        (Decoded::Server(_), mut problems) if problems.len() == 1 => problems.remove(0),
        other => panic!("{entry}: {other:?}"),
    }
}

#[test]
fn the_transport_is_set_by_type_or_implied_by_the_fields() {
    for (entry, kind) in [
        (json!({ "command": "x" }), "stdio"),
        (json!({ "type": "stdio", "command": "x" }), "stdio"),
        (json!({ "url": "https://x" }), "http"),
        (json!({ "transport": "http", "url": "https://x" }), "http"),
        (json!({ "type": "streamable-http", "url": "https://x" }), "http"),
        (json!({ "type": "streamable_http", "url": "https://x" }), "http"),
        (json!({ "type": "streamableHttp", "url": "https://x" }), "http"),
        (json!({ "type": "sse", "url": "https://x" }), "sse"),
        (json!({ "httpUrl": "https://x" }), "http"),
        (json!({ "serverUrl": "https://x" }), "http"),
    ] {
        assert_eq!(server(entry).transport.kind(), kind);
    }
}

#[test]
fn every_field_of_a_child_process_is_read() {
    let stdio = stdio(json!({
        "command": "npx", "args": ["-y", "pkg", 8080, true], "env": { "PORT": 1, "TOKEN": "${TOKEN}" },
        "chdir": "sub", "inherit_env": ["FOO"],
    }));
    assert_eq!(stdio.args, ["-y", "pkg", "8080", "true"]);
    assert_eq!(stdio.env["PORT"], "1");
    assert_eq!(stdio.env["TOKEN"], "${TOKEN}");
    assert_eq!(stdio.cwd, Some("sub".into()));
    assert_eq!(stdio.inherit_env, InheritEnv::Names(vec!["FOO".into()]));
}

#[test]
fn a_sandbox_with_any_error_is_rejected() {
    let sandbox = |entry: Json| stdio(json!({ "command": "x", "sandbox": entry })).sandbox;
    assert_eq!(sandbox(json!(false)), None);
    assert_eq!(sandbox(json!(true)).as_deref(), Some(&Sandbox::default()));
    let all = sandbox(json!({
        "read": ["~/notes"], "write": ["/srv"], "connect": "any", "bind": [8080], "best_effort": true, "udp": true,
        "limits": { "memory": "1GiB", "processes": 64, "files": 256, "cpu": "5m" },
    }))
    .unwrap();
    assert_eq!((&*all.read, &*all.write), (&["~/notes".to_owned()][..], &["/srv".to_owned()][..]));
    assert_eq!((&all.connect, &all.bind), (&Ports::Any, &Ports::Only(vec![8080])));
    assert_eq!((all.memory, all.processes, all.files), (Some(1 << 30), Some(64), Some(256)));
    assert_eq!((all.cpu, all.best_effort, all.udp), (Some(Duration::from_secs(300)), true, true));
    for wrong in [
        json!("yes"),
        json!({ "conect": [1] }),
        json!({ "connect": [65536] }),
        json!({ "connect": "443" }),
        json!({ "read": "/x" }),
        json!({ "read": [""] }),
        json!({ "limits": { "memory": "1GB" } }),
        json!({ "limits": { "memory": 1 } }),
        json!({ "limits": { "procs": 1 } }),
        json!({ "limits": { "processes": 0 } }),
        json!({ "limits": true }),
    ] {
        assert_eq!(broken(json!({ "command": "x", "sandbox": wrong })).len(), 1, "{wrong}");
    }
    let foreign = warned(json!({ "command": "x", "sandbox": { "network": { "allowedDomains": ["x"] } } }));
    assert!(foreign.message.contains("VS Code"), "{foreign:?}");
    assert_eq!(broken(json!({ "command": "x", "sandbox": { "network": {}, "read": [] } })).len(), 1);
    assert_eq!(broken(json!({ "url": "https://x", "sandbox": true })).len(), 1, "an endpoint has none");
}

#[test]
fn every_field_of_an_endpoint_is_read() {
    let http = http(json!({
        "url": "https://x/mcp", "headers": { "Authorization": "Bearer ${T}" },
        "open_timeout_s": 1.5, "read_timeout": "2m", "probe_timeout": "10s", "post_timeout_ms": 20_000, "sse_max_reconnects": 3,
    }));
    assert_eq!(http.headers["Authorization"], "Bearer ${T}");
    assert_eq!(http.open_timeout, Duration::from_millis(1500));
    assert_eq!(http.read_timeout, Duration::from_secs(120));
    assert_eq!((http.probe_timeout, http.post_timeout), (Duration::from_secs(10), Duration::from_secs(20)));
    assert_eq!(http.sse_max_reconnects, 3);
}

#[test]
fn a_header_whose_name_begins_like_the_field_keeps_its_name() {
    let http = http(json!({ "url": "https://x", "headers": { "headers.X": "1" } }));
    assert_eq!(http.headers.keys().collect::<Vec<_>>(), ["headers.X"]);
}

#[test]
fn bounds_are_read_in_every_spelling() {
    let spec = server(json!({
        "command": "x", "timeout": 45, "list_timeout": "500ms", "callTimeout": 90, "max_call_time": "1h",
        "shutdown-timeout": 1, "max_message_bytes": 4096, "max_output_bytes": 100, "protocol": "legacy", "retry": "off",
    }));
    assert_eq!(spec.timeouts.startup, Duration::from_secs(45));
    assert_eq!(spec.timeouts.list, Duration::from_millis(500));
    assert_eq!(spec.timeouts.call, Duration::from_secs(90));
    assert_eq!(spec.timeouts.call_total, Duration::from_secs(3600));
    assert_eq!(spec.timeouts.shutdown, Duration::from_secs(1));
    assert_eq!((spec.limits.message_bytes, spec.limits.output_bytes), (4096, 100));
    assert_eq!(spec.protocol, Protocol::Legacy);
    assert_eq!(spec.retry.attempts, 0);
    assert_eq!(server(json!({ "command": "x", "timeout_ms": 250 })).timeouts.startup, Duration::from_millis(250));
    for (timeout, milliseconds) in
        [(json!(0.25), 250), (json!("0.5"), 500), (json!("1.5s"), 1500), (json!("30s"), 30_000), (json!("250ms"), 250)]
    {
        let spec = server(json!({ "command": "x", "timeout": timeout }));
        assert_eq!(spec.timeouts.startup, Duration::from_millis(milliseconds), "never rounded down to nothing");
    }
    let spec = server(json!({ "url": "https://x", "max_response_bytes": 2048 }));
    assert_eq!(spec.limits.message_bytes, 2048);
}

#[test]
fn the_bounds_of_lists_are_settings_of_every_entry() {
    for entry in [json!({ "command": "x" }), json!({ "url": "https://x" })] {
        let mut entry = entry;
        entry["max_list_bytes"] = json!(100_000_000);
        entry["max_schema_depth"] = json!(80);
        let limits = server(entry).limits;
        assert_eq!((limits.listing_bytes, limits.schema_depth), (100_000_000, 80));
    }
}

#[test]
fn every_setting_that_an_error_can_name_is_a_field_of_entries_and_changes_them() {
    let default = server(json!({ "url": "https://x" }));
    for setting in Setting::ALL {
        let mut entry = json!({ "url": "https://x" });
        let value = if setting.key().contains("time") { json!("77s") } else { json!(77) };
        entry[setting.key()] = if setting.key().ends_with("bytes") { json!(77_777) } else { value };
        assert_ne!(server(entry), default, "{setting}");
    }
}

#[test]
fn the_error_about_a_message_that_is_too_large_names_a_setting_that_every_entry_can_have() {
    let error = LinkError::TooLarge {
        code: "TOO_LARGE",
        what: "a message",
        limit: 2048,
        seen: 2049,
        setting: Setting::MaxMessageBytes,
    };
    let message = error.to_string();
    let setting = message.rsplit(['(', ')']).nth(1).unwrap();
    for entry in
        [json!({ "command": "x" }), json!({ "url": "https://x" }), json!({ "type": "sse", "url": "https://x" })]
    {
        let mut entry = entry;
        entry[setting] = json!(4096);
        let spec = server(entry);
        assert_eq!(spec.limits.message_bytes, 4096);
        let failed = CallError::Link {
            server: ServerName::new("demo").unwrap(),
            what: "echo".to_owned(),
            configured_in: Box::new(spec.source),
            error: error.clone(),
        };
        assert!(failed.hint().unwrap().contains(&format!("`{setting}`")), "{:?}", failed.hint());
    }
}

#[test]
fn the_default_for_the_total_time_of_a_call_is_not_shorter_than_its_timeout() {
    let spec = server(json!({ "command": "x", "call_timeout": "2h" }));
    assert_eq!(spec.timeouts.call_total, Duration::from_secs(7200));
    let spec = server(json!({ "command": "x", "max_call_time": 10 }));
    assert_eq!(spec.timeouts.call_total, Duration::from_secs(10));
}

#[test]
fn tools_are_filtered_as_each_program_writes_it() {
    let filter = |entry: Json| server(entry).tools;
    let tools = filter(json!({ "command": "x", "tools": { "allow": ["read_*"], "deny": ["read_secret"] } }));
    assert_eq!((tools.allow(), tools.deny()), (&["read_*".into()][..], &["read_secret".into()][..]));
    let tools = filter(json!({ "command": "x", "enabled_tools": ["a"], "disabled_tools": ["b"] }));
    assert_eq!((tools.allow(), tools.deny()), (&["a".into()][..], &["b".into()][..]));
    assert_eq!(filter(json!({ "command": "x", "tools": ["*"] })).allow(), ["*"]);
    assert_eq!(filter(json!({ "command": "x", "includeTools": [] })).deny(), ["*"]);
}

#[test]
fn opencode_writes_a_program_and_its_arguments_as_one_list() {
    let stdio = stdio(json!({ "type": "local", "command": ["npx", "-y", "x"], "environment": { "K": "v" } }));
    assert_eq!((&*stdio.command, &*stdio.args), ("npx", &["-y".to_owned(), "x".to_owned()][..]));
    assert_eq!(stdio.env["K"], "v");
    assert_eq!(server(json!({ "type": "remote", "url": "https://x" })).transport.kind(), "http");
    let spec = server(json!({ "command": ["x"], "timeout": { "startup": 500, "catalog": 2000, "execution": 7000 } }));
    let timeouts = &spec.timeouts;
    assert_eq!((timeouts.startup.as_millis(), timeouts.list.as_millis(), timeouts.call.as_millis()), (500, 2000, 7000));
    assert_eq!(broken(json!({ "command": [] })), ["`command` is empty"]);
    assert_eq!(broken(json!({ "command": [["x"]] })).len(), 2);
    assert_eq!(broken(json!({ "command": "x", "timeout": { "total": 1 } })), ["`timeout.total` is not a known field"]);
    let problem = warned(json!({ "url": "https://x", "headers": { "A": "Bearer {env:KEY}" } }));
    assert_eq!(problem.hint.as_deref(), Some("write `${KEY}`"));
}

#[test]
fn codex_fields_become_placeholders() {
    let http = http(json!({
        "url": "https://x", "bearer_token_env_var": "TOKEN",
        "http_headers": { "X-A": "1" }, "env_http_headers": { "X-B": "B_VALUE" },
    }));
    assert_eq!(http.headers["Authorization"], "Bearer ${TOKEN}");
    assert_eq!((&*http.headers["X-A"], &*http.headers["X-B"]), ("1", "${B_VALUE}"));
    let spec = server(json!({ "command": "x", "startup_timeout_sec": 5, "tool_timeout_sec": 7, "env_vars": ["A"] }));
    assert_eq!((spec.timeouts.startup.as_secs(), spec.timeouts.call.as_secs()), (5, 7));
}

#[test]
fn the_variables_of_codex_are_inherited_beside_the_safe_ones_and_none_of_them_with_a_warning() {
    let names = || InheritEnv::Names(vec!["A".to_owned()]);
    for (word, expected, warnings) in [
        (json!(null), names(), 0),
        (json!("safe"), names(), 0),
        (json!("all"), InheritEnv::All, 0),
        (json!("none"), InheritEnv::None, 1),
    ] {
        let (decoded, problems) = read(&json!({ "command": "x", "env_vars": ["A"], "inherit_env": word }));
        let Decoded::Server(spec) = decoded else { panic!("{word}: {problems:?}") };
        let Transport::Stdio(stdio) = spec.transport else { panic!("{word}") };
        assert_eq!((stdio.inherit_env, problems.len()), (expected, warnings), "{word}: {problems:?}");
    }
}

#[test]
fn an_entry_with_nothing_but_enabled_is_a_switch() {
    for (entry, expected) in [
        (json!({ "enabled": false }), false),
        (json!({ "enabled": true, "description": "x" }), true),
        (json!({ "disabled": true }), false),
        (json!({ "disabled": false, "command": null }), true),
    ] {
        assert!(matches!(read(&entry).0, Decoded::Switch(enabled) if enabled == expected), "{entry}");
    }
    assert!(!server(json!({ "command": "x", "disabled": true })).enabled);
    assert!(server(json!({ "command": "x", "disabled": false, "enabled": true })).enabled);
    assert_eq!(
        broken(json!({ "command": "x", "disabled": true, "enabled": true })),
        ["`enabled` and `disabled` contradict each other"]
    );
}

#[test]
fn an_entry_that_cannot_work_is_an_error_with_field_and_reason() {
    for (entry, message) in [
        (json!("x"), "an entry must be an object, not text"),
        (json!({}), "the entry is empty"),
        (json!({ "args": [] }), "nothing says how to reach the server"),
        (json!({ "command": "x", "url": "https://x" }), "both `command` and `url` are given"),
        (json!({ "type": "ftp", "url": "https://x" }), "`type` must be `stdio`, `http` or `sse`"),
        (json!({ "type": "stdio" }), "`command` is missing"),
        (json!({ "type": "http" }), "`url` is missing"),
        (json!({ "command": "  " }), "`command` is empty"),
        (json!({ "command": 1 }), "`command` must be text, not a number"),
        (
            json!({ "command": "x", "args": "a b" }),
            "`args` must be a list of texts, such as `[\"a\", \"b\"]`, not text",
        ),
        (json!({ "command": "x", "args": [["a"]] }), "`args[0]` must be text, not a list"),
        (json!({ "command": "x", "env": { "A=B": "1" } }), "a variable's name cannot be empty or hold `=`"),
        (json!({ "command": "x", "enabled": "yes" }), "`enabled` must be true or false, not text"),
        (
            json!({ "command": "x", "timeout": 0 }),
            "`timeout` must be a time between 1 ms and 24 h, such as `30` or `\"30s\"`, not 0",
        ),
        (
            json!({ "command": "x", "timeout": "soon" }),
            "`timeout` must be a time between 1 ms and 24 h, such as `30` or `\"30s\"`, not text",
        ),
        (
            json!({ "command": "x", "timeout": 1, "timeout_ms": 1 }),
            "`timeout` and `timeout_ms` are two names of the same field",
        ),
        (json!({ "command": "x", "cwd": "a", "chdir": "a" }), "`cwd` and `chdir` are two names of the same field"),
        (
            json!({ "command": "x", "inheritEnv": "ALL" }),
            "`inheritEnv` must be `safe`, `all`, `none` or a list of names",
        ),
        (json!({ "command": "x", "protocol": "new" }), "`protocol` must be `auto`, `legacy` or `modern`"),
        (json!({ "command": "x", "tools": { "only": [] } }), "`tools.only` is not a known field"),
        (
            json!({ "command": "x", "tools": ["[a"] }),
            "`tools`: pattern \"[a\" cannot be used: unclosed character class; missing ']'",
        ),
        (json!({ "command": "${A" }), "`command`: a `${` has no closing `}`"),
        (
            json!({ "command": "x", "env": { "K": "${input:key}" } }),
            "`env.K`: `${input:key}` is a question that only VS Code asks",
        ),
        (json!({ "url": "example.com" }), "`url` must begin with `http://` or `https://`"),
        (json!({ "url": "http://127.0.0.1:99999/mcp" }), "`url` is not a URL: invalid port number"),
        (json!({ "url": "https://" }), "`url` is not a URL: empty host"),
        (json!({ "url": "https://x", "headers": { "a b": "1" } }), "this cannot be the name of a header"),
        (json!({ "url": "https://x", "headers": { "A": "1\r\nB: 2" } }), "`headers.A` holds control characters"),
        (json!({ "url": "https://x", "headers": { "A": "1", "a": "2" } }), "`headers.a` is given twice"),
        (
            json!({ "url": "https://x", "bearer_token_env_var": "a b" }),
            "this must be the name of an environment variable",
        ),
    ] {
        assert_eq!(broken(entry), [message]);
    }
}

#[test]
fn fields_of_the_other_transport_are_errors_unless_they_are_empty() {
    for field in ["url", "headers", "open_timeout_s", "read_timeout_s", "sse_max_reconnects", "max_response_bytes"] {
        let messages = broken(json!({ "type": "stdio", "command": "x", field: 1 }));
        assert_eq!(messages, [format!("`{field}` means nothing to a server of type `stdio`")]);
    }
    for field in ["command", "args", "env", "cwd", "chdir", "inherit_env"] {
        let messages = broken(json!({ "type": "http", "url": "https://x", field: "y" }));
        assert_eq!(messages, [format!("`{field}` means nothing to a server of type `http`")]);
    }
    server(json!({ "type": "http", "url": "https://x", "args": [], "env": {}, "command": null }));
}

#[test]
fn unknown_fields_are_warnings_with_a_suggestion() {
    let problem = warned(json!({ "command": "x", "arg": ["a"] }));
    assert_eq!(problem.message, "`arg` is not a known field");
    assert_eq!(problem.hint.as_deref(), Some("did you mean `args`?"));
    let problem = warned(json!({ "command": "x", "autoApprove": [] }));
    assert!(problem.hint.is_some_and(|hint| hint.contains("kept")));
}

#[test]
fn likely_mistakes_are_warnings() {
    let problem = warned(json!({ "command": "npx -y server" }));
    assert!(problem.hint.is_some_and(|hint| hint.contains("`args`")));
    let problem = warned(json!({ "command": "x", "env": { "TOKEN": " canary" } }));
    assert_eq!(problem.message, "`env.TOKEN` begins or ends with white space");
    let problem = warned(json!({ "command": "x\u{200b}" }));
    assert_eq!(problem.message, "`command` holds characters that cannot be seen");
}

#[test]
fn a_timeout_in_milliseconds_limits_the_total_time_of_a_call_as_in_claude_code() {
    let (decoded, problems) = read(&json!({ "command": "x", "timeout": 600_000 }));
    let Decoded::Server(spec) = decoded else { panic!() };
    let (given, defaults) = (&spec.timeouts, Timeouts::default());
    assert_eq!((given.startup, given.list), (defaults.startup, defaults.list));
    assert_eq!((given.call, given.call_total), (Duration::from_secs(600), Duration::from_secs(600)));
    assert!(problems.is_empty(), "{problems:?}");
    let given = server(json!({ "command": "x", "timeout": 30_000, "call_timeout": 90, "startup_timeout": 5 })).timeouts;
    assert_eq!((given.call.as_secs(), given.call_total.as_secs(), given.startup.as_secs()), (90, 90, 5));
    let longest = server(json!({ "command": "x", "timeout": 1e300 })).timeouts.call;
    assert_eq!(longest, Duration::from_secs(24 * 60 * 60));
    assert_eq!(server(json!({ "command": "x", "timeout": 999 })).timeouts.startup.as_secs(), 999);
    assert_eq!(server(json!({ "command": "x", "timeout": "1000s" })).timeouts.startup.as_secs(), 1000);
}

#[test]
fn the_scheme_of_an_address_may_be_in_capitals() {
    assert_eq!(http(json!({ "url": "HTTP://127.0.0.1:9/x" })).url, "HTTP://127.0.0.1:9/x");
    assert_eq!(broken(json!({ "url": "ftp://x" })), ["`url` must begin with `http://` or `https://`"]);
}

#[test]
fn a_misspelt_command_gets_a_suggestion() {
    for (entry, hint) in [
        (json!({ "comand": "x" }), "`comand` is not a known field; did you mean `command`?"),
        (json!({ "URLL": "https://x", "headers": {} }), "`URLL` is not a known field; did you mean `url`?"),
        (json!({ "argz": [] }), "give it `command` or `url`"),
    ] {
        let (decoded, problems) = read(&entry);
        assert!(matches!(decoded, Decoded::Broken), "{entry}");
        assert_eq!(problems[0].message, "nothing says how to reach the server", "{entry}");
        assert_eq!(problems[0].hint.as_deref(), Some(hint), "{entry}");
    }
}

#[test]
fn an_entry_with_an_invalid_name_is_broken() {
    let raw_entry = Member { name: "a/b".into(), name_span: 0..0, node: Node::from_json(&json!({ "command": "x" })) };
    let mut report = Report::new(None, "a/b");
    assert!(matches!(decode(&raw_entry, &mut report), Decoded::Broken));
}

fn any_json() -> impl Strategy<Value = Json> {
    let keys = prop::sample::select(vec![
        "command", "args", "env", "url", "type", "headers", "enabled", "timeout", "tools", "retry", "cwd", "x",
    ]);
    let leaf = prop_oneof![
        Just(Json::Null),
        any::<bool>().prop_map(Json::from),
        any::<f64>().prop_map(Json::from),
        "[a-z${}:/ -]{0,12}".prop_map(Json::from),
    ];
    leaf.prop_recursive(3, 24, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Json::from),
            prop::collection::btree_map(keys.clone(), inner, 0..6)
                .prop_map(|map| map.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()),
        ]
    })
}

/// Reads an entry from its text in a file. The member that is returned first has every member of the text, also
/// duplicates, which a [`Json`] cannot have.
fn read_text(text: &str) -> (Member, Decoded, Vec<Problem>) {
    let document = Document::new(Some("mcp.json".into()), &format!(r#"{{ "mcpServers": {{ "demo": {text} }} }}"#));
    let raw_entry = crate::dialect::servers(&document).unwrap().entries.remove(0);
    let mut report = Report::new(Some(&document), "demo");
    let decoded = decode(&raw_entry, &mut report);
    (raw_entry, decoded, report.into_problems())
}

#[test]
fn a_duplicate_name_disables_the_entry_with_one_problem_even_if_it_is_null() {
    let fields = [
        r#""command": "x", "args": ["-c", "echo harmless"]"#,
        r#""command": "x", "sandbox": true"#,
        r#""command": "x", "sandbox": { "connect": "any" }"#,
        r#""command": "x", "container": { "image": "x", "network": "bridge" }"#,
        r#""command": "x", "env": { "A": "1" }"#,
        r#""command": "x", "cwd": "sub", "tools": { "deny": ["a"] }, "pins": "enforce", "protocol": "legacy""#,
        r#""url": "https://x", "headers": { "A": "1" }, "timeout": { "connect": 1 }, "enabled": true, "type": "http""#,
        r#""url": "https://x", "oauth": { "scope": "a" }, "unknown": [{ "deep": 1 }]"#,
    ];
    for fields in fields {
        let entry: Json = serde_json::from_str(&format!("{{{fields}}}")).unwrap();
        let mut members = Vec::new();
        all_members(&entry, &mut members);
        for (name, value) in members {
            let member = format!("{}:{value}", Json::from(&*name));
            for other in ["null".to_owned(), "1".to_owned(), value.to_string()] {
                for duplicates in [
                    format!("{member},{}:{other}", Json::from(&*name)),
                    format!("{}:{other},{member}", Json::from(&*name)),
                ] {
                    let text = entry.to_string().replacen(&member, &duplicates, 1);
                    let (_, decoded, problems) = read_text(&text);
                    assert!(matches!(decoded, Decoded::Broken), "{text}");
                    let reports = problems.iter().filter(|problem| {
                        let is_report = problem.message.contains("twice") || problem.message.contains("two names");
                        is_report && problem.is_error() && problem.line.is_some()
                    });
                    assert_eq!(reports.count(), 1, "{text}: {problems:#?}");
                }
            }
        }
    }
    let (_, _, problems) = read_text(r#"{ "command": "x", "command": "y" }"#);
    assert_eq!(problems.iter().map(|problem| &*problem.message).collect::<Vec<_>>(), ["`command` is given twice"]);
    let (_, _, problems) = read_text(r#"{ "command": "x", "startupTimeout": 1, "startup-timeout": 1 }"#);
    let messages = ["`startupTimeout` and `startup-timeout` are two names of the same field"];
    assert_eq!(problems.iter().map(|problem| &*problem.message).collect::<Vec<_>>(), messages);
}

/// Adds the members of all objects in `value` to `members`.
fn all_members(value: &Json, members: &mut Vec<(String, Json)>) {
    match value {
        Json::Array(values) => values.iter().for_each(|value| all_members(value, members)),
        Json::Object(object) => {
            for (name, value) in object {
                members.push((name.clone(), value.clone()));
                all_members(value, members);
            }
        }
        _ => {}
    }
}

/// Generates members of an entry. Their names are few, so that some come up twice, and some values are `null`.
fn any_members() -> impl Strategy<Value = Vec<(&'static str, &'static str)>> {
    let names = vec!["command", "args", "sandbox", "env", "cwd", "enabled", "tools"];
    prop::collection::vec((prop::sample::select(names), any_value()), 1..6)
}

fn any_value() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "null",
        "true",
        "false",
        "\"x\"",
        "\"y\"",
        "[\"x\"]",
        "[\"y\"]",
        r#"{"deny":["x"],"deny":null}"#,
        r#"{"deny":["y"],"deny":null}"#,
        r#"{"A":"1","A":null}"#,
        r#"{"A":"2","A":null}"#,
        r#"{"A":"2"}"#,
    ])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn entries_with_different_meanings_never_have_the_same_hash(
        members in any_members(), changed in any::<prop::sample::Index>(), value in any_value(),
    ) {
        let text = |members: &[(&str, &str)]| {
            let members: Vec<_> = members.iter().map(|(name, value)| format!("\"{name}\":{value}")).collect();
            format!("{{\"command\":\"x\",{}}}", members.join(","))
        };
        let mut others = members.clone();
        others[changed.index(members.len())].1 = value;
        let (one, other) = (read_text(&text(&members)), read_text(&text(&others)));
        let has_same_hash = crate::trust::hash(&one.0.node) == crate::trust::hash(&other.0.node);
        let has_same_meaning = match (&one.1, &other.1) {
            (Decoded::Server(one), Decoded::Server(other)) => one == other,
            (Decoded::Switch(one), Decoded::Switch(other)) => one == other,
            (Decoded::Broken, Decoded::Broken) => true,
            _ => false,
        };
        prop_assert!(has_same_meaning || !has_same_hash, "{:?} {:?}", members, others);
        prop_assert_eq!(has_same_hash, members == others, "the hash covers all that is written");
    }
}

proptest! {
    #[test]
    fn every_entry_is_either_usable_or_has_an_error_that_says_why_not(entry in any_json()) {
        let (decoded, problems) = read(&entry);
        let has_errors = problems.iter().any(Problem::is_error);
        prop_assert_eq!(matches!(decoded, Decoded::Broken), has_errors);
    }
}

#[test]
fn a_headers_helper_is_a_list_or_a_line_that_is_split_without_a_shell() {
    for helper in [json!(["/opt/key", "--for", "a b", "${HOME}"]), json!("/opt/key --for 'a b' ${HOME}")] {
        let read = http(json!({ "url": "https://x", "headersHelper": helper })).headers_helper.unwrap();
        assert_eq!(
            (read.command.as_str(), &*read.args),
            ("/opt/key", &["--for", "a b", "${HOME}"].map(str::to_owned)[..])
        );
    }
    for (helper, cause) in [
        (json!(""), "is empty"),
        (json!([]), "is empty"),
        (json!("a 'b"), "quotation mark"),
        (json!({ "command": "a" }), "must be"),
        (json!(["a", "${"]), "headers_helper"),
    ] {
        let errors = broken(json!({ "url": "https://x", "headers_helper": helper })).join("; ");
        assert!(errors.contains(cause), "{helper}: {errors}");
    }
    let warned = warned(json!({ "url": "https://x", "headers_helper": "key | jq ." }));
    assert!(warned.message.contains("no shell"), "{}", warned.message);
    assert!(!broken(json!({ "command": "x", "headers_helper": "key" })).is_empty());
}

#[test]
fn programs_without_a_user_sign_in_with_keys_and_assertions() {
    let enterprise = json!({
        "grant": "enterprise_managed", "client_id": "id", "private_key_file": "/k.pem", "key_id": "k1", "dpop": true,
        "assertion_file": "${HOME}/id-token",
        "idp": { "token_url": "https://idp/token", "client_id": "at-idp", "client_secret": "${secret:idp}" },
    });
    let read = http(json!({ "url": "https://x", "oauth": enterprise })).oauth;
    assert_eq!((read.grant, read.dpop), (Grant::EnterpriseManaged, true));
    assert_eq!((read.private_key.file.as_deref(), read.key_id.as_deref()), (Some("/k.pem"), Some("k1")));
    assert_eq!(read.assertion.file.as_deref(), Some("${HOME}/id-token"));
    assert_eq!(read.idp.unwrap().token_url, "https://idp/token");
    for grant in ["jwt_bearer", "workload_identity", "urn:ietf:params:oauth:grant-type:jwt-bearer"] {
        let oauth = json!({ "grant": grant, "assertion_file": "/t" });
        assert_eq!(http(json!({ "url": "https://x", "oauth": oauth })).oauth.grant, Grant::JwtBearer);
    }
}

#[test]
fn the_client_scopes_account_and_grant_of_a_sign_in_can_be_configured() {
    let oauth = json!({
        "clientId": "id", "CLIENT_SECRET": "${secret:s}", "scope": "a b:c", "account": "work", "grant": "client_credentials",
    });
    let read = http(json!({ "url": "https://x", "oauth": oauth })).oauth;
    assert_eq!((read.client_id.as_deref(), read.client_secret.as_deref()), (Some("id"), Some("${secret:s}")));
    assert_eq!((read.scopes, read.account.as_deref()), (vec!["a".to_owned(), "b:c".to_owned()], Some("work")));
    assert_eq!(read.grant, Grant::ClientCredentials);
    let longest = "é".repeat(64);
    assert_eq!(
        http(json!({ "url": "https://x", "oauth": { "account": longest } })).oauth.account,
        Some(longest.clone())
    );
    for (oauth, cause) in [
        (json!({ "account": format!("{longest}é") }), "1 to 64 letters"),
        (json!(true), "must be an object"),
        (json!({ "client_secret": "canary" }), "means nothing without"),
        (json!({ "client_id": "${" }), "oauth.client_id"),
        (json!({ "scopes": ["a b"] }), "not a valid scope"),
        (json!({ "account": "a/b" }), "letters, digits"),
        (json!({ "grant": "password" }), "client_credentials"),
    ] {
        let errors = broken(json!({ "url": "https://x", "oauth": oauth })).join("; ");
        assert!(errors.contains(cause) && !errors.contains("canary"), "{oauth}: {errors}");
    }
    for (oauth, cause) in [
        (json!({ "private_key_file": "/k" }), "without `oauth.client_id`"),
        (json!({ "client_id": "a", "private_key": "canary", "private_key_file": "/k" }), "as text or as a file"),
        (
            json!({ "client_id": "a", "client_secret": "canary", "private_key": "canary" }),
            "takes the place of a secret",
        ),
        (json!({ "grant": "jwt_bearer" }), "oauth.assertion_file"),
        (json!({ "assertion": "canary" }), "mean nothing"),
        (json!({ "grant": "enterprise_managed", "assertion": "canary", "client_id": "a" }), "oauth.idp"),
        (json!({ "grant": "enterprise_managed", "assertion": "canary", "client_id": "a", "idp": {} }), "token_url"),
        (json!({ "dpop": "yes" }), "true or false"),
    ] {
        let errors = broken(json!({ "url": "https://x", "oauth": oauth })).join("; ");
        assert!(errors.contains(cause) && !errors.contains("canary"), "{oauth}: {errors}");
    }
    let unknown = warned(json!({ "url": "https://x", "oauth": { "callbackPort": 1 } }));
    assert!(unknown.message.contains("oauth.callbackPort"), "{}", unknown.message);
    assert!(broken(json!({ "command": "x", "oauth": { "client_id": "id" } }))[0].contains("means nothing"));
}

mod containers {
    use toolrack_host::spec::{Container, Engine, Mount, Pull};

    use super::*;

    fn container(entry: Json) -> Container {
        *stdio(entry).container.expect("a container")
    }

    #[test]
    fn a_container_is_given_as_an_image_or_as_a_table() {
        let shorthand = container(json!({ "container": "mcp/fetch" }));
        assert_eq!(shorthand, Container { image: "mcp/fetch".to_owned(), ..Container::default() });
        let all = container(json!({ "command": "x", "cwd": "/app", "env": { "TOKEN": "${TOKEN}" }, "container": {
            "image": "x:1", "engine": "podman", "pull": "never", "network": "bridge", "user": "1000:1000", "readOnly": false,
            "mounts": ["~/notes:/notes", "/a:b:/c:rw", "${DIR}:/d:ro"], "tmpfs": [],
            "limits": { "memory": "64MiB", "processes": 8, "cpus": 0.5 },
        } }));
        let mount = |source: &str, target: &str, write| Mount { source: source.into(), target: target.into(), write };
        assert_eq!(
            all,
            Container {
                image: "x:1".into(),
                engine: Engine::Podman,
                pull: Pull::Never,
                network: Some("bridge".into()),
                mounts: vec![
                    mount("~/notes", "/notes", false),
                    mount("/a:b", "/c", true),
                    mount("${DIR}", "/d", false)
                ],
                tmpfs: Vec::new(),
                writable: true,
                user: Some("1000:1000".into()),
                memory: 64 << 20,
                processes: 8,
                millicpus: Some(500),
            }
        );
    }

    #[test]
    fn the_folder_in_a_container_may_begin_with_a_placeholder() {
        for cwd in ["${DIR}", "${DIR}/app", "/app"] {
            let read = stdio(json!({ "command": "x", "container": "x", "cwd": cwd }));
            assert_eq!(read.cwd.as_deref(), Some(std::path::Path::new(cwd)));
        }
    }

    #[test]
    fn container_options_that_lead_outside_or_are_unknown_are_errors() {
        for (entry, message) in [
            (json!({ "command": "x", "container": "x", "sandbox": true }), "exclude each other"),
            (
                json!({ "command": "x", "container": "x", "env": { "LD_PRELOAD": "/x.so" } }),
                "would act on the engine's client",
            ),
            (
                json!({ "command": "x", "container": "x", "env": { "DOCKER_HOST": "tcp://x" } }),
                "would act on the engine's client",
            ),
            (json!({ "command": "x", "container": "x", "env": { "A*": "x" } }), "cannot be given to a container"),
            (json!({ "command": "x", "container": "x", "inherit_env": "all" }), "cannot be `all` with a container"),
            (json!({ "command": "x", "container": "x", "cwd": "app" }), "must be a full path in the container"),
            (json!({ "container": "--privileged" }), "must be the name of an image"),
            (json!({ "container": { "image": "a b" } }), "must be the name of an image"),
            (json!({ "container": {} }), "`container.image` is missing"),
            (json!({ "container": { "image": "x", "network": "host" } }), "cannot be `host`"),
            (json!({ "container": { "image": "x", "network": "container:other" } }), "must be `none`, `bridge`"),
            (json!({ "container": { "image": "x", "user": "--x" } }), "must be a user"),
            (json!({ "container": { "image": "x", "engine": "/bin/sh" } }), "must be `auto`, `docker`"),
            (json!({ "container": { "image": "x", "mounts": ["/:/host"] } }), "the whole machine"),
            (json!({ "container": { "image": "x", "mounts": ["/run/:/x"] } }), "the whole machine"),
            (json!({ "container": { "image": "x", "mounts": ["/var/run/docker.sock:/s:rw"] } }), "the whole machine"),
            (json!({ "container": { "image": "x", "mounts": ["/run/user/1000:/r"] } }), "the whole machine"),
            (json!({ "container": { "image": "x", "mounts": ["/var/run/docker:/q"] } }), "the whole machine"),
            (json!({ "container": { "image": "x", "mounts": ["/var/lib/docker:/d:rw"] } }), "the whole machine"),
            (json!({ "container": { "image": "x", "mounts": ["~/.docker:/d"] } }), "the whole machine"),
            (json!({ "container": { "image": "x", "mounts": ["/etc:/etc2:rw"] } }), "change the system"),
            (json!({ "container": { "image": "x", "mounts": ["/home:/h:rw"] } }), "change the system"),
            (json!({ "container": { "image": "x", "mounts": ["notes:/notes"] } }), "must be two full paths"),
            (json!({ "container": { "image": "x", "mounts": ["/notes:/a,z"] } }), "must be two full paths"),
            (json!({ "container": { "image": "x", "mounts": ["/notes"] } }), "must be `SOURCE:TARGET`"),
            (json!({ "container": { "image": "x", "tmpfs": ["/tmp:exec"] } }), "must be a full path"),
            (
                json!({ "container": { "image": "x", "privileged": true } }),
                "`container.privileged` is not a known field",
            ),
            (json!({ "container": { "image": "x", "limits": { "memory": "1MiB" } } }), "6 MiB or more"),
            (json!({ "container": { "image": "x", "limits": { "cpus": 0 } } }), "from 0.01"),
        ] {
            let messages = broken(entry.clone());
            assert!(messages.iter().any(|problem| problem.contains(message)), "{entry}: {messages:?}");
        }
    }
}

#[test]
fn every_bound_is_set_by_the_key_of_its_row_and_shown() {
    for entry in [json!({ "command": "x" }), json!({ "url": "https://x" })] {
        for field in [Timeouts::FIELDS, Limits::FIELDS].concat() {
            let value = match field.kind {
                FieldKind::Number { min, .. } => min + 76,
                _ => 77,
            };
            let mut entry = entry.clone();
            entry[field.key] = json!(value);
            let spec = server(entry);
            let set = (field.shown)(&spec).and_then(|shown| shown.as_f64());
            assert_eq!(set, Some(value as f64), "{}", field.key);
            assert_eq!(crate::redact(&spec)[field.key].as_f64(), set, "{} is shown", field.key);
        }
    }
}

#[test]
fn a_secret_among_the_arguments_is_a_warning_that_offers_env() {
    for entry in [
        json!({ "command": "x", "args": ["--token=${secret:gh}"] }),
        json!({ "command": ["x", "${A:-${secret:gh}}"] }),
        json!({ "url": "https://x", "headersHelper": "print ${secret:gh}" }),
    ] {
        let problem = warned(entry);
        assert!(problem.message.contains("`ps`") && problem.hint.unwrap().contains("`env`"), "{}", problem.message);
    }
    let _ = server(json!({ "command": "x", "env": { "T": "${secret:gh}" } }));
}
