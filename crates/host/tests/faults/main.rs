//! The fault suite: servers that lie, stall, flood and die, over every transport and in both eras.
//!
//! Each row of the tables here is a separate test: a [fake server](toolrack_testkit::fake) with a fault, and the
//! expected outcome of a call. Whatever the fault, the [stage](stage) holds the host to these promises:
//!
//! 1. every call ends, with a result or a cause, before its own deadline;
//! 2. a healthy neighbour on the same host answers within a second, all the while;
//! 3. no call reaches the server twice, and no tool runs twice;
//! 4. the memory of this process grows by less than 64 MiB;
//! 5. a shutdown is quick, and leaves no process of the server;
//! 6. errors name the server; and no error, event, status or log line holds a secret, a session id, or a character that
//!    a terminal would obey.
//!
//! The modules: `startup` (from the spawn to the list of tools), `bad_input` (entries that cannot work), `answers`
//! (invalid results, over all transports), `deaths` (servers that die or freeze in a call), `exchanges` (HTTP other
//! than MCP's), `streams` (event streams), `sessions`, `lists`, `messages` (the message observer), `floods`, and
//! `processes` (hosts that are killed).

// `cfg(test)` is only for clippy, which allows `unwrap` in test modules only.
#[cfg(test)]
mod answers;
#[cfg(test)]
mod bad_input;
#[cfg(test)]
mod deaths;
#[cfg(test)]
mod exchanges;
#[cfg(test)]
mod floods;
#[cfg(test)]
mod lists;
#[cfg(test)]
mod messages;
#[cfg(test)]
mod processes;
#[cfg(test)]
mod programs;
#[cfg(test)]
mod row;
#[cfg(test)]
mod sessions;
#[cfg(test)]
mod stage;
#[cfg(test)]
mod startup;
#[cfg(test)]
mod streams;
#[cfg(test)]
mod witness;
