//! Collects the configurations that can be read only once: JSON that is typed or piped, and a server for only this
//! command. A command loads its configuration more than once, so these are read here and kept as text.

use std::path::PathBuf;

use toolrack_config::TypedConfig;

use crate::{
    args::{self, Global},
    context,
    error::Failure,
    screen::Screen,
    verbs::input,
};

/// The most bytes of one such configuration: as many as a configuration file may have.
const MAX_BYTES: usize = 4 * 1024 * 1024;

/// Removes the configurations that are not regular files from the options, and returns them. Reads stdin and pipes if
/// the options name them.
///
/// # Errors
/// When stdin or a pipe cannot be read, or stdin is named twice.
pub(crate) async fn take_inline_configurations(
    global: &mut Global,
    screen: &Screen,
) -> Result<Vec<TypedConfig>, Failure> {
    let words = std::mem::take(&mut global.mcp_config);
    if words.iter().filter(|word| args::is_stdin(word)).count() > 1 {
        return Err(Failure::usage("stdin can be read for one --mcp-config"));
    }
    let mut configurations = Vec::new();
    for word in words {
        if args::is_inline(&word) {
            configurations.push(read_inline(word, screen).await?);
        } else if let Some(configuration) = context::read_stream(word.clone()).await? {
            configurations.push(configuration);
        } else {
            global.mcp_config.push(word);
        }
    }
    if let Some(one_off) = &global.one_off {
        configurations.push(TypedConfig { place: "the command line".to_owned(), text: one_off.configuration() });
    }
    Ok(configurations)
}

/// Returns the configuration that `word`, a value of `--mcp-config`, contains. If `word` means stdin, reads it from
/// there.
async fn read_inline(word: PathBuf, screen: &Screen) -> Result<TypedConfig, Failure> {
    let is_stdin = args::is_stdin(&word);
    let place = if is_stdin { "stdin" } else { context::TYPED_AS_WORD };
    let word = if is_stdin { "-".to_owned() } else { word.to_string_lossy().into_owned() };
    let text = input::read("--mcp-config", word, screen).await?;
    if text.len() > MAX_BYTES {
        return Err(Failure::usage(format!("{place} is too large: a configuration may have 4 MiB")));
    }
    Ok(TypedConfig { place: place.to_owned(), text })
}

#[cfg(test)]
mod tests {
    use toolrack_config::Environment;

    use super::*;

    #[tokio::test]
    async fn a_pipe_is_read_once_and_a_file_stays_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let (pipe, file) = (folder.path().join("pipe"), folder.path().join("file"));
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
        std::fs::write(&file, "{}").unwrap();
        let text = r#"{ "mcpServers": { "a": { "command": "x" } } }"#;
        let writer = std::thread::spawn({
            let pipe = pipe.clone();
            move || std::fs::write(pipe, text).unwrap()
        });
        let missing = folder.path().join("none");
        let mut global = Global { mcp_config: vec![pipe.clone(), file.clone(), missing.clone()], ..Global::default() };
        let screen = Screen::new(&Global::default(), &Environment::default());
        let taken = take_inline_configurations(&mut global, &screen).await.unwrap();
        writer.join().unwrap();
        assert_eq!(taken, [TypedConfig { place: pipe.display().to_string(), text: text.to_owned() }]);
        assert_eq!(global.mcp_config, [file, missing]);
    }

    #[test]
    fn stdin_is_known_by_the_names_of_its_file() {
        for name in ["-", "/dev/stdin", "/dev/fd/0"] {
            assert!(args::is_stdin(name.as_ref()) && args::is_inline(name.as_ref()), "{name}");
        }
        assert!(!args::is_inline("/dev/fd/63".as_ref()));
    }
}
