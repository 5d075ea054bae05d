//! A container engine for tests that need no real one: a client called `docker`, and a daemon.
//!
//! It behaves like Docker in the points that matter here. The daemon starts a container, so it is not below the client:
//! killing the client, or all that is below it, leaves the container behind. The client passes its stdin on, and
//! `SIGTERM`; it exits as the container does. `--rm` removes a container when it has ended. There are no images and no
//! bounds: a container is a process of this system with the environment of a container.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use tempfile::TempDir;

const CLIENT: &str = r#"#!/bin/sh
state=$DOCKER_CONFIG
echo "$*" >>"$state/calls"
verb=$1
shift
case $verb in
run)
    name= entry= names=
    while :; do
        case $1 in
        --name | --workdir) [ "$1" = --name ] && name=$2; shift 2 ;;
        --entrypoint=*) entry=${1#*=}; shift ;;
        --env=*) names="$names ${1#*=}"; shift ;;
        --*) shift ;;
        *) image=$1; shift; break ;;
        esac
    done
    case $image in
    *slow*) echo "Unable to find image '$image' locally" >&2; exec sleep 1000 ;;
    *missing*) echo "docker: Error response from daemon: pull access denied for $image" >&2; exit 125 ;;
    esac
    box=$state/containers/$name
    mkdir "$box" && mkfifo "$box/in" "$box/out" || exit 125
    for variable in $names; do
        eval "printf '%s=%s\n' $variable \"\$$variable\""
    done >"$box/env"
    printf '%s\n' "$entry" "$@" >"$box/command"
    trap 'kill -TERM $(cat "$box/pid")' TERM
    exec 3<&0
    echo "$name" >"$state/requests"
    cat "$box/out" &
    out=$!
    cat <&3 >"$box/in" &
    in=$!
    while kill -0 $out 2>/dev/null; do wait $out; done
    kill $in 2>/dev/null
    while [ -d "$box" ]; do sleep 0.01; done
    exit "$(cat "$state/codes/$name")"
    ;;
ps) ls "$state/containers" | grep -- "${4#name=}" || true ;;
rm)
    kill -KILL "$(cat "$state/containers/$3/pid")" || exit 1
    while [ -d "$state/containers/$3" ]; do sleep 0.01; done
    ;;
info) echo "28.2.2|[name=seccomp,profile=builtin name=rootless]" ;;
image) case $* in *missing* | *slow*) exit 1 ;; *) echo "fake@sha256:0123" ;; esac ;;
esac
"#;

const DAEMON: &str = r#"
state=$1
exec 3<>"$state/requests"
echo ready
while read -r name <&3; do
    (
        box=$state/containers/$name
        set --
        while IFS= read -r word; do set -- "$@" "$word"; done <"$box/command"
        # shellcheck disable=SC2046
        env -i $(cat "$box/env") "$@" <"$box/in" >"$box/out" 2>/dev/null 3<&- &
        echo $! >"$box/pid"
        wait $!
        echo $? >"$state/codes/$name"
        rm -rf "$box"
    ) &
done
"#;

/// A running daemon, and the folder with its client. Ends with this value, and its containers with it.
pub(super) struct StandIn {
    folder: TempDir,
    daemon: Child,
}

impl StandIn {
    pub(super) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        for name in ["bin", "state", "state/containers", "state/codes"] {
            fs::create_dir(path.join(name)).unwrap();
        }
        let client = path.join("bin/docker");
        fs::write(&client, CLIENT).unwrap();
        fs::set_permissions(&client, PermissionsExt::from_mode(0o755)).unwrap();
        assert!(Command::new("mkfifo").arg(path.join("state/requests")).status().unwrap().success());
        let mut daemon = Command::new("/bin/sh");
        daemon.args(["-c", DAEMON, "daemon"]).arg(path.join("state")).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut daemon = daemon.spawn().unwrap();
        let mut line = String::new();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(daemon.stdout.take().unwrap()), &mut line).unwrap();
        assert_eq!(line, "ready\n");
        Self { folder, daemon }
    }

    /// The folder of `docker`.
    pub(super) fn programs(&self) -> PathBuf {
        self.folder.path().join("bin")
    }

    /// The variable that tells the client where its daemon is.
    pub(super) fn state(&self) -> PathBuf {
        self.folder.path().join("state")
    }

    /// All command lines that clients had so far.
    pub(super) fn calls(&self) -> String {
        fs::read_to_string(self.state().join("calls")).unwrap_or_default()
    }

    /// The containers that exist, running or not.
    pub(super) fn containers(&self) -> Vec<PathBuf> {
        fs::read_dir(self.state().join("containers")).unwrap().map(|entry| entry.unwrap().path()).collect()
    }

    /// Waits until there is a container whose process runs, and returns its process id.
    pub(super) fn process(&self) -> u32 {
        let deadline = Instant::now() + Duration::from_secs(30);
        loop {
            let pid = |folder: &PathBuf| fs::read_to_string(folder.join("pid")).ok()?.trim().parse().ok();
            if let Some(pid) = self.containers().iter().find_map(pid) {
                return pid;
            }
            assert!(Instant::now() < deadline, "no container runs: {}", self.calls());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Waits until no container is there.
    pub(super) fn wait_until_empty(&self) {
        let deadline = Instant::now() + Duration::from_secs(20);
        while !self.containers().is_empty() {
            assert!(Instant::now() < deadline, "left behind: {:?}\n{}", self.containers(), self.calls());
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for StandIn {
    fn drop(&mut self) {
        for container in self.containers() {
            if let Ok(pid) = fs::read_to_string(container.join("pid")) {
                let _ = Command::new("kill").args(["-KILL", pid.trim()]).stderr(Stdio::null()).status();
            }
        }
        let _ = self.daemon.kill();
        let _ = self.daemon.wait();
    }
}

/// Whether a process of this id lives.
pub(super) fn lives(pid: u32) -> bool {
    Path::new(&format!("/proc/{pid}")).exists()
}
