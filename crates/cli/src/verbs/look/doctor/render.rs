//! Shows the results of the checks of `doctor`, each with its next step.

use serde::Serialize;
use toolrack_config::Problem;
use toolrack_host::text;

use crate::{
    error::Exit,
    render::{Cell, Layout, Sign, Tone, columns, count, paint},
};

/// `doctor --json`.
#[derive(Debug, Serialize)]
pub(crate) struct Document<'a> {
    pub(crate) ok: bool,
    pub(crate) checks: &'a [Check],
}

/// The result of one check.
#[derive(Debug, Serialize)]
pub(crate) struct Check {
    /// `file`, `data`, `secrets`, `egress`, `sandbox`, `path`, `daemon`, `container`, `config`, `trust`, `variables`,
    /// `program`, `server`, `dns`, `tcp`, `pins` (the trusted definitions of tools) or `tools`.
    area: &'static str,
    /// The file or server.
    subject: String,
    #[serde(rename = "status")]
    pub(crate) health: Health,
    #[serde(rename = "what")]
    message: String,
    /// The next step.
    pub(crate) hint: Option<String>,
    #[serde(skip)]
    pub(crate) exit: Exit,
}

/// The verdict of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) enum Health {
    #[serde(rename = "ok")]
    Good,
    #[serde(rename = "warning")]
    Doubtful,
    #[serde(rename = "error")]
    Bad,
}

impl Check {
    fn new(area: &'static str, subject: &str, health: Health, message: impl Into<String>) -> Self {
        Self { area, subject: subject.to_owned(), health, message: message.into(), hint: None, exit: Exit::Ok }
    }

    pub(crate) fn good(area: &'static str, subject: &str, message: impl Into<String>) -> Self {
        Self::new(area, subject, Health::Good, message)
    }

    pub(crate) fn doubtful(area: &'static str, subject: &str, message: impl Into<String>) -> Self {
        Self::new(area, subject, Health::Doubtful, message)
    }

    pub(crate) fn bad(area: &'static str, subject: &str, message: impl Into<String>, exit: Exit) -> Self {
        Self { exit, ..Self::new(area, subject, Health::Bad, message) }
    }

    pub(crate) fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    /// Returns the server, if this check shows that it cannot start: a placeholder has no value, or the program, engine
    /// or image is missing.
    pub(crate) fn unusable_server(&self) -> Option<&str> {
        let is_needed = matches!(self.area, "variables" | "program" | "container");
        (is_needed && self.health == Health::Bad).then_some(self.subject.as_str())
    }

    /// Turns this into a check that fails the command.
    pub(crate) fn failing_with(self, exit: Exit) -> Self {
        Self { health: Health::Bad, exit, ..self }
    }

    /// Makes the check that reports a problem of a file.
    pub(crate) fn from_problem(problem: &Problem) -> Self {
        let location = problem.place();
        let message = match &problem.entry {
            Some(entry) => format!("`{entry}`: {}", problem.message),
            None => problem.message.clone(),
        };
        let check = if problem.is_error() {
            Self::bad("config", &location, message, Exit::Usage)
        } else {
            Self::doubtful("config", &location, message)
        };
        Self { hint: problem.hint.clone(), ..check }
    }
}

/// Returns a line for each check with the next step below it, and a summary at the end.
pub(crate) fn page(checks: &[Check], layout: Layout) -> String {
    let row = |check: &Check| {
        let (sign, tone) = match check.health {
            Health::Good => (Sign::Good, Tone::Good),
            Health::Doubtful => (Sign::Doubtful, Tone::Waiting),
            Health::Bad => (Sign::Bad, Tone::Bad),
        };
        vec![
            Cell::new(tone, layout.sign(sign)),
            Cell::new(Tone::Faint, check.area),
            Cell::new(Tone::Strong, text::for_line(&check.subject)),
            Cell::new(Tone::Plain, text::for_line(&check.message)),
        ]
    };
    let rows: Vec<_> = checks.iter().map(row).collect();
    let mut lines = Vec::new();
    for (check, line) in checks.iter().zip(columns(&rows)) {
        lines.push(line);
        if let Some(hint) = &check.hint {
            lines.push(format!("    {} {}", paint(Tone::Faint, "hint:"), text::for_line(hint)));
        }
    }
    let number = |health: Health| checks.iter().filter(|check| check.health == health).count();
    let (bad, doubtful) = (number(Health::Bad), number(Health::Doubtful));
    lines.push(if bad + doubtful == 0 {
        paint(Tone::Good, "nothing is wrong")
    } else {
        format!("{} and {}", count(bad, "error"), count(doubtful, "warning"))
    });
    lines.join("\n")
}
