//! Headers that a program of the entry prints.

#![expect(clippy::disallowed_methods, reason = "what the program reads, and what it leaves behind, are files")]

use std::path::{Path, PathBuf};

use futures::future::join_all;
use serde_json::json;
use tempfile::TempDir;
use toolrack_host::{
    Host, ServerSpec, State,
    spec::{Stdio, Transport},
};
use toolrack_testkit::{FakeHttp, authorization::FakeAuthorization};

use crate::worlds::{call, host_of, soon, status};

/// A server that requires a key, and a program that prints it.
struct Keyed {
    server: FakeAuthorization,
    folder: TempDir,
}

impl Keyed {
    fn new() -> Self {
        Self::with(FakeAuthorization::start([]))
    }

    fn with(server: FakeAuthorization) -> Self {
        let keyed = Self { server, folder: tempfile::tempdir().unwrap() };
        keyed.new_key();
        keyed
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Replaces the key.
    fn new_key(&self) -> String {
        self.server.expire_access_tokens();
        let key = self.server.issue_token();
        std::fs::write(self.file("key"), &key).unwrap();
        key
    }

    fn runs(&self) -> usize {
        std::fs::read_to_string(self.file("runs")).unwrap_or_default().lines().count()
    }

    /// The program notes that it runs and for whom, then does what `script` says: `$1` is its folder.
    fn spec(&self, script: &str) -> ServerSpec {
        let mut spec = ServerSpec::http(self.server.mcp_url());
        spec.retry.attempts = 0;
        let script = format!("echo \"$TOOLRACK_SERVER_NAME $CLAUDE_CODE_MCP_SERVER_URL\" >> \"$1/runs\"; {script}");
        let folder = self.folder.path().to_str().unwrap();
        let Transport::Http(http) = &mut spec.transport else { panic!("not HTTP") };
        http.headers_helper = Some(Box::new(Stdio {
            command: "/bin/sh".to_owned(),
            args: ["-c", &script, "sh", folder].map(str::to_owned).into(),
            ..Stdio::default()
        }));
        spec
    }
}

const PLAIN: &str = r#"printf '{"Authorization":"Bearer %s"}' "$(/bin/cat "$1/key")""#;

async fn echo(host: &Host) -> Result<(), String> {
    let answer = call(host, "keyed/echo", json!({ "text": "x" })).await;
    answer.map(drop).map_err(|error| error.to_string())
}

#[tokio::test]
async fn a_program_is_run_once_for_a_connection_and_once_more_when_its_key_is_refused() {
    let keyed = Keyed::new();
    let host = host_of([("keyed", keyed.spec(PLAIN))]).await;
    for answer in join_all((0..20).map(|_| echo(&host))).await {
        answer.unwrap();
    }
    assert_eq!(keyed.runs(), 1);
    let output = std::fs::read_to_string(keyed.file("runs")).unwrap();
    assert_eq!(output.trim(), format!("keyed {}", keyed.server.mcp_url()));

    // Twenty calls discover at the same time that the key is no longer valid.
    keyed.new_key();
    for answer in join_all((0..20).map(|_| echo(&host))).await {
        answer.unwrap();
    }
    assert_eq!(keyed.runs(), 2);

    // The program has no new key: it runs once, and the call fails.
    keyed.server.expire_access_tokens();
    let refused = echo(&host).await.unwrap_err();
    assert!(refused.contains("refuses the headers of `headers_helper`") && refused.contains("HTTP 401"), "{refused}");
    assert_eq!(keyed.runs(), 3);

    // The next call connects again, with what the program prints by then.
    keyed.new_key();
    echo(&host).await.unwrap();
    assert_eq!(keyed.runs(), 4);
    host.shutdown().await;
}

#[tokio::test]
async fn a_server_that_refused_the_first_headers_is_tried_again_after_a_call() {
    let keyed = Keyed::new();
    keyed.server.expire_access_tokens();
    let host = host_of([("keyed", keyed.spec(PLAIN))]).await;
    keyed.new_key();
    let refused = echo(&host).await.unwrap_err();
    assert!(refused.contains("refuses the headers of `headers_helper`"), "{refused}");
    soon("a call of the new connection", async {
        while echo(&host).await.is_err() {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    })
    .await;
    host.shutdown().await;
}

#[tokio::test]
async fn a_program_that_is_slower_than_the_probe_for_the_era_hides_no_modern_server() {
    let keyed = Keyed::with(FakeAuthorization::in_front_of(FakeHttp::start(&["--era", "modern"]), []));
    let mut spec = keyed.spec(&format!("/bin/sleep 0.5; {PLAIN}"));
    let Transport::Http(http) = &mut spec.transport else { panic!("not HTTP") };
    http.probe_timeout = std::time::Duration::from_millis(50);
    let host = host_of([("keyed", spec)]).await;
    echo(&host).await.unwrap();
    host.shutdown().await;
}

#[tokio::test]
async fn headers_are_cached_until_the_expiry_that_the_helper_prints() {
    for (seconds, again) in [(3_600, 0), (0, 3)] {
        let keyed = Keyed::new();
        let timed = format!(
            r#"printf '{{"headers":{{"Authorization":"Bearer %s"}},"expires_in":{seconds}}}' "$(/bin/cat "$1/key")""#
        );
        let host = host_of([("keyed", keyed.spec(&timed))]).await;
        let before = keyed.runs();
        for _ in 0..3 {
            echo(&host).await.unwrap();
        }
        assert_eq!(keyed.runs() - before, again, "{seconds}");
        host.shutdown().await;
    }
}

#[tokio::test]
async fn the_error_of_a_failed_program_has_the_end_of_its_stderr() {
    for (script, why) in [
        ("echo 'log in to the vault first' >&2; exit 3", "exit status 3; its last words: log in to the vault first"),
        ("echo canary", "did not print a JSON object"),
        ("/usr/bin/yes canary", "more than 64 KiB"),
        ("exec /nowhere/at-all", "exit status 127"),
    ] {
        let keyed = Keyed::new();
        let host = host_of([("keyed", keyed.spec(script))]).await;
        let state = format!("{:?}", status(&host, "keyed").state);
        assert!(state.contains(why) && !state.contains("canary"), "{script}: {state}");
        let refused = echo(&host).await.unwrap_err();
        assert!(!refused.contains("canary"), "{refused}");
        assert_eq!(keyed.server.counts().admitted, 0);
        host.shutdown().await;
    }
    let keyed = Keyed::new();
    let mut spec = keyed.spec("");
    if let Transport::Http(http) = &mut spec.transport
        && let Some(helper) = &mut http.headers_helper
    {
        helper.command = "/nowhere/at-all".to_owned();
    }
    let host = host_of([("keyed", spec)]).await;
    let state = format!("{:?}", status(&host, "keyed").state);
    assert!(state.contains("headers_helper") && state.contains("/nowhere/at-all"), "{state}");
    host.shutdown().await;
}

#[tokio::test]
async fn a_program_that_hangs_is_ended_with_its_children() {
    let keyed = Keyed::new();
    let mut spec = keyed.spec("/bin/sleep 300 & echo $! > \"$1/child\"; wait");
    spec.timeouts.startup = std::time::Duration::from_millis(500);
    let host = host_of([("keyed", spec)]).await;
    assert!(!matches!(status(&host, "keyed").state, State::Connected { .. }));
    let child = std::fs::read_to_string(keyed.file("child")).unwrap();
    let alive = PathBuf::from("/proc").join(child.trim());
    soon("the end of the child", async {
        while is_running(&alive) {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    })
    .await;
    host.shutdown().await;
}

/// Returns whether a process exists and is not a zombie.
fn is_running(folder: &Path) -> bool {
    std::fs::read_to_string(folder.join("stat")).is_ok_and(|stat| !stat.contains(") Z "))
}

#[tokio::test]
async fn what_waits_for_approval_runs_nothing() {
    let keyed = Keyed::new();
    let mut spec = keyed.spec(PLAIN);
    spec.trust = toolrack_host::spec::Trust::Pending;
    let host = host_of([("keyed", spec)]).await;
    assert!(echo(&host).await.is_err());
    assert_eq!(keyed.runs(), 0);
    host.shutdown().await;
}
