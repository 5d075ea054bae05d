use std::fs;

use toolrack_host::{Caller, Gate as _, GateRequest, Verdict, Way, mcp::Annotations, spec::Transport};

use super::*;
use crate::{places::Places, trust::NoLedger};

/// A temporary folder with a user's home and a project, both empty at first.
struct Disk {
    folder: tempfile::TempDir,
}

impl Disk {
    fn new() -> Self {
        let disk = Self { folder: tempfile::tempdir().unwrap() };
        fs::create_dir_all(disk.project().join(".git")).unwrap();
        fs::create_dir_all(disk.home()).unwrap();
        disk
    }

    fn root(&self) -> PathBuf {
        self.folder.path().canonicalize().unwrap()
    }

    fn home(&self) -> PathBuf {
        self.root().join("home")
    }

    fn project(&self) -> PathBuf {
        self.root().join("project")
    }

    fn places(&self) -> Places {
        Places::under(self.home())
    }

    fn write(&self, path: impl AsRef<Path>, text: &str) -> &Self {
        let path = self.root().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        self
    }

    fn request(&self) -> Request {
        Request::new(self.places(), self.project())
    }

    fn load(&self) -> Loaded {
        load(&self.request(), &NoLedger)
    }

    /// Loads with the user's agreement to every entry.
    fn load_trusted(&self) -> Loaded {
        load(&self.request(), &|_: &Candidate<'_>| true)
    }
}

/// Returns a file with one server, `a`, that runs `command`.
fn server(command: &str) -> String {
    format!(r#"{{ "mcpServers": {{ "a": {{ "command": "{command}" }} }} }}"#)
}

fn command<'a>(loaded: &'a Loaded, name: &str) -> &'a str {
    match &loaded.desired[name].transport {
        Transport::Stdio(stdio) => &stdio.command,
        other => panic!("{other:?}"),
    }
}

#[test]
fn without_any_file_there_are_no_servers_and_no_problems() {
    let loaded = Disk::new().load();
    assert!(loaded.desired.is_empty() && loaded.problems.is_empty() && loaded.is_complete);
    assert_eq!(loaded.files.len(), 7);
}

#[test]
fn a_stronger_layer_replaces_the_entire_entry_and_records_the_hidden_one() {
    let disk = Disk::new();
    let local = disk.places().local_file(&disk.project());
    disk.write("home/toolrack.toml", "[[defaults.mcp]]\nname = \"a\"\ncommand = \"toml\"\nargs = [\"1\"]\n");
    assert_eq!(command(&disk.load(), "a"), "toml");
    disk.write("home/mcp.json", &server("user"));
    assert_eq!(command(&disk.load(), "a"), "user");
    disk.write("project/.mcp.json", &server("project"));
    assert_eq!(command(&disk.load_trusted(), "a"), "project");
    disk.write("project/.toolrack/mcp.json", &server("own"));
    assert_eq!(command(&disk.load_trusted(), "a"), "own");
    disk.write(&local, &server("local"));
    let loaded = disk.load_trusted();
    assert_eq!(command(&loaded, "a"), "local");

    let entry = loaded.entry("a").unwrap();
    assert_eq!((entry.scope, entry.line), (Scope::Local, Some(1)));
    let hidden: Vec<_> = entry.shadows.iter().map(|shadow| shadow.source.path.clone().unwrap()).collect();
    assert_eq!(
        hidden,
        [
            disk.project().join(".toolrack/mcp.json"),
            disk.project().join(".mcp.json"),
            disk.home().join("mcp.json"),
            disk.home().join("toolrack.toml"),
        ]
    );
    match &loaded.desired["a"].transport {
        Transport::Stdio(stdio) => {
            assert!(stdio.args.is_empty(), "nothing is merged into an entry")
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_command_line_is_strongest_and_strict_leaves_only_it() {
    let disk = Disk::new();
    disk.write("home/mcp.json", r#"{ "mcpServers": { "a": { "command": "user" }, "u": { "command": "u" } } }"#);
    disk.write("project/one.json", &server("one")).write("project/two.toml", "[mcp_servers.a]\ncommand = \"two\"\n");
    let mut request = disk.request();
    request.mcp_config = vec!["one.json".into(), disk.project().join("two.toml")];
    let loaded = load(&request, &NoLedger);
    assert_eq!(command(&loaded, "a"), "two");
    assert_eq!(loaded.desired["a"].trust, Trust::Trusted, "the user typed the name of the file");
    assert!(loaded.desired.contains_key("u"));
    request.strict = true;
    let loaded = load(&request, &NoLedger);
    assert_eq!(loaded.desired.len(), 1);
    let servers = loaded.files.iter().filter(|file| !file.path.ends_with("toolrack.toml"));
    assert_eq!(servers.count(), 2, "the two named files; each `toolrack.toml` is still read for its rules about calls");
}

#[test]
fn a_file_that_was_named_and_is_missing_is_an_error() {
    let disk = Disk::new();
    let mut request = disk.request();
    request.mcp_config = vec!["nope.json".into()];
    let loaded = load(&request, &NoLedger);
    assert!(loaded.errors().next().unwrap().to_string().contains("nope.json: error: the file does not exist"));
    assert!(!loaded.is_complete);
}

#[test]
fn a_project_is_searched_from_its_root_to_the_working_folder_and_the_nearest_file_wins() {
    let disk = Disk::new();
    disk.write(".mcp.json", r#"{ "mcpServers": { "outside": { "command": "x" } } }"#);
    disk.write("project/.mcp.json", r#"{ "mcpServers": { "a": { "command": "root" }, "r": { "command": "r" } } }"#);
    disk.write("project/sub/.mcp.json", &server("sub"));
    let request = Request::new(disk.places(), disk.project().join("sub"));
    let loaded = load(&request, &|_: &Candidate<'_>| true);
    assert_eq!(command(&loaded, "a"), "sub");
    assert!(loaded.desired.contains_key("r"));
    assert!(!loaded.desired.contains_key("outside"), "nothing above the project's root counts");
    assert_eq!(loaded.project, disk.project());
}

#[test]
fn an_entry_of_a_project_waits_until_exactly_that_entry_is_approved() {
    let disk = Disk::new();
    disk.write("project/.mcp.json", &server("one"));
    let loaded = disk.load();
    let entry = loaded.entry("a").unwrap().clone();
    assert_eq!(loaded.desired["a"].trust, Trust::Pending);
    assert_eq!(entry.project.as_deref(), Some(&*disk.project()));

    let approved = |candidate: &Candidate<'_>| {
        candidate.project == disk.project() && candidate.name == "a" && candidate.hash == entry.hash
    };
    assert_eq!(load(&disk.request(), &approved).desired["a"].trust, Trust::Trusted);
    disk.write("project/.mcp.json", &server("one").replace("{ \"a\"", "// moved\n{ \"a\""));
    assert_eq!(load(&disk.request(), &approved).desired["a"].trust, Trust::Trusted, "comments mean nothing");
    disk.write("project/.mcp.json", &server("two"));
    assert_eq!(load(&disk.request(), &approved).desired["a"].trust, Trust::Pending);

    disk.write("elsewhere/.mcp.json", &server("one"));
    let request = Request::new(disk.places(), disk.root().join("elsewhere"));
    assert_eq!(load(&request, &approved).desired["a"].trust, Trust::Pending, "another project is another approval");
}

#[test]
fn a_null_cannot_exchange_part_of_an_approved_entry() {
    for (seen, exchanged) in [
        (r#""args": ["-c", "echo harmless"], "args": null"#, r#""args": ["-c", "echo other"], "args": null"#),
        (r#""sandbox": true, "sandbox": null"#, r#""sandbox": null"#),
        (r#""env": { "A": "1", "A": null }"#, r#""env": { "A": "2", "A": null }"#),
    ] {
        let disk = Disk::new();
        let load_with = |fields: &str, ledger: &dyn Ledger| {
            let text = format!(r#"{{ "mcpServers": {{ "a": {{ "command": "sh", {fields} }} }} }}"#);
            disk.write("project/.mcp.json", &text);
            load(&disk.request(), ledger)
        };
        let before = load_with(seen, &NoLedger).entry("a").unwrap().clone();
        assert!(!before.is_valid, "{seen}");
        let approved = |candidate: &Candidate<'_>| candidate.hash == before.hash;
        let after = load_with(exchanged, &approved);
        assert_eq!(after.entry("a").unwrap().trust, Trust::Pending, "{exchanged}");
        assert_ne!(after.entry("a").unwrap().hash_unswitched, before.hash_unswitched, "{exchanged}");
    }
}

#[test]
fn entries_of_the_user_s_own_files_need_no_agreement() {
    let disk = Disk::new();
    disk.write("home/mcp.json", &server("user"));
    disk.write(disk.places().local_file(&disk.project()), r#"{ "mcpServers": { "l": { "command": "x" } } }"#);
    assert!(disk.load().desired.values().all(|spec| spec.trust == Trust::Trusted));
}

#[test]
fn servers_of_a_project_run_in_its_folder() {
    let disk = Disk::new();
    disk.write("home/mcp.json", r#"{ "mcpServers": { "u": { "command": "x", "cwd": "rel" } } }"#);
    disk.write(
        "project/.toolrack/mcp.json",
        r#"{ "mcpServers": { "d": { "command": "x" }, "r": { "command": "x", "cwd": "sub" },
            "v": { "command": "x", "cwd": "${DIR}" }, "abs": { "command": "x", "cwd": "/abs" } } }"#,
    );
    let loaded = disk.load();
    let cwd = |name: &str| match &loaded.desired[name].transport {
        Transport::Stdio(stdio) => stdio.cwd.clone(),
        other => panic!("{other:?}"),
    };
    assert_eq!(cwd("d"), Some(disk.project()));
    assert_eq!(cwd("r"), Some(disk.project().join("sub")));
    assert_eq!(cwd("v"), Some("${DIR}".into()));
    assert_eq!(cwd("abs"), Some("/abs".into()));
    assert_eq!(cwd("u"), Some(disk.project().join("rel")));
}

#[test]
fn one_bad_entry_costs_only_itself_and_nothing_runs_in_its_place() {
    let disk = Disk::new();
    disk.write("home/mcp.json", r#"{ "mcpServers": { "a": { "command": "user" }, "b": { "command": "b" } } }"#);
    disk.write(
        "project/.mcp.json",
        "{\n  \"mcpServers\": {\n    \"a\": { \"command\": \"x\", \"url\": \"https://x\" },\n    \"c\": { \"command\": \"c\" }\n  }\n}",
    );
    let loaded = disk.load();
    assert_eq!(loaded.desired.keys().map(ServerName::as_str).collect::<Vec<_>>(), ["b", "c"]);
    let entry = loaded.entry("a").unwrap();
    assert!(!entry.is_valid && !entry.enabled);
    assert_eq!(entry.shadows.len(), 1);
    let problem = loaded.errors().next().unwrap();
    assert_eq!((problem.line, problem.column, problem.entry.as_deref()), (Some(3), Some(5), Some("a")));
    assert!(loaded.is_complete);
}

#[test]
fn a_broken_file_is_ignored_and_its_error_names_the_place() {
    let disk = Disk::new();
    disk.write("home/mcp.json", &server("user"));
    disk.write("project/.mcp.json", "{\n  \"mcpServers\": { \"a\": { \"env\": { \"K\": \"canary\" \n");
    let loaded = disk.load();
    assert_eq!(command(&loaded, "a"), "user");
    assert!(!loaded.is_complete);
    let shown = loaded.problems[0].to_string();
    assert!(shown.contains(".mcp.json:2:") && shown.contains('^') && !shown.contains("canary"), "{shown}");
}

#[test]
fn a_name_given_twice_in_a_file_gives_no_server() {
    let disk = Disk::new();
    disk.write("home/mcp.json", r#"{ "mcpServers": { "a": { "command": "1" }, "a": { "command": "2" } } }"#);
    let loaded = disk.load();
    assert!(loaded.desired.is_empty());
    assert_eq!(loaded.errors().count(), 1);
}

#[test]
fn a_lone_enabled_switches_a_weaker_entry() {
    let disk = Disk::new();
    disk.write("home/mcp.json", &server("user"));
    disk.write("project/.mcp.json", r#"{ "mcpServers": { "a": { "enabled": false } } }"#);
    let loaded = disk.load();
    assert!(!loaded.desired["a"].enabled);
    assert_eq!(loaded.desired["a"].trust, Trust::Trusted);
    let entry = loaded.entry("a").unwrap();
    assert_eq!((entry.scope, entry.enabled), (Scope::User, false));
    assert_eq!(entry.switched_by.as_ref().unwrap().scope, "project");
    assert!(loaded.problems.is_empty());
}

#[test]
fn a_project_can_switch_nothing_on() {
    let disk = Disk::new();
    disk.write("home/mcp.json", r#"{ "mcpServers": { "a": { "command": "x", "enabled": false } } }"#);
    disk.write("project/.mcp.json", r#"{ "mcpServers": { "a": { "enabled": true }, "none": { "enabled": true } } }"#);
    let loaded = disk.load();
    assert!(!loaded.desired["a"].enabled);
    assert_eq!(loaded.problems.len(), 2);
    disk.write(disk.places().local_file(&disk.project()), r#"{ "mcpServers": { "a": { "enabled": true } } }"#);
    assert!(disk.load().desired["a"].enabled);
}

#[test]
fn built_in_servers_can_be_switched_off_or_replaced() {
    let disk = Disk::new();
    let mut request = disk.request();
    request.built_in.insert(ServerName::new("builtin").unwrap(), ServerSpec::stdio("self", ["serve"]));
    let loaded = load(&request, &NoLedger);
    assert_eq!(loaded.entry("builtin").unwrap().scope, Scope::BuiltIn);
    disk.write("home/mcp.json", r#"{ "mcpServers": { "builtin": { "enabled": false } } }"#);
    assert!(!load(&request, &NoLedger).desired["builtin"].enabled);
    disk.write("home/mcp.json", r#"{ "mcpServers": { "builtin": { "command": "other" } } }"#);
    assert_eq!(command(&load(&request, &NoLedger), "builtin"), "other");
}

#[test]
fn a_chosen_user_file_replaces_the_usual_one() {
    let disk = Disk::new();
    disk.write("home/mcp.json", &server("usual")).write("chosen.json", &server("chosen"));
    let places = |file: &str| {
        let variables = [("TOOLRACK_HOME", disk.home()), ("TOOLRACK_MCP_CONFIG", disk.root().join(file))];
        Places::from_env(&crate::Environment::new(variables)).unwrap()
    };
    let loaded = load(&Request::new(places("chosen.json"), disk.project()), &NoLedger);
    assert_eq!(command(&loaded, "a"), "chosen");
    let loaded = load(&Request::new(places("none.json"), disk.project()), &NoLedger);
    assert!(loaded.desired.is_empty());
    assert_eq!(loaded.problems.len(), 1);
    assert!(loaded.is_complete, "a missing file is not a broken one");
}

#[cfg(unix)]
#[test]
fn a_named_pipe_in_a_project_does_not_block_the_loader() {
    let disk = Disk::new();
    let pipe = disk.project().join(".mcp.json");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    if !made.is_ok_and(|status| status.success()) {
        return;
    }
    let loaded = disk.load();
    assert!(loaded.problems[0].to_string().contains("not a regular file"));
}

#[cfg(unix)]
#[test]
fn a_pipe_that_the_user_names_is_read_once_and_keeps_its_servers_at_each_load() {
    let disk = Disk::new();
    disk.write("project/file.json", "{}");
    let pipe = disk.project().join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    if !made.is_ok_and(|status| status.success()) {
        return;
    }
    let writer = std::thread::spawn({
        let pipe = pipe.clone();
        move || fs::write(pipe, server("piped")).unwrap()
    });
    let typed = TypedConfig::read_stream(&pipe).unwrap().unwrap();
    writer.join().unwrap();
    let request = Request { typed: vec![typed], ..disk.request() };
    for _ in 0..2 {
        assert_eq!(command(&load(&request, &NoLedger), "a"), "piped");
    }
    for other in ["file.json", "none.json", "."] {
        assert_eq!(TypedConfig::read_stream(&disk.project().join(other)).unwrap(), None, "{other}");
    }
    // Loading itself must not wait for a writer.
    let loaded = load(&Request { mcp_config: vec![pipe], ..disk.request() }, &NoLedger);
    assert!(!loaded.is_complete && loaded.problems[0].message.contains("not a regular file"), "{:?}", loaded.problems);
}

const AGENTS: &str = "unset = \"empty\"\n[[defaults.mcp]]\nname = \"shared\"\ncommand = \"shared\"\nargs = [\"1\"]\n\
    [[defaults.mcp]]\nname = \"off\"\ncommand = \"off\"\n\
    [[agents]]\nid = \"main\"\n[[agents.mcp]]\nname = \"shared\"\ncommand = \"own\"\n\
    [[agents.mcp]]\nname = \"off\"\nenabled = false\n[[agents.mcp]]\nname = \"more\"\ncommand = \"more\"\n\
    [[agents]]\nid = \"plain\"\n[[agents]]\nid = \"odd\"\n[[agents.mcp]]\nname = \"x\"\n";

#[test]
fn sb_10_an_agent_replaces_complete_entries_and_adds_its_own() {
    let disk = Disk::new();
    disk.write("home/toolrack.toml", AGENTS)
        .write("home/mcp.json", r#"{ "mcpServers": { "user": { "command": "u" } } }"#);
    let load_for = |agent: Option<&str>| {
        let request = Request { agent: agent.map(str::to_owned), ..disk.request() };
        load(&request, &NoLedger)
    };
    let names = |loaded: &Loaded| loaded.desired.keys().map(ToString::to_string).collect::<Vec<_>>();
    for agent in [None, Some("plain")] {
        let loaded = load_for(agent);
        assert_eq!(names(&loaded), ["off", "shared", "user"]);
        assert_eq!(command(&loaded, "shared"), "shared");
        // The mistake of an agent that is not chosen is reported as well.
        assert_eq!(loaded.errors().filter_map(|problem| problem.entry.as_deref()).collect::<Vec<_>>(), ["x"]);
    }
    let loaded = load_for(Some("main"));
    assert_eq!(names(&loaded), ["more", "off", "shared", "user"]);
    assert_eq!((command(&loaded, "shared"), loaded.desired["off"].enabled), ("own", false));
    let Transport::Stdio(stdio) = &loaded.desired["shared"].transport else { panic!() };
    assert!(stdio.args.is_empty(), "nothing is merged into an entry");
    let entry = loaded.entry("shared").unwrap();
    assert_eq!((entry.agent.as_deref(), entry.shadows.len(), entry.line), (Some("main"), 1, Some(12)));
    assert_eq!(loaded.entry("user").unwrap().agent, None);
    assert_eq!(loaded.agents, ["main", "odd", "plain"]);
    assert_eq!(loaded.settings.unset, crate::UnsetPolicy::Empty);
}

#[test]
fn the_servers_of_an_agent_are_stronger_than_every_layer() {
    let disk = Disk::new();
    disk.write("home/toolrack.toml", AGENTS);
    disk.write("project/one.json", r#"{ "mcpServers": { "more": { "command": "line" } } }"#);
    let mut request = disk.request();
    request.mcp_config = vec!["one.json".into()];
    request.agent = Some("main".into());
    assert_eq!(command(&load(&request, &NoLedger), "more"), "more");
    // With `--strict-mcp-config`, the user's file gives no servers and no agents.
    request.strict = true;
    let loaded = load(&request, &NoLedger);
    assert_eq!(command(&loaded, "more"), "line");
    assert_eq!(loaded.settings.unset, Settings::default().unset);
    assert!(loaded.errors().any(|problem| problem.message.contains("no agent is called `main`")));
}

fn denies(loaded: &Loaded, tool: &str) -> bool {
    let (server, arguments) = (ServerName::new("fs").unwrap(), serde_json::Map::new());
    let (caller, annotations) = (Caller::local(Way::Cli), Annotations::default());
    let request = GateRequest::unlisted(&server, tool, &arguments, &annotations).with_caller(&caller);
    matches!(loaded.settings.policy.judge(&request), Verdict::Deny { .. })
}

#[test]
fn the_rules_of_every_layer_count_and_a_project_allows_nothing() {
    let disk = Disk::new();
    disk.write("home/toolrack.toml", "[policy]\nallow = \"fs/*\"\ndeny = \"fs/wipe\"\notherwise = \"deny\"\n");
    disk.write("project/.toolrack/toolrack.toml", "unset = \"empty\"\n[policy]\nallow = \"*\"\ndeny = \"fs/send\"\n");
    disk.write(
        disk.places().local_file(&disk.project()).with_file_name("toolrack.toml"),
        "[policy]\ndeny = \"fs/mail\"\notherwise = \"allow\"\n",
    );
    let loaded = disk.load();
    let denied = ["wipe", "send", "mail", "read"].map(|tool| denies(&loaded, tool));
    assert_eq!(denied, [true, true, true, false]);
    assert!(loaded.is_complete && loaded.settings.unset == crate::UnsetPolicy::Error);
    let shown: Vec<_> =
        loaded.problems.iter().map(|problem| (problem.is_error(), problem.line, &*problem.message)).collect();
    assert_eq!(
        shown,
        [
            (false, Some(1), "`unset` is ignored: from this file, only `[policy]` is read"),
            (false, Some(3), "a project can forbid calls or require approval for them, but cannot allow them"),
        ]
    );
    disk.write("project/.toolrack/toolrack.toml", "[policy]\notherwise = \"allow\"\n");
    disk.write("home/toolrack.toml", "[policy]\notherwise = \"deny\"\n");
    std::fs::remove_file(disk.places().local_file(&disk.project()).with_file_name("toolrack.toml")).unwrap();
    assert!(denies(&disk.load(), "read"), "a project cannot allow what the user denies");
}

#[test]
fn a_strict_load_keeps_the_denials_of_the_user() {
    let disk = Disk::new();
    disk.write(
        "home/toolrack.toml",
        "unset = \"empty\"\n[policy]\ndeny = \"fs/wipe\"\n[[defaults.mcp]]\nname = \"a\"\ncommand = \"a\"\n",
    );
    let loaded = load(&Request { strict: true, ..disk.request() }, &NoLedger);
    assert!(loaded.desired.is_empty() && denies(&loaded, "wipe") && !denies(&loaded, "read"));
    assert_eq!(loaded.settings.unset, crate::UnsetPolicy::Error);
    // If the file cannot be read, it might deny any call, so every call is denied.
    disk.write("home/toolrack.toml", "[policy");
    assert!(denies(&load(&Request { strict: true, ..disk.request() }, &NoLedger), "read"));
    assert!(denies(&disk.load(), "read"));
}

#[test]
fn a_strict_load_keeps_the_settings_of_the_user() {
    let disk = Disk::new();
    disk.write(
        "home/toolrack.toml",
        "[audit]\nkeep_days = 0\nkeep = 0\n[sessions]\nkeep = 7\n[serve]\nconnections = 5\n[tools]\nrefresh = \"turn\"\n",
    );
    let strict = load(&Request { strict: true, ..disk.request() }, &NoLedger);
    assert_eq!(strict.settings, disk.load().settings);
    assert_eq!((strict.settings.audit.days, strict.settings.audit.rows), (None, None));
}

#[test]
fn a_strict_load_keeps_the_model_of_the_user() {
    let disk = Disk::new();
    disk.write("home/toolrack.toml", "[model]\nname = \"ollama/qwen3:8b\"\nmax_cost = 0.5\n");
    let strict = load(&Request { strict: true, ..disk.request() }, &NoLedger);
    assert_eq!(strict.settings.model.name.as_deref(), Some("ollama/qwen3:8b"));
    assert_eq!(strict.settings.model, disk.load().settings.model);
    disk.write("home/toolrack.toml", "[model]\nmax_costs = 1\n");
    let broken = load(&Request { strict: true, ..disk.request() }, &NoLedger);
    assert!(
        broken.problems.iter().any(|problem| problem.field.as_deref().is_some_and(|field| field.starts_with("model")))
    );
}

#[test]
fn an_unknown_agent_is_an_error_with_a_suggestion() {
    let disk = Disk::new();
    disk.write("home/toolrack.toml", AGENTS);
    for (agent, hint) in [("mian", "did you mean `main`?"), ("zzz", "there are `main`, `odd`, `plain`")] {
        let loaded = load(&Request { agent: Some(agent.into()), ..disk.request() }, &NoLedger);
        let problem = loaded.errors().find(|problem| problem.message.contains(agent)).unwrap();
        assert!(problem.hint.as_deref().unwrap().contains(hint), "{problem}");
        assert!(loaded.is_complete && loaded.desired.contains_key("shared"));
    }
}

#[test]
fn only_the_user_s_file_sets_settings_and_a_mistake_in_them_stops_no_server() {
    let disk = Disk::new();
    disk.write("home/toolrack.toml", "unset = 1\nagnets = []\n[[defaults.mcp]]\nname = \"a\"\ncommand = \"a\"\n");
    disk.write("project/x.toml", "unset = \"empty\"\nmodel = \"m\"\n[mcp_servers.b]\ncommand = \"b\"\n");
    let mut request = disk.request();
    request.mcp_config = vec!["x.toml".into()];
    let loaded = load(&request, &NoLedger);
    assert_eq!(loaded.desired.len(), 2);
    assert_eq!(loaded.settings, Settings::default());
    let shown: Vec<_> = loaded.problems.iter().map(|problem| (problem.is_error(), problem.line)).collect();
    assert_eq!(shown, [(true, Some(1)), (false, Some(2))]);
    assert!(loaded.problems[1].to_string().contains("did you mean `agents`?"));
}

#[test]
fn a_half_written_file_is_reported_and_changes_nothing() {
    let disk = Disk::new();
    let full = r#"{ "mcpServers": { "a": { "command": "x" }, "b": { "command": "y" } } }"#;
    disk.write("home/mcp.json", full);
    let before = disk.load();
    for half in ["", "{", &full[..40], "{ \"mcpServers\": [] }", "\u{0}\u{0}"] {
        disk.write("home/mcp.json", half);
        let rejected = reload(&disk.request(), &NoLedger, &before).unwrap_err();
        assert!(!rejected.problems.is_empty(), "{half:?}");
        assert!(rejected.to_string().contains("mcp.json"), "{half:?}: {rejected}");
    }
    // These are complete files, so they count: with fewer servers, with none, with a broken one among good ones.
    for (complete, names) in [
        (r#"{ "mcpServers": { "a": { "command": "x" } } }"#, vec!["a"]),
        ("{}", vec![]),
        (r#"{ "mcpServers": { "a": { "command": "x" }, "b": { "command": 1 } } }"#, vec!["a"]),
    ] {
        disk.write("home/mcp.json", complete);
        let loaded = reload(&disk.request(), &NoLedger, &before).unwrap();
        assert_eq!(loaded.desired.keys().map(ServerName::as_str).collect::<Vec<_>>(), names, "{complete}");
    }
    fs::remove_file(disk.request().places.user_file()).unwrap();
    assert!(reload(&disk.request(), &NoLedger, &before).unwrap().desired.is_empty());
}

#[test]
fn the_error_of_a_broken_file_points_at_the_place_and_other_layers_stay() {
    for (path, text, place) in [
        (
            "home/mcp.json",
            "{\n  \"mcpServers\": {\n    \"a\": { \"command\" \"x\" }\n",
            "mcp.json:3:22: error: this is not JSON",
        ),
        ("home/mcp.json", "{\n  // half a comment\n  \"mcpServers\": { /* }", "mcp.json:3:"),
        ("home/mcp.json", "{ \"mcpServers\": { \"a\": { \"command\": \"x", "mcp.json:1:"),
        (
            "home/toolrack.toml",
            "[[defaults.mcp]]\nname = \"a\"\ncommand = x\n",
            "toolrack.toml:3:11: error: this is not TOML",
        ),
        ("home/toolrack.toml", "[[defaults.mcp]]\nname = \"a\"\nname = \"b\"\n", "toolrack.toml:3:"),
        ("home/toolrack.toml", "[[defaults.mcp]\n", "toolrack.toml:1:"),
        ("project/.toolrack/mcp.json", "\u{feff}{ \"mcpServers\": }", "mcp.json:1:"),
    ] {
        let disk = Disk::new();
        disk.write("project/.mcp.json", r#"{ "mcpServers": { "other": { "command": "x" } } }"#).write(path, text);
        let loaded = disk.load_trusted();
        let [problem] = &*loaded.problems else { panic!("{text}: {:#?}", loaded.problems) };
        let shown = problem.to_string();
        let [headline, line, caret, hint] = &*shown.lines().collect::<Vec<_>>() else { panic!("{shown}") };
        assert!(headline.contains(place), "{shown}");
        assert!(line.contains(" | ") && caret.trim_end().ends_with('^'), "{shown}");
        assert!(hint.starts_with("  hint: "), "{shown}");
        assert!(!loaded.is_complete && loaded.desired.contains_key("other"), "{text}");
    }
}

#[test]
fn names_of_every_kind_are_read_or_refused() {
    let disk = Disk::new();
    let names = ["a b", "é🦀", "a.b", "$x", "a/b", "a\u{1b}[31m", "a\nb", "\u{202e}", "", " "];
    let servers: serde_json::Map<String, Json> =
        names.iter().map(|name| ((*name).to_owned(), serde_json::json!({ "command": "x" }))).collect();
    disk.write("home/mcp.json", &serde_json::json!({ "mcpServers": servers }).to_string());
    let loaded = disk.load();
    assert_eq!(loaded.desired.keys().map(ServerName::as_str).collect::<Vec<_>>(), ["$x", "a b", "a.b", "é🦀"]);
    assert_eq!(loaded.errors().count(), 6);
    for problem in &loaded.problems {
        assert!(problem.to_string().chars().all(|c| c == '\n' || !c.is_control()), "{problem}");
        assert_eq!(problem.hint.as_deref(), Some("rename the entry"));
    }
}

#[test]
fn sb_9_a_file_without_servers_changes_nothing() {
    let disk = Disk::new();
    for text in ["", "# nothing\n", "[defaults]\n", "[defaults]\nmcp = []\n", "[[agents]]\nid = \"a\"\n"] {
        disk.write("home/toolrack.toml", text);
        let loaded = disk.load();
        assert!(loaded.desired.is_empty() && loaded.problems.is_empty() && loaded.is_complete, "{text}");
    }
}

#[test]
fn an_unknown_field_is_a_warning_and_survives_an_edit() {
    let disk = Disk::new();
    for (path, text) in [
        ("home/mcp.json", r#"{ "mcpServers": { "a": { "command": "x", "autoApprove": ["y"] } } }"#),
        ("home/toolrack.toml", "[[defaults.mcp]]\nname = \"b\"\ncommand = \"x\"\nautoApprove = [\"y\"]\n"),
    ] {
        disk.write(path, text);
    }
    let loaded = disk.load();
    assert_eq!(loaded.problems.iter().filter(|problem| !problem.is_error()).count(), 2);
    for (file, name) in [("mcp.json", "a"), ("toolrack.toml", "b")] {
        crate::edit::switch(&disk.home().join(file), name, false, crate::edit::Options::default()).unwrap();
        assert!(fs::read_to_string(disk.home().join(file)).unwrap().contains("autoApprove"));
    }
    assert!(disk.load().desired.values().all(|spec| !spec.enabled));
}

#[test]
fn a_file_with_too_many_servers_is_ignored() {
    let disk = Disk::new();
    let file = |count: usize| {
        let servers: Vec<_> = (0..count).map(|n| format!(r#""s{n}": {{ "command": "x" }}"#)).collect();
        format!(r#"{{ "mcpServers": {{ {} }} }}"#, servers.join(","))
    };
    disk.write("project/.mcp.json", &file(MAX_SERVERS));
    assert_eq!(disk.load().entries.len(), MAX_SERVERS);
    disk.write("project/.mcp.json", &file(MAX_SERVERS + 1));
    let loaded = disk.load();
    assert!(loaded.entries.is_empty() && !loaded.is_complete);
    assert_eq!(loaded.problems[0].message, "it has more than 1000 servers");
}

#[test]
fn a_file_with_very_many_mistakes_is_read_in_linear_time_and_reported_in_part() {
    let disk = Disk::new();
    // On one line, so that the excerpt of each problem has to be cut out of the whole file.
    let fields: String = (0..20).map(|n| format!(r#""k{n}":1,"#)).collect();
    let servers: String = (0..MAX_SERVERS).map(|n| format!(r#""s{n}":{{{fields}"command":5}},"#)).collect();
    let variables: String = (0..10_000).map(|n| format!(r#""K{n}":[],"#)).collect();
    disk.write("project/.mcp.json", &format!(r#"{{"mcpServers":{{{servers}}}}}"#));
    disk.write("project/.toolrack/mcp.json", &format!(r#"{{"mcpServers":{{"s0":{{"env":{{{variables}}}}}}}}}"#));
    let loaded = disk.load();
    assert_eq!(loaded.entries.len(), MAX_SERVERS);
    assert!(loaded.problems.len() < 500, "{}", loaded.problems.len());
    assert!(loaded.problems.iter().any(|problem| problem.message.contains("more like it")));
}

#[test]
fn switching_an_entry_changes_only_one_of_its_hashes_and_any_other_change_both() {
    let disk = Disk::new();
    let hashes = |entry: &str| {
        disk.write("project/.mcp.json", &format!(r#"{{ "mcpServers": {{ "a": {entry} }} }}"#));
        let loaded = disk.load();
        let entry = loaded.entry("a").unwrap();
        (entry.hash.clone(), entry.hash_unswitched.clone())
    };
    let (hash, unswitched) = hashes(r#"{ "command": "x", "env": { "KEY": "secret-1" } }"#);
    let (off, off_unswitched) = hashes(r#"{ "command": "x", "env": { "KEY": "secret-1" }, "enabled": false }"#);
    assert!(hash != off && unswitched == off_unswitched);
    // Another secret looks the same in the view, where it is hidden, but it is another entry.
    let (_, other) = hashes(r#"{ "command": "x", "env": { "KEY": "secret-2" }, "enabled": false }"#);
    assert_ne!(unswitched, other);
}

#[test]
fn a_rule_about_an_unknown_server_is_reported_with_its_line() {
    let disk = Disk::new();
    disk.write(
        "home/toolrack.toml",
        "[policy]\nallow = [\"a/*\", \"mcp__a__x\", \"echo\"]\ndeny = [\n\"mcp__gone__x\",\n\"gone/x\"]\n",
    );
    disk.write("home/mcp.json", &server("a"));
    let loaded = disk.load();
    let mut error_text: Vec<_> =
        loaded.idle_rules().into_iter().map(|problem| (problem.line, problem.is_error(), problem.message)).collect();
    error_text.sort();
    let message = |pattern: &str| format!("the rule deny `{pattern}` names no configured server");
    assert_eq!(error_text, [(Some(4), false, message("mcp__gone__x")), (Some(5), false, message("gone/x"))]);
}

/// Returns the working folder of the program that the server `name` runs.
fn cwd(loaded: &Loaded, name: &str) -> Option<PathBuf> {
    match &loaded.desired[name].transport {
        Transport::Stdio(stdio) => stdio.cwd.clone(),
        Transport::Http(http) => http.headers_helper.as_ref()?.cwd.clone(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_entry_of_the_user_runs_in_a_folder_of_its_own() {
    let disk = Disk::new();
    let servers = r#"{ "mcpServers": {
        "npx": { "command": "npx", "args": ["-y", "@scope/server"] },
        "there": { "command": "x", "cwd": "/srv" },
        "web": { "url": "https://x.example", "headersHelper": "print-headers" },
        "image": { "container": { "image": "x" } }
    } }"#;
    disk.write("home/mcp.json", servers);
    disk.write("home/toolrack.toml", "[[defaults.mcp]]\nname = \"toml\"\ncommand = \"uvx\"\n");
    // A cloned repository may have files with the names of the arguments.
    disk.write("project/package.json", "{}").write("project/@scope/server", "x").write("project/uvx", "x");
    let loaded = disk.load();
    for name in ["npx", "web", "toml"] {
        assert_eq!(cwd(&loaded, name), Some(disk.places().own_folder(name)), "{name}");
        assert_eq!(loaded.desired[name].trust, Trust::Trusted);
    }
    assert_eq!(cwd(&loaded, "there"), Some("/srv".into()));
    assert_eq!(cwd(&loaded, "image"), None, "it would be a folder in the image");
    assert!(loaded.entry("npx").unwrap().view.get("cwd").is_none());
}

#[test]
fn an_entry_of_the_user_that_depends_on_the_folder_asks_once_in_each() {
    let disk = Disk::new();
    disk.write("project/tools/x.db", "x");
    for entry in [
        r#"{ "command": "fs", "args": ["."] }"#,
        r#"{ "command": "fs", "args": ["--root=./data"] }"#,
        r#"{ "command": "fs", "args": ["tools/x.db"] }"#,
        r#"{ "command": "tools/run" }"#,
        r#"{ "command": "fs", "cwd": "${workspaceFolder}" }"#,
        r#"{ "command": "fs", "cwd": "sub" }"#,
        r#"{ "command": "fs", "args": ["${PWD}/x.py"] }"#,
        r#"{ "command": "fs", "env": { "NODE_OPTIONS": "--require ./x.js" } }"#,
        r#"{ "url": "https://x.example", "headersHelper": "./headers.sh" }"#,
    ] {
        disk.write("home/mcp.json", &format!(r#"{{ "mcpServers": {{ "a": {entry} }} }}"#));
        let loaded = disk.load();
        let asked = loaded.entry("a").unwrap();
        assert_eq!(loaded.desired["a"].trust, Trust::Pending, "{entry}");
        assert_eq!(asked.project.as_deref(), Some(&*disk.project()));
        assert!(asked.depends_on.is_some() && asked.proposal.is_object(), "{entry}");
        assert!(cwd(&loaded, "a").unwrap().starts_with(disk.project()), "{entry}");

        let agreed =
            |candidate: &Candidate<'_>| (candidate.project, candidate.hash) == (&*disk.project(), &*asked.agreement);
        assert_eq!(load(&disk.request(), &agreed).desired["a"].trust, Trust::Trusted, "{entry}");
        fs::create_dir_all(disk.root().join("elsewhere/tools")).unwrap();
        fs::write(disk.root().join("elsewhere/tools/x.db"), "x").unwrap();
        let elsewhere = Request::new(disk.places(), disk.root().join("elsewhere"));
        assert_eq!(load(&elsewhere, &agreed).desired["a"].trust, Trust::Pending, "{entry}");
    }
}

#[test]
fn an_entry_of_the_user_that_searches_programs_in_the_working_folder_asks() {
    let disk = Disk::new();
    disk.write("project/bin/fs", "x");
    let trust = |name: &str, value: &str| {
        let entry = format!(r#"{{ "command": "fs", "env": {{ "{name}": "{value}" }} }}"#);
        disk.write("home/mcp.json", &format!(r#"{{ "mcpServers": {{ "a": {entry} }} }}"#));
        disk.load().desired["a"].trust.clone()
    };
    for path in [
        "${PWD}:/usr/bin",
        "/usr/bin:$PWD/bin",
        "${env:INIT_CWD}/node_modules/.bin:${PATH}",
        "$env:OLDPWD:/bin",
        "${BIN:-${PWD}}:/bin",
        "${workspaceFolder}/bin:/bin",
    ] {
        for name in ["PATH", "PYTHONPATH"] {
            assert_eq!(trust(name, path), Trust::Pending, "{name}={path}");
        }
    }
    for path in ["/usr/bin:${HOME}/bin", "./bin:/usr/bin", ":bin:${PATH}"] {
        assert_eq!(
            trust("PATH", path),
            Trust::Trusted,
            "{path}: a relative folder is removed before the server gets the variable"
        );
    }
}

#[test]
fn a_users_file_in_the_place_of_a_projects_file_is_the_users_alone() {
    let disk = Disk::new();
    disk.write("project/.toolrack/mcp.json", &server("own"));
    disk.write("project/.toolrack/toolrack.toml", "[policy]\nallow = \"a/*\"\n");
    let places = Places::under(disk.project().join(".toolrack"));
    let loaded = load(&Request::new(places, disk.project()), &NoLedger);
    let entry = loaded.entry("a").unwrap();
    assert_eq!((&entry.trust, entry.scope, &*entry.shadows), (&Trust::Trusted, Scope::User, &[][..]));
    assert_eq!(loaded.problems, [], "a project could not allow calls");
}

#[cfg(unix)]
#[test]
fn a_link_to_a_missing_file_is_an_error_and_no_missing_file() {
    let disk = Disk::new();
    std::os::unix::fs::symlink("gone", disk.home().join("toolrack.toml")).unwrap();
    let loaded = disk.load();
    assert!(!loaded.is_complete && loaded.problems[0].message.contains("symbolic link"), "{:?}", loaded.problems);
    assert!(!loaded.settings.policy.is_empty(), "the file may have forbidden any call");
}

#[test]
fn a_container_runs_in_the_folder_of_its_image_and_may_mount_the_project() {
    let entry = r#"{ "container": { "image": "x", "mounts": ["${workspaceFolder}/a:/a"] } }"#;
    let file = format!(r#"{{ "mcpServers": {{ "a": {entry}, "b": {{ "container": "x" }} }} }}"#);
    let mount = |loaded: &Loaded| match &loaded.desired["a"].transport {
        Transport::Stdio(stdio) => stdio.container.as_ref().unwrap().mounts[0].source.clone(),
        other => panic!("{other:?}"),
    };
    for path in ["project/.mcp.json", "home/mcp.json"] {
        let disk = Disk::new();
        disk.write(path, &file);
        let loaded = disk.load();
        assert_eq!((cwd(&loaded, "a"), cwd(&loaded, "b")), (None, None), "{path}: no folder of this machine");
        assert_eq!(Path::new(&mount(&loaded)), disk.project().join("a"), "{path}");
        assert_eq!(loaded.desired["a"].trust, Trust::Pending, "{path}");
    }
    let pwd = file.replace("workspaceFolder", "PWD");
    let disk = Disk::new();
    disk.write("home/mcp.json", &pwd);
    let loaded = disk.load();
    assert_eq!((&loaded.desired["a"].trust, &loaded.desired["b"].trust), (&Trust::Pending, &Trust::Trusted));
}

#[test]
fn a_sandbox_may_name_the_project() {
    let disk = Disk::new();
    let sandbox = r#"{ "read": ["${workspaceFolder}/a"], "write": ["${workspaceFolder}"] }"#;
    let entry = format!(r#"{{ "command": "x", "sandbox": {sandbox} }}"#);
    disk.write("project/.mcp.json", &format!(r#"{{ "mcpServers": {{ "a": {entry} }} }}"#));
    let loaded = disk.load();
    let Transport::Stdio(stdio) = &loaded.desired["a"].transport else { panic!() };
    let sandbox = stdio.sandbox.as_ref().unwrap();
    let project = disk.project().display().to_string();
    assert_eq!((&*sandbox.read, &*sandbox.write), (&[format!("{project}/a")][..], &[project][..]));
}

#[test]
fn a_path_below_the_home_folder_does_not_depend_on_the_working_folder() {
    let entry = r#"{ "command": "~/bin/x", "cwd": "~/data" }"#;
    let file = format!(r#"{{ "mcpServers": {{ "a": {entry}, "b": {{ "command": "~b/x", "cwd": "~b" }} }} }}"#);
    let disk = Disk::new();
    disk.write("home/mcp.json", &file);
    let loaded = disk.load();
    assert_eq!(loaded.desired["a"].trust, Trust::Trusted);
    assert_eq!(cwd(&loaded, "a"), Some("~/data".into()));
    assert_eq!(loaded.entry("b").unwrap().depends_on.as_deref(), Some("~b"), "a folder with an odd name");
    let disk = Disk::new();
    disk.write("project/.mcp.json", &file);
    let loaded = disk.load();
    assert_eq!(cwd(&loaded, "a"), Some("~/data".into()));
    assert_eq!(cwd(&loaded, "b"), Some(disk.project().join("~b")));
}

#[test]
fn a_named_file_in_the_project_runs_there_and_one_from_elsewhere_in_folders_of_its_own() {
    let disk = Disk::new();
    disk.write("project/own.json", &server("python")).write("other.json", &server("npx"));
    disk.write("dot.json", r#"{ "mcpServers": { "dot": { "command": "fs", "args": ["."] } } }"#);
    let load_file = |file: PathBuf| load(&Request { mcp_config: vec![file], ..disk.request() }, &NoLedger);
    assert_eq!(cwd(&load_file(disk.project().join("own.json")), "a"), Some(disk.project()));
    assert_eq!(cwd(&load_file(disk.root().join("other.json")), "a"), Some(disk.places().own_folder("a")));
    let loaded = load_file(disk.root().join("dot.json"));
    assert_eq!(cwd(&loaded, "dot"), Some(disk.project()));
    assert_eq!(loaded.desired["dot"].trust, Trust::Trusted, "the user typed the command in this folder");
}

#[test]
fn an_entry_waits_again_when_a_script_that_it_runs_has_changed() {
    let disk = Disk::new();
    disk.write("project/srv.py", "one").write("project/data/x", "x");
    disk.write(
        "project/.mcp.json",
        r#"{ "mcpServers": { "a": { "command": "python", "args": ["./srv.py", "data"] } } }"#,
    );
    let entry = disk.load().entry("a").unwrap().clone();
    assert_eq!(entry.files, [disk.project().join("srv.py")]);
    let agreed = |candidate: &Candidate<'_>| candidate.hash == entry.agreement;
    let trust = || load(&disk.request(), &agreed).desired["a"].trust.clone();
    assert_eq!(trust(), Trust::Trusted);
    disk.write("project/data/x", "y");
    assert_eq!(trust(), Trust::Trusted, "files in a folder that is only an argument do not count");
    disk.write("project/srv.py", "two");
    assert_eq!(trust(), Trust::Pending);
    let now = disk.load().entry("a").unwrap().clone();
    assert_eq!(now.hash, entry.hash);
    assert_ne!(now.proposal["files"]["srv.py"], entry.proposal["files"]["srv.py"]);
    disk.write("project/srv.py", "one");
    assert_eq!(trust(), Trust::Trusted);
    fs::remove_file(disk.project().join("srv.py")).unwrap();
    assert_eq!(trust(), Trust::Pending, "the user has not agreed to a file that may be created there later");
}

#[test]
fn typed_servers_need_no_agreement_and_replace_those_of_files() {
    let disk = Disk::new();
    disk.write("project/one.json", r#"{ "mcpServers": { "more": { "command": "file" } } }"#);
    let mut request = disk.request();
    request.mcp_config = vec!["one.json".into()];
    let typed = |text: &str| TypedConfig { place: "--mcp-config".into(), text: text.into() };
    request.typed = vec![typed(r#"{ "mcpServers": { "more": { "command": "./typed" } } }"#)];
    let loaded = load(&request, &NoLedger);
    assert_eq!(command(&loaded, "more"), "./typed");
    let spec = &loaded.desired["more"];
    assert_eq!((&spec.trust, &spec.source.path), (&Trust::Trusted, &None));
    let Transport::Stdio(stdio) = &spec.transport else { panic!() };
    assert_eq!(
        stdio.cwd.as_deref(),
        Some(&*disk.project().canonicalize().unwrap()),
        "`./typed` is in the working folder"
    );
    assert!(loaded.files.iter().all(|file| file.path != Path::new("--mcp-config")), "it is not a file to watch");

    request.typed = vec![typed("{ \"mcpServers\": ")];
    let loaded = load(&request, &NoLedger);
    let problem = loaded.errors().next().unwrap();
    assert!(problem.place().starts_with("--mcp-config:1:"), "{problem}");
    assert!(!loaded.is_complete);
}
