// SPDX-License-Identifier: Apache-2.0
//! Changes of a directory's entries, or of a file: both what is written to it and what takes its place. Of a configuration directory each configuration
//! is read at its change, as a container runtime does. A content that is replaced before this process is scheduled is not seen, and that is said
//! ([`Found::late`]).

use std::collections::VecDeque;
use std::io::{self, PipeReader};
use std::path::{Path, PathBuf};

use cluster::conflist::is_configuration;
use cluster::hand::{Answer, Bytes, Change, Event, Found, Network};
use nix::errno::Errno;
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify, InotifyEvent, WatchDescriptor};

use super::root::{self, Root};
use super::{Asker, place, stops_before};

/// A watched path, and the directory of plugins if each configuration is read at its change.
pub(crate) struct Watched {
    pub path: PathBuf,
    pub plugins: Option<PathBuf>,
    pub root: Root,
}

/// Says each change until it is stopped, or the path is gone.
pub(crate) async fn follow(
    watched: Watched,
    asker: Asker,
    stopped: Option<PipeReader>,
) -> io::Result<Answer> {
    let work = move || {
        let mut watch = Watch::of(watched)?;
        asker.say(Ok(Answer::Following))?;
        while !stops_before(&watch.events, stopped.as_ref())? {
            watch.say_all(asker)?;
        }
        watch.say_all(asker)?;
        Ok(Answer::Done)
    };
    place::inside(Network::Node, work).await?
}

struct Watch {
    watched: Watched,
    events: Inotify,
    /// Events that were read and not said yet.
    queue: VecDeque<InotifyEvent>,
    /// Watch of the path itself, and the path's name where its directory is watched, too.
    own: Option<WatchDescriptor>,
    name: Option<String>,
    /// The name that something left by the change before.
    left: Option<String>,
}

impl Watch {
    fn of(watched: Watched) -> io::Result<Self> {
        let events = Inotify::init(InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK)?;
        let add = |path: &Path| -> io::Result<Option<(WatchDescriptor, bool)>> {
            let held = match watched.root.open(path) {
                Err(rustix::io::Errno::NOENT | rustix::io::Errno::NOTDIR) => return Ok(None),
                opened => opened?,
            };
            let path = root::of_descriptor(&held);
            Ok(Some((events.add_watch(&path, wanted())?, path.is_dir())))
        };
        let own = add(&watched.path)?;
        let mut name = None;
        if !own.is_some_and(|(_, is_directory)| is_directory) {
            name = watched.path.file_name().map(|name| name.to_string_lossy().into_owned());
            for above in watched.path.ancestors().skip(1) {
                if add(above)?.is_some() {
                    break;
                }
                // Whatever happens in the nearest directory that is there may make this path come to be.
                name = None;
            }
        }
        let own = own.map(|(descriptor, _)| descriptor);
        Ok(Self { watched, events, queue: VecDeque::new(), own, name, left: None })
    }

    fn say_all(&mut self, asker: Asker) -> io::Result<()> {
        self.take_all()?;
        while let Some(event) = self.queue.pop_front() {
            if let Some(change) = self.change(&event) {
                let found = self.found(&change)?;
                self.left = change.name.clone().filter(|_| change.event == Event::Went);
                asker.say(Ok(Answer::Change(Change { found, ..change })))?;
            }
        }
        Ok(())
    }

    /// Takes what the kernel has.
    fn take_all(&mut self) -> io::Result<()> {
        loop {
            match self.events.read_events() {
                Ok(all) => self.queue.extend(all),
                Err(Errno::EAGAIN) => return Ok(()),
                Err(Errno::EINTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }

    /// The configuration that came, read now.
    fn found(&mut self, change: &Change) -> io::Result<Option<Found>> {
        let (Some(plugins), Some(name), Event::Came | Event::Created) =
            (&self.watched.plugins, &change.name, change.event)
        else {
            return Ok(None);
        };
        if !is_configuration(Path::new(name)) {
            return Ok(None);
        }
        let root = &self.watched.root;
        let content = root::read(root, &self.watched.path.join(name)).ok().map(Bytes);
        let plugins = names(root, plugins);
        self.take_all()?;
        let later: Vec<_> = self.queue.iter().filter_map(|event| self.change(event)).collect();
        let left = self.left.as_deref();
        Ok(Some(Found { content, late: has_changed_again(change.name.as_deref(), left, &later), plugins }))
    }

    fn change(&self, found: &InotifyEvent) -> Option<Change> {
        let event = event(found.mask)?;
        let name = found.name.as_ref().map(|name| name.to_string_lossy().into_owned());
        let of_directory = self.own != Some(found.wd);
        // Of a file's directory only the file matters.
        if of_directory && name.is_some() && self.name.is_some() && name != self.name {
            return None;
        }
        Some(Change { name, event, found: None })
    }
}

/// True if a name that came from `left` changed once more. The other half of an exchange of both names is no such change.
fn has_changed_again(name: Option<&str>, left: Option<&str>, later: &[Change]) -> bool {
    let is =
        |change: &Change, name: Option<&str>, event| change.event == event && change.name.as_deref() == name;
    let rest = match later {
        [went, came, rest @ ..] if is(went, name, Event::Went) && is(came, left, Event::Came) => rest,
        all => all,
    };
    rest.iter().any(|later| later.name.as_deref() == name && later.event != Event::Attributes)
}

/// Names of a directory's entries.
fn names(root: &Root, directory: &Path) -> Vec<String> {
    let entries = root.target(directory).and_then(|held| std::fs::read_dir(held.path));
    let names = entries.into_iter().flatten().flatten().map(|entry| entry.file_name());
    names.map(|name| name.to_string_lossy().into_owned()).collect()
}

/// The file is written, closed or not: a reader may have come in between.
fn wanted() -> AddWatchFlags {
    AddWatchFlags::IN_CREATE
        | AddWatchFlags::IN_MODIFY
        | AddWatchFlags::IN_MOVE
        | AddWatchFlags::IN_DELETE
        | AddWatchFlags::IN_ATTRIB
        | AddWatchFlags::IN_DELETE_SELF
        | AddWatchFlags::IN_MOVE_SELF
}

fn event(mask: AddWatchFlags) -> Option<Event> {
    let events = [
        (AddWatchFlags::IN_Q_OVERFLOW, Event::Lost),
        (AddWatchFlags::IN_IGNORED, Event::Gone),
        (AddWatchFlags::IN_DELETE_SELF, Event::Gone),
        (AddWatchFlags::IN_MOVE_SELF, Event::Gone),
        (AddWatchFlags::IN_CREATE, Event::Created),
        (AddWatchFlags::IN_MODIFY, Event::Written),
        (AddWatchFlags::IN_MOVED_TO, Event::Came),
        (AddWatchFlags::IN_MOVED_FROM, Event::Went),
        (AddWatchFlags::IN_DELETE, Event::Removed),
        (AddWatchFlags::IN_ATTRIB, Event::Attributes),
    ];
    events.into_iter().find_map(|(flag, event)| mask.contains(flag).then_some(event))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exchange_is_one_change_and_a_second_one_is_another() {
        let change = |event, name: &str| Change { name: Some(name.to_owned()), event, found: None };
        let half = [change(Event::Went, "list"), change(Event::Came, ".new")];
        let again = |later: &[Change]| has_changed_again(Some("list"), Some(".new"), later);
        assert!(!again(&[]) && !again(&half) && !again(&[change(Event::Attributes, "list")]));
        assert!(!again(&[half.as_slice(), &[change(Event::Removed, ".new")]].concat()));
        let second = [change(Event::Went, ".new"), change(Event::Came, "list")];
        assert!(again(&[half.as_slice(), &second].concat()) && again(&second));
        assert!(again(&[change(Event::Went, "list"), change(Event::Came, "other")]));
    }
}
