//! The database of the user: where it is, and how its errors are reported.

use std::path::PathBuf;

use toolrack_config::Places;
use toolrack_store::StoreError;

use crate::error::{Exit, Failure, with_causes};

/// The database of the user whose places these are.
pub(crate) fn file(places: &Places) -> PathBuf {
    places.data().join("toolrack.db")
}

/// The failure for an error of the database.
pub(crate) fn unusable(error: &StoreError) -> Failure {
    Failure::new(Exit::Other, "DATABASE", with_causes(error))
}
