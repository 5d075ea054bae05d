//! Keeps track of the work under way in a world (a host with its configuration). Callers can cancel calls and turns by
//! the names that they gave them; a turn is a message of a user, and all that a model does until it has answered. For
//! each server, its latest sign-in is kept.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use super::{
    named::{NotBegun, WorkByName},
    sign_ins::LatestSignIns,
};

/// The work under way in a world. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct WorkInProgress(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    calls: WorkByName,
    turns: WorkByName,
    sign_ins: LatestSignIns,
}

/// Work that can have a name. A call and a turn may have the same name.
#[derive(Clone, Copy, Debug)]
pub(crate) enum WorkKind {
    Call,
    Turn,
}

impl State {
    fn by_name(&mut self, kind: WorkKind) -> &mut WorkByName {
        match kind {
            WorkKind::Call => &mut self.calls,
            WorkKind::Turn => &mut self.turns,
        }
    }
}

/// Registers running work, until this value is dropped.
pub(crate) struct RunningWork {
    work_in_progress: WorkInProgress,
    kind: WorkKind,
    name: Option<String>,
    cancellation: CancellationToken,
}

impl WorkInProgress {
    /// Registers work that begins.
    ///
    /// # Errors
    /// [`NotBegun`] when other work has this name, or too much named work is running.
    pub(crate) fn begin(&self, kind: WorkKind, name: Option<String>) -> Result<RunningWork, NotBegun> {
        let cancellation = CancellationToken::new();
        if let Some(name) = &name {
            self.0.lock().by_name(kind).insert(name.clone(), cancellation.clone())?;
        }
        Ok(RunningWork { work_in_progress: self.clone(), kind, name, cancellation })
    }

    /// Cancels the work of this name. Returns whether such work was running.
    pub(crate) fn cancel(&self, kind: WorkKind, name: &str) -> bool {
        let running = self.0.lock().by_name(kind).get(name);
        running.inspect(CancellationToken::cancel).is_some()
    }

    /// Runs `access` on the sign-ins, which stay locked meanwhile.
    pub(super) fn sign_ins<T>(&self, access: impl FnOnce(&mut LatestSignIns) -> T) -> T {
        access(&mut self.0.lock().sign_ins)
    }
}

impl RunningWork {
    /// Resolves when the work is cancelled by name.
    pub(crate) async fn cancelled(&self) {
        self.cancellation.cancelled().await;
    }
}

impl Drop for RunningWork {
    fn drop(&mut self) {
        if let Some(name) = &self.name {
            self.work_in_progress.0.lock().by_name(self.kind).remove(name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_free_again_when_its_work_is_over_and_a_call_does_not_take_that_of_a_turn() {
        let under_way = WorkInProgress::default();
        let begin = |work| under_way.begin(work, Some("1".to_owned()));
        let (call, _turn) = (begin(WorkKind::Call).unwrap(), begin(WorkKind::Turn).unwrap());
        assert_eq!(begin(WorkKind::Call).err(), Some(NotBegun::NameInUse));
        assert!(under_way.cancel(WorkKind::Call, "1") && call.cancellation.is_cancelled());
        drop(call);
        assert!(!under_way.cancel(WorkKind::Call, "1"));
        assert!(begin(WorkKind::Call).is_ok());
        assert!(under_way.cancel(WorkKind::Turn, "1"));
    }
}
