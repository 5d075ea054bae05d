//! Lists and forgets session answers: answers of users that cover further calls until the program ends.

use super::Host;
use crate::call::SessionAnswer;

impl Host {
    /// Returns the answers that cover further calls until the program ends, by server and tool.
    #[must_use]
    pub fn session_answers(&self) -> Vec<SessionAnswer> {
        let mut answers = self.call_context.session_answers.session_only();
        answers.sort_by(|a, b| (&a.server, &a.tool).cmp(&(&b.server, &b.tool)));
        answers
    }

    /// Forgets the [session answers](Self::session_answers) that `is_meant` selects: the user is asked about such calls
    /// again. Returns how many answers were forgotten.
    pub fn forget_session_answers(&self, is_meant: impl Fn(&SessionAnswer) -> bool) -> usize {
        self.call_context.session_answers.forget(is_meant)
    }
}
