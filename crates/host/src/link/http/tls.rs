//! Reads the certificates that this machine trusts, once for many HTTP clients: the certificates take most of a
//! client's memory, and each member of a team may have clients.

use std::{sync::Arc, time::Duration};

use parking_lot::Mutex;
use rustls::{
    ClientConfig, Error,
    client::Resumption,
    crypto::{CryptoProvider, aws_lc_rs},
};
use rustls_platform_verifier::BuilderVerifierExt as _;
use tokio::time::Instant;

/// How long certificates that were read are used for new clients. After this time they are read again, so that new
/// clients trust what the machine trusts by then.
const CERTIFICATES_MAX_AGE: Duration = Duration::from_secs(10 * 60);

/// The most servers whose TLS sessions a client can resume.
const MAX_RESUMED_SERVERS: usize = 16;

/// The versions of HTTP that a client offers, the best one first.
const HTTP_VERSIONS: &[&[u8]] = &[
    #[cfg(feature = "http2")]
    b"h2",
    b"http/1.1",
];

/// The configuration with the certificates that this machine trusts.
static BASE_CONFIG: Cached<ClientConfig> = Cached::empty();

/// Returns the configuration for a new client. It shares only the certificates with other clients.
///
/// # Errors
/// When the certificates cannot be read.
pub(super) fn config() -> Result<ClientConfig, Error> {
    let mut config = BASE_CONFIG.get(read_certificates)?;
    config.alpn_protocols = HTTP_VERSIONS.iter().map(|version| version.to_vec()).collect();
    config.resumption = Resumption::in_memory_sessions(MAX_RESUMED_SERVERS);
    Ok(config)
}

/// Reads the certificates. Uses the cryptography that the program has installed, if there is one.
fn read_certificates() -> Result<ClientConfig, Error> {
    let installed_provider = CryptoProvider::get_default().cloned();
    let provider = installed_provider.unwrap_or_else(|| Arc::new(aws_lc_rs::default_provider()));
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    Ok(builder.with_platform_verifier()?.with_no_client_auth())
}

/// A value that is read again once it is older than [`CERTIFICATES_MAX_AGE`].
struct Cached<T>(Mutex<Option<(Instant, T)>>);

impl<T: Clone> Cached<T> {
    const fn empty() -> Self {
        Self(Mutex::new(None))
    }

    /// Returns the value. If there is none, or it is too old, `read` reads it while other callers wait.
    fn get<E>(&self, read: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        let mut cached = self.0.lock();
        match &*cached {
            Some((read_at, value)) if read_at.elapsed() < CERTIFICATES_MAX_AGE => Ok(value.clone()),
            _ => {
                let value = read()?;
                *cached = Some((Instant::now(), value.clone()));
                Ok(value)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_certificates_are_read_once_until_they_are_old() {
        let (kept, reads) = (Cached::empty(), Cell::new(0));
        let read = || {
            reads.set(reads.get() + 1);
            if reads.get() == 1 { Err("no certificates") } else { Ok(reads.get()) }
        };
        assert_eq!(kept.get(read), Err("no certificates"));
        assert_eq!(kept.get(read), Ok(2), "an error is not kept");
        tokio::time::advance(CERTIFICATES_MAX_AGE - Duration::from_secs(1)).await;
        assert_eq!(kept.get(read), Ok(2));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(kept.get(read), Ok(3));
    }
}
