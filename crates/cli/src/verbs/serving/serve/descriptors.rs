//! Limits the daemon's connections to the file descriptors that it may open.

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use toolrack_daemon::Options;

use crate::screen::Screen;

/// The open files that a daemon can use: one for each connection, and as many again for its servers.
const MAX_OPEN_FILES: u64 = 16 * 1024;

/// The open files that are reserved for servers, the database and everything else.
const RESERVED_FILES: u64 = 1_024;

/// Limits the connections in `options` to the available descriptors. Raises the limit of this process as far as needed
/// and allowed; child processes inherit the limit.
pub(super) fn limit_connections(options: Options, screen: &Screen) -> Options {
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else { return options };
    let wanted = hard.min(MAX_OPEN_FILES);
    let limit = match soft < wanted && setrlimit(Resource::RLIMIT_NOFILE, wanted, hard).is_ok() {
        true => wanted,
        false => soft,
    };
    let most = connections_within(limit).min(options.connections);
    if most < options.connections {
        screen.warning(&format!(
            "at most {most} connections are served at once, because a process may have {limit} open files (`ulimit -n`)"
        ));
    }
    Options { connections: most, unauthenticated: options.unauthenticated.min(most / 2).max(1), ..options }
}

/// How many connections `limit` open files allow: all but the reserved files, or half of all files if that is more.
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
