//! Runs the background task of a gateway (one MCP server in front of all others): it passes events of the host on to
//! clients, and ends idle sessions and abandoned calls.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use tokio::{
    sync::broadcast::error::RecvError,
    time::{MissedTickBehavior, interval},
};
use tokio_util::sync::CancellationToken;
use toolrack_host::Event;

use super::{
    Inner,
    news::{List, News},
};

/// How often the task looks for idle sessions and for parked calls (calls that wait for their client to return).
const SWEEP_INTERVAL: Duration = Duration::from_secs(15);

/// Runs until the gateway is shut down or dropped.
pub(super) async fn run(gateway: Weak<Inner>, stop: CancellationToken) {
    let Some(mut events) = gateway.upgrade().map(|gateway| gateway.host.events()) else { return };
    let Some(mut profiles) = gateway.upgrade().map(|gateway| gateway.options.profiles.watch()) else { return };
    let mut sweep = interval(SWEEP_INTERVAL);
    sweep.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // The last version of the catalog that clients were told about.
    let mut catalog_version = 0;
    loop {
        let event = tokio::select! {
            () = stop.cancelled() => return,
            event = events.recv() => Some(event),
            Ok(()) = profiles.changed() => {
                let Some(gateway) = gateway.upgrade() else { return };
                List::ALL.into_iter().for_each(|list| gateway.news.send(News::Changed(list, /* server */ None)));
                continue;
            }
            _ = sweep.tick() => None,
        };
        let Some(gateway) = gateway.upgrade() else { return };
        match event {
            Some(Ok(event)) => on_event(&gateway, event, &mut catalog_version),
            Some(Err(RecvError::Lagged(_))) => on_missed_events(&gateway, &mut catalog_version),
            Some(Err(RecvError::Closed)) => return,
            None => gateway.memory.sweep(),
        }
    }
}

/// Tells clients of an event of the host, and drops cached lists that it makes out of date.
fn on_event(gateway: &Arc<Inner>, event: Event, catalog_version: &mut u64) {
    let offers_changed = matches!(
        event,
        Event::McpServerConnected { .. }
            | Event::McpServerDisconnected { .. }
            | Event::McpPromptsChanged { .. }
            | Event::McpResourcesChanged { .. }
    );
    if offers_changed {
        gateway.directory.forget();
    }
    if matches!(event, Event::McpToolsUpdated { .. }) {
        *catalog_version = gateway.host.catalog().version();
    }
    gateway.news.send_event(event);
}

/// Handles the loss of events when too many arrive at once: tells clients that every list has changed that may have
/// changed.
fn on_missed_events(gateway: &Arc<Inner>, catalog_version: &mut u64) {
    let current_version = gateway.host.catalog().version();
    if current_version != *catalog_version {
        *catalog_version = current_version;
        gateway.news.send(News::Changed(List::Tools, /* server */ None));
    }
    gateway.directory.forget();
    gateway.news.send(News::Changed(List::Prompts, /* server */ None));
    gateway.news.send(News::Changed(List::Resources, /* server */ None));
}
