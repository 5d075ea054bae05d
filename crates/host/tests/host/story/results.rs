//! Results: nothing is lost, and a model gets what it can use.

use std::sync::{Arc, Mutex};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use futures::future::BoxFuture;
use serde_json::{Map, Value, json};
use tokio::task::JoinSet;
use toolrack_host::{
    Artifacts, Call, CallError, CallErrorKind, Content, Host, KeepError, ServerName, ServerSpec, ShapedContent,
    ToolOutcome,
    mcp::{ResourceContents, TEXT_IS_WHOLE},
    signature,
    spec::{OutputSchema, ValidateArgs},
};

use crate::{
    scripted::{Reaction, Scripted, text_result},
    worlds::{call, fake, host_of, settle, world},
};

/// Artifacts that a test can read.
#[derive(Debug, Default)]
struct Shelf(Mutex<Vec<(String, Vec<u8>)>>);

impl Artifacts for Shelf {
    fn keep<'a>(
        &'a self,
        server: &'a ServerName,
        tool: &'a str,
        media_type: &'a str,
        bytes: &'a [u8],
    ) -> BoxFuture<'a, Result<String, KeepError>> {
        let mut kept = self.0.lock().unwrap();
        kept.push((format!("{server}/{tool} {media_type}"), bytes.to_owned()));
        let handle = format!("shelf:{}", kept.len());
        Box::pin(async move { Ok(handle) })
    }
}

/// Artifacts that cannot store anything.
struct Full;

impl Artifacts for Full {
    fn keep<'a>(
        &'a self,
        _: &'a ServerName,
        _: &'a str,
        _: &'a str,
        _: &'a [u8],
    ) -> BoxFuture<'a, Result<String, KeepError>> {
        Box::pin(async { Err(KeepError { why: "the disk is full".into() }) })
    }
}

/// Calls a tool that gives this result, and returns the outcome.
async fn outcome_of(result: Value, artifacts: Option<Arc<dyn Artifacts>>) -> ToolOutcome {
    let server = Scripted::calling(move |_, _| Reaction::Answer(result.clone()));
    let builder = Host::builder();
    let host = match artifacts {
        Some(artifacts) => builder.artifacts(artifacts),
        None => builder,
    }
    .build();
    settle(&host, world([("server", server.spec())])).await;
    call(&host, "server/echo", json!({})).await.unwrap()
}

#[tokio::test]
async fn one_block_of_each_kind_is_stored_unchanged() {
    let host = host_of([("fake", fake(&[]))]).await;
    let outcome = call(&host, "fake/image", json!({})).await.unwrap();
    let resource = |uri: &str, mime: &str| ResourceContents {
        uri: uri.into(),
        mime_type: Some(mime.into()),
        text: None,
        blob: None,
    };
    let [text, image, audio, note, blob, link] = &outcome.content[..] else { panic!("{:#?}", outcome.content) };
    assert_eq!(*text, Content::Text { text: "one of each".into() });
    assert!(
        matches!(image, Content::Image { data, mime_type } if data.starts_with("iVBOR") && mime_type == "image/png")
    );
    assert_eq!(*audio, Content::Audio { data: "AAEC".into(), mime_type: "audio/wav".into() });
    let with_text = ResourceContents { text: Some("a note".into()), ..resource("fake://note", "text/plain") };
    assert_eq!(*note, Content::Resource { resource: with_text });
    let with_blob =
        ResourceContents { blob: Some("AAEC".into()), ..resource("fake://blob", "application/octet-stream") };
    assert_eq!(*blob, Content::Resource { resource: with_blob });
    assert!(
        matches!(link, Content::ResourceLink { uri, name, .. } if uri == "fake://note" && name.as_deref() == Some("note"))
    );
    assert_eq!(outcome.text, "one of each\na note\nfake://note");
    assert!(outcome.warnings.is_empty() && !outcome.truncated && outcome.artifacts.is_empty());
    host.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn structured_content_is_not_repeated_as_text() {
    let structured = json!({"value": 42, "label": "answer"});
    let result = json!({"content": [{"type": "text", "text": "{\"label\": \"answer\", \"value\": 42}"}], "structuredContent": structured});
    let outcome = outcome_of(result, None).await;
    assert_eq!(outcome.text, "{\"label\": \"answer\", \"value\": 42}");
    assert_eq!(outcome.structured, Some(structured.clone()));

    let without_text = json!({"content": [], "structuredContent": structured});
    let outcome = outcome_of(without_text, None).await;
    assert_eq!(serde_json::from_str::<Value>(&outcome.text).unwrap(), structured);
}

#[tokio::test(start_paused = true)]
async fn a_model_gets_a_file_once_and_a_program_gets_text_and_structure_apart() {
    let file = "first line\nsecond \u{e9} line\n".repeat(100);
    let block = |text: &str| json!({"type": "text", "text": text});
    for structured in [json!({"content": file}), json!({"result": file}), json!({"content": [block(&file)]})] {
        let result = json!({"content": [block(&file)], "structuredContent": structured});
        let outcome = outcome_of(result, None).await;
        assert_eq!(outcome.text, file);
        let shown = serde_json::to_value(&outcome).unwrap();
        assert_eq!((&shown["structured"], &shown["content"]), (&structured, &json!([block(&file)])));
    }
    let list = json!({"content": [block("a"), block("b")], "structuredContent": {"result": ["a", "b"]}});
    assert_eq!(outcome_of(list, None).await.text, "a\nb");
    let more = json!({"content": [block("3 found")], "structuredContent": {"found": [1, 2, 3]}});
    assert_eq!(outcome_of(more.clone(), None).await.text, "3 found\n{\"found\":[1,2,3]}");
    let mut in_words = more;
    in_words["_meta"] = json!({TEXT_IS_WHOLE: true});
    let outcome = outcome_of(in_words, None).await;
    assert_eq!((outcome.text.as_str(), outcome.structured), ("3 found", Some(json!({"found": [1, 2, 3]}))));
}

#[tokio::test]
async fn structured_content_that_does_not_match_its_schema_is_passed_on_with_a_warning() {
    let host = host_of([("good", fake(&[])), ("bad", fake(&["--fault", "wrong-structured"]))]).await;
    let good = call(&host, "good/structured", json!({})).await.unwrap();
    assert_eq!(good.structured, Some(json!({"label": "answer", "value": 42})));
    assert!(good.warnings.is_empty(), "{:?}", good.warnings);
    let bad = call(&host, "bad/structured", json!({})).await.unwrap();
    assert_eq!(bad.structured, Some(json!({"label": 42})));
    assert_eq!(bad.warnings.len(), 1, "{:?}", bad.warnings);
    host.shutdown().await;
}

#[tokio::test]
async fn a_result_that_does_not_match_its_schema_is_an_error_where_the_entry_says_reject() {
    let strict = |args: &[&str]| ServerSpec { output_schema: OutputSchema::Reject, ..fake(args) };
    let host = host_of([("good", strict(&[])), ("bad", strict(&["--fault", "wrong-structured"]))]).await;
    let good = call(&host, "good/structured", json!({})).await.unwrap();
    assert!(!good.is_error && good.structured.is_some(), "{good:?}");
    let bad = call(&host, "bad/structured", json!({})).await.unwrap();
    assert!(bad.is_error && bad.structured.is_none(), "{bad:?}");
    for part in ["bad/structured is not passed on", "does not match the output schema", "\"reject\""] {
        assert!(bad.text.contains(part), "{}", bad.text);
    }
    assert_eq!(bad.content, [Content::Text { text: bad.text.clone() }], "nothing of the result is left");

    // The same holds for results that a gateway passes on.
    let passed_on = |selector: &str| host.call(Call::from_map(selector, Map::new()).verbatim());
    assert!(passed_on("good/structured").await.unwrap().verbatim.is_some());
    let bad = passed_on("bad/structured").await.unwrap();
    assert!(bad.is_error && bad.verbatim.is_none(), "{bad:?}");
    assert!(passed_on("bad/fail").await.unwrap().verbatim.is_some(), "an error need not match");
    host.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn an_unknown_block_costs_only_itself() {
    let blocks =
        json!([{"type": "text", "text": "a"}, {"type": "hologram", "depth": 3}, 7, {"type": "text", "text": "b"}]);
    let outcome = outcome_of(json!({"content": blocks}), None).await;
    assert_eq!(outcome.text, "a\nb");
    assert_eq!(outcome.content[1], Content::Other(json!({"type": "hologram", "depth": 3})));
    assert_eq!(outcome.warnings.len(), 2, "{:?}", outcome.warnings);
}

#[tokio::test(start_paused = true)]
async fn a_text_over_the_limit_is_cut_between_characters_and_stored_in_full() {
    let full = "é".repeat(150_000);
    let shelf = Arc::<Shelf>::default();
    let outcome = outcome_of(text_result(&full), Some(shelf.clone())).await;
    assert!(outcome.truncated);
    assert!(outcome.text.len() <= 200_000 && outcome.text.len() > 199_000, "{}", outcome.text.len());
    assert!(outcome.text.starts_with("éé") && outcome.text.contains("shelf:1"), "the text says where the rest is");
    let Content::Text { text } = &outcome.content[0] else { panic!("{:?}", outcome.content.len()) };
    assert!(text.len() <= 200_000);
    let [artifact] = &outcome.artifacts[..] else { panic!("{:?}", outcome.artifacts) };
    assert_eq!((artifact.handle.as_str(), artifact.bytes), ("shelf:1", 300_000));
    let kept = shelf.0.lock().unwrap();
    assert_eq!(kept[..], [("server/echo text/plain".to_owned(), full.into_bytes())]);
}

#[tokio::test(start_paused = true)]
async fn the_texts_of_all_blocks_together_are_cut_and_the_last_says_where_the_rest_is() {
    let block = |length: usize| json!({"type": "text", "text": "x".repeat(length)});
    let resource = |length: usize| {
        let resource = json!({"uri": "docs://a", "mimeType": "text/plain", "text": "y".repeat(length)});
        json!({"type": "resource", "resource": resource})
    };
    let picture = json!({"type": "image", "data": "AAEC", "mimeType": "image/png"});
    for (blocks, kinds) in [
        (vec![resource(300_000)], "resource"),
        (vec![block(150_000), resource(150_000), picture.clone(), resource(9), block(9)], "text resource image"),
        (vec![block(150_000), picture, block(50_000), block(150_000), block(9)], "text image text text"),
    ] {
        let outcome = outcome_of(json!({ "content": blocks }), Some(Arc::<Shelf>::default())).await;
        assert!(outcome.truncated);
        let shown = serde_json::to_value(&outcome.content).unwrap();
        let shown = shown.as_array().unwrap();
        let shown_kinds: Vec<_> = shown.iter().map(|block| block["type"].as_str().unwrap()).collect();
        assert_eq!(shown_kinds.join(" "), kinds);
        let texts: Vec<_> = shown
            .iter()
            .filter_map(|block| block["text"].as_str().or_else(|| block["resource"]["text"].as_str()))
            .collect();
        let bytes: usize = texts.iter().map(|text| text.len()).sum();
        assert!(bytes <= 200_000 + 200, "{bytes}");
        assert!(texts.last().unwrap().contains("the whole result is kept as shelf:1"), "{kinds}");
    }
}

#[tokio::test(start_paused = true)]
async fn without_a_place_for_the_full_text_the_cut_is_reported() {
    let full: Arc<dyn Artifacts> = Arc::new(Full);
    for (artifacts, reason) in [(None, "max_output_bytes"), (Some(full), "the disk is full")] {
        let outcome = outcome_of(text_result(&"x".repeat(300_000)), artifacts).await;
        assert!(outcome.truncated && outcome.artifacts.is_empty());
        assert!(outcome.text.len() <= 200_000);
        assert!(outcome.warnings.iter().any(|warning| warning.contains(reason)), "{:?}", outcome.warnings);
    }
}

/// A size in bytes: content of this size is too large to stay in a result, but three of them fit into one message.
const SIZE: usize = 3 << 19;

#[tokio::test(start_paused = true)]
async fn large_pictures_sounds_and_embedded_files_become_artifacts() {
    let bytes = vec![7; SIZE];
    let data = STANDARD.encode(&bytes);
    let resource = json!({"uri": "file:///a.bin", "mimeType": "application/zip", "blob": data});
    let blocks = json!([
        {"type": "image", "data": data, "mimeType": "image/png"},
        {"type": "audio", "data": data, "mimeType": "audio/wav"},
        {"type": "resource", "resource": resource},
    ]);
    let shelf = Arc::<Shelf>::default();
    let outcome = outcome_of(json!({"content": blocks}), Some(shelf.clone())).await;
    let kept: Vec<_> = outcome.artifacts.iter().map(|kept| (kept.media_type.as_str(), kept.bytes)).collect();
    assert_eq!(kept, [("image/png", SIZE), ("audio/wav", SIZE), ("application/zip", SIZE)]);
    assert!(shelf.0.lock().unwrap().iter().all(|(_, kept)| *kept == bytes));
    let left = serde_json::to_string(&outcome.content).unwrap().len();
    assert!(left < 1_000, "{left} bytes are left in the result");
}

/// Shapes content with these artifacts, for a model that takes 2,000 bytes of text.
async fn shaped(content: Vec<Content>, artifacts: Arc<dyn Artifacts>) -> ShapedContent {
    let host = Host::builder().artifacts(artifacts).build();
    let server = Scripted::calling(|_, _| Reaction::Answer(json!({})));
    let mut spec = server.spec();
    spec.limits.output_bytes = 2_000;
    settle(&host, world([("docs", spec)])).await;
    host.shape("docs", "docs://a", content).await.unwrap()
}

fn resource(mime_type: &str, text: Option<&str>, blob: Option<Vec<u8>>) -> Content {
    let blob = blob.map(|bytes| STANDARD.encode(bytes));
    let (uri, mime_type, text) = ("docs://a\u{1b}".to_owned(), Some(mime_type.to_owned()), text.map(Into::into));
    Content::Resource { resource: ResourceContents { uri, mime_type, text, blob } }
}

#[tokio::test(start_paused = true)]
async fn a_resource_is_cut_like_a_result_and_its_bytes_are_stored_and_named() {
    let shelf = Arc::new(Shelf::default());
    let long = "x".repeat(5_000);
    let picture = resource("image/png", None, Some(vec![1; 10]));
    let content = vec![
        Content::Text { text: "first".into() },
        resource("application/pdf", None, Some(vec![2; 20])),
        picture.clone(),
        resource("image/png", None, Some(vec![3; 2 * 1024 * 1024])),
        resource("text/plain", Some(&long), None),
    ];
    let given = shaped(content, Arc::<Shelf>::clone(&shelf)).await;
    assert!(given.text.len() <= 2_000 && given.truncated, "{}", given.text.len());
    let mut lines = given.text.lines();
    assert_eq!(lines.next(), Some("first"));
    assert_eq!(lines.next(), Some("[docs://a\\u{1b}: application/pdf, 20 bytes; kept as shelf:1]"));
    assert_eq!(lines.next(), Some("[docs://a\\u{1b}: image/png, 2097152 bytes; kept as shelf:2]"));
    assert!(lines.next_back().unwrap().ends_with("kept as shelf:3]"), "{}", given.text);
    assert_eq!(given.media, [picture], "what a model can be shown stays");
    let kept = shelf.0.lock().unwrap().clone();
    let kept: Vec<_> = kept.iter().map(|(what, bytes)| (what.as_str(), bytes.len())).collect();
    assert_eq!(kept[..2], [("docs/docs://a application/pdf", 20), ("docs/docs://a image/png", 2 * 1024 * 1024)]);
    assert!(kept[2].1 > 5_000, "the whole text: {kept:?}");

    let full = shaped(vec![resource("application/pdf", None, Some(vec![2; 20]))], Arc::new(Full)).await;
    assert_eq!(full.text, "[docs://a\\u{1b}: application/pdf, 20 bytes; left out]");
    assert!(full.truncated && full.warnings[0].contains("the disk is full"), "{full:?}");
}

#[tokio::test]
async fn servers_can_be_queried_from_another_task() {
    let host = host_of([("fake", fake(&[]))]).await;
    let asking = host.clone();
    let mut asked = JoinSet::new();
    asked.spawn(async move {
        let uri = asking.resources("fake").await?.remove(0).uri;
        Ok::<_, CallError>((asking.read_resource("fake", &uri).await?.len(), asking.prompts("fake").await?.len()))
    });
    assert_eq!(asked.join_next().await.unwrap().unwrap().unwrap(), (1, 2));
    host.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn members_keep_the_order_of_their_writer_from_end_to_end() {
    let structured = r#"{"zebra":1,"apple":{"y":2,"x":3},"mango":[{"b":4,"a":5}]}"#;
    let server = Scripted::calling(|_, arguments| {
        let answer = json!({"content": [], "structuredContent": serde_json::from_str::<Value>(structured).unwrap()});
        assert_eq!(arguments.to_string(), r#"{"to":"x","from":"y","at":{"z":1,"a":2}}"#);
        Reaction::Answer(answer)
    });
    let host = Host::builder().build();
    settle(&host, world([("server", server.spec())])).await;
    let arguments = serde_json::from_str(r#"{"to":"x","from":"y","at":{"z":1,"a":2}}"#).unwrap();
    let outcome = call(&host, "server/echo", arguments).await.unwrap();
    assert_eq!(outcome.text, structured);
    assert!(serde_json::to_string(&outcome).unwrap().contains(&format!(r#""structured":{structured}"#)));
    let schema = r#"{"properties":{"to":{"type":"string"},"from":{"type":"string"},"at":{"type":"object"}},"required":["from"]}"#;
    let shown = signature("send", &serde_json::from_str(schema).unwrap());
    assert_eq!(shown, "send(from: string, to?: string, at?: object)");
}

#[tokio::test]
async fn arguments_that_do_not_match_are_sent_reported_or_refused_as_the_entry_says() {
    let with = |mode| ServerSpec { validate_args: mode, ..fake(&[]) };
    let [warn, strict] = [ValidateArgs::Warn, ValidateArgs::Strict].map(|mode| with(Some(mode)));
    let host = host_of([("off", with(None)), ("warn", warn), ("strict", strict)]).await;
    let wrong = || json!({"a": "one", "b": 2});
    let judged_by_the_server = call(&host, "off/add", wrong()).await;
    let outcome = call(&host, "warn/add", wrong()).await;
    assert_eq!(judged_by_the_server.is_ok(), outcome.is_ok(), "the call is sent in either case");
    if let (Ok(plain), Ok(outcome)) = (judged_by_the_server, outcome) {
        assert_eq!((&plain.text, plain.warnings.len()), (&outcome.text, 0));
        assert!(outcome.warnings[0].starts_with("the arguments do not match the input schema: "), "{outcome:?}");
    }
    let error = call(&host, "strict/add", wrong()).await.unwrap_err();
    assert_eq!((error.code(), error.kind()), ("BAD_ARGUMENTS", CallErrorKind::BadArguments));
    assert!(
        error.to_string().contains("the call of strict/add was not made") && error.to_string().contains("/a"),
        "{error}"
    );
    let fits = call(&host, "strict/add", json!({"a": 1, "b": 2})).await.unwrap();
    assert!(fits.warnings.is_empty() && !fits.is_error, "{fits:?}");
    host.shutdown().await;
}
