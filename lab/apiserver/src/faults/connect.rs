// SPDX-License-Identifier: Apache-2.0
//! What can become of a connection before its first request.

use std::time::Duration;

/// What becomes of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Connecting {
    /// It is accepted, and nobody answers on it until the faults change.
    Hang,
    /// It is served after a pause.
    Delay(Duration),
    /// It is reset at once.
    Reset,
    /// It is reset when the client has begun the TLS handshake.
    ResetHandshake,
}

pub(super) struct Rule {
    effect: Connecting,
    left: Option<u32>,
}

impl Rule {
    pub(super) fn new(effect: Connecting, times: Option<u32>) -> Self {
        Self { effect, left: times }
    }

    pub(super) fn strike(&mut self) -> Option<Connecting> {
        if let Some(left) = &mut self.left {
            *left = left.checked_sub(1)?;
        }
        Some(self.effect)
    }
}
