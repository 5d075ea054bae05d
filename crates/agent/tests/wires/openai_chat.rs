use serde_json::{Value, json, value::RawValue};
use toolrack_agent::{
    Message, Request, Role,
    model::{ModelSettings, Wire},
};
use toolrack_host::{ToolBlock, ToolDefinition};
use toolrack_testkit::{FakeModel, model::Answer};

use crate::talk::{conversation, full_request, lines, scripted, sent, sent_to, settings, streamed, tools, transcript};

const WIRE: Wire = Wire::OpenAiChat;
const NO_CHANGE: fn(&mut ModelSettings) = |_| {};

#[tokio::test]
async fn a_conversation_is_sent_in_the_format_of_chat_completions() {
    let messages = conversation();
    let tools = tools(WIRE);
    let request = full_request(&messages, &tools);
    insta::assert_snapshot!(lines(&sent(NO_CHANGE, WIRE, request).await), @r#"
    model: "some-model"
    max_tokens: 500
    temperature: 0.5
    stream_options: {"include_usage":true}
    stream: true
    tools:
    - {"type":"function","function":{"name":"mcp__sky__weather","description":"The weather in a city","parameters":{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}}}
    - {"type":"function","function":{"name":"mcp__clock__now","description":"MCP tool from clock","parameters":{"type":"object","properties":{}}}}
    messages:
    - {"role":"system","content":"You are a guide.\n\nBe brief."}
    - {"role":"user","content":[{"type":"text","text":"What is this, and how is the weather there?"},{"type":"image_url","image_url":{"url":"data:image/png;base64,iVBORw0KGgo="}}]}
    - {"role":"assistant","content":"Let me see.","tool_calls":[{"id":"call_a","type":"function","function":{"name":"mcp__sky__weather","arguments":"{\"city\":\"Bern\"}"}},{"id":"call_b","type":"function","function":{"name":"mcp__sky__weather","arguments":"{\"city\":\"Atlantis\"}"}}]}
    - {"role":"tool","content":"sunny\n[a picture, image/png, 9 bytes: it cannot be shown to this model]","tool_call_id":"call_a"}
    - {"role":"tool","content":"Error: no such city\n[a picture, image/png, 9 bytes: it cannot be shown to this model]","tool_call_id":"call_b"}
    - {"role":"assistant","content":null,"tool_calls":[{"id":"call_c","type":"function","function":{"name":"mcp__clock__now","arguments":"{}"}}]}
    - {"role":"tool","content":"Error: the arguments are not JSON","tool_call_id":"call_c"}
    - {"role":"assistant","content":"It is sunny in Bern."}
    - {"role":"user","content":"Thanks!"}
    "#);
}

#[tokio::test]
async fn a_request_without_tools_and_stream_mentions_neither() {
    let (server, model) = scripted("custom", WIRE, []).await;
    let messages = [Message::new(Role::User, "hello")];
    // The script of the model is empty: only the request matters.
    let _ = model.complete(Request::new(&messages)).await;
    insta::assert_snapshot!(server.last_body(), @r#"{"model":"some-model","messages":[{"role":"user","content":"hello"}]}"#);
    assert_eq!(server.requests()[0].path, "/v1/chat/completions");
    assert_eq!(server.requests()[0].header("authorization"), Some("Bearer sk-secret-0123456789"));
}

#[tokio::test]
async fn tools_and_model_name_are_sent_verbatim() {
    let server = FakeModel::start([]).await;
    let mut settings = settings(&server, "custom", WIRE);
    settings.model = "ft:gpt-4o:org::abc-high".into();
    let model = settings.connect().unwrap();
    let messages = [Message::new(Role::User, "hello")];
    let odd = r#"{"b":1.0,   "a":1e2, "type": "object"}"#;
    let tool = ToolDefinition {
        name: "x".into(),
        description: "y".into(),
        takes_arguments: false,
        input_schema: RawValue::from_string(odd.into()).unwrap().into(),
    };
    let tools = ToolBlock::new(WIRE, vec![tool]);
    let mut request = Request::new(&messages);
    request.tools = Some(&tools);
    // The script of the model is empty: only the request matters.
    let _ = streamed(&*model, request).await;
    assert!(server.requests()[0].body.contains(odd), "{}", server.requests()[0].body);
    assert_eq!(server.last_body()["model"], "ft:gpt-4o:org::abc-high");
}

#[tokio::test]
async fn extra_members_override_and_null_removes_all_but_the_conversation() {
    let messages = [Message::new(Role::User, "hello")];
    let extra = json!({"temperature": 0, "stream_options": null, "messages": [], "stream": false, "top_k": 3});
    let mut request = Request::new(&messages);
    request.temperature = Some(1.0);
    request.extra_body = extra.as_object();
    let body = sent(|settings| drop(settings.extra_body.insert("top_k".into(), 2.into())), WIRE, request).await;
    insta::assert_snapshot!(body, @r#"{"model":"some-model","temperature":0,"top_k":3,"stream":true,"messages":[{"role":"user","content":"hello"}]}"#);
}

#[tokio::test]
async fn each_provider_gets_its_own_dialect() {
    let thinking = || {
        let events = [
            r#"{"choices":[{"index":0,"delta":{"reasoning_content":"Hm."}}]}"#,
            r#"{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"call_00_abcdefgh","function":{"name":"f","arguments":"{}"}}]},"finish_reason":"tool_calls"}]}"#,
        ];
        Answer::events(events)
    };
    for (provider, echo, bound, id) in [
        ("deepseek", Some("Hm."), "max_tokens", "call_00_abcdefgh"),
        ("llamacpp", Some("Hm."), "max_tokens", "call_00_abcdefgh"),
        ("openai", Some("Hm."), "max_completion_tokens", "call_00_abcdefgh"),
        ("mistral", None, "max_tokens", "8616d76d1"),
    ] {
        let (_server, model) = scripted(provider, WIRE, [thinking()]).await;
        let mut messages = vec![Message::new(Role::User, "hello")];
        messages.push(streamed(&*model, Request::new(&messages)).await.1.unwrap().message);
        messages.push(Message::tool_result("call_00_abcdefgh", "done"));
        let mut request = Request::new(&messages);
        request.max_tokens = Some(9);
        let body = sent_to(provider, NO_CHANGE, WIRE, request).await;
        assert_eq!(body["messages"][1].get("reasoning_content").and_then(Value::as_str), echo, "{provider}");
        assert_eq!(body[bound], 9, "{provider}");
        assert_eq!(body["messages"][1]["tool_calls"][0]["id"], id, "{provider}");
        assert_eq!(body["messages"][2]["tool_call_id"], id, "{provider}");
    }
}

#[tokio::test]
async fn thinking_is_sent_back_only_to_the_model_that_wrote_it() {
    let events = [
        r#"{"choices":[{"index":0,"delta":{"reasoning_content":"Hm."}}]}"#,
        r#"{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}}]},"finish_reason":"tool_calls"}]}"#,
    ];
    let (_server, model) = scripted("custom", WIRE, [Answer::events(events)]).await;
    let mut messages = vec![Message::new(Role::User, "hello")];
    messages.push(streamed(&*model, Request::new(&messages)).await.1.unwrap().message);
    let same = sent(NO_CHANGE, WIRE, Request::new(&messages)).await;
    assert_eq!(same["messages"][1]["reasoning_content"], "Hm.");
    let other = sent(|settings| settings.model = "other".into(), WIRE, Request::new(&messages)).await;
    assert_eq!(other["messages"][1].get("reasoning_content"), None);
    assert_eq!(other["messages"][1]["tool_calls"][0]["function"]["name"], "f");
}

#[tokio::test]
async fn text_is_streamed_as_it_arrives() {
    let events = [
        r#"{"choices":[{"index":0,"delta":{"role":"assistant","content":""}}],"usage":null}"#,
        r#"{"choices":[{"index":0,"delta":{"content":"Hel"}}]}"#,
        r#"{"choices":[{"index":0,"delta":{"content":"lo, wörld"}}]}"#,
        r#"{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#,
        r#"{"choices":[],"usage":{"prompt_tokens":20,"completion_tokens":7,"prompt_tokens_details":{"cached_tokens":16},"completion_tokens_details":{"reasoning_tokens":3}}}"#,
        "[DONE]",
    ];
    let complete_answer = json!({
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "Hello, wörld", "refusal": null}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 20, "completion_tokens": 7, "prompt_tokens_details": {"cached_tokens": 16},
                  "completion_tokens_details": {"reasoning_tokens": 3}},
    });
    insta::assert_snapshot!(transcript("custom", WIRE, &events, Some(complete_answer)).await, @r#"
    text "Hel"
    text "lo, wörld"
    usage in 20 (16 read, 0 written) out 7 (3 thinking)
    End {
      "role": "assistant",
      "content": "Hello, wörld"
    }
    "#);
}

#[tokio::test]
async fn interleaved_calls_are_put_together_by_index() {
    let events = [
        r#"{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"a","type":"function","function":{"name":"weather","arguments":""}}]}}]}"#,
        r#"{"choices":[{"index":0,"delta":{"tool_calls":[{"index":1,"id":"b","type":"function","function":{"name":"time","arguments":"{\"zo"}}]}}]}"#,
        r#"{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"city\""}}]}}]}"#,
        r#"{"choices":[{"index":0,"delta":{"tool_calls":[{"index":1,"function":{"arguments":"ne\":1}"}},{"index":0,"function":{"arguments":":\"Bern\"}"}}]}}]}"#,
        r#"{"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}"#,
        "[DONE]",
    ];
    let complete_answer = json!({"choices": [{"message": {"content": null, "tool_calls": [
        {"id": "a", "type": "function", "function": {"name": "weather", "arguments": "{\"city\":\"Bern\"}"}},
        {"id": "b", "type": "function", "function": {"name": "time", "arguments": "{\"zone\":1}"}},
    ]}, "finish_reason": "tool_calls"}]});
    insta::assert_snapshot!(transcript("custom", WIRE, &events, Some(complete_answer)).await, @r#"
    call 0 a weather
    call 1 b time
    arguments 1 {"zo
    arguments 0 {"city"
    arguments 1 ne":1}
    arguments 0 :"Bern"}
    ToolCalls {
      "role": "assistant",
      "content": "",
      "tool_calls": [
        {
          "id": "a",
          "name": "weather",
          "input": {
            "city": "Bern"
          }
        },
        {
          "id": "b",
          "name": "time",
          "input": {
            "zone": 1
          }
        }
      ]
    }
    "#);
}

#[tokio::test]
async fn calls_without_ids_indices_or_an_honest_reason_are_understood() {
    // No ids and no usage, as some local servers; arguments that are JSON instead of text; `stop` as the reason.
    let events = [
        r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"name":"a","arguments":{"x":1}}},{"index":1,"function":{"name":"b"}}]},"finish_reason":"stop"}]}"#,
    ];
    insta::assert_snapshot!(transcript("custom", WIRE, &events, None).await, @r#"
    call 0 call_1_0 a
    arguments 0 {"x":1}
    call 1 call_1_1 b
    ToolCalls {
      "role": "assistant",
      "content": "",
      "tool_calls": [
        {
          "id": "call_1_0",
          "name": "a",
          "input": {
            "x": 1
          }
        },
        {
          "id": "call_1_1",
          "name": "b",
          "input": {}
        }
      ]
    }
    "#);
    // Every call with the index 0 and all at once, as Gemini's compatible API did.
    let events = [
        r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"x","function":{"name":"a","arguments":"{}"}}]}}]}"#,
        r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"y","function":{"name":"b","arguments":"{}"}}]}}]}"#,
        "[DONE]",
    ];
    insta::assert_snapshot!(transcript("custom", WIRE, &events, None).await, @r#"
    call 0 x a
    arguments 0 {}
    call 1 y b
    arguments 1 {}
    ToolCalls {
      "role": "assistant",
      "content": "",
      "tool_calls": [
        {
          "id": "x",
          "name": "a",
          "input": {}
        },
        {
          "id": "y",
          "name": "b",
          "input": {}
        }
      ]
    }
    "#);
}

#[tokio::test]
async fn whole_calls_with_neither_ids_nor_indices_stay_apart() {
    let calls = json!([
        {"function": {"name": "a", "arguments": "{\"x\":1}"}},
        {"function": {"name": "a", "arguments": "{\"x\":2}"}},
        {"id": "", "function": {"name": "b", "arguments": "{\"x\":3}"}},
    ]);
    let piece = |call: &Value| json!({"choices": [{"delta": {"tool_calls": [call]}}]}).to_string();
    let mut events: Vec<String> = calls.as_array().unwrap().iter().map(piece).collect();
    events.push("[DONE]".into());
    let events: Vec<&str> = events.iter().map(String::as_str).collect();
    let complete_answer = json!({"choices": [{"message": {"tool_calls": calls}, "finish_reason": "tool_calls"}]});
    let deltas_text = transcript("custom", WIRE, &events, Some(complete_answer)).await;
    let deltas_text: Vec<_> = deltas_text.lines().take_while(|line| !line.starts_with("ToolCalls")).collect();
    let expected = [
        "call 0 call_1_0 a",
        r#"arguments 0 {"x":1}"#,
        "call 1 call_1_1 a",
        r#"arguments 1 {"x":2}"#,
        "call 2 call_1_2 b",
        r#"arguments 2 {"x":3}"#,
    ];
    assert_eq!(deltas_text, expected);
}

#[tokio::test]
async fn a_message_with_nothing_but_thinking_is_not_sent_back() {
    let events = [r#"{"choices":[{"delta":{"reasoning_content":"Hm"},"finish_reason":"length"}]}"#];
    let (_server, model) = scripted("custom", WIRE, [Answer::events(events)]).await;
    let mut messages = vec![Message::new(Role::User, "hello")];
    messages.push(streamed(&*model, Request::new(&messages)).await.1.unwrap().message);
    messages.push(Message::new(Role::User, "go on"));
    let body = sent(NO_CHANGE, WIRE, Request::new(&messages)).await;
    let roles: Vec<_> = body["messages"].as_array().unwrap().iter().map(|message| message["role"].clone()).collect();
    assert_eq!(roles, ["user"]);
}

#[tokio::test]
async fn mistral_gets_an_answer_between_the_results_of_a_cancelled_turn_and_the_user() {
    let call = crate::talk::call("a", "f", "Bern");
    let messages = [
        Message::new(Role::User, "hello"),
        Message::new(Role::Assistant, "").with_tool_calls(vec![call]),
        Message::tool_result("a", "done"),
        Message::new(Role::User, "go on"),
    ];
    for (provider, roles) in [("mistral", "user assistant tool assistant user"), ("custom", "user assistant tool user")]
    {
        let body = sent_to(provider, NO_CHANGE, WIRE, Request::new(&messages)).await;
        let sent: Vec<_> = body["messages"].as_array().unwrap().iter().map(|m| m["role"].as_str().unwrap()).collect();
        assert_eq!(sent.join(" "), roles, "{provider}");
    }
}

#[tokio::test]
async fn messages_of_a_user_in_a_row_are_sent_as_one() {
    let picture = toolrack_host::Content::Image { data: "iVBORw0KGgo=".into(), mime_type: "image/png".into() };
    let mut messages = vec![Message::new(Role::User, "cancelled"), Message::new(Role::User, "again")];
    let body = sent(NO_CHANGE, WIRE, Request::new(&messages)).await;
    assert_eq!(body["messages"], json!([{"role": "user", "content": "cancelled\n\nagain"}]));
    messages.push(Message::new(Role::User, "").with_parts([picture]));
    let body = sent(NO_CHANGE, WIRE, Request::new(&messages)).await;
    let parts = json!([
        {"type": "text", "text": "cancelled\n\nagain"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}},
    ]);
    assert_eq!(body["messages"], json!([{"role": "user", "content": parts}]));
}

#[tokio::test]
async fn without_an_index_the_id_decides_which_call_continues() {
    let events = [
        r#"{"choices":[{"delta":{"tool_calls":[{"id":"x","function":{"name":"a","arguments":"{\"n\":"}}]}}]}"#,
        r#"{"choices":[{"delta":{"tool_calls":[{"function":{"arguments":"1"}}]}}]}"#,
        r#"{"choices":[{"delta":{"tool_calls":[{"id":"y","function":{"name":"b","arguments":"{}"}}]}}]}"#,
        r#"{"choices":[{"delta":{"tool_calls":[{"id":"x","function":{"arguments":"}"}}]},"finish_reason":"tool_calls"}]}"#,
    ];
    let deltas_text = transcript("custom", WIRE, &events, None).await;
    let deltas_text: Vec<_> = deltas_text.lines().take_while(|line| !line.starts_with("ToolCalls")).collect();
    let expected =
        ["call 0 x a", r#"arguments 0 {"n":"#, "arguments 0 1", "call 1 y b", "arguments 1 {}", "arguments 0 }"];
    assert_eq!(deltas_text, expected);
}

#[tokio::test]
async fn two_calls_with_the_same_id_get_different_ids() {
    let events = [
        r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"same","function":{"name":"a","arguments":"{}"}},{"index":1,"id":"same","function":{"name":"b","arguments":"{}"}}]},"finish_reason":"tool_calls"}]}"#,
    ];
    let deltas_text = transcript("custom", WIRE, &events, None).await;
    assert!(deltas_text.starts_with("call 0 same a\narguments 0 {}\ncall 1 call_1_1 b\n"), "{deltas_text}");
}

#[tokio::test]
async fn arguments_that_are_not_an_object_are_stored_as_text() {
    for (arguments, raw) in [
        (r#"{\"city\": \"Be"#, Some(r#"{"city": "Be"#)),
        ("[1]", Some("[1]")),
        ("not json", Some("not json")),
        // Cut before the first letter.
        ("", Some("")),
        ("null", None),
        (" {} ", None),
    ] {
        let event = format!(
            r#"{{"choices":[{{"delta":{{"tool_calls":[{{"index":0,"id":"a","function":{{"name":"f","arguments":"{arguments}"}}}}]}},"finish_reason":"length"}}]}}"#
        );
        let (_server, model) = scripted("custom", WIRE, [Answer::events([event.as_str()])]).await;
        let messages = [Message::new(Role::User, "hello")];
        let reply = streamed(&*model, Request::new(&messages)).await.1.unwrap();
        assert_eq!(reply.stop, toolrack_agent::Stop::Length);
        assert_eq!(reply.message.calls()[0].raw_arguments.as_deref(), raw, "{arguments}");
        assert_eq!(reply.message.calls()[0].arguments().is_some(), raw.is_none(), "{arguments}");
    }
}

#[tokio::test]
async fn thinking_of_every_dialect_is_streamed_as_thinking() {
    for (event, blocks) in [
        (r#"{"reasoning_content":"Hm."}"#, json!([{"raw": {"reasoning_content": "Hm."}}])),
        (r#"{"reasoning":"Hm."}"#, Value::Null),
        (r#"{"content":[{"type":"thinking","thinking":[{"type":"text","text":"Hm."}]}]}"#, Value::Null),
    ] {
        let event = format!(r#"{{"choices":[{{"delta":{event},"finish_reason":"stop"}}]}}"#);
        let (_server, model) = scripted("custom", WIRE, [Answer::events([event.as_str()])]).await;
        let messages = [Message::new(Role::User, "hello")];
        let (deltas, reply) = streamed(&*model, Request::new(&messages)).await;
        assert_eq!(deltas, [toolrack_agent::Delta::Thinking("Hm.".into())], "{event}");
        let message = reply.unwrap().message;
        assert_eq!(message.content, "");
        assert_eq!(json!(message).pointer("/blocks/blocks").cloned().unwrap_or_default(), blocks, "{event}");
    }
}

#[tokio::test]
async fn openrouters_blocks_of_reasoning_are_put_together_and_sent_back() {
    let events = [
        r#"{"choices":[{"delta":{"reasoning":"Hm","reasoning_details":[{"type":"reasoning.text","text":"Hm","index":0,"format":"f"}]}}]}"#,
        r#"{"choices":[{"delta":{"reasoning":".","reasoning_details":[{"type":"reasoning.text","text":".","index":0,"signature":"sig"}]}}]}"#,
        r#"{"choices":[{"delta":{"reasoning_details":[{"type":"reasoning.encrypted","data":"abc","index":1}]}}]}"#,
        r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}}]},"finish_reason":"tool_calls"}]}"#,
        r#"{"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":1,"cost":0.00014}}"#,
        "[DONE]",
    ];
    let (_server, model) = scripted("openrouter", WIRE, [Answer::events(events)]).await;
    let mut messages = vec![Message::new(Role::User, "hello")];
    let reply = streamed(&*model, Request::new(&messages)).await.1.unwrap();
    assert_eq!(reply.cost, Some(0.00014));
    messages.push(reply.message);
    let body = sent_to("openrouter", NO_CHANGE, WIRE, Request::new(&messages)).await;
    insta::assert_snapshot!(body["messages"][1], @r#"{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}}],"reasoning_details":[{"type":"reasoning.text","text":"Hm.","index":0,"format":"f","signature":"sig"},{"type":"reasoning.encrypted","data":"abc","index":1}]}"#);
}

#[tokio::test]
async fn a_refusal_stops_with_its_reason() {
    let events = [
        r#"{"choices":[{"delta":{"refusal":"I can"}}]}"#,
        r#"{"choices":[{"delta":{"refusal":"not."},"finish_reason":"stop"}]}"#,
        "[DONE]",
    ];
    let complete_answer =
        json!({"choices": [{"message": {"content": null, "refusal": "I cannot."}, "finish_reason": "stop"}]});
    insta::assert_snapshot!(transcript("custom", WIRE, &events, Some(complete_answer)).await, @r#"
    text "I can"
    text "not."
    Refusal {
      "role": "assistant",
      "content": "I cannot."
    }
    "#);
    let deltas_text = transcript(
        "custom",
        WIRE,
        &[r#"{"choices":[{"delta":{"content":"I "},"finish_reason":"content_filter"}]}"#],
        None,
    )
    .await;
    assert!(deltas_text.contains("Refusal"), "{deltas_text}");
}

#[tokio::test]
async fn an_answer_with_message_and_delta_is_read_once() {
    let both = json!({
        "choices": [{ "delta": { "content": "piece" }, "message": { "content": "whole" }, "finish_reason": "stop" }],
    });
    let answers = [Answer::events([&*both.to_string()]), Answer::json(200, &both)];
    let (_server, model) = scripted("custom", WIRE, answers).await;
    let messages = [Message::new(Role::User, "hello")];
    assert_eq!(streamed(&*model, Request::new(&messages)).await.1.unwrap().message.content, "piece");
    assert_eq!(model.complete(Request::new(&messages)).await.unwrap().message.content, "whole");
}

#[tokio::test]
async fn a_cost_or_a_usage_that_cannot_be_read_costs_no_answer() {
    for (usage, input, cost) in [
        (json!({ "prompt_tokens": 3, "cost": 0.5 }), 3, Some(0.5)),
        (json!({ "prompt_tokens": 3, "cost": { "total": 0.5 } }), 3, None),
        (json!({ "prompt_tokens": 3, "cost": "0.5 EUR" }), 3, None),
        (json!({ "prompt_tokens": 3, "cost": -1 }), 3, None),
        (json!({ "prompt_tokens": "3" }), 0, None),
        (json!([]), 0, None),
    ] {
        let answer =
            json!({ "choices": [{ "message": { "content": "Hi" }, "finish_reason": "stop" }], "usage": usage });
        let (_server, model) = scripted("custom", WIRE, [Answer::json(200, &answer)]).await;
        let messages = [Message::new(Role::User, "hello")];
        let reply = model.complete(Request::new(&messages)).await.unwrap();
        assert_eq!((&*reply.message.content, reply.usage.input, reply.cost), ("Hi", input, cost), "{usage}");
    }
}

#[tokio::test]
async fn thinking_is_a_part_of_the_output_however_the_provider_counts() {
    // OpenAI counts it in `completion_tokens`, xAI does not, and some servers send no total.
    for (total, output) in [(json!(41), 9), (json!(135), 103), (Value::Null, 9)] {
        let usage = json!({
            "prompt_tokens": 32, "completion_tokens": 9, "total_tokens": total,
            "completion_tokens_details": {"reasoning_tokens": 94},
        });
        let answer =
            json!({ "choices": [{ "message": { "content": "Hi" }, "finish_reason": "stop" }], "usage": usage });
        let (_server, model) = scripted("custom", WIRE, [Answer::json(200, &answer)]).await;
        let messages = [Message::new(Role::User, "hello")];
        let counted = model.complete(Request::new(&messages)).await.unwrap().usage;
        assert_eq!((counted.input, counted.output, counted.reasoning), (32, output, 94), "{total}");
    }
}

#[tokio::test]
async fn an_unknown_stop_reason_is_escaped() {
    let deltas_text = transcript(
        "custom",
        WIRE,
        &[r#"{"choices":[{"delta":{"content":"I "},"finish_reason":"\u001b[31mwhim"}]}"#],
        None,
    )
    .await;
    assert!(deltas_text.contains(r#"Other("\\u{1b}[31mwhim")"#), "{deltas_text}");
}
