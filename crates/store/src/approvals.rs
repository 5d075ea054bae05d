//! Stores the trust in projects: the entries that a user agreed to run. A project is a folder whose configuration file
//! brings servers. An entry is the part of such a file that configures one server.

use std::path::{Path, PathBuf};

use chrono::Utc;
use toolrack_host::Caller;

use crate::{
    Store, StoreError,
    audit::{Entry, append},
    database::query,
};

/// A user's agreement to run one entry (a configured server) of a project. It holds as long as the entry's content has
/// this hash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Approval {
    /// The folder that holds the project's file, absolute and with symbolic links resolved.
    pub project: PathBuf,
    /// The entry's name.
    pub name: String,
    /// The hash of the entry's content.
    pub hash: String,
    /// The text that the user saw when agreeing. If the content changes, the new text is compared with it.
    pub shown: String,
    /// When the user agreed, in seconds since 1970.
    pub approved_at: i64,
}

impl Approval {
    /// Whether this approval covers the entry `name` of `project` with content of this hash.
    #[must_use]
    pub fn covers(&self, project: &Path, name: &str, hash: &str) -> bool {
        self.project == project && self.name == name && self.hash == hash
    }
}

/// The columns `project`, `name`, `hash`, `shown` and `approved_at`.
type Row = (String, String, String, String, i64);

impl From<Row> for Approval {
    fn from((project, name, hash, shown, approved_at): Row) -> Self {
        Self { project: project.into(), name, hash, shown, approved_at }
    }
}

impl Store {
    /// Stores an approval in place of an earlier approval or refusal of the same entry. Records in the [audit
    /// log](crate::audit) that `caller` gave it, in the same transaction.
    ///
    /// # Errors
    /// [`StoreError::Path`] when the project's path is not UTF-8; others when the database fails.
    pub async fn approve(&self, approval: &Approval, caller: &Caller) -> Result<(), StoreError> {
        let operation = "writing an approval";
        let project = path_text(&approval.project)?;
        let mut transaction = self.begin(operation).await?;
        query(
            "INSERT INTO approvals (project, name, hash, shown, approved_at) VALUES ($1, $2, $3, $4, $5) \
             ON CONFLICT (project, name) DO UPDATE SET \
             hash = excluded.hash, shown = excluded.shown, approved_at = excluded.approved_at",
        )
        .bind(project)
        .bind(&approval.name)
        .bind(&approval.hash)
        .bind(&approval.shown)
        .bind(approval.approved_at)
        .execute(&mut transaction)
        .await?;
        query("DELETE FROM refusals WHERE project = $1 AND name = $2")
            .bind(project)
            .bind(&approval.name)
            .execute(&mut transaction)
            .await?;
        let entry = Entry::of_trust("trusted", caller, project, &approval.name, Some(&approval.hash));
        append(&mut transaction, &[(Utc::now().timestamp_millis(), entry)]).await?;
        transaction.commit().await
    }

    /// Revokes an approval, and records that in the [audit log](crate::audit) as done by `caller`. Returns whether
    /// there was one.
    ///
    /// # Errors
    /// [`StoreError::Path`] when the project's path is not UTF-8; others when the database fails.
    pub async fn revoke(&self, project: &Path, name: &str, caller: &Caller) -> Result<bool, StoreError> {
        let operation = "taking an approval back";
        let project = path_text(project)?;
        let mut transaction = self.begin(operation).await?;
        let deleted_rows = query("DELETE FROM approvals WHERE project = $1 AND name = $2")
            .bind(project)
            .bind(name)
            .execute(&mut transaction)
            .await?;
        let existed = deleted_rows > 0;
        if existed {
            let entry = Entry::of_trust("untrusted", caller, project, name, None);
            append(&mut transaction, &[(Utc::now().timestamp_millis(), entry)]).await?;
        }
        transaction.commit().await?;
        Ok(existed)
    }

    /// All approvals, by project and name.
    ///
    /// # Errors
    /// [`StoreError`] when the database fails.
    pub async fn approvals(&self) -> Result<Vec<Approval>, StoreError> {
        let rows: Vec<Row> =
            query("SELECT project, name, hash, shown, approved_at FROM approvals ORDER BY project, name")
                .fetch_all(&mut self.begin_read("reading approvals").await?)
                .await?;
        Ok(rows.into_iter().map(Approval::from).collect())
    }
}

/// Returns a path as text for the database, which stores only UTF-8.
pub(crate) fn path_text(path: &Path) -> Result<&str, StoreError> {
    path.to_str().ok_or_else(|| StoreError::Path { path: path.to_owned() })
}
