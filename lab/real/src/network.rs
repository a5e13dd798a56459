// SPDX-License-Identifier: Apache-2.0
//! The pods' network: the standard plugins, and Multus on top of them, thin or thick.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use cluster::PRIMARY;
use cluster::choice::NetworkName;
use serde_json::{Value, json};

use crate::components::Components;
use crate::error::Error;
use crate::family::families;
use crate::image::Image;
use crate::place::Place;

/// Directory of the plugins.
const PLUGINS: &str = "/opt/cni/bin";
/// Directory of the runtime's configurations.
pub(crate) const LISTS: &str = "/etc/cni/net.d";
/// Of CNI: the first that has STATUS and GC.
pub const VERSION: &str = "1.1.0";
/// The network's first plugin, the standard one, under the name that scenarios give a primary network's.
const FIRST: &str = "lab-net";
/// Its name among the standard plugins.
const STANDARD: &str = "bridge";
/// Directory of the plugin itself while its calls are recorded.
const RECORDED: &str = "/opt/lab/plugins";
/// User that thin Multus is.
pub const MULTUS: &str = "multus";
/// Namespace of its DaemonSet.
const NAMESPACE: &str = "kube-system";
/// Its DaemonSet, as Multus calls it.
const DAEMON_SET: &str = "kube-multus-ds";
/// Objects of Multus.
const RIGHTS: &str = include_str!("network/rights.yaml");
const DAEMON: &str = include_str!("network/daemon.yaml");

/// A network, by the paths of its programs.
#[derive(Debug, Clone)]
pub struct Network {
    name: NetworkName,
    plugins: Vec<PathBuf>,
    /// Of Multus thick.
    daemon: Option<PathBuf>,
    /// The lab's own.
    workload: PathBuf,
}

impl Network {
    /// Finds its programs.
    ///
    /// # Errors
    /// One is not built.
    pub fn find(name: NetworkName, components: &Components, workload: &Path) -> Result<Self, Error> {
        let standard = [STANDARD, "host-local", "loopback"].map(|plugin| ("cni-plugins", plugin));
        let own = match name {
            NetworkName::Bridge => None,
            NetworkName::MultusThin => Some((MULTUS, "multus")),
            NetworkName::MultusThick => Some((MULTUS, "multus-shim")),
        };
        let plugins =
            standard.into_iter().chain(own).map(|(component, plugin)| components.binary(component, plugin));
        let thick = name == NetworkName::MultusThick;
        Ok(Self {
            name,
            plugins: plugins.collect::<Result<_, _>>()?,
            daemon: thick.then(|| components.binary(MULTUS, "multus-daemon")).transpose()?,
            workload: workload.to_owned(),
        })
    }

    /// Paths of its programs.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &Path> {
        self.plugins.iter().chain(&self.daemon).map(PathBuf::as_path)
    }

    /// Installs the plugins and their configuration for these ranges of pods. `kubeconfig` is that of [`MULTUS`].
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn install(&self, place: &Place, ranges: Vec<String>, kubeconfig: &str) -> Result<(), Error> {
        for plugin in &self.plugins {
            let name = plugin.file_name().unwrap_or_default();
            let to = place.find(PLUGINS).join(if name == STANDARD { OsStr::new(FIRST) } else { name });
            fs::copy(plugin, &to).map_err(Error::file("write", &to))?;
        }
        let list = bridge(ranges);
        place.write(&format!("{LISTS}/{PRIMARY}"), format!("{list:#}\n"))?;
        if self.name != NetworkName::MultusThin {
            return Ok(());
        }
        let of = format!("{LISTS}/multus.d/multus.kubeconfig");
        place.write(&of, kubeconfig)?;
        let multus = thin(Path::new(&of));
        place.write(&format!("{LISTS}/00-multus.conf"), format!("{multus:#}\n"))
    }

    /// Has the calls of the network's first plugin written to this file, a line of JSON each ([`cluster::CniCall::told`]).
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn record(&self, place: &Place, to: &Path) -> Result<(), Error> {
        let (seen, hidden) = (format!("{PLUGINS}/{FIRST}"), format!("{RECORDED}/{FIRST}"));
        let plugin = fs::read(place.find(&seen)).map_err(Error::file("read", Path::new(&seen)))?;
        place.write_program(&hidden, plugin)?;
        let workload = self.workload.display();
        let recorder =
            format!("#!/bin/sh\nexec '{workload}' record --program '{hidden}' --to '{}'\n", to.display());
        place.write_program(&seen, recorder)
    }

    /// The image of its pods.
    ///
    /// # Errors
    /// A program cannot be read.
    pub fn image(&self) -> Result<Option<Image>, Error> {
        let of = |daemon: &PathBuf| {
            Image::of("multus:1", &[("/multus-daemon", daemon.clone())], &["/multus-daemon"])
        };
        self.daemon.as_ref().map(of).transpose()
    }

    /// Its objects, in their order.
    ///
    /// # Errors
    /// Never: they are the lab's own.
    pub fn objects(&self) -> Result<Vec<Value>, Error> {
        let texts: &[&str] = match self.name {
            NetworkName::Bridge => &[],
            NetworkName::MultusThin => &[RIGHTS],
            NetworkName::MultusThick => &[RIGHTS, DAEMON],
        };
        let read = |text| serde_saphyr::from_multiple::<Value>(text);
        let read: Result<Vec<_>, _> = texts.iter().copied().map(read).collect();
        Ok(read.map_err(|error| Error::Other("read the network's objects", error.to_string()))?.concat())
    }

    /// Namespace and name of its DaemonSet.
    #[must_use]
    pub fn daemon_set(&self) -> Option<(&'static str, &'static str)> {
        self.daemon.as_ref().map(|_| (NAMESPACE, DAEMON_SET))
    }
}

/// List of the standard plugins: of one, as scenarios know it.
fn bridge(ranges: Vec<String>) -> Value {
    let ranges: Vec<_> = ranges.into_iter().map(|range| json!([{ "subnet": range }])).collect();
    let routes: Vec<_> = families("0.0.0.0/0", "::/0").into_iter().map(|to| json!({ "dst": to })).collect();
    let bridge = json!({
        "type": FIRST,
        "bridge": "cni0",
        "isGateway": true,
        "hairpinMode": true,
        "ipam": { "type": "host-local", "ranges": ranges, "routes": routes },
    });
    json!({ "cniVersion": VERSION, "name": "lab", "plugins": [bridge] })
}

/// Configuration of Multus thin that names the first network's file. Its entrypoint would copy that file into this one, and look for changes of it every
/// second: without one a copy would be that of before the node agent came, for ever.
fn thin(kubeconfig: &Path) -> Value {
    json!({
        "cniVersion": VERSION,
        "name": "multus-cni-network",
        "type": "multus",
        "kubeconfig": kubeconfig,
        "clusterNetwork": format!("{LISTS}/{PRIMARY}"),
    })
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;
    use crate::control::{ADDRESS, PORT};

    #[test]
    fn multus_asks_the_api_server_itself() {
        let server = format!("{{name: KUBERNETES_SERVICE_HOST, value: {}}}", IpAddr::from(ADDRESS));
        let port = format!("{{name: KUBERNETES_SERVICE_PORT, value: \"{PORT}\"}}");
        assert!(DAEMON.contains(&server) && DAEMON.contains(&port), "{server} {port}");
    }

    #[test]
    fn objects_of_multus_thick_end_with_its_daemon_set() {
        let network = Network {
            name: NetworkName::MultusThick,
            plugins: Vec::new(),
            daemon: None,
            workload: PathBuf::new(),
        };
        let objects = network.objects().unwrap();
        let kinds: Vec<_> = objects.iter().filter_map(|object| object["kind"].as_str()).collect();
        let rights = ["CustomResourceDefinition", "ClusterRole", "ClusterRoleBinding", "ServiceAccount"];
        assert_eq!(kinds[..4], rights);
        assert_eq!(objects.last().unwrap()["metadata"]["name"], DAEMON_SET);
    }

    #[test]
    fn thin_multus_names_the_list_of_the_first_network() {
        let multus = thin(Path::new("/k"));
        assert_eq!(multus["clusterNetwork"], "/etc/cni/net.d/10-lab.conflist");
        assert_eq!((&multus["type"], &multus["kubeconfig"]), (&json!("multus"), &json!("/k")));
    }
}
