//! Encryption: the certificate, and what rustls needs to know.
//!
//! Invariants:
//! 1. A certificate that was given is used or refused, never replaced by one of our own.
//! 2. A certificate of our own is made once, at the first start, and kept: clients that pinned it stay
//!    content.
//!
//! Client certificates are not asked for.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ring::digest::{Algorithm, SHA256, SHA384, SHA512, digest};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// Where the certificate comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Certificate {
    /// From these files, PEM: the chain with the server's own certificate first, and its key.
    Files {
        /// The chain.
        chain: PathBuf,
        /// The key.
        key: PathBuf,
    },
    /// From `server.crt` and `server.key` in this folder; where they are not, a self-signed one is made and
    /// put there.
    Folder(PathBuf),
}

/// Why there is no encryption although it was asked for.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// A file cannot be read or written.
    #[error("{path}: {error}")]
    File {
        /// Which one.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// A file holds no certificate or key.
    #[error("{path}: {error}")]
    Pem {
        /// Which one.
        path: PathBuf,
        /// Why.
        error: rustls::pki_types::pem::Error,
    },
    /// A certificate cannot be made.
    #[error("a self-signed certificate cannot be made: {0}")]
    Make(#[from] rcgen::Error),
    /// Certificate and key do not fit together, or not to rustls.
    #[error("the certificate or its key is not usable: {0}")]
    Unusable(#[from] rustls::Error),
}

/// What encrypted connections are made of.
#[derive(Clone, Debug)]
pub struct Tls {
    /// For rustls.
    pub config: Arc<ServerConfig>,
    /// The certificate's hash for channel binding `tls-server-end-point` (RFC 5929, section 4.1); `None`
    /// where the certificate's signature does not say which hash.
    pub endpoint: Option<Arc<[u8]>>,
}

impl Tls {
    /// Reads the certificate, or makes one.
    pub fn open(certificate: &Certificate) -> Result<Self, TlsError> {
        let (chain, key) = match certificate {
            Certificate::Files { chain, key } => (chain.clone(), key.clone()),
            Certificate::Folder(folder) => {
                let (chain, key) = (folder.join("server.crt"), folder.join("server.key"));
                if !chain.exists() && !key.exists() {
                    make_self_signed(&chain, &key)?;
                }
                (chain, key)
            }
        };
        let pem = |path: &Path| {
            let path = path.to_path_buf();
            move |error| TlsError::Pem { path, error }
        };
        let certificates: Result<Vec<_>, _> =
            CertificateDer::pem_file_iter(&chain).map_err(pem(&chain))?.collect();
        let certificates = certificates.map_err(pem(&chain))?;
        let key = PrivateKeyDer::from_pem_file(&key).map_err(pem(&key))?;
        let endpoint = certificates.first().and_then(|own| endpoint_hash(own));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(certificates, key)?;
        config.alpn_protocols = vec![b"postgresql".to_vec()];
        Ok(Self { config: Arc::new(config), endpoint: endpoint.map(Arc::from) })
    }
}

fn make_self_signed(chain: &Path, key: &Path) -> Result<(), TlsError> {
    let mut names = vec!["localhost".to_string()];
    let host = rustix::system::uname();
    names.extend(host.nodename().to_str().ok().filter(|name| !name.is_empty()).map(str::to_string));
    let made = rcgen::generate_simple_self_signed(names)?;
    write_private(key, &made.signing_key.serialize_pem())?;
    let file = |error| TlsError::File { path: chain.to_path_buf(), error };
    fs::write(chain, made.cert.pem()).map_err(file)
}

/// Writes a file that only its owner can read.
fn write_private(path: &Path, text: &str) -> Result<(), TlsError> {
    use std::os::unix::fs::OpenOptionsExt as _;
    let file = |error| TlsError::File { path: path.to_path_buf(), error };
    let mut options = fs::OpenOptions::new();
    let mut key = options.write(true).create_new(true).mode(0o600).open(path).map_err(file)?;
    io::Write::write_all(&mut key, text.as_bytes()).map_err(file)
}

/// The hash of a certificate by the hash function of its own signature; MD5 and SHA-1 count as SHA-256.
pub(crate) fn endpoint_hash(certificate: &[u8]) -> Option<Vec<u8>> {
    // Certificate ::= SEQUENCE { tbsCertificate SEQUENCE, signatureAlgorithm SEQUENCE { OBJECT IDENTIFIER,
    // .. }, .. }
    let (_, whole, _) = der(certificate)?;
    let (_, _, after_tbs) = der(whole)?;
    let (_, algorithm, _) = der(after_tbs)?;
    let (tag, oid, _) = der(algorithm)?;
    let hash = (tag == 0x06).then(|| hash_of_signature(oid))??;
    Some(digest(hash, certificate).as_ref().to_vec())
}

fn hash_of_signature(oid: &[u8]) -> Option<&'static Algorithm> {
    const RSA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01];
    const ECDSA: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04];
    let rsa = oid.strip_prefix(RSA).map(|last| match last {
        [4 | 5 | 11] => Some(&SHA256),
        [12] => Some(&SHA384),
        [13] => Some(&SHA512),
        _ => None,
    });
    let ecdsa = || match oid.strip_prefix(ECDSA)? {
        [1] | [3, 2] => Some(&SHA256),
        [3, 3] => Some(&SHA384),
        [3, 4] => Some(&SHA512),
        _ => None,
    };
    rsa.unwrap_or_else(ecdsa)
}

/// The first element of DER bytes: its tag, its contents, and what follows it.
fn der(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&tag, rest) = bytes.split_first()?;
    let (&first, rest) = rest.split_first()?;
    let (length, rest) = if first < 0x80 {
        (usize::from(first), rest)
    } else {
        let (digits, rest) =
            rest.split_at_checked(usize::from(first & 0x7f)).filter(|(d, _)| d.len() <= 4)?;
        (digits.iter().fold(0, |length, &digit| length << 8 | usize::from(digit)), rest)
    };
    let (contents, rest) = rest.split_at_checked(length)?;
    Some((tag, contents, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_of_our_own_is_made_once() {
        let folder = std::env::temp_dir().join(format!("liger-tls-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let from = Certificate::Folder(folder.clone());
        let first = Tls::open(&from).expect("made");
        let second = Tls::open(&from).expect("read");
        assert_eq!(first.endpoint, second.endpoint);
        assert_eq!(first.endpoint.expect("ECDSA with SHA-256").len(), 32);
        let mode =
            std::os::unix::fs::MetadataExt::mode(&fs::metadata(folder.join("server.key")).expect("a key"));
        assert_eq!(mode & 0o777, 0o600);
        fs::write(folder.join("server.crt"), "nothing").expect("written");
        assert!(Tls::open(&from).is_err(), "a file without a certificate is refused");
        fs::remove_dir_all(&folder).expect("removed");
    }

    #[test]
    fn damaged_der_is_no_panic() {
        for bytes in [&[][..], &[0x30], &[0x30, 0x82], &[0x30, 0x84, 0xff, 0xff, 0xff, 0xff], &[0x30, 1, 0]] {
            assert_eq!(endpoint_hash(bytes), None);
        }
    }
}
