// SPDX-License-Identifier: Apache-2.0
//! Watches of directories. All nodes share one inotify instance: a user may have 128 of them, an agent takes some, and a scenario has up to
//! fifty nodes.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;

use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify, WatchDescriptor};
use parking_lot::{Mutex, MutexGuard};

use crate::error::Error;

/// Changes that watchers of runtimes ask for.
const WATCHED: AddWatchFlags = AddWatchFlags::IN_CREATE
    .union(AddWatchFlags::IN_MODIFY)
    .union(AddWatchFlags::IN_MOVE)
    .union(AddWatchFlags::IN_DELETE)
    .union(AddWatchFlags::IN_DELETE_SELF);

static SHARED: Mutex<Option<Shared>> = Mutex::new(None);

#[derive(Debug)]
struct Shared {
    events: Inotify,
    /// Events of each watched directory since its owner asked.
    queues: BTreeMap<WatchDescriptor, Vec<Event>>,
}

/// A change.
#[derive(Debug)]
pub struct Event {
    pub mask: AddWatchFlags,
    /// File; none if it is the directory itself.
    pub name: Option<OsString>,
}

fn shared() -> MutexGuard<'static, Option<Shared>> {
    SHARED.lock()
}

/// A watched directory. It is watched once at a time.
#[derive(Debug)]
pub struct Watch(WatchDescriptor);

impl Watch {
    /// Watches a directory from now on.
    ///
    /// # Errors
    /// The kernel refuses it.
    pub fn new(path: &Path) -> Result<Self, Error> {
        let failed = |errno: nix::Error| Error::file("watch", path)(errno.into());
        let mut shared = shared();
        if shared.is_none() {
            let events = Inotify::init(InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK).map_err(failed)?;
            *shared = Some(Shared { events, queues: BTreeMap::new() });
        }
        let Some(shared) = &mut *shared else { return Err(Error::Missing("watch".to_owned())) };
        let watch = shared.events.add_watch(path, WATCHED).map_err(failed)?;
        shared.queues.insert(watch, Vec::new());
        Ok(Self(watch))
    }

    /// Events since the last time.
    pub fn take(&self) -> Vec<Event> {
        let mut shared = shared();
        let Some(Shared { events, queues }) = &mut *shared else { return Vec::new() };
        while let Ok(all) = events.read_events() {
            for event in all {
                if let Some(queue) = queues.get_mut(&event.wd) {
                    queue.push(Event { mask: event.mask, name: event.name });
                }
            }
        }
        queues.get_mut(&self.0).map(std::mem::take).unwrap_or_default()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let mut shared = shared();
        if let Some(Shared { events, queues }) = &mut *shared {
            queues.remove(&self.0);
            // Gone with its directory, perhaps.
            let _ = events.rm_watch(self.0);
        }
    }
}
