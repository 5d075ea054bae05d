//! What tests can have of systemd: its own check of units, if it is installed, and a manager of one user's units, which
//! needs no running systemd.

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

/// Whether a manager can be started in a mount namespace of its own, and ends again at once.
fn can_manage() -> bool {
    let script = "mount -t tmpfs none /run && mkdir -p /run/systemd/system /run/user/0 && \
        XDG_RUNTIME_DIR=/run/user/0 exec timeout 10 /lib/systemd/systemd --user --unit=exit.target";
    output(program("unshare").args(["--mount", "--propagation", "private", "sh", "-c", script])).is_some()
}
