use serde_json::json;

use super::*;

fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(str::to_owned).collect()
}

fn fitted(line: &str, schema: &Value) -> Result<Value, String> {
    parse(&words(line))
        .and_then(|given| fit(Map::new(), given, schema, false))
        .map(Value::Object)
        .map_err(|error| error.to_string())
}

fn one(of: Value, word: &str) -> Result<Value, String> {
    let schema = json!({ "properties": { "x": of } });
    let mut fitted = fitted(&format!("x={word}"), &schema)?;
    Ok(fitted["x"].take())
}

#[test]
fn text_becomes_the_type_of_the_schema() {
    for (of, word, expected) in [
        (json!({ "type": "string" }), "5", json!("5")),
        (json!({ "type": "integer" }), "5", json!(5)),
        (json!({ "type": "integer" }), "-3", json!(-3)),
        (json!({ "type": "number" }), "2.5", json!(2.5)),
        (json!({ "type": "boolean" }), "true", json!(true)),
        (json!({ "type": "null" }), "null", json!(null)),
        (json!({ "type": "object" }), r#"{"a":1}"#, json!({ "a": 1 })),
        (json!({}), "5", json!("5")),
        (json!(true), "5", json!("5")),
    ] {
        assert_eq!(one(of.clone(), word), Ok(expected), "{of} {word}");
    }
}

#[test]
fn of_several_types_text_wins_and_otherwise_the_one_that_fits() {
    for (of, word, expected) in [
        (json!({ "type": ["integer", "null"] }), "5", json!(5)),
        (json!({ "type": ["integer", "null"] }), "null", json!(null)),
        (json!({ "type": ["integer", "string"] }), "5", json!("5")),
        (json!({ "anyOf": [{ "type": "integer" }, { "type": "null" }] }), "7", json!(7)),
        (json!({ "oneOf": [{ "type": "integer" }, { "type": "string" }] }), "7", json!("7")),
        (json!({ "enum": ["1", 1, 2] }), "1", json!("1")),
        (json!({ "enum": ["1", 1, 2] }), "2", json!(2)),
        (json!({ "anyOf": [{ "const": "all" }, { "type": "integer" }] }), "7", json!(7)),
    ] {
        assert_eq!(one(of.clone(), word), Ok(expected), "{of} {word}");
    }
}

#[test]
fn text_that_does_not_fit_is_refused_with_an_example() {
    for (of, word, expected) in [
        (json!({ "type": "integer" }), "ten", "a whole number"),
        (json!({ "type": "integer" }), "1.5", "a whole number"),
        (json!({ "type": "boolean" }), "yes", "true or false"),
        (json!({ "type": ["number", "null"] }), "x", "a number or null"),
        (json!({ "enum": ["red", "blue", 3] }), "green", "one of red, blue, 3"),
        (json!({ "type": "object" }), "[1]", "a JSON object"),
    ] {
        let error = one(of, word).unwrap_err();
        assert_eq!(error, format!("`x` must be {expected}, and `{word}` is not"));
    }
}

#[test]
fn a_name_given_several_times_is_a_list_where_the_schema_wants_one() {
    let schema = json!({ "properties": {
        "paths": { "type": "array", "items": { "type": "string" } },
        "sizes": { "anyOf": [{ "type": "array", "items": { "type": "integer" } }, { "type": "null" }] },
        "path": { "type": "string" },
    } });
    assert_eq!(fitted("paths=a sizes=1 paths=b sizes=2", &schema), Ok(json!({ "paths": ["a", "b"], "sizes": [1, 2] })));
    assert_eq!(fitted("paths=a", &schema), Ok(json!({ "paths": ["a"] })));
    assert_eq!(fitted("sizes=[1,2]", &schema), Ok(json!({ "sizes": [1, 2] })));
    assert_eq!(fitted("path=a path=b", &schema).unwrap_err(), "`path` is given twice and is not a list");
    assert_eq!(fitted("sizes=1 sizes=two", &schema).unwrap_err(), "`sizes` must be a whole number, and `two` is not");
}

#[test]
fn json_values_are_kept_and_the_first_equals_sign_splits() {
    let schema = json!({ "properties": { "n": { "type": "string" } } });
    assert_eq!(
        fitted("n:=5 url=http://x/?a:=b filter:={\"a\":[1]}", &schema),
        Ok(json!({ "n": 5, "url": "http://x/?a:=b", "filter": { "a": [1] } }))
    );
    assert!(fitted("n:=[1", &schema).unwrap_err().starts_with("the value of `n` is not JSON: "));
    for odd in ["n", "=5", ":=5"] {
        let error = fitted(odd, &schema).unwrap_err();
        assert!(error.contains("write name=value"), "{error}");
    }
}

#[test]
fn references_are_followed_and_never_for_ever() {
    let schema = json!({
        "properties": { "n": { "$ref": "#/$defs/count" }, "loop": { "$ref": "#/properties/loop" } },
        "$defs": { "count": { "type": "integer" } },
    });
    assert_eq!(fitted("n=5 loop=x", &schema), Ok(json!({ "n": 5, "loop": "x" })));
}

#[test]
fn words_override_the_object_of_args() {
    let base = parse_object(r#"{ "a": 1, "b": 2 }"#).unwrap();
    let given = parse(&words("b=x")).unwrap();
    let fitted = fit(base, given, &json!({}), false).unwrap();
    assert_eq!(Value::Object(fitted), json!({ "a": 1, "b": "x" }));
    assert_eq!(parse_object("[1]"), Err(BadArguments::ArgsNotObject));
    assert!(matches!(parse_object("{"), Err(BadArguments::ArgsNotJson { .. })));
}

#[test]
fn without_a_schema_check_a_value_of_another_type_is_sent_as_text() {
    let schema = json!({ "properties": { "n": { "type": "integer" }, "on": { "type": "boolean" } } });
    let given = parse(&words("n=x n=2 on=maybe")).unwrap();
    let fitted = fit(Map::new(), given, &schema, true).unwrap();
    assert_eq!(Value::Object(fitted), json!({ "n": ["x", "2"], "on": "maybe" }));
}

#[test]
fn arguments_of_prompts_are_text() {
    let given = parse(&words("a=5 b:=\"x\" c:=[1]")).unwrap();
    let expected = [("a", "5"), ("b", "x"), ("c", "[1]")];
    let expected = expected.map(|(name, text)| (name.to_owned(), text.to_owned()));
    assert_eq!(into_strings(given).unwrap(), expected.into());
    assert!(into_strings(parse(&words("a=1 a=2")).unwrap()).is_err());
}

#[test]
fn a_name_that_an_open_schema_does_not_know_is_remarked_on() {
    let schema = json!({ "properties": { "path": {}, "head": {} } });
    let remarks = |names: Value, schema: &Value| unnamed_argument_messages(names.as_object().unwrap(), schema);
    assert_eq!(
        remarks(json!({ "pth": 1, "head": 2 }), &schema),
        ["the tool names no argument `pth`; did you mean `path`?"]
    );
    assert!(remarks(json!({ "x": 1 }), &json!({ "type": "object" })).is_empty());
    let closed = json!({ "properties": { "path": {} }, "additionalProperties": false });
    assert!(remarks(json!({ "pth": 1 }), &closed).is_empty(), "a mismatch, which the check reports");
}

async fn mismatches(arguments: Value, schema: Value) -> String {
    match check(arguments.as_object().unwrap(), schema).await {
        Ok(()) => "fits".to_owned(),
        Err(error) => error.to_string(),
    }
}

#[tokio::test]
async fn arguments_that_do_not_fit_are_named() {
    let schema = json!({
        "type": "object",
        "properties": { "path": { "type": "string" }, "head": { "type": "integer", "minimum": 1 } },
        "required": ["path"],
        "additionalProperties": false,
    });
    assert_eq!(mismatches(json!({ "path": "a", "head": 1 }), schema.clone()).await, "fits");
    assert_eq!(
        mismatches(json!({ "pth": "a" }), schema.clone()).await,
        "the arguments do not fit the tool: there is no `pth` (did you mean `path`?); `path` is missing"
    );
    assert_eq!(
        mismatches(json!({ "path": "a", "head": 0 }), schema).await,
        "the arguments do not fit the tool: `head`: value is less than the minimum of 1"
    );
}

#[tokio::test]
async fn an_invalid_schema_refuses_nothing() {
    for schema in [
        json!(null),
        json!({ "type": 5 }),
        json!({ "$ref": "http://127.0.0.1:9/schema" }),
        json!({ "properties": { "x": { "pattern": "(" } } }),
    ] {
        assert_eq!(mismatches(json!({ "x": "y" }), schema).await, "fits");
    }
}

/// Definitions of which each refers twice to the next: a few lines that mean 2^`depth` checks.
fn doubling(depth: usize) -> Value {
    let both = |next: usize| json!({ "anyOf": [{ "$ref": format!("#/$defs/d{next}") }, { "$ref": format!("#/$defs/d{next}") }] });
    let mut levels: Map<String, Value> = (0..depth).map(|level| (format!("d{level}"), both(level + 1))).collect();
    levels.insert(format!("d{depth}"), json!({ "type": "integer" }));
    json!({ "type": "object", "properties": { "x": { "$ref": "#/$defs/d0" } }, "$defs": levels })
}

/// One definition that is any of itself, many times over.
fn self_referring(branches: usize) -> Value {
    let itself = json!({ "$ref": "#/$defs/a" });
    let any = json!({ "anyOf": vec![itself; branches] });
    json!({ "type": "object", "properties": { "x": { "$ref": "#/$defs/a" } }, "$defs": { "a": any } })
}

#[tokio::test]
async fn a_schema_made_to_be_endless_costs_no_time_and_leaves_the_value_to_the_server() {
    for schema in [
        doubling(64),
        doubling(5_000),
        self_referring(2),
        self_referring(1_000),
        json!({ "properties": { "x": { "type": "string", "pattern": "^(a+)+$" } } }),
        json!({ "properties": { "x": { "type": "string", "pattern": r"^(a+)\1*(a+)\2*(a+)\3*b" } } }),
        json!({ "properties": { "x": { "type": "string", "pattern": "((a{100}){100}){100}" } } }),
    ] {
        let started = std::time::Instant::now();
        let value = format!("{}!", "a".repeat(60));
        let words = [format!("x={value}")];
        let read = parse(&words).and_then(|given| fit(Map::new(), given, &schema, false));
        if let Ok(arguments) = read {
            let _ = check(&arguments, schema.clone()).await;
        }
        let twice =
            parse(&[words[0].clone(), words[0].clone()]).and_then(|given| fit(Map::new(), given, &schema, false));
        assert!(twice.is_err(), "{schema}");
        assert!(started.elapsed() < std::time::Duration::from_secs(20), "{:?}", started.elapsed());
    }
}
