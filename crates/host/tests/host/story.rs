//! What a host promises, as stories: with servers in this process (`scripted`), whose clock can be paused, and with the
//! testkit's fake server where processes and sockets matter.

mod apply;
mod batches;
mod bounds;
mod calls;
mod catalogs;
mod crowded;
mod discovery;
mod egress;
mod embedding;
mod ending;
mod eras;
mod events;
mod field;
mod gate;
mod helper;
mod idle;
mod invisible;
mod passed_on;
mod pins;
mod questions;
mod recordings;
mod recovery;
mod results;
mod searches;
mod standing_stream;
mod starting;
mod subscriptions;
mod tasks;
mod trust;
mod why;
mod witness;
