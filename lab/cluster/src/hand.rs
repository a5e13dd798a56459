// SPDX-License-Identifier: Apache-2.0
//! The hand: the lab's process on a node, wherever the node is. Files, programs, processes and packets of a node are reached through it
//! and in no other way, so a step cannot tell a child process from one in a privileged pod.
//!
//! Paths are those of the node. [`order`] and [`answer`] are what goes over the stream, [`packet`] what a capture says.

pub mod answer;
mod bytes;
pub mod order;
pub mod packet;

use std::fmt;
use std::ops::Range;
use std::path::Path;
use std::time::Duration;

use async_trait::async_trait;

pub use answer::{Answer, Change, Digest, Done, Entry, Event, Found, Kind, READY, Refusal};
pub use bytes::Bytes;
pub use order::{Network, Order, Run, Signal, Work, Writing};
pub use packet::{Count, Counts, Direction, Flow, Packet, Transport};

use order::milliseconds;

use crate::network::{LiveNetwork, Wanted};
use crate::traffic::{self, Stray, StrayEnding, Traffic};
use crate::{CniAnswer, LabError};

/// Deadline of an order that takes no time of its own.
pub const PROMPT: Duration = Duration::from_secs(10);

/// Error number of what is not there (`ENOENT`).
const ABSENT: i32 = 2;

/// Why an order was not carried out.
#[derive(Debug, thiserror::Error)]
pub enum HandError {
    /// The node refused.
    #[error("cannot {what}: {why}")]
    Refused {
        /// Operation, with its path.
        what: String,
        /// The kernel's reason.
        why: String,
        /// Error number, if the kernel gave one.
        errno: Option<i32>,
    },
    /// The hand is out of reach, or not allowed to.
    #[error(transparent)]
    Lab(#[from] LabError),
}

impl HandError {
    /// True if a file or process is not there.
    #[must_use]
    pub fn is_absence(&self) -> bool {
        matches!(self, Self::Refused { errno: Some(ABSENT), .. })
    }
}

impl From<HandError> for LabError {
    fn from(error: HandError) -> Self {
        match error {
            HandError::Lab(error) => error,
            HandError::Refused { what, why, .. } => Self::Harness { what, why },
        }
    }
}

/// Result of an order.
pub type Handed<T> = Result<T, HandError>;

/// A hand on a node.
#[async_trait]
pub trait Hand: fmt::Debug + Send + Sync {
    /// Has an order carried out to its end; it takes at most `deadline` by itself.
    async fn carry_out(&self, work: Work, deadline: Duration) -> Handed<Answer>;

    /// Begins an order that answers until it is stopped.
    async fn follow(&self, work: Work) -> Handed<Box<dyn Follow>>;

    /// Content of a file.
    async fn read(&self, path: &Path) -> Handed<Vec<u8>> {
        match self.carry_out(Work::Read { path: path.to_owned() }, PROMPT).await? {
            Answer::Content(bytes) => Ok(bytes.0),
            other => Err(unexpected(&other)),
        }
    }

    /// Digest of a file, and whether it has a text.
    async fn digest(&self, path: &Path, text: &str) -> Handed<Digest> {
        let work = Work::Digest { path: path.to_owned(), text: text.to_owned() };
        match self.carry_out(work, PROMPT).await? {
            Answer::Digest(digest) => Ok(digest),
            other => Err(unexpected(&other)),
        }
    }

    /// Entries of a directory by name, without those of its directories.
    async fn list(&self, path: &Path) -> Handed<Vec<Entry>> {
        entries(self.carry_out(Work::List { path: path.to_owned() }, PROMPT).await?)
    }

    /// What is at a path, not followed if it is a link; `None` if nothing is.
    async fn look(&self, path: &Path) -> Handed<Option<Entry>> {
        match self.carry_out(Work::Look { path: path.to_owned() }, PROMPT).await {
            Ok(answer) => Ok(entries(answer)?.pop()),
            Err(error) if error.is_absence() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Writes a file.
    async fn write(&self, path: &Path, content: &[u8], how: Writing) -> Handed<()> {
        let work = Work::Write { path: path.to_owned(), content: Bytes(content.to_owned()), how };
        self.carry_out(work, PROMPT).await.map(drop)
    }

    /// Removes a file, a link, or a directory with all that is in it.
    async fn remove(&self, path: &Path) -> Handed<()> {
        self.carry_out(Work::Remove { path: path.to_owned() }, PROMPT).await.map(drop)
    }

    /// Renames a file.
    async fn rename(&self, from: &Path, to: &Path) -> Handed<()> {
        let work = Work::Rename { from: from.to_owned(), to: to.to_owned() };
        self.carry_out(work, PROMPT).await.map(drop)
    }

    /// Makes a directory, and those above it.
    async fn make_directory(&self, path: &Path) -> Handed<()> {
        self.carry_out(Work::MakeDirectory { path: path.to_owned() }, PROMPT).await.map(drop)
    }

    /// Makes a symbolic link with this text.
    async fn link(&self, path: &Path, target: &Path) -> Handed<()> {
        let work = Work::Link { path: path.to_owned(), target: target.to_owned() };
        self.carry_out(work, PROMPT).await.map(drop)
    }

    /// Gives a file a mode.
    async fn set_mode(&self, path: &Path, mode: u32) -> Handed<()> {
        self.carry_out(Work::SetMode { path: path.to_owned(), mode }, PROMPT).await.map(drop)
    }

    /// Sets or clears the immutable flag of a file (`chattr +i`).
    async fn set_immutable(&self, path: &Path, immutable: bool) -> Handed<()> {
        self.carry_out(Work::SetImmutable { path: path.to_owned(), immutable }, PROMPT).await.map(drop)
    }

    /// Sends a signal to a process, by its number on the node.
    async fn signal(&self, process: u32, signal: Signal) -> Handed<()> {
        self.carry_out(Work::Signal { process, signal }, PROMPT).await.map(drop)
    }

    /// Runs a program to its end.
    async fn run(&self, run: Run) -> Handed<CniAnswer> {
        let deadline = Duration::from_millis(run.deadline_ms);
        match self.carry_out(Work::Run(run), deadline).await? {
            Answer::Ended(answer) => Ok(answer),
            other => Err(unexpected(&other)),
        }
    }

    /// Sends traffic, one after the other; says who answered, in the same order. Each answer may take as long as `deadline`.
    async fn send(
        &self,
        network: Network,
        traffic: Vec<Traffic>,
        deadline: Duration,
    ) -> Handed<Vec<traffic::Answer>> {
        let count = u32::try_from(traffic.len()).unwrap_or(u32::MAX);
        let work = Work::Send { network, traffic, deadline_ms: milliseconds(deadline) };
        match self.carry_out(work, deadline.saturating_mul(count)).await? {
            Answer::Answers(answers) => Ok(answers),
            other => Err(unexpected(&other)),
        }
    }

    /// Opens a TCP connection that stays open, and asks on it again and again. Each answer may take as long as `deadline`.
    async fn keep(&self, network: Network, traffic: Traffic, deadline: Duration) -> Handed<Kept> {
        let work = Work::Keep { network, traffic, deadline_ms: milliseconds(deadline) };
        Ok(Kept(self.follow(work).await?))
    }

    /// Sends a segment that belongs to no connection; says what came back.
    async fn stray(&self, network: Network, stray: Stray, deadline: Duration) -> Handed<StrayEnding> {
        let work = Work::Stray { network, stray, deadline_ms: milliseconds(deadline) };
        match self.carry_out(work, deadline).await? {
            Answer::Ending(ending) => Ok(ending),
            other => Err(unexpected(&other)),
        }
    }

    /// Rules with counters, legacy tables included, and policy routes.
    async fn inspect(&self, network: Network) -> Handed<LiveNetwork> {
        match self.carry_out(Work::Inspect { network }, PROMPT).await? {
            Answer::Network(found) => Ok(found),
            other => Err(unexpected(&other)),
        }
    }

    /// Differences of rules from those that a pod wants, a line each.
    async fn compare(&self, network: Network, wanted: Wanted) -> Handed<Vec<String>> {
        match self.carry_out(Work::Compare { network, wanted: Box::new(wanted) }, PROMPT).await? {
            Answer::Differences(lines) => Ok(lines),
            other => Err(unexpected(&other)),
        }
    }

    /// Follows changes of a directory's entries, or of a file, from now on.
    async fn watch(&self, path: &Path) -> Handed<Changes> {
        Ok(Changes(self.follow(Work::Watch { path: path.to_owned(), plugins: None }).await?))
    }

    /// Follows changes of a configuration directory, and reads each configuration at its change, as a container runtime does.
    async fn watch_networks(&self, directory: &Path, plugins: &Path) -> Handed<Changes> {
        let work = Work::Watch { path: directory.to_owned(), plugins: Some(plugins.to_owned()) };
        Ok(Changes(self.follow(work).await?))
    }

    /// Takes the shared lock of a file, which others may share and nobody has alone.
    async fn lock(&self, path: &Path) -> Handed<Held> {
        Ok(Held(self.follow(Work::Lock { path: path.to_owned() }).await?))
    }

    /// Sends a line to a socket as a user and group; all that it answers.
    async fn ask(&self, path: &Path, line: &str, owner: (u32, u32)) -> Handed<String> {
        let work = Work::Ask { path: path.to_owned(), line: line.to_owned(), owner };
        match self.carry_out(work, PROMPT).await? {
            Answer::Content(bytes) => Ok(String::from_utf8_lossy(&bytes.0).into_owned()),
            other => Err(unexpected(&other)),
        }
    }

    /// Captures packets of all interfaces of a network from now on: the first so many one by one, all of them as counts. With `ports` those
    /// alone come one by one that have one of them: others would be in the way of a long capture.
    async fn capture(&self, network: Network, packets: u32, ports: Option<Range<u16>>) -> Handed<Capture> {
        Ok(Capture(self.follow(Work::Capture { network, packets, ports }).await?))
    }
}

/// An order that answers until it is stopped. It is stopped when this is dropped, too.
#[async_trait]
pub trait Follow: fmt::Debug + Send {
    /// The next answer; waited for.
    async fn next(&mut self) -> Handed<Answer>;

    /// Stops it; the rest of its answers, the last one at the end.
    async fn stop(self: Box<Self>) -> Handed<Vec<Answer>>;
}

/// Changes of a directory or file.
#[derive(Debug)]
pub struct Changes(Box<dyn Follow>);

impl Changes {
    /// The next one; waited for.
    ///
    /// # Errors
    /// The hand is gone.
    pub async fn next(&mut self) -> Handed<Change> {
        match self.0.next().await? {
            Answer::Change(change) => Ok(change),
            other => Err(unexpected(&other)),
        }
    }

    /// Ends the watch; the changes until now that nobody took.
    ///
    /// # Errors
    /// The hand is gone.
    pub async fn stop(self) -> Handed<Vec<Change>> {
        let rest = self.0.stop().await?.into_iter();
        Ok(rest
            .filter_map(|answer| if let Answer::Change(change) = answer { Some(change) } else { None })
            .collect())
    }
}

/// A lock that is held until this ends.
#[derive(Debug)]
pub struct Held(Box<dyn Follow>);

impl Held {
    /// Lets the lock go, and returns once that is done.
    ///
    /// # Errors
    /// The hand is gone.
    pub async fn release(self) -> Handed<()> {
        self.0.stop().await.map(drop)
    }
}

/// A connection that is kept open until this ends.
#[derive(Debug)]
pub struct Kept(Box<dyn Follow>);

impl Kept {
    /// The next answer on it, waited for; `Err` in it is why there are none any more.
    ///
    /// # Errors
    /// The hand is gone.
    pub async fn next(&mut self) -> Handed<Result<traffic::Answer, String>> {
        match self.0.next().await? {
            Answer::Heard(answer) => Ok(Ok(answer)),
            Answer::Cut(why) => Ok(Err(why)),
            other => Err(unexpected(&other)),
        }
    }
}

/// Packets of a network.
#[derive(Debug)]
pub struct Capture(Box<dyn Follow>);

impl Capture {
    /// The next packet; waited for.
    ///
    /// # Errors
    /// The hand is gone.
    pub async fn next(&mut self) -> Handed<Packet> {
        match self.0.next().await? {
            Answer::Packet(packet) => Ok(packet),
            other => Err(unexpected(&other)),
        }
    }

    /// Ends the capture: the packets that nobody took, and how many there were of each flow.
    ///
    /// # Errors
    /// The hand is gone.
    pub async fn stop(self) -> Handed<(Vec<Packet>, Counts)> {
        let mut rest = self.0.stop().await?;
        let counts = match rest.pop() {
            Some(Answer::Counts(counts)) => counts,
            other => return Err(unexpected(&other)),
        };
        let packets = rest.into_iter();
        let packets = packets
            .filter_map(|answer| if let Answer::Packet(packet) = answer { Some(packet) } else { None });
        Ok((packets.collect(), counts))
    }
}

fn entries(answer: Answer) -> Handed<Vec<Entry>> {
    match answer {
        Answer::Entries(entries) => Ok(entries),
        other => Err(unexpected(&other)),
    }
}

fn unexpected(answer: &impl fmt::Debug) -> HandError {
    let why = format!("it answers {answer:?}");
    HandError::Lab(LabError::harness("understand the hand", why))
}
