//! Prepares the export of a team's audit logs as `[audit_export]` of the team file describes it.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, ErrorKind, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    sync::Arc,
};

use bytes::Bytes;
use futures::future::BoxFuture;
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
            Ok(Arc::new(Folder(path.clone())))
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
struct Folder(PathBuf);

impl ObjectStore for Folder {
    fn put<'a>(&'a self, name: &'a str, content: Bytes) -> BoxFuture<'a, Result<(), ObjectStoreError>> {
        let (path, name) = (self.0.join(name), name.to_owned());
        Box::pin(async move {
            let store_error = |why: String| ObjectStoreError::Failed { why };
            let written = tokio::task::spawn_blocking(move || write(&path, &content)).await;
            match written.map_err(|error| store_error(error.to_string()))? {
                Ok(true) => Ok(()),
                Ok(false) => Err(ObjectStoreError::Occupied { name }),
                Err(error) => Err(store_error(format!("{name} cannot be written: {}", in_words(&error)))),
            }
        })
    }
}

/// Writes a new file atomically: a reader sees all of it or no file. Returns `false`, and changes nothing, if there is
/// a file of this name with other content.
fn write(path: &Path, content: &[u8]) -> io::Result<bool> {
    let folder = path.parent().unwrap_or(path);
    make_folder(folder)?;
    let unfinished = path.with_extension(format!("{}.part", std::process::id()));
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o440).open(&unfinished)?;
    // Unlike a rename, a hard link never replaces a file.
    let linked = file.write_all(content).and_then(|()| file.sync_all()).and_then(|()| fs::hard_link(&unfinished, path));
    fs::remove_file(&unfinished)?;
    match linked {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => return Ok(fs::read(path)? == content),
        linked => linked?,
    }
    File::open(folder)?.sync_all()?;
    Ok(true)
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
        let folder = Folder(home.path().join("out"));
        let put = |content: &'static str| folder.put("team/heads/1.jws", content.into());
        assert_eq!((put("one").await, put("one").await), (Ok(()), Ok(())));
        assert_eq!(put("two").await, Err(ObjectStoreError::Occupied { name: "team/heads/1.jws".to_owned() }));
        let files: Vec<_> = fs::read_dir(home.path().join("out/team/heads")).unwrap().collect();
        assert_eq!(files.len(), 1, "nothing unfinished stays: {files:?}");
        fs::write(home.path().join("file"), "").unwrap();
        let failed = Folder(home.path().join("file")).put("team/x", Bytes::new()).await;
        assert!(matches!(failed, Err(ObjectStoreError::Failed { .. })), "{failed:?}");
    }
}
