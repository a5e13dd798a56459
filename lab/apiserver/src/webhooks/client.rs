// SPDX-License-Identifier: Apache-2.0
//! The call: one POST over TLS that trusts nobody but the webhook's `caBundle`. Failures are in the words of Go's `net/http`.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, HOST, USER_AGENT};
use http::{Request, Uri};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{CertificateError, ClientConfig, RootCertStore};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::endpoint;
use crate::admission::hooks::{Hook, Target};
use crate::dial::{dial, spelled};
use crate::shared::Shared;

/// Maximum size of an answer: that of an object.
const LIMIT: usize = 3 << 20;
/// Port of a URL that has none.
const HTTPS: u16 = 443;

/// A webhook as it is called.
struct Place {
    /// Name in its certificate.
    host: String,
    /// Name and port.
    authority: String,
    path: String,
}

impl Place {
    fn of(target: &Target) -> Result<Self, String> {
        match target {
            Target::Service { namespace, name, port, path } => {
                let host = format!("{name}.{namespace}.svc");
                Ok(Self { authority: format!("{host}:{port}"), host, path: path.clone() })
            }
            Target::Url(url) => {
                let uri: Uri = url.parse().map_err(|error| format!("parse \"{url}\": {error}"))?;
                let host = uri.host().unwrap_or_default().to_owned();
                let authority = uri.authority().map_or_else(|| host.clone(), ToString::to_string);
                Ok(Self { host, authority, path: uri.path().to_owned() })
            }
        }
    }
}

/// # Errors
/// There is no answer, or none of success.
pub(super) async fn post(shared: &Shared, hook: &Hook, review: &Value) -> Result<Value, String> {
    let seconds = hook.timeout();
    let place = Place::of(&hook.target())?;
    let called = async {
        let address = resolved(shared, &hook.target(), &place)?;
        let stream = dial(shared, address).await?;
        let stream = secured(stream, hook, &place).await?;
        exchange(stream, &place, seconds, review).await
    };
    let called = tokio::time::timeout(Duration::from_secs(seconds), called).await;
    let called = called.unwrap_or_else(|_| Err("context deadline exceeded".to_owned()));
    let (code, body) = called.map_err(|why| {
        format!("Post \"https://{}{}?timeout={seconds}s\": {why}", place.authority, place.path)
    })?;
    match code {
        200..=299 => {
            serde_json::from_slice(&body).map_err(|error| format!("couldn't decode the answer: {error}"))
        }
        404 => Err("the server could not find the requested resource".to_owned()),
        500.. => {
            let said = String::from_utf8_lossy(&body);
            Err(format!("an error on the server ({said:?}) has prevented the request from succeeding"))
        }
        _ => Err("the server rejected our request for an unknown reason".to_owned()),
    }
}

fn resolved(shared: &Shared, target: &Target, place: &Place) -> Result<SocketAddr, String> {
    match target {
        Target::Service { namespace, name, port, .. } => {
            endpoint::of_service(&shared.lock().store, namespace, name, *port)
        }
        Target::Url(_) => {
            let host = place.host.trim_matches(['[', ']']);
            let port =
                place.authority.rsplit_once(':').and_then(|(_, port)| port.parse().ok()).unwrap_or(HTTPS);
            let ip = host.parse().map_err(|_| format!("dial tcp: lookup {host}: no such host"))?;
            Ok(SocketAddr::new(ip, port))
        }
    }
}

async fn secured(stream: TcpStream, hook: &Hook, place: &Place) -> Result<TlsStream<TcpStream>, String> {
    let config =
        trusting(hook.ca_bundle()).map_err(|why| format!("unable to load root certificates: {why}"))?;
    let name = ServerName::try_from(place.host.trim_matches(['[', ']']).to_owned());
    let name = name.map_err(|error| error.to_string())?;
    TlsConnector::from(Arc::new(config)).connect(name, stream).await.map_err(|error| {
        let tls = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
        match tls {
            Some(rustls::Error::InvalidCertificate(why)) => {
                format!("tls: failed to verify certificate: x509: {}", mistrusted(why, &place.host))
            }
            Some(other) => format!("tls: {other}"),
            None if error.kind() == io::ErrorKind::UnexpectedEof => "EOF".to_owned(),
            None => spelled(&error),
        }
    })
}

fn mistrusted(why: &CertificateError, host: &str) -> String {
    match why {
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            "certificate signed by unknown authority".to_owned()
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            format!("certificate is not valid for {host}")
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "certificate has expired or is not yet valid".to_owned()
        }
        other => other.to_string(),
    }
}

/// Trust in a bundle: without one in nobody, where a real server trusts its machine's.
fn trusting(bundle: &str) -> Result<ClientConfig, String> {
    let pem = STANDARD.decode(bundle).map_err(|error| error.to_string())?;
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&pem) {
        let certificate = certificate.map_err(|error| error.to_string())?;
        roots.add(certificate).map_err(|error| error.to_string())?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    Ok(config.map_err(|error| error.to_string())?.with_root_certificates(roots).with_no_client_auth())
}

async fn exchange(
    stream: TlsStream<TcpStream>,
    place: &Place,
    seconds: u64,
    review: &Value,
) -> Result<(u16, Bytes), String> {
    let failed = |error: hyper::Error| {
        if error.is_incomplete_message() { "EOF".to_owned() } else { error.to_string() }
    };
    let request = Request::post(format!("{}?timeout={seconds}s", place.path))
        .header(HOST, &place.authority)
        .header(USER_AGENT, "kube-apiserver-admission")
        .header(CONTENT_TYPE, "application/json")
        .header(ACCEPT, "application/json, */*")
        .body(Full::new(Bytes::from(review.to_string())))
        .map_err(|error| error.to_string())?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(failed)?;
    let answered = async {
        let response = sender.send_request(request).await.map_err(failed)?;
        let code = response.status().as_u16();
        let body =
            Limited::new(response.into_body(), LIMIT).collect().await.map_err(|error| error.to_string())?;
        Ok((code, body.to_bytes()))
    };
    let mut answered = std::pin::pin!(answered);
    tokio::select! {
        answered = &mut answered => answered,
        // Its last bytes are read all the same.
        _ended = connection => answered.await,
    }
}
