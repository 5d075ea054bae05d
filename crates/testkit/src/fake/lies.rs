//! Turns the reply of the fake (a scripted MCP server for tests) into bytes: the right ones, or wrong ones if a *fault*
//! demands that, a misbehaviour that the command line asks for. A *frame* is an instruction to the transport, such as
//! to send these bytes. A *standing* fault affects the whole process; the others strike single requests.

use std::sync::Arc;

use serde_json::{Value, json};

use super::eras::{Reply, wait_forever};
use super::faults::{Fault, Faults, RequestFaults};
use super::process::{self, Death};
use super::server::{Era, Request, Server};
use super::tools;
use super::wire::{self, Frame, code};

/// Sends the answer to a request, with the messages before and after it.
pub(crate) async fn send(server: &Arc<Server>, request: &Request, reply: Reply) {
    flood(server, request).await;
    // This fault is standing, so it is not among the faults of the request.
    if let Some(bytes) = server.options.faults.number(Fault::FillStderr) {
        process::fill_stderr(bytes);
    }
    if request.faults.has(Fault::NoAnswer) {
        return wait_forever().await;
    }
    let (message, status) = match reply {
        Ok(result) => (wire::result(&request.id, &result), 200),
        Err(refusal) => {
            let status = if request.era == Era::Modern { refusal.modern_status() } else { 200 };
            (refusal.answer(&request.id), status)
        }
    };
    if request.faults.has(Fault::Freeze) {
        process::freeze();
    }
    if let Some(frame) = final_frame(server, request, &message) {
        request.out.send(frame).await;
        return wait_forever().await;
    }
    for frame in answer_frames(&server.options.faults, &request.faults, message, status) {
        request.out.send(frame).await;
    }
    if request.faults.has(Fault::StrayProgress) {
        request.out.send(progress(&request.params["_meta"]["progressToken"])).await;
    }
    if request.method == "tools/list" {
        // This fault is standing as well.
        let times = server.options.faults.number(Fault::ListChangedStorm).unwrap_or(0);
        for _ in 0..times {
            server.notify_tools_changed().await;
        }
    }
}

/// Sends the messages that come before the answer, if a fault strikes.
async fn flood(server: &Arc<Server>, request: &Request) {
    let count = |fault| if request.faults.has(fault) { server.options.faults.number(fault).unwrap_or(0) } else { 0 };
    tools::send_log_messages(request, count(Fault::NotifyFlood)).await;
    for number in 0..count(Fault::PingFlood) {
        let ping = wire::request(&json!(format!("ping-{number}")), "ping", &json!({}));
        request.out.send(Frame::message(&ping)).await;
    }
    if request.faults.has(Fault::StrayProgress) {
        request.out.send(progress(&json!("unknown-token"))).await;
    }
    if request.faults.has(Fault::OddMessages) {
        for odd in ODD_MESSAGES {
            request.out.send(Frame::Message(odd.as_bytes().to_vec())).await;
        }
    }
    let message = json!({"role": "user", "content": {"type": "text", "text": "flood"}});
    let params = json!({"messages": [message], "maxTokens": 1});
    for number in 0..count(Fault::RequestFlood) {
        let sample = wire::request(&json!(format!("flood-{number}")), "sampling/createMessage", &params);
        request.out.send(Frame::message(&sample)).await;
    }
}

/// Messages that a client may ignore or refuse, but must survive.
const ODD_MESSAGES: &[&str] = &[
    r#"{"jsonrpc":"2.0","method":"notifications/unheard-of","params":{"x":1}}"#,
    r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":[1,2]}"#,
    r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progress":"much"}}"#,
    r#"{"jsonrpc":"2.0","id":"odd-1","method":"unheard/of","params":{}}"#,
    r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#,
    r#"{"jsonrpc":"2.0","id":"odd-2","method":"sampling/createMessage","params":7}"#,
    r#"{"jsonrpc":"2.0","id":"odd-3","method":"elicitation/create"}"#,
    r#"{"jsonrpc":"2.0","id":"never-asked","result":{}}"#,
    r#"{"jsonrpc":"1.0","id":9007199254740993,"result":{}}"#,
    r#"{"jsonrpc":"2.0","id":1.5,"result":{}}"#,
    r#"{"jsonrpc":"2.0","id":{"a":1},"result":{}}"#,
    r#"{"jsonrpc":"2.0","method":42}"#,
    "{}",
    "[]",
    "null",
    "\"text\"",
];

fn progress(token: &Value) -> Frame {
    let params = json!({"progressToken": token, "progress": 1, "total": 2});
    Frame::message(&wire::notification("notifications/progress", &params))
}

/// Returns the frame that ends the process or closes its stdout, if a fault demands that instead of an answer.
fn final_frame(server: &Server, request: &Request, message: &Value) -> Option<Frame> {
    let request_faults = &request.faults;
    if request_faults.has(Fault::CrashOnCall) {
        super::complain("fake-server: about to crash on a call, as the fault demands\n");
        let chosen = server.options.faults.text(Fault::CrashOnCall).and_then(Death::parse);
        return Some(Frame::Die(chosen.unwrap_or(Death::Exit(1))));
    }
    if request_faults.has(Fault::CrashHoldingPipe) {
        let (setsid, ignore_term) = (false, false);
        if let Err(error) = process::start_grandchild(setsid, ignore_term) {
            super::complain(&format!("fake-server: the grandchild cannot be started: {error}\n"));
        }
        return Some(Frame::Die(Death::STATUS_7));
    }
    if request_faults.has(Fault::HalfLineThenCrash) {
        let mut half = message.to_string().into_bytes();
        half.truncate(half.len() / 2);
        return Some(Frame::Torn(half));
    }
    request_faults.has(Fault::CloseStdout).then_some(Frame::CloseStdout)
}

/// Returns the frames of one answer, with the faults that strike it.
fn answer_frames(faults: &Faults, request_faults: &RequestFaults, mut message: Value, status: u16) -> Vec<Frame> {
    let id = message["id"].clone();
    for fault in request_faults.iter() {
        corrupt(faults, fault, &id, &mut message);
    }
    let bytes = request_faults
        .iter()
        .find_map(|fault| garble(faults, fault, &id, &message))
        .unwrap_or_else(|| message.to_string().into_bytes());
    let mut frames = Vec::new();
    if request_faults.has(Fault::ForgedFirst) || request_faults.has(Fault::SseWrongId) {
        let forged =
            json!({"content": [{"type": "text", "text": "forged"}], "isError": false, "resultType": "complete"});
        frames.push(Frame::message(&wire::result(&unused_id(&id), &forged)));
    }
    if request_faults.has(Fault::DuplicateAnswer) {
        frames.push(Frame::Message(bytes.clone()));
    }
    frames.push(Frame::Answer { bytes, status });
    frames
}

/// Returns an id that no client used.
fn unused_id(id: &Value) -> Value {
    match id.as_u64() {
        Some(number) => json!(number + 1_000_000),
        None => json!(format!("{}-forged", id.as_str().unwrap_or_default())),
    }
}

/// Changes the message; it stays valid JSON.
fn corrupt(faults: &Faults, fault: Fault, id: &Value, message: &mut Value) {
    match fault {
        Fault::WrongId => message["id"] = unused_id(id),
        Fault::ErrorWithoutId => {
            let error = json!({"code": code::INTERNAL, "message": "something went wrong"});
            *message = json!({"jsonrpc": "2.0", "id": null, "error": error});
        }
        Fault::Result42 => message["result"] = json!(42),
        Fault::ResultNull => message["result"] = Value::Null,
        Fault::ResultAndError => message["error"] = json!({"code": code::INTERNAL, "message": "and an error"}),
        Fault::NeitherResultNorError => *message = json!({"jsonrpc": "2.0", "id": id}),
        Fault::Batch => *message = json!([message.clone()]),
        Fault::UnknownResultType if message["result"].is_object() => {
            message["result"]["resultType"] = json!(faults.text(fault).unwrap_or("banana"));
        }
        Fault::OddIsError => message["result"]["isError"] = json!("true"),
        Fault::BadContent => {
            if let Some(content) = message["result"]["content"].as_array_mut() {
                content.insert(0, json!({"type": "hologram", "beam": 3}));
                content.insert(0, json!(7));
            }
        }
        // Other faults do not change the message, or change its bytes in `garble`.
        _ => {}
    }
}

/// Returns the answer as bytes that `serde_json` would not write; `None` if `fault` demands no such bytes.
fn garble(faults: &Faults, fault: Fault, id: &Value, message: &Value) -> Option<Vec<u8>> {
    let number = || usize::try_from(faults.number(fault).unwrap_or(0)).unwrap_or(usize::MAX);
    let answer_with_text = |text: &[u8]| {
        let mut bytes =
            format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"content":[{{"type":"text","text":""#).into_bytes();
        bytes.extend_from_slice(text);
        bytes.extend_from_slice(br#""}],"isError":false,"resultType":"complete"}}"#);
        bytes
    };
    let bytes = match fault {
        Fault::UnparsableAnswer => answer_with_text(br"half of a pair: \ud800"),
        Fault::BadUtf8 => answer_with_text(b"not UTF-8: \xff\xfe\x80"),
        Fault::HugeLine | Fault::BodyHuge | Fault::SseHugeEvent => {
            let envelope = answer_with_text(b"").len();
            answer_with_text(&vec![b'x'; number().saturating_sub(envelope)])
        }
        Fault::HugeNumber => {
            format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"content":[],"score":1e400}}}}"#).into_bytes()
        }
        Fault::DeepJson => {
            let (open, close) = ("[".repeat(number()), "]".repeat(number()));
            format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"content":[],"deep":{open}{close}}}}}"#).into_bytes()
        }
        Fault::DuplicateKey => {
            message.to_string().replacen('{', &format!(r#"{{"id":{},"#, unused_id(id)), 1).into_bytes()
        }
        Fault::Truncated => {
            let mut bytes = message.to_string().into_bytes();
            bytes.truncate(bytes.len() - 3);
            bytes
        }
        _ => return None,
    };
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer_with(fault: &str) -> Vec<Vec<u8>> {
        let mut faults = Faults::default();
        faults.add(fault).unwrap();
        let request_faults = faults.for_request("tools/call", 0);
        let good = json!({"content": [{"type": "text", "text": "hello"}]});
        let frames = answer_frames(&faults, &request_faults, wire::result(&json!(5), &good), 200);
        frames
            .into_iter()
            .map(|frame| match frame {
                Frame::Message(bytes) | Frame::Answer { bytes, .. } => bytes,
                other => panic!("{other:?}"),
            })
            .collect()
    }

    fn single_answer(fault: &str) -> Value {
        let mut frames = answer_with(fault);
        assert_eq!(frames.len(), 1, "{fault}");
        serde_json::from_slice(&frames.remove(0)).unwrap()
    }

    #[test]
    fn each_fault_that_stays_json_does_what_its_name_says() {
        assert_eq!(single_answer("wrong-id")["id"], 1_000_005);
        assert_eq!(single_answer("result-42")["result"], 42);
        assert!(single_answer("result-null")["result"].is_null());
        assert!(single_answer("batch").is_array());
        let both = single_answer("result-and-error");
        assert!(both.get("result").is_some() && both.get("error").is_some());
        assert_eq!(single_answer("neither"), json!({"jsonrpc": "2.0", "id": 5}));
        assert!(single_answer("error-without-id")["id"].is_null());
        assert_eq!(single_answer("unknown-result-type=banana")["result"]["resultType"], "banana");
        assert_eq!(single_answer("bad-content")["result"]["content"].as_array().unwrap().len(), 3);
    }

    #[test]
    fn each_garbled_answer_is_refused_by_a_json_reader() {
        for fault in ["unparsable-answer", "bad-utf8", "huge-number", "deep-json=1000", "truncated"] {
            let bytes = answer_with(fault).remove(0);
            assert!(serde_json::from_slice::<Value>(&bytes).is_err(), "{fault}");
        }
        assert_eq!(answer_with("huge-line=5000")[0].len(), 5000);
    }

    #[test]
    fn the_faults_that_send_two_answers_end_with_the_right_one() {
        for fault in ["forged-first", "duplicate-answer"] {
            let all = answer_with(fault);
            assert_eq!(all.len(), 2, "{fault}");
            let last: Value = serde_json::from_slice(&all[1]).unwrap();
            assert_eq!(last["id"], 5);
        }
    }
}
