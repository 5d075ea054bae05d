//! The profiles of a gateway (the MCP endpoint). A profile is a named selection of tools, with its own endpoint.
//! Profiles can change while the gateway serves them.

use std::{collections::BTreeMap, sync::Arc};

use tokio::sync::watch;
use toolrack_config::ToolProfiles;
use toolrack_host::{Selection, ToolProfile};

/// The profiles of a gateway by their names. Cheap to clone; all clones have the same profiles.
#[derive(Clone, Debug, Default)]
pub struct Profiles(Arc<watch::Sender<ToolProfiles>>);

impl Profiles {
    /// Replaces the profiles. Clients are told that their tools have changed, and see the tools of the new profiles
    /// with their next request. A client of a profile that is gone sees no tools.
    pub fn set(&self, profiles: ToolProfiles) {
        self.0.send_if_modified(|current| {
            let has_changed = *current != profiles;
            *current = profiles;
            has_changed
        });
    }

    /// Returns the profile of this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<Arc<ToolProfile>> {
        self.0.borrow().get(name).cloned()
    }

    /// The names of all profiles, in order.
    pub(crate) fn names(&self) -> Vec<Arc<str>> {
        self.0.borrow().keys().cloned().collect()
    }

    /// Returns a receiver that is notified of each change from now on.
    pub(crate) fn watch(&self) -> watch::Receiver<ToolProfiles> {
        self.0.subscribe()
    }
}

/// A profile that a client uses, by its name: it is looked up each time, because profiles can change.
#[derive(Clone, Debug)]
pub(crate) struct FollowedProfile {
    pub(crate) name: Arc<str>,
    pub(crate) profiles: Profiles,
}

impl FollowedProfile {
    /// The profile as it is now. If the profile is gone, a profile without tools.
    pub(crate) fn current(&self) -> Arc<ToolProfile> {
        self.profiles.get(&self.name).unwrap_or_else(|| Arc::new(ToolProfile::new(Selection::none())))
    }
}

impl From<BTreeMap<Arc<str>, ToolProfile>> for Profiles {
    fn from(profiles: BTreeMap<Arc<str>, ToolProfile>) -> Self {
        let all = profiles.into_iter().map(|(name, profile)| (name, Arc::new(profile))).collect();
        Self(Arc::new(watch::Sender::new(all)))
    }
}
