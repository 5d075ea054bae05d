use serde_json::json;
use toolrack_agent::{
    Message, Request, Role,
    model::{ModelSettings, Wire},
};
use toolrack_testkit::model::Answer;

use crate::talk::{conversation, full_request, lines, pretty, scripted, sent, streamed, tools, transcript};

const WIRE: Wire = Wire::Anthropic;
const NO_CHANGE: fn(&mut ModelSettings) = |_| {};

#[tokio::test]
async fn a_conversation_is_sent_in_the_format_of_messages() {
    let messages = conversation();
    let tools = tools(WIRE);
    let mut request = full_request(&messages, &tools);
    request.max_tokens = None;
    insta::assert_snapshot!(lines(&sent(NO_CHANGE, WIRE, request).await), @r#"
    model: "some-model"
    max_tokens: 8192
    temperature: 0.5
    stream: true
    tools:
    - {"name":"mcp__sky__weather","description":"The weather in a city","input_schema":{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}}
    - {"name":"mcp__clock__now","description":"MCP tool from clock","input_schema":{"type":"object","properties":{}},"cache_control":{"type":"ephemeral"}}
    system:
    - {"type":"text","text":"You are a guide.\n\nBe brief.","cache_control":{"type":"ephemeral"}}
    messages:
    - {"role":"user","content":[{"type":"text","text":"What is this, and how is the weather there?"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"iVBORw0KGgo="}}]}
    - {"role":"assistant","content":[{"type":"text","text":"Let me see."},{"type":"tool_use","id":"call_a","name":"mcp__sky__weather","input":{"city":"Bern"}},{"type":"tool_use","id":"call_b","name":"mcp__sky__weather","input":{"city":"Atlantis"}}]}
    - {"role":"user","content":[{"type":"tool_result","tool_use_id":"call_a","content":[{"type":"text","text":"sunny"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"iVBORw0KGgo="}}]},{"type":"tool_result","tool_use_id":"call_b","content":[{"type":"text","text":"no such city"}],"is_error":true},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"iVBORw0KGgo="}}]}
    - {"role":"assistant","content":[{"type":"tool_use","id":"call_c","name":"mcp__clock__now","input":{}}]}
    - {"role":"user","content":[{"type":"tool_result","tool_use_id":"call_c","content":[{"type":"text","text":"the arguments are not JSON"}],"is_error":true,"cache_control":{"type":"ephemeral"}}]}
    - {"role":"assistant","content":[{"type":"text","text":"It is sunny in Bern."}]}
    - {"role":"user","content":[{"type":"text","text":"Thanks!","cache_control":{"type":"ephemeral"}}]}
    "#);
}

#[tokio::test]
async fn without_a_cache_nothing_is_marked_and_without_tools_none_are_mentioned() {
    let (server, _) = scripted("custom", WIRE, []).await;
    let mut settings = crate::talk::settings(&server, "custom", WIRE);
    settings.prompt_cache = false;
    let model = settings.connect().unwrap();
    let messages = [Message::new(Role::User, "hello")];
    let mut request = Request::new(&messages);
    request.system = Some("Be brief.");
    // The script of the model is empty: only the request matters.
    let _ = model.complete(request.clone()).await;
    insta::assert_snapshot!(server.last_body(), @r#"{"model":"some-model","max_tokens":8192,"system":[{"type":"text","text":"Be brief."}],"messages":[{"role":"user","content":[{"type":"text","text":"hello"}]}]}"#);
    let tools = tools(WIRE);
    request.tools = Some(&tools);
    let _ = model.complete(request).await;
    assert!(server.requests()[1].body.contains(tools.json().get()), "the bytes that they were");
    assert_eq!(server.requests()[0].path, "/v1/messages");
    assert_eq!(server.requests()[0].header("x-api-key"), Some("sk-secret-0123456789"));
    assert_eq!(server.requests()[0].header("anthropic-version"), Some("2023-06-01"));
}

#[tokio::test]
async fn ids_and_parts_that_it_would_refuse_are_sent_otherwise() {
    let pdf = toolrack_host::mcp::ResourceContents {
        uri: "file:///a.pdf".into(),
        mime_type: Some("application/pdf".into()),
        text: None,
        blob: Some("JVBERi0=".into()),
    };
    let messages = [
        Message::new(Role::User, "").with_parts([
            toolrack_host::Content::Image { data: "Qk02AAAAAAAA".into(), mime_type: "image/bmp".into() },
            toolrack_host::Content::Audio { data: "AAAA".into(), mime_type: "audio/wav".into() },
            toolrack_host::Content::Resource { resource: pdf },
        ]),
        Message::new(Role::Assistant, "  \n").with_tool_calls(vec![crate::talk::call(
            "functions.weather:0",
            "w",
            "Bern",
        )]),
        Message::tool_result("functions.weather:0", ""),
        Message::new(Role::Assistant, ""),
        Message::new(Role::User, "go on"),
    ];
    let body = sent(|settings| settings.prompt_cache = false, WIRE, Request::new(&messages)).await;
    insta::assert_snapshot!(pretty(&body["messages"]), @r#"
    [
      {
        "role": "user",
        "content": [
          {
            "type": "text",
            "text": "[a picture, image/bmp, 9 bytes: it cannot be shown to this model]"
          },
          {
            "type": "text",
            "text": "[a sound, audio/wav, 3 bytes: it cannot be shown to this model]"
          },
          {
            "type": "document",
            "source": {
              "type": "base64",
              "media_type": "application/pdf",
              "data": "JVBERi0="
            }
          }
        ]
      },
      {
        "role": "assistant",
        "content": [
          {
            "type": "tool_use",
            "id": "c8cf447133ca3362a9892ed9",
            "name": "w",
            "input": {
              "city": "Bern"
            }
          }
        ]
      },
      {
        "role": "user",
        "content": [
          {
            "type": "tool_result",
            "tool_use_id": "c8cf447133ca3362a9892ed9"
          },
          {
            "type": "text",
            "text": "go on"
          }
        ]
      }
    ]
    "#);
}

const THINKING: [&str; 16] = [
    r#"{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","content":[],"usage":{"input_tokens":10,"cache_read_input_tokens":100,"cache_creation_input_tokens":5,"output_tokens":1}}}"#,
    r#"{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}"#,
    r#"{"type":"ping"}"#,
    r#"{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"Two "}}"#,
    r#"{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"cities."}}"#,
    r#"{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"EqRk"}}"#,
    r#"{"type":"content_block_stop","index":0}"#,
    r#"{"type":"content_block_start","index":1,"content_block":{"type":"redacted_thinking","data":"b64=="}}"#,
    r#"{"type":"content_block_start","index":2,"content_block":{"type":"text","text":""}}"#,
    r#"{"type":"content_block_delta","index":2,"delta":{"type":"text_delta","text":"Let me see."}}"#,
    r#"{"type":"content_block_start","index":3,"content_block":{"type":"tool_use","id":"toolu_1","name":"weather","input":{}}}"#,
    r#"{"type":"content_block_start","index":4,"content_block":{"type":"tool_use","id":"toolu_2","name":"weather"}}"#,
    r#"{"type":"content_block_delta","index":4,"delta":{"type":"input_json_delta","partial_json":"{\"city\":\"Rome\"}"}}"#,
    r#"{"type":"content_block_delta","index":3,"delta":{"type":"input_json_delta","partial_json":"{\"city\":\"Bern\"}"}}"#,
    r#"{"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"output_tokens":50}}"#,
    r#"{"type":"message_stop"}"#,
];

#[tokio::test]
async fn thinking_text_and_parallel_calls_are_streamed_and_stored_in_order() {
    let complete_answer = json!({"type": "message", "role": "assistant", "content": [
        {"type": "thinking", "thinking": "Two cities.", "signature": "EqRk"},
        {"type": "redacted_thinking", "data": "b64=="},
        {"type": "text", "text": "Let me see."},
        {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {"city": "Bern"}},
        {"type": "tool_use", "id": "toolu_2", "name": "weather", "input": {"city": "Rome"}},
    ], "stop_reason": "tool_use", "usage": {"input_tokens": 10, "cache_read_input_tokens": 100,
        "cache_creation_input_tokens": 5, "output_tokens": 50}});
    insta::assert_snapshot!(transcript("custom", WIRE, &THINKING, Some(complete_answer)).await, @r#"
    usage in 115 (100 read, 5 written) out 1 (0 thinking)
    thinking "Two "
    thinking "cities."
    text "Let me see."
    call 0 toolu_1 weather
    call 1 toolu_2 weather
    arguments 1 {"city":"Rome"}
    arguments 0 {"city":"Bern"}
    usage in 115 (100 read, 5 written) out 50 (0 thinking)
    ToolCalls {
      "role": "assistant",
      "content": "Let me see.",
      "tool_calls": [
        {
          "id": "toolu_1",
          "name": "weather",
          "input": {
            "city": "Bern"
          }
        },
        {
          "id": "toolu_2",
          "name": "weather",
          "input": {
            "city": "Rome"
          }
        }
      ],
      "blocks": {
        "wire": "anthropic",
        "model": "some-model",
        "blocks": [
          {
            "raw": {
              "type": "thinking",
              "thinking": "Two cities.",
              "signature": "EqRk"
            }
          },
          {
            "raw": {
              "type": "redacted_thinking",
              "data": "b64=="
            }
          },
          {
            "text": {
              "bytes": 11
            }
          },
          {
            "call": {}
          },
          {
            "call": {}
          }
        ]
      }
    }
    "#);
}

#[tokio::test]
async fn impossible_counts_do_not_end_the_answer() {
    let mut events = THINKING;
    events[0] = r#"{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","content":[],"usage":{"input_tokens":10,"cache_read_input_tokens":18446744073709551615,"cache_creation_input_tokens":5,"output_tokens":1}}}"#;
    let (_server, model) = scripted("custom", WIRE, [Answer::events(events)]).await;
    let messages = [Message::new(Role::User, "hello")];
    let (_, reply) = streamed(&*model, Request::new(&messages)).await;
    assert_eq!(reply.unwrap().message.content, "Let me see.");
}

#[tokio::test]
async fn thinking_is_sent_back_unchanged_before_the_calls_to_the_same_model_only() {
    let (_server, model) = scripted("custom", WIRE, [Answer::events(THINKING)]).await;
    let mut messages = vec![Message::new(Role::User, "hello")];
    messages.push(streamed(&*model, Request::new(&messages)).await.1.unwrap().message);
    // The message as a database returns it.
    let stored = serde_json::to_string(&messages).unwrap();
    let messages: Vec<Message> = serde_json::from_str(&stored).unwrap();
    let body = sent(NO_CHANGE, WIRE, Request::new(&messages)).await;
    insta::assert_snapshot!(pretty(&body["messages"][1]["content"]), @r#"
    [
      {
        "type": "thinking",
        "thinking": "Two cities.",
        "signature": "EqRk"
      },
      {
        "type": "redacted_thinking",
        "data": "b64=="
      },
      {
        "type": "text",
        "text": "Let me see."
      },
      {
        "type": "tool_use",
        "id": "toolu_1",
        "name": "weather",
        "input": {
          "city": "Bern"
        }
      },
      {
        "type": "tool_use",
        "id": "toolu_2",
        "name": "weather",
        "input": {
          "city": "Rome"
        }
      }
    ]
    "#);
    let body = sent(|settings| settings.model = "other".into(), WIRE, Request::new(&messages)).await;
    let kinds: Vec<_> = body["messages"][1]["content"].as_array().unwrap().iter().map(|b| b["type"].clone()).collect();
    assert_eq!(kinds, ["text", "tool_use", "tool_use"]);
}

#[tokio::test]
async fn thinking_that_the_limit_cut_is_not_sent_back() {
    let events = [
        r#"{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}"#,
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"Two ci"}}"#,
        r#"{"type":"message_delta","delta":{"stop_reason":"max_tokens"}}"#,
        r#"{"type":"message_stop"}"#,
    ];
    let complete_answer = json!({"type": "message", "role": "assistant", "content": [
        {"type": "thinking", "thinking": "Two ci", "signature": ""},
    ], "stop_reason": "max_tokens"});
    insta::assert_snapshot!(transcript("custom", WIRE, &events, Some(complete_answer)).await, @r#"
    thinking "Two ci"
    Length {
      "role": "assistant",
      "content": ""
    }
    "#);
}

#[tokio::test]
async fn a_usage_that_cannot_be_read_costs_no_answer() {
    let mut events = THINKING;
    events[14] = r#"{"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":"50"}}"#;
    let (_server, model) = scripted("custom", WIRE, [Answer::events(events)]).await;
    let messages = [Message::new(Role::User, "hello")];
    let reply = streamed(&*model, Request::new(&messages)).await.1.unwrap();
    assert_eq!((&*reply.message.content, reply.usage.output), ("Let me see.", 1));
}

#[tokio::test]
async fn a_message_that_was_changed_keeps_its_thinking_in_front() {
    let (_server, model) = scripted("custom", WIRE, [Answer::events(THINKING)]).await;
    let mut messages = vec![Message::new(Role::User, "hello")];
    let mut message = streamed(&*model, Request::new(&messages)).await.1.unwrap().message;
    message.content = "Shorter".into();
    messages.push(message);
    let body = sent(NO_CHANGE, WIRE, Request::new(&messages)).await;
    let kinds: Vec<_> = body["messages"][1]["content"].as_array().unwrap().iter().map(|b| b["type"].clone()).collect();
    assert_eq!(kinds, ["thinking", "redacted_thinking", "text", "tool_use", "tool_use"]);
}

#[tokio::test]
async fn blocks_of_the_provider_s_own_tools_are_stored_with_their_input() {
    let events = [
        r#"{"type":"content_block_start","index":0,"content_block":{"type":"server_tool_use","id":"srv_1","name":"web_search","input":{}}}"#,
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{\"query\":"}}"#,
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"\"x\"}"}}"#,
        r#"{"type":"content_block_stop","index":0}"#,
        r#"{"type":"content_block_start","index":1,"content_block":{"type":"text","text":"Found"}}"#,
        r#"{"type":"a_kind_of_tomorrow"}"#,
        r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"}}"#,
    ];
    insta::assert_snapshot!(transcript("custom", WIRE, &events, None).await, @r#"
    text "Found"
    End {
      "role": "assistant",
      "content": "Found",
      "blocks": {
        "wire": "anthropic",
        "model": "some-model",
        "blocks": [
          {
            "raw": {
              "type": "server_tool_use",
              "id": "srv_1",
              "name": "web_search",
              "input": {
                "query": "x"
              }
            }
          },
          {
            "text": {
              "bytes": 5
            }
          }
        ]
      }
    }
    "#);
}

#[tokio::test]
async fn every_reason_to_stop_is_known() {
    for (reason, expected) in [
        ("end_turn", "End"),
        ("stop_sequence", "End"),
        ("max_tokens", "Length"),
        ("model_context_window_exceeded", "Length"),
        ("refusal", "Refusal"),
        ("pause_turn", "Other(\"pause_turn\")"),
    ] {
        let event = format!(r#"{{"type":"message_delta","delta":{{"stop_reason":"{reason}"}}}}"#);
        let deltas_text = transcript("custom", WIRE, &[&event, r#"{"type":"message_stop"}"#], None).await;
        assert!(deltas_text.starts_with(expected), "{reason}: {deltas_text}");
    }
}
