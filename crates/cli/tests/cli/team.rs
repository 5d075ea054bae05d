//! `serve --team`: two tenants, each with servers of its own, and members with tokens.

use std::{
    fmt::Write as _,
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    process::Stdio,
    sync::Arc,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::{
    rack::{Rack, fake, mcp_json},
    warm::{Daemon, kill},
};

/// How long a test waits for a change that the daemon promises within a second. It is enough for a loaded machine, and
/// less than `POLL_INTERVAL`, after which the daemon would find a changed file even without an event.
pub(crate) const SOON: Duration = Duration::from_secs(8);

/// The variable that holds the URL of the database.
const DATABASE: &str = "DATABASE_OF_THE_TEAM";

/// The options of a replica.
const REPLICA: [&str; 2] = ["--replica", "127.0.0.1:0"];

/// A rack with a team of the tenants `acme` and `bolt`. The server `env` of each shows the variables of its process.
pub(crate) struct Team {
    pub(crate) rack: Arc<Rack>,
    pub(crate) daemon: Daemon,
}

impl Team {
    fn start() -> Self {
        Self::with_limits("")
    }

    /// Starts the same team with these limits of `acme`.
    pub(crate) fn with_limits(limits: &str) -> Self {
        Self::with_tenant(&format!("limits = {{ {limits} }}"), |tenant| {
            let mut server = fake(&[]);
            server["env"] = json!({ "CANARY": format!("canary-of-{tenant}"), "DAEMON": "${CANARY_DAEMON:-unseen}" });
            vec![("env", server), (tenant, fake(&[]))]
        })
    }

    /// Starts a team with these servers of each tenant.
    pub(crate) fn with(servers: impl Fn(&'static str) -> Vec<(&'static str, Value)>) -> Self {
        Self::with_tenant("", servers)
    }

    /// Starts a team with these settings and servers of each tenant.
    pub(crate) fn with_settings(settings: &str, servers: impl Fn(&'static str) -> Vec<(&'static str, Value)>) -> Self {
        Self::create(("", settings, &[]), &[], servers)
    }

    /// Starts a team with these servers of each tenant, and with more lines about the tenant `acme` in the team file.
    pub(crate) fn with_tenant(acme: &str, servers: impl Fn(&'static str) -> Vec<(&'static str, Value)>) -> Self {
        Self::create((acme, "", &[]), &[], servers)
    }

    /// Starts a team with these settings and servers of each tenant, and with all rows in the Postgres at `url`.
    pub(crate) fn on_postgres(
        url: &str,
        settings: &str,
        servers: impl Fn(&'static str) -> Vec<(&'static str, Value)>,
    ) -> Self {
        Self::create(("", settings, &[(DATABASE, url)]), &[], servers)
    }

    /// Starts the same as [`Self::on_postgres`], served by the first of several replicas.
    pub(crate) fn of_replicas(
        url: &str,
        settings: &str,
        servers: impl Fn(&'static str) -> Vec<(&'static str, Value)>,
    ) -> Self {
        Self::create(("", settings, &[(DATABASE, url)]), &REPLICA, servers)
    }

    /// Starts the same as [`Self::of_replicas`], with a key that seals the secrets of all tenants.
    pub(crate) fn of_replicas_with_key(
        (url, key): (&str, &str),
        settings: &str,
        servers: impl Fn(&'static str) -> Vec<(&'static str, Value)>,
    ) -> Self {
        Self::create(("", settings, &[(DATABASE, url), ("TOOLRACK_SECRET_KEY", key)]), &REPLICA, servers)
    }

    /// Starts another replica, and returns the same team as one reaches it through that replica.
    pub(crate) fn another_replica(&self) -> Self {
        Self { rack: Arc::clone(&self.rack), daemon: Self::daemon(&self.rack, &REPLICA) }
    }

    /// Starts a team whose tenants end after this time without a request.
    fn idle_after(time: &str) -> Self {
        Self::create(("", "", &[]), &["--agent-idle", time], |tenant| vec![(tenant, fake(&[]))])
    }

    /// Starts a team: with the lines `acme` about that tenant in the team file, with the `settings` and `servers` of each
    /// tenant, and with the `variables` and the options `more` of the daemon.
    fn create(
        (acme, settings, variables): (&str, &str, &[(&'static str, &str)]),
        more: &[&str],
        servers: impl Fn(&'static str) -> Vec<(&'static str, Value)>,
    ) -> Self {
        let mut rack = Rack::with(&[("own", fake(&[]))]).env("CANARY_DAEMON", "canary-of-the-daemon");
        let root = rack.home.root().join("team");
        for tenant in ["acme", "bolt"] {
            let home = root.join("tenants").join(tenant);
            fs::create_dir_all(&home).unwrap();
            fs::write(home.join("mcp.json"), mcp_json(&servers(tenant))).unwrap();
            fs::write(home.join("toolrack.toml"), settings).unwrap();
        }
        let tenants = format!("[[tenants]]\nid = \"acme\"\n{acme}\n[[tenants]]\nid = \"bolt\"\n");
        let mut file = format!("url = \"http://127.0.0.1:1\"\n{tenants}");
        if variables.iter().any(|(name, _)| *name == DATABASE) {
            let _ = write!(file, "[store]\nurl = \"${{{DATABASE}}}\"\n");
        }
        for (name, value) in variables {
            rack = rack.env(name, *value);
        }
        fs::write(root.join("team.toml"), file).unwrap();
        let daemon = Self::daemon(&rack, more);
        Self { rack: Arc::new(rack), daemon }
    }

    /// Starts a daemon for the team of the rack, with the options `more`.
    pub(crate) fn daemon(rack: &Rack, more: &[&str]) -> Daemon {
        let path = rack.home.root().join("team/team.toml");
        Daemon::start(rack, &[&["--team", path.to_str().unwrap(), "--allow", "*"], more].concat())
    }

    /// Ends the daemon, and starts another one.
    pub(crate) fn restarted(self) -> Self {
        assert_eq!(self.daemon.ended_by("TERM"), Some(143));
        let daemon = Self::daemon(&self.rack, &[]);
        Self { rack: self.rack, daemon }
    }

    /// Ends the daemon, and starts another one that has this variable.
    pub(crate) fn restarted_with(self, name: &'static str, value: &str) -> Self {
        assert_eq!(self.daemon.ended_by("TERM"), Some(143));
        let rack = Arc::into_inner(self.rack).expect("one daemon at a time has the rack").env(name, value);
        let daemon = Self::daemon(&rack, &[]);
        Self { rack: Arc::new(rack), daemon }
    }

    /// Makes a token for `member`; returns the token and its id.
    pub(crate) fn token(&self, member: &str, tenant: &str, role: &str) -> (String, String) {
        let made = self.rack.run(&["team", "token", member, "--tenant", tenant, "--role", role, "--json"]);
        let made = made.ends_with(0).json();
        let word = |name: &str| made[name].as_str().unwrap().to_owned();
        (word("token"), word("id"))
    }

    /// Sends a request; returns the connection, from which the answer can be read.
    pub(crate) fn send(&self, method: &str, path: &str, token: &str, body: &str) -> TcpStream {
        self.send_for("application/json, text/event-stream", (method, path, token), body)
    }

    /// Sends a request that accepts these media types.
    pub(crate) fn send_for(&self, accept: &str, (method, path, token): (&str, &str, &str), body: &str) -> TcpStream {
        let mut stream = TcpStream::connect(&self.daemon.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n\
             Content-Type: application/json\r\nAccept: {accept}\r\nContent-Length: {}\r\n\r\n{body}",
            self.daemon.address,
            body.len()
        )
        .unwrap();
        stream
    }

    /// Sends a request; returns the status and the body of the answer.
    pub(crate) fn ask(&self, method: &str, path: &str, token: &str, body: &str) -> (u16, String) {
        let mut answer = String::new();
        self.send(method, path, token, body).read_to_string(&mut answer).unwrap();
        let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
        let body = answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned()).unwrap_or_default();
        (status, body)
    }

    pub(crate) fn status(&self, method: &str, path: &str, token: &str) -> u16 {
        self.ask(method, path, token, "").0
    }

    /// Calls a tool over the MCP endpoint, with `toolrack call` as the client; returns all that it prints.
    pub(crate) fn call(&self, token: &str, tool: &str, arguments: &str) -> String {
        self.call_at("/mcp", token, tool, arguments)
    }

    /// Calls a tool over the MCP endpoint at `path`, as [`Self::call`] does.
    fn call_at(&self, path: &str, token: &str, tool: &str, arguments: &str) -> String {
        let url = format!("http://{}{path}", self.daemon.address);
        let gateway = json!({ "url": url, "headers": { "Authorization": format!("Bearer {token}") } });
        let config = mcp_json(&[("gateway", gateway)]);
        let tool = format!("gateway/{tool}");
        let words = ["--mcp-config", &config, "--strict-mcp-config", "--no-daemon", "call", &tool, "--args", arguments];
        let ran = self.rack.run(&words);
        format!("{}{}", ran.stdout, ran.stderr)
    }
}

#[test]
fn each_tenant_has_its_own_servers_and_sees_nothing_of_others() {
    let team = Team::start();
    let (ann, _) = team.token("ann", "acme", "user");
    let (bob, _) = team.token("bob", "bolt", "user");
    for (token, own, other) in [(&ann, "acme", "bolt"), (&bob, "bolt", "acme")] {
        let (status, servers) = team.ask("GET", "/api/v1/servers", token, "");
        assert_eq!(status, 200, "{servers}");
        assert!(servers.contains(&format!("\"name\":\"{own}\"")), "{servers}");
        assert!(!servers.contains(other) && !servers.contains("\"name\":\"own\""), "{servers}");
        let canary = team.call(token, "mcp__env__env", r#"{"name":"CANARY"}"#);
        assert!(canary.contains(&format!("canary-of-{own}")), "{canary}");
        // A placeholder of a tenant's file finds nothing in the daemon's environment, and its process gets nothing.
        let daemon = team.call(token, "mcp__env__env", r#"{"name":"DAEMON"}"#);
        assert!(daemon.contains("unseen"), "{daemon}");
        let variables = team.call(token, "mcp__env__env", "{}");
        assert!(!variables.contains("CANARY_DAEMON"), "{variables}");
    }
    // The user of the machine has a world of their own.
    let (_, servers) = team.ask("GET", "/api/v1/servers", &team.daemon.token.clone(), "");
    assert!(servers.contains("\"name\":\"own\"") && !servers.contains("acme"), "{servers}");
}

#[test]
fn the_role_of_a_member_decides_what_they_may_do() {
    let team = Team::start();
    let token = |role: &str| team.token(role, "acme", role).0;
    let all = [
        ("GET", "/api/v1/servers"),
        ("GET", "/api/v1/approvals"),
        ("POST", "/api/v1/servers/acme/reconnect"),
        ("GET", "/api/v1/audit"),
        ("GET", "/metrics"),
        ("GET", "/api/v1/sessions"),
        ("GET", "/api/v1/import"),
        ("DELETE", "/api/v1/servers/acme"),
    ];
    let allowed = |role: &str| -> Vec<_> {
        let token = token(role);
        all.iter().map(|(method, path)| team.status(method, path, &token) != 403).collect()
    };
    assert_eq!(allowed("viewer"), [true, false, false, false, false, false, false, false]);
    assert_eq!(allowed("user"), [true, true, false, false, false, true, false, false]);
    assert_eq!(allowed("operator"), [true, true, true, false, true, true, false, false]);
    assert_eq!(allowed("auditor"), [true, false, false, true, false, false, false, false]);
    assert_eq!(allowed("admin"), [true, true, true, true, true, true, false, false]);
    assert_eq!(allowed("scraper"), [false, false, false, false, true, false, false, false]);
    let refused = team.ask("GET", "/api/v1/import", &token("admin"), "").1;
    assert!(refused.contains("only the user of the daemon's machine has"), "{refused}");
    // Guessed tokens, and a token in the place of another one, are refused.
    let forged = format!("trk_{}", "0".repeat(64));
    for token in ["", "guess", &forged, &team.daemon.token[1..]] {
        assert_eq!(team.status("GET", "/api/v1/servers", token), 401);
    }
}

#[test]
fn a_revoked_token_ends_streams_and_opens_nothing_within_a_second() {
    let team = Team::start();
    let (ann, id) = team.token("ann", "acme", "operator");
    let mut stream = BufReader::new(team.send("GET", "/api/v1/events", &ann, ""));
    let mut line = String::new();
    stream.read_line(&mut line).unwrap();
    assert!(line.contains("200"), "{line}");
    let _ = team.rack.run(&["team", "revoke", &id]).ends_with(0);
    let started = Instant::now();
    let mut rest = Vec::new();
    let _ = stream.read_to_end(&mut rest);
    assert!(started.elapsed() < SOON, "{:?}", started.elapsed());
    assert_eq!(team.status("GET", "/api/v1/servers", &ann), 401);
    let _ = team.rack.run(&["team", "revoke", "--member", "ann"]).ends_with(0);
    // One who signs in at a provider is another member than one of the same name without.
    for wrong in [&["--member", "anm"][..], &["--member", "ann", "--issuer", "https://login.example"]] {
        let refused = team.rack.run(&[&["team", "revoke"], wrong].concat()).ends_with(2);
        assert!(refused.stderr.contains("the team has no member `an"), "{refused}");
    }
    let again = team.rack.run(&["team", "revoke", &id]).ends_with(2);
    assert!(again.stderr.contains("no token with the id"), "{again}");
}

#[test]
fn a_token_for_a_profile_opens_its_endpoint_alone() {
    let team = Team::start();
    let home = team.rack.home.root().join("team/tenants/acme");
    let profile = "[[profiles]]\nname = \"few\"\ntools = \"acme/echo\"\n\
        [[profiles.show]]\ntool = \"acme/echo\"\nname = \"say\"\n[[profiles]]\nname = \"other\"\n";
    fs::write(home.join("toolrack.toml"), profile).unwrap();
    let made = team.rack.run(&["team", "token", "bot", "--service", "--tenant", "acme", "--profile", "few", "--json"]);
    let made = made.ends_with(0).json();
    assert_eq!(made["profile"], "few");
    let token = made["token"].as_str().unwrap();
    let list = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25",
        "capabilities":{},"clientInfo":{"name":"x","version":"1"}}}"#;
    assert_eq!(team.ask("POST", "/p/few/mcp", token, list).0, 200);
    for path in ["/mcp", "/p/other/mcp", "/p/f%65w/mcp", "/p/few/mcp/", "/p/few/mcp/x", "/api/v1/tools", "/api/v1/me"] {
        let (status, body) = team.ask("POST", path, token, list);
        assert_eq!(status, 403, "{path}: {body}");
        assert!(body.contains("opens only the MCP endpoint `/p/few/mcp`"), "{path}: {body}");
    }
    // Whatever else the query names, the client sees at most the tools of its profile.
    for query in ["?profile=other", "?profile=few", "?tools=*"] {
        let (_, body) = team.ask("POST", &format!("/p/few/mcp{query}"), token, list);
        assert!(query == "?tools=*" || body.contains("a request has one profile"), "{query}: {body}");
    }
    let answer = team.call_at("/p/few/mcp", token, "say", r#"{"text":"hello there"}"#);
    assert!(answer.contains("hello there"), "{answer}");
    let hidden = team.call_at("/p/few/mcp", token, "mcp__env__env", "{}");
    assert!(hidden.contains("no tool"), "{hidden}");
    // A personal token without a profile opens all of them.
    let (ann, _) = team.token("ann", "acme", "user");
    assert!(team.call_at("/p/other/mcp", &ann, "mcp__acme__echo", r#"{"text":"again"}"#).contains("again"));
    let (_, profiles) = team.ask("GET", "/api/v1/profiles", &ann, "");
    let profiles: Value = serde_json::from_str(&profiles).unwrap();
    assert_eq!(profiles["profiles"][0], json!({ "name": "few", "mcp": "/p/few/mcp", "tools": ["say"] }));
}

#[test]
fn the_key_of_the_daemon_seals_the_secrets_of_tenants_and_no_server_gets_it() {
    let key = "7a".repeat(32);
    let servers = |_| {
        let mut server = fake(&[]);
        server["env"] = json!({ "VALUE": "${secret:value}", "DAEMON": "${TOOLRACK_SECRET_KEY:-unseen}" });
        vec![("env", server)]
    };
    let team = Team::with(servers).restarted_with("TOOLRACK_SECRET_KEY", &key);
    let home = team.rack.home.root().join("team/tenants/acme");
    let mut command = team.rack.command(&["secret", "set", "value"]);
    let mut child = command.env("TOOLRACK_HOME", &home).stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"sealed-by-the-daemon").unwrap();
    assert!(child.wait().unwrap().success());
    assert!(!home.join("secret.key").exists());

    let (ann, _) = team.token("ann", "acme", "operator");
    let _ = team.ask("POST", "/api/v1/servers/env/reconnect", &ann, "");
    // The server has the value; Toolrack hides it in the result.
    let value = team.call(&ann, "mcp__env__env", r#"{"name":"VALUE"}"#);
    assert!(value.contains("***"), "{value}");
    let seen = team.call(&ann, "mcp__env__env", r#"{"name":"DAEMON"}"#);
    assert!(seen.contains("unseen"), "{seen}");
}

#[test]
fn the_endpoint_of_a_tenant_serves_its_members_alone() {
    let team = Team::start();
    let home = team.rack.home.root().join("team/tenants/acme");
    fs::write(home.join("toolrack.toml"), "[[profiles]]\nname = \"few\"\ntools = \"acme/echo\"\n").unwrap();
    let (ann, _) = team.token("ann", "acme", "user");
    for path in ["/t/acme/mcp", "/t/acme/p/few/mcp"] {
        let answer = team.call_at(path, &ann, "mcp__acme__echo", r#"{"text":"hello there"}"#);
        assert!(answer.contains("hello there"), "{path}: {answer}");
    }
    for path in ["/t/bolt/mcp", "/t/none/mcp", "/t/bolt/p/few/mcp"] {
        let (status, body) = team.ask("POST", path, &ann, "{}");
        assert_eq!(status, 403, "{path}: {body}");
        assert!(
            body.contains("a member of the tenant `acme`, and the address is not of that tenant"),
            "{path}: {body}"
        );
    }
    // Nothing else is below the address of a tenant.
    for path in ["/t/acme", "/t/acme/api/v1/me", "/t/acme/mcp/", "/t/acme/t/acme/mcp"] {
        assert_eq!(team.ask("GET", path, &ann, "").0, 404, "{path}");
    }
    assert_eq!(team.ask("POST", "/t/acme/mcp", "no-token", "{}").0, 401);
}

#[test]
fn a_server_for_some_members_is_there_for_them_alone_and_as_long_as_they_are_in_the_group() {
    let team = Team::with(|tenant| {
        let mut eng = fake(&[]);
        eng["for"] = json!(["group:eng", "role:operator"]);
        vec![("eng", eng), (tenant, fake(&[]))]
    });
    let home = team.rack.home.root().join("team/tenants/acme");
    fs::write(home.join("toolrack.toml"), "[[profiles]]\nname = \"all\"\n").unwrap();
    let member = |name: &str, more: &[&str]| {
        let words = ["team", "token", name, "--tenant", "acme", "--json"];
        let made = team.rack.run(&[&words, more].concat()).ends_with(0).json();
        made["token"].as_str().unwrap().to_owned()
    };
    let (ann, bob) = (member("ann", &["--group", "eng"]), member("bob", &["--group", "sales"]));
    let olga = member("olga", &["--role", "operator"]);
    // `None` if the answers differ, because of a change between them.
    let has = |token: &str| {
        let is_allowed = team.call(token, "mcp__eng__echo", r#"{"text":"for engineers"}"#).contains("for engineers");
        let (status, one) = team.ask("GET", "/api/v1/tools", token, "");
        assert_eq!(status, 200, "{one}");
        let places = ["/api/v1/servers", "/api/v1/tools", "/api/v1/profiles"];
        let names = |page: &str| page.contains("\"eng\"") || page.contains("mcp__eng__");
        let shown = places.map(|path| names(&team.ask("GET", path, token, "").1));
        let call = json!({ "tool": "eng/echo", "arguments": { "text": "x" }, "id": "1" }).to_string();
        let (_, body) = team.ask("POST", "/api/v1/calls", token, &call);
        let agreed = [is_allowed, shown[0], shown[1], shown[2], body.contains("event: result")];
        agreed.iter().all(|is| *is == is_allowed).then_some(is_allowed)
    };
    assert_eq!([has(&ann), has(&olga), has(&bob)], [Some(true), Some(true), Some(false)]);
    // Each of them sees the shared servers.
    assert!(team.call(&bob, "mcp__acme__echo", r#"{"text":"for all"}"#).contains("for all"));
    let (status, gone) = team.ask("GET", "/api/v1/servers/eng", &bob, "");
    assert_eq!(status, 404, "{gone}");
    // A new group applies to the same token within a second.
    let _ = member("ann", &["--group", "sales"]);
    let started = Instant::now();
    while has(&ann) != Some(false) {
        assert!(started.elapsed() < SOON * 10);
    }
    let _ = member("bob", &["--group", "eng"]);
    let started = Instant::now();
    while has(&bob) != Some(true) {
        assert!(started.elapsed() < SOON * 10);
    }
}

#[test]
fn a_changed_role_applies_to_the_same_token_within_a_second() {
    let team = Team::start();
    let (ann, _) = team.token("ann", "acme", "admin");
    assert_eq!(team.status("GET", "/api/v1/audit", &ann), 200);
    let _ = team.token("ann", "acme", "viewer");
    let started = Instant::now();
    while team.status("GET", "/api/v1/audit", &ann) != 403 {
        assert!(started.elapsed() < SOON);
    }
    let _ = team.rack.run(&["team", "remove", "ann"]).ends_with(0);
    let started = Instant::now();
    while team.status("GET", "/api/v1/servers", &ann) != 401 {
        assert!(started.elapsed() < SOON);
    }
}

/// Returns the rows of the tenant's audit log, once a call is among them: calls do not wait for their rows.
fn audit_with_a_call(team: &Team, token: &str) -> Vec<Value> {
    let end = Instant::now() + Duration::from_secs(30);
    loop {
        let (status, body) = team.ask("GET", "/api/v1/audit", token, "");
        assert_eq!(status, 200, "{body}");
        let body: Value = serde_json::from_str(&body).unwrap();
        let rows = body["rows"].as_array().unwrap();
        if rows.iter().any(|row| row["kind"] == "call") {
            return rows.clone();
        }
        assert!(Instant::now() < end, "{rows:?}");
    }
}

#[test]
fn calls_are_in_the_tenant_s_audit_log_and_changes_of_the_team_in_the_machine_s() {
    let team = Team::start();
    let (ann, id) = team.token("ann", "acme", "admin");
    let echoed = team.call(&ann, "mcp__acme__echo", r#"{"text":"x"}"#);
    assert!(echoed.contains('x'), "{echoed}");
    let rows = audit_with_a_call(&team, &ann);
    let call = rows.iter().find(|row| row["kind"] == "call").unwrap();
    let who = (&call["tenant"], &call["issuer"], &call["subject"], &call["name"]);
    assert_eq!(who, (&json!("acme"), &json!("toolrack"), &json!("ann"), &json!("ann")), "{call}");
    assert!(!rows.iter().any(|row| row["kind"] == "token_made"), "{rows:?}");

    let own = team.rack.run(&["audit", "list", "--json"]).ends_with(0);
    let own = own.json()["rows"].as_array().unwrap().clone();
    let made = own.iter().find(|row| row["kind"] == "token_made").unwrap();
    assert_eq!(made["token"], id.as_str());
    assert!(made["member"].as_str().unwrap().starts_with("ann of acme"), "{made}");
    assert!(!own.iter().any(|row| row["server"] == "acme"), "{own:?}");
    let all = format!("{own:?}{rows:?}");
    assert!(!all.contains(&ann), "no row has the token");
}

#[test]
fn members_and_tokens_are_listed_without_tokens() {
    let rack = Rack::new();
    let made = rack.run(&["team", "token", "ann", "--tenant", "acme", "--group", "eng", "--label", "laptop", "--json"]);
    let made = made.ends_with(0).json();
    let _ = rack.run(&["team", "token", "nightly", "--service", "--tenant", "bolt"]).ends_with(0);
    let members = rack.run(&["team", "members", "--json"]).ends_with(0).json();
    let names: Vec<_> = members["members"].as_array().unwrap().iter().map(|member| &member["name"]).collect();
    assert_eq!(names, ["ann", "nightly"]);
    assert_eq!(members["members"][1]["kind"], "service");
    let tokens = rack.run(&["team", "tokens", "--tenant", "acme", "--json"]).ends_with(0);
    assert!(!tokens.stdout.contains(made["token"].as_str().unwrap()), "{tokens}");
    let tokens = tokens.json();
    assert_eq!(tokens["tokens"].as_array().unwrap().len(), 1);
    assert_eq!((&tokens["tokens"][0]["label"], &tokens["tokens"][0]["id"]), (&json!("laptop"), &made["id"]));
    // The known data of a member stay the same, unless an option changes them.
    let again = rack.run(&["team", "token", "ann", "--json"]).ends_with(0).json();
    assert_eq!(again["member"]["groups"], json!(["eng"]));
    let unknown = rack.run(&["team", "token", "eve"]).ends_with(2);
    assert!(unknown.stderr.contains("say which tenant"), "{unknown}");
    let wrong = rack.run(&["team", "token", "eve", "--tenant", "../acme"]).ends_with(2);
    assert!(wrong.stderr.contains("name of a tenant"), "{wrong}");
}

/// Calls `env` over the API, or over the MCP endpoint if `path` ends in `/mcp`. Returns the status, and the headers and the
/// body as one text.
pub(crate) fn called(team: &Team, token: &str, path: &str) -> (u16, String) {
    let arguments = json!({ "name": "CANARY" });
    let mut accept = "application/json";
    let body = match path {
        _ if path.ends_with("/mcp") => {
            accept = "application/json, text/event-stream";
            let meta = json!({
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientInfo": { "name": "a client", "version": "1" },
                "io.modelcontextprotocol/clientCapabilities": {},
            });
            let params = json!({ "name": "mcp__env__env", "arguments": arguments, "_meta": meta });
            json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params })
        }
        _ => json!({ "tool": "env/env", "arguments": arguments }),
    };
    let body = body.to_string();
    let mut stream = TcpStream::connect(&team.daemon.address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    write!(
        stream,
        "POST {path} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n\
         Content-Type: application/json\r\nAccept: {accept}\r\nContent-Length: {}\r\n\
         MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: mcp__env__env\r\n\r\n{body}",
        team.daemon.address,
        body.len()
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    (answer.split(' ').nth(1).unwrap().parse().unwrap(), answer)
}

#[test]
fn the_error_for_a_used_up_quota_names_the_quota_and_the_time_until_the_next_call() {
    let team = Team::with_limits("each_member = { calls_per_minute = 2 }");
    let (ann, _) = team.token("ann", "acme", "user");
    let (olga, _) = team.token("olga", "acme", "admin");
    for path in ["/api/v1/calls", "/mcp"] {
        let (status, answer) = called(&team, &ann, path);
        assert!(status == 200 && answer.contains("canary-of-acme"), "{path}: {answer}");
    }
    for path in ["/api/v1/calls", "/mcp"] {
        let (status, answer) = called(&team, &ann, path);
        assert_eq!(status, 429, "{path}: {answer}");
        let wait = answer.lines().find_map(|line| line.strip_prefix("retry-after: ")).expect("it says when");
        assert!((1..=30).contains(&wait.parse::<u64>().unwrap()), "{wait}");
        assert!(answer.contains("OVER_QUOTA") && answer.contains("limits.each_member.calls_per_minute"), "{answer}");
    }
    // Another member has calls of their own.
    assert_eq!(called(&team, &olga, "/mcp").0, 200);
    let until = Instant::now() + SOON;
    while !team.ask("GET", "/api/v1/audit", &olga, "").1.contains("OVER_QUOTA") {
        assert!(Instant::now() < until, "the refusal has no row of the audit log");
    }
}

#[test]
fn a_team_file_that_cannot_be_used_starts_nothing() {
    let rack = Rack::new();
    let path = rack.home.root().join("team.toml");
    let run = |text: &str| {
        fs::write(&path, text).unwrap();
        let ran = rack.run(&["serve", "--listen", "127.0.0.1:0", "--no-open", "--team", path.to_str().unwrap()]);
        ran.ends_with(2).stderr
    };
    assert!(run("url = \"http://team.example\"").contains("must be https"));
    assert!(run("url = \"https://team.example\"\nnonsense = 1").contains("nonsense"));
    assert!(run("[[tenants]]\nid = \"acme\"").contains("url"));
    let sign_in = "url = \"https://team.example\"\n[sign_in]\nissuer = \"https://login.example\"\nclient_id = \"x\"\n";
    let no_secret = run(&format!("{sign_in}client_secret = \"${{NO_SUCH_VARIABLE}}\""));
    assert!(no_secret.contains("NO_SUCH_VARIABLE") && no_secret.contains("sign_in.client_secret"), "{no_secret}");
    fs::remove_file(&path).unwrap();
    let missing = rack.run(&["serve", "--listen", "127.0.0.1:0", "--team", path.to_str().unwrap()]).ends_with(2);
    assert!(missing.stderr.contains("team.toml"), "{missing}");
}

#[test]
fn a_tenant_that_was_idle_for_its_time_leaves_no_file_open() {
    let team = Team::idle_after("300ms");
    let (ann, _) = team.token("ann", "acme", "user");
    let open = || team.daemon.open_files("/tenants/acme/");
    for _ in 0..2 {
        assert_eq!(team.status("GET", "/api/v1/tools", &ann), 200);
        assert!(open() > 0, "a tenant that runs has its database open");
        let started = Instant::now();
        while open() > 0 {
            assert!(started.elapsed() < SOON * 3, "{} files are open", open());
        }
    }
}

#[test]
fn a_daemon_with_drain_serves_members_on_after_the_signal_while_its_health_says_404() {
    let mut team = Team::with(|_| vec![("shared", fake(&[]))]);
    let (ann, _) = team.token("ann", "acme", "user");
    let rack = Arc::clone(&team.rack);
    let drain = Duration::from_secs(5);
    team.daemon = Team::daemon(&rack, &["--drain", "5s"]);
    let health = |team: &Team| team.ask("GET", "/health", &ann, "");
    assert_eq!(health(&team).0, 200);
    kill("TERM", team.daemon.pid());
    let signalled = Instant::now();
    while health(&team).0 == 200 {
        assert!(signalled.elapsed() < drain, "its health does not change");
    }
    let (status, why) = health(&team);
    assert!(status == 404 && why.contains("ending"), "{why}");
    assert!(team.call(&ann, "mcp__shared__echo", r#"{"text":"still"}"#).contains("still"));
    // SIGCONT changes nothing; the daemon ends because of the earlier SIGTERM.
    assert_eq!(team.daemon.ended_by("CONT"), Some(143));
    assert!(signalled.elapsed() >= drain, "{:?}", signalled.elapsed());
}
