//! Secrets of new entries: the value goes into the store, and the file gets `${secret:NAME}`.

use serde_json::Value;
use toolrack_config::{
    import::{Sealed, has_secrets},
    trust::content_hash,
};

use crate::{
    error::{Exit, Failure, with_causes},
    secrets::SecretsError,
    wire::World,
};

/// Stores the secrets that were taken out.
///
/// # Errors
/// When the store does not take one; the entry is then not to be written.
pub(super) async fn keep(sealed: &Sealed, world: &World) -> Result<(), Failure> {
    let stored = world.stored();
    for one in sealed.iter() {
        stored.set(&one.name, &one.value).await.map_err(|error| store_failed(&error))?;
    }
    Ok(())
}

/// Takes the secrets out of the entry of `server`, into `sealed`.
///
/// # Errors
/// When there are some and the store cannot be used.
pub(super) async fn seal(sealed: &mut Sealed, server: &str, entry: &mut Value, world: &World) -> Result<(), Failure> {
    if has_secrets(entry) {
        sealed.seal(server, entry, &taken(world).await?);
    }
    Ok(())
}

/// Prints one line about where they are stored.
pub(super) fn tell(sealed: &Sealed, world: &World) {
    if sealed.is_empty() {
        return;
    }
    let named: Vec<String> = sealed.iter().map(|one| format!("{} as {}", one.what, one.name)).collect();
    let how = "the file says ${secret:NAME}; `--plain` writes values into it";
    world.screen.note(&format!("kept among the stored secrets: {}; {how}", named.join(", ")));
}

/// The names of the stored secrets, which new ones must not have.
///
/// # Errors
/// When the store cannot be used.
pub(super) async fn taken(world: &World) -> Result<Vec<String>, Failure> {
    world.stored().names().await.map_err(|error| store_failed(&error))
}

/// The hash that `entry` of `server` has once its secrets are taken out, provided that none of their names is in use.
pub(super) fn hash_of(server: &str, entry: &Value) -> String {
    let (mut entry, mut sealed) = (entry.clone(), Sealed::default());
    sealed.seal(server, &mut entry, &[]);
    content_hash(&entry)
}

fn store_failed(error: &SecretsError) -> Failure {
    let message = format!("a secret of the new entry cannot be stored: {}", with_causes(error));
    Failure::new(Exit::Other, "SECRETS", message).hint("`--plain` writes its value into the file instead")
}
