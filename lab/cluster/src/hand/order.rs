// SPDX-License-Identifier: Apache-2.0
//! Orders to the hand: a line of JSON each.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::ops::Range;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::bytes::Bytes;
use crate::network::Wanted;
use crate::traffic::{Stray, Traffic};

/// Work, and what to call it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order {
    /// Number, chosen by who asks.
    pub id: u64,
    /// Work.
    pub work: Work,
}

/// Work of the hand.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Work {
    /// Runs a program to its end: [`super::Answer::Ended`].
    Run(Run),
    /// Reads a file: [`super::Answer::Content`].
    Read {
        /// File.
        path: PathBuf,
    },
    /// Hashes a file: [`super::Answer::Digest`].
    Digest {
        /// File.
        path: PathBuf,
        /// A text that it may have.
        text: String,
    },
    /// Lists a directory: [`super::Answer::Entries`], by name.
    List {
        /// Directory.
        path: PathBuf,
    },
    /// One entry, that of the path itself: a link is not followed.
    Look {
        /// Path.
        path: PathBuf,
    },
    /// Writes a file.
    Write {
        /// File.
        path: PathBuf,
        /// All of it.
        content: Bytes,
        /// How readers see it come.
        how: Writing,
    },
    /// Removes a file, a link, or a directory with all that is in it.
    Remove {
        /// Path.
        path: PathBuf,
    },
    /// Renames within a file system.
    Rename {
        /// Present path.
        from: PathBuf,
        /// Path from now on; what is there is replaced.
        to: PathBuf,
    },
    /// Makes a directory and those above it.
    MakeDirectory {
        /// Directory.
        path: PathBuf,
    },
    /// Makes a symbolic link.
    Link {
        /// Path of the link.
        path: PathBuf,
        /// Its text.
        target: PathBuf,
    },
    /// Changes a mode.
    SetMode {
        /// File or directory.
        path: PathBuf,
        /// Mode.
        mode: u32,
    },
    /// Changes the immutable flag.
    SetImmutable {
        /// File or directory.
        path: PathBuf,
        /// Set or cleared.
        immutable: bool,
    },
    /// Sends a signal.
    Signal {
        /// Number of the process, as the node numbers it.
        process: u32,
        /// Signal.
        signal: Signal,
    },
    /// Answers [`super::Answer::Following`], then each [`super::Change`] of a directory's entries or of a file, until it is stopped. Of a path that is not
    /// there yet the nearest directory above it is watched.
    Watch {
        /// Directory or file.
        path: PathBuf,
        /// Directory of plugins, if each configuration is read at its change: [`super::Found`].
        #[serde(default, skip_serializing_if = "Option::is_none")]
        plugins: Option<PathBuf>,
    },
    /// Answers [`super::Answer::Following`], then packets, until it is stopped: then [`super::Answer::Counts`].
    Capture {
        /// Network namespace; all of its interfaces.
        network: Network,
        /// Number of packets that are sent one by one. Later ones are only counted.
        packets: u32,
        /// A port that those have which are sent one by one; any if absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ports: Option<Range<u16>>,
    },
    /// Sends traffic, one after the other: [`super::Answer::Answers`] in the same order.
    Send {
        /// Network namespace.
        network: Network,
        /// The traffic; its users and groups are those of the node.
        traffic: Vec<Traffic>,
        /// Time for each answer, in milliseconds.
        deadline_ms: u64,
    },
    /// Opens a TCP connection and asks on it again and again: [`super::Answer::Following`], [`super::Answer::Heard`] each time, and at last
    /// [`super::Answer::Cut`], or [`super::Answer::Done`] if it was stopped before.
    Keep {
        /// Network namespace.
        network: Network,
        /// The connection; its user and group are those of the node.
        traffic: Traffic,
        /// Time for each answer, in milliseconds.
        deadline_ms: u64,
    },
    /// Sends a segment that belongs to no connection: [`super::Answer::Ending`].
    Stray {
        /// Network namespace.
        network: Network,
        /// The segment.
        stray: Stray,
        /// Time for what comes back, in milliseconds.
        deadline_ms: u64,
    },
    /// Lists rules with counters, legacy tables included, and policy routes: [`super::Answer::Network`].
    Inspect {
        /// Network namespace.
        network: Network,
    },
    /// Compares rules with those that a pod wants: [`super::Answer::Differences`].
    Compare {
        /// Network namespace.
        network: Network,
        /// What is wanted.
        wanted: Box<Wanted>,
    },
    /// Takes the shared lock of a file (flock(2)), waits for it if need be, answers [`super::Answer::Following`], and holds it until it is stopped.
    /// A file that is not there is made.
    Lock {
        /// File.
        path: PathBuf,
    },
    /// Sends a line to a socket and reads until its end: [`super::Answer::Content`], empty if it closes without a word.
    Ask {
        /// Socket.
        path: PathBuf,
        /// Line, without its end.
        line: String,
        /// User and group. Whoever is not root may open every file (`CAP_DAC_OVERRIDE`), and nothing else.
        owner: (u32, u32),
    },
    /// Stops an order of [`Work::Watch`], [`Work::Capture`], [`Work::Keep`] or [`Work::Lock`].
    Stop {
        /// Its number.
        order: u64,
    },
}

impl Work {
    /// Its paths on the node.
    pub fn paths_mut(&mut self) -> Vec<&mut PathBuf> {
        match self {
            Self::Read { path }
            | Self::Digest { path, .. }
            | Self::List { path }
            | Self::Look { path }
            | Self::Write { path, .. }
            | Self::Remove { path }
            | Self::MakeDirectory { path }
            | Self::Link { path, .. }
            | Self::SetMode { path, .. }
            | Self::SetImmutable { path, .. }
            | Self::Lock { path }
            | Self::Ask { path, .. } => vec![path],
            Self::Watch { path, plugins } => [path].into_iter().chain(plugins).collect(),
            Self::Rename { from, to } => vec![from, to],
            Self::Run(Run { network, root, resolv_conf, .. }) => {
                network.path_mut().into_iter().chain(root).chain(resolv_conf).collect()
            }
            Self::Capture { network, .. }
            | Self::Send { network, .. }
            | Self::Keep { network, .. }
            | Self::Stray { network, .. }
            | Self::Inspect { network }
            | Self::Compare { network, .. } => network.path_mut().into_iter().collect(),
            Self::Signal { .. } | Self::Stop { .. } => Vec::new(),
        }
    }

    /// True if it changes files, holds up or ends processes of the node. A program may, too, but what it does is another's business.
    #[must_use]
    pub fn changes_node(&self) -> bool {
        match self {
            Self::Write { .. }
            | Self::Remove { .. }
            | Self::MakeDirectory { .. }
            | Self::Link { .. }
            | Self::SetMode { .. }
            | Self::SetImmutable { .. }
            | Self::Rename { .. }
            | Self::Lock { .. }
            | Self::Signal { .. } => true,
            Self::Read { .. }
            | Self::Digest { .. }
            | Self::List { .. }
            | Self::Look { .. }
            | Self::Watch { .. }
            | Self::Run(_)
            | Self::Capture { .. }
            | Self::Send { .. }
            | Self::Keep { .. }
            | Self::Stray { .. }
            | Self::Inspect { .. }
            | Self::Compare { .. }
            | Self::Ask { .. }
            | Self::Stop { .. } => false,
        }
    }
}

/// Completes "cannot …".
impl fmt::Display for Work {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Run(run) => write!(out, "run {}", run.words.join(" ")),
            Self::Read { path } => write!(out, "read {}", path.display()),
            Self::Digest { path, .. } => write!(out, "hash {}", path.display()),
            Self::List { path } => write!(out, "list {}", path.display()),
            Self::Look { path } => write!(out, "look at {}", path.display()),
            Self::Write { path, .. } => write!(out, "write {}", path.display()),
            Self::Remove { path } => write!(out, "remove {}", path.display()),
            Self::Rename { from, to } => write!(out, "rename {} to {}", from.display(), to.display()),
            Self::MakeDirectory { path } => write!(out, "make {}", path.display()),
            Self::Link { path, .. } => write!(out, "link {}", path.display()),
            Self::SetMode { path, mode } => write!(out, "give {} the mode {mode:o}", path.display()),
            Self::SetImmutable { path, .. } => write!(out, "change the flags of {}", path.display()),
            Self::Signal { process, signal } => write!(out, "send {signal:?} to process {process}"),
            Self::Watch { path, .. } => write!(out, "watch {}", path.display()),
            Self::Capture { network, .. } => write!(out, "capture packets of {network}"),
            Self::Send { network, .. } => write!(out, "send traffic from {network}"),
            Self::Keep { network, .. } => write!(out, "keep a connection open from {network}"),
            Self::Stray { network, stray, .. } => write!(out, "send {stray:?} from {network}"),
            Self::Inspect { network } => write!(out, "list the rules of {network}"),
            Self::Compare { network, .. } => write!(out, "compare the rules of {network}"),
            Self::Lock { path } => write!(out, "lock {}", path.display()),
            Self::Ask { path, .. } => write!(out, "ask {}", path.display()),
            Self::Stop { order } => write!(out, "stop order {order}"),
        }
    }
}

/// A program to run on the node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    /// Network namespace.
    pub network: Network,
    /// The program and its arguments. `workload` is the hand's own binary, whatever the node has; on the lab's own nodes a binary under test
    /// goes before one of the same name of the system.
    pub words: Vec<String>,
    /// Root directory, for a program of the node's own; the hand's if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root: Option<PathBuf>,
    /// Environment beside `PATH`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub environment: BTreeMap<String, String>,
    /// File for `/etc/resolv.conf`; the node's own if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolv_conf: Option<PathBuf>,
    /// Standard input.
    pub stdin: String,
    /// User and group.
    pub owner: (u32, u32),
    /// Its only capabilities, by their names without `CAP_`, whoever the user is. Absent: all of the hand's for root, none for others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capabilities: Option<Vec<String>>,
    /// The program is killed after this time, in milliseconds.
    pub deadline_ms: u64,
}

impl Run {
    /// A program as root, with all of the hand's capabilities and nothing on its standard input.
    pub fn new<W: Into<String>>(
        network: Network,
        words: impl IntoIterator<Item = W>,
        deadline: Duration,
    ) -> Self {
        Self {
            network,
            words: words.into_iter().map(Into::into).collect(),
            root: None,
            environment: BTreeMap::new(),
            resolv_conf: None,
            stdin: String::new(),
            owner: (0, 0),
            capabilities: None,
            deadline_ms: milliseconds(deadline),
        }
    }
}

/// A time as orders have it.
pub(super) fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Network namespace of an order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Network {
    /// The node's.
    Node,
    /// That of the pod with this address.
    Pod(IpAddr),
    /// That which is kept at this path.
    Kept(PathBuf),
}

impl Network {
    fn path_mut(&mut self) -> Option<&mut PathBuf> {
        if let Self::Kept(path) = self { Some(path) } else { None }
    }
}

/// Completes "from …".
impl fmt::Display for Network {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Node => write!(out, "the node's network"),
            Self::Pod(address) => write!(out, "the network of the pod with {address}"),
            Self::Kept(path) => write!(out, "the network at {}", path.display()),
        }
    }
}

/// A way to write a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Writing {
    /// A new file takes the place of the former one, whole.
    Whole {
        /// Its mode.
        mode: u32,
    },
    /// The file is truncated and filled: readers may see a part of it. One that is not there is made.
    InPlace,
}

impl Writing {
    /// A new file that everybody may read.
    pub const WHOLE: Self = Self::Whole { mode: 0o644 };
}

/// A signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Signal {
    /// `SIGKILL`
    Kill,
    /// `SIGTERM`
    Terminate,
}
