//! The certificate and the key with which the daemon speaks TLS. Both can be replaced while it runs.

use std::{fmt, sync::Arc};

use arc_swap::ArcSwap;
use rustls::{
    ServerConfig,
    crypto::{CryptoProvider, aws_lc_rs},
    pki_types::{CertificateDer, PrivateKeyDer, pem, pem::PemObject as _},
    server::{ClientHello, ResolvesServerCert},
    sign::CertifiedKey,
};
use tokio_rustls::TlsAcceptor;

/// A certificate and its key, with which a daemon speaks TLS 1.2 and 1.3. Clones share certificate and key.
#[derive(Clone)]
pub struct Tls {
    certificate: Arc<CurrentCertificate>,
    acceptor: TlsAcceptor,
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").finish_non_exhaustive()
    }
}

/// Why a certificate and a key cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// The text has no certificate.
    #[error("there is no certificate in PEM")]
    NoCertificate,
    /// The text has no private key.
    #[error("there is no private key in PEM")]
    NoKey,
    /// The key does not belong to the certificate, or its kind cannot be used.
    #[error("the key does not fit the certificate")]
    Unfit(#[source] rustls::Error),
}

/// The certificate for the next connection.
#[derive(Debug)]
struct CurrentCertificate(ArcSwap<CertifiedKey>);

impl ResolvesServerCert for CurrentCertificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.load_full())
    }
}

impl Tls {
    /// Takes a certificate, followed by the certificates that vouch for it, and its private key (PKCS #8, PKCS #1 or
    /// SEC 1), each in PEM (RFC 7468).
    ///
    /// # Errors
    /// [`TlsError`] when they cannot be used.
    pub fn new(certificate: &[u8], key: &[u8]) -> Result<Self, TlsError> {
        let provider = provider();
        let first_key = certified_key(certificate, key, &provider)?;
        let certificate = Arc::new(CurrentCertificate(ArcSwap::from_pointee(first_key)));
        let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let config = config.map_err(TlsError::Unfit)?.with_no_client_auth();
        let mut config = config.with_cert_resolver(Arc::<CurrentCertificate>::clone(&certificate));
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self { certificate, acceptor: TlsAcceptor::from(Arc::new(config)) })
    }

    /// Takes another certificate and its key for the connections that begin from now on. Returns whether it
    /// differs from the current certificate.
    ///
    /// # Errors
    /// [`TlsError`] when they cannot be used; nothing changes then.
    pub fn replace(&self, certificate: &[u8], key: &[u8]) -> Result<bool, TlsError> {
        let new_key = certified_key(certificate, key, &provider())?;
        let is_different = new_key.cert != self.certificate.0.load().cert;
        if is_different {
            self.certificate.0.store(Arc::new(new_key));
        }
        Ok(is_different)
    }

    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        self.acceptor.clone()
    }
}

/// The cryptography that this process has chosen for TLS, or aws-lc.
fn provider() -> Arc<CryptoProvider> {
    let installed = CryptoProvider::get_default().cloned();
    installed.unwrap_or_else(|| Arc::new(aws_lc_rs::default_provider()))
}

fn certified_key(certificate: &[u8], key: &[u8], provider: &CryptoProvider) -> Result<CertifiedKey, TlsError> {
    let chain = CertificateDer::pem_slice_iter(certificate).collect::<Result<Vec<_>, pem::Error>>();
    let chain = chain.ok().filter(|chain| !chain.is_empty()).ok_or(TlsError::NoCertificate)?;
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|_| TlsError::NoKey)?;
    CertifiedKey::from_der(chain, key, provider).map_err(TlsError::Unfit)
}

#[cfg(test)]
mod tests {
    use toolrack_testkit::Certificate;

    use super::*;

    /// A new certificate and its key.
    fn made() -> (Vec<u8>, Vec<u8>) {
        let made = Certificate::new();
        (made.certificate.into_bytes(), made.key.into_bytes())
    }

    #[test]
    fn what_is_wrong_with_a_certificate_is_said() {
        let ((certificate, key), (other, _)) = (made(), made());
        let why = |certificate: &[u8], key: &[u8]| Tls::new(certificate, key).unwrap_err().to_string();
        assert!(Tls::new(&certificate, &key).is_ok());
        assert_eq!(why(&key, &key), "there is no certificate in PEM");
        assert_eq!(why(&certificate, b""), "there is no private key in PEM");
        assert_eq!(why(&other, &key), "the key does not fit the certificate");
    }

    #[test]
    fn a_new_certificate_replaces_the_old_one_and_one_without_its_key_does_not() {
        let ((first, key), (new, new_key)) = (made(), made());
        let tls = Tls::new(&first, &key).unwrap();
        let current = || tls.certificate.0.load().cert.clone();
        let before = current();
        assert!(tls.replace(&new, &key).is_err());
        assert!(!tls.replace(&first, &key).unwrap());
        assert_eq!(current(), before);
        assert!(tls.replace(&new, &new_key).unwrap());
        assert_ne!(current(), before);
    }
}
