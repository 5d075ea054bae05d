//! The verbs that use what servers offer: tools, resources, prompts.

pub(crate) mod call;
pub(crate) mod given;
pub(crate) mod prompts;
pub(crate) mod resources;
pub(crate) mod tools;
