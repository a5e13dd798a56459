// SPDX-License-Identifier: Apache-2.0
//! The plugin's configuration, for whoever is not given it on standard input.

use std::path::{Path, PathBuf};

use protocol::error::{CniError, Code};
use protocol::netconf::NetConf;
use protocol::pod::PodFacts;
use serde_json::{Value, json};

use super::DiagnoseError;

/// Where runtimes look.
const DIRECTORY: &str = "/etc/cni/net.d";
/// Our name in a conflist.
const TYPE: &str = "istio-cni";

/// Reads the configuration in `path`, or in the first file of the runtimes' directory that has one.
pub(super) fn read(path: Option<&PathBuf>) -> Result<NetConf, DiagnoseError> {
    if let Some(path) = path {
        let found = from_file(path)?;
        return found.unwrap_or_else(|| Err(not_ours(path)));
    }
    let directory = Path::new(DIRECTORY);
    let listed = std::fs::read_dir(directory)
        .map_err(|reason| DiagnoseError::File { path: directory.to_owned(), reason })?;
    let mut paths: Vec<PathBuf> = listed.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    // A file of somebody else's that cannot be read is not ours to complain about.
    let found = paths.iter().find_map(|path| from_file(path).ok().flatten());
    found.unwrap_or_else(|| Err(DiagnoseError::NoConf { path: directory.to_owned() }))
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
