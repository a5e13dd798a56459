// SPDX-License-Identifier: Apache-2.0
//! Where the API server is, and one request and its answer.

use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, Uri};
use http_body_util::{BodyExt as _, Limited};
use kube::client::Body;
use serde::de::DeserializeOwned;

use super::account::Account;
use super::error::ApiError;
use super::tls::{Trust, TrustError};
use super::transport::Transport;
use crate::settings::{ApiAddress, KubeconfigSettings};

/// Default deadline of a request.
pub const REQUEST_LIMIT: Duration = Duration::from_secs(10);

/// The largest object that is read; an API server keeps none that is a quarter of it.
const ANSWER_LIMIT: usize = 8 * 1024 * 1024;

/// Maximum number of bytes read of an error's body.
const REFUSAL_LIMIT: usize = 64 * 1024;

/// Error setting up a client.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    #[error("cannot find the API server: {0} is not set")]
    Unset(&'static str),
    /// The variables make no valid address.
    #[error(
        "cannot use {0} as the API server's address: KUBERNETES_SERVICE_PROTOCOL must be http or https, KUBERNETES_SERVICE_HOST a name or an address, KUBERNETES_SERVICE_PORT a port"
    )]
    Address(String),
    #[error("{0}")]
    Tls(String),
}

fn base(address: &ApiAddress) -> Result<Uri, SetupError> {
    let text = address.url().map_err(SetupError::Unset)?;
    let base = text.parse::<Uri>().ok();
    base.filter(|uri| matches!(uri.scheme_str(), Some("http" | "https")) && uri.port_u16().is_some())
        .ok_or(SetupError::Address(text))
}

fn trust(settings: &KubeconfigSettings, base: &Uri) -> Result<Option<Trust>, TrustError> {
    match base.scheme_str() {
        Some("https") if settings.skip_verify => Trust::anyone().map(Some),
        Some("https") => Ok(Some(Trust::authorities(&settings.ca_file))),
        _ => Ok(None),
    }
}

/// Talks to the API server. Cheap to clone: all clones share their connections. Nothing is sent twice here, except after a
/// 401 when there is a new token.
#[derive(Clone)]
pub struct Client(kube::Client);

impl std::fmt::Debug for Client {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("Client")
    }
}

impl From<kube::Client> for Client {
    fn from(client: kube::Client) -> Self {
        Self(client)
    }
}

impl From<Client> for kube::Client {
    fn from(client: Client) -> Self {
        client.0
    }
}

impl Client {
    /// A client of the settings' server, with the token in `token_file`; nothing is sent yet. Must be called inside of a tokio runtime.
    ///
    /// # Errors
    /// When nobody said where the server is.
    pub fn new(settings: &KubeconfigSettings, token_file: &Path) -> Result<Self, SetupError> {
        let base = base(&settings.server)?;
        let trust = trust(settings, &base).map_err(|error| SetupError::Tls(error.to_string()))?;
        let transport = Transport::new(base, trust, Account::new(token_file));
        let service = tower::service_fn(move |request| transport.clone().exchange(request));
        Ok(Self(kube::Client::new(service, "default")))
    }

    /// Sends a request (`kube::core::Request` makes them) and reads the object in the answer, all within `limit`.
    ///
    /// # Errors
    /// See [`ApiError`].
    pub async fn request<T: DeserializeOwned>(
        &self,
        request: Request<Vec<u8>>,
        limit: Duration,
    ) -> Result<T, ApiError> {
        within(limit, async {
            let answer = self.open(request).await?;
            let body = collect(answer.into_body(), ANSWER_LIMIT).await?;
            serde_json::from_slice(&body).map_err(|error| ApiError::Malformed(error.to_string()))
        })
        .await
    }

    /// Reads one object.
    ///
    /// # Errors
    /// See [`ApiError`].
    pub async fn get<T: DeserializeOwned>(&self, path: &str, limit: Duration) -> Result<T, ApiError> {
        let request = Request::get(path).body(Vec::new());
        self.request(request.map_err(|error| not_sent(&error))?, limit).await
    }

    /// Sends a request, and gives the answer back once its body begins. A refusal is read here.
    pub(super) async fn open(&self, request: Request<Vec<u8>>) -> Result<Response<Body>, ApiError> {
        let answer =
            self.0.send(request.map(Body::from)).await.map_err(|error| ApiError::of_client(&error))?;
        if answer.status().is_success() {
            return Ok(answer);
        }
        let (parts, body) = answer.into_parts();
        // The code matters more than the server's message.
        let words = collect(body, REFUSAL_LIMIT).await.unwrap_or_default();
        let token = parts.extensions.get().copied().unwrap_or_default();
        Err(ApiError::of_answer(parts.status, &parts.headers, &words).with_token(token))
    }
}

/// Maps a request that could not be written.
pub(super) fn not_sent(error: &dyn std::fmt::Display) -> ApiError {
    ApiError::Refused { code: 0, message: format!("not sent: {error}") }
}

/// Puts a deadline on a request.
pub(super) async fn within<T>(
    limit: Duration,
    work: impl Future<Output = Result<T, ApiError>>,
) -> Result<T, ApiError> {
    match tokio::time::timeout(limit, work).await {
        Ok(outcome) => outcome,
        Err(_) => Err(ApiError::Unreachable(format!("no answer within {limit:?}"))),
    }
}

async fn collect(body: Body, limit: usize) -> Result<Bytes, ApiError> {
    match Limited::new(body, limit).collect().await {
        Ok(whole) => Ok(whole.to_bytes()),
        Err(error) if error.is::<http_body_util::LengthLimitError>() => {
            Err(ApiError::Malformed(format!("it is longer than {limit} bytes")))
        }
        Err(error) => Err(ApiError::Unreachable(format!("its answer broke off: {error}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(protocol: &str, host: &str, port: &str) -> ApiAddress {
        ApiAddress { protocol: protocol.to_owned(), host: host.to_owned(), port: port.to_owned() }
    }

    #[test]
    fn an_address_follows_from_the_three_variables() {
        for ((protocol, host, port), expected) in [
            (("", "10.96.0.1", "443"), "https://10.96.0.1:443/"),
            (("https", "fd00::1", "6443"), "https://[fd00::1]:6443/"),
            (("https", "[fd00::1]", "6443"), "https://[fd00::1]:6443/"),
            (("http", "kubernetes.default.svc", "80"), "http://kubernetes.default.svc:80/"),
        ] {
            assert_eq!(base(&address(protocol, host, port)).unwrap().to_string(), expected);
        }
    }

    #[test]
    fn what_makes_no_address_is_named() {
        let error = |protocol, host, port| base(&address(protocol, host, port)).unwrap_err().to_string();
        assert_eq!(error("", "", "443"), "cannot find the API server: KUBERNETES_SERVICE_HOST is not set");
        assert_eq!(error("", "a", ""), "cannot find the API server: KUBERNETES_SERVICE_PORT is not set");
        for (protocol, host, port) in [("ftp", "a", "1"), ("https", "a b", "1"), ("https", "a", "x")] {
            let text = error(protocol, host, port);
            assert!(text.starts_with(&format!("cannot use {protocol}://{host}:{port} as")), "{text}");
        }
    }

    #[tokio::test]
    async fn without_a_token_it_is_a_matter_of_login() {
        let settings = KubeconfigSettings {
            server: address("http", "127.0.0.1", "9"),
            ca_file: "/nonexistent/ca.crt".into(),
            skip_verify: false,
            mode: 0o600,
        };
        let client = Client::new(&settings, Path::new("/nonexistent/token")).unwrap();
        let error = client.get::<serde_json::Value>("/api", REQUEST_LIMIT).await.unwrap_err();
        assert_eq!(error.name(), "unauthorized", "{error}");
        assert!(error.to_string().contains("/nonexistent/token"), "{error}");
    }
}
