//! Converts any dialect into well-formed JSON Schema 2020-12 without references.

use serde_json::{Map, Value};

use super::{merge, report::Report};

/// The most subschemas after definitions are inlined; beyond that, a schema accepts anything.
const MAX_NODES: usize = 10_000;

/// The deepest nesting of subschemas.
const MAX_DEPTH: usize = 64;

/// The most bytes of text and values that are copied from definitions, each copy counted.
const MAX_COPIED: usize = 1 << 20;

/// The kind of value that a keyword must have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
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
const KEYWORDS: &[(&str, Kind)] = &[
    ("$schema", Kind::Identifier),
    ("$id", Kind::Identifier),
    ("$anchor", Kind::Identifier),
    ("$dynamicAnchor", Kind::Identifier),
    ("$recursiveAnchor", Kind::Identifier),
    ("$dynamicRef", Kind::Identifier),
    ("$recursiveRef", Kind::Identifier),
    ("$vocabulary", Kind::Identifier),
    ("$comment", Kind::Identifier),
    ("$defs", Kind::Identifier),
    ("definitions", Kind::Identifier),
    ("additionalProperties", Kind::Schema),
    ("unevaluatedProperties", Kind::Schema),
    ("propertyNames", Kind::Schema),
    ("unevaluatedItems", Kind::Schema),
    ("contains", Kind::Schema),
    ("not", Kind::Schema),
    ("if", Kind::Schema),
    ("then", Kind::Schema),
    ("else", Kind::Schema),
    ("contentSchema", Kind::Schema),
    ("allOf", Kind::Schemas),
    ("anyOf", Kind::Schemas),
    ("oneOf", Kind::Schemas),
    ("prefixItems", Kind::Schemas),
    ("properties", Kind::NamedSchemas),
    ("patternProperties", Kind::NamedSchemas),
    ("dependentSchemas", Kind::NamedSchemas),
    ("title", Kind::Text),
    ("description", Kind::Text),
    ("format", Kind::Text),
    ("pattern", Kind::Text),
    ("contentEncoding", Kind::Text),
    ("contentMediaType", Kind::Text),
    ("minimum", Kind::Number),
    ("maximum", Kind::Number),
    ("multipleOf", Kind::Number),
    ("minLength", Kind::Count),
    ("maxLength", Kind::Count),
    ("minItems", Kind::Count),
    ("maxItems", Kind::Count),
    ("minContains", Kind::Count),
    ("maxContains", Kind::Count),
    ("minProperties", Kind::Count),
    ("maxProperties", Kind::Count),
    ("uniqueItems", Kind::Flag),
    ("deprecated", Kind::Flag),
    ("readOnly", Kind::Flag),
    ("writeOnly", Kind::Flag),
    ("nullable", Kind::Flag),
    ("required", Kind::Names),
    ("type", Kind::Types),
    ("enum", Kind::Values),
    ("exclusiveMinimum", Kind::Bound),
    ("exclusiveMaximum", Kind::Bound),
    ("items", Kind::Items),
    ("additionalItems", Kind::AdditionalItems),
    ("dependencies", Kind::Dependencies),
];

/// Writes the schema without references, in 2020-12, and drops malformed parts.
pub(super) fn normalise(schema: &Value, report: &mut Report) -> Value {
    Writer { root: schema, report, open: Vec::new(), nodes: 0, bytes_left: MAX_COPIED }.schema(schema)
}

/// Calls `act` on each subschema that is an object, one level down.
pub(super) fn for_each_subschema(
    schema: &mut Map<String, Value>,
    report: &mut Report,
    act: &mut dyn FnMut(&mut Map<String, Value>, &mut Report),
) {
    for (keyword, value) in schema.iter_mut() {
        report.enter(keyword);
        match (kind(keyword), value) {
            (Some(Kind::Schema | Kind::Items), Value::Object(child)) => act(child, report),
            (Some(Kind::Schemas), Value::Array(children)) => {
                for (at, child) in children.iter_mut().enumerate() {
                    if let Value::Object(child) = child {
                        report.within(&at.to_string(), |report| act(child, report));
                    }
                }
            }
            (Some(Kind::NamedSchemas), Value::Object(children)) => {
                for (name, child) in children.iter_mut() {
                    if let Value::Object(child) = child {
                        report.within(name, |report| act(child, report));
                    }
                }
            }
            _ => {}
        }
        report.leave();
    }
}

fn kind(keyword: &str) -> Option<Kind> {
    KEYWORDS.iter().find(|(name, _)| *name == keyword).map(|&(_, kind)| kind)
}

struct Writer<'s, 'r> {
    root: &'s Value,
    report: &'r mut Report,
    /// The definitions that are being inlined, the outermost first.
    open: Vec<&'s Value>,
    /// The number of subschemas written so far.
    nodes: usize,
    /// The bytes that may still be copied from definitions, or read to follow references in them.
    bytes_left: usize,
}

impl<'s> Writer<'s, '_> {
    fn schema(&mut self, schema: &'s Value) -> Value {
        self.nodes += 1;
        let spent = self.bytes_left == 0 && !self.open.is_empty();
        // A subschema adds up to two names to the report's path: its keyword, and its own name or index below that.
        if spent || self.nodes > MAX_NODES || self.report.depth() > 2 * MAX_DEPTH || self.open.len() > MAX_DEPTH {
            self.report.note("cut here, because the schema is too large");
            return Value::Object(Map::new());
        }
        match schema {
            Value::Bool(_) => schema.clone(),
            Value::Object(keywords) => self.object(keywords),
            _ => {
                self.report.note("is not a schema; replaced by one that takes anything");
                Value::Object(Map::new())
            }
        }
    }

    /// Converts a schema. If it has a `$ref`, the result combines the target of the reference with the schema's other
    /// keywords.
    fn object(&mut self, keywords: &'s Map<String, Value>) -> Value {
        let own = self.keywords(keywords);
        let Some(reference) = keywords.get("$ref") else {
            return Value::Object(own);
        };
        let mut written = self.inlined(reference);
        merge::both(&mut written, Value::Object(own));
        written
    }

    /// Returns the converted target of a `$ref`; a schema that accepts anything if the target cannot be inlined.
    fn inlined(&mut self, reference: &Value) -> Value {
        if !self.try_spend("", reference) {
            return Value::Object(Map::new());
        }
        let text = reference.as_str().unwrap_or_default();
        let target = text.strip_prefix('#').and_then(|pointer| self.root.pointer(&percent_decoded(pointer)));
        match target {
            None => {
                self.report.note("removed a `$ref` without a target in the schema");
                Value::Object(Map::new())
            }
            Some(target)
                if self.open.iter().any(|open| std::ptr::eq(*open, target)) || std::ptr::eq(self.root, target) =>
            {
                self.report.note("cut a recursive `$ref` here");
                Value::Object(Map::new())
            }
            Some(target) => {
                self.open.push(target);
                let written = self.schema(target);
                self.open.pop();
                written
            }
        }
    }

    fn keywords(&mut self, keywords: &'s Map<String, Value>) -> Map<String, Value> {
        let mut out = Map::new();
        for (keyword, value) in keywords {
            self.report.enter(keyword);
            match kind(keyword) {
                _ if keyword == "$ref" => {}
                Some(Kind::Bound | Kind::Items | Kind::Dependencies | Kind::AdditionalItems) => {
                    self.modernise(&mut out, keywords, keyword, value);
                }
                kind => {
                    if let Some(value) = self.value(keyword, kind, value) {
                        out.entry(keyword.as_str()).or_insert(value);
                    }
                }
            }
            self.report.leave();
        }
        out
    }

    /// Converts the value of a keyword whose form is the same in every dialect. Reports an invalid value, and returns
    /// `None` for it.
    fn value(&mut self, keyword: &str, kind: Option<Kind>, value: &'s Value) -> Option<Value> {
        if kind == Some(Kind::Identifier) {
            self.report.note("removed, because references are written out");
            return None;
        }
        let is_data = !matches!(kind, Some(Kind::Schema | Kind::Schemas | Kind::NamedSchemas));
        if is_data && !self.try_spend(keyword, value) {
            return None;
        }
        let written = match (kind, value) {
            (Some(Kind::Schema), Value::Object(_) | Value::Bool(_)) => Some(self.schema(value)),
            (Some(Kind::Schemas), Value::Array(list)) if !list.is_empty() => Some(self.list(list)),
            (Some(Kind::NamedSchemas), Value::Object(map)) => Some(self.map(map)),
            (Some(Kind::Names), Value::Array(_)) => distinct(value, Value::is_string),
            (Some(Kind::Values), Value::Array(_)) => {
                distinct(value, |_| true).filter(|list| *list != Value::Array(vec![]))
            }
            (Some(Kind::Types), _) => types(value),
            (Some(Kind::Text), Value::String(_))
            | (Some(Kind::Number), Value::Number(_))
            | (Some(Kind::Flag), Value::Bool(_))
            | (None, _) => Some(value.clone()),
            (Some(Kind::Count), _) => value.as_u64().map(Value::from),
            _ => None,
        };
        if written.is_none() {
            self.report.note("removed, because its value makes no sense");
        } else if is_data && written.as_ref() != Some(value) {
            self.report.note("removed members that are duplicates or make no sense");
        }
        written
    }

    /// Counts the bytes of this name and this value against the limit on copies, and returns whether both may be copied
    /// here. Must be called before copying, because the author of the schema chose their size and number.
    fn try_spend(&mut self, name: &str, value: &Value) -> bool {
        let is_allowed = self.open.is_empty()
            || (spend_bytes(name.len(), &mut self.bytes_left) && spend(value, &mut self.bytes_left));
        if !is_allowed {
            self.report.note("removed, because the definitions copy too much");
        }
        is_allowed
    }

    /// Converts a keyword that older drafts write in another form.
    fn modernise(
        &mut self,
        out: &mut Map<String, Value>,
        keywords: &'s Map<String, Value>,
        keyword: &str,
        value: &'s Value,
    ) {
        match (keyword, value) {
            ("exclusiveMinimum" | "exclusiveMaximum", Value::Number(_)) => {
                drop(out.insert(keyword.into(), value.clone()))
            }
            ("exclusiveMinimum", Value::Bool(true)) => self.move_bound(out, keywords, "minimum", keyword),
            ("exclusiveMaximum", Value::Bool(true)) => self.move_bound(out, keywords, "maximum", keyword),
            ("items", Value::Array(schemas)) => {
                self.report.note("written as `prefixItems`, the current name for a list of schemas");
                if !schemas.is_empty() {
                    let schemas = self.list(schemas);
                    out.insert("prefixItems".into(), schemas);
                }
                if let Some(rest @ (Value::Object(_) | Value::Bool(_))) = keywords.get("additionalItems") {
                    let rest = self.schema(rest);
                    out.insert("items".into(), rest);
                }
            }
            ("items", Value::Object(_) | Value::Bool(_)) => {
                let items = self.schema(value);
                out.insert("items".into(), items);
            }
            ("dependencies", Value::Object(map)) => self.split_dependencies(out, map),
            ("additionalItems", _) if keywords.get("items").is_some_and(Value::is_array) => {}
            _ => self.report.note("removed, because its value makes no sense"),
        }
    }

    /// Converts a bound of draft 4, in which `exclusiveMinimum: true` makes the `minimum` beside it exclusive.
    fn move_bound(
        &mut self,
        out: &mut Map<String, Value>,
        keywords: &Map<String, Value>,
        inclusive: &str,
        exclusive: &str,
    ) {
        self.report.note(format!("written as the number that `{inclusive}` was"));
        if let Some(Value::Number(bound)) = keywords.get(inclusive) {
            out.insert(exclusive.into(), Value::Number(bound.clone()));
        }
    }

    fn split_dependencies(&mut self, out: &mut Map<String, Value>, map: &'s Map<String, Value>) {
        self.report.note("written as `dependentRequired` and `dependentSchemas`");
        let (mut names, mut schemas) = (Map::new(), Map::new());
        for (name, value) in map {
            match value {
                Value::Array(_) if !self.try_spend(name, value) => {}
                Value::Array(_) => names.extend(distinct(value, Value::is_string).map(|list| (name.clone(), list))),
                Value::Object(_) | Value::Bool(_) => drop(schemas.insert(name.clone(), self.schema(value))),
                _ => {}
            }
        }
        for (keyword, map) in [("dependentRequired", names), ("dependentSchemas", schemas)] {
            if !map.is_empty() {
                out.insert(keyword.into(), Value::Object(map));
            }
        }
    }

    fn list(&mut self, list: &'s [Value]) -> Value {
        let mut written = Vec::with_capacity(list.len());
        for (at, schema) in list.iter().enumerate() {
            self.report.enter(&at.to_string());
            written.push(self.schema(schema));
            self.report.leave();
        }
        Value::Array(written)
    }

    fn map(&mut self, map: &'s Map<String, Value>) -> Value {
        let mut written = Map::new();
        for (name, schema) in map {
            self.report.enter(name);
            if self.try_spend(name, &Value::Null) {
                written.insert(name.clone(), self.schema(schema));
            }
            self.report.leave();
        }
        Value::Object(written)
    }
}

/// Returns the members of a list that pass, without duplicates.
fn distinct(list: &Value, passes: impl Fn(&Value) -> bool) -> Option<Value> {
    let mut seen = std::collections::HashSet::new();
    let members = list.as_array()?.iter().filter(|member| passes(member) && seen.insert(member.to_string()));
    Some(members.cloned().collect())
}

/// Returns the value of `type` with only the types that JSON Schema knows; `None` if there are none.
fn types(value: &Value) -> Option<Value> {
    const TYPES: [&str; 7] = ["null", "boolean", "object", "array", "number", "string", "integer"];
    let is_type = |value: &Value| value.as_str().is_some_and(|name| TYPES.contains(&name));
    match value {
        Value::Array(_) => match distinct(value, is_type)? {
            Value::Array(mut only) if only.len() == 1 => only.pop(),
            Value::Array(none) if none.is_empty() => None,
            some => Some(some),
        },
        only => is_type(only).then(|| only.clone()),
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

fn spend_bytes(bytes: usize, bytes_left: &mut usize) -> bool {
    let enough = bytes < *bytes_left;
    *bytes_left = bytes_left.saturating_sub(bytes);
    enough
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
