//! Connections that have not shown a valid token yet. Once a connection has shown such a token, it is *known*, and
//! counts as a connection of the principal (the user or service) whom the token proves.

use std::{collections::BTreeMap, ops::Deref, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::{
    sync::{mpsc, watch},
    time::{Instant, sleep_until},
};
use toolrack_host::Principal;

use crate::fair_limit::{FairLimit, LimitReached, Permit};

/// How many of the oldest connections are compared to choose a connection to end. The number is limited because the
/// choice must be quick even while very many clients connect.
const MAX_COMPARED: usize = 16;

/// All connections that have not shown a valid token yet. The task that accepts connections owns this value, and a
/// connection reports to it when it has ended ([`Registration`]) or is known.
#[derive(Debug)]
pub(crate) struct UnauthenticatedConnections {
    /// The number of the next connection.
    next_number: u64,
    by_number: BTreeMap<u64, Arc<Connection>>,
    /// The numbers of the connections that have ended or are known now. The channel needs no bound: each connection
    /// sends its number at most twice, and all numbers are read when the next connection is accepted.
    unregistered: mpsc::UnboundedReceiver<u64>,
    unregister_sender: mpsc::UnboundedSender<u64>,
    /// The limit of known connections.
    known_limit: FairLimit,
}

/// An HTTP connection. The task that serves it, and the handlers of its requests, report here what happens to it.
#[derive(Debug)]
pub(crate) struct Connection {
    number: u64,
    state: watch::Sender<State>,
    unregister_sender: mpsc::UnboundedSender<u64>,
    /// The limit of known connections.
    known_limit: FairLimit,
    /// The permit of `known_limit` that this connection holds. Its owner is the principal that sent the last request.
    /// `None` until the connection is known.
    permit: Mutex<Option<Permit>>,
}

/// A connection that has not ended. The task that serves the connection holds this value; dropping it reports that the
/// connection has ended, whatever the reason.
#[derive(Debug)]
pub(crate) struct Registration(Arc<Connection>);

impl Deref for Registration {
    type Target = Arc<Connection>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.0.unregister();
    }
}

/// The state of a connection.
#[derive(Clone, Copy, Debug)]
struct State {
    /// Whether the connection has shown a valid token.
    is_known: bool,
    /// Whether the connection must end, to make room.
    must_end: bool,
    /// How many of its requests are being answered.
    requests: usize,
    /// Since when the connection is idle: when the connection was accepted, or the last of its requests was answered.
    /// Not used while `requests` is not 0.
    idle_since: Instant,
}

/// Counts a request of a connection as being answered, until it is dropped.
#[derive(Debug)]
pub(crate) struct RequestGuard(Arc<Connection>);

impl Drop for RequestGuard {
    fn drop(&mut self) {
        self.0.change(|state| {
            state.requests = state.requests.saturating_sub(1);
            state.idle_since = Instant::now();
        });
    }
}

impl UnauthenticatedConnections {
    /// Starts without connections. A connection that shows a valid token counts in `known_limit` from then on.
    pub(crate) fn new(known_limit: FairLimit) -> Self {
        let (unregister_sender, unregistered) = mpsc::unbounded_channel();
        Self { next_number: 0, by_number: BTreeMap::new(), unregistered, unregister_sender, known_limit }
    }

    /// Returns the connections that have not shown a valid token, after removing those that were unregistered.
    fn registered(&mut self) -> &mut BTreeMap<u64, Arc<Connection>> {
        while let Ok(number) = self.unregistered.try_recv() {
            self.by_number.remove(&number);
        }
        &mut self.by_number
    }

    pub(crate) fn len(&mut self) -> usize {
        self.registered().len()
    }

    /// Registers a new connection, which ends when the returned value is dropped.
    pub(crate) fn register(&mut self) -> Registration {
        let state = State { is_known: false, must_end: false, requests: 0, idle_since: Instant::now() };
        let (number, unregister_sender) = (self.next_number, self.unregister_sender.clone());
        let known_limit = self.known_limit.clone();
        self.next_number += 1;
        let permit = Mutex::new(None);
        let connection =
            Arc::new(Connection { number, state: watch::Sender::new(state), unregister_sender, known_limit, permit });
        self.registered().insert(number, Arc::clone(&connection));
        Registration(connection)
    }

    /// Ends one of the [`MAX_COMPARED`] oldest connections: the one that has been idle for the longest time or, if a
    /// request of each is being answered, any of them. Returns whether there was a connection to end.
    pub(crate) fn end_longest_idle(&mut self) -> bool {
        let registered = self.registered();
        let longest_idle = registered.values().take(MAX_COMPARED).min_by_key(|connection| {
            let state = *connection.state.borrow();
            (state.requests > 0, state.idle_since)
        });
        let Some(number) = longest_idle.map(|connection| connection.number) else { return false };
        if let Some(connection) = registered.remove(&number) {
            connection.change(|state| state.must_end = true);
        }
        true
    }
}

impl Connection {
    /// Registers a request, which counts as being answered until the returned value is dropped.
    pub(crate) fn begin_request(self: &Arc<Self>) -> RequestGuard {
        self.change(|state| state.requests += 1);
        RequestGuard(Arc::clone(self))
    }

    /// Reports that the connection has ended, or is known now.
    fn unregister(&self) {
        // Fails if the task that accepts connections has ended, which does not matter here.
        let _ = self.unregister_sender.send(self.number);
    }

    /// Makes the connection a known one, which is never ended to make room. A request on it has shown a valid token of
    /// `principal`, so from now on the connection is one of those that `principal` may have. A proxy may send the
    /// requests of several principals on one connection, which then belongs to the sender of the last request.
    ///
    /// # Errors
    /// [`LimitReached`] when the principal has too many connections. Then the connection stays as it was.
    pub(crate) fn assign_to(&self, principal: &Principal) -> Result<(), LimitReached> {
        let mut permit = self.permit.lock();
        if permit.as_ref().is_some_and(|permit| permit.is_held_by(principal)) {
            return Ok(());
        }
        *permit = Some(self.known_limit.take(principal)?);
        drop(permit);
        if !self.state.borrow().is_known {
            self.unregister();
            self.change(|state| state.is_known = true);
        }
        Ok(())
    }

    /// Waits until the connection must end: because another connection needs its room, or because its client has sent
    /// no head of a request for `head_timeout`. Never returns for a known connection.
    pub(crate) async fn until_must_end(&self, head_timeout: Duration) {
        let mut states = self.state.subscribe();
        loop {
            let state = *states.borrow_and_update();
            if state.is_known {
                // A known connection stays known, so nothing can change this.
                return std::future::pending().await;
            }
            if state.must_end {
                return;
            }
            tokio::select! {
                // Cannot fail, because this connection owns the sender.
                _ = states.changed() => {}
                () = sleep_until(state.idle_since + head_timeout), if state.requests == 0 => return,
            }
        }
    }

    /// Changes the state, and wakes the task that waits in [`Self::until_must_end`].
    fn change(&self, change: impl FnOnce(&mut State)) {
        self.state.send_if_modified(|state| {
            let was_known = state.is_known;
            change(state);
            // No task waits for changes of a known connection.
            !was_known
        });
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;
    use tokio::time::advance;
    use toolrack_host::principal::Kind;

    use super::*;

    const HEAD_TIMEOUT: Duration = Duration::from_secs(10);

    /// No connections yet. There may be eight known ones, two of each member.
    fn unauthenticated() -> UnauthenticatedConnections {
        UnauthenticatedConnections::new(FairLimit::new(8, 2))
    }

    #[tokio::test(start_paused = true)]
    async fn a_member_has_a_share_of_the_connections_and_a_connection_belongs_to_the_member_who_used_it_last() {
        let person = |subject| Principal::new(Kind::Person, "acme", "https://login.example", subject).unwrap();
        let (ann, bob) = (person("ann"), person("bob"));
        let mut unauthenticated = unauthenticated();
        let [first, second, third] = [(); 3].map(|()| unauthenticated.register());
        assert_eq!(
            [&first, &second, &third].map(|one| one.assign_to(&bob)),
            [Ok(()), Ok(()), Err(LimitReached::MemberShare)]
        );
        assert_eq!(first.assign_to(&bob), Ok(()), "a connection of bob carries as many requests as bob sends");
        assert_eq!(unauthenticated.len(), 1, "the third connection did not get a permit, although its token is valid");
        assert_eq!(third.assign_to(&ann), Ok(()));
        // A proxy sends a request of ann on a connection that belonged to bob, who then has room for another one.
        assert_eq!((second.assign_to(&ann), unauthenticated.register().assign_to(&bob)), (Ok(()), Ok(())));
        let of_the_machine: Vec<_> = (0..4).map(|_| unauthenticated.register()).collect();
        assert!(of_the_machine.iter().all(|one| one.assign_to(&Principal::LOCAL).is_ok()));
    }

    #[test]
    fn a_connection_is_in_the_table_until_it_ends_and_no_longer() {
        let mut unauthenticated = unauthenticated();
        let (first, second) = (unauthenticated.register(), unauthenticated.register());
        drop(first);
        assert_eq!(unauthenticated.len(), 1);
        drop(second);
        assert_eq!(unauthenticated.len(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn the_connection_that_was_silent_the_longest_makes_room_and_no_known_one_does() {
        let mut unauthenticated = unauthenticated();
        let known = unauthenticated.register();
        known.assign_to(&Principal::LOCAL).unwrap();
        let busy = unauthenticated.register();
        let request = busy.begin_request();
        advance(Duration::from_secs(1)).await;
        let (first, second) = (unauthenticated.register(), unauthenticated.register());
        advance(Duration::from_secs(1)).await;
        drop(first.begin_request());
        let is_over = |connection: &Connection| connection.until_must_end(HEAD_TIMEOUT).now_or_never().is_some();
        for over in [&second, &first, &busy] {
            assert!(!is_over(over));
            assert!(unauthenticated.end_longest_idle());
            assert!(is_over(over));
        }
        assert!(!unauthenticated.end_longest_idle());
        assert!(!is_over(&known));
        drop(request);
    }

    #[tokio::test(start_paused = true)]
    async fn a_head_is_due_in_time_unless_the_token_was_shown_or_an_answer_is_due() {
        let mut unauthenticated = unauthenticated();
        let (silent, known, busy) =
            (unauthenticated.register(), unauthenticated.register(), unauthenticated.register());
        known.assign_to(&Principal::LOCAL).unwrap();
        let request = busy.begin_request();
        let began = Instant::now();
        silent.until_must_end(HEAD_TIMEOUT).await;
        assert_eq!(began.elapsed(), HEAD_TIMEOUT);
        advance(HEAD_TIMEOUT).await;
        assert!(busy.until_must_end(HEAD_TIMEOUT).now_or_never().is_none());
        assert!(known.until_must_end(HEAD_TIMEOUT).now_or_never().is_none());
        drop(request);
        busy.until_must_end(HEAD_TIMEOUT).await;
        assert_eq!(began.elapsed(), HEAD_TIMEOUT * 3);
    }
}
