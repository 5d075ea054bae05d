//! What a script can do, what it cannot, and what ends it: through a whole host, with servers in this process.
#![cfg(test)]

mod bounds;
mod calls;
mod listing;
mod shelf;
