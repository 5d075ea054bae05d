use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::{dialect::json as reader, document::Document};

fn parsed(text: &str) -> Node {
    reader::parse(&Document::new(None, text)).unwrap().unwrap()
}

fn inserted(text: &str, name: &str, value: &Json) -> String {
    insert(text, &parsed(text), name, value)
}

fn removed(text: &str, name: &str) -> String {
    let root = parsed(text);
    remove(text, &root, root.get(name).unwrap())
}

#[test]
fn a_member_is_added_in_the_style_of_the_file() {
    for (before, after) in [
        ("{}", "{\n  \"n\": 1\n}"),
        ("{ }", "{\n  \"n\": 1\n}"),
        ("{\n  // none yet\n}", "{\n  // none yet\n  \"n\": 1\n}"),
        ("{ \"a\": 1 }", "{ \"a\": 1, \"n\": 1 }"),
        ("{\"a\":1,}", "{\"a\":1, \"n\": 1,}"),
        ("{\n\t\"a\": 1\n}", "{\n\t\"a\": 1,\n\t\"n\": 1\n}"),
        ("{\n    \"a\": 1,\n\n}", "{\n    \"a\": 1,\n    \"n\": 1,\n\n}"),
        ("{\n  \"a\": 1 // one, two\n}", "{\n  \"a\": 1, // one, two\n  \"n\": 1\n}"),
        ("{\n  \"a\": 1 /* , */ , // x\n}", "{\n  \"a\": 1 /* , */ , // x\n  \"n\": 1,\n}"),
        ("{\r\n  \"a\": 1\r\n}\r\n", "{\r\n  \"a\": 1,\r\n  \"n\": 1\r\n}\r\n"),
        ("{ \"a\": 1,\n  \"b\": 2 }", "{ \"a\": 1,\n  \"b\": 2, \"n\": 1 }"),
    ] {
        let result = inserted(before, "n", &json!(1));
        if before.ends_with("2 }") {
            assert_eq!(result, "{ \"a\": 1,\n  \"b\": 2,\n  \"n\": 1\n}");
        } else {
            assert_eq!(result, after);
        }
    }
}

#[test]
fn wide_characters_in_front_of_a_member_do_not_disturb_an_edit() {
    // The line is indented by four bytes; four bytes before `b` is the middle of a character.
    let text = "{\n    \"a\": \"語\",\"b\": 2\n}";
    let root = parsed(text);
    assert_eq!(replace(text, &root.members().unwrap()[1], &json!(3)), text.replace('2', "3"));
    assert_eq!(removed(text, "b"), "{\n    \"a\": \"語\"\n}");
}

#[test]
fn an_entry_is_written_in_the_usual_layout() {
    let entry = json!({
        "env": { "A": "1" }, "args": ["-y", "x"], "command": "npx", "headers": {},
        "tools": { "allow": [{ "deep": 1 }] },
    });
    assert_eq!(
        inserted("{\n  \"a\": {}\n}\n", "n", &entry),
        r#"{
  "a": {},
  "n": {
    "command": "npx",
    "args": ["-y", "x"],
    "env": {
      "A": "1"
    },
    "headers": {},
    "tools": {
      "allow": [
        {
          "deep": 1
        }
      ]
    }
  }
}
"#
    );
    assert_eq!(
        inserted(r#"{ "a": {} }"#, "n", &entry),
        r#"{ "a": {}, "n": { "command": "npx", "args": ["-y", "x"], "env": { "A": "1" }, "headers": {}, "tools": { "allow": [{ "deep": 1 }] } } }"#
    );
}

#[test]
fn a_value_is_replaced_in_place() {
    let text = "{\n  // keep\n  \"a\": { \"command\": \"x\" }, // keep\n  \"b\": 2\n}";
    let root = parsed(text);
    assert_eq!(
        replace(text, root.get("a").unwrap(), &json!({ "url": "u" })),
        "{\n  // keep\n  \"a\": {\n    \"url\": \"u\"\n  }, // keep\n  \"b\": 2\n}"
    );
    let text = r#"{ "a": 1, "b": 2 }"#;
    assert_eq!(replace(text, parsed(text).get("a").unwrap(), &json!({ "c": [] })), r#"{ "a": { "c": [] }, "b": 2 }"#);
}

#[test]
fn a_member_is_removed_with_its_comma_and_nothing_else() {
    for (before, name, after) in [
        ("{ \"a\": 1 }", "a", "{}"),
        ("{\n  \"a\": 1\n}\n", "a", "{}\n"),
        ("{\n  \"a\": 1,\n}", "a", "{}"),
        ("{ \"a\": 1, \"b\": 2 }", "a", "{ \"b\": 2 }"),
        ("{ \"a\": 1, \"b\": 2 }", "b", "{ \"a\": 1 }"),
        ("{ \"a\": 1, \"b\": 2, }", "b", "{ \"a\": 1,  }"),
        ("{\n  \"a\": 1,\n  \"b\": 2\n}", "a", "{\n  \"b\": 2\n}"),
        ("{\n  \"a\": 1,\n  \"b\": 2\n}", "b", "{\n  \"a\": 1\n}"),
        ("{\n  \"a\": 1,\n  \"b\": 2,\n}", "b", "{\n  \"a\": 1,\n}"),
        ("{\r\n  \"a\": 1,\r\n  \"b\": 2\r\n}", "b", "{\r\n  \"a\": 1\r\n}"),
        ("{\n\"a\": 1 // x\r // y\r}\r", "a", "{\n // x\r // y\r}\r"),
        (
            "{\n  \"a\": 1, // one\n  // above b\n  \"b\": {\n    \"x\": 1\n  }, // b\n  // above c\n  \"c\": 3\n}",
            "b",
            "{\n  \"a\": 1, // one\n  // above b\n  // above c\n  \"c\": 3\n}",
        ),
        (
            "{\n  \"a\": 1, // one, two\n  // above b\n  \"b\": 2 // two\n  // last\n}",
            "b",
            "{\n  \"a\": 1 // one, two\n  // above b\n  // last\n}",
        ),
    ] {
        assert_eq!(removed(before, name), after);
    }
}

/// A JSON object in a random style, with comments and values that look like grammar.
fn any_file(least: usize) -> impl Strategy<Value = (String, Vec<String>)> {
    let space = prop::sample::select(vec![
        "",
        " ",
        "\n",
        "\n  ",
        "\r\n\t",
        " // c, }\n",
        " // d\r",
        " /* , { */ ",
        " /*/ , */ ",
        "\n\n    ",
    ]);
    let value = prop::sample::select(vec![
        "1",
        "\"x\"",
        "\", }\"",
        "{}",
        "[1, 2]",
        "{ \"enabled\": false, }",
        "{\n  \"command\": \"x\" // c\n}",
    ]);
    let member = (space.clone(), space.clone(), value, space.clone());
    (prop::collection::vec(member, least..5), any::<bool>(), space.clone(), space).prop_map(
        |(members, trailing, head, tail)| {
            let names: Vec<String> = (0..members.len()).map(|index| format!("m{index}")).collect();
            let count = members.len();
            let mut text = format!("{head}{{");
            for (index, (before, colon, value, after)) in members.into_iter().enumerate() {
                let comma = if index + 1 < count || trailing { "," } else { "" };
                text.push_str(&format!("{before}\"m{index}\":{colon}{value}{after}{comma}"));
            }
            (format!("{text}{tail}}}{tail}"), names)
        },
    )
}

fn without(mut value: Json, name: &str) -> Json {
    if let Json::Object(members) = &mut value {
        members.shift_remove(name);
    }
    value
}

/// Returns `text` without white space and commas: no edit may lose any other character.
fn substance(text: &str) -> String {
    text.chars().filter(|c| !c.is_whitespace() && *c != ',').collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn adding_and_removing_again_loses_nothing((text, _) in any_file(0)) {
        let before = parsed(&text).to_json();
        let entry = json!({ "command": "x", "args": ["a"] });
        let added = inserted(&text, "new", &entry);
        let after = parsed(&added).to_json();
        prop_assert_eq!(&after["new"], &entry);
        prop_assert_eq!(without(after, "new"), before.clone());

        let back = removed(&added, "new");
        prop_assert_eq!(parsed(&back).to_json(), before);
        prop_assert_eq!(substance(&back), substance(&text));
    }

    #[test]
    fn removing_touches_no_other_member((text, names) in any_file(1), index in any::<prop::sample::Index>()) {
        let name = &names[index.index(names.len())];
        let before = parsed(&text).to_json();
        prop_assert_eq!(parsed(&removed(&text, name)).to_json(), without(before, name));
    }

    #[test]
    fn replacing_keeps_every_byte_around((text, names) in any_file(1), index in any::<prop::sample::Index>()) {
        let root = parsed(&text);
        let member = root.get(&names[index.index(names.len())]).unwrap();
        let entry = json!({ "url": "https://x" });
        let after = replace(&text, member, &entry);
        prop_assert!(after.starts_with(&text[..member.node.span.start]));
        prop_assert!(after.ends_with(&text[member.node.span.end..]));
        prop_assert_eq!(&parsed(&after).to_json()[&member.name], &entry);
    }
}
