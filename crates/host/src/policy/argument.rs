//! Conditions on arguments.

use std::fmt;

use regex::{Regex, RegexBuilder};
use serde_json::{Map, Value};

use crate::glob::{BadGlob, Glob};

/// The longest regular expression, in bytes as it is written, and what it may become when it is compiled.
const REGEX_BYTES: usize = 512;
const COMPILED_BYTES: usize = 256 * 1024;

/// Longer texts in arguments are not looked at, so that judging stays quick.
const TEXT_BYTES: usize = 64 * 1024;

/// Why a rule was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadRule {
    /// A glob in it.
    #[error(transparent)]
    Glob(#[from] BadGlob),
    /// A regular expression in it.
    #[error("the regular expression cannot be used: {problem}")]
    Regex {
        /// What is wrong with it, on one line.
        problem: String,
    },
    /// It does not say which argument.
    #[error("an argument is a name, or a JSON pointer such as `/options/path`")]
    NoArgument,
}

/// A condition on one argument.
///
/// The argument is a name, or what a JSON pointer (RFC 6901) leads to when it begins with `/`. The whole text must match;
/// numbers, `true` and `false` are matched as JSON writes them. One that is not there, or is `null`, does not match.
///
/// What holds a list, an object, or more than 64 KiB of text is judged carefully: a rule that allows wants every element of a
/// list to match, and neither objects nor longer texts do; for other rules, any text inside is enough, and a longer one
/// matches.
#[derive(Clone, Debug)]
pub struct ArgumentRule {
    place: String,
    written: String,
    kind: Kind,
}

#[derive(Clone, Debug)]
enum Kind {
    Glob(Glob),
    Regex(Box<Regex>),
}

impl ArgumentRule {
    /// The argument at `place` matches this glob.
    ///
    /// # Errors
    /// [`BadRule`].
    pub fn glob(place: &str, glob: &str) -> Result<Self, BadRule> {
        let kind = Kind::Glob(Glob::read(glob, glob)?);
        Self::new(place, glob, kind)
    }

    /// The whole argument at `place` matches this regular expression, in the syntax of the crate `regex`, which takes time that
    /// grows with the text and no faster. At most 512 bytes, and 256 KiB when compiled.
    ///
    /// # Errors
    /// [`BadRule`].
    pub fn regex(place: &str, regex: &str) -> Result<Self, BadRule> {
        let bad = |problem: String| BadRule::Regex { problem };
        if regex.len() > REGEX_BYTES {
            return Err(bad(format!("it is longer than {REGEX_BYTES} bytes")));
        }
        // By itself first: within the frame, one too many `)` would mean something.
        let compile = |regex: &str| {
            let compiled = RegexBuilder::new(regex).size_limit(COMPILED_BYTES).dfa_size_limit(COMPILED_BYTES).build();
            compiled.map_err(|error| match error {
                regex::Error::CompiledTooBig(_) => bad(format!("it takes more than {} KiB", COMPILED_BYTES / 1024)),
                error => bad(last_line(&error.to_string())),
            })
        };
        compile(regex)?;
        let kind = Kind::Regex(Box::new(compile(&format!(r"\A(?:{regex})\z"))?));
        Self::new(place, regex, kind)
    }

    fn new(place: &str, written: &str, kind: Kind) -> Result<Self, BadRule> {
        if place.is_empty() {
            return Err(BadRule::NoArgument);
        }
        Ok(Self { place: place.to_owned(), written: written.to_owned(), kind })
    }

    /// Whether `arguments` fulfil it; where that cannot be told, as `is_careful` wants it.
    pub(super) fn fits(&self, arguments: &Map<String, Value>, is_careful: bool) -> bool {
        self.find(arguments).is_some_and(|value| self.matches(value, is_careful))
    }

    fn find<'a>(&self, arguments: &'a Map<String, Value>) -> Option<&'a Value> {
        let Some(pointer) = self.place.strip_prefix('/') else {
            return arguments.get(&self.place);
        };
        let (first, rest) = match pointer.split_once('/') {
            Some((first, _)) => (first, &pointer[first.len()..]),
            None => (pointer, ""),
        };
        arguments.get(&first.replace("~1", "/").replace("~0", "~"))?.pointer(rest)
    }

    /// As deep as the arguments were parsed, which has a bound.
    fn matches(&self, value: &Value, is_careful: bool) -> bool {
        match value {
            Value::Null => false,
            Value::String(text) if text.len() > TEXT_BYTES => is_careful,
            Value::String(text) => self.matches_text(text),
            Value::Bool(_) | Value::Number(_) => self.matches_text(&value.to_string()),
            Value::Array(items) if is_careful => items.iter().any(|item| self.matches(item, true)),
            Value::Array(items) => !items.is_empty() && items.iter().all(|item| self.matches(item, false)),
            Value::Object(members) => is_careful && members.values().any(|member| self.matches(member, true)),
        }
    }

    fn matches_text(&self, text: &str) -> bool {
        match &self.kind {
            Kind::Glob(glob) => glob.is_match(text),
            Kind::Regex(regex) => regex.is_match(text),
        }
    }
}

/// As it would be written.
impl fmt::Display for ArgumentRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            Kind::Glob(_) => write!(f, "arguments.{} = \"{}\"", self.place, self.written),
            Kind::Regex(_) => write!(f, "arguments.{} = {{ regex = \"{}\" }}", self.place, self.written),
        }
    }
}

/// A syntax error is several lines with a caret; the last says what it is.
fn last_line(error: &str) -> String {
    error.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned()
}
