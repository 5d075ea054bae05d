//! Shows the protocol messages between the host and its servers on the user's stderr, for `-vv`.

use std::{borrow::Cow, sync::Arc};

use chrono::Local;
use toolrack_config::Interpolate;
use toolrack_host::{Direction, OnMessage, text};

use crate::{
    render::{Tone, paint, size},
    screen::Screen,
};

/// How many bytes of a message are shown.
const MAX_SHOWN_BYTES: usize = 4_096;

/// Returns a function that shows each message as one line, without the secrets that `secrets` knows.
pub(crate) fn show_messages(screen: Arc<Screen>, secrets: Arc<Interpolate>) -> OnMessage {
    Arc::new(move |message| {
        let arrow = match message.direction {
            Direction::Sent => "->",
            Direction::Received => "<-",
        };
        let head = format!("{} {arrow} {}", Local::now().format("%H:%M:%S%.3f"), message.server);
        screen.detail(&format!("{} {}", paint(Tone::Faint, &head), excerpt(message.bytes, &secrets)));
    })
}

/// Returns the beginning of a message as one line that is safe to print. The line is never cut inside a secret.
fn excerpt(bytes: &[u8], secrets: &Interpolate) -> String {
    let start = &bytes[..bytes.len().min(MAX_SHOWN_BYTES)];
    let mut shown_text = match str::from_utf8(start) {
        Ok(text) => Cow::Borrowed(text),
        // The last character is cut in two.
        Err(error) if error.error_len().is_none() && start.len() < bytes.len() => {
            String::from_utf8_lossy(&start[..error.valid_up_to()])
        }
        Err(_) => String::from_utf8_lossy(start),
    };
    let is_cut = start.len() < bytes.len();
    if is_cut {
        let safe_length = secrets.safe_len(&shown_text);
        shown_text.to_mut().truncate(safe_length);
    }
    let line = text::for_line(&secrets.conceal(&shown_text)).into_owned();
    if is_cut { format!("{line}… [{} in all]", size(bytes.len() as u64)) } else { line }
}

#[cfg(test)]
mod tests {
    use toolrack_config::{Environment, UnsetPolicy};

    use super::*;

    fn secrets() -> Interpolate {
        let secrets = Interpolate::new(Environment::default(), UnsetPolicy::Error);
        secrets.add_secret("correct-horse-battery");
        secrets
    }

    #[test]
    fn a_message_is_one_line_that_no_terminal_obeys_without_secrets() {
        let line = excerpt("{\"a\":\"\u{1b}[31mred\u{202e}\nnext correct-horse-battery\"}".as_bytes(), &secrets());
        assert!(!line.contains(['\u{1b}', '\n', '\u{202e}']), "{line}");
        assert!(line.contains("next ***"), "{line}");
    }

    #[test]
    fn a_long_message_is_cut_with_its_size_and_never_inside_a_secret_or_a_character() {
        for before in MAX_SHOWN_BYTES - 30..MAX_SHOWN_BYTES + 2 {
            let message = format!("{}correct-horse-battery{}", "x".repeat(before), "ä".repeat(MAX_SHOWN_BYTES));
            let line = excerpt(message.as_bytes(), &secrets());
            assert!(!line.contains("corr") && !line.contains('\u{fffd}'), "{before}: {line}");
            assert!(line.len() < MAX_SHOWN_BYTES + 40 && line.contains("in all]"), "{before}: {line}");
        }
    }

    #[test]
    fn bytes_that_are_not_text_are_shown_as_far_as_possible() {
        assert!(excerpt(b"\xff{}", &secrets()).ends_with("{}"));
    }
}
