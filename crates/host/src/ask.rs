//! Questions that only the embedding program can answer: by a user, a front end or a policy of its own.
//!
//! An [`Asker`] answers all of them: whether a call may run, forms to fill in, URLs to open, requests to its model
//! (sampling), and which folders a server may know of (roots). The host declares only the asker's abilities to a
//! server, so that the server offers no tools that need others.

use std::{fmt, sync::Arc};

use futures::future::BoxFuture;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{findings::Finding, spec::ServerName, witness::Caller};

/// What an [`Asker`] can do; everything is off by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Abilities {
    /// Answers [`Asker::confirm`].
    pub confirm: bool,
    /// Fills in forms ([`Asker::elicit`] with [`Elicitation::Form`]).
    pub forms: bool,
    /// Shows URLs ([`Asker::elicit`] with [`Elicitation::Url`]).
    pub urls: bool,
    /// Has a model for [`Asker::sample`].
    pub sampling: bool,
    /// Names folders in [`Asker::roots`].
    pub roots: bool,
}

impl Abilities {
    /// No ability: the default.
    pub const NONE: Self = Self { confirm: false, forms: false, urls: false, sampling: false, roots: false };
    /// Every ability.
    pub const ALL: Self = Self { confirm: true, forms: true, urls: true, sampling: true, roots: true };

    /// What either of the two can do.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            confirm: self.confirm || other.confirm,
            forms: self.forms || other.forms,
            urls: self.urls || other.urls,
            sampling: self.sampling || other.sampling,
            roots: self.roots || other.roots,
        }
    }
}

/// Answers questions that come up while a server is used.
///
/// Every method has a default that refuses, so an implementation needs only the methods of its
/// [abilities](Asker::abilities). When the call that caused a question ends, the host drops the question's future.
/// While a question is open, the clocks of its call stand still.
///
/// An async function of [`Confirm`] is an asker that only decides about calls. It answers with a [`Confirmed`], or with
/// `true` or `false`:
///
/// ```
/// use std::sync::Arc;
/// use toolrack_host::{Host, Policy, ask::Confirm};
///
/// let asker = |question: Confirm| async move { question.read_only };
/// let builder = Host::builder().gate(Arc::new(Policy::default())).asker(Arc::new(asker));
/// # drop(builder);
/// ```
pub trait Asker: Send + Sync {
    /// What this asker can do. The host reads it when a server connects, to declare client capabilities, and at each
    /// call.
    fn abilities(&self) -> Abilities {
        Abilities::NONE
    }

    /// What this asker can do for a call that brings no asker of its own. The host declares it to servers of 2026-07-28
    /// with each call. Default: all of its [abilities](Self::abilities).
    fn abilities_in_own_calls(&self) -> Abilities {
        self.abilities()
    }

    /// Whether the host's asker never stands in for this one. By default, a question that a server asks during a call
    /// whose asker cannot answer it goes to the asker of the host.
    fn is_alone(&self) -> bool {
        false
    }

    /// The asker for the question that its server calls `name`. Questions of the input rounds of 2026-07-28 have names,
    /// and an asker that passes them on may want to keep those. `None`, the default, is this asker itself.
    fn named(&self, name: &str) -> Option<SharedAsker> {
        let _ = name;
        None
    }

    /// The asker for questions during a call of `caller`, for askers that tell the person who calls: an
    /// [elicitation](Self::elicit) does not say in whose call the server asks. Called only once there is a question.
    /// `None`, the default, is this asker itself. A [confirmation](Confirm::caller) names the caller in any case.
    fn on_behalf_of(&self, caller: &Caller) -> Option<SharedAsker> {
        let _ = caller;
        None
    }

    /// Decides whether a call may run. The host asks this when the [gate](crate::Gate) says so.
    fn confirm(&self, question: Confirm) -> BoxFuture<'_, Confirmed> {
        drop(question);
        Box::pin(async { Confirmed::No { why: None } })
    }

    /// Answers a server that wants input from the user (MCP elicitation).
    fn elicit(&self, server: ServerName, question: Elicitation) -> BoxFuture<'_, Elicited> {
        drop((server, question));
        Box::pin(async { Elicited::Decline })
    }

    /// Answers a server that asks the host's model (MCP sampling). `request` holds the parameters of
    /// `sampling/createMessage`; the answer is its result object.
    fn sample(&self, server: ServerName, request: Value) -> BoxFuture<'_, Result<Value, AskRefused>> {
        drop((server, request));
        Box::pin(async { Err(AskRefused::new("sampling is not available")) })
    }

    /// The folders that a server may know of (MCP roots).
    fn roots(&self, server: ServerName) -> BoxFuture<'_, Vec<Root>> {
        drop(server);
        Box::pin(async { Vec::new() })
    }
}

impl<F, A> Asker for F
where
    F: Fn(Confirm) -> A + Send + Sync,
    A: Future<Output: Into<Confirmed>> + Send + 'static,
{
    fn abilities(&self) -> Abilities {
        Abilities { confirm: true, ..Abilities::NONE }
    }

    fn confirm(&self, question: Confirm) -> BoxFuture<'_, Confirmed> {
        let answer = self(question);
        Box::pin(async { answer.await.into() })
    }
}

/// Answers nothing, for a program that has no user to ask.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoAsker;

impl Asker for NoAsker {}

/// A shared asker.
pub type SharedAsker = Arc<dyn Asker>;

impl fmt::Debug for dyn Asker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Asker({:?})", self.abilities())
    }
}

/// The question whether a call may run.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Confirm {
    /// The server of the tool.
    pub server: ServerName,
    /// The tool's own name.
    pub tool: String,
    /// The arguments that would be sent.
    pub arguments: Map<String, Value>,
    /// The rule that asks.
    pub why: String,
    /// The caller.
    pub caller: Caller,
    /// Whether the server claims that the tool changes nothing.
    pub read_only: bool,
    /// Whether the server claims that the tool may destroy something.
    pub destructive: bool,
    /// What the server says of the tool; untrusted.
    pub description: Option<String>,
    /// Findings in the definition of the tool alone, without regard to other tools.
    pub findings: Vec<Finding>,
    /// For how long an answer can count.
    pub lasting: Lasting,
    /// Answers the asker's queries about the call.
    pub(crate) review: Option<Reviewer>,
}

/// For how long an answer can count, at most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lasting {
    /// For this call. The default.
    #[default]
    Once,
    /// Until the program ends.
    Session,
    /// For good.
    Always,
}

/// Answers an asker's questions about a call under review.
pub(crate) trait Review: Send + Sync {
    fn is_answered(&self) -> bool;
    fn check(self: Arc<Self>, arguments: Map<String, Value>) -> BoxFuture<'static, Result<(), String>>;
}

#[derive(Clone)]
pub(crate) struct Reviewer(Arc<dyn Review>);

impl fmt::Debug for Reviewer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Reviewer")
    }
}

impl Confirm {
    /// A question about a tool without description or hints.
    #[must_use]
    pub fn new(
        server: ServerName,
        tool: impl Into<String>,
        arguments: Map<String, Value>,
        why: impl Into<String>,
    ) -> Self {
        let (tool, why) = (tool.into(), why.into());
        Self {
            server,
            tool,
            arguments,
            why,
            caller: Caller::default(),
            read_only: false,
            destructive: false,
            description: None,
            findings: Vec::new(),
            lasting: Lasting::Once,
            review: None,
        }
    }

    pub(crate) fn under(self, review: Arc<dyn Review>) -> Self {
        Self { review: Some(Reviewer(review)), ..self }
    }

    /// Whether the answer to another question has answered this one meanwhile. An asker that asks one question after
    /// the other can then skip this one.
    #[must_use]
    pub fn is_answered(&self) -> bool {
        self.review.as_ref().is_some_and(|review| review.0.is_answered())
    }

    /// Whether the call could be made with these arguments instead. The host checks again before it sends them, so this
    /// only lets an asker tell the person at once.
    ///
    /// # Errors
    /// A rule that forbids it, or what the tool does not take, in words for a person.
    pub fn check(&self, arguments: Map<String, Value>) -> BoxFuture<'static, Result<(), String>> {
        match &self.review {
            Some(review) => Arc::clone(&review.0).check(arguments),
            None => Box::pin(async { Ok(()) }),
        }
    }
}

/// The answer to [`Confirm`].
#[derive(Clone, Debug, PartialEq)]
pub enum Confirmed {
    /// Run it as asked.
    Yes,
    /// Run it with these arguments instead. They are checked and judged again before they are sent.
    Edited(Map<String, Value>),
    /// Run it, and calls like it from now on, as far as [that is possible](Confirm::lasting). It covers only tools with
    /// their current definitions: a tool that changes is asked about again.
    Kept {
        /// Which calls, and for how long.
        keep: Keep,
        /// Run this one with these arguments instead.
        arguments: Option<Map<String, Value>>,
    },
    /// Do not run it.
    No {
        /// The user's reason, if the user gave one.
        why: Option<String>,
    },
}

impl From<bool> for Confirmed {
    fn from(runs: bool) -> Self {
        if runs { Self::Yes } else { Self::No { why: None } }
    }
}

/// What else an answer is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// Nothing.
    Once,
    /// Calls of this tool, until the program ends.
    Session,
    /// Calls of this tool, for good.
    Tool,
    /// Calls of every tool that its server has now, for good.
    Server,
}

/// What a server wants from the user.
#[derive(Clone, Debug, PartialEq)]
pub enum Elicitation {
    /// Fill in a form. Never a place for secrets.
    Form {
        /// The server's text; untrusted.
        message: String,
        /// A flat JSON Schema of the fields.
        schema: Value,
    },
    /// Visit a URL. It must be shown whole and never opened, or even fetched, without consent.
    Url {
        /// The server's text; untrusted.
        message: String,
        /// An `https` URL, or `http` on loopback; the host refuses every other URL without asking.
        url: String,
        /// The server's name for this exchange, when it gave one.
        id: Option<String>,
    },
}

/// The answer to an [`Elicitation`].
#[derive(Clone, Debug, PartialEq)]
pub enum Elicited {
    /// The user agreed. Holds the fields of a form; the host fills fields that are missing with the schema's defaults.
    Accept(Map<String, Value>),
    /// The user declined.
    Decline,
    /// The user left without deciding.
    Cancel,
}

/// A folder that a server may know of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Root {
    /// A `file://` URI.
    pub uri: String,
    /// A name for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// The asker did not answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct AskRefused {
    why: String,
}

impl AskRefused {
    /// `why` is sent to the server.
    pub fn new(why: impl Into<String>) -> Self {
        Self { why: why.into() }
    }
}
