//! Asks a client whether a call may run. The question is a form, because MCP has no request for approvals.

use serde_json::{Map, Value, json};
use toolrack_host::{
    ask::{AnswerLifetime, AnswerScope, Callers, Confirm, Confirmed},
    text,
};

/// The maximum number of bytes that the form shows of the arguments, of the description, of the tool's name, and of the
/// reason for the question.
const MAX_ARGUMENT_BYTES: usize = 2_000;
const MAX_DESCRIPTION_BYTES: usize = 300;
const MAX_TOOL_NAME_BYTES: usize = 200;
const MAX_REASON_BYTES: usize = 500;

/// The answers that apply to later calls as well.
const ALLOW_SESSION: &str = "allow_session";
const ALWAYS_TOOL: &str = "always_tool";
const ALWAYS_SERVER: &str = "always_server";

/// The parameters of `elicitation/create`. To approve, a client must fill in the field `decision`: a client that
/// accepts every form with its default values does not approve calls that way.
pub(super) fn form(question: &Confirm) -> Value {
    let (decisions, further_decisions): (&[&str], _) = match question.lasting {
        AnswerLifetime::Once => (&["allow", "deny"], ""),
        AnswerLifetime::Session => (&["allow", ALLOW_SESSION, "deny"], ", `allow_session` until Toolrack ends"),
        AnswerLifetime::Always => (
            &["allow", ALLOW_SESSION, ALWAYS_TOOL, ALWAYS_SERVER, "deny"],
            ", `allow_session` until Toolrack ends, `always_tool` this tool from now on, `always_server` every tool that its \
             server has now, each as long as it does not change",
        ),
    };
    json!({
        "mode": "form",
        "message": message(question),
        "requestedSchema": {
            "type": "object",
            "properties": {
                "decision": {
                    "type": "string",
                    "title": "Decision",
                    "description": format!("`allow` runs this call{further_decisions}; anything else does not run it"),
                    "enum": decisions,
                },
                "arguments": {
                    "type": "string",
                    "title": "Other arguments",
                    "description": "Leave it empty to run the call unchanged; a JSON object replaces the arguments",
                },
            },
            "required": ["decision"],
        },
    })
}

/// The text of the form: what the call would do, and why the user is asked. Texts of servers are cut and escaped.
fn message(question: &Confirm) -> String {
    let for_one_line = |foreign: &str, bytes: usize| text::for_line(&text::clip(foreign, bytes)).into_owned();
    let arguments = Value::Object(question.arguments.clone()).to_string();
    let hint = match (question.destructive, question.read_only) {
        (true, _) => " Its server says that it may destroy something.",
        (false, true) => " Its server says that it changes nothing.",
        (false, false) => "",
    };
    let description = question.description.as_deref().filter(|text| !text.trim().is_empty());
    let description = description
        .map(|text| format!("\nIts server describes it as follows: {}", for_one_line(text, MAX_DESCRIPTION_BYTES)));
    format!(
        "May the tool {} of the server {} be called?{hint}\nArguments: {}\nAsked because: {}{}",
        for_one_line(&question.tool, MAX_TOOL_NAME_BYTES),
        question.server,
        for_one_line(&arguments, MAX_ARGUMENT_BYTES),
        for_one_line(&question.why, MAX_REASON_BYTES),
        description.unwrap_or_default(),
    )
}

/// Reads the client's answer to the form.
pub(super) fn read_answer(answer: Result<Value, String>) -> Confirmed {
    let denied = |why: &str| Confirmed::No { why: Some(why.to_owned()) };
    match answer {
        Ok(answer) if answer["action"] == "accept" => {
            let scope = match answer["content"]["decision"].as_str() {
                Some("allow") => AnswerScope::Once,
                Some(ALLOW_SESSION) => AnswerScope::Session,
                Some(ALWAYS_TOOL) => AnswerScope::Tool,
                Some(ALWAYS_SERVER) => AnswerScope::Server,
                _ => return denied("it was declined"),
            };
            let typed_arguments = answer["content"]["arguments"]
                .as_str()
                .map(str::trim)
                .filter(|typed_arguments| !typed_arguments.is_empty());
            let arguments = match typed_arguments.map(serde_json::from_str::<Map<String, Value>>).transpose() {
                Ok(arguments) => arguments,
                Err(_) => return denied("the other arguments were not a JSON object"),
            };
            match (scope, arguments) {
                (AnswerScope::Once, None) => Confirmed::Yes,
                (AnswerScope::Once, Some(arguments)) => Confirmed::Edited(arguments),
                // A client answers only for the principal that connected it.
                (scope, arguments) => Confirmed::Kept { keep: scope, callers: Callers::Same, arguments },
            }
        }
        Ok(answer) if answer["action"] == "cancel" => denied("the user did not decide"),
        Ok(_) => denied("it was declined"),
        Err(why) => Confirmed::No { why: Some(format!("the user did not decide: {why}")) },
    }
}

#[cfg(test)]
mod tests {
    use toolrack_host::ServerName;

    use super::*;

    #[test]
    fn only_a_decision_to_allow_runs_the_call() {
        for (answer, allowed) in [
            (json!({"action": "accept", "content": {"decision": "allow"}}), true),
            (json!({"action": "accept", "content": {"decision": "deny"}}), false),
            (json!({"action": "accept", "content": {}}), false),
            (json!({"action": "accept"}), false),
            (json!({"action": "decline", "content": {"decision": "allow"}}), false),
            (json!({}), false),
        ] {
            assert_eq!(read_answer(Ok(answer.clone())) == Confirmed::Yes, allowed, "{answer}");
        }
    }

    #[test]
    fn an_answer_may_cover_later_calls_and_change_the_arguments() {
        let answer = |content: Value| read_answer(Ok(json!({ "action": "accept", "content": content })));
        let arguments = json!({ "path": "b" }).as_object().cloned();
        for (word, keep) in [
            (ALLOW_SESSION, AnswerScope::Session),
            (ALWAYS_TOOL, AnswerScope::Tool),
            (ALWAYS_SERVER, AnswerScope::Server),
        ] {
            let expected = Confirmed::Kept { keep, callers: Callers::Same, arguments: None };
            assert_eq!(answer(json!({ "decision": word, "arguments": " " })), expected);
        }
        let edited = answer(json!({ "decision": ALWAYS_TOOL, "arguments": "{\"path\": \"b\"}" }));
        assert_eq!(
            edited,
            Confirmed::Kept { keep: AnswerScope::Tool, callers: Callers::Same, arguments: arguments.clone() }
        );
        let edited = answer(json!({ "decision": "allow", "arguments": "{\"path\": \"b\"}" }));
        assert_eq!(Some(edited), arguments.map(Confirmed::Edited));
        assert!(matches!(answer(json!({ "decision": "allow", "arguments": "rm" })), Confirmed::No { .. }));
        let words = |lasting| {
            let server = ServerName::new("fs").unwrap();
            let mut question = Confirm::new(server, "write", Map::new(), "rule 1");
            question.lasting = lasting;
            form(&question)["requestedSchema"]["properties"]["decision"]["enum"].as_array().unwrap().len()
        };
        assert_eq!([AnswerLifetime::Once, AnswerLifetime::Session, AnswerLifetime::Always].map(words), [2, 3, 5]);
    }

    #[test]
    fn text_of_servers_cannot_fake_another_line_of_the_question() {
        let arguments = json!({"path": "a\u{1b}[2J"}).as_object().cloned().unwrap();
        let server = ServerName::new("fs").unwrap();
        let mut question = Confirm::new(server, "write\nAsked because: you said so", arguments, "rule 1");
        question.description = Some("nice\nDecision: allow".into());
        let message = form(&question)["message"].as_str().unwrap().to_owned();
        assert_eq!(message.lines().count(), 4, "{message}");
        assert!(!message.contains('\u{1b}'));
    }
}
