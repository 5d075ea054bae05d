//! Server requests that run as tasks of ours (MCP 2025-11-25, experimental): the server gets a task at once and comes
//! back for the result.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, SystemTime},
};

use serde_json::{Value, json};
use tokio::sync::watch;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::link::inbound::input::Refusal;

/// Tasks kept at once; the oldest finished one makes room.
const MOST_TASKS: usize = 64;
/// The poll interval that the server is asked to keep.
const POLL: Duration = Duration::from_millis(200);

type Outcome = Option<Arc<Result<Value, Refusal>>>;

/// The tasks that a server started here.
#[derive(Debug)]
pub(crate) struct OurTasks {
    tracker: TaskTracker,
    stop: CancellationToken,
    tasks: Mutex<BTreeMap<u64, Task>>,
}

#[derive(Debug)]
struct Task {
    created: SystemTime,
    ttl: Option<u64>,
    outcome: watch::Receiver<Outcome>,
    cancel: CancellationToken,
}

impl OurTasks {
    pub(crate) fn new(tracker: TaskTracker, stop: CancellationToken) -> Self {
        Self { tracker, stop, tasks: Mutex::default() }
    }

    /// Starts `work` and answers with its task.
    pub(crate) fn start(
        &self,
        ttl: Option<u64>,
        work: impl Future<Output = Result<Value, Refusal>> + Send + 'static,
    ) -> Result<Value, Refusal> {
        let mut tasks = self.lock();
        if tasks.len() >= MOST_TASKS {
            let done = tasks.iter().find(|(_, task)| task.outcome.borrow().is_some());
            let Some(done) = done.map(|(id, _)| *id) else {
                return Err(Refusal::new(-32000, "too many tasks are waiting"));
            };
            tasks.remove(&done);
        }
        let id = tasks.last_key_value().map_or(1, |(id, _)| id + 1);
        let (tell, outcome) = watch::channel(None);
        let cancel = self.stop.child_token();
        let task = Task { created: SystemTime::now(), ttl, outcome, cancel: cancel.clone() };
        let answer = json!({"task": task.describe(id)});
        tasks.insert(id, task);
        self.tracker.spawn(async move {
            if let Some(result) = cancel.run_until_cancelled(work).await {
                tell.send_replace(Some(Arc::new(result)));
            }
        });
        Ok(answer)
    }

    /// Serves `tasks/get`, `tasks/result`, `tasks/list` and `tasks/cancel`.
    pub(crate) async fn serve(&self, method: &str, params: &Value) -> Result<Value, Refusal> {
        if method == "tasks/list" {
            let tasks: Vec<_> = self.lock().iter().map(|(id, task)| task.describe(*id)).collect();
            return Ok(json!({"tasks": tasks}));
        }
        let name = params["taskId"].as_str().unwrap_or_default().to_owned();
        let unknown = || Refusal::new(-32602, "unknown task");
        let id: u64 = name.strip_prefix("task-").and_then(|id| id.parse().ok()).ok_or_else(unknown)?;
        let (description, mut outcome) = {
            let tasks = self.lock();
            let task = tasks.get(&id).ok_or_else(unknown)?;
            if method == "tasks/cancel" {
                if task.status() != "working" {
                    return Err(Refusal::new(-32602, "the task has already ended"));
                }
                task.cancel.cancel();
            }
            (task.describe(id), task.outcome.clone())
        };
        match method {
            "tasks/get" | "tasks/cancel" => Ok(description),
            "tasks/result" => {
                let gone = || Refusal::new(-32602, "the task was cancelled");
                let done = outcome.wait_for(Option::is_some).await.map_err(|_| gone())?.clone();
                match done.as_deref() {
                    Some(Ok(result)) => Ok(related(result.clone(), &name)),
                    Some(Err(refusal)) => Err(Refusal::new(refusal.code, refusal.message.clone())),
                    None => Err(gone()),
                }
            }
            _ => Err(Refusal::new(-32601, "not supported")),
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Task>> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Task {
    fn status(&self) -> &'static str {
        match self.outcome.borrow().as_deref() {
            _ if self.cancel.is_cancelled() => "cancelled",
            None => "working",
            Some(Ok(_)) => "completed",
            Some(Err(_)) => "failed",
        }
    }

    fn describe(&self, id: u64) -> Value {
        json!({
            "taskId": format!("task-{id}"),
            "status": self.status(),
            "createdAt": rfc3339(self.created),
            "lastUpdatedAt": rfc3339(SystemTime::now()),
            "ttl": self.ttl,
            "pollInterval": POLL.as_millis() as u64,
        })
    }
}

fn rfc3339(time: SystemTime) -> String {
    chrono::DateTime::<chrono::Utc>::from(time).to_rfc3339()
}

fn related(mut result: Value, task: &str) -> Value {
    result["_meta"]["io.modelcontextprotocol/related-task"] = json!({"taskId": task});
    result
}
