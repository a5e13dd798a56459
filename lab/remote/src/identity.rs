// SPDX-License-Identifier: Apache-2.0
//! Identity of a cluster's nodes and of what is installed on them: what the API says, and what the hand reads there.

use std::path::{Path, PathBuf};

use cluster::hand::{Digest, Hand as _};
use cluster::{AgentIdentity, DAEMONSET, NodeIdentity};
use futures::future::join_all;
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::ListParams;
use kube::{Api, ResourceExt as _};

use crate::error::Error;
use crate::session::Session;
use crate::workload;

/// Plugin under test, as the runtime finds it.
const PLUGIN: &str = "/opt/cni/bin/istio-cni";

/// Key of the configuration of Millrace's plugin. No other plugin knows it.
const OF_MILLRACE: &str = "millrace_backend";

impl Session {
    /// Identities of the nodes that the session has a hand on, in its order.
    ///
    /// # Errors
    /// The API does not list nodes and pods, or a hand is out of reach.
    pub async fn identities(&self) -> Result<Vec<NodeIdentity>, Error> {
        let nodes: Api<Node> = Api::all(self.client.clone());
        let nodes = nodes.list(&ListParams::default()).await.map_err(Error::api("list nodes"))?.items;
        let agents = self.agents().await?;
        let named = |name: &String| nodes.iter().find(|node| node.name_any() == *name);
        let known = self.nodes.iter().filter_map(named);
        join_all(known.map(|node| self.identity(node, &agents))).await.into_iter().collect()
    }

    /// Pods of the node agent in whichever namespace, each with its DaemonSet.
    async fn agents(&self) -> Result<Vec<(String, Pod)>, Error> {
        let sets: Api<DaemonSet> = Api::all(self.client.clone());
        let wanted = ListParams::default().fields(&format!("metadata.name={DAEMONSET}"));
        let sets = match sets.list(&wanted).await {
            // Whoever may not list them may run scenarios all the same.
            Err(kube::Error::Api(status)) if status.code == 403 => return Ok(Vec::new()),
            found => found.map_err(Error::api("list DaemonSets"))?,
        };
        let mut agents = Vec::new();
        for set in sets {
            let namespace = set.namespace().unwrap_or_default();
            let pods: Api<Pod> = Api::namespaced(self.client.clone(), &namespace);
            let all = pods.list(&ListParams::default()).await.map_err(Error::api("list pods"))?;
            let own = all.into_iter().filter(|pod| {
                pod.owner_references().iter().any(|owner| Some(&owner.uid) == set.metadata.uid.as_ref())
            });
            agents.extend(own.map(|pod| (format!("{namespace}/{DAEMONSET}"), pod)));
        }
        Ok(agents)
    }

    async fn identity(&self, node: &Node, agents: &[(String, Pod)]) -> Result<NodeIdentity, Error> {
        let name = node.name_any();
        let info = node.status.clone().and_then(|status| status.node_info).unwrap_or_default();
        let plugin = self.digest(&name, Path::new(PLUGIN)).await?;
        let mut found = Vec::new();
        let is_here = |pod: &Pod| pod.spec.as_ref().and_then(|spec| spec.node_name.as_ref()) == Some(&name);
        for (daemonset, pod) in agents.iter().filter(|(_, pod)| is_here(pod)) {
            found.extend(self.containers(&name, daemonset, pod).await?);
        }
        Ok(NodeIdentity {
            name,
            kernel: info.kernel_version,
            architecture: info.architecture,
            distribution: info.os_image,
            runtime: info.container_runtime_version,
            kubelet: info.kubelet_version,
            is_millrace: plugin.as_ref().is_some_and(|plugin| plugin.has_text),
            plugin: plugin.map(|plugin| plugin.sha256),
            agents: found,
        })
    }

    async fn containers(&self, node: &str, daemonset: &str, pod: &Pod) -> Result<Vec<AgentIdentity>, Error> {
        let statuses = pod.status.iter().flat_map(|status| status.container_statuses.iter().flatten());
        let mut found = Vec::new();
        for status in statuses {
            let process = workload::process(&self.hand(node)?, pod, &status.name).await;
            let process = process.map_err(|error| lost(node, &error))?;
            let executable = match process {
                Some(number) => self.digest(node, &program(number)).await?,
                None => None,
            };
            found.push(AgentIdentity {
                daemonset: daemonset.to_owned(),
                container: status.name.clone(),
                image: status.image.clone(),
                image_id: status.image_id.clone(),
                executable: executable.map(|found| found.sha256),
            });
        }
        Ok(found)
    }

    /// Digest of a file of a node; `None` where there is none.
    async fn digest(&self, node: &str, path: &Path) -> Result<Option<Digest>, Error> {
        match self.hand(node)?.digest(path, OF_MILLRACE).await {
            Ok(digest) => Ok(Some(digest)),
            Err(error) if error.is_absence() => Ok(None),
            Err(error) => Err(lost(node, &error)),
        }
    }
}

fn lost(node: &str, why: &impl ToString) -> Error {
    Error::Hand { node: node.to_owned(), why: why.to_string() }
}

fn program(process: u32) -> PathBuf {
    Path::new("/proc").join(process.to_string()).join("exe")
}
