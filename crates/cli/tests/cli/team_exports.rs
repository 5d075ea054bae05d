//! `[audit_export]` of a team file: audit logs leave the database by themselves, and `audit verify-export` checks them.

use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use serde_json::Value;

use crate::{rack::fake, team::Team};

/// Enough for a loaded machine; a round takes a second.
const LIMIT: Duration = Duration::from_secs(30);

/// Made with `openssl genpkey -algorithm ed25519`.
const KEY: &str = r"-----BEGIN PRIVATE KEY-----
MC4CAQAwBQYDK2VwBCIEIPCMr14KjPAYDlZ0YqBZVozQseNWpRtN8SWzm7+hyxAR
-----END PRIVATE KEY-----
";

/// Made with `openssl pkey -pubout`.
const PUBLIC_KEY: &str = r"-----BEGIN PUBLIC KEY-----
MCowBQYDK2VwAyEAxqFe3OTpoDLeYe7VyW52e6V0SY7uPBqWHTEdP/bBh4M=
-----END PUBLIC KEY-----
";

/// Another one, and its public half.
const OTHER_KEY: &str = r"-----BEGIN PRIVATE KEY-----
MC4CAQAwBQYDK2VwBCIEIBui53Ksu9aAEBXty8HchgQ8IGsxS24fUtfwr3KlIinL
-----END PRIVATE KEY-----
";

const OTHER_PUBLIC_KEY: &str = r"-----BEGIN PUBLIC KEY-----
MCowBQYDK2VwAyEAm7CNaCxra4kSNiA6FZWHDAllQ6bzHJLU0ofb4l1n7XM=
-----END PUBLIC KEY-----
";

/// The folder to which the team exports.
fn folder(team: &Team) -> PathBuf {
    team.rack.home.root().join("exported")
}

/// Adds the export to the team file, once a second.
fn with_export(team: &Team, to: &str, more: &str) {
    let path = team.rack.home.root().join("team/team.toml");
    let mut file = fs::read_to_string(&path).unwrap();
    file += &format!("[audit_export]\nto = \"{to}\"\nsigning_key = \"${{secret:audit-key}}\"\nevery = \"1s\"\n{more}");
    fs::write(path, file).unwrap();
    set_secret(team, "audit-key", KEY);
}

fn in_folder(team: Team) -> Team {
    with_export(&team, &format!("file://{}", folder(&team).display()), "retries = 1\nretry_after = \"200ms\"\n");
    team.restarted()
}

fn key_file(team: &Team, key: &str) -> String {
    let name = if key == PUBLIC_KEY { "audit.pub" } else { "other.pub" };
    let path = team.rack.home.root().join(name);
    fs::write(&path, key).unwrap();
    path.to_str().unwrap().to_owned()
}

/// `audit verify-export --json` of the folder.
fn verified(team: &Team) -> Value {
    let key = key_file(team, PUBLIC_KEY);
    let folder = folder(team);
    team.rack.run(&["audit", "verify-export", folder.to_str().unwrap(), "--key", &key, "--json"]).json()
}

fn log<'a>(verified: &'a Value, name: &str) -> Option<&'a Value> {
    verified["logs"].as_array()?.iter().find(|log| log["log"] == name)
}

/// Waits until so many rows of a log are exported.
fn exported(team: &Team, name: &str, rows: u64) -> Value {
    let started = Instant::now();
    loop {
        let found = verified(team);
        if log(&found, name).is_some_and(|log| log["rows"].as_u64() >= Some(rows)) {
            return found;
        }
        assert!(started.elapsed() < LIMIT, "{found}");
    }
}

/// Gives a secret another value.
fn set_secret(team: &Team, name: &str, value: &str) {
    let _ = team.rack.run_with_stdin(&["secret", "set", name], value).ends_with(0);
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<_> = fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()).collect();
    files.sort();
    files
}

fn metric(team: &Team, name: &str) -> f64 {
    let (status, page) = team.ask("GET", "/metrics", &team.daemon.token, "");
    assert_eq!(status, 200, "{page}");
    let line = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')).unwrap();
    line.parse().unwrap()
}

#[test]
fn audit_logs_of_a_team_are_exported_and_verified_without_the_database() {
    let team = in_folder(Team::with(|tenant| vec![(tenant, fake(&[]))]));
    let (ann, _) = team.token("ann", "acme", "user");
    assert!(team.call(&ann, "mcp__acme__add", r#"{"a":20,"b":22}"#).contains("42"));
    let found = exported(&team, "tenants/acme", 2);
    assert_eq!((&found["ok"], log(&found, "tenants/bolt")), (&Value::Bool(true), None), "{found}");
    let team_log = exported(&team, "team", 2);
    assert!(log(&team_log, "team").unwrap()["heads"].as_u64() >= Some(1));

    // After another start, it goes on where it was.
    let rows = log(&found, "tenants/acme").unwrap()["rows"].as_u64().unwrap();
    let team = team.restarted();
    assert!(team.call(&ann, "mcp__acme__add", r#"{"a":20,"b":22}"#).contains("42"));
    let found = exported(&team, "tenants/acme", rows + 2);
    assert!(found["ok"] == true && log(&found, "tenants/acme").unwrap()["heads"].as_u64() >= Some(2), "{found}");
    let (folder, key) = (folder(&team), key_file(&team, PUBLIC_KEY));
    let page = team.rack.run(&["audit", "verify-export", folder.to_str().unwrap(), "--key", &key]).ends_with(0);
    assert!(page.stdout.contains("tenants/acme:") && page.stderr.is_empty(), "{page}");
    let unkeyed = team.rack.run(&["audit", "verify-export", folder.to_str().unwrap()]).ends_with(0);
    assert!(unkeyed.stderr.contains("the keys are those in the folder itself"), "{unkeyed}");
    let other = key_file(&team, OTHER_PUBLIC_KEY);
    let other = team.rack.run(&["audit", "verify-export", folder.to_str().unwrap(), "--key", &other]).ends_with(1);
    assert!(other.stderr.contains("is signed with another key"), "{other}");

    // The rows are those that the tenant's own log prints.
    let home = team.rack.home.root().join("team/tenants/acme");
    let first = &files(&folder.join("tenants/acme/rows"))[0];
    let lines = fs::read_to_string(first).unwrap();
    let printed = team.rack.command(&["audit", "export"]).env("TOOLRACK_HOME", &home).output().unwrap();
    let printed = String::from_utf8(printed.stdout).unwrap();
    assert!(printed.starts_with(&lines), "{lines}\n{printed}");

    drop(team.daemon);
    let changed = lines.replacen("connected", "connecteD", 1);
    assert_ne!(changed, lines);
    fs::remove_file(first).unwrap();
    fs::write(first, changed).unwrap();
    let damaged = team.rack.run(&["audit", "verify-export", folder.to_str().unwrap(), "--key", &key]).ends_with(1);
    let name = first.strip_prefix(&folder).unwrap().to_str().unwrap();
    assert!(damaged.stdout.contains(&format!("bad: {name} is not what was signed")), "{damaged}");
    let empty = team.rack.run(&["audit", "verify-export", home.to_str().unwrap(), "--key", &key]).ends_with(1);
    assert!(empty.stderr.contains("no exported audit logs"), "{empty}");
}

#[test]
fn a_place_that_is_away_keeps_no_member_from_working_and_counts_as_a_failure() {
    let team = in_folder(Team::with(|tenant| vec![(tenant, fake(&[]))]));
    let (ann, _) = team.token("ann", "acme", "user");
    let folder = folder(&team);
    let _ = exported(&team, "team", 1);
    assert!(metric(&team, "toolrack_audit_export_age_seconds") < 30.0);
    // A file where the folder of the tenants would be.
    fs::write(folder.join("tenants"), "").unwrap();
    assert!(team.call(&ann, "mcp__acme__add", r#"{"a":20,"b":22}"#).contains("42"));
    let started = Instant::now();
    while metric(&team, "toolrack_audit_export_failures_total") == 0.0 {
        assert!(started.elapsed() < LIMIT);
    }
    assert!(metric(&team, "toolrack_audit_export_rows_behind") > 0.0);
    assert_eq!(team.status("GET", "/ready", ""), 200);
    let (status, page) = team.ask("GET", "/metrics", &team.token("sam", "acme", "scraper").0, "");
    assert!(status == 200 && !page.contains("audit_export"), "that is for the operator of the machine: {page}");
    fs::remove_file(folder.join("tenants")).unwrap();
    let found = exported(&team, "tenants/acme", 2);
    assert_eq!(found["ok"], true, "{found}");
}

#[test]
fn a_signing_key_that_changes_while_the_daemon_runs_signs_the_next_heads() {
    let team = in_folder(Team::with(|tenant| vec![(tenant, fake(&[]))]));
    let (ann, _) = team.token("ann", "acme", "user");
    assert!(team.call(&ann, "mcp__acme__add", r#"{"a":20,"b":22}"#).contains("42"));
    let rows = log(&exported(&team, "tenants/acme", 2), "tenants/acme").unwrap()["rows"].as_u64().unwrap();
    set_secret(&team, "audit-key", OTHER_KEY);
    // A round may have begun before; there is a key for each in the folder.
    let started = Instant::now();
    while files(&folder(&team).join("keys")).len() < 2 {
        assert!(started.elapsed() < LIMIT, "the new key signs nothing");
        assert!(team.call(&ann, "mcp__acme__add", r#"{"a":20,"b":22}"#).contains("42"));
    }
    assert!(team.call(&ann, "mcp__acme__add", r#"{"a":20,"b":22}"#).contains("42"));
    let (folder, keys) = (folder(&team), [PUBLIC_KEY, OTHER_PUBLIC_KEY].map(|key| key_file(&team, key)));
    let with = |keys: &[&str]| {
        let keys = keys.iter().flat_map(|key| ["--key", *key]);
        let words: Vec<_> =
            ["audit", "verify-export", folder.to_str().unwrap(), "--json"].into_iter().chain(keys).collect();
        team.rack.run(&words).json()
    };
    let [one, other] = keys.each_ref().map(String::as_str);
    loop {
        let found = with(&[one, other]);
        if log(&found, "tenants/acme").is_some_and(|log| log["rows"].as_u64() > Some(rows)) {
            assert_eq!(found["ok"], true, "{found}");
            break;
        }
        assert!(started.elapsed() < LIMIT, "{found}");
    }
    let (former, present) = (with(&[one]), with(&[other]));
    assert_eq!((&former["ok"], &present["ok"]), (&Value::Bool(false), &Value::Bool(false)), "{former} {present}");
}

#[test]
fn an_export_with_a_key_that_signs_nothing_starts_nothing() {
    let team = Team::with(|tenant| vec![(tenant, fake(&[]))]);
    with_export(&team, "file:///srv/audit", "");
    let file = team.rack.home.root().join("team/team.toml");
    let words = ["serve", "--listen", "127.0.0.1:0", "--no-open", "--team", file.to_str().unwrap()];
    for (key, why) in
        [("not a key", "`signing_key` is no private key"), (PUBLIC_KEY, "`signing_key` is no private key")]
    {
        let _ = team.rack.run_with_stdin(&["secret", "set", "audit-key"], key).ends_with(0);
        let refused = team.rack.run(&words).ends_with(2);
        assert!(refused.stderr.contains(why) && refused.stderr.contains("[audit_export]"), "{refused}");
    }
    let _ = team.rack.run(&["secret", "remove", "audit-key"]).ends_with(0);
    let refused = team.rack.run(&words).ends_with(2);
    assert!(refused.stderr.contains("audit_export.signing_key"), "{refused}");
}

#[test]
fn a_bucket_whose_credentials_are_not_there_starts_nothing_and_no_value_is_shown() {
    let team = Team::with(|tenant| vec![(tenant, fake(&[]))]);
    let s3 = "[audit_export.s3]\nregion = \"eu-central-1\"\naccess_key_id = \"${secret:s3-id}\"\n\
              secret_access_key = \"${secret:s3-key}\"\n";
    with_export(&team, "s3://acme-audit/tools", s3);
    let file = team.rack.home.root().join("team/team.toml");
    let words = ["serve", "--listen", "127.0.0.1:0", "--no-open", "--team", file.to_str().unwrap()];
    set_secret(&team, "s3-id", "AKIAIOSFODNN7EXAMPLE");
    let refused = team.rack.run(&words).ends_with(2);
    assert!(refused.stderr.contains("audit_export.s3.secret_access_key"), "{refused}");
    set_secret(&team, "s3-key", "  ");
    let refused = team.rack.run(&words).ends_with(2);
    assert!(refused.stderr.contains("`secret_access_key` of `[audit_export.s3]` is empty"), "{refused}");
    assert!(!refused.stderr.contains("AKIAIOSFODNN7EXAMPLE"), "{refused}");
}

mod needs_s3 {
    use std::{
        collections::BTreeMap,
        io::{BufRead as _, BufReader},
        process::{Child, Command, Stdio},
    };

    use super::*;
    use crate::rack::{Rack, installed};

    const BUCKET: &str = "acme-audit";

    /// moto, a program from PyPI that speaks S3, with one bucket. It ends with this value.
    struct Moto {
        server: Child,
        address: String,
    }

    impl Moto {
        fn start() -> Self {
            let mut server = script(&["serve", BUCKET]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
            let mut line = String::new();
            BufReader::new(server.stdout.take().unwrap()).read_line(&mut line).unwrap();
            let address = line.trim().to_owned();
            assert!(address.starts_with("http://127.0.0.1:"), "S3 is not served: {line:?}");
            Self { server, address }
        }

        fn ask(&self, verb: &str, word: &str) -> String {
            let asked = script(&[verb, &self.address, BUCKET, word]).output().unwrap();
            assert!(asked.status.success(), "{}", String::from_utf8_lossy(&asked.stderr));
            String::from_utf8(asked.stdout).unwrap()
        }

        /// A team that exports to the bucket, with credentials that are secrets.
        fn exporting(&self) -> Team {
            let team = Team::with(|tenant| vec![(tenant, fake(&[]))]);
            let s3 = format!(
                "retry_after = \"200ms\"\n[audit_export.s3]\nendpoint = \"{}\"\naccess_key_id = \"${{secret:s3-id}}\"\n\
                 secret_access_key = \"${{secret:s3-key}}\"\n",
                self.address
            );
            with_export(&team, &format!("s3://{BUCKET}/tools"), &s3);
            set_secret(&team, "s3-id", "AKIAIOSFODNN7EXAMPLE");
            set_secret(&team, "s3-key", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY");
            team.restarted()
        }

        /// Downloads the bucket; returns the folder of the export.
        fn downloaded(&self, rack: &Rack) -> PathBuf {
            let to = rack.home.root().join("downloaded");
            if to.exists() {
                fs::remove_dir_all(&to).unwrap();
            }
            fs::create_dir(&to).unwrap();
            self.ask("download", to.to_str().unwrap());
            to.join("tools")
        }

        /// Downloads until so many rows of the log of `acme` are there; returns what `audit verify-export` says.
        fn exported(&self, team: &Team, rows: u64) -> Value {
            let (started, key) = (Instant::now(), key_file(team, PUBLIC_KEY));
            loop {
                let folder = self.downloaded(&team.rack);
                let words = ["audit", "verify-export", folder.to_str().unwrap(), "--key", &key, "--json"];
                let found = team.rack.run(&words).json();
                if log(&found, "tenants/acme").is_some_and(|log| log["rows"].as_u64() >= Some(rows)) {
                    return found;
                }
                assert!(started.elapsed() < 2 * LIMIT, "{found}");
            }
        }
    }

    impl Drop for Moto {
        fn drop(&mut self) {
            let _ended_already = self.server.kill();
            let _reaped_already = self.server.wait();
        }
    }

    fn script(words: &[&str]) -> Command {
        let mut command = Command::new(installed("TOOLRACK_TEST_S3", ".cache/s3").join("bin/python"));
        command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/s3/s3.py")).args(words);
        // The service is on this machine, whatever the environment says of proxies and of AWS.
        command
            .env("NO_PROXY", "127.0.0.1")
            .env("AWS_CONFIG_FILE", "/dev/null")
            .env("AWS_EC2_METADATA_DISABLED", "true");
        command
    }

    /// The content of each file of the heads of all logs.
    fn heads(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
        let folders = ["team/heads", "tenants/acme/heads"].map(|name| folder.join(name));
        let files = folders.iter().filter(|folder| folder.exists()).flat_map(|folder| files(folder));
        files.map(|file| (file.strip_prefix(folder).unwrap().to_owned(), fs::read(file).unwrap())).collect()
    }

    #[test]
    fn audit_logs_in_a_locked_bucket_are_verified_from_a_copy_and_a_changed_object_is_found() {
        let service = Moto::start();
        let team = service.exporting();
        let (ann, _) = team.token("ann", "acme", "user");
        assert!(team.call(&ann, "mcp__acme__add", r#"{"a":20,"b":22}"#).contains("42"));
        let found = service.exported(&team, 2);
        assert_eq!(found["ok"], true, "{found}");
        let rows = log(&found, "tenants/acme").unwrap()["rows"].as_u64().unwrap();

        // After another start, it goes on where it was.
        let team = team.restarted();
        assert!(team.call(&ann, "mcp__acme__add", r#"{"a":20,"b":22}"#).contains("42"));
        let found = service.exported(&team, rows + 2);
        assert!(found["ok"] == true && log(&found, "tenants/acme").unwrap()["heads"].as_u64() >= Some(2), "{found}");
        assert_eq!(metric(&team, "toolrack_audit_export_failures_total"), 0.0);

        let folder = service.downloaded(&team.rack);
        let first =
            files(&folder.join("tenants/acme/rows"))[0].strip_prefix(&folder).unwrap().to_str().unwrap().to_owned();
        let erased = service.ask("erase", &format!("tools/{first}"));
        assert!(erased.contains("AccessDenied"), "Object Lock holds what was written: {erased:?}");
        service.ask("change", &format!("tools/{first}"));
        let (folder, key) = (service.downloaded(&team.rack), key_file(&team, PUBLIC_KEY));
        let words = ["audit", "verify-export", folder.to_str().unwrap(), "--key", &key];
        let changed = team.rack.run(&words).ends_with(1);
        assert!(changed.stdout.contains(&format!("bad: {first} is not what was signed")), "{changed}");
    }

    #[test]
    fn a_second_team_overwrites_nothing_of_the_first_one_in_a_bucket() {
        let service = Moto::start();
        let team = service.exporting();
        let (ann, _) = team.token("ann", "acme", "user");
        assert!(team.call(&ann, "mcp__acme__add", r#"{"a":20,"b":22}"#).contains("42"));
        let _ = service.exported(&team, 2);
        let Team { rack, daemon } = team;
        drop(daemon);
        let before = heads(&service.downloaded(&rack));

        let other = service.exporting();
        let (bob, _) = other.token("bob", "acme", "user");
        assert!(other.call(&bob, "mcp__acme__add", r#"{"a":1,"b":2}"#).contains('3'));
        let started = Instant::now();
        while metric(&other, "toolrack_audit_export_failures_total") < 2.0 {
            assert!(started.elapsed() < 2 * LIMIT, "another content is taken");
        }
        assert!(metric(&other, "toolrack_audit_export_rows_behind") > 0.0);
        assert_eq!(heads(&service.downloaded(&other.rack)), before);
    }
}

mod needs_postgres {
    use toolrack_testkit::Postgres;

    use super::*;

    #[test]
    fn of_two_replicas_one_exports_and_the_other_goes_on_when_that_one_is_killed() {
        let server = Postgres::start();
        let first = Team::of_replicas(&server.url(), "", |tenant| vec![(tenant, fake(&[]))]);
        with_export(&first, &format!("file://{}", folder(&first).display()), "timeout = \"500ms\"\n");
        let (ann, _) = first.token("ann", "acme", "user");
        let replicas = [first.another_replica(), first.another_replica()];
        assert!(replicas[0].call(&ann, "mcp__acme__add", r#"{"a":20,"b":22}"#).contains("42"));
        let found = exported(&first, "tenants/acme", 2);
        let rows = log(&found, "tenants/acme").unwrap()["rows"].as_u64().unwrap();
        drop(first.daemon);
        let [one, other] = replicas;
        crate::warm::kill("KILL", one.daemon.pid());
        let started = Instant::now();
        // Its home is free once the others have removed it.
        while !other.call(&ann, "mcp__acme__add", r#"{"a":20,"b":22}"#).contains("42") {
            assert!(started.elapsed() < LIMIT);
        }
        let found = exported(&other, "tenants/acme", rows + 2);
        assert_eq!(found["ok"], true, "{found}");
    }
}
