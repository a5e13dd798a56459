// SPDX-License-Identifier: Apache-2.0
//! Servers for a plugin under test: an agent on its Unix socket and an API server on loopback, both in threads of the bench, both with one
//! constant answer, so that the plugin alone is measured.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use anyhow::{Context, Result};
use protocol::agent::{Reply, Response, SOCKET, VERSION};
use protocol::pod::PodFacts;
use rustls::{ServerConnection, StreamOwned};

use crate::tls::{self, Authority};

/// Number of requests.
#[derive(Debug, Clone, Default)]
pub struct Asked(Arc<AtomicU64>);

impl Asked {
    /// Number so far.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    fn once_more(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// An agent that knows one pod, on `run_dir`'s socket.
pub fn agent(run_dir: &Path, pod: &PodFacts) -> Result<Asked> {
    let listener = UnixListener::bind(run_dir.join(SOCKET)).context("bind the agent's socket")?;
    let reply = Reply { version: VERSION, response: Response::Found { pod: Box::new(pod.clone()) } };
    let line = format!("{}\n", serde_json::to_string(&reply)?);
    let asked = Asked::default();
    let seen = asked.clone();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut request = String::new();
            if BufReader::new(&stream).read_line(&mut request).is_ok() && request.contains("\"pod\"") {
                seen.once_more();
                stream.write_all(line.as_bytes()).ok();
            }
        }
    });
    Ok(asked)
}

/// An API server that answers every GET with one pod, over TLS.
#[derive(Debug)]
pub struct ApiServer {
    pub url: String,
    pub address: SocketAddr,
    pub authority: Authority,
    pub asked: Asked,
}

/// Starts an API server. It shakes hands as kube-apiserver does (TLS 1.3, X25519, one certificate below the cluster's authority),
/// but for the key: its own is on P-256, kubeadm's and OpenShift's are RSA-2048, which cost a server more to sign with. All contenders
/// are compared without that.
pub fn api(pod: &str) -> Result<ApiServer> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).context("bind on loopback")?;
    let address = listener.local_addr()?;
    let (authority, config) = tls::server()?;
    let answer = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{pod}",
        pod.len()
    );
    let asked = Asked::default();
    let seen = asked.clone();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            stream.set_nodelay(true).ok();
            if let Ok(session) = ServerConnection::new(config.clone()) {
                serve(StreamOwned::new(session, stream), &answer, &seen).ok();
            }
        }
    });
    Ok(ApiServer { url: format!("https://{address}"), address, authority, asked })
}

fn serve(
    mut stream: StreamOwned<ServerConnection, TcpStream>,
    answer: &str,
    asked: &Asked,
) -> std::io::Result<()> {
    let mut request = BufReader::new(&mut stream);
    let mut line = String::new();
    while request.read_line(&mut line)? > 2 {
        line.clear();
    }
    asked.once_more();
    stream.write_all(answer.as_bytes())?;
    stream.conn.send_close_notify();
    stream.flush()?;
    stream.sock.shutdown(Shutdown::Write)?;
    let _closed_by_the_client = stream.sock.read(&mut [0; 64])?;
    Ok(())
}
