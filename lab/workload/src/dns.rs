// SPDX-License-Identifier: Apache-2.0
//! Stands in for the DNS side of the sidecar's agent: takes the pod's questions and asks the pod's resolver itself, from
//! sockets of its own. Questions are lines of the lab's protocol: rules look at ports only.

use std::fs;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use cluster::{Answer, ProxyHop};
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream, UdpSocket};

use crate::line;
use crate::listen::{self, On};
use crate::proxy::{Mode, PATIENCE, original_destination, through};

/// Port for captured DNS of the pod.
pub const PORT: u16 = 15053;
/// Port of resolvers.
const RESOLVER_PORT: u16 = 53;
/// Resolver configuration of a pod.
const RESOLV_CONF: &str = "/etc/resolv.conf";

/// Listens for questions over UDP and TCP. Must be called inside a runtime.
pub fn serve(mode: Mode) -> io::Result<()> {
    let resolvers: Arc<[IpAddr]> = match mode {
        Mode::Forward => resolvers(&fs::read_to_string(RESOLV_CONF).unwrap_or_default()).into(),
        Mode::Sink => Arc::new([]),
    };
    for listener in listen::tcp(On::Loopback, PORT)? {
        tokio::spawn(accept(listener, Arc::clone(&resolvers)));
    }
    for socket in listen::udp(On::Loopback, PORT)? {
        tokio::spawn(datagrams(Arc::new(socket), Arc::clone(&resolvers)));
    }
    Ok(())
}

/// Resolvers of a `resolv.conf`, in order.
fn resolvers(text: &str) -> Vec<IpAddr> {
    let servers = text.lines().filter_map(|line| line.strip_prefix("nameserver "));
    servers.filter_map(|server| server.trim().parse().ok()).collect()
}

/// The first resolver of the question's own family; none if the pod has none.
fn resolver_for(resolvers: &[IpAddr], question: SocketAddr) -> Option<SocketAddr> {
    let fits = resolvers.iter().find(|resolver| resolver.is_ipv4() == question.is_ipv4());
    fits.map(|resolver| SocketAddr::new(*resolver, RESOLVER_PORT))
}

async fn accept(listener: TcpListener, resolvers: Arc<[IpAddr]>) {
    loop {
        if let Ok((stream, peer)) = listener.accept().await {
            tokio::spawn(connection(stream, peer, Arc::clone(&resolvers)));
        }
    }
}

async fn connection(mut stream: TcpStream, peer: SocketAddr, resolvers: Arc<[IpAddr]>) -> io::Result<()> {
    let original = original_destination(&stream, PORT)?;
    let hop = ProxyHop { port: PORT, original: original.to_string(), peer: peer.to_string() };
    let question = line::read(&mut stream).await? + "\n";
    let exchange = async {
        let mut upstream = TcpStream::connect(resolver_for(&resolvers, original)?).await.ok()?;
        upstream.write_all(question.as_bytes()).await.ok()?;
        line::read(&mut upstream).await.ok()
    };
    let answer = tokio::time::timeout(PATIENCE, exchange).await.ok().flatten();
    line::write(&mut stream, &through(hop, answer.and_then(|text| serde_json::from_str(&text).ok()))).await
}

async fn datagrams(socket: Arc<UdpSocket>, resolvers: Arc<[IpAddr]>) -> io::Result<()> {
    let local = socket.local_addr()?;
    let mut buffer = [0; 2048];
    loop {
        if let Ok((length, peer)) = socket.recv_from(&mut buffer).await {
            let resolver = resolver_for(&resolvers, local);
            tokio::spawn(datagram(Arc::clone(&socket), peer, buffer[..length].to_vec(), resolver));
        }
    }
}

async fn datagram(
    socket: Arc<UdpSocket>,
    peer: SocketAddr,
    question: Vec<u8>,
    resolver: Option<SocketAddr>,
) -> io::Result<()> {
    // The kernel does not tell the original destination of a datagram that REDIRECT changed.
    let original = socket.local_addr()?.to_string();
    let hop = ProxyHop { port: PORT, original, peer: peer.to_string() };
    let answer = match resolver {
        Some(resolver) => tokio::time::timeout(PATIENCE, ask(resolver, &question)).await.ok(),
        None => None,
    };
    socket.send_to(&line::encode(&through(hop, answer.and_then(Result::ok)))?, peer).await?;
    Ok(())
}

async fn ask(resolver: SocketAddr, question: &[u8]) -> io::Result<Answer> {
    let any: SocketAddr = if resolver.is_ipv4() { ([0, 0, 0, 0], 0).into() } else { ([0_u16; 8], 0).into() };
    let socket = UdpSocket::bind(any).await?;
    socket.connect(resolver).await?;
    socket.send(question).await?;
    let mut buffer = [0; 2048];
    let length = socket.recv(&mut buffer).await?;
    Ok(serde_json::from_slice(&buffer[..length])?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_goes_to_the_first_resolver_of_its_family() {
        let all = resolvers("search a.b\nnameserver 10.0.0.9\nnameserver fd00::9\nnameserver 10.0.0.8\n");
        let at = |text: &str| resolver_for(&all, text.parse().unwrap()).map(|found| found.to_string());
        assert_eq!(at("127.0.0.1:15053").as_deref(), Some("10.0.0.9:53"));
        assert_eq!(at("[::1]:15053").as_deref(), Some("[fd00::9]:53"));
        assert_eq!(resolver_for(&[], "127.0.0.1:1".parse().unwrap()), None);
    }
}
