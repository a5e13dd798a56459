// SPDX-License-Identifier: Apache-2.0
//! Verdicts of a run as they come, in a memory file that the outer process holds: they outlive the sandbox, whatever ends it.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd, RawFd};
use std::sync::Arc;

use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use parking_lot::Mutex;
use rustix::fs::MemfdFlags;
use serde::{Deserialize, Serialize};

use crate::report::Header;
use crate::verdict::Record;

/// A run that began: what its report says beside verdicts.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Begun {
    pub(crate) header: Header,
    /// The scenarios in the order of the files, none of which has ended.
    pub(crate) scenarios: Vec<Record>,
}

/// A line.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Entry {
    Begun(Box<Begun>),
    Ended(Box<Record>),
}

/// The memory file, for a process that appends to it or reads it.
#[derive(Debug, Clone)]
pub(crate) struct Journal(Arc<Mutex<File>>);

impl Journal {
    /// An empty one, which children of this process inherit.
    pub(crate) fn create() -> io::Result<Self> {
        let fd = rustix::fs::memfd_create("verdicts", MemfdFlags::empty())?;
        Ok(Self(Arc::new(Mutex::new(File::from(fd)))))
    }

    /// Its descriptor.
    pub(crate) fn number(&self) -> RawFd {
        self.0.lock().as_raw_fd()
    }

    /// That of the outer process. Children of this process do not inherit it.
    #[expect(unsafe_code, reason = "a descriptor that was inherited has a number only")]
    pub(crate) fn inherited(number: RawFd) -> io::Result<Self> {
        // SAFETY: the outer process left it open for this one, and nothing here has touched it; one that is closed is an error of its first use.
        let file = File::from(unsafe { OwnedFd::from_raw_fd(number) });
        fcntl(&file, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC))?;
        Ok(Self(Arc::new(Mutex::new(file))))
    }

    pub(crate) fn begin(&self, header: &Header, scenarios: Vec<Record>) -> io::Result<()> {
        self.append(&Entry::Begun(Box::new(Begun { header: header.clone(), scenarios })))
    }

    pub(crate) fn end(&self, record: &Record) -> io::Result<()> {
        self.append(&Entry::Ended(Box::new(record.clone())))
    }

    fn append(&self, entry: &Entry) -> io::Result<()> {
        let mut line = serde_json::to_vec(entry)?;
        line.push(b'\n');
        self.0.lock().write_all(&line)
    }

    /// The run, and the scenarios that ended. `None` if it did not begin. A line that was cut off is left out.
    pub(crate) fn read(&self) -> io::Result<Option<(Begun, Vec<Record>)>> {
        let mut text = Vec::new();
        let mut file = self.0.lock();
        file.rewind()?;
        file.read_to_end(&mut text)?;
        let (mut begun, mut ended) = (None, Vec::new());
        for line in text.split_inclusive(|byte| *byte == b'\n') {
            match serde_json::from_slice(line) {
                Ok(Entry::Begun(run)) => begun = Some(*run),
                Ok(Entry::Ended(record)) => ended.push(*record),
                Err(_) => break,
            }
        }
        Ok(begun.map(|begun| (begun, ended)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::header;

    #[test]
    fn what_was_appended_is_read_and_a_line_that_was_cut_off_is_not() {
        let journal = Journal::create().unwrap();
        assert!(journal.read().unwrap().is_none(), "no run began");
        let record = |id: &str| -> Record {
            let record = serde_json::json!({
                "id": id, "group": "g", "feature": "F", "name": "n", "file": "f", "line": 3, "tags": [], "verdict": "pass", "seconds": 1.0,
            });
            serde_json::from_value(record).unwrap()
        };
        journal.begin(&header(), vec![record("a"), record("b")]).unwrap();
        journal.end(&record("b")).unwrap();
        journal.0.lock().write_all(br#"{"ended":{"id":"a","#).unwrap();
        let (begun, ended) = journal.read().unwrap().unwrap();
        assert_eq!((begun.scenarios.len(), begun.header.seed), (2, header().seed));
        assert_eq!(ended, [record("b")]);
    }
}
