// SPDX-License-Identifier: Apache-2.0
//! A scripted API server in process: each request gets the next answer, and the time is the test's.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use futures::channel::mpsc::{UnboundedSender, unbounded};
use futures::stream::{self, BoxStream, StreamExt as _};
use http::{Request, Response};
use http_body_util::StreamBody;
use hyper::body::Frame;

use super::{Client, Token};

type Piece = Result<Bytes, std::io::Error>;

/// Scripted response.
pub(crate) struct Scripted {
    /// Substring of the request's path that it answers.
    path: &'static str,
    code: u16,
    headers: Vec<(&'static str, String)>,
    token: Token,
    body: BoxStream<'static, Piece>,
}

impl Scripted {
    pub(crate) fn new(code: u16, body: impl Into<Bytes>) -> Self {
        let body = stream::iter([Ok(body.into())]).boxed();
        Self { path: "", code, headers: Vec::new(), token: Token::default(), body }
    }

    /// Scripted 404 about an object.
    pub(crate) fn absent(resource: &str, name: &str) -> Self {
        let message = format!("{resource} \"{name}\" not found");
        let status =
            serde_json::json!({ "kind": "Status", "code": 404, "reason": "NotFound", "message": message });
        Self::new(404, status.to_string())
    }

    /// Scripted 401 with a classified token.
    pub(crate) fn refusing(token: Token) -> Self {
        Self { token, ..Self::new(401, "Unauthorized") }
    }

    /// A body that comes piece by piece, as the test sends them; it ends when the sender is dropped.
    pub(crate) fn streamed() -> (UnboundedSender<Piece>, Self) {
        let (sender, receiver) = unbounded();
        (
            sender,
            Self {
                path: "",
                code: 200,
                headers: Vec::new(),
                token: Token::default(),
                body: receiver.boxed(),
            },
        )
    }

    /// For requests about this alone: where several are sent at once, their order is nobody's promise.
    pub(crate) fn to(self, path: &'static str) -> Self {
        Self { path, ..self }
    }

    pub(crate) fn with(mut self, name: &'static str, value: &str) -> Self {
        self.headers.push((name, value.to_owned()));
        self
    }
}

/// As the real server refuses streaming lists where its feature gate `WatchList` is off.
const NO_STREAMS: &str =
    r#"{"kind":"Status","code":422,"reason":"Invalid","message":"sendInitialEvents: Forbidden"}"#;

#[derive(Default)]
struct State {
    /// Serves streaming lists; otherwise they are rejected without using a response or being recorded.
    streams: bool,
    answers: VecDeque<Scripted>,
    asked: Vec<String>,
}

/// Scripted server. A request beyond the script waits for ever.
#[derive(Clone, Default)]
pub(crate) struct Script(Arc<Mutex<State>>);

impl Script {
    pub(crate) fn new(answers: impl IntoIterator<Item = Scripted>) -> Self {
        let script = Self::default();
        script.0.lock().unwrap().answers.extend(answers);
        script
    }

    /// Server with streaming lists.
    pub(crate) fn streaming(answers: impl IntoIterator<Item = Scripted>) -> Self {
        let script = Self::new(answers);
        script.0.lock().unwrap().streams = true;
        script
    }

    pub(crate) fn push(&self, answer: Scripted) {
        self.0.lock().unwrap().answers.push_back(answer);
    }

    /// Paths and queries of the requests so far.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.0.lock().unwrap().asked.clone()
    }

    pub(crate) fn client(&self) -> Client {
        let state = Arc::clone(&self.0);
        let service = tower::service_fn(move |request: Request<kube::client::Body>| {
            let answer = {
                let (mut state, uri) = (state.lock().unwrap(), request.uri().to_string());
                if uri.contains("sendInitialEvents") && !state.streams {
                    Some(Scripted::new(422, NO_STREAMS))
                } else {
                    let found = state.answers.iter().position(|answer| uri.contains(answer.path));
                    state.asked.push(uri);
                    found.and_then(|found| state.answers.remove(found))
                }
            };
            async move {
                let Some(answer) = answer else { return std::future::pending().await };
                let mut response = Response::builder().status(answer.code).extension(answer.token);
                for (name, value) in answer.headers {
                    response = response.header(name, value);
                }
                let body = StreamBody::new(answer.body.map(|piece| piece.map(Frame::data)));
                Ok::<_, Infallible>(response.body(body).unwrap())
            }
        });
        Client::from(kube::Client::new(service, "default"))
    }
}
