// SPDX-License-Identifier: Apache-2.0
//! A cluster of real components on one machine, without a container engine.

use std::fs;
use std::mem;
use std::net::{IpAddr, Ipv4Addr, TcpListener};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ::cluster::{Configuration, Disk, LabError, Machines, Memory};
use ::front::{Proxy, Upstream};
use apiserver::Authority;
use async_trait::async_trait;
use futures::TryStreamExt as _;
use futures::future::try_join_all;
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{Node as NodeObject, ServiceAccount};
use kube::api::{DynamicObject, ListParams, Patch, PatchParams};
use kube::discovery::pinned_kind;
use kube::{Api, Client};
use listen::{ServerHandle, Tls};
use nix::errno::Errno;
use rtnetlink::new_connection;
use serde_json::Value;
use tokio::net::{TcpListener as Forwarder, TcpStream};
use tokio::sync::{Mutex, MutexGuard};
use tokio::time::{Instant, interval};

use crate::control::{self, ADDRESS, Control, PORT};
use crate::error::Error;
use crate::family::families;
use crate::front::{self, Standing};
use crate::joined;
use crate::node::{Node, Number};
use crate::options::ClusterOptions;
use crate::registry::{self, Registry};

/// From the start of its kubelet until a node is ready, on a busy machine.
const READY: Duration = Duration::from_secs(60);
/// From a DaemonSet's creation until its pods are ready.
const ROLLOUT: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(100);
/// Pause before a program is started again, as in the unit of containerd (`RestartSec`).
const RESTART: Duration = Duration::from_secs(5);
/// Field manager of applied objects.
const MANAGER: &str = "cnilab";

/// Puts a tmpfs on a directory, with what the directory holds. A file stands for `lost+found`: without one, a full tmpfs would be one of no bytes,
/// which means any number.
const LAY: &str = r#"
mkdir -p "$0"
held=$(mktemp -d)
mount --bind "$0" "$held"
mount --make-private "$held"
mount -t tmpfs disk "$0"
cp -a "$held/." "$0"
echo 0 > "$0/lost+found"
umount "$held"
rmdir "$held"
"#;
/// Bytes that a disk holds, for a shell.
const USED: &str = r#"$(df -B1 --output=used "$0" | tail -n 1)"#;

/// A running cluster; everything ends with it. One without nodes is a control plane, which others may join.
#[derive(Debug)]
pub struct Cluster {
    control: Control,
    front: Standing,
    registry: ServerHandle,
    nodes: Vec<Mutex<Node>>,
    options: ClusterOptions,
}

impl Cluster {
    /// Starts it and waits until all nodes are ready. `lo` of the calling process' network must be up.
    ///
    /// # Errors
    /// A program ends, or is not ready in time.
    pub async fn start(mut options: ClusterOptions) -> Result<Self, Error> {
        for directory in [&options.directory, &options.logs] {
            fs::create_dir_all(directory).map_err(Error::file("make", directory))?;
        }
        route().await?;
        let listener = TcpListener::bind((Ipv4Addr::from(ADDRESS), registry::PORT));
        let listener = listener.map_err(|source| Error::System("listen for the nodes", source))?;
        let images = mem::take(&mut options.images).into_iter().chain(options.programs.network.image()?);
        let registry = listen::serve(Registry::new(images.collect()), listener, &Tls::default());
        let registry = registry.map_err(|error| Error::Other("serve images", error.to_string()))?;
        let control = match options.joined.take() {
            Some(api) => joined::join(&api, options.nodes)?,
            None => Control::start(&options.programs, &options.directory, &options.logs).await?,
        };
        let front = front::stand(&control).await?;
        let nodes = (1..=options.nodes).map(|number| Node::start(Number(number), &options, &control));
        let nodes = try_join_all(nodes).await?;
        let nodes = nodes.into_iter().map(Mutex::new).collect();
        let mut cluster = Self { control, front, registry, nodes, options };
        cluster.settled().await?;
        let network = &cluster.options.programs.network;
        cluster.apply(&network.objects()?).await?;
        if let Some((namespace, name)) = network.daemon_set() {
            cluster.rolled_out(namespace, name).await?;
        }
        Ok(cluster)
    }

    /// Waits until the nodes are ready and pods can be made.
    async fn settled(&mut self) -> Result<(), Error> {
        let (mut due, end) = (interval(LOOK), Instant::now() + READY);
        let all: Api<NodeObject> = Api::all(self.control.client.clone());
        let accounts: Api<ServiceAccount> = Api::namespaced(self.control.client.clone(), "default");
        loop {
            due.tick().await;
            self.control.goes_on()?;
            self.nodes.iter_mut().try_for_each(|node| node.get_mut().goes_on())?;
            let ready = all.list(&ListParams::default()).await?.iter().filter(|node| is_ready(node)).count();
            if ready == self.nodes.len() && accounts.get_opt("default").await?.is_some() {
                return Ok(());
            }
            if Instant::now() > end {
                let why = format!("{ready} of {} are ready within {READY:?}", self.nodes.len());
                return Err(Error::Other("start all nodes", why));
            }
        }
    }

    /// Waits until a DaemonSet has a ready pod on every node that it is for.
    ///
    /// # Errors
    /// It has not in time.
    pub async fn rolled_out(&self, namespace: &str, name: &str) -> Result<(), Error> {
        let sets: Api<DaemonSet> = Api::namespaced(self.control.client.clone(), namespace);
        let (mut due, end) = (interval(LOOK), Instant::now() + ROLLOUT);
        loop {
            due.tick().await;
            let status = sets.get(name).await?.status.unwrap_or_default();
            let (ready, wanted) = (status.number_ready, status.desired_number_scheduled);
            if wanted > 0 && ready == wanted {
                return Ok(());
            }
            if Instant::now() > end {
                let why = format!("{name} is ready on {ready} of {wanted} nodes within {ROLLOUT:?}");
                return Err(Error::Other("roll out a DaemonSet", why));
            }
        }
    }

    /// Starts runtimes and kubelets again that have ended, as the units of distributions do (`Restart=always`): a containerd ends by itself where
    /// its directory of network configurations is removed.
    pub async fn supervise(&self) {
        let mut due = interval(RESTART);
        loop {
            due.tick().await;
            for node in &self.nodes {
                // One that does not start is tried again.
                let _ = node.lock().await.restart_ended(&self.options).await;
            }
        }
    }

    async fn node(&self, name: &str) -> Result<MutexGuard<'_, Node>, Error> {
        for node in &self.nodes {
            let node = node.lock().await;
            if node.name() == name {
                return Ok(node);
            }
        }
        Err(Error::Other("find a node", format!("no node is called {name}")))
    }

    #[must_use]
    pub fn client(&self) -> &Client {
        &self.control.client
    }

    /// The front, see [`crate::front`].
    #[must_use]
    pub fn front(&self) -> &Proxy {
        &self.front.proxy
    }

    /// An administrator's kubeconfig for the API server at this address.
    ///
    /// # Errors
    /// No key can be made.
    pub fn kubeconfig(&self, server: &str) -> Result<String, Error> {
        self.control.kubeconfig(server)
    }

    /// Its API server, as a front reaches it.
    ///
    /// # Errors
    /// No key can be made.
    pub async fn upstream(&self) -> Result<Upstream, Error> {
        self.control.upstream().await
    }

    /// Names and addresses that its API server is reached under.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        control::names()
    }

    /// Who issues its certificates.
    #[must_use]
    pub fn authority(&self) -> &Arc<Authority> {
        &self.control.authority
    }

    /// Ends a control plane, after which another one can be started.
    ///
    /// # Errors
    /// A program cannot be ended.
    pub async fn end(self) -> Result<(), Error> {
        self.front.served.stop().await;
        self.registry.stop().await;
        self.control.end().await
    }

    /// Applies objects in their order (server-side apply).
    ///
    /// # Errors
    /// The API server refuses one.
    pub async fn apply(&self, objects: &[Value]) -> Result<(), Error> {
        for object in objects {
            let wrong = |error: serde_json::Error| Error::Other("read an object", error.to_string());
            let object: DynamicObject = serde_json::from_value(object.clone()).map_err(wrong)?;
            let kind = object.types.as_ref().and_then(|types| types.try_into().ok());
            let kind = kind.ok_or_else(|| Error::Other("read an object", "it has no kind".to_owned()))?;
            let (resource, abilities) = pinned_kind(self.client(), &kind).await?;
            let name = object.metadata.name.clone().unwrap_or_default();
            let client = self.client().clone();
            let api: Api<DynamicObject> = match (&object.metadata.namespace, abilities.scope) {
                (Some(namespace), kube::discovery::Scope::Namespaced) => {
                    Api::namespaced_with(client, namespace, &resource)
                }
                _ => Api::all_with(client, &resource),
            };
            api.patch(&name, &PatchParams::apply(MANAGER).force(), &Patch::Apply(&object)).await?;
        }
        Ok(())
    }
}

#[async_trait]
impl Machines for Cluster {
    async fn reboot(&self, node: &str, configuration: Configuration) -> Result<(), LabError> {
        Ok(self.node(node).await?.reboot(&self.options, configuration).await?)
    }

    async fn restart_runtime(&self, node: &str) -> Result<(), LabError> {
        Ok(self.node(node).await?.restart_runtime(&self.options).await?)
    }

    async fn restart_kubelet(&self, node: &str) -> Result<(), LabError> {
        Ok(self.node(node).await?.restart_kubelet(&self.options).await?)
    }

    async fn set_memory(&self, node: &str, memory: Memory) -> Result<(), LabError> {
        Ok(self.node(node).await?.set_memory(memory, &self.options).await?)
    }

    async fn restart_api(&self, away: Duration) -> Result<(), LabError> {
        Ok(self.control.restart_api(away).await?)
    }

    async fn trust(&self, authorities: &str) -> Result<(), LabError> {
        Ok(self.control.trust(authorities).await?)
    }

    async fn lay_disk(&self, node: &str, directory: &Path, disk: Disk) -> Result<(), LabError> {
        self.node(node).await?.run("sh", &["-ec", LAY], directory).await?;
        self.turn_disk(node, directory, disk).await
    }

    /// Changes the file system, and with it whoever sees it; not the mount, which others are made of.
    async fn turn_disk(&self, node: &str, directory: &Path, disk: Disk) -> Result<(), LabError> {
        let how = match disk {
            Disk::Room(room) => format!("rw,size=$(({USED} + {room}))"),
            Disk::ReadOnly => "ro".to_owned(),
        };
        let turn = format!(r#"mount -o remount,"{how}" "$0"; mount -o remount,bind,rw "$0""#);
        Ok(self.node(node).await?.run("sh", &["-ec", &turn], directory).await?)
    }

    /// Takes it away, whoever uses it; what is none is right.
    async fn lift_disk(&self, node: &str, directory: &Path) -> Result<(), LabError> {
        let lift = r#"! mountpoint -q "$0" || umount --lazy "$0""#;
        Ok(self.node(node).await?.run("sh", &["-ec", lift], directory).await?)
    }
}

/// Pause after a connection that cannot be accepted.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Forwards connections to the API server, for whoever is not in the lab's network.
///
/// # Errors
/// The listener cannot be used.
pub async fn forward(listener: TcpListener) -> Result<(), Error> {
    let failed = |source| Error::System("forward connections", source);
    listener.set_nonblocking(true).map_err(failed)?;
    let listener = Forwarder::from_std(listener).map_err(failed)?;
    loop {
        let Ok((mut from, _)) = listener.accept().await else {
            // The client has gone, or no file can be opened for a while.
            let _ = tokio::time::timeout(ACCEPT_PAUSE, std::future::pending::<()>()).await;
            continue;
        };
        tokio::spawn(async move {
            // Either side may end it at any time, and hears of it itself.
            if let Ok(mut to) = TcpStream::connect((Ipv4Addr::from(ADDRESS), PORT)).await {
                let _ = tokio::io::copy_bidirectional(&mut from, &mut to).await;
            }
        });
    }
}

fn is_ready(node: &NodeObject) -> bool {
    let mut conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.any(|one| one.type_ == "Ready" && one.status == "True")
}

/// The lab's own network routes between nodes, and has the address of the control plane.
async fn route() -> Result<(), Error> {
    let forwarding = families("/proc/sys/net/ipv4/ip_forward", "/proc/sys/net/ipv6/conf/all/forwarding");
    for path in forwarding.into_iter().map(Path::new) {
        fs::write(path, "1").map_err(Error::file("write", path))?;
    }
    let (connection, handle, _) = new_connection().map_err(|e| Error::System("open a netlink socket", e))?;
    let connection = tokio::spawn(connection);
    let lo = handle.link().get().match_name("lo".to_owned()).execute().try_next().await?;
    let index = lo.map(|link| link.header.index).unwrap_or_default();
    let added = handle.address().add(index, IpAddr::from(ADDRESS), 32).execute().await;
    connection.abort();
    match added {
        // Of a control plane that was here before.
        Err(rtnetlink::Error::NetlinkError(error)) if error.raw_code() == -(Errno::EEXIST as i32) => Ok(()),
        added => Ok(added?),
    }
}
