// SPDX-License-Identifier: Apache-2.0
//! The application in a pod: answers every line and every datagram with the address that it saw.

use std::future::pending;
use std::io;
use std::net::SocketAddr;

use cluster::{Answer, Transport};
use tokio::net::{TcpListener, TcpStream, UdpSocket};

use crate::line;
use crate::listen::{self, Endpoint, On};

/// Listens on `endpoints` in both families, says so on standard output, and answers until it is killed.
pub async fn run(endpoints: &[Endpoint]) -> io::Result<()> {
    endpoints.iter().try_for_each(|endpoint| serve_on(*endpoint))?;
    let names: Vec<String> = endpoints.iter().map(ToString::to_string).collect();
    line::announce(&format!("ready {}", names.join(" ")))?;
    pending().await
}

/// Answers on an endpoint, in both families. Must be called inside a runtime.
pub(crate) fn serve_on(endpoint: Endpoint) -> io::Result<()> {
    match endpoint.transport {
        Transport::Tcp => {
            for listener in listen::tcp(On::Any, endpoint.port)? {
                tokio::spawn(accept(listener, endpoint.port));
            }
        }
        Transport::Udp => {
            for socket in listen::udp(On::Any, endpoint.port)? {
                tokio::spawn(datagrams(socket, endpoint.port));
            }
        }
    }
    Ok(())
}

fn answer(port: u16, peer: SocketAddr) -> Answer {
    Answer::App { port, peer: peer.to_string(), via: Vec::new() }
}

async fn accept(listener: TcpListener, port: u16) {
    // An error here concerns one connection that is already gone (ECONNABORTED): the next one is unaffected.
    loop {
        if let Ok((stream, peer)) = listener.accept().await {
            tokio::spawn(serve(stream, answer(port, peer)));
        }
    }
}

async fn serve(mut stream: TcpStream, answer: Answer) -> io::Result<()> {
    loop {
        let asked = line::read(&mut stream).await?;
        line::write(&mut stream, &answer).await?;
        // Only a client that says so asks again: the others' connections are closed from here, which leaves their ports free.
        if line::AGAIN.strip_suffix(b"\n") != Some(asked.as_bytes()) {
            return Ok(());
        }
    }
}

async fn datagrams(socket: UdpSocket, port: u16) -> io::Result<()> {
    let mut buffer = [0; 2048];
    loop {
        // ECONNREFUSED arrives here when an earlier client is gone.
        if let Ok((_, peer)) = socket.recv_from(&mut buffer).await {
            let reply = line::encode(&answer(port, peer))?;
            let _gone = socket.send_to(&reply, peer).await;
        }
    }
}
