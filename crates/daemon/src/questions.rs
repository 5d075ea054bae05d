//! The questions of a world (a host with its rules and events) that wait for a user: approvals of calls, and the
//! questions of servers.

use std::{
    collections::BTreeMap,
    sync::{Arc, OnceLock},
    time::Duration,
};

use chrono::Utc;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use rand::Rng as _;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tokio::{sync::oneshot, time::timeout};
use toolrack_config::Interpolate;
use toolrack_host::{
    Abilities, Asker, Caller, Principal, ServerName, SharedAsker, Way,
    ask::{AnswerLifetime, AnswerScope, Callers, Confirm, Confirmed, Elicitation, Elicited},
    principal::Kind,
};
use utoipa::ToSchema;

use crate::{
    event_log::{Audience, EventLog, conceal},
    rights::Right,
    shown::{self, CallerView, Finding},
};

/// The maximum number of open questions. Further ones are declined.
const MAX_OPEN: usize = 100;
/// The maximum number of open questions about calls of one member, so that one member leaves room for the others.
const MAX_OPEN_OF_MEMBER: usize = 20;

/// The [`Asker`] of a daemon, which takes the questions of the host. A question waits until a person answers it in the
/// dashboard or over the API, or until the call that caused it ends. After a time limit, the question is declined.
///
/// Each question gets at most one answer. The host, and not this type, remembers answers that cover more than one call.
#[derive(Clone, Debug)]
pub struct Questions {
    inner: Arc<Inner>,
    /// The caller in whose call the questions are asked, if known.
    caller: Option<Caller>,
    /// Hides the secrets of the member in whose world the questions are asked.
    secrets: Option<Arc<Interpolate>>,
}

#[derive(Debug)]
struct Inner {
    /// The end of the ids of these questions. Each world and each start of the daemon has another one, so that a late
    /// answer cannot fit another question.
    id_suffix: u32,
    open: Mutex<OpenQuestions>,
    answer_timeout: Duration,
    /// Gets the events of questions. Set once the world runs.
    log: OnceLock<Arc<EventLog>>,
    /// The agent to whose world the questions belong, and the daemon's own event log, which gets their events, too.
    agent_log: OnceLock<(String, Arc<EventLog>)>,
}

/// The open questions.
#[derive(Debug, Default)]
struct OpenQuestions {
    /// The number of the last question.
    last_number: u64,
    by_number: BTreeMap<u64, OpenQuestion>,
}

impl OpenQuestions {
    fn has_room_for(&self, principal: &Principal) -> bool {
        let count = || self.by_number.values().filter(|open| open.question.principal.is_same(principal)).count();
        self.by_number.len() < MAX_OPEN && (principal.is_local() || count() < MAX_OPEN_OF_MEMBER)
    }
}

/// An open question.
#[derive(Debug)]
struct OpenQuestion {
    question: Question,
    /// For an approval: the question as the host asked it, which can check changed arguments.
    approval: Option<Confirm>,
    answer_sender: oneshot::Sender<(Answer, Principal)>,
}

/// A question as it is shown.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct Question {
    /// Identifies the question in an answer.
    #[schema(example = "q12-5f0c9a3e")]
    pub(crate) id: String,
    /// The agent in whose world it is asked, if another world shows it.
    agent: Option<String>,
    /// The caller of the call that it is about, or in which a server asks; `null` if the caller is not known.
    caller: Option<CallerView>,
    /// The principal whose call it is about; the user of the machine if that is not known.
    #[serde(skip)]
    principal: Principal,
    /// What is asked.
    #[serde(flatten)]
    pub(crate) content: QuestionContent,
    /// Since when it waits, in RFC 3339.
    asked_at: String,
    /// When it is answered with no, in RFC 3339.
    expires_at: String,
}

/// The question itself. Texts of servers are untrusted.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(crate) enum QuestionContent {
    /// May this call run?
    Approval {
        /// The server of the tool.
        server: String,
        /// The tool's own name.
        tool: String,
        /// Exactly what would be sent.
        #[schema(value_type = Object)]
        arguments: Map<String, Value>,
        /// The rule because of which the user is asked.
        why: String,
        /// The server claims that the tool changes nothing.
        read_only: bool,
        /// The server claims that the tool may destroy something.
        destructive: bool,
        /// The server's description of the tool.
        description: Option<String>,
        /// Findings in the definition of the tool, for a user to look at.
        findings: Vec<Finding>,
        /// The longest time for which an answer can be valid: `once`, `session` (until the daemon ends) or `always`.
        lasting: String,
    },
    /// A server wants a form filled in.
    Form {
        /// The name of the server.
        server: String,
        /// The server's message.
        message: String,
        /// A flat JSON Schema of the fields.
        #[schema(value_type = Object)]
        schema: Value,
    },
    /// A server wants a URL visited.
    Url {
        /// The name of the server.
        server: String,
        /// The server's message.
        message: String,
        /// The whole URL; never to be opened without consent.
        url: String,
    },
}

/// An answer.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[schema(as = QuestionAnswer)]
#[serde(deny_unknown_fields)]
pub(crate) struct Answer {
    /// To an approval: `once`, `session`, `always_tool`, `always_server` or `deny`. To any other question: `accept`,
    /// `decline` or `cancel`. An answer is valid for at most the time in `lasting` of its question.
    answer: AnswerWord,
    /// To an approval: the arguments with which the call runs instead.
    #[schema(value_type = Option<Object>)]
    arguments: Option<Map<String, Value>>,
    /// To an approval with `deny`: the reason, for the model.
    why: Option<String>,
    /// The fields of a form.
    #[schema(value_type = Option<Object>)]
    content: Option<Map<String, Value>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, ToSchema)]
#[schema(as = QuestionAnswerWord)]
#[serde(rename_all = "snake_case")]
pub(crate) enum AnswerWord {
    Once,
    Session,
    AlwaysTool,
    AlwaysServer,
    Deny,
    Accept,
    Decline,
    Cancel,
}

/// Why an answer was not accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum AnswerRefused {
    /// The question was answered or withdrawn, its time is up, or it never existed.
    NotOpen,
    /// The answer is for another kind of question.
    OtherKind,
    /// The call cannot be made with these arguments.
    BadArguments(String),
    /// Only a person approves.
    NotAPerson,
    /// Only the caller may change what they call.
    NotTheCaller,
}

/// Why a question got no answer.
#[derive(Clone, Copy, Debug)]
enum Unanswered {
    /// Too many questions are open already, so this one was not asked.
    TooMany,
    /// No answer came in time.
    TimedOut,
}

impl Unanswered {
    fn message(self) -> String {
        match self {
            Self::TooMany => format!(
                "no person was asked, because too many questions wait for an answer already ({MAX_OPEN}, or \
                 {MAX_OPEN_OF_MEMBER} of one member)"
            ),
            Self::TimedOut => "no person answered in time".to_owned(),
        }
    }
}

impl Question {
    /// Returns the question as it is shown outside of the world of `agent`. Its id begins with the agent.
    pub(crate) fn for_agent(self, agent: &str) -> Self {
        Self { id: prefixed_id(agent, &self.id), agent: Some(agent.to_owned()), ..self }
    }

    /// Returns whether `principal` may see and answer the question.
    fn is_for(&self, principal: &Principal) -> bool {
        self.audience().may_answer(principal)
    }

    fn audience(&self) -> Audience {
        match self.content {
            QuestionContent::Approval { .. } => Audience::Approval(self.principal.clone()),
            QuestionContent::Form { .. } | QuestionContent::Url { .. } => Audience::Question(self.principal.clone()),
        }
    }
}

/// The id that a question of an agent's world has in other worlds.
fn prefixed_id(agent: &str, id: &str) -> String {
    format!("{agent}:{id}")
}

/// Splits an id that [`Question::for_agent`] made into the agent, and the id in the agent's world.
pub(crate) fn split_prefixed_id(id: &str) -> Option<(&str, &str)> {
    id.rsplit_once(':')
}

impl Questions {
    /// Starts without questions. A question that gets no answer within `answer_timeout` is declined.
    #[must_use]
    pub fn new(answer_timeout: Duration) -> Self {
        let (id_suffix, open) = (rand::rng().random(), Mutex::default());
        let inner = Inner { id_suffix, open, answer_timeout, log: OnceLock::new(), agent_log: OnceLock::new() };
        Self { inner: Arc::new(inner), caller: None, secrets: None }
    }

    /// Returns a handle for the world of a member. Questions through this handle do not show the member's `secrets` to
    /// the users who answer for the tenant.
    #[must_use]
    pub fn concealing(&self, secrets: Arc<Interpolate>) -> Self {
        Self { secrets: Some(secrets), ..self.clone() }
    }

    /// From now on, `log` gets an event when a question is opened and when it is closed. Only the first call counts.
    pub(crate) fn set_log(&self, log: Arc<EventLog>) {
        let _ = self.inner.log.set(log);
    }

    /// Returns the log of these questions.
    pub(crate) fn log(&self) -> Option<&Arc<EventLog>> {
        self.inner.log.get()
    }

    /// From now on, `log`, which belongs to the daemon's own world, also gets these events, as questions of `agent`.
    /// Only the first call counts.
    pub(crate) fn log_to_daemon(&self, agent: &str, log: Arc<EventLog>) {
        let _ = self.inner.agent_log.set((agent.to_owned(), log));
    }

    /// Returns the agent in whose world these questions are asked.
    pub(crate) fn agent(&self) -> Option<&str> {
        self.inner.agent_log.get().map(|(agent, _)| agent.as_str())
    }

    /// Returns `principal` as a caller that reaches this world through `way`.
    pub(crate) fn caller(&self, principal: Principal, way: Way) -> Caller {
        let caller = Caller::of(principal, way);
        match self.agent() {
            Some(agent) => caller.with_agent(agent),
            None => caller,
        }
    }

    /// The open questions that `principal` may answer, the oldest first.
    pub(crate) fn open(&self, principal: &Principal) -> Vec<Question> {
        let open_questions = self.inner.open.lock();
        let questions = open_questions.by_number.values().map(|open_question| &open_question.question);
        questions.filter(|question| question.is_for(principal)).cloned().collect()
    }

    /// How many open questions `principal` may answer.
    pub(crate) fn count_for(&self, principal: &Principal) -> usize {
        let open_questions = self.inner.open.lock();
        open_questions.by_number.values().filter(|open_question| open_question.question.is_for(principal)).count()
    }

    /// How many questions are open, of all callers.
    pub(crate) fn count(&self) -> usize {
        self.inner.open.lock().by_number.len()
    }

    /// Answers the question `id` for `principal`. An answer for more than one call covers only the principal's own
    /// calls, unless the principal may answer for others of its tenant.
    ///
    /// # Errors
    /// When the question is not open any more, when the answer does not fit the question or the principal, or when the
    /// call cannot run with the answer's arguments. In all but the first case, the question stays open.
    pub(crate) async fn answer(&self, id: &str, principal: &Principal, answer: Answer) -> Result<(), AnswerRefused> {
        let number = self.inner.number(id).ok_or(AnswerRefused::NotOpen)?;
        let approval = self.inner.approval(number, principal, &answer)?;
        if let Some(question) = approval {
            if principal.kind() != Kind::Person {
                return Err(AnswerRefused::NotAPerson);
            }
            if let Some(arguments) = answer.arguments.as_ref().filter(|_| answer.answer != AnswerWord::Deny) {
                if !question.caller.principal().is_same(principal) {
                    return Err(AnswerRefused::NotTheCaller);
                }
                question.check(arguments.clone()).await.map_err(AnswerRefused::BadArguments)?;
            }
        }
        let open_question = self.inner.open.lock().by_number.remove(&number).ok_or(AnswerRefused::NotOpen)?;
        // Fails if the call that asked has ended at this moment.
        open_question.answer_sender.send((answer, principal.clone())).map_err(|_| AnswerRefused::NotOpen)
    }

    /// Asks a question, and waits for the answer and its principal. Dropping the future withdraws the question.
    async fn ask(
        &self,
        content: QuestionContent,
        approval: Option<Confirm>,
    ) -> Result<(Answer, Principal), Unanswered> {
        let (answer_sender, answer_receiver) = oneshot::channel();
        let caller = approval.as_ref().map(|approval| &approval.caller).or(self.caller.as_ref()).cloned();
        let content = match &self.secrets {
            Some(secrets) => content.concealed(secrets),
            None => content,
        };
        let opened = self.inner.open_question(content, caller, approval, answer_sender);
        let (number, audience) = opened.ok_or(Unanswered::TooMany)?;
        let withdraw = WithdrawOnDrop { inner: &self.inner, number, audience };
        let answer = timeout(self.inner.answer_timeout, answer_receiver).await;
        drop(withdraw);
        // The sender is dropped only with an answer, so the only other outcome is that the time was up.
        answer.ok().and_then(Result::ok).ok_or(Unanswered::TimedOut)
    }
}

impl QuestionContent {
    /// The same question without secrets. The call still runs with its original arguments.
    fn concealed(mut self, secrets: &Interpolate) -> Self {
        let hide = |text: &mut String| *text = secrets.conceal(text).into_owned();
        match &mut self {
            Self::Approval { arguments, why, .. } => {
                let mut value = Value::Object(std::mem::take(arguments));
                conceal(&mut value, secrets);
                if let Value::Object(concealed) = value {
                    *arguments = concealed;
                }
                hide(why);
            }
            Self::Form { message, schema, .. } => {
                hide(message);
                conceal(schema, secrets);
            }
            Self::Url { message, url, .. } => {
                hide(message);
                hide(url);
            }
        }
        self
    }
}

impl AnswerWord {
    /// Whose calls an answer with this word covers, when `principal` gives it. Only a permanent answer can cover the
    /// calls of all callers, because a user can find it in a list and take it back.
    fn callers(self, principal: &Principal) -> Callers {
        match self {
            Self::AlwaysTool | Self::AlwaysServer if Right::Operate.is_held_by(principal) => Callers::All,
            _ => Callers::Same,
        }
    }

    fn is_for_approvals(self) -> bool {
        matches!(self, Self::Once | Self::Session | Self::AlwaysTool | Self::AlwaysServer | Self::Deny)
    }
}

impl Inner {
    /// The id of the question with this number.
    fn id(&self, number: u64) -> String {
        format!("q{number}-{:08x}", self.id_suffix)
    }

    /// The number of the question with this `id`, if it was asked here.
    fn number(&self, id: &str) -> Option<u64> {
        let number = id.strip_prefix('q')?.split_once('-')?.0.parse().ok()?;
        (self.id(number) == id).then_some(number)
    }

    /// The approval for which the question asks, if it asks for one.
    ///
    /// # Errors
    /// When the question is not open, when `principal` may not answer it, or when `answer` is for another kind of
    /// question.
    fn approval(&self, number: u64, principal: &Principal, answer: &Answer) -> Result<Option<Confirm>, AnswerRefused> {
        let open_questions = self.open.lock();
        let open_question =
            open_questions.by_number.get(&number).filter(|open_question| open_question.question.is_for(principal));
        let open_question = open_question.ok_or(AnswerRefused::NotOpen)?;
        match open_question.approval.is_some() == answer.answer.is_for_approvals() {
            true => Ok(open_question.approval.clone()),
            false => Err(AnswerRefused::OtherKind),
        }
    }

    /// Opens a question. Returns its number, and who may see it; `None` if too many questions are open.
    fn open_question(
        &self,
        content: QuestionContent,
        caller: Option<Caller>,
        approval: Option<Confirm>,
        answer_sender: oneshot::Sender<(Answer, Principal)>,
    ) -> Option<(u64, Audience)> {
        // The default is the user of the machine.
        let principal = caller.as_ref().map(|caller| caller.principal().clone()).unwrap_or_default();
        let mut open_questions = self.open.lock();
        if !open_questions.has_room_for(&principal) {
            return None;
        }
        open_questions.last_number += 1;
        let number = open_questions.last_number;
        let now = Utc::now();
        let question = Question {
            id: self.id(number),
            agent: None,
            caller: caller.as_ref().map(CallerView::from),
            principal,
            content,
            asked_at: shown::rfc3339_millis(now),
            expires_at: shown::rfc3339_millis(now + self.answer_timeout),
        };
        let (shown_question, audience) = (question.clone(), question.audience());
        open_questions.by_number.insert(number, OpenQuestion { question, approval, answer_sender });
        drop(open_questions);
        self.log_opened(&shown_question);
        Some((number, audience))
    }

    /// Logs an event about a question in this world's log and, for the world of an agent, also in the daemon's log.
    /// `event` makes the event: for the daemon's log it gets the name of the agent, for this world's log `None`.
    fn log_event(&self, name: &str, audience: Audience, event: impl Fn(Option<&str>) -> Value) {
        if let Some(log) = self.log.get() {
            log.add(name, audience.clone(), &event(None));
        }
        if let Some((agent, log)) = self.agent_log.get() {
            let mut event = event(Some(agent));
            event["agent"] = json!(agent);
            log.add(name, audience, &event);
        }
    }

    fn log_opened(&self, question: &Question) {
        self.log_event("question_opened", question.audience(), |agent| match agent {
            Some(agent) => json!({ "question": question.clone().for_agent(agent) }),
            None => json!({ "question": question }),
        });
    }

    fn log_closed(&self, number: u64, audience: Audience) {
        let id = self.id(number);
        let shown_id = |agent: Option<&str>| agent.map_or_else(|| id.clone(), |agent| prefixed_id(agent, &id));
        self.log_event("question_closed", audience, |agent| json!({ "id": shown_id(agent) }));
    }
}

/// Closes a question when it is dropped, whether the question was answered or the future that asked it was dropped.
struct WithdrawOnDrop<'a> {
    inner: &'a Inner,
    number: u64,
    /// Who may see the event that the question was closed.
    audience: Audience,
}

impl Drop for WithdrawOnDrop<'_> {
    fn drop(&mut self) {
        self.inner.open.lock().by_number.remove(&self.number);
        self.inner.log_closed(self.number, self.audience.clone());
    }
}

impl Asker for Questions {
    fn abilities(&self) -> Abilities {
        Abilities { confirm: true, forms: true, urls: true, ..Abilities::NONE }
    }

    fn on_behalf_of(&self, caller: &Caller) -> Option<SharedAsker> {
        Some(Arc::new(Self { caller: Some(caller.clone()), ..self.clone() }))
    }

    fn confirm(&self, question: Confirm) -> BoxFuture<'_, Confirmed> {
        Box::pin(async move {
            let (approval, question_for_answerer) = (question.clone(), question.clone());
            let content = QuestionContent::Approval {
                server: question.server.to_string(),
                tool: question.tool,
                arguments: question.arguments,
                why: question.why,
                read_only: question.read_only,
                destructive: question.destructive,
                description: question.description,
                findings: question.findings.into_iter().map(Finding::from).collect(),
                lasting: lasting_name(question.lasting).to_owned(),
            };
            let (answer, answerer) = match self.ask(content, Some(approval)).await {
                Ok(answer) => answer,
                Err(unanswered) => return Confirmed::No { why: Some(unanswered.message()) },
            };
            let (arguments, callers) = (answer.arguments, answer.answer.callers(&answerer));
            question_for_answerer.set_answerer(Caller::of(answerer, Way::Daemon));
            match answer.answer {
                AnswerWord::Once => arguments.map_or(Confirmed::Yes, Confirmed::Edited),
                AnswerWord::Session => Confirmed::Kept { keep: AnswerScope::Session, callers, arguments },
                AnswerWord::AlwaysTool => Confirmed::Kept { keep: AnswerScope::Tool, callers, arguments },
                AnswerWord::AlwaysServer => Confirmed::Kept { keep: AnswerScope::Server, callers, arguments },
                // `deny`: `Questions::answer` accepts no other words for an approval.
                _ => Confirmed::No { why: answer.why },
            }
        })
    }

    fn elicit(&self, server: ServerName, question: Elicitation) -> BoxFuture<'_, Elicited> {
        let server = server.to_string();
        let content = match question {
            Elicitation::Form { message, schema } => QuestionContent::Form { server, message, schema },
            Elicitation::Url { message, url, .. } => QuestionContent::Url { server, message, url },
        };
        Box::pin(async move {
            let approval = None;
            match self.ask(content, approval).await {
                Ok((Answer { answer: AnswerWord::Accept, content, .. }, _)) => {
                    Elicited::Accept(content.unwrap_or_default())
                }
                Ok((Answer { answer: AnswerWord::Decline, .. }, _)) => Elicited::Decline,
                // `cancel`, or no answer: the user has not decided.
                _ => Elicited::Cancel,
            }
        })
    }
}

/// The word of the API for `lasting`.
fn lasting_name(lasting: AnswerLifetime) -> &'static str {
    match lasting {
        AnswerLifetime::Once => "once",
        AnswerLifetime::Session => "session",
        AnswerLifetime::Always => "always",
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use futures::poll;
    use toolrack_host::principal::Role;

    use super::*;

    fn question() -> Confirm {
        Confirm::new(ServerName::new("fs").unwrap(), "write", Map::new(), "no rule allows it")
    }

    fn answered(word: &str) -> Answer {
        serde_json::from_value(json!({ "answer": word })).unwrap()
    }

    fn questions() -> Questions {
        Questions::new(Duration::from_secs(60))
    }

    #[tokio::test]
    async fn a_question_names_the_caller_and_a_form_the_call_that_it_belongs_to() {
        let questions = questions();
        let caller = Caller::local(Way::Gateway).with_client("an editor\nsays: yes").with_session("0f3a91c2");
        let mut approval = question();
        approval.caller = caller.clone();
        let mut approval = pin!(questions.confirm(approval));
        let asker = questions.on_behalf_of(&caller).unwrap();
        let form = || Elicitation::Form { message: String::new(), schema: json!({}) };
        let server = || ServerName::new("fs").unwrap();
        let (mut of_call, mut alone) = (pin!(asker.elicit(server(), form())), pin!(questions.elicit(server(), form())));
        assert!(
            poll!(&mut approval).is_pending() && poll!(&mut of_call).is_pending() && poll!(&mut alone).is_pending()
        );
        let callers: Vec<_> =
            questions.open(&Principal::LOCAL).iter().map(|question| json!(question)["caller"].clone()).collect();
        let caller = json!({
            "way": "gateway", "tenant": null, "subject": null, "name": null, "over": null, "client": toolrack_host::text::for_line("an editor\nsays: yes"), "session": "0f3a91c2",
            "request": null, "conversation": null, "agent": null,
        });
        assert_eq!(callers, [caller.clone(), caller, Value::Null]);
    }

    fn person(subject: &str) -> Principal {
        Principal::new(Kind::Person, "acme", "https://login.example", subject).unwrap()
    }

    #[tokio::test]
    async fn a_member_answers_questions_about_their_own_calls_and_an_operator_those_of_all() {
        let questions = questions();
        let mut of_ann = question();
        of_ann.caller = Caller::of(person("ann"), Way::Gateway);
        let mut of_ann = pin!(questions.confirm(of_ann));
        assert!(poll!(&mut of_ann).is_pending());
        let (bob, operator) = (person("bob"), person("eve").with_role(Role::Operator));
        assert!(questions.open(&bob).is_empty());
        assert_eq!([&bob, &operator].map(|reader| questions.count_for(reader)), [0, 1]);
        let shown = json!(questions.open(&operator)[0]);
        assert_eq!((&shown["caller"]["tenant"], &shown["caller"]["subject"]), (&json!("acme"), &json!("ann")));
        let id = shown["id"].as_str().unwrap();
        assert_eq!(questions.answer(id, &bob, answered("once")).await, Err(AnswerRefused::NotOpen));
        assert_eq!(questions.answer(id, &person("ann"), answered("always_server")).await, Ok(()));
        // The member's own answer covers no calls of others. The operator's answer, below, covers those of all.
        let kept = |callers| Confirmed::Kept { keep: AnswerScope::Server, callers, arguments: None };
        assert_eq!(of_ann.await, kept(Callers::Same));
        let mut of_ann = question();
        of_ann.caller = Caller::of(person("ann"), Way::Gateway);
        let mut of_ann = pin!(questions.confirm(of_ann));
        assert!(poll!(&mut of_ann).is_pending());
        let id = questions.open(&operator)[0].id.clone();
        assert_eq!(questions.answer(&id, &operator, answered("always_server")).await, Ok(()));
        assert_eq!(of_ann.await, kept(Callers::All));
    }

    #[tokio::test]
    async fn a_question_is_answered_once() {
        let questions = questions();
        let mut confirmed = pin!(questions.confirm(question()));
        assert!(poll!(&mut confirmed).is_pending());
        let id = questions.open(&Principal::LOCAL)[0].id.clone();
        assert_eq!(questions.answer(&id, &Principal::LOCAL, answered("once")).await, Ok(()));
        assert_eq!(questions.answer(&id, &Principal::LOCAL, answered("deny")).await, Err(AnswerRefused::NotOpen));
        assert_eq!(confirmed.await, Confirmed::Yes);
        assert!(questions.open(&Principal::LOCAL).is_empty());
    }

    #[tokio::test]
    async fn a_call_that_ends_takes_its_question_back() {
        let questions = questions();
        {
            let mut confirmed = pin!(questions.confirm(question()));
            assert!(poll!(&mut confirmed).is_pending());
            assert_eq!(questions.open(&Principal::LOCAL).len(), 1);
        }
        assert!(questions.open(&Principal::LOCAL).is_empty());
    }

    #[tokio::test]
    async fn an_answer_names_its_scope() {
        let questions = questions();
        let words = [
            ("session", AnswerScope::Session, Callers::Same),
            ("always_tool", AnswerScope::Tool, Callers::All),
            ("always_server", AnswerScope::Server, Callers::All),
        ];
        for (word, keep, callers) in words {
            let mut confirmed = pin!(questions.confirm(question()));
            assert!(poll!(&mut confirmed).is_pending());
            questions
                .answer(&questions.open(&Principal::LOCAL)[0].id, &Principal::LOCAL, answered(word))
                .await
                .unwrap();
            assert_eq!(confirmed.await, Confirmed::Kept { keep, callers, arguments: None });
        }
    }

    #[tokio::test]
    async fn an_answer_to_another_kind_of_question_is_not_taken() {
        let questions = questions();
        let mut confirmed = pin!(questions.confirm(question()));
        assert!(poll!(&mut confirmed).is_pending());
        let id = questions.open(&Principal::LOCAL)[0].id.clone();
        assert_eq!(questions.answer(&id, &Principal::LOCAL, answered("accept")).await, Err(AnswerRefused::OtherKind));
        assert_eq!(questions.open(&Principal::LOCAL).len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_question_without_an_answer_in_time_is_declined() {
        assert!(matches!(questions().confirm(question()).await, Confirmed::No { why: Some(_) }));
    }

    #[tokio::test]
    async fn an_answer_to_a_question_of_one_world_does_not_fit_a_question_of_another() {
        let (before, after) = (questions(), questions());
        let (mut first, mut second) = (pin!(before.confirm(question())), pin!(after.confirm(question())));
        assert!(poll!(&mut first).is_pending() && poll!(&mut second).is_pending());
        let stale = before.open(&Principal::LOCAL)[0].id.clone();
        assert_ne!(stale, after.open(&Principal::LOCAL)[0].id);
        assert_eq!(after.answer(&stale, &Principal::LOCAL, answered("once")).await, Err(AnswerRefused::NotOpen));
        assert_eq!(after.open(&Principal::LOCAL).len(), 1);
    }

    #[tokio::test]
    async fn a_caller_with_too_many_questions_gets_an_error_that_no_user_was_asked() {
        let questions = questions();
        let mut open: Vec<_> = (0..MAX_OPEN).map(|_| questions.confirm(question())).collect();
        for asked in &mut open {
            assert!(poll!(asked).is_pending());
        }
        let Confirmed::No { why: Some(why) } = questions.confirm(question()).await else { panic!("it was confirmed") };
        assert!(why.contains("no person was asked"), "{why}");
    }

    #[tokio::test]
    async fn a_member_with_too_many_questions_takes_no_place_of_another() {
        let questions = questions();
        let asking = |subject| {
            let (mut question, questions) = (question(), questions.clone());
            question.caller = Caller::of(person(subject), Way::Gateway);
            Box::pin(async move { questions.confirm(question).await })
        };
        let mut open: Vec<_> = (0..MAX_OPEN_OF_MEMBER).map(|_| asking("ann")).collect();
        for asked in &mut open {
            assert!(poll!(asked).is_pending());
        }
        assert!(matches!(poll!(asking("ann")), std::task::Poll::Ready(Confirmed::No { .. })));
        assert!(poll!(&mut asking("bob")).is_pending());
    }
}
