//! Calls from scripts: their results, and that each goes through `Host::call`.

use std::sync::{Arc, Mutex, atomic::Ordering};

use futures::future::BoxFuture;
use serde_json::{Map, json};
use toolrack_code::Bounds;
use toolrack_host::{
    Abilities, Asker, Call, DefaultEffect, Event, Host, Policy, Selection,
    ask::{Confirm, Confirmed},
};

use crate::shelf::{Shelf, default_host, failure, host_with_shelf, name, printed, run, script};

#[tokio::test]
async fn a_script_combines_the_results_of_two_calls() {
    let code = r#"
        const title = await tools["my-shelf"].read({ title: "Emma" });
        const { pages } = await tools["my-shelf"].count({ of: title });
        print(pages * 2);
    "#;
    let outcome = run(&default_host().await, code).await.unwrap();
    assert_eq!(outcome.text, "32\n");
    let calls: Vec<_> = outcome.calls.iter().map(|call| (&*call.tool, call.error)).collect();
    assert_eq!(calls, [("my-shelf/read", None), ("my-shelf/count", None)]);
}

#[tokio::test]
async fn a_tool_has_every_name_that_the_host_knows_it_by() {
    let host = default_host().await;
    let model_visible = host.catalog().select("my-shelf/burn").unwrap().name.clone();
    let code = "for (const name of [NAME, 'my-shelf/burn', 'my-shelf.burn']) print(await tools[name]({}))";
    let code = code.replace("NAME", &format!("'{model_visible}'"));
    assert_eq!(printed(&host, &code).await, "burnt\nburnt\nburnt\n");
}

#[tokio::test]
async fn a_script_may_await_the_tools_and_a_server_before_it_calls() {
    let code = "const shelf = await (await tools)['my-shelf']; print(await shelf.burn({}))";
    assert_eq!(printed(&default_host().await, code).await, "burnt\n");
}

#[tokio::test]
async fn concurrent_calls_of_a_script_are_bounded() {
    let mut bounds = Bounds::default();
    bounds.parallel = 3.try_into().unwrap();
    let shelf = Shelf { together: 3, ..Shelf::default() };
    let (host, _) = host_with_shelf(Host::builder(), shelf.clone(), bounds).await;
    let code =
        "const all = await Promise.all([1, 2, 3, 4, 5, 6, 7].map(() => tools['my-shelf'].wait())); print(all.length)";
    assert_eq!(printed(&host, code).await, "7\n");
    assert_eq!(*shelf.waiting.borrow(), (0, 3), "three calls run at once");
}

#[tokio::test]
async fn a_tool_that_fails_throws() {
    let host = default_host().await;
    let code = "try { await tools['my-shelf'].fail() } catch (error) { print(error.name, error.code, error.message) }";
    assert_eq!(printed(&host, code).await, "ToolError TOOL_ERROR no such book\n");
    let uncaught = failure(&host, "print('before');\nawait tools['my-shelf'].fail()").await;
    assert!(uncaught.starts_with("before\nToolError: no such book"), "{uncaught}");
    let unawaited = failure(&host, "tools['my-shelf'].fail(); print('done')").await;
    assert_eq!(unawaited, "done\nno such book (nothing awaited it)");
}

#[tokio::test]
async fn an_unknown_tool_throws_and_names_similar_tools() {
    let output = failure(&default_host().await, "\nawait tools['my-shelf'].cuont({})").await;
    assert!(output.starts_with("ToolError: no tool is called `my-shelf/cuont`"), "{output}");
    assert!(output.contains("my-shelf/count"), "{output}");
}

#[tokio::test]
async fn arguments_are_one_object() {
    let host = default_host().await;
    for wrong in ["'Emma'", "null", "[1]", "{}, {}"] {
        let output = failure(&host, &format!("await tools['my-shelf'].read({wrong})")).await;
        assert!(output.starts_with("TypeError: my-shelf/read takes one object with its arguments"), "{output}");
    }
}

#[tokio::test]
async fn a_denied_call_throws_and_does_not_run() {
    let rules = Policy::new(DefaultEffect::Allow).deny("my-shelf/burn".parse().unwrap());
    let shelf = Shelf::default();
    let (host, _) = host_with_shelf(Host::builder().gate(Arc::new(rules)), shelf.clone(), Bounds::default()).await;
    let mut events = host.events();
    let code = "try { await tools['my-shelf'].burn() } catch (error) { print(error.code) } print(await tools['my-shelf'].read())";
    assert_eq!(printed(&host, code).await, "DENIED\nthe text of nothing\n");
    assert_eq!(shelf.calls.load(Ordering::Relaxed), 1);
    let mut names = Vec::new();
    while let Ok(event) = events.try_recv() {
        match event {
            Event::ToolStarted { tool, .. } => names.push(format!("started {tool}")),
            Event::ToolDenied { tool, .. } => names.push(format!("denied {tool}")),
            Event::ToolCompleted { tool, .. } => names.push(format!("completed {tool}")),
            _ => {}
        }
    }
    assert_eq!(names, ["started run_code", "denied burn", "started read", "completed read", "completed run_code"]);
}

/// Says yes, with other arguments.
#[derive(Default)]
struct Editor(Mutex<Vec<Confirm>>);

impl Asker for Editor {
    fn abilities(&self) -> Abilities {
        Abilities { confirm: true, ..Abilities::NONE }
    }

    fn confirm(&self, question: Confirm) -> BoxFuture<'_, Confirmed> {
        self.0.lock().unwrap().push(question);
        Box::pin(async { Confirmed::Edited(Map::from_iter([("title".to_owned(), "Persuasion".into())])) })
    }
}

#[tokio::test]
async fn the_user_who_answers_for_the_script_is_asked_about_its_calls() {
    let rules = || Policy::default().allow("code/*".parse().unwrap());
    let (host, _) = host_with_shelf(Host::builder().gate(Arc::new(rules())), Shelf::default(), Bounds::default()).await;
    let code = "print(await tools['my-shelf'].read({ title: 'Emma' }))";
    let asker = Arc::new(Editor::default());
    let outcome = host.call(script(code).asker(Arc::<Editor>::clone(&asker))).await.unwrap();
    assert_eq!(outcome.text, "the text of Persuasion\n", "the approved arguments are sent");
    assert_eq!(asker.0.lock().unwrap()[0].arguments, *json!({ "title": "Emma" }).as_object().unwrap());

    let unasked = run(&host, code).await.unwrap();
    assert_eq!(unasked.calls[0].error, Some("APPROVAL_NEEDED"));
    assert!(unasked.is_error);
}

#[tokio::test]
async fn a_script_starts_no_other_script() {
    let (host, mut desired) = host_with_shelf(Host::builder(), Shelf::default(), Bounds::default()).await;
    desired.insert(name("find"), host.discovery(&name("find"), Selection::all()));
    let other = host.scripts(&name("other"), Selection::all(), Arc::new(toolrack_code::QuickJs::default()));
    desired.insert(name("other"), other);
    host.apply(desired).await;
    host.settled().await;
    for (call, code) in [
        ("tools.code.run_code({ code: 'print(1)' })", "UNKNOWN_TOOL"),
        ("tools.other.run_code({ code: 'print(1)' })", "DENIED"),
        ("tools.find.call_tool({ name: 'code/run_code', arguments: { code: 'print(1)' } })", "DENIED"),
    ] {
        let output =
            printed(&host, &format!("try {{ print(await {call}) }} catch (error) {{ print(error.code) }}")).await;
        assert_eq!(output, format!("{code}\n"), "{call}");
    }
    let through = "print(await tools.find.call_tool({ name: 'my-shelf/burn', arguments: {} }))";
    assert_eq!(printed(&host, through).await, "burnt\n");
}

#[tokio::test]
async fn tools_are_found_and_looked_up_without_a_call() {
    let shelf = Shelf::default();
    let (host, _) = host_with_shelf(Host::builder(), shelf.clone(), Bounds::default()).await;
    let code = r#"
        const [first] = await search_tools("pages of a book");
        const { input_schema } = await get_tool_details(first.name);
        print(first.server, input_schema.required, (await tools[first.name]({ of: "Emma" })).pages);
        print((await search_tools({ query: "book", limit: 1 })).length);
    "#;
    assert_eq!(printed(&host, code).await, "my-shelf [\"of\"] 4\n1\n");
    assert_eq!(shelf.calls.load(Ordering::Relaxed), 1);
    assert!(failure(&host, "await get_tool_details('nothing')").await.starts_with("ToolError: no tool is called"));
}

#[tokio::test]
async fn concealed_text_does_not_reach_a_script() {
    let host = default_host().await;
    let code = "print([...await tools['my-shelf'].read({ title: 'hunter2' })].reverse().join(''))";
    let outcome = host.call(script(code).conceal(Arc::new(|text| text.replace("hunter2", "***")))).await.unwrap();
    assert_eq!(outcome.text, "*** fo txet eht\n");
}

#[tokio::test]
async fn progress_names_the_calls() {
    let progress_messages = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&progress_messages);
    let call = script("await tools['my-shelf'].burn(); await tools['my-shelf'].read()");
    let call: Call = call.on_progress(Arc::new(move |progress| sink.lock().unwrap().push(progress.message.unwrap())));
    assert_eq!(default_host().await.call(call).await.unwrap().text, "the script printed nothing");
    assert_eq!(*progress_messages.lock().unwrap(), ["my-shelf/burn", "my-shelf/read"]);
}

#[tokio::test]
async fn a_call_without_a_script_is_an_error() {
    let host = default_host().await;
    let outcome = host.call(Call::from_map("code/run_code", Map::new())).await.unwrap();
    assert_eq!((outcome.is_error, &*outcome.text), (true, "run_code needs `code`, a script"));
}
