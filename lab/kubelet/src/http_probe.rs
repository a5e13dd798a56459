// SPDX-License-Identifier: Apache-2.0
//! Readiness as a kubelet finds it out: an HTTP request from the node to the pod's address.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::path::Path;
use std::time::Duration;

use k8s_openapi::api::core::v1::Probe;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use crate::netns;

/// Default of a kubelet's `timeoutSeconds`, and the deadline of other questions.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(1);

/// Default of a kubelet's `periodSeconds`.
const PERIOD: Duration = Duration::from_secs(10);

/// Probe with `httpGet`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpProbe {
    pub path: String,
    pub port: u16,
    /// `initialDelaySeconds`: a kubelet's first probe comes at once otherwise.
    pub delay: Duration,
    /// `periodSeconds`.
    pub period: Duration,
    /// `timeoutSeconds`, in real time: a busy machine answers late.
    pub timeout: Duration,
}

/// Result of a probe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Seen {
    Ready,
    /// Failure, and why.
    NotReady(String),
}

impl HttpProbe {
    /// Probe of a container, if it is one of HTTP.
    #[must_use]
    pub fn of(probe: Option<&Probe>) -> Option<Self> {
        let get = probe?.http_get.as_ref()?;
        let IntOrString::Int(port) = get.port else { return None };
        let port = u16::try_from(port).ok()?;
        let seconds = |given: Option<i32>| {
            given.and_then(|seconds| u64::try_from(seconds).ok()).map(Duration::from_secs)
        };
        let delay = seconds(probe?.initial_delay_seconds).unwrap_or_default();
        let period = seconds(probe?.period_seconds).unwrap_or(PERIOD);
        let timeout = seconds(probe?.timeout_seconds).unwrap_or(TIMEOUT);
        Some(Self { path: get.path.clone().unwrap_or_else(|| "/".to_owned()), port, delay, period, timeout })
    }

    /// Probes once, from the node's namespace.
    pub async fn look(&self, node: &Path, address: IpAddr) -> Seen {
        let (probe, target) = (self.clone(), SocketAddr::new(address, self.port));
        match netns::inside(node, move || probe.ask(target)).await {
            Ok(seen) => seen,
            Err(error) => Seen::NotReady(error.to_string()),
        }
    }

    /// Result in the words of a real kubelet, which does not tell the body: `DoHTTPProbe` in `pkg/probe/http/request.go`, errors those of Go's
    /// `net/http`.
    fn ask(&self, target: SocketAddr) -> Seen {
        let get = |why: String| Seen::NotReady(format!("Get \"http://{target}{}\": {why}", self.path));
        match ask(target, &self.path, self.timeout) {
            Ok((Some(200..=399), _)) => Seen::Ready,
            Ok((Some(code), _)) => Seen::NotReady(format!("HTTP probe failed with statuscode: {code}")),
            Ok((None, answer)) if answer.is_empty() => get("EOF".to_owned()),
            Ok((None, answer)) => {
                let line = answer.lines().next().unwrap_or_default();
                get(format!(
                    "net/http: HTTP/1.x transport connection broken: malformed HTTP response {line:?}"
                ))
            }
            Err(error) => get(match error.kind() {
                ErrorKind::ConnectionRefused => format!("dial tcp {target}: connect: connection refused"),
                ErrorKind::HostUnreachable => format!("dial tcp {target}: connect: no route to host"),
                ErrorKind::WouldBlock | ErrorKind::TimedOut => {
                    "context deadline exceeded (Client.Timeout exceeded while awaiting headers)".to_owned()
                }
                _ => error.to_string(),
            }),
        }
    }
}

/// Asks once for `path`: the code, and the body, or all that came if it was no HTTP.
pub(crate) fn ask(
    target: SocketAddr,
    path: &str,
    timeout: Duration,
) -> std::io::Result<(Option<u16>, String)> {
    let mut stream = TcpStream::connect_timeout(&target, timeout)?;
    stream.set_read_timeout(Some(timeout))?;
    stream.set_write_timeout(Some(timeout))?;
    stream.write_all(
        format!("GET {path} HTTP/1.1\r\nHost: {target}\r\nConnection: close\r\n\r\n").as_bytes(),
    )?;
    let mut answer = Vec::new();
    stream.take(1 << 16).read_to_end(&mut answer)?;
    let answer = String::from_utf8_lossy(&answer);
    let code = answer.split(' ').nth(1).and_then(|code| code.parse().ok());
    Ok((code, answer.split("\r\n\r\n").nth(1).unwrap_or(&answer).to_owned()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn probe(more: &serde_json::Value) -> HttpProbe {
        let mut probe = json!({ "httpGet": { "port": 8000 } });
        probe.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        HttpProbe::of(Some(&serde_json::from_value(probe).unwrap())).unwrap()
    }

    #[test]
    fn a_probe_is_given_up_after_its_own_timeout() {
        let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let target = silent.local_addr().unwrap();
        assert_eq!(probe(&json!({})).timeout, TIMEOUT);
        let probe = probe(&json!({ "timeoutSeconds": 3 }));
        assert_eq!(probe.timeout, Duration::from_secs(3));
        let quick = HttpProbe { timeout: Duration::from_millis(1), ..probe };
        let late = "context deadline exceeded (Client.Timeout exceeded while awaiting headers)";
        assert_eq!(quick.ask(target), Seen::NotReady(format!("Get \"http://{target}/\": {late}")));
    }

    #[test]
    fn a_failure_is_told_in_a_kubelets_words_and_without_the_body() {
        let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let target = server.local_addr().unwrap();
        let answers = std::thread::spawn(move || {
            for answer in ["HTTP/1.1 503 Service Unavailable\r\n\r\nconflist: no", "HTTP/1.1 200 OK\r\n\r\n"]
            {
                let (mut stream, _) = server.accept().unwrap();
                let mut asked = [0; 1024];
                assert_ne!(stream.read(&mut asked).unwrap(), 0);
                stream.write_all(answer.as_bytes()).unwrap();
            }
        });
        let mut probe = probe(&json!({ "timeoutSeconds": 10 }));
        probe.path = "/readyz".to_owned();
        assert_eq!(probe.ask(target), Seen::NotReady("HTTP probe failed with statuscode: 503".to_owned()));
        assert_eq!(probe.ask(target), Seen::Ready);
        answers.join().unwrap();
        let refused =
            format!("Get \"http://{target}/readyz\": dial tcp {target}: connect: connection refused");
        assert_eq!(probe.ask(target), Seen::NotReady(refused));
    }
}
