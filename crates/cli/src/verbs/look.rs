//! Contains the verbs that show the state of servers, and the reasons for that state.

pub(crate) mod doctor;
pub(crate) mod list;
pub(crate) mod logs;
pub(crate) mod test;
pub(crate) mod why;
