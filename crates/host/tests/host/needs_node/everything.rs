//! server-everything, the reference server with one of each feature, over both transports.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use futures::future::join_all;
use serde_json::{Value, json};
use toolrack_host::{Call, Content, Era, Host, OnProgress, ToolOutcome, mcp::Progress};

use crate::{
    askers::{MODEL_SAYS, Person, ROOT},
    programs::{HttpProgram, npm_server},
    worlds::{call, host_of, selectors, settle, status, to_call, world},
};

/// Every tool, what it is called with, and what its outcome must be.
type Case = (&'static str, Value, fn(&ToolOutcome) -> bool);

fn cases() -> Vec<Case> {
    vec![
        ("echo", json!({"message": "hello"}), |it| it.text == "Echo: hello"),
        ("get-annotated-message", json!({"messageType": "error", "includeImage": true}), |it| {
            matches!(&it.content[..], [Content::Text { .. }, Content::Image { .. }])
        }),
        ("get-env", json!({}), |it| it.text.starts_with('{')),
        ("get-resource-links", json!({"count": 3}), |it| {
            it.content.iter().filter(|block| matches!(block, Content::ResourceLink { .. })).count() == 3
        }),
        ("get-resource-reference", json!({"resourceType": "Text", "resourceId": 1}), |it| {
            it.content.iter().any(|block| matches!(block, Content::Resource { resource } if resource.text.is_some()))
        }),
        ("get-roots-list", json!({}), |it| it.text.contains(ROOT)),
        ("get-structured-content", json!({"location": "Chicago"}), |it| {
            it.structured.as_ref().is_some_and(|structured| structured["temperature"].is_number())
                && it.warnings.is_empty()
        }),
        ("get-sum", json!({"a": 2, "b": 3}), |it| it.text.contains('5')),
        ("get-tiny-image", json!({}), |it| {
            it.content.iter().any(|block| matches!(block, Content::Image { mime_type, .. } if mime_type == "image/png"))
        }),
        (
            "gzip-file-as-resource",
            json!({"name": "a.gz", "data": "data:text/plain,hello", "outputType": "resource"}),
            |it| {
                let is_gzip = |blob: &String| blob.starts_with("H4sI");
                it.content.iter().any(
                |block| matches!(block, Content::Resource { resource } if resource.blob.as_ref().is_some_and(is_gzip)),
            )
            },
        ),
        // A task of the server: it is started, watched and fetched.
        ("simulate-research-query", json!({"topic": "tests"}), |it| it.text.contains("# Research Report: tests")),
        ("toggle-simulated-logging", json!({}), |it| it.text.contains("Started")),
        ("toggle-subscriber-updates", json!({}), |it| it.text.contains("Started")),
        ("trigger-elicitation-request", json!({}), |it| it.text.contains("provided the requested information")),
        // Questions as tasks of ours: the server comes back for the answers.
        ("trigger-elicitation-request-async", json!({}), |it| it.text.contains("[COMPLETED]")),
        ("trigger-sampling-request-async", json!({"prompt": "capital?"}), |it| {
            it.text.contains("[COMPLETED]") && it.text.contains(MODEL_SAYS)
        }),
        ("trigger-long-running-operation", json!({"duration": 1, "steps": 4}), |it| it.text.contains("Steps: 4")),
        ("trigger-sampling-request", json!({"prompt": "capital?"}), |it| it.text.contains(MODEL_SAYS)),
        ("trigger-url-elicitation", json!({"url": "https://example.com/sign-in"}), |it| it.text.contains("accept")),
    ]
}

/// The tools for a client without abilities.
const WITHOUT_ABILITIES: [&str; 13] = [
    "echo",
    "get-annotated-message",
    "get-env",
    "get-resource-links",
    "get-resource-reference",
    "get-structured-content",
    "get-sum",
    "get-tiny-image",
    "gzip-file-as-resource",
    "simulate-research-query",
    "toggle-simulated-logging",
    "toggle-subscriber-updates",
    "trigger-long-running-operation",
];

fn qualified<'a>(tools: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let mut tools: Vec<_> = tools.into_iter().map(|tool| format!("everything/{tool}")).collect();
    tools.sort();
    tools
}

async fn eager_host(spec: toolrack_host::ServerSpec) -> (Host, Arc<Person>) {
    let person = Person::eager().shared();
    let host = Host::builder().asker(person.clone()).build();
    settle(&host, world([("everything", spec)])).await;
    (host, person)
}

/// Calls every tool at the same time, so that the slow ones wait together and the questions cross.
async fn every_tool_is_listed_and_called(spec: toolrack_host::ServerSpec) {
    let (host, person) = eager_host(spec).await;
    assert_eq!(status(&host, "everything").era, Some(Era::Legacy));
    let cases = cases();
    assert_eq!(cases.len(), 19);
    assert_eq!(selectors(&host), qualified(cases.iter().map(|(tool, ..)| *tool)));

    let calls = cases.iter().map(async |(tool, arguments, is_right)| {
        let outcome = match call(&host, &format!("everything/{tool}"), arguments.clone()).await {
            Ok(outcome) => outcome,
            Err(error) => return Some(format!("{tool}: {error}")),
        };
        (outcome.is_error || !is_right(&outcome)).then(|| format!("{tool}: {outcome:#?}"))
    });
    let wrong: Vec<_> = join_all(calls).await.into_iter().flatten().collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let asked = person.asked();
    assert!(asked.contains(&"url https://example.com/sign-in".to_owned()), "{asked:?}");
    assert_eq!(asked.iter().filter(|question| *question == "sample").count(), 2, "{asked:?}");
    host.shutdown().await;
}

async fn progress_arrives_in_order(spec: toolrack_host::ServerSpec) {
    let host = host_of([("everything", spec)]).await;
    let reports = Arc::new(Mutex::new(Vec::new()));
    let on_progress: OnProgress = {
        let reports = reports.clone();
        Arc::new(move |report: Progress| reports.lock().unwrap().push((report.progress, report.total)))
    };
    let long = to_call("everything/trigger-long-running-operation", json!({"duration": 1, "steps": 4}));
    host.call(long.on_progress(on_progress)).await.unwrap();
    let all = [1.0, 2.0, 3.0, 4.0].map(|step| (step, Some(4.0)));
    assert_eq!(*reports.lock().unwrap(), all);
    host.shutdown().await;
}

fn over_stdio() -> toolrack_host::ServerSpec {
    npm_server("server-everything", &[])
}

#[tokio::test]
async fn over_stdio_all_19_tools_are_listed_and_called() {
    every_tool_is_listed_and_called(over_stdio()).await;
}

#[tokio::test]
async fn over_http_all_19_tools_are_listed_and_called() {
    let server = HttpProgram::everything();
    every_tool_is_listed_and_called(server.spec()).await;
}

#[tokio::test]
async fn without_a_user_to_ask_13_tools_are_listed() {
    let server = HttpProgram::everything();
    let host = Host::builder().build();
    settle(&host, world([("everything", over_stdio()), ("http", server.spec())])).await;
    let mut expected = qualified(WITHOUT_ABILITIES);
    expected.extend(WITHOUT_ABILITIES.map(|tool| format!("http/{tool}")));
    assert_eq!(selectors(&host), expected);
    host.shutdown().await;
}

#[tokio::test]
async fn over_stdio_progress_arrives_in_order() {
    progress_arrives_in_order(over_stdio()).await;
}

#[tokio::test]
async fn over_http_progress_arrives_in_order() {
    let server = HttpProgram::everything();
    progress_arrives_in_order(server.spec()).await;
}

/// 2025-11-25: the call is refused with -32042, the person visits the page, the call is sent again.
#[tokio::test]
async fn a_call_that_needs_a_page_continues_after_the_visit() {
    let (host, person) = eager_host(over_stdio()).await;
    let arguments = json!({"url": "https://example.com/form", "errorPath": true});
    let outcome = call(&host, "everything/trigger-url-elicitation", arguments).await.unwrap();
    assert!(!outcome.is_error, "{}", outcome.text);
    assert!(person.asked()[0].starts_with("url https://modelcontextprotocol.io"), "{:?}", person.asked());
    host.shutdown().await;
}

/// The question comes up while the result of the task is waited for, long after the call itself was answered.
#[tokio::test]
async fn a_task_that_needs_an_answer_asks_its_caller() {
    let caller = Person::eager().shared();
    let (host, bystander) = eager_host(over_stdio()).await;
    let query: Call = to_call("everything/simulate-research-query", json!({"topic": "python", "ambiguous": true}));
    let outcome = host.call(query.asker(caller.clone())).await.unwrap();
    assert!(outcome.text.contains("Clarification") || outcome.text.contains("clarification"), "{}", outcome.text);
    assert_eq!(caller.asked().len(), 1, "{:?}", caller.asked());
    assert!(bystander.asked().iter().all(|question| question == "roots"), "{:?}", bystander.asked());
    host.shutdown().await;
}

#[tokio::test]
async fn resources_templates_and_prompts_are_listed_read_and_got() {
    let server = HttpProgram::everything();
    let host = Host::builder().build();
    settle(&host, world([("stdio", over_stdio()), ("http", server.spec())])).await;
    for server in ["stdio", "http"] {
        let resources = host.resources(server).await.unwrap();
        let document = resources.iter().find(|resource| resource.uri.starts_with("demo://resource/static/document/"));
        let document = document.unwrap_or_else(|| panic!("{resources:?}"));
        let contents = host.read_resource(server, &document.uri).await.unwrap();
        assert_eq!(contents[0].uri, document.uri);
        assert!(contents[0].text.as_ref().is_some_and(|text| !text.is_empty()));

        let templates = host.resource_templates(server).await.unwrap();
        let template = "demo://resource/dynamic/blob/{resourceId}";
        assert!(templates.iter().any(|known| known.uri_template == template), "{templates:?}");
        let contents = host.read_resource(server, "demo://resource/dynamic/blob/7").await.unwrap();
        assert!(contents[0].blob.is_some(), "{contents:?}");
        let missing = host.read_resource(server, "demo://nowhere").await.unwrap_err();
        assert_eq!(missing.code(), "RPC_ERROR", "{missing}");

        let prompts = host.prompts(server).await.unwrap();
        let names: Vec<_> = prompts.iter().map(|prompt| prompt.name.as_str()).collect();
        assert_eq!(names, ["simple-prompt", "args-prompt", "completable-prompt", "resource-prompt"]);
        let arguments = BTreeMap::from([("city".to_owned(), "Bern".to_owned())]);
        let prompt = host.get_prompt(server, "args-prompt", &arguments).await.unwrap();
        let Content::Text { text } = &prompt.messages[0].content else { panic!("{prompt:?}") };
        assert!(text.contains("Bern"), "{text}");
    }
    host.shutdown().await;
}
