//! The calls of one answer: several at once, each through the one door.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use futures::{StreamExt as _, stream};
use tokio::sync::mpsc;
use toolrack_host::{
    Call, CallError, Caller, Catalog, CatalogTool, Conceal, Content, OnProgress, ToolOutcome, Way, mcp::Progress, text,
};

use super::{Agent, AgentError, Front, TurnEvent};
use crate::{
    message::{ToolCallData, is_said},
    turn::{Next, Pending, ToolSaid, Turn},
};

/// Reports of progress that wait to be shown; beyond that the newest are dropped.
const WAITING_REPORTS: usize = 64;

/// What the model is told of a call that was cancelled alone.
const UNWANTED: &str = "the person cancelled this call; it may have run in part";

impl Agent {
    /// Makes the open calls of `turn`, and stores it after each result.
    pub(super) async fn make_calls(
        &self,
        turn: &mut Turn,
        catalog: &Arc<Catalog>,
        front: &mut dyn Front,
    ) -> Result<(), AgentError> {
        let Next::CallTools(pending) = turn.next() else {
            return Ok(());
        };
        for refused in pending.iter().filter(|pending| pending.result.is_some()) {
            front.happened(TurnEvent::CallBegins(&refused.call));
            if let Some(said) = &refused.result {
                let (text, is_error) = (&*said.text, said.is_error);
                let call = &refused.call;
                front.happened(TurnEvent::CallEnds { call, outcome: None, text, is_error, took: Duration::ZERO });
            }
        }
        let open: Vec<_> = pending.iter().filter(|open| open.result.is_none()).map(|open| open.call.clone()).collect();
        let (report, mut reports) = mpsc::channel(WAITING_REPORTS);
        let begun = Arc::new(Begun::default());
        let calls = open.iter().cloned().map(|call| {
            let (report, begun) = (report.clone(), Arc::clone(&begun));
            async move {
                begun.note(call.id.clone());
                let _ = report.try_send(Report::Begun(call.clone()));
                let began = Instant::now();
                let outcome = self.call(&call, catalog, report).await;
                (call, outcome, began.elapsed())
            }
        });
        let mut results = stream::iter(calls).buffer_unordered(self.parallel.get());
        let mut unwanted = front.calls_unwanted();
        loop {
            tokio::select! {
                biased;
                Some(report) = reports.recv() => report.tell(front),
                result = results.next() => {
                    let Some((call, outcome, took)) = result else { return Ok(()) };
                    // It may have ended in the moment in which it began, and nothing ends before it begins.
                    while let Ok(report) = reports.try_recv() {
                        report.tell(front);
                    }
                    let said = self.said(&outcome);
                    let (text, is_error) = (&*said.text, said.is_error);
                    let outcome = Some(outcome.as_ref());
                    front.happened(TurnEvent::CallEnds { call: &call, outcome, text, is_error, took });
                    turn.tool_said(&call.id, said);
                    // The last one is stored with what follows from it.
                    if matches!(turn.next(), Next::CallTools(_)) {
                        front.keep(turn).await?;
                    }
                }
                () = &mut unwanted => {
                    drop(results);
                    give_up(&open, &begun, turn, front);
                    return Ok(());
                }
            }
        }
    }

    async fn call(
        &self,
        call: &ToolCallData,
        catalog: &Arc<Catalog>,
        report: mpsc::Sender<Report>,
    ) -> Result<ToolOutcome, CallError> {
        self.has(&call.name, catalog)?;
        let id = call.id.clone();
        let on_progress: OnProgress = Arc::new(move |progress| {
            let _ = report.try_send(Report::Progress(id.clone(), progress));
        });
        let arguments = call.arguments().cloned().unwrap_or_default();
        let mut request = Call::new(&call.name, arguments)
            .pinned(Arc::clone(catalog))
            .on_progress(on_progress)
            .caller(Caller::by(Way::Agent));
        if let Some(asker) = &self.asker {
            request = request.asker(Arc::clone(asker));
        }
        if let Some(conceal) = &self.conceal {
            request = request.conceal(Arc::clone(conceal));
        }
        self.host.call(request).await
    }

    /// Refuses a name that a model has from elsewhere: of a tool that it was neither shown nor lets itself be found here.
    fn has(&self, name: &str, catalog: &Catalog) -> Result<(), CallError> {
        let findable = |tool: &CatalogTool| self.findable.as_ref().is_some_and(|findable| findable.has(tool));
        match catalog.select(name) {
            Ok(tool) if !self.selection.has(tool) && !findable(tool) => {
                catalog.select_within(name, &self.selection).map(drop).map_err(CallError::Unknown)
            }
            // Whether there is such a tool, the host says.
            _ => Ok(()),
        }
    }

    /// What the model is told: which server says it, and what.
    fn said(&self, outcome: &Result<ToolOutcome, CallError>) -> ToolSaid {
        let mut said = said(outcome);
        if let Some(conceal) = &self.conceal {
            said.text = conceal(&said.text);
            said.parts.iter_mut().for_each(|part| hide_in(part, conceal));
        }
        said
    }
}

/// Answers the calls that have no result yet in the place of their servers.
fn give_up(open: &[ToolCallData], begun: &Begun, turn: &mut Turn, front: &mut dyn Front) {
    for call in open {
        let is_open = |pending: &Pending| pending.call.id == call.id && pending.result.is_none();
        if matches!(turn.next(), Next::CallTools(pending) if pending.iter().any(is_open)) {
            let text = begun.farewell(&call.id);
            front.happened(TurnEvent::CallEnds { call, outcome: None, text, is_error: true, took: Duration::ZERO });
            turn.tool_said(&call.id, ToolSaid::error(text));
        }
    }
}

/// Hides secrets in what a server says beside text. Pictures, sounds and bytes are what they are.
fn hide_in(part: &mut Content, conceal: &Conceal) {
    match part {
        Content::Resource { resource } => resource.uri = conceal(&resource.uri),
        Content::Other(block) => text::change_in(block, &|text| conceal(text).into()),
        _ => {}
    }
}

/// What comes from a call before its result.
enum Report {
    Begun(ToolCallData),
    Progress(String, Progress),
}

impl Report {
    fn tell(&self, front: &mut dyn Front) {
        front.happened(match self {
            Self::Begun(call) => TurnEvent::CallBegins(call),
            Self::Progress(id, progress) => TurnEvent::CallProgress { id, progress },
        });
    }
}

/// The calls that were begun.
#[derive(Default)]
struct Begun(Mutex<Vec<String>>);

impl Begun {
    fn note(&self, id: String) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(id);
    }

    /// What the model is told of a call that is not waited for.
    fn farewell(&self, id: &str) -> &'static str {
        let begun = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if begun.iter().any(|begun| begun == id) {
            UNWANTED
        } else {
            "the person cancelled this call before it was made"
        }
    }
}

/// The same with everything that the server says.
fn said(outcome: &Result<ToolOutcome, CallError>) -> ToolSaid {
    match outcome {
        Ok(outcome) => {
            let text = format!("[data from {}]\n{}", text::for_line(outcome.server.as_str()), outcome.text);
            // What the text says already is kept nowhere else: secrets are hidden in it.
            let parts = outcome.content.iter().filter(|part| !is_said(part)).cloned().collect();
            ToolSaid { text, is_error: outcome.is_error, parts }
        }
        Err(error) => ToolSaid::error(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use toolrack_host::mcp::ResourceContents;

    use super::*;

    #[test]
    fn no_secret_stands_in_what_comes_beside_text() {
        let conceal: Conceal = Arc::new(|text: &str| text.replace("hunter2", "***"));
        let resource = |uri: &str| ResourceContents {
            uri: uri.to_owned(),
            mime_type: None,
            text: None,
            blob: Some("AAEC".to_owned()),
        };
        let mut parts = [
            Content::Resource { resource: resource("x://hunter2/a") },
            Content::Other(json!({"type": "new", "deep": [{"hunter2": "is hunter2"}]})),
        ];
        parts.iter_mut().for_each(|part| hide_in(part, &conceal));
        let hidden = [
            Content::Resource { resource: resource("x://***/a") },
            Content::Other(json!({"type": "new", "deep": [{"***": "is ***"}]})),
        ];
        assert_eq!(parts, hidden);
    }
}
