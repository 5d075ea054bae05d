//! Decides whether the content blocks of a result repeat its structured content. If they do, a model gets only the
//! blocks.

use std::{collections::BTreeSet, fmt};

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use crate::mcp::Content;

/// Returns whether `content` contains everything in `structured`. Servers repeat structured content:
///
/// - as JSON in one text (the MCP specification requires this; the server chooses the formatting),
/// - with one block for each item of an array,
/// - as the only member of an object, under a name that the server chooses: `{"content": "the text"}` (the reference
///   file system server), `{"result": …}` (every tool of FastMCP that does not return an object).
///
/// This function builds no tree from a text. It compares the text with `structured` while it reads, and stops at the
/// first difference.
pub(super) fn repeats_structured(content: &[Content], structured: &Value) -> bool {
    blocks_contain(content, structured) || only_member(structured).is_some_and(|member| blocks_contain(content, member))
}

/// Returns the value of an object's only member; `None` for any other value.
fn only_member(value: &Value) -> Option<&Value> {
    value.as_object().filter(|object| object.len() == 1)?.values().next()
}

/// Returns whether one block, or all blocks in their order, contain `value`.
fn blocks_contain(content: &[Content], value: &Value) -> bool {
    let blocks_are_items = |items: &Vec<Value>| {
        !items.is_empty()
            && items.len() == content.len()
            && content.iter().zip(items).all(|(block, item)| block_contains(block, item))
    };
    content.iter().any(|block| block_contains(block, value)) || value.as_array().is_some_and(blocks_are_items)
}

/// Returns whether one block contains all of `value`.
fn block_contains(block: &Content, value: &Value) -> bool {
    match block {
        Content::Text { text } => {
            text_equals(text, value) || value.as_object().is_some_and(|object| is_text_block(object, text))
        }
        Content::Resource { resource } => resource.text.as_deref().is_some_and(|text| text_equals(text, value)),
        // An object with the same `data` is the JSON of this block. The model gets the picture or sound already, so it
        // must not get the Base64 once more, as text.
        Content::Image { data, .. } | Content::Audio { data, .. } => {
            value.get("data").and_then(Value::as_str) == Some(data)
        }
        Content::ResourceLink { .. } | Content::Other(_) => false,
    }
}

/// Returns whether `object` is the block `{"type": "text", "text": TEXT}`.
fn is_text_block(object: &Map<String, Value>, text: &str) -> bool {
    object.get("type").is_some_and(|kind| kind == "text") && object.get("text").is_some_and(|member| member == text)
}

/// Returns whether `text` is `value`: the string itself, or its JSON.
fn text_equals(text: &str, value: &Value) -> bool {
    if let Value::String(string) = value
        && string == text
    {
        return true;
    }
    let mut reader = serde_json::Deserializer::from_str(text);
    MustEqual(value).deserialize(&mut reader).is_ok() && reader.end().is_ok()
}

/// Reads JSON, and fails if it does not equal this value. The order of members does not matter.
struct MustEqual<'a>(&'a Value);

impl<'a> MustEqual<'a> {
    /// Returns an error unless `is_same` is true.
    fn ok_if<E: Error>(is_same: bool) -> Result<(), E> {
        if is_same { Ok(()) } else { Err(E::custom("another value")) }
    }

    /// Checks that the expected value is a number that `is_same` accepts.
    fn number<E: Error>(&self, is_same: impl FnOnce(&'a Number) -> bool) -> Result<(), E> {
        Self::ok_if(matches!(self.0, Value::Number(number) if is_same(number)))
    }
}

impl<'de> DeserializeSeed<'de> for MustEqual<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for MustEqual<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the same JSON value")
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        Self::ok_if(self.0.is_null())
    }

    fn visit_bool<E: Error>(self, actual: bool) -> Result<(), E> {
        Self::ok_if(self.0.as_bool() == Some(actual))
    }

    // Two integers are compared as integers: as `f64`, large integers that differ by one would be equal. Only a number
    // with a point or an exponent is compared as `f64`, so that `1` equals `1.0`.
    fn visit_u64<E: Error>(self, actual: u64) -> Result<(), E> {
        self.number(|number| number.as_u64() == Some(actual) || equals_as_float(number, actual as f64))
    }

    fn visit_i64<E: Error>(self, actual: i64) -> Result<(), E> {
        self.number(|number| number.as_i64() == Some(actual) || equals_as_float(number, actual as f64))
    }

    fn visit_f64<E: Error>(self, actual: f64) -> Result<(), E> {
        self.number(|number| number.as_f64() == Some(actual))
    }

    fn visit_str<E: Error>(self, actual: &str) -> Result<(), E> {
        Self::ok_if(self.0.as_str() == Some(actual))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut actual: A) -> Result<(), A::Error> {
        let Value::Array(items) = self.0 else { return Self::ok_if(false) };
        for item in items {
            Self::ok_if(actual.next_element_seed(MustEqual(item))?.is_some())?;
        }
        // Any further element is an error, without reading it.
        Self::ok_if(actual.next_element_seed(NoElement)?.is_none())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut actual: A) -> Result<(), A::Error> {
        let Value::Object(members) = self.0 else { return Self::ok_if(false) };
        let mut unmatched_names: BTreeSet<&str> = members.keys().map(String::as_str).collect();
        while let Some((name, member)) = actual.next_key_seed(MemberIn(members))? {
            // A repeated name is ambiguous, and counts as a difference.
            Self::ok_if(unmatched_names.remove(name.as_str()))?;
            actual.next_value_seed(MustEqual(member))?;
        }
        Self::ok_if(unmatched_names.is_empty())
    }
}

/// Returns whether `number` is written with a point or an exponent and equals `actual`.
fn equals_as_float(number: &Number, actual: f64) -> bool {
    number.is_f64() && number.as_f64() == Some(actual)
}

/// Reads a name that must be the name of a member of this object, and returns that member.
struct MemberIn<'a>(&'a Map<String, Value>);

impl<'de, 'a> DeserializeSeed<'de> for MemberIn<'a> {
    type Value = (&'a String, &'a Value);

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'a> Visitor<'_> for MemberIn<'a> {
    type Value = (&'a String, &'a Value);

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a member of the same object")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<Self::Value, E> {
        self.0.get_key_value(name).ok_or_else(|| E::custom("another member"))
    }
}

/// Accepts no element: any further one is an error.
struct NoElement;

impl<'de> DeserializeSeed<'de> for NoElement {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, _: D) -> Result<(), D::Error> {
        Err(D::Error::custom("one item too many"))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn texts<'a>(texts: impl IntoIterator<Item = &'a str>) -> Vec<Content> {
        texts.into_iter().map(|text| Content::Text { text: text.into() }).collect()
    }

    #[test]
    fn structured_content_is_found_in_the_blocks_in_every_form_in_which_servers_repeat_it() {
        let object = json!({"b": [1, {"é": null}], "a": "x\ny", "n": 1.5});
        let ascii = object.to_string().replace('é', "\\u00e9");
        for (content, structured, servers) in [
            (vec![object.to_string()], object.clone(), "compact"),
            (vec![serde_json::to_string_pretty(&object).unwrap()], object.clone(), "pretty"),
            (vec![ascii], object.clone(), "with escapes, as Python's json.dumps"),
            (vec![r#" {"n":1.50, "a":"x\ny", "b":[1.0,{"é":null}]} "#.into()], object.clone(), "in another order"),
            (vec!["a summary".into(), object.to_string()], object.clone(), "below a summary"),
            (vec!["line 1\nline 2".into()], json!({"content": "line 1\nline 2"}), "the file system server"),
            (vec!["5".into()], json!({"result": 5}), "FastMCP, a number"),
            (vec!["true".into()], json!({"result": true}), "FastMCP, a boolean"),
            (vec!["a text".into()], json!({"result": "a text"}), "FastMCP, a text"),
            (vec!["a".into(), "b".into()], json!({"result": ["a", "b"]}), "FastMCP, a list of texts"),
            (vec!["[\"a\", \"b\"]".into()], json!({"result": ["a", "b"]}), "FastMCP 3, a list"),
            (vec!["{\"x\": 1}".into(), "{\"x\": 2}".into()], json!({"result": [{"x": 1}, {"x": 2}]}), "of objects"),
            (vec!["{\"x\": 1}".into(), "2".into()], json!([{"x": 1}, 2]), "an array without a wrapper"),
        ] {
            assert!(
                repeats_structured(&texts(content.iter().map(String::as_str)), &structured),
                "{servers}: {content:?}"
            );
        }
        let blocks = texts(["a"]);
        assert!(repeats_structured(&blocks, &json!({"content": [{"type": "text", "text": "a"}]})));
        let picture = Content::Image { data: "AAEC".into(), mime_type: "image/png".into() };
        let again = json!({"content": [{"type": "image", "data": "AAEC", "mimeType": "image/png"}]});
        assert!(repeats_structured(&[picture], &again), "a picture is not repeated as Base64 in a text");
    }

    #[test]
    fn blocks_that_lack_a_part_of_the_structured_content_do_not_repeat_it() {
        for (content, structured) in [
            (vec![], json!({})),
            (vec![], json!({"result": []})),
            (vec!["3 files"], json!({"files": ["a", "b", "c"]})),
            (vec!["a"], json!({"content": "a", "next": 7})),
            (vec!["a"], json!({"content": "ab"})),
            (vec!["a"], json!({"result": ["a", "b"]})),
            (vec!["a", "b"], json!({"result": ["b", "a"]})),
            (vec!["{\"a\": 1, \"b\": 2}"], json!({"a": 1})),
            (vec!["{\"a\": 1}"], json!({"a": 1, "b": 2})),
            (vec!["{\"a\": 1, \"a\": 1}"], json!({"a": 1, "b": 2})),
            (vec!["[1, 2, 3]"], json!([1, 2])),
            (vec!["{\"a\": 1} and more"], json!({"a": 1})),
            (vec!["{\"a\": 1"], json!({"a": 1})),
            (vec!["1"], json!({"a": "1", "b": 1})),
            (vec!["9007199254740993"], json!({"n": 9_007_199_254_740_992_i64})),
        ] {
            assert!(!repeats_structured(&texts(content.iter().copied()), &structured), "{content:?} and {structured}");
        }
        let structured = json!({"result": {"data": "AAEC", "note": "x"}});
        let other = Content::Image { data: "AAED".into(), mime_type: "image/png".into() };
        assert!(!repeats_structured(&[other], &structured));
    }

    fn json_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            (-1e6..1e6_f64).prop_map(Value::from),
            "[a-c\\\\\"é\n]{0,4}".prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::hash_map("[a-c]{0,2}", inner, 0..4).prop_map(|map| map.into_iter().collect()),
            ]
        })
    }

    proptest! {
        #[test]
        fn scanning_finds_the_same_values_as_parsing(one in json_value(), other in json_value()) {
            for text in [one.to_string(), serde_json::to_string_pretty(&one).unwrap()] {
                prop_assert!(text_equals(&text, &one));
                if text_equals(&text, &other) {
                    prop_assert!(one == other || other == text.as_str(), "{one} is taken for {other}");
                }
            }
        }
    }
}
