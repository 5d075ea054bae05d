use proptest::prelude::*;
use serde_json::{Map, json};

use super::*;

fn user() -> Vec<Message> {
    vec![Message::new(Role::User, "do it")]
}

fn says(text: &str) -> Reply {
    Reply::new(Message::new(Role::Assistant, text))
}

fn call(id: &str, name: &str, path: &str) -> ToolCallData {
    ToolCallData::new(id, name, Map::from_iter([("path".to_owned(), json!(path))]))
}

fn wants(calls: Vec<ToolCallData>) -> Reply {
    Reply::new(Message::new(Role::Assistant, "").with_tool_calls(calls))
}

fn text(text: &str) -> ToolResult {
    ToolResult { text: text.to_owned(), ..ToolResult::default() }
}

/// Returns the messages in short form: the text, `id: text` of a result, `id!: text` of an error, `id+id` of calls.
fn texts_of(turn: &Turn) -> Vec<String> {
    let short = |message: &Message| match (&message.tool_call_id, message.calls()) {
        (Some(id), _) => format!("{id}{}: {}", if message.is_error { "!" } else { "" }, message.content),
        (None, []) => message.content.clone(),
        (None, calls) => calls.iter().map(|call| call.id.clone()).collect::<Vec<_>>().join("+"),
    };
    turn.messages().iter().map(short).collect()
}

/// Checks that every call has one result, and that the results directly follow the message with the calls, in the same
/// order. While calls run, those of the last message have none.
fn assert_valid(messages: &[Message], calls_run: bool) {
    let mut at = 0;
    while let Some(message) = messages.get(at) {
        at += 1;
        assert_ne!(message.role, Role::Tool, "a result without a call: {messages:?}");
        if calls_run && at == messages.len() {
            return;
        }
        for call in message.calls() {
            let answer = messages.get(at).and_then(|message| message.tool_call_id.as_deref());
            assert_eq!(answer, Some(&*call.id), "{messages:?}");
            at += 1;
        }
    }
}

#[test]
fn an_answer_without_calls_ends_the_turn() {
    let broken_off = End::BrokenOff("error".into());
    for (stop, end) in [
        (Stop::End, End::Answered),
        (Stop::Length, End::Cut),
        (Stop::Refusal, End::Refused),
        (Stop::Other("error".into()), broken_off),
    ] {
        let mut turn = Turn::new(user(), Limits::default());
        assert_eq!(turn.next(), Next::CallModel);
        turn.model_answered(Reply { stop, ..says("done") });
        assert_eq!(turn.next(), Next::Done(&end));
        assert_eq!(texts_of(&turn), ["do it", "done"]);
    }
}

#[test]
fn the_name_of_an_end_is_that_of_stored_turns() {
    for end in [
        End::Answered,
        End::Cut,
        End::Refused,
        End::RoundLimit,
        End::TokenLimit,
        End::CostLimit,
        End::Repeating,
        End::Cancelled,
    ] {
        assert_eq!((json!(end), end.reason()), (json!(end.name()), None));
    }
    let end = End::BrokenOff("error".into());
    assert_eq!((json!(end), end.reason()), (json!({ "broken_off": "error" }), Some("error")));
}

#[test]
fn results_are_appended_in_the_order_of_the_calls() {
    let mut turn = Turn::new(user(), Limits::default());
    turn.model_answered(wants(vec![call("a", "x", "1"), call("b", "x", "2"), call("c", "x", "3")]));
    for id in ["c", "a", "unknown", "a"] {
        turn.tool_finished(id, text(id));
    }
    assert_eq!(texts_of(&turn), ["do it", "a+b+c"]);
    let Next::CallTools(pending) = turn.next() else { panic!("{turn:?}") };
    let waiting = pending.iter().filter(|pending| pending.result.is_none());
    assert_eq!(waiting.map(|pending| &*pending.call.id).collect::<Vec<_>>(), ["b"]);
    turn.tool_finished("b", ToolResult::error("no"));
    assert_eq!(texts_of(&turn), ["do it", "a+b+c", "a: a", "b!: no", "c: c"]);
    assert_eq!(turn.next(), Next::CallModel);
}

#[test]
fn a_call_without_readable_arguments_is_answered_and_not_made() {
    let mut turn = Turn::new(user(), Limits::default());
    turn.model_answered(wants(vec![ToolCallData::from_text("a", "x", r#"{"path": "#), call("b", "x", "1")]));
    let Next::CallTools(pending) = turn.next() else { panic!("{turn:?}") };
    assert!(pending[0].result.as_ref().is_some_and(|result| result.is_error));
    assert!(pending[1].result.is_none());
    turn.tool_finished("b", text("1"));
    assert!(texts_of(&turn)[2].starts_with("a!: the call was not made"), "{:?}", texts_of(&turn));
}

#[test]
fn the_calls_of_a_refused_answer_are_not_made_and_the_turn_ends() {
    let mut turn = Turn::new(user(), Limits::default());
    turn.model_answered(Reply { stop: Stop::Refusal, ..wants(vec![call("a", "x", "1"), call("b", "x", "2")]) });
    assert_eq!(turn.next(), Next::Done(&End::Refused));
    assert!(texts_of(&turn)[2..].iter().all(|text| text.contains("the call was not made")), "{:?}", texts_of(&turn));
    assert_valid(turn.messages(), false);
}

#[test]
fn a_repeated_call_is_first_rejected_and_then_ends_the_turn() {
    let mut turn = Turn::new(user(), Limits { rounds: 100, ..Limits::default() });
    let mut made = 0;
    while let Next::CallModel = turn.next() {
        turn.model_answered(wants(vec![call("a", "x", "1")]));
        if let Next::CallTools(_) = turn.next() {
            made += 1;
            turn.tool_finished("a", text("1"));
        }
    }
    assert_eq!(turn.next(), Next::Done(&End::Repeating));
    assert_eq!((made, turn.rounds()), (3, 7));
    assert_valid(turn.messages(), false);
}

#[test]
fn a_call_with_other_arguments_is_not_a_repetition() {
    let mut turn = Turn::new(user(), Limits::default());
    for path in ["1", "2", "3", "4", "5"] {
        turn.model_answered(wants(vec![call(path, "x", path)]));
        turn.tool_finished(path, text(path));
    }
    assert_eq!(turn.next(), Next::CallModel);
}

/// Plays one round: the model wants a call that it has not made before, and gets the result.
fn round(turn: &mut Turn, usage: Usage, cost: Option<f64>) {
    let id = turn.rounds().to_string();
    turn.model_answered(Reply { usage, cost, ..wants(vec![call(&id, "x", &id)]) });
    turn.tool_finished(&id, text(&id));
}

#[test]
fn at_a_limit_the_turn_asks_and_each_yes_grants_the_limit_once_more() {
    let spent = Usage { input: 60, output: 40, ..Usage::default() };
    for (limits, end) in [
        (Limits { rounds: 2, ..Limits::default() }, End::RoundLimit),
        (Limits { tokens: Some(200), ..Limits::default() }, End::TokenLimit),
        (Limits { cost: Some(0.02), ..Limits::default() }, End::CostLimit),
    ] {
        let mut turn = Turn::new(user(), limits);
        for extensions in 0..3 {
            for _ in 0..2 {
                assert_eq!(turn.next(), Next::CallModel, "{end:?} {extensions}");
                round(&mut turn, spent, Some(0.01));
            }
            assert_eq!(turn.next(), Next::Ask(&Question::Continue(end.clone())));
            if extensions < 2 {
                turn.question_answered(Answer::Continue);
            }
        }
        turn.question_answered(Answer::Stop);
        assert_eq!(turn.next(), Next::Done(&end));
        assert_eq!(turn.usage().input, 360);
    }
}

#[test]
fn an_answer_without_calls_ends_the_turn_as_answered_even_at_a_limit() {
    let mut turn = Turn::new(user(), Limits { rounds: 1, ..Limits::default() });
    turn.model_answered(says("done"));
    assert_eq!(turn.next(), Next::Done(&End::Answered));
}

#[test]
fn a_cancelled_turn_leaves_a_history_that_can_be_continued() {
    let mut turn = Turn::new(user(), Limits::default());
    turn.model_answered(wants(vec![call("a", "x", "1"), call("b", "x", "2")]));
    turn.tool_finished("b", text("2"));
    turn.cancel("");
    assert_eq!(texts_of(&turn), ["do it", "a+b", &format!("a!: {CANCELLED_TEXT}"), "b: 2"]);
    assert_eq!(turn.next(), Next::Done(&End::Cancelled));
    let mut turn = Turn::new(user(), Limits::default());
    turn.cancel("I was about to");
    assert_eq!(texts_of(&turn), ["do it", "I was about to"]);
    // Cancelling a turn that has ended changes nothing.
    let mut turn = Turn::new(user(), Limits::default());
    turn.model_answered(says("done"));
    turn.cancel("more");
    assert_eq!((turn.next(), texts_of(&turn).len()), (Next::Done(&End::Answered), 2));
}

#[test]
fn a_turn_resumed_after_a_crash_says_which_calls_may_have_run_and_makes_none_again() {
    let mut turn = Turn::new(user(), Limits::default());
    turn.model_answered(wants(vec![call("a", "x", "1"), call("b", "x", "2")]));
    turn.tool_finished("b", text("2"));
    let state = serde_json::to_string(turn.state()).unwrap();
    let stored = serde_json::to_string(turn.messages()).unwrap();
    let resumed =
        Turn::resume(serde_json::from_str(&stored).unwrap(), serde_json::from_str(&state).unwrap(), Limits::default());
    assert_eq!(texts_of(&resumed), ["do it", "a+b", &format!("a!: {INTERRUPTED_TEXT}"), "b: 2"]);
    assert_eq!(resumed.next(), Next::CallModel);
}

#[test]
fn a_new_turn_adds_the_results_that_an_earlier_program_did_not_store() {
    let messages = vec![
        Message::new(Role::User, "do it"),
        Message::new(Role::Assistant, "").with_tool_calls(vec![call("a", "x", "1"), call("b", "x", "2")]),
        Message::tool_result("b", "2"),
        Message::new(Role::User, "go on"),
    ];
    let turn = Turn::new(messages, Limits::default());
    assert_eq!(texts_of(&turn), ["do it", "a+b", "b: 2", &format!("a!: {INTERRUPTED_TEXT}"), "go on"]);
}

#[test]
fn a_stored_turn_has_no_secrets_and_the_running_turn_keeps_them() {
    let mut turn = Turn::new(user(), Limits::default());
    turn.model_answered(wants(vec![call("a", "x", "canary 1"), call("b", "x", "canary 2")]));
    turn.tool_finished("b", text("it says canary"));
    let conceal = |text: &str| text.replace("canary", "***");
    let stored = serde_json::to_string(&turn.state().concealed(&conceal)).unwrap();
    assert!(!stored.contains("canary") && stored.contains("*** 1") && stored.contains("it says ***"), "{stored}");
    assert!(format!("{:?}", turn.state()).contains("canary"));
    let resumed = Turn::resume(turn.messages().to_vec(), serde_json::from_str(&stored).unwrap(), Limits::default());
    assert_eq!(texts_of(&resumed)[2..], [format!("a!: {INTERRUPTED_TEXT}"), "b: it says ***".to_owned()]);

    let mut turn = Turn::new(user(), Limits::default());
    turn.model_answered(Reply { stop: Stop::Other("BAD: canary".into()), ..says("") });
    assert_eq!(turn.state().concealed(&conceal).step, Step::Done(End::BrokenOff("BAD: ***".into())));
}

#[test]
fn known_costs_are_added_up_and_unknown_ones_left_out() {
    for (costs, sum) in
        [(&[None, None][..], None), (&[Some(0.5), None], Some(0.5)), (&[None, Some(0.25), Some(0.5)], Some(0.75))]
    {
        let mut turn = Turn::new(user(), Limits { cost: Some(1.0), ..Limits::default() });
        for cost in costs {
            round(&mut turn, Usage::default(), *cost);
        }
        assert_eq!((turn.cost(), turn.next()), (sum, Next::CallModel), "{costs:?}");
    }
}

#[test]
fn impossible_counts_reach_a_limit_and_do_not_panic() {
    let endless = Usage { input: u64::MAX, output: u64::MAX, ..Usage::default() };
    let mut turn = Turn::new(user(), Limits { tokens: Some(u64::MAX), rounds: u32::MAX, ..Limits::default() });
    round(&mut turn, endless, Some(f64::INFINITY));
    assert_eq!(turn.next(), Next::Ask(&Question::Continue(End::TokenLimit)));
    turn.question_answered(Answer::Continue);
    round(&mut turn, endless, None);
    assert_eq!((turn.usage().input, turn.next()), (u64::MAX, Next::Ask(&Question::Continue(End::TokenLimit))));
}

#[test]
fn an_unexpected_event_changes_nothing() {
    let mut turn = Turn::new(user(), Limits { rounds: 1, ..Limits::default() });
    turn.question_answered(Answer::Continue);
    turn.tool_finished("a", text("x"));
    assert!(turn.abandon_calls().is_empty());
    assert_eq!((turn.next(), turn.messages().len()), (Next::CallModel, 1));
    turn.model_answered(wants(vec![call("a", "x", "1"), call("b", "x", "2")]));
    turn.model_answered(says("too early"));
    turn.tool_finished("c", text("of no call"));
    turn.tool_finished("a", text("first"));
    turn.tool_finished("a", text("second"));
    turn.tool_finished("b", text("2"));
    assert_eq!(texts_of(&turn), ["do it", "a+b", "a: first", "b: 2"]);
    // While the turn waits for the answer to its question, it ignores answers of the model.
    turn.model_answered(says("uninvited"));
    assert_eq!((turn.next(), turn.messages().len()), (Next::Ask(&Question::Continue(End::RoundLimit)), 4));
    turn.cancel("words of no answer");
    assert_eq!((turn.next(), turn.messages().len()), (Next::Done(&End::Cancelled), 4));
    turn.question_answered(Answer::Continue);
    assert_eq!(turn.next(), Next::Done(&End::Cancelled));
}

#[test]
fn a_resumed_turn_asks_the_question_that_it_waited_for_again() {
    let mut turn = Turn::new(user(), Limits { rounds: 1, ..Limits::default() });
    round(&mut turn, Usage::default(), None);
    let state: State = serde_json::from_str(&serde_json::to_string(turn.state()).unwrap()).unwrap();
    let mut resumed = Turn::resume(turn.messages().to_vec(), state, Limits { rounds: 1, ..Limits::default() });
    assert_eq!(resumed.next(), Next::Ask(&Question::Continue(End::RoundLimit)));
    resumed.question_answered(Answer::Continue);
    assert_eq!((resumed.next(), resumed.rounds()), (Next::CallModel, 1));
    // A state of an earlier version has fewer members.
    let old: State = serde_json::from_str("{}").unwrap();
    assert_eq!(Turn::resume(user(), old, Limits::default()).next(), Next::CallModel);
}

/// What can happen to a turn.
#[derive(Clone, Debug)]
enum Event {
    /// The model answers without calls.
    Answer,
    /// The model wants this many calls.
    Calls(usize),
    /// The call at this place among the pending ones has a result.
    Result(usize),
    /// The program is killed and resumes the turn.
    Restart,
    Continue,
    Cancel,
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let event = prop_oneof![
        1 => Just(Event::Answer),
        6 => (1_usize..4).prop_map(Event::Calls),
        9 => (0_usize..4).prop_map(Event::Result),
        2 => Just(Event::Restart),
        1 => Just(Event::Continue),
        1 => Just(Event::Cancel),
    ];
    prop::collection::vec(event, 0..40)
}

proptest! {
    #[test]
    fn the_history_is_valid_for_any_sequence_of_events(events in events()) {
        let limits = Limits { rounds: 4, ..Limits::default() };
        let mut turn = Turn::new(user(), limits);
        let mut ids = 0;
        for event in events {
            match event {
                Event::Answer => turn.model_answered(says("done")),
                Event::Calls(count) => {
                    let calls = (0..count).map(|at| call(&(ids + at).to_string(), "x", &(at % 2).to_string())).collect();
                    ids += count;
                    turn.model_answered(wants(calls));
                }
                Event::Result(at) => {
                    let id = match turn.next() {
                        Next::CallTools(pending) => pending.get(at).map(|pending| pending.call.id.clone()),
                        _ => None,
                    };
                    turn.tool_finished(&id.unwrap_or_default(), text("x"));
                }
                Event::Restart => {
                    let state: State = serde_json::from_str(&serde_json::to_string(turn.state()).unwrap()).unwrap();
                    prop_assert_eq!(&state, turn.state());
                    turn = Turn::resume(turn.into_messages(), state, limits);
                }
                Event::Continue => turn.question_answered(Answer::Continue),
                Event::Cancel => turn.cancel("partial"),
            }
            assert_valid(turn.messages(), matches!(turn.next(), Next::CallTools(_)));
        }
    }
}
