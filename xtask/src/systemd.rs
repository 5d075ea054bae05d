//! Finds out which parts of systemd the tests can use: `systemd-analyze`, which checks units, and the manager of a
//! user's units, for which systemd need not run on the machine.

use crate::debian::is_there;
use crate::run::{output, program};

/// Returns the test modules that cannot run here, and the reason.
pub(crate) fn missing<'a>() -> impl Iterator<Item = (&'static str, &'a str)> {
    let check =
        (!is_there("systemd-analyze")).then_some(("needs_systemd", "there is no `systemd-analyze` on the path"));
    let manager = (!can_manage()).then_some((
        "needs_systemd_manager",
        "systemd's manager of a user does not run: it needs root, its cgroups, and a mount namespace",
    ));
    check.into_iter().chain(manager)
}

/// Returns whether a manager starts in a new mount namespace. It ends again at once.
fn can_manage() -> bool {
    let script = "mount -t tmpfs none /run && mkdir -p /run/systemd/system /run/user/0 && \
        XDG_RUNTIME_DIR=/run/user/0 exec timeout 10 /lib/systemd/systemd --user --unit=exit.target";
    output(program("unshare").args(["--mount", "--propagation", "private", "sh", "-c", script])).is_some()
}
