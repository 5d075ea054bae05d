//! Signing in, staying signed in and signing out, against an authorization server that can do much wrong.

#![expect(clippy::unwrap_used, reason = "tests")]

mod bound_tokens;
mod hostile;
mod machines;
mod stage;
mod staying;
