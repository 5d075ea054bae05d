//! Lists secrets by their names.

use serde::Serialize;
use toolrack_host::text;

use crate::render::{Cell, Layout, Sign, Tone, columns};

/// `secret list --json`.
#[derive(Debug, Serialize)]
pub(crate) struct SecretList {
    pub(crate) secrets: Vec<ListedSecret>,
    /// The place of the key.
    pub(crate) key: String,
}

/// A secret without its value.
#[derive(Debug, Serialize)]
pub(crate) struct ListedSecret {
    pub(crate) name: String,
    #[serde(rename = "set")]
    pub(crate) is_set: bool,
    /// The servers whose configuration names the secret.
    pub(crate) used_by: Vec<String>,
}

/// Returns a line for each secret.
pub(crate) fn page(list: &SecretList, layout: Layout) -> String {
    let row = |secret: &ListedSecret| {
        let (sign, tone) = if secret.is_set { (Sign::Good, Tone::Good) } else { (Sign::Bad, Tone::Bad) };
        let servers = secret.used_by.join(", ");
        let mut cells = vec![Cell::new(tone, layout.sign(sign)), Cell::new(Tone::Strong, text::for_line(&secret.name))];
        if !servers.is_empty() {
            cells.push(Cell::new(Tone::Faint, text::for_line(&servers)));
        }
        cells
    };
    columns(&list.secrets.iter().map(row).collect::<Vec<_>>()).join("\n")
}
