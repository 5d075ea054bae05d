//! Tests of what only Postgres has: several tenants, many connections, and a server that may refuse.

use std::time::Duration;

use futures::future::join_all;
use sqlx::{Connection as _, PgConnection};
use toolrack_testkit::Postgres;

use crate::{audit::AuditQuery, tests::*};

fn settings(server: &Postgres) -> DatabaseSettings {
    DatabaseSettings::new(server.url())
}

async fn connect(server: &Postgres) -> Database {
    Database::connect(settings(server)).await.unwrap()
}

fn by() -> Caller {
    Caller::local(Way::Cli)
}

/// Connects without the code under test.
async fn connect_directly(server: &Postgres) -> PgConnection {
    PgConnection::connect(&server.url()).await.unwrap()
}

/// The problem that a database server has.
fn problem(error: &StoreError) -> DatabaseProblem {
    match error {
        StoreError::Database { problem, .. } => *problem,
        other => panic!("another error: {other:?}"),
    }
}

const TABLES: &str = "SELECT c.relname::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
    WHERE c.relkind = 'r' AND n.nspname = 'public' AND c.relname <> 'toolrack_schema' ORDER BY 1";

#[tokio::test]
async fn two_tenants_never_see_each_others_rows() {
    let server = Postgres::start();
    let database = connect(&server).await;
    let (one, other) = (database.store("acme").await.unwrap(), database.store("o'neill").await.unwrap());
    for store in [&one, &other] {
        store.remember_era("x", Era::Legacy).await;
        store.approve(&approval("a", "h"), &by()).await.unwrap();
    }
    one.remember_era("x", Era::Modern).await;
    one.remember_era("y", Era::Modern).await;
    assert_eq!((other.era("x").await, other.era("y").await), (Some(Era::Legacy), None));
    let session = one.create_session(&NewSession::default()).await.unwrap();
    assert!(matches!(other.session(session.id).await, Err(StoreError::UnknownSession { .. })));
    assert!(other.delete_session(session.id).await.is_err() && one.session(session.id).await.is_ok());
    assert_eq!(one.audit(&AuditQuery { limit: 9, ..AuditQuery::default() }).await.unwrap().len(), 1);
    for store in [&one, &other] {
        assert_eq!(store.verify_audit(None).await.unwrap().unwrap().rows, 1);
    }
    // The members of a team are of no tenant.
    let team = database.team().await.unwrap();
    assert_eq!(team.era("x").await, None);
    for name in ["", "*", "a\0b"] {
        assert_eq!(problem(&database.store(name).await.unwrap_err()), DatabaseProblem::Tenant);
    }
}

#[tokio::test]
async fn every_statement_finds_only_rows_of_its_tenant() {
    let server = Postgres::start();
    let store = connect(&server).await.store("acme").await.unwrap();
    store.remember_era("x", Era::Modern).await;
    let mut direct = connect_directly(&server).await;
    let count = async |connection: &mut PgConnection| -> i64 {
        sqlx::query_scalar("SELECT count(*) FROM servers").fetch_one(connection).await.unwrap()
    };
    assert_eq!(count(&mut direct).await, 0, "a forgotten tenant finds nothing");
    let forgotten = "INSERT INTO servers (fingerprint, era, seen_at) VALUES ('z', 'modern', 1)";
    assert!(sqlx::query(forgotten).execute(&mut direct).await.is_err());
    for (tenant, rows) in [("acme", 1), ("other", 0), ("", 0)] {
        let mut transaction = direct.begin().await.unwrap();
        let set = format!("SET LOCAL toolrack.tenant = '{tenant}'");
        sqlx::raw_sql(sqlx::AssertSqlSafe(set)).execute(&mut *transaction).await.unwrap();
        assert_eq!(count(&mut transaction).await, rows, "{tenant}");
        let foreign = "INSERT INTO servers (of_tenant, fingerprint, era, seen_at) VALUES ('acm', 'z', 'modern', 1)";
        assert!(sqlx::query(foreign).execute(&mut *transaction).await.is_err(), "{tenant}");
    }
    assert!(sqlx::query(forgotten).execute(&mut direct).await.is_err(), "also after a transaction with a tenant");
}

#[tokio::test]
async fn every_table_is_behind_row_level_security() {
    let server = Postgres::start();
    let _database = connect(&server).await;
    let mut direct = connect_directly(&server).await;
    let tables: Vec<String> = sqlx::query_scalar(TABLES).fetch_all(&mut direct).await.unwrap();
    let fenced = "SELECT c.relname::text FROM pg_class c JOIN pg_policy p ON p.polrelid = c.oid \
                  WHERE c.relrowsecurity AND c.relforcerowsecurity ORDER BY 1";
    let fenced: Vec<String> = sqlx::query_scalar(fenced).fetch_all(&mut direct).await.unwrap();
    assert_eq!(tables, fenced);
    let keyed = "SELECT count(DISTINCT i.indrelid) FROM pg_index i JOIN pg_attribute a \
                 ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0] WHERE i.indisunique AND a.attname = 'of_tenant'";
    let keyed: i64 = sqlx::query_scalar(keyed).fetch_one(&mut direct).await.unwrap();
    assert_eq!(keyed, tables.len() as i64, "the tenant comes first in each key");
}

#[tokio::test]
async fn a_user_beyond_row_level_security_is_refused() {
    let server = Postgres::start();
    for role in ["postgres", "above"] {
        let error = Database::connect(DatabaseSettings::new(server.url_of(role, "toolrack"))).await.unwrap_err();
        assert_eq!(problem(&error), DatabaseProblem::Role);
        assert!(error.to_string().contains("CREATE ROLE toolrack LOGIN NOSUPERUSER NOBYPASSRLS"), "{error}");
    }
}

#[tokio::test]
async fn writers_of_two_processes_make_one_chain_for_each_tenant() {
    let server = Postgres::start();
    let (one, other) = (connect(&server).await, connect(&server).await);
    let mut stores = Vec::new();
    for tenant in ["a", "b"] {
        for database in [&one, &other] {
            stores.push(database.store(tenant).await.unwrap());
        }
    }
    let writers = stores.iter().flat_map(|store| {
        (0..5).map(move |_| async move {
            for _ in 0..5 {
                store.record_credential_change(&by(), "key", true).await.unwrap();
            }
        })
    });
    join_all(writers).await;
    for store in &stores {
        assert_eq!(store.verify_audit(None).await.unwrap().unwrap().rows, 50);
    }
}

#[tokio::test]
async fn programs_that_start_at_once_migrate_once() {
    let server = Postgres::start();
    for database in join_all((0..6).map(|_| connect(&server))).await {
        database.store("acme").await.unwrap().remember_era("x", Era::Modern).await;
    }
    let mut direct = connect_directly(&server).await;
    let schema = "SELECT version FROM toolrack_schema";
    let version: i64 = sqlx::query_scalar(schema).fetch_one(&mut direct).await.unwrap();
    // A newer program has migrated the database: this one works with it if the schema allows that, and otherwise says
    // so.
    sqlx::query("UPDATE toolrack_schema SET version = version + 1").execute(&mut direct).await.unwrap();
    assert_eq!(connect(&server).await.store("acme").await.unwrap().era("x").await, Some(Era::Modern));
    sqlx::query("UPDATE toolrack_schema SET least = version").execute(&mut direct).await.unwrap();
    let error = Database::connect(settings(&server)).await.unwrap_err();
    assert!(
        matches!(error, StoreError::Newer { found, known, .. } if found == version + 1 && known == version),
        "{error}"
    );
}

#[tokio::test]
async fn every_wait_ends_and_its_error_names_the_setting() {
    let server = Postgres::start();
    let short = Duration::from_millis(200);
    let database = Database::connect(DatabaseSettings {
        statement_timeout: short,
        lock_timeout: Duration::from_millis(100),
        acquire_timeout: short,
        most_connections: 2,
        ..settings(&server)
    })
    .await
    .unwrap();
    let store = database.store("acme").await.unwrap();
    let mut reading = store.begin_read("testing").await.unwrap();
    let slow = query_scalar("SELECT true FROM pg_sleep(60)").fetch_one::<bool>(&mut reading).await;
    assert_eq!(problem(&slow.unwrap_err()), DatabaseProblem::Slow);
    drop(reading);

    let held = store.begin("testing").await.unwrap();
    let error = store.begin("testing").await.err().unwrap();
    assert_eq!(problem(&error), DatabaseProblem::Busy);
    assert!(error.to_string().contains("`lock_timeout`"), "{error}");
    // Another tenant does not wait, and a wait that timed out leaves no lock.
    let other = database.store("other").await.unwrap();
    let beside = other.begin("testing").await.unwrap();
    let error = other.begin_read("testing").await.err().unwrap();
    assert_eq!(problem(&error), DatabaseProblem::Connections);
    assert!(error.to_string().contains("`most_connections`"), "{error}");
    drop(beside);
    held.commit().await.unwrap();
    store.begin("testing").await.unwrap().commit().await.unwrap();

    // A transaction in which nothing happens is ended, and gives its lock back.
    let brief = DatabaseSettings { idle_transaction_timeout: short, ..settings(&server) };
    let store = Database::connect(brief).await.unwrap().store("acme").await.unwrap();
    let mut frozen = store.begin("testing").await.unwrap();
    let elsewhere = connect(&server).await.store("acme").await.unwrap();
    elsewhere.begin("testing").await.unwrap().commit().await.unwrap();
    let late = query("DELETE FROM servers").execute(&mut frozen).await.unwrap_err();
    assert!(matches!(problem(&late), DatabaseProblem::Idle | DatabaseProblem::Unreachable), "{late}");
    store.remember_era("x", Era::Modern).await;
    assert_eq!(store.era("x").await, Some(Era::Modern));
}

#[tokio::test]
async fn connections_that_the_server_ended_are_replaced() {
    let server = Postgres::start();
    let store = connect(&server).await.store("acme").await.unwrap();
    let held: Vec<_> = join_all((0..5).map(|_| store.begin_read("testing"))).await;
    drop(held);
    let end = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE usename = 'toolrack' \
               AND pid <> pg_backend_pid()";
    let mut direct = connect_directly(&server).await;
    let ended: i64 = sqlx::query_scalar(end).fetch_one(&mut direct).await.unwrap();
    assert!(ended > 0);
    store.approve(&approval("a", "h"), &by()).await.unwrap();
    assert_eq!(store.approvals().await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_server_that_cannot_be_used_is_named_and_its_password_is_not() {
    let server = Postgres::start();
    let brief =
        |url: String| DatabaseSettings { connect_timeout: Duration::from_secs(2), ..DatabaseSettings::new(url) };
    let socket = server.folder().to_str().unwrap().replace('/', "%2F");
    for (url, expected) in [
        ("postgres://ann:canary@[/x".to_owned(), DatabaseProblem::Url),
        ("postgres://ann:canary@127.0.0.1:1/db".to_owned(), DatabaseProblem::Unreachable),
        (format!("postgres://ann:canary@{socket}/toolrack"), DatabaseProblem::Credentials),
        (format!("postgres://toolrack:canary@{socket}/none"), DatabaseProblem::Missing),
        (format!("postgres://toolrack:canary@{socket}/postgres"), DatabaseProblem::Rights),
    ] {
        let settings = brief(url);
        let error = Database::connect(settings.clone()).await.unwrap_err();
        assert_eq!(problem(&error), expected, "{error}");
        let shown = format!("{error} {error:?} {settings:?}");
        assert!(!shown.contains("canary"), "{shown}");
    }
    let settings = brief(format!("postgres://toolrack:canary@{socket}/toolrack"));
    let database = Database::connect(settings).await.unwrap();
    let store = database.store("acme").await.unwrap();
    let shown = format!("{database:?} {store:?} {}", store.path().display());
    assert!(shown.contains("/toolrack") && !shown.contains("canary"), "{shown}");
}

#[tokio::test]
async fn a_nul_in_a_text_is_replaced_and_the_chain_stays_valid() {
    let server = Postgres::start();
    let store = connect(&server).await.store("acme").await.unwrap();
    store.approve(&approval("a\0b", "h"), &by()).await.unwrap();
    assert_eq!(store.approvals().await.unwrap()[0].name, "a\u{fffd}b");
    assert!(store.revoke(std::path::Path::new("/project"), "a\0b", &by()).await.unwrap());
    assert_eq!(store.verify_audit(None).await.unwrap().unwrap().rows, 2);
}

mod needs_pgbouncer {
    use super::*;

    #[tokio::test]
    async fn the_store_works_behind_a_transaction_pooler() {
        let server = Postgres::start();
        let pooler = server.pooler();
        let database = Database::connect(DatabaseSettings::new(pooler.url())).await.unwrap();
        let stores = [database.store("a").await.unwrap(), database.store("b").await.unwrap()];
        let work = (0..20).map(|number| {
            let store = &stores[number % 2];
            async move {
                store.record_credential_change(&by(), "key", true).await.unwrap();
                assert_eq!(store.era("x").await, None);
            }
        });
        join_all(work).await;
        for store in &stores {
            assert_eq!(store.verify_audit(None).await.unwrap().unwrap().rows, 10);
        }
    }
}

/// Makes the clock of the server five minutes ahead of the clock of this process.
const AHEAD: &str = "CREATE SCHEMA ahead; CREATE FUNCTION ahead.clock_timestamp() RETURNS timestamptz LANGUAGE sql \
    AS $$ SELECT pg_catalog.clock_timestamp() + interval '5 minutes' $$";

#[tokio::test]
async fn a_lease_ends_by_the_clock_of_the_database_whatever_that_of_a_replica_says() {
    let server = Postgres::start();
    let _ = connect(&server).await;
    sqlx::raw_sql(AHEAD).execute(&mut connect_directly(&server).await).await.unwrap();
    let url = format!("{}?options[search_path]=ahead,pg_catalog,public", server.url());
    let store = Database::connect(DatabaseSettings::new(url)).await.unwrap().store("acme").await.unwrap();
    let vault = Vault::open(&store, VaultKey::from_bytes([1; 32])).await.unwrap();
    let minute = Duration::from_secs(60);
    let lease = vault.try_lease(Space::Token, "a", minute).await.unwrap().unwrap();
    let ends_at: i64 = server.rows("toolrack", Some("acme"), "SELECT ends_at FROM leases").parse().unwrap();
    let from_here = ends_at - chrono::Utc::now().timestamp_millis();
    assert!((340_000..=360_000).contains(&from_here), "{from_here}");
    assert!(vault.try_lease(Space::Token, "a", minute).await.unwrap().is_none());
    vault.put_under(&lease, b"renewed").await.unwrap();
    // By the clock of this process, the lease would last two more minutes.
    let _ = server.rows("toolrack", Some("acme"), "UPDATE leases SET ends_at = ends_at - 240000");
    assert!(matches!(vault.put_under(&lease, b"late").await, Err(VaultError::LeaseLost { .. })));
    assert!(vault.try_lease(Space::Token, "a", minute).await.unwrap().is_some());
}

#[tokio::test]
async fn a_code_lives_by_the_clock_of_the_database_which_all_replicas_share() {
    let server = Postgres::start();
    let _ = connect(&server).await;
    sqlx::raw_sql(AHEAD).execute(&mut connect_directly(&server).await).await.unwrap();
    let url = format!("{}?options[search_path]=ahead,pg_catalog,public", server.url());
    let team = Database::connect(DatabaseSettings::new(url)).await.unwrap().team().await.unwrap();
    let owner = MemberIdentity { issuer: "i", subject: "ann" };
    let ann = Principal::new(Kind::Person, "acme", owner.issuer, owner.subject).unwrap();
    team.put_member(&ann, &by()).await.unwrap();
    let code = TokenHash::of("code");
    let (client, client_name, redirect_uri) = ("c-1", "A client", "http://127.0.0.1/back");
    let (challenge, resource, scope) = ("challenge", "https://tools.example/mcp", "mcp");
    let grant = NewGrant { owner, client, client_name, redirect_uri, challenge, resource, scope, code };
    assert!(team.begin_grant(&grant, &by()).await.unwrap());
    let ends_at: i64 = server.rows("toolrack", Some("*"), "SELECT code_ends_at FROM team_grants").parse().unwrap();
    let from_here = ends_at - chrono::Utc::now().timestamp();
    assert!((340..=360).contains(&from_here), "{from_here}");
    // By the clock of this process, the code would last four more minutes.
    let _ = server.rows("toolrack", Some("*"), "UPDATE team_grants SET code_ends_at = code_ends_at - 120");
    assert_eq!(team.take_code(code).await.unwrap(), CodeUse::Unknown);
    let _ = server.rows("toolrack", Some("*"), "UPDATE team_grants SET code_ends_at = code_ends_at + 120");
    assert!(matches!(team.take_code(code).await.unwrap(), CodeUse::Good(_)));
}
