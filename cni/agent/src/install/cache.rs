// SPDX-License-Identifier: Apache-2.0
//! Sandboxes in the runtimes' caches. Runtimes call DEL with the configuration of that time, so as long as a sandbox needs our plugin for
//! it, the binary has to stay: without it that pod could never be torn down.
//!
//! | where | who | what |
//! |---|---|---|
//! | `results/NETWORK-CONTAINER-IF` | CNI's library, for the runtime | the list that the sandbox was set up with, in base64, its namespace |
//! | `multus/results/NETWORK-CONTAINER-IF` | the same library, for Multus | the same of each delegate |
//! | `multus/CONTAINER` | Multus | its delegates, as a list; it calls DEL with them and removes the file |

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use netfilter::NodeRoot;
use serde::Deserialize;
use serde_json::Value;

use super::sandboxes::{self, By, CachedFile, Namespace, Uses};
use crate::conflist::OUR_TYPE;
use crate::files::{self, Doing, FileError};
use crate::settings::Places;

/// Multus' default `cniDir`, below the runtime's.
const MULTUS: &str = "multus";

/// Size limit of a cached file.
const LARGEST: u64 = 1 << 20;

/// A cached result of libcni, as far as we read it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Cached {
    #[serde(default)]
    container_id: String,
    /// The conflist, in base64.
    #[serde(default)]
    config: String,
    #[serde(default)]
    netns: String,
}

/// Counts sandboxes that need our plugin for a DEL.
///
/// # Errors
/// A directory is there and cannot be read: nobody knows, so the binary has to stay.
pub fn uses(places: &Places) -> Result<Uses, FileError> {
    let multus = places.cache_dir.join(MULTUS);
    let mut entries = Vec::new();
    for (directory, by) in [
        (places.cache_dir.join("results"), By::Library),
        (multus.join("results"), By::Library),
        (multus, By::Multus),
    ] {
        read(&directory, by, &mut entries)?;
    }
    let sight = Sight::of(places, &entries);
    Ok(sandboxes::uses(&entries, |path| sight.look(path), uptime(&places.proc_dir)))
}

fn read(directory: &Path, by: By, entries: &mut Vec<CachedFile>) -> Result<(), FileError> {
    let failed = |cause| Doing::List.failed(directory, cause);
    let listed = match fs::read_dir(directory) {
        Ok(listed) => listed,
        Err(cause) if files::is_absent(&cause) => return Ok(()),
        Err(cause) => return Err(failed(cause)),
    };
    for entry in listed {
        let path = entry.map_err(failed)?.path();
        let found = fs::metadata(&path).and_then(|found| {
            let is_small = found.len() <= LARGEST;
            let content = || if is_small { fs::read(&path).map(Some) } else { Ok(None) };
            if found.is_file() { Ok(Some((found.modified()?, content()?))) } else { Ok(None) }
        });
        match found {
            Ok(Some((written, content))) => {
                let age = SystemTime::now().duration_since(written).unwrap_or_default();
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                entries.push(parse(&name, content.as_deref(), by, age));
            }
            Ok(None) => {}
            // A pod ended meanwhile.
            Err(cause) if files::is_absent(&cause) => {}
            Err(cause) => return Err(Doing::Read.failed(&path, cause)),
        }
    }
    Ok(())
}

/// A file's entry. One that is of no known form counts if it has our name anywhere, and one that is too large (`None`) in any case.
fn parse(name: &str, content: Option<&[u8]>, by: By, age: Duration) -> CachedFile {
    let Some(content) = content else {
        return CachedFile { sandbox: name.to_owned(), by, names_us: true, netns: None, age };
    };
    let unknown =
        || CachedFile { sandbox: name.to_owned(), by, names_us: has_name(content), netns: None, age };
    if by == By::Multus {
        let delegates = serde_json::from_slice::<Vec<Value>>(content);
        let names_us = delegates.ok().map(|all| all.iter().any(is_delegate_of_ours));
        return CachedFile { names_us: names_us.unwrap_or_else(|| has_name(content)), ..unknown() };
    }
    let Ok(cached) = serde_json::from_slice::<Cached>(content) else { return unknown() };
    let config = BASE64.decode(&cached.config).ok().filter(|config| !config.is_empty());
    let sandbox = Some(cached.container_id).filter(|id| !id.is_empty()).unwrap_or_else(|| name.to_owned());
    CachedFile {
        sandbox,
        by,
        names_us: has_name(config.as_deref().unwrap_or(content)),
        netns: Some(PathBuf::from(cached.netns)).filter(|path| !path.as_os_str().is_empty()),
        age,
    }
}

/// Multus keeps a delegate's configuration in pieces, and whole in base64.
fn is_delegate_of_ours(delegate: &Value) -> bool {
    let whole = delegate["Bytes"].as_str().and_then(|text| BASE64.decode(text).ok());
    match whole.filter(|config| !config.is_empty()) {
        Some(config) => has_name(&config),
        None => has_name(delegate.to_string().as_bytes()),
    }
}

fn has_name(text: &[u8]) -> bool {
    text.windows(OUR_TYPE.len()).any(|window| window == OUR_TYPE.as_bytes())
}

/// The node's namespaces, as far as this process can see them.
struct Sight<'a> {
    places: &'a Places,
    /// Root file system of the node.
    root: Option<NodeRoot>,
    /// Directories of the node that the one that is mounted here is known to be: a namespace of the cache is in it.
    known: Vec<PathBuf>,
}

impl<'a> Sight<'a> {
    fn of(places: &'a Places, entries: &[CachedFile]) -> Self {
        let seen =
            |path: &&PathBuf| path.file_name().is_some_and(|name| places.netns_dir.join(name).exists());
        let found = entries.iter().filter_map(|entry| entry.netns.as_ref()).filter(seen);
        let known = found.filter_map(|path| path.parent().map(Path::to_owned)).collect();
        Self { places, root: NodeRoot::open(&places.proc_dir), known }
    }

    fn look(&self, path: &Path) -> Namespace {
        let proc_dir = &self.places.proc_dir;
        let here = match path.strip_prefix("/proc") {
            Ok(rest) if proc_dir.join("1").exists() => proc_dir.join(rest),
            Ok(_) => return Namespace::Unknown,
            Err(_) => {
                if let Some(there) = self.root.as_ref().and_then(|root| root.has(path)) {
                    return if there { Namespace::There } else { Namespace::Gone };
                }
                let is_known =
                    path.parent().is_some_and(|parent| self.known.iter().any(|known| known == parent));
                match path.file_name().filter(|_| is_known) {
                    Some(name) => self.places.netns_dir.join(name),
                    None => return Namespace::Unknown,
                }
            }
        };
        if here.symlink_metadata().is_ok() { Namespace::There } else { Namespace::Gone }
    }
}

/// Uptime of the node. The file is the same in every container.
fn uptime(proc_dir: &Path) -> Option<Duration> {
    let at = [proc_dir, Path::new("/proc")].map(|dir| dir.join("uptime"));
    let text = at.iter().find_map(|path| fs::read_to_string(path).ok())?;
    Duration::try_from_secs_f64(text.split(' ').next()?.parse().ok()?).ok()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::*;
    use crate::settings;

    struct Node {
        root: tempfile::TempDir,
        places: Places,
    }

    impl Node {
        fn new() -> Self {
            let root = tempfile::tempdir().unwrap();
            let mut places = settings::load(BTreeMap::new(), &BTreeMap::new(), |_| false).settings.places;
            (places.cache_dir, places.netns_dir) = (root.path().join("cache"), root.path().join("netns"));
            places.proc_dir = root.path().join("proc");
            let node = Self { root, places };
            node.write("proc/uptime", "1000000.00 1.00\n");
            node
        }

        fn write(&self, path: &str, text: &str) {
            let path = self.root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }

        /// Writes libcni's cached result of a sandbox with `namespace`.
        fn result(&self, path: &str, container: &str, namespace: &str, list: &str) {
            let entry = json!({
                "kind": "cniCacheV1", "containerId": container, "config": BASE64.encode(list), "ifName": "eth0",
                "networkName": "n", "netns": namespace, "cniArgs": [["K8S_POD_NAME", "istio-cni-node-x"]],
            });
            self.write(path, &entry.to_string());
        }

        fn uses(&self) -> (usize, usize) {
            let found = uses(&self.places).unwrap();
            (found.live, found.stale)
        }
    }

    const PRIMARY: &str = r#"{"plugins":[{"type":"ptp"}]}"#;
    const OURS: &str = r#"{"cniVersion":"0.3.1","name":"istio-cni","type":"istio-cni"}"#;

    #[test]
    fn entries_count_by_their_configuration() {
        let node = Node::new();
        assert_eq!(node.uses(), (0, 0));
        node.result("cache/results/a", "a", "", PRIMARY);
        assert_eq!(node.uses(), (0, 0), "a pod's name is not a plugin's");
        node.result("cache/results/b", "b", "", r#"{"plugins":[{"type":"ptp"},{"type":"istio-cni"}]}"#);
        node.write("cache/results/c", r#"{"of":"another form","plugins":[{"type":"istio-cni"}]}"#);
        assert_eq!(node.uses(), (2, 0));
        let large = fs::File::create(node.root.path().join("cache/results/d")).unwrap();
        large.set_len(LARGEST + 1).unwrap();
        assert_eq!(node.uses(), (3, 0), "nobody has read it");
    }

    /// As Multus 4.2 leaves it: the runtime's own entry names Multus alone.
    #[test]
    fn delegates_of_multus_count_until_their_sandbox_is_gone() {
        let node = Node::new();
        let multus = r#"{"name":"multus-cni-network","plugins":[{"type":"multus"}]}"#;
        node.write("netns/one", "");
        node.write("netns/other", "");
        node.result("cache/results/multus-cni-network-c1-eth0", "c1", "/var/run/netns/one", multus);
        node.result("cache/results/multus-cni-network-c2-eth0", "c2", "/var/run/netns/other", multus);
        assert_eq!(node.uses(), (0, 0));
        let delegates = json!([
            {"Conf": {"name": "", "type": ""}, "ConfList": {"name": "lab"}, "Bytes": BASE64.encode(PRIMARY)},
            {"Conf": {"name": "istio-cni", "type": "istio-cni"}, "Name": "default/istio-cni", "Bytes": BASE64.encode(OURS)},
        ]);
        node.write("cache/multus/c1", &delegates.to_string());
        assert_eq!(node.uses(), (1, 0), "what it will call DEL with");
        node.result("cache/multus/results/istio-cni-c1-net1", "c1", "/var/run/netns/one", OURS);
        assert_eq!(node.uses(), (1, 0), "one pod");
        fs::remove_file(node.root.path().join("cache/multus/c1")).unwrap();
        assert_eq!(node.uses(), (1, 0), "what the library keeps for it");
        fs::remove_file(node.root.path().join("netns/one")).unwrap();
        assert_eq!(node.uses(), (0, 1), "nobody calls DEL for a sandbox that is gone");
    }

    #[test]
    fn where_the_nodes_own_files_are_seen_they_tell() {
        let node = Node::new();
        node.write("root/run/netns/one", "");
        fs::create_dir_all(node.root.path().join("proc/1")).unwrap();
        std::os::unix::fs::symlink(node.root.path().join("root"), node.root.path().join("proc/1/root"))
            .unwrap();
        node.result("cache/results/a", "a", "/run/netns/one", OURS);
        node.result("cache/results/b", "b", "/run/netns/other", OURS);
        assert_eq!(node.uses(), (1, 1));
    }

    #[test]
    fn a_directory_that_may_be_another_one_proves_nothing() {
        let node = Node::new();
        node.write("netns/of-somebody", "");
        node.result("cache/results/a", "a", "/var/run/docker/netns/one", OURS);
        assert_eq!(node.uses(), (1, 0), "cniNetnsDir is not where this runtime keeps them");
        node.result("cache/results/b", "b", "/proc/4711/ns/net", OURS);
        assert_eq!(node.uses(), (2, 0), "processes of the node are not seen");
        node.write("proc/1/comm", "init");
        assert_eq!(node.uses(), (1, 1));
        node.write("proc/4711/ns/net", "");
        assert_eq!(node.uses(), (2, 0));
    }
}
