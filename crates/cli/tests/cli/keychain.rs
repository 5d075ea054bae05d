//! The key to stored secrets in the keychain of the system: a program that behaves like one, and GNOME's own.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use serde_json::{Value, json};
use toolrack_testkit::fake_server_path;

use crate::rack::{Rack, fake};

const CANARY: &str = "canary-5f0e9c1d";

/// A server that gets a secret, and one that gets none.
fn servers() -> [(&'static str, Value); 2] {
    let script = "printf %s \"$KEY\" > \"$HOME/../work/got\"; exec \"$0\" stdio";
    let talker =
        json!({ "command": "sh", "args": ["-c", script, fake_server_path()], "env": { "KEY": "${secret:talker}" } });
    [("talker", talker), ("plain", fake(&[]))]
}

fn key_file(rack: &Rack) -> PathBuf {
    rack.home.root().join("toolrack/secret.key")
}

/// Whether any file of the home contains this text.
fn is_anywhere(folder: &Path, what: &str) -> bool {
    fs::read_dir(folder).unwrap().any(|entry| {
        let path = entry.unwrap().path();
        if path.is_dir() {
            return is_anywhere(&path, what);
        }
        let content = fs::read(&path).unwrap_or_default();
        content.windows(what.len()).any(|window| window == what.as_bytes())
    })
}

/// A rack with a `secret-tool` that stores items in the folder `keychain` unless a file `locked` is in it, and logs
/// each command in `asked`. A file `die` says before or after which command it kills its caller.
pub(crate) fn with_keychain() -> Rack {
    let rack = Rack::with(&servers());
    let script = r#"#!/bin/sh
cd "$(dirname "$0")"; echo "$*" >> asked
moment=
if [ -e die ]; then
  echo >> died
  read -r number moment < die
  if [ "$(wc -l < died)" -eq "$number" ]; then rm died; else moment=; fi
fi
[ "$moment" != before ] || kill -9 $PPID
if [ -e locked ]; then
  [ "$1" != search ] || echo '[/1]'
  [ "$1" != store ] || echo 'secret-tool: Cannot create an item in a locked collection' >&2
  [ "$1" = search ]; exit
fi
case $1 in
store) cat > "item-$6" ;;
lookup) cat "item-$5" 2>/dev/null ;;
search) [ ! -e "item-$5" ] || echo '[/1]' ;;
clear) rm "item-$5" 2>/dev/null ;;
esac
status=$?
[ "$moment" != after ] || kill -9 $PPID
exit $status
"#;
    let program = rack.home.write("keychain/secret-tool", script);
    fs::set_permissions(&program, fs::Permissions::from_mode(0o700)).unwrap();
    let folder = program.parent().unwrap().to_owned();
    rack.with_folder_on_path(&folder).env("DBUS_SESSION_BUS_ADDRESS", "unix:path=/nowhere")
}

fn asked(rack: &Rack) -> usize {
    let asked = fs::read_to_string(rack.home.root().join("keychain/asked")).unwrap_or_default();
    asked.lines().count()
}

#[test]
fn the_keychain_is_used_once_and_only_by_commands_that_need_a_secret() {
    let rack = with_keychain();
    let set = rack.run_with_stdin(&["secret", "set", "talker"], CANARY).ends_with(0);
    assert!(set.stderr.contains("the key to it is in the system's keychain"), "{set}");
    let before = asked(&rack);
    for words in [&["call", "plain/echo", "text=x"][..], &["secret", "list"], &["secret", "key"], &["get", "talker"]] {
        let _ = rack.run(words).ends_with(0);
    }
    assert_eq!(asked(&rack), before, "nothing of that needs the key");
    let _ = rack.run(&["call", "talker/echo", "text=x"]).ends_with(0);
    assert_eq!(rack.home.read("work/got"), CANARY);
    assert_eq!(asked(&rack), before + 1);
    let log = rack.home.read("keychain/asked");
    let file = fs::read_to_string(key_file(&rack)).unwrap();
    let id = file.trim().strip_prefix("keychain ").unwrap();
    let key = rack.home.read(format!("keychain/item-{id}"));
    assert_eq!(key.len(), 64);
    assert!(!log.contains(&key[..16]) && !file.contains(&key[..16]), "{log}");
}

#[test]
fn a_locked_keychain_is_an_error_and_never_a_reason_for_a_new_key() {
    let rack = with_keychain();
    let _ = rack.run_with_stdin(&["secret", "set", "talker"], CANARY).ends_with(0);
    let file = fs::read(key_file(&rack)).unwrap();
    let lock = rack.home.write("keychain/locked", "");
    let called = rack.run(&["call", "talker/echo", "text=x"]).ends_with(2);
    assert!(called.stderr.contains("keychain is locked") && called.stderr.contains("secret.key"), "{called}");
    for words in [&["secret", "set", "other"][..], &["secret", "key", "--move", "file"]] {
        let refused = rack.run_with_stdin(words, "value").ends_with(1);
        assert!(refused.stderr.contains("keychain is locked"), "{refused}");
    }
    let doctor = rack.run(&["doctor", "--offline"]).ends_with(1);
    assert!(doctor.stdout.contains("keychain is locked"), "{doctor}");
    let _ = rack.run(&["call", "plain/echo", "text=x"]).ends_with(0);
    assert_eq!(fs::read(key_file(&rack)).unwrap(), file);
    fs::remove_file(lock).unwrap();
    let _ = rack.run(&["call", "talker/echo", "text=x"]).ends_with(0);
    assert_eq!(rack.home.read("work/got"), CANARY);
}

#[test]
fn a_key_that_the_keychain_refuses_stays_in_the_file_with_a_warning() {
    let rack = with_keychain();
    rack.home.write("keychain/locked", "");
    let set = rack.run_with_stdin(&["secret", "set", "talker"], CANARY).ends_with(0);
    assert!(set.stderr.contains("secret.key: the keychain is locked"), "{set}");
    let _ = rack.run(&["call", "talker/echo", "text=x"]).ends_with(0);
    assert_eq!(rack.home.read("work/got"), CANARY);
    assert_eq!(rack.run(&["secret", "key", "--json"]).ends_with(0).json()["source"], "file");
}

#[test]
fn the_key_moves_both_ways_and_is_then_nowhere_else() {
    let rack = with_keychain();
    let made = rack.run(&["secret", "key", "--move", "file", "--json"]).ends_with(0).json();
    assert_eq!((&made["source"], &made["moved"]), (&json!("file"), &json!(true)));
    let key = fs::read_to_string(key_file(&rack)).unwrap().trim().to_owned();
    assert_eq!(key.len(), 64);
    let _ = rack.run_with_stdin(&["secret", "set", "talker"], CANARY).ends_with(0);
    for (place, source) in [("keychain", "keychain"), ("file", "file"), ("keychain", "keychain")] {
        let moved = rack.run(&["secret", "key", "--move", place, "--json"]).ends_with(0).json();
        assert_eq!((&moved["source"], &moved["moved"]), (&json!(source), &json!(true)));
        let again = rack.run(&["secret", "key", "--move", place, "--json"]).ends_with(0).json();
        assert_eq!(again["moved"], false);
        let _ = rack.run(&["call", "talker/echo", "text=x"]).ends_with(0);
        assert_eq!(rack.home.read("work/got"), CANARY);
        fs::remove_file(rack.home.work().join("got")).unwrap();
        let home = rack.home.root();
        assert_eq!(is_anywhere(&home.join("toolrack"), &key), place == "file");
        assert_eq!(is_anywhere(&home.join("keychain"), &key), place == "keychain");
    }
    let fixed = rack.env("TOOLRACK_SECRET_KEY", "7a".repeat(32));
    let refused = fixed.run(&["secret", "key", "--move", "file"]).ends_with(1);
    assert!(refused.stderr.contains("TOOLRACK_SECRET_KEY"), "{refused}");
}

/// `gnome-keyring-daemon`, `secret-tool` and `dbus-run-session`.
mod needs_keychain {
    use std::{
        io::{BufRead as _, BufReader},
        process::{Child, Command, Stdio},
    };

    use super::*;

    /// A session of D-Bus with GNOME's keychain in it, which ends with this value.
    struct Session {
        bus: Child,
        address: String,
    }

    impl Session {
        /// One whose keychain is open.
        fn open(rack: &Rack) -> Self {
            let script = "printf password | gnome-keyring-daemon --unlock --components=secrets >&2
                echo \"$DBUS_SESSION_BUS_ADDRESS\"; read end";
            let mut bus = rack.home.command("dbus-run-session");
            bus.args(["--", "sh", "-c", script]).env("XDG_RUNTIME_DIR", rack.home.root());
            let bus = bus.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
            let mut bus = bus.expect("Debian's packages dbus, gnome-keyring and libsecret-tools are not installed");
            let mut address = String::new();
            BufReader::new(bus.stdout.take().unwrap()).read_line(&mut address).unwrap();
            assert!(address.contains("unix:"), "no session of D-Bus: {address}");
            Self { bus, address: address.trim().to_owned() }
        }

        fn set_environment(&self, rack: &Rack, command: &mut Command) {
            let _ = command.env("DBUS_SESSION_BUS_ADDRESS", &self.address).env("XDG_RUNTIME_DIR", rack.home.root());
        }

        fn lock(&self, rack: &Rack) {
            let mut lock = rack.home.command("dbus-send");
            self.set_environment(rack, &mut lock);
            let service = "org.freedesktop.Secret.Service.Lock";
            let name = "--dest=org.freedesktop.secrets";
            let collection = "array:objpath:/org/freedesktop/secrets/collection/login";
            lock.args(["--session", "--print-reply", name, "/org/freedesktop/secrets", service, collection]);
            assert!(lock.stdout(Stdio::null()).status().unwrap().success());
        }
    }

    impl Drop for Session {
        fn drop(&mut self) {
            // The shell ends at the end of its stdin, and the bus ends with it.
            drop(self.bus.stdin.take());
            let _ = self.bus.wait();
        }
    }

    #[test]
    fn gnomes_keychain_keeps_the_key_and_once_locked_gives_nothing() {
        let rack = Rack::with(&servers());
        let session = Session::open(&rack);
        let rack = rack.env("DBUS_SESSION_BUS_ADDRESS", session.address.as_str());
        let set = rack.run_with_stdin(&["secret", "set", "talker"], CANARY).ends_with(0);
        assert!(set.stderr.contains("the key to it is in the system's keychain"), "{set}");
        let _ = rack.run(&["call", "talker/echo", "text=x"]).ends_with(0);
        assert_eq!(rack.home.read("work/got"), CANARY);
        let doctor = rack.run(&["doctor", "--offline"]).ends_with(0);
        assert!(doctor.stdout.contains("the system's keychain"), "{doctor}");

        let _ = rack.run(&["secret", "key", "--move", "file"]).ends_with(0);
        let key = fs::read_to_string(key_file(&rack)).unwrap().trim().to_owned();
        let _ = rack.run(&["secret", "key", "--move", "keychain"]).ends_with(0);
        assert!(!is_anywhere(rack.home.root(), &key), "not in its file either, which is sealed");
        fs::remove_file(rack.home.work().join("got")).unwrap();
        let _ = rack.run(&["call", "talker/echo", "text=x"]).ends_with(0);
        assert_eq!(rack.home.read("work/got"), CANARY);

        session.lock(&rack);
        let called = rack.run(&["call", "talker/echo", "text=x"]).ends_with(2);
        assert!(called.stderr.contains("the keychain is locked"), "{called}");
        let set = rack.run_with_stdin(&["secret", "set", "other"], "value").ends_with(1);
        assert!(set.stderr.contains("the keychain is locked"), "{set}");
        let elsewhere = rack.env("DBUS_SESSION_BUS_ADDRESS", "");
        let called = elsewhere.run(&["call", "talker/echo", "text=x"]).ends_with(2);
        assert!(called.stderr.contains("there is no keychain"), "{called}");
    }
}

#[test]
fn without_a_keychain_the_key_stays_with_one_warning() {
    let rack = Rack::new();
    let _ = rack.run_with_stdin(&["secret", "set", "github"], "canary-12345").ends_with(0);
    let refused = rack.run(&["secret", "key", "--move", "keychain"]).ends_with(1);
    assert_eq!(refused.stderr.matches("there is no keychain").count(), 1, "{refused}");
    assert!(refused.stderr.contains("the key was not put there"), "{refused}");
    assert!(rack.run(&["secret", "key"]).ends_with(0).stdout.contains("secret.key"));
}
