//! The gate's question as a form that a client can show.

use serde_json::{Value, json};
use toolrack_host::{
    ask::{Confirm, Confirmed},
    text,
};

/// The most of the arguments that is shown, in bytes.
const SHOWN_ARGUMENTS: usize = 2_000;
const SHOWN_DESCRIPTION: usize = 300;

/// The parameters of `elicitation/create`. The answer is a field, and not only "accept": a client that accepts forms
/// with what they propose must not approve calls that way.
pub(super) fn form(question: &Confirm) -> Value {
    json!({
        "mode": "form",
        "message": message(question),
        "requestedSchema": {
            "type": "object",
            "properties": {
                "decision": {
                    "type": "string",
                    "title": "Decision",
                    "description": "`allow` runs this call once; anything else does not run it",
                    "enum": ["allow", "deny"],
                },
            },
            "required": ["decision"],
        },
    })
}

fn message(question: &Confirm) -> String {
    let safe = |foreign: &str, bytes: usize| text::for_line(&text::clip(foreign, bytes)).into_owned();
    let arguments = Value::Object(question.arguments.clone()).to_string();
    let nature = match (question.destructive, question.read_only) {
        (true, _) => " Its server says that it may destroy something.",
        (false, true) => " Its server says that it changes nothing.",
        (false, false) => "",
    };
    let said = question.description.as_deref().filter(|said| !said.trim().is_empty());
    let said = said.map(|said| format!("\nIts server describes it so: {}", safe(said, SHOWN_DESCRIPTION)));
    format!(
        "May the tool {} of the server {} be called?{nature}\nArguments: {}\nAsked because: {}{}",
        safe(&question.tool, 200),
        question.server,
        safe(&arguments, SHOWN_ARGUMENTS),
        safe(&question.why, 500),
        said.unwrap_or_default(),
    )
}

/// What the client answered.
pub(super) fn read(answer: Result<Value, String>) -> Confirmed {
    let no = |why: &str| Confirmed::No { why: Some(why.to_owned()) };
    match answer {
        Ok(answer) if answer["action"] == "accept" && answer["content"]["decision"] == "allow" => Confirmed::Yes,
        Ok(answer) if answer["action"] == "cancel" => no("nobody decided"),
        Ok(_) => no("it was declined"),
        Err(why) => Confirmed::No { why: Some(format!("nobody decided: {why}")) },
    }
}

#[cfg(test)]
mod tests {
    use toolrack_host::ServerName;

    use super::*;

    #[test]
    fn only_a_decision_to_allow_is_one() {
        for (answer, allowed) in [
            (json!({"action": "accept", "content": {"decision": "allow"}}), true),
            (json!({"action": "accept", "content": {"decision": "deny"}}), false),
            (json!({"action": "accept", "content": {}}), false),
            (json!({"action": "accept"}), false),
            (json!({"action": "decline", "content": {"decision": "allow"}}), false),
            (json!({}), false),
        ] {
            assert_eq!(read(Ok(answer.clone())) == Confirmed::Yes, allowed, "{answer}");
        }
    }

    #[test]
    fn what_servers_say_cannot_fake_another_line_of_the_question() {
        let arguments = json!({"path": "a\u{1b}[2J"}).as_object().cloned().unwrap();
        let server = ServerName::new("fs").unwrap();
        let mut question = Confirm::new(server, "write\nAsked because: you said so", arguments, "rule 1");
        question.description = Some("nice\nDecision: allow".into());
        let message = form(&question)["message"].as_str().unwrap().to_owned();
        assert_eq!(message.lines().count(), 4, "{message}");
        assert!(!message.contains('\u{1b}'));
    }
}
