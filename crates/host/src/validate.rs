//! Validates JSON against a JSON Schema, with a bound on the work. A host checks arguments against the input schema of
//! a tool before it sends them, and structured content against the output schema.
//!
//! Schemas come from servers that may be hostile, and a few lines of JSON Schema can require exponential work: if each
//! of `n` definitions refers to the next twice, a validation takes 2^n evaluations. A deadline does not help, because a
//! thread that computes cannot be stopped. So this module counts the work first. [`Validator::compile`] refuses a
//! schema that unfolds to too many subschemas. [`Validator::validate`] counts the evaluations that the *instance* (the
//! JSON to check) takes in the worst case, and only then runs the real validator. Regular expressions are counted by
//! their size and by the length of the text.
//!
//! No `$ref` is ever fetched. Formats are not asserted. Neither function does IO, but both may take tens of
//! milliseconds: do not call them on async threads.

#![cfg_attr(
    not(feature = "schema-validation"),
    expect(dead_code, reason = "some bounds are used only by the validator")
)]

mod graph;
mod pattern;
mod plain;

use std::fmt::{self, Write as _};

#[cfg(feature = "schema-validation")]
use jsonschema::error::ValidationErrorKind;
#[cfg(feature = "schema-validation")]
use jsonschema::{Draft, PatternOptions, ValidationError};
use serde_json::Value;

use graph::Graph;
pub use plain::plainly_fits;

/// The most subschemas after all `$ref`s are unfolded.
const MAX_NODES: u64 = 10_000;

/// The deepest nesting of a schema's JSON, and of its subschemas after all `$ref`s are unfolded (a recursion counts
/// once).
const MAX_DEPTH: usize = 64;

/// The most JSON values in a schema, including those of `enum` and of annotations.
const MAX_VALUES: usize = 100_000;

/// The most states, estimated, of all regular expressions of a schema.
const MAX_PATTERN_STATES: u64 = 50_000;

/// The most evaluations of one validation. About 50 ms in an optimised build.
const MAX_STEPS: u64 = 1_000_000;

/// The most evaluations of a validation that collects all messages of a failure. Collecting messages costs many times
/// as much as a plain check.
const MAX_STEPS_FOR_ALL_MESSAGES: u64 = 20_000;

/// The most evaluations of a validation that collects at least the first message of a failure.
const MAX_STEPS_FOR_FIRST_MESSAGE: u64 = 250_000;

/// The most messages of one failure.
const MAX_MESSAGES: usize = 8;

/// The longest message in bytes.
const MAX_MESSAGE_BYTES: usize = 200;

/// The most bytes of a compiled regular expression.
const MAX_PATTERN_BYTES: usize = 2 << 20;

/// The most steps back of a regular expression with look-around.
const MAX_BACKTRACKS: usize = 1_000;

/// The reason why a schema is not used for validation. The tool itself can still be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SchemaProblem {
    /// A `$ref` refers to another document, which is never fetched.
    #[error("the schema refers to {reference:?}, outside itself; nothing is fetched for it")]
    RemoteRef {
        /// The reference, or its beginning.
        reference: String,
    },
    /// A `$ref` into the schema has no target.
    #[error("the schema refers to {reference:?}, which it does not contain")]
    UnknownRef {
        /// The reference, or its beginning.
        reference: String,
    },
    /// A `$ref` leads back to itself without a step into the instance, so that evaluating it never ends.
    #[error("a $ref of the schema leads back to itself without end")]
    EndlessRef,
    /// The schema has more than 10,000 subschemas after all `$ref`s are unfolded, or more than 100,000 JSON values.
    #[error("the schema unfolds to more than {MAX_NODES} subschemas")]
    TooManyNodes,
    /// The schema nests deeper than 64 levels, as it is written or after all `$ref`s are unfolded.
    #[error("the schema is nested deeper than {MAX_DEPTH} levels")]
    TooDeep,
    /// Its regular expressions have more than 50,000 states, estimated.
    #[error("the regular expressions of the schema are too large")]
    PatternsTooLarge,
    /// A keyword depends on more than the schema's own text, such as `$dynamicRef` or a nested `$id`.
    #[error("the schema uses {keyword}, which is not supported")]
    Unsupported {
        /// The keyword.
        keyword: &'static str,
    },
    /// This program was built without the feature `schema-validation`. No schema is then compiled.
    #[error("this program checks no schema: it is built without the feature `schema-validation` of toolrack-host")]
    BuiltWithout,
    /// The schema is invalid.
    #[error("the schema is not valid: {reason}")]
    Invalid {
        /// The problem, at most 200 bytes.
        reason: String,
    },
}

/// The reason why JSON does not count as valid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    /// The JSON does not match the schema.
    #[error("it does not match the schema: {}", Mismatches(mismatches))]
    Mismatch {
        /// The mismatches: at least one, at most eight.
        mismatches: Vec<Mismatch>,
    },
    /// A validation could take more than a million evaluations, so the JSON was not validated.
    #[error("with this schema, checking it would take too long")]
    TooExpensive,
}

/// One place where JSON does not match its schema.
///
/// A mismatch contains no values of the JSON, which may be secrets, but may contain names of properties and text of the
/// schema. Names and text are untrusted: make them safe before you show them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mismatch {
    /// The place: a JSON Pointer (RFC 6901) or, beyond 200 bytes, its beginning; empty for the whole value.
    pub place: String,
    /// The kind of mismatch, as far as kinds are distinguished.
    pub kind: MismatchKind,
    /// The problem, at most 200 bytes.
    pub message: String,
}

/// The kinds of [`Mismatch`] that are distinguished.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum MismatchKind {
    /// A required property is missing.
    Missing {
        /// The name of the property.
        property: String,
    },
    /// There are properties that the schema does not allow.
    Unexpected {
        /// The names of these properties: at most eight, of at most 200 bytes each.
        names: Vec<String>,
    },
    /// Any other mismatch.
    Other,
}

/// Writes `place: message`, or the message alone for the whole value.
impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.place.as_str() {
            "" => f.write_str(&self.message),
            place => write!(f, "{place}: {}", self.message),
        }
    }
}

/// Displays several mismatches on one line.
pub(super) struct Mismatches<'a>(pub(super) &'a [Mismatch]);

impl fmt::Display for Mismatches<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, mismatch) in self.0.iter().enumerate() {
            let separator = if index == 0 { "" } else { "; " };
            write!(f, "{separator}{mismatch}")?;
        }
        Ok(())
    }
}

/// A compiled JSON Schema with bounded work for any schema and any JSON.
///
/// References to other documents are never fetched, and formats are not asserted. [`Self::compile`] and
/// [`Self::validate`] do no IO, but may compute for tens of milliseconds: do not call them on async threads. Immutable:
/// share it between calls.
///
/// ```
/// use serde_json::json;
/// use toolrack_host::{Unfit, Validator};
///
/// let schema = json!({"properties": {"n": {"type": "integer"}}, "required": ["n"]});
/// let validator = Validator::compile(&schema)?;
/// assert!(validator.validate(&json!({"n": 1})).is_ok());
/// let Err(Unfit::Mismatch { mismatches }) = validator.validate(&json!({"n": "one"})) else { panic!() };
/// assert_eq!(mismatches[0].place, "/n");
/// # Ok::<(), toolrack_host::SchemaProblem>(())
/// ```
#[derive(Debug)]
pub struct Validator {
    graph: Graph,
    #[cfg(feature = "schema-validation")]
    validator: jsonschema::Validator,
}

impl Validator {
    /// Checks the cost of the schema and compiles it, in the draft of its `$schema` or else in 2020-12, MCP's default.
    ///
    /// # Errors
    /// The first [`SchemaProblem`] found.
    #[cfg(feature = "schema-validation")]
    pub fn compile(schema: &Value) -> Result<Self, SchemaProblem> {
        let graph = Graph::of(schema)?;
        let validator = jsonschema::options()
            .with_draft(draft(schema))
            .offline()
            .should_validate_formats(false)
            .with_pattern_options(
                PatternOptions::fancy_regex().size_limit(MAX_PATTERN_BYTES).backtrack_limit(MAX_BACKTRACKS),
            )
            .build(schema)
            .map_err(|error| SchemaProblem::Invalid { reason: clipped_message(&Mismatch::of(&error)) })?;
        Ok(Self { graph, validator })
    }

    /// Fails, because this library is built without the feature `schema-validation`.
    ///
    /// # Errors
    /// [`SchemaProblem::BuiltWithout`], or an earlier reason to refuse the schema.
    #[cfg(not(feature = "schema-validation"))]
    pub fn compile(schema: &Value) -> Result<Self, SchemaProblem> {
        Graph::of(schema).and(Err(SchemaProblem::BuiltWithout))
    }

    /// Checks one instance.
    ///
    /// # Errors
    /// [`Unfit::Mismatch`], with the places of the mismatches; [`Unfit::TooExpensive`] if validating it would take too
    /// long.
    #[cfg(feature = "schema-validation")]
    pub fn validate(&self, instance: &Value) -> Result<(), Unfit> {
        let steps = self.graph.cost(instance, MAX_STEPS).ok_or(Unfit::TooExpensive)?;
        if self.validator.is_valid(instance) {
            return Ok(());
        }
        let errors: Vec<_> = if steps <= MAX_STEPS_FOR_ALL_MESSAGES {
            self.validator.iter_errors(instance).take(MAX_MESSAGES).collect()
        } else if steps <= MAX_STEPS_FOR_FIRST_MESSAGE {
            self.validator.validate(instance).err().into_iter().collect()
        } else {
            Vec::new()
        };
        if errors.iter().any(|error| matches!(error.kind(), ValidationErrorKind::BacktrackLimitExceeded { .. })) {
            return Err(Unfit::TooExpensive);
        }
        let mut mismatches: Vec<_> = errors.iter().map(Mismatch::of).collect();
        if mismatches.is_empty() {
            let message = "it is too large to say where".to_owned();
            mismatches.push(Mismatch { place: String::new(), kind: MismatchKind::Other, message });
        }
        Err(Unfit::Mismatch { mismatches })
    }

    /// Checks only the cost of one instance. Never called: without the feature `schema-validation`, there is no
    /// validator.
    ///
    /// # Errors
    /// [`Unfit::TooExpensive`].
    #[cfg(not(feature = "schema-validation"))]
    pub fn validate(&self, instance: &Value) -> Result<(), Unfit> {
        self.graph.cost(instance, MAX_STEPS).map(drop).ok_or(Unfit::TooExpensive)
    }
}

#[cfg(feature = "schema-validation")]
impl Mismatch {
    /// Describes an error of the validator.
    fn of(error: &ValidationError<'_>) -> Self {
        let kind = match error.kind() {
            ValidationErrorKind::Required { property } => {
                MismatchKind::Missing { property: clipped_message(&property.as_str().unwrap_or_default()) }
            }
            ValidationErrorKind::AdditionalProperties { unexpected } => {
                let names = unexpected.iter().take(MAX_MESSAGES);
                MismatchKind::Unexpected { names: names.map(|name| clipped_message(name)).collect() }
            }
            _ => MismatchKind::Other,
        };
        Self {
            place: clipped_message(&error.instance_path().as_str()),
            kind,
            // Without the values, which may be secrets.
            message: clipped_message(&error.masked()),
        }
    }
}

/// Returns the dialect of a schema: its own if that is known, otherwise MCP's default, 2020-12.
#[cfg(feature = "schema-validation")]
fn draft(schema: &Value) -> Draft {
    match schema.get("$schema").and_then(Value::as_str).map(|uri| uri.trim_end_matches('#')) {
        Some("http://json-schema.org/draft-04/schema") => Draft::Draft4,
        Some("http://json-schema.org/draft-06/schema") => Draft::Draft6,
        Some("http://json-schema.org/draft-07/schema") => Draft::Draft7,
        Some("https://json-schema.org/draft/2019-09/schema") => Draft::Draft201909,
        _ => Draft::Draft202012,
    }
}

/// Returns the text of `message`, cut to at most [`MAX_MESSAGE_BYTES`]. Does not write the rest of a long text first.
pub(crate) fn clipped_message(message: &dyn fmt::Display) -> String {
    let mut text = BoundedString { text: String::new() };
    // The writer fails once it is full, which ends the formatting.
    let _ = write!(text, "{message}");
    text.text
}

/// A string of at most [`MAX_MESSAGE_BYTES`], because a message can quote a huge `enum`.
struct BoundedString {
    text: String,
}

impl fmt::Write for BoundedString {
    fn write_str(&mut self, piece: &str) -> fmt::Result {
        const ELLIPSIS: &str = "…";
        if self.text.len() + piece.len() <= MAX_MESSAGE_BYTES - ELLIPSIS.len() {
            self.text.push_str(piece);
            return Ok(());
        }
        let bytes_left = MAX_MESSAGE_BYTES - ELLIPSIS.len() - self.text.len();
        self.text.push_str(&piece[..piece.floor_char_boundary(bytes_left)]);
        self.text.push_str(ELLIPSIS);
        Err(fmt::Error)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    /// `n` definitions, each of which refers to the next twice: 2^n evaluations in the naive validator.
    fn doubling(n: usize) -> Value {
        let mut definitions = serde_json::Map::new();
        for i in 0..n {
            let next = json!({"$ref": format!("#/$defs/d{}", i + 1)});
            definitions.insert(format!("d{i}"), json!({"anyOf": [next, next]}));
        }
        definitions.insert(format!("d{n}"), json!({"type": "string"}));
        json!({"$defs": definitions, "$ref": "#/$defs/d0"})
    }

    fn problem(schema: &Value) -> SchemaProblem {
        Validator::compile(schema).unwrap_err()
    }

    fn messages(schema: &Value, instance: &Value) -> Vec<String> {
        match Validator::compile(schema).unwrap().validate(instance) {
            Err(Unfit::Mismatch { mismatches }) => mismatches.iter().map(ToString::to_string).collect(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_mismatch_of_structured_content_is_reported_with_its_path() {
        let schema = json!({
            "type": "object",
            "properties": {"temperature": {"type": "number"}, "sky": {"$ref": "#/$defs/sky"}},
            "required": ["temperature"],
            "$defs": {"sky": {"enum": ["clear", "grey"]}},
        });
        let validator = Validator::compile(&schema).unwrap();
        assert_eq!(validator.validate(&json!({"temperature": 1.5, "sky": "grey"})), Ok(()));
        assert_eq!(
            messages(&schema, &json!({"sky": "a secret"})),
            [r#""temperature" is a required property"#, r#"/sky: value is not one of "clear" or "grey""#]
        );
    }

    #[test]
    fn a_schema_that_doubles_is_refused_before_it_is_evaluated() {
        for n in [13, 25, 31] {
            assert_eq!(problem(&doubling(n)), SchemaProblem::TooManyNodes, "2^{n}");
        }
        assert_eq!(problem(&doubling(1_000)), SchemaProblem::TooDeep);
        assert!(Validator::compile(&doubling(10)).unwrap().validate(&json!("text")).is_ok());
    }

    #[test]
    fn a_schema_that_doubles_with_each_level_of_the_instance_is_not_run() {
        let schema = json!({"properties": {"child": {"oneOf": [{"$ref": "#"}, {"$ref": "#"}]}}});
        let validator = Validator::compile(&schema).unwrap();
        let nested = |depth| (0..depth).fold(json!({}), |child, _| json!({ "child": child }));
        assert_eq!(validator.validate(&nested(0)), Ok(()));
        assert!(matches!(validator.validate(&nested(5)), Err(Unfit::Mismatch { .. })));
        assert_eq!(validator.validate(&nested(40)), Err(Unfit::TooExpensive));
    }

    #[test]
    fn towers_of_unevaluated_properties_are_refused() {
        let tower = |height| {
            (0..height).fold(
                json!({"properties": {"a": true}}),
                |below, _| json!({"anyOf": [below], "unevaluatedProperties": {"type": "string"}}),
            )
        };
        assert_eq!(Validator::compile(&tower(2)).unwrap().validate(&json!({"b": "text"})), Ok(()));
        assert_eq!(problem(&tower(20)), SchemaProblem::TooManyNodes);
    }

    #[test]
    fn an_ordinary_table_is_affordable() {
        let schema = json!({"type": "object", "properties": {"rows": {"type": "array", "items": {
            "type": "object",
            "properties": {"id": {"type": "string", "pattern": "^[0-9a-f]{8}$"}, "n": {"type": ["integer", "null"]}},
            "required": ["id"],
            "additionalProperties": false,
        }}}});
        let row = json!({"id": "0123abcd", "n": 7});
        let instance = json!({"rows": vec![row; 5_000]});
        assert_eq!(Validator::compile(&schema).unwrap().validate(&instance), Ok(()));
    }

    #[test]
    fn references_outside_of_the_schema_are_refused() {
        for reference in ["https://127.0.0.1:1/x.json", "file:///etc/passwd", "other.json#/a", "//host/x"] {
            let schema = json!({"properties": {"a": {"$ref": reference}}});
            assert_eq!(problem(&schema), SchemaProblem::RemoteRef { reference: reference.to_owned() });
        }
        let own = json!({"$id": "https://example.com/s", "$ref": "https://example.com/s#/$defs/a", "$defs": {"a": {}}});
        assert!(Validator::compile(&own).is_ok());
        let custom = json!({"$schema": "https://example.com/meta", "type": "string"});
        assert!(Validator::compile(&custom).is_ok());
    }

    #[test]
    fn references_inside_the_schema_are_followed() {
        let schema = json!({
            "properties": {"a": {"$ref": "#/$defs/x%20~1y"}, "b": {"$ref": "#here"}},
            "$defs": {"x /y": {"type": "string"}, "z": {"$anchor": "here", "type": "number"}},
        });
        assert_eq!(messages(&schema, &json!({"a": 1, "b": ""})).len(), 2);
        let unknown = json!({"$ref": "#/$defs/none"});
        assert_eq!(problem(&unknown), SchemaProblem::UnknownRef { reference: "#/$defs/none".to_owned() });
    }

    /// The anchor is searched for only once: a search for each reference would take minutes.
    #[test]
    fn thousands_of_references_to_an_anchor_are_followed_at_once() {
        let properties: serde_json::Map<_, _> =
            (0..9_900).map(|n| (format!("p{n}"), json!({"$ref": "#here"}))).collect();
        let schema = json!({
            "properties": properties,
            "$defs": {"a": {"$anchor": "here"}, "z": {"x-list": vec![0; 75_000]}},
        });
        let started = std::time::Instant::now();
        assert_eq!(problem(&schema), SchemaProblem::TooManyNodes);
        assert!(started.elapsed() < std::time::Duration::from_secs(5), "{:?}", started.elapsed());
    }

    #[test]
    fn a_reference_that_never_ends_is_refused_and_an_ordinary_recursion_is_not() {
        assert_eq!(problem(&json!({"$ref": "#"})), SchemaProblem::EndlessRef);
        let circle = json!({"$defs": {"a": {"allOf": [{"$ref": "#/$defs/b"}]}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"});
        assert_eq!(problem(&circle), SchemaProblem::EndlessRef);
        let tree = json!({"properties": {"children": {"items": {"$ref": "#"}}}, "required": ["children"]});
        let leaf = json!({"children": []});
        assert!(Validator::compile(&tree).unwrap().validate(&json!({"children": [leaf, leaf]})).is_ok());
        assert_eq!(messages(&tree, &json!({"children": [{}]})).len(), 1);
    }

    #[test]
    fn schemas_that_need_more_than_the_text_are_refused() {
        assert_eq!(problem(&json!({"$dynamicRef": "#x"})), SchemaProblem::Unsupported { keyword: "$dynamicRef" });
        let nested = json!({"properties": {"a": {"$id": "x"}}});
        assert_eq!(problem(&nested), SchemaProblem::Unsupported { keyword: "a nested $id" });
        let invalid = problem(&json!({"type": "objekt"}));
        assert!(matches!(invalid, SchemaProblem::Invalid { .. }), "{invalid:?}");
        let property = json!({"properties": {"$id": {"type": "string"}, "$ref": {"type": "string"}}});
        assert!(Validator::compile(&property).is_ok());
    }

    #[test]
    fn regular_expressions_are_paid_for() {
        assert_eq!(problem(&json!({"pattern": "((a{100}){100}){100}"})), SchemaProblem::PatternsTooLarge);
        let blow_up = Validator::compile(&json!({"pattern": "(a|b)*a(a|b){1000}c"})).unwrap();
        assert!(matches!(blow_up.validate(&json!("ab".repeat(50))), Err(Unfit::Mismatch { .. })));
        assert_eq!(blow_up.validate(&json!("ab".repeat(50_000))), Err(Unfit::TooExpensive));
        let steps_back = Validator::compile(&json!({"pattern": r"^(a+)\1*(a+)\2*(a+)\3*b"})).unwrap();
        assert_eq!(steps_back.validate(&json!("a".repeat(40))), Err(Unfit::TooExpensive));
        let look_ahead = Validator::compile(&json!({"pattern": r"^(?=.*[0-9]).{8,}$"})).unwrap();
        assert_eq!(look_ahead.validate(&json!("passw0rd")), Ok(()));
        assert!(matches!(look_ahead.validate(&json!("password")), Err(Unfit::Mismatch { .. })));
    }

    #[test]
    fn messages_are_few_short_and_without_values() {
        let names: Vec<_> = (0..100).map(|i| format!("{i}{}", "é".repeat(200))).collect();
        let schema = json!({"items": {"enum": names}});
        let Err(Unfit::Mismatch { mismatches }) =
            Validator::compile(&schema).unwrap().validate(&json!(vec!["the secret"; 50]))
        else {
            panic!("it fits");
        };
        assert_eq!(mismatches.len(), MAX_MESSAGES);
        for Mismatch { place, message, .. } in mismatches {
            assert!(
                place.len() <= 3 && message.len() <= MAX_MESSAGE_BYTES && message.ends_with('…'),
                "{place} {message}"
            );
            assert!(!message.contains("secret"), "{message}");
        }
    }

    #[test]
    fn missing_and_superfluous_members_have_different_errors() {
        let schema = json!({"required": ["a"], "properties": {"a": {}}, "additionalProperties": false});
        let instance: Value = (0..20).map(|n| (format!("x{n:02}"), json!(n))).collect();
        let Err(Unfit::Mismatch { mismatches }) = Validator::compile(&schema).unwrap().validate(&instance) else {
            panic!("it fits");
        };
        let kinds: Vec<_> = mismatches.into_iter().map(|mismatch| mismatch.kind).collect();
        let names = (0..8).map(|n| format!("x{n:02}")).collect();
        assert!(kinds.contains(&MismatchKind::Missing { property: "a".to_owned() }), "{kinds:?}");
        assert!(kinds.contains(&MismatchKind::Unexpected { names }), "{kinds:?}");
    }

    #[test]
    fn the_deepest_recursion_allowed_fits_a_thread_of_two_mebibytes() {
        // Each level of the instance has five levels of subschemas, and the check fails at the deepest level.
        let schema = json!({"$defs": {"n": {"allOf": [{"anyOf": [{"oneOf": [{"if": true, "then": {
            "properties": {"c": {"$ref": "#/$defs/n"}}, "type": "object"
        }}]}]}]}}, "$ref": "#/$defs/n"});
        let validator = Validator::compile(&schema).unwrap();
        let nested = |depth| (0..depth).fold(json!(0), |child, _| json!({ "c": child }));
        let thread = std::thread::Builder::new().stack_size(2 << 20);
        let deepest =
            thread.spawn(move || (0..120).rev().find(|&d| validator.validate(&nested(d)) != Err(Unfit::TooExpensive)));
        assert!((30..60).contains(&deepest.unwrap().join().unwrap().unwrap()));
    }

    /// Schemas of the keywords that matter, with references to themselves and references without a target.
    fn schema() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(json!(true)),
            Just(json!({"type": "string", "pattern": "^a{2,3}(?!b)"})),
            Just(json!({"enum": [1, "a", null], "uniqueItems": true})),
            prop::sample::select(vec!["#", "#/$defs/a", "#/properties/a", "#b", "x#", "#/%zz", ""])
                .prop_map(|reference| json!({ "$ref": reference })),
            Just(json!({"type": 7, "required": "x", "properties": [], "allOf": {}})),
        ];
        leaf.prop_recursive(4, 24, 3, |inner| {
            let one = prop::sample::select(vec![
                "not",
                "if",
                "then",
                "items",
                "contains",
                "additionalProperties",
                "propertyNames",
                "unevaluatedProperties",
                "unevaluatedItems",
            ]);
            let many = prop::sample::select(vec!["allOf", "anyOf", "oneOf", "prefixItems"]);
            let named = prop::sample::select(vec!["properties", "$defs", "patternProperties", "dependentSchemas"]);
            let pair = (inner.clone(), inner.clone());
            prop_oneof![
                (one, inner.clone()).prop_map(|(keyword, schema)| json!({ keyword: schema })),
                (many, pair.clone()).prop_map(|(keyword, (a, b))| json!({ keyword: [a, b] })),
                (named, pair.clone()).prop_map(|(keyword, (a, b))| json!({ keyword: {"a": a, "b": b} })),
                pair.prop_map(
                    |(a, b)| json!({"properties": {"a": a}, "$defs": {"a": b}, "unevaluatedProperties": false})
                ),
            ]
        })
    }

    fn instance() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![Just(json!(null)), Just(json!(1)), "[ab]{0,4}".prop_map(Value::from)];
        leaf.prop_recursive(4, 24, 3, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
                prop::collection::hash_map("[abc]", inner, 0..3).prop_map(|map| map.into_iter().collect()),
            ]
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(500))]

        #[test]
        fn an_accepted_schema_judges_as_the_plain_validator_does(schema in schema(), instance in instance()) {
            if let Ok(validator) = Validator::compile(&schema) {
                let plain = jsonschema::draft202012::options().offline().build(&schema).unwrap();
                match validator.validate(&instance) {
                    Ok(()) => prop_assert!(plain.is_valid(&instance)),
                    Err(Unfit::Mismatch { mismatches }) => {
                        prop_assert!(!plain.is_valid(&instance));
                        prop_assert!((1..=MAX_MESSAGES).contains(&mismatches.len()));
                    }
                    Err(Unfit::TooExpensive) => {}
                }
            }
        }
    }
}
