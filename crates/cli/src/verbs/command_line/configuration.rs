//! Collects the configurations that the command line itself contains: JSON that is typed or piped, and a server for
//! only this command.

use std::path::PathBuf;

use toolrack_config::TypedConfig;

use crate::{
    args::{self, Global},
    error::Failure,
    screen::Screen,
    verbs::input,
};

/// The most bytes of one such configuration: as many as a configuration file may have.
const MAX_BYTES: usize = 4 * 1024 * 1024;

/// Removes the configurations that are not files from the options, and returns them. Reads stdin if the options name
/// it.
///
/// # Errors
/// When stdin cannot be read, or is named twice.
pub(crate) async fn take_inline_configurations(
    global: &mut Global,
    screen: &Screen,
) -> Result<Vec<TypedConfig>, Failure> {
    let words = std::mem::take(&mut global.mcp_config);
    let (typed, files): (Vec<PathBuf>, Vec<PathBuf>) = words.into_iter().partition(|word| args::is_inline(word));
    global.mcp_config = files;
    if typed.iter().filter(|word| args::is_stdin(word)).count() > 1 {
        return Err(Failure::usage("stdin can be read for one --mcp-config"));
    }
    let mut configurations = Vec::new();
    for word in typed {
        let origin = if args::is_stdin(&word) { "stdin" } else { "--mcp-config" };
        let text = input::read("--mcp-config", word.to_string_lossy().into_owned(), screen).await?;
        if text.len() > MAX_BYTES {
            return Err(Failure::usage(format!("{origin} is too large: a configuration may have 4 MiB")));
        }
        configurations.push(TypedConfig { place: origin.to_owned(), text });
    }
    if let Some(one_off) = &global.one_off {
        configurations.push(TypedConfig { place: "the command line".to_owned(), text: one_off.configuration() });
    }
    Ok(configurations)
}
