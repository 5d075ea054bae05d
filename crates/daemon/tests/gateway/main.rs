//! The gateway as its clients see it: through Toolrack's own host in both eras, and byte by byte.
#![cfg(test)]

mod apart;
mod ids;
mod lines;
mod needs_node;
mod needs_python;
mod offers;
mod pages;
mod profiles;
mod questions;
mod relayed;
mod rounds;
mod sessions;
mod subscribed;
mod wire;
mod world;
