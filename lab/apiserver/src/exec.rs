// SPDX-License-Identifier: Apache-2.0
//! `pods/exec` over WebSocket: the handshake, and a program's streams as numbered channels of one connection.
//!
//! Subprotocols `v5.channel.k8s.io` and `v4.channel.k8s.io`, which kubectl 1.30 and later ask for: a message is a byte for its channel and
//! then data. SPDY, which kubectl falls back to, is refused as a bad request. As with a real server, which begins to speak to the kubelet
//! only after the upgrade, the kubelet's refusals come on the error channel.

use bytes::Bytes;
use futures::stream::{SplitSink, SplitStream};
use futures::{SinkExt as _, StreamExt as _};
use http::HeaderMap;
use http::header::{CONNECTION, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL, UPGRADE};
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use listen::Closing;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::mpsc;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role};

use crate::error::ApiError;
use crate::kubelets::{Exec, ExecRequest, KubeletError};

const STDIN: u8 = 0;
const STDOUT: u8 = 1;
const STDERR: u8 = 2;
const ERROR: u8 = 3;
/// Of v5: the data is a channel that gets no more.
const CLOSE: u8 = 255;

/// Subprotocols, the preferred one first.
const PROTOCOLS: [&str; 2] = ["v5.channel.k8s.io", "v4.channel.k8s.io"];

/// Bytes that are read from a program at a time.
const CHUNK: usize = 32 << 10;

/// Output that waits for the client: a program that prints faster waits.
const QUEUE: usize = 8;

/// Handshake that is agreed on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Handshake {
    /// `Sec-WebSocket-Accept`
    pub(crate) accept: String,
    pub(crate) protocol: &'static str,
}

impl Handshake {
    /// Of a request's headers.
    pub(crate) fn of(headers: &HeaderMap) -> Result<Self, ApiError> {
        let bad = |why: &str| ApiError::BadRequest(why.to_owned());
        let words = |name| -> Vec<String> {
            let values = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
            values.flat_map(|value| value.split(',')).map(|word| word.trim().to_owned()).collect()
        };
        let says = |name, wanted: &str| words(name).iter().any(|word| word.eq_ignore_ascii_case(wanted));
        if !says(CONNECTION, "upgrade") {
            return Err(bad("Upgrade request required"));
        }
        if !says(UPGRADE, "websocket") {
            return Err(bad(
                "unable to upgrade: this server speaks WebSocket and no SPDY; kubectl 1.30 and later do as well",
            ));
        }
        let offered = words(SEC_WEBSOCKET_PROTOCOL);
        let protocol = PROTOCOLS.into_iter().find(|ours| offered.iter().any(|theirs| theirs == ours));
        let protocol = protocol.ok_or_else(|| {
            bad("unable to upgrade: of the subprotocols v5.channel.k8s.io and v4.channel.k8s.io are served")
        })?;
        let key = headers.get(SEC_WEBSOCKET_KEY).ok_or_else(|| bad("Sec-WebSocket-Key is required"))?;
        Ok(Self { accept: derive_accept_key(key.as_bytes()), protocol })
    }
}

type Socket = WebSocketStream<TokioIo<Upgraded>>;

/// A session, from the connection's upgrade to its end.
pub(crate) async fn session(
    upgrade: OnUpgrade,
    protocol: &'static str,
    request: ExecRequest,
    started: impl Future<Output = Result<Exec, KubeletError>>,
    closing: Option<Closing>,
) {
    let Ok(connection) = upgrade.await else { return };
    let socket = WebSocketStream::from_raw_socket(TokioIo::new(connection), Role::Server, None).await;
    let closing = async {
        match closing {
            Some(closing) => closing.wait().await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        () = converse(socket, protocol, &request, started) => {}
        () = closing => {}
    }
}

async fn converse(
    mut socket: Socket,
    protocol: &str,
    request: &ExecRequest,
    started: impl Future<Output = Result<Exec, KubeletError>>,
) {
    // The real server's first message is empty: the client knows by it that the connection stands.
    if socket.send(message(STDOUT, &[])).await.is_err() {
        return;
    }
    let (sink, stream) = socket.split();
    let ending = match started.await {
        Ok(exec) => {
            let streams = request.streams;
            let can_close = protocol == PROTOCOLS[0];
            let Some((sink, code)) = relay(exec, sink, stream, streams.stdin, can_close).await else {
                return;
            };
            (sink, exited(code))
        }
        Err(error) => (sink, refused(&error)),
    };
    let (mut sink, status) = ending;
    // One that is gone already needs no word.
    let _ = sink.send(message(ERROR, status.to_string().as_bytes())).await;
    // Any other code is an error to kubectl, whatever the status said.
    let _ = sink.send(Message::Close(Some(CloseFrame { code: CloseCode::Normal, reason: "".into() }))).await;
    let _ = sink.close().await;
}

type Sink = SplitSink<Socket, Message>;

/// Streams both ways until the program has ended and all of its output is sent; `None` if the client left first.
async fn relay(
    exec: Exec,
    mut sink: Sink,
    stream: SplitStream<Socket>,
    wants_stdin: bool,
    can_close: bool,
) -> Option<(Sink, i32)> {
    let Exec { stdin, stdout, stderr, exit } = exec;
    let (queue, mut queued) = mpsc::channel(QUEUE);
    let outputs = async move {
        let (one, two) = (queue.clone(), queue);
        tokio::join!(read_out(stdout, STDOUT, one), read_out(stderr, STDERR, two));
    };
    let sent = async {
        while let Some(next) = queued.recv().await {
            sink.send(next).await.ok()?;
        }
        Some(())
    };
    let program = async {
        let ((), sent, code) = tokio::join!(outputs, sent, exit);
        sent.map(|()| code)
    };
    let code = tokio::select! {
        code = program => code,
        () = feed(stream, stdin.filter(|_| wants_stdin), can_close) => None,
    };
    code.map(|code| (sink, code))
}

/// Reads a stream of the program to its end.
async fn read_out(
    stream: Option<Box<dyn AsyncRead + Send + Unpin>>,
    channel: u8,
    queue: mpsc::Sender<Message>,
) {
    let Some(mut stream) = stream else { return };
    let mut chunk = vec![0; CHUNK];
    while let Ok(length @ 1..) = stream.read(&mut chunk).await {
        if queue.send(message(channel, &chunk[..length])).await.is_err() {
            return;
        }
    }
}

/// Writes what the client sends to the program's input; returns when the client is gone.
async fn feed(
    mut stream: SplitStream<Socket>,
    mut stdin: Option<Box<dyn AsyncWrite + Send + Unpin>>,
    can_close: bool,
) {
    while let Some(Ok(message)) = stream.next().await {
        let data: Bytes = match message {
            Message::Binary(data) => data,
            Message::Close(_) => return,
            // Pings are answered by the library.
            _ => continue,
        };
        match data.split_first() {
            Some((&STDIN, data)) => {
                let Some(pipe) = &mut stdin else { continue };
                // A program that has closed its input does not read the rest.
                if pipe.write_all(data).await.is_err() || pipe.flush().await.is_err() {
                    stdin = None;
                }
            }
            Some((&CLOSE, [STDIN])) if can_close => stdin = None,
            // Sizes of a terminal, which there is none of.
            _ => {}
        }
    }
}

fn message(channel: u8, data: &[u8]) -> Message {
    Message::Binary(Bytes::from([&[channel], data].concat()))
}

/// Status of the end of a program.
fn exited(code: i32) -> Value {
    if code == 0 {
        return json!({ "metadata": {}, "status": "Success" });
    }
    json!({
        "metadata": {}, "status": "Failure", "reason": "NonZeroExitCode",
        "message": format!("command terminated with non-zero exit code: exit status {code}"),
        "details": { "causes": [{ "reason": "ExitCode", "message": code.to_string() }] },
    })
}

fn refused(error: &KubeletError) -> Value {
    ApiError::Internal(error.to_string()).status()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| ((*name).parse().unwrap(), value.parse().unwrap())).collect()
    }

    const KEY: (&str, &str) = ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==");

    #[test]
    fn a_handshake_takes_the_newest_protocol_that_is_offered() {
        let upgrade = [("connection", "keep-alive, Upgrade"), ("upgrade", "websocket"), KEY];
        for (offered, taken) in [
            ("v5.channel.k8s.io", Some("v5.channel.k8s.io")),
            ("v4.channel.k8s.io, v5.channel.k8s.io", Some("v5.channel.k8s.io")),
            ("channel.k8s.io,v4.channel.k8s.io", Some("v4.channel.k8s.io")),
            ("channel.k8s.io", None),
        ] {
            let all = [&upgrade[..], &[("sec-websocket-protocol", offered)]].concat();
            let agreed = Handshake::of(&headers(&all)).ok();
            assert_eq!(agreed.as_ref().map(|agreed| agreed.protocol), taken, "{offered}");
            // The example of RFC 6455, 1.3.
            assert!(agreed.is_none_or(|agreed| agreed.accept == "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="));
        }
    }

    #[test]
    fn spdy_is_a_bad_request() {
        let spdy = headers(&[("connection", "Upgrade"), ("upgrade", "SPDY/3.1"), KEY]);
        assert_eq!(Handshake::of(&spdy).unwrap_err().code(), 400);
        assert_eq!(Handshake::of(&headers(&[])).unwrap_err().to_string(), "Upgrade request required");
    }

    #[test]
    fn a_programs_end_is_a_status() {
        assert_eq!(exited(0)["status"], "Success");
        let failed = exited(3);
        assert_eq!(failed["details"]["causes"][0], json!({ "reason": "ExitCode", "message": "3" }));
        let refused = refused(&KubeletError("container not found (\"x\")".to_owned()));
        assert_eq!(refused["message"], "Internal error occurred: container not found (\"x\")");
        assert_eq!(refused["code"], 500);
    }
}
