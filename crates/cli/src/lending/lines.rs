//! Reads the lines and keys that the user types at the terminal of the borrower, the process for which the daemon runs
//! a command. This code runs in the daemon.

use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::oneshot;

use super::{Outbox, ToBorrower};
use crate::editor::EditOutcome;

/// Asks the borrower for one line at a time. Clones share the open question.
#[derive(Clone, Debug)]
pub(crate) struct BorrowerLines {
    outbox: Outbox,
    question: Arc<Mutex<Question>>,
}

#[derive(Debug, Default)]
struct Question {
    /// The number of the last question.
    number: u32,
    /// Receives the answer, while a task waits for it.
    answer: Option<oneshot::Sender<Option<String>>>,
}

/// While this exists, the borrower sends each key immediately.
#[derive(Debug)]
pub(crate) struct BorrowerKeys(Outbox);

impl Drop for BorrowerKeys {
    fn drop(&mut self) {
        self.0.push(ToBorrower::Keys(false));
    }
}

/// Withdraws a question when the task that waits for its answer ends. A later question stays.
struct WithdrawOnDrop<'a> {
    lines: &'a BorrowerLines,
    number: u32,
}

impl Drop for WithdrawOnDrop<'_> {
    fn drop(&mut self) {
        let mut question = self.lines.question();
        if question.number == self.number && question.answer.take().is_some() {
            self.lines.outbox.push(ToBorrower::Withdraw);
        }
    }
}

impl BorrowerLines {
    pub(crate) fn new(outbox: Outbox) -> Self {
        Self { outbox, question: Arc::default() }
    }

    /// Discards earlier input, so that it answers no later question.
    pub(crate) fn discard_input(&self) {
        self.outbox.push(ToBorrower::Forget);
    }

    /// The next line that is typed; `None` at the end of input.
    pub(crate) async fn next(&self) -> Option<String> {
        self.wait_for(ToBorrower::Ask).await
    }

    /// Discards earlier input, and delivers keys immediately while the result exists.
    pub(crate) fn enter_key_mode(&self) -> BorrowerKeys {
        self.outbox.push(ToBorrower::Keys(true));
        BorrowerKeys(self.outbox.clone())
    }

    /// The next key; `None` at the end of input.
    pub(crate) async fn key(&self) -> Option<String> {
        self.wait_for(ToBorrower::AskKey).await
    }

    /// Lets the user change `text` in an editor.
    pub(crate) async fn edit(&self, text: &str) -> EditOutcome {
        let reply = self.wait_for(|number| ToBorrower::Edit(number, text.to_owned())).await;
        // Without an answer, or with one that cannot be read, the user types the text instead.
        reply.and_then(|reply| serde_json::from_str(&reply).ok()).unwrap_or(EditOutcome::NoEditor)
    }

    async fn wait_for(&self, ask: impl FnOnce(u32) -> ToBorrower) -> Option<String> {
        let (answer, line) = oneshot::channel();
        let number = {
            let mut question = self.question();
            question.number = question.number.wrapping_add(1);
            question.answer = Some(answer);
            question.number
        };
        let _withdraw = WithdrawOnDrop { lines: self, number };
        self.outbox.push(ask(number));
        // The user must see the question, so the daemon can no longer hand the command back.
        self.outbox.open();
        line.await.ok().flatten()
    }

    /// Passes `line`, the answer to question `number`, to the task that waits for it. Drops it if that question is no
    /// longer open.
    pub(crate) fn receive(&self, number: u32, line: Option<String>) {
        let mut question = self.question();
        if question.number == number
            && let Some(answer) = question.answer.take()
        {
            // Fails if that task has ended; no task waits for the line then.
            let _ = answer.send(line);
        }
    }

    fn question(&self) -> MutexGuard<'_, Question> {
        self.question.lock()
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn a_line_answers_its_own_question_and_no_later_one() {
        let lines = BorrowerLines::new(Outbox::default());
        assert!(lines.next().now_or_never().is_none());
        let answered = async {
            tokio::task::yield_now().await;
            lines.receive(1, Some("late".to_owned()));
            lines.receive(2, Some("right".to_owned()));
        };
        let (line, ()) = tokio::join!(lines.next(), answered);
        assert_eq!(line.as_deref(), Some("right"));
        let mut sent = Vec::new();
        while let Some(Some(message)) = lines.outbox.next().now_or_never() {
            sent.push(format!("{message:?}"));
        }
        assert_eq!(sent, ["Ask(1)", "Withdraw", "Ask(2)"]);
    }

    /// What was sent to the command.
    fn sent(lines: &BorrowerLines) -> Vec<String> {
        lines.outbox.open();
        std::iter::from_fn(|| lines.outbox.next().now_or_never().flatten()).map(|sent| format!("{sent:?}")).collect()
    }

    #[tokio::test]
    async fn the_end_of_input_answers_a_question_and_no_second_answer_does() {
        let lines = BorrowerLines::new(Outbox::default());
        let answered = async {
            tokio::task::yield_now().await;
            lines.receive(1, None);
            lines.receive(1, Some("again".to_owned()));
        };
        assert_eq!(tokio::join!(lines.next(), answered).0, None);
        assert_eq!(sent(&lines), ["Ask(1)"], "the question was answered, so it is not taken back");
    }

    #[tokio::test]
    async fn keys_come_at_once_only_while_a_task_wants_them() {
        let lines = BorrowerLines::new(Outbox::default());
        let keys = lines.enter_key_mode();
        assert!(lines.key().now_or_never().is_none());
        drop(keys);
        lines.discard_input();
        assert_eq!(sent(&lines), ["Keys(true)", "AskKey(1)", "Withdraw", "Keys(false)", "Forget"]);
    }

    #[tokio::test]
    async fn an_unreadable_answer_of_the_editor_counts_as_none() {
        for answer in [None, Some("{"), Some("7")] {
            let lines = BorrowerLines::new(Outbox::default());
            let answered = async {
                tokio::task::yield_now().await;
                lines.receive(1, answer.map(ToOwned::to_owned));
            };
            let (reply, ()) = tokio::join!(lines.edit("text"), answered);
            assert!(matches!(reply, EditOutcome::NoEditor), "{answer:?}: {reply:?}");
        }
    }

    #[tokio::test]
    async fn a_second_question_takes_the_place_of_the_first() {
        let lines = BorrowerLines::new(Outbox::default());
        let (first, second) = (lines.clone(), lines.clone());
        let answered = async {
            tokio::task::yield_now().await;
            lines.receive(2, Some("right".to_owned()));
        };
        let (first, second, ()) = tokio::join!(first.next(), second.next(), answered);
        assert_eq!((first, second.as_deref()), (None, Some("right")));
    }
}
