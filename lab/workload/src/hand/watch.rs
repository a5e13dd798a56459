// SPDX-License-Identifier: Apache-2.0
//! Changes of a directory's entries, or of a file: both what is written to it and what takes its place.

use std::io::{self, PipeReader};
use std::path::{Path, PathBuf};

use cluster::hand::{Answer, Change, Event, Network};
use nix::errno::Errno;
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify, InotifyEvent, WatchDescriptor};

use super::{Asker, place, stops_before};

/// Says each change until it is stopped, or the path is gone.
pub(crate) async fn follow(path: PathBuf, asker: Asker, stopped: Option<PipeReader>) -> io::Result<Answer> {
    let work = move || {
        let watch = Watch::of(&path)?;
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
    events: Inotify,
    /// Watch of the path itself, and the path's name where its directory is watched, too.
    own: Option<WatchDescriptor>,
    name: Option<String>,
}

impl Watch {
    fn of(path: &Path) -> io::Result<Self> {
        let events = Inotify::init(InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK)?;
        let add = |path: &Path| match events.add_watch(path, wanted()) {
            Err(Errno::ENOENT | Errno::ENOTDIR) => Ok(None),
            added => added.map(Some),
        };
        let own = add(path)?;
        let mut name = None;
        if own.is_none() || !path.is_dir() {
            name = path.file_name().map(|name| name.to_string_lossy().into_owned());
            for above in path.ancestors().skip(1) {
                if add(above)?.is_some() {
                    break;
                }
                // Whatever happens in the nearest directory that is there may make this path come to be.
                name = None;
            }
        }
        Ok(Self { events, own, name })
    }

    fn say_all(&self, asker: Asker) -> io::Result<()> {
        loop {
            match self.events.read_events() {
                Ok(all) => {
                    for change in all.into_iter().filter_map(|event| self.change(&event)) {
                        asker.say(Ok(Answer::Change(change)))?;
                    }
                }
                Err(Errno::EAGAIN) => return Ok(()),
                Err(Errno::EINTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }

    fn change(&self, found: &InotifyEvent) -> Option<Change> {
        let event = event(found.mask)?;
        let name = found.name.as_ref().map(|name| name.to_string_lossy().into_owned());
        let of_directory = self.own != Some(found.wd);
        // Of a file's directory only the file matters.
        if of_directory && name.is_some() && self.name.is_some() && name != self.name {
            return None;
        }
        Some(Change { name, event })
    }
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
