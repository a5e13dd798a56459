// SPDX-License-Identifier: Apache-2.0
//! Nodes that a scenario is not about: while it is played, no pods but those of DaemonSets come to them. A label says whose cordon it is, so that
//! `cnilab clean` lifts that of a run that was killed, and no other.

use cluster::Leftovers;
use k8s_openapi::api::core::v1::Node;
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, Client};
use serde_json::{Value, json};

use crate::error::Error;
use crate::objects::has_kubelet;

/// Keeps new pods from a node, in the name of a run.
pub(crate) async fn lay(client: &Client, node: &str, (label, run): (&str, &str)) -> Result<(), Error> {
    patch(
        client,
        node,
        json!({ "metadata": { "labels": { label: run } }, "spec": { "unschedulable": true } }),
    )
    .await
}

/// Lifts the cordon of every node with the label and a kubelet, and returns the nodes' names. A node that a scenario made has the label, too.
pub(crate) async fn lift(client: &Client, label: &str, left: &mut Leftovers) -> Vec<String> {
    let found = Api::<Node>::all(client.clone()).list(&ListParams::default().labels(label)).await;
    let key = label.split('=').next().unwrap_or_default();
    let free = json!({ "metadata": { "labels": { key: null } }, "spec": { "unschedulable": null } });
    let mut lifted = Vec::new();
    match found {
        Err(error) => {
            left.note(Err(Error::api("list nodes")(error)));
        }
        Ok(nodes) => {
            for name in nodes.iter().filter(|node| has_kubelet(node)).map(kube::ResourceExt::name_any) {
                if left.note(patch(client, &name, free.clone()).await) {
                    lifted.push(name);
                }
            }
        }
    }
    lifted
}

/// Merges a patch into a node.
pub(crate) async fn patch(client: &Client, node: &str, patch: Value) -> Result<(), Error> {
    let nodes: Api<Node> = Api::all(client.clone());
    let patched = nodes.patch(node, &PatchParams::default(), &Patch::Merge(patch)).await;
    patched.map(drop).map_err(Error::api(format!("patch node {node}")))
}

#[cfg(test)]
mod tests {
    use apiserver::{ApiServer, ServerOptions};

    use super::*;

    const LABEL: &str = "example.com/run";

    #[tokio::test]
    async fn a_killed_runs_cordon_is_lifted_and_no_other() {
        let server = ApiServer::new(ServerOptions::default()).unwrap();
        let node = |name: &str, spec: Value| json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": name }, "spec": spec, "status": { "nodeInfo": { "kubeletVersion": "v1" } } });
        server.upsert(node("ours", json!({}))).unwrap();
        server.upsert(node("theirs", json!({ "unschedulable": true }))).unwrap();
        let client = server.client();
        lay(&client, "ours", (LABEL, "one")).await.unwrap();
        let now = async |name: &str| {
            let node = Api::<Node>::all(client.clone()).get(name).await.unwrap();
            (node.spec.unwrap_or_default().unschedulable, node.metadata.labels.unwrap_or_default().len())
        };
        assert_eq!(now("ours").await, (Some(true), 1));
        let stale = patch(&client, "ours", json!({ "metadata": { "resourceVersion": "1" } })).await;
        assert!(stale.unwrap_err().is_conflict());
        let mut left = Leftovers::default();
        assert!(lift(&client, &format!("{LABEL}=another"), &mut left).await.is_empty());
        assert_eq!(lift(&client, &format!("{LABEL}=one"), &mut left).await, ["ours"]);
        assert!(left.is_empty(), "{left:?}");
        assert_eq!((now("ours").await, now("theirs").await), ((None, 0), (Some(true), 0)));
    }
}
