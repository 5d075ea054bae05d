//! Third-party programs that inspect MCP servers, in front of the gateway: mcporter and the MCP Inspector, over stdio
//! and over the URL of a daemon.

use std::{
    fmt,
    process::{Command, Stdio},
};

use serde_json::{Value, json};

use crate::{
    rack::{Rack, fake, installed, work_file},
    warm::Daemon,
};

/// How another program ended.
struct Ended {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}\n{}\n--- stderr ---\n{}", self.code, self.stdout, self.stderr)
    }
}

impl Ended {
    fn with(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{self}");
        self
    }

    fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self}"))
    }
}

/// A home in which calls of the fake server run without a question.
fn rack() -> Rack {
    let rack = Rack::with(&[("fake", fake(&["--era", "both"]))]);
    rack.home.write("toolrack/toolrack.toml", "[policy]\nallow = \"fake/*\"\n");
    rack
}

/// Runs a script of an npm package to its end, in the home of `rack`.
fn run(rack: &Rack, script: &str, args: &[&str]) -> Ended {
    let mut node = Command::new(installed("TOOLRACK_TEST_NODE24", ".cache/bench/peers/node_modules/.bin/node"));
    rack.set_environment(&mut node);
    let modules = installed("TOOLRACK_TEST_CLIENTS", ".cache/bench/peers/node_modules");
    let output = node.arg(modules.join(script)).args(args).stdin(Stdio::null()).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Ended { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
}

/// The tools of the fake server among those that were listed.
fn fakes(tools: &Value) -> Vec<&str> {
    let names = tools.as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap());
    names.filter_map(|name| name.strip_prefix("mcp__fake__")).collect()
}

/// How the Inspector connects to a server.
struct Way<'a> {
    name: &'a str,
    /// The arguments before and after the others.
    before: Vec<String>,
    after: Vec<String>,
}

impl<'a> Way<'a> {
    /// The Inspector passes almost nothing of its own environment to the programs that it starts.
    fn stdio(rack: &Rack, name: &'a str) -> Self {
        let home = format!("TOOLRACK_HOME={}", rack.home.toolrack_home().display());
        let after = ["-e", &home, "--", env!("CARGO_BIN_EXE_toolrack"), "gateway"].map(str::to_owned).to_vec();
        Self { name, before: Vec::new(), after }
    }

    fn url(daemon: &Daemon, name: &'a str) -> Self {
        let (url, header) = (url(daemon), format!("Authorization: Bearer {}", daemon.token));
        Self {
            name,
            before: ["--server-url", &url, "--header", &header].map(str::to_owned).to_vec(),
            after: Vec::new(),
        }
    }

    fn run(&self, rack: &Rack, era: &str, args: &[&str]) -> Ended {
        let (before, after) = (self.before.iter().map(String::as_str), self.after.iter().map(String::as_str));
        let all: Vec<_> =
            ["--protocol-era", era].into_iter().chain(before).chain(args.iter().copied()).chain(after).collect();
        inspector(rack, &all)
    }
}

fn inspector(rack: &Rack, args: &[&str]) -> Ended {
    let script = "@modelcontextprotocol/inspector/clients/launcher/build/index.js";
    run(rack, script, &[&["--cli", "--format", "json"], args].concat())
}

fn url(daemon: &Daemon) -> String {
    format!("http://{}/mcp", daemon.address)
}

mod needs_clients {
    use super::*;

    /// Its own configuration file: the server over stdio, and over the URL if there is a daemon.
    fn mcporter(rack: &Rack, args: &[&str]) -> Ended {
        run(rack, "mcporter/dist/cli.js", args)
    }

    fn configure_mcporter(rack: &Rack, daemon: Option<&Daemon>) {
        let mut servers = json!({ "lines": { "command": env!("CARGO_BIN_EXE_toolrack"), "args": ["gateway"] } });
        if let Some(daemon) = daemon {
            let authorization = format!("Bearer {}", daemon.token);
            servers["url"] = json!({ "url": url(daemon), "headers": { "Authorization": authorization } });
        }
        let config = json!({ "mcpServers": servers, "imports": [] });
        work_file(rack, "config/mcporter.json", &config.to_string());
    }

    fn mcporter_uses(rack: &Rack, server: &str) {
        let listed = mcporter(rack, &["list", server, "--json"]).with(0);
        let tools = &listed.json()["tools"];
        assert!(fakes(tools).contains(&"add") && fakes(tools).contains(&"fail"), "{server}: {listed}");
        let add = tools.as_array().unwrap().iter().find(|tool| tool["name"] == "mcp__fake__add").unwrap();
        assert_eq!(add["inputSchema"]["required"], json!(["a", "b"]), "{server}");
        assert_eq!(listed.stderr, "", "{server}: it finds nothing odd in any schema");

        let tool = |name: &str| format!("{server}.mcp__fake__{name}");
        assert_eq!(mcporter(rack, &["call", &tool("add"), "a=2", "b=3"]).with(0).stdout, "5\n", "{server}");
        let failed = mcporter(rack, &["call", &tool("fail"), "message=oops", "--output", "json"]).with(1);
        assert_eq!(failed.json()["isError"], true, "{server}: {failed}");
        assert_eq!(failed.json()["content"][0]["text"], "oops", "{server}: {failed}");
        let unknown = mcporter(rack, &["call", &tool("nothing")]);
        assert_ne!(unknown.code, Some(0), "{server}: {unknown}");

        let resources = mcporter(rack, &["resource", server, "--json"]).with(0);
        assert!(resources.stdout.contains("fake://note"), "{server}: {resources}");
        assert_eq!(mcporter(rack, &["resource", server, "fake://note"]).with(0).stdout, "a note\n", "{server}");
    }

    #[test]
    fn mcporter_does_all_that_it_can_over_stdio() {
        let rack = rack();
        configure_mcporter(&rack, None);
        mcporter_uses(&rack, "lines");
    }

    #[test]
    fn mcporter_does_all_that_it_can_over_the_url_of_a_daemon_and_over_stdio_beside_it() {
        let rack = rack();
        let daemon = Daemon::start(&rack, &[]);
        configure_mcporter(&rack, Some(&daemon));
        mcporter_uses(&rack, "url");
        mcporter_uses(&rack, "lines");
        // Otherwise it would take the token for the same URL from its file.
        configure_mcporter(&rack, None);
        let without_token =
            ["call", "--http-url", &url(&daemon), "--allow-http", "--no-oauth", "--name", "x", "mcp__fake__add"];
        let refused = mcporter(&rack, &without_token);
        assert!(refused.code != Some(0) && refused.stderr.contains("401"), "without the token: {refused}");
    }

    #[test]
    fn a_client_that_asks_for_code_writes_scripts_that_pass_the_same_rules() {
        let rack = rack();
        rack.home.write("toolrack/toolrack.toml", "[policy]\nallow = [\"fake/add\", \"fake/echo\"]\n");
        let servers = json!({ "lines": { "command": env!("CARGO_BIN_EXE_toolrack"), "args": ["gateway", "--code"] } });
        let config = json!({ "mcpServers": servers, "imports": [] });
        work_file(&rack, "config/mcporter.json", &config.to_string());

        let listed = mcporter(&rack, &["list", "lines", "--json"]).with(0).json();
        let tools: Vec<_> = listed["tools"].as_array().unwrap().iter().map(|tool| tool["name"].clone()).collect();
        let own = ["call_tool", "get_tool_details", "search_tools"].map(|name| json!(format!("mcp__toolrack__{name}")));
        assert_eq!(tools, [&[json!("mcp__code__run_code")][..], &own].concat());
        let manual = listed["tools"][0]["description"].as_str().unwrap();
        assert!(manual.contains("\ntools.fake.add({ a: number, b: number }): string"), "{manual}");

        let runs = |code: &str| {
            let arguments = json!({ "code": code }).to_string();
            mcporter(&rack, &["call", "lines.mcp__code__run_code", "--args", &arguments])
        };
        let sum = "let sum = 0; for (const b of [3, 4]) sum += Number(await tools.fake.add({ a: 2, b })); print(sum)";
        assert_eq!(runs(sum).with(0).stdout.trim_end(), "11");
        // There is no user to ask.
        let refused = runs("try { await tools.fake.write({ path: 'a' }) } catch (error) { print(error.code) }").with(0);
        assert_eq!(refused.stdout.trim_end(), "APPROVAL_NEEDED", "{refused}");
        let wrong = runs("print(await tools.fake.fail({ message: 'oops' }))");
        assert!(wrong.code != Some(0), "{wrong}");
        // Leave out the resources, prompts and other methods that need no tool.
        assert_eq!(mcporter(&rack, &["resource", "lines", "fake://note"]).with(0).stdout, "a note\n");
    }

    /// Runs the Inspector with every command that applies to a server with these offers.
    fn inspected(rack: &Rack, way: &Way<'_>, era: &str) {
        let about = format!("{} {era}", way.name);
        let does = |args: &[&str]| way.run(rack, era, args);
        let result = |args: &[&str]| does(args).with(0).json()["result"].take();

        let tools = result(&["--method", "tools/list"]);
        assert!(fakes(&tools["tools"]).contains(&"add"), "{about}: {tools}");
        let call = |tool: &'static str| ["--method", "tools/call", "--tool-name", tool, "--tool-arg"];
        let sum = result(&[&call("mcp__fake__add")[..], &["a=2", "b=3"]].concat());
        assert_eq!((&sum["content"][0]["text"], &sum["isError"]), (&json!("5"), &json!(false)), "{about}");
        let failed = does(&[&call("mcp__fake__fail")[..], &["message=oops"]].concat()).with(5);
        let failure = &failed.json()["result"];
        assert_eq!(
            (&failure["content"][0]["text"], &failure["isError"]),
            (&json!("oops"), &json!(true)),
            "{about}: {failed}"
        );
        let structured = result(&[&call("mcp__fake__structured")[..], &["label=x"]].concat());
        assert_eq!(structured["structuredContent"]["label"], "x", "{about}: {structured}");

        let resources = result(&["--method", "resources/list"]);
        let uris: Vec<_> = resources["resources"].as_array().unwrap().iter().map(|one| one["uri"].clone()).collect();
        assert_eq!(uris, ["fake://asked", "fake://blob", "fake://note"], "{about}");
        let note = result(&["--method", "resources/read", "--uri", "fake://note"]);
        assert_eq!(note["contents"][0]["text"], "a note", "{about}");
        let templates = result(&["--method", "resources/templates/list"]);
        assert_eq!(templates["resourceTemplates"][0]["uriTemplate"], "fake://note/{name}", "{about}");

        let prompts = result(&["--method", "prompts/list"]);
        assert!(prompts.to_string().contains("mcp__fake__greet"), "{about}: {prompts}");
        let greet = ["--method", "prompts/get", "--prompt-name", "mcp__fake__greet", "--prompt-args", "name=Ada"];
        assert_eq!(result(&greet)["messages"][0]["content"]["text"], "Say hello to Ada.", "{about}");
        if era == "legacy" {
            assert_eq!(result(&["--method", "logging/setLevel", "--log-level", "error"]), json!({}), "{about}");
        }
        let nothing = does(&["--method", "resources/read", "--uri", "fake://nothing/at/all"]);
        assert!(nothing.code != Some(0) && nothing.stderr.contains("Resource not found"), "{about}: {nothing}");
    }

    #[test]
    fn the_inspector_does_all_that_it_can_over_stdio_in_the_older_era() {
        let rack = rack();
        inspected(&rack, &Way::stdio(&rack, "stdio"), "legacy");
    }

    #[test]
    fn the_inspector_does_all_that_it_can_over_stdio_in_the_newer_era() {
        let rack = rack();
        inspected(&rack, &Way::stdio(&rack, "stdio"), "modern");
    }

    #[test]
    fn the_inspector_does_all_that_it_can_over_the_url_of_a_daemon_in_both_eras() {
        let rack = rack();
        let daemon = Daemon::start(&rack, &[]);
        for era in ["legacy", "modern"] {
            inspected(&rack, &Way::url(&daemon, "url"), era);
            let url = url(&daemon);
            let without_token =
                ["--protocol-era", era, "--stored-auth-only", "--server-url", &url, "--method", "tools/list"];
            let refused = inspector(&rack, &without_token).with(3);
            assert!(refused.stderr.contains("auth_required"), "without the token: {refused}");
        }
    }
}
