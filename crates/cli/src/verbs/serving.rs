//! Contains the verbs that run servers for other programs.

pub(crate) mod connect;
pub(crate) mod daemon;
pub(crate) mod gateway;
pub(crate) mod serve;
