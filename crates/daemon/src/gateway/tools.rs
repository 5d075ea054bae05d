//! Writes the tools of the catalog (the immutable list of the tools of all servers) as clients list them, and results
//! as clients get them.

use bytes::Bytes;
use serde::{Deserialize, Serialize, de::IgnoredAny};
use serde_json::{Value, json, value::RawValue};
use toolrack_host::{
    Catalog, CatalogTool, Content, Era, ToolOutcome,
    mcp::{Annotations, ResourceContents},
};

use super::{
    cursor,
    message::json,
    view::{View, ViewSnapshot},
};

/// A tool with the name that a client calls it by.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ListedTool<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'a str>,
    input_schema: &'a RawValue,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_schema: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    annotations: Option<&'a Annotations>,
    #[serde(skip_serializing_if = "Option::is_none")]
    icons: Option<&'a RawValue>,
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    meta: Option<&'a RawValue>,
}

impl<'a> ListedTool<'a> {
    fn of(tool: &'a CatalogTool, snapshot: &'a ViewSnapshot<'_>, era: Era) -> Self {
        let definition = tool.tool();
        let output_schema = definition.output_schema.as_deref();
        Self {
            name: snapshot.name_of(tool),
            title: definition.title.as_deref(),
            description: snapshot.description_of(tool),
            input_schema: &definition.input_schema,
            // Before 2026-07-28, an output schema must describe an object, and a client drops the whole list because of
            // one schema that does not.
            output_schema: output_schema.filter(|schema| era == Era::Modern || describes_object(schema)),
            annotations: (definition.annotations != Annotations::default()).then_some(&definition.annotations),
            icons: definition.icons.as_deref(),
            meta: definition.meta.as_deref(),
        }
    }
}

fn describes_object(schema: &RawValue) -> bool {
    #[derive(Deserialize)]
    struct SchemaType {
        #[serde(rename = "type", default)]
        kind: Value,
    }
    serde_json::from_str::<SchemaType>(schema.get()).is_ok_and(|schema| schema.kind == "object")
}

/// The result of `tools/list`: the page that follows `after`. Rendered once for each catalog, era (2026-07-28, or
/// older) and page.
pub(super) fn list(
    catalog: &Catalog,
    view: &View,
    era: Era,
    (after, size): (Option<String>, usize),
    finish: impl Fn(Bytes) -> Bytes,
) -> Bytes {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct ToolList<'a> {
        tools: Vec<ListedTool<'a>>,
        #[serde(skip_serializing_if = "Option::is_none")]
        next_cursor: Option<String>,
    }
    view.page(catalog.version(), (era, after), |snapshot, after| {
        let tools = catalog.tools().filter(|tool| snapshot.has(tool)).map(|tool| (tool.name.as_str(), tool));
        let (tools, next) = cursor::page(tools, after, size);
        let tools = tools.into_iter().map(|tool| ListedTool::of(tool, snapshot, era)).collect();
        finish(json(&ToolList { tools, next_cursor: next }).into())
    })
}

/// The result object of `tools/call`.
pub(super) fn result(outcome: ToolOutcome, era: Era) -> Bytes {
    match outcome.verbatim {
        Some(verbatim) if era == Era::Modern || !has_non_object_structured_content(&verbatim) => verbatim,
        Some(verbatim) => structured_content_to_text(&verbatim),
        None => rebuild_result(outcome, era),
    }
}

/// An error result that the gateway itself makes: the text `why` for a model, and the code in `_meta`.
pub(super) fn error_result(why: &str, code: &str) -> Bytes {
    let text = json!({"type": "text", "text": why});
    json!({"content": [text], "isError": true, "_meta": {"toolrack/code": code}}).to_string().into()
}

/// Whether the result has structured content that is not an object, which only 2026-07-28 allows.
fn has_non_object_structured_content(result: &[u8]) -> bool {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Structured<'a> {
        #[serde(borrow, default)]
        structured_content: Option<&'a RawValue>,
    }
    let structured_content =
        serde_json::from_slice::<Structured<'_>>(result).ok().and_then(|result| result.structured_content);
    structured_content.is_some_and(|structured_content| !structured_content.get().starts_with('{'))
}

/// The result without structured content, which becomes a text block unless the result has a text already.
fn structured_content_to_text(result: &[u8]) -> Bytes {
    let Ok(mut value) = serde_json::from_slice::<Value>(result) else {
        return Bytes::copy_from_slice(result);
    };
    let structured_content = value.as_object_mut().and_then(|object| object.shift_remove("structuredContent"));
    if let Some(structured_content) = structured_content {
        let blocks = value["content"].as_array_mut().map(std::mem::take).unwrap_or_default();
        let has_text = blocks.iter().any(|block| block["type"] == "text");
        let text = (!has_text).then(|| json!({"type": "text", "text": structured_content.to_string()}));
        value["content"] = blocks.into_iter().chain(text).collect();
    }
    value.to_string().into()
}

/// Rebuilds a result that was too large, so that the host has stored a part of it elsewhere. A shortened text says
/// where the whole text is. In place of each stored image, audio or resource, the result has a text that says where it
/// is.
fn rebuild_result(outcome: ToolOutcome, era: Era) -> Bytes {
    let mut stored_media = outcome.artifacts.iter().filter(|artifact| artifact.media_type != "text/plain");
    let mut placeholder = |media_type: &str| {
        let text = match stored_media.next() {
            Some(artifact) => format!(
                "[{media_type}, {} bytes: too large to be passed on; it is kept as {}]",
                artifact.bytes, artifact.handle
            ),
            None => format!("[{media_type}: too large to be passed on]"),
        };
        Content::Text { text }
    };
    let content: Vec<Content> = outcome
        .content
        .into_iter()
        .map(|block| match block {
            Content::Image { data, mime_type } | Content::Audio { data, mime_type } if data.is_empty() => {
                placeholder(&mime_type)
            }
            Content::Resource { resource: ResourceContents { uri, mime_type, text: None, blob: None } } => {
                let media_type = mime_type.unwrap_or_else(|| "application/octet-stream".to_owned());
                placeholder(&format!("{media_type} of {uri}"))
            }
            block => block,
        })
        .collect();
    let mut result = json!({ "content": content });
    if outcome.is_error {
        result["isError"] = json!(true);
    }
    if let Some(structured) = outcome.structured
        && (era == Era::Modern || structured.is_object())
    {
        result["structuredContent"] = structured;
    }
    result.to_string().into()
}

/// Whether a client may cache a result for a while. Lists and contents of resources are cacheable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cacheable {
    Yes,
    No,
}

/// Adds missing fields that 2026-07-28 requires in each result: its type, the identity of the server, and for a
/// cacheable result, how it may be cached. `identity` is the JSON field `_meta`, with its name.
pub(super) fn add_required_fields(result: Bytes, cacheable: Cacheable, identity: &str) -> Bytes {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct ExistingFields {
        #[serde(default)]
        result_type: Option<IgnoredAny>,
        #[serde(rename = "_meta", default)]
        meta: Option<IgnoredAny>,
        #[serde(default)]
        ttl_ms: Option<IgnoredAny>,
        #[serde(default)]
        cache_scope: Option<IgnoredAny>,
    }
    let Ok(existing_fields) = serde_json::from_slice::<ExistingFields>(&result) else { return result };
    // 200 bytes are enough for the fields below, unless the gateway has a very long name.
    let mut buffer = Vec::with_capacity(result.len() + 200);
    buffer.push(b'{');
    let missing_fields = [
        (existing_fields.result_type.is_none(), r#""resultType":"complete","#),
        (cacheable == Cacheable::Yes && existing_fields.ttl_ms.is_none(), r#""ttlMs":0,"#),
        (cacheable == Cacheable::Yes && existing_fields.cache_scope.is_none(), r#""cacheScope":"private","#),
    ];
    for (_, field) in missing_fields.into_iter().filter(|(is_missing, _)| *is_missing) {
        buffer.extend_from_slice(field.as_bytes());
    }
    if existing_fields.meta.is_none() {
        buffer.extend_from_slice(identity.as_bytes());
        buffer.push(b',');
    }
    // The result without its opening brace, which `buffer` has already.
    let rest_of_result = result.trim_ascii_start().get(1..).unwrap_or_default().trim_ascii_start();
    // After the last added field there is no comma if the result itself has no fields.
    if rest_of_result.first() == Some(&b'}') {
        buffer.pop_if(|last| *last == b',');
    }
    buffer.extend_from_slice(rest_of_result);
    buffer.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn completed(result: &str, cacheable: Cacheable) -> Value {
        serde_json::from_slice(&add_required_fields(
            Bytes::copy_from_slice(result.as_bytes()),
            cacheable,
            r#""_meta":{"who":1}"#,
        ))
        .unwrap()
    }

    #[test]
    fn missing_members_of_a_result_are_added_and_others_kept() {
        assert_eq!(completed("{}", Cacheable::No), json!({"resultType": "complete", "_meta": {"who": 1}}));
        assert_eq!(
            completed(r#" { "a": 1}"#, Cacheable::Yes),
            json!({"a": 1, "resultType": "complete", "ttlMs": 0, "cacheScope": "private", "_meta": {"who": 1}})
        );
        let full = r#"{"resultType":"input_required","ttlMs":5,"cacheScope":"public","_meta":{}}"#;
        assert_eq!(completed(full, Cacheable::Yes), serde_json::from_str::<Value>(full).unwrap());
    }

    #[test]
    fn a_client_of_the_older_era_gets_structured_content_only_if_it_is_an_object() {
        let odd = br#"{"content":[],"structuredContent":[1, 2]}"#;
        assert!(has_non_object_structured_content(odd));
        assert!(!has_non_object_structured_content(br#"{"content":[],"structuredContent":{}}"#));
        let plain: Value = serde_json::from_slice(&structured_content_to_text(odd)).unwrap();
        assert_eq!(plain, json!({"content": [{"type": "text", "text": "[1,2]"}]}));
    }
}
