//! Reads the words by which a search finds a tool: those of its name, title, description and arguments, each with a
//! weight. All forms of a word count as one: `files` and `file` have the same *stem*.

use std::collections::HashMap;

use serde_json::Value;

use super::words;
use crate::mcp::Tool;

/// A field of a tool, in which words are found.
#[derive(Clone, Copy, Debug)]
struct Field {
    /// The weight of a word in this field.
    weight: f32,
    /// How much a longer text lowers the weight of each word, from 0 (not at all) to 1 (the `b` of BM25).
    length_penalty: f32,
    /// The usual length, in words. It is a constant instead of the mean of all tools, because the index of a server,
    /// and the order of its tools, must not depend on other servers.
    typical_length: f32,
}

const NAME_FIELD: Field = Field { weight: 4.0, length_penalty: 0.3, typical_length: 2.0 };
const TITLE_FIELD: Field = Field { weight: 2.0, length_penalty: 0.4, typical_length: 2.0 };
const DESCRIPTION_FIELD: Field = Field { weight: 1.0, length_penalty: 0.6, typical_length: 18.0 };
const ARGUMENTS_FIELD: Field = Field { weight: 0.25, length_penalty: 0.5, typical_length: 5.0 };
const ARGUMENT_DESCRIPTIONS_FIELD: Field = Field { weight: 0.15, length_penalty: 0.4, typical_length: 35.0 };

/// How quickly repetitions of a word stop adding to the score (the `k1` of BM25).
const SATURATION: f32 = 1.7;

/// The highest weight of a word in a tool.
pub(super) const MAX_WEIGHT: f32 = SATURATION + 1.0;

/// How many bytes are read of a description.
const MAX_DESCRIPTION_BYTES: usize = 4_000;
/// How many bytes are read of a title, and of the name, the description and each value of an argument.
const MAX_SHORT_TEXT_BYTES: usize = 400;
/// The most arguments of a tool, including those of nested objects.
const MAX_ARGUMENTS: usize = 128;
/// The most values of one argument.
const MAX_VALUES: usize = 16;
/// The deepest level of a schema at which arguments are read.
const MAX_DEPTH: usize = 8;

/// Numbers the stems of all tools that it reads.
#[derive(Debug, Default)]
pub(super) struct Reader {
    /// The number of the stem of each known word, in lower case. Most words occur repeatedly, so this saves time.
    stem_of_word: HashMap<String, u32>,
    /// The number of each stem.
    stems: HashMap<String, u32>,
    /// The stems of the field that is being read.
    field_stems: Vec<u32>,
    /// The weight of each stem of the current tool, before saturation.
    weights: HashMap<u32, f32>,
}

impl Reader {
    /// Returns the words of one tool, by the number of their stem, with the weight of each: above 0 and below
    /// [`MAX_WEIGHT`].
    pub(super) fn read(&mut self, tool: &Tool) -> impl Iterator<Item = (u32, f32)> {
        self.read_name(&tool.name);
        let title = tool.title.as_deref().or(tool.annotations.title.as_deref()).unwrap_or_default();
        self.read_text(title, MAX_SHORT_TEXT_BYTES);
        self.end_field(TITLE_FIELD);
        self.read_text(tool.description.as_deref().unwrap_or_default(), MAX_DESCRIPTION_BYTES);
        self.end_field(DESCRIPTION_FIELD);
        // If the schema nests too deeply to be parsed, its arguments are left out.
        let schema = serde_json::from_str::<Value>(tool.input_schema.get()).unwrap_or_default();
        let mut arguments = Vec::new();
        let depth = 0;
        collect_properties(&schema, depth, &mut arguments);
        for (name, _) in &arguments {
            self.read_text(name, MAX_SHORT_TEXT_BYTES);
        }
        self.end_field(ARGUMENTS_FIELD);
        for (_, property) in &arguments {
            self.read_argument(property);
        }
        self.end_field(ARGUMENT_DESCRIPTIONS_FIELD);
        self.weights.drain().map(|(stem, weight)| (stem, weight * MAX_WEIGHT / (weight + SATURATION)))
    }

    /// Returns the stems that were read, each with its number.
    pub(super) fn into_stems(self) -> impl Iterator<Item = (String, u32)> {
        self.stems.into_iter()
    }

    /// Reads the name of a tool. Every word of the name counts, even a *noise word*, which says nothing about a task
    /// (`get_me`). Two neighbours written as one word count as well.
    fn read_name(&mut self, name: &str) {
        // The last part of the previous word.
        let mut previous_part = String::new();
        for word in words::words(name) {
            let mut last_part = String::new();
            words::for_each_part(word, &mut |part| {
                if last_part.is_empty() && !previous_part.is_empty() {
                    previous_part.push_str(part);
                    self.add_word(&previous_part);
                }
                self.add_word(part);
                part.clone_into(&mut last_part);
            });
            previous_part = last_part;
        }
        self.end_field(NAME_FIELD);
    }

    /// Reads at most `max_bytes` bytes of a text. Noise words do not count.
    fn read_text(&mut self, text: &str, max_bytes: usize) {
        for word in words::words(&text[..text.floor_char_boundary(max_bytes)]) {
            words::for_each_part(word, &mut |part| {
                if !words::is_noise(part) {
                    self.add_word(part);
                }
            });
        }
    }

    /// Reads the description and the possible values of an argument.
    fn read_argument(&mut self, property: &Value) {
        if let Some(Value::String(description)) = property.get("description") {
            self.read_text(description, MAX_SHORT_TEXT_BYTES);
        }
        if let Some(Value::Array(values)) = property.get("enum") {
            for value in values.iter().filter_map(Value::as_str).take(MAX_VALUES) {
                self.read_text(value, MAX_SHORT_TEXT_BYTES);
            }
        }
    }

    /// Adds a word to the current field.
    fn add_word(&mut self, word: &str) {
        if let Some(stem) = self.stem_of_word.get(word) {
            self.field_stems.push(*stem);
            return;
        }
        // The tools of a server never have 2^32 different stems.
        let next_number = u32::try_from(self.stems.len()).unwrap_or(u32::MAX);
        let stem = *self.stems.entry(words::stem(word)).or_insert(next_number);
        self.stem_of_word.insert(word.to_owned(), stem);
        self.field_stems.push(stem);
    }

    /// Ends a field, and adds the weights of its words to those of the tool.
    fn end_field(&mut self, field: Field) {
        let length = self.field_stems.len() as f32;
        let penalty = field.length_penalty;
        let word_weight = field.weight / (1.0 - penalty + penalty * (length / field.typical_length));
        for stem in self.field_stems.drain(..) {
            *self.weights.entry(stem).or_default() += word_weight;
        }
    }
}

/// Collects all properties of a schema, including those of nested objects, with their names.
fn collect_properties<'a>(schema: &'a Value, depth: usize, named_properties: &mut Vec<(&'a str, &'a Value)>) {
    let (Value::Object(schema), true) = (schema, depth < MAX_DEPTH) else { return };
    if let Some(Value::Object(properties)) = schema.get("properties") {
        for (name, property) in properties {
            if named_properties.len() == MAX_ARGUMENTS {
                return;
            }
            named_properties.push((name, property));
            collect_properties(property, depth + 1, named_properties);
        }
    }
    for keyword in ["items", "additionalProperties"] {
        if let Some(inner) = schema.get(keyword) {
            collect_properties(inner, depth + 1, named_properties);
        }
    }
    for keyword in ["anyOf", "oneOf", "allOf"] {
        if let Some(Value::Array(subschemas)) = schema.get(keyword) {
            subschemas.iter().for_each(|inner| collect_properties(inner, depth + 1, named_properties));
        }
    }
    for keyword in ["$defs", "definitions"] {
        if let Some(Value::Object(subschemas)) = schema.get(keyword) {
            subschemas.values().for_each(|inner| collect_properties(inner, depth + 1, named_properties));
        }
    }
}
