//! The host as its users meet it: real servers of both eras, and stories of what happens to them.
//!
//! All tests are in one binary, because linking takes most of the time. The modules:
//!
//! * `story`: what a host promises, tested with servers in this process and with the testkit's fake server;
//! * `modern`: a real server of 2026-07-28, the official Rust SDK's own;
//! * `needs_node`, `needs_python`: real servers from npm and PyPI, and the official conformance suite. They are
//!   installed by `cargo xtask test`, and left out, counted, where Node or Python is missing.
//!
//! The rest are helpers: `askers`, `programs`, `scripted` (servers in this process that answer exactly what a test
//! wants) and `worlds` (shorthands).

#[cfg(test)]
mod askers;
#[cfg(test)]
mod modern;
#[cfg(test)]
mod needs_node;
#[cfg(test)]
mod needs_python;
#[cfg(test)]
mod programs;
#[cfg(test)]
mod scripted;
#[cfg(test)]
mod story;
#[cfg(test)]
mod worlds;
