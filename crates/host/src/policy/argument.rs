//! Reads the conditions that a rule puts on the arguments of a call, and checks them.
//!
//! A condition matches one argument against a glob or a regular expression; the sizes of the expression and of the
//! argument are bounded. `number` compares numbers by value, because a model may write the same number in several ways.
//!
//! It can be uncertain whether an argument matches. A rule that denies calls, or has the user confirm them, is
//! *careful*: for such a rule, the argument then counts as matching. For a rule that allows, it does not.

mod number;

use std::fmt;

use regex::{Regex, RegexBuilder};
use serde_json::{Map, Number, Value};

use self::number::ExpectedNumber;
use crate::{
    glob::{BadGlob, Glob},
    who::BadWho,
};

/// The longest regular expression, in bytes.
const MAX_REGEX_BYTES: usize = 512;

/// The largest size of a compiled regular expression, in bytes.
const MAX_COMPILED_BYTES: usize = 256 * 1024;

/// The longest text of an argument, in bytes, that is matched. A limit keeps the check quick.
const MAX_TEXT_BYTES: usize = 64 * 1024;

/// The reason why a rule was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadRule {
    /// A glob in it is invalid.
    #[error(transparent)]
    Glob(#[from] BadGlob),
    /// A regular expression in it is invalid.
    #[error("the regular expression cannot be used: {problem}")]
    Regex {
        /// The problem, on one line.
        problem: String,
    },
    /// A condition on the caller cannot be read.
    #[error(transparent)]
    Who(#[from] BadWho),
    /// The condition does not name an argument.
    #[error("an argument must be a name, or a JSON pointer such as `/options/path`")]
    NoArgument,
}

/// A condition on one argument.
///
/// The argument is given by its name, or, if it begins with `/`, by a JSON pointer (RFC 6901). The whole text must
/// match, line breaks included; `true` and `false` are matched as JSON writes them. An absent argument, or `null`, does
/// not match. The condition sees the arguments as they are sent: their JSON is parsed, so escapes are decoded. Of
/// several values with the same name, only the last one is sent.
///
/// A number is matched as a plain decimal, without an exponent and without redundant zeros (`100`, `-0.5`). A glob that
/// is itself a number matches that number alone: `1.0` matches `1` and `1e0`.
///
/// A rule that allows matches a list only if it has elements and all of them match. It never matches an object, nor a
/// text of more than 64 KiB.
///
/// A rule that denies, or has the user confirm, matches more:
///
/// - a list or an object, if any value inside matches, or any name in an object;
/// - every text of more than 64 KiB;
/// - a text that other programs than JSON parsers read as a number (` +01.`, `0x1`, `\u{661}`), if that number matches;
/// - a number that equals the glob's after rounding, because numbers other than 64-bit integers are rounded when they
///   are read;
/// - a number whose form in JSON matches (`1e2`), if the glob is no number.
#[derive(Clone, Debug)]
pub struct ArgumentRule {
    /// The name of the argument, or a JSON pointer to it.
    argument_path: String,
    /// The glob or regular expression, as the user wrote it.
    written: String,
    matcher: Matcher,
    /// The number of the glob, if it is a number.
    number: Option<ExpectedNumber>,
}

#[derive(Clone, Debug)]
enum Matcher {
    Glob(Glob),
    Regex(Box<Regex>),
}

impl ArgumentRule {
    /// Requires that the argument at `argument_path` matches this glob: `*` matches any text, `?` one byte, `[a-z]`
    /// one of a set, `{a,b}` one of several, and `\` escapes the next character.
    ///
    /// # Errors
    /// [`BadRule::Glob`] if the glob is empty, invalid or longer than 512 bytes, [`BadRule::NoArgument`] if
    /// `argument_path` is empty.
    pub fn glob(argument_path: &str, glob: &str) -> Result<Self, BadRule> {
        let matcher = Matcher::Glob(Glob::read(glob, /* written */ glob)?);
        Self::new(argument_path, glob, matcher)
    }

    /// Requires that the whole argument at `argument_path` matches this regular expression, in the syntax of the crate
    /// `regex`. `.` matches any character, including line breaks. Matching takes time linear in the text. The
    /// expression has at most 512 bytes, and 256 KiB when compiled.
    ///
    /// # Errors
    /// [`BadRule::Regex`] if the expression is invalid or too large, [`BadRule::NoArgument`] if `argument_path` is
    /// empty.
    pub fn regex(argument_path: &str, regex: &str) -> Result<Self, BadRule> {
        let bad_regex = |problem: String| BadRule::Regex { problem };
        if regex.len() > MAX_REGEX_BYTES {
            return Err(bad_regex(format!("it is longer than {MAX_REGEX_BYTES} bytes")));
        }
        // Compile the expression alone first: an extra `)` in it would close the group that is put around it below.
        let compile = |regex: &str| {
            let mut builder = RegexBuilder::new(regex);
            // A line break in a path must not make a rule miss it.
            builder.dot_matches_new_line(true).size_limit(MAX_COMPILED_BYTES).dfa_size_limit(MAX_COMPILED_BYTES);
            builder.build().map_err(|error| match error {
                regex::Error::CompiledTooBig(_) => {
                    bad_regex(format!("it takes more than {} KiB", MAX_COMPILED_BYTES / 1024))
                }
                error => bad_regex(last_line(&error.to_string())),
            })
        };
        compile(regex)?;
        let matcher = Matcher::Regex(Box::new(compile(&format!(r"\A(?:{regex})\z"))?));
        Self::new(argument_path, regex, matcher)
    }

    fn new(argument_path: &str, written: &str, matcher: Matcher) -> Result<Self, BadRule> {
        if argument_path.is_empty() {
            return Err(BadRule::NoArgument);
        }
        let number = matches!(matcher, Matcher::Glob(_)).then(|| ExpectedNumber::read(written)).flatten();
        Ok(Self { argument_path: argument_path.to_owned(), written: written.to_owned(), matcher, number })
    }

    /// Returns whether `arguments` fulfil the condition. `is_careful` is `true` for a rule that denies, or has the user
    /// confirm: an uncertain match then counts as a match.
    pub(super) fn fits(&self, arguments: &Map<String, Value>, is_careful: bool) -> bool {
        self.find_argument(arguments).is_some_and(|value| self.matches(value, is_careful))
    }

    fn find_argument<'a>(&self, arguments: &'a Map<String, Value>) -> Option<&'a Value> {
        let Some(pointer) = self.argument_path.strip_prefix('/') else {
            return arguments.get(&self.argument_path);
        };
        // The arguments are no `Value`, so `Value::pointer` finds only what is below their members.
        let (first, rest) = match pointer.split_once('/') {
            Some((first, _)) => (first, &pointer[first.len()..]),
            None => (pointer, ""),
        };
        arguments.get(&first.replace("~1", "/").replace("~0", "~"))?.pointer(rest)
    }

    /// Returns whether `value` matches. Recurses as deep as the arguments nest, which the parser bounds.
    fn matches(&self, value: &Value, is_careful: bool) -> bool {
        match value {
            Value::Null => false,
            Value::String(text) if text.len() > MAX_TEXT_BYTES => is_careful,
            Value::String(text) => {
                // Some servers accept a number that is written as text.
                self.matches_text(text)
                    || (is_careful
                        && number::parse_any_spelling(text)
                            .is_some_and(|number| self.matches_number(&number, is_careful)))
            }
            Value::Bool(_) => self.matches_text(&value.to_string()),
            Value::Number(number) => self.matches_number(number, is_careful),
            Value::Array(items) if is_careful => items.iter().any(|item| self.matches(item, is_careful)),
            Value::Array(items) => !items.is_empty() && items.iter().all(|item| self.matches(item, is_careful)),
            Value::Object(members) => {
                let is_inside =
                    |(name, member): (&String, &Value)| self.matches_text(name) || self.matches(member, is_careful);
                is_careful && members.iter().any(is_inside)
            }
        }
    }

    fn matches_number(&self, number: &Number, is_careful: bool) -> bool {
        if let Some(expected) = &self.number {
            return expected.equals(number, is_careful);
        }
        let as_json = number.to_string();
        number::plain_decimal(&as_json).is_some_and(|plain| self.matches_text(&plain))
            || (is_careful && self.matches_text(&as_json))
    }

    fn matches_text(&self, text: &str) -> bool {
        match &self.matcher {
            Matcher::Glob(glob) => glob.is_match(text),
            Matcher::Regex(regex) => regex.is_match(text),
        }
    }
}

/// Writes the condition for people, in the form of `toolrack.toml` but without escapes.
impl fmt::Display for ArgumentRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.matcher {
            Matcher::Glob(_) => write!(f, "arguments.{} = \"{}\"", self.argument_path, self.written),
            Matcher::Regex(_) => write!(f, "arguments.{} = {{ regex = \"{}\" }}", self.argument_path, self.written),
        }
    }
}

/// Returns the last line of a syntax error, which names the problem; the lines before show a caret.
fn last_line(error: &str) -> String {
    error.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned()
}
