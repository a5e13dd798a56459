// SPDX-License-Identifier: Apache-2.0
//! A cluster of real components, for `cnilab up --real` and `cnilab run --real`: what it needs is found and made outside of the sandbox, and
//! started inside.

use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use cluster::{Chaos, DAEMONSET, SYSTEM_NAMESPACE};
use kubelet::{ApiAccess, ControlPlane};
use nix::unistd::geteuid;
use real::control::ADDRESS;
use real::image::Image;
use real::place::require_seen;
use real::{Cluster, ClusterOptions, Components, Programs, cgroups, registry};
use remote::{Feed, Owned};
use serde_json::json;

use crate::binaries::AGENT;
use crate::carried::NO_SOURCE;
use crate::cli::{NetworkName, NodeApi, Version};
use crate::locate::Workspace;
use crate::plan::{Parts, Real, Sut, WantedCluster};
use crate::tier::images::{self, TAG};
use crate::{board, chart, components};

/// Directory of a report for what a cluster of real components leaves.
pub const CLUSTER: &str = "cluster";
/// Files of the cluster: in the sandbox' own `/run`.
const DIRECTORY: &str = "/run/cnilab/real";
/// Image of the lab's pods.
pub const WORKLOAD: &str = "workload";

/// Finds the components, and makes the agent's image in a directory, which gets the logs as well.
///
/// # Errors
/// A component is not built, or there is no image: the error says what to do.
pub fn plan(
    workspace: &Workspace,
    asked: WantedCluster,
    sut: &Sut,
    workload: &Path,
    directory: &Path,
) -> anyhow::Result<Real> {
    if !geteuid().is_root() {
        bail!(
            "a cluster of real components needs root: kubelet and runtime make cgroups and mounts of the machine (with Docker or Podman: cnilab run --container --real)"
        );
    }
    let parts = gather(workspace, &asked, sut, workload, directory)?;
    settle(asked, parts, directory)
}

/// Finds the components, and makes the agent's image in a directory. `workload` is the lab's own program, if its path is known.
///
/// # Errors
/// This program was packed, a component is not built, nodes would not see it, or there is no image: the error says what to do.
pub fn gather(
    workspace: &Workspace,
    asked: &WantedCluster,
    sut: &Sut,
    workload: &Path,
    directory: &Path,
) -> anyhow::Result<Parts> {
    if workspace.carried.is_some() {
        bail!("--real, --api kubernetes: {NO_SOURCE}");
    }
    if asked.api == NodeApi::Embedded && asked.choice.version != Version::default() {
        bail!(
            "--version: a kubelet may not be newer than its API server, and the embedded one is 1.34: leave --api out"
        );
    }
    if asked.api == NodeApi::Embedded && asked.choice.network != NetworkName::Bridge {
        bail!(
            "--network: Multus sends protobuf, which the embedded API server does not read: leave --api out"
        );
    }
    let (modules, cache) = components::places(workspace)?;
    let parts = Parts { modules, cache, agent: std::path::absolute(directory)?.join("install-cni.tar") };
    let programs = programs(&parts, asked, workload)?;
    if asked.nodes == 0 {
        return Ok(parts);
    }
    programs.require_seen()?;
    require_seen(asked.record.as_deref())?;
    let mut build = Command::new(workspace.root.join("ci/image/build"));
    build.arg(&parts.agent).arg(&sut.dir).arg(reference(AGENT)).stdin(Stdio::null()).stdout(Stdio::null());
    // It ends with the cluster, on the machine that built it.
    build.env("IMAGE_LIBC", "any");
    let status = build.status().context("cannot run ci/image/build, which is in the source tree")?;
    if !status.success() {
        bail!("ci/image/build ended with {status}");
    }
    Ok(parts)
}

/// Decides on a cluster of these parts, whose logs go to a directory.
///
/// # Errors
/// There is no room for logs.
pub fn settle(asked: WantedCluster, parts: Parts, directory: &Path) -> anyhow::Result<Real> {
    // Of clusters whose processes were killed. In the sandbox, `/proc` knows none of the others.
    sweep(|pid| !PathBuf::from(format!("/proc/{pid}")).exists());
    let directory = std::path::absolute(directory)?;
    let logs = directory.join("logs");
    match fs::remove_dir_all(&logs) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(error).with_context(|| format!("cannot remove {}", logs.display()));
        }
        _ => fs::create_dir_all(&logs).with_context(|| format!("cannot make {}", logs.display()))?,
    }
    Ok(Real { asked, parts, logs, cgroup: cgroups::name(std::process::id()) })
}

/// Programs of such a cluster; `workload` is the lab's own.
///
/// # Errors
/// One is not built, or not installed.
pub fn programs(parts: &Parts, asked: &WantedCluster, workload: &Path) -> Result<Programs, real::Error> {
    Programs::find(&Components::read(&parts.modules, &parts.cache)?, asked.choice, workload)
}

/// Removes the cgroups of this process' cluster, which has ended.
pub fn ended() {
    sweep(|pid| pid == std::process::id());
}

fn sweep(is_gone: impl Fn(u32) -> bool) {
    for (path, error) in cgroups::sweep(Path::new(cgroups::MOUNTS), is_gone) {
        board::complain(format!("{} stays: {error}", path.display()));
    }
}

/// A cluster that has started.
#[derive(Debug)]
pub struct Started {
    cluster: Arc<Cluster>,
    /// Its control plane, if it has none of its own.
    #[expect(dead_code, reason = "held for its drop")]
    plane: Option<ControlPlane>,
    /// An administrator's, in the sandbox.
    pub kubeconfig: PathBuf,
}

impl Started {
    /// Starts it, without a node agent.
    ///
    /// # Errors
    /// A program ends, or is not ready in time.
    pub async fn start(of: &Real, workload: &Path, sut: &Sut) -> anyhow::Result<Self> {
        let begun = Instant::now();
        let agent = Image::from_archive(&format!("{AGENT}:{TAG}"), &of.parts.agent)?;
        let plane = match of.asked.api {
            NodeApi::Kubernetes => None,
            NodeApi::Embedded => Some(embedded()?),
        };
        let cluster = Cluster::start(ClusterOptions {
            joined: plane.as_ref().map(|plane| plane.api().clone()),
            programs: programs(&of.parts, &of.asked, workload)?,
            nodes: of.asked.nodes,
            directory: DIRECTORY.into(),
            logs: of.logs.clone(),
            images: vec![
                images::workload(WORKLOAD, workload, &["workload"])?,
                images::workload("pause", workload, &["workload", "pause"])?,
                images::proxy(workload, &sut.dir)?,
                agent,
            ],
            cgroup: of.cgroup.clone(),
            record: of.asked.record.clone(),
        });
        let cluster = Arc::new(cluster.await?);
        let kubeconfig = Path::new(DIRECTORY).join("kubeconfig");
        let text = cluster.kubeconfig(&real::control::server())?;
        fs::write(&kubeconfig, text).with_context(|| format!("cannot write {}", kubeconfig.display()))?;
        let supervised = Arc::clone(&cluster);
        tokio::spawn(async move { supervised.supervise().await });
        eprintln!("nodes are ready after {:.1} s", begun.elapsed().as_secs_f64());
        Ok(Self { cluster, plane, kubeconfig })
    }

    /// An administrator's kubeconfig for the API at this address, to which a listener is forwarded.
    ///
    /// # Errors
    /// No key can be made.
    pub fn kubeconfig_at(&self, server: &str) -> anyhow::Result<String> {
        Ok(self.cluster.kubeconfig(server)?)
    }

    /// What only its owner has of it.
    #[must_use]
    pub fn owned(&self) -> Owned {
        let front = Arc::new(self.cluster.front().clone());
        let machines = Arc::clone(&self.cluster) as _;
        Owned { front, issuer: Arc::clone(self.cluster.authority()) as _, machines }
    }

    /// Deploys the node agent of the product, and waits until it is ready on every node.
    ///
    /// # Errors
    /// The API server refuses an object, or an agent is not ready in time.
    pub async fn deploy(&self, sut: &Sut) -> anyhow::Result<()> {
        let begun = Instant::now();
        let mut objects = vec![
            json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": SYSTEM_NAMESPACE } }),
        ];
        objects.extend(chart::render(sut, &reference(AGENT), "{}", None).await?);
        self.cluster.apply(&objects).await?;
        self.cluster.rolled_out(SYSTEM_NAMESPACE, DAEMONSET).await?;
        eprintln!("the node agent is ready {:.1} s later", begun.elapsed().as_secs_f64());
        Ok(())
    }
}

/// An embedded control plane, which answers where a real one does.
fn embedded() -> anyhow::Result<ControlPlane> {
    let mut plane = ControlPlane::new(&[&IpAddr::from(ADDRESS).to_string()])?;
    // A real controller's backoff.
    plane.follow(Duration::from_secs(10), &Chaos::default());
    Ok(plane)
}

/// A real control plane for embedded nodes.
pub struct RealControlPlane {
    cluster: Cluster,
    feed: Arc<Feed>,
    directory: PathBuf,
}

impl RealControlPlane {
    /// Starts it; its files are in a directory of the scenario's own.
    ///
    /// # Errors
    /// A program ends, or is not ready in time.
    pub async fn start(of: &Real, workload: &Path, scenario: &str) -> anyhow::Result<Self> {
        let directory = Path::new(DIRECTORY).join(scenario);
        let cluster = Cluster::start(ClusterOptions {
            programs: programs(&of.parts, &of.asked, workload)?,
            joined: None,
            nodes: 0,
            directory: directory.clone(),
            logs: of.logs.clone(),
            images: Vec::new(),
            cgroup: of.cgroup.clone(),
            record: None,
        });
        let cluster = cluster.await?;
        let feed = Arc::new(Feed::start(cluster.client()));
        Ok(Self { cluster, feed, directory })
    }

    /// It, for nodes that join it.
    ///
    /// # Errors
    /// No certificate can be made.
    pub async fn access(&self) -> anyhow::Result<ApiAccess> {
        let feed = Arc::clone(&self.feed);
        Ok(ApiAccess {
            client: self.cluster.client().clone(),
            upstream: self.cluster.upstream().await?,
            names: self.cluster.names(),
            issuer: Arc::clone(self.cluster.authority()) as _,
            news: Arc::new(move || Box::new(feed.subscribe())),
            own: None,
        })
    }

    /// Ends it, and removes its files.
    ///
    /// # Errors
    /// A program cannot be ended.
    pub async fn end(self) -> anyhow::Result<()> {
        self.cluster.end().await?;
        Ok(fs::remove_dir_all(&self.directory)?)
    }
}

/// Name of an image for the nodes.
#[must_use]
pub fn reference(name: &str) -> String {
    format!("{}/{name}:{TAG}", registry::NAME)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::Choice;

    #[test]
    fn a_program_that_was_packed_has_no_real_components() {
        let suite = tempfile::tempdir().unwrap();
        let (root, lab) = (suite.path().to_owned(), suite.path().join("lab"));
        let workspace = Workspace { root, target: lab.clone(), lab, carried: Some(suite) };
        let asked =
            WantedCluster { nodes: 1, choice: Choice::default(), api: NodeApi::default(), record: None };
        let gathered = gather(&workspace, &asked, &Sut::of_cluster(&[]), Path::new(""), &workspace.lab);
        let refused = gathered.map(drop).unwrap_err().to_string();
        assert!(refused.contains("`cargo lab` in a workspace"), "{refused}");
    }
}
