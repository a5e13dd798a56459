// SPDX-License-Identifier: Apache-2.0
//! The connection, against scripted servers on the loopback interface.

use std::io::{BufRead as _, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread::JoinHandle;

use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::*;
use crate::clock::{Clock as _, SystemClock};
use crate::kubeconfig;

const LIMIT: Duration = Duration::from_secs(5);
const SHORT: Duration = Duration::from_millis(200);

/// Serves `connections` connections with `serve`; gives back the requests' heads, by connection.
fn server(
    connections: usize,
    serve: impl Fn(&mut dyn ReadWrite) -> Vec<String> + Send + 'static,
) -> (String, JoinHandle<Vec<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let thread = std::thread::spawn(move || {
        (0..connections).map(|_| serve(&mut listener.accept().unwrap().0)).collect()
    });
    (url, thread)
}

trait ReadWrite: Read + Write {}
impl<T: Read + Write> ReadWrite for T {}

/// Reads request heads and answers each with the next of `answers`, until the other side hangs up or answers run out.
fn answer_all(stream: &mut dyn ReadWrite, answers: &[&str]) -> Vec<String> {
    let mut heads = Vec::new();
    for answer in answers {
        let Some(head) = read_head(stream) else { break };
        heads.push(head);
        stream.write_all(answer.as_bytes()).unwrap();
    }
    heads
}

fn read_head(stream: &mut dyn ReadWrite) -> Option<String> {
    let mut head = String::new();
    let mut reader = BufReader::with_capacity(1, stream);
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head).ok()? == 0 {
            return None;
        }
    }
    Some(head)
}

fn endpoint(server: &str) -> Endpoint {
    Endpoint { server: server.to_owned(), trust: Trust::Anyone, token: None, client: None }
}

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}";

#[test]
fn requests_share_one_connection_and_carry_the_token() {
    let (url, thread) = server(1, |stream| {
        answer_all(stream, &["HTTP/1.1 404 Not Found\r\nContent-Length: 3\r\n\r\nno!", OK])
    });
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("k");
    let text = format!(
        "{{clusters: [{{name: c, cluster: {{server: '{url}'}}}}], users: [{{name: u, user: {{token: s3cret}}}}], contexts: [{{name: x, context: {{cluster: c, user: u}}}}], current-context: x}}"
    );
    std::fs::write(&path, text).unwrap();
    let mut connection = HttpApi.open(&kubeconfig::load(&path).unwrap()).unwrap();
    assert_eq!(
        connection.get("/a", LIMIT).unwrap(),
        HttpResponse { status: 404, retry_after: None, body: b"no!".to_vec() }
    );
    assert_eq!(connection.get("/b", LIMIT).unwrap().body, b"{}");
    drop(connection);
    let heads = thread.join().unwrap().remove(0);
    assert!(
        heads[0].starts_with("GET /a HTTP/1.1\r\n") && heads[1].starts_with("GET /b HTTP/1.1\r\n"),
        "{heads:?}"
    );
    for head in heads {
        let head = head.to_lowercase();
        assert!(head.contains("authorization: bearer s3cret\r\n"), "{head}");
        assert!(head.contains("accept: application/json\r\n"), "{head}");
    }
}

#[test]
fn retry_after_counts_in_seconds_only() {
    for (value, wanted) in
        [("7", Some(7)), (" 0 ", Some(0)), ("Wed, 21 Oct 2015 07:28:00 GMT", None), ("-1", None)]
    {
        let answer = format!("HTTP/1.1 429 Slow\r\nRetry-After: {value}\r\nContent-Length: 0\r\n\r\n");
        let (url, thread) = server(1, move |stream| answer_all(stream, &[&answer]));
        let got = HttpApi.open(&endpoint(&url)).unwrap().get("/", LIMIT).unwrap();
        assert_eq!((got.status, got.retry_after), (429, wanted.map(Duration::from_secs)), "{value}");
        thread.join().unwrap();
    }
}

#[test]
fn chunks_are_put_together_and_redirects_not_followed() {
    let (url, thread) = server(1, |stream| {
        answer_all(
            stream,
            &[
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n1\r\n}\r\n0\r\n\r\n",
                "HTTP/1.1 301 Moved\r\nLocation: /other\r\nContent-Length: 0\r\n\r\n",
            ],
        )
    });
    let mut connection = HttpApi.open(&endpoint(&url)).unwrap();
    assert_eq!(connection.get("/", LIMIT).unwrap().body, b"{}");
    assert_eq!(connection.get("/", LIMIT).unwrap().status, 301);
    thread.join().unwrap();
}

#[test]
fn what_is_no_answer_is_told_apart() {
    type Expect = fn(&HttpError) -> bool;
    let cases: [(&str, &'static str, Expect); 5] = [
        ("hung up", "", |error| matches!(error, HttpError::Connection(_))),
        ("not HTTP", "220 mail ready\r\n\r\n", |error| matches!(error, HttpError::Protocol(_))),
        ("half a body", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{}", |error| {
            matches!(error, HttpError::Connection(_) | HttpError::Protocol(_))
        }),
        ("half a head", "HTTP/1.1 200 OK\r\nConte", |error| {
            matches!(error, HttpError::Connection(_) | HttpError::Protocol(_))
        }),
        ("too much", "HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n", |error| {
            matches!(error, HttpError::Connection(_) | HttpError::Protocol(_))
        }),
    ];
    for (what, answer, expected) in cases {
        let (url, thread) = server(1, move |stream| answer_all(stream, &[answer]));
        let error = HttpApi.open(&endpoint(&url)).unwrap().get("/", LIMIT).unwrap_err();
        assert!(expected(&error), "{what}: {error:?}");
        thread.join().unwrap();
    }
}

#[test]
fn a_body_without_end_is_cut_off() {
    let (url, thread) = server(1, |stream| {
        let head = read_head(stream);
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n");
        // Ends when the other side has had enough.
        while stream.write_all(&[b'x'; 64 * 1024]).is_ok() {}
        head.into_iter().collect()
    });
    let error = HttpApi.open(&endpoint(&url)).unwrap().get("/", LIMIT).unwrap_err();
    assert!(matches!(error, HttpError::Protocol(_) | HttpError::Connection(_)), "{error:?}");
    thread.join().unwrap();
}

#[test]
fn a_silent_server_is_given_up_at_the_limit() {
    let silent = |stream: &mut dyn ReadWrite| {
        let head = read_head(stream);
        let _ = stream.read(&mut [0]);
        head.into_iter().collect()
    };
    let (url, thread) = server(1, silent);
    let before = std::time::Instant::now();
    let error = HttpApi.open(&endpoint(&url)).unwrap().get("/", SHORT).unwrap_err();
    assert!(matches!(error, HttpError::Late(SHORT)), "{error:?}");
    assert!(before.elapsed() >= SHORT && before.elapsed() < LIMIT, "{:?}", before.elapsed());
    thread.join().unwrap();
}

#[test]
fn a_server_that_dribbles_does_not_stretch_the_limit() {
    let (url, thread) = server(1, |stream| {
        let head = read_head(stream);
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n");
        while stream.write_all(b"x").is_ok() {
            SystemClock::start().wait(Duration::from_millis(10));
        }
        head.into_iter().collect()
    });
    let before = std::time::Instant::now();
    let error = HttpApi.open(&endpoint(&url)).unwrap().get("/", SHORT).unwrap_err();
    assert!(matches!(error, HttpError::Late(_)), "{error:?}");
    assert!(before.elapsed() < LIMIT, "{:?}", before.elapsed());
    thread.join().unwrap();
}

#[test]
fn nobody_listens() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let error = HttpApi.open(&endpoint(&url)).unwrap().get("/", LIMIT).unwrap_err();
    assert!(matches!(error, HttpError::Connection(_)), "{error:?}");
}

#[test]
fn a_token_that_no_header_can_carry_is_not_quoted() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("k");
    std::fs::write(&path, "{clusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}], users: [{name: u, user: {token: \"s3\\ncret\"}}], contexts: [{name: x, context: {cluster: c, user: u}}]}").unwrap();
    let error = HttpApi.open(&kubeconfig::load(&path).unwrap()).unwrap().get("/", LIMIT).unwrap_err();
    assert!(matches!(error, HttpError::Setup("token")), "{error:?}");
    assert!(!format!("{error} {error:?}").contains("s3"), "{error:?}");
}

/// A TLS server with a certificate of its own authority; gives back whether it saw a request.
fn tls_server(authority: &Authority) -> (String, JoinHandle<bool>) {
    let key = rcgen::KeyPair::generate().unwrap();
    let params = rcgen::CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
    let certificate = params.signed_by(&key, &authority.issuer).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(
            vec![CertificateDer::from(certificate.der().to_vec())],
            PrivateKeyDer::try_from(key.serialize_der()).unwrap(),
        )
        .unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("https://{}", listener.local_addr().unwrap());
    let thread = std::thread::spawn(move || {
        let stream: TcpStream = listener.accept().unwrap().0;
        let session = rustls::ServerConnection::new(Arc::new(config)).unwrap();
        let mut tls = rustls::StreamOwned::new(session, stream);
        let Some(_) = read_head(&mut tls) else { return false };
        tls.write_all(OK.as_bytes()).is_ok()
    });
    (url, thread)
}

struct Authority {
    issuer: rcgen::Issuer<'static, rcgen::KeyPair>,
    pem: Vec<u8>,
}

fn authority() -> Authority {
    let key = rcgen::KeyPair::generate().unwrap();
    let mut params = rcgen::CertificateParams::new(vec![]).unwrap();
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let pem = params.self_signed(&key).unwrap().pem().into_bytes();
    Authority { issuer: rcgen::Issuer::new(params, key), pem }
}

#[test]
fn a_server_is_trusted_by_its_authority_only() {
    let (ours, other) = (authority(), authority());
    let broken = b"-----BEGIN CERTIFICATE-----\n!!\n-----END CERTIFICATE-----\n".to_vec();
    let cases = [
        (Trust::Authorities(ours.pem.clone()), true),
        (Trust::Authorities([broken.clone(), ours.pem.clone()].concat()), true),
        (Trust::Authorities([ours.pem.clone(), broken].concat()), true),
        (Trust::Anyone, true),
        (Trust::Authorities(other.pem), false),
    ];
    for (trust, works) in cases {
        let (url, thread) = tls_server(&ours);
        let mut connection = HttpApi.open(&Endpoint { trust, ..endpoint(&url) }).unwrap();
        let answer = connection.get("/", LIMIT);
        match (works, answer) {
            (true, Ok(answer)) => assert_eq!(answer.body, b"{}"),
            (false, Err(HttpError::Certificate(_))) => {}
            (_, other) => panic!("{other:?}"),
        }
        drop(connection);
        assert_eq!(thread.join().unwrap(), works);
    }
}

#[test]
fn certificates_that_are_none_are_named() {
    let bad = Endpoint { trust: Trust::Authorities(b"no pem".to_vec()), ..endpoint("https://127.0.0.1:1") };
    assert!(matches!(HttpApi.open(&bad), Err(HttpError::Setup("certificate-authority"))));
}
