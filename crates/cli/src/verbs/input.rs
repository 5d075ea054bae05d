//! Reads values from files, from stdin and from the user.

use std::{
    io::{self, BufRead, Read},
    time::Duration,
};

use inquire::{InquireError, Password, PasswordDisplayMode};
use tokio::time::timeout;

use crate::{
    error::{Exit, Failure, in_words},
    render::size,
    screen::Screen,
};

/// The maximum size of an input: the same as that of a message to a server.
const MAX_INPUT_BYTES: u64 = 8 * 1024 * 1024;

/// How long stdin may stay open before the command tells the user that it waits.
const NOTICE_DELAY: Duration = Duration::from_secs(2);

/// Returns the text that `word` stands for: the content of FILE for `@FILE`, all of stdin for `-`, and `word` itself
/// for all other words. If stdin does not end soon, tells the user on `screen` that the command waits for it. `name`
/// names the text in messages, such as `the entry`.
///
/// # Errors
/// When the file or stdin cannot be read, is not text, or is larger than 8 MiB.
pub(super) async fn read(name: &'static str, word: String, screen: &Screen) -> Result<String, Failure> {
    let is_stdin = word == "-";
    // Stdin may stay silent forever, and signals must be handled meanwhile.
    let mut read_task = tokio::task::spawn_blocking(move || read_blocking(name, word));
    let result = match timeout(NOTICE_DELAY, &mut read_task).await {
        Ok(result) => result,
        Err(_) => {
            if is_stdin {
                screen.note(&format!(
                    "reading {name} from stdin until it ends: Ctrl-D ends the input, `< /dev/null` gives an empty one"
                ));
            }
            read_task.await
        }
    };
    result.map_err(|_| Failure::new(Exit::Other, "INTERNAL", format!("cannot read {name}")))?
}

fn read_blocking(name: &str, word: String) -> Result<String, Failure> {
    let (mut source, source_name): (Box<dyn Read>, String) = if word == "-" {
        (Box::new(io::stdin().lock()), "stdin".to_owned())
    } else if let Some(path) = word.strip_prefix('@') {
        let file = std::fs::File::open(path)
            .map_err(|error| Failure::usage(format!("cannot read {path}: {}", in_words(&error))))?;
        (Box::new(file), path.to_owned())
    } else {
        return Ok(word);
    };
    let mut text = String::new();
    source
        .by_ref()
        .take(MAX_INPUT_BYTES + 1)
        .read_to_string(&mut text)
        .map_err(|error| Failure::usage(format!("cannot read {source_name}: {}", in_words(&error))))?;
    if text.len() as u64 > MAX_INPUT_BYTES {
        return Err(Failure::usage(format!("{source_name} is too large: {name} may have {}", size(MAX_INPUT_BYTES))));
    }
    Ok(text)
}

/// Asks the user at the terminal for the secret value `name`, and does not show what is typed.
///
/// # Errors
/// When the value is empty, or the user does not answer.
pub(super) async fn ask_secret(name: &str) -> Result<String, Failure> {
    let question = format!("{name}:");
    read_non_empty(name, move || read_hidden(&question)).await
}

/// Reads the secret value `name`, which is the next line of stdin.
///
/// # Errors
/// When the value is empty, or stdin cannot be read.
pub(super) async fn read_secret_line(name: &str) -> Result<String, Failure> {
    read_non_empty(name, read_line).await
}

/// Reads the value `name` on a thread for blocking work, and refuses an empty one.
async fn read_non_empty(
    name: &str,
    read: impl FnOnce() -> Result<String, Failure> + Send + 'static,
) -> Result<String, Failure> {
    let value = tokio::task::spawn_blocking(read).await;
    let value = value.map_err(|_| Failure::new(Exit::Other, "INTERNAL", "cannot read stdin"))??;
    match value.is_empty() {
        true => Err(Failure::usage(format!("no value for `{name}` was given"))),
        false => Ok(value),
    }
}

fn read_hidden(question: &str) -> Result<String, Failure> {
    let prompt = Password::new(question).without_confirmation().with_display_mode(PasswordDisplayMode::Hidden);
    prompt.prompt().map_err(|error| no_answer_failure(&error))
}

fn read_line() -> Result<String, Failure> {
    let mut line = String::new();
    let read_result = io::stdin().lock().take(MAX_INPUT_BYTES).read_line(&mut line);
    read_result.map_err(|error| Failure::usage(format!("cannot read stdin: {}", in_words(&error))))?;
    Ok(line.trim_end_matches(['\n', '\r']).to_owned())
}

/// Returns the failure for a question without an answer.
pub(super) fn no_answer_failure(error: &InquireError) -> Failure {
    match error {
        InquireError::OperationCanceled | InquireError::OperationInterrupted => {
            Failure::new(Exit::Interrupted, "INTERRUPTED", "nothing was done")
        }
        error => Failure::new(Exit::Other, "NO_ANSWER", format!("cannot ask: {error}")),
    }
}
