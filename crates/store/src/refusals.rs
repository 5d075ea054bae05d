//! Stores the entries of projects that a user refused to run. A project is a folder whose configuration file brings
//! servers. An entry is the part of such a file that configures one server.

use std::path::{Path, PathBuf};

use chrono::Utc;
use toolrack_host::Caller;

use crate::{
    Store, StoreError,
    approvals::path_text,
    audit::{Entry, append},
    database::query,
};

/// A user's refusal to run one entry of a project. Toolrack does not propose the entry again as long as its content has
/// this hash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The folder that holds the project's file, absolute and with symbolic links resolved.
    pub project: PathBuf,
    /// The entry's name.
    pub name: String,
    /// The hash of the entry's content.
    pub hash: String,
}

impl Refusal {
    /// Whether this refusal covers the entry `name` of `project` with the content of this hash.
    #[must_use]
    pub fn covers(&self, project: &Path, name: &str, hash: &str) -> bool {
        self.project == project && self.name == name && self.hash == hash
    }
}

impl Store {
    /// Stores a refusal in place of an earlier refusal of the same entry. Records in the [audit log](crate::audit) that
    /// `caller` refused, in the same transaction. A later [approval](Self::approve) of the entry deletes the refusal.
    ///
    /// # Errors
    /// [`StoreError::Path`] when the project's path is not UTF-8; others when the database fails.
    pub async fn refuse(&self, refusal: &Refusal, caller: &Caller) -> Result<(), StoreError> {
        let operation = "writing a refusal";
        let project = path_text(&refusal.project)?;
        let now = Utc::now();
        let mut transaction = self.begin(operation).await?;
        query(
            "INSERT INTO refusals (project, name, hash, refused_at) VALUES ($1, $2, $3, $4) \
             ON CONFLICT (project, name) DO UPDATE SET hash = excluded.hash, refused_at = excluded.refused_at",
        )
        .bind(project)
        .bind(&refusal.name)
        .bind(&refusal.hash)
        .bind(now.timestamp())
        .execute(&mut transaction)
        .await?;
        let entry = Entry::of_trust("refused", caller, project, &refusal.name, Some(&refusal.hash));
        append(&mut transaction, &[(now.timestamp_millis(), entry)]).await?;
        transaction.commit().await
    }

    /// All refusals, by project and name.
    ///
    /// # Errors
    /// [`StoreError`] when the database fails.
    pub async fn refusals(&self) -> Result<Vec<Refusal>, StoreError> {
        let rows: Vec<(String, String, String)> =
            query("SELECT project, name, hash FROM refusals ORDER BY project, name")
                .fetch_all(&mut self.begin_read("reading refusals").await?)
                .await?;
        Ok(rows.into_iter().map(|(project, name, hash)| Refusal { project: project.into(), name, hash }).collect())
    }
}

#[cfg(test)]
mod tests;
