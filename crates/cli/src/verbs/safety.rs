//! The verbs about what may run, who is who, and what was done.

pub(crate) mod audit;
pub(crate) mod policy;
pub(crate) mod secret;
pub(crate) mod sign_in;
pub(crate) mod team;
pub(crate) mod trust;
