//! Checks properties that hold for any bytes of a provider. The crate `fuzz/` and a test call this module, which is not
//! part of the public API.

use std::{collections::VecDeque, sync::Arc};

use serde_json::Value;
use toolrack_host::sse::SseParser;

use super::{
    Delta, ModelErrorKind, ModelSettings, Reply, Request, Stop, Wire,
    draft::{self, Deltas},
    online::{self, Adapter, Decode, DecodeError, Progress},
    provider,
};
use crate::message::{Message, Role, ToolCallData};

/// The maximum size of an event, in bytes. It is small, so that some inputs exceed it.
const MAX_EVENT_BYTES: usize = 64 * 1024;
const MODEL: &str = "some-model";

/// Decodes an answer. The first byte chooses the wire (the API format of a provider); the rest is decoded as a stream,
/// and then as a whole answer.
pub fn answers(data: &[u8]) {
    let [wire_choice, bytes @ ..] = data else { return };
    let wire = Wire::ALL[usize::from(*wire_choice) % Wire::ALL.len()];
    let adapter = adapter(wire);
    let (deltas, reply) = stream(&*adapter, wire, [bytes]);
    let (first, second) = bytes.split_at(bytes.len() / 2);
    let (split_deltas, split_reply) = stream(&*adapter, wire, [first, second]);
    assert_eq!(
        (debug_text(&deltas), &reply.as_ref().ok()),
        (debug_text(&split_deltas), &split_reply.as_ref().ok()),
        "a stream in two pieces decodes as in one"
    );
    check(wire, &deltas, reply);
    if let Ok(answer) = serde_json::from_slice::<Value>(bytes) {
        let (mut decoder, mut deltas) = (adapter.decoder(1), Deltas::new());
        let outcome = online::reject_error(answer).and_then(|answer| decoder.read_whole(answer, &mut deltas));
        let reply = outcome.and_then(|()| decoder.into_draft()).map(|draft| draft.finish(wire, MODEL));
        check(wire, &Vec::from(deltas), reply);
    }
}

fn adapter(wire: Wire) -> Box<dyn Adapter> {
    let settings = ModelSettings::new("custom", MODEL, wire, "http://127.0.0.1");
    online::adapter(&Arc::new(settings), provider::dialect("custom"))
}

/// Returns the result of a stream that comes in these pieces.
fn stream<'a>(
    adapter: &dyn Adapter,
    wire: Wire,
    chunks: impl IntoIterator<Item = &'a [u8]>,
) -> (Vec<Delta>, Result<Reply, DecodeError>) {
    let (mut decoder, mut deltas) = (adapter.decoder(1), Deltas::new());
    let outcome = collect_deltas(&mut *decoder, &mut deltas, chunks);
    let reply = outcome.and_then(|()| decoder.into_draft()).map(|draft| draft.finish(wire, MODEL));
    (deltas.into(), reply)
}

fn collect_deltas<'a>(
    decoder: &mut dyn Decode,
    deltas: &mut Deltas,
    chunks: impl IntoIterator<Item = &'a [u8]>,
) -> Result<(), DecodeError> {
    let mut parser = SseParser::new(MAX_EVENT_BYTES);
    for chunk in chunks {
        let mut events = VecDeque::new();
        parser.push(chunk, &mut events);
        for event in events {
            let event = event.map_err(DecodeError::unreadable)?;
            if !event.data.is_empty() && decoder.read_event(&event.data, deltas)? == Progress::End {
                return Ok(());
            }
        }
    }
    Ok(())
}

fn debug_text(deltas: &[Delta]) -> String {
    format!("{deltas:?}")
}

/// Checks a decoded answer against its streamed deltas.
fn check(wire: Wire, deltas: &[Delta], reply: Result<Reply, DecodeError>) {
    let reply = match reply {
        Ok(reply) => reply,
        Err(DecodeError::Invalid(ModelErrorKind::Unreadable { why } | ModelErrorKind::Cut { why })) => {
            return assert_printable(&why);
        }
        Err(_) => return,
    };
    if let Stop::Other(word) = &reply.stop {
        assert_printable(word);
    }
    let text: String =
        deltas.iter().filter_map(|delta| if let Delta::Text(text) = delta { Some(&**text) } else { None }).collect();
    // If two texts arrive interleaved, their deltas are interleaved as well.
    assert_eq!(sorted_letters(&text), sorted_letters(&reply.message.content), "the deltas make up the answer");
    for (number, call) in reply.message.calls().iter().enumerate() {
        check_call(number, call, deltas);
        let calls_with_id = reply.message.calls().iter().filter(|other| other.id == call.id).count();
        assert_eq!((calls_with_id, call.id.is_empty()), (1, false), "every call has an id of its own: {:?}", call.id);
    }
    let stored = serde_json::to_string(&reply.message).unwrap_or_default();
    assert_eq!(
        serde_json::from_str::<Message>(&stored).ok().as_ref(),
        Some(&reply.message),
        "the message can be stored"
    );
    if let Some(blocks) = &reply.message.blocks {
        let sent = draft::pieces(&reply.message, wire, MODEL).len();
        assert_eq!(sent, blocks.blocks.len(), "all blocks are sent back");
    }
    check_replay(reply.message);
}

fn sorted_letters(text: &str) -> Vec<char> {
    let mut letters: Vec<char> = text.chars().collect();
    letters.sort_unstable();
    letters
}

/// Checks the call `number` of an answer against the streamed deltas.
fn check_call(number: usize, call: &ToolCallData, deltas: &[Delta]) {
    let call_begins: Vec<_> = deltas
        .iter()
        .filter_map(|delta| match delta {
            Delta::ToolCallBegin { index, id, name } if *index == number => Some((id, name)),
            _ => None,
        })
        .collect();
    if call.name.is_empty() {
        return assert_eq!(call_begins, [], "a call without a name is not streamed");
    }
    assert_eq!(call_begins, [(&call.id, &call.name)], "a call begins once");
    let arguments: String = deltas
        .iter()
        .filter_map(|delta| match delta {
            Delta::ToolCallArguments { index, fragment } if *index == number => Some(fragment.as_str()),
            _ => None,
        })
        .collect();
    if arguments.trim().is_empty() && call.raw_arguments.is_some() {
        // The answer was cut before the arguments.
        return assert!(call.input.is_null(), "a call without its arguments is not made");
    }
    assert_eq!(
        &ToolCallData::from_text(&*call.id, &*call.name, &arguments),
        call,
        "the streamed pieces make up the arguments"
    );
}

/// Checks that each wire can send the answer back, including the wire over which the answer came.
fn check_replay(answer: Message) {
    let results: Vec<_> = answer.calls().iter().map(|call| Message::tool_result(&*call.id, "done")).collect();
    let conversation: Vec<_> = [Message::new(Role::User, "hello"), answer].into_iter().chain(results).collect();
    let is_streamed = true;
    for wire in Wire::ALL {
        let body = adapter(wire).body(&Request::new(&conversation), is_streamed);
        let body: Result<Value, _> = serde_json::from_slice(&body);
        assert!(body.is_ok_and(|body| body.is_object()), "the body for {wire} is JSON");
    }
}

fn assert_printable(text: &str) {
    assert_eq!(toolrack_host::text::for_line(text), text, "unsafe to print");
    assert!(text.len() < 4_096, "too long: {} bytes", text.len());
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SEEDS: [&[u8]; 4] = [
        include_bytes!("../../../../fuzz/seeds/answers/anthropic"),
        include_bytes!("../../../../fuzz/seeds/answers/openai_chat"),
        include_bytes!("../../../../fuzz/seeds/answers/openai_responses"),
        include_bytes!("../../../../fuzz/seeds/answers/gemini"),
    ];

    /// The events of one seed.
    fn events(seed: usize) -> Vec<String> {
        let text = String::from_utf8_lossy(&SEEDS[seed][1..]).into_owned();
        text.split("\n\n").filter(|event| !event.is_empty()).map(|event| format!("{event}\n\n")).collect()
    }

    #[test]
    fn the_seeds_of_the_fuzzer_are_answers() {
        for seed in SEEDS {
            answers(seed);
        }
    }

    /// An answer of each wire, with a text and a call.
    const ANSWERS: [(Wire, &[&str]); 4] = [
        (
            Wire::Anthropic,
            &[
                r#"{"type":"message_start","message":{"usage":{"input_tokens":3,"output_tokens":1}}}"#,
                r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#,
                r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Schön"}}"#,
                r#"{"type":"content_block_stop","index":0}"#,
                r#"{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"c","name":"f","input":{}}}"#,
                r#"{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{\"a\":"}}"#,
                r#"{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"1}"}}"#,
                r#"{"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":9}}"#,
                r#"{"type":"message_stop"}"#,
            ],
        ),
        (
            Wire::OpenAiChat,
            &[
                r#"{"choices":[{"index":0,"delta":{"role":"assistant","content":"Schön"}}]}"#,
                r#"{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c","function":{"name":"f","arguments":"{\"a\":"}}]}}]}"#,
                r#"{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"1}"}}]}}]}"#,
                r#"{"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}"#,
                r#"{"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":9}}"#,
                "[DONE]",
            ],
        ),
        (
            Wire::OpenAiResponses,
            &[
                r#"{"type":"response.output_text.delta","output_index":0,"delta":"Schön"}"#,
                r#"{"type":"response.output_item.added","output_index":1,"item":{"type":"function_call","call_id":"c","name":"f","arguments":""}}"#,
                r#"{"type":"response.function_call_arguments.delta","output_index":1,"delta":"{\"a\":"}"#,
                r#"{"type":"response.function_call_arguments.delta","output_index":1,"delta":"1}"}"#,
                r#"{"type":"response.completed","response":{"status":"completed","output":[],"usage":{"input_tokens":3,"output_tokens":9}}}"#,
            ],
        ),
        (
            Wire::Gemini,
            &[
                r#"{"candidates":[{"content":{"role":"model","parts":[{"text":"Schön"}]}}]}"#,
                r#"{"candidates":[{"content":{"parts":[{"functionCall":{"id":"c","name":"f","args":{"a":1}}}]}}]}"#,
                r#"{"candidates":[{"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":3,"candidatesTokenCount":9}}"#,
            ],
        ),
    ];

    #[test]
    fn a_truncated_stream_is_the_full_answer_or_an_error_and_a_split_stream_is_the_same_answer() {
        for (wire, events) in ANSWERS {
            let adapter = adapter(wire);
            let text: String = events.iter().map(|event| format!("data: {event}\r\n\r\n")).collect();
            let bytes = text.as_bytes();
            let (deltas, full) = stream(&*adapter, wire, [bytes]);
            let full = full.ok().unwrap();
            assert_eq!((&*full.message.content, full.usage.output), ("Schön", 9), "{wire}");
            assert_eq!(full.message.calls()[0].input, serde_json::json!({"a": 1}), "{wire}");
            let mut errors = 0;
            for at in 0..bytes.len() {
                let (before, after) = bytes.split_at(at);
                let (streamed_deltas, reply) = stream(&*adapter, wire, [before]);
                assert!(deltas.starts_with(&streamed_deltas), "{wire} {at}: streamed deltas stay");
                match reply {
                    Ok(reply) => assert_eq!(reply.message, full.message, "{wire} {at}"),
                    Err(DecodeError::Invalid(ModelErrorKind::Cut { .. })) => errors += 1,
                    Err(error) => panic!("{wire} {at}: {error:?}"),
                }
                let (split_deltas, split_reply) = stream(&*adapter, wire, [before, after]);
                assert_eq!((split_deltas == deltas, split_reply.ok().as_ref()), (true, Some(&full)), "{wire} {at}");
            }
            assert!(errors > bytes.len() / 2, "{wire}: {errors} of {}", bytes.len());
        }
    }

    proptest! {
        #[test]
        fn events_in_any_order_are_an_answer_or_an_error(
            wire in 0_usize..4,
            order in proptest::collection::vec(any::<prop::sample::Index>(), 0..40),
            spoiled in proptest::option::of((any::<prop::sample::Index>(), "[a-z\"{}\\[\\]0-9:,]{0,4}")),
        ) {
            let events = events(wire);
            let mut stream: String = order.iter().map(|at| events[at.index(events.len())].as_str()).collect();
            if let Some((at, with)) = spoiled.filter(|_| !stream.is_empty()) {
                let at = stream.floor_char_boundary(at.index(stream.len()));
                stream.insert_str(at, &with);
            }
            answers(&[&[u8::try_from(wire).unwrap()], stream.as_bytes()].concat());
        }

        #[test]
        fn any_bytes_are_an_answer_or_an_error(data in proptest::collection::vec(any::<u8>(), 0..200)) {
            answers(&data);
        }
    }
}
