// SPDX-License-Identifier: Apache-2.0
//! Capabilities of the environment, with evidence. A scenario's tags name its needs; an unmet need makes it `inapplicable`, with the
//! evidence that is gathered here.

use std::io::{self, Write as _};
use std::net::{Ipv6Addr, TcpListener};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::tier::Session;
use cluster::Probe;
use nix::sys::ptrace;
use nix::unistd::Pid;

use crate::carried::SELF;
use crate::catalogue::Entry;
use crate::immutable;
use crate::lacks;
use crate::plan::{Place, Privilege};
use crate::tier::preflight;
use crate::verdict::Class;

pub mod of_cluster;

/// The user that an injected proxy runs as unless the platform says otherwise; rules name it.
const PROXY_UID: u32 = 1337;

/// A user of the range that OpenShift assigns to a namespace.
const RANGE_UID: u32 = 1_000_659_999;

/// Runs every probe, in the order of [`crate::catalogue::NEEDS`].
#[must_use]
pub fn all(privilege: &Privilege) -> Vec<Probe> {
    vec![
        real_kernel(privilege),
        ipv6(),
        any_uid(privilege),
        iptables_tools(privilege),
        own_users(privilege),
        fake_kernel(),
        immutable(privilege),
    ]
}

/// Back end for this machine, and why; or why none works.
pub async fn back_end() -> anyhow::Result<String> {
    Ok(tokio::task::spawn_blocking(preflight::back_end).await?)
}

/// Runs every probe without blocking the runtime.
pub async fn gather(place: &Place) -> anyhow::Result<Vec<Probe>> {
    let privilege = place.privilege.clone();
    Ok(tokio::task::spawn_blocking(move || all(&privilege)).await?)
}

/// Capabilities of a cluster that is there, by a look at its nodes.
pub async fn of_session(session: &Session) -> Vec<Probe> {
    of_cluster::of_cluster(session.evidence(), &session.look().await)
}

/// Reason why a scenario cannot run here, and whose it is: the machine's, or where it runs in a cluster that of the cluster or of its tier.
#[must_use]
pub fn unmet(entry: &Entry, probes: &[Probe], is_remote: bool) -> Option<(Class, String)> {
    let probe = lacks::unmet(&entry.tags, probes)?;
    let class = match is_remote {
        false => Class::Machine,
        true if of_cluster::is_of_clusters(&probe.need) => Class::Cluster,
        true => Class::Tier,
    };
    Some((class, format!("no {}: {}", probe.need, probe.evidence)))
}

/// A probe of what is no tool.
fn probe(need: &str, met: bool, evidence: String) -> Probe {
    Probe { need: need.to_owned(), met, evidence, absent: false }
}

fn real_kernel(privilege: &Privilege) -> Probe {
    let (met, evidence) = match privilege {
        Privilege::Denied { reason } => (false, reason.clone()),
        Privilege::Root => preflight::rules().map_or_else(
            |why| (false, format!("namespaces as root, but {why}")),
            |how| (true, format!("namespaces as root; {how}")),
        ),
        Privilege::UserNamespace { mapping } if !is_mapped(PROXY_UID) => {
            (false, format!("a rule on uid {PROXY_UID} needs that user in the namespace: {mapping}"))
        }
        Privilege::UserNamespace { mapping } => preflight::rules().map_or_else(
            |why| (false, format!("user namespace, {mapping}, but {why}")),
            |how| (true, format!("user namespace, {mapping}; {how}")),
        ),
    };
    probe("real-kernel", met, evidence)
}

fn ipv6() -> Probe {
    let (met, evidence) = match TcpListener::bind((Ipv6Addr::UNSPECIFIED, 0)) {
        Ok(_) => (true, "a TCP socket was bound to ::".to_owned()),
        Err(error) => (false, format!("bind to :: failed: {error}")),
    };
    probe("ipv6", met, evidence)
}

fn any_uid(privilege: &Privilege) -> Probe {
    let met = matches!(privilege, Privilege::Root) || is_mapped(RANGE_UID);
    let map = uid_map();
    probe("any-uid", met, format!("uid {RANGE_UID} against uid_map {map:?}"))
}

/// Tools for restore texts, of both variants and families.
const TOOLS: [&str; 4] =
    ["iptables-nft-restore", "ip6tables-nft-restore", "iptables-legacy-restore", "ip6tables-legacy-restore"];

/// Fault of a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Fault {
    /// No directory of PATH has it.
    Absent(String),
    /// It is there and fails, or nothing can be tried.
    Broken(String),
}

fn iptables_tools(privilege: &Privilege) -> Probe {
    let found = match privilege {
        Privilege::Denied { reason } => Err(Fault::Broken(reason.clone())),
        _ => preflight::in_a_namespace(|| {
            Ok(worst(TOOLS.into_iter().filter_map(|tool| makes_a_table(tool).err())))
        })
        .map_or_else(|why| Err(Fault::Broken(why)), |fault| fault.map_or(Ok(()), Err)),
    };
    let need = "iptables-tools".to_owned();
    match found {
        Ok(()) => Probe {
            need,
            met: true,
            evidence: format!("each made a table: {}", TOOLS.join(", ")),
            absent: false,
        },
        Err(Fault::Absent(evidence)) => Probe { need, met: false, evidence, absent: true },
        Err(Fault::Broken(evidence)) => Probe { need, met: false, evidence, absent: false },
    }
}

/// The fault that decides: one of a tool that is there, before an absence.
fn worst(faults: impl Iterator<Item = Fault>) -> Option<Fault> {
    faults.min_by_key(|fault| matches!(fault, Fault::Absent(_)))
}

fn makes_a_table(tool: &str) -> Result<(), Fault> {
    let broken = |why: &dyn std::fmt::Display| {
        Fault::Broken(format!(
            "{tool} is there and makes no table: {why}; repair it, or what it needs (CAP_NET_ADMIN, CAP_NET_RAW)"
        ))
    };
    let mut command = Command::new(tool);
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = match command.spawn() {
        Err(error) if error.kind() == io::ErrorKind::NotFound && !is_in_path(tool) => {
            return Err(Fault::Absent(format!("{tool}: {error}")));
        }
        spawned => spawned.map_err(|error| broken(&error))?,
    };
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(b"*nat\nCOMMIT\n").map_err(|error| broken(&error))?;
    }
    let ended = child.wait().map_err(|error| broken(&error))?;
    if ended.success() { Ok(()) } else { Err(broken(&ended)) }
}

/// True if a directory of PATH has such a file: ENOENT may also be about the interpreter that it names.
fn is_in_path(tool: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|dir| dir.join(tool).symlink_metadata().is_ok())
}

/// Another kernel is played by tracing: tried on a process that waits for orders and gets none.
fn fake_kernel() -> Probe {
    let (met, evidence) = match try_tracing() {
        Ok(()) if cfg!(target_arch = "x86_64") => {
            (true, "a process of our own was traced (ptrace)".to_owned())
        }
        Ok(()) => (false, "only registers of x86_64 are known".to_owned()),
        Err(why) => (false, why),
    };
    probe("fake-kernel", met, evidence)
}

fn try_tracing() -> Result<(), String> {
    let (_ours, theirs) = UnixStream::pair().map_err(|error| format!("socket pair: {error}"))?;
    let mut child = Command::new(SELF)
        .arg0("cnilab")
        .arg("inside")
        .stdin(OwnedFd::from(theirs))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| format!("start a process: {error}"))?;
    let traced = i32::try_from(child.id()).map_err(|error| error.to_string()).and_then(|id| {
        ptrace::seize(Pid::from_raw(id), ptrace::Options::empty()).map_err(|errno| format!("ptrace: {errno}"))
    });
    // It has done nothing yet, and is waited for in any case.
    let _ = child.kill();
    let _ = child.wait();
    traced
}

/// Pods with users of their own need room for one more user namespace, and users of the node to map.
fn own_users(privilege: &Privilege) -> Probe {
    let last = preflight::last_user();
    let mapped = matches!(privilege, Privilege::Root) || is_mapped(last);
    let path = "/proc/sys/user/max_user_namespaces";
    let most = std::fs::read_to_string(path).unwrap_or_default();
    let room = most.trim().parse::<u64>().is_ok_and(|most| most > 0);
    let evidence = format!("{path} is {:?}; uid {last} against uid_map {:?}", most.trim(), uid_map());
    probe("own-users", mapped && room, evidence)
}

/// A directory beside those of the lab's nodes, on the sandbox's own file system.
const TRIED: &str = "/run/immutable";

/// Root of a user namespace may not set the flag, and older kernels do not know it on a tmpfs.
fn immutable(privilege: &Privilege) -> Probe {
    let tried = match privilege {
        Privilege::Denied { reason } => Err(reason.clone()),
        _ => std::fs::create_dir(TRIED)
            .and_then(|()| immutable::try_flag(Path::new(TRIED)))
            .and_then(|()| std::fs::remove_dir(TRIED))
            .map_err(|error| format!("{TRIED}: {error}")),
    };
    let evidence =
        tried.as_ref().err().cloned().unwrap_or_else(|| format!("{TRIED} was immutable for a moment"));
    probe(immutable::IMMUTABLE, tried.is_ok(), evidence)
}

fn uid_map() -> String {
    let text = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn is_mapped(uid: u32) -> bool {
    std::fs::read_to_string("/proc/self/uid_map").is_ok_and(|map| maps(&map, uid))
}

/// True if a `uid_map` maps this user inside.
fn maps(map: &str, uid: u32) -> bool {
    map.lines().any(|line| {
        let mut fields = line.split_whitespace().map_while(|field| field.parse::<u64>().ok());
        let (Some(inner), Some(_), Some(count)) = (fields.next(), fields.next(), fields.next()) else {
            return false;
        };
        (inner..inner + count).contains(&u64::from(uid))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_map_of_one_user_does_not_hold_the_proxys() {
        assert!(!maps("         0       1000          1\n", PROXY_UID));
        assert!(maps("0 1000 1\n1 100000 65536\n", PROXY_UID));
        assert!(!maps("0 1000 1\n1 100000 65536\n", RANGE_UID));
        assert!(maps("0 0 4294967295\n", RANGE_UID));
    }

    #[test]
    fn a_denied_sandbox_meets_no_kernel_need_and_says_why() {
        let probe = real_kernel(&Privilege::Denied { reason: "EPERM".into() });
        assert_eq!((probe.met, probe.evidence.as_str()), (false, "EPERM"));
    }

    #[test]
    fn a_tool_that_is_there_and_fails_is_broken_and_one_that_is_not_is_absent() {
        assert!(matches!(makes_a_table("cnilab-has-no-such-tool"), Err(Fault::Absent(_))));
        let dir = tempfile::tempdir().unwrap();
        for text in ["#!/bin/sh\ncat >/dev/null; exit 1\n", "#!/nonexistent/interpreter\n"] {
            let tool = dir.path().join("iptables-nft-restore");
            std::fs::write(&tool, text).unwrap();
            std::fs::set_permissions(&tool, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
            let found = makes_a_table(tool.to_str().unwrap());
            assert!(matches!(&found, Err(Fault::Broken(why)) if why.contains("is there")), "{found:?}");
        }
        let (absent, broken) = (|| Fault::Absent("a".into()), || Fault::Broken("b".into()));
        assert_eq!(worst([absent(), broken()].into_iter()), Some(broken()));
        assert_eq!(worst([absent()].into_iter()), Some(absent()));
    }

    #[test]
    fn every_need_is_probed() {
        let probes = all(&Privilege::Denied { reason: String::new() });
        assert!(crate::catalogue::NEEDS.iter().all(|need| probes.iter().any(|probe| probe.need == *need)));
    }
}
