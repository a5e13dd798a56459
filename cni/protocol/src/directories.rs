// SPDX-License-Identifier: Apache-2.0
//! Where runtimes look on a node for network configurations and plugins: what a runtime's own configuration says, and what is usual on the
//! platforms that the chart knows. For programs that run on the node itself, where no mount leads to the right one.

/// Directories of network configurations.
pub const NET_DIRS: [&str; 5] = [
    "/etc/cni/net.d",
    "/etc/cni/multus/net.d",
    "/etc/kubernetes/cni/net.d",
    "/var/lib/rancher/k3s/agent/etc/cni/net.d",
    "/var/snap/microk8s/current/args/cni-network",
];

/// Directories of plugins.
pub const BIN_DIRS: [&str; 7] = [
    "/opt/cni/bin",
    "/home/kubernetes/bin",
    "/var/lib/cni/bin",
    "/var/lib/rancher/k3s/data/cni",
    "/var/lib/rancher/k3s/data/current/bin",
    "/var/snap/microk8s/current/opt/cni/bin",
    "/bin",
];

/// Configurations of runtimes; in one that is a directory, each file.
pub const RUNTIME_CONFIGS: [&str; 7] = [
    "/etc/containerd/config.toml",
    "/etc/containerd/conf.d",
    "/var/lib/rancher/k3s/agent/etc/containerd/config.toml",
    "/var/lib/rancher/rke2/agent/etc/containerd/config.toml",
    "/var/snap/microk8s/current/args/containerd.toml",
    "/etc/crio/crio.conf",
    "/etc/crio/crio.conf.d",
];

/// What a runtime's configuration says of networks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Directories {
    /// Where it looks for networks: containerd's `conf_dir`, CRI-O's `network_dir`.
    pub net: Vec<String>,
    /// Where it looks for plugins: containerd's `bin_dir` and `bin_dirs`, CRI-O's `plugin_dir` and `plugin_dirs`.
    pub bin: Vec<String>,
    /// CRI-O's `cni_default_network`: the network that pods get, whichever file comes first. `None` for the first file.
    pub default_network: Option<String>,
    /// containerd's `max_conf_num`: how many files each pod is added to; 0 for all.
    pub most: Option<i64>,
}

/// Reads a runtime's configuration, as far as these keys go. A library for TOML would be a large part of the plugin.
#[must_use]
pub fn of_runtime(config: &str) -> Directories {
    let mut found = Directories::default();
    let mut lines = config.lines();
    while let Some(line) = lines.next() {
        let Some((key, value)) = line.split_once('=') else { continue };
        let all = match key.trim() {
            "cni_default_network" => {
                let name = quoted(without_comment(value)).next().filter(|name| !name.is_empty());
                found.default_network = name.map(str::to_owned);
                continue;
            }
            "max_conf_num" => {
                found.most = without_comment(value).trim().parse().ok();
                continue;
            }
            "conf_dir" | "network_dir" => &mut found.net,
            "bin_dir" | "bin_dirs" | "plugin_dir" | "plugin_dirs" => &mut found.bin,
            _ => continue,
        };
        let mut value = without_comment(value).trim().to_owned();
        while value.starts_with('[') && !value.contains(']') {
            let Some(more) = lines.next() else { break };
            value.push_str(without_comment(more));
        }
        all.extend(quoted(&value).filter(|path| path.starts_with('/')).map(|path| {
            match path.trim_end_matches('/') {
                "" => "/".to_owned(),
                path => path.to_owned(),
            }
        }));
    }
    found
}

/// Line without its comment. No path of a directory of plugins has a `#` in it.
fn without_comment(line: &str) -> &str {
    line.split('#').next().unwrap_or_default()
}

/// The strings of a value.
fn quoted(value: &str) -> impl Iterator<Item = &str> {
    value.split(['"', '\'']).skip(1).step_by(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(net: &[&str], bin: &[&str]) -> Directories {
        let owned = |all: &[&str]| all.iter().map(|one| (*one).to_owned()).collect();
        Directories { net: owned(net), bin: owned(bin), ..Directories::default() }
    }

    #[test]
    fn containerds_and_crios_keys_are_read_in_each_of_their_forms() {
        let containerd = "version = 3\n[plugins.'io.containerd.cri.v1.runtime'.cni]\n  bin_dirs = ['/opt/cni/bin']\n  conf_dir = '/etc/cni/net.d'\n  max_conf_num = 1\n";
        assert_eq!(
            of_runtime(containerd),
            Directories { most: Some(1), ..of(&["/etc/cni/net.d"], &["/opt/cni/bin"]) }
        );
        let older = "[plugins.\"io.containerd.grpc.v1.cri\".cni]\n  bin_dir = \"/k/bin\"\n  conf_dir = \"/k/net.d\" # ours\n";
        assert_eq!(of_runtime(older), of(&["/k/net.d"], &["/k/bin"]));
        let crio = "[crio.network]\n# network_dir = \"/else\"\nnetwork_dir = \"/etc/kubernetes/cni/net.d/\"\nplugin_dirs = [\n    \"/var/lib/cni/bin\", # the operator's\n    \"/usr/libexec/cni\",\n]\nbin_dir = \"\"\n";
        assert_eq!(
            of_runtime(crio),
            of(&["/etc/kubernetes/cni/net.d"], &["/var/lib/cni/bin", "/usr/libexec/cni"])
        );
    }

    #[test]
    fn which_networks_pods_get_is_read() {
        let chosen = |text| of_runtime(text).default_network;
        assert_eq!(chosen("cni_default_network = \"azure\" # by name\n").as_deref(), Some("azure"));
        for text in [
            "# cni_default_network = \"azure\"\n",
            "cni_default_network = \"\"\n",
            "cni_default_network = 7\n",
        ] {
            assert_eq!(chosen(text), None, "{text}");
        }
        for (text, most) in [
            ("max_conf_num = 0", Some(0)),
            (" max_conf_num = 2 # both", Some(2)),
            ("max_conf_num = all", None),
        ] {
            assert_eq!(of_runtime(text).most, most, "{text}");
        }
    }

    #[test]
    fn what_is_cut_off_or_something_else_is_no_directory() {
        for text in
            ["", "conf_dir", "conf_dir = /etc", "conf_dir = \"relative\"", "# bin_dir = '/x'", "bin_dirs = ["]
        {
            assert_eq!(of_runtime(text), Directories::default(), "{text}");
        }
    }
}
