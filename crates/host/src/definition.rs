//! Computes a tool's canonical definition, with everything that matters to a model or a rule, and the definition's
//! hash.
//!
//! The canonical form is JSON without spaces, with the members of each object in the order of their names, and with the
//! same text always escaped in the same way. So the definition stays the same if a server changes the order of members,
//! and differs if it changes a single character.

use std::fmt;

use data_encoding::{HEXLOWER, HEXLOWER_PERMISSIVE};
use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{MapAccess, SeqAccess, Visitor},
};
use serde_json::{Value, value::RawValue};
use sha2::{Digest as _, Sha256};

use crate::mcp::{Annotations, Tool};

/// SHA-256 of a tool's definition: name, title, description, both schemas and annotations, in their canonical form.
///
/// The definition leaves out fields that only decorate a tool or concern its transport: icons, `_meta`, and whether the
/// tool runs as a task.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DefinitionHash([u8; 32]);

impl DefinitionHash {
    /// Creates the hash of these bytes.
    #[must_use]
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Returns the bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Parses 64 hexadecimal digits; `None` for any other text.
    #[must_use]
    pub fn parse(digits: &str) -> Option<Self> {
        HEXLOWER_PERMISSIVE.decode(digits.as_bytes()).ok()?.try_into().ok().map(Self)
    }

    /// Creates the hash of a definition in its canonical form.
    pub(crate) fn of(canonical: &str) -> Self {
        Self(Sha256::digest(canonical).into())
    }
}

/// Writes 64 hexadecimal digits.
impl fmt::Display for DefinitionHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&HEXLOWER.encode(&self.0))
    }
}

impl fmt::Debug for DefinitionHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for DefinitionHash {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Returns the definition of `tool` as one JSON object with the members `annotations`, `description`, `inputSchema`,
/// `name`, `outputSchema` and `title`, as far as they are present.
///
/// A schema that `serde_json` cannot parse is included as text, unchanged: it nests deeper than 128 levels, or has a
/// number that no `f64` can hold. All members of the same name are kept, in their order: a reader may use any of them.
#[must_use]
pub(crate) fn canonical_definition(tool: &Tool) -> String {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Definition<'a> {
        #[serde(skip_serializing_if = "is_empty")]
        annotations: &'a Annotations,
        #[serde(skip_serializing_if = "Option::is_none")]
        description: Option<&'a str>,
        input_schema: Json,
        name: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        output_schema: Option<Json>,
        #[serde(skip_serializing_if = "Option::is_none")]
        title: Option<&'a str>,
    }
    let definition = Definition {
        annotations: &tool.annotations,
        description: tool.description.as_deref(),
        input_schema: Json::of(&tool.input_schema),
        name: &tool.name,
        output_schema: tool.output_schema.as_deref().map(Json::of),
        title: tool.title.as_deref(),
    };
    // Serialization cannot fail: the keys are texts, and the numbers were read from JSON.
    serde_json::to_string(&definition).unwrap_or_default()
}

fn is_empty(annotations: &Annotations) -> bool {
    *annotations == Annotations::default()
}

/// A JSON value whose objects keep every member, even of the same name, in the order of the names.
enum Json {
    Plain(Value),
    Array(Vec<Json>),
    Object(Vec<(String, Json)>),
}

impl Json {
    fn of(raw: &RawValue) -> Self {
        serde_json::from_str(raw.get()).unwrap_or_else(|_| Self::Plain(raw.get().into()))
    }
}

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Plain(value) => value.serialize(serializer),
            Self::Array(items) => serializer.collect_seq(items),
            Self::Object(members) => serializer.collect_map(members.iter().map(|(name, value)| (name, value))),
        }
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(JsonVisitor)
    }
}

struct JsonVisitor;

impl<'de> Visitor<'de> for JsonVisitor {
    type Value = Json;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Json, E> {
        Ok(Json::Plain(Value::Null))
    }

    fn visit_bool<E>(self, value: bool) -> Result<Json, E> {
        Ok(Json::Plain(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Json, E> {
        Ok(Json::Plain(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Json, E> {
        Ok(Json::Plain(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Json, E> {
        Ok(Json::Plain(value.into()))
    }

    fn visit_str<E>(self, text: &str) -> Result<Json, E> {
        Ok(Json::Plain(text.into()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Json, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element()? {
            items.push(item);
        }
        Ok(Json::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Json, A::Error> {
        let mut members: Vec<(String, Json)> = Vec::new();
        while let Some(member) = map.next_entry()? {
            members.push(member);
        }
        // A stable sort keeps members of the same name in their order.
        members.sort_by(|(a, _), (b, _)| a.cmp(b));
        Ok(Json::Object(members))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{json, value::to_raw_value};

    use super::*;
    use crate::link::decode;

    fn tool(written: &str) -> Tool {
        decode::tool(&RawValue::from_string(written.to_owned()).unwrap()).unwrap()
    }

    fn hash(written: &str) -> DefinitionHash {
        DefinitionHash::of(&canonical_definition(&tool(written)))
    }

    fn hash_of(value: &Value) -> DefinitionHash {
        hash(to_raw_value(value).unwrap().get())
    }

    #[test]
    fn neither_order_nor_spaces_nor_escapes_make_another_definition() {
        let one = r#"{"name":"a","description":"é","inputSchema":{"type":"object","properties":{"x":{},"b":{"a":1,"c":[2.5]}}}}"#;
        let other = "{\"inputSchema\": { \"properties\":{\"b\":{\"c\":[2.5],\"a\":1},\"x\":{}},\n\"type\":\"obj\\u0065ct\"},
            \"name\":\"a\",\"description\":\"\\u00e9\", \"_meta\": {\"at\": 1}, \"icons\": [], \"execution\": {\"taskSupport\": \"optional\"}}";
        assert_eq!(canonical_definition(&tool(one)), canonical_definition(&tool(other)));
        assert_eq!(hash(one), hash(other));
        let expected = r#"{"description":"é","inputSchema":{"properties":{"b":{"a":1,"c":[2.5]},"x":{}},"type":"object"},"name":"a"}"#;
        assert_eq!(canonical_definition(&tool(one)), expected);
    }

    #[test]
    fn the_hash_of_a_definition_never_changes_between_versions() {
        let written = r#"{"title":"T","outputSchema":{"type":"object"},"annotations":{"readOnlyHint":true},"description":"é",
            "inputSchema":{"type":"object","required":["x"],"properties":{"x":{},"b":{"c":[2.5],"a":1}}},"name":"a"}"#;
        assert_eq!(hash(written).to_string(), "7dbd5038cfd35753158b357739f028b9d6c8827014b49dd51524240b2b029695");
    }

    #[test]
    fn each_part_of_a_definition_counts() {
        let plain = json!({ "name": "a", "inputSchema": { "type": "object" } });
        let mut seen = vec![hash_of(&plain)];
        for (part, value) in [
            ("name", json!("b")),
            ("title", json!("A")),
            ("description", json!("Reads.")),
            ("description", json!("Reads.\u{200b}")),
            ("inputSchema", json!({ "type": "object", "x": null })),
            ("outputSchema", json!({ "type": "object" })),
            ("annotations", json!({ "readOnlyHint": true })),
            ("annotations", json!({ "readOnlyHint": false })),
            ("annotations", json!({ "title": "A" })),
        ] {
            let mut changed = plain.clone();
            changed[part] = value;
            seen.push(hash_of(&changed));
        }
        let number = seen.len();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), number);
    }

    #[test]
    fn a_member_that_comes_twice_hides_nothing() {
        let twice =
            |first: &str| format!(r#"{{"name":"a","inputSchema":{{"description":"{first}","description":"good"}}}}"#);
        assert_ne!(hash(&twice("good")), hash(&twice("bad")));
    }

    #[test]
    fn a_schema_that_is_too_deep_is_counted_by_its_text() {
        let deep = |inner: &str| {
            format!(r#"{{"name":"a","inputSchema":{}{inner}{}}}"#, r#"{"a":"#.repeat(500), "}".repeat(500))
        };
        assert_eq!(hash(&deep("1")), hash(&deep("1")));
        assert_ne!(hash(&deep("1")), hash(&deep("2")));
    }

    #[test]
    fn a_printed_hash_parses_to_the_same_hash() {
        let one = hash(r#"{"name":"a","inputSchema":{}}"#);
        assert_eq!(DefinitionHash::parse(&one.to_string()), Some(one));
        for bad in ["", "ab", &"g".repeat(64), &"+1".repeat(32), &"é".repeat(32)] {
            assert_eq!(DefinitionHash::parse(bad), None);
        }
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            ".*".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 32, 5, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
                prop::collection::btree_map(".*", inner, 0..5).prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn the_canonical_form_is_the_same_value_and_stable(value in any_json()) {
            let written = serde_json::to_string_pretty(&value).unwrap();
            let once = serde_json::to_string(&serde_json::from_str::<Json>(&written).unwrap()).unwrap();
            // A number is written as `serde_json` writes it in a `Value`.
            let again = serde_json::to_string(&serde_json::from_str::<Value>(&written).unwrap()).unwrap();
            prop_assert_eq!(&once, &again);
            prop_assert_eq!(&once, &serde_json::to_string(&serde_json::from_str::<Json>(&once).unwrap()).unwrap());
        }
    }
}
