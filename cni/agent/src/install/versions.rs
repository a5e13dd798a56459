// SPDX-License-Identifier: Apache-2.0
//! Plugins of the node that support the newest version of the specification: each is asked as a runtime would, once if it answers.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use serde::Deserialize;

use crate::conflist::NEWEST;
use crate::files::version::FileVersion;

/// Deadline of a plugin's answer.
const LIMIT: Duration = Duration::from_secs(2);
/// Time after which one that gave no answer is asked again: the first start of a large program after a boot may take long.
const AGAIN: Duration = Duration::from_secs(60);
/// Size limit of an answer.
const LARGEST: u64 = 64 << 10;

/// Cached answers, valid until the binary changes.
#[derive(Debug, Default)]
pub struct Versions(BTreeMap<PathBuf, Known>);

#[derive(Debug)]
struct Known {
    binary: FileVersion,
    able: bool,
    /// End of an answer that was none.
    again: Option<Instant>,
}

#[derive(Deserialize)]
struct VersionReply {
    #[serde(default, rename = "supportedVersions")]
    supported: Vec<String>,
}

impl Versions {
    /// Filters `types` by support.
    pub fn able(&mut self, directories: &[PathBuf], types: BTreeSet<String>) -> BTreeSet<String> {
        types.into_iter().filter(|kind| self.is_able(directories, kind)).collect()
    }

    fn is_able(&mut self, directories: &[PathBuf], kind: &str) -> bool {
        if kind.contains('/') {
            return false;
        }
        let found = directories.iter().map(|directory| directory.join(kind));
        let Some((path, now)) =
            found.filter_map(|path| FileVersion::of(&path).ok().map(|now| (path, now))).next()
        else {
            return false;
        };
        let holds =
            |known: &&Known| known.binary == now && known.again.is_none_or(|again| Instant::now() < again);
        if let Some(known) = self.0.get(&path).filter(holds) {
            return known.able;
        }
        let answer = ask(&path);
        let able = answer.as_ref().is_some_and(|answer| answer.supported.iter().any(|one| one == NEWEST));
        if !self.0.get(&path).is_some_and(|known| known.binary == now && known.able == able) {
            tracing::info!(target: "install", plugin = kind, able, answered = answer.is_some(), version = NEWEST, "asked a plugin for its versions");
        }
        let again = answer.is_none().then(|| Instant::now() + AGAIN);
        self.0.insert(path, Known { binary: now, able, again });
        able
    }
}

/// Asks a plugin for its `VERSION`; `None` if it does not answer in time.
fn ask(path: &Path) -> Option<VersionReply> {
    let mut command = Command::new(path);
    command.env_clear().env("CNI_COMMAND", "VERSION");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).process_group(0);
    let mut child = command.spawn().ok()?;
    let text = talk(&mut child);
    // With what it started, as far as that has not ended by itself.
    let _ = kill_process_group(Pid::from_child(&child), Signal::KILL);
    let _ = child.wait();
    serde_json::from_slice(&text?).ok()
}

fn talk(child: &mut Child) -> Option<Vec<u8>> {
    let (mut stdin, stdout) = (child.stdin.take()?, child.stdout.take()?);
    let (send, receive) = mpsc::channel();
    // It ends with the child's group, at the latest.
    std::thread::spawn(move || {
        // One that does not want to hear it may answer all the same.
        let _ = stdin.write_all(format!("{{\"cniVersion\":\"{NEWEST}\"}}").as_bytes());
        drop(stdin);
        let mut text = Vec::new();
        if stdout.take(LARGEST).read_to_end(&mut text).is_ok() {
            let _ = send.send(text);
        }
    });
    receive.recv_timeout(LIMIT).ok()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn write(path: &Path, script: &str) {
        fs::write(path, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    #[test]
    fn who_did_not_answer_is_asked_again_after_a_while() {
        let node = tempfile::tempdir().unwrap();
        let warm = node.path().join("warm");
        let says = format!(r#"test -e {} && echo '{{"supportedVersions":["1.1.0"]}}'"#, warm.display());
        write(&node.path().join("slow"), &says);
        let (mut versions, directories) = (Versions::default(), [node.path().to_owned()]);
        let slow = || BTreeSet::from(["slow".to_owned()]);
        assert_eq!(versions.able(&directories, slow()), BTreeSet::new());
        fs::write(warm, "").unwrap();
        assert_eq!(versions.able(&directories, slow()), BTreeSet::new(), "not at once");
        for again in versions.0.values_mut().filter_map(|known| known.again.as_mut()) {
            *again = Instant::now();
        }
        assert_eq!(versions.able(&directories, slow()), slow());
    }

    #[test]
    fn who_says_so_is_able_and_nobody_else() {
        let node = tempfile::tempdir().unwrap();
        let plugin = |name: &str, script: &str| write(&node.path().join(name), script);
        let says = |versions: &str| {
            format!(r#"test "$CNI_COMMAND" = VERSION && echo '{{"supportedVersions":[{versions}]}}'"#)
        };
        plugin("new", &says(r#""1.0.0","1.1.0""#));
        plugin("old", &says(r#""0.4.0","1.0.0""#));
        plugin("broken", "exit 1");
        plugin("hanging", "exec 0<&-; exec /bin/sleep 60");
        let types: BTreeSet<_> =
            ["new", "old", "broken", "hanging", "missing", "../new"].map(str::to_owned).into();
        let mut versions = Versions::default();
        let directories = [node.path().to_owned()];
        assert_eq!(versions.able(&directories, types), BTreeSet::from(["new".to_owned()]));
        plugin("new", &says(r#""1.0.0""#));
        let new = BTreeSet::from(["new".to_owned()]);
        assert_eq!(versions.able(&directories, new), BTreeSet::new(), "who changed is asked again");
    }
}
