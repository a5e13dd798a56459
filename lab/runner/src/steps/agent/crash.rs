// SPDX-License-Identifier: Apache-2.0
//! The agent is killed again and again, each time a change of a file later, on a node that is each time as before.
//!
//! The new network names our plugin, and then its binary and its credentials are there, whole. Both leave the node as a kill in the middle did.

use std::fs::{self, Permissions};
use std::path::{Path, PathBuf};
use std::time::Duration;

use cluster::KUBECONFIG;
use cluster::{NodePaths, SYSTEM_NAMESPACE};
use cucumber::then;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use super::objects::{self, CONTAINER, Job};
use super::{bare, chart, eventually, files, paths, types};
use crate::binaries::MUTANT;
use crate::binaries::PLUGIN;
use crate::steps::world::LabWorld;
use crate::stop::{Step, Stop};

/// Name of the pod that is killed.
const NAME: &str = "crash";
/// Deadline of the agent.
const SOON: Duration = Duration::from_secs(30);
/// Upper bound of its changes.
const MOST: u32 = 200;
/// It makes no fewer: a list is made, given its mode, filled, synced and renamed, and two files go or come. A sweep that sees less is blind.
const FEWEST: u32 = 7;
/// Conflist of the node's network.
const LIST: &str = "10-lab.conflist";

/// Network that a runtime finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Network {
    Old,
    New,
}

/// End of a run of the agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ended {
    Killed,
    Done,
}

/// State before the agent, to compare with.
struct Sweep {
    paths: NodePaths,
    /// Conflist before the agent.
    old: Vec<u8>,
    /// Plugin of the image.
    plugin: Vec<u8>,
    job: Job,
    pod: Value,
}

impl Sweep {
    /// For an install.
    async fn new(world: &mut LabWorld) -> Result<Self, Stop> {
        bare(world)?;
        // Nothing grants it anything yet.
        world.agent.tried = true;
        let paths = paths(world).await?;
        world.agent.before = files(&paths.conf_dir);
        let old = fs::read(paths.conf_dir.join(LIST)).map_err(Stop::harness)?;
        let plugin = fs::read(world.lab()?.plan.sut.dir.join(PLUGIN)).map_err(Stop::harness)?;
        Ok(Self { paths, old, plugin, job: Job::Install, pod: pod(world, Job::Install)? })
    }

    /// Runs it once; `fatal` is the change at which it is killed.
    async fn run(&self, world: &mut LabWorld, fatal: u32) -> Result<Ended, Stop> {
        let mut pod = self.pod.clone();
        pod["spec"]["containers"][0]["command"] = json!([
            "workload",
            "fake-kernel",
            "--kill-at-change",
            fatal.to_string(),
            "--",
            "/image/install-cni"
        ]);
        let tier = world.cluster().await?;
        let start = tier.start_pod(SYSTEM_NAMESPACE, NAME, pod).await?;
        let pods: Api<Pod> = Api::namespaced(tier.client(), SYSTEM_NAMESPACE);
        let mut ended = eventually(SOON, async || {
            let phase = pods.get(NAME).await.map_err(Stop::harness)?.status.and_then(|status| status.phase);
            match phase.as_deref() {
                Some("Failed") => Ok(Ended::Killed),
                Some("Succeeded") => Ok(Ended::Done),
                _ if self.job == Job::Install && self.is_installed() => Ok(Ended::Done),
                other => Err(Stop::wrong(format!("its pod is {other:?}, its start was {start:?}"))),
            }
        })
        .await?;
        if self.job == Job::Install && ended == Ended::Done {
            // Asked to end, it would find no DaemonSet and take everything back. One that is gone was killed after all that counts.
            let pid = tier.workload(SYSTEM_NAMESPACE, NAME).await?.process(CONTAINER);
            match pid.and_then(|pid| i32::try_from(pid).ok()) {
                Some(pid) => kill(Pid::from_raw(pid), Signal::SIGKILL).map_err(Stop::harness)?,
                None => ended = Ended::Killed,
            }
        }
        tier.delete_pod(SYSTEM_NAMESPACE, NAME).await?;
        Ok(ended)
    }

    fn is_installed(&self) -> bool {
        let serves = ["agent.sock", "log.sock"].iter().all(|name| self.paths.run_dir.join(name).exists());
        serves && self.network().is_ok_and(|network| network == Network::New)
    }

    /// Network that a runtime finds; a wrong one is none.
    fn network(&self) -> Result<Network, Stop> {
        let found = files(&self.paths.conf_dir);
        let lists =
            found.keys().filter(|name| [".conflist", ".conf", ".json"].iter().any(|end| name.ends_with(end)));
        if lists.collect::<Vec<_>>() != [LIST] {
            return Err(Stop::wrong(format!("configurations are {:?}", found.keys())));
        }
        if found[LIST] == self.old {
            return Ok(Network::Old);
        }
        let plugins = types(&self.paths.conf_dir.join(LIST))?;
        if plugins != "lab-net, istio-cni" {
            return Err(Stop::wrong(format!("the network is {plugins:?}")));
        }
        if fs::read(self.paths.bin_dir.join(PLUGIN)).ok().as_ref() != Some(&self.plugin) {
            return Err(Stop::wrong("the network names our plugin, which is not there, or not whole"));
        }
        let credentials =
            fs::read(self.paths.run_dir.join(KUBECONFIG)).map_err(|error| Stop::wrong(error.to_string()))?;
        serde_json::from_slice::<Value>(&credentials)
            .map_err(|error| Stop::wrong(format!("the plugin's credentials: {error}")))?;
        Ok(Network::New)
    }

    /// Kills it before its first change, its second, and so on, until it comes to its end.
    async fn at_any_change(&self, world: &mut LabWorld) -> Step {
        let before = Held::of(&self.paths)?;
        for fatal in 1..MOST {
            before.restore(&self.paths)?;
            let ended = self.run(world, fatal).await?;
            self.network()
                .map_err(|why| Stop::wrong(format!("killed before change {fatal}, it left this: {why}")))?;
            if ended == Ended::Killed {
                continue;
            }
            if fatal <= FEWEST {
                return Err(Stop::harness(format!("it made {} changes", fatal - 1)));
            }
            self.came()?;
            world.notes.push(format!("killed before each of {} changes", fatal - 1));
            before.restore(&self.paths)?;
            return self.run(world, fatal / 2).await.map(drop);
        }
        Err(Stop::harness("it never came to its end"))
    }

    /// Checks that the run without a kill completed.
    fn came(&self) -> Step {
        let wanted = if self.job == Job::Install { Network::New } else { Network::Old };
        let binary = self.paths.bin_dir.join(PLUGIN).exists();
        if self.network()? == wanted && binary == (wanted == Network::New) {
            return Ok(());
        }
        Err(Stop::wrong(format!("it ended with the binary there: {binary}")))
    }
}

/// Pod of the agent, without the program that kills it.
fn pod(world: &LabWorld, job: Job) -> Result<Value, Stop> {
    let set = chart::objects(world)?.into_iter().find(|object| object["kind"] == "DaemonSet");
    let set = set.ok_or_else(|| Stop::wrong("the chart renders no DaemonSet"))?;
    let mut pod = objects::once(NAME, &set, job);
    // The kubelet starts the lab's program, which hands on its environment.
    let defect = world.node.mutant.iter().map(|name| json!({ "name": MUTANT, "value": name }));
    if let Some(env) = pod["spec"]["containers"][0]["env"].as_array_mut() {
        env.extend(defect);
    }
    Ok(pod)
}

/// The files of the node's directories that an agent changes. What is linked is the lab's.
struct Held(Vec<(PathBuf, Vec<u8>, Permissions)>);

impl Held {
    fn of(paths: &NodePaths) -> Result<Self, Stop> {
        let mut held = Vec::new();
        for path in changed(paths)? {
            let kind = fs::symlink_metadata(&path).map_err(Stop::harness)?;
            if kind.is_file() {
                held.push((path.clone(), fs::read(&path).map_err(Stop::harness)?, kind.permissions()));
            }
        }
        Ok(Self(held))
    }

    fn restore(&self, paths: &NodePaths) -> Step {
        for path in changed(paths)? {
            if !fs::symlink_metadata(&path).map_err(Stop::harness)?.is_symlink() {
                fs::remove_file(&path).map_err(Stop::harness)?;
            }
        }
        for (path, text, permissions) in &self.0 {
            fs::write(path, text).map_err(Stop::harness)?;
            fs::set_permissions(path, permissions.clone()).map_err(Stop::harness)?;
        }
        Ok(())
    }
}

/// Files in the directories.
fn changed(paths: &NodePaths) -> Result<Vec<PathBuf>, Stop> {
    let list = |directory: &Path| {
        let entries = fs::read_dir(directory).map_err(Stop::harness)?;
        entries.map(|entry| Ok(entry.map_err(Stop::harness)?.path())).collect::<Result<Vec<_>, Stop>>()
    };
    let all = [&paths.conf_dir, &paths.bin_dir, &paths.run_dir].map(|directory| list(directory));
    all.into_iter().collect::<Result<Vec<_>, _>>().map(|all| all.concat())
}

/// Kills it at each change in turn; the last run installs.
#[then("an installation that is killed before any change of a file leaves the old network or the new one")]
async fn installation(world: &mut LabWorld) -> Step {
    Sweep::new(world).await?.at_any_change(world).await
}

/// Kills it at each change in turn; the last run uninstalls.
#[then("a removal that is killed before any change of a file leaves the old network or the new one")]
async fn removal(world: &mut LabWorld) -> Step {
    let mut sweep = Sweep::new(world).await?;
    if sweep.run(world, MOST).await? != Ended::Done {
        return Err(Stop::wrong("it did not install"));
    }
    (sweep.job, sweep.pod) = (Job::Purge, pod(world, Job::Purge)?);
    sweep.at_any_change(world).await
}
