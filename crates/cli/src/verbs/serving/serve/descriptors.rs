//! Limits the daemon's connections to the file descriptors that it may open.

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use toolrack_daemon::Options;

use crate::screen::Screen;

/// The maximum number of open files that a daemon asks for: one for each connection, and as many again for its servers.
const MAX_OPEN_FILES: u64 = 16 * 1024;

/// The open files that are reserved for servers, the database and everything else.
const RESERVED_FILES: u64 = 1_024;

/// Limits the connections in `options` to the available descriptors. Raises the limit of this process as far as needed
/// and allowed; child processes inherit the limit.
pub(super) fn limit_connections(options: Options, screen: &Screen) -> Options {
    let Ok((soft_limit, hard_limit)) = getrlimit(Resource::RLIMIT_NOFILE) else { return options };
    let desired_limit = hard_limit.min(MAX_OPEN_FILES);
    let limit =
        match soft_limit < desired_limit && setrlimit(Resource::RLIMIT_NOFILE, desired_limit, hard_limit).is_ok() {
            true => desired_limit,
            false => soft_limit,
        };
    let max_connections = connections_within(limit).min(options.connections);
    if max_connections < options.connections {
        screen.warning(&format!(
            "at most {max_connections} connections are served at once, because a process may have {limit} open files \
             (`ulimit -n`)"
        ));
    }
    Options {
        connections: max_connections,
        // At least half of the connections stay for callers that have shown a valid token.
        unauthenticated: options.unauthenticated.min(max_connections / 2).max(1),
        ..options
    }
}

/// Returns how many connections `limit` open files allow: one for each file that is not reserved. If that is less than
/// half of the files, returns half of them. Never less than 2, so that one connection stays for a caller with a token.
fn connections_within(limit: u64) -> usize {
    usize::try_from(limit.saturating_sub(RESERVED_FILES).max(limit / 2)).unwrap_or(usize::MAX).max(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_descriptors_for_the_servers() {
        assert_eq!([64, 1_024, 4_096, 16_384].map(connections_within), [32, 512, 3_072, 15_360]);
    }
}
