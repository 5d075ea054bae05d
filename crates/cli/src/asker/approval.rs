//! Asks the user whether a call may run, after showing exactly what would be sent.

use std::fmt::Write as _;

use serde_json::{Map, Value};
use toolrack_host::{
    Way,
    ask::{AnswerLifetime, AnswerScope, Callers, Confirm, Confirmed},
    findings::Finding,
    text,
};

use super::{MAX_TRIES, Terminal};
use crate::{
    editor::EditOutcome,
    render::{Tone, excerpt, paint},
};

/// Returns the question with its possible answers, on one line.
fn answer_prompt(max_lifetime: AnswerLifetime) -> &'static str {
    match max_lifetime {
        AnswerLifetime::Once => "Run it? [y]es [n]o [e]dit [?] ",
        AnswerLifetime::Session => "Run it? [y]es [n]o [a]lways [s]erver always [e]dit [?] ",
        AnswerLifetime::Always => "Run it? [y]es [n]o [t]his session [a]lways [s]erver always [e]dit [?] ",
    }
}

/// Returns what each possible answer means, one per line.
fn answer_help(max_lifetime: AnswerLifetime) -> String {
    let more_answers = match max_lifetime {
        AnswerLifetime::Once => "",
        AnswerLifetime::Session => {
            "
  a  run it, and this tool without asking until the program ends
  s  run it, and every tool of this server without asking until the program ends"
        }
        AnswerLifetime::Always => {
            "
  t  run it, and this tool without asking until the program ends
  a  run it, and this tool without asking from now on, as long as it does not change
  s  run it, and every tool that this server has now, as long as it does not change
     (`toolrack policy forget` takes that back)"
        }
    };
    format!(
        "  y  run it
  n  do not run it (Enter does the same){more_answers}
  e  change the arguments first
  ?  show why you are asked, and what the server says about the tool"
    )
}

/// Returns what `answer` allows: this call only, or later calls as well. `None` when it refuses the call or is not
/// offered.
fn scope_of_answer(answer: &str, max_lifetime: AnswerLifetime) -> Option<AnswerScope> {
    match answer {
        "y" | "yes" => Some(AnswerScope::Once),
        // With `AnswerLifetime::Session` the prompt offers no `t`, because `a` then means the same.
        "t" | "this" | "session" if max_lifetime > AnswerLifetime::Once => Some(AnswerScope::Session),
        "a" | "always" if max_lifetime > AnswerLifetime::Once => Some(AnswerScope::Tool),
        "s" | "server" if max_lifetime > AnswerLifetime::Once => Some(AnswerScope::Server),
        _ => None,
    }
}

impl Terminal {
    /// Asks until there is a valid answer, at most [`MAX_TRIES`] times. The end of input counts as a refusal.
    pub(super) async fn approve(&self, mut question: Confirm) -> Confirmed {
        // The answer to an earlier question may apply to this call as well.
        if question.is_answered() {
            return Confirmed::Yes;
        }
        let original_arguments = question.arguments.clone();
        self.screen.message(&approval_page(&question));
        for _ in 0..MAX_TRIES {
            let Some(answer) = self.ask_key(answer_prompt(question.lasting)).await else {
                break;
            };
            let answer = answer.trim().to_lowercase();
            if let Some(scope) = scope_of_answer(&answer, question.lasting) {
                let edited_arguments = (question.arguments != original_arguments).then_some(question.arguments);
                return match (scope, edited_arguments) {
                    (AnswerScope::Once, None) => Confirmed::Yes,
                    (AnswerScope::Once, Some(arguments)) => Confirmed::Edited(arguments),
                    (scope, arguments) => Confirmed::Kept { keep: scope, callers: Callers::Same, arguments },
                };
            }
            match answer.as_str() {
                "e" | "edit" => {
                    if let Some(arguments) = self.edit_arguments(&question).await {
                        question.arguments = arguments;
                        self.screen.message(&approval_page(&question));
                    }
                }
                "?" => self.screen.message(&explanation(&question)),
                "" | "n" | "no" => break,
                _ => self.screen.message(&answer_help(question.lasting)),
            }
        }
        Confirmed::No { why: None }
    }

    /// Lets the user edit the arguments. Returns `None` when they stay as they are.
    async fn edit_arguments(&self, question: &Confirm) -> Option<Map<String, Value>> {
        // Writing a JSON object as text cannot fail.
        let original_text = serde_json::to_string_pretty(&question.arguments).unwrap_or_default() + "\n";
        let mut text = original_text.clone();
        for _ in 0..MAX_TRIES {
            text = match self.edit(&text).await {
                EditOutcome::Text(text) => text,
                EditOutcome::NoEditor => return self.retype_arguments(question).await,
                EditOutcome::Failed(why) => {
                    self.screen.message(&format!("  {}; the arguments stay as they are", text::for_line(&why)));
                    return None;
                }
            };
            if text == original_text || text.trim().is_empty() {
                return None;
            }
            match parse_and_check(&text, question).await {
                Ok(arguments) => return Some(arguments),
                Err(problem) => self.screen.message(&format!("  {problem}")),
            }
            let answer = self.ask_key("Edit again? [y]es, any other key leaves the arguments as they are ").await;
            if !answer.is_some_and(|key| matches!(key.trim(), "y" | "Y" | "e" | "E")) {
                return None;
            }
        }
        None
    }

    /// Lets the user type the arguments again, where there is no editor. Returns `None` when they stay as they are.
    async fn retype_arguments(&self, question: &Confirm) -> Option<Map<String, Value>> {
        for _ in 0..MAX_TRIES {
            let typed_text = self.ask("Arguments as JSON, on one line (Enter leaves them): ").await?;
            if typed_text.trim().is_empty() {
                return None;
            }
            match parse_and_check(&typed_text, question).await {
                Ok(arguments) => return Some(arguments),
                Err(problem) => self.screen.message(&format!("  {problem}")),
            }
        }
        None
    }
}

/// Parses the arguments in `text`, and checks them.
///
/// # Errors
/// The problems of the arguments, safe to print.
async fn parse_and_check(text: &str, question: &Confirm) -> Result<Map<String, Value>, String> {
    let arguments = serde_json::from_str::<Map<String, Value>>(text);
    let arguments = arguments.map_err(|error| format!("no JSON object: {}", text::for_line(&error.to_string())))?;
    question.check(arguments.clone()).await.map_err(|problem| text::for_line(&problem).into_owned())?;
    Ok(arguments)
}

/// Returns the page that is shown before the question: the tool, the reason for the question, and everything that would
/// be sent.
fn approval_page(question: &Confirm) -> String {
    let mut page = paint(Tone::Strong, &format!("Run {}/{}?", question.server, text::for_line(&question.tool)));
    let _ = write!(page, " {}", text::for_line(&question.why));
    if question.destructive {
        let _ = write!(page, " {}", paint(Tone::Bad, "[destructive]"));
    }
    // Writing a JSON object as text cannot fail, so the page never shows less than is sent.
    let arguments = serde_json::to_string_pretty(&question.arguments).unwrap_or_default();
    if !question.findings.is_empty() {
        let count = question.findings.len();
        let noun = if count == 1 { "thing" } else { "things" };
        let _ = write!(page, "\n{} {count} {noun} in its definition: type ? for details.", paint(Tone::Bad, "Look at"));
    }
    if question.caller.way() != Way::Cli {
        let _ = write!(page, "\nWanted by {}.", question.caller);
    }
    let _ = write!(page, "\n{}", text::for_terminal(&arguments));
    page
}

/// Returns the reason of the question, the facts about the tool, and the possible answers.
fn explanation(question: &Confirm) -> String {
    let mut lines = vec![format!("You are asked because {}.", text::for_line(&question.why))];
    let claim = match (question.destructive, question.read_only) {
        (true, _) => Some("may destroy something"),
        (_, true) => Some("changes nothing"),
        _ => None,
    };
    let server = &question.server;
    lines.extend(claim.map(|claim| format!("`{server}` says that it {claim}; this is not checked.")));
    lines.push(match question.description.as_deref().map(str::trim) {
        None | Some("") => format!("`{server}` does not describe the tool."),
        Some(text) => {
            let show_all = format!("toolrack tools {server}/{} --full", text::for_line(&question.tool));
            format!("`{server}` describes the tool:\n{}", excerpt::lines(text, &show_all).join("\n"))
        }
    });
    for Finding { place, what, .. } in &question.findings {
        lines.push(format!("{} {}: {}", paint(Tone::Bad, "look at"), text::for_line(place), text::for_line(what)));
    }
    lines.push(answer_help(question.lasting));
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use toolrack_host::{Asker as _, Caller, ServerName};

    use super::{super::tests::typed, *};

    fn question(tool: &str) -> Confirm {
        let arguments = json!({ "path": "a\u{1b}[2J" }).as_object().unwrap().clone();
        let server = ServerName::new("fs").unwrap();
        let mut question = Confirm::new(server, tool, arguments, "no rule allows it");
        question.destructive = true;
        question
    }

    #[tokio::test]
    async fn only_a_clear_yes_runs_it() {
        for yes in ["y", " YES "] {
            assert_eq!(typed(&[yes]).confirm(question("rm")).await, Confirmed::Yes);
        }
        for no in [vec!["n"], vec![""], vec![], vec!["what?"], vec!["what?", "no"], vec!["?", "?"], vec!["e"]] {
            assert_eq!(typed(&no).confirm(question("rm")).await, Confirmed::No { why: None }, "{no:?}");
        }
        let nonsense = ["huh"; MAX_TRIES + 1];
        assert_eq!(typed(&nonsense).confirm(question("rm")).await, Confirmed::No { why: None });
        assert_eq!(typed(&["?", "y"]).confirm(question("rm")).await, Confirmed::Yes);
    }

    #[tokio::test]
    async fn the_scope_of_an_answer_is_passed_on_where_several_scopes_are_possible() {
        let asked = |lasting| {
            let mut asked = question("rm");
            asked.lasting = lasting;
            asked
        };
        for (typed_word, keep) in [("t", AnswerScope::Session), ("a", AnswerScope::Tool), ("S", AnswerScope::Server)] {
            let kept = Confirmed::Kept { keep, callers: Callers::Same, arguments: None };
            assert_eq!(typed(&[typed_word]).confirm(asked(AnswerLifetime::Always)).await, kept);
            assert_eq!(typed(&[typed_word]).confirm(asked(AnswerLifetime::Session)).await, kept);
            let refused = typed(&[typed_word, "n"]).confirm(asked(AnswerLifetime::Once)).await;
            assert_eq!(refused, Confirmed::No { why: None }, "a secret is asked about each time");
        }
        assert!(
            !answer_prompt(AnswerLifetime::Once).contains("always")
                && answer_prompt(AnswerLifetime::Always).contains("[t]his session")
        );
    }

    #[tokio::test]
    async fn the_arguments_typed_last_are_sent() {
        let edited = |json: Value| Confirmed::Edited(json.as_object().unwrap().clone());
        let terminal = typed(&["e", "{\"path\": \"b\"}", "y"]);
        assert_eq!(terminal.confirm(question("rm")).await, edited(json!({ "path": "b" })));
        let terminal = typed(&["e", "no json", "[1]", "{}", "e", "", "y"]);
        assert_eq!(terminal.confirm(question("rm")).await, edited(json!({})));
        let terminal = typed(&["e", "{\"path\": \"b\"}", "n"]);
        assert_eq!(terminal.confirm(question("rm")).await, Confirmed::No { why: None });
        let terminal = typed(&["e", "", "y"]);
        assert_eq!(terminal.confirm(question("rm")).await, Confirmed::Yes, "as it was asked");
    }

    #[test]
    fn a_question_names_the_caller_unless_the_user_typed_the_call() {
        let mut question = question("rm");
        question.caller = Caller::local(Way::Gateway).with_client("an\neditor");
        let plain = anstream::adapter::strip_str(&approval_page(&question)).to_string();
        assert!(plain.contains("\nWanted by a client that calls itself `an"), "{plain}");
        question.caller = Caller::local(Way::Cli);
        assert!(!approval_page(&question).contains("Wanted by"));
    }

    #[test]
    fn all_that_is_sent_is_shown_and_nothing_of_it_reaches_the_terminal_as_more_than_text() {
        let hostile = "a\u{1b}]0;title\u{7}\u{202e}";
        let mut question = question(&format!("rm{hostile}"));
        question.description = Some(hostile.to_owned());
        hostile.clone_into(&mut question.why);
        for shown in [approval_page(&question), explanation(&question)] {
            let plain = anstream::adapter::strip_str(&shown).to_string();
            assert!(!plain.contains(['\u{1b}', '\u{7}', '\u{202e}']), "{plain:?}");
        }
        let plain = anstream::adapter::strip_str(&approval_page(&question)).to_string();
        assert!(plain.contains("[destructive]") && plain.contains("\"path\": \"a"), "{plain}");
    }
}
