//! The result of a call: decoded, checked against its schema, and cut to the size that a model can use. The host stores
//! a part that does not fit as an *artifact*, a file in the store of the embedding program.

use std::time::Duration;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use serde::Serialize;
use serde_json::{Map, Value};
use tokio::time::timeout;

use super::{repeats::repeats_structured, shape::fit};
use crate::{
    call::ScriptCall,
    catalog::{CatalogTool, CheckFailure, ListedTool},
    link::decode::CallResult,
    mcp::Content,
    resolve::Artifacts,
    spec::{OutputSchema, ServerName},
    text::quote,
};

/// The longest time for a check of structured content or arguments against a schema.
const VALIDATION_TIME: Duration = Duration::from_millis(500);
/// The largest picture or sound that stays in the result, in bytes of Base64. A larger one becomes an artifact, a file
/// in the store of the host.
const MAX_INLINE_MEDIA: usize = 1024 * 1024;

/// The fewest bytes to which a block of text is cut: enough for the line that says where the rest is.
const MIN_CUT_BYTES: usize = 200;

/// The result of a tool.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct ToolOutcome {
    /// The server of the tool.
    pub server: ServerName,
    /// The tool's own name.
    pub tool: String,
    /// Whether the tool reports that it failed.
    pub is_error: bool,
    /// The text for a model: the text blocks, joined by line feeds. If they do not contain the structured content, it
    /// follows as JSON. Cut to [`Limits::output_bytes`](crate::Limits::output_bytes).
    pub text: String,
    /// Every block unchanged, except texts and media that were too large, which are stored as artifacts. Text beyond
    /// [`Limits::output_bytes`](crate::Limits::output_bytes), of all blocks together, is left out.
    pub content: Vec<Content>,
    /// Structured content, unchanged.
    pub structured: Option<Value>,
    /// Problems with the result.
    pub warnings: Vec<String>,
    /// Whether the result is incomplete: `text` is cut, or media were left out.
    pub truncated: bool,
    /// Whether `text` is cut.
    #[serde(skip)]
    pub(super) is_text_cut: bool,
    /// The parts that are stored elsewhere.
    pub artifacts: Vec<Artifact>,
    /// The calls that a [script](crate::Host::scripts) made, in the order in which they began. Empty for other tools.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<ScriptCall>,
    /// The arguments that were sent, if a user changed them at the approval.
    #[serde(skip)]
    pub edited: Option<Map<String, Value>>,
    /// The time from the gate to the result.
    #[serde(rename = "duration_ms", serialize_with = "crate::event::millis")]
    pub duration: Duration,
    /// The size of the result object as the server sent it, in bytes; 0 for a script.
    #[serde(skip)]
    pub bytes: usize,
    /// The whole result object unchanged, if the call [asked for that](crate::Call::verbatim) and nothing was cut. Then
    /// `text`, `content` and `structured` are empty.
    #[serde(skip)]
    pub verbatim: Option<Bytes>,
}

impl ToolOutcome {
    /// Creates a result to pass on unchanged.
    pub(super) fn verbatim(tool: &CatalogTool, is_error: bool, result: Bytes) -> Self {
        let empty = Self::empty(tool.server.clone(), tool.tool().name.clone());
        Self { is_error, bytes: result.len(), verbatim: Some(result), ..empty }
    }

    /// Returns whether the host may forward the result without decoding it, because nothing in it needs a check.
    pub(super) fn needs_no_check(tool: &CatalogTool, is_error: bool, output_schema: OutputSchema) -> bool {
        // A mismatch under `Warn` would only add a warning, and a forwarded result carries none.
        is_error || output_schema == OutputSchema::Warn || tool.tool().output_schema.is_none()
    }

    fn empty(server: ServerName, tool: String) -> Self {
        Self {
            server,
            tool,
            is_error: false,
            text: String::new(),
            content: Vec::new(),
            structured: None,
            warnings: Vec::new(),
            truncated: false,
            is_text_cut: false,
            artifacts: Vec::new(),
            calls: Vec::new(),
            edited: None,
            duration: Duration::ZERO,
            bytes: 0,
            verbatim: None,
        }
    }
}

/// A part of a result that is stored elsewhere.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Artifact {
    /// The handle that the host's [`Artifacts`] returned.
    pub handle: String,
    /// The media type, such as `image/png`.
    pub media_type: String,
    /// The size in bytes.
    pub bytes: usize,
}

/// Content other than the result of a call, such as a resource or the message of a prompt, in a form for a model.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ShapedContent {
    /// All its text, with a line for each part that is stored elsewhere or left out; cut to
    /// [`Limits::output_bytes`](crate::Limits::output_bytes).
    pub text: String,
    /// The pictures and sounds that are small enough to be shown.
    pub media: Vec<Content>,
    /// Problems with the content.
    pub warnings: Vec<String>,
    /// Whether the content is incomplete: `text` is cut, or a part was left out.
    pub truncated: bool,
    /// The parts that are stored elsewhere.
    pub artifacts: Vec<Artifact>,
}

/// Shapes content other than the result of a call: stores what a model cannot see, and cuts the text.
pub(crate) async fn shape_content(shaper: &Shaper<'_>, content: Vec<Content>) -> ShapedContent {
    // Wrap the content in a `ToolOutcome`, because the methods of `Shaper` work on one.
    let mut outcome = ToolOutcome { content, ..ToolOutcome::empty(shaper.server.clone(), shaper.name.to_owned()) };
    outcome.text = shaper.take_text_and_store_files(&mut outcome).await;
    shaper.cut_text(&mut outcome).await;
    let ToolOutcome { text, content: media, warnings, truncated, artifacts, .. } = outcome;
    ShapedContent { text, media, warnings, truncated, artifacts }
}

/// Turns decoded blocks into text and media for a model. The fields name the source of the blocks and their limits.
pub(crate) struct Shaper<'a> {
    pub(crate) server: &'a ServerName,
    /// The name for the artifacts: the name of a tool, a prompt or a resource.
    pub(crate) name: &'a str,
    /// The most bytes of text.
    pub(crate) max_bytes: usize,
    /// The store for parts that are too large; without a store, these parts are left out.
    pub(crate) artifacts: Option<&'a dyn Artifacts>,
    /// The reaction to structured content that does not match the output schema.
    pub(crate) output_schema: OutputSchema,
}

impl Shaper<'_> {
    /// Shapes the result of a call: checks structured content, cuts the text, and stores media that are too large.
    pub(super) async fn outcome(&self, decoded: CallResult, tool: &CatalogTool) -> ToolOutcome {
        let mut outcome = ToolOutcome {
            is_error: decoded.is_error,
            text: result_text(&decoded),
            content: decoded.content,
            structured: decoded.structured,
            warnings: decoded.warnings,
            ..ToolOutcome::empty(tool.server.clone(), tool.tool().name.clone())
        };
        if !outcome.is_error
            && let Some(problem) = output_mismatch(tool, &mut outcome).await
        {
            match self.output_schema {
                OutputSchema::Warn => outcome.warnings.push(problem),
                OutputSchema::Reject => reject(&mut outcome, &problem),
            }
        }
        self.cut_text(&mut outcome).await;
        self.store_media(&mut outcome).await;
        outcome
    }

    /// Cuts the text, and the texts of all blocks together, to `max_bytes`. Stores the whole text as an artifact.
    async fn cut_text(&self, outcome: &mut ToolOutcome) {
        if outcome.text.len() <= self.max_bytes {
            return;
        }
        let whole_text = std::mem::take(&mut outcome.text);
        let handle = self.store("text/plain", whole_text.as_bytes(), outcome).await;
        outcome.text = fit(&whole_text, self.max_bytes, handle.as_deref()).text.into_owned();
        (outcome.truncated, outcome.is_text_cut) = (true, true);
        let total = whole_text.len();
        outcome
            .warnings
            .push(format!("the text has {total} bytes, {} were passed on (max_output_bytes)", self.max_bytes));
        // The handle is that of the whole text, of which each block is a part.
        self.cut_blocks(&mut outcome.content, handle.as_deref());
    }

    /// Cuts the texts of all blocks together to `max_bytes`: cuts the block that reaches this limit, and removes all
    /// texts after it. The line that says where the rest is may exceed the limit.
    fn cut_blocks(&self, content: &mut Vec<Content>, handle: Option<&str>) {
        let (mut bytes_left, mut is_full) = (self.max_bytes, false);
        content.retain_mut(|block| {
            let text = match block {
                Content::Text { text } => text,
                Content::Resource { resource } => match &mut resource.text {
                    Some(text) => text,
                    None => return true,
                },
                _ => return true,
            };
            if is_full {
                return false;
            }
            is_full = text.len() > bytes_left;
            if is_full {
                *text = fit(text, bytes_left.max(MIN_CUT_BYTES.min(self.max_bytes)), handle).text.into_owned();
            }
            bytes_left = bytes_left.saturating_sub(text.len());
            true
        });
    }

    /// Stores media that are too large as artifacts, and takes their bytes out of the content.
    async fn store_media(&self, outcome: &mut ToolOutcome) {
        for index in 0..outcome.content.len() {
            let (data, media_type) = match &mut outcome.content[index] {
                Content::Image { data, mime_type } | Content::Audio { data, mime_type }
                    if data.len() > MAX_INLINE_MEDIA =>
                {
                    (std::mem::take(data), mime_type.clone())
                }
                Content::Resource { resource } => match resource.blob.take_if(|blob| blob.len() > MAX_INLINE_MEDIA) {
                    Some(blob) => {
                        (blob, resource.mime_type.clone().unwrap_or_else(|| "application/octet-stream".into()))
                    }
                    None => continue,
                },
                _ => continue,
            };
            // Data that is not valid Base64 is stored as the server sent it.
            let bytes = STANDARD.decode(&data).unwrap_or_else(|_| data.into_bytes());
            if self.store(&media_type, &bytes, outcome).await.is_none() {
                outcome.warnings.push(format!("content block {index} ({} bytes) was left out", bytes.len()));
                outcome.truncated = true;
            }
        }
    }

    /// Removes all blocks except media that a model can see. Returns their text, with a line for each part that is
    /// stored elsewhere.
    async fn take_text_and_store_files(&self, outcome: &mut ToolOutcome) -> String {
        let mut texts = Vec::new();
        for block in std::mem::take(&mut outcome.content) {
            match (file_to_store(&block), block_text(&block)) {
                (Some(file), _) => texts.push(self.store_file(&file, outcome).await),
                (None, Some(text)) => texts.push(text),
                (None, None) => outcome.content.push(block),
            }
        }
        texts.join("\n")
    }

    /// Stores a file as an artifact. Returns the line that describes it to the model.
    async fn store_file(&self, file: &File<'_>, outcome: &mut ToolOutcome) -> String {
        let bytes = STANDARD.decode(file.data).unwrap_or_else(|_| file.data.as_bytes().to_vec());
        let description = format!("{}: {}, {} bytes", quote(file.name), quote(file.media_type), bytes.len());
        match self.store(file.media_type, &bytes, outcome).await {
            Some(handle) => format!("[{description}; kept as {handle}]"),
            None => {
                outcome.truncated = true;
                format!("[{description}; left out]")
            }
        }
    }

    /// Stores bytes as an artifact of the outcome. Returns its handle; `None` if the bytes could not be stored.
    async fn store(&self, media_type: &str, bytes: &[u8], outcome: &mut ToolOutcome) -> Option<String> {
        let artifacts = self.artifacts?;
        match artifacts.keep(&outcome.server, &outcome.tool, media_type, bytes).await {
            Ok(handle) => {
                outcome.artifacts.push(Artifact {
                    handle: handle.clone(),
                    media_type: media_type.to_owned(),
                    bytes: bytes.len(),
                });
                Some(handle)
            }
            Err(error) => {
                outcome.warnings.push(error.to_string());
                None
            }
        }
    }
}

/// Checks structured content against the output schema of its tool. Returns the mismatch, if there is one. A check that
/// cannot be made only adds a warning.
async fn output_mismatch(tool: &CatalogTool, outcome: &mut ToolOutcome) -> Option<String> {
    tool.tool().output_schema.as_ref()?;
    let Some(structured) = outcome.structured.clone() else {
        return Some("the tool promises structured content and gave none".into());
    };
    match check_failure(tool, structured, ListedTool::check_output).await? {
        CheckFailure::Mismatch(why) => Some(format!("structured content does not match the output schema: {why}")),
        CheckFailure::Unchecked(why) => {
            outcome.warnings.push(format!("structured content was not checked against the output schema: {why}"));
            None
        }
    }
}

/// Checks `value` on a blocking thread, and waits at most [`VALIDATION_TIME`], because schema and value are untrusted.
/// Returns the problem as text that is safe to print.
pub(super) async fn check_failure(
    tool: &CatalogTool,
    value: Value,
    check: fn(&ListedTool, &Value) -> Result<(), CheckFailure>,
) -> Option<CheckFailure> {
    let listed = tool.listed.clone();
    let check_task = tokio::task::spawn_blocking(move || check(&listed, &value));
    Some(match timeout(VALIDATION_TIME, check_task).await {
        Ok(Ok(result)) => match result.err()? {
            CheckFailure::Mismatch(why) => CheckFailure::Mismatch(quote(&why)),
            CheckFailure::Unchecked(why) => CheckFailure::Unchecked(quote(&why)),
        },
        Ok(Err(_)) => CheckFailure::Unchecked("the check failed".into()),
        Err(_) => CheckFailure::Unchecked("it would take too long".into()),
    })
}

/// Replaces a result that does not match its output schema by an error.
fn reject(outcome: &mut ToolOutcome, problem: &str) {
    let text = format!(
        "the result of {}/{} is not passed on: {problem} (`output_schema` of this server is \"reject\")",
        outcome.server,
        quote(&outcome.tool)
    );
    outcome.is_error = true;
    outcome.content = vec![Content::Text { text: text.clone() }];
    outcome.text = text;
    outcome.structured = None;
}

/// Bytes that a model cannot see; it gets a description of them instead.
struct File<'a> {
    name: &'a str,
    media_type: &'a str,
    /// Base64.
    data: &'a str,
}

/// Returns the file in `block`, if it is too large or cannot be shown.
fn file_to_store(block: &Content) -> Option<File<'_>> {
    match block {
        Content::Image { data, mime_type } if data.len() > MAX_INLINE_MEDIA => {
            Some(File { name: "a picture", media_type: mime_type, data })
        }
        Content::Audio { data, mime_type } if data.len() > MAX_INLINE_MEDIA => {
            Some(File { name: "a sound", media_type: mime_type, data })
        }
        Content::Resource { resource } if resource.text.is_none() => {
            let data = resource.blob.as_deref()?;
            let media_type = resource.mime_type.as_deref().unwrap_or("application/octet-stream");
            let is_shown = data.len() <= MAX_INLINE_MEDIA && media_type.starts_with("image/");
            (!is_shown).then_some(File { name: &resource.uri, media_type, data })
        }
        _ => None,
    }
}

/// Returns the text of `block`, if it has a text form. This is for content other than the result of a call. Unlike
/// [`result_text`], it includes blocks of unknown types, as JSON.
fn block_text(block: &Content) -> Option<String> {
    match block {
        Content::Text { text } => Some(text.clone()),
        // A resource with neither text nor bytes has an empty text.
        Content::Resource { resource } => resource.text.clone().or_else(|| resource.blob.is_none().then(String::new)),
        Content::ResourceLink { uri, .. } => Some(uri.clone()),
        Content::Other(value) => Some(value.to_string()),
        Content::Image { .. } | Content::Audio { .. } => None,
    }
}

/// Returns the text for a model: text blocks and embedded texts. If they do not contain the structured content, it
/// follows as JSON.
fn result_text(decoded: &CallResult) -> String {
    let texts = decoded.content.iter().filter_map(|block| match block {
        Content::Text { text } => Some(text.as_str()),
        Content::Resource { resource } => resource.text.as_deref(),
        Content::ResourceLink { uri, .. } => Some(uri.as_str()),
        _ => None,
    });
    // `is_text_whole`: the server itself declares that its text has all of the structured content.
    let is_in_text = |structured: &Value| decoded.is_text_whole || repeats_structured(&decoded.content, structured);
    let structured = decoded.structured.as_ref().filter(|structured| !is_in_text(structured)).map(Value::to_string);
    texts.chain(structured.as_deref()).collect::<Vec<_>>().join("\n")
}
