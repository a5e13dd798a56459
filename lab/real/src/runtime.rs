// SPDX-License-Identifier: Apache-2.0
//! Container runtimes: their programs, and their configurations with default paths.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use cluster::choice::RuntimeName;

use crate::components::Components;
use crate::error::Error;
use crate::place::Place;
use crate::{quirks, registry, tools};

/// OCI runtime of a node where it is not called directly.
const WRAPPER: &str = "/opt/lab/runc";

/// A runtime, by the paths of its programs.
#[derive(Debug, Clone)]
pub struct Runtime {
    program: PathBuf,
    runc: PathBuf,
    /// CRI-O's; containerd has none.
    helpers: Option<Helpers>,
    /// The lab's own.
    workload: PathBuf,
}

/// Programs that CRI-O calls: one pins namespaces, one watches a container.
#[derive(Debug, Clone)]
struct Helpers {
    pinns: PathBuf,
    conmon: PathBuf,
}

impl Runtime {
    /// Finds its programs.
    ///
    /// # Errors
    /// One is not built, or not installed.
    pub fn find(name: RuntimeName, components: &Components, workload: &Path) -> Result<Self, Error> {
        let (program, helpers) = match name {
            RuntimeName::Containerd => (components.binary("containerd-2", "containerd")?, None),
            RuntimeName::Crio => {
                let helpers = Helpers {
                    pinns: components.binary("crio-1.36", "pinns")?,
                    conmon: tools::find("conmon")?,
                };
                (components.binary("crio-1.36", "crio")?, Some(helpers))
            }
        };
        let runc = components.binary("runc", "runc")?;
        Ok(Self { program, runc, helpers, workload: workload.to_owned() })
    }

    #[must_use]
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// Paths of its programs, but for those that it finds beside them.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &Path> {
        let helpers = self.helpers.iter().flat_map(|helpers| [&helpers.pinns, &helpers.conmon]);
        [&self.program, &self.runc].into_iter().chain(helpers).map(PathBuf::as_path)
    }

    /// Directories with programs that it, or the kubelet, calls by name.
    #[must_use]
    pub fn directories(&self) -> [&Path; 2] {
        [&self.program, &self.runc].map(|path| path.parent().unwrap_or(Path::new("/")))
    }

    /// Socket of the Container Runtime Interface.
    #[must_use]
    pub fn socket(&self) -> &'static str {
        match &self.helpers {
            None => "/run/containerd/containerd.sock",
            Some(_) => "/run/crio/crio.sock",
        }
    }

    /// Writes its configuration, with which it pulls from the registry at `server`.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn configure(&self, place: &Place, server: SocketAddr) -> Result<(), Error> {
        match &self.helpers {
            None => {
                let hosts = format!(
                    "server = \"http://{server}\"\n\n[host.\"http://{server}\"]\ncapabilities = [\"pull\", \"resolve\"]\n"
                );
                place.write(&format!("/etc/containerd/certs.d/{}/hosts.toml", registry::NAME), hosts)?;
                place.write("/etc/containerd/config.toml", self.containerd())
            }
            Some(helpers) => {
                let registries = format!(
                    "[[registry]]\nprefix = \"{}\"\nlocation = \"{server}\"\ninsecure = true\n",
                    registry::NAME
                );
                place.write("/etc/containers/registries.conf", registries)?;
                place.write(
                    "/etc/containers/policy.json",
                    r#"{"default": [{"type": "insecureAcceptAnything"}]}"#,
                )?;
                let whole = quirks::lowers_oom_score() && quirks::limits_huge_pages();
                if !whole {
                    place.write_program(WRAPPER, self.wrapper())?;
                }
                let runc = if whole { self.runc.as_path() } else { Path::new(WRAPPER) };
                place.write("/etc/crio/crio.conf", crio(helpers, runc))
            }
        }
    }

    /// Calls the OCI runtime without what the machine refuses it.
    fn wrapper(&self) -> String {
        format!(
            "#!/bin/sh\nexec '{}' oci-runtime --program '{}' -- \"$@\"\n",
            self.workload.display(),
            self.runc.display()
        )
    }

    /// Configuration of containerd 2 (version 3).
    fn containerd(&self) -> String {
        format!(
            "\
version = 3

[plugins.'io.containerd.cri.v1.images']
snapshotter = 'overlayfs'
[plugins.'io.containerd.cri.v1.images'.pinned_images]
sandbox = '{}/pause:1'
[plugins.'io.containerd.cri.v1.images'.registry]
config_path = '/etc/containerd/certs.d'

[plugins.'io.containerd.cri.v1.runtime']
restrict_oom_score_adj = {}
disable_apparmor = true
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
runtime_type = 'io.containerd.runc.v2'
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
SystemdCgroup = false
BinaryName = '{}'

[plugins.'io.containerd.nri.v1.nri']
disable = true
",
            registry::NAME,
            !quirks::lowers_oom_score(),
            self.runc.display()
        )
    }
}

/// Configuration of CRI-O.
fn crio(helpers: &Helpers, runc: &Path) -> String {
    format!(
        "\
[crio]
storage_driver = \"overlay\"

[crio.runtime]
pinns_path = \"{}\"
cgroup_manager = \"cgroupfs\"
conmon_cgroup = \"pod\"
default_runtime = \"runc\"
disable_hostport_mapping = {}
apparmor_profile = \"unconfined\"
hooks_dir = []
[crio.runtime.runtimes.runc]
runtime_path = \"{}\"
runtime_root = \"/run/runc\"
monitor_path = \"{}\"

[crio.image]
pause_image = \"{}/pause:1\"

[crio.network]
plugin_dirs = [\"/opt/cni/bin\"]

[crio.nri]
enable_nri = false
",
        helpers.pinns.display(),
        !quirks::maps_host_ports(),
        runc.display(),
        helpers.conmon.display(),
        registry::NAME
    )
}
