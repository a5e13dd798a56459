// SPDX-License-Identifier: Apache-2.0
//! The agent is killed again and again, each time a change of a file later, on a node that is each time as before.
//!
//! The new network names our plugin, and then its binary and its credentials are there, whole. Both leave the node as a kill in the middle did.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use cluster::hand::{Entry, Kind, Signal, Writing};
use cluster::{KUBECONFIG, PRIMARY};
use cluster::{PodName, SYSTEM_NAMESPACE};
use cucumber::then;
use k8s_openapi::api::core::v1::{Pod, PodStatus};
use kube::Api;
use serde_json::{Value, json};

use super::objects::{self, CONTAINER, Job};
use super::time::PROGRAM;
use super::{bare, chart, several};
use crate::binaries::MUTANT;
use crate::binaries::PLUGIN;
use crate::steps::crash_sweep::Ended;
use crate::steps::files::{Files, Process, files, process, wrong};
use crate::steps::wait::eventually;
use crate::steps::world::LabWorld;
use crate::stop::{Step, Stop};

/// Name of the pod that is killed.
const NAME: &str = "crash";
/// Deadline of the agent.
const SOON: Duration = Duration::from_secs(30);
/// Time in which an agent that has installed looks at what it wrote: what it changes then counts as well.
const SECOND_LOOK: Duration = Duration::from_secs(1);
/// Upper bound of its changes.
const MOST: u32 = 200;
/// It makes no fewer: a list is made, given its mode, filled, synced and renamed, and two files go or come. A sweep that sees less is blind.
const FEWEST: u32 = 7;
/// Lines of an agent that failed which are told.
const LINES: usize = 5;

/// Network that a runtime finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Network {
    Old,
    New,
}

/// The program that a process traces, its only child; `None` if it has ended.
async fn traced(tracer: &Process) -> Option<Process> {
    let children = tracer.file(&format!("task/{}/children", tracer.number));
    let children = tracer.hand.read(&children).await.ok()?;
    let number = String::from_utf8_lossy(&children).trim().parse().ok()?;
    Some(Process { hand: Arc::clone(&tracer.hand), number })
}

/// Ends an agent that has installed. Asked to end, it would find no DaemonSet and take everything back.
async fn kill(world: &mut LabWorld) -> Result<Ended, Stop> {
    let mut is_ours = false;
    match process(world, &PodName::in_system(NAME), CONTAINER).await {
        Ok(tracer) => {
            // Its container ends after it: the other way round it would go on for a moment, with its ports.
            if let Some(program) = traced(&tracer).await {
                match program.signal(Signal::Kill).await {
                    Ok(()) => is_ours = true,
                    Err(error) if traced(&tracer).await.is_some() => return Err(error),
                    Err(_) => {}
                }
            }
        }
        Err(Stop::Wrong(_)) => {}
        Err(error) => return Err(error),
    }
    let ended = gone(world, SOON).await?;
    // Not by us: killed after all that counts, or dead by itself.
    if is_ours { Ok(Ended::Done) } else { ended }
}

async fn gone(world: &mut LabWorld, within: Duration) -> Result<Result<Ended, Stop>, Stop> {
    let ended =
        async |world: &mut LabWorld| end(world).await?.ok_or_else(|| Stop::wrong("its pod has not ended"));
    eventually(world, within, ended).await
}

/// End of its pod; `None` while it has not ended.
async fn end(world: &mut LabWorld) -> Result<Option<Result<Ended, Stop>>, Stop> {
    let tier = world.cluster().await?;
    let pods: Api<Pod> = Api::namespaced(tier.client(), SYSTEM_NAMESPACE);
    let status = pods.get(NAME).await.map_err(Stop::harness)?.status.unwrap_or_default();
    match status.phase.as_deref() {
        Some("Succeeded") => Ok(Some(Ok(Ended::Done))),
        Some("Failed") => Ok(Some(Ended::of(exit_code(&status), &last_lines(&tier.logs().await?)))),
        _ => Ok(None),
    }
}

/// Exit code of its container, if it says one.
fn exit_code(status: &PodStatus) -> Option<i32> {
    let container = status.container_statuses.as_ref()?.first()?;
    Some(container.state.as_ref()?.terminated.as_ref()?.exit_code)
}

/// The last lines that its container printed, of a cluster's.
fn last_lines(lines: &[String]) -> String {
    let its = lines.iter().filter_map(|line| {
        let (from, text) = line.split_once(": ")?;
        from.contains(&format!("/{NAME} ")).then_some(text)
    });
    let its: Vec<_> = its.collect();
    its[its.len().saturating_sub(LINES)..].join("\n")
}

/// State before the agent, to compare with.
pub(super) struct Sweep {
    pub(super) node: Files,
    /// Conflist before the agent.
    pub(super) old: Vec<u8>,
    /// Plugin of the image.
    pub(super) plugin: Vec<u8>,
    job: Job,
    pub(super) pod: Value,
}

impl Sweep {
    /// For an install.
    pub(super) async fn new(world: &mut LabWorld) -> Result<Self, Stop> {
        bare(world)?;
        // Its account is all that it has of the chart: nothing grants it anything yet.
        let tier = world.cluster().await?;
        for account in
            chart::objects(world).await?.into_iter().filter(|object| object["kind"] == "ServiceAccount")
        {
            tier.apply(account).await?;
        }
        world.agent.account.applied(cluster::plugin_user());
        world.agent_is_tried().await?;
        let node = files(world).await?;
        world.agent.before = node.all(&node.paths.conf_dir).await?;
        let old = node.hand.read(&node.paths.conf_dir.join(PRIMARY)).await?;
        let plugin = several::own_plugin(world)?;
        Ok(Self { node, old, plugin, job: Job::Install, pod: pod(world, Job::Install).await? })
    }

    /// The same node, for a removal.
    pub(super) async fn removal(self, world: &LabWorld) -> Result<Self, Stop> {
        Ok(Self { job: Job::Purge, pod: pod(world, Job::Purge).await?, ..self })
    }

    /// Runs it once; `fatal` is the change at which it is killed.
    async fn run(&self, world: &mut LabWorld, fatal: u32) -> Result<Ended, Stop> {
        self.run_traced(world, &["--kill-at-change", &fatal.to_string()]).await
    }

    /// Runs it once, with these options of its tracer.
    pub(super) async fn run_traced(&self, world: &mut LabWorld, options: &[&str]) -> Result<Ended, Stop> {
        let mut pod = self.pod.clone();
        let words = ["workload", "fake-kernel"].iter().chain(options).chain(&["--", PROGRAM]);
        pod["spec"]["containers"][0]["command"] = words.copied().collect();
        let tier = world.cluster().await?;
        let start = tier.start_pod(&PodName::in_system(NAME), pod).await?;
        let ended = eventually(world, SOON, async |world| match end(world).await? {
            Some(ended) => Ok(Some(ended)),
            None if self.job == Job::Install && self.is_installed().await => Ok(None),
            None => Err(Stop::wrong(format!("its pod has not ended, its start was {start:?}"))),
        })
        .await?;
        let ended = match ended {
            Some(ended) => ended?,
            None => match gone(world, SECOND_LOOK).await {
                Ok(ended) => ended?,
                Err(Stop::Wrong(_)) => kill(world).await?,
                Err(error) => return Err(error),
            },
        };
        tier.delete_pod(&PodName::in_system(NAME)).await?;
        Ok(ended)
    }

    async fn is_installed(&self) -> bool {
        let running = self.node.hand.list(&self.node.paths.run_dir).await.unwrap_or_default();
        let is_there = |name: &&str| running.iter().any(|entry| entry.name == **name);
        ["agent.sock", "log.sock"].iter().all(is_there)
            && self.named().await.is_ok_and(|network| network == Network::New)
    }

    /// Network that a runtime finds; a wrong one is none, and neither is one that is not whole.
    async fn network(&self) -> Result<Network, Stop> {
        let named = self.named().await?;
        if named == Network::New {
            self.check_plugin_and_credentials().await?;
        }
        Ok(named)
    }

    /// By its configuration alone.
    async fn named(&self) -> Result<Network, Stop> {
        let (node, paths) = (&self.node, &self.node.paths);
        let found = node.all(&paths.conf_dir).await?;
        let lists =
            found.keys().filter(|name| [".conflist", ".conf", ".json"].iter().any(|end| name.ends_with(end)));
        if lists.collect::<Vec<_>>() != [PRIMARY] {
            return Err(Stop::wrong(format!("configurations are {:?}", found.keys())));
        }
        if found[PRIMARY] == self.old {
            return Ok(Network::Old);
        }
        let plugins = node.types(&paths.conf_dir.join(PRIMARY)).await?;
        if plugins != "lab-net, istio-cni" {
            return Err(Stop::wrong(format!("the network is {plugins:?}")));
        }
        Ok(Network::New)
    }

    async fn check_plugin_and_credentials(&self) -> Step {
        let (node, paths) = (&self.node, &self.node.paths);
        if node.hand.read(&paths.bin_dir.join(PLUGIN)).await.ok().as_ref() != Some(&self.plugin) {
            return Err(Stop::wrong("the network names our plugin, which is not there, or not whole"));
        }
        let credentials = node.hand.read(&paths.run_dir.join(KUBECONFIG)).await.map_err(wrong)?;
        serde_json::from_slice::<Value>(&credentials)
            .map(drop)
            .map_err(|error| Stop::wrong(format!("the plugin's credentials: {error}")))
    }

    /// Kills it before its first change, its second, and so on, until it comes to its end.
    async fn at_any_change(&self, world: &mut LabWorld) -> Step {
        let before = Held::of(&self.node).await?;
        for fatal in 1..MOST {
            before.restore(&self.node).await?;
            let ended = self.run(world, fatal).await?;
            self.network()
                .await
                .map_err(|why| Stop::wrong(format!("killed before change {fatal}, it left this: {why}")))?;
            if ended == Ended::Killed {
                continue;
            }
            if fatal <= FEWEST {
                return Err(Stop::harness(format!("it made {} changes", fatal - 1)));
            }
            self.came().await?;
            world.notes.push(format!("killed before each of {} changes", fatal - 1));
            before.restore(&self.node).await?;
            return self.run(world, fatal / 2).await.map(drop);
        }
        Err(Stop::harness("it never came to its end"))
    }

    /// Checks that the run without a kill completed.
    async fn came(&self) -> Step {
        let wanted = if self.job == Job::Install { Network::New } else { Network::Old };
        let binary = self.node.exists(&self.node.paths.bin_dir.join(PLUGIN)).await?;
        if self.network().await? == wanted && binary == (wanted == Network::New) {
            return Ok(());
        }
        Err(Stop::wrong(format!("it ended with the binary there: {binary}")))
    }
}

/// Pod of the agent, without the program that kills it.
async fn pod(world: &LabWorld, job: Job) -> Result<Value, Stop> {
    let mut pod = objects::once(NAME, &several::template(world).await?, job);
    // The kubelet starts the lab's program, which hands on its environment.
    let defect = world.node.mutant.iter().map(|name| json!({ "name": MUTANT, "value": name }));
    if let Some(env) = pod["spec"]["containers"][0]["env"].as_array_mut() {
        env.extend(defect);
    }
    Ok(pod)
}

/// The files of the node's directories that an agent changes. What is linked is the lab's.
struct Held(Vec<(PathBuf, Vec<u8>, u32)>);

impl Held {
    async fn of(node: &Files) -> Result<Self, Stop> {
        let mut held = Vec::new();
        for (path, entry) in changed(node).await? {
            if entry.kind == Kind::File {
                let content = node.hand.read(&path).await?;
                held.push((path, content, entry.mode));
            }
        }
        Ok(Self(held))
    }

    async fn restore(&self, node: &Files) -> Step {
        for (path, entry) in changed(node).await? {
            if entry.kind != Kind::Link {
                node.hand.remove(&path).await?;
            }
        }
        for (path, content, mode) in &self.0 {
            node.hand.write(path, content, Writing::Whole { mode: *mode }).await?;
        }
        Ok(())
    }
}

/// Entries of the directories.
async fn changed(node: &Files) -> Result<Vec<(PathBuf, Entry)>, Stop> {
    let mut all = Vec::new();
    for directory in [&node.paths.conf_dir, &node.paths.bin_dir, &node.paths.run_dir] {
        let entries = node.hand.list(directory).await?.into_iter();
        all.extend(entries.map(|entry| (directory.join(&entry.name), entry)));
    }
    Ok(all)
}

/// Kills it at each change in turn; the last run installs.
#[then("an installation that is killed before any change of a file leaves the old network or the new one")]
async fn installation(world: &mut LabWorld) -> Step {
    Sweep::new(world).await?.at_any_change(world).await
}

/// Kills it at each change in turn; the last run uninstalls.
#[then("a removal that is killed before any change of a file leaves the old network or the new one")]
async fn removal(world: &mut LabWorld) -> Step {
    let sweep = Sweep::new(world).await?;
    if sweep.run(world, MOST).await? != Ended::Done {
        return Err(Stop::wrong("it did not install"));
    }
    sweep.removal(world).await?.at_any_change(world).await
}
