//! The front door of a team, as browsers, clients and attackers see it: over HTTP, with a provider that does what a
//! test wants, and with a certified one.
#![cfg(test)]

mod authorization;
mod browser;
mod certified;
mod consent;
mod documents;
mod issuers;
mod provider;
mod sign_in;
mod stage;
mod tokens;
