// SPDX-License-Identifier: Apache-2.0
//! Tells when something changed in a directory or behind a symbolic link in it, also in one that is missing, deleted, made again or replaced: then
//! the nearest directory above it is watched. What changed it does not tell: whoever asks looks at everything anyway, so that an event that got lost is no worse than a late one.

mod links;
mod making;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use rustix::io::Errno;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::time::{Instant, timeout_at};

use crate::conflist::scan::ConfigFormat;
use crate::files;
use making::Making;

/// Writers that are not done with a file are given this long after each event …
const QUIET: Duration = Duration::from_millis(10);
/// … but no longer than this in all: healing takes no more than 100 ms.
const PATIENCE: Duration = Duration::from_millis(40);

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WatchedDirectory {
    pub directory: PathBuf,
    /// The names in it that matter.
    pub names: Names,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Names {
    All,
    One(String),
    /// Those of network configurations: writers make others first, and move them.
    Configurations,
}

impl Names {
    /// True if a name is among them.
    fn have(&self, name: &str) -> bool {
        match self {
            Self::All => true,
            Self::One(only) => only == name,
            Self::Configurations => ConfigFormat::of(name).is_some(),
        }
    }
}

#[derive(Debug)]
pub struct Watcher {
    events: AsyncFd<OwnedFd>,
    /// Names that matter, by the kernel's watch descriptor.
    watched: BTreeMap<i32, Vec<Names>>,
    /// Directories that could not be watched, which was told.
    unwatched: BTreeSet<PathBuf>,
}

impl Watcher {
    /// One that watches nothing yet.
    ///
    /// # Errors
    /// The kernel has no more of them for us (`fs.inotify.max_user_instances`).
    #[expect(
        deprecated,
        reason = "its successor is unsafe code; an OwnedFd cannot be closed while it is registered"
    )]
    pub fn new() -> io::Result<Self> {
        let events = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        let events = AsyncFd::with_interest(events, Interest::READABLE)?;
        Ok(Self { events, watched: BTreeMap::new(), unwatched: BTreeSet::new() })
    }

    /// Watches these places from now on, and what has to be watched for each of them to come back. To be called before each look: what happens
    /// after it is told.
    pub fn arm(&mut self, places: &[WatchedDirectory]) {
        let mut wanted: BTreeMap<i32, Vec<Names>> = BTreeMap::new();
        let behind = places.iter().flat_map(links::behind);
        for place in places.iter().cloned().chain(behind) {
            if let Some(number) = self.add(&place.directory) {
                wanted.entry(number).or_default().push(place.names);
            }
            // The directory's own name: it may be moved away, or what it leads to may be replaced.
            if let Some((above, name)) = self.nearest(&place.directory) {
                wanted.entry(above).or_default().push(Names::One(name));
            }
        }
        for number in self.watched.keys().filter(|number| !wanted.contains_key(number)) {
            // One that the kernel has ended already.
            let _ = inotify::remove_watch(&self.events, *number);
        }
        self.watched = wanted;
    }

    /// Watches the nearest directory above `path` that is there, for the name that leads to `path`.
    fn nearest(&mut self, path: &Path) -> Option<(i32, String)> {
        path.ancestors().zip(path.ancestors().skip(1)).find_map(|(child, above)| {
            let name = child.file_name()?.to_string_lossy().into_owned();
            Some((self.add(above)?, name))
        })
    }

    fn add(&mut self, directory: &Path) -> Option<i32> {
        let what = WatchFlags::CREATE
            | WatchFlags::CLOSE_WRITE
            | WatchFlags::MODIFY
            | WatchFlags::ATTRIB
            | WatchFlags::MOVE
            | WatchFlags::DELETE
            | WatchFlags::DELETE_SELF
            | WatchFlags::MOVE_SELF
            | WatchFlags::ONLYDIR;
        match inotify::add_watch(&self.events, directory, what) {
            Ok(number) => {
                self.unwatched.remove(directory);
                Some(number)
            }
            Err(Errno::NOENT | Errno::NOTDIR) => {
                self.unwatched.remove(directory);
                None
            }
            Err(error) => {
                if !self.unwatched.insert(directory.to_owned()) {
                    return None;
                }
                let directory = directory.display();
                tracing::warn!(target: "install", %directory, %error, "failed to watch; it is looked at from time to time");
                None
            }
        }
    }

    /// Waits until something that matters happened, and whoever does it is done or pauses. When the first of it was heard of.
    pub async fn changed(&mut self) -> std::time::Instant {
        let mut making = Making::default();
        self.event(&mut making).await;
        let first = Instant::now();
        let last = first + PATIENCE;
        while !making.is_done()
            && timeout_at(last.min(Instant::now() + QUIET), self.event(&mut making)).await.is_ok()
        {}
        first.into_std()
    }

    /// Waits for events that matter, and takes in all of them.
    async fn event(&mut self, making: &mut Making) {
        loop {
            let Ok(mut ready) = self.events.readable().await else { return };
            let mut buffer = [MaybeUninit::uninit(); 4096];
            let mut reader = Reader::new(ready.get_inner(), &mut buffer);
            let mut any = false;
            loop {
                match reader.next() {
                    Ok(event) => {
                        let name = event.file_name().map(|name| name.to_string_lossy().into_owned());
                        if self.matters(event.wd(), name.as_deref(), event.events()) {
                            any = true;
                            making.hear(event.wd(), name, event.events());
                        }
                    }
                    Err(Errno::INTR) => {}
                    Err(_) => break,
                }
            }
            ready.clear_ready();
            if any {
                return;
            }
        }
    }

    fn matters(&self, directory: i32, name: Option<&str>, what: ReadFlags) -> bool {
        // Our own: a write that fails would else be tried again at once, for ever.
        let is_temporary = name.is_some_and(|name| files::written_name(name).is_some());
        let wanted = |all: &Vec<Names>| all.iter().any(|names| name.is_none_or(|name| names.have(name)));
        !is_temporary && self.watched.get(&directory).is_none_or(wanted) && !what.contains(ReadFlags::IGNORED)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use tokio::time::timeout;

    use super::*;

    /// Far longer than an event takes.
    const LONG: Duration = Duration::from_secs(10);

    async fn tells(watcher: &mut Watcher, places: &[WatchedDirectory], what: &str, change: impl FnOnce()) {
        watcher.arm(places);
        change();
        assert!(timeout(LONG, watcher.changed()).await.is_ok(), "nobody told: {what}");
    }

    #[tokio::test]
    async fn a_directory_is_followed_through_everything_that_happens_to_it() {
        let root = tempfile::tempdir().unwrap();
        let directory = root.path().join("etc/cni/net.d");
        let places = [WatchedDirectory { directory: directory.clone(), names: Names::All }];
        let mut watcher = Watcher::new().unwrap();
        tells(&mut watcher, &places, "made from far above", || fs::create_dir_all(&directory).unwrap()).await;
        tells(&mut watcher, &places, "a file", || fs::write(directory.join("a"), "1").unwrap()).await;
        tells(&mut watcher, &places, "written in place", || fs::write(directory.join("a"), "2").unwrap())
            .await;
        let away = root.path().join("a");
        tells(&mut watcher, &places, "moved out", || fs::rename(directory.join("a"), &away).unwrap()).await;
        tells(&mut watcher, &places, "moved in", || fs::rename(&away, directory.join("b")).unwrap()).await;
        tells(&mut watcher, &places, "removed", || fs::remove_file(directory.join("b")).unwrap()).await;
        let old = root.path().join("etc/cni/old");
        tells(&mut watcher, &places, "moved away", || fs::rename(&directory, &old).unwrap()).await;
        tells(&mut watcher, &places, "made again", || fs::create_dir(&directory).unwrap()).await;
        tells(&mut watcher, &places, "a file in the new one", || fs::write(directory.join("a"), "").unwrap())
            .await;
        tells(&mut watcher, &places, "removed altogether", || fs::remove_dir_all(&directory).unwrap()).await;
        tells(&mut watcher, &places, "and made", || fs::create_dir(&directory).unwrap()).await;
        assert!(watcher.watched.len() <= 2, "what is no longer wanted is not watched: {:?}", watcher.watched);
    }

    #[tokio::test]
    async fn what_a_link_leads_to_is_followed_through_everything_on_the_way() {
        use std::os::unix::fs::symlink;

        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().join(name);
        fs::create_dir_all(at("net.d")).unwrap();
        fs::create_dir_all(at("else/v1/deep")).unwrap();
        fs::create_dir_all(at("else/v2/deep")).unwrap();
        symlink("v1", at("else/now")).unwrap();
        fs::write(at("else/v1/deep/a"), "1").unwrap();
        symlink("../else/./now/deep/a", at("net.d/a")).unwrap();
        for names in [Names::All, Names::One("a".to_owned())] {
            let places = [WatchedDirectory { directory: at("net.d"), names }];
            let mut watcher = Watcher::new().unwrap();
            tells(&mut watcher, &places, "in place", || fs::write(at("net.d/a"), "2").unwrap()).await;
            tells(&mut watcher, &places, "replaced", || {
                fs::write(at("b"), "3").unwrap();
                fs::rename(at("b"), at("else/v1/deep/a")).unwrap();
            })
            .await;
            tells(&mut watcher, &places, "another directory", || {
                symlink("v2", at("else/next")).unwrap();
                fs::rename(at("else/next"), at("else/now")).unwrap();
            })
            .await;
            tells(&mut watcher, &places, "what was missing", || {
                fs::write(at("else/v2/deep/a"), "4").unwrap();
            })
            .await;
            fs::remove_file(at("else/v2/deep/a")).unwrap();
            symlink("v1", at("else/next")).unwrap();
            fs::rename(at("else/next"), at("else/now")).unwrap();
        }
        symlink("a", at("net.d/b")).unwrap();
        fs::remove_file(at("net.d/a")).unwrap();
        symlink("b", at("net.d/a")).unwrap();
        let places = [WatchedDirectory { directory: at("net.d"), names: Names::All }];
        tells(&mut Watcher::new().unwrap(), &places, "a link to itself", || {
            fs::remove_file(at("net.d/b")).unwrap();
        })
        .await;
    }

    #[tokio::test]
    async fn kubelets_swap_of_a_volume_is_told_and_other_names_are_not() {
        let root = tempfile::tempdir().unwrap();
        let account = root.path().join("account");
        fs::create_dir_all(account.join("v1")).unwrap();
        let places = [
            WatchedDirectory { directory: account.clone(), names: Names::All },
            WatchedDirectory { directory: root.path().to_owned(), names: Names::One("wanted".to_owned()) },
        ];
        let mut watcher = Watcher::new().unwrap();
        tells(&mut watcher, &places, "..data", || {
            std::os::unix::fs::symlink("v1", account.join("..tmp")).unwrap();
            fs::rename(account.join("..tmp"), account.join("..data")).unwrap();
        })
        .await;
        watcher.arm(&places);
        fs::write(root.path().join("istio-cni.log"), "a line").unwrap();
        fs::write(account.join("token.tmp.0123456789abcdef"), "ours").unwrap();
        let woken = timeout(Duration::from_millis(200), watcher.changed()).await;
        assert!(woken.is_err(), "a name that does not matter wakes nobody");
        tells(&mut watcher, &places, "the name that matters", || {
            fs::write(root.path().join("wanted"), "").unwrap()
        })
        .await;
    }

    /// The clock moves only where somebody waits for it: not for a change that is whole.
    #[tokio::test(start_paused = true)]
    async fn a_change_that_is_whole_is_told_at_once_and_half_of_one_is_not() {
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().join(name);
        let places = [WatchedDirectory { directory: root.path().to_owned(), names: Names::Configurations }];
        let mut watcher = Watcher::new().unwrap();
        watcher.arm(&places);
        fs::write(at("a.conflist.new"), "of no runtime").unwrap();
        fs::write(at("a.conflist"), "whole").unwrap();
        let begun = Instant::now();
        watcher.changed().await;
        assert_eq!(Instant::now(), begun, "written and closed");
        fs::rename(at("a.conflist.new"), at("a.conflist")).unwrap();
        watcher.changed().await;
        assert_eq!(Instant::now(), begun, "moved to its name");
        let half = fs::File::create(at("b.conflist")).unwrap();
        watcher.changed().await;
        assert!(Instant::now() >= begun + QUIET, "made, and not yet filled");
        drop(half);
    }
}
