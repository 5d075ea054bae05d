use serde_json::json;
use toolrack_agent::{
    Delta, Message, Request, Role, Stop,
    model::{ModelSettings, Wire},
};
use toolrack_testkit::model::Answer;

use crate::talk::{conversation, full_request, lines, pretty, scripted, sent, streamed, tools, transcript};

const WIRE: Wire = Wire::OpenAiResponses;
const NO_CHANGE: fn(&mut ModelSettings) = |_| {};

#[tokio::test]
async fn a_conversation_is_sent_in_the_format_of_responses() {
    let messages = conversation();
    let tools = tools(WIRE);
    let request = full_request(&messages, &tools);
    insta::assert_snapshot!(lines(&sent(NO_CHANGE, WIRE, request).await), @r#"
    model: "some-model"
    store: false
    include:
    - "reasoning.encrypted_content"
    max_output_tokens: 500
    temperature: 0.5
    stream: true
    tools:
    - {"type":"function","name":"mcp__sky__weather","description":"The weather in a city","parameters":{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]},"strict":false}
    - {"type":"function","name":"mcp__clock__now","description":"MCP tool from clock","parameters":{"type":"object","properties":{}},"strict":false}
    instructions: "You are a guide.\n\nBe brief."
    input:
    - {"type":"message","role":"user","content":[{"type":"input_text","text":"What is this, and how is the weather there?"},{"type":"input_image","image_url":"data:image/png;base64,iVBORw0KGgo=","detail":"auto"}]}
    - {"type":"message","role":"assistant","content":[{"type":"output_text","text":"Let me see."}]}
    - {"type":"function_call","call_id":"call_a","name":"mcp__sky__weather","arguments":"{\"city\":\"Bern\"}"}
    - {"type":"function_call","call_id":"call_b","name":"mcp__sky__weather","arguments":"{\"city\":\"Atlantis\"}"}
    - {"type":"function_call_output","call_id":"call_a","output":[{"type":"input_text","text":"sunny"},{"type":"input_image","image_url":"data:image/png;base64,iVBORw0KGgo=","detail":"auto"}]}
    - {"type":"function_call_output","call_id":"call_b","output":[{"type":"input_text","text":"Error: no such city"},{"type":"input_image","image_url":"data:image/png;base64,iVBORw0KGgo=","detail":"auto"}]}
    - {"type":"function_call","call_id":"call_c","name":"mcp__clock__now","arguments":"{}"}
    - {"type":"function_call_output","call_id":"call_c","output":"Error: the arguments are not JSON"}
    - {"type":"message","role":"assistant","content":[{"type":"output_text","text":"It is sunny in Bern."}]}
    - {"type":"message","role":"user","content":[{"type":"input_text","text":"Thanks!"}]}
    "#);
}

#[tokio::test]
async fn a_request_without_tools_or_thinking_mentions_neither() {
    let (server, _) = scripted("custom", WIRE, []).await;
    let mut settings = crate::talk::settings(&server, "openai", WIRE);
    settings.model = "gpt-4.1-mini".into();
    let model = settings.connect().unwrap();
    let messages = [Message::new(Role::User, "hello")];
    // The script of the model is empty: only the request matters.
    let _ = model.complete(Request::new(&messages)).await;
    insta::assert_snapshot!(server.last_body(), @r#"{"model":"gpt-4.1-mini","store":false,"input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"hello"}]}]}"#);
    assert_eq!(server.requests()[0].path, "/v1/responses");
    assert_eq!(server.requests()[0].header("authorization"), Some("Bearer sk-secret-0123456789"));
}

const THINKING: [&str; 17] = [
    r#"{"type":"response.created","response":{"status":"in_progress","output":[],"error":null}}"#,
    r#"{"type":"response.output_item.added","output_index":0,"item":{"type":"reasoning","id":"rs_1","summary":[]}}"#,
    r#"{"type":"response.reasoning_summary_part.added","output_index":0,"summary_index":0}"#,
    r#"{"type":"response.reasoning_summary_text.delta","output_index":0,"summary_index":0,"delta":"Two cities."}"#,
    r#"{"type":"response.output_item.done","output_index":0,"item":{"type":"reasoning","id":"rs_1","summary":[{"type":"summary_text","text":"Two cities."}],"encrypted_content":"gAAA"}}"#,
    r#"{"type":"response.output_item.added","output_index":1,"item":{"type":"message","id":"msg_1","role":"assistant","content":[]}}"#,
    r#"{"type":"response.output_text.delta","output_index":1,"content_index":0,"delta":"Let me "}"#,
    r#"{"type":"response.output_text.delta","output_index":1,"content_index":0,"delta":"see."}"#,
    r#"{"type":"response.output_item.done","output_index":1,"item":{"type":"message","id":"msg_1","role":"assistant","phase":"commentary","content":[{"type":"output_text","text":"Let me see."}]}}"#,
    r#"{"type":"response.output_item.added","output_index":2,"item":{"type":"function_call","id":"fc_1","call_id":"call_1","name":"weather","arguments":""}}"#,
    r#"{"type":"response.output_item.added","output_index":3,"item":{"type":"function_call","id":"fc_2","call_id":"call_2","name":"weather","arguments":""}}"#,
    r#"{"type":"response.function_call_arguments.delta","output_index":3,"delta":"{\"city\":"}"#,
    r#"{"type":"response.function_call_arguments.delta","output_index":2,"delta":"{\"city\":\"Bern\"}"}"#,
    r#"{"type":"response.function_call_arguments.delta","output_index":3,"delta":"\"Rome\"}"}"#,
    r#"{"type":"response.function_call_arguments.done","output_index":3,"arguments":"{\"city\":\"Rome\"}"}"#,
    r#"{"type":"response.output_item.done","output_index":2,"item":{"type":"function_call","id":"fc_1","call_id":"call_1","name":"weather","arguments":"{\"city\":\"Bern\"}"}}"#,
    r#"{"type":"response.completed","response":{"status":"completed","error":null,"output":[],"usage":{"input_tokens":30,"output_tokens":12,"input_tokens_details":{"cached_tokens":8},"output_tokens_details":{"reasoning_tokens":5}}}}"#,
];

#[tokio::test]
async fn reasoning_text_and_parallel_calls_are_streamed_and_stored_in_order() {
    let complete_answer = json!({"status": "completed", "error": null, "output": [
        {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "Two cities."}], "encrypted_content": "gAAA"},
        {"type": "message", "id": "msg_1", "role": "assistant", "phase": "commentary", "content": [{"type": "output_text", "text": "Let me see."}]},
        {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "weather", "arguments": "{\"city\":\"Bern\"}"},
        {"type": "function_call", "id": "fc_2", "call_id": "call_2", "name": "weather", "arguments": "{\"city\":\"Rome\"}"},
    ], "usage": {"input_tokens": 30, "output_tokens": 12, "input_tokens_details": {"cached_tokens": 8},
        "output_tokens_details": {"reasoning_tokens": 5}}});
    insta::assert_snapshot!(transcript("custom", WIRE, &THINKING, Some(complete_answer)).await, @r#"
    thinking "Two cities."
    text "Let me "
    text "see."
    call 0 call_1 weather
    call 1 call_2 weather
    arguments 1 {"city":
    arguments 0 {"city":"Bern"}
    arguments 1 "Rome"}
    usage in 30 (8 read, 0 written) out 12 (5 thinking)
    ToolCalls {
      "role": "assistant",
      "content": "Let me see.",
      "tool_calls": [
        {
          "id": "call_1",
          "name": "weather",
          "input": {
            "city": "Bern"
          }
        },
        {
          "id": "call_2",
          "name": "weather",
          "input": {
            "city": "Rome"
          }
        }
      ],
      "blocks": {
        "wire": "openai-responses",
        "model": "some-model",
        "blocks": [
          {
            "raw": {
              "type": "reasoning",
              "id": "rs_1",
              "summary": [
                {
                  "type": "summary_text",
                  "text": "Two cities."
                }
              ],
              "encrypted_content": "gAAA"
            }
          },
          {
            "text": {
              "bytes": 11,
              "with": {
                "phase": "commentary"
              }
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
async fn encrypted_reasoning_is_sent_back_unchanged_to_the_same_model_only() {
    let (_server, model) = scripted("custom", WIRE, [Answer::events(THINKING)]).await;
    let mut messages = vec![Message::new(Role::User, "hello")];
    messages.push(streamed(&*model, Request::new(&messages)).await.1.unwrap().message);
    let body = sent(NO_CHANGE, WIRE, Request::new(&messages)).await;
    insta::assert_snapshot!(pretty(&body["input"]), @r#"
    [
      {
        "type": "message",
        "role": "user",
        "content": [
          {
            "type": "input_text",
            "text": "hello"
          }
        ]
      },
      {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [
          {
            "type": "summary_text",
            "text": "Two cities."
          }
        ],
        "encrypted_content": "gAAA"
      },
      {
        "type": "message",
        "role": "assistant",
        "content": [
          {
            "type": "output_text",
            "text": "Let me see."
          }
        ],
        "phase": "commentary"
      },
      {
        "type": "function_call",
        "call_id": "call_1",
        "name": "weather",
        "arguments": "{\"city\":\"Bern\"}"
      },
      {
        "type": "function_call",
        "call_id": "call_2",
        "name": "weather",
        "arguments": "{\"city\":\"Rome\"}"
      }
    ]
    "#);
    let body = sent(|settings| settings.model = "other".into(), WIRE, Request::new(&messages)).await;
    let kinds: Vec<_> = body["input"].as_array().unwrap().iter().map(|item| item["type"].clone()).collect();
    assert_eq!(kinds, ["message", "message", "function_call", "function_call"]);
    assert_eq!(body["input"][1].get("phase"), None);
}

#[tokio::test]
async fn reasoning_that_was_stored_nowhere_is_not_referred_to() {
    let events = [
        r#"{"type":"response.output_item.done","output_index":0,"item":{"type":"reasoning","id":"rs_1","summary":[]}}"#,
        r#"{"type":"response.output_item.done","output_index":1,"item":{"type":"message","content":[{"type":"output_text","text":"Hi"}]}}"#,
        r#"{"type":"response.completed","response":{"status":"completed"}}"#,
    ];
    insta::assert_snapshot!(transcript("custom", WIRE, &events, None).await, @r#"
    text "Hi"
    End {
      "role": "assistant",
      "content": "Hi"
    }
    "#);
}

#[tokio::test]
async fn reasoning_before_the_place_where_the_answer_was_cut_is_not_sent_back() {
    let events = [
        THINKING[4],
        r#"{"type":"response.incomplete","response":{"status":"incomplete","incomplete_details":{"reason":"max_output_tokens"}}}"#,
    ];
    let (_server, model) = scripted("custom", WIRE, [Answer::events(events)]).await;
    let mut messages = vec![Message::new(Role::User, "hello")];
    messages.push(streamed(&*model, Request::new(&messages)).await.1.unwrap().message);
    messages.push(Message::new(Role::User, "go on"));
    let body = sent(NO_CHANGE, WIRE, Request::new(&messages)).await;
    let roles: Vec<_> = body["input"].as_array().unwrap().iter().map(|item| item["role"].clone()).collect();
    assert_eq!(roles, ["user", "user"]);
}

#[tokio::test]
async fn a_server_that_says_ids_instead_of_places_is_understood() {
    // As llama.cpp streams.
    let events = [
        r#"{"type":"response.output_item.added","item":{"type":"function_call","id":"fc_1","call_id":"fc_1","name":"add","arguments":"","status":"in_progress"}}"#,
        r#"{"type":"response.function_call_arguments.delta","item_id":"fc_1","delta":"{\"a\":1"}"#,
        r#"{"type":"response.function_call_arguments.delta","item_id":"fc_1","delta":"}"}"#,
        r#"{"type":"response.output_item.done","item":{"type":"function_call","id":"fc_1","call_id":"fc_1","name":"add","arguments":"{\"a\":1}"}}"#,
        r#"{"type":"response.completed","response":{"status":"completed","output":[{"type":"function_call","call_id":"fc_1","name":"add","arguments":"{\"a\":1}"}]}}"#,
    ];
    insta::assert_snapshot!(transcript("custom", WIRE, &events, None).await, @r#"
    call 0 fc_1 add
    arguments 0 {"a":1
    arguments 0 }
    ToolCalls {
      "role": "assistant",
      "content": "",
      "tool_calls": [
        {
          "id": "fc_1",
          "name": "add",
          "input": {
            "a": 1
          }
        }
      ]
    }
    "#);
}

#[tokio::test]
async fn a_refusal_stops_with_its_reason() {
    let events = [
        r#"{"type":"response.output_item.added","output_index":0,"item":{"type":"message","content":[]}}"#,
        r#"{"type":"response.refusal.delta","output_index":0,"delta":"I cannot."}"#,
        r#"{"type":"response.completed","response":{"status":"completed"}}"#,
    ];
    let complete_answer = json!({"status": "completed", "output": [{"type": "message", "content": [{"type": "refusal", "refusal": "I cannot."}]}]});
    insta::assert_snapshot!(transcript("custom", WIRE, &events, Some(complete_answer)).await, @r#"
    text "I cannot."
    Refusal {
      "role": "assistant",
      "content": "I cannot."
    }
    "#);
}

#[tokio::test]
async fn answers_that_are_incomplete_say_why() {
    for (reason, expected) in
        [("max_output_tokens", Stop::Length), ("content_filter", Stop::Refusal), ("whim", Stop::Other("whim".into()))]
    {
        let event = format!(
            r#"{{"type":"response.incomplete","response":{{"status":"incomplete","incomplete_details":{{"reason":"{reason}"}},"output":[]}}}}"#
        );
        let (_server, model) = scripted("custom", WIRE, [Answer::events([event.as_str()])]).await;
        let messages = [Message::new(Role::User, "hello")];
        assert_eq!(streamed(&*model, Request::new(&messages)).await.1.unwrap().stop, expected);
    }
}

#[tokio::test]
async fn a_response_that_failed_is_an_error() {
    let failed = json!({"status": "failed", "error": {"code": "server_error", "message": "Try later"}, "output": []});
    let event = json!({"type": "response.failed", "response": failed}).to_string();
    let plain_event = r#"{"type":"error","code":"server_error","message":"Try later","param":null}"#;
    let messages = [Message::new(Role::User, "hello")];
    for answer in [Answer::events([event.as_str()]), Answer::events([plain_event]), Answer::json(200, &failed)] {
        let (_server, model) = scripted("custom", WIRE, [answer]).await;
        let (deltas, reply) = streamed(&*model, Request::new(&messages)).await;
        assert_eq!(deltas, Vec::<Delta>::new());
        assert_eq!(
            reply.unwrap_err().to_string(),
            "custom/some-model: the provider reported an error in place of the rest of its answer: Try later"
        );
    }
}
