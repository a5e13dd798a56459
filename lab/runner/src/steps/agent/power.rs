// SPDX-License-Identifier: Apache-2.0
//! The node loses power while the agent installs, or takes everything back. What it does to files is written down, and every disk that may be left
//! of it must have a whole network. The run directory is in memory: its files are gone in any case.

use std::path::{Path, PathBuf};

use cluster::PRIMARY;
use cluster::power::{Change, Content, Disk, disks};
use cucumber::then;
use serde_json::Value;

use super::crash::Sweep;
use crate::binaries::PLUGIN;
use crate::steps::crash_sweep::Ended;
use crate::steps::world::LabWorld;
use crate::stop::{Step, Stop};

/// Journal, in the run directory.
const JOURNAL: &str = "journal";
/// A list is made, synced and renamed, and its directory synced; a binary comes or goes, and so does its name. A journal with less is blind.
const FEWEST: usize = 6;
/// Names of files that runtimes read.
const READ: [&str; 3] = ["conflist", "conf", "json"];

/// Directories of the node as the agent's container has them.
struct Places {
    lists: PathBuf,
    binaries: PathBuf,
    journal: PathBuf,
}

impl Places {
    /// By the mounts of its pod.
    fn of(pod: &Value) -> Result<Self, Stop> {
        let spec = &pod["spec"];
        let mounts = || spec["containers"][0]["volumeMounts"].as_array().into_iter().flatten();
        let volume = |path: &str| {
            let mut volumes = spec["volumes"].as_array().into_iter().flatten();
            volumes.find(|volume| volume["hostPath"]["path"] == path).map(|volume| &volume["name"])
        };
        let at = |path: &str| {
            let name =
                volume(path).ok_or_else(|| Stop::wrong(format!("the agent's pod mounts no {path}")))?;
            let mount =
                mounts().find(|mount| mount["name"] == *name).and_then(|mount| mount["mountPath"].as_str());
            mount
                .map(PathBuf::from)
                .ok_or_else(|| Stop::wrong(format!("the agent's container mounts no {path}")))
        };
        let default = cluster::NodePaths::default();
        let on_node = |path: &Path| at(&path.display().to_string());
        Ok(Self {
            lists: on_node(&default.conf_dir)?,
            binaries: on_node(&default.bin_dir)?,
            journal: on_node(&default.run_dir)?.join(JOURNAL),
        })
    }
}

/// A network that is whole: the old one, or the new one with its plugin.
struct Whole<'a> {
    places: &'a Places,
    old: &'a [u8],
    plugin: Content,
}

impl Whole<'_> {
    /// The reason why a disk has none.
    fn fault(&self, disk: &Disk) -> Option<String> {
        let is_read = |path: &&PathBuf| {
            path.parent() == Some(self.places.lists.as_path())
                && path.extension().is_some_and(|end| READ.iter().any(|read| end == *read))
        };
        let primary = self.places.lists.join(PRIMARY);
        let lists: Vec<_> = disk.keys().filter(is_read).collect();
        if lists != [&primary] {
            return Some(format!("the configurations are {lists:?}"));
        }
        let list = &disk[&primary];
        if *list == Content::of(self.old) {
            return None;
        }
        let text = list.text.as_deref().unwrap_or_default();
        let parsed: Value = serde_json::from_str(text).unwrap_or_default();
        let types: Vec<_> = parsed["plugins"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|one| one["type"].as_str())
            .collect();
        if types != [cluster::BASE_PLUGIN, PLUGIN] {
            return Some(format!("the list is neither the old one nor a whole one: {text:?}"));
        }
        match disk.get(&self.places.binaries.join(PLUGIN)) {
            Some(plugin) if *plugin == self.plugin => None,
            Some(plugin) => {
                Some(format!("the list names our plugin, of which {} bytes are left", plugin.length))
            }
            None => Some("the list names our plugin, which is not there".to_owned()),
        }
    }
}

async fn lose_power(world: &mut LabWorld, sweep: &Sweep) -> Step {
    let places = Places::of(&sweep.pod)?;
    let path = |path: &Path| path.display().to_string();
    let (journal, lists, binaries) = (path(&places.journal), path(&places.lists), path(&places.binaries));
    let options = ["--journal", &journal, "--durable", &lists, "--durable", &binaries];
    if sweep.run_traced(world, &options).await? != Ended::Done {
        return Err(Stop::harness("the agent was killed by somebody else"));
    }
    let node = &sweep.node;
    let written = node.hand.read(&node.paths.run_dir.join(JOURNAL)).await?;
    let lines = written.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let changes: Vec<Change> =
        lines.map(serde_json::from_slice).collect::<Result<_, _>>().map_err(Stop::harness)?;
    let made = changes.iter().filter(|change| !matches!(change, Change::Found { .. })).count();
    if made < FEWEST {
        return Err(Stop::harness(format!("its journal has {made} changes: {changes:?}")));
    }
    let whole = Whole { places: &places, old: &sweep.old, plugin: Content::of(&sweep.plugin) };
    let left = disks(&changes);
    if let Some(fault) = left.iter().find_map(|disk| whole.fault(disk)) {
        return Err(Stop::wrong(format!("after a loss of power {fault}")));
    }
    world.notes.push(format!("each of {} disks after {made} changes has a whole network", left.len()));
    Ok(())
}

/// Every disk that a loss of power may leave, by what was synced: content of files, names of directories.
#[then("an installation that loses power at any moment leaves the old network or the new one")]
async fn installation(world: &mut LabWorld) -> Step {
    let sweep = Sweep::new(world).await?;
    lose_power(world, &sweep).await
}

/// As for an installation; what is taken back was installed before.
#[then("a removal that loses power at any moment leaves the old network or the new one")]
async fn removal(world: &mut LabWorld) -> Step {
    let sweep = Sweep::new(world).await?;
    if sweep.run_traced(world, &[]).await? != Ended::Done {
        return Err(Stop::wrong("it did not install"));
    }
    let sweep = sweep.removal(world).await?;
    lose_power(world, &sweep).await
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: &str = r#"{"plugins":[{"type":"lab-net"}]}"#;
    const NEW: &str = r#"{"plugins":[{"type":"lab-net"},{"type":"istio-cni"}]}"#;

    fn fault(files: &[(&str, &str)]) -> Option<String> {
        let places = Places { lists: "/l".into(), binaries: "/b".into(), journal: "/j".into() };
        let whole = Whole { places: &places, old: OLD.as_bytes(), plugin: Content::of(b"plugin") };
        let disk = files.iter().map(|(at, text)| ((*at).into(), Content::of(text.as_bytes()))).collect();
        whole.fault(&disk)
    }

    #[test]
    fn a_whole_network_is_the_old_one_or_the_new_one_with_its_plugin() {
        let (list, plugin) = ("/l/10-lab.conflist", "/b/istio-cni");
        for files in [
            vec![(list, OLD)],
            vec![(list, OLD), (plugin, "")],
            vec![(list, NEW), (plugin, "plugin")],
            vec![(list, OLD), ("/l/10-lab.conflist.tmp.1", "")],
        ] {
            assert_eq!(fault(&files), None, "{files:?}");
        }
        for files in [
            vec![],
            vec![(list, "")],
            vec![(list, NEW)],
            vec![(list, NEW), (plugin, "")],
            vec![(list, OLD), ("/l/05-other.conf", "")],
        ] {
            assert!(fault(&files).is_some(), "{files:?}");
        }
    }

    #[test]
    fn directories_are_found_by_the_mounts_of_a_pod() {
        let volume =
            |name: &str, path: &str| serde_json::json!({ "name": name, "hostPath": { "path": path } });
        let mount = |name: &str, at: &str| serde_json::json!({ "name": name, "mountPath": at });
        let pod = serde_json::json!({ "spec": {
            "volumes": [volume("b", "/opt/cni/bin"), volume("l", "/etc/cni/net.d"), volume("r", "/var/run/istio-cni")],
            "containers": [{ "volumeMounts": [mount("l", "/x/l"), mount("b", "/x/b"), mount("r", "/x/r")] }],
        }});
        let places = Places::of(&pod).unwrap();
        assert_eq!(
            (places.lists, places.binaries, places.journal),
            ("/x/l".into(), "/x/b".into(), "/x/r/journal".into())
        );
    }
}
