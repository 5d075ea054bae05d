use proptest::prelude::*;
use serde_json::json;

use super::*;

const MODEL: &str = "some-model";

/// A piece of an answer, as a wire reads it.
#[derive(Clone, Debug)]
enum Progress {
    Text(Vec<String>),
    Signed(String),
    Call { id: String, name: String, arguments: Vec<String>, is_signed: bool },
    Raw(u8),
}

fn arbitrary_pieces() -> impl Strategy<Value = Vec<Progress>> {
    let piece = prop_oneof![
        prop::collection::vec("[a-zü€ ]{0,4}", 0..3).prop_map(Progress::Text),
        "[a-z€]{0,3}".prop_map(Progress::Signed),
        ("(call_1_[0-2]|[ab]?)", "[a-z]{1,3}", prop::collection::vec("[{}\":a1]{0,3}", 0..3), any::<bool>())
            .prop_map(|(id, name, arguments, is_signed)| Progress::Call { id, name, arguments, is_signed }),
        any::<u8>().prop_map(Progress::Raw),
    ];
    prop::collection::vec(piece, 0..12)
}

fn signature() -> Map<String, Value> {
    [("signature".to_owned(), json!("c2ln"))].into_iter().collect()
}

/// Feeds the pieces to a draft, and returns the pieces that go back to the provider, in words.
fn feed(progress: &[Progress], draft: &mut Draft, deltas: &mut Deltas) -> Vec<String> {
    let mut expected = Vec::new();
    for piece in progress {
        match piece {
            Progress::Text(more) => {
                let at = draft.begin_text().unwrap();
                more.iter().for_each(|more| draft.append_text_at(at, more, deltas));
                let text = more.concat();
                assert_eq!(draft.is_empty_text(at), text.is_empty());
                expected.extend((!text.is_empty()).then(|| format!("text {text}")));
            }
            Progress::Signed(text) => {
                let at = draft.begin_text().unwrap();
                draft.append_text_at(at, text, deltas);
                *draft.extra_mut(at).unwrap() = signature();
                expected.push(format!("text {text} signed"));
            }
            Progress::Call { id, name, arguments, is_signed } => {
                let at = draft.begin_call(id, name, deltas).unwrap();
                arguments.iter().for_each(|more| draft.append_arguments(at, more, deltas));
                if *is_signed {
                    *draft.extra_mut(at).unwrap() = signature();
                }
                let signed = if *is_signed { " signed" } else { "" };
                expected.push(format!("call {name} {}{signed}", arguments.concat()));
            }
            Progress::Raw(number) => {
                draft.add_raw(json!({"raw": number})).unwrap();
                expected.push(format!("raw {number}"));
            }
        }
    }
    expected
}

fn in_words(sent: &SentPiece<'_>) -> String {
    let signed =
        |extra: &Option<&Map<String, Value>>| if extra.is_some_and(|extra| !extra.is_empty()) { " signed" } else { "" };
    match sent {
        SentPiece::Raw(value) => format!("raw {}", value["raw"]),
        SentPiece::Text(text, extra) => format!("text {text}{}", signed(extra)),
        SentPiece::Call(call, extra) => {
            let arguments = call.raw_arguments.clone().unwrap_or_else(|| "an object".into());
            format!("call {} {arguments}{}", call.name, signed(extra))
        }
    }
}

/// Replaces the arguments of a call by `an object` if they are one, as [`in_words`] does.
fn comparable(word: &str) -> String {
    let mut parts = word.splitn(3, ' ');
    if let (Some("call"), Some(name), Some(rest)) = (parts.next(), parts.next(), parts.next()) {
        let (arguments, signed) = rest.strip_suffix(" signed").map_or((rest, ""), |arguments| (arguments, " signed"));
        if ToolCallData::from_text("", "", arguments).arguments().is_some() {
            return format!("call {name} an object{signed}");
        }
    }
    word.to_owned()
}

proptest! {
    #[test]
    fn blocks_go_back_to_their_own_provider_only_and_in_order(progress in arbitrary_pieces()) {
        let (mut draft, mut deltas) = (Draft::new(1), Deltas::new());
        let fed = feed(&progress, &mut draft, &mut deltas);
        let expected: Vec<String> = fed.iter().map(|word| comparable(word)).collect();
        let reply = draft.finish(Wire::Gemini, MODEL);
        // The message as a database returns it.
        let stored = serde_json::to_string(&reply.message).unwrap();
        let message: Message = serde_json::from_str(&stored).unwrap();
        prop_assert_eq!(&message, &reply.message);

        let is_plain = expected.iter().all(|word| !word.ends_with(" signed") && !word.starts_with("raw"));
        prop_assert_eq!(message.blocks.is_none(), is_plain);
        if !is_plain {
            let sent: Vec<String> = pieces(&message, Wire::Gemini, MODEL).iter().map(in_words).collect();
            prop_assert_eq!(sent, expected);
        }
        for (wire, model) in [(Wire::Anthropic, MODEL), (Wire::Gemini, "another")] {
            let sent: Vec<String> = pieces(&message, wire, model).iter().map(in_words).collect();
            prop_assert!(sent.iter().all(|word| !word.ends_with(" signed") && !word.starts_with("raw")), "{:?}", sent);
            let texts = sent.iter().filter(|word| word.starts_with("text")).count();
            prop_assert_eq!(texts, usize::from(!message.content.is_empty()));
            prop_assert_eq!(sent.len() - texts, message.calls().len());
        }
    }

    #[test]
    fn the_deltas_equal_the_stored_message_and_every_call_has_its_own_id(progress in arbitrary_pieces()) {
        let (mut draft, mut deltas) = (Draft::new(1), Deltas::new());
        feed(&progress, &mut draft, &mut deltas);
        let reply = draft.finish(Wire::Anthropic, MODEL);
        let text: String = deltas.iter().filter_map(|delta| match delta { Delta::Text(text) => Some(&**text), _ => None }).collect();
        prop_assert_eq!(&text, &reply.message.content);
        let mut ids: Vec<&str> = reply.message.calls().iter().map(|call| &*call.id).collect();
        let started: Vec<&str> = deltas.iter().filter_map(|delta| match delta { Delta::ToolCallBegin { id, .. } => Some(&**id), _ => None }).collect();
        prop_assert_eq!(&started, &ids);
        ids.sort_unstable();
        ids.dedup();
        prop_assert!(ids.len() == reply.message.calls().len() && !ids.contains(&""));
        let stop = if ids.is_empty() { Stop::End } else { Stop::ToolCalls };
        prop_assert_eq!(reply.stop, stop);
    }

    #[test]
    fn an_edited_answer_is_sent_as_raw_blocks_followed_by_the_new_text(
        progress in arbitrary_pieces(),
        text in "[a-zü€]{0,6}",
    ) {
        let (mut draft, mut deltas) = (Draft::new(1), Deltas::new());
        feed(&progress, &mut draft, &mut deltas);
        let mut message = draft.finish(Wire::Gemini, MODEL).message;
        let before = message.content.clone();
        message.content = text.clone();
        let sent: Vec<String> = pieces(&message, Wire::Gemini, MODEL).iter().map(in_words).collect();
        let texts: String = sent.iter().filter_map(|word| word.strip_prefix("text ")).map(|word| word.trim_end_matches(" signed")).collect();
        prop_assert_eq!(&texts, &text, "all of the new text");
        if text.len() != before.len() {
            let raw = sent.iter().rposition(|word| word.starts_with("raw")).map_or(0, |at| at + 1);
            prop_assert!(sent[..raw].iter().all(|word| word.starts_with("raw")), "{:?}", sent);
        }
    }
}

#[test]
fn a_call_is_streamed_once_it_has_a_name_with_its_earlier_pieces() {
    let (mut draft, mut deltas) = (Draft::new(3), Deltas::new());
    let at = draft.begin_call("", "", &mut deltas).unwrap();
    draft.append_arguments(at, "{\"a\":", &mut deltas);
    draft.set_name(at, "", &mut deltas);
    assert!(deltas.is_empty(), "no caller hears of a call without a name");
    draft.set_name(at, "weather", &mut deltas);
    draft.set_name(at, "another", &mut deltas);
    draft.append_arguments(at, "1}", &mut deltas);
    draft.complete_arguments(at, "{\"a\":2}", &mut deltas);
    let argument = |fragment: &str| Delta::ToolCallArguments { index: 0, fragment: fragment.into() };
    let started = Delta::ToolCallBegin { index: 0, id: "call_3_0".into(), name: "weather".into() };
    assert_eq!(Vec::from(deltas), [started, argument("{\"a\":"), argument("1}")]);
    let reply = draft.finish(Wire::OpenAiChat, MODEL);
    let [call] = reply.message.calls() else { panic!() };
    assert_eq!((&*call.name, &call.input), ("weather", &json!({"a": 1})));
}

#[test]
fn complete_arguments_are_used_if_no_piece_was_streamed() {
    let (mut draft, mut deltas) = (Draft::new(1), Deltas::new());
    let at = draft.begin_call("x", "f", &mut deltas).unwrap();
    draft.complete_arguments(at, "{\"a\":2}", &mut deltas);
    draft.complete_arguments(at, "{\"a\":3}", &mut deltas);
    assert_eq!(draft.finish(Wire::OpenAiChat, MODEL).message.calls()[0].input, json!({"a": 2}));
}

#[test]
fn a_call_that_was_cut_before_its_arguments_is_not_one_without_arguments() {
    for (stop, last_has_arguments) in [
        (None, true),
        (Some(Stop::ToolCalls), true),
        (Some(Stop::Length), false),
        (Some(Stop::Refusal), false),
        (Some(Stop::Other("error".into())), false),
    ] {
        let (mut draft, mut deltas) = (Draft { stop: stop.clone(), ..Draft::new(1) }, Deltas::new());
        for id in ["complete", "last"] {
            draft.begin_call(id, "delete_files", &mut deltas).unwrap();
        }
        // The wire of Chat Completions adds its reasoning at the end.
        draft.add_raw(json!({"reasoning_content": "Hm."})).unwrap();
        let message = draft.finish(Wire::OpenAiChat, MODEL).message;
        let has_arguments: Vec<bool> = message.calls().iter().map(|call| call.arguments().is_some()).collect();
        assert_eq!(has_arguments, [true, last_has_arguments], "{stop:?}");
    }
}

#[test]
fn a_stop_reason_that_contradicts_the_calls_is_corrected() {
    for (stop, with_call, without) in [
        (None, Stop::ToolCalls, Stop::End),
        (Some(Stop::End), Stop::ToolCalls, Stop::End),
        (Some(Stop::ToolCalls), Stop::ToolCalls, Stop::End),
        (Some(Stop::Length), Stop::Length, Stop::Length),
        (Some(Stop::Refusal), Stop::Refusal, Stop::Refusal),
        (Some(Stop::Other("x".into())), Stop::Other("x".into()), Stop::Other("x".into())),
    ] {
        for (has_call, expected) in [(true, with_call), (false, without)] {
            let mut draft = Draft { stop: stop.clone(), ..Draft::new(1) };
            if has_call {
                draft.begin_call("x", "f", &mut Deltas::new()).unwrap();
            }
            assert_eq!(draft.finish(Wire::OpenAiChat, MODEL).stop, expected, "{stop:?} {has_call}");
        }
    }
}

#[test]
fn consecutive_texts_are_merged_except_signed_ones() {
    let (mut draft, mut deltas) = (Draft::new(1), Deltas::new());
    draft.add_text("", &mut deltas).unwrap();
    assert!(draft.is_empty());
    draft.add_text("a", &mut deltas).unwrap();
    draft.add_text("b", &mut deltas).unwrap();
    let signed = draft.begin_text().unwrap();
    draft.append_text_at(signed, "c", &mut deltas);
    *draft.extra_mut(signed).unwrap() = signature();
    draft.add_text("d", &mut deltas).unwrap();
    draft.add_raw(Value::Null).unwrap();
    let message = draft.finish(Wire::Gemini, MODEL).message;
    let lengths: Vec<usize> = (message.blocks.unwrap().blocks.iter())
        .map(|block| if let Block::Text { bytes, .. } = block { *bytes } else { 99 })
        .collect();
    assert_eq!((&*message.content, lengths), ("abcd", vec![2, 1, 1]));
}

#[test]
fn an_answer_has_so_many_pieces_and_no_more_of_any_kind() {
    let (mut draft, mut deltas) = (Draft::new(1), Deltas::new());
    for _ in 0..MAX_PIECES {
        draft.begin_text().unwrap();
    }
    let too_many = |result: Result<PieceIndex, ModelErrorKind>| {
        assert_eq!(
            result.unwrap_err().to_string(),
            "the answer does not come from a model: it has more than 2048 pieces; check the base URL"
        );
    };
    too_many(draft.begin_text());
    too_many(draft.add_raw(json!({})));
    too_many(draft.begin_call("x", "f", &mut deltas));
    assert!(deltas.is_empty());
}
