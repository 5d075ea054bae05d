use serde_json::json;

use super::*;

fn field(of: Value) -> Field {
    let schema = json!({ "properties": { "x": of } });
    fields(&schema).unwrap().remove(0)
}

fn plain(text: &str) -> String {
    anstream::adapter::strip_str(text).to_string()
}

#[test]
fn the_prompt_shows_the_expected_value_and_the_default() {
    for (of, prompt) in [
        (json!({ "type": "string" }), "  x (may be left out): "),
        (
            json!({ "type": "string", "format": "email", "title": "E-mail", "default": "a@b.c" }),
            "  E-mail (email) [a@b.c]: ",
        ),
        (json!({ "type": "integer", "minimum": 1, "maximum": 9, "default": 3 }), "  x (whole number, 1 to 9) [3]: "),
        (json!({ "type": "boolean", "default": true }), "  x (y/n) [y]: "),
    ] {
        assert_eq!(plain(&field(of).prompt(None)), prompt);
    }
}

#[test]
fn an_empty_line_takes_the_default_or_leaves_the_field_out() {
    assert_eq!(field(json!({ "type": "string" })).read(""), Ok(None));
    let with_default = field(json!({ "type": "integer", "default": 3 }));
    assert_eq!(with_default.read(""), Ok(Some(json!(3))));
    let required = json!({ "properties": { "x": { "type": "string" } }, "required": ["x"] });
    let required = fields(&required).unwrap().remove(0);
    assert!(required.read("").is_err());
}

#[test]
fn fields_are_asked_for_in_the_order_of_the_server() {
    let text = json!({ "type": "string" });
    let properties = json!({ "street": text, "number": text, "city": text, "area": text });
    let fields = fields(&json!({ "properties": properties, "required": ["city", "street"] })).unwrap();
    let names: Vec<_> = fields.iter().map(|field| field.name.as_str()).collect();
    assert_eq!(names, ["street", "number", "city", "area"]);
}

#[test]
fn values_are_read_as_their_type_and_checked() {
    let full = field(json!({ "type": "integer", "minimum": 1, "maximum": 9 }));
    assert_eq!(full.read("7"), Ok(Some(json!(7))));
    for bad in ["0", "10", "1.5", "seven", "inf"] {
        assert!(full.read(bad).is_err(), "{bad}");
    }
    let number = field(json!({ "type": "number" }));
    assert_eq!(number.read("1.5"), Ok(Some(json!(1.5))));
    assert_eq!(number.read("2"), Ok(Some(json!(2))));
    let yes = field(json!({ "type": "boolean" }));
    assert_eq!(yes.read("Yes"), Ok(Some(json!(true))));
    assert_eq!(yes.read("n"), Ok(Some(json!(false))));
    assert!(yes.read("maybe").is_err());
    let short = field(json!({ "type": "string", "minLength": 2, "maxLength": 3 }));
    assert_eq!(short.read("äöü"), Ok(Some(json!("äöü"))));
    assert!(short.read("a").is_err() && short.read("abcd").is_err());
}

#[test]
fn whole_numbers_are_those_of_json_schema() {
    let whole = field(json!({ "type": "integer" }));
    for (typed, value) in [("5.0", json!(5.0)), ("+7", json!(7)), ("9223372036854775808", json!(1_u64 << 63))] {
        assert_eq!(whole.read(typed), Ok(Some(value)), "{typed}");
    }
    for typed in ["5.5", ".5", "NaN", "inf", "five"] {
        assert!(whole.read(typed).is_err(), "{typed}");
    }
    assert_eq!(field(json!({ "type": "number" })).read(".5"), Ok(Some(json!(0.5))));
}

#[test]
fn formats_are_checked_with_an_example() {
    for (format, good, bad) in [
        ("email", "ada@example.com", "ada"),
        ("uri", "https://example.com/", "example"),
        ("date", "2026-02-28", "2026-02-30"),
        ("date-time", "2026-02-28T10:00:00+01:00", "2026-02-28"),
        ("unknown", "anything", ""),
    ] {
        let field = field(json!({ "type": "string", "format": format }));
        assert_eq!(field.read(good), Ok(Some(json!(good))), "{format}");
        if !bad.is_empty() {
            assert!(field.read(bad).unwrap_err().starts_with("write it as "));
        }
    }
}

#[test]
fn choices_are_made_by_number_value_or_title() {
    let titled = json!({ "oneOf": [
        { "const": "r", "title": "Red" },
        { "const": "2", "title": "Blue" },
    ] });
    let one = field(titled.clone());
    assert_eq!(one.intro(), ["  1) Red", "  2) Blue"]);
    for (typed, value) in [("1", "r"), ("r", "r"), ("blue", "2"), ("2", "2")] {
        assert_eq!(one.read(typed), Ok(Some(json!(value))), "{typed}");
    }
    assert_eq!(one.read("3"), Err("choose a number from 1 to 2".to_owned()));
    assert!(one.read("0").is_err());

    let several = field(json!({ "type": "array", "items": titled, "minItems": 1, "maxItems": 2 }));
    assert_eq!(several.read("red, 2"), Ok(Some(json!(["r", "2"]))));
    assert!(several.read(",").is_err() && several.read("1,2,1").is_err());

    let named = field(json!({ "enum": ["a", "b"], "enumNames": ["First", "Second"] }));
    assert_eq!(named.read("second"), Ok(Some(json!("b"))));
}

#[test]
fn choices_with_commas_are_chosen_by_name_and_by_a_file_of_answers() {
    let cities = json!({ "enum": ["Washington, DC", "Bonn"] });
    let several = field(json!({ "type": "array", "items": cities, "maxItems": 2 }));
    for (typed, picked) in [
        ("washington, dc", json!(["Washington, DC"])),
        ("1, bonn", json!(["Washington, DC", "Bonn"])),
        ("2", json!(["Bonn"])),
    ] {
        assert_eq!(several.read(typed), Ok(Some(picked)), "{typed}");
    }
    let both = json!(["Bonn", "Washington, DC"]);
    assert_eq!(several.check(&both), Ok(both.clone()));
    for wrong in [json!(["Ulm"]), json!(["bonn"]), json!([1]), json!("Bonn"), json!(["Bonn", "Bonn", "Bonn"])] {
        assert!(several.check(&wrong).is_err(), "{wrong}");
    }
}

#[test]
fn a_field_that_asks_for_a_secret_gets_a_warning() {
    for name in ["password", "API-Key", "my_access_token"] {
        let schema = json!({ "properties": { name: { "type": "string" } } });
        let intro = plain(&fields(&schema).unwrap()[0].intro().join("\n"));
        assert!(intro.contains("looks like a secret"), "{name}");
    }
    assert!(field(json!({ "type": "string" })).intro().is_empty());
}

#[test]
fn a_schema_that_is_not_a_form_is_refused() {
    for schema in [
        json!(null),
        json!({ "type": "object" }),
        json!({ "properties": { "x": {} } }),
        json!({ "properties": { "x": { "type": "object" } } }),
        json!({ "properties": { "x": { "type": "array", "items": { "type": "object" } } } }),
        json!({ "properties": { "x": { "enum": [1, 2] } } }),
    ] {
        assert!(fields(&schema).is_err(), "{schema}");
    }
}
