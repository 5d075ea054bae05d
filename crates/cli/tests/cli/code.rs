//! `--code`: a model that calls tools in scripts.

use serde_json::{Value, json};
use toolrack_testkit::EffectLog;

use crate::{
    provider::{Provider, Speech},
    rack::{Rack, fake, work_file},
};

const SUM: &str = "let sum = 0;
for (const b of [3, 4]) sum += Number(await tools.fake.add({ a: 2, b }));
print(sum, (await tools.fake.echo({ text: 'hello' })).length);";

fn rack() -> (Rack, EffectLog) {
    let effects = EffectLog::new();
    (Rack::with(&[("fake", fake(&["--log", effects.path_str()]))]), effects)
}

/// A conversation in which the model runs this script, then answers.
fn runs(code: &str) -> Value {
    let call = json!({ "name": "mcp__code__run_code", "input": { "code": code } });
    json!([{ "tool_calls": [call] }, { "text": "That is it." }])
}

#[test]
fn the_model_gets_only_the_output_of_a_script() {
    let (rack, effects) = rack();
    let wire = Speech::Chat;
    let calls = [("call_1", "mcp__code__run_code", json!({ "code": SUM }))];
    let provider = Provider::start([wire.calls(&calls), wire.says(&["That is it."])]);
    let url = provider.url();
    let ask = ["ask", "--model", "m", "--base-url", &url, "--code", "--allow", "fake/*", "add up"];
    let ran = rack.run(&ask).ends_with(0);
    assert!(ran.stderr.contains("\n  called fake/add ×2, fake/echo\n"), "{ran}");
    assert_eq!(effects.read().runs().len(), 3);

    let requests = provider.requests();
    let body = requests[1].json();
    let result = body["messages"].as_array().unwrap().iter().find(|message| message["role"] == "tool").unwrap();
    assert_eq!(result["content"], "[data from code]\n11 5\n");
    let tools = requests[0].json()["tools"].as_array().cloned().unwrap();
    let names: Vec<_> = tools.iter().map(|tool| tool["function"]["name"].as_str().unwrap()).collect();
    let own = ["call_tool", "get_tool_details", "search_tools"].map(|name| format!("mcp__toolrack__{name}"));
    let own: Vec<_> = own.iter().map(String::as_str).collect();
    assert_eq!(names, [&["mcp__artifacts__read_artifact", "mcp__code__run_code"][..], &own].concat());
    let manual = tools[1]["function"]["description"].as_str().unwrap();
    assert!(manual.contains("\ntools.fake.add({ a: number, b: number }): string"), "{manual}");
    assert!(!manual.contains("run_code") && !manual.contains("call_tool"), "{manual}");
}

#[test]
fn calls_of_scripts_are_in_the_document() {
    let (rack, _effects) = rack();
    work_file(
        &rack,
        "script.json",
        &runs("print(await tools.fake.add({ a: 2, b: 3 })); await tools.fake.fail()").to_string(),
    );
    let args = ["ask", "--model", "mock/script.json", "--code", "--json", "--allow", "fake/*", "hello"];
    let ran = rack.run(&args).ends_with(0);
    let call = &ran.json()["tool_calls"][0];
    assert_eq!(call["calls"], json!([{ "tool": "fake/add" }, { "tool": "fake/fail", "error": "TOOL_ERROR" }]));
    assert_eq!((&call["tool"], &call["is_error"]), (&json!("code/run_code"), &json!(true)));
}

#[test]
fn the_user_is_asked_about_the_calls_of_a_script_and_not_about_the_script() {
    let (rack, effects) = rack();
    let code = "try { await tools.fake.write({}) } catch (error) { print(error.code) } print(await tools.fake.add({ a: 2, b: 3 }))";
    work_file(&rack, "script.json", &runs(code).to_string());
    let args = ["ask", "--model", "mock/script.json", "--code", "--allow", "fake/add", "hello"];
    let ran = rack.run(&args).ends_with(6);
    assert!(ran.stderr.contains("called fake/write (APPROVAL_NEEDED), fake/add\n"), "{ran}");
    assert!(ran.stderr.contains("--allow 'fake/write'"), "{ran}");
    let ran: Vec<_> = effects.read().runs().into_iter().map(|run| run.tool).collect();
    assert_eq!(ran, ["add"]);
}

#[test]
fn an_agent_can_be_set_to_write_scripts() {
    let (rack, _effects) = rack();
    rack.home.write("toolrack/toolrack.toml", "[[agents]]\nid = \"writer\"\nmodel = { code = true }\n");
    work_file(&rack, "script.json", &runs("print(1)").to_string());
    let ran = rack.run(&["--agent", "writer", "ask", "--model", "mock/script.json", "--json", "hello"]).ends_with(0);
    assert_eq!(ran.json()["tool_calls"][0]["is_error"], json!(false), "{ran}");
}

#[test]
fn without_code_no_script_can_be_run() {
    let (rack, _effects) = rack();
    work_file(&rack, "script.json", &runs("print(1)").to_string());
    let ran = rack.run(&["ask", "--model", "mock/script.json", "--allow", "*", "hello"]).ends_with(0);
    assert!(ran.stderr.contains("no tool is called `mcp__code__run_code`"), "{ran}");
}
