mod needs_postgres {
    use sqlx::Connection as _;
    use toolrack_host::{Caller, Principal, Way, principal::Kind};
    use toolrack_testkit::Postgres;

    use super::super::*;
    use crate::{
        Approval, DatabaseSettings, MemberIdentity, NewSession, NewToken, Purpose, Space, TokenHash, Vault, VaultKey,
        tests::raw,
    };

    /// A row in each table that the operations of these tests do not fill.
    const ROWS: &str = "
        INSERT INTO servers (fingerprint, era, seen_at) VALUES ('f', 'modern', 5);
        INSERT INTO server_tools (fingerprint, tools, kept_at) VALUES ('f', x'0001ff', 5);
        INSERT INTO refusals (project, name, hash, refused_at) VALUES ('/p', 'n', 'h', 5);
        INSERT INTO answers (server, fingerprint, tool, owner, definition, of_server, way, answered_at, owner_name)
            VALUES ('s', 'f', 't', '', x'01', 1, 'cli', 5, NULL), ('s', 'f', 't', 'o', x'02', 0, 'cli', 5, 'ann');
        INSERT INTO server_log (id, server, source, at, kind, text)
            VALUES (7, 's', 'x', 1, 'stderr', 'first'), (9, 's', 'x', 1, 'stderr', 'second ü');
        INSERT INTO chores (name, done_at) VALUES ('c', 5);
        INSERT INTO vault_salt (only, salt) VALUES (1, x'00112233445566778899aabbccddeeff');
        INSERT INTO vault_retired (key_id, successor, retired_at) VALUES (x'01', x'02', 5);
        INSERT INTO leases (space, name, holder, ends_at) VALUES ('token', 'n', x'01', 5);
        INSERT INTO pinned_servers (source, server, generation, list) VALUES ('x', 's', 3, NULL);
        INSERT INTO pins (source, server, tool, hash, definition, renamed_to, pinned_at, approved_by)
            VALUES ('x', 's', 't', randomblob(32), '{}', NULL, 5, 'ann');
        INSERT INTO quarantine (source, server, tool, hash, definition, cause, was, since)
            VALUES ('x', 's', 't', randomblob(32), '{}', 'changed', NULL, 5);
        INSERT INTO quota_uses (holder, quota, name, most, used, used_at) VALUES ('h', 'q', NULL, 9, 1.25, 5);
        INSERT INTO audit_exports (place, head, pending, seq, due_at, hold_until) VALUES ('p', 'h', NULL, 0, 5, 0);
        INSERT INTO messages (id, session_id, role, content, timestamp, position)
            SELECT 'm', id, 'user', 'hello', 5, 0 FROM sessions;
    ";

    const TEAM_ROWS: &str = "
        INSERT INTO team_clients (id, name, redirect_uris, made_at, used_at, ends_at) VALUES ('c', 'n', '[]', 1, NULL, 2);
        INSERT INTO team_grants (family, issuer, subject, client, client_name, redirect_uri, challenge, resource, scope,
            code, code_ends_at, made_at, ends_at, ends_for_good_at)
            VALUES ('f', 'i', 'ann', 'c', 'n', 'u', 'x', 'r', 's', randomblob(32), 1, 1, 2, 3);
        INSERT INTO team_departures (person, membership, tenant, is_forgotten) VALUES ('p', 1, 'acme', 1);
        UPDATE team_version SET version = 1000;
    ";

    fn by() -> Caller {
        Caller::local(Way::Cli)
    }

    fn key() -> VaultKey {
        VaultKey::from_bytes([7; 32])
    }

    /// A file with rows in each table.
    async fn filled(folder: &tempfile::TempDir, name: &str) -> Store {
        let path = folder.path().join(name);
        let store = Store::open(&path).await.unwrap();
        for number in 0..250 {
            let approval = Approval {
                project: "/p".into(),
                name: format!("n{number}"),
                hash: "h".to_owned(),
                shown: "s".to_owned(),
                approved_at: 1,
            };
            store.approve(&approval, &by()).await.unwrap();
        }
        store.create_session(&NewSession::default()).await.unwrap();
        Vault::open(&store, key()).await.unwrap().put(Space::Secret, "github", b"sealed").await.unwrap();
        let mut file = raw(&path).await;
        sqlx::raw_sql(ROWS).execute(&mut file).await.unwrap();
        file.close().await.unwrap();
        store
    }

    async fn filled_with_team(folder: &tempfile::TempDir) -> Store {
        let store = filled(folder, "team.db").await;
        let team = store.with_team().await.unwrap();
        let ann = Principal::new(Kind::Person, "acme", "i", "ann").unwrap();
        team.put_member(&ann, &by()).await.unwrap();
        let owner = MemberIdentity { issuer: "i", subject: "ann" };
        let token = NewToken::new(TokenHash::of("t"), Purpose::Personal);
        team.keep_token(owner, &token, &by()).await.unwrap().unwrap();
        let mut file = raw(store.path()).await;
        sqlx::raw_sql(TEAM_ROWS).execute(&mut file).await.unwrap();
        file.close().await.unwrap();
        store
    }

    async fn connect(server: &Postgres) -> Database {
        Database::connect(DatabaseSettings::new(server.url())).await.unwrap()
    }

    #[tokio::test]
    async fn every_row_of_every_table_is_moved_and_no_table_is_forgotten() {
        let (server, folder) = (Postgres::start(), tempfile::tempdir().unwrap());
        let database = connect(&server).await;
        let (door, acme) = (filled_with_team(&folder).await, filled(&folder, "acme.db").await);
        let known = door.verify_audit(None).await.unwrap().unwrap().end;
        let of_door = database.move_rows(None, &door).await.unwrap();
        let of_acme = database.move_rows(Some("acme"), &acme).await.unwrap();
        for moved in [&of_door, &of_acme] {
            assert!(!moved.were_already_moved && moved.audit.is_ok());
            assert!(moved.tables.iter().all(|(_, rows)| *rows > 0), "{:?}", moved.tables);
        }
        let expected = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%' \
            AND name NOT IN ('team_schema', 'team_version', 'team_replicas', 'team_homes', '_sqlx_migrations') ORDER BY 1";
        let mut file = raw(door.path()).await;
        let expected: Vec<String> = sqlx::query_scalar(expected).fetch_all(&mut file).await.unwrap();
        let mut tables: Vec<_> = of_door.tables.iter().map(|(table, _)| *table).collect();
        tables.sort_unstable();
        assert_eq!(tables, expected);

        let store = database.store("acme").await.unwrap();
        assert_eq!(store.approvals().await.unwrap().len(), 250);
        let vault = Vault::open(&store, key()).await.unwrap();
        let value = vault.get(Space::Secret, "github").await.unwrap().unwrap();
        assert_eq!(value.expose_text(), Some("sealed"));
        let texts = server.rows("toolrack", Some("acme"), "SELECT text FROM server_log ORDER BY id");
        assert_eq!(texts, "first\nsecond ü");
        let used =
            server.rows("toolrack", Some("acme"), "SELECT used, of_server FROM quota_uses, answers WHERE owner = ''");
        assert_eq!(used, "1.25|t");
        let team = database.team().await.unwrap();
        assert!(team.team_token(TokenHash::of("t")).await.unwrap().is_some());
        assert!(team.team_version().await.unwrap() > 1000);
        // The chain goes on from the same end, and new rows of the log have numbers of their own.
        store.approve(&store.approvals().await.unwrap()[0].clone(), &by()).await.unwrap();
        assert!(team.verify_audit(Some(known)).await.unwrap().is_ok());
        assert!(store.verify_audit(None).await.unwrap().is_ok());
    }

    /// The tables of both databases have the same columns, apart from the tenant and those that Postgres computes.
    #[tokio::test]
    async fn no_column_of_a_file_is_missing_in_postgres() {
        let (server, folder) = (Postgres::start(), tempfile::tempdir().unwrap());
        let _database = connect(&server).await;
        let door = filled_with_team(&folder).await;
        let mut file = raw(door.path()).await;
        for table in TABLES.iter().chain(&TEAM_TABLES) {
            let of_file = format!("SELECT name FROM pragma_table_xinfo('{table}') WHERE hidden = 0 ORDER BY 1");
            let of_file: Vec<String> =
                sqlx::query_scalar(sqlx::AssertSqlSafe(of_file)).fetch_all(&mut file).await.unwrap();
            let of_server = server.rows(
                "toolrack",
                None,
                &format!(
                    "SELECT column_name FROM information_schema.columns WHERE table_name = '{table}' \
                     AND column_name <> 'of_tenant' AND is_generated = 'NEVER' ORDER BY column_name COLLATE \"C\""
                ),
            );
            assert_eq!(of_file.join("\n"), of_server, "{table}");
        }
    }

    #[tokio::test]
    async fn rows_that_are_there_are_refused_unless_they_are_the_same() {
        let (server, folder) = (Postgres::start(), tempfile::tempdir().unwrap());
        let database = connect(&server).await;
        let acme = filled(&folder, "acme.db").await;
        assert!(!database.check_movable(Some("acme"), &acme).await.unwrap());
        database.move_rows(Some("acme"), &acme).await.unwrap();
        assert!(database.check_movable(Some("acme"), &acme).await.unwrap());
        assert!(database.move_rows(Some("acme"), &acme).await.unwrap().were_already_moved);
        let other = filled(&folder, "other.db").await;
        for refused in [
            database.check_movable(Some("acme"), &other).await.map(drop),
            database.move_rows(Some("acme"), &other).await.map(drop),
        ] {
            assert!(matches!(refused, Err(MoveError::NotEmpty { .. })), "{refused:?}");
        }
        let store = database.store("bolt").await.unwrap();
        store.approve(&acme.approvals().await.unwrap()[0], &by()).await.unwrap();
        assert!(matches!(database.move_rows(Some("bolt"), &acme).await, Err(MoveError::NotEmpty { .. })));
        assert_eq!(store.approvals().await.unwrap().len(), 1);
    }

    #[tokio::test]
    async fn a_run_that_fails_has_moved_nothing_of_that_file() {
        let (server, folder) = (Postgres::start(), tempfile::tempdir().unwrap());
        let database = connect(&server).await;
        let acme = filled(&folder, "acme.db").await;
        // Postgres refuses this row of the last table, whose text is not UTF-8.
        let mut file = raw(acme.path()).await;
        let bad = "INSERT INTO quarantine (source, server, tool, hash, definition, cause, since) \
            VALUES ('x', 's', 'u', randomblob(32), CAST(x'ff' AS TEXT), 'changed', 5)";
        sqlx::query(bad).execute(&mut file).await.unwrap();
        assert!(database.move_rows(Some("acme"), &acme).await.is_err());
        assert_eq!(server.rows("toolrack", Some("acme"), "SELECT count(*) FROM approvals"), "0");
        sqlx::query("DELETE FROM quarantine WHERE tool = 'u'").execute(&mut file).await.unwrap();
        assert!(!database.move_rows(Some("acme"), &acme).await.unwrap().were_already_moved);
    }
}
