//! Running work by the names that callers gave it, so that it can be cancelled.

use std::{collections::HashMap, sync::Arc};

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

/// The most names at once.
const MAX: usize = 10_000;

/// Why work did not begin under the name that its caller gave it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotBegun {
    /// Other work of this name is running.
    NameInUse,
    /// So many others that have names are running.
    TooMany(usize),
}

/// Everything that has a name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Named(Arc<Mutex<HashMap<String, CancellationToken>>>);

/// Running work, until it is dropped.
#[derive(Debug)]
pub(crate) struct Running {
    all: Named,
    name: Option<String>,
    cancelled: CancellationToken,
}

impl Named {
    /// Registers work that begins.
    ///
    /// # Errors
    /// [`NotBegun`]
    pub(crate) fn begin(&self, name: Option<String>) -> Result<Running, NotBegun> {
        let cancelled = CancellationToken::new();
        if let Some(name) = &name {
            let mut all = self.0.lock();
            if all.len() >= MAX {
                return Err(NotBegun::TooMany(MAX));
            }
            if all.contains_key(name) {
                return Err(NotBegun::NameInUse);
            }
            all.insert(name.clone(), cancelled.clone());
        }
        Ok(Running { all: self.clone(), name, cancelled })
    }

    /// Cancels the work of this name; returns whether there is any.
    pub(crate) fn cancel(&self, name: &str) -> bool {
        let running = self.0.lock().get(name).cloned();
        running.inspect(CancellationToken::cancel).is_some()
    }
}

impl Running {
    /// Resolves when the work is cancelled by name.
    pub(crate) async fn cancelled(&self) {
        self.cancelled.cancelled().await;
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(name) = &self.name {
            self.all.0.lock().remove(name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_table_and_an_id_in_use_are_told_apart() {
        let all = Named::default();
        let mut running: Vec<_> = (1..MAX).map(|id| all.begin(Some(id.to_string())).unwrap()).collect();
        assert_eq!(all.begin(Some("1".to_owned())).unwrap_err(), NotBegun::NameInUse);
        running.push(all.begin(Some("last".to_owned())).unwrap());
        assert_eq!(all.begin(Some("new".to_owned())).unwrap_err(), NotBegun::TooMany(MAX));
        drop(running);
        assert!(all.begin(Some("new".to_owned())).is_ok());
    }
}
