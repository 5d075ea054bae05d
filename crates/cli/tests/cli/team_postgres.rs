//! `serve --team` with `[store]`: the rows of all tenants in Postgres.

use std::{
    fs,
    time::{Duration, Instant},
};

use crate::rack::Rack;

/// A rack with a team file that has this `[store]`.
fn rack(store: &str) -> (Rack, String) {
    let rack = Rack::new();
    let file = rack.home.root().join("team.toml");
    let text = format!("url = \"http://127.0.0.1:1\"\n[store]\n{store}\n[[tenants]]\nid = \"acme\"\n");
    fs::write(&file, text).unwrap();
    (rack, file.to_str().unwrap().to_owned())
}

#[test]
fn a_database_that_is_away_at_the_start_is_named_without_its_password_within_the_set_time() {
    for (store, says) in [
        ("url = \"postgres://ann:pa55word@127.0.0.1:1/tools\"", "(127.0.0.1:1/tools)"),
        ("url = \"mysql://ann:pa55word@127.0.0.1:1/tools\"", "is not a URL of Postgres"),
        ("url = \"postgres://ann:pa55word@:x/\"", "has a URL that cannot be parsed"),
        ("uri = \"postgres://ann:pa55word@127.0.0.1:1/tools\"", "unknown field `uri`"),
        ("url = \"${NO_SUCH_VARIABLE}\"", "`NO_SUCH_VARIABLE` is not set"),
        ("url = { command = [\"sleep\", \"60\"] }", "takes longer than `connect_timeout`"),
    ] {
        let (rack, team) = rack(&format!("connect_timeout = \"1s\"\n{store}"));
        let started = Instant::now();
        let ran = rack.run(&["serve", "--team", &team, "--listen", "127.0.0.1:0", "--no-open", "-vv"]);
        assert!(started.elapsed() < Duration::from_secs(10), "{store}");
        assert!(ran.code != Some(0) && ran.stderr.contains(says), "{store}: {}", ran.stderr);
        let all = format!("{}{}", ran.stdout, ran.stderr);
        assert!(!all.contains("pa55"), "{all}");
    }
}

mod needs_postgres {
    use std::{io::Write as _, path::PathBuf, process::Stdio};

    use serde_json::{Value, json};
    use toolrack_testkit::Postgres;

    use super::*;
    use crate::{
        rack::fake,
        team::Team,
        team_approvals::{answer, call, question, rest, standing},
        team_person::{begins, give, personal, variable},
    };

    /// Calls of this tool need an approval.
    const ASKS: &str = "[policy]\nconfirm = [\"shared/echo\"]\n";

    /// What a wait for the daemon or the database may take on a loaded machine.
    const LIMIT: Duration = Duration::from_secs(30);

    fn team(server: &Postgres) -> Team {
        Team::on_postgres(&server.url(), ASKS, |tenant| {
            vec![("shared", fake(&[])), ("mine", personal()), (tenant, fake(&[]))]
        })
    }

    fn home(team: &Team, tenant: &str) -> PathBuf {
        team.rack.home.root().join("team/tenants").join(tenant)
    }

    /// Runs a command with the folder of a tenant as its home, and `value` as its input.
    fn in_home(team: &Team, tenant: &str, words: &[&str]) -> String {
        given(team, tenant, words, "")
    }

    fn given(team: &Team, tenant: &str, words: &[&str], value: &str) -> String {
        let mut command = team.rack.command(words);
        command.env("TOOLRACK_HOME", home(team, tenant)).stdin(Stdio::piped());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(value.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    fn count(server: &Postgres, tenant: Option<&str>, table: &str) -> u64 {
        server.rows("toolrack", tenant, &format!("SELECT count(*) FROM {table}")).parse().unwrap()
    }

    fn is_ready(team: &Team) -> (u16, String) {
        team.ask("GET", "/ready", &team.daemon.token, "")
    }

    /// Waits until the daemon says that it is ready, or that it is not.
    fn becomes(team: &Team, status: u16) -> String {
        let started = Instant::now();
        loop {
            let (found, why) = is_ready(team);
            if found == status {
                return why;
            }
            assert!(started.elapsed() < LIMIT, "{found}: {why}");
        }
    }

    fn rows_of_calls(team: &Team, tenant: &str) -> usize {
        let rows = in_home(team, tenant, &["audit", "list", "--limit", "1000", "--json"]);
        let rows: Value = serde_json::from_str(&rows).unwrap();
        rows["rows"].as_array().unwrap().iter().filter(|row| row["kind"] == "call").count()
    }

    #[test]
    fn two_tenants_share_a_database_and_a_restart_finds_all_of_both() {
        let server = Postgres::start();
        let team = team(&server);
        let (ann, _) = team.token("ann", "acme", "user");
        let (eve, _) = team.token("eve", "acme", "operator");
        let (bob, _) = team.token("bob", "bolt", "user");
        for (token, value) in [(&ann, "ann-1"), (&bob, "bob-2")] {
            give(&team, token, value);
            begins(&team, token);
            assert!(variable(&team, token, "TOKEN").contains(value));
        }
        let under_way = call(&team, &ann, "shared/echo", json!({ "text": "hello" }));
        assert_eq!(answer(&team, &eve, &question(&team, &eve), &json!({ "answer": "always_tool" })).0, 204);
        assert!(rest(under_way).contains("hello"));
        let _ = given(&team, "acme", &["secret", "set", "github"], "of-the-tenant");

        let team = team.restarted();
        assert_eq!(standing(&team, &ann), ["all"]);
        assert!(rest(call(&team, &ann, "shared/echo", json!({ "text": "again" }))).contains("again"));
        for (token, value) in [(&ann, "ann-1"), (&bob, "bob-2")] {
            begins(&team, token);
            assert!(variable(&team, token, "TOKEN").contains(value));
        }
        assert!(in_home(&team, "acme", &["secret", "list"]).contains("github"));
        assert!(!in_home(&team, "bolt", &["secret", "list"]).contains("github"));
        for tenant in ["acme", "bolt"] {
            let verified = in_home(&team, tenant, &["audit", "verify"]);
            assert!(verified.contains("rows"), "{verified}");
            assert!(!home(&team, tenant).join("toolrack.db").exists());
        }
        let file = team.rack.home.root().join("team/team.toml");
        let all = team.rack.run(&["team", "audit", "--team", file.to_str().unwrap(), "--json"]).ends_with(0).stdout;
        assert!(all.contains("\"acme\"") && all.contains("\"bolt\"") && all.contains("ann"), "{all}");

        // Whatever a statement says, the role of one tenant has no row of another.
        for table in ["vault", "answers"] {
            assert!(count(&server, Some("acme"), table) > 0, "{table}");
            assert_eq!(count(&server, None, table), 0, "{table}");
        }
        assert_eq!(count(&server, Some("bolt"), "answers"), 0);
        let of_acme = |table: &str| format!("{table} WHERE of_tenant = 'acme'");
        for table in ["audit", "vault", "answers", "team_members"] {
            assert_eq!(count(&server, Some("bolt"), &of_acme(table)), 0, "{table}");
        }
        assert_eq!(count(&server, Some("acme"), "team_tokens"), 0);
        assert_eq!(count(&server, Some("*"), "team_tokens"), 3);
    }

    #[test]
    fn a_daemon_outlives_its_database_and_says_what_it_cannot_do_meanwhile() {
        let mut server = Postgres::start();
        let team = team(&server);
        let (ann, _) = team.token("ann", "acme", "user");
        let (new, _) = team.token("new", "acme", "user");
        let adds = |token: &str| team.call(token, "mcp__acme__add", r#"{"a":20,"b":22}"#);
        assert!(adds(&ann).contains("42"));
        let _ = becomes(&team, 200);
        server.stop();
        let why = becomes(&team, 503);
        assert!(why.contains("the database of the team does not answer"), "{why}");
        // What the daemon knows needs no database; what it has to look up is refused within the set time.
        assert!(adds(&ann).contains("42"));
        let started = Instant::now();
        let (status, refused) = team.ask("GET", "/api/v1/servers", &new, "");
        assert!(status == 503 && refused.contains("NOT_CHECKED"), "{status}: {refused}");
        assert!(started.elapsed() < Duration::from_secs(15), "{:?}", started.elapsed());
        server.start_again();
        let _ = becomes(&team, 200);
        assert!(adds(&new).contains("42"));
        let started = Instant::now();
        while rows_of_calls(&team, "acme") < 3 {
            assert!(started.elapsed() < LIMIT, "a row of the audit log is lost");
        }
        let _ = in_home(&team, "acme", &["audit", "verify"]);
        assert_eq!(count(&server, Some("acme"), "audit WHERE kind = 'lost'"), 0);
    }

    #[test]
    fn no_answer_to_a_member_says_where_the_database_is_or_was() {
        let mut server = Postgres::start();
        let team = team(&server);
        let (ann, _) = team.token("ann", "acme", "user");
        let _ = becomes(&team, 200);
        assert_eq!(team.ask("GET", "/api/v1/servers", &ann, "").0, 200);
        server.stop();
        let _ = becomes(&team, 503);
        let folder = server.folder().to_str().unwrap().to_owned();
        let call = |tool: &str| json!({ "tool": tool, "arguments": { "text": "x" } }).to_string();
        let value = json!({ "value": "x" }).to_string();
        let requests = [
            ("POST", "/api/v1/calls", call("acme/echo")),
            ("POST", "/api/v1/calls", call("shared/echo")),
            ("POST", "/api/v1/calls", call("mine/echo")),
            ("GET", "/api/v1/servers", String::new()),
            ("GET", "/api/v1/overview", String::new()),
            ("GET", "/api/v1/answers", String::new()),
            ("GET", "/api/v1/sessions", String::new()),
            ("GET", "/api/v1/me", String::new()),
            ("GET", "/api/v1/me/credentials", String::new()),
            ("PUT", "/api/v1/me/credentials/TOKEN", value),
            ("GET", "/api/v1/me/tokens", String::new()),
        ];
        let mut failed = 0;
        for (method, path, body) in requests {
            let (status, answer) = team.ask(method, path, &ann, &body);
            assert!(!answer.contains(&folder) && !answer.contains("/toolrack "), "{method} {path}: {answer}");
            assert!(status != 500, "{method} {path}: {answer}");
            failed += usize::from(status == 503);
        }
        assert!(failed >= 3, "{failed} requests needed the database");
    }

    #[test]
    fn a_team_moves_to_postgres_and_finds_everything_there() {
        let server = Postgres::start();
        let team = Team::with_settings(ASKS, |_| vec![("shared", fake(&[])), ("mine", personal())]);
        let (ann, _) = team.token("ann", "acme", "user");
        let (eve, _) = team.token("eve", "acme", "operator");
        let (bob, _) = team.token("bob", "bolt", "user");
        for (token, value) in [(&ann, "ann-1"), (&bob, "bob-2")] {
            give(&team, token, value);
            begins(&team, token);
        }
        let under_way = call(&team, &ann, "shared/echo", json!({ "text": "hello" }));
        assert_eq!(answer(&team, &eve, &question(&team, &eve), &json!({ "answer": "always_tool" })).0, 204);
        assert!(rest(under_way).contains("hello"));
        let file = team.rack.home.root().join("team/team.toml");
        let store = format!("\n[store]\nurl = \"{}\"\n", server.url());
        fs::write(&file, fs::read_to_string(&file).unwrap() + &store).unwrap();
        let file = file.to_str().unwrap();

        let migrate = ["store", "migrate", "--team", file, "--json"];
        let refused = team.rack.run(&migrate).ends_with(1);
        assert!(refused.stderr.contains("IN_USE"), "{refused}");
        let Team { rack, daemon } = team;
        assert_eq!(daemon.ended_by("TERM"), Some(143));
        let refused = rack.run(&["serve", "--team", file, "--listen", "127.0.0.1:0", "--no-open"]).ends_with(1);
        assert!(refused.stderr.contains("toolrack store migrate --team"), "{refused}");
        let moved = rack.run(&migrate).ends_with(0).json();
        let tenants: Vec<_> = moved["moved"].as_array().unwrap().iter().map(|moved| moved["tenant"].clone()).collect();
        assert_eq!(tenants, [Value::Null, json!("acme"), json!("bolt")]);
        assert!(
            moved["moved"].as_array().unwrap().iter().all(|moved| moved["audit_rows"].as_u64() > Some(0)),
            "{moved}"
        );
        let again = rack.run(&migrate).ends_with(0).json();
        assert_eq!(again["moved"], json!([]), "what was moved is not moved again");

        let daemon = Team::daemon(&rack, &[]);
        let team = Team { rack, daemon };
        assert_eq!(standing(&team, &ann), ["all"]);
        assert!(rest(call(&team, &ann, "shared/echo", json!({ "text": "again" }))).contains("again"));
        for (token, value) in [(&ann, "ann-1"), (&bob, "bob-2")] {
            begins(&team, token);
            assert!(variable(&team, token, "TOKEN").contains(value));
        }
        for tenant in ["acme", "bolt"] {
            let _ = in_home(&team, tenant, &["audit", "verify"]);
        }
        let _ = team.rack.run(&["audit", "verify"]).ends_with(0);
        assert_eq!(count(&server, Some("bolt"), "vault WHERE of_tenant = 'acme'"), 0);
    }

    #[test]
    fn a_file_with_rows_is_not_left_behind_in_silence() {
        let server = Postgres::start();
        let (rack, team) = rack(&format!("url = \"{}\"", server.url()));
        let _ = rack.run(&["team", "token", "ann", "--tenant", "acme"]).ends_with(0);
        let ran = rack.run(&["serve", "--team", &team, "--listen", "127.0.0.1:0", "--no-open"]).ends_with(1);
        assert!(ran.stderr.contains("toolrack store migrate --team"), "{}", ran.stderr);
    }
}
