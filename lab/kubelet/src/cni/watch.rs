// SPDX-License-Identifier: Apache-2.0
//! Watches of directories. All nodes share one inotify instance: a user may have 128 of them, an agent takes some, and a scenario has up to
//! fifty nodes. A thread calls followers at each event.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;
use std::sync::{Arc, Weak};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
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

/// Called by the thread of watches when there are events.
pub trait Follower: Send + Sync {
    fn changed(&self);
}

#[derive(Debug)]
struct Shared {
    events: Inotify,
    /// Of each watched directory.
    queues: BTreeMap<WatchDescriptor, Queue>,
}

struct Queue {
    /// Events since its owner asked.
    events: Vec<Event>,
    follower: Weak<dyn Follower>,
}

impl std::fmt::Debug for Queue {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Queue").field("events", &self.events).finish_non_exhaustive()
    }
}

impl Shared {
    fn new() -> nix::Result<Self> {
        let events = Inotify::init(InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK)?;
        let own = events.as_fd().try_clone_to_owned().map_err(|_| nix::Error::EMFILE)?;
        std::thread::spawn(move || follow(&own));
        Ok(Self { events, queues: BTreeMap::new() })
    }

    /// Distributes what the kernel has.
    fn drain(&mut self) {
        while let Ok(all) = self.events.read_events() {
            for event in all {
                if let Some(queue) = self.queues.get_mut(&event.wd) {
                    queue.events.push(Event { mask: event.mask, name: event.name });
                }
            }
        }
    }

    /// Followers of directories with events.
    fn due(&self) -> Vec<Arc<dyn Follower>> {
        let due = self.queues.values().filter(|queue| !queue.events.is_empty());
        due.filter_map(|queue| queue.follower.upgrade()).collect()
    }
}

/// Calls followers at each event, as long as the process lives.
fn follow(events: &OwnedFd) {
    loop {
        let mut ready = [PollFd::new(events.as_fd(), PollFlags::POLLIN)];
        match poll(&mut ready, PollTimeout::NONE) {
            Ok(_) | Err(nix::Error::EINTR) => {}
            Err(_) => return,
        }
        let due = shared().as_mut().map(|shared| {
            shared.drain();
            shared.due()
        });
        due.into_iter().flatten().for_each(|follower| follower.changed());
    }
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
    /// Watches a directory from now on, and calls `follower` at each event.
    ///
    /// # Errors
    /// The kernel refuses it.
    pub fn new(path: &Path, follower: Weak<dyn Follower>) -> Result<Self, Error> {
        let failed = |errno: nix::Error| Error::file("watch", path)(errno.into());
        let mut shared = shared();
        if shared.is_none() {
            *shared = Some(Shared::new().map_err(failed)?);
        }
        let Some(shared) = &mut *shared else { return Err(Error::Missing("watch".to_owned())) };
        let watch = shared.events.add_watch(path, WATCHED).map_err(failed)?;
        shared.queues.insert(watch, Queue { events: Vec::new(), follower });
        Ok(Self(watch))
    }

    /// Events since the last time.
    pub fn take(&self) -> Vec<Event> {
        let mut shared = shared();
        let Some(shared) = &mut *shared else { return Vec::new() };
        shared.drain();
        shared.queues.get_mut(&self.0).map(|queue| std::mem::take(&mut queue.events)).unwrap_or_default()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let mut shared = shared();
        if let Some(Shared { events, queues, .. }) = &mut *shared {
            queues.remove(&self.0);
            // Gone with its directory, perhaps.
            let _ = events.rm_watch(self.0);
        }
    }
}
