//! Queues the messages of a daemon to the borrower (the process of the command).

use std::{collections::VecDeque, sync::Arc};

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;

use super::ToBorrower;

/// The most bytes that wait before a writer to stdout has to wait as well.
const SOFT_LIMIT_BYTES: usize = 256 * 1024;

/// The most bytes that wait. Beyond that, the daemon gives up the command, because its process reads nothing. Writers
/// to stderr never wait, so they can reach this limit.
const HARD_LIMIT_BYTES: usize = 8 * 1024 * 1024;

/// A queue of messages. It starts closed: until it is opened, nothing is sent, and its content can be taken back.
/// All clones share one queue.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outbox(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    queue: Mutex<Queue>,
    /// Notifies when there is something to send, or when the command was given up.
    content_notify: Notify,
    /// Notifies when there is room again.
    room_notify: Notify,
}

#[derive(Debug, Default)]
struct Queue {
    messages: VecDeque<ToBorrower>,
    bytes: usize,
    is_open: bool,
    is_given_up: bool,
}

impl Outbox {
    /// Appends a message, or drops it if the command was given up.
    pub(crate) fn push(&self, message: ToBorrower) {
        let mut queue = self.queue();
        if queue.is_given_up {
            return;
        }
        queue.bytes += message.queued_bytes();
        queue.messages.push_back(message);
        // More output than this cannot be held back, so send it.
        queue.is_open |= queue.bytes > SOFT_LIMIT_BYTES;
        if queue.bytes > HARD_LIMIT_BYTES {
            *queue = Queue { is_given_up: true, ..Queue::default() };
            self.0.room_notify.notify_waiters();
        }
        self.0.content_notify.notify_one();
    }

    /// Sends everything from now on.
    pub(crate) fn open(&self) {
        self.queue().is_open = true;
        self.0.content_notify.notify_one();
    }

    /// Removes all messages, unless the outbox was opened; returns whether they were removed.
    pub(crate) fn take_back(&self) -> bool {
        let mut queue = self.queue();
        if queue.is_open {
            return false;
        }
        *queue = Queue::default();
        true
    }

    /// Waits until there is room for more.
    pub(crate) async fn wait_for_room(&self) {
        loop {
            // Begins to listen before the check, so that it misses no notification in between.
            let room_notify = self.0.room_notify.notified();
            if self.queue().bytes <= SOFT_LIMIT_BYTES {
                return;
            }
            room_notify.await;
        }
    }

    /// Returns the next message; `None` if the command was given up.
    pub(crate) async fn next(&self) -> Option<ToBorrower> {
        loop {
            let content_notify = self.0.content_notify.notified();
            {
                let mut queue = self.queue();
                if queue.is_given_up {
                    return None;
                }
                if queue.is_open
                    && let Some(message) = queue.messages.pop_front()
                {
                    queue.bytes -= message.queued_bytes();
                    self.0.room_notify.notify_waiters();
                    return Some(message);
                }
            }
            content_notify.await;
        }
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.0.queue.lock()
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    fn text(bytes: usize) -> ToBorrower {
        ToBorrower::Err("x".repeat(bytes))
    }

    #[tokio::test]
    async fn the_outbox_sends_nothing_before_it_is_opened() {
        let outbox = Outbox::default();
        outbox.push(text(1));
        assert!(outbox.next().now_or_never().is_none());
        assert!(outbox.take_back());
        outbox.push(ToBorrower::End(3));
        outbox.open();
        assert!(matches!(outbox.next().await, Some(ToBorrower::End(3))), "what was taken back is gone");
        assert!(!outbox.take_back(), "what went out cannot be taken back");
    }

    #[tokio::test]
    async fn a_writer_of_a_lot_waits_for_the_reader() {
        let outbox = Outbox::default();
        outbox.push(text(SOFT_LIMIT_BYTES + 1));
        assert!(outbox.wait_for_room().now_or_never().is_none());
        assert!(outbox.next().await.is_some());
        outbox.wait_for_room().await;
    }

    #[tokio::test]
    async fn a_command_that_reads_nothing_is_given_up() {
        let outbox = Outbox::default();
        (0..9).for_each(|_| outbox.push(text(1024 * 1024)));
        assert!(outbox.next().await.is_none());
    }

    #[tokio::test]
    async fn no_writer_waits_for_a_command_that_was_given_up() {
        let outbox = Outbox::default();
        outbox.push(text(SOFT_LIMIT_BYTES + 1));
        let mut writer = Box::pin(outbox.wait_for_room());
        assert!(writer.as_mut().now_or_never().is_none());
        (0..8).for_each(|_| outbox.push(text(1024 * 1024)));
        assert!(writer.now_or_never().is_some());
        outbox.push(text(SOFT_LIMIT_BYTES + 1));
        assert!(outbox.wait_for_room().now_or_never().is_some(), "what is written now is dropped");
        assert!(outbox.next().now_or_never().unwrap().is_none());
        assert!(outbox.take_back(), "the daemon can still hand back a command that never read");
    }

    #[tokio::test]
    async fn a_lot_of_output_cannot_be_taken_back() {
        let outbox = Outbox::default();
        outbox.push(text(SOFT_LIMIT_BYTES));
        assert!(outbox.take_back(), "it fits");
        outbox.push(text(SOFT_LIMIT_BYTES));
        outbox.push(ToBorrower::End(0));
        outbox.push(text(1));
        assert!(!outbox.take_back());
        assert!(outbox.next().now_or_never().is_some(), "and goes out by itself");
    }

    #[tokio::test]
    async fn messages_keep_their_order_and_a_waiting_reader_gets_each() {
        let outbox = Outbox::default();
        outbox.open();
        let numbers = async {
            let mut numbers = Vec::new();
            while let Some(ToBorrower::End(number)) = outbox.next().await {
                numbers.push(number);
                if number == 3 {
                    break;
                }
            }
            numbers
        };
        let writer = async {
            for number in 1..=3 {
                outbox.push(ToBorrower::End(number));
                tokio::task::yield_now().await;
            }
        };
        assert_eq!(tokio::join!(numbers, writer).0, [1, 2, 3]);
    }
}
