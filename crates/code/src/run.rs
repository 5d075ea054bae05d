//! One script: the thread that runs it, and the calls that it asks for.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use futures::StreamExt as _;
use serde_json::{Map, Value};
use tokio::{sync::mpsc, task::spawn_blocking};
use toolrack_host::{Printed, ScriptCallError, ScriptTools};

use crate::{Bounds, engine};

/// Something that a script wants from outside.
#[derive(Debug)]
pub(crate) struct Asked {
    /// Its number in this script.
    pub(crate) number: u32,
    pub(crate) what: What,
}

/// What there is to want.
#[derive(Debug)]
pub(crate) enum What {
    Call { selector: String, arguments: Map<String, Value> },
    Search { query: String, limit: usize },
    Details { selector: String },
}

/// What came of it: JSON, or why there is none.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) number: u32,
    pub(crate) result: Result<String, ScriptCallError>,
}

/// Ends the script when nobody waits for it any more.
#[derive(Debug, Default)]
struct Stop(Arc<AtomicBool>);

impl Drop for Stop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Runs `code` to its end. Dropping the future ends the script at its next step, and cancels its calls.
pub(crate) async fn run(code: String, tools: ScriptTools, bounds: Bounds) -> Printed {
    // Room for all that a script may ask, so that it never waits to ask; and one answer at a time on the way back, so that
    // answers do not heap up while it computes.
    let (ask, mut asked) = mpsc::channel(bounds.calls.get());
    let (answer, answers) = mpsc::channel(1);
    let stop = Stop::default();
    let stopped = Arc::clone(&stop.0);
    let mut thread = spawn_blocking(move || engine::run(&code, bounds, ask, answers, stopped));
    let calls = futures::stream::poll_fn(|context| asked.poll_recv(context))
        .map(|asked| made(&tools, asked))
        .buffer_unordered(bounds.parallel.get())
        .for_each(|made| async {
            let _ = answer.send(made).await;
        });
    let ended = tokio::select! {
        ended = &mut thread => ended,
        // The script can ask no more: it is about to end.
        () = calls => thread.await,
    };
    drop(stop);
    ended.unwrap_or_else(|_| Printed {
        text: String::new(),
        error: Some("the interpreter failed; write the script in another way".to_owned()),
    })
}

async fn made(tools: &ScriptTools, Asked { number, what }: Asked) -> Answer {
    let result = match what {
        What::Call { selector, arguments } => tools.call(&selector, arguments).await,
        What::Search { query, limit } => Ok(tools.search(&query, limit).await),
        What::Details { selector } => tools.details(&selector),
    };
    Answer { number, result }
}
