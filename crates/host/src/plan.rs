//! Compares the desired set of servers with the actual set, without side effects, so that tests can look at a change of
//! the configuration as data. A server's *spec* is its configuration.

use std::collections::BTreeMap;

use crate::spec::{Desired, ServerName, ServerSpec};

/// One step from the actual to the desired set of servers.
#[derive(Debug, PartialEq)]
pub(crate) enum Action {
    Stop(ServerName),
    Start(ServerName, Box<ServerSpec>),
}

/// Returns the servers to stop, then the servers to start. A server whose spec has changed is in both lists, and a
/// server with an unchanged spec is in neither.
pub(crate) fn plan(desired: Desired, actual: &BTreeMap<ServerName, &ServerSpec>) -> Vec<Action> {
    let is_unchanged =
        |name: &ServerName, spec: &ServerSpec| actual.get(name).is_some_and(|actual_spec| *actual_spec == spec);
    let mut actions: Vec<_> = actual
        .iter()
        .filter(|(name, spec)| desired.get(*name).is_none_or(|desired_spec| desired_spec != **spec))
        .map(|(name, _)| Action::Stop(name.clone()))
        .collect();
    let start = desired.into_iter().filter(|(name, spec)| !is_unchanged(name, spec));
    actions.extend(start.map(|(name, spec)| Action::Start(name, Box::new(spec))));
    actions
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set_of(entries: &[(&str, &str)]) -> Desired {
        entries.iter().map(|(name, url)| (ServerName::new(*name).unwrap(), ServerSpec::http(*url))).collect()
    }

    fn steps(desired: Desired, actual: &Desired) -> Vec<String> {
        let actual = actual.iter().map(|(name, spec)| (name.clone(), spec)).collect();
        let say = |action| match action {
            Action::Stop(name) => format!("stop {name}"),
            Action::Start(name, _) => format!("start {name}"),
        };
        plan(desired, &actual).into_iter().map(say).collect()
    }

    #[test]
    fn only_changed_lines_are_redrawn() {
        let actual = set_of(&[("same", "1"), ("changed", "2"), ("gone", "3")]);
        let desired = set_of(&[("same", "1"), ("changed", "9"), ("new", "4")]);
        assert_eq!(steps(desired.clone(), &actual), ["stop changed", "stop gone", "start changed", "start new"]);
        assert!(steps(desired.clone(), &desired).is_empty(), "applying twice changes nothing");
    }
}
