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
use crate::catalogue::{Entry, NEEDS};
use crate::immutable;
use crate::lacks;
use crate::plan::{Place, Privilege};
use crate::tier::preflight;

/// The user that an injected proxy runs as unless the platform says otherwise; rules name it.
const PROXY_UID: u32 = 1337;

/// A user of the range that OpenShift assigns to a namespace.
const RANGE_UID: u32 = 1_000_659_999;

/// Runs every probe, in the order of [`NEEDS`].
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

/// Needs that somebody's cluster may meet; scenarios find out. The others are about a node that the lab makes.
const OF_CLUSTERS: [&str; 3] = ["real-kernel", "ipv6", "any-uid"];

/// Capabilities of somebody's cluster.
#[must_use]
pub fn of_cluster(session: &Session) -> Vec<Probe> {
    let probe = |need: &str| {
        let met = OF_CLUSTERS.contains(&need);
        let evidence = if met { session.evidence() } else { "the node is not the lab's" };
        Probe { need: need.to_owned(), met, evidence: evidence.to_owned() }
    };
    NEEDS.map(probe).to_vec()
}

/// Reason why a scenario cannot run here.
#[must_use]
pub fn unmet(entry: &Entry, probes: &[Probe]) -> Option<String> {
    lacks::unmet(&entry.tags, probes).map(|probe| format!("no {}: {}", probe.need, probe.evidence))
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
    Probe { need: "real-kernel".into(), met, evidence }
}

fn ipv6() -> Probe {
    let (met, evidence) = match TcpListener::bind((Ipv6Addr::UNSPECIFIED, 0)) {
        Ok(_) => (true, "a TCP socket was bound to ::".to_owned()),
        Err(error) => (false, format!("bind to :: failed: {error}")),
    };
    Probe { need: "ipv6".into(), met, evidence }
}

fn any_uid(privilege: &Privilege) -> Probe {
    let met = matches!(privilege, Privilege::Root) || is_mapped(RANGE_UID);
    let map = uid_map();
    Probe { need: "any-uid".into(), met, evidence: format!("uid {RANGE_UID} against uid_map {map:?}") }
}

/// Tools for restore texts, of both variants and families.
const TOOLS: [&str; 4] =
    ["iptables-nft-restore", "ip6tables-nft-restore", "iptables-legacy-restore", "ip6tables-legacy-restore"];

fn iptables_tools(privilege: &Privilege) -> Probe {
    let found = match privilege {
        Privilege::Denied { reason } => Err(reason.clone()),
        _ => preflight::in_a_namespace(|| TOOLS.into_iter().try_for_each(makes_a_table)),
    };
    let evidence = match &found {
        Ok(()) => format!("each made a table: {}", TOOLS.join(", ")),
        Err(why) => why.clone(),
    };
    Probe { need: "iptables-tools".into(), met: found.is_ok(), evidence }
}

fn makes_a_table(tool: &str) -> Result<(), String> {
    let failed = |error: io::Error| format!("{tool}: {error}");
    let mut command = Command::new(tool);
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().map_err(failed)?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(b"*nat\nCOMMIT\n").map_err(failed)?;
    }
    let ended = child.wait().map_err(failed)?;
    if ended.success() { Ok(()) } else { Err(format!("{tool} makes no table: {ended}")) }
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
    Probe { need: "fake-kernel".into(), met, evidence }
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
    Probe { need: "own-users".into(), met: mapped && room, evidence }
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
    Probe { need: "immutable".into(), met: tried.is_ok(), evidence }
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
    fn every_need_is_probed() {
        let probes = all(&Privilege::Denied { reason: String::new() });
        assert!(NEEDS.iter().all(|need| probes.iter().any(|probe| probe.need == *need)));
    }
}
