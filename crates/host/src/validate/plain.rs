//! Checks the common case without a validator: a schema of simple keywords, and JSON (the *instance*) that clearly
//! matches it.

use std::cell::Cell;

use serde_json::{Map, Value};

use super::MAX_DEPTH;

/// Integers up to this size are also distinct as floating-point numbers.
const MAX_EXACT_INTEGER: f64 = (1_u64 << 53) as f64;

/// The most steps of one check, before the validator is used instead. A step is a subschema, one of its keywords, an
/// entry of a list in it, a member or an item of the instance, or [`BYTES_PER_STEP`] bytes of text.
const MAX_STEPS: usize = 20_000;

/// How many bytes of text cost one step.
const BYTES_PER_STEP: usize = 1_000;

/// Returns whether a quick check shows that `instance` matches `schema`; after `false`, only a validator can tell.
///
/// The schemas of most tools are an object whose properties have a type. The first [`Validator`] of a process takes
/// some milliseconds, most of them for the meta-schema; this check takes microseconds. It takes at most 20,000 small
/// steps, at most 64 levels deep, however large schema and instance are. So it needs little time and stack, and unlike
/// the validator, it may be called on any thread.
///
/// The check supports only keywords that mean the same in every draft. For an invalid schema, it may return `true`.
///
/// [`Validator`]: super::Validator
#[must_use]
pub fn plainly_fits(schema: &Value, instance: &Value) -> bool {
    QuickCheck { root: schema, steps_left: Cell::new(MAX_STEPS) }.fits(schema, instance, MAX_DEPTH)
}

/// One check of a whole schema.
struct QuickCheck<'a> {
    root: &'a Value,
    steps_left: Cell<usize>,
}

impl QuickCheck<'_> {
    /// Returns whether the instance certainly matches a subschema.
    fn fits(&self, schema: &Value, instance: &Value, levels_left: usize) -> bool {
        let (Value::Object(schema), Some(levels_left)) = (schema, levels_left.checked_sub(1)) else {
            return false;
        };
        // A subschema without keywords costs a step as well: a list may have millions of them.
        self.spend(1)
            && schema.iter().all(|(keyword, value)| {
                self.spend(1) && self.fits_keyword(schema, (keyword, value), instance, levels_left)
            })
    }

    /// Subtracts `steps` from [`Self::steps_left`]. Returns `false` if fewer are left.
    fn spend(&self, steps: usize) -> bool {
        let steps_left = self.steps_left.get().checked_sub(steps);
        self.steps_left.set(steps_left.unwrap_or_default());
        steps_left.is_some()
    }

    /// Spends the steps to look each member up by its name.
    fn spend_names(&self, members: &Map<String, Value>) -> bool {
        self.spend(members.keys().map(|name| 1 + text_steps(name)).sum())
    }

    /// Returns whether the instance certainly meets one keyword of `schema`.
    fn fits_keyword(
        &self,
        schema: &Map<String, Value>,
        (keyword, value): (&str, &Value),
        instance: &Value,
        levels_left: usize,
    ) -> bool {
        match keyword {
            // Formats are not asserted.
            "$schema" | "$comment" | "$defs" | "definitions" | "title" | "description" | "default" | "examples"
            | "format" | "deprecated" | "readOnly" | "writeOnly" => true,
            "$ref" => self.target(value).is_some_and(|target| self.fits(target, instance, levels_left)),
            "anyOf" => value
                .as_array()
                .is_some_and(|branches| branches.iter().any(|branch| self.fits(branch, instance, levels_left))),
            "allOf" => value
                .as_array()
                .is_some_and(|branches| branches.iter().all(|branch| self.fits(branch, instance, levels_left))),
            "type" => match value {
                Value::Array(types) => self.spend(types.len()) && types.iter().any(|name| is_of_type(name, instance)),
                name => is_of_type(name, instance),
            },
            "enum" => value.as_array().is_some_and(|values| self.spend(steps(value)) && values.contains(instance)),
            "const" => self.spend(steps(value)) && value == instance,
            "properties" => value.as_object().is_some_and(|properties| {
                let fits = |(name, member): (&String, &Value)| {
                    properties.get(name).is_none_or(|property| self.fits(property, member, levels_left))
                };
                instance.as_object().is_none_or(|members| self.spend_names(members) && members.iter().all(fits))
            }),
            "required" => value.as_array().is_some_and(|names| {
                let is_present =
                    |members: &Map<_, _>, name: &Value| name.as_str().is_some_and(|name| members.contains_key(name));
                let has_all = |members: &Map<_, _>| names.iter().all(|name| is_present(members, name));
                self.spend(steps(value)) && instance.as_object().is_none_or(has_all)
            }),
            "additionalProperties" => {
                let properties = schema.get("properties").and_then(Value::as_object);
                let is_named = |name: &str| properties.is_some_and(|properties| properties.contains_key(name));
                let fits = |member: &Value| value.as_bool().unwrap_or_else(|| self.fits(value, member, levels_left));
                let all_fit = |members: &Map<_, _>| members.iter().all(|(name, member)| is_named(name) || fits(member));
                instance.as_object().is_none_or(|members| self.spend_names(members) && all_fit(members))
            }
            // Only the form that means the same in every draft: one schema for all items.
            "items" => match instance {
                Value::Array(items) => {
                    self.spend(items.len()) && items.iter().all(|item| self.fits(value, item, levels_left))
                }
                _ => value.is_object(),
            },
            "minimum" => is_bounded(instance, value, |number, bound| number >= bound),
            "maximum" => is_bounded(instance, value, |number, bound| number <= bound),
            "minLength" | "maxLength" => {
                self.spend(instance.as_str().map_or(0, text_steps))
                    && is_length_in_bound(keyword, instance.as_str().map(|text| text.chars().count()), value)
            }
            "minItems" | "maxItems" => is_length_in_bound(keyword, instance.as_array().map(Vec::len), value),
            _ => false,
        }
    }

    /// Returns the target of `#/$defs/NAME` or `#/definitions/NAME`, for a name without escapes.
    fn target(&self, reference: &Value) -> Option<&Value> {
        let path = reference.as_str()?.strip_prefix("#/")?;
        let (section, name) = path.split_once('/').filter(|_| self.spend(text_steps(path)))?;
        let is_plain = matches!(section, "$defs" | "definitions") && !name.contains(['/', '~', '%']);
        self.root.get(section)?.get(name).filter(|_| is_plain)
    }
}

/// Returns the steps to read a text.
fn text_steps(text: &str) -> usize {
    text.len() / BYTES_PER_STEP
}

/// Returns the steps to compare a value of the schema.
fn steps(value: &Value) -> usize {
    match value {
        Value::String(text) => text_steps(text),
        Value::Array(items) => items.iter().map(|item| 1 + steps(item)).sum(),
        Value::Object(members) => members.iter().map(|(name, member)| 1 + text_steps(name) + steps(member)).sum(),
        _ => 0,
    }
}

/// Returns whether `instance` certainly has the type. A number like 1.0 is an integer only in some drafts.
fn is_of_type(name: &Value, instance: &Value) -> bool {
    match (name.as_str(), instance) {
        (Some("integer"), Value::Number(number)) => number.is_i64() || number.is_u64(),
        (Some("null"), Value::Null)
        | (Some("boolean"), Value::Bool(_))
        | (Some("number"), Value::Number(_))
        | (Some("string"), Value::String(_))
        | (Some("array"), Value::Array(_))
        | (Some("object"), Value::Object(_)) => true,
        _ => false,
    }
}

/// Returns whether a number meets the bound of `minimum` or `maximum`, if both can be compared without loss. A value
/// that is no number meets every bound.
fn is_bounded(instance: &Value, bound: &Value, fits: impl Fn(f64, f64) -> bool) -> bool {
    let exact_number = |value: &Value| value.as_f64().filter(|number| number.abs() < MAX_EXACT_INTEGER);
    exact_number(bound)
        .is_some_and(|bound| !instance.is_number() || exact_number(instance).is_some_and(|number| fits(number, bound)))
}

/// Returns whether a length meets the bound of a `min…` or `max…` keyword; a value without a length meets every bound.
fn is_length_in_bound(keyword: &str, length: Option<usize>, bound: &Value) -> bool {
    let Some(bound) = bound.as_u64() else { return false };
    length.is_none_or(|length| {
        let length = length as u64;
        if keyword.starts_with("min") { length >= bound } else { length <= bound }
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::{super::Validator, *};

    #[test]
    fn the_arguments_of_a_usual_tool_fit_plainly() {
        let schema = json!({
            "$schema": "http://json-schema.org/draft-07/schema#", "type": "object", "additionalProperties": false,
            "properties": {
                "path": { "type": "string", "description": "where", "minLength": 1 },
                "head": { "type": ["integer", "null"], "minimum": 0, "maximum": 100 },
                "kinds": { "type": "array", "items": { "enum": ["file", "folder"] }, "maxItems": 2 },
            },
            "required": ["path"],
        });
        assert!(plainly_fits(&schema, &json!({ "path": ".", "head": 3, "kinds": ["file"] })));
        for mismatch in [
            json!({}),
            json!({ "path": 1 }),
            json!({ "path": "" }),
            json!({ "path": ".", "head": -1 }),
            json!({ "path": ".", "head": 101 }),
            json!({ "path": ".", "head": 1.0 }),
            json!({ "path": ".", "kinds": ["pipe"] }),
            json!({ "path": ".", "kinds": ["file", "file", "file"] }),
            json!({ "path": ".", "other": 1 }),
            json!([]),
        ] {
            assert!(!plainly_fits(&schema, &mismatch), "{mismatch}");
        }
    }

    #[test]
    fn schemas_beyond_the_plain_ones_are_left_to_the_validator() {
        for schema in [
            json!(true),
            json!({ "oneOf": [{}] }),
            json!({ "$ref": "#" }),
            json!({ "$ref": "#/$defs/a", "$defs": { "a": { "$ref": "#/$defs/a" } } }),
            json!({ "$ref": "https://example.com/#/$defs/a", "$defs": { "a": {} } }),
            json!({ "pattern": "." }),
            json!({ "items": [{}] }),
            json!({ "minimum": "0" }),
        ] {
            assert!(!plainly_fits(&schema, &json!("x")), "{schema}");
        }
        let deep = (0..100).fold(json!({}), |inner, _| json!({ "properties": { "a": inner } }));
        let instance = (0..100).fold(json!({}), |inner, _| json!({ "a": inner }));
        assert!(!plainly_fits(&deep, &instance));
    }

    #[test]
    fn a_schema_that_branches_without_end_is_looked_at_for_a_moment_only() {
        let twice = json!([{ "$ref": "#/$defs/a" }, { "$ref": "#/$defs/a" }]);
        let schema = json!({ "$ref": "#/$defs/a", "$defs": { "a": { "anyOf": twice } } });
        assert!(!plainly_fits(&schema, &json!(1)));
    }

    /// Each of these schemas refers thousands of times to a part that costs much with its instance.
    #[test]
    fn a_large_instance_is_looked_at_for_a_moment_only() {
        let text = "x".repeat(1_000_000);
        let many = 100_000;
        let members: Map<String, Value> = (0..many).map(|number| (format!("m{number}"), json!(1))).collect();
        let empty = json!({ "allOf": vec![json!({}); many] });
        let started = std::time::Instant::now();
        for (part, instance) in [
            (json!({ "minLength": 1 }), json!(text)),
            (json!({ "const": text }), json!(text)),
            (json!({ "enum": [text] }), json!(text)),
            (json!({ "items": {} }), json!(vec![1; many])),
            (json!({ "properties": {} }), json!(members)),
            (json!({ "additionalProperties": true }), json!(members)),
            (json!({ "required": [text] }), Value::Object(Map::from_iter([(text.clone(), json!(1))]))),
            (json!({ "type": vec!["null"; many] }), json!(1)),
            (empty, json!(1)),
        ] {
            let schema = json!({ "allOf": vec![json!({ "$ref": "#/$defs/a" }); 3_000], "$defs": { "a": part } });
            assert!(!plainly_fits(&schema, &instance));
        }
        assert!(started.elapsed() < std::time::Duration::from_secs(20), "{:?}", started.elapsed());
    }

    fn instances() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            1 => Just(Value::Null),
            1 => any::<bool>().prop_map(Value::from),
            6 => (-3_i64..4).prop_map(Value::from),
            3 => prop_oneof![Just(0.5), Just(1.0), Just(9e15), Just(1e300)].prop_map(|number: f64| json!(number)),
            1 => any::<i64>().prop_map(Value::from),
            2 => "[aé]{0,3}".prop_map(Value::from),
        ];
        let full = leaf.clone().prop_recursive(3, 12, 3, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
                prop::collection::btree_map("[abc]", inner, 0..3).prop_map(|map| json!(map)),
            ]
        });
        prop_oneof![leaf, full]
    }

    fn schemas() -> impl Strategy<Value = Value> {
        let types = prop::sample::select(vec!["null", "boolean", "integer", "number", "string", "array", "object"]);
        let number = prop_oneof![(-2_i64..4).prop_map(|n| json!(n)), Just(json!(0.5)), Just(json!(9e15))];
        let leaf = prop_oneof![
            types.prop_map(|name| json!({ "type": name })),
            instances().prop_map(|value| json!({ "const": value })),
            prop::collection::vec(instances(), 1..3).prop_map(|values| json!({ "enum": values })),
            (prop::sample::select(vec!["minimum", "maximum"]), number.clone())
                .prop_map(|(name, value)| json!({ name: value })),
            (number.clone(), number).prop_map(|(least, most)| json!({ "minimum": least, "maximum": most })),
            (prop::sample::select(vec!["minLength", "maxLength", "minItems", "maxItems"]), 0_u64..4)
                .prop_map(|(name, value)| json!({ name: value })),
            prop::collection::btree_set("[abc]", 0..3).prop_map(|names| json!({ "required": names })),
        ];
        let full = leaf.clone().prop_recursive(3, 16, 4, |inner| {
            let more = prop_oneof![any::<bool>().prop_map(Value::from), inner.clone()];
            prop_oneof![
                inner.clone().prop_map(|items| json!({ "items": items })),
                prop::collection::vec(inner.clone(), 1..3).prop_map(|any| json!({ "anyOf": any })),
                prop::collection::vec(inner.clone(), 1..3).prop_map(|all| json!({ "allOf": all })),
                inner.clone().prop_map(|a| json!({ "$ref": "#/$defs/a", "$defs": { "a": a } })),
                (prop::collection::btree_map("[abc]", inner, 0..3), more)
                    .prop_map(|(named, more)| json!({ "properties": named, "additionalProperties": more })),
            ]
        });
        prop_oneof![leaf, full]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        #[test]
        fn a_value_that_the_plain_check_accepts_is_valid(schema in schemas(), instance in instances()) {
            if plainly_fits(&schema, &instance) {
                // The check may accept a schema that cannot be compiled, if it follows no wrong reference in it.
                if let Ok(validator) = Validator::compile(&schema) {
                    prop_assert_eq!(validator.validate(&instance), Ok(()));
                }
            }
        }
    }
}
