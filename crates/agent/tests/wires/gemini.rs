use serde_json::json;
use toolrack_agent::{
    Message, Request, Role, Stop,
    model::{ModelSettings, Wire},
};
use toolrack_testkit::model::Answer;

use crate::talk::{conversation, full_request, lines, pretty, scripted, sent, streamed, tools, transcript};

const WIRE: Wire = Wire::Gemini;
const NO_CHANGE: fn(&mut ModelSettings) = |_| {};

#[tokio::test]
async fn a_conversation_is_sent_in_the_format_of_generate_content() {
    let messages = conversation();
    let tools = tools(WIRE);
    let extra = json!({"generationConfig": {"thinkingConfig": {"includeThoughts": true}}});
    let mut request = full_request(&messages, &tools);
    request.extra_body = extra.as_object();
    insta::assert_snapshot!(lines(&sent(NO_CHANGE, WIRE, request).await), @r#"
    generationConfig: {"maxOutputTokens":500,"temperature":0.5,"thinkingConfig":{"includeThoughts":true}}
    tools:
    - {"functionDeclarations":[{"name":"mcp__sky__weather","description":"The weather in a city","parameters":{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}},{"name":"mcp__clock__now","description":"MCP tool from clock"}]}
    systemInstruction: {"parts":[{"text":"You are a guide.\n\nBe brief."}]}
    contents:
    - {"role":"user","parts":[{"text":"What is this, and how is the weather there?"},{"inlineData":{"mimeType":"image/png","data":"iVBORw0KGgo="}}]}
    - {"role":"model","parts":[{"text":"Let me see."},{"functionCall":{"name":"mcp__sky__weather","args":{"city":"Bern"}},"thoughtSignature":"skip_thought_signature_validator"},{"functionCall":{"name":"mcp__sky__weather","args":{"city":"Atlantis"}}}]}
    - {"role":"user","parts":[{"functionResponse":{"name":"mcp__sky__weather","response":{"result":"sunny"}}},{"functionResponse":{"name":"mcp__sky__weather","response":{"error":"no such city"}}},{"inlineData":{"mimeType":"image/png","data":"iVBORw0KGgo="}},{"inlineData":{"mimeType":"image/png","data":"iVBORw0KGgo="}}]}
    - {"role":"model","parts":[{"functionCall":{"name":"mcp__clock__now","args":{}},"thoughtSignature":"skip_thought_signature_validator"}]}
    - {"role":"user","parts":[{"functionResponse":{"name":"mcp__clock__now","response":{"error":"the arguments are not JSON"}}}]}
    - {"role":"model","parts":[{"text":"It is sunny in Bern."}]}
    - {"role":"user","parts":[{"text":"Thanks!"}]}
    "#);
}

#[tokio::test]
async fn media_that_it_would_refuse_are_described() {
    let content = |kind: &str, data: &str, mime_type: &str| -> toolrack_host::Content {
        serde_json::from_value(json!({"type": kind, "data": data, "mimeType": mime_type})).unwrap()
    };
    let parts = [
        content("image", "R0lGODlh", "image/gif"),
        content("audio", "TVRoZAAA", "audio/midi"),
        content("audio", "AAAA", "audio/wav"),
    ];
    let messages = [Message::new(Role::User, "").with_parts(parts)];
    let body = sent(NO_CHANGE, WIRE, Request::new(&messages)).await;
    insta::assert_snapshot!(lines(&json!({"parts": body["contents"][0]["parts"]})), @r#"
    parts:
    - {"text":"[a picture, image/gif, 6 bytes: it cannot be shown to this model]"}
    - {"text":"[a sound, audio/midi, 6 bytes: it cannot be shown to this model]"}
    - {"inlineData":{"mimeType":"audio/wav","data":"AAAA"}}
    "#);
}

#[tokio::test]
async fn the_model_is_in_the_url_and_a_request_without_tools_mentions_none() {
    let (server, _) = scripted("custom", WIRE, []).await;
    let mut settings = crate::talk::settings(&server, "gemini", WIRE);
    settings.model = "models/gemini-3.5-flash".into();
    let model = settings.connect().unwrap();
    let messages = [Message::new(Role::User, "hello")];
    // The script of the model is empty: only the request matters.
    let _ = model.complete(Request::new(&messages)).await;
    let _ = streamed(&*model, Request::new(&messages)).await;
    insta::assert_snapshot!(server.last_body(), @r#"{"contents":[{"role":"user","parts":[{"text":"hello"}]}]}"#);
    assert_eq!(server.requests()[0].path, "/v1beta/models/gemini-3.5-flash:generateContent");
    assert_eq!(server.requests()[1].path, "/v1beta/models/gemini-3.5-flash:streamGenerateContent?alt=sse");
    assert_eq!(server.requests()[0].header("x-goog-api-key"), Some("sk-secret-0123456789"));
}

const THINKING: [&str; 5] = [
    r#"{"candidates":[{"content":{"role":"model","parts":[{"text":"Two cities.","thought":true}]},"index":0}],"usageMetadata":{"promptTokenCount":30}}"#,
    r#"{"candidates":[{"content":{"role":"model","parts":[{"text":"Let me "}]},"index":0}]}"#,
    r#"{"candidates":[{"content":{"role":"model","parts":[{"text":"see."},{"functionCall":{"name":"weather","args":{"city":"Bern"}},"thoughtSignature":"c2ln"}]},"index":0}]}"#,
    r#"{"candidates":[{"content":{"role":"model","parts":[{"functionCall":{"id":"theirs","name":"weather","args":{"city":"Rome"}}},{"text":"","thoughtSignature":"ZW5k"}]},"index":0}]}"#,
    r#"{"candidates":[{"finishReason":"STOP","index":0}],"usageMetadata":{"promptTokenCount":30,"candidatesTokenCount":7,"thoughtsTokenCount":5,"cachedContentTokenCount":8}}"#,
];

#[tokio::test]
async fn thoughts_text_and_parallel_calls_are_streamed_and_stored_in_order() {
    let complete_answer = json!({"candidates": [{"content": {"role": "model", "parts": [
        {"text": "Two cities.", "thought": true},
        {"text": "Let me see."},
        {"functionCall": {"name": "weather", "args": {"city": "Bern"}}, "thoughtSignature": "c2ln"},
        {"functionCall": {"id": "theirs", "name": "weather", "args": {"city": "Rome"}}},
        {"text": "", "thoughtSignature": "ZW5k"},
    ]}, "finishReason": "STOP"}], "usageMetadata": {"promptTokenCount": 30, "candidatesTokenCount": 7,
        "thoughtsTokenCount": 5, "cachedContentTokenCount": 8}});
    insta::assert_snapshot!(transcript("custom", WIRE, &THINKING, Some(complete_answer)).await, @r#"
    thinking "Two cities."
    usage in 30 (0 read, 0 written) out 0 (0 thinking)
    text "Let me "
    text "see."
    call 0 call_1_0 weather
    arguments 0 {"city":"Bern"}
    call 1 theirs weather
    arguments 1 {"city":"Rome"}
    usage in 30 (8 read, 0 written) out 12 (5 thinking)
    ToolCalls {
      "role": "assistant",
      "content": "Let me see.",
      "tool_calls": [
        {
          "id": "call_1_0",
          "name": "weather",
          "input": {
            "city": "Bern"
          }
        },
        {
          "id": "theirs",
          "name": "weather",
          "input": {
            "city": "Rome"
          }
        }
      ],
      "blocks": {
        "wire": "gemini",
        "model": "some-model",
        "blocks": [
          {
            "text": {
              "bytes": 11
            }
          },
          {
            "call": {
              "with": {
                "thoughtSignature": "c2ln"
              }
            }
          },
          {
            "call": {
              "with": {
                "id": "theirs"
              }
            }
          },
          {
            "text": {
              "bytes": 0,
              "with": {
                "thoughtSignature": "ZW5k"
              }
            }
          }
        ]
      }
    }
    "#);
}

#[tokio::test]
async fn signatures_are_sent_back_in_place_to_the_same_model_only() {
    let (_server, model) = scripted("custom", WIRE, [Answer::events(THINKING)]).await;
    let mut messages = vec![Message::new(Role::User, "hello")];
    messages.push(streamed(&*model, Request::new(&messages)).await.1.unwrap().message);
    messages.push(Message::tool_result("call_1_0", "sunny"));
    messages.push(Message::tool_error("theirs", "no such city"));
    let body = sent(NO_CHANGE, WIRE, Request::new(&messages)).await;
    insta::assert_snapshot!(pretty(&body["contents"]), @r#"
    [
      {
        "role": "user",
        "parts": [
          {
            "text": "hello"
          }
        ]
      },
      {
        "role": "model",
        "parts": [
          {
            "text": "Let me see."
          },
          {
            "functionCall": {
              "name": "weather",
              "args": {
                "city": "Bern"
              }
            },
            "thoughtSignature": "c2ln"
          },
          {
            "functionCall": {
              "name": "weather",
              "args": {
                "city": "Rome"
              },
              "id": "theirs"
            }
          },
          {
            "text": "",
            "thoughtSignature": "ZW5k"
          }
        ]
      },
      {
        "role": "user",
        "parts": [
          {
            "functionResponse": {
              "name": "weather",
              "response": {
                "result": "sunny"
              }
            }
          },
          {
            "functionResponse": {
              "name": "weather",
              "response": {
                "error": "no such city"
              },
              "id": "theirs"
            }
          }
        ]
      }
    ]
    "#);
    for (other, signature) in [
        ("gemini-3-other", json!("skip_thought_signature_validator")),
        ("gemini-2.5-pro", json!(null)),
        ("models/gemini-2.5-pro", json!(null)),
    ] {
        let body = sent(|settings| settings.model = other.into(), WIRE, Request::new(&messages)).await;
        let parts = &body["contents"][1]["parts"];
        assert_eq!(parts[1]["thoughtSignature"], signature, "{other}");
        assert_eq!(parts[2]["thoughtSignature"], json!(null), "{other}");
        assert_eq!(parts[2]["functionCall"].get("id"), None, "{other}");
    }
}

#[tokio::test]
async fn a_usage_that_cannot_be_read_costs_no_answer() {
    let event = r#"{"candidates":[{"content":{"parts":[{"text":"Hi"}]},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":3,"cachedContentTokenCount":null}}"#;
    let (_server, model) = scripted("custom", WIRE, [Answer::events([event])]).await;
    let messages = [Message::new(Role::User, "hello")];
    assert_eq!(streamed(&*model, Request::new(&messages)).await.1.unwrap().message.content, "Hi");
}

#[tokio::test]
async fn a_refusal_is_one_and_every_reason_is_known() {
    for (event, expected) in [
        (r#"{"promptFeedback":{"blockReason":"SAFETY"}}"#, Stop::Refusal),
        (r#"{"candidates":[{"finishReason":"SAFETY"}]}"#, Stop::Refusal),
        (r#"{"candidates":[{"finishReason":"MAX_TOKENS"}]}"#, Stop::Length),
        (r#"{"candidates":[{"finishReason":"STOP"}]}"#, Stop::End),
        (
            r#"{"candidates":[{"finishReason":"MALFORMED_FUNCTION_CALL","finishMessage":"print(x)"}]}"#,
            Stop::Other("MALFORMED_FUNCTION_CALL: print(x)".into()),
        ),
    ] {
        let (_server, model) = scripted("custom", WIRE, [Answer::events([event])]).await;
        let messages = [Message::new(Role::User, "hello")];
        assert_eq!(streamed(&*model, Request::new(&messages)).await.1.unwrap().stop, expected, "{event}");
    }
}
