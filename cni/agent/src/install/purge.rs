// SPDX-License-Identifier: Apache-2.0
//! `install-cni --purge`: removes everything of ours by hand, in a container with the agent's mounts or on the node itself. There no mount leads to
//! the right directories: what the runtime's configuration names, and what is usual on the platforms that are known. It tells where it looked and where not.

use std::fs;
use std::path::{Path, PathBuf};

use protocol::directories::{self, BIN_DIRS, Directories, NET_DIRS, RUNTIME_CONFIGS};

use super::uninstall::{BinaryRemoval, Summary, uninstall_from};
use crate::settings::{Places, Settings};

/// Where a container of the agent has the node's directories.
const HOST: &str = "/host";
/// Mounts of a container of the agent.
const MOUNTS: [&str; 2] = ["/host/opt/cni/bin", "/host/etc/cni/net.d"];

/// Directories on the command line.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PurgeDirectories {
    pub net_dir: Option<PathBuf>,
    pub bin_dirs: Vec<PathBuf>,
}

/// Directories to search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sites {
    net_dirs: Vec<PathBuf>,
    bin_dirs: Vec<PathBuf>,
    /// Run directory, the runtime's cache, processes and namespaces.
    places: Places,
}

/// Result of the purge.
#[derive(Debug, Default)]
pub struct Purged {
    pub summary: Summary,
    /// Directories that were searched.
    pub looked: Vec<PathBuf>,
    /// Directories that do not exist.
    pub absent: Vec<PathBuf>,
    /// Causes of an incomplete search.
    pub blind: Option<&'static str>,
}

impl Sites {
    /// Finds directories to search, on a file system below `root`.
    #[must_use]
    pub fn find(places: &Places, given: &PurgeDirectories, root: &Path) -> Self {
        let on_node = !MOUNTS.iter().any(|path| below(root, Path::new(path)).is_dir());
        let found = if on_node { of_runtimes(root) } else { Directories::default() };
        let all = |named: &[PathBuf], mounted: &[PathBuf], found: Vec<String>, usual: &[&str]| {
            let paths = match (named, on_node) {
                ([], true) => {
                    found.into_iter().map(PathBuf::from).chain(usual.iter().map(PathBuf::from)).collect()
                }
                ([], false) => mounted.to_vec(),
                (named, _) => named.to_vec(),
            };
            let mut distinct: Vec<PathBuf> = Vec::new();
            for path in paths.iter().map(|path| below(root, path)) {
                if !distinct.contains(&path) {
                    distinct.push(path);
                }
            }
            distinct
        };
        let net_dir = std::slice::from_ref(&places.net_dir);
        let seen = |mounted: &Path| {
            let of_node = mounted.strip_prefix(HOST).ok().filter(|_| on_node);
            below(root, of_node.unwrap_or(mounted))
        };
        Self {
            net_dirs: all(given.net_dir.as_slice(), net_dir, found.net, &NET_DIRS),
            bin_dirs: all(&given.bin_dirs, &places.target_dirs, found.bin, &BIN_DIRS),
            places: Places {
                // The node's own plugins: nothing of what is in there says what the agent's image ships.
                source_dir: if on_node { PathBuf::new() } else { places.source_dir.clone() },
                run_dir: below(root, &places.run_dir),
                netns_dir: seen(&places.netns_dir),
                cache_dir: seen(&places.cache_dir),
                proc_dir: seen(&places.proc_dir),
                ..places.clone()
            },
        }
    }

    /// Removes everything of ours from them.
    #[must_use]
    pub fn purge(&self, settings: &Settings, binary: BinaryRemoval) -> Purged {
        let split = |all: &[PathBuf]| all.iter().cloned().partition(|path: &PathBuf| path.is_dir());
        let (net_dirs, no_net): (Vec<_>, Vec<_>) = split(&self.net_dirs);
        let (bin_dirs, no_bin): (Vec<_>, Vec<_>) = split(&self.bin_dirs);
        let (run_dir, no_run): (Vec<_>, Vec<_>) = split(std::slice::from_ref(&self.places.run_dir));
        let blind = match (net_dirs.is_empty(), bin_dirs.is_empty()) {
            (true, _) => {
                Some("no directory of CNI configurations is there: name it with --mounted-cni-net-dir")
            }
            (_, true) => Some("no directory of CNI plugins is there: name it with --cni-bin-dir"),
            _ => None,
        };
        let places = Places { target_dirs: bin_dirs.clone(), ..self.places.clone() };
        let settings = Settings { places, ..settings.clone() };
        let summary = uninstall_from(&settings, &net_dirs, binary);
        let looked = [net_dirs, bin_dirs, run_dir].concat();
        Purged { summary, looked, absent: [no_net, no_bin, no_run].concat(), blind }
    }
}

/// Directories in the configuration of the node's runtimes.
fn of_runtimes(root: &Path) -> Directories {
    let mut found = Directories::default();
    for path in RUNTIME_CONFIGS.iter().map(|path| below(root, Path::new(path))) {
        let mut files: Vec<PathBuf> = match fs::read_dir(&path) {
            Ok(listed) => listed.flatten().map(|entry| entry.path()).collect(),
            Err(_) => vec![path],
        };
        files.sort();
        for text in files.iter().filter_map(|file| fs::read_to_string(file).ok()) {
            let Directories { net, bin, .. } = directories::of_runtime(&text);
            found.net.extend(net);
            found.bin.extend(bin);
        }
    }
    found
}

fn below(root: &Path, path: &Path) -> PathBuf {
    root.join(path.strip_prefix("/").unwrap_or(path))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::settings;

    const CHAINED: &str =
        r#"{"name":"n","cniVersion":"1.0.0","plugins":[{"type":"ptp"},{"type":"istio-cni"}]}"#;
    const ALONE: &str = r#"{"name":"istio-cni","cniVersion":"0.3.1","type":"istio-cni"}"#;

    struct Machine {
        root: tempfile::TempDir,
        settings: Settings,
    }

    impl Machine {
        fn new(files: &[(&str, &str)]) -> Self {
            let root = tempfile::tempdir().unwrap();
            for (path, text) in files {
                let path = below(root.path(), Path::new(path));
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, text).unwrap();
            }
            Self { root, settings: settings::load(BTreeMap::new(), &BTreeMap::new(), |_| false).settings }
        }

        fn purge(&self, given: &PurgeDirectories) -> Purged {
            self.purge_with(given, BinaryRemoval::Always)
        }

        fn purge_with(&self, given: &PurgeDirectories, binary: BinaryRemoval) -> Purged {
            Sites::find(&self.settings.places, given, self.root.path()).purge(&self.settings, binary)
        }

        fn has(&self, path: &str) -> bool {
            below(self.root.path(), Path::new(path)).exists()
        }

        fn names(&self, paths: &[PathBuf]) -> Vec<String> {
            let name =
                |path: &PathBuf| format!("/{}", path.strip_prefix(self.root.path()).unwrap().display());
            paths.iter().map(name).collect()
        }
    }

    #[test]
    fn on_the_node_its_own_directories_are_cleaned_and_no_other_plugin_goes() {
        let machine = Machine::new(&[
            ("/opt/cni/bin/istio-cni", "ours"),
            ("/opt/cni/bin/bridge", "another's"),
            ("/etc/cni/net.d/10.conflist", CHAINED),
            ("/etc/cni/multus/net.d/istio-cni.conf", ALONE),
            ("/var/run/istio-cni/istio-cni-kubeconfig", "secret"),
        ]);
        let purged = machine.purge(&PurgeDirectories::default());
        assert!(purged.summary.errors.is_empty() && purged.blind.is_none(), "{purged:?}");
        for gone in [
            "/opt/cni/bin/istio-cni",
            "/etc/cni/multus/net.d/istio-cni.conf",
            "/var/run/istio-cni/istio-cni-kubeconfig",
        ] {
            assert!(!machine.has(gone), "{gone}");
        }
        assert!(machine.has("/opt/cni/bin/bridge"), "the node's own plugins are no copies of ours");
        let list =
            fs::read_to_string(below(machine.root.path(), Path::new("/etc/cni/net.d/10.conflist"))).unwrap();
        assert!(list.contains("ptp") && !list.contains("istio-cni"), "{list}");
        assert_eq!(
            machine.names(&purged.looked),
            ["/etc/cni/net.d", "/etc/cni/multus/net.d", "/opt/cni/bin", "/var/run/istio-cni"]
        );
        assert!(machine.names(&purged.absent).contains(&"/home/kubernetes/bin".to_owned()), "{purged:?}");
    }

    #[test]
    fn a_binary_that_a_del_needs_is_kept_wherever_the_cache_is_seen() {
        for (host, cached, kept) in [
            ("", "/var/lib/cni/results/a", true),
            ("/host", "/var/lib/cni/results/a", true),
            ("", "/var/lib/other", false),
            ("/host", "/var/lib/cni/other", false),
        ] {
            let path = |path: &str| format!("{host}{path}");
            let (binary, list) = (path("/opt/cni/bin/istio-cni"), path("/etc/cni/net.d/10.conflist"));
            let cached = path(cached);
            let machine = Machine::new(&[(&binary, "ours"), (&list, CHAINED), (&cached, CHAINED)]);
            let purged = machine.purge_with(&PurgeDirectories::default(), BinaryRemoval::WhileUnused);
            assert_eq!(machine.has(&binary), kept, "{host} {cached:?}: {purged:?}");
        }
    }

    #[test]
    fn on_the_node_the_runtimes_own_configuration_is_believed() {
        let machine = Machine::new(&[
            (
                "/etc/crio/crio.conf.d/10.conf",
                "network_dir = \"/k/net.d\"\nplugin_dirs = [\n\"/k/bin\",\n]\n",
            ),
            ("/k/bin/istio-cni", "ours"),
            ("/k/net.d/10.conflist", CHAINED),
        ]);
        let purged = machine.purge(&PurgeDirectories::default());
        assert!(!machine.has("/k/bin/istio-cni") && purged.blind.is_none(), "{purged:?}");
        assert_eq!(machine.names(&purged.looked), ["/k/net.d", "/k/bin"]);
    }

    #[test]
    fn what_the_operator_names_is_looked_at_and_nothing_else() {
        let machine =
            Machine::new(&[("/k/bin/istio-cni", ""), ("/k/net.d/a", ""), ("/opt/cni/bin/istio-cni", "")]);
        let given = PurgeDirectories { net_dir: Some("/k/net.d".into()), bin_dirs: vec!["/k/bin".into()] };
        let purged = machine.purge(&given);
        assert_eq!(machine.names(&purged.looked), ["/k/net.d", "/k/bin"]);
        assert!(machine.has("/opt/cni/bin/istio-cni") && !machine.has("/k/bin/istio-cni"));
    }

    #[test]
    fn in_the_agents_container_its_mounts_are_cleaned() {
        let machine = Machine::new(&[
            ("/host/opt/cni/bin/istio-cni", "ours"),
            ("/host/etc/cni/net.d/10.conflist", CHAINED),
            ("/opt/cni/bin/istio-cni", "the image's"),
        ]);
        let purged = machine.purge(&PurgeDirectories::default());
        assert!(machine.has("/opt/cni/bin/istio-cni") && !machine.has("/host/opt/cni/bin/istio-cni"));
        assert_eq!(machine.names(&purged.absent), ["/var/run/istio-cni"]);
    }

    #[test]
    fn who_sees_no_directory_does_not_say_that_all_is_gone() {
        let machine = Machine::new(&[("/etc/cni/net.d/10.conflist", CHAINED)]);
        assert!(
            machine
                .purge(&PurgeDirectories::default())
                .blind
                .is_some_and(|why| why.contains("--cni-bin-dir"))
        );
        assert!(
            Machine::new(&[])
                .purge(&PurgeDirectories::default())
                .blind
                .is_some_and(|why| why.contains("--mounted-cni-net-dir"))
        );
    }
}
