//! The backups of a team on Postgres, made and restored with the commands of the guide as they stand.

mod needs_postgres {
    use std::{
        fs,
        time::{Duration, Instant},
    };

    use serde_json::{Value, json};
    use tempfile::TempDir;
    use toolrack_testkit::Postgres;

    use crate::{
        rack::repository,
        team::Team,
        team_person::{begins, give, personal, variable},
    };

    /// What a wait for the database or for a home may take on a loaded machine.
    const LIMIT: Duration = Duration::from_secs(60);

    /// How many tables have rows of tenants, and in how many of these row-level security binds their owner as well.
    const TABLES: &str = "SELECT count(*) FILTER (WHERE attname = 'of_tenant'), \
        count(*) FILTER (WHERE attname = 'of_tenant' AND relrowsecurity AND relforcerowsecurity \
            AND pg_get_userbyid(relowner) = 'toolrack') \
        FROM pg_class JOIN pg_attribute ON attrelid = pg_class.oid WHERE relkind = 'r'";

    /// The code blocks of the guide about backups, of one language.
    fn blocks(language: &str) -> Vec<String> {
        let page = fs::read_to_string(repository().join("docs/guide/teams.md")).unwrap();
        let (_, part) = page.split_once("\n## Backup and restore\n").unwrap();
        let (part, _) = part.split_once("\n## ").unwrap();
        let opening = format!("\n```{language}\n");
        part.split(&opening).skip(1).map(|block| block.split("\n```").next().unwrap().to_owned()).collect()
    }

    /// A team of which `ann` of `acme` and `bob` of `bolt` have tokens and secrets, and have finished turns.
    struct Used {
        team: Team,
        members: [(String, &'static str); 2],
        /// How many rows of the audit log of each tenant the database has.
        audited: [(&'static str, u64); 2],
        key: String,
        settings: String,
        _script: TempDir,
    }

    impl Used {
        fn on(server: &Postgres) -> Self {
            let script = tempfile::tempdir().unwrap();
            let path = script.path().join("script.json");
            fs::write(&path, json!([{ "text": "Understood." }]).to_string()).unwrap();
            let settings = format!("[model]\nname = \"mock/{}\"\n", path.display());
            let key = "7a".repeat(32);
            let team = Self::team(server, &key, &settings);
            let members = [("ann", "acme", "ann-1"), ("bob", "bolt", "bob-2")]
                .map(|(name, tenant, value)| (team.token(name, tenant, "user").0, value));
            for (token, value) in &members {
                give(&team, token, value);
                begins(&team, token);
                assert!(variable(&team, token, "TOKEN").contains(value));
                let turn = json!({ "text": format!("the plan of {value}") }).to_string();
                assert_eq!(team.ask("POST", "/api/v1/turns", token, &turn).0, 200);
            }
            let audited = ["acme", "bolt"].map(|tenant| (tenant, written(&team, tenant)));
            Self { team, members, audited, key, settings, _script: script }
        }

        fn team(server: &Postgres, key: &str, settings: &str) -> Team {
            Team::of_replicas_with_key((&server.url(), key), settings, |_| vec![("mine", personal())])
        }

        /// The same team in other folders, on a database that was restored, where what the members had must be.
        fn restored_on(self, server: &Postgres) -> Team {
            let Self { team, members, audited, key, settings, _script: script } = self;
            drop(team);
            let team = Self::team(server, &key, &settings);
            for (token, value) in &members {
                is_connected(&team, token);
                assert!(variable(&team, token, "TOKEN").contains(value), "the secret cannot be opened");
                let (_, listed) = team.ask("GET", "/api/v1/sessions", token, "");
                let listed: Value = serde_json::from_str(&listed).unwrap();
                assert_eq!(listed["sessions"].as_array().unwrap().len(), 1, "{listed}");
                let id = listed["sessions"][0]["id"].as_str().unwrap();
                let (_, told) = team.ask("GET", &format!("/api/v1/sessions/{id}"), token, "");
                assert!(told.contains("Understood.") && told.contains(&format!("the plan of {value}")), "{told}");
                // A new turn finds its place behind the restored rows.
                let turn = json!({ "text": "go on", "session": id }).to_string();
                assert_eq!(team.ask("POST", "/api/v1/turns", token, &turn).0, 200);
            }
            drop(script);
            for (tenant, rows) in audited {
                let verified = verifies(&team, tenant);
                assert!(verified >= rows, "of {tenant} {verified} of the {rows} rows from before the backup are there");
            }
            assert_eq!(
                server.rows("toolrack", Some("bolt"), "SELECT count(*) FROM vault WHERE of_tenant = 'acme'"),
                "0"
            );
            assert_eq!(server.rows("toolrack", None, "SELECT count(*) FROM vault"), "0");
            assert_ne!(server.rows("toolrack", Some("acme"), "SELECT count(*) FROM vault"), "0");
            let tables = server.rows("postgres", None, TABLES);
            let (all, apart) = tables.split_once('|').unwrap();
            assert!(all == apart && all.parse::<u32>().unwrap() > 20, "{tables}");
            team
        }
    }

    /// Waits until the server `mine` of a member runs in the new home of its tenant.
    fn is_connected(team: &Team, token: &str) {
        let started = Instant::now();
        loop {
            let (_, server) = team.ask("GET", "/api/v1/servers/mine", token, "");
            if server.contains("\"state\":\"connected\"") {
                return;
            }
            assert!(started.elapsed() < LIMIT, "{server}");
        }
    }

    /// Waits until the daemon, which collects rows before it writes them, has written those about a tenant's server,
    /// secret and call. Returns how many there are.
    fn written(team: &Team, tenant: &str) -> u64 {
        let started = Instant::now();
        loop {
            let rows = verifies(team, tenant);
            if rows > 2 {
                return rows;
            }
            assert!(started.elapsed() < LIMIT, "{rows} rows about {tenant}");
        }
    }

    /// How many rows of the audit log of a tenant were verified.
    fn verifies(team: &Team, tenant: &str) -> u64 {
        let home = team.rack.home.root().join("team/tenants").join(tenant);
        let output = team.rack.command(&["audit", "verify", "--json"]).env("TOOLRACK_HOME", home).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice::<Value>(&output.stdout).unwrap()["rows"].as_u64().unwrap()
    }

    #[test]
    fn a_dump_of_a_team_in_use_is_restored_into_another_cluster_and_other_folders() {
        let server = Postgres::start();
        let used = Used::on(&server);
        let [dump, restore, ..] = &*blocks("sh") else { panic!("the guide has no commands") };
        let _ = server.rows("postgres", None, &blocks("sql").concat());
        let as_owner = server.shell(dump, &[("BACKUP_DATABASE", &server.url())]).unwrap_err();
        assert!(as_owner.contains("row-level security"), "{as_owner}");
        let reader = server.url_of("toolrack_backup", "toolrack");
        let _ = server.shell(dump, &[("BACKUP_DATABASE", &reader)]).unwrap();
        // What happens after the backup is not in it.
        let (late, _) = used.team.token("late", "acme", "user");
        assert_eq!(used.team.status("GET", "/api/v1/servers", &late), 200);

        let other = Postgres::start();
        let dumped = server.folder().join("toolrack.dump");
        let restore = restore.replace("toolrack.dump", dumped.to_str().unwrap());
        let _ = other.shell(&restore, &[("TOOLRACK_DATABASE", &other.url())]).unwrap();
        drop(server);
        let team = used.restored_on(&other);
        assert_eq!(team.status("GET", "/api/v1/servers", &late), 401);
    }

    #[test]
    fn the_write_ahead_log_restores_the_moment_before_a_mistake() {
        let at = |text: &str, server: &Postgres| text.replace("/backup/", &format!("{}/", server.folder().display()));
        let [archive, recover] = &*blocks("ini") else { panic!("the guide has no settings") };
        // The server's working folder is that of its data.
        let mut server = Postgres::start_with(&archive.replace("/backup/", "../"));
        let [.., base, copy] = &*blocks("sh") else { panic!("the guide has no commands") };
        let socket = server.folder().to_str().unwrap().to_owned();
        let connects = [("PGHOST", &*socket), ("PGUSER", "postgres")];
        let _ = server.shell("mkdir wal", &[]).unwrap();
        let _ = server.shell(&at(base, &server), &connects).unwrap();
        let used = Used::on(&server);
        let moment = server.rows("postgres", None, "SELECT clock_timestamp()");
        let (late, _) = used.team.token("late", "acme", "user");
        let _ = server.rows("toolrack", Some("*"), "DELETE FROM team_members WHERE subject <> 'late'");
        let _ = server.rows("toolrack", Some("acme"), "DELETE FROM vault");
        let last = server.rows("postgres", None, "SELECT pg_walfile_name(pg_switch_wal())");
        let started = Instant::now();
        while server.rows("postgres", None, "SELECT last_archived_wal FROM pg_stat_archiver") < last {
            assert!(started.elapsed() < LIMIT, "the log is not archived");
        }
        server.stop();

        let restored = server.folder().join("restored");
        let _ = server.shell(&at(copy, &server), &[("PGDATA", restored.to_str().unwrap())]).unwrap();
        let recover = at(recover, &server).replace("2026-11-27 09:00:00+00", &moment);
        let again = Postgres::start_from(&restored, &recover);
        let team = used.restored_on(&again);
        assert_eq!(team.status("GET", "/api/v1/servers", &late), 401);
    }
}
