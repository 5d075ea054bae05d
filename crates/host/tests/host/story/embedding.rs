//! What a program that embeds the host writes: its own types, closures, and one server at a time.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use toolrack_host::{
    ArgumentsError, Call, CallError, GateRequest, Host, ToolOutcome, TypedError, Verdict, ask::Confirm,
};

use crate::{
    scripted::{Reaction, Scripted, text_result},
    worlds::{call, host_of, selectors, soon},
};

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Weather {
    celsius: i32,
}

/// A host whose one tool answers every call with `result`.
async fn answering(result: Value) -> ToolOutcome {
    let server = Scripted::calling(move |_, _| Reaction::Answer(result.clone()));
    call(&host_of([("sky", server.spec())]).await, "sky/echo", json!({})).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn arguments_are_whatever_serializes_to_an_object() {
    let host = host_of([("sky", Scripted::plain().spec())]).await;
    for arguments in [json!({"text": "x"}), json!(BTreeMap::from([("text", "x")]))] {
        host.call(Call::new("sky/echo", arguments).unwrap()).await.unwrap();
    }
    host.call(Call::new("sky/echo", Weather { celsius: 20 }).unwrap()).await.unwrap();
    let found = |error| match error {
        ArgumentsError::NotAnObject { found, .. } => found,
        other => panic!("{other:?}"),
    };
    assert_eq!(found(Call::new("sky/echo", ()).unwrap_err()), "null");
    assert_eq!(found(Call::new("sky/echo", [1]).unwrap_err()), "an array");
    let error = Call::new("sky/echo", BTreeMap::from([((1, 2), 3)])).unwrap_err();
    assert!(matches!(error, ArgumentsError::NotJson { .. }), "{error}");
}

#[tokio::test(start_paused = true)]
async fn adding_and_removing_a_server_does_not_affect_others() {
    let (steady, first, second) = (Scripted::plain(), Scripted::plain(), Scripted::plain());
    let host = host_of([("steady", steady.spec())]).await;
    let spec = first.spec();
    for _ in 0..2 {
        host.add("other", spec.clone()).await.unwrap();
        soon("settle", host.settled()).await;
    }
    assert_eq!(selectors(&host), ["other/echo", "steady/echo"]);
    assert_eq!(first.connections(), 1, "the same spec again changes nothing");
    host.add("other", second.spec()).await.unwrap();
    soon("settle", host.settled()).await;
    assert_eq!((first.connections(), second.connections()), (1, 1));
    assert!(host.remove("other").await);
    assert!(!host.remove("other").await, "it is gone already");
    assert_eq!(selectors(&host), ["steady/echo"]);
    assert_eq!(steady.connections(), 1);
    let error = host.add("a/b", second.spec()).await.unwrap_err();
    assert_eq!(error.name, "a/b");
}

#[tokio::test(start_paused = true)]
async fn closures_are_gates_and_askers() {
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = asked.clone();
    let asker = move |question: Confirm| {
        counted.fetch_add(1, Ordering::Relaxed);
        async move { question.arguments.contains_key("please") }
    };
    let gate = |call: &GateRequest<'_>| match call.arguments.contains_key("free") {
        true => Verdict::allow("it is free"),
        false => Verdict::confirm("it costs something"),
    };
    let host = Host::builder().gate(Arc::new(gate)).asker(Arc::new(asker)).build();
    host.add("sky", Scripted::plain().spec()).await.unwrap();
    call(&host, "sky/echo", json!({"free": 1})).await.unwrap();
    assert_eq!(asked.load(Ordering::Relaxed), 0);
    call(&host, "sky/echo", json!({"please": 1})).await.unwrap();
    let refused = call(&host, "sky/echo", json!({})).await.unwrap_err();
    assert!(matches!(refused, CallError::Denied { .. }), "{refused:?}");
    assert_eq!(asked.load(Ordering::Relaxed), 2);
}

#[tokio::test(start_paused = true)]
async fn a_result_is_read_as_a_type_from_structured_content_or_else_from_a_text_that_is_json() {
    let structured = json!({"content": [{"type": "text", "text": "20 degrees"}], "structuredContent": {"celsius": 20}});
    assert_eq!(answering(structured).await.typed(), Ok(Weather { celsius: 20 }));
    assert_eq!(answering(text_result("{\"celsius\": 20}")).await.typed(), Ok(Weather { celsius: 20 }));
    // A picture that is left out makes the result incomplete, but not its text.
    let picture = json!({"type": "image", "data": "AAAA".repeat(400_000), "mimeType": "image/png"});
    let text = json!({"type": "text", "text": "{\"celsius\": 20}"});
    let outcome = answering(json!({ "content": [text, picture] })).await;
    assert!(outcome.truncated);
    assert_eq!(outcome.typed(), Ok(Weather { celsius: 20 }));
}

#[tokio::test(start_paused = true)]
async fn an_error_about_the_type_of_a_result_names_the_actual_type() {
    let error = |outcome: ToolOutcome| outcome.typed::<Weather>().unwrap_err();
    let other = json!({"content": [], "structuredContent": {"celsius": "warm"}});
    let message = error(answering(other).await).to_string();
    assert!(message.contains("structured content of sky/echo") && message.contains("warm"), "{message}");
    let message = error(answering(text_result("{\"kelvin\": 293}")).await).to_string();
    assert!(message.contains("text of sky/echo") && message.contains("celsius"), "{message}");
    let message = error(answering(text_result("20 degrees")).await).to_string();
    assert!(message.contains("not JSON: 20 degrees"), "{message}");
    assert!(matches!(error(answering(json!({"content": []})).await), TypedError::Empty { .. }));
    let failed = json!({"content": [{"type": "text", "text": "no sky"}], "isError": true});
    assert_eq!(error(answering(failed).await).to_string(), "sky/echo failed: no sky");
}
