// SPDX-License-Identifier: Apache-2.0
//! A cluster of real components for `cnilab up --real`: what it needs is found and made outside of the sandbox, and started inside.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, bail};
use nix::unistd::geteuid;
use real::image::Image;
use real::{
    Choice, Cluster, ClusterOptions, Components, NetworkName, Programs, RuntimeName, cgroups, registry,
};
use serde_json::json;

use crate::binaries::AGENT;
use crate::cli::{NodeNetwork, NodeRuntime, UpArgs};
use crate::locate::Workspace;
use crate::plan::{Real, Sut, UpPlan};
use crate::tier::images::{self, TAG};
use crate::{chart, components};

/// Files of the cluster: in the sandbox' own `/run`.
const DIRECTORY: &str = "/run/cnilab/real";
const NAMESPACE: &str = "istio-system";
const DAEMON_SET: &str = "istio-cni-node";

/// Finds the components, and makes the agent's image.
///
/// # Errors
/// A component is not built, or there is no image: the error says what to do.
pub fn plan(workspace: &Workspace, args: &UpArgs, sut: &Sut, workload: &Path) -> anyhow::Result<Real> {
    if !geteuid().is_root() {
        bail!(
            "a cluster of real components needs root: kubelet and runtime make cgroups and mounts of the machine"
        );
    }
    sweep();
    let (modules, cache) = components::places(workspace)?;
    // What is not built is said before anything is made.
    Programs::find(&Components::read(&modules, &cache)?, chosen(args), workload)?;
    let directory = std::path::absolute(workspace.lab.join("up"))?;
    let logs = directory.join("logs");
    match fs::remove_dir_all(&logs) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(error).with_context(|| format!("cannot remove {}", logs.display()));
        }
        _ => fs::create_dir_all(&logs).with_context(|| format!("cannot make {}", logs.display()))?,
    }
    let agent = directory.join("install-cni.tar");
    let mut build = Command::new(workspace.root.join("ci/image/build"));
    build.arg(&agent).arg(&sut.dir).arg(reference(AGENT)).stdin(Stdio::null()).stdout(Stdio::null());
    // It ends with the cluster, on the machine that built it.
    build.env("IMAGE_LIBC", "any");
    let status = build.status().context("cannot run ci/image/build")?;
    if !status.success() {
        bail!("ci/image/build ended with {status}");
    }
    Ok(Real { modules, cache, agent, logs, cgroup: cgroups::name(std::process::id()) })
}

/// Removes cgroups of clusters that have ended: this process' own, and those of processes that were killed.
pub fn sweep() {
    let is_gone = |pid: u32| pid == std::process::id() || !PathBuf::from(format!("/proc/{pid}")).exists();
    for (path, error) in cgroups::sweep(Path::new(cgroups::MOUNTS), is_gone) {
        eprintln!("cnilab: {} stays: {error}", path.display());
    }
}

/// Starts it; its API answers on the listener.
pub(super) async fn start(plan: &UpPlan, of: &Real, listener: TcpListener) -> anyhow::Result<Cluster> {
    let begun = Instant::now();
    let agent = Image::from_archive(&format!("{AGENT}:{TAG}"), &of.agent)?;
    let cluster = Cluster::start(ClusterOptions {
        programs: Programs::find(
            &Components::read(&of.modules, &of.cache)?,
            chosen(&plan.args),
            &plan.workload,
        )?,
        nodes: plan.args.nodes,
        directory: DIRECTORY.into(),
        logs: of.logs.clone(),
        images: vec![
            images::workload("workload", &plan.workload, &["workload"])?,
            images::workload("pause", &plan.workload, &["workload", "pause"])?,
            images::proxy(&plan.sut.dir)?,
            agent,
        ],
        cgroup: of.cgroup.clone(),
        record: plan.args.record.clone(),
    });
    let cluster = cluster.await?;
    tokio::spawn(real::cluster::forward(listener));
    eprintln!("nodes are ready after {:.1} s", begun.elapsed().as_secs_f64());
    if !plan.args.bare {
        deploy(&cluster, &plan.sut).await?;
        eprintln!("the node agent is ready after {:.1} s", begun.elapsed().as_secs_f64());
    }
    Ok(cluster)
}

fn chosen(args: &UpArgs) -> Choice {
    let runtime = match args.runtime {
        NodeRuntime::Containerd => RuntimeName::Containerd,
        NodeRuntime::Crio => RuntimeName::Crio,
    };
    let network = match args.network {
        NodeNetwork::Bridge => NetworkName::Bridge,
        NodeNetwork::MultusThin => NetworkName::MultusThin,
        NodeNetwork::MultusThick => NetworkName::MultusThick,
    };
    Choice { runtime, network }
}

/// Name of an image for the nodes.
fn reference(name: &str) -> String {
    format!("{}/{name}:{TAG}", registry::NAME)
}

/// Deploys the node agent of the product, and waits until it is ready on every node.
async fn deploy(cluster: &Cluster, sut: &Sut) -> anyhow::Result<()> {
    let mut objects =
        vec![json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": NAMESPACE } })];
    objects.extend(chart::render(&sut.dir.join(AGENT), &reference(AGENT), "{}", None)?);
    cluster.apply(&objects).await?;
    Ok(cluster.rolled_out(NAMESPACE, DAEMON_SET).await?)
}
