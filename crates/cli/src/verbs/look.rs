//! The verbs that say how servers are, and why.

pub(crate) mod doctor;
pub(crate) mod list;
pub(crate) mod logs;
pub(crate) mod test;
pub(crate) mod why;
