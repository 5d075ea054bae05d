//! Lines and keys that are typed at the terminal of a command.

use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::oneshot;

use super::{Outbox, ToCommand};
use crate::editor::Edited;

/// Asks the command for one line at a time. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct FarLines {
    outbox: Outbox,
    request: Arc<Mutex<Request>>,
}

#[derive(Debug, Default)]
struct Request {
    /// How many lines were asked for.
    number: u32,
    /// The task that waits for the last one.
    answer: Option<oneshot::Sender<Option<String>>>,
}

/// Keys come at once while this lives.
#[derive(Debug)]
pub(crate) struct FarKeys(Outbox);

impl Drop for FarKeys {
    fn drop(&mut self) {
        self.0.push(ToCommand::Keys(false));
    }
}

/// Tells the command when no task waits any longer.
struct UnaskOnDrop<'a>(&'a FarLines);

impl Drop for UnaskOnDrop<'_> {
    fn drop(&mut self) {
        if self.0.request().answer.take().is_some() {
            self.0.outbox.push(ToCommand::Unask);
        }
    }
}

impl FarLines {
    pub(crate) fn new(outbox: Outbox) -> Self {
        Self { outbox, request: Arc::default() }
    }

    /// Discards what was typed before now, so that it answers no later question.
    pub(crate) fn forget(&self) {
        self.outbox.push(ToCommand::Forget);
    }

    /// The next line that is typed; `None` at the end of input.
    pub(crate) async fn next(&self) -> Option<String> {
        self.wait_for(ToCommand::Ask).await
    }

    /// Discards what was typed before now, and has keys come at once while the result lives.
    pub(crate) fn keys(&self) -> FarKeys {
        self.outbox.push(ToCommand::Keys(true));
        FarKeys(self.outbox.clone())
    }

    /// The next key; `None` at the end of input.
    pub(crate) async fn key(&self) -> Option<String> {
        self.wait_for(ToCommand::AskKey).await
    }

    /// Has the user change `text` in an editor.
    pub(crate) async fn edit(&self, text: &str) -> Edited {
        let edited = self.wait_for(|number| ToCommand::Edit(number, text.to_owned())).await;
        edited.and_then(|edited| serde_json::from_str(&edited).ok()).unwrap_or(Edited::NoEditor)
    }

    async fn wait_for(&self, ask: impl FnOnce(u32) -> ToCommand) -> Option<String> {
        let (answer, line) = oneshot::channel();
        let number = {
            let mut request = self.request();
            request.number = request.number.wrapping_add(1);
            request.answer = Some(answer);
            request.number
        };
        let _unask = UnaskOnDrop(self);
        self.outbox.push(ask(number));
        self.outbox.open();
        line.await.ok().flatten()
    }

    /// Takes the line that was typed while question `number` was open, and drops a line that comes too late.
    pub(crate) fn typed(&self, number: u32, line: Option<String>) {
        let mut request = self.request();
        if request.number == number
            && let Some(answer) = request.answer.take()
        {
            let _ = answer.send(line);
        }
    }

    fn request(&self) -> MutexGuard<'_, Request> {
        self.request.lock()
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn a_line_answers_its_own_question_and_no_later_one() {
        let lines = FarLines::new(Outbox::default());
        assert!(lines.next().now_or_never().is_none());
        let answered = async {
            tokio::task::yield_now().await;
            lines.typed(1, Some("late".to_owned()));
            lines.typed(2, Some("right".to_owned()));
        };
        let (line, ()) = tokio::join!(lines.next(), answered);
        assert_eq!(line.as_deref(), Some("right"));
        let mut sent = Vec::new();
        while let Some(Some(message)) = lines.outbox.next().now_or_never() {
            sent.push(format!("{message:?}"));
        }
        assert_eq!(sent, ["Ask(1)", "Unask", "Ask(2)"]);
    }
}
