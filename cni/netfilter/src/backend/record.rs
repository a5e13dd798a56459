// SPDX-License-Identifier: Apache-2.0
//! A choice as the text that the node agent leaves for everyone else on the node: one `key=value` a line. Who reads it may be older or newer
//! than who wrote it, so unknown keys are skipped, and a name that is not known is as good as no record.

use super::{Backend, Choice, Reason};

const BACKEND: &str = "backend";
const REASON: &str = "reason";

impl Choice {
    /// The record's text.
    #[must_use]
    pub fn to_record(self) -> String {
        format!("{BACKEND}={}\n{REASON}={}\n", self.backend.name(), self.reason.name())
    }

    /// Reads a record; `None` if it names no back end and reason that this build knows.
    #[must_use]
    pub fn from_record(text: &str) -> Option<Self> {
        let value = |key| {
            text.lines().filter_map(|line| line.split_once('=')).find(|pair| pair.0 == key).map(|pair| pair.1)
        };
        let (backend, reason) = (value(BACKEND)?, value(REASON)?);
        Some(Self {
            backend: Backend::ALL.into_iter().find(|known| known.name() == backend)?,
            reason: Reason::ALL.into_iter().find(|known| known.name() == reason)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_as_it_was_written() {
        for backend in Backend::ALL {
            for reason in Reason::ALL {
                let choice = Choice { backend, reason };
                assert_eq!(Choice::from_record(&choice.to_record()), Some(choice));
            }
        }
    }

    #[test]
    fn what_others_add_is_skipped_and_what_nobody_knows_is_no_record() {
        let newer = "since=tomorrow\nreason=no-nft-compat\nbackend=nft\nwhatever\n";
        let choice = Choice { backend: Backend::Nft, reason: Reason::NoNftCompat };
        assert_eq!(Choice::from_record(newer), Some(choice));
        for text in ["", "backend=nft", "backend=ebpf\nreason=usual", "backend=nft\nreason=mood", "\0"] {
            assert_eq!(Choice::from_record(text), None, "{text:?}");
        }
    }
}
