// SPDX-License-Identifier: Apache-2.0
//! The machine that runs the lab: kernel, distribution, security module, cgroups, tools.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

use serde::{Deserialize, Serialize};

use crate::pulse;

/// Tools whose versions a report names. Back ends and comparisons use them where they are installed.
const TOOLS: [&str; 4] = ["nft", "iptables", "iptables-nft", "iptables-legacy"];

/// A machine.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// Its own name, as `uname -n` prints it.
    #[serde(default)]
    pub host: String,
    /// Release of the kernel, as `uname -r` prints it.
    pub kernel: String,
    /// Build of the kernel, as `uname -v` prints it.
    pub build: String,
    pub architecture: String,
    /// `PRETTY_NAME` of `os-release`.
    pub distribution: String,
    /// Security module and its mode, `apparmor enforce`; `none` without SELinux and AppArmor.
    pub security: String,
    /// Version of the cgroup hierarchy: `v1`, `v2` or `none`.
    pub cgroups: String,
    /// Factor of the run's deadlines: how much longer than on a usual machine a little work took at its begin.
    #[serde(default)]
    pub patience: u32,
    /// Versions of tools, by name.
    pub tools: BTreeMap<String, String>,
}

impl Machine {
    /// Reads this machine.
    #[must_use]
    pub fn read() -> Self {
        let tools = TOOLS.into_iter().filter_map(|tool| Some((tool.to_owned(), version(tool)?)));
        Self { tools: tools.collect(), patience: pulse::patience(), ..Self::of(Path::new("/")) }
    }

    /// Reads the files of a machine, without its tools.
    fn of(root: &Path) -> Self {
        let text = |path: &str| {
            let text = std::fs::read_to_string(root.join(path)).ok()?;
            Some(text.trim().to_owned()).filter(|text| !text.is_empty())
        };
        let known = |path: &str| text(path).unwrap_or_else(|| UNKNOWN.to_owned());
        let release = text("etc/os-release").or_else(|| text("usr/lib/os-release")).unwrap_or_default();
        Self {
            host: known("proc/sys/kernel/hostname"),
            kernel: known("proc/sys/kernel/osrelease"),
            build: known("proc/sys/kernel/version"),
            architecture: std::env::consts::ARCH.to_owned(),
            distribution: distribution(&release),
            security: security(&text),
            cgroups: cgroups(root).to_owned(),
            patience: 1,
            tools: BTreeMap::new(),
        }
    }
}

const UNKNOWN: &str = "unknown";

/// Release of the kernel, as `uname -r` prints it.
#[must_use]
pub fn kernel_release() -> String {
    Machine::of(Path::new("/")).kernel
}

fn distribution(release: &str) -> String {
    let name = release.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="));
    name.map_or(UNKNOWN, |name| name.trim_matches(['"', '\''])).to_owned()
}

fn security(text: &impl Fn(&str) -> Option<String>) -> String {
    if let Some(enforce) = text("sys/fs/selinux/enforce") {
        return format!("selinux {}", if enforce == "1" { "enforcing" } else { "permissive" });
    }
    let is_on = text("sys/module/apparmor/parameters/enabled").is_some_and(|enabled| enabled == "Y");
    match text("sys/module/apparmor/parameters/mode") {
        mode if is_on => format!("apparmor {}", mode.as_deref().unwrap_or(UNKNOWN)),
        _ => "none".to_owned(),
    }
}

fn cgroups(root: &Path) -> &'static str {
    let at = root.join("sys/fs/cgroup");
    if at.join("cgroup.controllers").exists() {
        return "v2";
    }
    let is_mounted = std::fs::read_dir(at).is_ok_and(|mut entries| entries.next().is_some());
    if is_mounted { "v1" } else { "none" }
}

/// First line of a tool's version; `None` where it is not installed.
fn version(tool: &str) -> Option<String> {
    let output = Command::new(tool).arg("--version").stdin(Stdio::null()).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    Some(text.lines().next().unwrap_or(UNKNOWN).trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(files: &[(&str, &str)]) -> Machine {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        Machine::of(root.path())
    }

    #[test]
    fn a_machine_is_what_its_files_say() {
        let found = machine(&[
            ("proc/sys/kernel/osrelease", "6.1.0-13-amd64\n"),
            ("proc/sys/kernel/version", "#1 SMP Debian 6.1.55-1\n"),
            ("etc/os-release", "ID=debian\nPRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\n"),
            ("sys/module/apparmor/parameters/enabled", "Y\n"),
            ("sys/module/apparmor/parameters/mode", "enforce\n"),
            ("sys/fs/cgroup/cgroup.controllers", "cpu memory\n"),
        ]);
        let texts = [&found.kernel, &found.build, &found.distribution, &found.security, &found.cgroups];
        let expected = [
            "6.1.0-13-amd64",
            "#1 SMP Debian 6.1.55-1",
            "Debian GNU/Linux 12 (bookworm)",
            "apparmor enforce",
            "v2",
        ];
        assert_eq!(texts, expected);
    }

    #[test]
    fn a_machine_of_another_kind_is_told_apart() {
        let selinux = machine(&[("sys/fs/selinux/enforce", "0"), ("sys/fs/cgroup/cpu/tasks", "1")]);
        assert_eq!((selinux.security.as_str(), selinux.cgroups.as_str()), ("selinux permissive", "v1"));
        let bare = machine(&[]);
        assert_eq!(
            [&bare.kernel, &bare.distribution, &bare.security, &bare.cgroups],
            [UNKNOWN, UNKNOWN, "none", "none"]
        );
    }
}
