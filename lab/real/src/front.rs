// SPDX-License-Identifier: Apache-2.0
//! The front before the API server: whoever asks the API's service, in a pod or from a node, reaches the front. Kubelets, controllers and the
//! lab itself ask the API server, so that a fault meets the system under test alone.

use std::net::{IpAddr, TcpListener};

use ::front::Proxy;
use cluster::Front as _;
use listen::ServerHandle;

use crate::control::{self, ADDRESS, Control};
use crate::error::Error;

/// Its port, beside that of the API server.
pub const PORT: u16 = 6444;

/// A front that stands.
pub(crate) struct Standing {
    pub(crate) proxy: Proxy,
    pub(crate) served: ServerHandle,
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
    let proxy = Proxy::new(control.upstream().await?, control::names());
    proxy.certify(&*control.authority, None).await?;
    let listener = TcpListener::bind((IpAddr::from(ADDRESS), PORT));
    let listener = listener.map_err(|source| Error::System("listen before the API server", source))?;
    let served = proxy.serve(listener);
    let served = served.map_err(|error| Error::Other("serve the front", error.to_string()))?;
    Ok(Standing { proxy, served })
}
