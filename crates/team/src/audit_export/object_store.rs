//! Defines the trait for a place to which the exporter writes objects (files).

use bytes::Bytes;
use futures::future::BoxFuture;

/// A place for objects, such as a bucket or a folder. It never overwrites an object.
pub trait ObjectStore: Send + Sync {
    /// Prepares for a round. An object store may for example read its credentials again, which may have changed.
    fn begin_round(&self) -> BoxFuture<'_, Result<(), ObjectStoreError>> {
        Box::pin(async { Ok(()) })
    }

    /// Writes an object, if there is none of this name yet. Also succeeds if the object store already has an object of
    /// this name with the same content. If the caller drops the future, the object may be written or not.
    fn put<'a>(&'a self, name: &'a str, content: Bytes) -> BoxFuture<'a, Result<(), ObjectStoreError>>;
}

/// Why an object was not written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ObjectStoreError {
    /// The object store has an object of this name with other content.
    #[error(
        "{name} is there already, with other content: the database was set back, or another daemon writes to the same \
         place. Verify what is there, and name a new place in `to` of `[audit_export]`"
    )]
    Occupied {
        /// The name of the object.
        name: String,
    },
    /// Writing failed, and may work later.
    #[error("{why}")]
    Failed {
        /// The reason.
        why: String,
    },
    /// Writing will fail again until the operator changes a setting.
    #[error("{why}")]
    Refused {
        /// The reason.
        why: String,
    },
}
