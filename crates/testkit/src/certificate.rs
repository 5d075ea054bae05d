//! Self-signed certificates for `localhost`.

use rcgen::{CertifiedKey, generate_simple_self_signed};

/// A certificate and its private key, both in PEM. A client that trusts the certificate can connect to a server that
/// has both.
#[derive(Clone, Debug)]
pub struct Certificate {
    /// The certificate.
    pub certificate: String,
    /// Its private key.
    pub key: String,
}

impl Certificate {
    /// Makes a new certificate.
    ///
    /// # Panics
    /// When the system has no random numbers.
    #[must_use]
    #[expect(
        clippy::expect_used,
        clippy::new_without_default,
        reason = "for tests only; each call makes a different one"
    )]
    pub fn new() -> Self {
        let generated = generate_simple_self_signed(["localhost".to_owned()]);
        let CertifiedKey { cert, signing_key } = generated.expect("a key can be made");
        Self { certificate: cert.pem(), key: signing_key.serialize_pem() }
    }
}
