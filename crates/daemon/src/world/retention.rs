//! Deletes the conversations that `[sessions]` of the configuration no longer keeps, while their world runs (the host
//! with that configuration).

use std::{sync::Arc, time::Duration};

use tokio::time::{MissedTickBehavior, interval};
use toolrack_store::Retention;

use super::World;

/// How often to ask the store, which looks for old conversations once a day.
const ASK_INTERVAL: Duration = Duration::from_hours(1);

/// Deletes old conversations at once, and then again and again until the world ends, each time by the current settings.
pub(super) async fn run(world: Arc<World>) {
    let Some(store) = &world.store else { return };
    let mut ticks = interval(ASK_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let deletion = async {
            ticks.tick().await;
            let limits = world.loaded().settings.sessions;
            let retention = Retention { keep_days: limits.days, keep_sessions: limits.number };
            store.forget_old_sessions(retention, None).await
        };
        let deleted = tokio::select! {
            () = world.ending.cancelled() => return,
            deleted = deletion => deleted,
        };
        match deleted {
            Ok(0) => {}
            Ok(forgotten) => tracing::info!(forgotten, "old conversations were deleted, as `[sessions]` says"),
            Err(error) => tracing::warn!("old conversations will be deleted later: {error}"),
        }
    }
}
