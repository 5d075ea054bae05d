//! Scripts, their abilities and their bounds: through a whole host, with servers in this process.
#![cfg(test)]

mod bounds;
mod calls;
mod listing;
mod shelf;
