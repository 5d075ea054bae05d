//! Converts any dialect into well-formed JSON Schema 2020-12 without references.

use serde_json::{Map, Value};

use super::{merge, report::Report};

/// The most subschemas after definitions are inlined; beyond that, a schema accepts anything.
const MAX_SUBSCHEMAS: usize = 10_000;

/// The deepest nesting of subschemas.
const MAX_DEPTH: usize = 64;

/// The most bytes of text and values that are copied from definitions, each copy counted.
const MAX_COPIED_BYTES: usize = 1 << 20;

/// The kind of value that a keyword must have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ValueKind {
    /// Names a schema, so that references can find it. It has no meaning once references are inlined.
    Identifier,
    Schema,
    Schemas,
    NamedSchemas,
    Text,
    Number,
    Count,
    Flag,
    Names,
    Types,
    Values,
    /// A bound, written as in 2020-12 or as in an older draft.
    Bound,
    Items,
    Dependencies,
    /// The schema for the items after a tuple (a list of schemas in `items`), which [`Writer::modernise`] moves.
    AdditionalItems,
}

/// The keywords of JSON Schema, with the kind of value that each must have. Any other keyword may have any value.
const KEYWORDS: &[(&str, ValueKind)] = &[
    ("$schema", ValueKind::Identifier),
    ("$id", ValueKind::Identifier),
    ("$anchor", ValueKind::Identifier),
    ("$dynamicAnchor", ValueKind::Identifier),
    ("$recursiveAnchor", ValueKind::Identifier),
    ("$dynamicRef", ValueKind::Identifier),
    ("$recursiveRef", ValueKind::Identifier),
    ("$vocabulary", ValueKind::Identifier),
    ("$comment", ValueKind::Identifier),
    ("$defs", ValueKind::Identifier),
    ("definitions", ValueKind::Identifier),
    ("additionalProperties", ValueKind::Schema),
    ("unevaluatedProperties", ValueKind::Schema),
    ("propertyNames", ValueKind::Schema),
    ("unevaluatedItems", ValueKind::Schema),
    ("contains", ValueKind::Schema),
    ("not", ValueKind::Schema),
    ("if", ValueKind::Schema),
    ("then", ValueKind::Schema),
    ("else", ValueKind::Schema),
    ("contentSchema", ValueKind::Schema),
    ("allOf", ValueKind::Schemas),
    ("anyOf", ValueKind::Schemas),
    ("oneOf", ValueKind::Schemas),
    ("prefixItems", ValueKind::Schemas),
    ("properties", ValueKind::NamedSchemas),
    ("patternProperties", ValueKind::NamedSchemas),
    ("dependentSchemas", ValueKind::NamedSchemas),
    ("title", ValueKind::Text),
    ("description", ValueKind::Text),
    ("format", ValueKind::Text),
    ("pattern", ValueKind::Text),
    ("contentEncoding", ValueKind::Text),
    ("contentMediaType", ValueKind::Text),
    ("minimum", ValueKind::Number),
    ("maximum", ValueKind::Number),
    ("multipleOf", ValueKind::Number),
    ("minLength", ValueKind::Count),
    ("maxLength", ValueKind::Count),
    ("minItems", ValueKind::Count),
    ("maxItems", ValueKind::Count),
    ("minContains", ValueKind::Count),
    ("maxContains", ValueKind::Count),
    ("minProperties", ValueKind::Count),
    ("maxProperties", ValueKind::Count),
    ("uniqueItems", ValueKind::Flag),
    ("deprecated", ValueKind::Flag),
    ("readOnly", ValueKind::Flag),
    ("writeOnly", ValueKind::Flag),
    ("nullable", ValueKind::Flag),
    ("required", ValueKind::Names),
    ("type", ValueKind::Types),
    ("enum", ValueKind::Values),
    ("exclusiveMinimum", ValueKind::Bound),
    ("exclusiveMaximum", ValueKind::Bound),
    ("items", ValueKind::Items),
    ("additionalItems", ValueKind::AdditionalItems),
    ("dependencies", ValueKind::Dependencies),
];

/// Writes the schema without references, in 2020-12, and drops malformed parts.
pub(super) fn normalise(schema: &Value, report: &mut Report) -> Value {
    Writer { root: schema, report, inline_stack: Vec::new(), subschema_count: 0, bytes_left: MAX_COPIED_BYTES }
        .convert_schema(schema)
}

/// Calls `visit` on each subschema that is an object, one level down.
pub(super) fn for_each_subschema(
    schema: &mut Map<String, Value>,
    report: &mut Report,
    visit: &mut dyn FnMut(&mut Map<String, Value>, &mut Report),
) {
    for (keyword, value) in schema.iter_mut() {
        report.enter(keyword);
        match (value_kind(keyword), value) {
            (Some(ValueKind::Schema | ValueKind::Items), Value::Object(child)) => visit(child, report),
            (Some(ValueKind::Schemas), Value::Array(children)) => {
                for (index, child) in children.iter_mut().enumerate() {
                    if let Value::Object(child) = child {
                        report.within(&index.to_string(), |report| visit(child, report));
                    }
                }
            }
            (Some(ValueKind::NamedSchemas), Value::Object(children)) => {
                for (name, child) in children.iter_mut() {
                    if let Value::Object(child) = child {
                        report.within(name, |report| visit(child, report));
                    }
                }
            }
            _ => {}
        }
        report.leave();
    }
}

/// Returns the kind of value that a keyword must have; `None` for an unknown keyword.
fn value_kind(keyword: &str) -> Option<ValueKind> {
    KEYWORDS.iter().find(|(name, _)| *name == keyword).map(|&(_, kind)| kind)
}

/// Writes a schema anew: see [`normalise`].
struct Writer<'s, 'r> {
    root: &'s Value,
    report: &'r mut Report,
    /// The definitions that are being inlined, the outermost first.
    inline_stack: Vec<&'s Value>,
    /// The number of subschemas written so far.
    subschema_count: usize,
    /// The bytes that may still be copied from definitions, or read to follow references in them.
    bytes_left: usize,
}

impl<'s> Writer<'s, '_> {
    /// Converts a schema. Replaces it by one that accepts anything if it is not a schema, or if a limit is reached.
    fn convert_schema(&mut self, schema: &'s Value) -> Value {
        self.subschema_count += 1;
        let is_budget_spent = self.bytes_left == 0 && !self.inline_stack.is_empty();
        // A subschema adds up to two names to the report's path: its keyword, and its own name or index below that.
        if is_budget_spent
            || self.subschema_count > MAX_SUBSCHEMAS
            || self.report.depth() > 2 * MAX_DEPTH
            || self.inline_stack.len() > MAX_DEPTH
        {
            self.report.note("cut here, because the schema is too large");
            return Value::Object(Map::new());
        }
        match schema {
            Value::Bool(_) => schema.clone(),
            Value::Object(keywords) => self.convert_object(keywords),
            _ => {
                self.report.note("is not a schema; replaced by one that takes anything");
                Value::Object(Map::new())
            }
        }
    }

    /// Converts a schema. If it has a `$ref`, the result combines the target of the reference with the schema's other
    /// keywords.
    fn convert_object(&mut self, keywords: &'s Map<String, Value>) -> Value {
        let other_keywords = self.convert_keywords(keywords);
        let Some(reference) = keywords.get("$ref") else {
            return Value::Object(other_keywords);
        };
        let mut converted = self.inline_reference(reference);
        merge::require_both(&mut converted, Value::Object(other_keywords));
        converted
    }

    /// Returns the converted target of a `$ref`; a schema that accepts anything if the target cannot be inlined.
    fn inline_reference(&mut self, reference: &Value) -> Value {
        let no_name = "";
        if !self.try_spend(no_name, reference) {
            return Value::Object(Map::new());
        }
        let uri = reference.as_str().unwrap_or_default();
        let target = uri.strip_prefix('#').and_then(|pointer| self.root.pointer(&percent_decoded(pointer)));
        match target {
            None => {
                self.report.note("removed a `$ref` without a target in the schema");
                Value::Object(Map::new())
            }
            Some(target)
                if self.inline_stack.iter().any(|definition| std::ptr::eq(*definition, target))
                    || std::ptr::eq(self.root, target) =>
            {
                self.report.note("cut a recursive `$ref` here");
                Value::Object(Map::new())
            }
            Some(target) => {
                self.inline_stack.push(target);
                let converted = self.convert_schema(target);
                self.inline_stack.pop();
                converted
            }
        }
    }

    /// Converts all keywords of a schema but `$ref`.
    fn convert_keywords(&mut self, keywords: &'s Map<String, Value>) -> Map<String, Value> {
        let mut converted_keywords = Map::new();
        for (keyword, value) in keywords {
            self.report.enter(keyword);
            match value_kind(keyword) {
                _ if keyword == "$ref" => {}
                Some(ValueKind::Bound | ValueKind::Items | ValueKind::Dependencies | ValueKind::AdditionalItems) => {
                    self.modernise(&mut converted_keywords, keywords, keyword, value);
                }
                kind => {
                    if let Some(value) = self.convert_value(keyword, kind, value) {
                        converted_keywords.entry(keyword.as_str()).or_insert(value);
                    }
                }
            }
            self.report.leave();
        }
        converted_keywords
    }

    /// Converts the value of a keyword whose form is the same in every dialect. Reports an invalid value, and returns
    /// `None` for it.
    fn convert_value(&mut self, keyword: &str, kind: Option<ValueKind>, value: &'s Value) -> Option<Value> {
        if kind == Some(ValueKind::Identifier) {
            self.report.note("removed, because references are written out");
            return None;
        }
        let is_data = !matches!(kind, Some(ValueKind::Schema | ValueKind::Schemas | ValueKind::NamedSchemas));
        if is_data && !self.try_spend(keyword, value) {
            return None;
        }
        let converted = match (kind, value) {
            (Some(ValueKind::Schema), Value::Object(_) | Value::Bool(_)) => Some(self.convert_schema(value)),
            (Some(ValueKind::Schemas), Value::Array(list)) if !list.is_empty() => Some(self.convert_list(list)),
            (Some(ValueKind::NamedSchemas), Value::Object(map)) => Some(self.convert_map(map)),
            (Some(ValueKind::Names), Value::Array(_)) => distinct_members(value, Value::is_string),
            (Some(ValueKind::Values), Value::Array(_)) => {
                distinct_members(value, |_| true).filter(|list| *list != Value::Array(vec![]))
            }
            (Some(ValueKind::Types), _) => known_types(value),
            (Some(ValueKind::Text), Value::String(_))
            | (Some(ValueKind::Number), Value::Number(_))
            | (Some(ValueKind::Flag), Value::Bool(_))
            | (None, _) => Some(value.clone()),
            (Some(ValueKind::Count), _) => value.as_u64().map(Value::from),
            _ => None,
        };
        if converted.is_none() {
            self.report.note("removed, because its value makes no sense");
        } else if is_data && converted.as_ref() != Some(value) {
            self.report.note("removed members that are duplicates or make no sense");
        }
        converted
    }

    /// Counts the bytes of this name and this value against the limit on copies, and returns whether both may be copied
    /// here. Call this before copying: the author of the schema chooses the size and the number of copies.
    fn try_spend(&mut self, name: &str, value: &Value) -> bool {
        let is_allowed = self.inline_stack.is_empty()
            || (spend_bytes(name.len(), &mut self.bytes_left) && spend(value, &mut self.bytes_left));
        if !is_allowed {
            self.report.note("removed, because the definitions copy too much");
        }
        is_allowed
    }

    /// Converts a keyword that older drafts write in another form.
    fn modernise(
        &mut self,
        converted_keywords: &mut Map<String, Value>,
        keywords: &'s Map<String, Value>,
        keyword: &str,
        value: &'s Value,
    ) {
        match (keyword, value) {
            ("exclusiveMinimum" | "exclusiveMaximum", Value::Number(_)) => {
                drop(converted_keywords.insert(keyword.into(), value.clone()))
            }
            ("exclusiveMinimum", Value::Bool(true)) => {
                self.move_bound(converted_keywords, keywords, "minimum", keyword)
            }
            ("exclusiveMaximum", Value::Bool(true)) => {
                self.move_bound(converted_keywords, keywords, "maximum", keyword)
            }
            ("items", Value::Array(schemas)) => {
                self.report.note("written as `prefixItems`, the current name for a list of schemas");
                if !schemas.is_empty() {
                    let schemas = self.convert_list(schemas);
                    converted_keywords.insert("prefixItems".into(), schemas);
                }
                if let Some(rest @ (Value::Object(_) | Value::Bool(_))) = keywords.get("additionalItems") {
                    let rest = self.convert_schema(rest);
                    converted_keywords.insert("items".into(), rest);
                }
            }
            ("items", Value::Object(_) | Value::Bool(_)) => {
                let items = self.convert_schema(value);
                converted_keywords.insert("items".into(), items);
            }
            ("dependencies", Value::Object(map)) => self.split_dependencies(converted_keywords, map),
            // The conversion of `items` above has used this keyword.
            ("additionalItems", _) if keywords.get("items").is_some_and(Value::is_array) => {}
            _ => self.report.note("removed, because its value makes no sense"),
        }
    }

    /// Converts a bound of draft 4, in which `exclusiveMinimum: true` makes the `minimum` beside it exclusive.
    fn move_bound(
        &mut self,
        converted_keywords: &mut Map<String, Value>,
        keywords: &Map<String, Value>,
        inclusive: &str,
        exclusive: &str,
    ) {
        self.report.note(format!("written as the number that `{inclusive}` was"));
        if let Some(Value::Number(bound)) = keywords.get(inclusive) {
            converted_keywords.insert(exclusive.into(), Value::Number(bound.clone()));
        }
    }

    /// Splits `dependencies` of older drafts into the two keywords that have replaced it.
    fn split_dependencies(&mut self, converted_keywords: &mut Map<String, Value>, map: &'s Map<String, Value>) {
        self.report.note("written as `dependentRequired` and `dependentSchemas`");
        let (mut names, mut schemas) = (Map::new(), Map::new());
        for (name, value) in map {
            match value {
                Value::Array(_) if !self.try_spend(name, value) => {}
                Value::Array(_) => {
                    names.extend(distinct_members(value, Value::is_string).map(|list| (name.clone(), list)))
                }
                Value::Object(_) | Value::Bool(_) => drop(schemas.insert(name.clone(), self.convert_schema(value))),
                _ => {}
            }
        }
        for (keyword, map) in [("dependentRequired", names), ("dependentSchemas", schemas)] {
            if !map.is_empty() {
                converted_keywords.insert(keyword.into(), Value::Object(map));
            }
        }
    }

    /// Converts a list of schemas.
    fn convert_list(&mut self, list: &'s [Value]) -> Value {
        let mut converted = Vec::with_capacity(list.len());
        for (index, schema) in list.iter().enumerate() {
            self.report.enter(&index.to_string());
            converted.push(self.convert_schema(schema));
            self.report.leave();
        }
        Value::Array(converted)
    }

    /// Converts a map of names to schemas.
    fn convert_map(&mut self, map: &'s Map<String, Value>) -> Value {
        let mut converted = Map::new();
        for (name, schema) in map {
            self.report.enter(name);
            // Count only the name here: the conversion of the schema counts the rest.
            if self.try_spend(name, &Value::Null) {
                converted.insert(name.clone(), self.convert_schema(schema));
            }
            self.report.leave();
        }
        Value::Object(converted)
    }
}

/// Returns the members of a list for which `is_valid` is true, without duplicates.
fn distinct_members(list: &Value, is_valid: impl Fn(&Value) -> bool) -> Option<Value> {
    let mut seen_members = std::collections::HashSet::new();
    let members = list.as_array()?.iter().filter(|member| is_valid(member) && seen_members.insert(member.to_string()));
    Some(members.cloned().collect())
}

/// Returns the value of `type` with only the types that JSON Schema knows; `None` if there are none.
fn known_types(value: &Value) -> Option<Value> {
    const TYPES: [&str; 7] = ["null", "boolean", "object", "array", "number", "string", "integer"];
    let is_type = |value: &Value| value.as_str().is_some_and(|name| TYPES.contains(&name));
    match value {
        Value::Array(_) => match distinct_members(value, is_type)? {
            Value::Array(mut single) if single.len() == 1 => single.pop(),
            Value::Array(none) if none.is_empty() => None,
            some => Some(some),
        },
        single => is_type(single).then(|| single.clone()),
    }
}

/// Subtracts the approximate bytes of a value from `bytes_left`. Returns `false`, and sets `bytes_left` to 0, if
/// `bytes_left` is too small.
fn spend(value: &Value, bytes_left: &mut usize) -> bool {
    // Each value counts as 8 bytes, in addition to its text or members.
    spend_bytes(8, bytes_left)
        && match value {
            Value::String(text) => spend_bytes(text.len(), bytes_left),
            Value::Array(items) => items.iter().all(|item| spend(item, bytes_left)),
            Value::Object(map) => {
                map.iter().all(|(name, value)| spend_bytes(name.len(), bytes_left) && spend(value, bytes_left))
            }
            _ => true,
        }
}

/// Subtracts `bytes` from `bytes_left`. Returns `false` if too few bytes are left.
fn spend_bytes(bytes: usize, bytes_left: &mut usize) -> bool {
    let is_enough = bytes < *bytes_left;
    *bytes_left = bytes_left.saturating_sub(bytes);
    is_enough
}

/// Decodes the escapes of RFC 3986; invalid escapes, and text that would not be UTF-8, stay unchanged.
fn percent_decoded(fragment: &str) -> std::borrow::Cow<'_, str> {
    let mut parts = fragment.split('%');
    let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        let digits = part.get(..2).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
        match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                bytes.extend_from_slice(&part.as_bytes()[2..]);
            }
            None => {
                bytes.push(b'%');
                bytes.extend_from_slice(part.as_bytes());
            }
        }
    }
    String::from_utf8(bytes).map_or(fragment.into(), Into::into)
}
