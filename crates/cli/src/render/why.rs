//! Why a tool is there, or why not.

use toolrack_host::{Why, text};

use super::{Cell, Look, Sign, Tone, columns, paint};

/// The verdict, then one line per step from the configuration to the name; the first that failed is the reason.
pub(crate) fn page(why: &Why, look: Look) -> String {
    let rows: Vec<_> = why
        .steps
        .iter()
        .map(|step| {
            let (sign, tone) = if step.ok { (Sign::Good, Tone::Good) } else { (Sign::Bad, Tone::Bad) };
            vec![
                Cell::new(tone, look.sign(sign)),
                Cell::new(Tone::Strong, step.stage),
                Cell::new(Tone::Plain, text::for_line(&step.what)),
            ]
        })
        .collect();
    let verdict = if why.present { "can be called" } else { "cannot be called" };
    let mut lines = vec![format!("{} {verdict}", paint(Tone::Strong, &why.selector))];
    lines.extend(columns(&rows));
    lines.join("\n")
}
