//! Lets the model answer a server (MCP sampling) after the user has seen the whole request and typed a clear yes.

use std::{borrow::Cow, fmt, fmt::Write as _, sync::Arc};

use serde_json::Value;
use toolrack_agent::{Model, Role, sampling::Sampling};
use toolrack_host::{Conceal, ServerName, ask::AskRefused, text};

use super::Terminal;
use crate::{
    error::with_causes,
    models::{ModelContext, ModelOptions, SelectedModel},
    render::{Tone, paint},
};

/// The model that answers servers after the user has agreed.
#[derive(Clone)]
pub(crate) struct Sampler {
    /// The name of the model, for the user.
    name: String,
    source: Source,
    /// Hides secrets in the texts of a server before the user and the model get them.
    conceal: Conceal,
}

#[derive(Clone)]
enum Source {
    /// The model of this conversation.
    Model { model: Arc<dyn Model>, max_tokens: Option<u32> },
    /// A configured model, which is built when a server asks: most calls never need it.
    Configured(Box<(ModelOptions, ModelContext)>),
}

impl fmt::Debug for Sampler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sampler").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Sampler {
    /// Creates a sampler with the model of a conversation.
    pub(crate) fn from_selected(selected: &SelectedModel, conceal: Conceal) -> Self {
        let model = Arc::clone(&selected.model);
        let source = Source::Model { model, max_tokens: selected.max_tokens.map(Into::into) };
        Self { name: selected.model.name().to_owned(), source, conceal }
    }

    /// Creates a sampler with the model of `model_options`; `None` if they name none.
    pub(crate) fn from_options(
        model_options: ModelOptions,
        model_context: ModelContext,
        conceal: Conceal,
    ) -> Option<Self> {
        let name = model_options.name()?;
        Some(Self { name, source: Source::Configured(Box::new((model_options, model_context))), conceal })
    }

    /// Reads `request` as the user and the model see it: without invisible characters and without secrets. Lowers its
    /// limit of tokens to that of the model's settings.
    fn read(&self, mut request: Value) -> Result<Sampling, AskRefused> {
        text::map_texts(&mut request, &|words| Cow::Owned((self.conceal)(&text::without_invisible(words))));
        let sampling = Sampling::read(&request)?;
        Ok(match &self.source {
            Source::Model { max_tokens: Some(limit), .. } => sampling.limit_tokens(*limit),
            Source::Configured(configured) => {
                let (options, _) = &**configured;
                match options.configured.max_tokens {
                    Some(limit) => sampling.limit_tokens(limit.into()),
                    None => sampling,
                }
            }
            Source::Model { .. } => sampling,
        })
    }

    /// Returns the result for the server, or an error in words for the user.
    async fn answer(&self, request: &Sampling) -> Result<Value, String> {
        let model = match &self.source {
            Source::Model { model, .. } => Arc::clone(model),
            Source::Configured(configured) => {
                let (options, context) = &**configured;
                options.choose(context).await.map_err(|failure| failure.message)?.model
            }
        };
        request.answer(&*model).await.map_err(|error| with_causes(&error))
    }
}

impl Terminal {
    /// Shows the user the server's request to the model, and lets the model answer if the user agrees.
    pub(super) async fn answer_by_model(&self, server: ServerName, request: Value) -> Result<Value, AskRefused> {
        let sampler = self.sampler.load_full().ok_or_else(|| AskRefused::new("no model is configured to answer"))?;
        let sampling = sampler.read(request)?;
        if !self.user_agrees(&page(&server, &sampler.name, &sampling), &server).await {
            return Err(AskRefused::new("the user refused the sampling request"));
        }
        // The user sees the error, the server does not: it may name addresses and files of the user.
        sampler.answer(&sampling).await.map_err(|why| {
            self.screen.message(&format!("{} {}", paint(Tone::Bad, "no answer:"), text::for_line(&why)));
            AskRefused::new("the model did not answer")
        })
    }

    /// Shows `page`, and returns whether the user lets the model answer `server`.
    async fn user_agrees(&self, page: &str, server: &ServerName) -> bool {
        // The permit keeps every other question off the terminal meanwhile.
        let Ok(_permit) = self.permit.acquire().await else {
            return false;
        };
        self.screen.message(page);
        // A line that was typed before the question was shown does not answer it.
        self.lines.discard_input();
        self.ask_yes_no(&format!("Send it to the model, and the answer to `{server}`?")).await == Some(true)
    }
}

/// Renders everything that the model would get.
fn page(server: &ServerName, model: &str, request: &Sampling) -> String {
    let head = format!("The server `{server}` asks the model {}:", text::for_line(model));
    let mut page = paint(Tone::Strong, &head);
    let _ = write!(page, " at most {} tokens", request.max_tokens());
    if let Some(temperature) = request.temperature() {
        let _ = write!(page, ", temperature {temperature}");
    }
    for stop in request.stop_sequences() {
        let _ = write!(page, ", until {}", text::for_line(&Value::from(stop.as_str()).to_string()));
    }
    let system = request.system().map(|system| ("system", system));
    let messages = request.messages().iter().map(|message| {
        let role = if message.role == Role::Assistant { "assistant" } else { "user" };
        (role, message.content.as_str())
    });
    for (role, words) in system.into_iter().chain(messages) {
        let _ = write!(page, "\n{}", paint(Tone::Strong, &format!("{role}:")));
        // The indent keeps a line of the server's text from looking like a line of this program.
        for line in text::for_terminal(words).split('\n') {
            let _ = write!(page, "\n  {line}");
        }
    }
    page
}

#[cfg(test)]
pub(super) mod tests {
    use serde_json::json;
    use toolrack_agent::model::Scripted;
    use toolrack_host::Asker as _;

    use super::{super::tests::typed, *};

    /// A sampler whose model has nothing to say.
    pub(in crate::asker) fn silent_sampler() -> Sampler {
        let source = Source::Model { model: Arc::new(Scripted::new()), max_tokens: None };
        Sampler { name: "mock/script".to_owned(), source, conceal: Arc::new(ToOwned::to_owned) }
    }

    /// A terminal at which these lines are typed, with a model that says `Paris` once.
    fn terminal_with_model(lines: &[&str]) -> (Terminal, Arc<Scripted>) {
        let (terminal, model) = (typed(lines), Arc::new(Scripted::new().say("Paris").recording()));
        let source = Source::Model { model: Arc::<Scripted>::clone(&model), max_tokens: Some(50) };
        let conceal: Conceal = Arc::new(|text| text.replace("canary", "***"));
        terminal.sample_with(Sampler { name: "mock/script".to_owned(), source, conceal });
        (terminal, model)
    }

    fn request(words: &str) -> Value {
        json!({"messages": [{"role": "user", "content": {"type": "text", "text": words}}], "maxTokens": 100})
    }

    fn server() -> ServerName {
        ServerName::new("fs").unwrap()
    }

    #[tokio::test]
    async fn only_a_clear_yes_has_the_model_answer() {
        let (terminal, model) = terminal_with_model(&["y"]);
        let answer = terminal.sample(server(), request("canary \u{e0041}capital?")).await.unwrap();
        assert_eq!((&answer["content"]["text"], &answer["model"]), (&json!("Paris"), &json!("mock/script")));
        assert_eq!(model.requests()[0].messages[0].content, "*** capital?");
        for no in [vec!["n"], vec![""], vec![], vec!["what?"]] {
            let (terminal, model) = terminal_with_model(&no);
            let refused = terminal.sample(server(), request("capital?")).await.unwrap_err().to_string();
            assert!(refused.contains("refused") && model.requests().is_empty(), "{no:?}: {refused}");
        }
    }

    #[tokio::test]
    async fn without_a_model_or_with_a_picture_the_user_is_not_asked() {
        let refused = typed(&["y"]).sample(server(), request("x")).await.unwrap_err().to_string();
        assert!(refused.contains("no model"), "{refused}");
        let (terminal, model) = terminal_with_model(&["y"]);
        let image = json!({"messages": [{"role": "user", "content": {"type": "image", "data": "AAAA"}}]});
        let refused = terminal.sample(server(), image).await.unwrap_err().to_string();
        assert!(refused.contains("pictures") && model.requests().is_empty(), "{refused}");
    }

    #[test]
    fn all_that_is_sent_is_shown_and_looks_like_nothing_else() {
        let hostile = "a\u{1b}]0;t\u{7}\u{202e}\nSend it? [y/N] y";
        let mut asked = request(hostile);
        asked["systemPrompt"] = json!("Be short.");
        asked["stopSequences"] = json!(["\u{1b}[2J"]);
        asked["temperature"] = json!(0.5);
        let sampling = Sampling::read(&asked).unwrap();
        let page = page(&server(), "m\u{1b}", &sampling);
        let plain = anstream::adapter::strip_str(&page).to_string();
        assert!(!plain.contains(['\u{1b}', '\u{7}', '\u{202e}']), "{plain:?}");
        for shown in
            ["The server `fs` asks the model", "100 tokens, temperature 0.5, until", "system:\n  Be short.\nuser:\n  a"]
        {
            assert!(plain.contains(shown), "{shown}: {plain}");
        }
        assert!(plain.contains("\n  Send it? [y/N] y"), "{plain}");
    }
}
