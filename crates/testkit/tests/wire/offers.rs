//! What the server offers and how its tools behave, with and without faults.

use std::process::Command;

use serde_json::{Value, json};
use toolrack_testkit::{EffectLog, fake_server_path};

use crate::plain_stdio::Lines;
use crate::{call, modern, modern_call, request, text};

/// Reads at most `pages` pages of tools. Returns the tools, and the cursors between the pages.
fn list(server: &mut Lines, pages: u64) -> (Vec<Value>, Vec<Value>) {
    let (mut tools, mut cursors, mut params) = (Vec::new(), Vec::new(), json!({}));
    for id in 100..100 + pages {
        let answer = server.ask(&request(id, "tools/list", params));
        tools.extend(answer["result"]["tools"].as_array().unwrap().iter().cloned());
        let Some(cursor) = answer["result"].get("nextCursor") else { break };
        cursors.push(cursor.clone());
        params = json!({"cursor": cursor});
    }
    (tools, cursors)
}

/// Starts a legacy server, and does the handshake.
fn ready(args: &[&str]) -> Lines {
    let mut server = Lines::start(args);
    server.handshake();
    server
}

/// Starts a legacy server with one fault, and does the handshake.
fn ready_with(fault: &str) -> Lines {
    ready(&["--fault", fault])
}

fn named<'a>(tools: &'a [Value], name: &str) -> &'a Value {
    tools.iter().find(|tool| tool["name"] == name).unwrap()
}

#[test]
fn generated_tools_come_on_pages() {
    let mut server = ready(&["--tools", "30", "--page-size", "20"]);
    let (tools, cursors) = list(&mut server, 10);
    assert_eq!(tools.len(), 52);
    assert_eq!(cursors.len(), 2);
    assert_eq!(text(&server.ask(&call(1, "tool_0030", json!({})))), "tool_0030");
    assert_eq!(server.ask(&call(2, "tool_0031", json!({})))["error"]["code"], -32602);
    assert_eq!(server.ask(&request(3, "tools/list", json!({"cursor": "no"})))["error"]["code"], -32602);
}

#[test]
fn faults_change_a_tool_at_the_given_time() {
    let definition = |server: &mut Lines, name: &str| named(&list(server, 5).0, name).clone();
    let mut honest = ready(&[]);
    let (echo, write) = (definition(&mut honest, "echo"), definition(&mut honest, "write"));
    let other = definition(&mut ready_with("redescribes"), "echo");
    assert_ne!(other["description"], echo["description"]);
    assert_eq!(other["inputSchema"], echo["inputSchema"]);
    let renamed = definition(&mut ready_with("renames"), "renamed");
    assert_eq!(renamed["description"], echo["description"]);
    let harmless = definition(&mut ready_with("flips-hints"), "write");
    assert_ne!(write["annotations"]["readOnlyHint"], true);
    assert_eq!(harmless["annotations"]["readOnlyHint"], true);

    let mut waits = ready(&["--fault", "redescribes", "--fault", "later"]);
    assert_eq!(definition(&mut waits, "echo"), definition(&mut honest, "echo"));
    let _ = waits.ask(&call(1, "tools_changed", json!({})));
    assert_eq!(definition(&mut waits, "echo")["description"], other["description"]);
}

#[test]
fn each_fault_of_cursors_does_what_its_name_says() {
    let (tools, cursors) = list(&mut ready_with("endless-cursor"), 40);
    assert_eq!((tools.len(), cursors.len()), (22 + 39, 40));
    assert!(cursors.windows(2).all(|two| two[0] != two[1]));
    let (_, cursors) = list(&mut ready_with("same-cursor"), 5);
    assert_eq!(cursors, vec![json!("again"); 5]);
    let (tools, cursors) = list(&mut ready_with("empty-cursor"), 5);
    assert_eq!((tools.len(), cursors), (22, vec![json!("")]));
    let (_, cursors) = list(&mut ready_with("odd-cursor"), 1);
    assert_eq!(cursors, vec![json!(42)]);
}

#[test]
fn a_server_may_declare_no_capabilities() {
    let mut server = Lines::start(&["--fault", "no-capabilities"]);
    let started = server.ask(&request(1, "initialize", json!({"protocolVersion": "2025-11-25"})));
    assert!(
        started["result"]["capabilities"].is_null() && started["result"]["protocolVersion"] == "2025-11-25",
        "{started}"
    );
}

#[test]
fn each_fault_of_definitions_does_what_its_name_says() {
    let bad = list(&mut ready_with("bad-tool"), 1).0;
    assert!(named(&bad, "bad_schema")["inputSchema"].is_null());
    assert!(bad.contains(&json!(7)) && bad.iter().any(|tool| tool.is_object() && tool.get("name").is_none()));
    assert_eq!(bad.len(), 25);
    let twice = list(&mut ready_with("duplicate-tool"), 1).0;
    assert_eq!(twice.iter().filter(|tool| tool["name"] == "echo").count(), 2);
    assert_eq!(list(&mut ready_with("bad-header-name"), 1).0.len(), 27);
    let tools = list(&mut ready_with("remote-ref-schema=http://127.0.0.1:9/x"), 1).0;
    assert_eq!(named(&tools, "structured")["outputSchema"]["properties"]["label"]["$ref"], "http://127.0.0.1:9/x");
    let tools = list(&mut ready_with("expensive-schema=12"), 1).0;
    assert!(named(&tools, "structured")["outputSchema"]["$defs"]["d12"].is_object());
    let tools = list(&mut ready_with("escape-text"), 1).0;
    assert!(named(&tools, "echo")["description"].as_str().unwrap().contains('\u{1b}'));
    let tools = list(&mut ready_with("long-description=7"), 1).0;
    assert!(named(&tools, "echo")["description"].as_str().unwrap().ends_with("\nEchoes, line 7.\n"));
}

#[test]
fn a_list_can_fail_and_a_modern_list_can_have_a_negative_ttl() {
    let mut server = Lines::with(&["list-fails"], &["--fault-after", "1"]);
    server.handshake();
    assert!(server.ask(&request(1, "tools/list", json!({})))["result"].is_object());
    assert_eq!(server.ask(&request(2, "tools/list", json!({})))["error"]["code"], -32603);
    let mut server = Lines::with(&["negative-ttl"], &["--era", "modern"]);
    assert_eq!(server.ask(&modern(1, "tools/list", json!({})))["result"]["ttlMs"], -5);
}

#[test]
fn each_list_brings_a_storm_of_changes() {
    let mut server = ready_with("list-changed-storm=20");
    for id in [1, 2] {
        server.ask(&request(id, "tools/list", json!({})));
        for _ in 0..20 {
            assert_eq!(server.message()["method"], "notifications/tools/list_changed");
        }
    }
}

#[test]
fn structured_content_fits_its_schema_unless_a_fault_says_otherwise() {
    let good = ready(&[]).ask(&call(1, "structured", json!({"label": "x"})));
    assert_eq!(good["result"]["structuredContent"], json!({"label": "x", "value": 42}));
    let bad = ready_with("wrong-structured").ask(&call(1, "structured", json!({})));
    assert_eq!(bad["result"]["structuredContent"], json!({"label": 42}));
}

#[test]
fn each_plain_tool_does_what_its_name_says() {
    let mut server = ready(&[]);
    let answer = server.ask(&call(1, "big", json!({"bytes": 1001, "fill": "é"})));
    assert_eq!(text(&answer).len(), 1001);
    let answer = server.ask(&call(2, "fail", json!({"message": "no luck"})));
    assert_eq!((&answer["result"]["isError"], text(&answer)), (&json!(true), "no luck"));
    let answer = server.ask(&call(3, "protocol_error", json!({"code": -32000})));
    assert_eq!(answer["error"]["code"], -32000);
    let answer = server.ask(&call(4, "image", json!({})));
    assert_eq!(answer["result"]["content"].as_array().unwrap().len(), 6);
    let answer = server.ask(&call(5, "tools_changed", json!({"add": "fresh"})));
    assert_eq!(text(&answer), "changed");
    assert_eq!(text(&server.ask(&call(6, "fresh", json!({})))), "fresh");
    let escaped = ready_with("escape-text").ask(&call(1, "echo", json!({"text": "x"})));
    assert!(text(&escaped).contains('\u{202e}'));
}

#[test]
fn tools_return_the_environment_the_folder_and_the_descriptors_of_the_server() {
    let folder = std::env::temp_dir().canonicalize().unwrap();
    let mut command = Command::new(fake_server_path());
    command.arg("stdio").env("TESTKIT_SEES", "yes").current_dir(&folder);
    let mut server = Lines::run(command);
    server.handshake();
    assert_eq!(text(&server.ask(&call(1, "env", json!({"name": "TESTKIT_SEES"})))), "\"yes\"");
    assert_eq!(text(&server.ask(&call(2, "env", json!({"name": "TESTKIT_SEES_NOT"})))), "null");
    assert!(text(&server.ask(&call(3, "env", json!({})))).contains("\"TESTKIT_SEES\""));
    assert_eq!(text(&server.ask(&call(4, "cwd", json!({})))), folder.to_str().unwrap());
    let answer = server.ask(&call(5, "fds", json!({})));
    let found: Value = serde_json::from_str(text(&answer)).unwrap();
    assert_eq!(found["inherited"][0]["fd"], 0);
    assert!(found["now"].as_array().unwrap().len() >= 3);
}

#[test]
fn a_legacy_server_asks_the_client_with_requests_of_its_own() {
    let mut server = ready(&[]);
    for (id, tool, method) in
        [(1_u64, "elicit", "elicitation/create"), (2, "sample", "sampling/createMessage"), (3, "roots", "roots/list")]
    {
        server.send(&call(id, tool, json!({})));
        let asked = server.message();
        assert_eq!((asked["method"].as_str(), asked["id"].as_u64()), (Some(method), Some(id - 1)));
        server.send(&json!({"jsonrpc": "2.0", "id": asked["id"], "result": {"said": tool}}));
        assert_eq!(text(&server.answer(id)), json!({"said": tool}).to_string());
    }
    server.send(&call(4, "elicit", json!({"mode": "url"})));
    let asked = server.message();
    assert!(asked["params"]["elicitationId"].is_string());
    server.send(&json!({"jsonrpc": "2.0", "id": asked["id"], "error": {"code": -1, "message": "no"}}));
    assert_eq!(server.answer(4)["result"]["isError"], true);
}

#[test]
fn a_legacy_server_uses_only_declared_capabilities() {
    let mut server = Lines::start(&[]);
    server.ask(&request(0, "initialize", json!({"protocolVersion": "2025-11-25", "capabilities": {}})));
    let answer = server.ask(&call(1, "sample", json!({})));
    assert_eq!(answer["result"]["isError"], true);
}

#[test]
fn a_server_can_ask_once_with_an_error_to_open_links() {
    let mut server = ready(&[]);
    let refused = server.ask(&call(1, "elicit", json!({"mode": "url-error"})));
    assert_eq!(refused["error"]["code"], -32042);
    assert!(refused["error"]["data"]["elicitations"][0]["url"].is_string());
    assert_eq!(server.ask(&call(2, "elicit", json!({"mode": "url-error"})))["result"]["isError"], false);
}

#[test]
fn a_modern_server_asks_the_client_with_results_and_requires_its_state_back_byte_for_byte() {
    let effects = EffectLog::new();
    let mut server = Lines::start(&["--era", "modern", "--log", effects.path_str()]);
    let mut request = modern_call(1, "elicit", json!({"rounds": 2}));
    for id in [1, 2] {
        request["id"] = json!(id);
        let result = server.ask(&request)["result"].clone();
        assert_eq!(result["inputRequests"]["the_answer"]["method"], "elicitation/create");
        request["params"]["requestState"] = result["requestState"].clone();
        request["params"]["inputResponses"] = json!({"the_answer": {"action": "accept", "content": {"name": "x"}}});
    }
    let mut changed = request.clone();
    let state = request["params"]["requestState"].as_str().unwrap().trim().to_owned();
    changed["params"]["requestState"] = json!(state);
    changed["id"] = json!(3);
    assert_eq!(server.ask(&changed)["error"]["code"], -32602);
    assert_eq!(effects.read().runs_of("elicit"), 0);
    request["id"] = json!(4);
    assert!(text(&server.ask(&request)).contains("accept"));
    assert_eq!(effects.read().runs_of("elicit"), 1);
}

#[test]
fn a_modern_server_can_ask_the_client_only_to_call_again() {
    let mut server = Lines::start(&["--era", "modern"]);
    let mut request = modern_call(1, "elicit", json!({"mode": "state-only"}));
    let result = server.ask(&request)["result"].clone();
    assert!(result.get("inputRequests").is_none());
    request["params"]["requestState"] = result["requestState"].clone();
    request["id"] = json!(2);
    assert_eq!(text(&server.ask(&request)), r#"{"rounds":1}"#);
}

#[test]
fn a_modern_server_refuses_when_a_capability_is_missing() {
    let mut server = Lines::start(&["--era", "modern"]);
    let mut request = modern_call(1, "sample", json!({}));
    request["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({});
    let error = server.ask(&request)["error"].clone();
    assert_eq!((&error["code"], &error["data"]["requiredCapabilities"]), (&json!(-32021), &json!({"sampling": {}})));
}

#[test]
fn resources_and_prompts_are_listed_and_read_in_both_eras() {
    let mut server = Lines::start(&["--era", "both"]);
    server.handshake();
    for wrap in [request as fn(u64, &str, Value) -> Value, modern] {
        let mut ask = |method: &str, params: Value| server.ask(&wrap(1, method, params));
        assert_eq!(ask("resources/list", json!({}))["result"]["resources"].as_array().unwrap().len(), 3);
        let templates = ask("resources/templates/list", json!({}));
        assert_eq!(templates["result"]["resourceTemplates"][0]["uriTemplate"], "fake://note/{name}");
        let read = ask("resources/read", json!({"uri": "fake://note/tea"}));
        assert_eq!(read["result"]["contents"][0]["text"], "a note about tea");
        assert!(ask("resources/read", json!({"uri": "fake://none"}))["error"]["code"].is_i64());
        assert_eq!(ask("prompts/list", json!({}))["result"]["prompts"].as_array().unwrap().len(), 2);
        let prompt = ask("prompts/get", json!({"name": "greet", "arguments": {"name": "Ada"}}));
        assert_eq!(prompt["result"]["messages"][0]["content"]["text"], "Say hello to Ada.");
        let completed = ask("completion/complete", json!({"argument": {"name": "name", "value": "a"}}));
        assert_eq!(completed["result"]["completion"]["values"], json!(["ada", "alan"]));
    }
    let needed = server.ask(&modern(2, "prompts/get", json!({"name": "asked"})));
    assert_eq!(needed["result"]["resultType"], "input_required");
    let needed = server.ask(&modern(3, "resources/read", json!({"uri": "fake://asked"})));
    assert!(needed["result"].get("ttlMs").is_none(), "a client must not cache a question");
}
