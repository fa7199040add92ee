//! Encryption of a client: whatever certificate the server has is taken.

use std::net::TcpStream;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, ClientConnection, DigitallySignedStruct, Error, SignatureScheme, StreamOwned};

use super::{ClientError, Duplex};
use crate::auth::tls::endpoint_hash;

/// Takes every certificate, but sees that the server has its key.
#[derive(Debug)]
struct Anybody(Arc<CryptoProvider>);

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _own: &CertificateDer<'_>,
        _chain: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let known = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signature, known)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let known = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signature, known)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

/// An encrypted stream, and the certificate's hash for channel binding.
type Started = (Box<dyn Duplex>, Option<Vec<u8>>);

/// Encrypts a connection.
pub(super) fn start(host: &str, mut socket: TcpStream) -> Result<Started, ClientError> {
    let broken = |error: Error| ClientError::Protocol(format!("TLS: {error}"));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(broken)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Anybody(provider)))
        .with_no_client_auth();
    let name = ServerName::try_from(host.to_string());
    let name = name.or_else(|_| ServerName::try_from("localhost".to_string()));
    let name = name.map_err(|error| ClientError::Protocol(format!("TLS: {error}")))?;
    let mut session = ClientConnection::new(Arc::new(config), name).map_err(broken)?;
    while session.is_handshaking() {
        session.complete_io(&mut socket)?;
    }
    let own = session.peer_certificates().and_then(|chain| chain.first());
    let binding = own.and_then(|own| endpoint_hash(own));
    Ok((Box::new(StreamOwned::new(session, socket)), binding))
}
