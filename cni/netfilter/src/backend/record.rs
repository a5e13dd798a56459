// SPDX-License-Identifier: Apache-2.0
//! A choice as the text that the node agent leaves for everyone else on the node: one `key=value` a line. Who reads it may be older or newer
//! than who wrote it, so unknown keys are skipped, and a name that is not known is as good as no record.

use super::{Backend, Choice, NodeFeatures, Reason};

const BACKEND: &str = "backend";
const REASON: &str = "reason";
const VERSION: &str = "version";
/// The version that this build writes. Readers go by keys; it is for people, and for a change that keys cannot express.
const CURRENT: u32 = 1;

/// A choice with the facts that it was made from, for whoever wants to know why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record {
    /// The choice.
    pub choice: Choice,
    pub facts: NodeFeatures,
}

impl Record {
    /// The record's text. The choice comes first: it is all that a plugin reads.
    #[must_use]
    pub fn encode(&self) -> String {
        let mut text = self.choice.to_record();
        text.push_str(&format!("{VERSION}={CURRENT}\n"));
        let facts = &self.facts;
        for (key, has) in [
            ("nf_tables", facts.nf_tables),
            ("nft_compat", facts.nft_compat),
            ("native", facts.native),
            ("ipv6", facts.ipv6),
            ("legacy_tools", facts.legacy_tools),
            ("nft_tools", facts.nft_tools),
        ] {
            text.push_str(&format!("{key}={}\n", if has { "yes" } else { "no" }));
        }
        text + &format!("legacy={}\nlegacy_v6={}\n", facts.legacy, facts.legacy_v6)
    }
}

/// The value of a key.
fn value<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    text.lines().filter_map(|line| line.split_once('=')).find(|pair| pair.0 == key).map(|pair| pair.1)
}

impl Choice {
    /// The record's text.
    #[must_use]
    pub fn to_record(self) -> String {
        format!("{BACKEND}={}\n{REASON}={}\n", self.backend.name(), self.reason.name())
    }

    /// Reads a record; `None` if it names no back end and reason that this build knows.
    #[must_use]
    pub fn from_record(text: &str) -> Option<Self> {
        let (backend, reason) = (value(text, BACKEND)?, value(text, REASON)?);
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
    fn a_record_says_its_choice_and_all_facts() {
        let choice = Choice { backend: Backend::Nft, reason: Reason::NoNftCompat };
        let mut record = Record { choice, facts: NodeFeatures { ipv6: true, ..NodeFeatures::default() } };
        record.facts.legacy.nat = true;
        record.facts.legacy.raw = true;
        let text = record.encode();
        assert!(text.len() < 512, "a plugin reads no more");
        assert_eq!(Choice::from_record(&text), Some(choice));
        let facts = "nf_tables=no\nnft_compat=no\nnative=no\nipv6=yes\nlegacy_tools=no\nnft_tools=no\nlegacy=nat,raw\nlegacy_v6=\n";
        assert!(text.ends_with(facts), "{text}");
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
