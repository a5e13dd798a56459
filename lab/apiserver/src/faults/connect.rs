// SPDX-License-Identifier: Apache-2.0
//! Faults of a connection before its first request.

use std::time::Duration;

/// Fault of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Connecting {
    /// Accepted, and never served until the faults change.
    Hang,
    /// Served after a delay.
    Delay(Duration),
    /// Reset at once.
    Reset,
    /// Reset when the client has begun the TLS handshake.
    ResetHandshake,
}

pub(super) struct ConnectRule {
    effect: Connecting,
    left: Option<u32>,
}

impl ConnectRule {
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
