//! Running work by the names that callers gave it, so that it can be cancelled.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use axum::http::StatusCode;
use tokio_util::sync::CancellationToken;

use super::ApiError;

/// The most names at once.
const MAX: usize = 10_000;

/// Everything that has a name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Named(Arc<Mutex<HashMap<String, CancellationToken>>>);

/// Running work, until it is dropped.
#[derive(Debug)]
pub(super) struct Running {
    all: Named,
    name: Option<String>,
    cancelled: CancellationToken,
}

impl Named {
    /// Registers work that begins.
    ///
    /// # Errors
    /// When other work of this name is running, or 10,000 others that have names.
    pub(super) fn begin(&self, name: Option<String>) -> Result<Running, ApiError> {
        let cancelled = CancellationToken::new();
        if let Some(name) = &name {
            let mut all = self.all();
            if all.len() >= MAX {
                let message = format!("{MAX} others with an id are under way");
                return Err(ApiError::new(StatusCode::TOO_MANY_REQUESTS, "TOO_MANY", message)
                    .hint("wait until some have ended, or give no id"));
            }
            if all.contains_key(name) {
                let message = "something of this id is under way";
                return Err(ApiError::new(StatusCode::CONFLICT, "ID_IN_USE", message).hint("choose another id"));
            }
            all.insert(name.clone(), cancelled.clone());
        }
        Ok(Running { all: self.clone(), name, cancelled })
    }

    /// Cancels the work of this name.
    ///
    /// # Errors
    /// When there is none.
    pub(super) fn cancel(&self, name: &str) -> Result<(), ApiError> {
        let running = self.all().get(name).cloned();
        running.ok_or_else(|| ApiError::not_found("nothing of this id is under way"))?.cancel();
        Ok(())
    }

    fn all(&self) -> MutexGuard<'_, HashMap<String, CancellationToken>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Running {
    /// Resolves when the work is cancelled by name.
    pub(super) async fn cancelled(&self) {
        self.cancelled.cancelled().await;
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(name) = &self.name {
            self.all.all().remove(name);
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
        assert_eq!(all.begin(Some("1".to_owned())).unwrap_err().status(), StatusCode::CONFLICT);
        running.push(all.begin(Some("last".to_owned())).unwrap());
        assert_eq!(all.begin(Some("new".to_owned())).unwrap_err().status(), StatusCode::TOO_MANY_REQUESTS);
        drop(running);
        assert!(all.begin(Some("new".to_owned())).is_ok());
    }
}
