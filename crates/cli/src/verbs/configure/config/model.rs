//! Shows which model is configured.

use std::path::Path;

use toolrack_config::ModelChoice;
use toolrack_host::text;

use crate::render::{Tone, paint};

/// Returns the settings of the model, one on each line, or `None` if there are none.
pub(crate) fn page(model: &ModelChoice, file: &Path) -> Option<String> {
    let view = model.view();
    let settings = view.as_object()?.iter().map(|(name, value)| {
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        format!("  {} {}", paint(Tone::Faint, &format!("{name:<16}")), text::for_line(&value))
    });
    let heading = format!("{}  {}", paint(Tone::Strong, "[model]"), text::for_line(&file.display().to_string()));
    Some(std::iter::once(heading).chain(settings).collect::<Vec<_>>().join("\n"))
}
