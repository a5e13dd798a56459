// SPDX-License-Identifier: Apache-2.0
//! SIGTERM and SIGINT, which end the process in good order.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Listener of both signals.
#[derive(Debug)]
pub(crate) struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    /// Listens from now on. Must be called inside of a tokio runtime.
    ///
    /// # Errors
    /// A signal handler cannot be set.
    pub(crate) fn listen() -> io::Result<Self> {
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    /// Returns at the first of them.
    pub(crate) async fn recv(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
