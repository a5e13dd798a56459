// SPDX-License-Identifier: Apache-2.0
//! Answers of the hand: a line of JSON each, in the order in which the orders end, so each names its order.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::bytes::Bytes;
use super::packet::{Counts, Packet};
use crate::CniAnswer;
use crate::network::LiveNetwork;
use crate::traffic::{self, StrayEnding};

/// First line of a hand, before any order.
pub const READY: &str = "ready hand";

/// One answer to an [`super::Order`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Done {
    /// Number of the order.
    pub id: u64,
    /// The answer, or why there is none.
    pub result: Result<Answer, Refusal>,
}

/// Answer to an [`super::Order`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// It is done.
    Done,
    /// The program ended.
    Ended(CniAnswer),
    /// Content of a file.
    Content(Bytes),
    /// Digest of a file.
    Digest(Digest),
    /// Entries of a directory.
    Entries(Vec<Entry>),
    /// Whatever happens from now on will be told.
    Following,
    /// A change.
    Change(Change),
    /// A packet.
    Packet(Packet),
    /// Sum of a capture.
    Counts(Counts),
    /// Who answered.
    Answers(Vec<traffic::Answer>),
    /// Who answered on a connection that is kept open.
    Heard(traffic::Answer),
    /// Error that ended a connection of [`super::Work::Keep`].
    Cut(String),
    /// Of a stray segment.
    Ending(StrayEnding),
    /// Rules and policy routes.
    Network(LiveNetwork),
    /// A line each.
    Differences(Vec<String>),
}

/// Digest of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Digest {
    /// SHA-256, in hexadecimal.
    pub sha256: String,
    /// True if it has the text of the order.
    pub has_text: bool,
}

impl Answer {
    /// True if others to the same order follow.
    #[must_use]
    pub fn has_next(&self) -> bool {
        matches!(self, Self::Following | Self::Change(_) | Self::Packet(_) | Self::Heard(_))
    }
}

/// The node's error.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// Error number, if the kernel gave one.
    pub errno: Option<i32>,
    /// The reason.
    pub why: String,
}

impl From<std::io::Error> for Refusal {
    fn from(error: std::io::Error) -> Self {
        Self { errno: error.raw_os_error(), why: error.to_string() }
    }
}

/// An entry of a directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Name.
    pub name: String,
    /// Kind.
    pub kind: Kind,
    /// Permission bits.
    pub mode: u32,
    /// User and group.
    pub owner: (u32, u32),
    /// Size in bytes.
    pub size: u64,
    /// Device and inode: what takes the place of a file is another one.
    pub inode: (u64, u64),
    /// Time of its last change of content, in seconds and nanoseconds since 1970.
    pub modified: (i64, i64),
    /// Text of a symbolic link.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<PathBuf>,
}

/// Kind of an [`Entry`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Link,
    /// A Unix socket.
    Socket,
    /// Anything else.
    Other,
}

/// A change of a directory's entry, or of the watched path itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// Name of the entry; none of the watched path itself.
    pub name: Option<String>,
    /// Change.
    pub event: Event,
    /// Content right after the change, of a watch that reads files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub found: Option<Found>,
}

/// The entry of a change, as a container runtime finds it that reads at each event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Found {
    /// Content; `None` if it cannot be read, or no longer.
    pub content: Option<Bytes>,
    /// The entry had changed once more before it was read: this may be the later content.
    pub late: bool,
    /// Names of the files in the directory of plugins.
    pub plugins: Vec<String>,
}

/// Kind of a [`Change`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    /// Made, empty at first.
    Created,
    /// Written in place.
    Written,
    /// Renamed to this name.
    Came,
    /// Renamed to another name.
    Went,
    /// Removed.
    Removed,
    /// Mode, owner, links or times.
    Attributes,
    /// The watched path is gone: nothing follows.
    Gone,
    /// The kernel lost changes.
    Lost,
}
