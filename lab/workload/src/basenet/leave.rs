// SPDX-License-Identifier: Apache-2.0
//! Side effects of a primary network in a pod's namespace: rules of legacy iptables, sysctls.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};

use nix::sched::{CloneFlags, setns};

use super::Error;
use super::conf::{Call, Conf};

/// Tool with a private lock file: that of the node belongs to others.
const RESTORE: &str = "iptables-legacy-restore";
const LOCK: (&str, &str) = ("XTABLES_LOCKFILE", "/proc/self/ns/net");

/// Leaves what the configuration says in the pod of an ADD.
///
/// # Errors
/// The namespace cannot be entered, or takes none of it.
pub fn leave(call: &Call, conf: &Conf) -> Result<(), Error> {
    if conf.leaves.is_empty() && conf.sysctls.is_empty() {
        return Ok(());
    }
    let netns = call.netns.clone().unwrap_or_default();
    std::thread::scope(|scope| scope.spawn(|| inside(&netns, conf)).join())
        .unwrap_or_else(|_| Err(Error::Io("leave rules", io::ErrorKind::Other.into())))
}

fn inside(netns: &Path, conf: &Conf) -> Result<(), Error> {
    let netns = File::open(netns).map_err(|error| Error::Io("open the pod's namespace", error))?;
    setns(netns, CloneFlags::CLONE_NEWNET)
        .map_err(|errno| Error::Io("enter the pod's namespace", errno.into()))?;
    for (name, value) in &conf.sysctls {
        // Shows the namespace of the thread that looks.
        let path = Path::new("/proc/sys/net").join(name);
        fs::write(path, value).map_err(|error| Error::Io("change a setting", error))?;
    }
    if conf.leaves.is_empty() { Ok(()) } else { restore(&conf.leaves) }
}

fn restore(rules: &str) -> Result<(), Error> {
    let failed = |error| Error::Io("leave rules of iptables-legacy", error);
    let mut tool = Command::new(RESTORE);
    tool.arg("--noflush").env(LOCK.0, LOCK.1).stdin(Stdio::piped()).stderr(Stdio::piped());
    let mut child = tool.spawn().map_err(failed)?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(rules.as_bytes()).map_err(failed)?;
    }
    let output = child.wait_with_output().map_err(failed)?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.success() { Ok(()) } else { Err(failed(io::Error::other(said))) }
}
