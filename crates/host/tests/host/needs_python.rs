//! Real servers from PyPI.

use std::{path::Path, process::Command};

use serde_json::{Value, json};
use toolrack_host::{ServerSpec, spec::Transport};
use toolrack_testkit::Home;

use crate::{
    programs::python,
    worlds::{call, host_of, selectors, text},
};

/// A server that finds `git`, but does not read the configuration of this machine.
fn server(program: &str, args: &[&str], home: &Home) -> ServerSpec {
    let mut spec = ServerSpec::stdio(python(program), args.iter().copied());
    let Transport::Stdio(stdio) = &mut spec.transport else { panic!("not stdio") };
    stdio.env.insert("PATH".into(), path());
    stdio.env.insert("HOME".into(), home.home().to_str().unwrap().to_owned());
    spec
}

#[expect(clippy::disallowed_methods, reason = "git is where the machine has it")]
fn path() -> String {
    std::env::var("PATH").unwrap()
}

fn git(home: &Home, folder: &Path, args: &[&str]) {
    let mut command = home.command("git");
    command.current_dir(folder).args(["-c", "user.name=Ada", "-c", "user.email=ada@example.com"]).args(args);
    assert_eq!(run(command), "", "git {args:?}");
}

fn run(mut command: Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[tokio::test]
async fn the_git_tool_shows_committed_and_uncommitted_changes() {
    let home = Home::new();
    home.write("work/repo/poem.txt", "one\n");
    let folder = home.work().join("repo");
    git(&home, &folder, &["init", "--quiet", "--initial-branch=main"]);
    git(&home, &folder, &["add", "."]);
    git(&home, &folder, &["commit", "--quiet", "--message=begin a poem"]);
    home.write("work/repo/poem.txt", "one\ntwo\n");
    let repo = folder.to_str().unwrap();

    let host = host_of([("git", server("mcp-server-git", &["--repository", repo], &home))]).await;
    let log = text(&host, "git/git_log", json!({"repo_path": repo, "max_count": 5})).await;
    assert!(log.contains("begin a poem"), "{log}");
    let diff = text(&host, "git/git_diff_unstaged", json!({"repo_path": repo})).await;
    assert!(diff.contains("+two"), "{diff}");
    text(&host, "git/git_add", json!({"repo_path": repo, "files": ["poem.txt"]})).await;
    let staged = text(&host, "git/git_diff_staged", json!({"repo_path": repo})).await;
    assert!(staged.contains("+two"), "{staged}");

    let elsewhere = call(&host, "git/git_log", json!({"repo_path": home.home()})).await.unwrap();
    assert!(elsewhere.is_error, "{}", elsewhere.text);
    host.shutdown().await;
}

#[tokio::test]
async fn the_time_tool_tells_and_converts_time() {
    let home = Home::new();
    let host = host_of([("time", server("mcp-server-time", &["--local-timezone", "Europe/Zurich"], &home))]).await;
    assert_eq!(selectors(&host), ["time/convert_time", "time/get_current_time"]);
    let now: Value =
        serde_json::from_str(&text(&host, "time/get_current_time", json!({"timezone": "UTC"})).await).unwrap();
    assert_eq!(now["timezone"], "UTC");
    let question = json!({"source_timezone": "Asia/Tokyo", "time": "12:00", "target_timezone": "Asia/Kolkata"});
    let converted: Value = serde_json::from_str(&text(&host, "time/convert_time", question).await).unwrap();
    assert!(converted["target"]["datetime"].as_str().unwrap().contains("T08:30"), "{converted}");
    host.shutdown().await;
}
