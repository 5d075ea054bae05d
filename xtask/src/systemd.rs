//! systemd's own check of units, if it is installed. It needs no running systemd.

use crate::debian::is_there;

/// Returns the test modules that cannot run here, and the reason.
pub(crate) fn missing<'a>() -> impl Iterator<Item = (&'static str, &'a str)> {
    (!is_there("systemd-analyze")).then_some(("needs_systemd", "there is no `systemd-analyze` on the path")).into_iter()
}
