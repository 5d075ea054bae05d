//! Exports audit logs to an object store that an operator of the database cannot change. Other programs can verify the
//! logs there.
//!
//! Each log has a chain of hashes in the database. The exporter writes new rows into objects (files), as the lines of
//! JSON that `toolrack audit export` prints. After the objects it writes a [`Head`], a signed file. It names the log,
//! and the last row of its chain with the hash of that row. It also has the hash of each object since the previous
//! head, and the hash of that head. The signature is a JWS in compact form. Only the daemon has the key; its public
//! half is beside the objects.
//!
//! The exporter never writes an object twice with different content: the database stores a head before the exporter
//! writes any of its objects. So a process that takes over after a crash writes exactly the same objects again, which
//! does no harm.
//!
//! - `rounds` decides when each log is exported, and handles failures.
//! - `exporter` exports one log. It uses `reading` (makes objects of rows), `object_store` (the trait for where objects
//!   go) and `head` (the signed statements) with `key`.
//! - `s3` is an object store: a bucket.
//! - `verify` checks the exported files, without the database.

mod exporter;
mod head;
mod key;
mod object_store;
mod reading;
mod rounds;
mod s3;
mod verify;

pub use exporter::ExportError;
pub use head::{Head, LogName, NamedObject};
pub use key::{BadKey, PublicKey, SigningKey};
pub use object_store::{ObjectStore, ObjectStoreError};
pub use rounds::{AuditExportStatus, AuditExporter, OpenLog, OpenedLog, ReadSigningKey};
pub use s3::{ReadS3Credentials, S3Credentials, S3Store};
pub use verify::{ExportedFiles, LogReport, Problem, verify};

#[cfg(test)]
mod tests;
