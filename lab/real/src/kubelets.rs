// SPDX-License-Identifier: Apache-2.0
//! Real kubelets behind an embedded API server, which asks them for logs and for programs in containers over their own port, with an API
//! server's certificate. Streams are those of `v4.channel.k8s.io`: a program learns of the end of its input by the end of the connection.

use std::collections::BTreeMap;
use std::net::IpAddr;

use apiserver::kubelets::{ContainerRef, Exec, ExecRequest, KubeletError, Kubelets, LogRequest};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::{BoxStream, StreamExt as _};
use futures::{AsyncBufReadExt as _, FutureExt as _};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Status;
use kube::api::{AttachParams, LogParams};
use kube::core::kubelet_debug::KubeletDebugParams;
use kube::{Client, Config};

use crate::control::{ASKS_KUBELETS, Control};
use crate::error::Error;
use crate::node::Number;

/// Port of a kubelet (`KubeletPort` in `pkg/cluster/ports`).
const PORT: u16 = 10250;

/// Clients of the kubelets, by their nodes' names.
pub(crate) struct NodeKubelets(BTreeMap<String, Client>);

impl NodeKubelets {
    /// Of the nodes of a control plane.
    ///
    /// # Errors
    /// No key can be made.
    pub(crate) fn new(control: &Control, nodes: impl Iterator<Item = Number>) -> Result<Self, Error> {
        let clients = nodes.map(|node| Ok((node.name(), client(control, node)?)));
        Ok(Self(clients.collect::<Result<_, Error>>()?))
    }

    fn of(&self, node: &str) -> Result<Client, KubeletError> {
        let unknown = || KubeletError(format!("dial tcp: lookup {node}: no such host"));
        self.0.get(node).cloned().ok_or_else(unknown)
    }
}

fn client(control: &Control, node: Number) -> Result<Client, Error> {
    let authority = &control.authority;
    let wrong = |why: String| Error::Other("reach a kubelet", why);
    let address = node.addresses().first().map(IpAddr::to_string).unwrap_or_default();
    let server = format!("https://{address}:{PORT}").parse::<http::Uri>();
    let mut config = Config::new(server.map_err(|error| wrong(error.to_string()))?);
    let identity = authority.client(ASKS_KUBELETS)?;
    config.root_cert = Some(vec![authority.der()]);
    config.auth_info.client_certificate_data = Some(STANDARD.encode(identity.certificate));
    config.auth_info.client_key_data = Some(STANDARD.encode(identity.key).into());
    // A log may have nothing to say for long.
    config.read_timeout = None;
    Client::try_from(config).map_err(|error| wrong(error.to_string()))
}

fn refused(error: &kube::Error) -> KubeletError {
    KubeletError(error.to_string())
}

fn pod(of: &ContainerRef) -> KubeletDebugParams<'_> {
    KubeletDebugParams { name: &of.pod, namespace: &of.namespace, pod_uid: None }
}

fn signed(size: usize) -> i64 {
    i64::try_from(size).unwrap_or(i64::MAX)
}

impl Kubelets for NodeKubelets {
    fn logs(
        &self,
        wanted: LogRequest,
    ) -> BoxFuture<'static, Result<BoxStream<'static, Bytes>, KubeletError>> {
        let client = self.of(&wanted.of.node);
        let params = LogParams {
            follow: wanted.follow,
            previous: wanted.previous,
            timestamps: wanted.timestamps,
            since_time: wanted.since,
            tail_lines: wanted.tail.map(signed),
            limit_bytes: wanted.limit.map(signed),
            ..LogParams::default()
        };
        Box::pin(async move {
            let of = wanted.of;
            let read = client?.kubelet_node_logs(&pod(&of), &of.container, &params).await;
            let read = read.map_err(|error| refused(&error))?;
            // A connection that breaks ends the log.
            let lines = read.lines().filter_map(|line| async { Some(Bytes::from(line.ok()? + "\n")) });
            Ok(lines.boxed())
        })
    }

    fn exec(&self, wanted: ExecRequest) -> BoxFuture<'static, Result<Exec, KubeletError>> {
        let client = self.of(&wanted.of.node);
        Box::pin(async move {
            let ExecRequest { of, command, streams } = wanted;
            let params = AttachParams {
                stdin: streams.stdin,
                stdout: streams.stdout,
                stderr: streams.stderr,
                tty: streams.tty,
                ..AttachParams::default()
            };
            let started = client?.kubelet_node_exec(&pod(&of), &of.container, command, &params).await;
            let mut process = started.map_err(|error| refused(&error))?;
            let (stdin, stdout, stderr) = (process.stdin(), process.stdout(), process.stderr());
            let status = process.take_status();
            let exit = async move {
                let status = match status {
                    Some(status) => status.await,
                    None => None,
                };
                let _ended = process.join().await;
                code(status.as_ref())
            };
            Ok(Exec {
                stdin: stdin.map(|stream| Box::new(stream) as _),
                stdout: stdout.map(|stream| Box::new(stream) as _),
                stderr: stderr.map(|stream| Box::new(stream) as _),
                exit: exit.boxed(),
            })
        })
    }
}

/// Exit code of a program, from the status that its kubelet sent last; without one the connection broke.
fn code(status: Option<&Status>) -> i32 {
    let Some(status) = status else { return 1 };
    if status.status.as_deref() == Some("Success") {
        return 0;
    }
    let causes = status.details.iter().flat_map(|details| details.causes.iter().flatten());
    let mut codes = causes.filter(|cause| cause.reason.as_deref() == Some("ExitCode"));
    codes.find_map(|cause| cause.message.as_ref()?.parse().ok()).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_exit_code_is_in_the_status_that_comes_last() {
        let code = |status: serde_json::Value| code(Some(&serde_json::from_value(status).unwrap()));
        assert_eq!(code(json!({ "status": "Success" })), 0);
        let causes = json!([{ "reason": "ExitCode", "message": "3" }]);
        assert_eq!(code(json!({ "status": "Failure", "details": { "causes": causes } })), 3);
        assert_eq!(code(json!({ "status": "Failure", "message": "container not found" })), 1);
        assert_eq!(super::code(None), 1);
    }
}
