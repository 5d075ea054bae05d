//! Contains the verbs for conversations with a model.

pub(crate) mod ask;
pub(crate) mod chat;
pub(crate) mod sessions;
