//! Seals the secrets of new entries: each value goes into the secret store, and the file gets `${secret:NAME}` in place
//! of the value.

use serde_json::Value;
use toolrack_config::{
    import::{Sealed, has_secrets},
    trust::content_hash,
};

use crate::{
    context::Context,
    error::{Exit, Failure, with_causes},
    secrets::SecretsError,
};

/// Stores the secrets that were taken out of an entry.
///
/// # Errors
/// When a secret cannot be stored. The caller must not write the entry in this case.
pub(super) async fn store(sealed_secrets: &Sealed, context: &Context) -> Result<(), Failure> {
    let secret_store = context.secret_store();
    for secret in sealed_secrets.iter() {
        secret_store.set(&secret.name, &secret.value).await.map_err(|error| store_failed(&error))?;
    }
    Ok(())
}

/// Moves the secrets in the entry of `server` to `sealed_secrets`, and leaves references to them in the entry.
///
/// # Errors
/// When the entry has secrets, but the store cannot be used.
pub(super) async fn take_out(
    sealed_secrets: &mut Sealed,
    server: &str,
    entry: &mut Value,
    context: &Context,
) -> Result<(), Failure> {
    if has_secrets(entry) {
        sealed_secrets.seal(server, entry, &stored_names(context).await?);
    }
    Ok(())
}

/// Prints one line that says where the secrets are stored.
pub(super) fn report_stored(sealed_secrets: &Sealed, context: &Context) {
    if sealed_secrets.is_empty() {
        return;
    }
    let secrets: Vec<String> =
        sealed_secrets.iter().map(|secret| format!("{} as {}", secret.field, secret.name)).collect();
    let explanation = "the file says ${secret:NAME}; `--plain` writes values into it";
    context.screen.note(&format!("kept among the stored secrets: {}; {explanation}", secrets.join(", ")));
}

/// Returns the names of the stored secrets. A new secret must have another name.
///
/// # Errors
/// When the store cannot be used.
pub(super) async fn stored_names(context: &Context) -> Result<Vec<String>, Failure> {
    context.secret_store().names().await.map_err(|error| store_failed(&error))
}

/// Returns the hash that `entry` would have after [`take_out`], if no stored secret had one of the new names.
pub(super) fn hash_without_secrets(server: &str, entry: &Value) -> String {
    let (mut entry, mut sealed_secrets) = (entry.clone(), Sealed::default());
    sealed_secrets.seal(server, &mut entry, &[]);
    content_hash(&entry)
}

fn store_failed(error: &SecretsError) -> Failure {
    let message = format!("a secret of the new entry cannot be stored: {}", with_causes(error));
    Failure::new(Exit::Other, "SECRETS", message).hint("`--plain` writes its value into the file instead")
}
