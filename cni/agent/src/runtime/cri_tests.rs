// SPDX-License-Identifier: Apache-2.0
//! Runtimes that answer, and others, on real sockets.

use std::path::PathBuf;

use http::Response;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixListener;

use super::*;

struct Socket {
    path: PathBuf,
    listener: UnixListener,
    _dir: tempfile::TempDir,
}

fn socket() -> Socket {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("runtime.sock");
    Socket { listener: UnixListener::bind(&path).unwrap(), path, _dir: dir }
}

/// Frame of a response with this `info`.
fn body(key: &str, value: &str) -> Vec<u8> {
    let text = |field: u8, text: &[u8]| {
        let length = text.len();
        let low = u8::try_from(length & 0x7f).unwrap() | 0x80;
        [&[field << 3 | 2, low, u8::try_from(length >> 7).unwrap()], text].concat()
    };
    let message = text(2, &[text(1, key.as_bytes()), text(2, value.as_bytes())].concat());
    [&[0][..], &u32::try_from(message.len()).unwrap().to_be_bytes(), &message].concat()
}

/// Serves one call of `Status`, then one request of HTTP/1.1 if there is a text for it.
async fn serve(listener: UnixListener, answer: Vec<u8>, status: &'static str, configuration: Option<&str>) {
    let (stream, _) = listener.accept().await.unwrap();
    let mut connection = h2::server::handshake(stream).await.unwrap();
    let (request, mut respond) = connection.accept().await.unwrap().unwrap();
    assert_eq!((request.method(), request.uri().path()), (&Method::POST, cri::STATUS));
    assert_eq!(request.headers()["content-type"], "application/grpc");
    let mut asked = request.into_body();
    let exchange = async {
        assert_eq!(asked.data().await.unwrap().unwrap(), Bytes::from_static(&cri::VERBOSE));
        let head = Response::builder().header("content-type", "application/grpc").body(()).unwrap();
        let mut stream = respond.send_response(head, false).unwrap();
        // A peer that has heard enough resets the stream.
        let _ = stream.send_data(Bytes::from(answer), false);
        let mut trailers = HeaderMap::new();
        trailers.insert("grpc-status", status.parse().unwrap());
        trailers.insert("grpc-message", "told".parse().unwrap());
        let _ = stream.send_trailers(trailers);
    };
    exchange.await;
    let rest = async { while connection.accept().await.is_some() {} };
    let Some(configuration) = configuration else { return rest.await };
    let other = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut asked = [0; 512];
        let read = stream.read(&mut asked).await.unwrap();
        assert!(asked[..read].starts_with(b"GET /config HTTP/1.1\r\n"));
        let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", configuration.len());
        stream.write_all(&[head.as_bytes(), configuration.as_bytes()].concat()).await.unwrap();
        std::future::pending::<()>().await;
    };
    tokio::join!(rest, other);
}

async fn asked(
    answer: Vec<u8>,
    status: &'static str,
    configuration: Option<&str>,
) -> Result<Answer, AskError> {
    let Socket { path, listener, _dir } = socket();
    tokio::select! {
        answer = ask(&path) => answer,
        () = serve(listener, answer, status, configuration) => unreachable!("it serves until its peer is done"),
    }
}

#[tokio::test]
async fn containerd_says_what_it_has_loaded() {
    let config = r#"{"PluginConfDir":"/etc/cni/net.d","PluginMaxConfNum":2,"Networks":[{"Config":{"Name":"net","Plugins":[{"Source":"{\"type\":\"istio-cni\"}"}]},"IFName":"eth0"}]}"#;
    let Answer::Loaded(loaded) = asked(body("cniconfig", config), "0", None).await.unwrap() else { panic!() };
    assert_eq!((loaded.most, loaded.networks[0].name.as_str()), (2, "net"));
}

#[tokio::test]
async fn crio_says_what_it_goes_by() {
    let toml = "[crio.network]\ncni_default_network = \"azure\"\nnetwork_dir = \"/etc/cni/net.d/\"\n";
    let answer = asked(body("config", "{\"sandboxImage\":\"pause\"}"), "0", Some(toml)).await.unwrap();
    let Answer::Configured(found) = answer else { panic!("{answer:?}") };
    assert_eq!(
        (found.default_network.as_deref(), found.net),
        (Some("azure"), vec!["/etc/cni/net.d".to_owned()])
    );
}

#[tokio::test]
async fn a_failure_is_told_with_its_reason() {
    let error = asked(Vec::new(), "12", None).await.unwrap_err();
    assert_eq!(error.to_string(), "gRPC status 12: told");
    let error = asked(vec![0, 0, 0, 0, 9], "0", None).await.unwrap_err();
    assert!(matches!(error, AskError::Malformed(CriError::Frame)), "{error}");
    let error = asked(vec![0; cri::MAX_BODY + 1], "0", None).await.unwrap_err();
    assert!(matches!(error, AskError::TooLong), "{error}");
    let missing = ask(Path::new("/nonexistent/runtime.sock")).await.unwrap_err();
    assert!(missing.to_string().starts_with("connect: "), "{missing}");
}

#[tokio::test]
async fn one_that_is_silent_or_speaks_something_else_is_not_waited_for() {
    let Socket { path, listener, _dir } = socket();
    let (error, _) = tokio::join!(ask(&path), async {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await.unwrap();
        drop(stream);
    });
    assert!(matches!(error, Err(AskError::Http2(_))), "{error:?}");
    let (error, _) = tokio::join!(timeout(LIMIT * 2, ask(&path)), listener.accept());
    assert!(matches!(error, Ok(Err(AskError::Late))), "{error:?}");
}

#[test]
fn a_status_among_the_headers_counts() {
    let mut headers = HeaderMap::new();
    assert!(succeeded(&headers).is_ok());
    headers.insert("grpc-status", "0".parse().unwrap());
    assert!(succeeded(&headers).is_ok());
    headers.insert("grpc-status", "16".parse().unwrap());
    assert!(matches!(succeeded(&headers), Err(AskError::Grpc(status, _)) if status == "16"));
}
