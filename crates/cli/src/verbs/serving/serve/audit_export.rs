//! Prepares the export of a team's audit logs, as `[audit_export]` of the team file describes it. The parts are the key
//! that signs, the place to which objects are written, and the logs.
//!
//! A team has tenants, each with servers and data of its own, and each tenant has members: people and services. The
//! daemon has a log, and so has each tenant.

use std::{
    collections::HashSet,
    fs::{self, File},
    io::{self, ErrorKind, Write as _},
    os::unix::fs::{DirBuilderExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    sync::Arc,
};

use bytes::Bytes;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use toolrack_config::Interpolate;
use toolrack_team::{
    AuditExportTable, ExportTarget, S3Table, TeamFile,
    audit_export::{
        AuditExporter, LogName, ObjectStore, ObjectStoreError, OpenLog, OpenedLog, ReadS3Credentials, ReadSigningKey,
        S3Credentials, S3Store, SigningKey,
    },
};

use super::team::open_tenant_store;
use crate::{
    context::Context,
    database::DatabaseServer,
    error::{Failure, in_words, with_causes},
};

/// How the names of files end that are not finished yet. `toolrack audit verify-export` leaves such files out.
const UNFINISHED_SUFFIX: &str = ".part";

/// Returns the exporter that the team file describes; `None` if it has no `[audit_export]`.
///
/// # Errors
/// When the object store or the key cannot be used.
pub(super) async fn exporter(
    file: &Arc<TeamFile>,
    server: Option<DatabaseServer>,
    context: &Context,
) -> Result<Option<AuditExporter>, Failure> {
    let Some(table) = &file.audit_export else { return Ok(None) };
    let read_key = signing_key_reader(table, context);
    let key = read_key().await.map_err(export_failure)?;
    let object_store = object_store(table, context).await?;
    tracing::info!("audit logs are exported to {}, signed with the key {}", table.to, key.public().id());
    let tenants = file.tenants.iter().map(|tenant| LogName::Tenant(tenant.id.clone()));
    let logs = std::iter::once(LogName::Team).chain(tenants).collect();
    let open_log = log_opener(Arc::clone(file), server, context)?;
    Ok(Some(AuditExporter::new(table, key, object_store, logs, open_log).with_changing_key(read_key)))
}

fn export_failure(why: impl std::fmt::Display) -> Failure {
    Failure::config(format!("`[audit_export]` of the team file: {why}")).hint("docs/guide/teams.md has an example")
}

/// Returns a function that reads the key in `signing_key`, whose placeholder may get another value while the daemon
/// runs.
fn signing_key_reader(table: &AuditExportTable, context: &Context) -> ReadSigningKey {
    let (secrets, text) = (context.secrets(), table.signing_key.clone());
    Box::new(move || {
        let (secrets, text) = (Arc::clone(&secrets), text.clone());
        Box::pin(async move {
            let pem = resolve(&secrets, "signing_key", &text).await?;
            SigningKey::from_pem(&pem).map_err(|error| format!("`signing_key` {error}"))
        })
    })
}

/// Returns the text of a field of the table, with its placeholder resolved.
async fn resolve(secrets: &Interpolate, field: &str, text: &str) -> Result<String, String> {
    let field = format!("audit_export.{field} of the team file");
    let is_secret = true;
    secrets.setting(&field, text, is_secret).await.map_err(|error| with_causes(&error))
}

async fn object_store(table: &AuditExportTable, context: &Context) -> Result<Arc<dyn ObjectStore>, Failure> {
    match (&table.to, &table.s3) {
        (ExportTarget::Folder(path), _) => {
            make_folder(path)
                .map_err(|error| export_failure(format!("{} cannot be used: {}", path.display(), in_words(&error))))?;
            Ok(Arc::new(Folder::new(path.clone())))
        }
        (ExportTarget::Bucket { .. }, Some(s3)) => {
            let object_store =
                S3Store::new(table, context.egress(), credentials_reader(s3, context)).map_err(export_failure)?;
            // Report a placeholder without a value now, and not in the first round of exports.
            object_store.begin_round().await.map_err(export_failure)?;
            Ok(Arc::new(object_store))
        }
        // A kind of target that this program does not know. A bucket without `s3` was refused with the team file.
        (other, _) => Err(export_failure(format!("this program cannot write to {other}"))),
    }
}

/// Returns a function that reads the credentials in `[audit_export.s3]`, whose placeholders may get other values while
/// the daemon runs.
fn credentials_reader(table: &S3Table, context: &Context) -> ReadS3Credentials {
    let (secrets, table) = (context.secrets(), table.clone());
    Box::new(move || {
        let (secrets, table) = (Arc::clone(&secrets), table.clone());
        Box::pin(async move {
            let session_token = match &table.session_token {
                Some(text) => Some(resolve(&secrets, "s3.session_token", text).await?),
                None => None,
            };
            Ok(S3Credentials {
                access_key_id: resolve(&secrets, "s3.access_key_id", &table.access_key_id).await?,
                secret_access_key: resolve(&secrets, "s3.secret_access_key", &table.secret_access_key).await?,
                session_token,
            })
        })
    })
}

/// Returns a function that opens the log of the daemon itself or of a tenant; `None` for a tenant that was never used.
fn log_opener(file: Arc<TeamFile>, server: Option<DatabaseServer>, context: &Context) -> Result<OpenLog, Failure> {
    let daemon_store = context.store()?.clone();
    Ok(Box::new(move |log| {
        let (file, server, daemon_store) = (Arc::clone(&file), server.clone(), daemon_store.clone());
        Box::pin(async move {
            let LogName::Tenant(id) = log else {
                return Ok(Some(OpenedLog { store: daemon_store, close_after_round: false }));
            };
            let Some(tenant) = file.tenant(&id) else { return Ok(None) };
            let store = open_tenant_store(tenant, server.as_ref()).await.map_err(|failure| failure.message)?;
            Ok(store.map(|store| OpenedLog { store, close_after_round: true }))
        })
    }))
}

/// A folder of this machine, for example one in which another file system is mounted.
#[derive(Debug)]
struct Folder {
    path: PathBuf,
    /// The folders in it from which the unfinished files of earlier processes have been removed.
    tidied_folders: Arc<Mutex<HashSet<PathBuf>>>,
}

impl Folder {
    fn new(path: PathBuf) -> Self {
        Self { path, tidied_folders: Arc::default() }
    }
}

impl ObjectStore for Folder {
    fn put<'a>(&'a self, name: &'a str, content: Bytes) -> BoxFuture<'a, Result<(), ObjectStoreError>> {
        let (path, name, tidied_folders) = (self.path.join(name), name.to_owned(), Arc::clone(&self.tidied_folders));
        Box::pin(async move {
            let store_error = |why: String| ObjectStoreError::Failed { why };
            let write_result =
                tokio::task::spawn_blocking(move || write_and_tidy(&path, &content, &tidied_folders)).await;
            match write_result.map_err(|error| store_error(error.to_string()))? {
                Ok(true) => Ok(()),
                Ok(false) => Err(ObjectStoreError::Occupied { name }),
                Err(error) => Err(store_error(format!("{name} cannot be written: {}", in_words(&error)))),
            }
        })
    }
}

/// Writes a file as [`write()`] does. Then removes unfinished files from its folder, unless the folder is in
/// `tidied_folders`.
fn write_and_tidy(path: &Path, content: &[u8], tidied_folders: &Mutex<HashSet<PathBuf>>) -> io::Result<bool> {
    let is_written = write(path, content)?;
    let folder = path.parent().unwrap_or(path);
    if tidied_folders.lock().insert(folder.to_owned()) {
        remove_unfinished(folder);
    }
    Ok(is_written)
}

/// Writes a new file atomically: a reader sees all of it or no file. Returns `false`, and changes nothing, if there is
/// a file of this name with other content.
fn write(path: &Path, content: &[u8]) -> io::Result<bool> {
    let folder = path.parent().unwrap_or(path);
    make_folder(folder)?;
    // The name is random: a process after a crash, or in another container, may have the same id as one before.
    let mut unfinished = tempfile::Builder::new()
        .prefix(path.file_stem().unwrap_or_default())
        .suffix(UNFINISHED_SUFFIX)
        .permissions(fs::Permissions::from_mode(0o440))
        .tempfile_in(folder)?;
    // Unlike a rename, a hard link never replaces a file.
    let link_result = unfinished
        .write_all(content)
        .and_then(|()| unfinished.as_file().sync_all())
        .and_then(|()| fs::hard_link(unfinished.path(), path));
    match unfinished.close() {
        // Another process has removed it, see `remove_unfinished`.
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        result => result?,
    }
    match link_result {
        // With `NotFound`, another process has removed the unfinished file after it had written an object here.
        Err(error) if matches!(error.kind(), ErrorKind::AlreadyExists | ErrorKind::NotFound) => {
            return Ok(fs::read(path)? == content);
        }
        result => result?,
    }
    File::open(folder)?.sync_all()?;
    Ok(true)
}

/// Removes the files in `folder` that processes have not finished, because they crashed. A file that another process
/// still writes may be among them: that process then writes the object again in its next round.
fn remove_unfinished(folder: &Path) {
    // A file that cannot be removed only takes up space.
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_name().as_encoded_bytes().ends_with(UNFINISHED_SUFFIX.as_bytes()) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

fn make_folder(path: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o750).create(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_file_is_written_once_and_never_with_other_content() {
        let home = tempfile::tempdir().unwrap();
        let folder = Folder::new(home.path().join("out"));
        let put = |content: &'static str| folder.put("team/heads/1.jws", content.into());
        assert_eq!((put("one").await, put("one").await), (Ok(()), Ok(())));
        assert_eq!(put("two").await, Err(ObjectStoreError::Occupied { name: "team/heads/1.jws".to_owned() }));
        let files: Vec<_> = fs::read_dir(home.path().join("out/team/heads")).unwrap().collect();
        assert_eq!(files.len(), 1, "nothing unfinished stays: {files:?}");
        fs::write(home.path().join("file"), "").unwrap();
        let failed = Folder::new(home.path().join("file")).put("team/x", Bytes::new()).await;
        assert!(matches!(failed, Err(ObjectStoreError::Failed { .. })), "{failed:?}");
    }

    #[tokio::test]
    async fn what_a_process_has_not_finished_is_removed_and_keeps_no_file_from_being_written() {
        let home = tempfile::tempdir().unwrap();
        let heads = home.path().join("team/heads");
        make_folder(&heads).unwrap();
        // As earlier processes left them behind: one with the same id, and one with another.
        for id in [std::process::id(), 0] {
            let left_behind = heads.join(format!("1.{id}.part"));
            fs::write(&left_behind, "o").unwrap();
            fs::set_permissions(&left_behind, fs::Permissions::from_mode(0o440)).unwrap();
        }
        let folder = Folder::new(home.path().to_owned());
        assert_eq!(folder.put("team/heads/1.jws", "one".into()).await, Ok(()));
        let names: Vec<_> = fs::read_dir(&heads).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["1.jws"]);
        let object = heads.join("1.jws");
        assert_eq!(fs::read(&object).unwrap(), b"one");
        assert_eq!(fs::metadata(&object).unwrap().permissions().mode() & 0o222, 0, "nothing changes it");
    }
}
