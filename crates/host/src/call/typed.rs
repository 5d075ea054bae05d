//! Converts results of tools into values of the caller's own types.

use serde::de::{DeserializeOwned, IgnoredAny};

use super::ToolOutcome;
use crate::text::{clip, for_line};

/// The most bytes of a result's text that an error repeats.
const MAX_EXCERPT_BYTES: usize = 200;

/// A result is not a value of the type that the caller wants.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TypedError {
    /// The tool reports that it failed.
    #[error("{tool} failed: {text}")]
    Failed {
        /// `server/tool`.
        tool: String,
        /// The beginning of the tool's text.
        text: String,
    },
    /// The structured content, or the text if that is JSON, does not have the form of the caller's type.
    #[error("the {what} of {tool} does not have the expected form: {why}")]
    Mismatch {
        /// `server/tool`.
        tool: String,
        /// The part of the result.
        what: &'static str,
        /// The place and the difference.
        why: String,
    },
    /// There is no structured content, and the text is not JSON.
    #[error("{tool} returned no structured content, and its text is not JSON: {text}")]
    NotJson {
        /// `server/tool`.
        tool: String,
        /// The beginning of the text.
        text: String,
    },
    /// There is no structured content, and the text was cut; [`Call::untruncated`](crate::Call::untruncated) prevents
    /// the cut.
    #[error("{tool} returned no structured content, and its text was cut; make the call with `Call::untruncated`")]
    Cut {
        /// `server/tool`.
        tool: String,
    },
    /// There is neither structured content nor text.
    #[error("{tool} returned neither structured content nor text, but {found}")]
    Empty {
        /// `server/tool`.
        tool: String,
        /// The kind of content instead.
        found: String,
    },
}

impl ToolOutcome {
    /// Converts the result into the caller's type, from structured content, or else from a text that is JSON.
    ///
    /// ```
    /// # use toolrack_host::{ToolOutcome, TypedError};
    /// #[derive(serde::Deserialize)]
    /// struct Weather {
    ///     celsius: f64,
    /// }
    ///
    /// fn celsius(outcome: &ToolOutcome) -> Result<f64, TypedError> {
    ///     Ok(outcome.typed::<Weather>()?.celsius)
    /// }
    /// ```
    ///
    /// # Errors
    /// [`TypedError`], which describes the actual content.
    pub fn typed<T: DeserializeOwned>(&self) -> Result<T, TypedError> {
        let tool = format!("{}/{}", self.server, for_line(&self.tool));
        let excerpt = || for_line(&clip(&self.text, MAX_EXCERPT_BYTES)).into_owned();
        if self.is_error {
            return Err(TypedError::Failed { tool, text: excerpt() });
        }
        if let Some(structured) = &self.structured {
            let mismatch_error = |error: serde_json::Error| mismatch_error(tool, "structured content", &error);
            return T::deserialize(structured).map_err(mismatch_error);
        }
        if self.verbatim.is_some() {
            let found = "the whole result unchanged, as `Call::verbatim` asks for".to_owned();
            return Err(TypedError::Empty { tool, found });
        }
        if self.is_text_cut {
            return Err(TypedError::Cut { tool });
        }
        if self.text.trim().is_empty() {
            let found = format!("{} blocks of content", self.content.len());
            return Err(TypedError::Empty { tool, found });
        }
        if serde_json::from_str::<IgnoredAny>(&self.text).is_err() {
            return Err(TypedError::NotJson { tool, text: excerpt() });
        }
        serde_json::from_str(&self.text).map_err(|error| mismatch_error(tool, "text", &error))
    }
}

/// Returns the error for JSON that does not have the form of the caller's type.
fn mismatch_error(tool: String, what: &'static str, error: &serde_json::Error) -> TypedError {
    TypedError::Mismatch { tool, what, why: for_line(&clip(&error.to_string(), MAX_EXCERPT_BYTES)).into_owned() }
}
