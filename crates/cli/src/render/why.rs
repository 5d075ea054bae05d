//! Why a tool is there, or why not.

use toolrack_host::Why;

use super::{Look, Tone, columns, paint, test::steps};

/// The verdict, then one line per step from the configuration to the name; the first that failed is the reason.
pub(crate) fn page(why: &Why, look: Look) -> String {
    let rows = steps(&why.steps, look);
    let is_tool = why.selector.contains('/');
    let verdict = match (why.present, is_tool) {
        (true, true) => "can be called",
        (false, true) => "cannot be called",
        (true, false) => "can be used",
        (false, false) => "cannot be used",
    };
    let mut lines = vec![format!("{} {verdict}", paint(Tone::Strong, &why.selector))];
    lines.extend(columns(&rows));
    lines.join("\n")
}
