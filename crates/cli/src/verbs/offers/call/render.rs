//! Shows the result of a call.

use std::borrow::Cow;

use serde_json::Value;
use toolrack_host::{Content, ToolOutcome, mcp::ResourceContents, text};

use crate::render::{Tone, paint, size};

/// A piece of a result, unchanged, for a file or another program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RawPiece<'a> {
    Text(Cow<'a, str>),
    /// In Base64.
    Bytes(&'a str),
}

/// Returns the pieces of a result. Structured content is a piece only if there is no text, as on a [page].
pub(crate) fn raw_pieces(outcome: &ToolOutcome) -> Vec<RawPiece<'_>> {
    let mut pieces: Vec<_> = outcome.content.iter().map(raw_content).collect();
    if !has_text(outcome)
        && let Some(structured) = &outcome.structured
    {
        pieces.push(RawPiece::Text(pretty(structured).into()));
    }
    pieces
}

fn raw_content(content: &Content) -> RawPiece<'_> {
    match content {
        Content::Text { text } => RawPiece::Text(text.into()),
        Content::Image { data, .. } | Content::Audio { data, .. } => RawPiece::Bytes(data),
        Content::Resource { resource } => raw_contents(resource),
        Content::ResourceLink { uri, .. } => RawPiece::Text(uri.into()),
        Content::Other(value) => RawPiece::Text(pretty(value).into()),
        other => RawPiece::Text(self::content(other).into()),
    }
}

/// Returns the contents of a resource unchanged.
pub(crate) fn raw_contents(resource: &ResourceContents) -> RawPiece<'_> {
    match &resource.text {
        Some(text) => RawPiece::Text(text.into()),
        None => RawPiece::Bytes(resource.blob.as_deref().unwrap_or_default()),
    }
}

/// Renders a result as users see it: its text unchanged, and a label for everything else.
///
/// Structured content is shown only if there is no text, because most servers repeat the text in it.
pub(crate) fn page(outcome: &ToolOutcome) -> String {
    let mut parts: Vec<String> = outcome.content.iter().map(content).collect();
    if !has_text(outcome)
        && let Some(structured) = &outcome.structured
    {
        parts.push(json(structured));
    }
    parts.retain(|part| !part.is_empty());
    parts.join("\n")
}

/// Renders the result for a file or another program: every text exactly as it came. If there is only text, no line
/// break is added at the end.
pub(crate) fn plain(outcome: &ToolOutcome) -> String {
    let unchanged = |piece: &Content| match piece {
        Content::Text { text } => text.clone(),
        Content::Resource { resource } => plain_contents(resource),
        Content::Other(value) => pretty(value),
        other => anstream::adapter::strip_str(&content(other)).to_string(),
    };
    let mut parts: Vec<String> = outcome.content.iter().map(unchanged).collect();
    let mut is_only_text = outcome.content.iter().all(is_text);
    if !has_text(outcome)
        && let Some(structured) = &outcome.structured
    {
        parts.push(pretty(structured));
        is_only_text = false;
    }
    join_parts(parts, is_only_text)
}

/// Renders the contents of a resource for a file or another program: a text exactly as it came.
pub(crate) fn plain_contents(resource: &ResourceContents) -> String {
    match &resource.text {
        Some(text) => text.clone(),
        None => anstream::adapter::strip_str(&contents(resource)).to_string(),
    }
}

/// Joins the parts, one below the other. Unless all of them are text, adds a line break at the end.
pub(crate) fn join_parts(mut parts: Vec<String>, is_only_text: bool) -> String {
    parts.retain(|part| !part.is_empty());
    let mut text = parts.join("\n");
    if !is_only_text && !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    text
}

fn is_text(content: &Content) -> bool {
    match content {
        Content::Text { .. } => true,
        Content::Resource { resource } => resource.text.is_some(),
        _ => false,
    }
}

fn has_text(outcome: &ToolOutcome) -> bool {
    outcome.content.iter().any(|content| matches!(content, Content::Text { text } if !text.trim().is_empty()))
}

/// Renders a piece of content as users see it: its text, or a label.
pub(crate) fn content(content: &Content) -> String {
    match content {
        Content::Text { text } => text::for_terminal(text).into_owned(),
        Content::Image { data, mime_type } => label("image", Some(mime_type), base64_bytes(data)),
        Content::Audio { data, mime_type } => label("audio", Some(mime_type), base64_bytes(data)),
        Content::Resource { resource } => contents(resource),
        Content::ResourceLink { uri, name, .. } => {
            let name = name.as_deref().unwrap_or_default();
            let words = format!("[link {} {}]", text::for_line(name), text::for_line(uri));
            // A link without a name has left two blanks.
            paint(Tone::Faint, &words.replace("  ", " "))
        }
        Content::Other(value) => json(value),
        _ => paint(Tone::Faint, "[content of an unknown kind]"),
    }
}

/// Renders the contents of a resource as users see them: the text, or a label for bytes.
pub(crate) fn contents(resource: &ResourceContents) -> String {
    let ResourceContents { mime_type, text: resource_text, blob, .. } = resource;
    match (resource_text, blob) {
        (Some(text), _) => text::for_terminal(text).into_owned(),
        (None, blob) => {
            let bytes = blob.as_deref().map_or(0, base64_bytes);
            label("resource", mime_type.as_deref(), bytes)
        }
    }
}

/// Renders JSON over several lines, safe for a terminal.
pub(crate) fn json(value: &Value) -> String {
    text::for_terminal(&pretty(value)).into_owned()
}

fn pretty(value: &Value) -> String {
    // A JSON value can always be written.
    serde_json::to_string_pretty(value).unwrap_or_default()
}

/// Returns the label in place of content that is not text, such as `[image image/png, 12 kB]`.
pub(crate) fn label(kind: &str, media_type: Option<&str>, bytes: u64) -> String {
    let media_type = media_type.map_or_else(String::new, |media_type| format!(" {}", text::for_line(media_type)));
    paint(Tone::Faint, &format!("[{kind}{media_type}, {}]", size(bytes)))
}

/// Returns how many bytes a Base64 text encodes.
pub(crate) fn base64_bytes(encoded: &str) -> u64 {
    let digits = encoded.trim_end().trim_end_matches('=').len() as u64;
    digits * 3 / 4
}
