//! Reports findings about the tools of the connected servers. A tool is in quarantine if its definition differs from
//! its pin, which is the definition that the user trusted.

use toolrack_host::{Host, findings::Finding};

use super::render::Check;

/// The number of checks after which findings are only counted, and no longer shown.
const MAX_CHECKS: usize = 30;

/// Returns the checks of tools in quarantine, and of the findings in all definitions.
pub(super) fn checks(host: &Host) -> Vec<Check> {
    let mut checks = Vec::new();
    for status in host.status() {
        for quarantined in &status.quarantined {
            let tool = format!("{}/{}", status.name, quarantined.tool);
            let hint = shell_words::join(["toolrack", "trust", "diff", &tool]);
            let state = if quarantined.usable { "can be used, but" } else { "is in quarantine:" };
            checks.push(Check::doubtful("pins", &tool, format!("{state} {}", quarantined.cause)).hint(hint));
        }
    }
    let mut unshown_count = 0_usize;
    for ((server, tool), findings) in host.catalog().findings() {
        for Finding { place, what, .. } in findings {
            if checks.len() >= MAX_CHECKS {
                unshown_count += 1;
                continue;
            }
            checks.push(Check::doubtful("tools", &format!("{server}/{tool}"), format!("{place}: {what}")));
        }
    }
    if unshown_count > 0 {
        checks.push(Check::doubtful("tools", "all", format!("{unshown_count} more findings are not shown")));
    }
    checks
}
