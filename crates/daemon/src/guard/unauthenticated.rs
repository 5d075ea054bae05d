//! Connections that have not shown a valid token yet.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::{
    sync::{mpsc, watch},
    time::{Instant, sleep_until},
};
use toolrack_host::Principal;

use crate::shares::{Full, Place, Shares};

/// How many of the oldest connections are compared to find one to end. The search must be quick while very many clients
/// connect.
const MAX_COMPARED: usize = 16;

/// All these connections. The task that accepts connections owns this; a connection reports when it no longer belongs
/// here.
#[derive(Debug)]
pub(crate) struct Unauthenticated {
    /// The number of the next one.
    next: u64,
    by_number: BTreeMap<u64, Arc<Connection>>,
    /// The numbers of connections that have left. Each connection sends its number at most twice, and all are read when
    /// the next connection is accepted.
    left: mpsc::UnboundedReceiver<u64>,
    leaves: mpsc::UnboundedSender<u64>,
    /// Those that are known.
    known: Shares,
}

/// An HTTP connection, as the handlers of its requests know it.
#[derive(Debug)]
pub(crate) struct Connection {
    number: u64,
    state: watch::Sender<State>,
    leaves: mpsc::UnboundedSender<u64>,
    known: Shares,
    /// The one among the known connections, of the principal that sent the last request.
    place: Mutex<Option<Place>>,
}

#[derive(Clone, Copy, Debug)]
struct State {
    /// It has shown a right token.
    is_known: bool,
    /// It must end, to make room.
    is_over: bool,
    /// Its requests that are being answered.
    requests: usize,
    /// Since when there has been none.
    silent: Instant,
}

/// A request that is being answered.
#[derive(Debug)]
pub(crate) struct Busy(Arc<Connection>);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.change(|state| {
            state.requests = state.requests.saturating_sub(1);
            state.silent = Instant::now();
        });
    }
}

impl Unauthenticated {
    /// `known` has a place for each connection that has shown a right token.
    pub(crate) fn new(known: Shares) -> Self {
        let (leaves, left) = mpsc::unbounded_channel();
        Self { next: 0, by_number: BTreeMap::new(), left, leaves, known }
    }

    /// Returns the connections that are here now, after removing those that have left.
    fn here(&mut self) -> &mut BTreeMap<u64, Arc<Connection>> {
        while let Ok(number) = self.left.try_recv() {
            self.by_number.remove(&number);
        }
        &mut self.by_number
    }

    pub(crate) fn len(&mut self) -> usize {
        self.here().len()
    }

    /// Registers a new connection.
    pub(crate) fn enter(&mut self) -> Arc<Connection> {
        let state = State { is_known: false, is_over: false, requests: 0, silent: Instant::now() };
        let (number, leaves, known) = (self.next, self.leaves.clone(), self.known.clone());
        self.next += 1;
        let place = Mutex::new(None);
        let connection = Arc::new(Connection { number, state: watch::Sender::new(state), leaves, known, place });
        self.here().insert(number, Arc::clone(&connection));
        connection
    }

    /// Ends the connection that has been silent longest among the oldest. Ends one whose request is being answered only
    /// if all of them have such a request. Returns whether there was a connection to end.
    pub(crate) fn end_one(&mut self) -> bool {
        let here = self.here();
        let longest = here.values().take(MAX_COMPARED).min_by_key(|connection| {
            let state = *connection.state.borrow();
            (state.requests > 0, state.silent)
        });
        let Some(number) = longest.map(|connection| connection.number) else { return false };
        if let Some(connection) = here.remove(&number) {
            connection.change(|state| state.is_over = true);
        }
        true
    }
}

impl Connection {
    /// Registers a request, which is being answered until the result is dropped.
    pub(crate) fn asks(self: &Arc<Self>) -> Busy {
        self.change(|state| state.requests += 1);
        Busy(Arc::clone(self))
    }

    /// Reports that the connection has ended, or is known now.
    pub(crate) fn leaves(&self) {
        // Fails if the task that accepts connections has ended, which does not matter here.
        let _ = self.leaves.send(self.number);
    }

    /// Gives the connection to the principal that a valid token on it has proved. From now on it is not ended to make
    /// room. A proxy has requests of several principals on one connection: it is that of the last one.
    ///
    /// # Errors
    /// [`Full`] when the principal has too many connections; then it stays whose it was.
    pub(crate) fn is_of(&self, principal: &Principal) -> Result<(), Full> {
        let mut place = self.place.lock();
        if place.as_ref().is_some_and(|place| place.is_of(principal)) {
            return Ok(());
        }
        *place = Some(self.known.take(principal)?);
        drop(place);
        if !self.state.borrow().is_known {
            self.leaves();
            self.change(|state| state.is_known = true);
        }
        Ok(())
    }

    /// Waits until the connection must end: it has not shown a valid token, and either another connection needs its
    /// place, or it has sent no head of a request for `heads`.
    pub(crate) async fn must_close(&self, heads: Duration) {
        let mut states = self.state.subscribe();
        loop {
            let state = *states.borrow_and_update();
            if state.is_known {
                // It stays, whatever changes.
                return std::future::pending().await;
            }
            if state.is_over {
                return;
            }
            tokio::select! {
                // Its sender is in this connection.
                _ = states.changed() => {}
                () = sleep_until(state.silent + heads), if state.requests == 0 => return,
            }
        }
    }

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

    const HEADS: Duration = Duration::from_secs(10);

    fn unauthenticated() -> Unauthenticated {
        Unauthenticated::new(Shares::new(8, 2))
    }

    #[tokio::test(start_paused = true)]
    async fn a_member_has_a_share_of_the_connections_and_one_that_another_member_uses_is_that_member_s() {
        let person = |subject| Principal::new(Kind::Person, "acme", "https://login.example", subject).unwrap();
        let (ann, bob) = (person("ann"), person("bob"));
        let mut unauthenticated = unauthenticated();
        let [first, second, third] = [(); 3].map(|()| unauthenticated.enter());
        assert_eq!([&first, &second, &third].map(|one| one.is_of(&bob)), [Ok(()), Ok(()), Err(Full::Share)]);
        assert_eq!(first.is_of(&bob), Ok(()), "one of his carries as many requests as he sends");
        assert_eq!(unauthenticated.len(), 1, "the third has shown a right token, and makes room all the same");
        assert_eq!(third.is_of(&ann), Ok(()));
        // A proxy sends hers on a connection that was his.
        assert_eq!((second.is_of(&ann), unauthenticated.enter().is_of(&bob)), (Ok(()), Ok(())));
        let of_the_machine: Vec<_> = (0..4).map(|_| unauthenticated.enter()).collect();
        assert!(of_the_machine.iter().all(|one| one.is_of(&Principal::LOCAL).is_ok()));
    }

    #[tokio::test(start_paused = true)]
    async fn the_one_that_was_silent_the_longest_makes_room_and_none_that_is_known() {
        let mut unauthenticated = unauthenticated();
        let known = unauthenticated.enter();
        known.is_of(&Principal::LOCAL).unwrap();
        let busy = unauthenticated.enter();
        let request = busy.asks();
        advance(Duration::from_secs(1)).await;
        let (first, second) = (unauthenticated.enter(), unauthenticated.enter());
        advance(Duration::from_secs(1)).await;
        drop(first.asks());
        let is_over = |connection: &Connection| connection.must_close(HEADS).now_or_never().is_some();
        for over in [&second, &first, &busy] {
            assert!(!is_over(over));
            assert!(unauthenticated.end_one());
            assert!(is_over(over));
        }
        assert!(!unauthenticated.end_one());
        assert!(!is_over(&known));
        drop(request);
    }

    #[tokio::test(start_paused = true)]
    async fn a_head_is_due_in_time_unless_the_token_was_shown_or_an_answer_is_due() {
        let mut unauthenticated = unauthenticated();
        let (silent, known, busy) = (unauthenticated.enter(), unauthenticated.enter(), unauthenticated.enter());
        known.is_of(&Principal::LOCAL).unwrap();
        let request = busy.asks();
        let began = Instant::now();
        silent.must_close(HEADS).await;
        assert_eq!(began.elapsed(), HEADS);
        advance(HEADS).await;
        assert!(busy.must_close(HEADS).now_or_never().is_none());
        assert!(known.must_close(HEADS).now_or_never().is_none());
        drop(request);
        busy.must_close(HEADS).await;
        assert_eq!(began.elapsed(), HEADS * 3);
    }
}
