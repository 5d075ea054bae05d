//! The secrets that were handed out, and where they stand in texts.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
};

use memchr::memmem::Finder;
use serde_json::{Map, Value};
use toolrack_host::ServerName;

use super::forms::forms;
use crate::mask::HIDDEN;

/// A shorter value is not looked for in texts: it would be found everywhere.
const MIN_SECRET: usize = 6;

/// A shorter one may be in arguments by chance.
const MIN_TELLING: usize = 8;

/// How many values are remembered as secrets. A configuration with more has other problems.
const MAX_SECRETS: usize = 10_000;

/// Secrets, with the servers that were given each.
#[derive(Default)]
pub(super) struct Known {
    given: BTreeMap<String, BTreeSet<ServerName>>,
    /// The same in each form that it may have elsewhere.
    forms: BTreeMap<String, Form>,
}

struct Form {
    finder: Finder<'static>,
    given: BTreeSet<ServerName>,
}

impl Form {
    fn is_in(&self, text: &str) -> bool {
        self.finder.find(text.as_bytes()).is_some()
    }
}

impl Known {
    /// Counts `secret` as one from now on, which `server` was given; `None`: no server was.
    pub(super) fn add(&mut self, server: Option<&ServerName>, secret: String) {
        let is_new = match self.given.get(&secret) {
            // As a rule: headers are given with each request.
            Some(given) => server.is_some_and(|server| !given.contains(server)),
            None => secret.trim().len() >= MIN_SECRET && self.given.len() < MAX_SECRETS,
        };
        if !is_new {
            return;
        }
        for form in forms(&secret) {
            let form = self.forms.entry(form).or_insert_with_key(|form| Form {
                finder: Finder::new(form.as_bytes()).into_owned(),
                given: BTreeSet::new(),
            });
            form.given.extend(server.cloned());
        }
        self.given.entry(secret).or_default().extend(server.cloned());
    }

    /// `text` with `***` for each.
    pub(super) fn conceal<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let mut concealed = Cow::Borrowed(text);
        // Of two that begin alike the longer one goes first.
        for (secret, form) in self.forms.iter().rev() {
            if form.is_in(&concealed) {
                concealed = Cow::Owned(concealed.replace(secret, HIDDEN));
            }
        }
        concealed
    }

    /// How many bytes of `text`, which goes on, hold no secret in part.
    pub(super) fn whole(&self, text: &str) -> usize {
        let begun = |secret: &str| {
            let ends = secret.char_indices().skip(1).map(|(end, _)| end).take_while(|end| *end <= text.len());
            ends.map(|end| &secret[..end]).filter(|start| text.ends_with(start)).map(str::len).max()
        };
        let held = self.forms.keys().filter_map(|secret| begun(secret)).max().unwrap_or(0);
        let mut whole = text.len() - held;
        // One that is there already may go beyond where another one begins.
        while let Some(start) = self.forms.keys().filter_map(|secret| start_across(text, secret, whole)).min() {
            whole = start;
        }
        whole
    }

    /// Whether one that `server` was not given stands in `arguments`, names of members included.
    pub(super) fn is_in(&self, arguments: &Map<String, Value>, server: &ServerName) -> bool {
        let is_foreign =
            |(secret, form): &(&String, &Form)| secret.len() >= MIN_TELLING && !form.given.contains(server);
        let foreign: Vec<_> = self.forms.iter().filter(is_foreign).map(|(_, form)| form).collect();
        !foreign.is_empty() && arguments.iter().any(|(name, value)| holds(name, &foreign) || holds_in(value, &foreign))
    }
}

/// The first place where `secret` begins in `text` before `at` and ends behind it.
fn start_across(text: &str, secret: &str, at: usize) -> Option<usize> {
    let from = at.saturating_sub(secret.len().saturating_sub(1));
    let mut starts = (from..at).filter(|start| text.is_char_boundary(*start));
    starts.find(|start| text[*start..].starts_with(secret))
}

fn holds(text: &str, secrets: &[&Form]) -> bool {
    secrets.iter().any(|secret| secret.is_in(text))
}

fn holds_in(value: &Value, secrets: &[&Form]) -> bool {
    match value {
        Value::String(text) => holds(text, secrets),
        Value::Array(items) => items.iter().any(|item| holds_in(item, secrets)),
        Value::Object(members) => members.iter().any(|(name, value)| holds(name, secrets) || holds_in(value, secrets)),
        _ => false,
    }
}
