// SPDX-License-Identifier: Apache-2.0
//! Just enough of an API server for a Helm that validates: its version, and kinds, none of which it has an object of.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread::JoinHandle;

use serde_json::{Value, json};

/// Serves until dropped.
pub(crate) struct Server {
    address: SocketAddr,
    url: String,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Serves this version, and the kinds of these objects.
    pub(crate) fn new(version: &str, objects: &[Value]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let answers = answers(version, objects);
        let thread = std::thread::spawn(move || {
            // Whoever goes away without a request was the last one.
            while listener.accept().is_ok_and(|(stream, _)| answer(&stream, &answers).unwrap_or(true)) {}
        });
        Self { address, url: format!("http://{address}"), thread: Some(thread) }
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = TcpStream::connect(self.address);
        self.thread.take().map(JoinHandle::join);
    }
}

/// Answers one request; false if there was none.
fn answer(stream: &TcpStream, answers: &BTreeMap<String, Value>) -> io::Result<bool> {
    let mut lines = BufReader::new(stream).lines();
    let Some(first) = lines.next() else { return Ok(false) };
    let first = first?;
    for line in lines {
        if line?.is_empty() {
            break;
        }
    }
    let path = first.split([' ', '?']).nth(1).unwrap_or_default();
    let missing = json!({ "kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404 });
    let (code, body) = answers.get(path).map_or(("404 Not Found", &missing), |body| ("200 OK", body));
    let body = body.to_string();
    let head =
        format!("HTTP/1.1 {code}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n", body.len());
    (&*stream).write_all(format!("{head}Connection: close\r\n\r\n{body}").as_bytes())?;
    Ok(true)
}

fn answers(version: &str, objects: &[Value]) -> BTreeMap<String, Value> {
    let mut resources: BTreeMap<&str, BTreeMap<&str, bool>> = BTreeMap::new();
    for object in objects {
        let of = resources.entry(object["apiVersion"].as_str().unwrap()).or_default();
        of.insert(object["kind"].as_str().unwrap(), object["metadata"]["namespace"].is_string());
    }
    let groups: BTreeSet<&str> = resources.keys().copied().filter(|version| version.contains('/')).collect();
    let group = |full: &&str| {
        let (name, version) = full.split_once('/').unwrap();
        let version = json!({ "groupVersion": full, "version": version });
        json!({ "name": name, "versions": [version], "preferredVersion": version })
    };
    let groups: Vec<_> = groups.iter().map(group).collect();
    let mut answers = BTreeMap::from([
        ("/version".to_owned(), json!({ "major": "1", "minor": "30", "gitVersion": version })),
        ("/api".to_owned(), json!({ "kind": "APIVersions", "versions": ["v1"] })),
        ("/apis".to_owned(), json!({ "kind": "APIGroupList", "apiVersion": "v1", "groups": groups })),
    ]);
    for (full, kinds) in resources {
        let root = if full.contains('/') { "apis" } else { "api" };
        let resource = |(kind, namespaced): (&str, bool)| {
            let plural = format!("{}s", kind.to_lowercase());
            json!({ "name": plural, "kind": kind, "namespaced": namespaced, "verbs": ["get", "create"] })
        };
        let all: Vec<_> = kinds.into_iter().map(resource).collect();
        let list = json!({ "kind": "APIResourceList", "groupVersion": full, "resources": all });
        answers.insert(format!("/{root}/{full}"), list);
    }
    answers
}
