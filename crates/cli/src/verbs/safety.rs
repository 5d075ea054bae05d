//! Contains the verbs about permissions, identities and the audit log.

pub(crate) mod audit;
pub(crate) mod policy;
pub(crate) mod secret;
pub(crate) mod sign_in;
pub(crate) mod store;
pub(crate) mod team;
pub(crate) mod trust;
