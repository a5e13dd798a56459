// SPDX-License-Identifier: Apache-2.0
//! The files that a run in a sandbox executes: the product's, copied once, and the lab's own program of pods. Copies are hashed as they are
//! written, and lie on file systems that are read-only from then on. A product that is root beside them can undo that; so it is looked at
//! after each scenario whether they are the same files and whether the lab's processes run them (`tampered`), and at the end of the run whether they
//! have the same content.

use std::fmt;
use std::fs::{self, Metadata, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use anyhow::{Context as _, ensure};
use data_encoding::HEXLOWER;
use nix::mount::{MsFlags, mount};
use sha2::{Digest as _, Sha256};

use crate::drawn::Drawn;
use crate::plan::Sut;
use crate::tampered;
use crate::verdict::{Record, StepKind, Verdict};

/// Where the product's copies are, and the lab's, unless the run draws names.
const PRODUCT: &str = "cnilab-product";
const OWN: &str = "cnilab-own";

/// Files that must stay what they are.
#[derive(Debug, Default)]
pub struct Sealed {
    files: Vec<Seal>,
    /// A process of the lab that somebody has meddled with, once that was seen.
    tampered: OnceLock<Broken>,
}

/// A file, as it was when the run began.
#[derive(Debug)]
struct Seal {
    path: PathBuf,
    sha256: String,
    identity: Identity,
}

/// What changes with each write to a file, and with each other file in its place. Nobody can set the time of a change of an inode.
#[derive(Debug, PartialEq, Eq)]
struct Identity {
    device: u64,
    inode: u64,
    size: u64,
    mode: u32,
    changed: (i64, i64),
}

impl Identity {
    fn of(found: &Metadata) -> Self {
        let changed = (found.ctime(), found.ctime_nsec());
        Self { device: found.dev(), inode: found.ino(), size: found.size(), mode: found.mode(), changed }
    }
}

/// A file, or a process of it, that is not what it was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broken {
    path: PathBuf,
    what: String,
}

impl fmt::Display for Broken {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, what } = self;
        write!(out, "{} {what} during the run: no verdict of it counts", path.display())
    }
}

impl Sealed {
    /// Copies the product and the program of pods, and lets the run use the copies alone.
    ///
    /// # Errors
    /// The kernel refuses a mount, a file cannot be copied, or one is another than that which was looked at before.
    pub fn take(sut: &mut Sut, workload: &mut PathBuf, drawn: Option<Drawn>) -> anyhow::Result<Self> {
        let at = |name: &str| {
            Path::new("/run").join(drawn.map_or_else(|| name.to_owned(), |drawn| drawn.word(name)))
        };
        let (products, owns) = (at(PRODUCT), at(OWN));
        let mut seals = Vec::new();
        let product = Store::open(&products)?;
        for binary in &mut sut.binaries {
            let seal = product.copy(&binary.path)?;
            ensure!(
                seal.sha256 == binary.sha256,
                "{} was replaced while this run began: start it again",
                binary.path.display()
            );
            binary.path.clone_from(&seal.path);
            seals.push(seal);
        }
        product.close()?;
        (sut.dir, sut.is_sealed) = (products, true);
        let own = Store::open(&owns)?;
        let seal = own.copy(workload)?;
        workload.clone_from(&seal.path);
        seals.push(seal);
        own.close()?;
        Ok(Self { files: seals, tampered: OnceLock::new() })
    }

    /// Looks at the lab's processes of this program, while those of a scenario live.
    ///
    /// # Errors
    /// They cannot be looked at.
    pub fn look_at_processes(&self, program: &Path) -> io::Result<()> {
        // Without a sandbox there is no process of the lab beside the product's.
        if self.files.is_empty() {
            return Ok(());
        }
        if let Some(what) = tampered::look(program)? {
            let _earlier = self.tampered.set(Broken { path: program.to_owned(), what });
        }
        Ok(())
    }

    /// The first file that somebody wrote to or replaced, by its inode, or a process that was meddled with: for a look after each scenario.
    #[must_use]
    pub fn touched(&self) -> Option<Broken> {
        let file = self.files.iter().find_map(|seal| {
            let found = fs::metadata(&seal.path).map(|found| Identity::of(&found));
            let what = match found {
                Ok(found) if found == seal.identity => return None,
                Ok(_) => "was written to or replaced".to_owned(),
                Err(error) => format!("could not be looked at ({error})"),
            };
            Some(Broken { path: seal.path.clone(), what })
        });
        file.or_else(|| self.tampered.get().cloned())
    }

    /// The first file that is not what it was, by inode and by content: for the end of a run.
    #[must_use]
    pub fn broken(&self) -> Option<Broken> {
        self.touched().or_else(|| {
            self.files.iter().find_map(|seal| {
                let is_same = fs::read(&seal.path).is_ok_and(|bytes| digest(&bytes) == seal.sha256);
                (!is_same).then(|| Broken { path: seal.path.clone(), what: "has another content".to_owned() })
            })
        })
    }
}

/// What passed in a run whose files are not what they were proves nothing.
#[must_use]
pub fn judged(records: Vec<Record>, broken: Option<&Broken>) -> Vec<Record> {
    let Some(broken) = broken else { return records };
    let judge = |record: Record| match record.verdict {
        Verdict::Pass | Verdict::Flaky => Record {
            verdict: Verdict::Inconclusive,
            reason: Some(broken.to_string()),
            step_kind: Some(StepKind::End),
            ..record
        },
        _ => record,
    };
    records.into_iter().map(judge).collect()
}

/// A file system of its own for copies.
struct Store<'a>(&'a Path);

impl<'a> Store<'a> {
    fn open(at: &'a Path) -> anyhow::Result<Self> {
        fs::create_dir_all(at).with_context(|| format!("cannot make {}", at.display()))?;
        let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
        mount(Some("cnilab"), at, Some("tmpfs"), flags, Some("mode=0755"))
            .with_context(|| format!("cannot mount {}", at.display()))?;
        Ok(Self(at))
    }

    fn copy(&self, from: &Path) -> anyhow::Result<Seal> {
        let name = from.file_name().with_context(|| format!("{} has no name", from.display()))?;
        let path = self.0.join(name);
        let bytes = fs::read(from).with_context(|| format!("cannot read {}", from.display()))?;
        fs::write(&path, &bytes)
            .and_then(|()| fs::set_permissions(&path, Permissions::from_mode(0o555)))
            .with_context(|| format!("cannot write {}", path.display()))?;
        let found = fs::metadata(&path).with_context(|| format!("cannot look at {}", path.display()))?;
        Ok(Seal { sha256: digest(&bytes), identity: Identity::of(&found), path })
    }

    /// Nothing is written to it any more.
    fn close(self) -> anyhow::Result<()> {
        let flags = MsFlags::MS_REMOUNT | MsFlags::MS_RDONLY | MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
        mount(None::<&str>, self.0, None::<&str>, flags, Some("mode=0755"))
            .with_context(|| format!("cannot seal {}", self.0.display()))
    }
}

fn digest(bytes: &[u8]) -> String {
    HEXLOWER.encode(&Sha256::digest(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sealed(path: &Path) -> Sealed {
        let identity = Identity::of(&fs::metadata(path).unwrap());
        let sha256 = digest(&fs::read(path).unwrap());
        let files = vec![Seal { path: path.to_owned(), sha256, identity }];
        Sealed { files, tampered: OnceLock::new() }
    }

    #[test]
    fn what_is_written_replaced_or_removed_is_named_even_where_the_content_is_put_back() {
        type Change = fn(&Path);
        let changes: [(&str, Change); 4] = [
            ("put back", |path| {
                let before = fs::read(path).unwrap();
                fs::write(path, "another").unwrap();
                fs::write(path, before).unwrap();
            }),
            ("replaced by its like", |path| {
                let fresh = path.with_extension("fresh");
                fs::copy(path, &fresh).unwrap();
                fs::rename(fresh, path).unwrap();
            }),
            ("another mode", |path| fs::set_permissions(path, Permissions::from_mode(0o777)).unwrap()),
            ("removed", |path| fs::remove_file(path).unwrap()),
        ];
        for (name, change) in changes {
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join("workload");
            fs::write(&path, "program").unwrap();
            let sealed = sealed(&path);
            assert_eq!((sealed.touched(), sealed.broken()), (None, None), "{name}");
            change(&path);
            assert_eq!(sealed.touched().map(|broken| broken.path), Some(path), "{name}");
        }
    }

    #[test]
    fn another_content_in_the_same_inode_is_found_at_the_end() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("workload");
        fs::write(&path, "program").unwrap();
        let mut sealed = sealed(&path);
        sealed.files[0].sha256 = digest(b"what it was");
        assert_eq!(sealed.touched(), None);
        assert_eq!(sealed.broken().map(|broken| broken.what), Some("has another content".to_owned()));
    }
}
