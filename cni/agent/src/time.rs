// SPDX-License-Identifier: Apache-2.0
//! Delays that no event ends.

use std::time::Duration;

/// Returns after `time`.
pub(crate) async fn pause(time: Duration) {
    let _elapsed = tokio::time::timeout(time, std::future::pending::<()>()).await;
}
