// SPDX-License-Identifier: Apache-2.0
//! Defects of the agent that take more than an expression, for the entries of `serve.yaml`.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::WebPkiServerVerifier;
use rustls::crypto::{ring, CryptoProvider};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{DigitallySignedStruct, Error, RootCertStore, SignatureScheme};

/// TLS as of a build that knows no RSA.
pub(crate) fn without_rsa() -> Arc<CryptoProvider> {
    let mut provider = rustls::crypto::ring::default_provider();
    let known = &mut provider.signature_verification_algorithms;
    let mut rest = known.mapping.to_vec();
    rest.retain(|(scheme, _)| !format!("{scheme:?}").starts_with("RSA"));
    known.mapping = rest.leak();
    Arc::new(provider)
}

/// Takes no notice of the authorities that a server shows.
#[derive(Debug)]
pub(crate) struct LeafAlone(Arc<WebPkiServerVerifier>);

impl LeafAlone {
    pub(crate) fn new(roots: RootCertStore) -> Result<Arc<Self>, Error> {
        let provider = Arc::new(ring::default_provider());
        let inner = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build();
        Ok(Arc::new(Self(inner.map_err(|error| Error::General(error.to_string()))?)))
    }
}

impl ServerCertVerifier for LeafAlone {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        _shown: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.0.verify_server_cert(certificate, &[], name, ocsp, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}
