// SPDX-License-Identifier: Apache-2.0
//! Processes of the node as witnesses of namespaces: since when they run, and whose pod's they are by their cgroup.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use netfilter::NetnsId;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    pub netns: NetnsId,
    pub path: PathBuf,
    /// Start time, in clock ticks since boot.
    pub started: u64,
    /// UID of the pod in its cgroup.
    pub pod: Option<String>,
}

/// All processes of `proc`; those that end meanwhile are left out.
pub fn list(proc: &Path) -> impl Iterator<Item = Process> {
    let entries = std::fs::read_dir(proc).into_iter().flatten().flatten();
    let processes =
        entries.filter(|entry| entry.file_name().as_encoded_bytes().iter().all(u8::is_ascii_digit));
    processes.filter_map(|entry| read(&entry.path()))
}

fn read(dir: &Path) -> Option<Process> {
    let path = dir.join("ns/net");
    let about = std::fs::metadata(&path).ok()?;
    let started = std::fs::read_to_string(dir.join("stat")).ok().and_then(|text| started(&text));
    let cgroup = std::fs::read_to_string(dir.join("cgroup")).unwrap_or_default();
    Some(Process {
        netns: NetnsId { dev: about.dev(), ino: about.ino() },
        path,
        // Unknown counts as the youngest.
        started: started.unwrap_or(u64::MAX),
        pod: pod_of(&cgroup),
    })
}

/// Field 22 of `stat`. The second is a name in parentheses that may hold anything.
fn started(stat: &str) -> Option<u64> {
    stat.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()
}

/// The pod that a cgroup path is below: `…/kubepods/burstable/pod<uid>/…`, or `…/kubepods-burstable-pod<uid with _>.slice/…`.
fn pod_of(cgroup: &str) -> Option<String> {
    let mut parts = cgroup.lines().flat_map(|line| line.split('/'));
    parts.find_map(uid).map(|uid| uid.replace('_', "-"))
}

fn uid(part: &str) -> Option<&str> {
    let (before, uid) = part.strip_suffix(".slice").unwrap_or(part).rsplit_once("pod")?;
    let is_pod = before.is_empty() || (before.contains("kubepods") && before.ends_with('-'));
    let is_uid = uid.len() >= 32 && uid.bytes().all(|byte| byte.is_ascii_hexdigit() || b"-_".contains(&byte));
    (is_pod && is_uid).then_some(uid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cgroup_names_its_pod_in_either_spelling() {
        let uid = "0b1c2d3e-1111-2222-3333-444455556666";
        let under = uid.replace('-', "_");
        let mirror = "0b1c2d3e11112222333344445555666f";
        for (cgroup, expected) in [
            (
                format!(
                    "0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{under}.slice/cri-containerd-a.scope\n"
                ),
                Some(uid),
            ),
            (format!("0::/kubepods.slice/kubepods-pod{under}.slice/crio-b.scope"), Some(uid)),
            (format!("12:cpu:/\n11:pids:/kubepods/besteffort/pod{uid}/c0ffee"), Some(uid)),
            (
                format!("0::/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod{under}.slice/x"),
                Some(uid),
            ),
            (format!("0::/../../kubepods-pod{mirror}.slice/x"), Some(mirror)),
            ("0::/".to_owned(), None),
            ("0::/user.slice/podman-1.scope/tripod".to_owned(), None),
        ] {
            assert_eq!(pod_of(&cgroup).as_deref(), expected, "{cgroup}");
        }
    }

    #[test]
    fn a_start_is_read_behind_any_name() {
        let stat =
            "7 (a) b (c)) S 1 7 7 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 4242 1000 1 18446744073709551615";
        assert_eq!(started(stat), Some(4242));
        assert_eq!(started("7 (x"), None);
    }

    #[test]
    fn this_process_is_one_of_the_node() {
        let own = std::fs::metadata("/proc/self/ns/net").unwrap();
        let mine = format!("/proc/{}/ns/net", std::process::id());
        let found = list(Path::new("/proc")).find(|process| process.path == Path::new(&mine)).unwrap();
        assert_eq!(found.netns, NetnsId { dev: own.dev(), ino: own.ino() });
        assert!(found.started > 0 && found.started < u64::MAX);
    }
}
