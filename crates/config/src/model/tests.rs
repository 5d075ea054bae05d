use super::*;
use crate::settings::{ReadContext, Settings};

fn check(name: &str, has_base_url: bool) -> Result<(), String> {
    if name.contains('/') || has_base_url { Ok(()) } else { Err(format!("`{name}` names no provider")) }
}

fn read_for(agent: Option<&str>, text: &str) -> (ModelChoice, Vec<Problem>) {
    let document = Document::new(Some("toolrack.toml".into()), text);
    let (settings, problems) = Settings::read(&document, ReadContext { agent, check_name: Some(check) });
    (settings.model, problems)
}

fn read(text: &str) -> (ModelChoice, Vec<Problem>) {
    read_for(None, text)
}

/// Everything that can be said.
const WHOLE: &str = r#"
[model]
name = "anthropic/claude-sonnet-5-5"
base_url = "https://ada:canary@models.example.com/v1?api_key=canary"
wire = "openai-chat"
key = "${MODEL_KEY}"
context_tokens = 32_000
price = { input = 3, output = 15.5, cached_read = 0 }
max_tokens = 4_000
max_rounds = 20
max_total_tokens = 200_000
max_cost = 0.5
code = true
connect_timeout = 2
first_token_timeout = 900
silence_timeout = 0.5
total_timeout = 1800
max_response_bytes = 1_000
max_retries = 0
extra_body = { reasoning = { effort = "high" }, secret = "canary", seed = 1 }
"#;

#[test]
fn a_model_is_chosen_and_bounded() {
    let (model, problems) = read(WHOLE);
    assert_eq!(problems, []);
    assert!(model.is_valid);
    assert_eq!(model.name.as_deref(), Some("anthropic/claude-sonnet-5-5"));
    assert_eq!(model.wire, Some(Wire::OpenAiChat));
    assert_eq!(model.key.as_deref(), Some("${MODEL_KEY}"));
    assert_eq!(model.price, Some(PriceChoice { input: 3.0, output: 15.5, cached_read: 0.0, cache_write: 3.0 }));
    assert_eq!((model.max_tokens, model.max_rounds), (NonZeroU32::new(4_000), NonZeroU32::new(20)));
    assert_eq!((model.max_total_tokens, model.max_cost), (NonZeroU64::new(200_000), Some(0.5)));
    assert_eq!((model.code, &model.view()["code"]), (Some(true), &Json::Bool(true)));
    let seconds = |seconds| Some(Duration::from_secs_f64(seconds));
    let bounds = RequestBounds {
        connect_timeout: seconds(2.0),
        first_token_timeout: seconds(900.0),
        silence_timeout: seconds(0.5),
        total_timeout: seconds(1800.0),
        max_response_bytes: NonZeroU64::new(1_000),
        max_retries: Some(0),
    };
    assert_eq!((model.bounds, &model.view()["silence_timeout"]), (bounds, &json!(0.5)));
    assert_eq!(model.extra_body["reasoning"]["effort"], "high");
    assert_eq!(read("unset = \"error\"").0, ModelChoice::default());
}

#[test]
fn the_view_of_a_model_shows_no_secrets() {
    let (model, _) = read(WHOLE);
    let view = model.view();
    assert_eq!(view["key"], "${MODEL_KEY}");
    assert_eq!(view["base_url"], "https://ada:***@models.example.com/v1?api_key=***");
    for shown in [view.to_string(), format!("{model:?}")] {
        assert!(!shown.contains("canary") && shown.contains("effort"), "{shown}");
    }
    assert_eq!(ModelChoice::default().view(), Json::Null);
}

#[test]
fn everything_below_the_name_of_a_secret_is_hidden() {
    let (model, _) = read(
        "[model]\nextra_body = { credentials = { value = \"s3cret-9\", pin = 1234, ref = \"${A}\" }, \
         api_tokens = [[\"s3cret-8\"]], max_completion_tokens = 9, x = [\"y\"] }\n",
    );
    let shown = json!({
        "credentials": { "value": "***", "pin": "***", "ref": "${A}" },
        "api_tokens": [["***"]], "max_completion_tokens": 9, "x": ["y"],
    });
    assert_eq!(model.view()["extra_body"], shown);
}

#[test]
fn every_mistake_is_reported_with_its_line_and_makes_the_model_invalid() {
    for (text, field, place) in [
        ("model = 1", "model", (1, 9)),
        ("[model]\nname = 1", "model.name", (2, 8)),
        ("[model]\nname = \"claude\"", "model.name", (2, 8)),
        ("[model]\nname = \" \"", "model.name", (2, 8)),
        ("[model]\nbase_url = \"127.0.0.1:80\"", "model.base_url", (2, 12)),
        ("[model]\nbase_url = \"${\"", "model.base_url", (2, 12)),
        ("[model]\nwire = \"chat\"", "model.wire", (2, 8)),
        ("[model]\nkey = \"canary\"", "model.key", (2, 7)),
        ("[model]\nkey = \"Bearer ${KEY}\"", "model.key", (2, 7)),
        ("[model]\nkey = \"${KEY:-canary}\"", "model.key", (2, 7)),
        ("[model]\nmax_rounds = 0", "model.max_rounds", (2, 14)),
        ("[model]\ncode = \"yes\"", "model.code", (2, 8)),
        ("[model]\nmax_rounds = 4294967296", "model.max_rounds", (2, 14)),
        ("[model]\nmax_tokens = \"9\"", "model.max_tokens", (2, 14)),
        ("[model]\nmax_total_tokens = 1.5", "model.max_total_tokens", (2, 20)),
        ("[model]\nmax_cost = 0", "model.max_cost", (2, 12)),
        ("[model]\nmax_cost = nan", "model.max_cost", (2, 12)),
        ("[model]\nprice = { input = 1 }", "model.price", (2, 9)),
        ("[model]\nprice = { input = 1, output = -1 }", "model.price.output", (2, 31)),
        ("[model]\nprice = { input = 1, outputs = 1 }", "model.price.outputs", (2, 22)),
        ("[model]\nextra_body = 1", "model.extra_body", (2, 14)),
        ("[model]\nmax_costs = 1", "model.max_costs", (2, 1)),
        ("[[agents]]\nid = \"a\"\nmodel = { max_rounds = -1 }", "agents.model.max_rounds", (3, 24)),
    ] {
        let (model, problems) = read_for(Some("a"), text);
        assert!(!model.is_valid, "{text}");
        let problem = &problems[0];
        assert!(problem.is_error(), "{problem}");
        assert_eq!((problem.field.as_deref(), problem.line.zip(problem.column)), (Some(field), Some(place)), "{text}");
        assert!(!problem.to_string().contains("canary"), "{problem}");
    }
    assert!(!read("[model").0.is_valid, "its content is unknown");
}

#[test]
fn an_agent_sets_it_over_the_file() {
    let text = "[model]\nname = \"a/b\"\nkey = \"${A}\"\nmax_cost = 1\nextra_body = { x = 1, y = 1 }\n\
                [[agents]]\nid = \"thrifty\"\n[agents.model]\nmax_rounds = 3\nextra_body = { y = 2 }\n\
                [[agents]]\nid = \"local\"\nmodel = { name = \"ollama/x\" }\n\
                [[agents]]\nid = \"broken\"\nmodel = { max_rounds = 0 }\n";
    let file = read(text).0;
    assert_eq!((file.max_rounds, file.is_valid), (None, true), "a broken agent does not affect the others");
    let thrifty = read_for(Some("thrifty"), text).0;
    assert_eq!((thrifty.name.as_deref(), thrifty.key.as_deref()), (Some("a/b"), Some("${A}")));
    assert_eq!((thrifty.max_rounds, thrifty.max_cost), (NonZeroU32::new(3), Some(1.0)));
    assert_eq!(Json::Object(thrifty.extra_body), json!({ "x": 1, "y": 2 }));
    assert!(!read_for(Some("broken"), text).0.is_valid);
}

#[test]
fn the_key_of_one_model_never_goes_to_another() {
    let own = ModelChoice {
        name: Some("a/b".into()),
        base_url: Some("https://a".into()),
        key: Some("${A}".into()),
        max_cost: Some(1.0),
        bounds: RequestBounds { max_retries: Some(1), ..RequestBounds::default() },
        ..ModelChoice::default()
    };
    let over = |name: Option<&str>, url: Option<&str>| {
        let over = ModelChoice { name: name.map(Into::into), base_url: url.map(Into::into), ..ModelChoice::default() };
        own.clone().overlaid(over)
    };
    for (name, url) in [(None, None), (Some("a/b"), None), (None, Some("https://a")), (Some("a/b"), Some("https://a"))]
    {
        assert_eq!(over(name, url), own, "{name:?} {url:?}");
    }
    let other = over(Some("a/c"), None);
    assert_eq!((other.key, other.base_url, other.max_cost), (None, None, Some(1.0)));
    assert_eq!(other.bounds, RequestBounds::default(), "they are for the model that was configured with them");
    let elsewhere = over(None, Some("https://b"));
    assert_eq!((elsewhere.name.as_deref(), elsewhere.key), (Some("a/b"), None));
}
