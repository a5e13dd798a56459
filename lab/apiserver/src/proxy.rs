// SPDX-License-Identifier: Apache-2.0
//! `pods/proxy`: a request passed on to a pod's port, and its answer.

use std::net::{IpAddr, SocketAddr};

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HOST};
use http::request::Parts;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use listen::Body;
use serde_json::Value;

use crate::answer::Reply;
use crate::dial::dial;
use crate::error::ApiError;
use crate::shared::Shared;
use crate::store::Key;

impl Shared {
    /// Passes a request on; `of` is the pod, with a port after its name or without.
    pub(crate) async fn proxied(&self, of: &Key, parts: &Parts, body: Bytes) -> Result<Reply, ApiError> {
        let (name, port) = target(&of.name)?;
        let pod = self.lock().store.get(&Key { name, ..of.clone() })?;
        let to = address(&pod, port)?;
        let answered = async {
            let stream = dial(self, to).await?;
            pass(stream, to, parts, body).await.map_err(|error| error.to_string())
        };
        let unreachable = |why| ApiError::Unreachable(format!("error trying to reach service: {why}"));
        answered.await.map(Reply::Passed).map_err(unreachable)
    }
}

/// Name and port of `POD` or `POD:PORT`. TLS is not offered.
fn target(text: &str) -> Result<(String, Option<u16>), ApiError> {
    let (name, port) = match text.split(':').collect::<Vec<_>>().as_slice() {
        [name] => (*name, None),
        [name, port] | ["http" | "", name, port] => (*name, port.parse().ok()),
        _ => return Err(ApiError::BadRequest(format!("invalid pod request \"{text}\""))),
    };
    Ok((name.to_owned(), port))
}

/// Without a port, the first that a container names.
fn address(pod: &Value, port: Option<u16>) -> Result<SocketAddr, ApiError> {
    let ports = pod["spec"]["containers"].as_array().into_iter().flatten();
    let mut ports = ports.filter_map(|one| one["ports"].as_array()).flatten();
    let first = || ports.find_map(|one| u16::try_from(one["containerPort"].as_u64()?).ok());
    let ip = pod["status"]["podIP"].as_str().and_then(|ip| ip.parse::<IpAddr>().ok());
    let ip = ip.ok_or_else(|| ApiError::Internal("address not allowed".to_owned()))?;
    Ok(SocketAddr::new(ip, port.or_else(first).unwrap_or(80)))
}

async fn pass(
    stream: tokio::net::TcpStream,
    to: SocketAddr,
    parts: &Parts,
    body: Bytes,
) -> Result<Response<Body>, hyper::Error> {
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    // It ends with the exchange.
    tokio::spawn(connection);
    let path = parts.uri.path().split_once("/proxy").map_or("/", |(_, path)| path);
    let path = if path.is_empty() { "/" } else { path };
    let query = parts.uri.query().map(|query| format!("?{query}")).unwrap_or_default();
    let mut request = Request::new(Full::new(body));
    *request.method_mut() = parts.method.clone();
    *request.uri_mut() = format!("{path}{query}").parse().unwrap_or_default();
    if let Ok(host) = to.to_string().try_into() {
        request.headers_mut().insert(HOST, host);
    }
    if let Some(kind) = parts.headers.get(CONTENT_TYPE) {
        request.headers_mut().insert(CONTENT_TYPE, kind.clone());
    }
    let answer = sender.send_request(request).await?;
    Ok(answer.map(|body| body.map_err(Into::into).boxed_unsync()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_port_is_named_or_the_first_of_the_pod() {
        let read = |text: &str| target(text).map_err(|error| error.to_string());
        assert_eq!(read("cart"), Ok(("cart".to_owned(), None)));
        assert_eq!(read("cart:15014"), Ok(("cart".to_owned(), Some(15014))));
        assert_eq!(read("http:cart:15014"), Ok(("cart".to_owned(), Some(15014))));
        assert!(read("https:cart:15014").unwrap_err().contains("invalid pod request"));
        let ports = json!([{ "containerPort": 8080 }]);
        let mut pod = json!({ "spec": { "containers": [{}, { "ports": ports }] } });
        assert!(address(&pod, None).is_err());
        pod["status"]["podIP"] = json!("10.0.0.1");
        assert_eq!(address(&pod, None).unwrap().to_string(), "10.0.0.1:8080");
        assert_eq!(address(&pod, Some(1)).unwrap().to_string(), "10.0.0.1:1");
    }
}
