// SPDX-License-Identifier: Apache-2.0
//! Delays of the lab's own actors, where a run wants them.

use cluster::{Actor, Chaos};
use tokio::time::{Instant, sleep_until};

/// Waits as long as an actor is to be late.
pub(crate) async fn late(chaos: &Chaos, actor: Actor) {
    let delay = chaos.delay(actor);
    if !delay.is_zero() {
        sleep_until(Instant::now() + delay).await;
    }
}
