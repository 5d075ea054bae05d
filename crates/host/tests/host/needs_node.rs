//! Real servers from npm. (The conformance suite is played in `crates/auth`, where a client can sign in.)

mod everything;
mod others;
mod polling;
