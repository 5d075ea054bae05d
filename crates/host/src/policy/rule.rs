//! Defines one rule: the calls that the rule covers, and its effect.
//!
//! A rule covers a call if its pattern matches the tool and the call meets all further conditions. If that is
//! uncertain, a rule that denies or confirms covers the call, and a rule that allows does not. The code calls the first
//! kind *careful*. A *reading* is a copy of a rule with another meaning that its pattern may have: `a_b` is a tool of
//! any server, or the tool `b` of the server `a`.

use std::{cmp::Reverse, fmt, path::PathBuf};

use serde::Serialize;

use super::{
    RuleContext,
    argument::{ArgumentRule, BadRule},
};
use crate::{
    call::gate::{GateRequest, Verdict},
    glob::{Glob, GlobSpecificity, Pattern},
    mcp::Annotations,
    who::Who,
    witness::{Caller, Way},
};

/// The effect of a rule on the calls that it covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// The calls run.
    Allow,
    /// A user decides.
    Confirm,
    /// The calls do not run.
    Deny,
}

impl fmt::Display for Effect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Allow => "allow",
            Self::Confirm => "confirm",
            Self::Deny => "deny",
        })
    }
}

/// The place where a rule is written.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Origin {
    /// The file.
    pub path: PathBuf,
    /// The line in that file, counted from 1.
    pub line: usize,
}

/// Writes the file without its folders, and the line.
impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.path.file_name().unwrap_or_default().to_string_lossy();
        write!(f, "{}:{}", crate::text::for_line(&name), self.line)
    }
}

/// The claims that a server must make about a tool; `None` accepts any.
///
/// If a server makes no claims, MCP's defaults apply: its tool changes things, may destroy something, is not idempotent
/// and reaches the open world (MCP 2025-11-25, `ToolAnnotations`). The host cannot verify these claims.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hints {
    /// Whether the tool changes nothing.
    pub read_only: Option<bool>,
    /// Whether the tool may destroy something. A tool that changes nothing destroys nothing, whatever its server
    /// claims.
    pub destructive: Option<bool>,
    /// Whether repeated calls have the same effect as one.
    pub idempotent: Option<bool>,
    /// Whether the tool reaches beyond its server.
    pub open_world: Option<bool>,
}

impl Hints {
    fn are_met_by(self, claims: &Annotations) -> bool {
        let read_only = claims.read_only.unwrap_or(false);
        let agrees = |required: Option<bool>, claimed: bool| required.is_none_or(|required| required == claimed);
        agrees(self.read_only, read_only)
            && agrees(self.destructive, !read_only && claims.destructive.unwrap_or(true))
            && agrees(self.idempotent, claims.idempotent.unwrap_or(false))
            && agrees(self.open_world, claims.open_world.unwrap_or(true))
    }

    fn count(self) -> usize {
        let Self { read_only, destructive, idempotent, open_world } = self;
        [read_only, destructive, idempotent, open_world].into_iter().flatten().count()
    }
}

/// How specific a rule is; of two rules, the more specific one wins. The fields are compared from the first to the
/// last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Specificity {
    /// The pattern's part for the tool: a whole name is more specific than any glob, and a glob with more literal
    /// characters outside of `[…]` and `{…}` is more specific than one with fewer.
    tool: GlobSpecificity,
    /// The pattern's part for the server, compared in the same way. A pattern without this part covers every server and
    /// is the least specific.
    server: GlobSpecificity,
    /// The number of conditions on arguments.
    arguments: usize,
    /// The number of conditions on the caller: `agent`, `tenant`, `who`, `client`.
    callers: usize,
    /// The number of conditions on the server's claims.
    hints: usize,
}

/// A rule about calls.
#[derive(Clone, Debug)]
pub struct Rule {
    effect: Effect,
    pattern: Pattern,
    // The conditions on the caller. Of each non-empty list, one condition must be met.
    agent: Vec<WrittenGlob>,
    tenant: Vec<WrittenGlob>,
    who: Vec<Who>,
    client: Vec<ClientCondition>,
    arguments: Vec<ArgumentRule>,
    hints: Hints,
    origin: Option<Origin>,
    specificity: Specificity,
    /// Whether [`Self::readings`] made this rule. Such a rule is a copy of a user's rule, with another pattern that the
    /// user may have meant.
    is_reading: bool,
    /// The pattern and all conditions, as a user would write them.
    written: String,
    /// The reason that its verdicts give.
    why: String,
}

/// A glob, with the text from which it was read.
#[derive(Clone, Debug)]
struct WrittenGlob {
    written: String,
    glob: Glob,
}

impl WrittenGlob {
    fn read(written: &str) -> Result<Self, BadRule> {
        Ok(Self { written: written.to_owned(), glob: Glob::read(written, written)? })
    }
}

/// A condition on the way by which a call reaches the host, and optionally on the name that the client gives itself:
/// `gateway`, `gateway/claude-*`.
#[derive(Clone, Debug)]
struct ClientCondition {
    way: WrittenGlob,
    name: Option<WrittenGlob>,
}

impl ClientCondition {
    fn read(written: &str) -> Result<Self, BadRule> {
        let (way, name) = match written.split_once('/') {
            Some((way, name)) => (way, Some(WrittenGlob::read(name)?)),
            None => (written, None),
        };
        Ok(Self { way: WrittenGlob::read(way)?, name })
    }

    fn fits(&self, caller: &Caller) -> bool {
        // In rules, the way that the audit log calls `daemon` is also called `api`.
        let is_api = caller.way() == Way::Daemon && self.way.glob.is_match("api");
        // A client that gives no name counts as one with an empty name.
        (is_api || self.way.glob.is_match(caller.way().word()))
            && self.name.as_ref().is_none_or(|name| name.glob.is_match(caller.client_name().unwrap_or_default()))
    }

    fn written(&self) -> String {
        match &self.name {
            Some(name) => format!("{}/{}", self.way.written, name.written),
            None => self.way.written.clone(),
        }
    }
}

/// Two rules are equal if they have the same effect, the same text and the same place.
impl PartialEq for Rule {
    fn eq(&self, other: &Self) -> bool {
        self.effect == other.effect && self.origin == other.origin && self.written == other.written
    }
}

impl Rule {
    /// Creates a rule about every call of the tools that `pattern` matches.
    #[must_use]
    pub fn new(effect: Effect, pattern: Pattern) -> Self {
        let (tool, server) = pattern.specificity();
        let rule = Self {
            effect,
            pattern,
            agent: Vec::new(),
            tenant: Vec::new(),
            who: Vec::new(),
            client: Vec::new(),
            arguments: Vec::new(),
            hints: Hints::default(),
            origin: None,
            specificity: Specificity { tool, server, ..Specificity::default() },
            is_reading: false,
            written: String::new(),
            why: String::new(),
        };
        rule.with_derived_fields()
    }

    /// Restricts the rule to agents that one of these globs matches. An empty list restricts nothing, here and in the
    /// methods below.
    ///
    /// # Errors
    /// [`BadRule`] names the glob.
    pub fn agents(mut self, globs: &[String]) -> Result<Self, BadRule> {
        self.agent = globs.iter().map(|glob| WrittenGlob::read(glob)).collect::<Result<_, _>>()?;
        Ok(self.with_derived_fields())
    }

    /// Restricts the rule to tenants that one of these globs matches.
    ///
    /// # Errors
    /// The same as for [`Self::agents`].
    pub fn tenants(mut self, globs: &[String]) -> Result<Self, BadRule> {
        self.tenant = globs.iter().map(|glob| WrittenGlob::read(glob)).collect::<Result<_, _>>()?;
        Ok(self.with_derived_fields())
    }

    /// Restricts the rule to callers for whom one of these conditions is true: `group:GLOB`, `role:GLOB`,
    /// `person:GLOB`, `service:GLOB`. The last two match the issuer's subject, and never the display name.
    ///
    /// # Errors
    /// [`BadRule`] names the condition.
    pub fn who(mut self, conditions: &[String]) -> Result<Self, BadRule> {
        self.who = conditions.iter().map(|condition| Who::read(condition)).collect::<Result<_, _>>()?;
        Ok(self.with_derived_fields())
    }

    /// Restricts the rule to calls from one of these ways: `cli`, `api`, `gateway`, `agent`, `program`, each optionally
    /// followed by `/` and the client's name for itself, such as `gateway/claude-*`. The host cannot verify such a
    /// name.
    ///
    /// # Errors
    /// The same as for [`Self::agents`].
    pub fn clients(mut self, globs: &[String]) -> Result<Self, BadRule> {
        self.client = globs.iter().map(|glob| ClientCondition::read(glob)).collect::<Result<_, _>>()?;
        Ok(self.with_derived_fields())
    }

    /// Restricts the rule to calls with a matching argument; with several conditions, all must match.
    #[must_use]
    pub fn argument(mut self, argument: ArgumentRule) -> Self {
        self.arguments.push(argument);
        self.with_derived_fields()
    }

    /// Restricts the rule to tools about which their server makes these claims.
    #[must_use]
    pub fn hints(mut self, hints: Hints) -> Self {
        self.hints = hints;
        self.with_derived_fields()
    }

    /// Sets the place where the rule is written.
    #[must_use]
    pub fn written_in(mut self, origin: Origin) -> Self {
        self.origin = Some(origin);
        self.with_derived_fields()
    }

    /// Returns the effect of the rule.
    #[must_use]
    pub fn effect(&self) -> Effect {
        self.effect
    }

    /// Returns the pattern of the tools that the rule covers.
    #[must_use]
    pub fn pattern(&self) -> &Pattern {
        &self.pattern
    }

    /// Returns the place where the rule is written; `None` for a rule from a command line or the program.
    #[must_use]
    pub fn origin(&self) -> Option<&Origin> {
        self.origin.as_ref()
    }

    /// Returns the specificity of the rule.
    #[must_use]
    pub fn specificity(&self) -> Specificity {
        self.specificity
    }

    /// Returns the conditions of the rule, each as a user would write it. The first is the pattern (`tool =
    /// "github/*"`).
    #[must_use]
    pub fn conditions(&self) -> Vec<String> {
        let list = |key: &str, globs: Vec<String>| {
            let is_restricted = !globs.is_empty();
            is_restricted.then(|| format!("{key} = \"{}\"", globs.join("\", \"")))
        };
        let texts = |globs: &[WrittenGlob]| globs.iter().map(|glob| glob.written.clone()).collect::<Vec<_>>();
        let hint = |key: &str, value: Option<bool>| value.map(|value| format!("{key} = {value}"));
        let Hints { read_only, destructive, idempotent, open_world } = self.hints;
        let other_conditions = [
            list("agent", texts(&self.agent)),
            list("tenant", texts(&self.tenant)),
            list("who", self.who.iter().map(|who| who.written().to_owned()).collect()),
            list("client", self.client.iter().map(ClientCondition::written).collect()),
            hint("read_only", read_only),
            hint("destructive", destructive),
            hint("idempotent", idempotent),
            hint("open_world", open_world),
        ];
        let arguments = self.arguments.iter().map(ToString::to_string);
        [format!("tool = \"{}\"", self.pattern)]
            .into_iter()
            .chain(other_conditions.into_iter().flatten())
            .chain(arguments)
            .collect()
    }

    /// Returns copies of the rule for the other meanings that its pattern may have: one for each pair of server and
    /// tool that the user may have meant. A rule that allows is copied only for meanings that are certain.
    pub(super) fn readings(&self) -> Vec<Self> {
        let patterns = match self.effect {
            Effect::Allow => self.pattern.certain_readings(),
            Effect::Confirm | Effect::Deny => self.pattern.every_reading(),
        };
        let readings = patterns.into_iter().map(|pattern| {
            let (tool, server) = pattern.specificity();
            let specificity = Specificity { tool, server, ..self.specificity };
            Self { pattern, specificity, is_reading: true, ..self.clone() }
        });
        readings.collect()
    }

    pub(super) fn is_reading(&self) -> bool {
        self.is_reading
    }

    /// Returns whether its pattern matches the tool, by the server's own name for it or by its model-visible name.
    pub(super) fn is_about(&self, request: &GateRequest<'_>) -> bool {
        let server = request.server.as_str();
        let is_careful = self.effect != Effect::Allow;
        self.pattern.matches(server, request.tool)
            || request.catalog_tool.is_some_and(|tool| self.pattern.is_name(&tool.name, server, is_careful))
    }

    /// Returns whether the rule covers this call: the pattern matches the tool, and the call meets all conditions.
    pub(crate) fn covers(&self, request: &GateRequest<'_>, context: RuleContext<'_>) -> bool {
        self.is_about(request) && self.unmet_condition(request, context).is_none()
    }

    /// Returns the first of its conditions, other than the pattern, that the call does not meet, as a clause for users.
    pub(super) fn unmet_condition(&self, request: &GateRequest<'_>, context: RuleContext<'_>) -> Option<&'static str> {
        let fits_any = |globs: &[WrittenGlob], name: Option<&str>| {
            globs.is_empty() || name.is_some_and(|name| globs.iter().any(|written| written.glob.is_match(name)))
        };
        if !fits_any(&self.agent, context.agent) {
            return Some("it is for another agent");
        }
        let principal = request.caller.principal();
        if !fits_any(&self.tenant, Some(principal.tenant())) {
            return Some("it is for another tenant");
        }
        if !self.who.is_empty() && !self.who.iter().any(|who| who.fits(principal)) {
            return Some("it is for other people");
        }
        if !self.client.is_empty() && !self.client.iter().any(|client| client.fits(request.caller)) {
            return Some("it is for other clients");
        }
        if !self.hints.are_met_by(request.annotations) {
            return Some("the server claims something else about the tool");
        }
        // If it is uncertain whether an argument matches, a rule that denies or confirms must cover the call, and a
        // rule that allows must not.
        let is_careful = self.effect != Effect::Allow;
        let fits = |argument: &ArgumentRule| argument.fits(request.arguments, is_careful);
        (!self.arguments.iter().all(fits)).then_some("the arguments differ")
    }

    pub(super) fn verdict(&self) -> Verdict {
        let why = self.why.clone();
        match self.effect {
            Effect::Allow => Verdict::allow(why),
            Effect::Confirm => Verdict::confirm(why),
            Effect::Deny => Verdict::Deny { why },
        }
    }

    /// Returns a sort key: the rule with the smallest key wins. Origin and text decide between rules of equal rank, so
    /// that verdicts always name the same rule.
    pub(super) fn precedence(&self) -> impl Ord + use<'_> {
        let denies = self.effect == Effect::Deny;
        (Reverse((denies, self.specificity, self.effect)), &self.origin, &self.written)
    }

    /// Returns whether the rule has this pattern and no other condition.
    pub(super) fn has_only(&self, pattern: &Pattern) -> bool {
        self.pattern == *pattern && self.conditions().len() == 1
    }

    /// Computes the fields that follow from the conditions: `specificity`, `written` and `why`.
    fn with_derived_fields(mut self) -> Self {
        self.specificity.arguments = self.arguments.len();
        self.specificity.callers =
            [self.agent.is_empty(), self.tenant.is_empty(), self.who.is_empty(), self.client.is_empty()]
                .iter()
                .filter(|is_unrestricted| !**is_unrestricted)
                .count();
        self.specificity.hints = self.hints.count();
        self.written = self.conditions().join(", ");
        self.why = format!("the rule {self}");
        self
    }
}

/// Writes its effect, its pattern, and the place where it is written.
impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} `{}`", self.effect, self.pattern)?;
        match &self.origin {
            Some(origin) => write!(f, " ({origin})"),
            None => Ok(()),
        }
    }
}
