// SPDX-License-Identifier: Apache-2.0
//! Election of the agent that installs, among several of a node. While a DaemonSet surges there are two, of two versions, with two tokens: each would take the
//! other's binary and credentials for damage and heal them, for as long as both live.
//!
//! The one that started last installs: it is the one that an operator wants, be it the newer version or, in a rollback, the older one. It puts a
//! file of its own in the run directory and holds it locked. Whoever finds another's file there, and that one alive, leaves the node alone and
//! says so; when that one ends, however it does, the kernel lets the lock go and closes the file, which is an event for the others: one of them takes over.
//!
//! An agent that knows nothing of this file is not kept from anything by it.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// The lock file, in the run directory.
pub const CLAIM: &str = "installer";
/// Its name while it is written: it is renamed when it is locked and complete.
pub const NEW: &str = ".installer.new";

/// An agent's identity, for logs and messages.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Who {
    pub version: String,
    pub pod: String,
}

/// State of the lock file.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Found {
    /// Locked by this agent.
    Own,
    /// Absent, or locked by nobody.
    Free,
    /// Locked by another agent, which is alive.
    Held(Who),
}

/// An agent's role on its node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InstallerRole {
    /// It is the installer.
    Installs,
    /// Another agent is.
    Yields(Who),
}

/// `None`: the lock file is to be taken. An agent that starts takes it from whoever holds it; later it takes only one that is free.
fn decide(has_claimed: bool, found: Found) -> Option<InstallerRole> {
    match (has_claimed, found) {
        (false, _) | (true, Found::Free) => None,
        (true, Found::Own) => Some(InstallerRole::Installs),
        (true, Found::Held(who)) => Some(InstallerRole::Yields(who)),
    }
}

/// An agent's claim to a node. It ends when this is dropped, or with the process.
#[derive(Debug)]
pub struct Claim {
    who: Who,
    path: PathBuf,
    /// Locked as long as it is open.
    held: Option<File>,
    claimed: bool,
}

impl Claim {
    /// An agent without the claim.
    #[must_use]
    pub fn new(run_dir: &Path, pod: &str) -> Self {
        let who = Who { version: env!("CARGO_PKG_VERSION").to_owned(), pod: pod.to_owned() };
        Self { who, path: run_dir.join(CLAIM), held: None, claimed: false }
    }

    /// The agent's role, and its claim where that is due. A lock file that cannot be made keeps nobody from installing: two agents at
    /// once are rare.
    pub fn stand(&mut self) -> InstallerRole {
        if let Some(standing) = decide(self.claimed, self.find()) {
            return standing;
        }
        match self.lay() {
            Ok(file) => self.held = Some(file),
            Err(error) => {
                tracing::debug!(target: "install", path = %self.path.display(), %error, "failed to claim the node");
            }
        }
        self.claimed = true;
        InstallerRole::Installs
    }

    fn find(&self) -> Found {
        // A lock is taken on the file that is opened, whatever name that has by then.
        let Ok(mut file) = File::open(&self.path) else { return Found::Free };
        let is = |file: &File| file.metadata().map(|found| (found.dev(), found.ino())).ok();
        if self.held.as_ref().is_some_and(|held| is(held).is_some() && is(held) == is(&file)) {
            return Found::Own;
        }
        match file.try_lock_shared() {
            Err(TryLockError::WouldBlock) => Found::Held(read(&mut file)),
            // Where nothing can be locked, nobody holds anything.
            Ok(()) | Err(TryLockError::Error(_)) => Found::Free,
        }
    }

    /// Puts a locked file in the place. It has its name last, so that nobody finds it free.
    fn lay(&self) -> io::Result<File> {
        if let Some(directory) = self.path.parent() {
            fs::create_dir_all(directory)?;
        }
        let new = self.path.with_file_name(NEW);
        match fs::remove_file(&new) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
        file.try_lock()?;
        serde_json::to_writer(&mut file, &self.who)?;
        file.flush()?;
        fs::rename(&new, &self.path)?;
        Ok(file)
    }
}

/// Reads the holder's identity.
fn read(file: &mut File) -> Who {
    serde_json::from_reader(io::Read::take(file, 4096)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn who(pod: &str) -> Who {
        Who { version: env!("CARGO_PKG_VERSION").to_owned(), pod: pod.to_owned() }
    }

    #[test]
    fn who_starts_claims_and_who_finds_another_alive_yields() {
        let held = || Found::Held(who("new"));
        for found in [Found::Own, Found::Free, held()] {
            assert_eq!(decide(false, found), None);
        }
        assert_eq!(decide(true, Found::Free), None);
        assert_eq!(decide(true, Found::Own), Some(InstallerRole::Installs));
        assert_eq!(decide(true, held()), Some(InstallerRole::Yields(who("new"))));
    }

    #[test]
    fn of_two_the_later_one_installs_and_the_earlier_one_again_when_that_one_ends() {
        let dir = tempfile::tempdir().unwrap();
        let (mut old, mut new) = (Claim::new(dir.path(), "old"), Claim::new(dir.path(), "new"));
        assert_eq!(old.stand(), InstallerRole::Installs);
        assert_eq!(new.stand(), InstallerRole::Installs);
        for _ in 0..3 {
            assert_eq!(
                (old.stand(), new.stand()),
                (InstallerRole::Yields(who("new")), InstallerRole::Installs)
            );
        }
        drop(new);
        assert_eq!(old.stand(), InstallerRole::Installs);
        let mut third = Claim::new(dir.path(), "third");
        assert_eq!(
            (third.stand(), old.stand()),
            (InstallerRole::Installs, InstallerRole::Yields(who("third")))
        );
    }

    #[test]
    fn a_file_that_a_reboot_or_somebody_took_is_made_again_and_a_dead_ones_is_nobodys() {
        let dir = tempfile::tempdir().unwrap();
        let run_dir = dir.path().join("run");
        let mut one = Claim::new(&run_dir, "one");
        assert_eq!(one.stand(), InstallerRole::Installs, "the directory is made");
        fs::remove_dir_all(&run_dir).unwrap();
        assert_eq!(one.stand(), InstallerRole::Installs);
        assert!(run_dir.join(CLAIM).exists());
        fs::remove_file(run_dir.join(CLAIM)).unwrap();
        fs::write(run_dir.join(CLAIM), "of a process that was killed").unwrap();
        assert_eq!(one.stand(), InstallerRole::Installs);
        assert_eq!(one.stand(), InstallerRole::Installs);
    }
}
