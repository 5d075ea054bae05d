//! Real servers from npm, and the official conformance suite.

mod conformance;
mod everything;
mod others;
