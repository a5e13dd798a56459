// SPDX-License-Identifier: Apache-2.0
//! An embedded API server that real nodes join.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use apiserver::ApiServer;
use apiserver::network::Network;
use futures::future::BoxFuture;
use serde_json::{Value, json};
use tokio::net::TcpStream;

use crate::control::{Control, SERVICE};
use crate::error::Error;
use crate::kubelets::NodeKubelets;
use crate::node::Number;

/// Namespace of the nodes' heartbeats.
const LEASES: &str = "kube-node-lease";
/// Role and group of nodes.
const ROLE: &str = "system:node";
const NODES: &str = "system:nodes";

/// Serves the API server for so many nodes.
///
/// # Errors
/// Its port is taken, or it refuses an object.
pub(crate) fn join(api: &ApiServer, nodes: u8) -> Result<Control, Error> {
    let refused = |error: apiserver::ApiError| Error::Other("prepare the API for nodes", error.to_string());
    api.create_namespace(LEASES, &BTreeMap::new()).map_err(refused)?;
    for object in objects() {
        api.upsert(object).map_err(refused)?;
    }
    api.set_network(Arc::new(LabNetwork));
    let control = Control::join(api.clone())?;
    api.set_kubelets(Arc::new(NodeKubelets::new(&control, (1..=nodes).map(Number))?));
    Ok(control)
}

/// The network of the lab, from which all nodes and pods are reached.
struct LabNetwork;

impl Network for LabNetwork {
    fn connect(&self, to: SocketAddr) -> BoxFuture<'static, io::Result<TcpStream>> {
        Box::pin(TcpStream::connect(to))
    }
}

/// Objects that a real API server makes at its start, as far as nodes need them: what nodes may do (`NodeRules` in
/// `plugin/pkg/auth/authorizer/rbac/bootstrappolicy`, of what is served here), and the API's own service, from which a kubelet has the
/// variables of its containers. The real one restricts a node to its own pods' objects besides.
fn objects() -> [Value; 3] {
    let rbac = "rbac.authorization.k8s.io";
    let rule = |verbs: &str, group: &str, resources: &str| {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        json!({ "verbs": words(verbs), "apiGroups": [group], "resources": words(resources) })
    };
    let rules = [
        rule("create", "authorization.k8s.io", "subjectaccessreviews"),
        rule("get list watch", "", "services secrets configmaps"),
        rule("create get list watch update patch", "", "nodes"),
        rule("update patch", "", "nodes/status pods/status"),
        rule("create update patch", "", "events"),
        rule("create delete get list watch", "", "pods"),
        rule("create", "", "pods/eviction serviceaccounts/token"),
        rule("get create update patch delete", "coordination.k8s.io", "leases"),
        rule("get list watch", "storage.k8s.io", "csidrivers"),
        rule("create get update patch delete", "storage.k8s.io", "csinodes"),
        rule("get list watch", "node.k8s.io", "runtimeclasses"),
    ];
    let role = json!({ "apiGroup": rbac, "kind": "ClusterRole", "name": ROLE });
    let group = json!({ "apiGroup": rbac, "kind": "Group", "name": NODES });
    let ports = json!([{ "name": "https", "port": 443, "protocol": "TCP", "targetPort": 6443 }]);
    [
        json!({
            "apiVersion": format!("{rbac}/v1"), "kind": "ClusterRole", "metadata": { "name": ROLE },
            "rules": rules,
        }),
        json!({
            "apiVersion": format!("{rbac}/v1"), "kind": "ClusterRoleBinding", "metadata": { "name": ROLE },
            "roleRef": role, "subjects": [group],
        }),
        json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": { "name": "kubernetes", "namespace": "default" },
            "spec": { "type": "ClusterIP", "clusterIP": SERVICE, "ports": ports },
        }),
    ]
}
