// SPDX-License-Identifier: Apache-2.0
//! A cluster and short words for what tests do with it.

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use cluster::hand::Writing;
use cluster::{Cluster as _, Node, PRIMARY, PodName, PodStart, Traffic, Transport, Workload};
use kubelet::{ClusterOptions, NetnsCluster};
use serde_json::{Value, json};

use crate::isolation;

/// Enough for anything here, on a busy machine as well.
pub(crate) const SOON: Duration = Duration::from_secs(30);

static CLUSTERS: AtomicUsize = AtomicUsize::new(0);

pub(crate) struct Lab {
    pub(crate) cluster: NetnsCluster,
    pub(crate) directory: PathBuf,
}

impl Lab {
    /// A cluster whose network is the base plugin alone.
    pub(crate) async fn start() -> Self {
        Self::with_nodes(&["node-1"]).await
    }

    pub(crate) async fn with_nodes(nodes: &[&str]) -> Self {
        Self::with(nodes, |_| {}).await
    }

    pub(crate) async fn with(nodes: &[&str], change: impl FnOnce(&mut ClusterOptions)) -> Self {
        let number = CLUSTERS.fetch_add(1, Ordering::Relaxed);
        let directory = PathBuf::from(format!("/run/lab-{number}"));
        let sut = directory.join("no-sut");
        let mut options = ClusterOptions::new(&directory, &isolation::workload(), &sut);
        options.node.count = Some(nodes.len());
        change(&mut options);
        let cluster = NetnsCluster::start(options).await.unwrap();
        let lab = Self { cluster, directory };
        for node in lab.cluster.nodes() {
            let mut network = node.network();
            network["plugins"].as_array_mut().unwrap().truncate(1);
            write(node, &network).await;
        }
        lab
    }

    pub(crate) async fn write(&self, network: &Value) {
        write(self.node(), network).await;
    }

    pub(crate) fn node(&self) -> &dyn Node {
        self.cluster.nodes()[0]
    }

    /// Makes a plugin of a shell script.
    pub(crate) fn script(&self, name: &str, text: &str) {
        use std::os::unix::fs::PermissionsExt as _;
        let path = self.node().paths().unwrap().bin_dir.join(name);
        std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }

    pub(crate) async fn pod(&self, name: &str, spec: Value) -> PodStart {
        self.annotated(name, spec, json!({})).await
    }

    pub(crate) async fn annotated(&self, name: &str, spec: Value, annotations: Value) -> PodStart {
        let metadata = json!({ "name": name, "namespace": "default", "annotations": annotations });
        let pod = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec });
        self.cluster.apply(pod).await.unwrap();
        self.node().pod_started(&PodName::new("default", name), SOON).await.unwrap()
    }

    /// Starts a pod that must run.
    pub(crate) async fn running(&self, name: &str, spec: Value) -> Box<dyn Workload> {
        let start = self.pod(name, spec).await;
        assert!(matches!(start, PodStart::Running { .. }), "{start:?}");
        self.cluster.workload(&PodName::new("default", name)).await.unwrap()
    }

    pub(crate) fn status(&self, name: &str) -> Value {
        self.cluster.api().unwrap().pod("default", name).unwrap()["status"].clone()
    }
}

/// A pod of one container with these arguments.
pub(crate) fn one(args: &str) -> Value {
    json!({ "containers": [container("main", args)] })
}

pub(crate) fn container(name: &str, args: &str) -> Value {
    json!({ "name": name, "image": "workload", "args": args.split(' ').collect::<Vec<_>>() })
}

pub(crate) fn to(transport: Transport, destination: IpAddr, port: u16) -> Traffic {
    let user = isolation::some_user();
    Traffic { transport, destination, port, uid: user, gid: user, source_port: 0 }
}

async fn write(node: &dyn Node, network: &Value) {
    let path = node.directories().conf_dir.join(PRIMARY);
    let hand = node.hand().await.unwrap();
    hand.write(&path, network.to_string().as_bytes(), Writing::WHOLE).await.unwrap();
}
