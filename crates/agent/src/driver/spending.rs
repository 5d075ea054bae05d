//! Counts the tokens and the cost of one request to a model. The quotas of the host bound both for each caller.

use toolrack_host::{Admitted, Quantity, quota::billionths};

use crate::model::{Model, Usage};

/// The tokens and the cost of a request so far. Dropping this counts them, so that a cancelled request counts as well.
pub(super) struct Spending<'a> {
    /// The host's permit for the request, which counts what the request uses.
    permit: Admitted,
    model: &'a dyn Model,
    usage: Usage,
    /// The cost in US dollars, if the answer reported it.
    cost: Option<f64>,
}

impl<'a> Spending<'a> {
    pub(super) fn new(permit: Admitted, model: &'a dyn Model) -> Self {
        Self { permit, model, usage: Usage::default(), cost: None }
    }

    /// Sets the usage and the cost. Each report of a model is about the whole request so far, so it replaces the one
    /// before.
    pub(super) fn set(&mut self, usage: Usage, cost: Option<f64>) {
        (self.usage, self.cost) = (usage, cost);
    }
}

impl Drop for Spending<'_> {
    fn drop(&mut self) {
        self.permit.used(Quantity::Tokens, self.usage.input.saturating_add(self.usage.output));
        let cost = self.cost.or_else(|| self.model.cost_of(&self.usage));
        // If the prices are unknown, the cost counts as 0, and the quota in dollars does not bound this model.
        self.permit.used(Quantity::Dollars, billionths(cost.unwrap_or_default()));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use futures::{
        StreamExt as _,
        future::BoxFuture,
        poll,
        stream::{self, BoxStream},
    };
    use parking_lot::Mutex;
    use toolrack_host::{Caller, Host, OverQuota, Quota, Quotas, UsageMeter, Wire, Work};

    use crate::{
        Agent, AgentError, Message, Role, Turn,
        driver::NoopFront,
        model::{Delta, ModelError, Reply, Request, Scripted},
        turn::Limits,
    };

    use super::*;

    /// Admits requests to models until they have used 100 tokens, and records each reported amount.
    #[derive(Clone, Default)]
    struct RecordedUsage(Arc<Mutex<Vec<(Quantity, u64)>>>);

    impl Quotas for RecordedUsage {
        fn begin(&self, _: &Caller, work: Work) -> Result<Admitted, OverQuota> {
            assert_eq!(work, Work::Model);
            let used =
                self.0.lock().iter().filter(|(quantity, _)| *quantity == Quantity::Tokens).map(|(_, used)| used).sum();
            let quota = Quota::read("tokens_per_day", 100.0).unwrap();
            if used < 100 {
                return Ok(Admitted::counted_by(self.clone()));
            }
            let wait = std::time::Duration::from_secs(7);
            Err(OverQuota::new("a member", "limits.tokens_per_day".to_owned(), "the team file", (quota, used), wait))
        }
    }

    impl UsageMeter for RecordedUsage {
        fn used(&self, quantity: Quantity, amount: u64) {
            self.0.lock().push((quantity, amount));
        }
    }

    fn usage(input: u64, output: u64) -> Usage {
        Usage { input, output, ..Usage::default() }
    }

    fn agent(model: impl Model + 'static) -> (Agent, RecordedUsage) {
        let recorded = RecordedUsage::default();
        (Agent::new(Arc::new(model), Host::builder().quotas(Arc::new(recorded.clone())).build()), recorded)
    }

    fn turn() -> Turn {
        Turn::new(vec![Message::new(Role::User, "go")], Limits::default())
    }

    fn answer(usage: Usage, cost: Option<f64>) -> Reply {
        let mut reply = Reply::new(Message::new(Role::Assistant, "done"));
        (reply.usage, reply.cost) = (usage, cost);
        reply
    }

    #[tokio::test]
    async fn tokens_and_cost_are_counted_and_the_next_request_is_not_sent_once_they_are_used_up() {
        let model = Scripted::new().reply(answer(usage(90, 10), Some(0.25))).say("more").recording();
        let (agent, recorded) = agent(model);
        agent.run(&mut turn(), &mut NoopFront).await.unwrap();
        assert_eq!(*recorded.0.lock(), [(Quantity::Tokens, 100), (Quantity::Dollars, 250_000_000)]);
        let mut stopped = turn();
        let error = agent.run(&mut stopped, &mut NoopFront).await.unwrap_err();
        assert!(matches!(&error, AgentError::OverQuota(over) if over.used == 100), "{error}");
        assert_eq!(stopped.next(), crate::turn::Next::CallModel, "it can go on later");
    }

    /// A model that reports its usage, and never answers.
    #[derive(Debug)]
    struct NeverAnswers;

    impl Model for NeverAnswers {
        fn name(&self) -> &'static str {
            "silent"
        }

        fn wire(&self) -> Wire {
            Wire::OpenAiChat
        }

        fn context_tokens(&self) -> Option<u64> {
            None
        }

        fn cost_of(&self, usage: &Usage) -> Option<f64> {
            // The usage of the last report.
            (usage.input == 40).then_some(0.5)
        }

        fn complete(&self, _: Request<'_>) -> BoxFuture<'static, Result<Reply, ModelError>> {
            Box::pin(futures::future::pending())
        }

        fn stream(&self, _: Request<'_>) -> BoxStream<'static, Result<Delta, ModelError>> {
            let deltas = [Ok(Delta::Usage(usage(40, 0))), Ok(Delta::Usage(usage(40, 2)))];
            stream::iter(deltas).chain(stream::pending()).boxed()
        }
    }

    #[tokio::test]
    async fn a_dropped_request_counts_its_use_so_far() {
        let (agent, recorded) = agent(NeverAnswers);
        let (mut turn, mut front) = (turn(), NoopFront);
        let mut running = Box::pin(agent.run(&mut turn, &mut front));
        assert!(poll!(&mut running).is_pending());
        assert_eq!(*recorded.0.lock(), []);
        drop(running);
        assert_eq!(*recorded.0.lock(), [(Quantity::Tokens, 42), (Quantity::Dollars, 500_000_000)]);
    }
}
