//! Checks whether this machine can connect to itself with IPv6, which some containers cannot.

use std::net::{Ipv6Addr, TcpListener};

/// Returns the test module that cannot run here, and the reason.
pub(crate) fn missing() -> Option<(&'static str, &'static str)> {
    let why = "there is no IPv6 at `::1`";
    TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).is_err().then_some(("needs_ipv6", why))
}
