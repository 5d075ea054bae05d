//! Runs a server's requests as tasks of this client (MCP 2025-11-25, experimental): the server gets a task immediately
//! and asks for the result later.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, SystemTime},
};

use serde_json::{Value, json};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::link::inbound::input::Refusal;
use crate::mcp::codes::{INVALID_PARAMS, METHOD_NOT_FOUND};

/// The most tasks of a server. A further task replaces the oldest finished task.
const MAX_TASKS: usize = 64;
/// The poll interval that the server is asked to use.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// The result of a task; `None` while the task runs. A cancelled task never gets a result: its sender is dropped.
type Outcome = Option<Arc<Result<Value, Refusal>>>;

/// The tasks that a server has started on this client.
#[derive(Debug, Default)]
pub(super) struct ClientTasks(BTreeMap<u64, Task>);

#[derive(Debug)]
struct Task {
    created: SystemTime,
    /// The lifetime that the server asked for, in milliseconds. The host only repeats it.
    ttl: Option<u64>,
    outcome: watch::Receiver<Outcome>,
    cancel: CancellationToken,
}

/// A task whose work has not begun.
pub(super) struct NewTask {
    /// The answer to the request that started the task.
    pub(super) answer: Value,
    pub(super) runner: TaskRunner,
}

/// The handle of a task for the code that runs it.
pub(super) struct TaskRunner {
    outcome: watch::Sender<Outcome>,
    cancel: CancellationToken,
}

impl TaskRunner {
    /// Runs the work, until the task is cancelled.
    pub(super) async fn run(self, work: impl Future<Output = Result<Value, Refusal>>) {
        if let Some(result) = self.cancel.run_until_cancelled(work).await {
            self.outcome.send_replace(Some(Arc::new(result)));
        }
    }
}

/// The answer to a request about a task.
pub(super) enum Reply {
    Immediate(Value),
    /// The result of `task`, once there is one.
    TaskResult {
        task: String,
        outcome: watch::Receiver<Outcome>,
    },
}

impl Reply {
    /// Waits until the reply is complete, and returns it.
    pub(super) async fn wait(self) -> Result<Value, Refusal> {
        let (task, mut outcome) = match self {
            Self::Immediate(answer) => return Ok(answer),
            Self::TaskResult { task, outcome } => (task, outcome),
        };
        let cancelled = || Refusal::new(INVALID_PARAMS, "the task was cancelled");
        // The wait fails if the sender is dropped without a result.
        let result = outcome.wait_for(Option::is_some).await.map_err(|_| cancelled())?.clone();
        match result.as_deref() {
            Some(Ok(result)) => Ok(with_related_task(result.clone(), &task)),
            Some(Err(refusal)) => Err(Refusal::new(refusal.code, refusal.message.clone())),
            None => Err(cancelled()),
        }
    }
}

impl ClientTasks {
    /// Adds a task that ends when `stop` is cancelled.
    pub(super) fn begin(&mut self, ttl: Option<u64>, stop: &CancellationToken) -> Result<NewTask, Refusal> {
        if self.0.len() >= MAX_TASKS {
            let finished_task = self.0.iter().find(|(_, task)| task.has_ended());
            let Some(finished_id) = finished_task.map(|(id, _)| *id) else {
                return Err(Refusal::busy("too many tasks are waiting"));
            };
            self.0.remove(&finished_id);
        }
        let id = self.0.last_key_value().map_or(1, |(id, _)| id + 1);
        let (sender, outcome) = watch::channel(None);
        let cancel = stop.child_token();
        let task = Task { created: SystemTime::now(), ttl, outcome, cancel: cancel.clone() };
        let answer = json!({"task": task.describe(id)});
        self.0.insert(id, task);
        Ok(NewTask { answer, runner: TaskRunner { outcome: sender, cancel } })
    }

    /// Answers `tasks/get`, `tasks/result`, `tasks/list` and `tasks/cancel`.
    pub(super) fn handle(&self, method: &str, params: &Value) -> Result<Reply, Refusal> {
        if method == "tasks/list" {
            let tasks: Vec<_> = self.0.iter().map(|(id, task)| task.describe(*id)).collect();
            return Ok(Reply::Immediate(json!({"tasks": tasks})));
        }
        let task_name = params["taskId"].as_str().unwrap_or_default();
        let unknown_task = || Refusal::new(INVALID_PARAMS, "unknown task");
        let id: u64 = task_name.strip_prefix("task-").and_then(|id| id.parse().ok()).ok_or_else(unknown_task)?;
        let task = self.0.get(&id).ok_or_else(unknown_task)?;
        match method {
            "tasks/get" => Ok(Reply::Immediate(task.describe(id))),
            "tasks/cancel" if task.has_ended() => Err(Refusal::new(INVALID_PARAMS, "the task has already ended")),
            "tasks/cancel" => {
                task.cancel.cancel();
                Ok(Reply::Immediate(task.describe(id)))
            }
            "tasks/result" => Ok(Reply::TaskResult { task: task_name.to_owned(), outcome: task.outcome.clone() }),
            _ => Err(Refusal::new(METHOD_NOT_FOUND, "not supported")),
        }
    }
}

impl Task {
    /// Whether the task was cancelled or has a result.
    fn has_ended(&self) -> bool {
        self.cancel.is_cancelled() || self.outcome.borrow().is_some()
    }

    fn status(&self) -> &'static str {
        match self.outcome.borrow().as_deref() {
            _ if self.cancel.is_cancelled() => "cancelled",
            None => "working",
            Some(Ok(_)) => "completed",
            Some(Err(_)) => "failed",
        }
    }

    /// Returns the description of the task `id` for the server. It names the current time as that of the last change,
    /// which is not stored.
    fn describe(&self, id: u64) -> Value {
        json!({
            "taskId": format!("task-{id}"),
            "status": self.status(),
            "createdAt": rfc3339(self.created),
            "lastUpdatedAt": rfc3339(SystemTime::now()),
            "ttl": self.ttl,
            "pollInterval": POLL_INTERVAL.as_millis() as u64,
        })
    }
}

fn rfc3339(time: SystemTime) -> String {
    chrono::DateTime::<chrono::Utc>::from(time).to_rfc3339()
}

fn with_related_task(mut result: Value, task: &str) -> Value {
    result["_meta"]["io.modelcontextprotocol/related-task"] = json!({"taskId": task});
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cancelled_task_makes_room_for_a_new_one() {
        let (mut tasks, stop) = (ClientTasks::default(), CancellationToken::new());
        // The runners are kept, because a task is cancelled before its work has noticed it.
        let runners: Vec<_> =
            (0..MAX_TASKS).map(|_| tasks.begin(None, &stop).map_err(|_| ()).unwrap().runner).collect();
        assert!(tasks.begin(None, &stop).is_err());
        assert!(tasks.handle("tasks/cancel", &json!({"taskId": "task-3"})).is_ok());
        let new = tasks.begin(None, &stop).map_err(|refusal| refusal.message).unwrap();
        assert_eq!(new.answer["task"]["taskId"], format!("task-{}", MAX_TASKS + 1));
        assert!(tasks.handle("tasks/get", &json!({"taskId": "task-3"})).is_err(), "its place is taken");
        assert!(tasks.handle("tasks/get", &json!({"taskId": "task-1"})).is_ok());
        assert!(tasks.begin(None, &stop).is_err());
        drop(runners);
    }
}
