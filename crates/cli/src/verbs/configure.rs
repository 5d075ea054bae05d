//! The verbs that show and change the configuration.

pub(crate) mod add;
pub(crate) mod config;
pub(crate) mod edits;
pub(crate) mod get;
pub(crate) mod import;
pub(crate) mod remove;
mod sealed;
pub(crate) mod switch;
