//! Contains the verbs that show and change the configuration.

pub(crate) mod add;
pub(crate) mod config;
pub(crate) mod edits;
mod entry_secrets;
pub(crate) mod get;
pub(crate) mod import;
pub(crate) mod remove;
pub(crate) mod switch;
