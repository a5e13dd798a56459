// SPDX-License-Identifier: Apache-2.0
//! To the server and back.

use bytes::Bytes;
use futures::future::{Either, select};
use http::header::{ACCEPT, CONNECTION, HOST, HeaderValue, TRANSFER_ENCODING};
use http::request::Parts;
use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use kube::Client;
use kube::config::{AuthInfo, Config};
use listen::{Body, BoxError, Closing};

use crate::request::is_upgrade;

/// The server behind the front cannot be reached.
#[derive(Debug, thiserror::Error)]
#[error("the API server behind the front did not answer")]
pub struct Unreachable(#[from] kube::Error);

/// The server behind a front, in process or over the network.
#[derive(Clone)]
pub struct Upstream {
    /// Adds no credentials: those of a request are its sender's.
    client: Client,
}

impl Upstream {
    /// Of a client without credentials.
    #[must_use]
    pub fn new(client: Client) -> Self {
        Self { client }
    }

    /// A server over the network, without the configuration's credentials. Must be called inside of a tokio runtime.
    ///
    /// # Errors
    /// The configuration makes no client.
    pub fn remote(config: &Config) -> Result<Self, Unreachable> {
        // How long a watch may be silent is for its client to say.
        let mut anonymous = config.clone();
        anonymous.auth_info = AuthInfo::default();
        anonymous.read_timeout = None;
        // A client of the front must see each 429, 503 and 504.
        anonymous.default_retry = false;
        Ok(Self { client: Client::try_from(anonymous)? })
    }

    /// Sends a request on.
    pub(crate) async fn forward(&self, mut parts: Parts, body: Bytes) -> Result<Response<Body>, Unreachable> {
        // One in process takes the connection from the request, one over the network has another for us.
        let (below, closing) =
            (parts.extensions.get::<OnUpgrade>().cloned(), parts.extensions.get::<Closing>().cloned());
        prepare(&mut parts.headers);
        let mut response = self.client.send(Request::from_parts(parts, body.into())).await?;
        if response.status() == StatusCode::SWITCHING_PROTOCOLS {
            let above = response.extensions_mut().remove::<OnUpgrade>();
            if let (Some(below), Some(above), Some(closing)) = (below, above, closing) {
                tokio::spawn(carry(below, above, closing));
            }
        } else {
            response.headers_mut().remove(CONNECTION);
        }
        response.headers_mut().remove(TRANSFER_ENCODING);
        Ok(response.map(|body| body.map_err(BoxError::from).boxed_unsync()))
    }
}

fn prepare(headers: &mut HeaderMap) {
    headers.remove(HOST);
    if !is_upgrade(headers) {
        headers.remove(CONNECTION);
    }
    headers.remove(TRANSFER_ENCODING);
    let accept = headers.get(ACCEPT).and_then(|value| value.to_str().ok()).map(as_json);
    if let Some(accept) = accept.and_then(|text| HeaderValue::try_from(text).ok()) {
        headers.insert(ACCEPT, accept);
    }
}

/// The same wish without protobuf.
fn as_json(accept: &str) -> String {
    let kept: Vec<&str> =
        accept.split(',').map(str::trim).filter(|range| !range.contains("protobuf")).collect();
    if kept.is_empty() { "application/json".to_owned() } else { kept.join(", ") }
}

/// Carries bytes between two connections that were upgraded, until one of them or the front closes.
async fn carry(below: OnUpgrade, above: OnUpgrade, closing: Closing) {
    let carried = Box::pin(async {
        let (Ok(below), Ok(above)) = futures::join!(below, above) else { return };
        // An error is a connection's end as well.
        let _ended = tokio::io::copy_bidirectional(&mut TokioIo::new(below), &mut TokioIo::new(above)).await;
    });
    let (Either::Left(_) | Either::Right(_)) = select(carried, Box::pin(closing.wait())).await;
}

#[cfg(test)]
mod tests {
    use super::as_json;

    #[test]
    fn nobody_gets_protobuf() {
        for (asked, wanted) in [
            ("application/json", "application/json"),
            ("application/vnd.kubernetes.protobuf,application/json", "application/json"),
            ("application/vnd.kubernetes.protobuf", "application/json"),
            (
                "application/json;as=Table;v=v1;g=meta.k8s.io, application/json",
                "application/json;as=Table;v=v1;g=meta.k8s.io, application/json",
            ),
        ] {
            assert_eq!(as_json(asked), wanted);
        }
    }
}
