//! Checks each list of a server's tools against *pins*, and again when the pins may have changed. Pins are the stored
//! definitions that the tools had when they were first seen or approved.
//!
//! A tool that differs from its pin is in *quarantine*: no call of it is sent until a user approves its definition. The
//! *generation* of the pins is a number that changes with each of them.

use std::{collections::HashMap, pin::pin, sync::Arc, time::Duration};

use tokio::time::{sleep, timeout};

use super::{Server, task::Task};
use crate::{
    catalog::{CatalogTool, ToolSet},
    event::Event,
    pins::{Cause, PinComparison, PinnedServer, StoredPins},
    spec::{PinMode, Transport},
    state::State,
};

/// How often the task checks whether another process has released a tool in quarantine.
const CHECK_INTERVAL: Duration = Duration::from_secs(2);

/// How long a call of a tool in quarantine waits for a fresh check of its pin.
const CHECK_TIMEOUT: Duration = Duration::from_secs(1);

impl Task {
    /// Checks `tools` against their pins, and separates the tools that do not match.
    pub(super) async fn checked_against_pins(&self, tools: ToolSet) -> ToolSet {
        let mode = self.spec.pins.unwrap_or_default();
        let (PinMode::Enforce | PinMode::Warn, Some(pins)) = (mode, &self.context.pins) else {
            return tools;
        };
        // A server in this process is part of the program, so it has no pins.
        if matches!(self.spec.transport, Transport::Native(_)) {
            return tools;
        }
        let keeps_mismatched_usable = mode == PinMode::Warn;
        let server = PinnedServer::of(&self.name, &self.spec);
        let list_hash = tools.hash();
        match pins.recall(&server, &list_hash).await {
            Ok(StoredPins::Unchanged) => tools,
            Ok(StoredPins::Pins { generation, pins: stored_pins }) => {
                let check = move || {
                    let comparison = tools.check_against(&stored_pins);
                    let causes: HashMap<_, _> = comparison
                        .mismatches
                        .iter()
                        .map(|mismatch| (mismatch.tool.as_str(), &mismatch.cause))
                        .collect();
                    let cause_of = |tool: &str| causes.get(tool).map(|cause| (*cause).clone());
                    let mut tools = tools.with_mismatches(cause_of, keeps_mismatched_usable);
                    tools.generation = Some(generation);
                    (tools, comparison)
                };
                // Checking thousands of definitions takes some time.
                match tokio::task::spawn_blocking(check).await {
                    Ok((tools, comparison)) => {
                        let (new, mismatches) = (comparison.new, comparison.mismatches);
                        pins.record_comparison(&server, PinComparison { list: list_hash, generation, new, mismatches })
                            .await;
                        tools
                    }
                    // The program is ending, or the check has panicked. Unchecked tools must not be used, so there are
                    // none.
                    Err(_) => ToolSet::default(),
                }
            }
            Err(error) => {
                let cause = |_: &str| Some(Cause::Unchecked { why: error.why.clone() });
                tools.with_mismatches(cause, keeps_mismatched_usable)
            }
        }
    }

    /// Waits for `work`. Meanwhile checks regularly whether tools in quarantine have been released.
    pub(super) async fn while_checking_pins<T>(&self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        loop {
            let has_mismatches = !self.snapshot_sender.borrow().tools.mismatched.is_empty();
            tokio::select! {
                output = &mut work => return output,
                () = self.wake.pins.notified() => self.recheck_pins().await,
                () = async { sleep(CHECK_INTERVAL).await; self.wait_for_new_pins().await }, if has_mismatches => {
                    self.recheck_pins().await
                }
            }
        }
    }

    /// Waits until the pins differ from those that the tools were checked against. If the pins could not be read for
    /// that check, returns at once, and the caller reads them again.
    async fn wait_for_new_pins(&self) {
        let Some(pins) = &self.context.pins else {
            return;
        };
        let server = PinnedServer::of(&self.name, &self.spec);
        let checked_generation = self.snapshot_sender.borrow().tools.generation;
        while checked_generation.is_some() && pins.generation(&server).await == checked_generation {
            sleep(CHECK_INTERVAL).await;
        }
    }

    /// Checks the published tools against their pins again, and publishes the result.
    async fn recheck_pins(&self) {
        let previous = self.snapshot_sender.borrow().tools.clone();
        // The same tools without any mismatch. Therefore the second argument has no effect.
        let unchecked = previous.with_mismatches(|_| None, true);
        let current = self.checked_against_pins(unchecked).await;
        let has_changed = current.mismatched != previous.mismatched;
        if has_changed {
            self.report_quarantined(&previous, &current);
        }
        let tool_count = current.tools.len();
        self.publish(|snapshot| {
            snapshot.rechecks += 1;
            if has_changed || current.generation != previous.generation {
                snapshot.tools = Arc::new(current);
                match &mut snapshot.state {
                    State::Connected { tools } | State::Idle { tools } => *tools = tool_count,
                    _ => {}
                }
            }
        });
    }

    /// Reports the tools that were not in quarantine before: the first few by name, the rest as a count.
    pub(super) fn report_quarantined(&self, previous: &ToolSet, current: &ToolSet) {
        let unnamed_count = self.report_each(&current.mismatched_since(previous), |mismatched| {
            self.emit(Event::McpToolQuarantined {
                server: self.name.clone(),
                quarantined: mismatched.to_quarantined(),
            });
        });
        if unnamed_count > 0 {
            self.warn(&format!("{unnamed_count} more tools differ from their pins"));
        }
    }
}

impl Server {
    /// Requests another check of the tools, because the pins may have changed.
    pub(crate) fn pins_changed(&self) {
        self.wake.pins.notify_one();
    }

    /// Returns whether `tool` was in quarantine at the last check of the pins.
    pub(crate) fn may_be_quarantined(&self, tool: &str) -> bool {
        self.snapshot_receiver.borrow().tools.quarantined_tool(tool).is_some()
    }

    /// Returns whether the server still lists `tool` with the definition that it had when the call was made.
    ///
    /// True for a server that the host provides itself: its definitions describe tools of other servers, and change
    /// with them.
    pub(crate) fn still_has(&self, tool: &CatalogTool) -> bool {
        if let Transport::Native(native) = &self.spec.transport
            && native.is_made_by_host()
        {
            return true;
        }
        let tools = self.snapshot_receiver.borrow().tools.clone();
        let listed = tools.tools.iter().find(|listed| listed.tool.name == tool.tool().name);
        listed.is_some_and(|listed| {
            Arc::ptr_eq(listed, &tool.listed) || listed.definition_hash() == tool.definition_hash()
        })
    }

    /// Returns the reason why `tool` is in quarantine, after a last check of its pin; `None` if the tool is no longer
    /// in quarantine.
    pub(crate) async fn quarantine_cause(&self, tool: &str) -> Option<Cause> {
        let cause_in = |snapshot: &super::Snapshot| {
            snapshot.tools.quarantined_tool(tool).map(|mismatched| mismatched.cause.clone())
        };
        let recheck_count = {
            let snapshot = self.snapshot_receiver.borrow();
            cause_in(&snapshot)?;
            snapshot.rechecks
        };
        self.pins_changed();
        let mut snapshot_receiver = self.snapshot_receiver.clone();
        // A task that is connecting makes no check, because it lists its tools soon anyway. After the time-out, the
        // last check counts.
        let _ = timeout(CHECK_TIMEOUT, snapshot_receiver.wait_for(|snapshot| snapshot.rechecks > recheck_count)).await;
        cause_in(&self.snapshot_receiver.borrow())
    }
}
