// SPDX-License-Identifier: Apache-2.0
//! The client: sends traffic and says who answered.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use cluster::{Answer, Traffic, Transport};
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpSocket, UdpSocket};

use crate::line;

/// Sends `traffic` and says who answered. Only what prevents sending at all is an error.
pub async fn send(traffic: &Traffic, deadline: Duration) -> io::Result<Answer> {
    let exchange = async {
        match traffic.transport {
            Transport::Tcp => tcp(traffic).await,
            Transport::Udp => udp(traffic).await,
        }
    };
    let reply = match tokio::time::timeout(deadline, exchange).await {
        Err(_elapsed) => return Ok(Answer::Silence),
        Ok(reply) => reply,
    };
    match reply {
        Ok(text) => Ok(serde_json::from_str(&text)?),
        Err(error) => classify(error),
    }
}

/// Maps an error to the answer of the far side, where it is one.
fn classify(error: io::Error) -> io::Result<Answer> {
    use io::ErrorKind as Kind;
    match error.kind() {
        Kind::ConnectionRefused
        | Kind::ConnectionReset
        | Kind::NetworkUnreachable
        | Kind::HostUnreachable => Ok(Answer::Refused),
        // EPERM on sending: a rule of the output hook dropped the packet.
        Kind::PermissionDenied | Kind::TimedOut | Kind::UnexpectedEof => Ok(Answer::Silence),
        _ => Err(error),
    }
}

async fn tcp(traffic: &Traffic) -> io::Result<String> {
    let socket = match traffic.destination {
        IpAddr::V4(_) => TcpSocket::new_v4(),
        IpAddr::V6(_) => TcpSocket::new_v6(),
    }?;
    if traffic.source_port != 0 {
        socket.set_reuseaddr(true)?;
        socket.bind(source(traffic))?;
    }
    let mut stream = socket.connect(SocketAddr::new(traffic.destination, traffic.port)).await?;
    stream.write_all(line::HELLO).await?;
    line::read(&mut stream).await
}

async fn udp(traffic: &Traffic) -> io::Result<String> {
    let socket = UdpSocket::bind(source(traffic)).await?;
    // From now on the kernel hands over only what comes from the very address that was asked.
    socket.connect(SocketAddr::new(traffic.destination, traffic.port)).await?;
    socket.send(line::HELLO).await?;
    let mut buffer = [0; 2048];
    let length = socket.recv(&mut buffer).await?;
    line::read(&buffer[..length]).await
}

fn source(traffic: &Traffic) -> SocketAddr {
    let any = match traffic.destination {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    SocketAddr::new(any, traffic.source_port)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_far_side_makes_an_answer() {
        let of = |kind: io::ErrorKind| classify(kind.into());
        assert_eq!(of(io::ErrorKind::ConnectionRefused).unwrap(), Answer::Refused);
        assert_eq!(of(io::ErrorKind::PermissionDenied).unwrap(), Answer::Silence);
        assert!(of(io::ErrorKind::AddrNotAvailable).is_err());
    }

    #[tokio::test]
    async fn nobody_listening_is_refused_in_both_transports() {
        for transport in [Transport::Tcp, Transport::Udp] {
            let traffic = Traffic {
                transport,
                destination: Ipv4Addr::LOCALHOST.into(),
                port: 1,
                uid: 0,
                gid: 0,
                source_port: 0,
            };
            assert_eq!(send(&traffic, Duration::from_secs(5)).await.unwrap(), Answer::Refused);
        }
    }
}
