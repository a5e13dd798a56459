// SPDX-License-Identifier: Apache-2.0
//! Servers for a plugin under test: an agent on its Unix socket and an API server on loopback, both in threads of the bench, both with one
//! constant answer, so that the plugin alone is measured.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use anyhow::{Context, Result};
use protocol::agent::{Reply, Response, SOCKET, VERSION};
use protocol::pod::PodFacts;

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

/// An API server that answers every GET with one pod. Returns its URL.
pub fn api(pod: &str) -> Result<(String, Asked)> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).context("bind on loopback")?;
    let url = format!("http://{}", listener.local_addr()?);
    let answer = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{pod}",
        pod.len()
    );
    let asked = Asked::default();
    let seen = asked.clone();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut request = BufReader::new(&stream);
            let mut line = String::new();
            while request.read_line(&mut line).is_ok_and(|length| length > 2) {
                line.clear();
            }
            seen.once_more();
            stream.write_all(answer.as_bytes()).ok();
            stream.shutdown(std::net::Shutdown::Write).ok();
            let _closed_by_the_client = stream.read(&mut [0; 64]).is_ok_and(|length| length == 0);
        }
    });
    Ok((url, asked))
}
