//! Answers the forms of servers with the options `--answer` and `--answers`.

use std::{collections::BTreeMap, path::Path, sync::OnceLock};

use serde_json::{Map, Value};
use toolrack_host::text;

use super::form::Field;
use crate::{
    args::Global,
    error::{Exit, Failure, in_words},
};

/// The most bytes of a file of answers.
const MAX_FILE_BYTES: u64 = 1024 * 1024;

/// An answer that was given beforehand.
#[derive(Debug)]
enum PresetAnswer {
    /// A text from `--answer`, read as the field's type.
    Text(String),
    /// A value from the file of `--answers`.
    Json(Value),
}

/// The answers, by the names of fields. An unused answer is not a mistake, because servers choose their questions.
#[derive(Debug)]
pub(super) struct PresetAnswers {
    values: BTreeMap<String, PresetAnswer>,
    /// Why a form could not be answered. Only the first such failure is kept.
    first_failure: OnceLock<String>,
}

impl PresetAnswers {
    /// Returns the answers that the options give; `None` when there are none.
    ///
    /// # Errors
    /// When the file is not a JSON object, or an answer is not `NAME=VALUE`.
    pub(super) fn from_options(global: &Global) -> Result<Option<Self>, Failure> {
        let mut values = BTreeMap::new();
        if let (Some(file), Some(text)) = (&global.answers, &global.answers_text) {
            values.extend(parse(file, text)?.into_iter().map(|(name, value)| (name, PresetAnswer::Json(value))));
        }
        for word in &global.answer {
            let (name, value) = word.split_once('=').filter(|(name, _)| !name.is_empty()).ok_or_else(|| {
                Failure::usage(format!("--answer {}: write name=value, with the name of a field", text::for_line(word)))
            })?;
            values.insert(name.to_owned(), PresetAnswer::Text(value.to_owned()));
        }
        let has_options = global.answers.is_some() || !global.answer.is_empty();
        Ok(has_options.then(|| Self { values, first_failure: OnceLock::new() }))
    }

    /// Returns the values for a form with these fields; `None` if a required field has no answer.
    ///
    /// # Errors
    /// When an answer does not match its field: names the field and the reason, without the value.
    pub(super) fn values_for(&self, fields: &[Field]) -> Result<Option<Map<String, Value>>, String> {
        let mut values = Map::new();
        for field in fields {
            let value = match self.values.get(&field.name) {
                Some(PresetAnswer::Text(text)) => field.read(text.trim()),
                Some(PresetAnswer::Json(value)) => field.check(value).map(Some),
                None if self.lacks_answer_for(field) => return Ok(None),
                // The default of the field; without a default, the field is left out.
                None => field.read(""),
            };
            let value =
                value.map_err(|why| format!("the answer `{}` does not fit: {why}", text::for_line(&field.name)))?;
            values.extend(value.map(|value| (field.name.clone(), value)));
        }
        Ok(Some(values))
    }

    /// Returns whether `field` is required and has no answer.
    pub(super) fn lacks_answer_for(&self, field: &Field) -> bool {
        !self.values.contains_key(&field.name) && field.read("").is_err()
    }

    /// Records why a form was not answered.
    pub(super) fn record_failure(&self, why: String) {
        // Only the first failure is kept: the later ones may follow from it.
        let _ = self.first_failure.set(why);
    }

    /// Returns the failure of the first form that was not answered.
    pub(super) fn failure(&self) -> Option<Failure> {
        let why = self.first_failure.get()?;
        Some(Failure::new(Exit::Usage, "BAD_ANSWER", why.clone()).hint("give the answer with --answer NAME=VALUE"))
    }
}

/// Reads the file of `--answers` into `global`. The file may be a pipe that nothing writes to yet.
///
/// # Errors
/// When it cannot be read.
pub(crate) async fn read_answers_file(global: &mut Global) -> Result<(), Failure> {
    if let Some(file) = global.answers.clone() {
        // On its own thread, because opening a pipe without a writer blocks.
        let text = tokio::task::spawn_blocking(move || read_file(&file)).await;
        let read_failed = || Failure::new(Exit::Other, "INTERNAL", "the answers were not read");
        global.answers_text = Some(text.map_err(|_| read_failed())??);
    }
    Ok(())
}

fn read_file(file: &Path) -> Result<String, Failure> {
    use std::io::Read as _;
    let mut text = String::new();
    let open_file = std::fs::File::open(file).map_err(|error| file_error(file, &in_words(&error)))?;
    open_file
        .take(MAX_FILE_BYTES + 1)
        .read_to_string(&mut text)
        .map_err(|error| file_error(file, &in_words(&error)))?;
    if text.len() as u64 > MAX_FILE_BYTES {
        return Err(file_error(file, "it is larger than 1 MiB"));
    }
    Ok(text)
}

fn parse(file: &Path, text: &str) -> Result<Map<String, Value>, Failure> {
    serde_json::from_str(text).map_err(|_| file_error(file, "it is not a JSON object, such as {\"name\": \"Ada\"}"))
}

fn file_error(file: &Path, why: &str) -> Failure {
    Failure::usage(format!("--answers {}: {why}", file.display()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::asker::form::fields;

    fn answers(words: &[&str]) -> PresetAnswers {
        let answer = words.iter().map(|word| (*word).to_owned()).collect();
        PresetAnswers::from_options(&Global { answer, ..Global::default() }).unwrap().unwrap()
    }

    #[test]
    fn a_form_stays_unanswered_if_a_required_field_has_no_answer() {
        let schema = json!({
            "type": "object",
            "properties": { "age": { "type": "integer" }, "city": { "type": "string", "default": "Bonn" } },
            "required": ["age"],
        });
        let fields = fields(&schema).unwrap();
        assert_eq!(answers(&["city=Ulm"]).values_for(&fields), Ok(None));
        assert!(answers(&["city=Ulm"]).lacks_answer_for(&fields[0]));
        let values = answers(&["age=36"]).values_for(&fields).unwrap().unwrap();
        assert_eq!(Value::Object(values), json!({ "age": 36, "city": "Bonn" }));
        assert!(answers(&["age=old"]).values_for(&fields).is_err());
    }

    #[test]
    fn without_options_there_are_no_answers() {
        assert!(PresetAnswers::from_options(&Global::default()).unwrap().is_none());
    }
}
