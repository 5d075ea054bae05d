//! Writes the settings of a container as they are shown to a user.

use serde_json::{Map, Value as Json, json};
use toolrack_host::spec::{Container, Mount, Pull};

/// Returns a container to show, with its network and limits even if they are the defaults: a user who agrees to the
/// entry should see them.
pub(super) fn container_value(container: &Container) -> Json {
    let mut fields = Map::from_iter([
        ("image".to_owned(), json!(container.image)),
        ("engine".to_owned(), json!(container.engine.word())),
        ("network".to_owned(), json!(container.network.as_deref().unwrap_or("none"))),
        ("read_only".to_owned(), json!(!container.writable)),
    ]);
    if !container.mounts.is_empty() {
        let mount_text = |mount: &Mount| {
            let access = if mount.write { "rw" } else { "ro" };
            format!("{}:{}:{access}", mount.source, mount.target)
        };
        fields.insert("mounts".to_owned(), json!(container.mounts.iter().map(mount_text).collect::<Vec<_>>()));
    }
    fields.insert("tmpfs".to_owned(), json!(container.tmpfs));
    if let Some(user) = &container.user {
        fields.insert("user".to_owned(), json!(user));
    }
    if container.pull == Pull::Never {
        fields.insert("pull".to_owned(), json!("never"));
    }
    let mut limits = Map::from_iter([
        ("memory".to_owned(), json!(container.memory)),
        ("processes".to_owned(), json!(container.processes)),
    ]);
    limits.extend(container.millicpus.map(|cpus| ("cpus".to_owned(), json!(f64::from(cpus) / 1000.0))));
    fields.insert("limits".to_owned(), Json::Object(limits));
    Json::Object(fields)
}
