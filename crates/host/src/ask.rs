//! Defines the [`Asker`], by which the embedding program answers questions that the host cannot answer itself. The
//! program may ask a user, show a form or apply a policy.
//!
//! There are five kinds of questions: whether a call may run, forms to fill in, URLs to open, requests to the program's
//! model (sampling), and which folders a server may know of (roots). The host declares to a server only what the asker
//! can do. So the server offers no tools that need more.

use std::{fmt, sync::Arc};

use futures::future::BoxFuture;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{findings::Finding, spec::ServerName, witness::Caller};

/// What an [`Asker`] can do; everything is off by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Abilities {
    /// Whether the asker answers [`Asker::confirm`].
    pub confirm: bool,
    /// Whether the asker fills in forms ([`Asker::elicit`] with [`Elicitation::Form`]).
    pub forms: bool,
    /// Whether the asker shows URLs ([`Asker::elicit`] with [`Elicitation::Url`]).
    pub urls: bool,
    /// Whether the asker has a model for [`Asker::sample`].
    pub sampling: bool,
    /// Whether the asker names folders in [`Asker::roots`].
    pub roots: bool,
}

impl Abilities {
    /// No ability: the default.
    pub const NONE: Self = Self { confirm: false, forms: false, urls: false, sampling: false, roots: false };
    /// Every ability.
    pub const ALL: Self = Self { confirm: true, forms: true, urls: true, sampling: true, roots: true };

    /// Returns the abilities that at least one of the two has.
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

/// Answers questions that arise while a server is used.
///
/// Every method has a default that refuses, so an implementation needs only the methods of its
/// [abilities](Asker::abilities). When the call that caused a question ends, the host drops the question's future.
/// While a question is open, the time-outs of its call are paused.
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
    /// Returns the abilities of this asker. The host reads them when a server connects, to declare client capabilities,
    /// and at each call.
    fn abilities(&self) -> Abilities {
        Abilities::NONE
    }

    /// Returns the abilities of this asker in calls that do not bring an asker of their own. The host declares them to
    /// servers of 2026-07-28 with each such call. Default: all of its [abilities](Self::abilities).
    fn abilities_in_own_calls(&self) -> Abilities {
        self.abilities()
    }

    /// Returns whether only this asker may answer questions that arise during its calls. If not, which is the default,
    /// a server's question that this asker cannot answer goes to the asker of the host.
    fn is_exclusive(&self) -> bool {
        false
    }

    /// Returns the asker for the question that a server calls `name`; `None`, the default, means this asker itself. In
    /// MCP 2026-07-28, a server may return questions in place of a result, each under a name. An asker that forwards
    /// such a question may need the name.
    fn for_question(&self, name: &str) -> Option<SharedAsker> {
        let _ = name;
        None
    }

    /// Returns the asker for questions during a call of `caller`; `None`, the default, for this asker itself. An asker
    /// that shows the caller to the user needs this, because an [elicitation](Self::elicit) does not name the caller. A
    /// [confirmation](Confirm::caller) names the caller in any case. The host calls this only once there is a question.
    fn on_behalf_of(&self, caller: &Caller) -> Option<SharedAsker> {
        let _ = caller;
        None
    }

    /// Decides whether a call may run. The host calls this when the [gate](crate::Gate) requires a user's decision.
    fn confirm(&self, question: Confirm) -> BoxFuture<'_, Confirmed> {
        drop(question);
        Box::pin(async { Confirmed::No { why: None } })
    }

    /// Answers a server that wants input from the user (MCP elicitation).
    fn elicit(&self, server: ServerName, question: Elicitation) -> BoxFuture<'_, Elicited> {
        drop((server, question));
        Box::pin(async { Elicited::Decline })
    }

    /// Answers a server's request to the host's model (MCP sampling). `request` holds the parameters of
    /// `sampling/createMessage`; the answer is its result object.
    fn sample(&self, server: ServerName, request: Value) -> BoxFuture<'_, Result<Value, AskRefused>> {
        drop((server, request));
        Box::pin(async { Err(AskRefused::new("sampling is not available")) })
    }

    /// Returns the folders that a server may know of (MCP roots).
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

/// Refuses every question, for a program that has no user to ask.
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
    /// The arguments to send.
    pub arguments: Map<String, Value>,
    /// The rule that requires the confirmation.
    pub why: String,
    /// The caller.
    pub caller: Caller,
    /// Whether the server claims that the tool changes nothing.
    pub read_only: bool,
    /// Whether the server claims that the tool may destroy something.
    pub destructive: bool,
    /// The server's description of the tool; untrusted.
    pub description: Option<String>,
    /// The findings in the definition of the tool alone, without regard to other tools.
    pub findings: Vec<Finding>,
    /// The longest time for which the answer can be remembered.
    pub lasting: AnswerLifetime,
    /// The call that waits for the answer, as the asker may see it; `None` for a question of [`Self::new`].
    pub(crate) review: Option<Reviewer>,
}

/// The longest time for which an answer can be remembered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum AnswerLifetime {
    /// For this call only. The default.
    #[default]
    Once,
    /// Until the program ends.
    Session,
    /// Permanently.
    Always,
}

/// A call that waits for the answer to a [`Confirm`], as its asker sees it.
pub(crate) trait Review: Send + Sync {
    /// See [`Confirm::is_answered`].
    fn is_answered(&self) -> bool;
    /// See [`Confirm::check`].
    fn check(self: Arc<Self>, arguments: Map<String, Value>) -> BoxFuture<'static, Result<(), String>>;
    /// See [`Confirm::set_answerer`].
    fn set_answerer(&self, answerer: Caller);
}

/// A shared [`Review`].
#[derive(Clone)]
pub(crate) struct Reviewer(Arc<dyn Review>);

impl fmt::Debug for Reviewer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Reviewer")
    }
}

impl Confirm {
    /// Creates a question about a tool without description or hints. A program can test its asker with it: no call
    /// waits for the answer.
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
            lasting: AnswerLifetime::Once,
            review: None,
        }
    }

    /// Ties the question to the call that waits for the answer.
    pub(crate) fn with_review(self, review: Arc<dyn Review>) -> Self {
        Self { review: Some(Reviewer(review)), ..self }
    }

    /// Returns whether the answer to another question has settled this one meanwhile. An asker that shows one question
    /// after the other can then skip this one.
    #[must_use]
    pub fn is_answered(&self) -> bool {
        self.review.as_ref().is_some_and(|review| review.0.is_answered())
    }

    /// Names the user who answers, for the audit log. Default: the user of the [caller](Self::caller). An asker must
    /// call this before it returns the answer.
    pub fn set_answerer(&self, answerer: Caller) {
        if let Some(review) = &self.review {
            review.0.set_answerer(answerer);
        }
    }

    /// Checks whether the call could be made with these arguments instead, so that an asker can report a problem to the
    /// user at once. The host checks the arguments again before it sends them.
    ///
    /// # Errors
    /// A text for the user: the rule that forbids the call, or the argument that the tool does not accept.
    pub fn check(&self, arguments: Map<String, Value>) -> BoxFuture<'static, Result<(), String>> {
        match &self.review {
            Some(review) => Arc::clone(&review.0).check(arguments),
            None => Box::pin(async { Ok(()) }),
        }
    }
}

/// The answer to a [`Confirm`].
#[derive(Clone, Debug, PartialEq)]
pub enum Confirmed {
    /// Run the call unchanged.
    Yes,
    /// Run the call with these arguments instead. The host checks and judges them again before it sends them.
    Edited(Map<String, Value>),
    /// Run the call, and from now on run similar calls without a question, as far as [possible](Confirm::lasting). The
    /// answer covers only tools with their current definitions: after a tool has changed, the host asks again.
    Kept {
        /// The calls that the answer covers, and for how long.
        keep: AnswerScope,
        /// Whose calls the answer covers.
        callers: Callers,
        /// The arguments for this call, if they differ from the arguments in the question.
        arguments: Option<Map<String, Value>>,
    },
    /// Do not run the call.
    No {
        /// The user's reason, if the user gave one.
        why: Option<String>,
    },
}

impl From<bool> for Confirmed {
    fn from(is_allowed: bool) -> Self {
        if is_allowed { Self::Yes } else { Self::No { why: None } }
    }
}

/// The further calls that an answer covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerScope {
    /// No further calls.
    Once,
    /// Calls of this tool, until the program ends.
    Session,
    /// Calls of this tool, permanently.
    Tool,
    /// Calls of every current tool of its server, permanently.
    Server,
}

/// Whose calls an answer covers. On a host that only one user calls, both mean the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Callers {
    /// The calls of the principal (the person or service) whose call the question is about.
    #[default]
    Same,
    /// The calls of all principals. The asker must know that its user may decide for all of them.
    All,
}

/// A server's request to the user.
#[derive(Clone, Debug, PartialEq)]
pub enum Elicitation {
    /// Fill in a form. A form must never ask for secrets.
    Form {
        /// The server's text; untrusted.
        message: String,
        /// A flat JSON Schema of the fields.
        schema: Value,
    },
    /// Open a URL. An asker must show it whole, and must not open or fetch it without consent.
    Url {
        /// The server's text; untrusted.
        message: String,
        /// An `https` URL, or `http` on loopback; the host refuses every other URL without asking.
        url: String,
        /// The server's id of this exchange, if the server sent one.
        id: Option<String>,
    },
}

/// The answer to an [`Elicitation`].
#[derive(Clone, Debug, PartialEq)]
pub enum Elicited {
    /// The user agreed. Holds the fields of a form; the host gives missing fields the defaults of the
    /// schema.
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
    /// Creates the refusal; the host sends `why` to the server.
    pub fn new(why: impl Into<String>) -> Self {
        Self { why: why.into() }
    }
}
