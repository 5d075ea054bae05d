//! Copies tool arguments and names into HTTP headers, so that proxies can route a call without reading its body (MCP
//! 2026-07-28, Streamable HTTP, "Custom Headers from Tool Parameters" and "Value Encoding"; SEP-2243).
//!
//! A server marks a property of a tool's input schema with `"x-mcp-header": "Region"`, and the call then carries
//! `Mcp-Param-Region` with that argument. A tool with invalid marks must not be offered over HTTP, because client,
//! proxy and server could compute different values; stdio ignores the marks.

use std::collections::HashSet;

use base64::{Engine, prelude::BASE64_STANDARD};
use http::{HeaderName, HeaderValue};
use serde_json::{Map, Number, Value};

use crate::canonical::integer_of;

/// The keyword that marks a property.
const KEYWORD: &str = "x-mcp-header";

/// The prefix of every header that is made from an argument.
const PREFIX: &str = "mcp-param-";

/// The maximum number of arguments of one tool that become headers. Servers and proxies refuse requests with many more
/// headers.
const MAX_HEADERS: usize = 64;

/// The prefix of an encoded value.
const ENCODED_START: &str = "=?base64?";
/// The suffix of an encoded value.
const ENCODED_END: &str = "?=";

/// The headers for the calls of one tool, from its input schema.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ParamHeaders(Vec<ParamHeader>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct ParamHeader {
    name: HeaderName,
    /// The path from the arguments to the value.
    path: Box<[Box<str>]>,
}

/// The reason why a tool must not be offered over HTTP. Names that the server chose are quoted, with control characters
/// escaped.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BadMark {
    /// The mark is at a place where it does not identify one argument.
    #[error("x-mcp-header is in {place:?}, not on a property that can be reached through `properties` alone")]
    Misplaced {
        /// The keyword of the enclosing schema; empty for the schema itself.
        place: String,
    },
    /// The mark is not a string.
    #[error("x-mcp-header of {property:?} is not a string")]
    NotAString {
        /// The path to the property.
        property: String,
    },
    /// The mark is empty, too long, or has characters that a header name must not have (RFC 9110, section 5.6.2).
    #[error("x-mcp-header of {property:?} is {header:?}, which cannot be part of a header name")]
    NotAToken {
        /// The path to the property.
        property: String,
        /// The value of the mark.
        header: String,
    },
    /// Another property has the same mark, ignoring case.
    #[error("x-mcp-header of {property:?} is {header:?}, which another property has already")]
    Repeated {
        /// The path to the second property.
        property: String,
        /// The value of the mark.
        header: String,
    },
    /// The type of the property is not string, integer or boolean. Values of other types, or of several types, can be
    /// written as text in more than one way.
    #[error("x-mcp-header of {property:?} is on a property whose type is not string, integer or boolean")]
    NotPrimitive {
        /// The path to the property.
        property: String,
    },
    /// There are more marks than a request can have headers.
    #[error("more than {limit} properties have an x-mcp-header")]
    TooMany {
        /// The limit.
        limit: usize,
    },
}

impl ParamHeaders {
    /// Returns whether the JSON of a schema may contain marks. Most schemas have none. Such a schema need not be parsed
    /// for [`from_schema`](Self::from_schema).
    pub(crate) fn may_be_in(schema: &str) -> bool {
        // JSON can spell the keyword with escapes such as `\u002d`.
        schema.contains(KEYWORD) || schema.contains("\\u")
    }

    /// Finds the marked properties of an input schema.
    ///
    /// # Errors
    /// The first broken rule. The tool must then be left out of the list, with this reason.
    pub(crate) fn from_schema(schema: &Value) -> Result<Self, BadMark> {
        let mut search = MarkSearch::default();
        if let Value::Object(schema) = schema {
            search.visit_reachable(schema, &mut Vec::new())?;
        }
        Ok(Self(search.headers))
    }

    /// Returns the headers of a call with these arguments. An argument that is absent or null has no header. An array
    /// or an object, which the schema does not allow there, has none either.
    ///
    /// The values are marked sensitive: arguments must not be logged.
    pub(crate) fn headers_for(&self, arguments: &Map<String, Value>) -> Vec<(HeaderName, HeaderValue)> {
        self.0.iter().filter_map(|header| Some((header.name.clone(), header.value(arguments)?))).collect()
    }

    /// Returns the headers as [`Self::headers_for`] does. In addition, returns the headers that a call with these
    /// arguments must not have, with `None` as the value.
    pub(crate) fn mirrored_headers(&self, arguments: &Map<String, Value>) -> Vec<(HeaderName, Option<HeaderValue>)> {
        self.0.iter().map(|header| (header.name.clone(), header.value(arguments))).collect()
    }
}

impl ParamHeader {
    fn value(&self, arguments: &Map<String, Value>) -> Option<HeaderValue> {
        let (first, rest) = self.path.split_first()?;
        let argument = rest.iter().try_fold(arguments.get(&**first)?, |value, name| value.get(&**name))?;
        let mut value = match argument {
            Value::String(text) => encode_header_value(text),
            Value::Bool(flag) => HeaderValue::from_static(if *flag { "true" } else { "false" }),
            Value::Number(number) => encode_header_value(&decimal(number)),
            Value::Null | Value::Array(_) | Value::Object(_) => return None,
        };
        value.set_sensitive(true);
        Some(value)
    }
}

/// Returns a number as text; without `.0` if it is an integer, because JSON allows `42.0`.
fn decimal(number: &Number) -> String {
    match number.as_f64().filter(|_| number.is_f64()).and_then(integer_of) {
        Some(integer) => integer.to_string(),
        None => number.to_string(),
    }
}

/// Returns text as the value of an `Mcp-Param-*` or `Mcp-Name` header: unchanged if it consists of visible ASCII with
/// inner spaces, otherwise as `=?base64?…?=`. Text that looks encoded is encoded again, so that decoding is
/// unambiguous.
pub(crate) fn encode_header_value(text: &str) -> HeaderValue {
    let is_visible_ascii = text.bytes().all(|byte| matches!(byte, b' '..=b'~'));
    let is_padded = text.starts_with(' ') || text.ends_with(' ');
    let looks_encoded = text.starts_with(ENCODED_START) && text.ends_with(ENCODED_END);
    let value = if is_visible_ascii && !is_padded && !looks_encoded {
        HeaderValue::from_str(text)
    } else {
        HeaderValue::try_from(format!("{ENCODED_START}{}{ENCODED_END}", BASE64_STANDARD.encode(text)))
    };
    // The fallback is never used: both forms are visible ASCII, which a header value may contain.
    value.unwrap_or_else(|_| HeaderValue::from_static(""))
}

/// A search for marks in a schema. It recurses as deep as the schema nests; the JSON parser limits that depth.
#[derive(Default)]
struct MarkSearch {
    /// The headers of the marks found so far.
    headers: Vec<ParamHeader>,
    /// The names of these headers, to notice a repeated one.
    names: HashSet<HeaderName>,
}

impl MarkSearch {
    /// Searches a schema that is reached through `properties` only, along `path`.
    fn visit_reachable<'a>(&mut self, schema: &'a Map<String, Value>, path: &mut Vec<&'a str>) -> Result<(), BadMark> {
        for (keyword, value) in schema {
            match (keyword.as_str(), value) {
                (KEYWORD, header) => self.add_header(header, schema.get("type"), path)?,
                ("properties", Value::Object(properties)) => {
                    for (name, property) in properties {
                        if let Value::Object(property) = property {
                            path.push(name);
                            self.visit_reachable(property, path)?;
                            path.pop();
                        }
                    }
                }
                (keyword, value) => check_no_mark_under(keyword, value)?,
            }
        }
        Ok(())
    }

    /// Adds the header that the mark of the property at `path` asks for. `kind` is the `type` in the property's schema.
    fn add_header(&mut self, header: &Value, kind: Option<&Value>, path: &[&str]) -> Result<(), BadMark> {
        if path.is_empty() {
            return Err(BadMark::Misplaced { place: String::new() });
        }
        let property = path.join(".");
        let Value::String(header) = header else {
            return Err(BadMark::NotAString { property });
        };
        let name = HeaderName::from_bytes(format!("{PREFIX}{header}").as_bytes());
        let Some(name) = name.ok().filter(|_| !header.is_empty()) else {
            return Err(BadMark::NotAToken { property, header: header.clone() });
        };
        if !matches!(kind.and_then(Value::as_str), Some("string" | "integer" | "boolean")) {
            return Err(BadMark::NotPrimitive { property });
        }
        if !self.names.insert(name.clone()) {
            return Err(BadMark::Repeated { property, header: header.clone() });
        }
        if self.headers.len() == MAX_HEADERS {
            return Err(BadMark::TooMany { limit: MAX_HEADERS });
        }
        self.headers.push(ParamHeader { name, path: path.iter().map(|name| (*name).into()).collect() });
        Ok(())
    }
}

/// Checks that the schemas under a keyword contain no mark.
///
/// Names and keywords must be distinguished: a property may be called `x-mcp-header` or `default`.
fn check_no_mark_under(keyword: &str, value: &Value) -> Result<(), BadMark> {
    match (keyword, value) {
        // Values, not schemas.
        ("default" | "const" | "enum" | "examples" | "required" | "dependentRequired", _) => Ok(()),
        // Names and their schemas.
        (
            "properties" | "patternProperties" | "$defs" | "definitions" | "dependentSchemas" | "dependencies",
            Value::Object(schemas),
        ) => schemas.values().try_for_each(|schema| check_no_mark_in(keyword, schema)),
        // A schema, a list of schemas, or a value of no interest.
        _ => check_no_mark_in(keyword, value),
    }
}

/// Checks that a schema or a list of schemas, which is under the keyword `place`, contains no mark.
fn check_no_mark_in(place: &str, value: &Value) -> Result<(), BadMark> {
    match value {
        Value::Object(schema) if schema.contains_key(KEYWORD) => Err(BadMark::Misplaced { place: place.to_owned() }),
        Value::Object(schema) => schema.iter().try_for_each(|(keyword, value)| check_no_mark_under(keyword, value)),
        Value::Array(schemas) => schemas.iter().try_for_each(|schema| check_no_mark_in(place, schema)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn headers_of(properties: Value) -> Result<ParamHeaders, BadMark> {
        ParamHeaders::from_schema(&json!({"type": "object", "properties": properties}))
    }

    fn encoded(text: &str) -> String {
        encode_header_value(text).to_str().unwrap().to_owned()
    }

    fn decoded(value: &str) -> String {
        match value.strip_prefix(ENCODED_START).and_then(|inner| inner.strip_suffix(ENCODED_END)) {
            Some(inner) => String::from_utf8(BASE64_STANDARD.decode(inner).unwrap()).unwrap(),
            None => value.to_owned(),
        }
    }

    fn header_lines(headers: &ParamHeaders, arguments: &Value) -> Vec<String> {
        let text = |(name, value): &(HeaderName, HeaderValue)| format!("{name}: {}", value.to_str().unwrap());
        headers.headers_for(arguments.as_object().unwrap()).iter().map(text).collect()
    }

    #[test]
    fn values_are_encoded_as_the_table_of_the_specification_says() {
        let table = [
            ("us-west1", "us-west1"),
            ("Hello, 世界", "=?base64?SGVsbG8sIOS4lueVjA==?="),
            (" padded ", "=?base64?IHBhZGRlZCA=?="),
            ("line1\nline2", "=?base64?bGluZTEKbGluZTI=?="),
            ("=?base64?literal?=", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="),
        ];
        for (text, value) in table {
            assert_eq!(encoded(text), value);
        }
    }

    #[test]
    fn only_characters_that_need_it_are_encoded() {
        for plain in
            ["", "us west 1", "a=b", "=?base64?", "=?base64?x", "x?=", "=?BASE64?x?=", "~!\"#'\\", "file:///a%20b.txt"]
        {
            assert_eq!(encoded(plain), plain);
        }
        for unsafe_text in [
            " us-west1",
            "us-west1 ",
            " ",
            "\tindented",
            "in\tside",
            "a\r\nEvil: 1",
            "\u{7f}",
            "\0",
            "é",
            "=?base64??=",
        ] {
            assert!(encoded(unsafe_text).starts_with(ENCODED_START), "{unsafe_text:?}");
            assert_eq!(decoded(&encoded(unsafe_text)), unsafe_text);
        }
    }

    #[test]
    fn a_call_carries_its_marked_arguments() {
        // What the conformance suite's `http-custom-headers` calls, in short.
        let headers = headers_of(json!({
            "region": {"type": "string", "x-mcp-header": "Region"},
            "priority": {"type": "integer", "x-mcp-header": "Priority"},
            "verbose": {"type": "boolean", "x-mcp-header": "Verbose"},
            "debug": {"type": "boolean", "x-mcp-header": "Debug"},
            "empty": {"type": "string", "x-mcp-header": "EmptyVal"},
            "method": {"type": "string", "x-mcp-header": "Method"},
            "ratio": {"type": "number"},
            "query": {"type": "string"},
        }))
        .unwrap();
        let arguments = json!({
            "region": "us-west1", "priority": 42, "verbose": false, "debug": true, "empty": "", "method": "m",
            "ratio": 0.5, "query": "q", "other": "o",
        });
        assert_eq!(
            header_lines(&headers, &arguments),
            [
                "mcp-param-region: us-west1",
                "mcp-param-priority: 42",
                "mcp-param-verbose: false",
                "mcp-param-debug: true",
                "mcp-param-emptyval: ",
                "mcp-param-method: m",
            ]
        );
    }

    #[test]
    fn an_absent_or_null_argument_has_no_header() {
        let headers = headers_of(json!({"a": {"type": "string", "x-mcp-header": "A"}})).unwrap();
        for arguments in [json!({}), json!({"a": null}), json!({"b": "x"}), json!({"a": []}), json!({"a": {}})] {
            assert_eq!(header_lines(&headers, &arguments), [""; 0], "{arguments}");
        }
    }

    #[test]
    fn a_nested_argument_is_taken_from_its_exact_place() {
        let place = json!({"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}});
        let headers = headers_of(json!({"a": {"type": "string"}, "place": place})).unwrap();
        assert_eq!(header_lines(&headers, &json!({"a": "x", "place": {"region": "eu"}})), ["mcp-param-region: eu"]);
        for arguments in [
            json!({"region": "eu"}),
            json!({"place": "eu"}),
            json!({"place": {}}),
            json!({"place": [{"region": "eu"}]}),
        ] {
            assert_eq!(header_lines(&headers, &arguments), [""; 0], "{arguments}");
        }
    }

    #[test]
    fn an_integer_is_written_as_one() {
        let headers = headers_of(json!({"n": {"type": "integer", "x-mcp-header": "N"}})).unwrap();
        let of = |number: Value| header_lines(&headers, &json!({"n": number})).concat();
        assert_eq!(of(json!(-7)), "mcp-param-n: -7");
        assert_eq!(of(json!(42.0)), "mcp-param-n: 42");
        assert_eq!(of(json!(-0.0)), "mcp-param-n: 0");
        assert_eq!(of(json!(9_007_199_254_740_991_i64)), "mcp-param-n: 9007199254740991");
        assert_eq!(of(json!(u64::MAX)), "mcp-param-n: 18446744073709551615");
        assert_eq!(of(json!(1.5)), "mcp-param-n: 1.5");
    }

    #[test]
    fn a_value_does_not_show_in_debug_output() {
        let headers = headers_of(json!({"a": {"type": "string", "x-mcp-header": "A"}})).unwrap();
        let applied = headers.headers_for(json!({"a": "hunter2"}).as_object().unwrap());
        assert!(!format!("{applied:?}").contains("hunter2"));
    }

    #[test]
    fn a_mark_that_breaks_the_rules_costs_the_tool() {
        let string = |header: Value| json!({"type": "string", "x-mcp-header": header});
        let table = [
            // as in the conformance suite's `http-invalid-tool-headers`
            (json!({"v": string(json!(""))}), r#"x-mcp-header of "v" is "", which cannot be part of a header name"#),
            (
                json!({"v": string(json!("My Region"))}),
                r#"x-mcp-header of "v" is "My Region", which cannot be part of a header name"#,
            ),
            (
                json!({"v": string(json!("Region:Primary"))}),
                r#"x-mcp-header of "v" is "Region:Primary", which cannot be part of a header name"#,
            ),
            (
                json!({"v": string(json!("Région"))}),
                r#"x-mcp-header of "v" is "Région", which cannot be part of a header name"#,
            ),
            (
                json!({"v": string(json!("Region\t1"))}),
                r#"x-mcp-header of "v" is "Region\t1", which cannot be part of a header name"#,
            ),
            (
                json!({"v": string(json!("R\r\nEvil: 1"))}),
                r#"x-mcp-header of "v" is "R\r\nEvil: 1", which cannot be part of a header name"#,
            ),
            (
                json!({"a": string(json!("Region")), "b": string(json!("Region"))}),
                r#"x-mcp-header of "b" is "Region", which another property has already"#,
            ),
            (
                json!({"a": string(json!("MyField")), "b": string(json!("myfield"))}),
                r#"x-mcp-header of "b" is "myfield", which another property has already"#,
            ),
            // and beyond
            (json!({"v": string(json!(7))}), r#"x-mcp-header of "v" is not a string"#),
            (json!({"v": string(json!(null))}), r#"x-mcp-header of "v" is not a string"#),
            (
                json!({"a": string(json!("R")), "b": {"properties": {"c": string(json!("r"))}}}),
                r#"x-mcp-header of "b.c" is "r", which another property has already"#,
            ),
        ];
        for (properties, expected) in table {
            assert_eq!(headers_of(properties.clone()).unwrap_err().to_string(), expected, "{properties}");
        }
    }

    #[test]
    fn only_a_single_primitive_type_can_be_marked() {
        for kind in ["string", "integer", "boolean"] {
            assert!(headers_of(json!({"v": {"type": kind, "x-mcp-header": "V"}})).is_ok());
        }
        for kind in [
            json!("number"),
            json!("object"),
            json!("array"),
            json!("null"),
            json!(null),
            json!(["string", "null"]),
            json!("String"),
        ] {
            let error = headers_of(json!({"v": {"type": kind, "x-mcp-header": "V"}})).unwrap_err();
            assert_eq!(error, BadMark::NotPrimitive { property: "v".to_owned() }, "{kind}");
        }
        assert!(headers_of(json!({"v": {"enum": ["a"], "x-mcp-header": "V"}})).is_err());
    }

    #[test]
    fn a_mark_off_the_chain_of_properties_costs_the_tool() {
        let marked = json!({"type": "string", "x-mcp-header": "V"});
        let table = [
            (json!({"x-mcp-header": "V"}), ""),
            (json!({"properties": {"v": {"items": marked}}}), "items"),
            (json!({"properties": {"v": {"items": {"properties": {"w": marked}}}}}), "properties"),
            (json!({"properties": {"v": {"prefixItems": [{}, marked]}}}), "prefixItems"),
            (json!({"properties": {"v": {"additionalProperties": marked}}}), "additionalProperties"),
            (json!({"properties": {"v": {"oneOf": [marked]}}}), "oneOf"),
            (json!({"allOf": [{"properties": {"v": marked}}]}), "properties"),
            (json!({"not": marked}), "not"),
            (json!({"if": {}, "then": {"properties": {"v": marked}}}), "properties"),
            (json!({"properties": {"v": {"$ref": "#/$defs/v"}}, "$defs": {"v": marked}}), "$defs"),
            (json!({"definitions": {"default": marked}}), "definitions"),
            (json!({"patternProperties": {"^v": marked}}), "patternProperties"),
            (json!({"dependentSchemas": {"v": marked}}), "dependentSchemas"),
            (json!({"x-own": {"deep": [[marked]]}}), "deep"),
        ];
        for (schema, place) in table {
            let error = ParamHeaders::from_schema(&schema).unwrap_err();
            assert_eq!(error, BadMark::Misplaced { place: place.to_owned() }, "{schema}");
        }
    }

    #[test]
    fn text_that_only_looks_like_a_mark_is_none() {
        let marked = json!({"type": "string", "x-mcp-header": "V"});
        let schemas = [
            json!({"properties": {"x-mcp-header": {"type": "string"}}}),
            json!({"properties": {"v": {"default": marked, "const": marked, "enum": [marked], "examples": [marked]}}}),
            json!({"dependentRequired": {"x-mcp-header": ["v"]}, "required": ["x-mcp-header"]}),
            json!({"description": "x-mcp-header"}),
            json!({"properties": "x-mcp-header"}),
            json!({"properties": {"v": true}}),
            json!(true),
        ];
        for schema in schemas {
            assert_eq!(ParamHeaders::from_schema(&schema), Ok(ParamHeaders::default()), "{schema}");
        }
        let property_of_that_name =
            json!({"properties": {"default": marked, "x-mcp-header": {"type": "string", "x-mcp-header": "W"}}});
        assert_eq!(ParamHeaders::from_schema(&property_of_that_name).unwrap().0.len(), 2);
    }

    #[test]
    fn a_schema_cannot_ask_for_endless_headers() {
        let many = |count: usize| -> Value {
            (0..count).map(|n| (format!("p{n}"), json!({"type": "string", "x-mcp-header": format!("H{n}")}))).collect()
        };
        assert!(headers_of(many(MAX_HEADERS)).is_ok());
        assert_eq!(headers_of(many(MAX_HEADERS + 1)), Err(BadMark::TooMany { limit: MAX_HEADERS }));
        assert!(headers_of(json!({"v": {"type": "string", "x-mcp-header": "V".repeat(100_000)}})).is_err());
    }

    #[test]
    fn a_schema_without_marks_need_not_be_parsed() {
        assert!(!ParamHeaders::may_be_in(r#"{"type":"object","properties":{"a":{"type":"string"}}}"#));
        assert!(ParamHeaders::may_be_in(r#"{"properties":{"a":{"x-mcp-header":"A"}}}"#));
        assert!(ParamHeaders::may_be_in(r#"{"properties":{"a":{"x-mcp-heade\u0072":"A"}}}"#));
    }

    proptest! {
        #[test]
        fn any_text_comes_back(text in any::<String>()) {
            prop_assert_eq!(decoded(&encoded(&text)), text);
        }

        #[test]
        fn short_text_of_dangerous_pieces_comes_back(text in r"(=\?base64\?|\?=| |\t|\n|\r|a|:|é){0,5}") {
            prop_assert_eq!(decoded(&encoded(&text)), text);
        }
    }
}
