//! The daemon as programs and users see it: over HTTP, in front of real servers.

#[cfg(test)]
mod agents;
#[cfg(test)]
mod calls;
#[cfg(test)]
mod configured;
#[cfg(test)]
mod described;
#[cfg(test)]
mod events;
#[cfg(test)]
mod health;
#[cfg(test)]
mod import;
#[cfg(test)]
mod kept;
#[cfg(test)]
mod needs_proxy;
#[cfg(test)]
mod needs_python;
#[cfg(test)]
mod questions;
#[cfg(test)]
mod reload;
#[cfg(test)]
mod requests;
#[cfg(test)]
mod secrets;
#[cfg(test)]
mod sign_ins;
#[cfg(test)]
mod soak;
#[cfg(test)]
mod statuses;
#[cfg(test)]
mod trust;
#[cfg(test)]
mod turns;
#[cfg(test)]
mod up;
