//! Lists the steps that lead from an empty file to the newest schema.
//!
//! `sqlx::migrate!` is not used here: cargo would have to build all of sqlx, with SQLite in C, a second time, to run
//! that macro at compile time.

use sqlx::{
    SqlStr,
    migrate::{Migration, MigrationType, Migrator},
};

/// The newest schema: the number of the last migration.
pub(crate) const SCHEMA_VERSION: i64 = MIGRATIONS.len() as i64;

/// The migrations in the order of their numbers, which begin at one. sqlx records the description of each.
const MIGRATIONS: [(&str, &str); 15] = [
    ("start", include_str!("../../../migrations/0001_start.sql")),
    ("server log", include_str!("../../../migrations/0002_server_log.sql")),
    ("sessions", include_str!("../../../migrations/0003_sessions.sql")),
    ("server tools", include_str!("../../../migrations/0004_server_tools.sql")),
    ("vault", include_str!("../../../migrations/0005_vault.sql")),
    ("audit", include_str!("../../../migrations/0006_audit.sql")),
    ("pins", include_str!("../../../migrations/0007_pins.sql")),
    ("answers", include_str!("../../../migrations/0008_answers.sql")),
    ("audit agents", include_str!("../../../migrations/0009_audit_agents.sql")),
    ("refusals", include_str!("../../../migrations/0010_refusals.sql")),
    ("vault keys", include_str!("../../../migrations/0011_vault_keys.sql")),
    ("owners", include_str!("../../../migrations/0012_owners.sql")),
    ("quotas", include_str!("../../../migrations/0013_quotas.sql")),
    ("answers of members", include_str!("../../../migrations/0014_answers_of_members.sql")),
    ("audit exports", include_str!("../../../migrations/0015_audit_exports.sql")),
];

pub(crate) fn migrator() -> Migrator {
    let migration = |(version, (description, sql)): (i64, (&'static str, &'static str))| {
        // sqlx may wrap each migration in a transaction, which is then a part of the transaction of the caller.
        let no_tx = false;
        Migration::new(version, description.into(), MigrationType::Simple, SqlStr::from_static(sql), no_tx)
    };
    Migrator::with_migrations((1..).zip(MIGRATIONS).map(migration).collect())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_schema_is_the_number_of_the_last_migration() {
        for migration in migrator().iter() {
            let raise = format!("PRAGMA user_version = {};", migration.version);
            assert!(migration.sql.as_str().trim_end().ends_with(&raise), "{}", migration.description);
        }
        assert_eq!(migrator().iter().last().map(|migration| migration.version), Some(SCHEMA_VERSION));
    }

    #[test]
    fn each_file_of_the_folder_is_in_the_list_under_its_name() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/migrations");
        let mut files: Vec<_> =
            fs::read_dir(folder).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
        files.sort();
        let listed: Vec<_> = migrator()
            .iter()
            .map(|migration| format!("{:04}_{}.sql", migration.version, migration.description.replace(' ', "_")))
            .collect();
        assert_eq!(files, listed);
    }
}
