//! Shows the stderr and the log of servers live on the user's stderr, for `-v`.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::{
    sync::{broadcast, oneshot},
    task::JoinSet,
};
use toolrack_host::{Event, ServerName};

use crate::{
    render::{Tone, paint},
    screen::Screen,
};

/// Shows lines of servers until it is closed or dropped. Holds the sender that ends the task, and the task; `None` once
/// it is closed.
#[derive(Debug)]
pub(crate) struct ServerOutput(Mutex<Option<(oneshot::Sender<()>, JoinSet<()>)>>);

impl ServerOutput {
    /// Begins to show the messages of the servers that `shows` selects.
    pub(crate) fn start(
        mut events: broadcast::Receiver<Event>,
        screen: Arc<Screen>,
        shows: impl Fn(&ServerName) -> bool + Send + 'static,
    ) -> Self {
        let (end, mut ended) = oneshot::channel();
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            loop {
                let event = tokio::select! {
                    event = events.recv() => event,
                    _ = &mut ended => break,
                };
                match event {
                    Ok(event) => show_event(&event, &screen, &shows),
                    // There were too many messages: the log of the server has the missing ones.
                    Err(broadcast::error::RecvError::Lagged(lost)) => {
                        screen.detail(&format!("{lost} events were too many to be shown"));
                    }
                    Err(broadcast::error::RecvError::Closed) => return,
                }
            }
            while let Ok(event) = events.try_recv() {
                show_event(&event, &screen, &shows);
            }
        });
        Self(Mutex::new(Some((end, tasks))))
    }

    /// Shows the messages so far, and ends.
    pub(crate) async fn close(&self) {
        let running = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some((end, mut tasks)) = running {
            // Fails if the task has ended already.
            let _ = end.send(());
            tasks.join_next().await;
        }
    }
}

fn show_event(event: &Event, screen: &Screen, shows: &impl Fn(&ServerName) -> bool) {
    // The host has made these texts safe to print.
    let (server, kind, line) = match event {
        Event::McpServerStderr { server, line } => (server, "stderr", line),
        Event::McpServerLog { server, level, message } => (server, level.as_str(), message),
        Event::McpServerWarning { server, warning } => (server, "noticed", warning),
        _ => return,
    };
    if shows(server) {
        screen.detail(&format!("{} {line}", paint(Tone::Faint, &format!("{server} {kind}:"))));
    }
}
