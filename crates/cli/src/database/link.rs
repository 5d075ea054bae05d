//! Reads and writes the link of a data folder: the file `store.json`. A folder with a link has its rows in the database
//! of a team, instead of the database file in the folder itself.
//!
//! The daemon of a team on Postgres writes the file. Other commands in that folder, such as `toolrack secret set` and
//! `toolrack audit`, then find the same rows as the daemon, and create no database file of their own.

use std::{
    fs::{self, OpenOptions},
    io::{self, ErrorKind, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};
use toolrack_store::Store;

use super::unusable;
use crate::error::{Exit, Failure, in_words};

/// Where the rows of a folder are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Link {
    /// The team file, whose `[store]` names the database.
    pub(crate) team: PathBuf,
    /// The tenant whose folder this is; `None` for the folder of the daemon itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) tenant: Option<String>,
}

/// Returns the path of the link in the folder `data`.
pub(crate) fn link_path(data: &Path) -> PathBuf {
    data.join("store.json")
}

/// Returns the link in `data`, if there is one.
///
/// # Errors
/// When it cannot be read.
pub(crate) fn read(data: &Path) -> Result<Option<Link>, Failure> {
    let path = link_path(data);
    let unusable_link = |why: String| {
        let message =
            format!("cannot use {}, the file that names the database of this data folder: {why}", path.display());
        Failure::new(Exit::Other, "DATABASE", message).hint("`toolrack serve --team FILE` writes it anew")
    };
    match fs::read(&path) {
        Ok(text) => serde_json::from_slice(&text).map(Some).map_err(|error| unusable_link(error.to_string())),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(unusable_link(in_words(&error))),
    }
}

/// Writes `link` into the folder `data`.
///
/// # Errors
/// When it cannot be written.
pub(crate) fn write(data: &Path, link: &Link) -> Result<(), Failure> {
    let path = link_path(data);
    let write_file = || -> io::Result<()> {
        let temporary = path.with_extension(format!("{}.new", std::process::id()));
        fs::create_dir_all(data)?;
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&temporary)?;
        file.write_all(&serde_json::to_vec(link)?)?;
        fs::rename(temporary, &path)
    };
    write_file().map_err(|error| {
        let message = format!("{} cannot be written: {}", path.display(), in_words(&error));
        Failure::new(Exit::Other, "DATABASE", message)
    })
}

/// Writes `link` into the folder `data`, unless the database file there has rows that were not moved yet.
///
/// # Errors
/// When the file has such rows, and when it cannot be read.
pub(crate) async fn write_if_moved(data: &Path, link: &Link) -> Result<(), Failure> {
    match read(data) {
        Ok(Some(existing_link)) if existing_link == *link => return Ok(()),
        // A link to another team file: the rows are in a database already.
        Ok(Some(_)) => {}
        Ok(None) => check_no_unmoved_rows(data, &link.team).await?,
        Err(failure) => return Err(failure),
    }
    write(data, link)
}

async fn check_no_unmoved_rows(data: &Path, team: &Path) -> Result<(), Failure> {
    let path = super::file_in(data);
    if !path.exists() {
        return Ok(());
    }
    let is_worth_moving = match Store::open_existing(&path).await.map_err(|error| unusable(&error))? {
        Some(store) => {
            let result = store.is_worth_moving().await;
            store.close().await;
            result.map_err(|error| unusable(&error))?
        }
        // A file with another schema may have any rows.
        None => fs::metadata(&path).is_ok_and(|file| file.len() > 0),
    };
    if !is_worth_moving {
        return Ok(());
    }
    let message =
        format!("{} has rows, and the team file names another database, which has none of them", path.display());
    let migrate = shell_words::join(["toolrack", "store", "migrate", "--team", &team.to_string_lossy()]);
    Err(Failure::new(Exit::Other, "NOT_MOVED", message)
        .hint(format!("`{migrate}` moves them; or move that file away, to begin without them")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_folder_is_linked_once_its_file_has_no_rows_of_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("data");
        assert_eq!(read(&data).unwrap(), None);
        let link = Link { team: "/srv/team.toml".into(), tenant: Some("acme".to_owned()) };
        let store = Store::open(super::super::file_in(&data)).await.unwrap();
        let approval = toolrack_store::Approval {
            project: "/p".into(),
            name: "n".to_owned(),
            hash: "h".to_owned(),
            shown: "s".to_owned(),
            approved_at: 0,
        };
        store.approve(&approval, &toolrack_host::Caller::local(toolrack_host::Way::Cli)).await.unwrap();
        store.close().await;
        let refused = write_if_moved(&data, &link).await.unwrap_err();
        assert_eq!(refused.code, "NOT_MOVED");
        assert!(refused.hint.unwrap().contains("toolrack store migrate --team /srv/team.toml"));
        assert_eq!(read(&data).unwrap(), None);
        fs::remove_file(super::super::file_in(&data)).unwrap();
        write_if_moved(&data, &link).await.unwrap();
        assert_eq!(read(&data).unwrap(), Some(link));
        fs::write(link_path(&data), "{").unwrap();
        assert!(read(&data).unwrap_err().message.contains("store.json"));
    }
}
