// SPDX-License-Identifier: Apache-2.0
//! The plugin's configuration, for whoever is not given it on standard input.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use protocol::directories::{self, NET_DIRS, RUNTIME_CONFIGS};
use protocol::error::{CniError, Code};
use protocol::netconf::NetConf;
use protocol::pod::PodFacts;
use serde_json::{Value, json};

use super::DiagnoseError;
use crate::world::Env;

/// Our name in a conflist.
const TYPE: &str = "istio-cni";
/// Where the node agent's container has the directory that it installs into.
const MOUNTED: &str = "/host/etc/cni/net.d";
/// The same, where the agent was told of another place.
const MOUNTED_AT: &str = "MOUNTED_CNI_NET_DIR";
/// A runtime's configuration is far smaller.
const LARGEST: u64 = 1 << 20;

/// Reads the configuration in `path`, or in the first file that has one of the directories that runtimes and Multus read.
pub(super) fn read(path: Option<&PathBuf>, env: Env<'_>) -> Result<NetConf, DiagnoseError> {
    if let Some(path) = path {
        let found = from_file(path)?;
        return found.unwrap_or_else(|| Err(not_ours(path)));
    }
    find(Path::new("/"), env)
}

/// Looks in all directories below `root`: the agent's, the runtime's as its configuration says, the usual ones, and those that a Multus among
/// them reads.
fn find(root: &Path, env: Env<'_>) -> Result<NetConf, DiagnoseError> {
    let mut directories = vec![env(MOUNTED_AT).unwrap_or_else(|| MOUNTED.to_owned())];
    directories.extend(RUNTIME_CONFIGS.iter().flat_map(|path| of_runtimes(&below(root, path))));
    directories.extend(NET_DIRS.map(str::to_owned));
    let mut looked: Vec<(String, Option<io::Error>)> = Vec::new();
    let mut next = 0;
    while let Some(directory) = directories.get(next).cloned() {
        next += 1;
        if looked.iter().any(|(known, _)| *known == directory) {
            continue;
        }
        let listed = files(&below(root, &directory));
        // A file of somebody else's that cannot be read is not ours to complain about.
        let paths = listed.as_ref().map_or(&[][..], Vec::as_slice);
        if let Some(found) = paths.iter().find_map(|path| from_file(path).ok().flatten()) {
            return found;
        }
        directories.extend(paths.iter().filter_map(|path| of_multus(path)));
        looked.push((directory, listed.err()));
    }
    Err(DiagnoseError::NoConf { looked: Looked(looked) })
}

/// Where it was looked in vain.
#[derive(Debug)]
pub(super) struct Looked(Vec<(String, Option<io::Error>)>);

impl fmt::Display for Looked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_absent = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
        let there = self.0.iter().filter(|(_, error)| !error.as_ref().is_some_and(is_absent));
        let searched: Vec<_> = there
            .map(|(directory, error)| match error {
                None => directory.clone(),
                Some(error) => format!("{directory} ({error})"),
            })
            .collect();
        match searched.as_slice() {
            [] => f.write_str("none of the directories that runtimes read is there"),
            searched => write!(f, "no file in {} names istio-cni", searched.join(", ")),
        }
    }
}

fn below(root: &Path, path: &str) -> PathBuf {
    root.join(path.trim_start_matches('/'))
}

/// The files of a directory, in order.
fn files(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut paths: Vec<PathBuf> = std::fs::read_dir(directory)?.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    Ok(paths)
}

/// The directories that a runtime's configuration names, or those in a directory of such.
fn of_runtimes(path: &Path) -> Vec<String> {
    let all = files(path).unwrap_or_else(|_| vec![path.to_owned()]);
    let small = |path: &&PathBuf| {
        std::fs::metadata(path).is_ok_and(|found| found.is_file() && found.len() <= LARGEST)
    };
    let texts = all.iter().filter(small).filter_map(|path| std::fs::read_to_string(path).ok());
    texts.flat_map(|text| directories::of_runtime(&text).net).collect()
}

/// Where a Multus that is configured in this file looks for the networks that pods name.
fn of_multus(path: &Path) -> Option<String> {
    let value: Value = serde_json::from_slice(&std::fs::read(path).ok()?).ok()?;
    let single = std::slice::from_ref(&value);
    let mut plugins = value["plugins"].as_array().map_or(single, Vec::as_slice).iter();
    let multus =
        plugins.find(|plugin| plugin["type"].as_str().is_some_and(|kind| kind.starts_with("multus")))?;
    multus["confDir"].as_str().map(str::to_owned)
}

fn not_ours(path: &Path) -> DiagnoseError {
    let error = CniError::new(Code::DECODING, "it does not name istio-cni".to_owned());
    DiagnoseError::Conf { path: path.to_owned(), error }
}

/// Our configuration in a file, if it has one.
fn from_file(path: &Path) -> Result<Option<Result<NetConf, DiagnoseError>>, DiagnoseError> {
    let text = std::fs::read(path).map_err(|reason| DiagnoseError::File { path: path.to_owned(), reason })?;
    let Ok(value) = serde_json::from_slice::<Value>(&text) else { return Ok(None) };
    Ok(entry(&value).map(|entry| {
        NetConf::parse(entry.to_string().as_bytes())
            .map_err(|error| DiagnoseError::Conf { path: path.to_owned(), error })
    }))
}

/// Our entry of a conflist, with the list's name and version as a runtime would hand it over; or the configuration itself.
fn entry(value: &Value) -> Option<Value> {
    if value["type"] == TYPE {
        return Some(value.clone());
    }
    let mut entry = value["plugins"].as_array()?.iter().find(|plugin| plugin["type"] == TYPE)?.clone();
    for key in ["name", "cniVersion"] {
        if let Some(inherited) = value.get(key) {
            entry[key] = inherited.clone();
        }
    }
    Some(entry)
}

/// A pod with a sidecar and nothing else that counts.
pub(super) fn ordinary_sidecar() -> PodFacts {
    let pod = json!({
        "metadata": { "name": "", "namespace": "", "annotations": { "sidecar.istio.io/status": "{}" } },
        "spec": { "containers": [{ "name": "app" }, { "name": "istio-proxy" }] },
    });
    serde_json::from_value(pod).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use redirect::{Enrolment, enrol};

    use super::*;

    #[test]
    fn an_ordinary_sidecar_is_enrolled() {
        assert!(matches!(enrol(&ordinary_sidecar()), Ok(Enrolment::Enrol(_))));
    }

    /// A file system with these files, and what is found in it.
    fn found(files: &[(&str, &str)], env: &[(&str, &str)]) -> Result<String, String> {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = below(root.path(), path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let get = |name: &str| env.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
        let found = find(root.path(), &get).map_err(|error| error.to_string())?;
        Ok(found.run_dir().display().to_string())
    }

    fn ours(run_dir: &str) -> String {
        json!({"cniVersion": "1.0.0", "name": "n", "type": "istio-cni", "cni_agent_run_dir": run_dir})
            .to_string()
    }

    #[test]
    fn our_entry_is_found_in_each_directory_that_a_platform_uses() {
        for directory in NET_DIRS.into_iter().chain([MOUNTED]) {
            let path = format!("{directory}/istio-cni.conf");
            assert_eq!(found(&[(&path, &ours("/r"))], &[]), Ok("/r".to_owned()), "{directory}");
        }
        let elsewhere = [("/k/net.d/10.conf", &*ours("/k"))];
        assert!(found(&elsewhere, &[]).is_err());
        assert_eq!(
            found(&elsewhere, &[(MOUNTED_AT, "/k/net.d")]),
            Ok("/k".to_owned()),
            "as the agent was told"
        );
        for (config, text) in [
            ("/etc/containerd/config.toml", "conf_dir = '/k/net.d'"),
            ("/etc/crio/crio.conf.d/10-net.conf", "network_dir = \"/k/net.d/\""),
        ] {
            assert_eq!(found(&[elsewhere[0], (config, text)], &[]), Ok("/k".to_owned()), "{config}");
        }
        let multus = r#"{"name": "m", "plugins": [{"type": "multus", "confDir": "/k/net.d"}]}"#;
        assert_eq!(
            found(&[elsewhere[0], ("/etc/cni/net.d/00-multus.conflist", multus)], &[]),
            Ok("/k".to_owned())
        );
    }

    #[test]
    fn what_was_looked_at_in_vain_is_named() {
        assert_eq!(
            found(&[], &[]),
            Err("none of the directories that runtimes read is there: give --conf FILE or --pod-json FILE"
                .to_owned())
        );
        let other =
            found(&[("/etc/cni/net.d/10.conf", r#"{"type": "other"}"#), ("/etc/cni/multus/net.d", "")], &[]);
        let said = other.unwrap_err();
        assert!(
            said.starts_with("no file in /etc/cni/net.d, /etc/cni/multus/net.d (")
                && said.contains("--conf FILE"),
            "{said}"
        );
    }

    #[test]
    fn our_entry_of_a_list_inherits_from_it() {
        let list = json!({"cniVersion": "1.0.0", "name": "k8s", "plugins": [{"type": "bridge"}, {"type": "istio-cni", "x": 1}]});
        assert_eq!(
            entry(&list),
            Some(json!({"cniVersion": "1.0.0", "name": "k8s", "type": "istio-cni", "x": 1}))
        );
        assert_eq!(entry(&json!({"plugins": [{"type": "bridge"}]})), None);
        assert_eq!(entry(&json!({"type": "istio-cni"})), Some(json!({"type": "istio-cni"})));
    }
}
