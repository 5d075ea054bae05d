//! Connects to the database server of a team, which `[store]` of the team file names. A team has tenants, each with
//! servers and data of its own, and each tenant has members: people and services. Each tenant, and the daemon itself,
//! has a store there.

use std::{fs, path::Path, process::Stdio, time::Duration};

use tokio::{process::Command, time::timeout};
use toolrack_config::{Environment, Interpolate, UnsetPolicy};
use toolrack_store::{DatabaseSettings, MoveError, MoveReport, Store};
use toolrack_team::{StoreTable, StoreUrl};

use super::{MovedRows, unusable};
use crate::{
    error::{Exit, Failure, in_words, with_causes},
    secrets,
};

/// The most bytes of a file with a URL.
const MAX_URL_FILE_BYTES: u64 = 64 * 1024;

/// How long the connections may take to close.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// A Postgres database. Clones share its connections.
#[derive(Clone, Debug)]
pub(crate) struct DatabaseServer(toolrack_store::Database);

impl DatabaseServer {
    /// Connects to the database of `table`.
    ///
    /// # Errors
    /// When its URL cannot be determined, or the database cannot be used. No message contains the URL.
    pub(crate) async fn connect(table: &StoreTable, environment: &Environment) -> Result<Self, Failure> {
        let defaults = DatabaseSettings::new("");
        let connect_timeout = table.connect_timeout.unwrap_or(defaults.connect_timeout);
        let settings = DatabaseSettings {
            url: resolve_url(&table.url, environment, connect_timeout).await?,
            most_connections: table.most_connections.map_or(defaults.most_connections, Into::into),
            connect_timeout,
            acquire_timeout: table.acquire_timeout.unwrap_or(defaults.acquire_timeout),
            migration_timeout: table.migration_timeout.unwrap_or(defaults.migration_timeout),
            statement_timeout: table.statement_timeout.unwrap_or(defaults.statement_timeout),
            lock_timeout: table.lock_timeout.unwrap_or(defaults.lock_timeout),
            idle_transaction_timeout: table.idle_transaction_timeout.unwrap_or(defaults.idle_transaction_timeout),
            prepared_statements: table.prepared_statements.unwrap_or(defaults.prepared_statements),
        };
        let database = toolrack_store::Database::connect(settings).await;
        let database =
            database.map_err(|error| unusable(&error).hint("`[store]` of the team file says where it is"))?;
        Ok(Self(database))
    }

    /// Returns the store of a tenant.
    ///
    /// # Errors
    /// When the database fails.
    pub(crate) async fn store(&self, tenant: &str) -> Result<Store, Failure> {
        self.0.store(tenant).await.map_err(|error| unusable(&error))
    }

    /// Returns the store of the daemon itself, which also has the members of the team.
    ///
    /// # Errors
    /// When the database fails.
    pub(crate) async fn daemon_store(&self) -> Result<Store, Failure> {
        Ok(Store::clone(&*self.0.team().await.map_err(|error| unusable(&error))?))
    }

    /// Checks that the rows of `source`, the database in a file, can be moved to `tenant`, or with `None` to the daemon
    /// and its team. Rows that have been moved already pass the check.
    ///
    /// # Errors
    /// When Postgres has other rows, so that these cannot be moved, or a database fails.
    pub(crate) async fn check_movable(&self, tenant: Option<&str>, source: &Store) -> Result<(), Failure> {
        self.0.check_movable(tenant, source).await.map(drop).map_err(|error| not_moved(&error))
    }

    /// Moves the rows of `source` to `tenant`, or with `None` to the daemon and its team.
    ///
    /// # Errors
    /// As [`Self::check_movable`]. After an error, nothing was moved.
    pub(crate) async fn move_rows(&self, tenant: Option<&str>, source: &Store) -> Result<MovedRows, Failure> {
        let MoveReport { tables, audit, were_already_moved, .. } =
            self.0.move_rows(tenant, source).await.map_err(|error| not_moved(&error))?;
        Ok(MovedRows { tables, audit, were_already_moved })
    }

    /// Closes the connections.
    pub(crate) async fn close(&self) {
        // Connections that do not close in time end with the process.
        let _ = timeout(CLOSE_TIMEOUT, self.0.close()).await;
    }
}

fn not_moved(error: &MoveError) -> Failure {
    let failure = Failure::new(Exit::Other, "NOT_MOVED", with_causes(error));
    match error {
        MoveError::NotEmpty { .. } => failure.hint("use a database without rows of this team"),
        _ => failure,
    }
}

fn bad_url(why: impl std::fmt::Display) -> Failure {
    Failure::config(format!("`url` of `[store]` in the team file {why}")).hint("docs/guide/teams.md has an example")
}

async fn resolve_url(url: &StoreUrl, environment: &Environment, time_limit: Duration) -> Result<String, Failure> {
    let text = match url {
        StoreUrl::Text(text) => fill_placeholders(text, environment).await?,
        StoreUrl::File(source) => read_file(&source.file)?,
        StoreUrl::Command(source) => url_printed_by(&source.command, time_limit).await?,
    };
    let text = text.trim();
    if !text.starts_with("postgres://") && !text.starts_with("postgresql://") {
        return Err(bad_url(
            "is not a URL of Postgres: write postgres://USER:PASSWORD@HOST/NAME, or name a file or a command that provides it",
        ));
    }
    Ok(text.to_owned())
}

async fn fill_placeholders(text: &str, environment: &Environment) -> Result<String, Failure> {
    if text.contains("${secret:") {
        return Err(bad_url("names a stored secret, and those are in that database")
            .hint("name a variable (`${NAME}`), a file (`{ file = \"…\" }`) or a command (`{ command = [\"…\"] }`)"));
    }
    let placeholders = Interpolate::new(environment.clone(), UnsetPolicy::Error);
    let is_secret = true;
    placeholders.setting("url of [store]", text, is_secret).await.map_err(|error| bad_url(with_causes(&error)))
}

fn read_file(path: &Path) -> Result<String, Failure> {
    let unreadable = |why: String| bad_url(format!("names the file {}: {why}", path.display()));
    let length = fs::metadata(path).map_err(|error| unreadable(in_words(&error)))?.len();
    if length > MAX_URL_FILE_BYTES {
        return Err(unreadable(format!("it has {length} bytes, and at most {MAX_URL_FILE_BYTES} are read")));
    }
    fs::read_to_string(path).map_err(|error| unreadable(in_words(&error)))
}

async fn url_printed_by(command: &[String], time_limit: Duration) -> Result<String, Failure> {
    let Some((program, arguments)) = command.split_first() else {
        return Err(bad_url("has an empty `command`"));
    };
    let command_error = |why: String| bad_url(format!("is to be printed by `{program}`, {why}"));
    let mut process = Command::new(program);
    process.args(arguments).env_remove(secrets::VARIABLE).kill_on_drop(true);
    let output = process.stdin(Stdio::null()).stderr(Stdio::inherit()).output();
    let output = timeout(time_limit, output)
        .await
        .map_err(|_| command_error("which takes longer than `connect_timeout`".to_owned()))?;
    let output = output.map_err(|error| command_error(format!("which cannot be run: {}", in_words(&error))))?;
    if !output.status.success() {
        return Err(command_error(format!("which failed: {}", output.status)));
    }
    String::from_utf8(output.stdout).map_err(|_| command_error("which prints no UTF-8 text".to_owned()))
}

#[cfg(test)]
mod tests {
    use toolrack_team::{UrlCommand, UrlFile};

    use super::*;

    async fn read(from: StoreUrl) -> Result<String, Failure> {
        let environment = [("DATABASE", "postgres://u:pa55@h/n"), ("OTHER", "mysql://u:pa55@h/n")];
        let environment = Environment::new(environment);
        resolve_url(&from, &environment, Duration::from_secs(5)).await
    }

    #[tokio::test]
    async fn the_url_of_the_database_comes_from_a_variable_a_file_or_a_command() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("url");
        fs::write(&file, "postgresql://u:pa55@h/n\n").unwrap();
        let text = |text: &str| StoreUrl::Text(text.to_owned());
        let command = |words: &[&str]| {
            StoreUrl::Command(UrlCommand { command: words.iter().map(|word| (*word).to_owned()).collect() })
        };
        assert_eq!(read(text("${DATABASE}")).await.unwrap(), "postgres://u:pa55@h/n");
        assert_eq!(read(StoreUrl::File(UrlFile { file })).await.unwrap(), "postgresql://u:pa55@h/n");
        assert_eq!(read(command(&["printf", "postgres://h/n"])).await.unwrap(), "postgres://h/n");
        for (from, why) in [
            (text("${NONE}"), "`NONE` is not set"),
            (text("${OTHER}"), "is not a URL of Postgres"),
            (text("${secret:url}"), "names a stored secret"),
            (StoreUrl::File(UrlFile { file: folder.path().join("none") }), "there is no such file"),
            (command(&[]), "an empty `command`"),
            (command(&["false"]), "which failed"),
            (command(&["/no/such/program"]), "which cannot be run"),
        ] {
            let failure = read(from).await.unwrap_err();
            assert!(failure.message.contains(why) && !failure.message.contains("pa55"), "{}", failure.message);
        }
    }
}
