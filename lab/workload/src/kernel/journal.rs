// SPDX-License-Identifier: Apache-2.0
//! Writes down what a program does to the files of some directories, for [`cluster::power`].

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use cluster::power::{Change, Content};
use nix::libc::{self, user_regs_struct};
use nix::unistd::Pid;

use super::memory::text;

/// `RENAME_EXCHANGE`
const EXCHANGE: u64 = 2;

/// A call whose effect is known when it returns.
#[derive(Debug)]
enum Call {
    Open {
        at: PathBuf,
        was_there: bool,
        truncates: bool,
    },
    Sync {
        file: u64,
    },
    Truncate {
        file: u64,
    },
    Rename {
        from: PathBuf,
        to: PathBuf,
        exchanges: bool,
    },
    Remove {
        at: PathBuf,
    },
    /// From another directory.
    Arrive {
        at: PathBuf,
    },
}

/// A journal that is being written, a line of JSON for each change.
pub(super) struct Journal {
    out: File,
    directories: Vec<PathBuf>,
    /// Numbers of files, by device and inode.
    files: HashMap<(u64, u64), u64>,
    last: u64,
    under_way: HashMap<Pid, Call>,
}

impl Journal {
    /// Begins with what is in the directories.
    pub(super) fn begin(to: &Path, directories: &[PathBuf]) -> Result<Self> {
        let out = File::create(to).with_context(|| format!("cannot make {}", to.display()))?;
        let directories = directories
            .iter()
            .map(|at| fs::canonicalize(at).with_context(|| format!("cannot find {}", at.display())))
            .collect::<Result<Vec<_>>>()?;
        let mut journal = Self {
            out,
            directories: directories.clone(),
            files: HashMap::new(),
            last: 0,
            under_way: HashMap::new(),
        };
        for at in
            directories.iter().flat_map(|directory| fs::read_dir(directory).into_iter().flatten().flatten())
        {
            journal.find(at.path())?;
        }
        Ok(journal)
    }

    fn find(&mut self, at: PathBuf) -> Result<()> {
        // What a link leads to is the lab's.
        let Ok(found) = fs::symlink_metadata(&at) else { return Ok(()) };
        if !found.is_file() {
            return Ok(());
        }
        let content = Content::of(&fs::read(&at).with_context(|| format!("cannot read {}", at.display()))?);
        let file = self.number((found.dev(), found.ino()));
        self.write(&Change::Found { at, file, content })
    }

    fn number(&mut self, inode: (u64, u64)) -> u64 {
        self.last += 1;
        self.files.insert(inode, self.last);
        self.last
    }

    fn write(&mut self, change: &Change) -> Result<()> {
        let line = serde_json::to_string(change)? + "\n";
        self.out.write_all(line.as_bytes()).context("cannot write the journal")
    }

    /// Takes in a call that begins.
    pub(super) fn begins(&mut self, pid: Pid, registers: &user_regs_struct) {
        if let Some(call) = self.call(pid, registers) {
            self.under_way.insert(pid, call);
        }
    }

    /// Writes down a call that returns.
    pub(super) fn returns(&mut self, pid: Pid, registers: &user_regs_struct) -> Result<()> {
        let Some(call) = self.under_way.remove(&pid) else { return Ok(()) };
        if registers.rax.cast_signed() < 0 {
            return Ok(());
        }
        let change = match call {
            Call::Open { at, was_there, truncates } => {
                return self.opened(pid, registers.rax, at, was_there, truncates);
            }
            Call::Sync { .. } | Call::Truncate { .. } => return self.of_file(pid, &call),
            Call::Rename { from, to, exchanges: false } => Change::Renamed { from, to },
            Call::Rename { from, to, exchanges: true } => Change::Exchanged { one: from, other: to },
            Call::Remove { at } => Change::Removed { at },
            // What is synced elsewhere is not known: the worst is assumed.
            Call::Arrive { at } => {
                let Ok(found) = fs::metadata(&at) else { return Ok(()) };
                let file = self.number((found.dev(), found.ino()));
                Change::Made { at, file }
            }
        };
        self.write(&change)
    }

    fn opened(&mut self, pid: Pid, file: u64, at: PathBuf, was_there: bool, truncates: bool) -> Result<()> {
        let Ok(found) = fs::metadata(descriptor(pid, file)) else { return Ok(()) };
        let inode = (found.dev(), found.ino());
        match (was_there, self.files.get(&inode).copied()) {
            _ if !found.is_file() => Ok(()),
            (true, Some(file)) if truncates => self.write(&Change::Truncated { file }),
            (true, _) => Ok(()),
            (false, _) => {
                let file = self.number(inode);
                self.write(&Change::Made { at, file })
            }
        }
    }

    /// Of a descriptor, which another thread may have closed meanwhile.
    fn of_file(&mut self, pid: Pid, call: &Call) -> Result<()> {
        let (Call::Sync { file: number } | Call::Truncate { file: number }) = *call else { return Ok(()) };
        let path = descriptor(pid, number);
        let Ok(found) = fs::metadata(&path) else { return Ok(()) };
        if found.is_dir() {
            let at = fs::read_link(&path).unwrap_or_default();
            return if self.directories.contains(&at) {
                self.write(&Change::SyncedDirectory { at })
            } else {
                Ok(())
            };
        }
        let Some(file) = self.files.get(&(found.dev(), found.ino())).copied() else { return Ok(()) };
        match call {
            Call::Truncate { .. } => self.write(&Change::Truncated { file }),
            _ => {
                let content = Content::of(&fs::read(&path).context("cannot read a file that is synced")?);
                self.write(&Change::Synced { file, content })
            }
        }
    }

    fn call(&self, pid: Pid, registers: &user_regs_struct) -> Option<Call> {
        let user_regs_struct { rdi, rsi, rdx, r10, r8, .. } = *registers;
        let here = libc::AT_FDCWD as u64;
        match i64::try_from(registers.orig_rax).ok()? {
            libc::SYS_open => self.open(pid, (here, rdi), rsi),
            libc::SYS_openat => self.open(pid, (rdi, rsi), rdx),
            libc::SYS_creat => self.open(pid, (here, rdi), (libc::O_CREAT | libc::O_TRUNC) as u64),
            libc::SYS_fsync | libc::SYS_fdatasync => Some(Call::Sync { file: rdi }),
            libc::SYS_ftruncate => Some(Call::Truncate { file: rdi }),
            libc::SYS_rename => self.rename(pid, [(here, rdi), (here, rsi)], 0),
            libc::SYS_renameat => self.rename(pid, [(rdi, rsi), (rdx, r10)], 0),
            libc::SYS_renameat2 => self.rename(pid, [(rdi, rsi), (rdx, r10)], r8),
            libc::SYS_unlink => Some(Call::Remove { at: self.path(pid, (here, rdi))? }),
            libc::SYS_unlinkat => Some(Call::Remove { at: self.path(pid, (rdi, rsi))? }),
            _ => None,
        }
    }

    fn open(&self, pid: Pid, named: (u64, u64), flags: u64) -> Option<Call> {
        let has = |flag: i32| flags & u64::from(flag.cast_unsigned()) != 0;
        if !has(libc::O_CREAT) && !has(libc::O_TRUNC) {
            return None;
        }
        let at = self.path(pid, named)?;
        let was_there = fs::symlink_metadata(&at).is_ok();
        Some(Call::Open { at, was_there, truncates: has(libc::O_TRUNC) })
    }

    /// A file that goes elsewhere is removed.
    fn rename(&self, pid: Pid, [from, to]: [(u64, u64); 2], flags: u64) -> Option<Call> {
        let (from, to) = (self.path(pid, from), self.path(pid, to));
        match (from, to) {
            (Some(from), Some(to)) => Some(Call::Rename { from, to, exchanges: flags & EXCHANGE != 0 }),
            (Some(at), None) => Some(Call::Remove { at }),
            (None, Some(at)) => Some(Call::Arrive { at }),
            (None, None) => None,
        }
    }

    /// The path of a name, if it is in one of the directories.
    fn path(&self, pid: Pid, (directory, at): (u64, u64)) -> Option<PathBuf> {
        let name = PathBuf::from(text(pid, at)?);
        let base = match directory as i32 {
            libc::AT_FDCWD => PathBuf::from(format!("/proc/{pid}/cwd")),
            number => descriptor(pid, u64::try_from(number).ok()?),
        };
        let whole = base.join(&name);
        let parent = fs::canonicalize(whole.parent()?).ok()?;
        self.directories.contains(&parent).then(|| parent.join(name.file_name().unwrap_or_default()))
    }
}

fn descriptor(pid: Pid, number: u64) -> PathBuf {
    PathBuf::from(format!("/proc/{pid}/fd/{number}"))
}
