//! The official conformance suite, whose clients are written in TypeScript.

mod conformance;
mod fixture;
