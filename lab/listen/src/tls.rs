// SPDX-License-Identifier: Apache-2.0
//! A server's side of TLS, which may be changed while it serves.

use std::future::Future;
use std::sync::Arc;

use parking_lot::Mutex;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::sync::watch;

/// A certificate that no server can use.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// Certificate or key is no PEM.
    #[error("read a server's certificate and key")]
    Pem(#[from] rustls::pki_types::pem::Error),
    /// rustls rejected them.
    #[error("set up TLS")]
    Setup(#[from] rustls::Error),
}

/// A server's certificate; without one it serves without TLS. All clones are the same one.
#[derive(Debug, Clone, Default)]
pub struct Tls(Arc<Mutex<Serving>>);

#[derive(Debug, Default)]
struct Serving {
    config: Option<Arc<ServerConfig>>,
    /// Of this certificate alone: it has no receiver when the last connection that began with it is gone.
    connections: watch::Sender<()>,
}

impl Tls {
    /// Serves with this certificate, those of the authorities above it and its key (PEM) from now on. Connections of before are closed at once, as those of a server that is
    /// killed and started again, and the future ends when they are; upgraded ones are none of the server's any more.
    ///
    /// # Errors
    /// They cannot be used.
    pub fn certify(
        &self,
        certificate: &str,
        key: &str,
    ) -> Result<impl Future<Output = ()> + use<>, TlsError> {
        let chain = CertificateDer::pem_slice_iter(certificate.as_bytes()).collect::<Result<_, _>>()?;
        let key = PrivateKeyDer::from_pem_slice(key.as_bytes())?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(chain, key)?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        let next = Serving { config: Some(Arc::new(config)), connections: watch::Sender::default() };
        let former = std::mem::replace(&mut *self.0.lock(), next).connections;
        former.send_replace(());
        Ok(async move { former.closed().await })
    }

    /// The present one, and what changes when there is another.
    pub(crate) fn follow(&self) -> (Option<Arc<ServerConfig>>, watch::Receiver<()>) {
        let serving = self.0.lock();
        (serving.config.clone(), serving.connections.subscribe())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_certificate_is_replaced_once_the_connections_of_before_are_gone() {
        let own = rcgen::generate_simple_self_signed(["lab".to_owned()]).unwrap();
        let tls = Tls::default();
        let (_, connection) = tls.follow();
        let replaced = tls.certify(&own.cert.pem(), &own.signing_key.serialize_pem()).unwrap();
        let mut replaced = std::pin::pin!(replaced);
        tokio::select! {
            biased;
            () = &mut replaced => panic!("a connection of before is there"),
            () = std::future::ready(()) => {}
        }
        assert!(connection.has_changed().unwrap(), "it is told to close");
        drop(connection);
        replaced.await;
    }
}
