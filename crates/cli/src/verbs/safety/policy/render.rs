//! Shows the rules about calls, and the verdict of the rules on one call: whether it runs, needs an approval or is
//! refused, and why. Claims are what a server says about a tool, such as that it only reads.

use std::path::PathBuf;

use chrono::{DateTime, SecondsFormat};
use serde::Serialize;
use toolrack_daemon::shown::answers::ShownAnswer;
use toolrack_host::{
    DefaultEffect, GateRequest, Verdict,
    mcp::Annotations,
    policy::{Effect, Explained, Matched, Part, Rule},
    text,
};
use toolrack_store::StandingAnswer;

use crate::render::{Cell, Tone, columns, paint};

/// A rule about calls.
#[derive(Debug, Serialize)]
pub(crate) struct RuleLine {
    effect: Effect,
    /// The conditions as a user would write them.
    conditions: Vec<String>,
    path: Option<PathBuf>,
    line: Option<usize>,
}

impl From<&Rule> for RuleLine {
    fn from(rule: &Rule) -> Self {
        let origin = rule.origin();
        Self {
            effect: rule.effect(),
            conditions: rule.conditions(),
            path: origin.map(|origin| origin.path.clone()),
            line: origin.map(|origin| origin.line),
        }
    }
}

/// A rule for the tool that was asked about.
#[derive(Debug, Serialize)]
struct MatchedLine {
    #[serde(flatten)]
    rule: RuleLine,
    /// Whether the rule comes from a project, and so can only forbid calls or require an approval.
    only_stricter: bool,
    /// `decides`, `beaten` (another rule overrules it) or `silent` (it does not match).
    fate: &'static str,
    because: Option<&'static str>,
}

impl From<&Matched<'_>> for MatchedLine {
    fn from(matched: &Matched<'_>) -> Self {
        let (fate, because) = match matched.part {
            Part::Decides => ("decides", None),
            Part::Overruled(because) => ("beaten", Some(because)),
            Part::NotMatching(because) => ("silent", Some(because)),
        };
        Self { rule: matched.rule.into(), only_stricter: matched.is_stricter, fate, because }
    }
}

/// The verdict on a call.
#[derive(Debug, Serialize)]
pub(crate) struct CallVerdict {
    verdict: Effect,
    why: String,
}

impl From<&Verdict> for CallVerdict {
    fn from(verdict: &Verdict) -> Self {
        let (verdict, why) = match verdict {
            Verdict::Allow { why } => (Effect::Allow, why.to_string()),
            Verdict::Confirm { why, .. } => (Effect::Confirm, why.clone()),
            Verdict::Deny { why } => (Effect::Deny, why.clone()),
        };
        Self { verdict, why }
    }
}

impl CallVerdict {
    /// Returns a line with the verdict on `subject`, such as the name of a tool. `subject` must be safe to print.
    pub(crate) fn line(&self, subject: &str) -> String {
        let verdict = paint(tone(self.verdict), &self.verdict.to_string());
        format!("{subject}: {verdict}, because {}", escape(&self.why))
    }
}

/// `policy test --json`.
#[derive(Debug, Serialize)]
pub(crate) struct TestDocument {
    server: String,
    tool: String,
    client: &'static str,
    client_name: Option<String>,
    #[serde(flatten)]
    call_verdict: CallVerdict,
    rules: Vec<MatchedLine>,
    /// The server's claims about the tool when it was last connected; `null` if they are not known.
    annotations: Option<Annotations>,
    /// The user's standing answer (`always`), if the verdict is to ask. The answer is valid only as long as the tool
    /// has the same definition.
    answer: Option<ShownAnswer>,
    #[serde(skip)]
    answered_at: Option<String>,
}

impl TestDocument {
    pub(crate) fn new(
        request: &GateRequest<'_>,
        annotations: Option<Annotations>,
        explained: &Explained<'_>,
        answer: Option<StandingAnswer>,
    ) -> Self {
        let call_verdict = CallVerdict::from(&explained.verdict);
        let answer = answer.filter(|_| call_verdict.verdict == Effect::Confirm);
        Self {
            server: request.server.to_string(),
            tool: request.tool.to_owned(),
            client: request.caller.way().word(),
            client_name: request.caller.client_name().map(str::to_owned),
            answered_at: answer.as_ref().map(answered_at),
            answer: answer.map(ShownAnswer::from),
            call_verdict,
            rules: explained.rules.iter().map(MatchedLine::from).collect(),
            annotations,
        }
    }
}

fn tone(effect: Effect) -> Tone {
    match effect {
        Effect::Allow => Tone::Good,
        Effect::Confirm => Tone::Waiting,
        Effect::Deny => Tone::Bad,
    }
}

fn escape(foreign: &str) -> String {
    text::for_line(foreign).into_owned()
}

/// Shows the verdict, the facts behind the verdict, and every rule for the tool.
pub(crate) fn test_page(document: &TestDocument) -> String {
    let mut lines = vec![document.call_verdict.line(&format!("{}/{}", document.server, escape(&document.tool)))];
    if let Some(at) = &document.answered_at {
        lines.push(format!(
            "it runs without asking until the definition of the tool changes, because the user answered `always` on {at}"
        ));
    }
    let rows: Vec<_> = document.rules.iter().map(matched_cells).collect();
    if !rows.is_empty() {
        lines.push(String::new());
        lines.extend(columns(&rows));
    }
    lines.push(String::new());
    lines.push(claims_line(document.annotations.as_ref()));
    lines.join("\n")
}

/// Describes what the server claims about a tool, if that is known.
pub(crate) fn claims_line(annotations: Option<&Annotations>) -> String {
    let claim = |name: &str, value: Option<bool>| value.map(|value| format!("{name} = {value}"));
    let claims = match annotations {
        None => "the server's claims about it are not known: it counts as a tool without claims".to_owned(),
        Some(Annotations { read_only, destructive, idempotent, open_world, .. }) => {
            let claims = [
                claim("read_only", *read_only),
                claim("destructive", *destructive),
                claim("idempotent", *idempotent),
                claim("open_world", *open_world),
            ];
            let claims: Vec<_> = claims.into_iter().flatten().collect();
            if claims.is_empty() {
                "the server claims nothing about it".to_owned()
            } else {
                format!("the server claims {}", claims.join(", "))
            }
        }
    };
    paint(Tone::Faint, &claims)
}

fn matched_cells(line: &MatchedLine) -> Vec<Cell> {
    let fate = match line.because {
        None => line.fate.to_owned(),
        Some(because) => because.to_owned(),
    };
    let origin = if line.only_stricter { "project" } else { "" };
    let mut cells = rule_cells(&line.rule);
    cells.push(Cell::new(Tone::Faint, origin));
    cells.push(Cell::new(if line.because.is_none() { Tone::Strong } else { Tone::Faint }, fate));
    cells
}

fn rule_cells(line: &RuleLine) -> Vec<Cell> {
    let location = match (&line.path, line.line) {
        (Some(path), Some(line)) => format!("{}:{line}", escape(&path.display().to_string())),
        _ => "toolrack itself".to_owned(),
    };
    vec![
        Cell::new(tone(line.effect), line.effect.to_string()),
        Cell::new(Tone::Plain, escape(&line.conditions.join(", "))),
        Cell::new(Tone::Faint, location),
    ]
}

/// Shows every rule, and what happens to calls that match no rule.
pub(crate) fn list_page(rules: &[RuleLine], otherwise: DefaultEffect, allow_read_only: bool) -> String {
    let rows: Vec<_> = rules.iter().map(rule_cells).collect();
    let mut lines = columns(&rows);
    let default_outcome = match otherwise {
        DefaultEffect::Allow => "runs",
        DefaultEffect::Confirm => "needs an approval, unless a user types the call",
        DefaultEffect::Deny => "does not run",
    };
    let exception = if allow_read_only { "; tools that say that they only read run" } else { "" };
    lines.push(paint(Tone::Faint, &format!("everything else {default_outcome}{exception}")));
    lines.join("\n")
}

/// Returns when the user gave the answer, in RFC 3339.
fn answered_at(answer: &StandingAnswer) -> String {
    let at = DateTime::from_timestamp(answer.answered_at, 0).unwrap_or_default();
    at.to_rfc3339_opts(SecondsFormat::Secs, true)
}

/// Returns a line for each answer.
pub(crate) fn answers_page(answers: &[StandingAnswer]) -> String {
    let rows: Vec<_> = answers
        .iter()
        .map(|answer| {
            vec![
                Cell::new(Tone::Plain, format!("{}/{}", answer.server, escape(&answer.tool))),
                Cell::new(Tone::Faint, answered_at(answer)),
                Cell::new(Tone::Faint, answer.way.clone()),
                Cell::new(Tone::Faint, if answer.of_server { "for the server" } else { "for the tool" }),
                // The beginning of the definition's hash is enough to compare.
                Cell::new(Tone::Faint, answer.definition.to_string().get(..12).unwrap_or_default()),
                Cell::new(Tone::Faint, answer.owner.as_ref().map(|owner| escape(&owner.name)).unwrap_or_default()),
            ]
        })
        .collect();
    columns(&rows).join("\n")
}
