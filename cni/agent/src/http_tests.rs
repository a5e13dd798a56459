// SPDX-License-Identifier: Apache-2.0
//! Answers as a client reads them, over real sockets of the loopback.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::*;
use crate::readiness::Part;

fn nothing_said() -> watch::Receiver<SettingsReport> {
    watch::channel(SettingsReport::default()).1
}

struct Server {
    address: SocketAddr,
    readiness: Readiness,
    stop: CancellationToken,
}

impl Server {
    async fn start(purpose: Purpose) -> Self {
        let listener = TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await.unwrap();
        let (address, stop, readiness) =
            (listener.local_addr().unwrap(), CancellationToken::new(), Readiness::default());
        let state =
            HttpState { metrics: Metrics::default(), readiness: readiness.clone(), settings: nothing_said() };
        tokio::spawn(answer_all(listener, purpose, state, stop.clone()));
        Self { address, readiness, stop }
    }

    async fn ask(&self, request: &str) -> String {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut text = Vec::new();
        timeout(Duration::from_secs(10), stream.read_to_end(&mut text)).await.unwrap().unwrap();
        String::from_utf8(text).unwrap()
    }

    async fn get(&self, path: &str) -> String {
        self.ask(&format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n")).await
    }
}

#[tokio::test]
async fn a_port_takes_ipv4_on_a_node_that_separates_the_families_by_default_as_well() {
    let listener = listen(0).unwrap();
    let address = listener.local_addr().unwrap();
    assert!(address.is_ipv4() || !rustix::net::sockopt::ipv6_v6only(&listener).unwrap());
    TcpStream::connect((Ipv4Addr::LOCALHOST, address.port())).await.unwrap();
}

#[tokio::test]
async fn ready_is_503_with_reasons_until_every_part_is_right() {
    let server = Server::start(Purpose::Health).await;
    server.readiness.set_unready(Part::Conflist, "10-x.conflist lacks our entry");
    let text = server.get("/readyz").await;
    assert!(text.starts_with("HTTP/1.1 503 "), "{text}");
    assert!(text.contains("conflist: 10-x.conflist lacks our entry\n"), "{text}");
    assert!(server.get("/healthz").await.starts_with("HTTP/1.1 200 "));
    let text = server.ask("GET /readyz HTTP/1.1\r\nHost: x\r\nAccept: application/json\r\n\r\n").await;
    let ready: Ready = serde_json::from_str(text.split("\r\n\r\n").nth(1).unwrap()).unwrap();
    assert!(!ready.ready);
    assert_eq!(ready.missing["conflist"], "10-x.conflist lacks our entry");
    Part::ALL.iter().for_each(|part| server.readiness.set_ready(*part));
    assert!(server.get("/readyz").await.starts_with("HTTP/1.1 200 "));
    server.readiness.set_unready(Part::Sockets, "gone");
    assert!(server.get("/readyz").await.starts_with("HTTP/1.1 503 "));
}

#[tokio::test]
async fn each_port_serves_its_own_paths_only_and_changes_nothing() {
    let (health, monitoring) =
        (Server::start(Purpose::Health).await, Server::start(Purpose::Monitoring).await);
    let text = monitoring.get("/metrics").await;
    assert!(text.starts_with("HTTP/1.1 200 "), "{text}");
    assert!(text.contains("content-type: text/plain; version=0.0.4"), "{text}");
    assert!(text.contains("\nistio_cni_install_ready 0\n"), "{text}");
    assert!(health.get("/metrics").await.starts_with("HTTP/1.1 404 "));
    assert!(monitoring.get("/readyz").await.starts_with("HTTP/1.1 404 "));
    let text = monitoring.ask("POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n").await;
    assert!(text.starts_with("HTTP/1.1 405 ") && text.contains("allow: GET, HEAD"), "{text}");
}

#[tokio::test]
async fn settings_are_for_processes_of_the_same_network() {
    let server = Server::start(Purpose::Health).await;
    let text = server.get("/settings").await;
    assert!(text.starts_with("HTTP/1.1 200 ") && text.contains("\"values\":{}"), "{text}");
    assert_eq!(settings(Asker::Far, &SettingsReport::default()).status(), StatusCode::FORBIDDEN);
    for (peer, asker) in [
        ("127.0.0.1:1", Asker::Near),
        ("[::1]:1", Asker::Near),
        ("[::ffff:127.0.0.1]:1", Asker::Near),
        ("10.0.0.1:1", Asker::Far),
        ("[::ffff:10.0.0.1]:1", Asker::Far),
        ("[fe80::1]:1", Asker::Far),
    ] {
        assert_eq!(Asker::at(peer.parse().unwrap()), asker, "{peer}");
    }
}

#[tokio::test]
async fn metrics_follow_readiness_at_the_scrape() {
    let server = Server::start(Purpose::Monitoring).await;
    Part::ALL.iter().for_each(|part| server.readiness.set_ready(*part));
    assert!(server.get("/metrics").await.contains("\nistio_cni_install_ready 1\n"));
}

#[tokio::test]
async fn head_has_the_length_and_no_body() {
    let server = Server::start(Purpose::Health).await;
    let text = server.ask("HEAD /healthz HTTP/1.1\r\nHost: x\r\n\r\n").await;
    assert!(text.contains("content-length: 3") && text.ends_with("\r\n\r\n"), "{text}");
}

#[tokio::test]
async fn a_head_without_end_is_cut_off_and_harms_nobody() {
    let server = Server::start(Purpose::Health).await;
    let endless = format!("GET /healthz HTTP/1.1\r\nX: {}", "a".repeat(HEAD_SIZE * 2));
    let text = server.ask(&endless).await;
    assert!(text.is_empty() || text.starts_with("HTTP/1.1 431 "), "{text}");
    assert!(server.get("/healthz").await.starts_with("HTTP/1.1 200 "));
}

#[tokio::test]
async fn silent_clients_give_their_places_back() {
    let server = Server::start(Purpose::Health).await;
    let mut silent = Vec::new();
    // Of addresses of their own, each with its share.
    for number in 0..CONNECTIONS {
        let socket = TcpSocket::new_v4().unwrap();
        let last = u8::try_from(2 + number / SHARE.open as usize).unwrap();
        socket.bind(SocketAddr::from((Ipv4Addr::new(127, 0, 0, last), 0))).unwrap();
        silent.push(socket.connect(server.address).await.unwrap());
    }
    // Nothing is free until the first of them has had its time.
    let text = timeout(HEAD_LIMIT * 3, server.get("/healthz")).await.unwrap();
    assert!(text.starts_with("HTTP/1.1 200 "), "{text}");
}

#[tokio::test]
async fn one_address_keeps_no_other_waiting() {
    let server = Server::start(Purpose::Health).await;
    let mut silent = Vec::new();
    for _ in 0..CONNECTIONS * 2 {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(SocketAddr::from((Ipv4Addr::new(127, 0, 0, 2), 0))).unwrap();
        silent.push(socket.connect(server.address).await.unwrap());
    }
    let text = timeout(HEAD_LIMIT / 2, server.get("/healthz")).await.unwrap();
    assert!(text.starts_with("HTTP/1.1 200 "), "{text}");
}

#[tokio::test]
async fn a_port_that_is_taken_is_no_reason_to_end_and_stop_is() {
    let taken = TcpListener::bind(SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0))).await.unwrap();
    let port = taken.local_addr().unwrap().port();
    let (stop, readiness) = (CancellationToken::new(), Readiness::default());
    let state = HttpState { metrics: Metrics::default(), readiness, settings: nothing_said() };
    let server = tokio::spawn(serve(port, Purpose::Health, state, stop.clone()));
    tokio::task::yield_now().await;
    assert!(!server.is_finished());
    stop.cancel();
    timeout(Duration::from_secs(10), server).await.unwrap().unwrap();
}

#[tokio::test]
async fn nobody_is_answered_after_stop() {
    let server = Server::start(Purpose::Health).await;
    assert!(server.get("/healthz").await.starts_with("HTTP/1.1 200 "));
    server.stop.cancel();
    let refused = async {
        while TcpStream::connect(server.address).await.is_ok() {
            tokio::task::yield_now().await;
        }
    };
    timeout(Duration::from_secs(10), refused).await.unwrap();
}
