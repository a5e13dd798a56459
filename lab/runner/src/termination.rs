// SPDX-License-Identifier: Apache-2.0
//! The signals that end a run, in the process that plays it.

use tokio::signal::unix::{Signal, SignalKind, signal};

/// The signals that end a run. Listening begins once and early: the first process of a pid namespace gets no signal that it
/// has no handler for, and what comes between two listeners is lost.
pub(crate) struct Termination {
    term: Signal,
    int: Signal,
    hup: Signal,
}

impl Termination {
    pub(crate) fn listen() -> anyhow::Result<Self> {
        Ok(Self {
            term: signal(SignalKind::terminate())?,
            int: signal(SignalKind::interrupt())?,
            hup: signal(SignalKind::hangup())?,
        })
    }

    /// Returns after one of them has arrived.
    pub(crate) async fn came(&mut self) {
        tokio::select! {
            _ = self.term.recv() => {}
            _ = self.int.recv() => {}
            _ = self.hup.recv() => {}
        }
    }

    /// The same, but for the end of the terminal, which a shell and the kernel tell each.
    pub(crate) async fn came_from_somebody(&mut self) {
        tokio::select! {
            _ = self.term.recv() => {}
            _ = self.int.recv() => {}
        }
    }
}
