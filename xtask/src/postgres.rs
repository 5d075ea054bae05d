//! Postgres and PgBouncer from Debian's packages. Tests start their own; neither runs as a service of the machine.

use std::fs;
use std::path::Path;

use crate::debian;
use crate::report::Report;

/// Installs the missing programs, if `debian` may install packages.
pub(crate) fn install(report: &mut Report) {
    let server = (!has_server()).then_some("postgresql");
    let pooler = (!has_pooler()).then_some("pgbouncer");
    let missing: Vec<_> = server.into_iter().chain(pooler).collect();
    report.step("Postgres and PgBouncer from Debian", || debian::install(&missing));
}

/// Returns the test modules that cannot run here, and the reason.
pub(crate) fn missing<'a>() -> impl Iterator<Item = (&'static str, &'a str)> {
    let server = "there is no Postgres 15 or newer (`cargo xtask install`, as root on Debian)";
    let pooler = "there is no PgBouncer (`cargo xtask install`, as root on Debian)";
    let server = (!has_server()).then_some(("needs_postgres", server));
    server.into_iter().chain((!has_pooler()).then_some(("needs_pgbouncer", pooler)))
}

/// Returns whether a Postgres is installed that is new enough. Debian has a folder for the programs of each version.
fn has_server() -> bool {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let is_new = |name: &str| name.parse::<u32>().is_ok_and(|version| version >= 15);
    versions
        .into_iter()
        .any(|version| version.file_name().to_str().is_some_and(is_new) && version.path().join("bin/postgres").exists())
}

fn has_pooler() -> bool {
    Path::new("/usr/sbin/pgbouncer").exists()
}
