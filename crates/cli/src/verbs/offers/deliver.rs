//! Writes the output of `call` and `read`: a page for users at a terminal, and otherwise the unchanged bytes of the
//! text.

use std::path::Path;

use base64::{
    Engine as _, alphabet,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};

use super::call::render::RawPiece;
use crate::{
    error::{Exit, Failure},
    output,
    screen::Screen,
};

/// Base64 with padding or without: servers write both.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// The text of a result in two forms: for users at a terminal, and for other programs.
pub(crate) struct TextForms {
    /// The text, with escapes for characters that a terminal would interpret.
    pub(crate) escaped: String,
    /// The text exactly as it came; `None` if the text is only for users, such as the message of a tool that failed.
    pub(crate) plain: Option<String>,
}

/// Shows a result, or writes it to `output`. The result comes in two ways: as its `pieces`, and as one text.
///
/// If exactly one piece is not text, the file gets that piece, and the texts go to stderr. If all pieces are text, the
/// file gets all of them. Without a file, a result that consists of bytes goes to stdout unchanged, unless stdout is a
/// terminal.
///
/// # Errors
/// When the result cannot be written, or when more than one piece is not text, because one file cannot hold them. In
/// the second case, the page is shown nevertheless: the user could see the result only by another call.
pub(crate) async fn deliver(
    pieces: &[RawPiece<'_>],
    TextForms { escaped: page, plain }: TextForms,
    output: Option<&Path>,
    screen: &Screen,
) -> Result<(), Failure> {
    // Bytes that could be commands to a terminal are never written to one.
    let output = output.filter(|file| !(output::is_stdout(file) && screen.is_terminal()));
    let Some(file) = output else {
        let stdout = None;
        return match (pieces, plain) {
            ([RawPiece::Bytes(encoded)], _) if !screen.is_terminal() => match BASE64.decode(encoded) {
                Ok(bytes) => screen.bytes(bytes, stdout).await,
                // For bytes that are not Base64, the page has a label.
                Err(_) => screen.verbatim(page).await,
            },
            (_, Some(plain)) if !screen.is_terminal() => screen.bytes(plain.into_bytes(), stdout).await,
            (pieces, _) => {
                screen.verbatim(page).await?;
                if screen.is_terminal() && pieces.iter().any(is_bytes) {
                    screen.note("`-o FILE` writes what is not text into a file");
                }
                Ok(())
            }
        };
    };
    let content = match file_content(pieces) {
        Ok(content) => content,
        Err(failure) => {
            screen.verbatim(page).await?;
            return Err(failure);
        }
    };
    // The file gets only the piece that is not text, so the texts go to stderr.
    if pieces.len() > 1 && pieces.iter().any(is_bytes) {
        screen.safe_note(&page);
    }
    let file = Some(file).filter(|file| !output::is_stdout(file));
    screen.bytes(content, file).await?;
    if let Some(file) = file {
        screen.note(&format!("wrote {}", file.display()));
    }
    Ok(())
}

fn is_bytes(piece: &RawPiece<'_>) -> bool {
    matches!(piece, RawPiece::Bytes(_))
}

/// Returns the content of the file for these pieces.
fn file_content(pieces: &[RawPiece<'_>]) -> Result<Vec<u8>, Failure> {
    let encoded: Vec<&str> = pieces
        .iter()
        .filter_map(|piece| if let RawPiece::Bytes(encoded) = piece { Some(*encoded) } else { None })
        .collect();
    match encoded.as_slice() {
        [] => {
            let texts =
                pieces.iter().filter_map(|piece| if let RawPiece::Text(text) = piece { Some(&**text) } else { None });
            Ok(texts.collect::<Vec<_>>().join("\n").into_bytes())
        }
        [only] => BASE64.decode(only).map_err(|_| {
            Failure::new(
                Exit::Other,
                "BAD_CONTENT",
                "the server sent bytes that are not valid Base64, and cannot be decoded",
            )
            .hint("`--json` shows them as they came")
        }),
        several => {
            let message =
                format!("{} pieces of the result are not text, and a file can hold only one of them", several.len());
            Err(Failure::new(Exit::Other, "SEVERAL_CONTENTS", message).hint("`--json` prints them all, in Base64"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(pieces: &[RawPiece<'_>]) -> &'static str {
        file_content(pieces).unwrap_err().code
    }

    #[test]
    fn a_file_gets_the_one_piece_that_is_not_text_or_all_text() {
        let text = |text: &'static str| RawPiece::Text(text.into());
        assert_eq!(file_content(&[text("a\u{1b}[m\r\n")]).unwrap(), b"a\x1b[m\r\n", "as it is");
        assert_eq!(file_content(&[text("a"), text("b")]).unwrap(), b"a\nb");
        assert_eq!(file_content(&[]).unwrap(), b"");
        for encoded in ["AAH/Ag==", "AAH/Ag"] {
            assert_eq!(file_content(&[text("a"), RawPiece::Bytes(encoded)]).unwrap(), [0, 1, 255, 2]);
        }
        assert_eq!(code(&[RawPiece::Bytes("AAEC"), RawPiece::Bytes("AAEC")]), "SEVERAL_CONTENTS");
        assert_eq!(code(&[RawPiece::Bytes("no base64")]), "BAD_CONTENT");
    }
}
