// SPDX-License-Identifier: Apache-2.0
//! What a ruleset does with a packet, as the kernel would evaluate it at the packet's hook: raw, then mangle, then nat.
//!
//! It models what our rules can express, in a namespace where nothing else is programmed and the proxy listens where rules
//! send traffic. (A TPROXY rule without a listener drops, and so does REDIRECT on an interface without an address.)

mod conditions;
mod walk;

use crate::packet::{Packet, Verdict};
use crate::ruleset::Ruleset;

/// Evaluates `packet` against `ruleset`. The steps are exactly the rules whose kernel counters the packet moves.
#[must_use]
pub fn verdict(ruleset: &Ruleset, packet: &Packet) -> Verdict {
    walk::Walk::new(ruleset, packet).run()
}
