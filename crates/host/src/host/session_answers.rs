//! The answers of users that cover further calls until the program ends.

use super::Host;
use crate::call::SessionAnswer;

impl Host {
    /// Returns the answers that cover further calls until the program ends, by server and tool.
    #[must_use]
    pub fn session_answers(&self) -> Vec<SessionAnswer> {
        let mut answers = self.call_context.answered.kept_here();
        answers.sort_by(|one, other| (&one.server, &one.tool).cmp(&(&other.server, &other.tool)));
        answers
    }

    /// Takes back the answers until the program ends that `is_meant`: the user is asked about such calls again. Returns how
    /// many there were.
    pub fn forget_session_answers(&self, is_meant: impl Fn(&SessionAnswer) -> bool) -> usize {
        self.call_context.answered.forget(is_meant)
    }
}
