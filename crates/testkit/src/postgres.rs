//! A Postgres for one test: in a temporary folder, on a socket there, without a network.

#![expect(clippy::expect_used, reason = "a test that cannot go on panics with a reason")]

use std::{
    fs,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    io::{BufRead as _, BufReader},
    os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::{Pid, Uid},
};
use tempfile::TempDir;

/// The user id of Postgres if the test runs as root, because Postgres refuses to run as root.
const UNPRIVILEGED: u32 = 65534;

/// The text in the log of Postgres that says that it accepts connections.
const READY: &str = "database system is ready to accept connections";

/// The script that creates the files of a database, with the role `toolrack`, which owns the database, and the role
/// `above`, which row-level security does not bind.
const CREATE: &str = r#"
"$BIN/initdb" -D data -U postgres --auth=trust --no-sync -E UTF8 --locale=C --wal-segsize=1 >log 2>&1 &&
"$BIN/postgres" --single -D data postgres >>log 2>&1 <<'SQL'
CREATE ROLE toolrack LOGIN NOSUPERUSER NOBYPASSRLS
CREATE ROLE above LOGIN BYPASSRLS
CREATE DATABASE toolrack OWNER toolrack
SQL
"#;

/// The script that copies the database files from `$TEMPLATE`, unless the folder already has some, and then runs the
/// server in place of the shell. Files that were copied from a running server have a stale `postmaster.pid`. The
/// numbers keep a server small, because many tests run at once.
const RUN: &str = r#"
{ test -d data || { cp -R "$TEMPLATE" data && printf '%s\n' "$SETTINGS" >>data/postgresql.conf; }; } &&
rm -f data/postmaster.pid && exec "$BIN/postgres" -D data -c listen_addresses= -c unix_socket_directories="$PWD" \
    -c fsync=off -c shared_buffers=16MB -c max_connections=60 -c autovacuum=off -c max_prepared_transactions=0
"#;

/// A running Postgres. Dropping it, or the end of the test, ends it at once and deletes its data.
#[derive(Debug)]
pub struct Postgres {
    folder: TempDir,
    server: Child,
}

impl Postgres {
    /// Starts a Postgres, and returns when it accepts connections. Postgres ends with the thread that called this.
    ///
    /// # Panics
    /// When Postgres is not installed (Debian's package `postgresql`), or does not start.
    #[must_use]
    pub fn start() -> Self {
        Self::start_with("")
    }

    /// Starts a Postgres with more lines in `postgresql.conf`.
    ///
    /// # Panics
    /// As [`Self::start`].
    #[must_use]
    pub fn start_with(settings: &str) -> Self {
        Self::start_from(&template(&programs()), settings)
    }

    /// Starts a Postgres on a copy of these database files. The user as whom Postgres runs must be able to read them.
    ///
    /// # Panics
    /// As [`Self::start`].
    #[must_use]
    pub fn start_from(files: &Path, settings: &str) -> Self {
        let folder = create_folder();
        let server = start_server(&programs(), folder.path(), Some((files, settings)));
        Self { folder, server }
    }

    /// Runs a shell script in [`Self::folder`], as the user of the server, with the programs of its version on
    /// the path and these variables. Returns its output; the error is what it wrote to stderr.
    ///
    /// # Errors
    /// When the script does not end with 0.
    ///
    /// # Panics
    /// When the shell cannot be started.
    pub fn shell(&self, text: &str, variables: &[(&str, &str)]) -> Result<String, String> {
        let mut shell = script_command(&format!("PATH=\"$BIN:$PATH\"\n{text}"), self.folder.path(), &programs());
        shell.envs(variables.iter().copied()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let output = shell.output().expect("starting a shell");
        let [stdout, stderr] = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        if output.status.success() { Ok(stdout) } else { Err(stderr) }
    }

    /// Ends Postgres at once, as a crash would. Its data stay.
    ///
    /// # Panics
    /// When its end cannot be waited for.
    pub fn stop(&mut self) {
        let _ = kill(Pid::from_raw(self.server.id().cast_signed()), Signal::SIGQUIT);
        self.server.wait().expect("the end of Postgres");
    }

    /// Starts Postgres again with the same data, after [`Self::stop`].
    ///
    /// # Panics
    /// When Postgres does not start.
    pub fn start_again(&mut self) {
        self.server = start_server(&programs(), self.folder.path(), None);
    }

    /// Runs `sql` as `role` with `psql`, and so without the code under test. Returns a line for each row, with `|`
    /// between columns. With a `tenant`, the SQL sees only the rows of that tenant, unless row-level
    /// security does not bind `role`. The name of the tenant must not contain `'`.
    ///
    /// # Panics
    /// When the database refuses `sql`, or there is no `psql` on the path.
    #[must_use]
    pub fn rows(&self, role: &str, tenant: Option<&str>, sql: &str) -> String {
        // Any version will do, so this need not be the one in `programs()`.
        let mut psql = Command::new("psql");
        psql.args([
            "--no-psqlrc",
            "--quiet",
            "--tuples-only",
            "--no-align",
            "--set=ON_ERROR_STOP=1",
            "--single-transaction",
        ]);
        if let Some(tenant) = tenant {
            psql.arg("--command").arg(format!("SET LOCAL toolrack.tenant = '{tenant}'"));
        }
        let output = psql.arg("--command").arg(sql).arg(self.url_of(role, "toolrack")).output().expect("running psql");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
    }

    /// The URL of its database, for the role that owns it.
    ///
    /// # Panics
    /// As [`Self::url_of`].
    #[must_use]
    pub fn url(&self) -> String {
        self.url_of("toolrack", "toolrack")
    }

    /// The URL of a database for a role: `toolrack`, `above` (which row-level security does not bind), or `postgres`.
    ///
    /// # Panics
    /// When the path of the temporary folder is not UTF-8.
    #[must_use]
    pub fn url_of(&self, role: &str, database: &str) -> String {
        let socket: String = self.folder.path().to_str().expect("a path of UTF-8").replace('/', "%2F");
        format!("postgres://{role}@{socket}/{database}")
    }

    /// Starts a PgBouncer in front of Postgres. It has two connections to Postgres, and lends one to a client for a
    /// single transaction at a time.
    ///
    /// # Panics
    /// When PgBouncer is not installed (Debian's package `pgbouncer`), or does not start.
    #[must_use]
    pub fn pooler(&self) -> Pooler {
        let folder = create_folder();
        let pooler_folder = folder.path().to_str().expect("a path of UTF-8");
        let postgres_folder = self.folder.path().to_str().expect("a path of UTF-8");
        // As Postgres does, `any` asks for no password. sqlx sends `extra_float_digits`, which PgBouncer refuses
        // otherwise.
        let settings = format!(
            "[databases]\ntoolrack = host={postgres_folder} port=5432 dbname=toolrack user=toolrack\n[pgbouncer]\n\
             listen_addr =\nunix_socket_dir = {pooler_folder}\nauth_type = any\npool_mode = transaction\n\
             default_pool_size = 2\nignore_startup_parameters = extra_float_digits\n",
        );
        let file = folder.path().join("pgbouncer.ini");
        fs::write(&file, settings).expect("writing the settings of PgBouncer");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).expect("making the settings readable");
        // PgBouncer needs no programs of Postgres.
        let mut run = script_command("exec /usr/sbin/pgbouncer pgbouncer.ini", folder.path(), Path::new(""));
        let mut server = run.stderr(Stdio::piped()).spawn().expect("starting PgBouncer");
        wait_for(&mut server, "process up");
        Pooler { folder, server }
    }

    /// The folder with the socket and the data of Postgres.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }
}

/// Starts the server in `folder`, and returns when it accepts connections. The first start needs the database files to
/// copy and more settings.
fn start_server(programs: &Path, folder: &Path, initial_data: Option<(&Path, &str)>) -> Child {
    let mut run = script_command(RUN, folder, programs);
    if let Some((files, settings)) = initial_data {
        run.env("TEMPLATE", files).env("SETTINGS", settings);
    }
    run.stderr(Stdio::piped());
    let mut server = run.spawn().expect("starting Postgres");
    wait_for(&mut server, READY);
    server
}

/// A running PgBouncer. Dropping it, or the end of the test, ends it.
#[derive(Debug)]
pub struct Pooler {
    folder: TempDir,
    server: Child,
}

impl Pooler {
    /// The URL of the database behind it.
    #[must_use]
    pub fn url(&self) -> String {
        let socket: String = self.folder.path().to_str().expect("a path of UTF-8").replace('/', "%2F");
        format!("postgres://toolrack@{socket}:6432/toolrack")
    }
}

impl Drop for Pooler {
    fn drop(&mut self) {
        let _ = kill(Pid::from_raw(self.server.id().cast_signed()), Signal::SIGTERM);
        let _ = self.server.wait();
    }
}

/// Reads the log of a server until a line contains `ready`. A thread reads the rest, so that the server never blocks on
/// a full pipe. Panics with the log if the server ends first.
fn wait_for(server: &mut Child, ready: &str) {
    let mut log = BufReader::new(server.stderr.take().expect("a piped log")).lines();
    let mut log_lines = Vec::new();
    loop {
        match log.next() {
            Some(Ok(line)) if line.contains(ready) => break,
            Some(Ok(line)) => log_lines.push(line),
            _ => panic!("the server did not start:\n{}", log_lines.join("\n")),
        }
    }
    thread::spawn(move || log.for_each(drop));
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // SIGQUIT ends it at once. SIGKILL would leave its shared memory behind.
        let _ = kill(Pid::from_raw(self.server.id().cast_signed()), Signal::SIGQUIT);
        let _ = self.server.wait();
    }
}

/// Returns the folder with the programs of the newest Postgres that is installed.
fn programs() -> PathBuf {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let folders = versions.filter_map(|version| Some((version.file_name().to_str()?.parse::<u32>().ok()?, version)));
    let newest = folders.max_by_key(|(version, _)| *version);
    let (_, newest) = newest.expect("Postgres is not installed: `apt-get install postgresql`");
    newest.path().join("bin")
}

/// Returns the files of a new database. The first test on this machine creates them, and every test copies them.
fn template(programs: &Path) -> PathBuf {
    let owner = if Uid::effective().is_root() { UNPRIVILEGED } else { Uid::effective().as_raw() };
    let version = programs.parent().and_then(Path::file_name).and_then(|name| name.to_str()).unwrap_or_default();
    // The hash in the name keeps files that an older version of the script made from being used.
    let mut script_hash = DefaultHasher::new();
    CREATE.hash(&mut script_hash);
    let name = format!("toolrack-test-postgres-{version}-{owner}-{:016x}", script_hash.finish());
    let template = tempfile::env::temp_dir().join(name);
    if !is_folder_of(&template, owner) {
        let folder = create_folder();
        let status =
            script_command(CREATE, folder.path(), programs).status().expect("creating the files of a database");
        let log = fs::read_to_string(folder.path().join("log")).unwrap_or_default();
        assert!(status.success(), "the files of a database cannot be created:\n{log}");
        move_once(folder, &template, owner);
    }
    template.join("data")
}

/// Returns whether `path` is a folder, and no link to one, that belongs to the user `owner`.
fn is_folder_of(path: &Path, owner: u32) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| found.is_dir() && found.uid() == owner)
}

/// Moves a folder with files to `target`. If another test has done so meanwhile, deletes this folder instead. Panics if
/// `target` then is no folder of `owner`: another user may have put any files there.
fn move_once(folder: TempDir, target: &Path, owner: u32) {
    match fs::rename(folder.path(), target) {
        // The folder has its final name now: do not try to delete it under the temporary one.
        Ok(()) => drop(folder.keep()),
        Err(error) => {
            let target_name = target.display();
            assert!(is_folder_of(target, owner), "{target_name} is no folder of the user {owner}: remove it ({error})");
        }
    }
}

/// Creates a temporary folder that belongs to the user as whom Postgres runs.
fn create_folder() -> TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    if Uid::effective().is_root() {
        chown(folder.path(), Some(UNPRIVILEGED), Some(UNPRIVILEGED)).expect("changing the owner of a folder");
    }
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o700)).expect("making a folder private");
    folder
}

/// Returns a command that runs a shell script in `folder`, as a user whom Postgres accepts. The process ends when the
/// thread that started it ends.
fn script_command(script: &str, folder: &Path, programs: &Path) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "QUIT"]);
    if Uid::effective().is_root() {
        let unprivileged = UNPRIVILEGED.to_string();
        command.args(["--reuid", &unprivileged, "--regid", &unprivileged, "--clear-groups"]);
    }
    command.args(["sh", "-c", script]).current_dir(folder).env("BIN", programs).env_remove("PGDATA");
    command.stdin(Stdio::null()).stdout(Stdio::null());
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder in `parent` with the file `name`.
    fn folder_with(parent: &Path, name: &str) -> TempDir {
        let folder = tempfile::tempdir_in(parent).unwrap();
        fs::write(folder.path().join(name), "").unwrap();
        folder
    }

    #[test]
    fn of_two_tests_that_create_the_files_at_once_the_first_provides_them_for_both() {
        let parent = tempfile::tempdir().unwrap();
        let target = parent.path().join("template");
        let owner = fs::metadata(parent.path()).unwrap().uid();
        for name in ["first", "second"] {
            move_once(folder_with(parent.path(), name), &target, owner);
        }
        assert!(target.join("first").exists() && !target.join("second").exists());
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 1, "the folder of the second is deleted");
    }

    #[test]
    #[should_panic(expected = "remove it")]
    fn files_of_another_user_are_not_used() {
        let parent = tempfile::tempdir().unwrap();
        let target = parent.path().join("template");
        let owner = fs::metadata(parent.path()).unwrap().uid();
        move_once(folder_with(parent.path(), "first"), &target, owner);
        move_once(folder_with(parent.path(), "second"), &target, owner + 1);
    }

    #[test]
    fn a_link_is_no_folder_of_any_user() {
        let parent = tempfile::tempdir().unwrap();
        let owner = fs::metadata(parent.path()).unwrap().uid();
        let link = parent.path().join("link");
        std::os::unix::fs::symlink(parent.path(), &link).unwrap();
        assert!(is_folder_of(parent.path(), owner) && !is_folder_of(&link, owner));
    }
}
