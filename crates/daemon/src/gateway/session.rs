//! Sessions of MCP clients in the gateway, which is one server in front of all others. A client that speaks 2025-11-25
//! or older (the legacy era) begins a session with `initialize`. A client over stdio has a session in either era, for
//! the state of its connection.

use std::{
    collections::{HashMap, VecDeque, hash_map::Entry},
    sync::{Arc, OnceLock},
    time::Duration,
};

use bytes::Bytes;
use parking_lot::Mutex;
use rand::Rng as _;
use serde_json::Value;
use tokio::{
    sync::{Semaphore, broadcast, oneshot},
    time::Instant,
};
use tokio_util::sync::CancellationToken;
use toolrack_host::{Abilities, Principal};

use super::{
    message::Id,
    news::{self, List, News},
    options::Bounds,
    refusal::Refusal,
    subscriptions::ResourceSubscriptions,
    view::View,
};
use crate::fair_limit::{FairLimit, LimitReached, Permit};

/// The maximum number of questions that wait for the answer of one client.
const MAX_QUESTIONS: usize = 64;
/// A session that was used within this time is in use: the gateway does not end it to make room for another.
const IN_USE_TIME: Duration = Duration::from_secs(60);

/// How many hexadecimal digits of a session's id users see.
const SHORT_ID_DIGITS: usize = 8;

/// Takes the client's result for a question, or the reason why there is none.
type AnswerSender = oneshot::Sender<Result<Value, String>>;

/// What a client says about itself: with each request, or in the legacy era with `initialize`.
#[derive(Clone, Debug, Default)]
pub(super) struct ClientInfo {
    pub(super) abilities: Abilities,
    /// The name that the client gives itself.
    pub(super) name: Option<Arc<str>>,
    /// Whether the client may send batches (several messages in one array).
    pub(super) may_batch: bool,
}

/// The session of one client.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) id: String,
    /// The first [`SHORT_ID_DIGITS`] of the id.
    short_id: Arc<str>,
    /// The principal that began the session, as it was then. No other principal can use the session.
    pub(super) principal: Principal,
    pub(super) view: Arc<View>,
    /// Set by `initialize`.
    pub(super) client_info: OnceLock<ClientInfo>,
    /// Cancelled when the session has ended.
    pub(super) ended: CancellationToken,
    /// Has a permit for each call that the client may make at once.
    pub(super) call_permits: Arc<Semaphore>,
    /// The resources that a client of the legacy era subscribed to.
    pub(super) subscriptions: ResourceSubscriptions,
    state: Mutex<State>,
    /// How many permits `call_permits` has when no call runs.
    max_calls: usize,
}

/// The mutable state of a session.
#[derive(Debug)]
struct State {
    stream: Stream,
    /// The number of the next standing stream.
    next_stream_number: u64,
    /// The questions that the client has not answered, by number.
    questions: HashMap<u64, AnswerSender>,
    next_question_number: u64,
    /// The client's requests under way.
    running_requests: HashMap<Id, CancellationToken>,
    /// The client does not want log messages below this level.
    min_level: u8,
    /// When the client last used the session.
    last_used: Instant,
}

/// The standing stream of a session: the answer to the client's `GET`, on which the gateway sends what belongs to no
/// request. A session has at most one.
#[derive(Debug)]
enum Stream {
    /// No stream is open. The next stream continues with these news: all since the session began, or all that the last
    /// stream did not send.
    Closed(Backlog),
    Open {
        number: u64,
        stop: CancellationToken,
    },
}

/// The news that a standing stream has still to send.
#[derive(Debug)]
pub(super) struct Backlog {
    /// The messages to send first.
    pub(super) messages: VecDeque<Bytes>,
    /// The news that follow `messages`.
    pub(super) news: broadcast::Receiver<News>,
}

impl Backlog {
    fn new(news: broadcast::Receiver<News>) -> Self {
        Self { messages: VecDeque::new(), news }
    }
}

/// An open standing stream. The task that serves it owns this value.
#[derive(Debug)]
pub(super) struct OpenStream {
    number: u64,
    pub(super) backlog: Backlog,
    /// Cancelled when another stream takes its place, or the session ends.
    pub(super) stop: CancellationToken,
}

impl Session {
    pub(super) fn new(
        principal: Principal,
        view: Arc<View>,
        news: broadcast::Receiver<News>,
        bounds: &Bounds,
    ) -> Arc<Self> {
        let max_calls = bounds.calls_per_session;
        let id = format!("{:032x}", rand::rng().random::<u128>());
        Arc::new(Self {
            short_id: Arc::from(&id[..SHORT_ID_DIGITS]),
            id,
            subscriptions: ResourceSubscriptions::new(principal.clone(), bounds.subscriptions),
            principal,
            view,
            client_info: OnceLock::new(),
            ended: CancellationToken::new(),
            call_permits: Arc::new(Semaphore::new(max_calls)),
            state: Mutex::new(State::new(news)),
            max_calls,
        })
    }

    /// Returns the beginning of the session's id, by which users distinguish sessions. It grants no access.
    pub(super) fn short_id(&self) -> Arc<str> {
        Arc::clone(&self.short_id)
    }

    /// Returns whether `principal` began the session, in its current membership.
    pub(super) fn belongs_to(&self, principal: &Principal) -> bool {
        self.principal.is_same(principal) && self.principal.membership() == principal.membership()
    }

    /// Marks the session as used now.
    pub(super) fn touch(&self) {
        self.state.lock().last_used = Instant::now();
    }

    /// How long the client has not used the session. Zero while a call runs or a stream is open.
    fn idle_time(&self) -> Duration {
        let state = self.state.lock();
        let is_busy =
            self.call_permits.available_permits() < self.max_calls || matches!(state.stream, Stream::Open { .. });
        if is_busy { Duration::ZERO } else { state.last_used.elapsed() }
    }

    /// Adds a question. Returns its number, which is the id of the request to the client; gives `reply` back if too
    /// many questions wait already.
    pub(super) fn add_question(&self, reply: AnswerSender) -> Result<u64, AnswerSender> {
        self.state.lock().add_question(reply)
    }

    /// Returns whether the client may send batches (several messages in one array).
    pub(super) fn may_batch(&self) -> bool {
        self.client_info.get().is_some_and(|client| client.may_batch)
    }

    /// Takes the client's answer to the question `id`. Ignores an answer that belongs to no question, as JSON-RPC
    /// demands.
    pub(super) fn accept_answer(&self, id: &Value, answer: Result<Value, String>) {
        let number = id.as_u64().or_else(|| id.as_str().and_then(|digits| digits.parse().ok()));
        if let Some(reply_sender) = number.and_then(|number| self.state.lock().questions.remove(&number)) {
            // The call that asked may have ended meanwhile.
            let _ = reply_sender.send(answer);
        }
    }

    /// Registers a request as under way, until the returned guard is dropped.
    ///
    /// # Errors
    /// When a request with the same id is under way.
    pub(super) fn start_request(self: &Arc<Self>, id: &Id) -> Result<RunningRequest, Refusal> {
        let token = self.ended.child_token();
        match self.state.lock().running_requests.entry(id.clone()) {
            Entry::Occupied(_) => Err(Refusal::invalid_request("a request with this id is under way")),
            Entry::Vacant(free) => {
                free.insert(token.clone());
                Ok(RunningRequest { session: self.clone(), id: id.clone(), token })
            }
        }
    }

    /// Cancels a request under way, because its client asks for it. Does nothing if the request has ended.
    pub(super) fn cancel(&self, id: &Id) {
        if let Some(token) = self.state.lock().running_requests.get(id) {
            token.cancel();
        }
    }

    pub(super) fn set_level(&self, level: u8) {
        self.state.lock().min_level = level;
    }

    /// Whether the client wants log messages of this level.
    fn wants_level(&self, level: u8) -> bool {
        level >= self.state.lock().min_level
    }

    /// Returns the notification that tells the client of `news`, if the client wants it.
    pub(super) fn notification(&self, news: &News) -> Option<Bytes> {
        match news {
            News::Changed(list, _) => Some(news::list_changed(*list, /* subscription */ None)),
            News::Log { server, level, message } => {
                self.wants_level(*level).then(|| news::log_message(server, *level, message))
            }
        }
    }

    /// Opens the standing stream. The stream has all news since the session began, or those that the last stream did
    /// not send.
    ///
    /// If another stream is still open, the new stream replaces that stream, and has the news from now on, from the
    /// receiver that `subscribe` makes. A client opens a second stream when the connection of the first has broken and
    /// the gateway has not noticed, so what the first has sent may be lost. The new stream therefore begins with the
    /// message that all lists and all resources of the client have changed.
    pub(super) fn open_stream(&self, subscribe: impl FnOnce() -> broadcast::Receiver<News>) -> OpenStream {
        let (mut stream, has_replaced) = self.state.lock().open_stream(self.ended.child_token(), subscribe);
        if has_replaced {
            let subscription = None;
            let lists = List::ALL.into_iter().map(|list| news::list_changed(list, subscription));
            let names = self.subscriptions.names().into_iter();
            let resources = names.map(|name| news::resource_updated(&name, subscription));
            stream.backlog.messages.extend(lists.chain(resources));
        }
        stream
    }

    /// Records that the standing stream has ended. Does nothing if another stream has replaced it.
    pub(super) fn close_stream(&self, stream: OpenStream) {
        self.state.lock().close_stream(stream);
    }
}

impl State {
    fn new(news: broadcast::Receiver<News>) -> Self {
        Self {
            stream: Stream::Closed(Backlog::new(news)),
            next_stream_number: 0,
            questions: HashMap::new(),
            // The first number is random, because a client may answer a question of its previous session late. Numbers
            // stay below 2^53, so that clients can read them as doubles.
            next_question_number: rand::rng().random_range(1..1 << 52),
            running_requests: HashMap::new(),
            min_level: news::INFO_LEVEL,
            last_used: Instant::now(),
        }
    }

    /// Adds a question, as [`Session::add_question`] does. First removes questions whose calls have ended.
    fn add_question(&mut self, reply: AnswerSender) -> Result<u64, AnswerSender> {
        self.questions.retain(|_, waiting| !waiting.is_closed());
        if self.questions.len() >= MAX_QUESTIONS {
            return Err(reply);
        }
        let number = self.next_question_number;
        self.next_question_number += 1;
        self.questions.insert(number, reply);
        Ok(number)
    }

    /// Opens the standing stream. Also returns whether the stream replaces one that was open.
    fn open_stream(
        &mut self,
        stop: CancellationToken,
        subscribe: impl FnOnce() -> broadcast::Receiver<News>,
    ) -> (OpenStream, bool) {
        let number = self.next_stream_number;
        self.next_stream_number += 1;
        let (backlog, has_replaced) =
            match std::mem::replace(&mut self.stream, Stream::Open { number, stop: stop.clone() }) {
                Stream::Closed(backlog) => (backlog, false),
                Stream::Open { stop: replaced, .. } => {
                    replaced.cancel();
                    (Backlog::new(subscribe()), true)
                }
            };
        (OpenStream { number, backlog, stop }, has_replaced)
    }

    fn close_stream(&mut self, stream: OpenStream) {
        if matches!(self.stream, Stream::Open { number, .. } if number == stream.number) {
            self.stream = Stream::Closed(stream.backlog);
            self.last_used = Instant::now();
        }
    }
}

/// A request under way in a session.
#[derive(Debug)]
pub(super) struct RunningRequest {
    session: Arc<Session>,
    id: Id,
    /// Cancelled when the client cancels the request, or the session ends.
    pub(super) token: CancellationToken,
}

impl Drop for RunningRequest {
    fn drop(&mut self) {
        let mut state = self.session.state.lock();
        state.last_used = Instant::now();
        state.running_requests.remove(&self.id);
    }
}

/// All sessions over HTTP.
pub(super) struct Sessions {
    /// The sessions, by id.
    by_id: HashMap<String, (Arc<Session>, Permit)>,
    limit: FairLimit,
    /// How long a session may be idle before it ends.
    max_idle: Duration,
}

impl Sessions {
    pub(super) fn new(bounds: &Bounds) -> Self {
        Self { by_id: HashMap::new(), limit: bounds.fair_limit(bounds.sessions), max_idle: bounds.session_idle }
    }

    /// Adds a session. To make room, this may remove another session, which it returns and the caller must end. If the
    /// principal has used up its share, this is the principal's own idlest session. If not, it is the idlest session of
    /// the principal with the most sessions.
    ///
    /// # Errors
    /// When there is no room, and that principal has no session that was idle for [`IN_USE_TIME`].
    pub(super) fn insert(&mut self, session: Arc<Session>) -> Result<Option<Arc<Session>>, Refusal> {
        let mut removed_session = None;
        let mut permit = self.limit.take(&session.principal);
        if let Err(reached) = permit {
            let principal = match reached {
                LimitReached::MemberShare => Some(session.principal.clone()),
                LimitReached::AllPermits => self.limit.owner_with_most_permits(),
            };
            removed_session = principal.and_then(|principal| self.remove_idlest_of(&principal));
            permit = self.limit.take(&session.principal);
        }
        let permit = permit.map_err(|reached| Refusal::limit_reached("sessions", reached, "sessions"))?;
        self.by_id.insert(session.id.clone(), (session, permit));
        Ok(removed_session)
    }

    /// Removes the session that `principal` has left idle for the longest time, if that is at least [`IN_USE_TIME`].
    fn remove_idlest_of(&mut self, principal: &Principal) -> Option<Arc<Session>> {
        let sessions =
            self.by_id.values().filter(|(_, permit)| permit.is_held_by(principal)).map(|(session, _)| session);
        let idlest_session = sessions
            .max_by_key(|session| session.idle_time())
            .filter(|session| session.idle_time() >= IN_USE_TIME)?
            .clone();
        self.remove(&idlest_session.id)
    }

    pub(super) fn get(&self, id: &str) -> Option<Arc<Session>> {
        self.by_id.get(id).map(|(session, _)| session.clone())
    }

    pub(super) fn remove(&mut self, id: &str) -> Option<Arc<Session>> {
        self.by_id.remove(id).map(|(session, _)| session)
    }

    /// Removes the sessions that were idle for too long. The caller must end them.
    pub(super) fn remove_idle(&mut self) -> Vec<Arc<Session>> {
        let idle_sessions = self.by_id.extract_if(|_, (session, _)| session.idle_time() >= self.max_idle);
        idle_sessions.map(|(_, (session, _))| session).collect()
    }

    pub(super) fn remove_all(&mut self) -> Vec<Arc<Session>> {
        self.by_id.drain().map(|(_, (session, _))| session).collect()
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;
    use toolrack_host::principal::Kind;

    use super::*;
    use crate::gateway::{memory::Memory, news::NewsSender, options::GatewayOptions, view::Views};

    fn session() -> Arc<Session> {
        let bounds = Bounds { calls_per_session: 4, ..Bounds::default() };
        Session::new(
            Principal::LOCAL,
            Views::new(&GatewayOptions::default()).default_view(),
            NewsSender::default().subscribe(),
            &bounds,
        )
    }

    /// A memory with room for two sessions.
    fn sessions() -> Memory {
        let bounds = Bounds { sessions: 2, ..Bounds::default() };
        Memory::new(&bounds)
    }

    #[tokio::test]
    async fn a_session_is_of_no_use_to_another_principal_and_stays_when_a_token_is_renewed() {
        let person = |subject| Principal::new(Kind::Person, "acme", "https://login.example", subject).unwrap();
        let (sessions, views) = (sessions(), Views::new(&GatewayOptions::default()));
        let of_ann =
            Session::new(person("ann"), views.default_view(), NewsSender::default().subscribe(), &Bounds::default());
        sessions.add_session(of_ann.clone()).unwrap();
        assert!(sessions.find_session(&of_ann.id, &person("bob")).is_none());
        assert!(sessions.find_session(&of_ann.id, &Principal::LOCAL).is_none());
        assert!(
            sessions.find_session(&of_ann.id, &person("ann").in_membership(1)).is_none(),
            "ann was removed meanwhile"
        );
        assert!(sessions.find_session(&of_ann.id, &person("ann").in_groups(["new"]).unwrap()).is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn one_session_too_many_ends_the_idlest_one_but_none_in_use() {
        let (sessions, old, busy) = (sessions(), session(), session());
        sessions.add_session(old.clone()).unwrap();
        sessions.add_session(busy.clone()).unwrap();
        assert!(sessions.add_session(session()).is_err(), "both were used a moment ago");
        advance(IN_USE_TIME * 2).await;
        let _call = busy.call_permits.clone().try_acquire_owned().unwrap();
        sessions.add_session(session()).unwrap();
        assert!(old.ended.is_cancelled() && !busy.ended.is_cancelled());
        assert!(sessions.find_session(&old.id, &Principal::LOCAL).is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn a_member_with_too_many_sessions_ends_their_own_and_no_other_member_s() {
        let bounds = Bounds { sessions: 3, places_for_one: 1, ..Bounds::default() };
        let (without_shares, with_halves) =
            (Memory::new(&bounds), Memory::new(&Bounds { sessions: 4, places_for_one: 2, ..bounds }));
        let begin = |sessions: &Memory, subject: &str| {
            let person = Principal::new(Kind::Person, "acme", "https://login.example", subject).unwrap();
            let view = Views::new(&GatewayOptions::default()).default_view();
            let session = Session::new(person, view, NewsSender::default().subscribe(), &Bounds::default());
            sessions.add_session(session.clone()).map(|()| session)
        };
        let of_ann = begin(&with_halves, "ann").unwrap();
        advance(IN_USE_TIME).await;
        let of_bob = [(); 2].map(|()| begin(&with_halves, "bob").unwrap());
        let third = begin(&with_halves, "bob");
        assert!(third.is_err(), "both sessions of bob were used a moment ago, and ann's must not end");
        advance(IN_USE_TIME).await;
        begin(&with_halves, "bob").unwrap();
        assert_eq!(of_bob.iter().filter(|session| session.ended.is_cancelled()).count(), 1);
        assert!(!of_ann.ended.is_cancelled());
        // When the table is full, the principal with the most sessions makes room, however long other sessions were
        // idle.
        let of_ann = begin(&without_shares, "ann").unwrap();
        let of_bob = [(); 2].map(|()| begin(&without_shares, "bob").unwrap());
        advance(IN_USE_TIME).await;
        of_bob.iter().for_each(|session| session.touch());
        assert!(begin(&without_shares, "eve").is_err());
        advance(IN_USE_TIME).await;
        begin(&without_shares, "eve").unwrap();
        assert_eq!(of_bob.iter().filter(|session| session.ended.is_cancelled()).count(), 1);
        assert!(!of_ann.ended.is_cancelled());
    }

    #[tokio::test(start_paused = true)]
    async fn a_session_ends_when_it_was_idle_for_too_long_unless_its_client_listens() {
        let (sessions, idle, listening) = (sessions(), session(), session());
        sessions.add_session(idle.clone()).unwrap();
        sessions.add_session(listening.clone()).unwrap();
        let stream = listening.open_stream(|| NewsSender::default().subscribe());
        advance(Duration::from_secs(60 * 60)).await;
        sessions.sweep();
        assert!(idle.ended.is_cancelled() && !listening.ended.is_cancelled());
        listening.close_stream(stream);
        advance(Duration::from_secs(60 * 60)).await;
        sessions.sweep();
        assert!(listening.ended.is_cancelled());
    }

    #[tokio::test(start_paused = true)]
    async fn a_new_stream_ends_the_one_before_and_stays_open_when_that_one_closes() {
        let (sender, session) = (NewsSender::default(), session());
        let first = session.open_stream(|| sender.subscribe());
        let second = session.open_stream(|| sender.subscribe());
        assert!(first.stop.is_cancelled() && !second.stop.is_cancelled());
        session.close_stream(first);
        assert!(!second.stop.is_cancelled(), "the end of the first stream does not end the second");
        assert!(matches!(session.state.lock().stream, Stream::Open { .. }), "the second is still open");
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_that_replaces_one_begins_with_the_message_that_all_lists_have_changed() {
        let (sender, session) = (NewsSender::default(), session());
        let first = session.open_stream(|| sender.subscribe());
        assert!(first.backlog.messages.is_empty(), "the first stream of a session has lost nothing");
        let second = session.open_stream(|| sender.subscribe());
        let lists: Vec<_> = List::ALL.into_iter().map(|list| news::list_changed(list, None)).collect();
        assert_eq!(second.backlog.messages, lists);
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_continues_with_what_the_one_before_had_not_sent() {
        let (sender, session) = (NewsSender::default(), session());
        let mut first = session.open_stream(|| sender.subscribe());
        first.backlog.messages.push_back(Bytes::from_static(b"unsent"));
        session.close_stream(first);
        let second = session.open_stream(|| sender.subscribe());
        assert_eq!(second.backlog.messages, [Bytes::from_static(b"unsent")]);
    }

    #[tokio::test(start_paused = true)]
    async fn questions_of_ended_calls_do_not_count_against_the_bound() {
        let session = session();
        let ask = || {
            let (reply, answer) = oneshot::channel();
            (session.add_question(reply).is_ok(), answer)
        };
        let waiting: Vec<_> = (0..MAX_QUESTIONS).map(|_| ask()).collect();
        assert!(waiting.iter().all(|(asked, _)| *asked));
        assert!(!ask().0);
        drop(waiting);
        let (asked, answer) = ask();
        assert!(asked);
        let number = session.state.lock().next_question_number - 1;
        session.accept_answer(&serde_json::json!(number.to_string()), Ok(Value::from(7)));
        assert_eq!(answer.await.unwrap(), Ok(Value::from(7)), "some clients send the number back as a string");
    }
}
