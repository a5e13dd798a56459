// SPDX-License-Identifier: Apache-2.0
//! The configuration that a runtime has in memory: what it read last, not what the directory has now. It reads at each event, as real ones
//! do, so that a list which is wrong for a moment is loaded; and it looks at its watch before it is asked, so that it is not late, unless its
//! configuration says by how much.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant, UNIX_EPOCH};

use cluster::conflist::List;
use cluster::profile::{Removed, Rereads, Without};
use cluster::{RuntimeConf, RuntimeProfile};
use nix::sys::inotify::AddWatchFlags;
use parking_lot::Mutex;
use tokio::sync::watch;

use super::conflist::{Found, Search};
use super::watch::{Follower, Watch};
use crate::error::Error;
use crate::options::scaled;

/// Interval of the runtimes that look and do not watch, and of the search for a directory that is gone.
const EVERY: Duration = scaled(5);

/// Change of a watched directory, in the words of the library that runtimes watch with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Change {
    /// A file came: made, or moved there.
    Created,
    Written,
    /// A file went: moved within the directory, or away.
    Renamed,
    Removed,
    /// The directory itself was removed.
    Gone,
}

/// Subject of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Subject {
    /// The file whose configuration is loaded.
    InUse,
    /// Another one.
    Other,
}

/// True if the runtime reads the configuration directory again after a change.
fn reads_again(rereads: Rereads, change: Change, subject: Subject) -> bool {
    match (rereads, change) {
        (Rereads::EveryFiveSeconds, _) | (Rereads::Written(_), Change::Created) => false,
        (Rereads::Written(_), _) => true,
        (Rereads::CreatedOrWritten, Change::Removed | Change::Gone) => subject == Subject::InUse,
        (Rereads::CreatedOrWritten, _) => true,
    }
}

/// Watched directories.
#[derive(Debug)]
struct Watches {
    configuration: Watch,
    binaries: Option<Watch>,
}

#[derive(Debug)]
struct State {
    /// `None` for a runtime that looks, and where the directory went.
    watch: Option<Watches>,
    /// The time of the last look at the directory.
    looked: Instant,
    /// Something changed that is not loaded yet.
    due: bool,
    found: Option<Found>,
    conf: RuntimeConf,
}

/// Loaded configuration of a node's runtime.
#[derive(Debug)]
pub struct Loaded(Arc<Reader>);

#[derive(Debug)]
struct Reader {
    /// Itself, for its watches.
    own: Weak<Self>,
    directory: PathBuf,
    binaries: PathBuf,
    profile: &'static RuntimeProfile,
    state: Mutex<State>,
    /// Reason of each read that found no network where one was loaded.
    lost: watch::Sender<Vec<String>>,
}

impl Follower for Reader {
    fn changed(&self) {
        self.notice(&mut self.state.lock());
    }
}

impl Loaded {
    /// Configuration of a runtime that starts.
    ///
    /// # Errors
    /// The directory cannot be watched.
    pub fn new(
        directory: &Path,
        binaries: &Path,
        profile: &'static RuntimeProfile,
        conf: RuntimeConf,
    ) -> Result<Self, Error> {
        let state = State { watch: None, looked: Instant::now(), due: false, found: None, conf };
        let (directory, binaries) = (directory.to_owned(), binaries.to_owned());
        let reader = Arc::new_cyclic(|own| Reader {
            own: Weak::clone(own),
            directory,
            binaries,
            profile,
            state: Mutex::new(state),
            lost: watch::Sender::default(),
        });
        reader.restart()?;
        Ok(Self(reader))
    }

    /// Starts anew, as the runtime's process does.
    ///
    /// # Errors
    /// The directory cannot be watched.
    pub fn restart(&self) -> Result<(), Error> {
        self.0.restart()
    }

    /// The list that ADD is called with.
    #[must_use]
    pub fn list(&self) -> Option<List> {
        let mut state = self.0.state.lock();
        self.0.notice(&mut state);
        state.found.as_ref().map(|found| found.list.clone())
    }

    /// Every network of the directory, for a runtime that knows more than one.
    #[must_use]
    pub fn all(&self) -> Vec<List> {
        self.0.search().all(&self.0.directory)
    }

    /// Reasons of the reads so far that found no network where one was loaded.
    #[must_use]
    pub fn lost(&self) -> watch::Receiver<Vec<String>> {
        self.0.lost.subscribe()
    }
}

impl Reader {
    fn restart(&self) -> Result<(), Error> {
        let mut state = self.state.lock();
        // The former watch first: a directory has one at a time.
        (state.found, state.watch, state.due) = (None, None, false);
        state.watch = match self.profile.rereads {
            Rereads::EveryFiveSeconds => None,
            Rereads::Written(_) => Some(self.watch(None)?),
            Rereads::CreatedOrWritten => Some(self.watch(Some(&self.binaries))?),
        };
        self.load(&mut state);
        Ok(())
    }

    fn search(&self) -> Search<'_> {
        Search { unusable: self.profile.unusable, binaries: &self.binaries }
    }

    fn watch(&self, binaries: Option<&Path>) -> Result<Watches, Error> {
        let watched = |path: &Path| Watch::new(path, Weak::<Self>::clone(&self.own));
        Ok(Watches { configuration: watched(&self.directory)?, binaries: binaries.map(watched).transpose()? })
    }

    /// Acts on what has happened since the last time.
    fn notice(&self, state: &mut State) {
        let Some(watch) = &state.watch else { return self.look(state) };
        let in_use = state.found.as_ref().and_then(|found| found.file.file_name());
        let (mut due, mut gone) = (false, false);
        for event in watch.configuration.take() {
            let Some(change) = change(event.mask) else { continue };
            let is_in_use = event.name.as_deref().is_some_and(|name| Some(name) == in_use);
            let subject = if is_in_use { Subject::InUse } else { Subject::Other };
            due |= reads_again(self.profile.rereads, change, subject);
            gone |= change == Change::Gone;
        }
        for event in watch.binaries.iter().flat_map(Watch::take) {
            let change = change(event.mask);
            due |= change.is_some_and(|change| reads_again(self.profile.rereads, change, Subject::Other));
        }
        state.due |= due;
        if state.due && self.unchanged() >= state.conf.lag {
            state.due = false;
            self.load(state);
        }
        if gone {
            // Its files went before it, and each of them was noticed: whoever made it again came too late.
            (state.watch, state.found) = (None, None);
            state.looked = Instant::now();
        }
    }

    /// Time since the last change in the configuration directory.
    fn unchanged(&self) -> Duration {
        let files = fs::read_dir(&self.directory).into_iter().flatten().flatten().map(|entry| entry.path());
        let changed = |path: PathBuf| {
            let found = fs::symlink_metadata(path).ok()?;
            let since = Duration::new(found.ctime().try_into().ok()?, found.ctime_nsec().try_into().ok()?);
            (UNIX_EPOCH + since).elapsed().ok()
        };
        files.chain([self.directory.clone()]).filter_map(changed).min().unwrap_or(Duration::MAX)
    }

    /// Behaviour of a runtime without a watch, whether it never has one or lost it with the directory.
    fn look(&self, state: &mut State) {
        let due = state.looked.elapsed() >= EVERY;
        match self.profile.rereads {
            Rereads::EveryFiveSeconds if due => self.load(state),
            Rereads::Written(Removed::LookedFor) if due && self.directory.is_dir() => {
                // Gone again meanwhile: it is looked for once more.
                state.watch = self.watch(None).ok();
                self.load(state);
            }
            _ => {}
        }
    }

    fn load(&self, state: &mut State) {
        state.looked = Instant::now();
        let found = match &state.conf.default_network {
            None => self.search().load(&self.directory),
            Some(name) => self.search().named(&self.directory, name),
        };
        match (found, self.profile.without) {
            (Ok(found), _) => state.found = Some(found),
            (Err(why), Without::Nothing) => {
                if state.found.take().is_some() {
                    self.lost.send_modify(|lost| lost.push(why.to_string()));
                }
            }
            (Err(_), Without::Former) => {}
        }
    }
}

fn change(mask: AddWatchFlags) -> Option<Change> {
    let kinds = [
        (AddWatchFlags::IN_DELETE_SELF, Change::Gone),
        (AddWatchFlags::IN_CREATE | AddWatchFlags::IN_MOVED_TO, Change::Created),
        (AddWatchFlags::IN_MODIFY, Change::Written),
        (AddWatchFlags::IN_MOVED_FROM, Change::Renamed),
        (AddWatchFlags::IN_DELETE, Change::Removed),
    ];
    kinds.into_iter().find_map(|(flags, change)| mask.intersects(flags).then_some(change))
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Node {
        directory: tempfile::TempDir,
        loaded: Loaded,
    }

    impl Node {
        fn new(profile: &'static RuntimeProfile) -> Self {
            Self::configured(profile, RuntimeConf::default())
        }

        fn configured(profile: &'static RuntimeProfile, runtime_conf: RuntimeConf) -> Self {
            let directory = tempfile::tempdir().unwrap();
            let (conf, bin) = (directory.path().join("net.d"), directory.path().join("bin"));
            for part in [&conf, &bin] {
                fs::create_dir(part).unwrap();
            }
            fs::write(bin.join("x"), "").unwrap();
            let loaded = Loaded::new(&conf, &bin, profile, runtime_conf).unwrap();
            Self { directory, loaded }
        }

        fn at(&self, path: &str) -> PathBuf {
            self.directory.path().join(path)
        }

        fn write(&self, path: &str, name: &str) {
            fs::write(self.at(path), text(name)).unwrap();
        }

        fn name(&self) -> Option<String> {
            self.loaded.list().map(|list| list.name)
        }
    }

    fn text(name: &str) -> String {
        format!(r#"{{"name":"{name}","plugins":[{{"type":"x"}}]}}"#)
    }

    fn named(name: &str) -> Option<String> {
        Some(name.to_owned())
    }

    #[test]
    fn a_file_moved_in_from_elsewhere_is_not_noticed_by_containerd_until_something_else_happens() {
        for (profile, noticed) in
            [(&RuntimeProfile::CONTAINERD_2, None), (&RuntimeProfile::CRI_O, named("a"))]
        {
            let node = Node::new(profile);
            node.write("a", "a");
            fs::rename(node.at("a"), node.at("net.d/10-a.conflist")).unwrap();
            assert_eq!(node.name(), noticed, "{profile}");
            node.write("net.d/90-b.conflist", "b");
            assert_eq!(node.name(), named("a"), "{profile}");
        }
    }

    #[test]
    fn one_that_is_renamed_within_the_directory_is_noticed_by_both() {
        for profile in [&RuntimeProfile::CONTAINERD_1_6, &RuntimeProfile::CRI_O] {
            let node = Node::new(profile);
            node.write("net.d/.a", "a");
            assert_eq!(node.name(), None, "{profile}");
            fs::rename(node.at("net.d/.a"), node.at("net.d/10-a.conflist")).unwrap();
            assert_eq!(node.name(), named("a"), "{profile}");
        }
    }

    #[test]
    fn an_unusable_file_that_comes_first_takes_containerds_network_and_not_crios() {
        for (profile, left) in [(&RuntimeProfile::CONTAINERD_2, None), (&RuntimeProfile::CRI_O, named("a"))] {
            let node = Node::new(profile);
            node.write("net.d/10-a.conflist", "a");
            assert_eq!(node.name(), named("a"));
            fs::write(node.at("net.d/05-torn.conflist"), r#"{"name":"torn","#).unwrap();
            assert_eq!(node.name(), left, "{profile}");
            fs::remove_file(node.at("net.d/05-torn.conflist")).unwrap();
            assert_eq!(node.name(), named("a"), "{profile}");
        }
    }

    #[test]
    fn crio_has_no_network_without_its_binaries_and_notices_them_when_they_come() {
        let node = Node::new(&RuntimeProfile::CRI_O);
        fs::remove_file(node.at("bin/x")).unwrap();
        node.write("net.d/10-a.conflist", "a");
        assert_eq!(node.name(), None);
        fs::write(node.at("bin/x"), "").unwrap();
        assert_eq!(node.name(), named("a"));
        fs::remove_file(node.at("bin/x")).unwrap();
        assert_eq!(node.name(), named("a"), "what is loaded stays");
    }

    #[test]
    fn a_directory_that_is_made_again_is_found_by_containerd_2_alone() {
        for (profile, found) in [
            (&RuntimeProfile::CONTAINERD_1_6, None),
            (&RuntimeProfile::CONTAINERD_2, named("b")),
            (&RuntimeProfile::CRI_O, None),
        ] {
            let node = Node::new(profile);
            node.write("net.d/10-a.conflist", "a");
            assert_eq!(node.name(), named("a"));
            fs::remove_dir_all(node.at("net.d")).unwrap();
            assert_eq!(node.name(), None, "{profile}");
            fs::create_dir(node.at("net.d")).unwrap();
            node.write("net.d/10-b.conflist", "b");
            assert_eq!(node.name(), None, "{profile} looks again after a while only");
            node.loaded.0.state.lock().looked -= EVERY;
            assert_eq!(node.name(), found, "{profile}");
            node.loaded.restart().unwrap();
            assert_eq!(node.name(), named("b"), "{profile}");
        }
    }

    #[test]
    fn cri_dockerd_looks_now_and_then_and_keeps_what_it_had() {
        let node = Node::new(&RuntimeProfile::CRI_DOCKERD);
        node.write("net.d/10-a.conflist", "a");
        assert_eq!(node.name(), None, "it has not looked yet");
        node.loaded.0.state.lock().looked -= EVERY;
        assert_eq!(node.name(), named("a"));
        fs::remove_file(node.at("net.d/10-a.conflist")).unwrap();
        node.loaded.0.state.lock().looked -= EVERY;
        assert_eq!(node.name(), named("a"));
        node.loaded.restart().unwrap();
        assert_eq!(node.name(), None);
    }

    #[test]
    fn a_slow_runtime_goes_on_with_what_it_had_until_it_notices() {
        let lag = Duration::from_secs(3600);
        let node = Node::configured(&RuntimeProfile::CRI_O, RuntimeConf { lag, ..RuntimeConf::default() });
        node.write("net.d/10-a.conflist", "a");
        assert_eq!(node.name(), None);
        node.loaded.0.state.lock().conf.lag = Duration::ZERO;
        assert_eq!(node.name(), named("a"), "the change is not forgotten");
    }

    /// Deadline of a read that nobody asks for.
    const SOON: Duration = Duration::from_secs(10);

    #[tokio::test]
    async fn a_list_that_is_wrong_for_a_moment_is_loaded_though_nobody_asks() {
        for profile in
            [&RuntimeProfile::CONTAINERD_1_6, &RuntimeProfile::CONTAINERD_2, &RuntimeProfile::CRI_O]
        {
            let node = Node::new(profile);
            node.write("net.d/.a", "a");
            fs::rename(node.at("net.d/.a"), node.at("net.d/10-a.conflist")).unwrap();
            assert_eq!(node.name(), named("a"));
            let mut lost = node.loaded.lost();
            fs::write(node.at("net.d/.a"), r#"{"name":"a","plugins":[]}"#).unwrap();
            fs::rename(node.at("net.d/.a"), node.at("net.d/10-a.conflist")).unwrap();
            let reasons = tokio::time::timeout(SOON, lost.wait_for(|lost| !lost.is_empty())).await.unwrap();
            assert!(reasons.unwrap()[0].contains("no plugins"), "{profile}");
            node.write("net.d/.a", "a");
            fs::rename(node.at("net.d/.a"), node.at("net.d/10-a.conflist")).unwrap();
            assert_eq!(node.name(), named("a"), "{profile}");
        }
    }

    #[test]
    fn lists_that_are_whole_lose_nothing() {
        let node = Node::new(&RuntimeProfile::CONTAINERD_2);
        for name in ["a", "b", "c"] {
            node.write("net.d/.a", name);
            fs::rename(node.at("net.d/.a"), node.at("net.d/10-a.conflist")).unwrap();
            assert_eq!(node.name(), named(name));
        }
        assert!(node.loaded.lost().borrow().is_empty());
    }

    #[test]
    fn a_default_network_is_told_by_its_name_and_not_by_its_file() {
        let conf = RuntimeConf { default_network: named("b"), ..RuntimeConf::default() };
        let node = Node::configured(&RuntimeProfile::CRI_O, conf);
        node.write("net.d/10-a.conflist", "a");
        assert_eq!(node.name(), None);
        node.write("net.d/20-b.conflist", "b");
        assert_eq!(node.name(), named("b"));
    }
}
