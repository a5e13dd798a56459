// SPDX-License-Identifier: Apache-2.0
//! Whom to take for the API server. The authorities are a file that is replaced while we run: it is looked at before every handshake.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};

use crate::files::version::{Cached, FileVersion};

/// No certificate authority can be loaded.
#[derive(Debug, thiserror::Error)]
pub(super) enum TrustError {
    #[error("cannot read the authorities {}: {source}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("cannot use the authorities {}: no certificate is in it", path.display())]
    NoCertificate { path: PathBuf },
    #[error("cannot set TLS up")]
    Tls(#[from] rustls::Error),
}

/// Verification of the server's certificate.
#[derive(Debug, Clone)]
pub(super) enum Trust {
    /// Against the authorities in this file.
    Authorities {
        path: Arc<Path>,
        config: Arc<Cached<Arc<ClientConfig>>>,
    },
    Anyone(Arc<ClientConfig>),
}

impl Trust {
    pub(super) fn authorities(path: &Path) -> Self {
        Self::Authorities { path: path.into(), config: Arc::default() }
    }

    pub(super) fn anyone() -> Result<Self, TrustError> {
        let provider = Arc::new(ring::default_provider());
        let verifier = Arc::new(Unverified(Arc::clone(&provider)));
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .dangerous()
            .with_custom_certificate_verifier(verifier)
            .with_no_client_auth();
        Ok(Self::Anyone(Arc::new(config)))
    }

    /// Configuration of the next handshake.
    pub(super) fn config(&self) -> Result<Arc<ClientConfig>, TrustError> {
        match self {
            Self::Anyone(config) => Ok(Arc::clone(config)),
            Self::Authorities { path, config } => {
                let version = FileVersion::of(path)
                    .map_err(|source| TrustError::Read { path: path.to_path_buf(), source })?;
                config.get(version, || trusting(path).map(Arc::new))
            }
        }
    }
}

/// The authorities in a PEM file. One that cannot be used does not take the others with it.
fn roots(pem: &[u8]) -> RootCertStore {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(CertificateDer::pem_slice_iter(pem).filter_map(Result::ok));
    roots
}

fn trusting(path: &Path) -> Result<ClientConfig, TrustError> {
    let pem = std::fs::read(path).map_err(|source| TrustError::Read { path: path.to_path_buf(), source })?;
    let roots = roots(&pem);
    if roots.is_empty() {
        return Err(TrustError::NoCertificate { path: path.to_path_buf() });
    }
    let provider = Arc::new(ring::default_provider());
    Ok(ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth())
}

/// Takes every certificate, but not a handshake that its holder did not sign.
#[derive(Debug)]
struct Unverified(Arc<CryptoProvider>);

impl ServerCertVerifier for Unverified {
    fn verify_server_cert(
        &self,
        _certificate: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
#[path = "tls_tests.rs"]
mod tests;
