// SPDX-License-Identifier: Apache-2.0
//! Accepts connections, a bounded number at a time.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use crate::time::pause;

/// Pause after an accept that failed: there may be no file descriptors left.
const PAUSE: Duration = Duration::from_millis(50);

/// The next connection of `what` with its place among the concurrent ones, once there is one: others wait in the kernel's backlog. `None` after
/// `cancel`.
pub(crate) async fn next<C, A: Future<Output = io::Result<C>>>(
    what: &'static str,
    accept: impl Fn() -> A,
    room: &Arc<Semaphore>,
    cancel: &CancellationToken,
) -> Option<(OwnedSemaphorePermit, C)> {
    let accepted = async {
        let place = Arc::clone(room).acquire_owned().await.ok()?;
        let mut is_told = false;
        loop {
            match accept().await {
                Ok(connection) => return Some((place, connection)),
                Err(error) if !is_told => {
                    tracing::warn!(target: "cni-agent", what, %error, "a connection cannot be accepted");
                    is_told = true;
                }
                Err(_) => {}
            }
            pause(PAUSE).await;
        }
    };
    cancel.run_until_cancelled(accepted).await.flatten()
}
