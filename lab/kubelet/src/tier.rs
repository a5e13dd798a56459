// SPDX-License-Identifier: Apache-2.0
//! The tier `netns`: a cluster of real namespaces and processes in one directory, around an embedded API. Several live
//! side by side; nothing of one is visible to another.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use apiserver::{Account, ApiServer};
use cluster::{
    Front as _, Installed, KUBECONFIG, LabError, Leftovers, PRIMARY, PodName, SERVICE_ACCOUNT,
    SYSTEM_NAMESPACE,
};
use front::Proxy;
use futures::future::join_all;
use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use listen::ServerHandle;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::account;
use crate::api_access::ApiAccess;
use crate::applied::apply;
use crate::containers::Ending;
use crate::control_plane::{ControlPlane, JOB_BACKOFF};
use crate::controller;
use crate::disk::LaidDisk;
use crate::error::Error;
use crate::heartbeat;
use crate::informer::Informer;
use crate::logs::NodeKubelets;
use crate::netns::{self, Namespace};
use crate::node::NetnsNode;
use crate::options::ClusterOptions;
use crate::reach::NodeNetwork;
use crate::services;
use crate::slot::Shown;
use crate::wire::Wire;
use crate::workload::NetnsWorkload;

/// Address of the API server on every node.
const API: &str = "127.0.0.1:6443";
/// Nodes that are made, and ended, side by side.
const NODES_AT_ONCE: usize = 8;
/// Lifetime of the plugin's token: longer than any lab.
const TOKEN_LIFE: Duration = Duration::from_secs(24 * 3600);

#[derive(Debug)]
pub struct NetnsCluster {
    pub(crate) access: ApiAccess,
    /// Its own control plane, unless it has joined one.
    pub(crate) plane: Option<ControlPlane>,
    /// Address at which nodes and pods reach the API server.
    pub(crate) front: Proxy,
    pub(crate) nodes: Vec<Arc<NetnsNode>>,
    pub(crate) options: ClusterOptions,
    controllers: Vec<JoinHandle<()>>,
    pub(crate) wire: Option<Arc<Wire>>,
    /// Disk beneath a directory of the first node.
    pub(crate) disk: Mutex<Option<LaidDisk>>,
    /// Namespaces that no pod has.
    pub(crate) left: Mutex<Vec<Namespace>>,
    /// The front's sockets; closed on drop.
    #[expect(dead_code, reason = "held for its drop")]
    served: Vec<ServerHandle>,
}

impl NetnsCluster {
    /// Makes a cluster: its API, its nodes, each with a kubeconfig and the default network.
    ///
    /// # Errors
    /// The harness failed; what was made so far is gone again, or goes with the lab.
    pub async fn start(options: ClusterOptions) -> Result<Self, Error> {
        fs::create_dir_all(&options.directory).map_err(Error::file("make", &options.directory))?;
        let mut plane = None;
        let access = match &options.joined {
            Some(there) => there.clone(),
            None => ApiAccess::from(plane.insert(ControlPlane::new(&[])?).api()),
        };
        let token = bootstrap(&access.client, options.node.installed).await?;
        let front = front(&access, &options).await?;
        let wire = wired(&options).await?;
        let made = (1..)
            .take(options.count())
            .map(|number| node(&options, number, (&access, &front, token.as_deref()), wire.as_ref()));
        let made: Vec<_> = stream::iter(made).buffered(NODES_AT_ONCE).try_collect().await?;
        let (nodes, served): (Vec<_>, Vec<_>) = made.into_iter().unzip();
        let nodes: Vec<_> = nodes.into_iter().map(Arc::new).collect();
        let served = served.into_iter().flatten().collect();
        for node in &nodes {
            apply(&access.client, object_of(node)).await?;
        }
        let wire = wire.map(Arc::new);
        let mut controllers = Vec::new();
        match &mut plane {
            Some(plane) => {
                plane.api().set_kubelets(Arc::new(NodeKubelets::new(&nodes)));
                plane.api().set_network(Arc::new(NodeNetwork::new(&nodes)));
                plane.follow(options.back_off.unwrap_or(JOB_BACKOFF), &options.chaos);
            }
            None => controllers.extend(
                nodes
                    .iter()
                    .map(|node| tokio::spawn(heartbeat::keep(access.client.clone(), node.name.clone()))),
            ),
        }
        let services = Informer::of(&access, &["Node", "Pod", "Service"])?;
        let pods = Informer::of(&access, &["Pod"])?;
        controllers.push(tokio::spawn(services::run(
            access.client.clone(),
            nodes.clone(),
            wire.clone(),
            services,
        )));
        controllers.push(tokio::spawn(controller::run(nodes.clone(), pods)));
        controllers.extend(nodes.iter().map(|node| tokio::spawn(Arc::clone(node).follow_network())));
        Ok(Self {
            access,
            plane,
            front,
            nodes,
            options,
            controllers,
            wire,
            disk: Mutex::default(),
            left: Mutex::default(),
            served,
        })
    }

    /// A client of its API, as the administrator.
    #[must_use]
    pub fn client(&self) -> &kube::Client {
        &self.access.client
    }

    /// Its own API server: for waits and looks that no [`cluster::Cluster`] has.
    ///
    /// # Errors
    /// It has joined one that is there.
    pub fn api(&self) -> Result<&ApiServer, Error> {
        self.access.own.as_ref().ok_or(Error::Foreign("reach into the API server"))
    }

    /// A pod whose start has ended.
    pub(crate) async fn find(&self, pod: &PodName) -> Result<NetnsWorkload, Error> {
        let found = self.seen(pod).await?;
        found.slot.started(self.options.deadlines.pod).await?;
        if found.slot.shown().netns.as_os_str().is_empty() {
            return Err(Error::Missing(format!("sandbox of pod {}", pod.name)));
        }
        Ok(found)
    }

    /// A pod whose sandbox exists.
    pub(crate) async fn find_starting(&self, pod: &PodName) -> Result<NetnsWorkload, Error> {
        let found = self.seen(pod).await?;
        let what = format!("the sandbox of pod {}/{}", pod.namespace, pod.name);
        let is_there = |shown: &Shown| !shown.netns.as_os_str().is_empty();
        found.slot.until_shown(&what, self.options.deadlines.pod, is_there).await?;
        Ok(found)
    }

    pub(crate) async fn seen(&self, pod: &PodName) -> Result<NetnsWorkload, Error> {
        let deadline = self.options.deadlines.pod;
        let seen = self.nodes.iter().map(|node| Box::pin(node.until_seen(pod)));
        let what = || format!("the start of pod {}/{}", pod.namespace, pod.name);
        let (slot, number, _) = tokio::time::timeout(deadline, futures::future::select_all(seen))
            .await
            .map_err(|_| Error::Deadline { what: what(), deadline })?;
        let node = self.nodes.get(number).ok_or_else(|| Error::Missing("node".to_owned()))?;
        Ok(NetnsWorkload { slot, inner: None, node: Arc::clone(node) })
    }

    /// Where the lab keeps a path of the first node.
    ///
    /// # Errors
    /// There is no node.
    pub(crate) fn host_path(&self, path: &Path) -> Result<PathBuf, LabError> {
        let node = self.nodes.first().ok_or_else(|| Error::Missing("node".to_owned()))?;
        Ok(node.host.find(path))
    }

    /// Ends everything: pods, agents, API, namespaces, the directory. Returns what was not undone.
    ///
    /// # Errors
    /// The directory cannot be removed.
    pub async fn stop(mut self) -> Result<Leftovers, Error> {
        let mut left = Leftovers::default();
        if let Some(plane) = &mut self.plane {
            plane.stop().await;
        }
        for controller in &mut self.controllers {
            controller.abort();
            // Until it has really ended it may give a node another pod, whose namespace would keep the directory busy.
            let _aborted = controller.await;
        }
        let deadline = self.options.deadlines.process;
        let ended = stream::iter(&self.nodes).map(|node| end(node, deadline)).buffered(NODES_AT_ONCE);
        let ended: Vec<_> = ended.collect().await;
        for ended in ended {
            left.extend(ended?);
        }
        if let Some(wire) = &self.wire {
            wire.stop().await;
        }
        let directory = self.options.directory.clone();
        drop(self);
        fs::remove_dir_all(&directory).map_err(Error::file("remove", directory))?;
        Ok(left)
    }
}

impl Drop for NetnsCluster {
    fn drop(&mut self) {
        for controller in &self.controllers {
            controller.abort();
        }
    }
}

/// The front before the API server, with a certificate of the cluster's authority.
async fn front(access: &ApiAccess, options: &ClusterOptions) -> Result<Proxy, Error> {
    let front = Proxy::new(access.upstream.clone(), access.names.clone()).perturbed(options.chaos.clone());
    front.certify(&*access.issuer, None).await?;
    Ok(front)
}

/// Makes a node, with the API server's addresses on it, its plugin's credentials and its network.
async fn node(
    options: &ClusterOptions,
    number: u8,
    (access, front, token): (&ApiAccess, &Proxy, Option<&str>),
    wire: Option<&Wire>,
) -> Result<(NetnsNode, Vec<ServerHandle>), Error> {
    let node = NetnsNode::create(options, number, access).await?;
    if let Some(wire) = wire {
        wire.join(node.netns.path(), number, &services::of_node(&node)).await?;
    }
    let mut served = Vec::new();
    for address in addresses(options.node.installed, number) {
        let listener = netns::listen(node.netns.path(), address).await?;
        let handle = front.serve(listener);
        served.push(handle.map_err(|error| Error::Missing(format!("API listener: {error}")))?);
    }
    if let Some(token) = token {
        let kubeconfig = apiserver::kubeconfig::of(&access.issuer.ca(), &format!("https://{API}"), token);
        secret(&node.paths.run_dir.join(KUBECONFIG), &kubeconfig)?;
    }
    lay_network(&node).await?;
    node.agent.become_(options.node.agent, options.deadlines.process).await?;
    Ok((node, served))
}

/// Ends whatever runs on a node. Returns what was not undone.
async fn end(node: &NetnsNode, deadline: Duration) -> Result<Leftovers, Error> {
    node.chain.end_with_node();
    let slots = node.slots();
    join_all(slots.iter().map(|slot| node.stop(slot, Ending::Kill))).await;
    let left = node.leftovers();
    node.agent.become_(cluster::AgentStandIn::Absent, deadline).await?;
    node.let_hand_go().await;
    // Tasks that still look at the node must not keep its namespace, nor its directory.
    node.shared.let_go();
    node.netns.let_go();
    Ok(left)
}

/// Gives a node its default network.
async fn lay_network(node: &NetnsNode) -> Result<(), Error> {
    let network = node.paths.conf_dir.join(PRIMARY);
    fs::write(&network, node.default_network().to_string()).map_err(Error::file("write", &network))?;
    node.chain.restart()?;
    node.learn_network().await;
    Ok(())
}

/// Addresses of a node's API server.
fn addresses(installed: Installed, number: u8) -> Vec<String> {
    let behind_service = match installed {
        Installed::ByLab => Vec::new(),
        Installed::ByAgent => services::api_endpoints(number),
    };
    [vec![API.to_owned()], behind_service].concat()
}

/// The network between nodes, where there is one.
async fn wired(options: &ClusterOptions) -> Result<Option<Wire>, Error> {
    if !options.is_wired() {
        return Ok(None);
    }
    let mut wire = Wire::create(options).await?;
    if options.node.outside {
        wire.add_outside(&options.directory).await?;
    }
    Ok(Some(wire))
}

/// The namespace of the mesh's system; and where no chart brings them, the plugin's account and its rights. Returns its token.
async fn bootstrap(client: &kube::Client, installed: Installed) -> Result<Option<String>, Error> {
    let named = |name: &str| json!({ "name": name });
    apply(client, json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": named(SYSTEM_NAMESPACE) }))
        .await?;
    if installed == Installed::ByAgent {
        return Ok(None);
    }
    let rbac = "rbac.authorization.k8s.io";
    let metadata = json!({ "name": SERVICE_ACCOUNT, "namespace": SYSTEM_NAMESPACE });
    let rule = json!({ "verbs": ["get"], "apiGroups": [""], "resources": ["pods"] });
    let role = json!({ "apiGroup": rbac, "kind": "ClusterRole", "name": SERVICE_ACCOUNT });
    let subject = json!({ "kind": "ServiceAccount", "name": SERVICE_ACCOUNT, "namespace": SYSTEM_NAMESPACE });
    for object in [
        json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata }),
        json!({
            "apiVersion": format!("{rbac}/v1"), "kind": "ClusterRole", "metadata": named(SERVICE_ACCOUNT),
            "rules": [rule],
        }),
        json!({
            "apiVersion": format!("{rbac}/v1"), "kind": "ClusterRoleBinding",
            "metadata": named(SERVICE_ACCOUNT), "roleRef": role, "subjects": [subject],
        }),
    ] {
        apply(client, object).await?;
    }
    let account = Account { namespace: SYSTEM_NAMESPACE.to_owned(), name: SERVICE_ACCOUNT.to_owned() };
    account::token(client, &account, None, TOKEN_LIFE).await.map(Some)
}

/// A node as its kubelet registers it.
fn object_of(node: &NetnsNode) -> Value {
    let name = &node.name;
    let labels = json!({ "kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": cluster::architecture() });
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": { "name": name, "labels": labels },
        "spec": {},
        "status": node.machine_status(),
    })
}

/// Writes a file that only root can read.
fn secret(path: &Path, text: &str) -> Result<(), Error> {
    let file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    file.and_then(|mut file| file.write_all(text.as_bytes())).map_err(Error::file("write", path))
}
