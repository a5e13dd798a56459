// SPDX-License-Identifier: Apache-2.0
//! The certificates of the benches' API server, and the least that any client must do to ask it: the floor of whatever is compared
//! over TLS.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::{CertificateDer, IpAddr, PrivateKeyDer, ServerName};
use rustls::{CipherSuite, ClientConfig, ClientConnection, RootCertStore, ServerConfig, StreamOwned};

use crate::contender::SetUp;
use crate::pod::PodNamespace;

/// Certificate authority of the server.
#[derive(Debug, Clone)]
pub struct Authority {
    pub certificate: CertificateDer<'static>,
    pub pem: String,
}

/// An authority, and a server on 127.0.0.1 with a certificate that it signed.
pub fn server() -> Result<(Authority, Arc<ServerConfig>)> {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let ca = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;
    let key = KeyPair::generate()?;
    let certificate = CertificateParams::new(["127.0.0.1".to_owned()])?.signed_by(&key, &ca)?;
    let key = PrivateKeyDer::try_from(key.serialize_der()).map_err(anyhow::Error::msg)?;
    // Go's server prefers AES-128 where the processor has it, whatever the client would like best.
    let mut provider = rustls::crypto::ring::default_provider();
    provider.cipher_suites.sort_by_key(|suite| suite.suite() != CipherSuite::TLS13_AES_128_GCM_SHA256);
    let mut config = ServerConfig::builder_with_provider(Arc::new(provider))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key)?;
    config.ignore_client_order = true;
    Ok((Authority { certificate: ca.der().clone(), pem: ca.pem() }, Arc::new(config)))
}

/// A client in process: connects, shakes hands, gets one answer. No process is started, no file is read and all code is warm. What it
/// takes is the network's, the server's and the cryptography's.
#[derive(Debug)]
pub struct Client {
    address: SocketAddr,
    config: Arc<ClientConfig>,
}

impl Client {
    /// A client that trusts one authority.
    pub fn new(address: SocketAddr, authority: &Authority) -> Result<Self> {
        let mut roots = RootCertStore::empty();
        roots.add(authority.certificate.clone())?;
        let config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Self { address, config: Arc::new(config) })
    }

    fn ask(&self) -> Result<Vec<u8>> {
        let stream = TcpStream::connect(self.address)?;
        stream.set_nodelay(true)?;
        let name = ServerName::IpAddress(IpAddr::from(self.address.ip()));
        // Without a ticket each handshake is a whole one.
        let mut config = (*self.config).clone();
        config.resumption = rustls::client::Resumption::disabled();
        let mut tls = StreamOwned::new(ClientConnection::new(Arc::new(config), name)?, stream);
        tls.write_all(b"GET / HTTP/1.1\r\nHost: bench\r\n\r\n")?;
        let mut answer = Vec::new();
        tls.read_to_end(&mut answer)?;
        Ok(answer)
    }
}

impl SetUp for Client {
    fn name(&self) -> &'static str {
        "one GET over TLS, in process"
    }

    fn set_up(&self, _: &PodNamespace) -> Result<Duration> {
        let start = Instant::now();
        let answer = self.ask().context("ask the API server over TLS")?;
        let took = start.elapsed();
        ensure!(answer.starts_with(b"HTTP/1.1 200"), "the API server did not answer");
        Ok(took)
    }
}
