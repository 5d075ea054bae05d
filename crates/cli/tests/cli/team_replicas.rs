//! `serve --team --replica`: several daemons that serve one team, with a database that they share.

use std::fs;

use crate::rack::Rack;

#[test]
fn a_replica_needs_a_database_that_others_share_and_an_address_that_leads_to_it() {
    let rack = Rack::new();
    let file = rack.home.root().join("team.toml");
    let path = file.to_str().unwrap();
    let url = "url = \"http://127.0.0.1:1\"\n";
    for (text, address, says) in [
        (url.to_owned(), "127.0.0.1:0", "[store] of the team file"),
        (
            format!("{url}[store]\nurl = \"postgres://127.0.0.1:1/x\"\n"),
            "0.0.0.0:7000",
            "need an address that leads here",
        ),
    ] {
        fs::write(&file, text).unwrap();
        let ran = rack.run(&["serve", "--team", path, "--replica", address, "--listen", "127.0.0.1:0", "--no-open"]);
        assert!(ran.code == Some(2) && ran.stderr.contains(says), "{ran}");
    }
}

mod needs_postgres {
    use std::{
        collections::BTreeSet,
        io::{Error, ErrorKind, Read as _, Write as _},
        net::TcpStream,
        time::{Duration, Instant},
    };

    use serde_json::{Value, json};
    use toolrack_testkit::{EffectLog, Postgres, processes::wait_gone};

    use crate::{
        rack::fake,
        team::Team,
        team_approvals::{answer, call, question, rest},
        team_person::Client,
        warm::kill,
    };

    /// What a new home of a tenant may take on a loaded machine.
    const LIMIT: Duration = Duration::from_secs(60);

    /// Two replicas of a team whose server `own` writes down what it does, and of which the first is the home of `acme`.
    struct Pair {
        _server: Postgres,
        effects: EffectLog,
        first: Team,
        second: Team,
        ann: String,
    }

    impl Pair {
        fn start() -> Self {
            Self::with("")
        }

        fn with(settings: &str) -> Self {
            let (server, effects) = (Postgres::start(), EffectLog::new());
            let own = |_| vec![("own", fake(&["--log", effects.path_str()]))];
            let first = Team::of_replicas(&server.url(), settings, own);
            let ann = first.token("ann", "acme", "user").0;
            assert_eq!(write(&first, &ann, "first").0, 200);
            let second = first.another_replica();
            Self { _server: server, effects, first, second, ann }
        }

        /// The processes that ran `write` with one of these words.
        fn processes(&self, words: &[&str]) -> BTreeSet<u32> {
            let runs = self.effects.read().runs().into_iter().filter(|run| run.tool == "write");
            runs.filter(|run| words.contains(&run.args["word"].as_str().unwrap())).map(|run| run.pid).collect()
        }

        fn times(&self, word: &str) -> usize {
            self.effects.read().runs().into_iter().filter(|run| run.args["word"] == word).count()
        }
    }

    fn write(team: &Team, token: &str, word: &str) -> (u16, String) {
        let body = json!({ "tool": "own/write", "arguments": { "word": word } }).to_string();
        team.ask("POST", "/api/v1/calls", token, &body)
    }

    fn status_of(answer: &str) -> u16 {
        answer.split(' ').nth(1).unwrap().parse().unwrap()
    }

    #[test]
    fn one_replica_serves_a_tenant_and_each_replica_leads_to_it() {
        let pair = Pair::start();
        for (team, word) in [(&pair.second, "a"), (&pair.first, "b"), (&pair.second, "c")] {
            let (status, response) = write(team, &pair.ann, word);
            assert!(status == 200 && response.contains("written"), "{status}: {response}");
        }
        assert_eq!(pair.processes(&["first", "a", "b", "c"]).len(), 1);
        // The other tenant has its home at the replica that its first request reaches.
        let bob = pair.first.token("bob", "bolt", "user").0;
        for (team, word) in [(&pair.second, "d"), (&pair.first, "e")] {
            assert_eq!(write(team, &bob, word).0, 200);
        }
        assert_eq!(pair.processes(&["d", "e"]).len(), 1);
        let file = pair.first.rack.home.root().join("team/team.toml");
        let listed = pair.first.rack.run(&["team", "replicas", "--team", file.to_str().unwrap(), "--json"]);
        let listed = listed.ends_with(0).json();
        let tenants: Vec<_> =
            listed["replicas"].as_array().unwrap().iter().map(|replica| &replica["tenants"]).collect();
        assert_eq!(tenants, [1, 1], "{listed}");
        for team in [&pair.first, &pair.second] {
            assert_eq!(team.status("GET", "/api/v1/servers", "no-token"), 401);
            assert_eq!(team.status("GET", "/ready", &team.daemon.token), 200);
        }
    }

    #[test]
    fn a_session_and_its_questions_go_on_through_another_replica() {
        let pair = Pair::start();
        let client = Client::connect(&pair.second, &pair.ann, json!({ "elicitation": {} }));
        let other = client.through(&pair.first);
        let mut under_way = client.call("mcp__own__elicit", &json!({}));
        let asked = under_way.until(Some("elicitation/create"));
        other.answer(&asked, "decline");
        assert!(under_way.until(None)["result"].to_string().contains("decline"));
        let response = other.call("mcp__own__write", &json!({ "word": "other" })).until(None);
        assert_eq!(response["result"]["content"][0]["text"], "written", "{response}");
    }

    #[test]
    fn a_question_for_a_person_is_answered_once_through_any_replica() {
        let pair = Pair::with("[policy]\nconfirm = [\"own/echo\"]\n");
        let eve = pair.first.token("eve", "acme", "operator").0;
        let under_way = call(&pair.second, &pair.ann, "own/echo", json!({ "text": "hello" }));
        let asked = question(&pair.second, &eve);
        assert_eq!(question(&pair.first, &eve)["id"], asked["id"]);
        let yes = json!({ "answer": "once" });
        assert_eq!(answer(&pair.first, &eve, &asked, &yes).0, 204);
        assert_eq!(answer(&pair.second, &eve, &asked, &yes).0, 404);
        assert!(rest(under_way).contains("hello"));
    }

    #[test]
    fn another_replica_becomes_the_home_of_a_tenant_whose_replica_was_killed_and_repeats_nothing() {
        let pair = Pair::start();
        let client = Client::connect(&pair.second, &pair.ann, json!({}));
        let slow = json!({ "tool": "own/sleep", "arguments": { "ms": 60_000, "word": "slow" } }).to_string();
        let [at_once, as_stream] = ["application/json", "text/event-stream"]
            .map(|accept| pair.second.send_for(accept, ("POST", "/api/v1/calls", &pair.ann), &slow));
        let _ = pair.effects.wait_until(LIMIT, |effects| effects.runs_of("sleep") == 2);
        kill("KILL", pair.first.daemon.pid());
        let response = rest(at_once);
        assert_eq!(status_of(&response), 502, "{response}");
        assert!(response.contains("OUTCOME_UNKNOWN") && response.contains("it is not known whether"), "{response}");
        let response = rest(as_stream);
        assert!(status_of(&response) == 200 && !response.ends_with("0\r\n\r\n"), "the stream is cut off: {response}");
        // The next request waits for the new home.
        let (status, response) = write(&pair.second, &pair.ann, "after");
        assert!(status == 200 && response.contains("written"), "{status}: {response}");
        assert_ne!(pair.processes(&["first"]), pair.processes(&["after"]));
        assert_eq!((pair.times("slow"), pair.times("after")), (2, 1));
        // The session was in the process that was killed.
        let mut answer = String::new();
        let list = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
        client.sent("POST", list).read_to_string(&mut answer).unwrap();
        assert_eq!(status_of(&answer), 404, "{answer}");
    }

    #[test]
    fn a_replica_that_ends_finishes_its_calls_and_gives_up_its_homes_at_once() {
        let pair = Pair::start();
        let Pair { first, second, effects, ann, .. } = &pair;
        let slow = json!({ "tool": "own/sleep", "arguments": { "ms": 1_000 } }).to_string();
        let under_way = second.send("POST", "/api/v1/calls", ann, &slow);
        let _ = effects.wait_until(LIMIT, |effects| effects.runs_of("sleep") == 1);
        kill("TERM", first.daemon.pid());
        let response = rest(under_way);
        assert_eq!(status_of(&response), 200, "{response}");
        let from = Instant::now();
        let (status, response) = write(second, ann, "after");
        assert!(status == 200 && response.contains("written"), "{status}: {response}");
        assert!(from.elapsed() < Duration::from_secs(20), "{:?}", from.elapsed());
        assert!(wait_gone(first.daemon.pid(), LIMIT));
    }

    #[test]
    fn a_replica_that_was_frozen_serves_no_tenant_that_has_another_home_meanwhile() {
        let pair = Pair::start();
        let of_first = pair.processes(&["first"]);
        assert_eq!(write(&pair.second, &pair.ann, "before").0, 200);
        kill("STOP", pair.first.daemon.pid());
        // The connection to the frozen replica takes it, and no replica knows what becomes of it.
        let (status, response) = write(&pair.second, &pair.ann, "lost");
        assert!(status == 502 && response.contains("OUTCOME_UNKNOWN"), "{status}: {response}");
        let (status, response) = write(&pair.second, &pair.ann, "meanwhile");
        assert!(status == 200 && response.contains("written"), "{status}: {response}");
        kill("CONT", pair.first.daemon.pid());
        let (status, response) = write(&pair.first, &pair.ann, "later");
        assert!(status == 200 && response.contains("written"), "{status}: {response}");
        assert_eq!(pair.processes(&["meanwhile"]), pair.processes(&["later"]));
        assert_eq!(pair.times("lost"), 0, "the replica that woke carries out nothing of a tenant that it has lost");
        for old in of_first {
            assert!(wait_gone(old, LIMIT), "the server of the old home runs on");
        }
    }

    #[test]
    fn replicas_serve_no_tenant_while_their_database_is_away_and_all_of_them_after_it() {
        let mut pair = Pair::start();
        pair._server.stop();
        let from = Instant::now();
        while write(&pair.second, &pair.ann, "away").0 == 200 {
            assert!(from.elapsed() < LIMIT);
        }
        pair._server.start_again();
        let from = Instant::now();
        for team in [&pair.first, &pair.second] {
            while write(team, &pair.ann, "back").0 != 200 {
                assert!(from.elapsed() < LIMIT, "{}", write(team, &pair.ann, "back").1);
            }
        }
        assert_eq!(pair.processes(&["back"]).len(), 1);
    }

    #[test]
    fn only_replicas_reach_the_address_of_a_replica() {
        let pair = Pair::start();
        let rows = pair._server.rows("toolrack", Some("*"), "SELECT address FROM team_replicas");
        let addresses: Vec<_> = rows.lines().collect();
        assert_eq!(addresses.len(), 2, "{rows}");
        for address in addresses {
            let mut stream = TcpStream::connect(address.trim()).unwrap();
            stream.set_read_timeout(Some(LIMIT)).unwrap();
            let request = format!("GET /api/v1/me HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {}\r\n\r\n", pair.ann);
            let mut response = Vec::new();
            // The replica may close the connection before it has the whole request, or while the client reads.
            let ended = stream.write_all(request.as_bytes()).and_then(|()| stream.read_to_end(&mut response));
            let closed = |error: Error| matches!(error.kind(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe);
            assert!(ended.is_ok() || ended.is_err_and(closed));
            assert!(!String::from_utf8_lossy(&response).contains("HTTP"), "{response:?}");
        }
        let _: Value = serde_json::from_str(&pair.first.ask("GET", "/api/v1/me", &pair.ann, "").1).unwrap();
    }
}
