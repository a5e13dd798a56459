// SPDX-License-Identifier: Apache-2.0
//! What the agent asks of the API server while nothing happens. An hour is not waited for: requests of some minutes are counted, and the
//! report says of how many.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::node::{Binaries, Node};
use crate::{Effort, Figures, pods};

pub(crate) fn measure(effort: Effort, binaries: &Binaries, figures: &mut Figures) -> Result<()> {
    let node = Node::create(binaries)?;
    pods::fill(&node, 110)?;
    let mut agent = node.start(&binaries.agent, &[("REPAIR_ENABLED", "true")])?;
    agent.ready()?;
    // What belongs to the start comes at once.
    pass(Duration::from_secs(effort.pick(1, 10)));
    let begun = node.api.requests();
    let watched = Duration::from_secs(effort.pick(2, 300));
    pass(watched);
    let requests = node.api.requests();
    let since = &requests[begun.len()..];
    let kinds: Vec<String> =
        since.iter().map(|request| format!("{:?} {}", request.verb, request.path)).collect();
    figures.note(
        "API requests while idle",
        &format!(
            "{} in {} s with 110 pods, {:.0} an hour at that rate; {} at the start {}",
            since.len(),
            watched.as_secs(),
            since.len() as f64 * 3600.0 / watched.as_secs_f64(),
            begun.len(),
            kinds.join(", ")
        ),
    );
    Ok(())
}

/// Lets time pass: that nothing happens in it is the point.
fn pass(time: Duration) {
    let end = Instant::now() + time;
    while let Some(left) = end.checked_duration_since(Instant::now()) {
        thread::park_timeout(left);
    }
}
