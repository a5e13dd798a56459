// SPDX-License-Identifier: Apache-2.0
//! Readiness as a kubelet finds it out: an HTTP request or a connection from the node to the pod's address.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::path::Path;
use std::time::Duration;

use cluster::Fetched;
use k8s_openapi::api::core::v1::{ContainerPort, Probe};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use crate::errand;
use crate::netns;

/// Default of a kubelet's `timeoutSeconds`, and the deadline of other questions.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(1);

/// Default of a kubelet's `periodSeconds`.
const PERIOD: Duration = Duration::from_secs(10);

/// Kind of a probe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Question {
    /// `httpGet`
    Http { path: String },
    /// `tcpSocket`
    Tcp,
    /// `exec`: the command, whose first word names the container's own program unless it is a path.
    Exec { command: Vec<String> },
}

/// Probe with `httpGet`, `tcpSocket` or `exec`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedProbe {
    pub question: Question,
    /// Port, or why there is none: such a probe fails each time.
    pub port: Result<u16, String>,
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

impl PlannedProbe {
    /// Probe of a container with these ports, if it is of a kind that is played.
    #[must_use]
    pub fn of(probe: Option<&Probe>, ports: &[ContainerPort]) -> Option<Self> {
        let probe = probe?;
        let (question, port) = match (&probe.http_get, &probe.tcp_socket, &probe.exec) {
            (Some(get), _, _) => {
                let path = get.path.clone().unwrap_or_else(|| "/".to_owned());
                (Question::Http { path }, resolve(&get.port, ports))
            }
            (None, Some(socket), _) => (Question::Tcp, resolve(&socket.port, ports)),
            (None, None, Some(exec)) => {
                let command = exec.command.clone().unwrap_or_default();
                (Question::Exec { command }, Err("a program has no port".to_owned()))
            }
            (None, None, None) => return None,
        };
        let seconds = |given: Option<i32>| {
            given.and_then(|seconds| u64::try_from(seconds).ok()).map(Duration::from_secs)
        };
        let delay = seconds(probe.initial_delay_seconds).unwrap_or_default();
        let period = seconds(probe.period_seconds).unwrap_or(PERIOD);
        let timeout = seconds(probe.timeout_seconds).unwrap_or(TIMEOUT);
        Some(Self { question, port, delay, period, timeout })
    }

    /// Probes once: from the node's namespace, or in the container whose process this is.
    pub async fn look(&self, node: &Path, address: IpAddr, process: Option<u32>) -> Seen {
        if let Question::Exec { command } = &self.question {
            return self.run(command, process).await;
        }
        let port = match &self.port {
            Ok(port) => *port,
            Err(why) => return Seen::NotReady(why.clone()),
        };
        let (probe, target) = (self.clone(), SocketAddr::new(address, port));
        match netns::inside(node, move || probe.ask(target)).await {
            Ok(seen) => seen,
            Err(error) => Seen::NotReady(error.to_string()),
        }
    }

    /// `DoExecProbe` in `pkg/probe/exec/exec.go`: what the program prints is the reason.
    async fn run(&self, command: &[String], process: Option<u32>) -> Seen {
        let Some(process) = process else { return Seen::NotReady("container not running".to_owned()) };
        let is_path = command.first().is_some_and(|word| word.starts_with('/'));
        let words = command.iter().skip(usize::from(!is_path)).map(String::as_str).collect::<Vec<_>>();
        match errand::beside(process, &words, self.timeout).await {
            Ok(answer) if answer.exit == Some(0) => Seen::Ready,
            Ok(answer) => Seen::NotReady(format!("{}{}", answer.stdout, answer.stderr).trim_end().to_owned()),
            Err(error) => Seen::NotReady(error.to_string()),
        }
    }

    fn ask(&self, target: SocketAddr) -> Seen {
        if let Question::Http { path } = &self.question {
            return self.get(target, path);
        }
        match TcpStream::connect_timeout(&target, self.timeout) {
            Ok(_) => Seen::Ready,
            // `DoTCPProbe` in `pkg/probe/tcp/tcp.go`.
            Err(error) => Seen::NotReady(dialled(target, &error).unwrap_or_else(|| match error.kind() {
                ErrorKind::WouldBlock | ErrorKind::TimedOut => format!("dial tcp {target}: i/o timeout"),
                _ => error.to_string(),
            })),
        }
    }

    /// Result in the words of a real kubelet, which does not tell the body: `DoHTTPProbe` in `pkg/probe/http/request.go`, errors those of Go's
    /// `net/http`.
    fn get(&self, target: SocketAddr, path: &str) -> Seen {
        let get = |why: String| Seen::NotReady(format!("Get \"http://{target}{path}\": {why}"));
        match ask(target, path, self.timeout) {
            Ok(Fetched { code: Some(200..=399), .. }) => Seen::Ready,
            Ok(Fetched { code: Some(code), .. }) => {
                Seen::NotReady(format!("HTTP probe failed with statuscode: {code}"))
            }
            Ok(Fetched { body, .. }) if body.is_empty() => get("EOF".to_owned()),
            Ok(Fetched { body, .. }) => {
                let line = body.lines().next().unwrap_or_default();
                get(format!(
                    "net/http: HTTP/1.x transport connection broken: malformed HTTP response {line:?}"
                ))
            }
            Err(error) => get(dialled(target, &error).unwrap_or_else(|| match error.kind() {
                ErrorKind::WouldBlock | ErrorKind::TimedOut => {
                    "context deadline exceeded (Client.Timeout exceeded while awaiting headers)".to_owned()
                }
                _ => error.to_string(),
            })),
        }
    }
}

/// A connection that was not made, in the words of Go's `net`.
fn dialled(target: SocketAddr, error: &std::io::Error) -> Option<String> {
    let why = match error.kind() {
        ErrorKind::ConnectionRefused => "connection refused",
        ErrorKind::HostUnreachable => "no route to host",
        _ => return None,
    };
    Some(format!("dial tcp {target}: connect: {why}"))
}

/// Port by its number or its name among those of the container (`ResolveContainerPort` in `pkg/probe/util.go`).
fn resolve(port: &IntOrString, ports: &[ContainerPort]) -> Result<u16, String> {
    let number = match port {
        IntOrString::Int(number) => *number,
        IntOrString::String(name) => match ports.iter().find(|one| one.name.as_ref() == Some(name)) {
            Some(found) => found.container_port,
            None => name.parse().map_err(|_| format!("strconv.Atoi: parsing {name:?}: invalid syntax"))?,
        },
    };
    let invalid = || format!("invalid port number: {number}");
    u16::try_from(number).ok().filter(|port| *port != 0).ok_or_else(invalid)
}

/// A part of a probe that is not played: it would count as none otherwise.
#[must_use]
pub fn unplayed(probe: &Probe) -> Option<&'static str> {
    if let Some(get) = &probe.http_get {
        let is_plain = get.scheme.as_deref().is_none_or(|scheme| scheme == "HTTP");
        let has_headers = get.http_headers.as_ref().is_some_and(|headers| !headers.is_empty());
        return match (is_plain, &get.host, has_headers) {
            (false, _, _) => Some("httpGet over HTTPS"),
            (_, Some(_), _) => Some("httpGet of another host"),
            (_, _, true) => Some("httpGet with headers"),
            (true, None, false) => None,
        };
    }
    match (&probe.tcp_socket, &probe.exec, &probe.grpc) {
        (Some(socket), _, _) => socket.host.as_ref().map(|_| "tcpSocket of another host"),
        (_, Some(_), _) => None,
        (_, _, Some(_)) => Some("grpc"),
        (None, None, None) => None,
    }
}

/// Asks once for `path`.
pub(crate) fn ask(target: SocketAddr, path: &str, timeout: Duration) -> std::io::Result<Fetched> {
    let mut stream = TcpStream::connect_timeout(&target, timeout)?;
    stream.set_read_timeout(Some(timeout))?;
    stream.set_write_timeout(Some(timeout))?;
    stream.write_all(
        format!("GET {path} HTTP/1.1\r\nHost: {target}\r\nConnection: close\r\n\r\n").as_bytes(),
    )?;
    let mut answer = Vec::new();
    stream.take(1 << 16).read_to_end(&mut answer)?;
    Ok(parsed(&String::from_utf8_lossy(&answer)))
}

fn parsed(answer: &str) -> Fetched {
    let Some((head, body)) = answer.split_once("\r\n\r\n") else {
        return Fetched { body: answer.to_owned(), ..Fetched::default() };
    };
    let mut lines = head.lines();
    let code = lines.next().and_then(|status| status.split(' ').nth(1)?.parse().ok());
    let header = |line: &str| {
        let (name, value) = line.split_once(':')?;
        Some((name.to_ascii_lowercase(), value.trim().to_owned()))
    };
    Fetched { code, headers: lines.filter_map(header).collect(), body: body.to_owned() }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn probe(more: &serde_json::Value) -> PlannedProbe {
        let mut probe = json!({ "httpGet": { "port": 8000 } });
        probe.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        PlannedProbe::of(Some(&serde_json::from_value(probe).unwrap()), &[]).unwrap()
    }

    #[test]
    fn an_answer_has_its_code_its_headers_and_its_body() {
        let found = parsed("HTTP/1.1 200 OK\r\nContent-Type:  text/plain; version=0.0.4\r\n\r\na\r\n\r\nb");
        assert_eq!((found.code, found.body.as_str()), (Some(200), "a\r\n\r\nb"));
        assert_eq!(
            found.headers,
            [("content-type".to_owned(), "text/plain; version=0.0.4".to_owned())].into()
        );
        for other in ["", "SSH-2.0-x"] {
            assert_eq!(parsed(other), Fetched { body: other.to_owned(), ..Fetched::default() });
        }
    }

    #[test]
    fn a_port_is_found_by_its_name() {
        let ports: Vec<ContainerPort> =
            serde_json::from_value(json!([{ "name": "health", "containerPort": 8081 }])).unwrap();
        let found = |port: IntOrString| resolve(&port, &ports);
        let named = |name: &str| found(IntOrString::String(name.to_owned()));
        assert_eq!((named("health"), named("80"), found(IntOrString::Int(9))), (Ok(8081), Ok(80), Ok(9)));
        assert!(named("healthz").unwrap_err().contains("\"healthz\""));
        assert_eq!(found(IntOrString::Int(0)), Err("invalid port number: 0".to_owned()));
    }

    #[test]
    fn kinds_that_are_not_played_are_named() {
        let of = |probe| unplayed(&serde_json::from_value(probe).unwrap());
        let get = |more: serde_json::Value| {
            let mut get = json!({ "port": 80 });
            get.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            of(json!({ "httpGet": get }))
        };
        assert_eq!((get(json!({})), get(json!({ "scheme": "HTTP" }))), (None, None));
        assert_eq!(get(json!({ "scheme": "HTTPS" })), Some("httpGet over HTTPS"));
        assert_eq!(get(json!({ "host": "h" })), Some("httpGet of another host"));
        let headers = json!({ "httpHeaders": [{ "name": "n", "value": "v" }] });
        assert_eq!(get(headers), Some("httpGet with headers"));
        assert_eq!(of(json!({ "tcpSocket": { "port": 80 } })), None);
        assert_eq!(of(json!({ "exec": { "command": ["true"] } })), None);
        assert_eq!(of(json!({ "grpc": { "port": 80 } })), Some("grpc"));
    }

    #[test]
    fn a_socket_is_ready_as_soon_as_it_listens() {
        let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let target = server.local_addr().unwrap();
        let probe = PlannedProbe { question: Question::Tcp, ..probe(&json!({})) };
        assert_eq!(probe.ask(target), Seen::Ready);
        drop(server);
        let refused = format!("dial tcp {target}: connect: connection refused");
        assert_eq!(probe.ask(target), Seen::NotReady(refused));
    }

    #[test]
    fn a_probe_is_given_up_after_its_own_timeout() {
        let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let target = silent.local_addr().unwrap();
        assert_eq!(probe(&json!({})).timeout, TIMEOUT);
        let probe = probe(&json!({ "timeoutSeconds": 3 }));
        assert_eq!(probe.timeout, Duration::from_secs(3));
        let quick = PlannedProbe { timeout: Duration::from_millis(1), ..probe };
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
        probe.question = Question::Http { path: "/readyz".to_owned() };
        assert_eq!(probe.ask(target), Seen::NotReady("HTTP probe failed with statuscode: 503".to_owned()));
        assert_eq!(probe.ask(target), Seen::Ready);
        answers.join().unwrap();
        let refused =
            format!("Get \"http://{target}/readyz\": dial tcp {target}: connect: connection refused");
        assert_eq!(probe.ask(target), Seen::NotReady(refused));
    }
}
