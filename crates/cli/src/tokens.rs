//! Keeps the tokens of sign-ins in the vault (the encrypted values in the database).

use std::{sync::Arc, time::Duration};

use futures::future::BoxFuture;
use toolrack_auth::{TokenKey, TokenLease, TokenStore, TokenStoreError};
use toolrack_store::{Space, Vault, VaultError};

use crate::{error::with_causes, secrets::SecretStore};

/// How long to wait for another process that holds the lease. The caller also limits the time of a whole sign-in.
const LEASE_WAIT: Duration = Duration::from_secs(300);

/// The tokens of a user, in the vault with the user's secrets.
#[derive(Debug)]
pub(crate) struct Tokens(pub(crate) Arc<SecretStore>);

fn store_error(error: &dyn std::error::Error) -> TokenStoreError {
    TokenStoreError::new(with_causes(error))
}

impl TokenStore for Tokens {
    fn load<'a>(&'a self, key: &'a TokenKey) -> BoxFuture<'a, Result<Option<Vec<u8>>, TokenStoreError>> {
        Box::pin(async move {
            let name = key.to_text();
            let Some(vault) =
                self.0.vault_for_reading(Space::Token, &name).await.map_err(|error| store_error(&error))?
            else {
                return Ok(None);
            };
            let token = match vault.get(Space::Token, &name).await {
                Err(error) => {
                    let vault = self.0.vault_with_new_key(error).await.map_err(|error| store_error(&error))?;
                    vault.get(Space::Token, &name).await
                }
                token => token,
            };
            Ok(token.map_err(|error| store_error(&error))?.map(|token| token.expose().to_vec()))
        })
    }

    fn keys(&self) -> BoxFuture<'_, Result<Vec<TokenKey>, TokenStoreError>> {
        Box::pin(async move {
            let names = self.0.store().map_err(|error| store_error(&error))?.sealed_names(Space::Token).await;
            let names = names.map_err(|error| store_error(&error))?;
            Ok(names.iter().filter_map(|name| TokenKey::from_text(name)).collect())
        })
    }

    fn lease<'a>(
        &'a self,
        key: &'a TokenKey,
        duration: Duration,
    ) -> BoxFuture<'a, Result<Box<dyn TokenLease>, TokenStoreError>> {
        Box::pin(async move {
            let vault = self.0.vault().await.map_err(|error| store_error(&error))?;
            let lease = vault.lease(Space::Token, &key.to_text(), duration, LEASE_WAIT).await;
            let lease = lease.map_err(|error: VaultError| store_error(&error))?;
            let lease = lease.ok_or_else(|| TokenStoreError::new("another process has held the lease for too long"))?;
            Ok(Box::new(VaultLease { secret_store: Arc::clone(&self.0), vault, lease }) as Box<dyn TokenLease>)
        })
    }
}

/// The lease of the vault's row for these tokens: until it is released or expires, no other process may change the row.
struct VaultLease {
    secret_store: Arc<SecretStore>,
    vault: Vault,
    lease: toolrack_store::Lease,
}

impl TokenLease for VaultLease {
    fn save(&self, credentials: Vec<u8>) -> BoxFuture<'_, Result<(), TokenStoreError>> {
        Box::pin(async move {
            let result = match self.vault.put_under(&self.lease, &credentials).await {
                // The key may have been changed during the request to the server. Save with the new key, because the
                // server does not issue the token again.
                Err(error) => {
                    let vault =
                        self.secret_store.vault_with_new_key(error).await.map_err(|error| store_error(&error))?;
                    vault.put_under(&self.lease, &credentials).await
                }
                Ok(()) => Ok(()),
            };
            result.map_err(|error| store_error(&error))
        })
    }

    fn delete(&self) -> BoxFuture<'_, Result<(), TokenStoreError>> {
        Box::pin(async { self.vault.remove_under(&self.lease).await.map(drop).map_err(|error| store_error(&error)) })
    }

    fn release(self: Box<Self>) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            // A lease that cannot be released expires.
            let _ = self.lease.release().await;
        })
    }
}
