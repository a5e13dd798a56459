// SPDX-License-Identifier: Apache-2.0
//! Readiness as a kubelet finds it out: an HTTP request from the node to the pod's address.

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::path::Path;
use std::time::Duration;

use k8s_openapi::api::core::v1::Probe;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use crate::netns;

/// Default of a kubelet's `timeoutSeconds`.
const PATIENCE: Duration = Duration::from_secs(1);

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
        Some(Self { path: get.path.clone().unwrap_or_else(|| "/".to_owned()), port, delay, period })
    }

    /// Probes once, from the node's namespace.
    pub async fn look(&self, node: &Path, address: IpAddr) -> Seen {
        let (probe, target) = (self.clone(), SocketAddr::new(address, self.port));
        match netns::inside(node, move || probe.ask(target)).await {
            Ok(Ok(seen)) => seen,
            Ok(Err(error)) => Seen::NotReady(error.to_string()),
            Err(error) => Seen::NotReady(error.to_string()),
        }
    }

    fn ask(&self, target: SocketAddr) -> std::io::Result<Seen> {
        Ok(match ask(target, &self.path)? {
            (Some(200..=399), _) => Seen::Ready,
            (_, body) => Seen::NotReady(body.trim().to_owned()),
        })
    }
}

/// Asks once for `path`: the code, and the body, or all that came if it was no HTTP.
pub(crate) fn ask(target: SocketAddr, path: &str) -> std::io::Result<(Option<u16>, String)> {
    let mut stream = TcpStream::connect_timeout(&target, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.write_all(
        format!("GET {path} HTTP/1.1\r\nHost: {target}\r\nConnection: close\r\n\r\n").as_bytes(),
    )?;
    let mut answer = Vec::new();
    stream.take(1 << 16).read_to_end(&mut answer)?;
    let answer = String::from_utf8_lossy(&answer);
    let code = answer.split(' ').nth(1).and_then(|code| code.parse().ok());
    Ok((code, answer.split("\r\n\r\n").nth(1).unwrap_or(&answer).to_owned()))
}
