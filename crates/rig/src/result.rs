//! Converts the outcome of a call (a result or an error) for Rig.

use rig_core::{
    message::{ImageMediaType, MimeType as _, ToolResultContent},
    tool::{ToolErrorKind, ToolExecutionError, ToolOutput},
};
use toolrack_host::{CallError, CallErrorKind, Content, ToolOutcome, text};

/// Converts the result of a call: text first, then pictures. The text names the parts that Rig cannot represent. A
/// failure that the tool itself reports becomes an error that shows the model the whole result.
pub(crate) fn to_tool_output(outcome: ToolOutcome) -> Result<ToolOutput, ToolExecutionError> {
    let mut text = format!("[data from {}]\n{}", text::for_line(outcome.server.as_str()), outcome.text);
    let mut images = Vec::new();
    for part in outcome.content {
        match to_shown_part(part) {
            Some(ShownPart::Image(image)) => images.push(image),
            Some(ShownPart::Text(description)) => {
                text.push('\n');
                text.push_str(&description);
            }
            None => {}
        }
    }
    let content = [ToolResultContent::text(text)].into_iter().chain(images).collect();
    let output = ToolOutput::content(content)?;
    if !outcome.is_error {
        return Ok(output);
    }
    let message = format!("{}/{} says that it failed", outcome.server, text::for_line(&outcome.tool));
    let error = ToolExecutionError::other(message).with_code("TOOL_ERROR").with_retryable(false);
    Err(error.with_model_output(output))
}

/// The form in which Rig shows a part of a result.
enum ShownPart {
    Image(ToolResultContent),
    Text(String),
}

/// Returns the form in which Rig shows `part`; `None` if the text of the result contains the part already.
fn to_shown_part(part: Content) -> Option<ShownPart> {
    match part {
        Content::Image { data, mime_type } => Some(image(data, &mime_type)),
        Content::Audio { data, mime_type } => Some(ShownPart::Text(describe_media("a sound", &data, &mime_type))),
        Content::Resource { resource } => {
            let (blob, uri) = (resource.blob?, resource.uri);
            let mime_type = resource.mime_type.as_deref().unwrap_or("application/octet-stream");
            Some(match mime_type.starts_with("image/") {
                true => image(blob, mime_type),
                false => {
                    ShownPart::Text(describe_media(&format!("the file {}", text::for_line(&uri)), &blob, mime_type))
                }
            })
        }
        Content::Other(value) => Some(ShownPart::Text(value.to_string())),
        _ => None,
    }
}

/// Returns a picture with the media type of its bytes, because servers may name a wrong one. A picture in a format that
/// providers do not read becomes a description: with the picture, a provider would refuse the whole conversation.
fn image(data: String, mime_type: &str) -> ShownPart {
    match picture_type(&data).and_then(ImageMediaType::from_mime_type) {
        Some(media_type) => ShownPart::Image(ToolResultContent::image_base64(data, Some(media_type), None)),
        None => ShownPart::Text(describe_media("a picture", &data, mime_type)),
    }
}

/// Returns the media type of a picture, judged by the first letters of its Base64; `None` if the text is no Base64 or
/// has another format.
fn picture_type(base64: &str) -> Option<&'static str> {
    let digits = base64.trim_end_matches('=');
    let is_base64 = base64.len().is_multiple_of(4)
        && base64.len() - digits.len() <= 2
        && digits.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/'));
    match base64 {
        _ if !is_base64 => None,
        _ if base64.starts_with("iVBORw0KGg") => Some("image/png"),
        _ if base64.starts_with("/9j/") => Some("image/jpeg"),
        _ if base64.starts_with("R0lGOD") => Some("image/gif"),
        // `RIFF`, four bytes of length, `WEBP`.
        _ if base64.starts_with("UklGR") && base64.get(12..16) == Some("RUJQ") => Some("image/webp"),
        _ => None,
    }
}

/// Describes media that Rig cannot show. If media are too large, the host leaves out their bytes, and `data` is empty.
fn describe_media(kind: &str, data: &str, mime_type: &str) -> String {
    let mime_type = text::for_line(mime_type);
    // Four characters of Base64 are three bytes.
    match data.len() / 4 * 3 {
        0 => format!("[{kind}, {mime_type}: too large to be shown here]"),
        bytes => format!("[{kind}, {mime_type}, {bytes} bytes: it cannot be shown here]"),
    }
}

/// Converts the error of a call without a result. Its message may be shown to a model: it says what to do, and contains
/// no secrets.
pub(crate) fn to_tool_error(error: CallError) -> ToolExecutionError {
    let (code, message) = (error.code(), error.to_string());
    let tool_error = match error.kind() {
        CallErrorKind::Denied => ToolExecutionError::refused(message),
        kind => ToolExecutionError::new(to_error_kind(kind, code), message),
    };
    tool_error.with_code(code).with_retryable(false).with_source(error)
}

fn to_error_kind(kind: CallErrorKind, code: &str) -> ToolErrorKind {
    match (kind, code) {
        (_, "TIMED_OUT") => ToolErrorKind::Timeout,
        (_, "RATE_LIMITED") => ToolErrorKind::RateLimited,
        (CallErrorKind::UnknownTool, _) => ToolErrorKind::NotFound,
        (CallErrorKind::NotTrusted | CallErrorKind::NeedsAuth, _) => ToolErrorKind::PermissionDenied,
        (CallErrorKind::Unreachable, _) => ToolErrorKind::Network,
        (CallErrorKind::Refused, _) => ToolErrorKind::Provider,
        _ => ToolErrorKind::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_has_the_type_of_its_bytes() {
        for (base64, found) in [
            ("iVBORw0KGgo=", Some("image/png")),
            ("/9j/4AAQ", Some("image/jpeg")),
            ("R0lGODlh", Some("image/gif")),
            ("UklGRiQAAABXRUJQ", Some("image/webp")),
            ("UklGRiQAAABXQVZF", None),
            ("PHN2Zz48L3N2Zz4=", None),
            ("data:image/png;base64,iVBORw0KGgo=", None),
            ("iVBORw0KGgoAAAAN\nSUhEUgA", None),
            ("", None),
        ] {
            assert_eq!(picture_type(base64), found, "{base64}");
        }
        assert!(matches!(image("/9j/4AAQ".to_owned(), "image/png"), ShownPart::Image(_)));
        assert!(matches!(image("PHN2Zz48L3N2Zz4=".to_owned(), "image/svg+xml"), ShownPart::Text(_)));
    }
}
