//! Seals (encrypts) and opens (decrypts) values, and makes the keys for that.

use std::{fmt, sync::Arc};

use argon2::{Algorithm, Argon2, Params, Version};
use chacha20poly1305::{
    KeyInit, XChaCha20Poly1305, XNonce,
    aead::{Aead, Generate, Payload},
};
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

use super::{Space, VaultError};
use crate::{
    Store,
    database::{query, query_scalar},
};

/// The length of a key, in bytes.
const KEY_BYTES: usize = 32;

/// The length of a salt, in bytes (RFC 9106, 3.1 recommends 16).
const SALT_BYTES: usize = 16;

/// The length of a key's id, in bytes.
const KEY_ID_BYTES: usize = 8;

/// The minimum number of characters in a passphrase. A program could guess a shorter one.
const MIN_PASSPHRASE_CHARS: usize = 12;

/// The prefix of the text whose hash is the id of a key.
const KEY_ID_PREFIX: &[u8] = b"toolrack vault key 1\0";

/// The key that seals rows. Its `Debug` does not show it, and dropping it overwrites its memory.
pub struct VaultKey(KeySource);

/// The origin of the key that seals rows.
enum KeySource {
    Bytes(Zeroizing<[u8; KEY_BYTES]>),
    Passphrase(Zeroizing<String>),
}

impl VaultKey {
    /// Creates a key from 32 random bytes.
    #[must_use]
    pub fn from_bytes(bytes: [u8; KEY_BYTES]) -> Self {
        Self(KeySource::Bytes(Zeroizing::new(bytes)))
    }

    /// Creates a key from a passphrase of at least 12 characters. When the vault opens, it derives its key from the
    /// passphrase and a salt, which the database stores. It uses Argon2id with 19 MiB and 2 passes, as OWASP recommends
    /// (<https://cheatsheetseries.owasp.org/cheatsheets/Password_Storage_Cheat_Sheet.html>, RFC 9106).
    #[must_use]
    pub fn from_passphrase(passphrase: &str) -> Self {
        Self(KeySource::Passphrase(Zeroizing::new(passphrase.to_owned())))
    }

    /// Generates a key of random bytes.
    ///
    /// # Errors
    /// [`VaultError::NoRandomness`].
    pub fn generate() -> Result<Self, VaultError> {
        Ok(Self::from_bytes(random()?))
    }

    /// Returns the 32 bytes, for the place where the user keeps the key; `None` for a passphrase.
    #[must_use]
    pub fn expose(&self) -> Option<&[u8; KEY_BYTES]> {
        match &self.0 {
            KeySource::Bytes(bytes) => Some(bytes),
            KeySource::Passphrase(_) => None,
        }
    }

    /// Returns the sealer with this key. Derives the key of a passphrase with the salt of `store`.
    pub(super) async fn sealer(self, store: &Store) -> Result<Sealer, VaultError> {
        let passphrase = match self.0 {
            KeySource::Bytes(bytes) => return Ok(Sealer::new(&bytes)),
            KeySource::Passphrase(passphrase) => passphrase,
        };
        if passphrase.chars().count() < MIN_PASSPHRASE_CHARS {
            return Err(VaultError::Passphrase);
        }
        let salt = read_or_create_salt(store).await?;
        let derivation = tokio::task::spawn_blocking(move || {
            // 19 MiB of memory, 2 passes and 1 lane: see `VaultKey::from_passphrase`.
            let params = Params::new(19 * 1024, 2, 1, Some(KEY_BYTES))?;
            let mut key = Zeroizing::new([0; KEY_BYTES]);
            let argon = Argon2::new(Algorithm::Argon2id, Version::V0x13, params);
            argon.hash_password_into(passphrase.as_bytes(), &salt, &mut *key)?;
            Ok::<_, argon2::Error>(Sealer::new(&key))
        });
        derivation.await.ok().and_then(Result::ok).ok_or(VaultError::Passphrase)
    }
}

impl fmt::Debug for VaultKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("VaultKey(***)")
    }
}

/// Returns the salt of `store`, and creates it if there is none. If two processes create a salt at once, both use the
/// salt that was stored first.
async fn read_or_create_salt(store: &Store) -> Result<Vec<u8>, VaultError> {
    let operation = "reading the salt of the vault";
    let new_salt: [u8; SALT_BYTES] = random()?;
    let mut transaction = store.begin_durably(operation).await?;
    query("INSERT INTO vault_salt (\"only\", salt) VALUES (1, $1) ON CONFLICT DO NOTHING")
        .bind(&new_salt[..])
        .execute(&mut transaction)
        .await?;
    let salt = query_scalar("SELECT salt FROM vault_salt").fetch_one(&mut transaction).await?;
    transaction.commit().await?;
    Ok(salt)
}

/// Returns random bytes from the system.
fn random<const N: usize>() -> Result<[u8; N], VaultError> {
    <[u8; N]>::try_generate().map_err(|_| VaultError::NoRandomness)
}

/// A derived key, ready to seal and open values.
#[derive(Clone)]
pub(super) struct Sealer {
    cipher: Arc<XChaCha20Poly1305>,
    key_id: [u8; KEY_ID_BYTES],
}

impl Sealer {
    fn new(key: &[u8; KEY_BYTES]) -> Self {
        let hash = Sha256::new().chain_update(KEY_ID_PREFIX).chain_update(key).finalize();
        let mut key_id = [0; KEY_ID_BYTES];
        key_id.copy_from_slice(&hash[..KEY_ID_BYTES]);
        Self { cipher: Arc::new(XChaCha20Poly1305::new(key.into())), key_id }
    }

    pub(super) fn key_id(&self) -> &[u8] {
        &self.key_id
    }

    /// Encrypts `value`. Returns the nonce and the sealed value.
    pub(super) fn seal(&self, space: Space, name: &str, value: &[u8]) -> Result<(Vec<u8>, Vec<u8>), VaultError> {
        let nonce = XNonce::try_generate().map_err(|_| VaultError::NoRandomness)?;
        let associated_data = self.associated_data(space, name);
        let sealed = self.cipher.encrypt(&nonce, Payload { msg: value, aad: &associated_data });
        // Encryption fails only for a value beyond 256 GiB.
        let sealed = sealed.map_err(|_| VaultError::TooLong { space, name: name.to_owned(), length: value.len() })?;
        Ok((nonce.to_vec(), sealed))
    }

    /// Decrypts a value; `None` if this key did not seal it under this name.
    pub(super) fn open(&self, space: Space, name: &str, nonce: &[u8], sealed: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
        let nonce = XNonce::try_from(nonce).ok()?;
        let associated_data = self.associated_data(space, name);
        self.cipher.decrypt(&nonce, Payload { msg: sealed, aad: &associated_data }).ok().map(Zeroizing::new)
    }

    /// Returns the associated data that binds a value to its row. No two rows share it, because no space contains NUL.
    fn associated_data(&self, space: Space, name: &str) -> Vec<u8> {
        [&self.key_id[..], space.as_str().as_bytes(), b"\0", name.as_bytes()].concat()
    }
}
