// SPDX-License-Identifier: Apache-2.0
//! The API server, by a kubeconfig.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::{ACCEPT, AUTHORIZATION, HOST};
use http::{Request, StatusCode, Uri};
use http_body_util::{BodyExt as _, Empty};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// Deadline of a request.
const PATIENCE: Duration = Duration::from_secs(10);

/// Rejected request.
#[derive(Debug, Clone)]
pub struct Refusal {
    pub is_absence: bool,
    /// In the API server's words.
    pub message: String,
}

/// Client of one token.
#[derive(Debug, Clone)]
pub struct Api {
    server: Uri,
    tls: Arc<ClientConfig>,
    token: String,
}

impl Api {
    /// Reads a kubeconfig in JSON.
    ///
    /// # Errors
    /// It cannot be read, or lacks something.
    pub fn of(kubeconfig: &Path) -> Result<Self, String> {
        let text = fs::read(kubeconfig).map_err(|error| format!("{}: {error}", kubeconfig.display()))?;
        let config: Value = serde_json::from_slice(&text).map_err(|error| error.to_string())?;
        let (cluster, user) = (&config["clusters"][0]["cluster"], &config["users"][0]["user"]);
        let text = |value: &Value, name: &str| {
            value[name].as_str().map(str::to_owned).ok_or_else(|| format!("the kubeconfig has no {name}"))
        };
        let authority = STANDARD.decode(text(cluster, "certificate-authority-data")?);
        let authority = authority.map_err(|error| error.to_string())?;
        Ok(Self {
            server: text(cluster, "server")?.parse().map_err(|error| format!("server: {error}"))?,
            tls: Arc::new(trusting(&authority)?),
            token: text(user, "token")?,
        })
    }

    /// An object.
    ///
    /// # Errors
    /// There is none, the API server rejects the request, or cannot be reached.
    pub async fn get(&self, path: &str) -> Result<Value, Refusal> {
        let failed = |message: String| Refusal { is_absence: false, message };
        let late = |_| failed("context deadline exceeded".to_owned());
        let asked = tokio::time::timeout(PATIENCE, self.ask(path)).await.map_err(late)?;
        let (code, body) =
            asked.map_err(|error| failed(format!("Get \"{}{path}\": {error}", self.server)))?;
        let value: Value = serde_json::from_slice(&body).unwrap_or_default();
        match code {
            StatusCode::OK => Ok(value),
            _ => {
                let message = value["message"].as_str().unwrap_or("unknown").to_owned();
                Err(Refusal { is_absence: code == StatusCode::NOT_FOUND, message })
            }
        }
    }

    async fn ask(&self, path: &str) -> Result<(StatusCode, Bytes), Box<dyn std::error::Error + Send + Sync>> {
        let host = self.server.host().unwrap_or_default().to_owned();
        let port = self.server.port_u16().unwrap_or(443);
        let stream = TcpStream::connect((host.as_str(), port)).await?;
        let name = ServerName::try_from(host.clone())?;
        let stream = TlsConnector::from(Arc::clone(&self.tls)).connect(name, stream).await?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        let connection = tokio::spawn(connection);
        let request = Request::get(path)
            .header(HOST, host)
            .header(AUTHORIZATION, format!("Bearer {}", self.token))
            .header(ACCEPT, "application/json");
        let response = sender.send_request(request.body(Empty::<Bytes>::new())?).await?;
        let code = response.status();
        let body = response.into_body().collect().await?.to_bytes();
        connection.abort();
        Ok((code, body))
    }
}

fn trusting(authority: &[u8]) -> Result<ClientConfig, String> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(authority) {
        let certificate = certificate.map_err(|error| format!("{error:?}"))?;
        roots.add(certificate).map_err(|error| error.to_string())?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let versions = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    Ok(versions.map_err(|error| error.to_string())?.with_root_certificates(roots).with_no_client_auth())
}
