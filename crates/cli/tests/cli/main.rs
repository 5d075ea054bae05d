//! The binary, run as a person or a script runs it: in a home of its own, against the fake server.
//!
//! Outputs are snapshots. What differs from run to run (folders, times) is replaced before they are compared.

mod add;
mod builtin;
mod call;
mod config;
mod lists;
mod output;
mod rack;
mod signals;
