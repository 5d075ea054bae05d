//! What the programs of the benchmark share: how a client is called, and how it measures. A *row* is one kind of work,
//! such as calls over HTTP with 64 in flight; every client that can do it is one column of the table.
//!
//! Every client, in whatever language, is called as `PROGRAM ROW COUNT [-- COMMAND…]` or `PROGRAM ROW COUNT URL`, does
//! the work of the row once, and prints one [`Figures`] as a line of JSON. The runner (`main.rs`) calls them in turns.

#![expect(clippy::print_stdout, reason = "programs that print what they measured")]

pub mod connected;
pub mod fakes;
pub mod fast_server;
pub mod figures;
pub mod heap;
pub mod job;
pub mod measure;
pub mod programs;

pub use figures::{Figures, Watch};
pub use heap::Heap;
pub use job::{Job, Row, Target};

/// The error for which a program of the benchmark ends.
pub type AnyError = Box<dyn std::error::Error + Send + Sync>;

/// Prints the figures.
///
/// # Errors
/// When the figures cannot be written as JSON.
pub fn print(figures: &Figures) -> Result<(), AnyError> {
    println!("{}", serde_json::to_string(figures)?);
    Ok(())
}
