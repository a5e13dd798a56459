// SPDX-License-Identifier: Apache-2.0
//! The front before the API server: whoever asks the API's service, in a pod or from a node, reaches the front. Kubelets, controllers and the
//! lab itself ask the API server, so that a fault meets the system under test alone.

use std::net::{IpAddr, TcpListener};
use std::sync::Arc;

use ::front::{Proxy, Upstream};
use listen::ServerHandle;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::control::{self, ADDRESS, Control};
use crate::error::Error;
use crate::pki::Identity;

/// Its port, beside that of the API server.
pub const PORT: u16 = 6444;

/// A front that stands.
pub(crate) struct Standing {
    pub(crate) proxy: Proxy,
    _served: ServerHandle,
}

impl std::fmt::Debug for Standing {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_tuple("Standing").field(&self.proxy).finish()
    }
}

/// Puts it before the API server of a control plane.
///
/// # Errors
/// Its port is taken, or no certificate can be made.
pub(crate) async fn stand(control: &Control) -> Result<Standing, Error> {
    let upstream = Upstream::remote(&control::config(&control.kubeconfig(&control::server())?).await?);
    let proxy =
        Proxy::new(upstream.map_err(|error| Error::Other("reach the API server", error.to_string()))?);
    let listener = TcpListener::bind((IpAddr::from(ADDRESS), PORT));
    let listener = listener.map_err(|source| Error::System("listen before the API server", source))?;
    let identity = control::server_identity(&control.authority)?;
    let served = proxy.serve(listener, Some(Arc::new(tls(&identity)?)));
    let served = served.map_err(|error| Error::Other("serve the front", error.to_string()))?;
    Ok(Standing { proxy, _served: served })
}

fn tls(identity: &Identity) -> Result<ServerConfig, Error> {
    let wrong = |why: String| Error::Other("use a certificate", why);
    let certificate = CertificateDer::from_pem_slice(identity.certificate.as_bytes());
    let certificate = certificate.map_err(|error| wrong(error.to_string()))?;
    let key = PrivateKeyDer::from_pem_slice(identity.key.as_bytes());
    let key = key.map_err(|error| wrong(error.to_string()))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder.map_err(|error| wrong(error.to_string()))?.with_no_client_auth();
    let mut config =
        builder.with_single_cert(vec![certificate], key).map_err(|error| wrong(error.to_string()))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}
