//! Decodes raw results into MCP's types, leniently: one bad tool or content block does not affect its neighbours.

use memchr::memchr;
use serde::{
    Deserialize,
    de::{Error as _, Unexpected},
};
use serde_json::{Value, value::RawValue};

use crate::{
    link::error::LinkError,
    mcp::{
        Annotations, Content, MAX_TOOL_NAME, Progress, PromptMessage, PromptResult, ResourceContents, TEXT_IS_WHOLE,
        TaskSupport, Tool,
    },
    text::quote,
};

/// Parses a struct. `serde` would also read one from an array, member by member; in MCP, each is an object.
fn object<'a, T: Deserialize<'a>>(json: &'a [u8]) -> serde_json::Result<T> {
    refuse_array(json)?;
    serde_json::from_slice(json)
}

/// Parses a struct, as [`object`] does.
pub(crate) fn raw_object<'a, T: Deserialize<'a>>(raw: &'a RawValue) -> serde_json::Result<T> {
    refuse_array(raw.get().as_bytes())?;
    serde_json::from_str(raw.get())
}

fn refuse_array(json: &[u8]) -> serde_json::Result<()> {
    match json.trim_ascii_start().first() {
        Some(b'[') => Err(serde_json::Error::invalid_type(Unexpected::Seq, &"an object")),
        _ => Ok(()),
    }
}

/// One page of a listing, with raw elements.
#[derive(Debug)]
pub(crate) struct Page<'a> {
    pub(crate) items: Vec<&'a RawValue>,
    pub(crate) next_cursor: Option<String>,
    /// Whether the rest of the list is lost: there may be more pages, but the cursor is not a string.
    pub(crate) is_cut: bool,
}

/// Splits the array `field` of a list result into its elements, which stay raw.
pub(crate) fn page<'a>(result: &'a [u8], field: &str) -> Result<Page<'a>, LinkError> {
    let mut members: std::collections::BTreeMap<String, &'a RawValue> =
        serde_json::from_slice(result).map_err(|error| LinkError::unparsable(format!("the list result: {error}")))?;
    require_complete(members.get("resultType").copied())?;
    let items =
        members.remove(field).ok_or_else(|| LinkError::unparsable(format!("the list result has no `{field}`")))?;
    let items =
        serde_json::from_str(items.get()).map_err(|_| LinkError::unparsable(format!("`{field}` is not an array")))?;
    let (next_cursor, is_cut) = match members.get("nextCursor").map(|raw| serde_json::from_str(raw.get())) {
        None => (None, false),
        Some(Ok(cursor)) => (cursor, false),
        Some(Err(_)) => (None, true),
    };
    Ok(Page { items, next_cursor, is_cut })
}

/// Accepts a missing `resultType` and `complete`, and refuses any other (MCP 2026-07-28: an unknown type is invalid).
fn require_complete(result_type: Option<&RawValue>) -> Result<(), LinkError> {
    match result_type.map(RawValue::get) {
        None | Some("\"complete\"") => Ok(()),
        Some(other) => Err(LinkError::protocol(format!("unknown resultType {}", quote(other)))),
    }
}

/// Decodes one tool of a list. The error is a clause for users that says why the tool cannot be used.
pub(crate) fn tool(raw: &RawValue) -> Result<Tool, String> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase", expecting = "an object")]
    struct ToolMembers<'a> {
        name: String,
        #[serde(default, deserialize_with = "lenient")]
        title: Option<String>,
        #[serde(default, deserialize_with = "lenient")]
        description: Option<String>,
        #[serde(borrow)]
        input_schema: Option<&'a RawValue>,
        #[serde(borrow, default)]
        output_schema: Option<&'a RawValue>,
        #[serde(default, deserialize_with = "lenient")]
        annotations: Option<Annotations>,
        #[serde(default, deserialize_with = "lenient")]
        execution: Option<Execution>,
        #[serde(borrow, default)]
        icons: Option<&'a RawValue>,
        #[serde(borrow, rename = "_meta", default)]
        meta: Option<&'a RawValue>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase", expecting = "an object")]
    struct Execution {
        #[serde(default)]
        task_support: TaskSupport,
    }
    let members: ToolMembers<'_> = raw_object(raw).map_err(|error| format!("it cannot be read: {error}"))?;
    if members.name.is_empty() || members.name.len() > MAX_TOOL_NAME {
        return Err(format!("its name has {} bytes, and must have 1 to {MAX_TOOL_NAME}", members.name.len()));
    }
    // Postgres stores no text with NUL.
    if members.name.contains('\0') {
        return Err("its name has a NUL character".into());
    }
    let is_object = |value: &RawValue| value.get().trim_start().starts_with('{');
    let Some(input_schema) = members.input_schema.filter(|schema| is_object(schema)) else {
        return Err("its inputSchema is not an object".into());
    };
    Ok(Tool {
        name: members.name,
        title: members.title,
        description: members.description,
        input_schema: input_schema.to_owned(),
        output_schema: members.output_schema.filter(|schema| is_object(schema)).map(ToOwned::to_owned),
        annotations: members.annotations.unwrap_or_default(),
        task: members.execution.unwrap_or(Execution { task_support: TaskSupport::Forbidden }).task_support,
        icons: members.icons.filter(|icons| icons.get().starts_with('[')).map(ToOwned::to_owned),
        meta: members.meta.filter(|meta| is_object(meta)).map(ToOwned::to_owned),
    })
}

/// Decodes a member that may be missing. A value of the wrong shape becomes `None` instead of an error.
fn lenient<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: serde::Deserializer<'de>,
    T: serde::de::DeserializeOwned,
{
    let raw = <&RawValue>::deserialize(deserializer)?;
    Ok(raw_object(raw).ok())
}

/// The kind of an answer to `tools/call`, `prompts/get` or `resources/read`.
#[derive(Debug)]
pub(crate) enum Answer {
    /// The result is complete.
    Complete,
    /// The client must answer these requests and send the call again (2026-07-28).
    InputRequired(InputRequired),
    /// The server has made the call a task; the client asks for its result later (2025-11-25).
    Task(Value),
}

/// The answers that a server needs before it can complete a call.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct InputRequired {
    #[serde(default)]
    pub(crate) input_requests: serde_json::Map<String, Value>,
    /// A value that only the server understands. The client sends it back unchanged.
    #[serde(default)]
    pub(crate) request_state: Option<Box<RawValue>>,
}

/// Determines the kind of an answer by its `resultType`. If the server sends none, a `task` means [`Answer::Task`].
pub(crate) fn answer(result: &[u8]) -> Result<Answer, LinkError> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase", expecting = "an object")]
    struct Kind<'a> {
        #[serde(borrow, default)]
        result_type: Option<&'a RawValue>,
        #[serde(default)]
        task: Option<Value>,
        #[serde(borrow, default)]
        content: Option<&'a RawValue>,
    }
    let kind: Kind<'_> = object(result).map_err(|error| LinkError::unparsable(format!("the result: {error}")))?;
    match (kind.result_type.map(RawValue::get), kind.task) {
        (Some("\"input_required\""), _) => serde_json::from_slice(result)
            .map(Answer::InputRequired)
            .map_err(|error| LinkError::unparsable(format!("the input requests: {error}"))),
        // With `content`, the result is complete, and `task` has no meaning.
        (None, Some(task)) if kind.content.is_none() => Ok(Answer::Task(task)),
        (result_type, _) => {
            if let Some(other) = result_type.filter(|kind| *kind != "\"complete\"") {
                return Err(LinkError::protocol(format!("unknown resultType {}", quote(other))));
            }
            Ok(Answer::Complete)
        }
    }
}

/// A tool's result, decoded block by block.
#[derive(Debug, Default)]
pub(crate) struct CallResult {
    pub(crate) content: Vec<Content>,
    pub(crate) structured: Option<Value>,
    /// Whether the server declares that `content` contains all of `structured` as text.
    pub(crate) is_text_whole: bool,
    pub(crate) is_error: bool,
    pub(crate) warnings: Vec<String>,
}

/// Decodes with `decode`; if that fails, once more with each lone surrogate replaced. Returns as well whether any was
/// replaced.
fn decode_or_repair<T>(result: &[u8], decode: impl Fn(&[u8]) -> Result<T, LinkError>) -> Result<(T, bool), LinkError> {
    match decode(result) {
        Ok(decoded) => Ok((decoded, false)),
        Err(error) => {
            let repaired = without_lone_surrogates(result).ok_or(error)?;
            Ok((decode(&repaired)?, true))
        }
    }
}

/// Replaces each lone surrogate in a JSON text by U+FFFD; `None` if there is none.
///
/// A lone surrogate is an escape such as `\ud83d`, half of a character in UTF-16. A server in JavaScript sends one when
/// it cuts a text in the middle of an emoji, and other clients accept it. No Rust string can hold it.
fn without_lone_surrogates(json: &[u8]) -> Option<Vec<u8>> {
    let code_unit_at = |index: usize| {
        let digits = json.get(index..index + 6)?.strip_prefix(br"\u")?;
        u16::from_str_radix(str::from_utf8(digits).ok()?, 16).ok()
    };
    let mut repaired = None;
    let mut index = 0;
    while let Some(offset) = json.get(index..).and_then(|rest| memchr(b'\\', rest)) {
        let escape = index + offset;
        index = match (code_unit_at(escape), code_unit_at(escape + 6)) {
            (Some(0xd800..=0xdbff), Some(0xdc00..=0xdfff)) => escape + 12,
            (Some(0xd800..=0xdfff), _) => {
                let repaired = repaired.get_or_insert_with(|| json.to_vec());
                repaired[escape + 2..escape + 6].copy_from_slice(b"fffd");
                escape + 6
            }
            // The second byte of the escape may be a backslash, which begins no escape of its own.
            _ => escape + 2,
        };
    }
    repaired
}

/// Decodes the result object of `tools/call`.
pub(crate) fn call_result(result: &[u8]) -> Result<CallResult, LinkError> {
    let (mut decoded, is_repaired) = decode_or_repair(result, decode_call_result)?;
    if is_repaired {
        decoded.warnings.push("the server cut a character in half; U+FFFD stands in its place".to_owned());
    }
    Ok(decoded)
}

fn decode_call_result(result: &[u8]) -> Result<CallResult, LinkError> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase", expecting = "an object")]
    struct ResultMembers<'a> {
        #[serde(borrow, default)]
        content: Option<&'a RawValue>,
        #[serde(default)]
        structured_content: Option<Value>,
        #[serde(borrow, default)]
        is_error: Option<&'a RawValue>,
        /// The name in the first drafts of 2024-11-05.
        #[serde(default)]
        tool_result: Option<Value>,
        #[serde(borrow, rename = "_meta", default)]
        meta: Option<&'a RawValue>,
    }
    let members: ResultMembers<'_> =
        object(result).map_err(|error| LinkError::unparsable(format!("the result: {error}")))?;
    if members.content.is_none() && members.structured_content.is_none() && members.tool_result.is_none() {
        return Err(LinkError::unparsable("the result has neither `content` nor `structuredContent`"));
    }
    let mut decoded = CallResult {
        is_text_whole: members.structured_content.is_some() && members.meta.is_some_and(is_text_whole),
        structured: members.structured_content.or(members.tool_result).filter(|value| !value.is_null()),
        is_error: is_error(members.is_error),
        ..CallResult::default()
    };
    if let Some(unusual_value) =
        members.is_error.map(RawValue::get).filter(|word| !matches!(*word, "true" | "false" | "null"))
    {
        let meaning = decoded.is_error;
        decoded
            .warnings
            .push(format!("`isError` is {}, neither true nor false; it is read as {meaning}", quote(unusual_value)));
    }
    if let Some(raw) = members.content.filter(|raw| raw.get() != "null") {
        let blocks: Vec<&RawValue> =
            serde_json::from_str(raw.get()).map_err(|_| LinkError::unparsable("`content` is not an array"))?;
        for (index, block) in blocks.into_iter().enumerate() {
            let block = content(block)?;
            if let Content::Other(other) = &block {
                let kind = other.get("type").and_then(Value::as_str).unwrap_or("?");
                decoded.warnings.push(format!(
                    "content block {index} of the unknown or broken type `{}` is kept as JSON",
                    quote(kind)
                ));
            }
            decoded.content.push(block);
        }
    }
    Ok(decoded)
}

/// Returns whether `meta` of a result has [`TEXT_IS_WHOLE`].
fn is_text_whole(meta: &RawValue) -> bool {
    meta.get().contains(TEXT_IS_WHOLE)
        && serde_json::from_str::<Value>(meta.get()).is_ok_and(|meta| meta[TEXT_IS_WHOLE] == true)
}

/// Checks a result object of `tools/call` that the host forwards without decoding it. Returns whether the tool failed,
/// according to the result.
pub(crate) fn check_undecoded(result: &[u8]) -> Result<bool, LinkError> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase", expecting = "an object")]
    struct ResultMembers<'a> {
        #[serde(borrow, default)]
        content: Option<&'a RawValue>,
        #[serde(borrow, default)]
        structured_content: Option<&'a RawValue>,
        #[serde(borrow, default)]
        is_error: Option<&'a RawValue>,
    }
    let members: ResultMembers<'_> =
        object(result).map_err(|error| LinkError::unparsable(format!("the result: {error}")))?;
    match members.content.map(RawValue::get) {
        Some(content) if content.starts_with('[') => {}
        Some(content) if content != "null" => return Err(LinkError::unparsable("`content` is not an array")),
        _ if members.structured_content.is_some() => {}
        _ => return Err(LinkError::unparsable("the result has neither `content` nor `structuredContent`")),
    }
    Ok(is_error(members.is_error))
}

/// Returns the value of `isError`. A value that is neither true nor false counts as an error unless it clearly means
/// false: a failure must not be mistaken for a result.
fn is_error(value: Option<&RawValue>) -> bool {
    !matches!(value.map(RawValue::get), None | Some("false" | "null" | "0" | "\"\"" | "\"false\""))
}

/// Decodes one content block. A block of an unknown type, or without the fields of its type, becomes
/// [`Content::Other`].
pub(crate) fn content(raw: &RawValue) -> Result<Content, LinkError> {
    #[derive(Deserialize)]
    #[serde(tag = "type", rename_all = "snake_case")]
    enum KnownBlock {
        Text {
            text: String,
        },
        #[serde(rename_all = "camelCase")]
        Image {
            data: String,
            mime_type: String,
        },
        #[serde(rename_all = "camelCase")]
        Audio {
            data: String,
            mime_type: String,
        },
        Resource {
            resource: ResourceContents,
        },
        #[serde(rename_all = "camelCase")]
        ResourceLink {
            uri: String,
            name: Option<String>,
            description: Option<String>,
            mime_type: Option<String>,
        },
    }
    Ok(match raw_object(raw) {
        Ok(KnownBlock::Text { text }) => Content::Text { text },
        Ok(KnownBlock::Image { data, mime_type }) => Content::Image { data, mime_type },
        Ok(KnownBlock::Audio { data, mime_type }) => Content::Audio { data, mime_type },
        Ok(KnownBlock::Resource { resource }) => Content::Resource { resource },
        Ok(KnownBlock::ResourceLink { uri, name, description, mime_type }) => {
            Content::ResourceLink { uri, name, description, mime_type }
        }
        // JSON with invalid text, such as half of a surrogate pair, cannot be stored as a `Value`.
        Err(_) => {
            let other = serde_json::from_str(raw.get());
            Content::Other(other.map_err(|error| LinkError::unparsable(format!("a content block: {error}")))?)
        }
    })
}

/// Decodes the result object of `resources/read`.
pub(crate) fn resource_contents(result: &[u8]) -> Result<Vec<ResourceContents>, LinkError> {
    Ok(decode_or_repair(result, decode_resource_contents)?.0)
}

fn decode_resource_contents(result: &[u8]) -> Result<Vec<ResourceContents>, LinkError> {
    page(result, "contents")?
        .items
        .into_iter()
        .map(|raw| raw_object(raw).map_err(|error| LinkError::unparsable(format!("the contents: {error}"))))
        .collect()
}

/// Decodes the result object of `prompts/get`.
pub(crate) fn prompt_result(result: &[u8]) -> Result<PromptResult, LinkError> {
    Ok(decode_or_repair(result, decode_prompt_result)?.0)
}

fn decode_prompt_result(result: &[u8]) -> Result<PromptResult, LinkError> {
    #[derive(Deserialize)]
    #[serde(expecting = "an object")]
    struct PromptMembers<'a> {
        #[serde(default, deserialize_with = "lenient")]
        description: Option<String>,
        #[serde(borrow)]
        messages: Vec<Message<'a>>,
    }
    #[derive(Deserialize)]
    #[serde(expecting = "an object")]
    struct Message<'a> {
        role: String,
        #[serde(borrow)]
        content: &'a RawValue,
    }
    let members: PromptMembers<'_> =
        object(result).map_err(|error| LinkError::unparsable(format!("the prompt: {error}")))?;
    Ok(PromptResult {
        description: members.description,
        messages: members
            .messages
            .into_iter()
            .map(|message| Ok(PromptMessage { role: message.role, content: content(message.content)? }))
            .collect::<Result<_, LinkError>>()?,
    })
}

/// Decodes the parameters of `notifications/progress`: the token and the progress.
pub(crate) fn progress(params: &RawValue) -> Option<(i64, Progress)> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase", expecting = "an object")]
    struct ProgressMembers {
        progress_token: i64,
        #[serde(flatten)]
        progress: Progress,
    }
    let members: ProgressMembers = raw_object(params).ok()?;
    Some((members.progress_token, members.progress))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn raw(value: &Value) -> Box<RawValue> {
        serde_json::value::to_raw_value(value).unwrap()
    }

    fn text_of(error: &LinkError) -> String {
        error.to_string()
    }

    #[test]
    fn a_page_has_its_items_raw_and_says_whether_the_rest_is_lost() {
        let read = |result: &str| {
            let page = page(result.as_bytes(), "tools").map_err(|error| text_of(&error))?;
            let items: Vec<_> = page.items.iter().map(|item| item.get().to_owned()).collect();
            Ok::<_, String>((items.join(" "), page.next_cursor, page.is_cut))
        };
        let items = || r#"{"n": 1} 2"#.to_owned();
        assert_eq!(read(r#"{"tools": [{"n": 1}, 2]}"#), Ok((items(), None, false)));
        assert_eq!(read(r#"{"tools": [{"n": 1}, 2], "nextCursor": "c"}"#), Ok((items(), Some("c".to_owned()), false)));
        assert_eq!(read(r#"{"tools": [{"n": 1}, 2], "nextCursor": null}"#), Ok((items(), None, false)));
        assert_eq!(read(r#"{"tools": [{"n": 1}, 2], "nextCursor": 7}"#), Ok((items(), None, true)));
        for (broken, why) in [
            (r#"{"prompts": []}"#, "has no `tools`"),
            (r#"{"tools": {}}"#, "`tools` is not an array"),
            (r#"{"tools": [], "resultType": "task"}"#, "unknown resultType"),
            ("[]", "the list result"),
        ] {
            let error = read(broken).unwrap_err();
            assert!(error.contains(why), "{broken}: {error}");
        }
    }

    #[test]
    fn an_array_is_never_read_as_an_object() {
        let tool_array = raw(&json!(["echo", null, null, {"type": "object"}]));
        assert!(tool(&tool_array).unwrap_err().contains("an object"));
        let annotated = json!({"name": "x", "inputSchema": {}, "annotations": [null, true], "execution": ["required"]});
        let read = tool(&raw(&annotated)).unwrap();
        assert_eq!((read.annotations, read.task), (Annotations::default(), TaskSupport::Forbidden));
        let result = br#" [[{"type": "text", "text": "x"}]]"#;
        for error in [
            answer(result).unwrap_err(),
            call_result(result).unwrap_err(),
            check_undecoded(result).unwrap_err(),
            prompt_result(br#"["d", []]"#).unwrap_err(),
            resource_contents(br#"{"contents": [["a:b", null, "text"]]}"#).unwrap_err(),
        ] {
            assert!(text_of(&error).contains("invalid type: sequence"), "{error}");
        }
        assert!(matches!(content(&raw(&json!(["text", "x"]))), Ok(Content::Other(Value::Array(_)))));
        assert!(progress(&raw(&json!([1, 1.0]))).is_none());
    }

    #[test]
    fn a_tool_keeps_what_can_be_read_and_is_refused_only_for_its_name_or_its_input() {
        let lenient = json!({
            "name": "echo", "title": 7, "description": ["x"], "inputSchema": {"type": "object"}, "outputSchema": 7,
            "annotations": "odd", "execution": {"taskSupport": "optional"}, "icons": {}, "_meta": [],
        });
        let read = tool(&raw(&lenient)).unwrap();
        assert_eq!((&*read.name, &read.title, &read.description), ("echo", &None, &None));
        assert_eq!(read.input_schema.get(), r#"{"type":"object"}"#);
        assert!(read.output_schema.is_none() && read.icons.is_none() && read.meta.is_none());
        assert_eq!((read.annotations, read.task), (Annotations::default(), TaskSupport::Optional));
        for (broken, why) in [
            (json!({ "inputSchema": {} }), "it cannot be read"),
            (json!({ "name": "", "inputSchema": {} }), "its name has 0 bytes"),
            (json!({ "name": "x".repeat(MAX_TOOL_NAME + 1), "inputSchema": {} }), "its name has"),
            (json!({ "name": "x\0", "inputSchema": {} }), "its name has a NUL character"),
            (json!({ "name": "echo" }), "its inputSchema is not an object"),
            (json!({ "name": "echo", "inputSchema": true }), "its inputSchema is not an object"),
        ] {
            let error = tool(&raw(&broken)).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
    }

    #[test]
    fn an_answer_is_a_task_only_without_a_result_type_and_without_content() {
        let kind = |result: Value| match answer(result.to_string().as_bytes()) {
            Ok(Answer::Complete) => "complete".to_owned(),
            Ok(Answer::Task(task)) => format!("task {task}"),
            Ok(Answer::InputRequired(needed)) => {
                let state = needed.request_state.as_deref().map(RawValue::get);
                format!("input {} {state:?}", needed.input_requests.len())
            }
            Err(error) => text_of(&error),
        };
        assert_eq!(kind(json!({ "content": [] })), "complete");
        assert_eq!(kind(json!({ "resultType": "complete", "task": {} })), "complete");
        assert_eq!(kind(json!({ "task": {"taskId": "1"} })), r#"task {"taskId":"1"}"#);
        assert_eq!(kind(json!({ "task": {}, "content": [] })), "complete", "a tool may answer with a member `task`");
        let needed = json!({ "resultType": "input_required", "inputRequests": {"a": {}}, "requestState": {"b": [1]} });
        assert_eq!(kind(needed), r#"input 1 Some("{\"b\":[1]}")"#);
        assert!(kind(json!({ "resultType": "later" })).contains("unknown resultType"));
        assert!(kind(json!(7)).contains("the result"));
    }

    #[test]
    fn a_failure_of_a_tool_is_never_read_as_a_result() {
        for (written, is_failure, warns) in [
            (json!(null), false, false),
            (json!(false), false, false),
            (json!(true), true, false),
            (json!(0), false, true),
            (json!(1), true, true),
            (json!(""), false, true),
            (json!("false"), false, true),
            (json!("true"), true, true),
            (json!("no"), true, true),
            (json!({}), true, true),
        ] {
            let result = json!({ "content": [], "isError": written }).to_string();
            let decoded = call_result(result.as_bytes()).unwrap();
            assert_eq!((decoded.is_error, !decoded.warnings.is_empty()), (is_failure, warns), "{result}");
            assert_eq!(check_undecoded(result.as_bytes()).unwrap(), is_failure, "{result}");
        }
        assert!(!call_result(br#"{"content": []}"#).unwrap().is_error);
    }

    #[test]
    fn a_result_without_any_content_is_no_result_whether_it_is_decoded_or_not() {
        for (result, can_be_read) in [
            (json!({ "content": [] }), true),
            (json!({ "structuredContent": {"a": 1} }), true),
            (json!({ "content": null, "structuredContent": {} }), true),
            (json!({}), false),
            (json!({ "isError": true }), false),
            (json!({ "content": "text" }), false),
            (json!({ "content": {} }), false),
        ] {
            let bytes = result.to_string();
            assert_eq!(call_result(bytes.as_bytes()).is_ok(), can_be_read, "{result}");
            assert_eq!(check_undecoded(bytes.as_bytes()).is_ok(), can_be_read, "{result}");
        }
        let oldest = call_result(br#"{"toolResult": {"a": 1}}"#).unwrap();
        assert_eq!(oldest.structured, Some(json!({ "a": 1 })));
    }

    #[test]
    fn text_counts_as_whole_only_beside_structured_content() {
        let result = |structured: bool, declared: Value| {
            let mut result = json!({ "content": [], "_meta": { TEXT_IS_WHOLE: declared } });
            if structured {
                result["structuredContent"] = json!({});
            }
            call_result(result.to_string().as_bytes()).unwrap().is_text_whole
        };
        assert!(result(true, json!(true)));
        assert!(!result(true, json!("true")) && !result(true, json!(false)) && !result(false, json!(true)));
    }

    #[test]
    fn a_broken_block_is_kept_as_json_with_a_warning_and_its_neighbours_are_decoded() {
        let blocks = json!([
            {"type": "text", "text": "before"},
            {"type": "image", "data": "AA=="},
            {"type": "hologram", "size": 3},
            {"type": "resource_link", "uri": "file:///a", "mimeType": "text/plain"},
        ]);
        let decoded = call_result(json!({ "content": blocks }).to_string().as_bytes()).unwrap();
        assert!(matches!(&decoded.content[0], Content::Text { text } if text == "before"));
        assert!(matches!(&decoded.content[1], Content::Other(kept) if *kept == blocks[1]), "it has no mimeType");
        assert!(matches!(&decoded.content[2], Content::Other(kept) if *kept == blocks[2]));
        assert!(matches!(&decoded.content[3], Content::ResourceLink { uri, .. } if uri == "file:///a"));
        let [image, hologram] = decoded.warnings.as_slice() else { panic!("{:?}", decoded.warnings) };
        assert!(image.contains("block 1") && image.contains("`image`"), "{image}");
        assert!(hologram.contains("block 2") && hologram.contains("`hologram`"), "{hologram}");
        let half_a_pair = RawValue::from_string(r#"{"type": "text", "text": "\ud800"}"#.to_owned()).unwrap();
        assert!(content(&half_a_pair).is_err(), "text that is no text cannot be kept");
    }

    #[test]
    fn half_of_a_character_is_replaced_with_a_warning_and_whole_ones_stay() {
        let text = |escaped: &str| format!(r#"{{"type": "text", "text": "{escaped}"}}"#);
        let result = |escaped: &str| format!(r#"{{"content": [{}, {}]}}"#, text(escaped), text(r"\ud83d\ude00"));
        for (escaped, decoded, is_repaired) in [
            (r"cut \ud83d", "cut \u{fffd}", true),
            (r"\ude00\uD83D cut", "\u{fffd}\u{fffd} cut", true),
            (r"\ud83d\ud83d\ude00", "\u{fffd}\u{1f600}", true),
            (r"\\ud83d \n\\", "\\ud83d \n\\", false),
        ] {
            let read = call_result(result(escaped).as_bytes()).unwrap();
            let texts: Vec<_> = read
                .content
                .iter()
                .map(|block| match block {
                    Content::Text { text } => text.as_str(),
                    other => panic!("{other:?}"),
                })
                .collect();
            assert_eq!((texts, read.warnings.len()), (vec![decoded, "\u{1f600}"], usize::from(is_repaired)));
        }
        let structured = call_result(br#"{"structuredContent": {"a": "\ud800"}}"#).unwrap();
        assert_eq!(structured.structured, Some(json!({ "a": "\u{fffd}" })));
        let prompt = r#"{"messages": [{"role": "user", "content": {"type": "text", "text": "\ud800"}}]}"#;
        assert!(matches!(&prompt_result(prompt.as_bytes()).unwrap().messages[0].content,
            Content::Text { text } if text == "\u{fffd}"));
        let contents = br#"{"contents": [{"uri": "x://a", "text": "\udfff"}]}"#;
        assert_eq!(resource_contents(contents).unwrap().len(), 1);
        for broken in [r#"{"content": "\ud800"}"#, r#"{"content": ["\ud800\u"#, r#"{"content": ["\"#] {
            assert!(call_result(broken.as_bytes()).is_err(), "{broken}");
        }
    }

    #[test]
    fn progress_needs_a_number_as_its_token() {
        let of = |params: Value| progress(&raw(&params)).map(|(token, progress)| (token, progress.progress));
        assert_eq!(of(json!({ "progressToken": 7, "progress": 0.5, "total": 1 })), Some((7, 0.5)));
        assert_eq!(of(json!({ "progressToken": "7", "progress": 0.5 })), None);
        assert_eq!(of(json!({ "progressToken": 7 })), None);
    }
}
