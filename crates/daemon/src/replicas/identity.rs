//! The key with which a replica proves to its siblings that it is one of them. Each start of a daemon makes a new key.
//!
//! Replicas speak TLS 1.3 with raw public keys (RFC 7250). Each replica writes its public key into its row of the
//! database, and accepts only the keys in the rows of its siblings. So no certificate has to be issued or renewed, and
//! a program that listens at the address of a dead replica gets no request.

use std::{fmt, sync::Arc};

use aws_lc_rs::{
    rand::SystemRandom,
    signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair},
};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, DistinguishedName, Error, ServerConfig, SignatureScheme,
    client::{
        AlwaysResolvesClientRawPublicKeys,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    },
    crypto::{CryptoProvider, aws_lc_rs::default_provider, verify_tls13_signature_with_raw_key},
    pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName, SubjectPublicKeyInfoDer, UnixTime},
    server::{
        AlwaysResolvesServerRawPublicKeys,
        danger::{ClientCertVerified, ClientCertVerifier},
    },
    sign::CertifiedKey,
    version::TLS13,
};

/// HTTP/2, the protocol between replicas, as ALPN names it.
const HTTP_2: &[u8] = b"h2";

/// A replica could not make its key, or could not use it for TLS. The source is the error of rustls, if there is one.
#[derive(Debug, thiserror::Error)]
#[error("this replica cannot make the key with which it proves itself to the others")]
pub struct NoIdentity(#[source] Option<Error>);

/// The key of this replica.
pub(crate) struct Identity {
    key: Arc<CertifiedKey>,
    provider: Arc<CryptoProvider>,
}

impl Identity {
    /// Makes a key.
    ///
    /// # Errors
    /// [`NoIdentity`] when the system has no random bytes, or rustls cannot use the key.
    pub(crate) fn new() -> Result<Self, NoIdentity> {
        let provider = Arc::new(default_provider());
        let pkcs8 = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &SystemRandom::new());
        let pkcs8 = PrivatePkcs8KeyDer::from(pkcs8.map_err(|_| NoIdentity(None))?.as_ref().to_vec());
        let key = provider.key_provider.load_private_key(pkcs8.into()).map_err(|error| NoIdentity(Some(error)))?;
        let public = key.public_key().ok_or(NoIdentity(None))?.as_ref().to_vec();
        Ok(Self { key: Arc::new(CertifiedKey::new(vec![CertificateDer::from(public)], key)), provider })
    }

    /// The public key in DER (`SubjectPublicKeyInfo`).
    pub(crate) fn public_key(&self) -> &[u8] {
        // `Self::new` puts the public key in the place of a certificate, so `cert` is not empty.
        self.key.cert.first().map(AsRef::as_ref).unwrap_or_default()
    }

    /// The TLS settings of a connection to the replica with this public key (`SubjectPublicKeyInfo` in DER). The
    /// handshake fails if the other side has another key.
    ///
    /// # Errors
    /// [`NoIdentity`] when rustls cannot use TLS 1.3.
    pub(crate) fn client_config(&self, public_key: Vec<u8>) -> Result<ClientConfig, NoIdentity> {
        let verifier = Verifier { expected: Some(public_key), provider: Arc::clone(&self.provider) };
        let config = ClientConfig::builder_with_provider(Arc::clone(&self.provider)).with_protocol_versions(&[&TLS13]);
        let config = config.map_err(|error| NoIdentity(Some(error)))?.dangerous();
        let own_key = AlwaysResolvesClientRawPublicKeys::new(Arc::clone(&self.key));
        let config = config.with_custom_certificate_verifier(Arc::new(verifier));
        let mut config = config.with_client_cert_resolver(Arc::new(own_key));
        config.alpn_protocols = vec![HTTP_2.to_vec()];
        Ok(config)
    }

    /// The TLS settings of connections from other replicas. The handshake accepts every public key; the listener checks
    /// at each request whether the key belongs to a sibling.
    ///
    /// # Errors
    /// [`NoIdentity`] when rustls cannot use TLS 1.3.
    pub(crate) fn server_config(&self) -> Result<ServerConfig, NoIdentity> {
        let verifier = Verifier { expected: None, provider: Arc::clone(&self.provider) };
        let config = ServerConfig::builder_with_provider(Arc::clone(&self.provider)).with_protocol_versions(&[&TLS13]);
        let config = config.map_err(|error| NoIdentity(Some(error)))?;
        let own_key = AlwaysResolvesServerRawPublicKeys::new(Arc::clone(&self.key));
        let mut config = config.with_client_cert_verifier(Arc::new(verifier)).with_cert_resolver(Arc::new(own_key));
        config.alpn_protocols = vec![HTTP_2.to_vec()];
        Ok(config)
    }
}

/// Requires the other side of a connection to prove that it has the private key of its public key.
struct Verifier {
    /// The only public key that is accepted; `None` accepts every key.
    expected: Option<Vec<u8>>,
    provider: Arc<CryptoProvider>,
}

impl fmt::Debug for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Verifier").finish_non_exhaustive()
    }
}

impl Verifier {
    fn check_key(&self, public_key: &CertificateDer<'_>) -> Result<(), Error> {
        match self.expected.as_deref().is_none_or(|expected| expected == &**public_key) {
            true => Ok(()),
            false => Err(CertificateError::ApplicationVerificationFailure.into()),
        }
    }

    fn check_signature(
        &self,
        message: &[u8],
        public_key: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let public_key = SubjectPublicKeyInfoDer::from(public_key.as_ref());
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature_with_raw_key(message, &public_key, signed, algorithms)
    }
}

/// The error for a signature of TLS 1.2. rustls never asks for one here, because both sides offer only TLS 1.3.
fn no_tls12() -> Error {
    Error::General("replicas speak TLS 1.3 only".to_owned())
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.check_key(end_entity).map(|()| ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(no_tls12())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.check_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

impl ClientCertVerifier for Verifier {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        self.check_key(end_entity).map(|()| ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(no_tls12())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.check_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};
    use tokio_rustls::{TlsAcceptor, TlsConnector};

    use super::*;

    /// Connects `client`, which accepts only the key `expected`, to `server`. Returns the key that `server` sees;
    /// `None` when the connection fails.
    async fn greet(server: &Identity, client: &Identity, expected: &[u8]) -> Option<Vec<u8>> {
        let (server_end, client_end) = duplex(64 * 1024);
        let acceptor = TlsAcceptor::from(Arc::new(server.server_config().unwrap()));
        let connector = TlsConnector::from(Arc::new(client.client_config(expected.to_vec()).unwrap()));
        let serving = async {
            let mut stream = acceptor.accept(server_end).await.ok()?;
            stream.write_all(b"hello").await.ok()?;
            stream.shutdown().await.ok()?;
            Some(stream.get_ref().1.peer_certificates()?.first()?.to_vec())
        };
        let reading = async {
            let mut stream = connector.connect("sibling".try_into().unwrap(), client_end).await.ok()?;
            let mut text = String::new();
            stream.read_to_string(&mut text).await.ok()?;
            (text == "hello").then_some(())
        };
        let (key, read) = tokio::join!(serving, reading);
        read.and(key)
    }

    #[tokio::test]
    async fn a_replica_connects_only_to_the_expected_key_and_presents_its_own() {
        let [one, other, stranger] = [(); 3].map(|()| Identity::new().unwrap());
        assert_eq!(greet(&one, &other, one.public_key()).await.as_deref(), Some(other.public_key()));
        assert_eq!(greet(&stranger, &other, one.public_key()).await, None, "the server is a stranger");
    }
}
