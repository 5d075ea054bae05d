//! The verbs that talk with a model, and look after what was said.

pub(crate) mod ask;
pub(crate) mod chat;
pub(crate) mod sessions;
