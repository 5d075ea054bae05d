//! The gateway as its clients see it: through Toolrack's own host in both eras, and byte by byte.
#![cfg(test)]

mod relayed;
mod wire;
mod world;
