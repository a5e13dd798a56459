// SPDX-License-Identifier: Apache-2.0
//! Lines that the processes of a container printed, one process after the other: evidence, and the container's log.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use apiserver::Timestamp;
use cluster::{Position, bounded};
use tokio::sync::watch;

use crate::error::Error;

/// Retained lines: enough to explain a failure. A kubelet's default is 10 MiB before a log is rotated.
const KEPT_LINES: usize = 1000;

/// Retained lines of those dropped that may tell of an error: whoever judges a log needs them.
pub(crate) const KEPT_ERRORS: usize = 1000;

/// True for a line that may be one of level `error` or worse, or tell of a crash, in whichever form.
pub(crate) fn may_be_error(line: &str) -> bool {
    const WORDS: [&str; 7] = ["err", "panic", "overflowed its stack", "fatal", "crit", "alert", "emerg"];
    let line = line.to_ascii_lowercase();
    // klog's header.
    let is_klog = line.starts_with(['e', 'f']) && line.as_bytes().get(1).is_some_and(u8::is_ascii_digit);
    is_klog || WORDS.iter().any(|word| line.contains(word))
}

/// A line that a process printed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    pub at: Timestamp,
    /// Number of the process, from 1.
    pub run: u32,
    pub text: String,
}

/// Retained lines, oldest first; the oldest are dropped when there are too many, or too many bytes.
#[derive(Debug, Default)]
pub struct Printed {
    lines: VecDeque<Line>,
    /// Their bytes.
    bytes: usize,
    /// Number of lines that were dropped.
    dropped: usize,
    /// Those of them that may tell of an error, the first ones.
    errors: Vec<String>,
    /// Their bytes.
    error_bytes: usize,
    /// Number of processes so far.
    runs: u32,
    /// Open streams of the last one.
    open: u32,
}

impl Printed {
    /// Appends a line, and drops the oldest ones that are too many.
    fn push(&mut self, line: Line) {
        self.bytes += line.text.len();
        self.lines.push_back(line);
        while self.lines.len() > KEPT_LINES || (self.bytes > bounded::OUTPUT && self.lines.len() > 1) {
            let Some(oldest) = self.lines.pop_front() else { return };
            self.dropped += 1;
            self.bytes -= oldest.text.len();
            let fits = self.errors.len() < KEPT_ERRORS && self.error_bytes < bounded::OUTPUT;
            if fits && may_be_error(&oldest.text) {
                self.error_bytes += oldest.text.len();
                self.errors.push(oldest.text);
            }
        }
    }

    /// Number of processes so far.
    #[must_use]
    pub fn runs(&self) -> u32 {
        self.runs
    }

    /// True if a process prints nothing any more.
    #[must_use]
    pub fn is_over(&self, run: u32) -> bool {
        self.runs != run || self.open == 0
    }

    /// The first line from a position on that has this in it.
    #[must_use]
    pub fn find(&self, fragment: &str, from: Position) -> Option<&String> {
        let is_meant = |line: &&Line| match from {
            Position::Ever => true,
            Position::Since(time) => {
                line.run == self.runs && Timestamp::try_from(time).is_ok_and(|time| line.at >= time)
            }
        };
        let mut lines = self.lines.iter().filter(is_meant).map(|line| &line.text);
        lines.find(|text| text.contains(fragment))
    }

    /// Lines from a place on, and the place after them. Places count all lines that were ever printed.
    pub fn since(&self, place: usize) -> (impl Iterator<Item = &Line>, usize) {
        let known = place.saturating_sub(self.dropped);
        (self.lines.iter().skip(known), self.dropped + self.lines.len())
    }
}

/// Output of a container.
#[derive(Debug, Clone, Default)]
pub struct Output(Arc<watch::Sender<Printed>>);

impl Output {
    /// Retained lines, those before that may tell of an error first.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let printed = self.0.borrow();
        printed.errors.iter().chain(printed.lines.iter().map(|line| &line.text)).cloned().collect()
    }

    /// Notifies of new lines.
    #[must_use]
    pub fn subscribe(&self) -> watch::Receiver<Printed> {
        self.0.subscribe()
    }

    /// Waits for a line with `fragment` in it.
    ///
    /// # Errors
    /// There is none before the deadline.
    pub async fn until(&self, fragment: &str, from: Position, deadline: Duration) -> Result<String, Error> {
        let find = |printed: &Printed| printed.find(fragment, from).cloned();
        let mut printed = self.0.subscribe();
        let found = tokio::time::timeout(deadline, printed.wait_for(|printed| find(printed).is_some())).await;
        match found {
            Ok(Ok(printed)) => Ok(find(&printed).unwrap_or_default()),
            // The sender lives in `self`.
            Ok(Err(_)) | Err(_) => {
                Err(Error::Deadline { what: format!("a line with {fragment:?}"), deadline })
            }
        }
    }

    /// Waits until its process prints nothing any more.
    ///
    /// # Errors
    /// It still does at the deadline.
    pub async fn closed(&self, deadline: Duration) -> Result<(), Error> {
        let mut printed = self.0.subscribe();
        let closed = printed.wait_for(|printed| printed.open == 0);
        // The sender lives in `self`.
        let late = |_| Error::Deadline { what: "the end of the output".to_owned(), deadline };
        tokio::time::timeout(deadline, closed).await.map(drop).map_err(late)
    }

    /// Begins the output of another process; returns its number.
    pub(crate) fn begin(&self) -> u32 {
        self.0.send_modify(|printed| {
            printed.runs += 1;
            printed.open = 0;
        });
        self.0.borrow().runs
    }

    /// A stream of a process.
    pub(crate) fn stream(&self, run: u32) -> Stream {
        self.0.send_modify(|printed| printed.open += 1);
        Stream { output: self.clone(), run }
    }
}

/// A stream that is being read; closed on drop.
#[derive(Debug)]
pub(crate) struct Stream {
    output: Output,
    run: u32,
}

impl Stream {
    pub(crate) fn push(&self, text: String) {
        let line = Line { at: Timestamp::now(), run: self.run, text };
        self.output.0.send_modify(|printed| printed.push(line));
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.output.0.send_modify(|printed| {
            if printed.runs == self.run {
                printed.open = printed.open.saturating_sub(1);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;

    #[test]
    fn a_line_of_before_or_of_a_process_that_is_dead_is_not_said_again() {
        let output = Output::default();
        let first = output.stream(output.begin());
        first.push("installed".to_owned());
        let found = |from| output.subscribe().borrow().find("installed", from).is_some();
        let now = || Position::Since(SystemTime::now());
        let begin = Position::Since(SystemTime::UNIX_EPOCH);
        assert!(found(begin) && found(Position::Ever) && !found(now()));
        let mark = now();
        first.push("installed".to_owned());
        assert!(found(mark));
        let second = output.stream(output.begin());
        first.push("installed".to_owned());
        assert!(!found(begin) && !found(mark) && found(Position::Ever), "the process lives no more");
        second.push("installed".to_owned());
        assert!(found(mark));
    }

    #[test]
    fn an_error_stays_however_much_is_printed_after_it() {
        let output = Output::default();
        let stream = output.stream(output.begin());
        stream.push("t\terror\tinstall\tdisk is full".to_owned());
        (0..2 * KEPT_LINES).for_each(|number| stream.push(format!("line {number}")));
        let lines = output.lines();
        assert_eq!((lines.len(), lines[0].as_str()), (KEPT_LINES + 1, "t\terror\tinstall\tdisk is full"));
        assert_eq!(output.subscribe().borrow().since(0).1, 2 * KEPT_LINES + 1);
    }

    #[test]
    fn few_long_lines_are_bounded_as_many_short_ones_are() {
        let output = Output::default();
        let stream = output.stream(output.begin());
        (0..100)
            .for_each(|number| stream.push(format!("{number} error {}", "x".repeat(bounded::OUTPUT / 4))));
        let bytes: usize = output.lines().iter().map(String::len).sum();
        assert!((bounded::OUTPUT..3 * bounded::OUTPUT).contains(&bytes), "{bytes}");
        assert!(output.lines().last().unwrap().starts_with("99 error"));
    }
}
