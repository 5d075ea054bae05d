//! Keeps the work under way in a world (a host with its configuration): calls and turns by the names that callers gave
//! them, so that callers can cancel them, and sign-ins by their servers.

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
pub(crate) enum Work {
    Call,
    Turn,
}

impl State {
    fn named(&mut self, work: Work) -> &mut WorkByName {
        match work {
            Work::Call => &mut self.calls,
            Work::Turn => &mut self.turns,
        }
    }
}

/// Registers running work, until this value is dropped.
pub(crate) struct RunningWork {
    work_in_progress: WorkInProgress,
    work: Work,
    name: Option<String>,
    cancelled: CancellationToken,
}

impl WorkInProgress {
    /// Registers work that begins.
    ///
    /// # Errors
    /// [`NotBegun`]
    pub(crate) fn begin(&self, work: Work, name: Option<String>) -> Result<RunningWork, NotBegun> {
        let cancelled = CancellationToken::new();
        if let Some(name) = &name {
            self.0.lock().named(work).insert(name.clone(), cancelled.clone())?;
        }
        Ok(RunningWork { work_in_progress: self.clone(), work, name, cancelled })
    }

    /// Cancels the work of this name. Returns whether such work was running.
    pub(crate) fn cancel(&self, work: Work, name: &str) -> bool {
        let running = self.0.lock().named(work).get(name);
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
        self.cancelled.cancelled().await;
    }
}

impl Drop for RunningWork {
    fn drop(&mut self) {
        if let Some(name) = &self.name {
            self.work_in_progress.0.lock().named(self.work).remove(name);
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
        let (call, _turn) = (begin(Work::Call).unwrap(), begin(Work::Turn).unwrap());
        assert_eq!(begin(Work::Call).err(), Some(NotBegun::NameInUse));
        assert!(under_way.cancel(Work::Call, "1") && call.cancelled.is_cancelled());
        drop(call);
        assert!(!under_way.cancel(Work::Call, "1"));
        assert!(begin(Work::Call).is_ok());
        assert!(under_way.cancel(Work::Turn, "1"));
    }
}
