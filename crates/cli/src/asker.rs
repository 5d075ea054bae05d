//! Asks the user at the terminal the questions of servers (MCP elicitation, sampling and roots) and of the rules about
//! calls. The host asks through its trait `Asker`, which [`Terminal`] implements.
//!
//! Questions go to stderr and answers come from stdin, one question at a time. Nothing is opened, fetched or sent
//! before the user has seen all of it and agreed.

mod answers;
mod approval;
mod form;
mod keys;
mod lines;
mod sampling;

use std::{fmt::Write, sync::Arc};

use arc_swap::ArcSwapOption;
use futures::future::BoxFuture;
use serde_json::{Map, Value};
use tokio::sync::Semaphore;
use toolrack_host::{
    Abilities, Asker, ServerName,
    ask::{AskRefused, Confirm, Confirmed, Elicitation, Elicited, Root},
    text,
};
use url::{Position, Url};

use crate::{
    args::Global,
    editor::{EditOutcome, Editor},
    error::Failure,
    lending::BorrowerLines,
    render::{Tone, paint},
    screen::Screen,
};
use answers::PresetAnswers;
pub(crate) use answers::read_answers_file;
use form::Field;
pub(crate) use keys::KeyMode;
use lines::Lines;
pub(crate) use lines::OwnLines;
pub(crate) use sampling::Sampler;

/// How often the same question is asked at most. The limit keeps a broken terminal from causing an endless loop.
const MAX_TRIES: usize = 20;

/// What is shown while the user changes arguments in an editor.
pub(crate) const EDITOR_IS_OPEN: &str = "The arguments are open in your editor.";

/// Asks the user at the terminal. Without a terminal, it can answer only with the folders of `--root` and the answers
/// of `--answer` and `--answers`.
#[derive(Debug)]
pub(crate) struct Terminal {
    screen: Arc<Screen>,
    roots: Vec<Root>,
    lines: Lines,
    /// Has one permit, whose holder may use the terminal, so only one question is open at a time. The semaphore is
    /// never closed.
    permit: Semaphore,
    /// The answers that `--answer` and `--answers` give to forms.
    answers: Option<PresetAnswers>,
    /// The model that may answer servers, if there is one.
    sampler: ArcSwapOption<Sampler>,
}

/// A question on the terminal that waits for its answer. If the asking task is cancelled, this value is dropped and
/// ends the line of the question. The next output then begins on a new line.
struct OpenQuestion<'a>(&'a Screen);

impl Drop for OpenQuestion<'_> {
    fn drop(&mut self) {
        self.0.end_status_line();
    }
}

impl Terminal {
    pub(crate) fn new(screen: Arc<Screen>, roots: Vec<Root>, editor: Editor) -> Self {
        Self {
            screen,
            roots,
            lines: Lines::from_stdin(editor),
            permit: Semaphore::new(1),
            answers: None,
            sampler: ArcSwapOption::empty(),
        }
    }

    /// Creates the asker of this terminal, with the answers of `--answer` and `--answers`.
    ///
    /// # Errors
    /// When the answers are invalid.
    pub(crate) fn with_answers(self, global: &Global) -> Result<Self, Failure> {
        Ok(Self { answers: PresetAnswers::from_options(global)?, ..self })
    }

    /// Returns the failure of the first form that the given answers did not match.
    pub(crate) fn form_failure(&self) -> Option<Failure> {
        self.answers.as_ref()?.failure()
    }

    /// Creates the asker of a command that this process runs for another process, the borrower. The asker uses the
    /// terminal of the borrower.
    pub(crate) fn for_borrower(screen: Arc<Screen>, lines: BorrowerLines) -> Self {
        Self { lines: Lines::Borrower(lines), ..Self::new(screen, Vec::new(), Editor::none()) }
    }

    /// Lets `sampler` answer the sampling requests of servers from now on, each after the user has agreed. A server of
    /// 2025-11-25 or older that is already connected is not told that sampling is possible now.
    pub(crate) fn sample_with(&self, sampler: Sampler) {
        self.sampler.store(Some(Arc::new(sampler)));
    }

    /// Shows `prompt` and waits for a line; `None` at the end of input (Ctrl-D).
    async fn ask(&self, prompt: &str) -> Option<String> {
        self.screen.prompt(prompt);
        let open_question = OpenQuestion(&self.screen);
        let line = self.lines.next().await;
        self.screen.record_answer();
        drop(open_question);
        if line.is_none() {
            // The terminal prints no line end for Ctrl-D.
            self.screen.message("");
        }
        line
    }

    /// Shows `prompt` and waits for a key, which answers without Enter; `None` at the end of input (Ctrl-D).
    async fn ask_key(&self, prompt: &str) -> Option<String> {
        // Switch to keys before showing the question: otherwise a key that the user types at once could be lost.
        let keys = self.lines.enter_key_mode();
        self.screen.prompt(prompt);
        let open_question = OpenQuestion(&self.screen);
        let key = self.lines.key().await;
        self.screen.record_answer();
        drop(open_question);
        drop(keys);
        self.screen.message(&key.as_deref().map_or_else(String::new, |key| text::for_line(key.trim()).into_owned()));
        key
    }

    /// Lets the user change `text` in an editor.
    async fn edit(&self, text: &str) -> EditOutcome {
        let words = if self.lines.has_own_editor() { EDITOR_IS_OPEN } else { "" };
        self.screen.prompt(words);
        let open_question = OpenQuestion(&self.screen);
        let edit_outcome = self.lines.edit(text).await;
        self.screen.record_answer();
        drop(open_question);
        if !words.is_empty() {
            self.screen.message("");
        }
        edit_outcome
    }

    /// Returns the next line of stdin, without showing a question; `None` at the end of input (Ctrl-D).
    pub(crate) async fn next_line(&self) -> Option<String> {
        self.lines.next().await
    }

    /// Runs `reader`, which reads the terminal itself: questions wait until it has ended.
    pub(crate) async fn run_exclusively<T>(&self, reader: impl Future<Output = T>) -> T {
        let _permit = self.permit.acquire().await;
        reader.await
    }

    /// Asks the user a question of Toolrack itself, not of a server; `None` at the end of input (Ctrl-D).
    pub(crate) async fn ask_value(&self, question: &str) -> Option<String> {
        let _permit = self.permit.acquire().await.ok()?;
        self.ask(question).await
    }

    /// Asks a yes-or-no question, and returns whether the user says yes. No answer counts as a no.
    pub(crate) async fn ask_confirmation(&self, question: &str) -> bool {
        let Ok(_permit) = self.permit.acquire().await else {
            return false;
        };
        self.ask_yes_no(question).await == Some(true)
    }

    /// Returns the answer to a yes-or-no question; `None` at the end of input (Ctrl-D).
    async fn ask_yes_no(&self, question: &str) -> Option<bool> {
        let answer = self.ask(&format!("{question} [y/N] ")).await?;
        Some(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"))
    }

    /// Shows the form of a server, has the user fill it in, and sends it only after the user has seen all values again.
    async fn fill_in(&self, server: &ServerName, message: &str, schema: &Value) -> Elicited {
        self.screen.message(&server_question(server, message));
        let fields = match form::fields(schema) {
            Ok(fields) => fields,
            Err(why) => {
                self.screen.message(&format!("declined: {why}"));
                return Elicited::Decline;
            }
        };
        if let Some(elicited) = self.preset_answers(server, &fields) {
            return elicited;
        }
        self.screen.message("Enter takes the value in brackets; Ctrl-D leaves the form.");
        let mut values = Map::new();
        for _ in 0..MAX_TRIES {
            let Some(new_values) = self.fill_in_fields(&fields, &values).await else {
                break;
            };
            values = new_values;
            self.screen.message(&summary(&fields, &values));
            match self.ask_decision(server).await {
                Some(FormDecision::Send) => return Elicited::Accept(values),
                Some(FormDecision::Decline) => return Elicited::Decline,
                Some(FormDecision::Edit) => {}
                None => break,
            }
        }
        Elicited::Cancel
    }

    /// Asks for the values of all fields; `previous` are the values of the previous attempt. `None` at the end of input
    /// (Ctrl-D).
    async fn fill_in_fields(&self, fields: &[Field], previous: &Map<String, Value>) -> Option<Map<String, Value>> {
        let mut values = Map::new();
        for field in fields {
            match self.fill_in_field(field, previous.get(&field.name)).await? {
                FieldInput::Value(value) => {
                    values.insert(field.name.clone(), value);
                }
                FieldInput::LeftOut => {}
            }
        }
        Some(values)
    }

    /// Asks whether to send the form. Enter is no answer here, because the user has just confirmed fields with it.
    /// `None` at the end of input (Ctrl-D).
    async fn ask_decision(&self, server: &ServerName) -> Option<FormDecision> {
        for _ in 0..MAX_TRIES {
            let key = self.ask_key(&format!("Send this to `{server}`? [y]es [n]o [e]dit ")).await?;
            match key.trim().to_lowercase().as_str() {
                "y" | "yes" => return Some(FormDecision::Send),
                "n" | "no" => return Some(FormDecision::Decline),
                "e" | "edit" => return Some(FormDecision::Edit),
                _ => self
                    .screen
                    .message("  y sends it, n declines, e goes through the fields again; Ctrl-D leaves the form"),
            }
        }
        None
    }

    /// Returns the answers that `--answer` and `--answers` give to a form; `None` if the user at the terminal must fill
    /// it in.
    fn preset_answers(&self, server: &ServerName, fields: &[Field]) -> Option<Elicited> {
        let answers = self.answers.as_ref()?;
        match answers.values_for(fields) {
            Ok(Some(values)) => {
                let names: Vec<_> = values.keys().map(|name| text::for_line(name).into_owned()).collect();
                self.screen.safe_note(&format!("answered as --answer says: {}", names.join(", ")));
                Some(Elicited::Accept(values))
            }
            Ok(None) if self.screen.is_interactive() => None,
            // `values_for` returns `None` only if a field has no answer, so there is a field to name.
            Ok(None) => {
                let missing =
                    fields.iter().find(|field| answers.lacks_answer_for(field)).map_or("", |field| &field.name);
                answers.record_failure(format!(
                    "`{server}` asks for `{}`, and no answer is given",
                    text::for_line(missing)
                ));
                Some(Elicited::Cancel)
            }
            Err(why) => {
                answers.record_failure(format!("`{server}` asks in a form, and {why}"));
                Some(Elicited::Cancel)
            }
        }
    }

    /// Asks for the value of a field, until it is valid. `None` at the end of input (Ctrl-D), or after too many invalid
    /// values. Enter takes `previous`, the value of the previous attempt, if there is one.
    async fn fill_in_field(&self, field: &Field, previous: Option<&Value>) -> Option<FieldInput> {
        for line in field.intro() {
            self.screen.message(&line);
        }
        for _ in 0..MAX_TRIES {
            let typed_text = self.ask(&field.prompt(previous)).await?;
            if let ("", Some(value)) = (typed_text.trim(), previous) {
                return Some(FieldInput::Value(value.clone()));
            }
            match field.read(typed_text.trim()) {
                Ok(Some(value)) => return Some(FieldInput::Value(value)),
                Ok(None) => return Some(FieldInput::LeftOut),
                Err(why) => self.screen.message(&format!("  {why}")),
            }
        }
        None
    }

    /// Shows the URL that a server wants the user to open, and asks whether to go on.
    async fn ask_to_open(&self, server: &ServerName, message: &str, url: &str) -> Elicited {
        let Some(page) = url_page(server, message, url) else {
            self.screen.message(&format!("declined: `{server}` sent an invalid URL"));
            return Elicited::Decline;
        };
        self.screen.message(&page);
        match self.ask_yes_no("Open it yourself if you trust it. Go on?").await {
            Some(true) => Elicited::Accept(Map::new()),
            Some(false) => Elicited::Decline,
            None => Elicited::Cancel,
        }
    }
}

impl Asker for Terminal {
    fn abilities(&self) -> Abilities {
        let mut abilities = Abilities::NONE;
        abilities.roots = !self.roots.is_empty();
        abilities.forms = self.answers.is_some();
        if self.screen.is_interactive() {
            abilities.confirm = true;
            abilities.forms = true;
            abilities.urls = true;
            abilities.sampling = self.sampler.load().is_some();
        }
        abilities
    }

    /// No other asker takes part: even a command that a daemon runs must not wait for the user of the dashboard.
    fn is_exclusive(&self) -> bool {
        true
    }

    fn confirm(&self, question: Confirm) -> BoxFuture<'_, Confirmed> {
        Box::pin(async move {
            let Ok(_permit) = self.permit.acquire().await else {
                return Confirmed::No { why: None };
            };
            self.approve(question).await
        })
    }

    fn elicit(&self, server: ServerName, question: Elicitation) -> BoxFuture<'_, Elicited> {
        Box::pin(async move {
            let Ok(_permit) = self.permit.acquire().await else {
                return Elicited::Cancel;
            };
            match question {
                Elicitation::Form { message, schema } => self.fill_in(&server, &message, &schema).await,
                Elicitation::Url { message, url, .. } => self.ask_to_open(&server, &message, &url).await,
            }
        })
    }

    fn sample(&self, server: ServerName, request: Value) -> BoxFuture<'_, Result<Value, AskRefused>> {
        Box::pin(self.answer_by_model(server, request))
    }

    fn roots(&self, _: ServerName) -> BoxFuture<'_, Vec<Root>> {
        Box::pin(async { self.roots.clone() })
    }
}

/// What the user typed for a field.
enum FieldInput {
    Value(Value),
    /// The user leaves the field out.
    LeftOut,
}

/// The user's decision about a form that is filled in.
enum FormDecision {
    Send,
    Decline,
    Edit,
}

/// Returns all values of a form, as they would be sent.
fn summary(fields: &[Field], values: &Map<String, Value>) -> String {
    let mut lines = vec![paint(Tone::Strong, "You have filled in:")];
    lines.extend(fields.iter().map(|field| field.summary_line(values.get(&field.name))));
    lines.join("\n")
}

/// Returns the line that names the server and quotes its message.
fn server_question(server: &ServerName, message: &str) -> String {
    let head = paint(Tone::Strong, &format!("The server `{server}` asks:"));
    format!("{head} {}", text::for_terminal(message))
}

/// Returns the whole URL with its host highlighted, and warnings about it; `None` when it is not a URL.
fn url_page(server: &ServerName, message: &str, url: &str) -> Option<String> {
    let url = Url::parse(url).ok()?;
    let host = &url[Position::BeforeHost..Position::AfterHost];
    if host.is_empty() {
        return None;
    }
    let mut page = format!(
        "{}\n\n  {}{}{}\n",
        server_question(server, message),
        text::for_line(&url[..Position::BeforeHost]),
        paint(Tone::Strong, &text::for_line(host)),
        text::for_line(&url[Position::AfterHost..]),
    );
    if host.split('.').any(|label| label.starts_with("xn--")) {
        let _ =
            write!(page, "\n{} the name of this host has letters that look like others", paint(Tone::Bad, "careful:"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        let _ = write!(page, "\n{} the text before the @ is not the host", paint(Tone::Bad, "careful:"));
    }
    Some(page)
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use toolrack_config::Environment;

    use super::*;

    fn server() -> ServerName {
        ServerName::new("fs").unwrap()
    }

    /// Returns a terminal at which a user types these lines; then the input ends.
    pub(super) fn typed(lines: &[&str]) -> Terminal {
        let mut lines: std::collections::VecDeque<_> = lines.iter().map(|line| (*line).to_owned()).collect();
        let screen = Screen::new(&Global::default(), &Environment::default());
        let lines = Lines::new(move || lines.pop_front());
        Terminal { lines, ..Terminal::new(Arc::new(screen), Vec::new(), Editor::none()) }
    }

    fn form() -> Elicitation {
        let schema = json!({
            "type": "object",
            "properties": {
                "age": { "type": "integer", "minimum": 0 },
                "city": { "type": "string", "default": "Bonn" },
                "note": { "type": "string" },
            },
            "required": ["age"],
        });
        Elicitation::Form { message: "Who are you?".to_owned(), schema }
    }

    #[tokio::test]
    async fn a_form_is_filled_in_field_by_field() {
        let terminal = typed(&["old", "36", "", "", "y"]);
        let answers = json!({ "age": 36, "city": "Bonn" });
        let expected = Elicited::Accept(answers.as_object().unwrap().clone());
        assert_eq!(terminal.elicit(server(), form()).await, expected);
    }

    #[tokio::test]
    async fn a_form_is_sent_only_after_the_user_agreed_to_all_of_it() {
        assert_eq!(typed(&["36", "", "", "n"]).elicit(server(), form()).await, Elicited::Decline);
        assert_eq!(typed(&["36", "", "", "", "n"]).elicit(server(), form()).await, Elicited::Decline);
        assert_eq!(typed(&["36", "", "", "", ""]).elicit(server(), form()).await, Elicited::Cancel);
        assert_eq!(typed(&["36", "", ""]).elicit(server(), form()).await, Elicited::Cancel);
        assert_eq!(typed(&[]).elicit(server(), form()).await, Elicited::Cancel);
    }

    #[tokio::test]
    async fn enter_at_the_end_does_not_answer_and_the_fields_can_be_edited() {
        let terminal = typed(&["36", "Ulm", "", "", "e", "", "", "a note", "y"]);
        let answers = json!({ "age": 36, "city": "Ulm", "note": "a note" });
        let expected = Elicited::Accept(answers.as_object().unwrap().clone());
        assert_eq!(terminal.elicit(server(), form()).await, expected);
    }

    #[test]
    fn all_values_are_shown_before_they_are_sent() {
        let Elicitation::Form { schema, .. } = form() else { unreachable!() };
        let answers = json!({ "age": 36, "city": "\u{1b}[2JUlm" });
        let page = plain(&summary(&form::fields(&schema).unwrap(), answers.as_object().unwrap()));
        assert_eq!(page, "You have filled in:\n  age: 36\n  city: \\u{1b}[2JUlm\n  note: (left out)");
    }

    #[tokio::test]
    async fn a_form_without_a_valid_answer_is_given_up_after_some_tries() {
        let nonsense = ["old"; MAX_TRIES + 1];
        assert_eq!(typed(&nonsense).elicit(server(), form()).await, Elicited::Cancel);
    }

    #[tokio::test]
    async fn the_user_agrees_to_open_a_url_or_declines_or_leaves() {
        let url = || Elicitation::Url { message: String::new(), url: "https://example.com/".to_owned(), id: None };
        assert_eq!(typed(&["y"]).elicit(server(), url()).await, Elicited::Accept(Map::new()));
        assert_eq!(typed(&["n"]).elicit(server(), url()).await, Elicited::Decline);
        assert_eq!(typed(&[]).elicit(server(), url()).await, Elicited::Cancel);
    }

    #[tokio::test]
    async fn two_questions_are_asked_one_after_the_other() {
        let terminal = typed(&["36", "", "", "y", "n"]);
        let url = Elicitation::Url { message: String::new(), url: "https://example.com/".to_owned(), id: None };
        let (first, second) = tokio::join!(terminal.elicit(server(), form()), terminal.elicit(server(), url));
        assert!(matches!(first, Elicited::Accept(_)));
        assert_eq!(second, Elicited::Decline);
    }

    #[test]
    fn without_a_terminal_there_is_no_user_to_ask() {
        let screen = Arc::new(Screen::new(&Global { no_input: true, ..Global::default() }, &Environment::default()));
        assert_eq!(Terminal::new(Arc::clone(&screen), Vec::new(), Editor::none()).abilities(), Abilities::NONE);
        let roots = vec![Root { uri: "file:///x/".to_owned(), name: None }];
        let terminal = Terminal::new(screen, roots, Editor::none());
        terminal.sample_with(sampling::tests::silent_sampler());
        assert_eq!(terminal.abilities(), Abilities { roots: true, ..Abilities::NONE });
    }

    fn plain(page: &str) -> String {
        anstream::adapter::strip_str(page).to_string()
    }

    #[test]
    fn a_url_is_shown_in_full_with_its_host_highlighted() {
        let page = url_page(&server(), "Sign in", "https://id.example.com/a?b=c#d").unwrap();
        assert!(page.contains(&format!("https://{}", paint(Tone::Strong, "id.example.com"))));
        assert_eq!(plain(&page), "The server `fs` asks: Sign in\n\n  https://id.example.com/a?b=c#d\n");
    }

    #[test]
    fn a_url_that_misleads_gets_a_warning() {
        let look_alike = url_page(&server(), "", "https://аpple.com/").unwrap();
        assert!(plain(&look_alike).contains("xn--"), "{look_alike}");
        assert!(plain(&look_alike).contains("careful: the name"));
        let before_at = url_page(&server(), "", "https://google.com@evil.example/").unwrap();
        assert!(plain(&before_at).contains("careful: the text before the @"));
        assert!(before_at.contains(&paint(Tone::Strong, "evil.example")));
    }

    #[test]
    fn an_invalid_url_is_not_shown_as_a_url() {
        for bad in ["", "not a url", "mailto:a@b", "data:text/html,x"] {
            assert_eq!(url_page(&server(), "", bad), None, "{bad}");
        }
    }

    #[test]
    fn messages_of_a_server_cannot_write_to_the_terminal() {
        let page = server_question(&server(), "a\u{1b}]0;title\u{7}b");
        assert!(!plain(&page).contains('\u{7}'));
    }
}
