// SPDX-License-Identifier: Apache-2.0
//! Asks the container runtime at its socket what it has loaded: `Status` over HTTP/2, and of CRI-O, whose answer says nothing of networks, its
//! configuration over HTTP/1.1. One connection each time, a deadline over all of it, and a limit of what is read.

use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Uri, Version};
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use protocol::cri::{self, CriError, LoadedNetworks};
use protocol::directories::{Directories, of_runtime};
use tokio::net::UnixStream;
use tokio::time::timeout;

/// Deadline of a question.
const LIMIT: Duration = Duration::from_secs(2);

/// Answer of a runtime.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// containerd: what it has loaded.
    Loaded(LoadedNetworks),
    /// CRI-O: what it goes by.
    Configured(Directories),
    /// Nothing of networks.
    Nothing,
}

/// Question without an answer.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    #[error("connect: {0}")]
    Connect(#[from] std::io::Error),
    #[error("no answer within {LIMIT:?}")]
    Late,
    #[error("HTTP/2: {0}")]
    Http2(#[from] h2::Error),
    #[error("HTTP: {0}")]
    Http(#[from] http::Error),
    #[error("HTTP/1.1: {0}")]
    Http1(#[from] hyper::Error),
    /// `grpc-status`, and the message that came with it.
    #[error("gRPC status {0}: {1}")]
    Grpc(String, String),
    #[error("the answer is longer than {} bytes", cri::MAX_BODY)]
    TooLong,
    #[error("failed to {0}")]
    Malformed(#[from] CriError),
}

/// State of the runtime behind `socket`, within [`LIMIT`].
///
/// # Errors
/// There is no answer that can be read in time.
pub async fn ask(socket: &Path) -> Result<Answer, AskError> {
    timeout(LIMIT, async {
        let info = cri::info(&status(socket).await?)?;
        if let Some(loaded) = cri::loaded(&info) {
            return Ok(Answer::Loaded(loaded));
        }
        // Other runtimes have nothing there.
        match configuration(socket).await {
            Ok(Some(text)) => Ok(Answer::Configured(of_runtime(&text))),
            Ok(None) | Err(AskError::Http1(_)) => Ok(Answer::Nothing),
            Err(error) => Err(error),
        }
    })
    .await
    .unwrap_or(Err(AskError::Late))
}

/// Body of the response to `Status`.
async fn status(socket: &Path) -> Result<Vec<u8>, AskError> {
    let stream = UnixStream::connect(socket).await?;
    let (mut client, connection) = h2::client::handshake(stream).await?;
    let request = Request::builder()
        .method(Method::POST)
        .version(Version::HTTP_2)
        .uri(Uri::builder().scheme("http").authority("localhost").path_and_query(cri::STATUS).build()?)
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(())?;
    let exchange = async {
        let (response, mut body) = client.send_request(request, false)?;
        body.send_data(Bytes::from_static(&cri::VERBOSE), true)?;
        let response = response.await?;
        succeeded(response.headers())?;
        let (mut stream, mut all) = (response.into_body(), Vec::new());
        while let Some(data) = stream.data().await {
            let data = data?;
            if all.len() + data.len() > cri::MAX_BODY {
                return Err(AskError::TooLong);
            }
            all.extend_from_slice(&data);
            stream.flow_control().release_capacity(data.len())?;
        }
        if let Some(trailers) = stream.trailers().await? {
            succeeded(&trailers)?;
        }
        Ok(all)
    };
    over(connection, exchange).await
}

/// Checks `grpc-status`, if it is there: a call that fails at once has it among the headers, another one among the trailers.
fn succeeded(headers: &HeaderMap) -> Result<(), AskError> {
    let text =
        |name: &str| headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
    match text("grpc-status") {
        Some(status) if status != "0" => {
            Err(AskError::Grpc(status, text("grpc-message").unwrap_or_default()))
        }
        _ => Ok(()),
    }
}

/// CRI-O's configuration, TOML; `None` if nothing is served there.
async fn configuration(socket: &Path) -> Result<Option<String>, AskError> {
    let stream = UnixStream::connect(socket).await?;
    let (mut client, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let request = Request::get("/config").header("host", "localhost").body(Empty::<Bytes>::new())?;
    let exchange = async {
        let response = client.send_request(request).await?;
        if !response.status().is_success() {
            return Ok(None);
        }
        let body = Limited::new(response.into_body(), cri::MAX_BODY).collect().await;
        let body = body.map_err(|_| AskError::TooLong)?.to_bytes();
        Ok(Some(String::from_utf8_lossy(&body).into_owned()))
    };
    over(connection, exchange).await
}

/// Result of an exchange over a connection, which it drives.
async fn over<T, E: Into<AskError>>(
    connection: impl Future<Output = Result<(), E>>,
    exchange: impl Future<Output = Result<T, AskError>>,
) -> Result<T, AskError> {
    tokio::pin!(exchange);
    tokio::select! {
        done = &mut exchange => done,
        // The connection may end after the last response, which the exchange then has.
        ended = connection => {
            ended.map_err(Into::into)?;
            exchange.await
        }
    }
}

#[cfg(test)]
#[path = "cri_tests.rs"]
mod tests;
