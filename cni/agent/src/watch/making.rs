// SPDX-License-Identifier: Apache-2.0
//! Files that are still being written. A writer that is done says so: it closes the file, or moves it to its name. Such a change is looked at at
//! once; any other one may have a second half. Pure.

use std::collections::BTreeSet;

use rustix::fs::inotify::ReadFlags;

/// Names that were touched and not said to be done, by the directory's number.
#[derive(Debug, Default)]
pub(super) struct Making(BTreeSet<(i32, Option<String>)>);

impl Making {
    pub(super) fn hear(&mut self, directory: i32, name: Option<String>, what: ReadFlags) {
        let file = (directory, name);
        if what.intersects(ReadFlags::CLOSE_WRITE | ReadFlags::MOVED_TO) && !what.contains(ReadFlags::ISDIR) {
            self.0.remove(&file);
        } else {
            self.0.insert(file);
        }
    }

    /// True if no writer is active.
    pub(super) fn is_done(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn done(events: &[(&str, ReadFlags)]) -> bool {
        let mut making = Making::default();
        for (name, what) in events {
            making.hear(1, Some((*name).to_owned()), *what);
        }
        making.is_done()
    }

    #[test]
    fn who_closes_or_moves_a_file_is_done_with_it() {
        let (create, modify, close) = (ReadFlags::CREATE, ReadFlags::MODIFY, ReadFlags::CLOSE_WRITE);
        assert!(done(&[("a", create), ("a", modify), ("a", modify), ("a", close)]));
        assert!(done(&[("a", ReadFlags::MOVED_TO)]));
        assert!(done(&[("a", ReadFlags::DELETE), ("a", ReadFlags::MOVED_TO)]), "it was replaced");
    }

    #[test]
    fn what_may_have_a_second_half_waits_for_it() {
        let (create, modify, close) = (ReadFlags::CREATE, ReadFlags::MODIFY, ReadFlags::CLOSE_WRITE);
        for half in [
            &[("a", create)][..],
            &[("a", create), ("a", modify)],
            &[("a", close), ("a", modify)],
            &[("a", create), ("b", close)],
            &[("a", ReadFlags::DELETE)],
            &[("a", ReadFlags::MOVED_FROM)],
            &[("a", ReadFlags::ATTRIB)],
            &[("a", ReadFlags::MOVED_TO | ReadFlags::ISDIR)],
        ] {
            assert!(!done(half), "{half:?}");
        }
    }
}
