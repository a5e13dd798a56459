// SPDX-License-Identifier: Apache-2.0
//! Loss of power: which states of its disk a node may begin with afterwards. A journal of what a program did to files is played as the worst disk
//! that POSIX allows. Pure.
//!
//! * The content of a file is what was synced last; of one that was never synced, or truncated since, nothing is left.
//! * The names of a directory are those of its last sync and of any number of changes after it, in their order. ext4 and XFS keep the order of
//!   directories among each other as well; POSIX does not.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// A change, in the order of a program's calls. A number is a file, whatever its names are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "said above")]
pub enum Change {
    /// It was there, and durable, when the program began.
    Found {
        at: PathBuf,
        file: u64,
        content: Content,
    },
    /// A new file.
    Made {
        at: PathBuf,
        file: u64,
    },
    /// Its content is gone, or shorter.
    Truncated {
        file: u64,
    },
    /// Its content is durable.
    Synced {
        file: u64,
        content: Content,
    },
    /// Its names are durable.
    SyncedDirectory {
        at: PathBuf,
    },
    Renamed {
        from: PathBuf,
        to: PathBuf,
    },
    Exchanged {
        one: PathBuf,
        other: PathBuf,
    },
    Removed {
        at: PathBuf,
    },
}

/// Content of a file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[expect(missing_docs, reason = "its names say it")]
pub struct Content {
    pub length: u64,
    pub digest: u64,
    /// Of short files alone.
    pub text: Option<String>,
}

/// Longest content that is kept as text.
const LONGEST_TEXT: usize = 64 << 10;

impl Content {
    /// Of bytes. Digests of one build are comparable.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        let mut hasher = DefaultHasher::new();
        bytes.hash(&mut hasher);
        let short = Some(bytes).filter(|bytes| bytes.len() <= LONGEST_TEXT);
        let text = short.and_then(|bytes| String::from_utf8(bytes.to_vec()).ok());
        Self { length: u64::try_from(bytes.len()).unwrap_or(u64::MAX), digest: hasher.finish(), text }
    }
}

/// Files of a disk, by their paths.
pub type Disk = BTreeMap<PathBuf, Content>;

/// Effect of a change on the names of one directory.
#[derive(Debug, Clone)]
enum Naming {
    Set(PathBuf, Option<u64>),
    Both([(PathBuf, Option<u64>); 2]),
}

/// A directory: durable names, and changes since.
#[derive(Debug, Clone, Default)]
struct Directory {
    durable: BTreeMap<PathBuf, u64>,
    since: Vec<Naming>,
}

impl Directory {
    /// Names with the first `count` changes.
    fn names(&self, count: usize) -> BTreeMap<PathBuf, u64> {
        let mut names = self.durable.clone();
        let mut set = |at: &PathBuf, file: &Option<u64>| match file {
            Some(file) => drop(names.insert(at.clone(), *file)),
            None => drop(names.remove(at)),
        };
        for change in self.since.iter().take(count) {
            match change {
                Naming::Set(at, file) => set(at, file),
                Naming::Both(both) => both.iter().for_each(|(at, file)| set(at, file)),
            }
        }
        names
    }

    fn sync(&mut self) {
        self.durable = self.names(self.since.len());
        self.since.clear();
    }
}

#[derive(Debug, Default)]
struct Replay {
    directories: BTreeMap<PathBuf, Directory>,
    /// Names as programs see them.
    names: BTreeMap<PathBuf, u64>,
    /// Content after a loss of power; none is left of a file that is not here.
    contents: BTreeMap<u64, Content>,
}

fn directory(at: &Path) -> PathBuf {
    at.parent().unwrap_or(at).to_owned()
}

impl Replay {
    fn apply(&mut self, change: &Change) {
        match change {
            Change::Found { at, file, content } => {
                self.contents.insert(*file, content.clone());
                self.names.insert(at.clone(), *file);
                self.directories.entry(directory(at)).or_default().durable.insert(at.clone(), *file);
            }
            Change::Made { at, file } => self.name(&[(at, Some(*file))]),
            Change::Truncated { file } => drop(self.contents.remove(file)),
            Change::Synced { file, content } => drop(self.contents.insert(*file, content.clone())),
            Change::SyncedDirectory { at } => self.directories.entry(at.clone()).or_default().sync(),
            Change::Renamed { from, to } => {
                let file = self.names.get(from).copied();
                self.name(&[(from, None), (to, file)]);
            }
            Change::Exchanged { one, other } => {
                let (first, second) = (self.names.get(one).copied(), self.names.get(other).copied());
                self.name(&[(one, second), (other, first)]);
            }
            Change::Removed { at } => self.name(&[(at, None)]),
        }
    }

    /// Changes names, those of one directory at once.
    fn name(&mut self, all: &[(&PathBuf, Option<u64>)]) {
        for (at, file) in all {
            match file {
                Some(file) => drop(self.names.insert((*at).clone(), *file)),
                None => drop(self.names.remove(*at)),
            }
        }
        let own = |(at, file): &(&PathBuf, Option<u64>)| ((*at).clone(), *file);
        match all {
            [one, other] if directory(one.0) == directory(other.0) => {
                self.change(directory(one.0), Naming::Both([own(one), own(other)]));
            }
            all => {
                for one in all {
                    let (at, file) = own(one);
                    self.change(directory(&at), Naming::Set(at, file));
                }
            }
        }
    }

    fn change(&mut self, at: PathBuf, naming: Naming) {
        self.directories.entry(at).or_default().since.push(naming);
    }

    /// Every disk that may be left now.
    fn disks(&self) -> Vec<Disk> {
        let mut disks = vec![Disk::new()];
        for directory in self.directories.values() {
            let choices: Vec<Disk> =
                (0..=directory.since.len()).map(|count| self.disk(directory, count)).collect();
            let both = |disk: &Disk, choice: &Disk| disk.clone().into_iter().chain(choice.clone()).collect();
            disks = disks
                .iter()
                .flat_map(|disk| choices.iter().map(|choice| both(disk, choice)).collect::<Vec<_>>())
                .collect();
        }
        disks
    }

    fn disk(&self, directory: &Directory, count: usize) -> Disk {
        let empty = || Content::of(b"");
        let left = |file: u64| self.contents.get(&file).cloned().unwrap_or_else(empty);
        directory.names(count).into_iter().map(|(at, file)| (at, left(file))).collect()
    }
}

/// Every disk that a loss of power may leave, before the first change, after any, and after the last.
#[must_use]
pub fn disks(journal: &[Change]) -> BTreeSet<Disk> {
    let (mut replay, mut all) = (Replay::default(), BTreeSet::new());
    let (found, changes) =
        journal.split_at(journal.iter().take_while(|change| matches!(change, Change::Found { .. })).count());
    found.iter().for_each(|change| replay.apply(change));
    all.extend(replay.disks());
    for change in changes {
        replay.apply(change);
        if !matches!(change, Change::Found { .. }) {
            all.extend(replay.disks());
        }
    }
    all.extend(replay.disks());
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: &[u8] = b"old";
    const NEW: &[u8] = b"new";

    fn found(at: &str, file: u64) -> Change {
        Change::Found { at: at.into(), file, content: Content::of(OLD) }
    }

    fn made(at: &str, file: u64) -> Change {
        Change::Made { at: at.into(), file }
    }

    fn synced(file: u64) -> Change {
        Change::Synced { file, content: Content::of(NEW) }
    }

    fn renamed(from: &str, to: &str) -> Change {
        Change::Renamed { from: from.into(), to: to.into() }
    }

    fn directory(at: &str) -> Change {
        Change::SyncedDirectory { at: at.into() }
    }

    /// Texts that a file may have afterwards, with `-` for none.
    fn left(journal: &[Change], at: &str) -> String {
        let text = |disk: &Disk| {
            disk.get(Path::new(at)).map_or("-".to_owned(), |content| content.text.clone().unwrap())
        };
        let texts: BTreeSet<_> = disks(journal).iter().map(text).collect();
        texts.into_iter().collect::<Vec<_>>().join("|")
    }

    #[test]
    fn a_file_that_is_synced_before_its_rename_is_the_old_one_or_the_new_one() {
        let journal =
            [found("/d/a", 1), made("/d/t", 2), synced(2), renamed("/d/t", "/d/a"), directory("/d")];
        assert_eq!(left(&journal, "/d/a"), "new|old");
        let mut last = Replay::default();
        journal.iter().for_each(|change| last.apply(change));
        assert_eq!(last.disks().len(), 1, "what is synced is certain");
    }

    #[test]
    fn one_that_is_not_synced_may_be_empty() {
        let journal =
            [found("/d/a", 1), made("/d/t", 2), renamed("/d/t", "/d/a"), synced(2), directory("/d")];
        assert_eq!(left(&journal, "/d/a"), "|new|old");
        assert_eq!(left(&[found("/d/a", 1), Change::Truncated { file: 1 }, synced(1)], "/d/a"), "|new|old");
    }

    #[test]
    fn a_rename_may_be_lost_though_a_later_one_of_another_directory_is_not() {
        let first = [found("/d/a", 1), made("/b/t", 2), synced(2), renamed("/b/t", "/b/x")];
        let second = [made("/d/t", 3), synced(3), renamed("/d/t", "/d/a")];
        let is_lost = |disk: &Disk| {
            disk.get(Path::new("/d/a")).is_some_and(|content| *content == Content::of(NEW))
                && !disk.contains_key(Path::new("/b/x"))
        };
        let unsynced = [&first[..], &second].concat();
        assert!(disks(&unsynced).iter().any(is_lost));
        let synced = [&first[..], &[directory("/b")], &second].concat();
        assert!(!disks(&synced).iter().any(is_lost));
    }

    #[test]
    fn an_exchange_is_one_change() {
        let exchanged = Change::Exchanged { one: "/d/t".into(), other: "/d/a".into() };
        let removed = Change::Removed { at: "/d/t".into() };
        let journal = [found("/d/a", 1), made("/d/t", 2), synced(2), exchanged, removed, directory("/d")];
        assert_eq!(
            (left(&journal, "/d/a").as_str(), left(&journal, "/d/t").as_str()),
            ("new|old", "|-|new|old")
        );
    }
}
