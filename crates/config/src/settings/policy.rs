//! Reads `[policy]`: which calls of tools run, which need the user's approval, and which never run.

use std::{ops::Range, path::Path};

use toolrack_host::{
    DefaultEffect, Pattern, Policy,
    policy::{ArgumentRule, BadRule, Effect, Hints, Origin, Rule},
};

use crate::{
    dialect,
    document::Document,
    node::{Member, Node, Value},
    problem::Problem,
    rows::{POLICY, RULE, Table},
    settings::unknown_key,
};

/// The maximum number of rules in one file. Each pattern counts as a rule.
const MAX_RULES: usize = 1_000;

/// The keys of the effects.
const EFFECTS: [(&str, Effect); 3] = [("allow", Effect::Allow), ("confirm", Effect::Confirm), ("deny", Effect::Deny)];

/// The `[policy]` of one file.
#[derive(Clone, Debug, Default)]
pub(crate) struct PolicySection {
    rules: Vec<Rule>,
    allow_read_only: Option<bool>,
    otherwise: Option<DefaultEffect>,
    /// The reason if the rules of the file are unknown. No call runs then.
    broken_reason: Option<String>,
}

/// The owner of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileOwner {
    /// The user.
    User,
    /// A project. Its file may deny calls or require approval, but never allow calls.
    Project,
}

impl PolicySection {
    /// Returns `policy` with the rules of this file, which take precedence.
    pub(crate) fn added_to(self, mut policy: Policy, owner: FileOwner) -> Policy {
        let Self { rules, allow_read_only, otherwise, broken_reason } = self;
        if let Some(why) = broken_reason {
            // The broken policy denies every call, so the default has no effect.
            return policy.stricter(&Policy::broken(why), DefaultEffect::Allow);
        }
        if owner == FileOwner::Project {
            let project_policy = rules.into_iter().fold(Policy::default(), Policy::rule);
            return policy.stricter(&project_policy, otherwise.unwrap_or(DefaultEffect::Allow));
        }
        policy = rules.into_iter().fold(policy, Policy::rule);
        if let Some(otherwise) = otherwise {
            policy = policy.otherwise(otherwise);
        }
        match allow_read_only {
            Some(allow) => policy.allow_read_only(allow),
            None => policy,
        }
    }

    /// Reads only `[policy]` from a file, and returns the problems of the file.
    pub(crate) fn read_policy_file(document: &Document, owner: FileOwner) -> (Self, Vec<Problem>) {
        let root = match dialect::parse(document) {
            Ok(root) => root,
            Err(problem) => return (Self::unreadable(), vec![*problem]),
        };
        let members = root.as_ref().and_then(Node::members).unwrap_or_default();
        let (mut section, mut problems) = (Self::default(), Vec::new());
        for member in members {
            if member.name == "policy" {
                let section_problems;
                (section, section_problems) = Self::read(document, &member.node, owner);
                problems.extend(section_problems);
            } else {
                let problem =
                    Problem::warning(format!("`{}` is ignored: from this file, only `[policy]` is read", member.name));
                problems.push(document.locate(problem.field(&*member.name), member.name_span.clone()));
            }
        }
        (section, problems)
    }

    /// Returns the section for a file that cannot be read. The file may forbid any call, so the section forbids all.
    pub(crate) fn unreadable() -> Self {
        Self { broken_reason: Some("toolrack.toml cannot be read, and may forbid it".to_owned()), ..Self::default() }
    }

    /// Reads the table `[policy]` in `node`, and returns its problems. After an error, the section forbids every call.
    pub(crate) fn read(document: &Document, node: &Node, owner: FileOwner) -> (Self, Vec<Problem>) {
        let mut reader = PolicyReader { document, owner, section: Self::default(), problems: Vec::new() };
        reader.read(node);
        let PolicyReader { mut section, problems, .. } = reader;
        if let Some(error) = problems.iter().find(|problem| problem.is_error()) {
            let file = document.path.as_deref().and_then(Path::file_name).unwrap_or_default().to_string_lossy();
            let place = error.line.map_or_else(|| file.to_string(), |line| format!("{file}:{line}"));
            section = Self { broken_reason: Some(format!("`[policy]` has errors ({place})")), ..Self::default() };
        }
        (section, problems)
    }
}

/// A `[policy]` that is being read.
struct PolicyReader<'a> {
    document: &'a Document,
    owner: FileOwner,
    section: PolicySection,
    problems: Vec<Problem>,
}

impl PolicyReader<'_> {
    /// Reports an error in `policy.FIELD`, at the bytes `span` of the file.
    fn error(&mut self, field: &str, message: String, span: &Range<usize>) {
        let hint = match self.owner {
            FileOwner::User => "until it is correct, no tool runs: the rules could forbid any",
            FileOwner::Project => "until it is correct, no tool runs in this project: the rules could forbid any",
        };
        let problem = Problem::error(message).field(field_path("policy", field)).hint(hint);
        self.problems.push(self.document.locate(problem, span.clone()));
    }

    /// Reports that the value of `policy.FIELD`, which is `node`, must be `expected`.
    fn report_invalid(&mut self, field: &str, expected: &str, node: &Node) {
        self.error(field, format!("`policy.{field}` must be {expected}"), &node.span);
    }

    /// Warns that the project's file cannot allow calls, and that this part of it has no effect.
    fn warn_ignored(&mut self, field: &str, span: &Range<usize>) {
        let problem =
            Problem::warning("a project can forbid calls or require approval for them, but cannot allow them");
        let problem = problem.field(format!("policy.{field}")).hint("allow it in your own toolrack.toml");
        self.problems.push(self.document.locate(problem, span.clone()));
    }

    /// Returns whether `table` has the key of `member`. Otherwise, reports an error: a rule with a misspelt condition
    /// would match more calls than intended.
    fn check_known(&mut self, member: &Member, table: &Table, place: &str) -> bool {
        let is_known = table.row(&member.name).is_some();
        if !is_known {
            let field = field_path(place, &member.name);
            let message = unknown_key(&format!("policy.{field}"), member, table);
            self.error(&field, message, &member.name_span);
        }
        is_known
    }

    fn read(&mut self, node: &Node) {
        let Some(members) = node.members() else {
            return self.error("", "`policy` must be a table".to_owned(), &node.span);
        };
        for member in members {
            if !self.check_known(member, POLICY, "") {
                continue;
            }
            match (&*member.name, EFFECTS.iter().find(|(word, _)| *word == member.name)) {
                (_, Some((_, effect))) => {
                    let rules = self.patterns(&member.name, *effect, &member.node);
                    self.add_rules(rules, &member.name, member);
                }
                ("otherwise", _) => match member.node.as_text() {
                    Some("allow") if self.owner == FileOwner::Project => {
                        self.warn_ignored("otherwise", &member.node.span)
                    }
                    Some("allow") => self.section.otherwise = Some(DefaultEffect::Allow),
                    Some("confirm") => self.section.otherwise = Some(DefaultEffect::Confirm),
                    Some("deny") => self.section.otherwise = Some(DefaultEffect::Deny),
                    _ => self.report_invalid("otherwise", &POLICY.words("otherwise"), &member.node),
                },
                ("allow_read_only", _) => match member.node.value {
                    Value::Bool(true) if self.owner == FileOwner::Project => {
                        self.warn_ignored("allow_read_only", &member.node.span);
                    }
                    Value::Bool(allow) => self.section.allow_read_only = Some(allow),
                    _ => self.report_invalid("allow_read_only", "`true` or `false`", &member.node),
                },
                _ => self.read_rules(&member.node),
            }
        }
    }

    /// Adds `rules`, which have the same effect, to the section.
    fn add_rules(&mut self, rules: Vec<Rule>, field: &str, member: &Member) {
        let allows_calls = rules.first().is_some_and(|rule| rule.effect() == Effect::Allow);
        if allows_calls && self.owner == FileOwner::Project {
            return self.warn_ignored(field, &member.name_span);
        }
        if self.section.rules.len() + rules.len() > MAX_RULES {
            return self.error(field, format!("there are more than {MAX_RULES} rules"), &member.name_span);
        }
        self.section.rules.extend(rules);
    }

    /// Reads `[[policy.rules]]`.
    fn read_rules(&mut self, list: &Node) {
        let Value::List(nodes) = &list.value else {
            let message = "`policy.rules` must be a list: write `[[policy.rules]]` above each rule";
            return self.error("rules", message.to_owned(), &list.span);
        };
        for (number, node) in nodes.iter().enumerate() {
            let place = format!("rules[{number}]");
            let Some(members) = node.members() else {
                self.error(&place, "a rule must be a table".to_owned(), &node.span);
                continue;
            };
            // `count`, unlike `any`, reports every unknown key.
            if members.iter().filter(|member| !self.check_known(member, RULE, &place)).count() > 0 {
                continue;
            }
            let mut effects = EFFECTS.iter().filter_map(|(word, effect)| Some((*effect, node.get(word)?)));
            let (Some((effect, member)), None) = (effects.next(), effects.next()) else {
                let message =
                    "a rule needs exactly one of `allow`, `confirm` and `deny`, with the tools that it applies to";
                self.error(&place, message.to_owned(), &node.span);
                continue;
            };
            let field = field_path(&place, &member.name);
            let rules = self.patterns(&field, effect, &member.node);
            let rules = rules.into_iter().filter_map(|rule| self.with_conditions(rule, &place, node)).collect();
            self.add_rules(rules, &field, member);
        }
    }

    /// Returns a rule for each pattern of `node`.
    fn patterns(&mut self, field: &str, effect: Effect, node: &Node) -> Vec<Rule> {
        let mut rules = Vec::new();
        for (text, span) in self.texts(field, node) {
            match text.parse::<Pattern>() {
                Ok(pattern) => {
                    let path = self.document.path.clone().unwrap_or_default();
                    let line = self.document.line_of(span.start).unwrap_or(1);
                    rules.push(Rule::new(effect, pattern).written_in(Origin { path, line }));
                }
                Err(error) => self.error(field, error.to_string(), &span),
            }
        }
        rules
    }

    /// Reads a text, or a list of texts, each with its position. Directly below `[policy]`, an empty list in `allow`,
    /// `confirm` or `deny` means no rules. Any other empty list is an error, because a rule without its condition would
    /// match more calls than intended.
    fn texts(&mut self, field: &str, node: &Node) -> Vec<(String, Range<usize>)> {
        let texts = match &node.value {
            Value::Text(text) => vec![(text.clone(), node.span.clone())],
            Value::List(items) => {
                let texts = items.iter().map(|item| Some((item.as_text()?.to_owned(), item.span.clone())));
                texts.collect::<Option<Vec<_>>>().unwrap_or_default()
            }
            _ => Vec::new(),
        };
        // In a rule of `[[policy.rules]]`, the field has a prefix such as `rules[0].`.
        let may_be_empty = field == "allow" || field == "confirm" || field == "deny";
        if texts.is_empty() && !(may_be_empty && matches!(&node.value, Value::List(items) if items.is_empty())) {
            self.report_invalid(field, "text, or a list of texts", node);
        }
        texts
    }

    /// Returns `rule` with the conditions of its table `node`. Reports an error, and then returns `None`. `place` is
    /// the path of the table, such as `rules[0]`.
    fn with_conditions(&mut self, rule: Rule, place: &str, node: &Node) -> Option<Rule> {
        let rule = self.with_globs(rule, (place, "agent"), node, Rule::agents)?;
        let rule = self.with_globs(rule, (place, "tenant"), node, Rule::tenants)?;
        let rule = self.with_globs(rule, (place, "who"), node, Rule::who)?;
        let mut rule = self.with_globs(rule, (place, "client"), node, Rule::clients)?;
        if let Some(arguments) = node.get("arguments") {
            let Some(members) = arguments.node.members().filter(|members| !members.is_empty()) else {
                self.report_invalid(
                    &field_path(place, "arguments"),
                    "a table of arguments, each with the pattern that it must match",
                    &arguments.node,
                );
                return None;
            };
            for member in members {
                let field = field_path(place, &format!("arguments.{}", member.name));
                let condition = match (&member.node.value, member.node.text("regex")) {
                    (Value::Text(glob), _) => ArgumentRule::glob(&member.name, glob),
                    (Value::Map(members), Some(regex)) if members.len() == 1 => {
                        ArgumentRule::regex(&member.name, regex)
                    }
                    _ => {
                        self.report_invalid(&field, "a glob, or `{ regex = \"…\" }`", &member.node);
                        return None;
                    }
                };
                match condition {
                    Ok(condition) => rule = rule.argument(condition),
                    Err(error) => {
                        self.error(&field, error.to_string(), &member.node.span);
                        return None;
                    }
                }
            }
        }
        // `None` after an error; `Some(None)` if the rule does not have the hint.
        let mut read_hint = |name: &str| match node.get(name).map(|member| &member.node) {
            None => Some(None),
            Some(Node { value: Value::Bool(value), .. }) => Some(Some(*value)),
            Some(other) => {
                self.report_invalid(&field_path(place, name), "`true` or `false`", other);
                None
            }
        };
        let hints = Hints {
            read_only: read_hint("read_only")?,
            destructive: read_hint("destructive")?,
            idempotent: read_hint("idempotent")?,
            open_world: read_hint("open_world")?,
        };
        Some(rule.hints(hints))
    }

    /// Reads the condition `name`, and adds its globs to `rule` with `add_globs`. Reports an error, and then returns
    /// `None`.
    fn with_globs(
        &mut self,
        rule: Rule,
        (place, name): (&str, &str),
        node: &Node,
        add_globs: impl Fn(Rule, &[String]) -> Result<Rule, BadRule>,
    ) -> Option<Rule> {
        let Some(member) = node.get(name) else { return Some(rule) };
        let field = field_path(place, name);
        let globs: Vec<_> = self.texts(&field, &member.node).into_iter().map(|(glob, _)| glob).collect();
        // `texts` has reported the error.
        if globs.is_empty() {
            return None;
        }
        match add_globs(rule, &globs) {
            Ok(rule) => Some(rule),
            Err(error) => {
                self.error(&field, error.to_string(), &member.node.span);
                None
            }
        }
    }
}

/// Returns the path of the field `name` in `place`. If one of them is empty, returns the other.
fn field_path(place: &str, name: &str) -> String {
    match (place, name) {
        (place, "") => place.to_owned(),
        ("", name) => name.to_owned(),
        (place, name) => format!("{place}.{name}"),
    }
}

#[cfg(test)]
mod tests;
