//! Counts noise: bytes of a server that are not an MCP message.

use std::sync::{
    OnceLock,
    atomic::{AtomicU64, Ordering},
};

use crate::text::quote;

/// The most bytes of the first noise that are reported.
const SAMPLE_BYTES: usize = 160;

/// Counts noise and stores the beginning of the first piece.
#[derive(Debug, Default)]
pub(super) struct Noise {
    count: AtomicU64,
    /// The beginning of the first noise, safe to print.
    first: OnceLock<String>,
}

impl Noise {
    /// Counts noise; `what` names its kind. Returns a warning for the first noise, and `None` for later noise.
    pub(super) fn note(&self, what: &str, sample: &[u8]) -> Option<String> {
        if self.count.fetch_add(1, Ordering::Relaxed) > 0 {
            return None;
        }
        // Look at twice as much as is reported, because white space at the beginning is not reported.
        let sample = String::from_utf8_lossy(&sample[..sample.len().min(2 * SAMPLE_BYTES)]);
        let sample = beginning(&sample, SAMPLE_BYTES);
        // This cannot fail: the code above returns for all later noise.
        let _ = self.first.set(quote(&format!("{what}: {sample}")));
        Some(format!("{what} was ignored: {sample}"))
    }

    /// Returns how often noise came, and the first piece of it, as one safe line; empty if there was none.
    pub(super) fn summary(&self) -> String {
        match (self.count.load(Ordering::Relaxed), self.first.get()) {
            (_, None) => String::new(),
            (..2, Some(first)) => format!("it sent {first}"),
            (count, Some(first)) => format!("{count} times it sent {first}"),
        }
    }
}

/// Returns at most `max_bytes` of `text`, cut between words if possible, because a filter would not recognise the first
/// half of a secret.
fn beginning(text: &str, max_bytes: usize) -> &str {
    let text = text.trim();
    if text.len() <= max_bytes {
        return text;
    }
    let head = &text[..text.floor_char_boundary(max_bytes)];
    head.rfind(char::is_whitespace).map_or(head, |end| head[..end].trim_end())
}
