//! Which model answers and how far its turns go, as `toolrack.toml` says.

use serde_json::{Value, json};
use toolrack_testkit::model::Answer;

use crate::{
    provider::{Provider, Speech},
    rack::{Rack, Ran, fake, work_file},
};

const WIRE: Speech = Speech::Anthropic;

/// A home with the server `fake` and this `toolrack.toml`.
fn rack(settings: &str) -> Rack {
    let rack = Rack::with(&[("fake", fake(&[]))]);
    rack.home.write("toolrack/toolrack.toml", settings);
    rack
}

fn add(number: i64) -> (String, Value) {
    (format!("call_{number}"), json!({ "a": number, "b": 1 }))
}

/// A provider whose first answers are calls; the last one says that it is done.
fn calls(number: i64) -> Provider {
    let calls = (0..number).map(add).map(|(id, arguments)| WIRE.calls(&[(&id, "mcp__fake__add", arguments)]));
    Provider::start(calls.chain([WIRE.says(&["done"])]))
}

fn ask(rack: &Rack, args: &[&str]) -> Ran {
    rack.run(&[&["ask", "--json", "--yes-read-only", "add"], args].concat())
}

#[test]
fn the_configured_model_is_used_with_its_key_and_extra_body() {
    let provider = calls(0);
    let settings = "[model]\nname = \"anthropic/claude-x\"\nbase_url = \"${WHERE}\"\nkey = \"${WORK_KEY}\"\n\
                    max_tokens = 77\nextra_body = { thinking = { type = \"enabled\" } }\n";
    let rack = rack(settings).env("WHERE", provider.url()).env("WORK_KEY", "canary-key");
    let ran = ask(&rack, &[]).ends_with(0);
    assert_eq!((ran.json()["text"].clone(), ran.json()["model"].clone()), (json!("done"), json!("anthropic/claude-x")));
    let request = &provider.requests()[0];
    assert_eq!(request.header("x-api-key"), Some("canary-key"));
    let body = request.json();
    assert_eq!((&body["model"], &body["max_tokens"]), (&json!("claude-x"), &json!(77)));
    assert_eq!(body["thinking"]["type"], "enabled");

    let shown = rack.run(&["config", "show"]).ends_with(0).stdout;
    assert!(shown.contains("[model]") && shown.contains("${WORK_KEY}") && !shown.contains("canary"), "{shown}");
    let shown = rack.run(&["config", "show", "--json"]).ends_with(0).json();
    assert_eq!((&shown["model"]["key"], &shown["model"]["max_tokens"]), (&json!("${WORK_KEY}"), &json!(77)));
}

#[test]
fn a_flag_counts_more_than_the_file_and_the_file_more_than_the_usual_variables() {
    let (of_file, of_flag) = (calls(0), calls(0));
    let settings =
        format!("[model]\nname = \"anthropic/m\"\nbase_url = \"{}\"\nkey = \"${{WORK_KEY}}\"\n", of_file.url());
    let rack =
        rack(&settings).env("WORK_KEY", "canary-key").env("ANTHROPIC_API_KEY", "usual").env("OPENAI_API_KEY", "x");
    let _ = ask(&rack, &[]).ends_with(0);
    assert_eq!(of_file.requests()[0].header("x-api-key"), Some("canary-key"));
    let url = of_flag.url();
    let _ = ask(&rack, &["--base-url", &url]).ends_with(0);
    assert_eq!(of_flag.requests()[0].header("x-api-key"), Some("usual"), "the key of the file is for its own address");
    work_file(&rack, "script.json", "[{\"text\": \"from the script\"}]");
    assert_eq!(ask(&rack, &["--model", "mock/script.json"]).ends_with(0).json()["text"], "from the script");
    let rack = rack.env("TOOLRACK_MODEL", "mock/script.json");
    assert_eq!(ask(&rack, &[]).ends_with(0).json()["text"], "from the script", "what stands for a flag counts like it");
    assert_eq!((of_file.requests().len(), of_flag.requests().len()), (1, 1));
}

#[test]
fn a_turn_ends_with_8_at_its_limit_of_tokens_or_cost() {
    // Each answer has seven tokens.
    for (settings, args, code, end) in [
        ("", ["--max-total-tokens", "14"], "BUDGET", "token_limit"),
        ("price = { input = 0, output = 10_000 }", ["--max-cost", "0.14"], "BUDGET", "cost_limit"),
        ("max_total_tokens = 14", ["--max-rounds", "9"], "BUDGET", "token_limit"),
        ("max_cost = 0.14\nprice = { input = 0, output = 10_000 }", ["--max-rounds", "9"], "BUDGET", "cost_limit"),
        ("max_rounds = 2\nprice = { input = 0, output = 1 }", ["--max-cost", "1"], "ROUND_LIMIT", "round_limit"),
    ] {
        let provider = calls(3);
        let settings = format!("[model]\nname = \"anthropic/m\"\nbase_url = \"{}\"\n{settings}\n", provider.url());
        let rack = rack(&settings).env("ANTHROPIC_API_KEY", "x");
        let ran = ask(&rack, &args).ends_with(8);
        assert_eq!((ran.error()["code"].clone(), ran.json()["end"].clone()), (json!(code), json!(end)), "{ran}");
        assert_eq!(provider.requests().len(), 2, "{ran}");
        let chat = ["chat", "--yes-read-only", "add", args[0], args[1]];
        let provider = calls(3);
        let ran = rack.run(&[&chat[..], &["--base-url", &provider.url(), "--model", "anthropic/m"]].concat());
        // Its price is that of another address.
        let has_limit = settings.contains("max_cost") || args[0] == "--max-cost";
        assert_eq!(ran.code, Some(if has_limit { 2 } else { 8 }), "{ran}");
    }
}

#[test]
fn the_limits_of_a_request_are_those_of_the_file_and_an_error_names_the_one_that_was_reached() {
    let silent = || Answer::new(200, "text/event-stream", "").stall_after();
    let broken = || Answer::json(500, &json!({ "error": { "message": "broken" } }));
    let long = || WIRE.says(&["more than ten bytes"]);
    for (limit, answer, code, names_limit) in [
        ("first_token_timeout = 0.2", silent(), "MODEL_TIMED_OUT", true),
        ("total_timeout = 0.2", silent(), "MODEL_TIMED_OUT", true),
        ("max_response_bytes = 10", long(), "MODEL_ANSWER_TOO_LARGE", true),
        ("max_retries = 0", broken(), "MODEL_UNAVAILABLE", false),
    ] {
        let provider = Provider::start([answer]);
        let settings = format!("[model]\nname = \"anthropic/m\"\nbase_url = \"{}\"\n{limit}\n", provider.url());
        let rack = rack(&settings).env("ANTHROPIC_API_KEY", "x");
        let error = ask(&rack, &[]).ends_with(9).error();
        assert_eq!(error["code"], code, "{limit}: {error}");
        let name = limit.split(' ').next().unwrap();
        assert_eq!(error.to_string().contains(name), names_limit, "{limit}: {error}");
        assert_eq!(provider.requests().len(), 1, "{limit}");
    }
    let rack = rack("[model]\nname = \"anthropic/m\"\nsilence_timeout = 0\n").env("ANTHROPIC_API_KEY", "x");
    let ran = ask(&rack, &[]).ends_with(2);
    assert!(ran.stderr.contains("`model.silence_timeout` must be a number of seconds"), "{ran}");
}

#[test]
fn a_limit_of_cost_needs_a_price() {
    let provider = calls(3);
    let rack = rack("");
    let url = provider.url();
    let limited = ["--base-url", &url, "--model", "m", "--wire", "anthropic", "--max-cost", "0.14"];
    let ran = ask(&rack, &limited).ends_with(2);
    assert_eq!((ran.error()["code"].clone(), provider.requests().len()), (json!("PRICE_UNKNOWN"), 0), "{ran}");
    assert!(ran.stderr.contains("--price INPUT,OUTPUT"), "{ran}");
    let ran = ask(&rack, &[&limited[..], &["--price", "0,10000"]].concat()).ends_with(8);
    assert_eq!((ran.json()["end"].clone(), provider.requests().len()), (json!("cost_limit"), 2), "{ran}");
    for price in ["3", "3,", "a,b", "1,-2"] {
        assert!(ask(&rack, &["--price", price]).ends_with(2).stderr.contains("two amounts"));
    }
    for amount in ["0", "-1", "nan", "inf", "much"] {
        let ran = ask(&rack, &["--max-cost", amount]).ends_with(2);
        assert!(ran.stderr.contains("amount above 0") || ran.stderr.contains("unexpected argument"), "{ran}");
    }
}

#[test]
fn wrong_model_settings_are_reported_with_their_line_and_no_model_is_asked() {
    for (settings, place, told) in [
        ("[model]\nname = \"claude\"\n", "toolrack.toml:2:8", "names no provider"),
        ("[model]\nkey = \"canary\"\n", "toolrack.toml:2:7", "placeholder"),
        ("[model]\nmax_costs = 1\n", "toolrack.toml:2:1", "did you mean `model.max_cost`?"),
        ("[model\n", "toolrack.toml:1:", "not TOML"),
    ] {
        let rack = rack(settings);
        work_file(&rack, "script.json", "[{\"text\": \"never said\"}]");
        for verb in ["ask", "chat"] {
            let ran = rack.run(&[verb, "--model", "mock/script.json", "hello"]).ends_with(2);
            assert!(ran.stderr.contains(place) && ran.stderr.contains(told) && ran.stdout.is_empty(), "{ran}");
            assert!(!ran.stderr.contains("canary"), "{ran}");
        }
        // A file that cannot be read may hold rules that forbid it.
        let exit = if told == "not TOML" { 6 } else { 0 };
        let _ = rack.run(&["call", "fake/echo", "text=x"]).ends_with(exit);
        let ran = rack.run(&["config", "validate"]).ends_with(2);
        assert!(ran.stderr.contains(place), "{ran}");
    }
    let ran = ask(&rack("[model]\nname = \"anthropic/m\"\nkey = \"${NO_SUCH_VARIABLE}\"\n"), &[]).ends_with(2);
    assert!(ran.stderr.contains("NO_SUCH_VARIABLE") && ran.stderr.contains("model.key"), "{ran}");
}

#[test]
fn an_agent_has_a_model_of_its_own() {
    let rack = rack(
        "[model]\nname = \"mock/all.json\"\n[[agents]]\nid = \"own\"\nmodel = { name = \"mock/own.json\" }\n\
         [[agents]]\nid = \"same\"\n",
    );
    work_file(&rack, "all.json", "[{\"text\": \"for all\"}]");
    work_file(&rack, "own.json", "[{\"text\": \"of its own\"}]");
    for (args, text) in [(&[][..], "for all"), (&["--agent", "own"], "of its own"), (&["--agent", "same"], "for all")] {
        assert_eq!(ask(&rack, args).ends_with(0).json()["text"], text);
    }
}
