use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::*;

const CLEANING: [Provider; 3] = [Provider::OpenAi, Provider::Anthropic, Provider::Gemini];

fn cleaned(schema: &Value, provider: Provider) -> Value {
    clean(schema, provider).schema
}

/// The only property of a tool, as the provider gets it.
fn property(schema: Value, provider: Provider) -> Value {
    cleaned(&json!({"type": "object", "properties": {"p": schema}}), provider)["properties"]["p"].take()
}

fn gemini(schema: Value) -> Value {
    property(schema, Provider::Gemini)
}

fn notes(schema: &Value, provider: Provider) -> Vec<String> {
    clean(schema, provider).changes.iter().map(|change| format!("{}: {}", change.path, change.what)).collect()
}

// ---- The rules of providers, written independently of the cleaner.

/// Finds keywords where there must be none; looks at subschemas only, not at names or values.
fn subschemas(schema: &Value) -> Vec<&Map<String, Value>> {
    let mut found = Vec::new();
    let mut open = vec![schema];
    while let Some(schema) = open.pop() {
        let Value::Object(keywords) = schema else { continue };
        found.push(keywords);
        for (keyword, value) in keywords {
            match keyword.as_str() {
                "properties" | "patternProperties" | "dependentSchemas" => {
                    open.extend(value.as_object().unwrap().values())
                }
                "allOf" | "anyOf" | "oneOf" | "prefixItems" => open.extend(value.as_array().unwrap()),
                "items"
                | "additionalProperties"
                | "not"
                | "if"
                | "then"
                | "else"
                | "contains"
                | "propertyNames"
                | "unevaluatedProperties"
                | "unevaluatedItems" => open.push(value),
                _ => {}
            }
        }
    }
    found
}

fn check_common(schema: &Value) {
    assert_eq!(schema["type"], "object");
    assert!(schema["properties"].is_object());
    for keyword in ["allOf", "anyOf", "oneOf", "not", "enum", "const"] {
        assert!(schema.get(keyword).is_none(), "{keyword} at the root of {schema}");
    }
    for keywords in subschemas(schema) {
        for keyword in ["$ref", "$schema", "$id", "$defs", "definitions", "$dynamicRef", "additionalItems"] {
            assert!(!keywords.contains_key(keyword), "{keyword} in {keywords:?}");
        }
    }
    let error = jsonschema::draft202012::meta::validate(schema).err().map(|error| error.to_string());
    assert_eq!(error, None, "{schema}");
}

fn check_openai(schema: &Value) {
    for keywords in subschemas(schema) {
        assert!(!keywords.contains_key("exclusiveMinimum") && !keywords.contains_key("exclusiveMaximum"));
        let has = |name: &str| {
            keywords.get("type").is_some_and(|kind| {
                kind == name || kind.as_array().is_some_and(|all| all.iter().any(|one| one == name))
            })
        };
        assert!(!has("array") || keywords.contains_key("items"), "{keywords:?}");
        assert!(!has("object") || keywords.contains_key("properties"), "{keywords:?}");
    }
}

fn check_anthropic(schema: &Value) {
    for name in schema["properties"].as_object().unwrap().keys() {
        assert!(
            name.len() <= 64
                && !name.is_empty()
                && name.chars().all(|c| c.is_ascii_alphanumeric() || "_.-".contains(c))
        );
    }
}

fn check_gemini(schema: &Value) {
    let keywords = schema.as_object().unwrap();
    if let Some(alternatives) = keywords.get("anyOf") {
        assert_eq!(keywords.len(), 1, "{schema}");
        let alternatives = alternatives.as_array().unwrap();
        assert!(!alternatives.is_empty());
        return alternatives.iter().for_each(check_gemini);
    }
    let kind = keywords["type"].as_str().unwrap();
    let allowed: &[&str] = match kind {
        "string" => &["minLength", "maxLength", "pattern", "format", "enum"],
        "integer" | "number" => &["minimum", "maximum", "format"],
        "boolean" => &[],
        "array" => &["items", "minItems", "maxItems"],
        "object" => &["properties", "required", "minProperties", "maxProperties"],
        _ => panic!("{kind}"),
    };
    for keyword in keywords.keys() {
        let common = ["type", "title", "description", "default", "nullable"];
        assert!(common.contains(&keyword.as_str()) || allowed.contains(&keyword.as_str()), "{keyword} in {schema}");
    }
    if kind == "array" {
        check_gemini(&keywords["items"]);
    }
    if let Some(values) = keywords.get("enum") {
        assert!(values.as_array().unwrap().iter().all(|value| value.as_str().is_some_and(|text| !text.is_empty())));
        assert!(!values.as_array().unwrap().is_empty());
    }
    let none = Map::new();
    let properties = keywords.get("properties").map_or(&none, |all| all.as_object().unwrap());
    properties.values().for_each(check_gemini);
    for name in keywords.get("required").into_iter().flat_map(|names| names.as_array().unwrap()) {
        assert!(properties.contains_key(name.as_str().unwrap()), "{schema}");
    }
}

fn check(schema: &Value, provider: Provider) {
    check_common(schema);
    match provider {
        Provider::OpenAi => check_openai(schema),
        Provider::Anthropic => check_anthropic(schema),
        Provider::Gemini => check_gemini(schema),
        Provider::None => {}
    }
}

// ---- Schemas as servers write them, and worse.

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-3_i64..30).prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[a-c/~]{0,3}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::hash_map("[a-c/~]{0,2}", inner, 0..3).prop_map(|map| map.into_iter().collect()),
        ]
    })
}

fn any_schema() -> impl Strategy<Value = Value> {
    let names = vec!["null", "boolean", "object", "array", "number", "string", "integer", "any"];
    let kind = prop::sample::select(names);
    let leaf = prop_oneof![
        any_json(),
        any::<bool>().prop_map(Value::from),
        kind.clone().prop_map(|kind| json!({ "type": kind })),
        prop::collection::vec(kind.clone(), 0..4).prop_map(|kinds| json!({"type": kinds, "description": "d"})),
        prop::collection::vec(any_json(), 0..4).prop_map(|values| json!({ "enum": values })),
        any_json().prop_map(|value| json!({ "const": value })),
        prop::sample::select(vec![
            "#",
            "#/$defs/a",
            "#/definitions/b",
            "#/properties/a",
            "#/none",
            "http://x/y",
            "#/%"
        ])
        .prop_map(|to| json!({"$ref": to, "description": "ref"})),
        (-3_i64..3, any::<bool>(), kind).prop_map(|(n, older, kind)| {
            let bound = if older { json!(true) } else { json!(n) };
            json!({"type": kind, "minimum": n, "exclusiveMinimum": bound, "exclusiveMaximum": 2.5, "multipleOf": 2})
        }),
        Just(json!({"type": "string", "format": "email", "pattern": "^a", "minLength": -1, "maxLength": 5})),
    ];
    leaf.prop_recursive(5, 40, 4, |inner| {
        let one = prop::sample::select(vec![
            "not",
            "if",
            "then",
            "items",
            "additionalProperties",
            "additionalItems",
            "x-other",
        ]);
        let many = prop::sample::select(vec!["allOf", "anyOf", "oneOf", "prefixItems", "items"]);
        let named =
            prop::sample::select(vec!["properties", "$defs", "definitions", "dependencies", "patternProperties"]);
        let map = prop::collection::hash_map("[ab]|\\$ref|type|é", inner.clone(), 0..3);
        let entry = prop_oneof![
            (one, inner.clone()).prop_map(|(keyword, schema)| (keyword, schema)),
            (many, prop::collection::vec(inner, 0..3)).prop_map(|(keyword, list)| (keyword, Value::from(list))),
            (named, map).prop_map(|(keyword, map)| (keyword, map.into_iter().collect())),
            Just(("type", json!("object"))),
            Just(("nullable", json!(true))),
            Just(("type", json!(["array", "object", "null"]))),
            Just(("required", json!(["a", "zzz", "a", 1]))),
            Just(("$ref", json!("#/$defs/a"))),
            Just(("$schema", json!("http://json-schema.org/draft-07/schema#"))),
        ];
        prop::collection::vec(entry, 1..5)
            .prop_map(|entries| entries.into_iter().map(|(keyword, value)| (keyword.to_owned(), value)).collect())
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn every_schema_is_cleaned_for_its_provider(schema in any_schema()) {
        for provider in CLEANING {
            let once = clean(&schema, provider);
            check(&once.schema, provider);
            prop_assert!(once.changes.len() <= Change::MAX + 1);
        }
    }

    #[test]
    fn cleaning_twice_changes_nothing(schema in any_schema()) {
        for provider in CLEANING {
            let once = cleaned(&schema, provider);
            prop_assert_eq!(cleaned(&once, provider), once);
        }
    }

    #[test]
    fn schemas_stay_unchanged_for_a_provider_without_rules(schema in any_json()) {
        let cleaned = clean(&schema, Provider::None);
        prop_assert_eq!(cleaned.schema, schema);
        prop_assert!(cleaned.changes.is_empty());
    }

    #[test]
    fn every_change_of_a_schema_is_reported(schema in any_schema()) {
        for provider in CLEANING {
            let cleaned = clean(&schema, provider);
            prop_assert!(cleaned.schema == schema || !cleaned.changes.is_empty(), "{} became {}", schema, cleaned.schema);
        }
    }
}

#[test]
fn a_plain_schema_passes_unchanged() {
    let schema = json!({
        "type": "object",
        "properties": {"path": {"type": "string", "description": "Where"}, "n": {"type": "integer", "minimum": 1}},
        "required": ["path"],
    });
    for provider in Provider::ALL {
        assert_eq!(clean(&schema, provider), Cleaned { schema: schema.clone(), changes: Vec::new() });
    }
}

#[test]
fn schema_and_exclusive_bounds_are_removed_and_reported() {
    let schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {
            "count": {"type": "integer", "exclusiveMinimum": 0, "exclusiveMaximum": 9007199254740991_i64},
            "ratio": {"type": "number", "exclusiveMinimum": 0, "description": "The ratio."},
        },
    });
    for provider in [Provider::OpenAi, Provider::Gemini] {
        assert_eq!(
            cleaned(&schema, provider),
            json!({"type": "object", "properties": {
                "count": {"type": "integer", "minimum": 1, "maximum": 9007199254740990_i64},
                "ratio": {"type": "number", "minimum": 0, "description": "The ratio. Must be greater than 0."},
            }})
        );
        assert_eq!(
            notes(&schema, provider),
            [
                "/$schema: removed, because references are written out",
                "/properties/count/exclusiveMinimum: replaced by `minimum`",
                "/properties/count/exclusiveMaximum: replaced by `maximum`",
                "/properties/ratio/exclusiveMinimum: replaced by `minimum` and a hint in the description",
            ]
        );
    }
    assert_eq!(property(json!({"exclusiveMinimum": 0}), Provider::Anthropic), json!({"exclusiveMinimum": 0}));
}

#[test]
fn properties_named_like_keywords_are_properties() {
    let schema = json!({"type": "object", "required": ["$ref"], "properties": {
        "$schema": {"type": "string"}, "$ref": {"type": "string"}, "constructor": {"type": "string"},
        "exclusiveMinimum": {"type": "number"}, "anyOf": {"type": "boolean"},
        "properties": {"type": "object", "properties": {"type": {"type": "string"}, "$defs": {"type": "integer"}}},
    }});
    assert_eq!(clean(&schema, Provider::OpenAi), Cleaned { schema: schema.clone(), changes: Vec::new() });
    assert_eq!(clean(&schema, Provider::Gemini), Cleaned { schema: schema.clone(), changes: Vec::new() });
}

#[test]
fn a_property_name_that_anthropic_refuses_is_left_out() {
    let schema = json!({"type": "object", "required": ["ok", "not ok"], "properties": {
        "ok": {"type": "object", "properties": {"$deep": {}}}, "not ok": {}, "$schema": {}, "constructor": {},
    }});
    assert_eq!(
        cleaned(&schema, Provider::Anthropic),
        json!({"type": "object", "required": ["ok"], "properties": {
            "ok": {"type": "object", "properties": {"$deep": {}}}, "constructor": {},
        }})
    );
}

#[test]
fn definitions_are_written_out_where_they_are_used() {
    let schema = json!({
        "type": "object",
        "properties": {
            "from": {"$ref": "#/$defs/place", "description": "Start"},
            "to": {"$ref": "#/definitions/a~1b%20c"},
            "lost": {"$ref": "https://example.com/schema.json"},
        },
        "$defs": {"place": {"type": "string", "description": "A place"}},
        "definitions": {"a/b c": {"$ref": "#/$defs/place"}},
    });
    assert_eq!(
        cleaned(&schema, Provider::OpenAi)["properties"],
        json!({
            "from": {"type": "string", "description": "Start"},
            "to": {"type": "string", "description": "A place"},
            "lost": {},
        })
    );
    assert!(
        notes(&schema, Provider::OpenAi)
            .contains(&"/properties/lost: removed a `$ref` without a target in the schema".to_owned())
    );
}

#[test]
fn a_recursive_schema_is_cut_and_reported() {
    let schema = json!({
        "type": "object",
        "properties": {"tree": {"$ref": "#/$defs/node"}},
        "$defs": {"node": {"type": "object", "properties": {"children": {"type": "array", "items": {"$ref": "#/$defs/node"}}}}},
    });
    let itself = json!({"type": "object", "properties": {"again": {"$ref": "#"}}});
    assert_eq!(cleaned(&itself, Provider::Anthropic), json!({"type": "object", "properties": {"again": {}}}));
    assert_eq!(
        cleaned(&schema, Provider::OpenAi)["properties"]["tree"]["properties"]["children"],
        json!({"type": "array", "items": {}})
    );
    assert!(
        notes(&schema, Provider::OpenAi)
            .contains(&"/properties/tree/properties/children/items: cut a recursive `$ref` here".to_owned())
    );
}

#[test]
fn definitions_that_multiply_are_bounded_in_number_and_in_bytes() {
    let doubling = |leaf: Value| {
        let mut definitions = Map::new();
        for i in 0..30 {
            let next = json!({"$ref": format!("#/$defs/d{}", i + 1)});
            definitions.insert(format!("d{i}"), json!({"type": "object", "properties": {"a": next, "b": next}}));
        }
        definitions.insert("d30".into(), leaf);
        json!({"type": "object", "properties": {"p": {"$ref": "#/$defs/d0"}}, "$defs": definitions})
    };
    let text = "x".repeat(100_000);
    let long = json!({"type": "object", "properties": {"p": {"type": "array", "prefixItems": vec![json!({"$ref": "#/$defs/t"}); 5_000]}},
        "$defs": {"t": {"description": text}}});
    for provider in CLEANING {
        for schema in [doubling(json!({})), long.clone()] {
            let cleaned = clean(&schema, provider);
            assert!(cleaned.schema.to_string().len() < 4_000_000);
            assert!(
                cleaned
                    .changes
                    .iter()
                    .any(|change| change.what.contains("too large") || change.what.contains("too much"))
            );
        }
    }
}

/// Copying it for each of five thousand references before counting its size would take minutes.
#[test]
fn definitions_that_may_not_be_copied_are_not_copied() {
    let list = vec![json!(1); 500_000];
    let long = format!("#/{}", "x".repeat(1_000_000));
    for definition in
        [json!({"x": list}), json!({"enum": list}), json!({"dependencies": {"a": list}}), json!({"$ref": long})]
    {
        let properties: Map<_, _> = (0..5_000).map(|i| (format!("a{i}"), json!({"$ref": "#/$defs/D"}))).collect();
        let schema = json!({"type": "object", "properties": properties, "$defs": {"D": definition}});
        let started = std::time::Instant::now();
        let cleaned = clean(&schema, Provider::OpenAi);
        assert!(started.elapsed() < std::time::Duration::from_secs(10), "{:?}", started.elapsed());
        assert!(cleaned.changes.iter().any(|change| change.what.contains("too much")), "{:?}", cleaned.changes);
    }
}

#[test]
fn the_root_becomes_one_object() {
    let schema = json!({
        "description": "Move.",
        "oneOf": [
            {"type": "object", "properties": {"kind": {"const": "go"}, "to": {"type": "string"}}, "required": ["kind", "to"]},
            {"type": "object", "properties": {"kind": {"const": "stop"}, "why": {"type": "string"}}, "required": ["kind"]},
        ],
    });
    for provider in [Provider::OpenAi, Provider::Anthropic] {
        assert_eq!(
            cleaned(&schema, provider),
            json!({
                "type": "object",
                "description": "Move. Give exactly one of these sets of properties: kind, to | kind.",
                "properties": {"kind": {"enum": ["go", "stop"]}, "to": {"type": "string"}, "why": {"type": "string"}},
                "required": ["kind"],
            })
        );
    }
    let all =
        json!({"allOf": [{"properties": {"a": {"type": "integer"}}, "required": ["a"]}, {"properties": {"b": {}}}]});
    assert_eq!(
        cleaned(&all, Provider::Anthropic),
        json!({"type": "object", "properties": {"a": {"type": "integer"}, "b": {}}, "required": ["a"]})
    );
}

#[test]
fn parts_of_one_schema_are_merged_without_loss() {
    let base = json!({"type": ["integer", "null"], "minimum": 1, "maximum": 9, "pattern": "a", "description": "base"});
    let schema = json!({
        "type": "object",
        "properties": {"n": {"$ref": "#/$defs/base", "type": "number", "minimum": 3, "maximum": 20, "pattern": "b"}},
        "$defs": {"base": base},
    });
    assert_eq!(
        cleaned(&schema, Provider::Anthropic)["properties"]["n"],
        json!({
            "type": "integer", "minimum": 3, "maximum": 9, "pattern": "a", "description": "base",
            "allOf": [{"pattern": "b"}],
        })
    );
}

#[test]
fn a_root_that_is_not_an_object_becomes_an_empty_one() {
    for schema in [
        json!(null),
        json!(true),
        json!([]),
        json!({}),
        json!({"type": "string", "enum": ["a"]}),
        json!({"type": ["object", "null"]}),
    ] {
        for provider in CLEANING {
            assert_eq!(cleaned(&schema, provider), json!({"type": "object", "properties": {}}), "{schema}");
            assert_ne!(notes(&schema, provider), [""; 0]);
        }
    }
}

#[test]
fn older_dialects_are_written_in_the_present_one() {
    let tuple = json!({"type": "array", "items": [{"type": "string"}, {"type": "number"}], "additionalItems": false});
    assert_eq!(
        property(tuple.clone(), Provider::Anthropic),
        json!({"type": "array", "prefixItems": [{"type": "string"}, {"type": "number"}], "items": false})
    );
    assert_eq!(property(tuple, Provider::OpenAi)["items"], json!({"anyOf": [{"type": "string"}, {"type": "number"}]}));
    assert_eq!(
        property(json!({"type": "number", "minimum": 3, "exclusiveMinimum": true}), Provider::Anthropic),
        json!({"type": "number", "minimum": 3, "exclusiveMinimum": 3})
    );
    assert_eq!(
        property(json!({"dependencies": {"a": ["b"], "c": {"required": ["d"]}}}), Provider::Anthropic),
        json!({"dependentRequired": {"a": ["b"]}, "dependentSchemas": {"c": {"required": ["d"]}}})
    );
}

#[test]
fn keywords_with_a_value_of_the_wrong_kind_are_dropped() {
    let schema = json!({"type": "any", "description": 5, "required": true, "enum": [], "minimum": "1", "minLength": -1, "items": 7});
    assert_eq!(property(schema, Provider::Anthropic), json!({}));
    assert_eq!(
        property(json!({"type": ["string", "string"], "required": ["a", 1, "a"]}), Provider::Anthropic),
        json!({"type": "string", "required": ["a"]})
    );
}

#[test]
fn openai_gets_items_and_properties_everywhere() {
    let schema = json!({"type": ["array", "null"], "description": "d"});
    assert_eq!(property(schema, Provider::OpenAi), json!({"type": ["array", "null"], "description": "d", "items": {}}));
    assert_eq!(property(json!({"type": "object"}), Provider::OpenAi), json!({"type": "object", "properties": {}}));
    assert_eq!(
        property(json!({"anyOf": [{"type": "array"}]}), Provider::OpenAi),
        json!({"anyOf": [{"type": "array", "items": {}}]})
    );
}

#[test]
fn gemini_gets_one_type_and_nullable() {
    assert_eq!(gemini(json!({"type": ["string", "null"]})), json!({"type": "string", "nullable": true}));
    assert_eq!(
        gemini(json!({"anyOf": [{"type": "string"}, {"type": "null"}], "default": null})),
        json!({"type": "string", "nullable": true})
    );
    assert_eq!(
        gemini(json!({"type": ["string", "number"], "description": "d", "minLength": 1, "minimum": 0})),
        json!({"anyOf": [
            {"type": "string", "description": "d", "minLength": 1},
            {"type": "number", "description": "d", "minimum": 0},
        ]})
    );
    assert_eq!(
        gemini(json!({"properties": {"a": {"type": "boolean"}}})),
        json!({"type": "object", "properties": {"a": {"type": "boolean"}}})
    );
    assert_eq!(gemini(json!({"type": "null"})), json!({"type": "string", "nullable": true}));
    assert_eq!(gemini(json!({"nullable": true}))["anyOf"][3], json!({"type": "object", "nullable": true}));
    assert_eq!(gemini(json!({"type": "array"}))["items"]["anyOf"].as_array().unwrap().len(), 4);
}

#[test]
fn gemini_keeps_enums_on_strings_and_hints_at_others() {
    assert_eq!(gemini(json!({"const": "a"})), json!({"type": "string", "enum": ["a"]}));
    assert_eq!(gemini(json!({"enum": ["a", "", null]})), json!({"type": "string", "enum": ["a"], "nullable": true}));
    assert_eq!(
        gemini(json!({"type": "integer", "enum": [1, 2]})),
        json!({"type": "integer", "description": "One of: 1, 2."})
    );
    assert_eq!(
        gemini(json!({"anyOf": [{"const": 1}, {"const": "x"}], "description": "d"})),
        json!({"anyOf": [
            {"type": "integer", "description": "d One of: 1."},
            {"type": "string", "description": "d", "enum": ["x"]},
        ]})
    );
}

#[test]
fn gemini_gets_no_keyword_that_it_does_not_know() {
    assert_eq!(
        gemini(json!({
            "type": "object", "additionalProperties": {"type": "string"}, "propertyNames": {"pattern": "^a"},
            "x-mcp-header": "h", "required": ["gone"],
        })),
        json!({"type": "object", "description": "Property names are free."})
    );
    assert_eq!(
        gemini(json!({"type": "string", "format": "email", "description": "Mail"})),
        json!({"type": "string", "description": "Mail Format: email."})
    );
    assert_eq!(
        gemini(json!({"type": "string", "format": "date-time"})),
        json!({"type": "string", "format": "date-time"})
    );
    assert_eq!(gemini(json!({"type": "string", "properties": {"a": {}}, "items": {}})), json!({"type": "string"}));
}

#[test]
fn gemini_gets_alternatives_of_objects_as_one_object() {
    let schema = json!({
        "type": "object",
        "properties": {"id": {"type": "string"}, "name": {"type": "string"}},
        "anyOf": [{"required": ["id"]}, {"required": ["name"]}],
    });
    assert_eq!(
        gemini(schema),
        json!({
            "type": "object",
            "properties": {"id": {"type": "string"}, "name": {"type": "string"}},
            "description": "Give at least one of these sets of properties: id | name.",
        })
    );
}

#[test]
fn a_name_that_the_root_and_its_alternatives_require_is_listed_once() {
    let text = json!({"type": "string"});
    let nested =
        |required: &[&str]| json!({"type": "object", "properties": {"j": text, "k": text}, "required": required});
    let alternative = |name: &str| json!({"properties": {"p": nested(&["k", "j"])}, "required": ["a", name]});
    let schema = json!({
        "type": "object",
        "properties": {"a": text, "b": text, "c": text, "d": text, "p": nested(&["k"])},
        "required": ["a", "d"],
        "anyOf": [alternative("b"), alternative("c")],
    });
    for provider in CLEANING {
        let schema = cleaned(&schema, provider);
        assert_eq!(schema["required"], json!(["a", "d"]), "{provider}");
        assert_eq!(schema["properties"]["p"]["required"], json!(["k", "j"]), "{provider}");
    }
}

/// Checks the time as well: to look for repeated names with each of these parts would take a minute.
#[test]
fn names_that_many_parts_require_are_merged_once() {
    let names: Vec<_> = (0..30_000).map(|number| format!("name{number}")).collect();
    let parts = (0..5_000).map(|number| json!({ "required": [format!("name{number}"), format!("more{number}")] }));
    let parts: Vec<_> = [json!({ "required": names })].into_iter().chain(parts).collect();
    let nested = json!({ "type": "object", "properties": { "p": { "type": "object", "allOf": parts.clone() } } });
    let started = std::time::Instant::now();
    for provider in CLEANING {
        cleaned(&nested, provider);
        let schema = cleaned(&json!({ "type": "object", "allOf": parts.clone() }), provider);
        let required = schema["required"].as_array().map_or(0, Vec::len);
        let expected = if provider == Provider::OpenAi { 35_000 } else { 0 };
        assert_eq!(required, expected, "{provider}");
    }
    assert!(started.elapsed() < std::time::Duration::from_secs(10), "{:?}", started.elapsed());
}

#[test]
fn the_report_is_bounded_for_names_of_any_length() {
    let long = "é/".repeat(10_000);
    let mut keywords: Map<String, Value> = (0..300).map(|i| (format!("{i}{long}"), json!(1))).collect();
    keywords.insert("type".into(), "string".into());
    let schema = json!({"type": "object", "properties": {long.clone(): keywords, "p": {"allOf": [{long.clone(): 1}, {long: 2}]}}});
    for change in clean(&schema, Provider::Gemini).changes {
        assert!(change.path.len() <= Change::TEXT_BYTES && change.what.len() <= Change::TEXT_BYTES);
    }
    assert_eq!(clean(&schema, Provider::Gemini).changes.len(), Change::MAX + 1);
}

#[test]
fn a_printed_provider_parses_to_the_same_provider() {
    for provider in Provider::ALL {
        assert_eq!(provider.to_string().parse(), Ok(provider));
    }
    let error = "OpenAI".parse::<Provider>().unwrap_err().to_string();
    assert_eq!(error, r#""OpenAI" is not a schema dialect; use openai, anthropic, gemini or none"#);
}
