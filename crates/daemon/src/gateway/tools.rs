//! Tools as clients list them, and results as clients get them.

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
    view::{Look, View},
};

/// A tool with the name that a client calls it by.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Shown<'a> {
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

impl<'a> Shown<'a> {
    fn of(tool: &'a CatalogTool, look: &'a Look<'_>, era: Era) -> Self {
        let described = tool.tool();
        let output = described.output_schema.as_deref();
        Self {
            name: look.name_of(tool),
            title: described.title.as_deref(),
            description: look.description_of(tool),
            input_schema: &described.input_schema,
            // Before 2026-07-28 it must describe an object; clients drop a whole list for one that does not.
            output_schema: output.filter(|schema| era == Era::Modern || is_of_object(schema)),
            annotations: (described.annotations != Annotations::default()).then_some(&described.annotations),
            icons: described.icons.as_deref(),
            meta: described.meta.as_deref(),
        }
    }
}

fn is_of_object(schema: &RawValue) -> bool {
    #[derive(Deserialize)]
    struct Kind {
        #[serde(rename = "type", default)]
        kind: Value,
    }
    serde_json::from_str::<Kind>(schema.get()).is_ok_and(|schema| schema.kind == "object")
}

/// The result of `tools/list`: the page that follows `after`. Rendered once for each catalog, era and page.
pub(super) fn list(
    catalog: &Catalog,
    view: &View,
    era: Era,
    (after, size): (Option<String>, usize),
    complete: impl Fn(Bytes) -> Bytes,
) -> Bytes {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Listed<'a> {
        tools: Vec<Shown<'a>>,
        #[serde(skip_serializing_if = "Option::is_none")]
        next_cursor: Option<String>,
    }
    view.page(catalog.version(), (era, after), |look, after| {
        let tools = catalog.tools().filter(|tool| look.has(tool)).map(|tool| (tool.name.as_str(), tool));
        let (tools, next) = cursor::page(tools, after, size);
        let tools = tools.into_iter().map(|tool| Shown::of(tool, look, era)).collect();
        complete(json(&Listed { tools, next_cursor: next }).into())
    })
}

/// The result object of `tools/call`.
pub(super) fn result(outcome: ToolOutcome, era: Era) -> Bytes {
    match outcome.verbatim {
        Some(verbatim) if era == Era::Modern || !has_odd_structure(&verbatim) => verbatim,
        Some(verbatim) => without_structure(&verbatim),
        None => rebuilt(outcome, era),
    }
}

/// An error result of our own, in words.
pub(super) fn failed(why: &str, code: &str) -> Bytes {
    let text = json!({"type": "text", "text": why});
    json!({"content": [text], "isError": true, "_meta": {"toolrack/code": code}}).to_string().into()
}

/// Whether structured content is not an object, which only 2026-07-28 allows.
fn has_odd_structure(result: &[u8]) -> bool {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Structured<'a> {
        #[serde(borrow, default)]
        structured_content: Option<&'a RawValue>,
    }
    let structured = serde_json::from_slice::<Structured<'_>>(result).ok().and_then(|it| it.structured_content);
    structured.is_some_and(|structured| !structured.get().starts_with('{'))
}

/// The result with structured content as a text, unless there is one.
fn without_structure(result: &[u8]) -> Bytes {
    let Ok(mut value) = serde_json::from_slice::<Value>(result) else {
        return Bytes::copy_from_slice(result);
    };
    let structured = value.as_object_mut().and_then(|object| object.shift_remove("structuredContent"));
    if let Some(structured) = structured {
        let blocks = value["content"].as_array_mut().map(std::mem::take).unwrap_or_default();
        let has_text = blocks.iter().any(|block| block["type"] == "text");
        let text = (!has_text).then(|| json!({"type": "text", "text": structured.to_string()}));
        value["content"] = blocks.into_iter().chain(text).collect();
    }
    value.to_string().into()
}

/// Rebuilds a result of which a part was stored elsewhere: the texts mention that themselves, and descriptions replace
/// the media.
fn rebuilt(outcome: ToolOutcome, era: Era) -> Bytes {
    let mut kept = outcome.artifacts.iter().filter(|artifact| artifact.media_type != "text/plain");
    let mut set_aside = |media_type: &str| {
        let text = match kept.next() {
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
                set_aside(&mime_type)
            }
            Content::Resource { resource: ResourceContents { uri, mime_type, text: None, blob: None } } => {
                let kind = mime_type.unwrap_or_else(|| "application/octet-stream".to_owned());
                set_aside(&format!("{kind} of {uri}"))
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

/// Adds missing members that 2026-07-28 requires in each result: its type, the identity of the server, and for lists
/// how long they may be cached. `identity` is a member `_meta`.
pub(super) fn complete(result: Bytes, cacheable: bool, identity: &str) -> Bytes {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Existing {
        #[serde(default)]
        result_type: Option<IgnoredAny>,
        #[serde(rename = "_meta", default)]
        meta: Option<IgnoredAny>,
        #[serde(default)]
        ttl_ms: Option<IgnoredAny>,
        #[serde(default)]
        cache_scope: Option<IgnoredAny>,
    }
    let Ok(existing) = serde_json::from_slice::<Existing>(&result) else { return result };
    let mut out = Vec::with_capacity(result.len() + 200);
    out.push(b'{');
    let wanted = [
        (existing.result_type.is_none(), r#""resultType":"complete","#),
        (cacheable && existing.ttl_ms.is_none(), r#""ttlMs":0,"#),
        (cacheable && existing.cache_scope.is_none(), r#""cacheScope":"private","#),
    ];
    for (_, member) in wanted.into_iter().filter(|(is_wanted, _)| *is_wanted) {
        out.extend_from_slice(member.as_bytes());
    }
    if existing.meta.is_none() {
        out.extend_from_slice(identity.as_bytes());
        out.push(b',');
    }
    let rest = result.trim_ascii_start().get(1..).unwrap_or_default().trim_ascii_start();
    if rest.first() == Some(&b'}') {
        out.pop_if(|last| *last == b',');
    }
    out.extend_from_slice(rest);
    out.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn completed(result: &str, cacheable: bool) -> Value {
        serde_json::from_slice(&complete(Bytes::copy_from_slice(result.as_bytes()), cacheable, r#""_meta":{"who":1}"#))
            .unwrap()
    }

    #[test]
    fn missing_members_of_a_result_are_added_and_others_kept() {
        assert_eq!(completed("{}", false), json!({"resultType": "complete", "_meta": {"who": 1}}));
        assert_eq!(
            completed(r#" { "a": 1}"#, true),
            json!({"a": 1, "resultType": "complete", "ttlMs": 0, "cacheScope": "private", "_meta": {"who": 1}})
        );
        let full = r#"{"resultType":"input_required","ttlMs":5,"cacheScope":"public","_meta":{}}"#;
        assert_eq!(completed(full, true), serde_json::from_str::<Value>(full).unwrap());
    }

    #[test]
    fn a_client_of_the_older_era_gets_structured_content_only_if_it_is_an_object() {
        let odd = br#"{"content":[],"structuredContent":[1, 2]}"#;
        assert!(has_odd_structure(odd));
        assert!(!has_odd_structure(br#"{"content":[],"structuredContent":{}}"#));
        let plain: Value = serde_json::from_slice(&without_structure(odd)).unwrap();
        assert_eq!(plain, json!({"content": [{"type": "text", "text": "[1,2]"}]}));
    }
}
