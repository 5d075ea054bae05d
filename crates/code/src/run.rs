//! One script: the thread that runs it, and the calls that it makes.

use std::{sync::Arc, thread};

use futures::StreamExt as _;
use tokio::sync::{mpsc, oneshot};
use toolrack_host::{Printed, ScriptTools, owned};

use crate::{
    Bounds,
    engine::{self, Answer, Asked, What},
    watch::{Lost, Seen},
};

/// The stack of the thread of a script, in bytes.
const THREAD: usize = 2 * 1024 * 1024;

/// Runs `code` to its end. Dropping the future ends the script at its next step, and cancels its calls.
pub(crate) async fn run(code: String, tools: ScriptTools, bounds: Bounds, lost: &Lost) -> Printed {
    let seen = Arc::new(Seen::new(bounds.output));
    let error = ended(code, tools, bounds, lost, &seen).await;
    Printed { text: seen.take_text(), error }
}

/// Why it did not come to its end.
async fn ended(code: String, tools: ScriptTools, bounds: Bounds, lost: &Lost, seen: &Arc<Seen>) -> Option<String> {
    if let Err(full) = lost.room().await {
        return Some(full);
    }
    // Room for all that a script may ask, so that it never waits to ask; and one answer at a time on the way back, so that
    // answers do not heap up while it computes.
    let (ask, mut asked) = mpsc::channel(bounds.calls.get());
    let (answer, answers) = mpsc::channel(1);
    let (end, mut thread) = oneshot::channel();
    let (_waiting, running) = lost.both_ends(seen);
    let script = {
        let seen = Arc::clone(seen);
        move || {
            let error = engine::run(&code, bounds, ask, answers, seen);
            // It is no more before its end is known, so that who begins another one finds it gone.
            drop(running);
            let _ = end.send(error);
        }
    };
    // Not one of tokio's: a runtime, and with it the process, waits for those however long they take.
    if let Err(error) = thread::Builder::new().name("script".to_owned()).stack_size(THREAD).spawn(script) {
        return Some(format!("the script was not run: there is no thread for it: {error}"));
    }
    let calls = futures::stream::poll_fn(|context| asked.poll_recv(context))
        // Each in a task of its own: what it holds is given back also while the script does not take an answer.
        .map(|asked| owned(made(tools.clone(), asked)))
        .buffer_unordered(bounds.parallel.get())
        .for_each(|made| async {
            let _ = answer.send(made).await;
        });
    let its_end = async {
        tokio::select! {
            error = &mut thread => error,
            // The script can ask no more: it is about to end.
            () = calls => thread.await,
        }
    };
    tokio::select! {
        biased;
        error = its_end => {
            error.unwrap_or_else(|_| Some("the interpreter failed; write the script in another way".to_owned()))
        }
        () = seen.overdue() => Some(engine::too_long(bounds)),
    }
}

async fn made(tools: ScriptTools, Asked { number, what }: Asked) -> Answer {
    let result = match what {
        What::Call { selector, arguments } => tools.call(&selector, arguments).await,
        What::Search { query, limit } => Ok(tools.search(&query, limit).await),
        What::Details { selector } => tools.details(&selector),
    };
    Answer { number, result }
}
