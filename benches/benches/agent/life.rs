// SPDX-License-Identifier: Apache-2.0
//! An agent's life, again and again: start to ready on a fresh node, its entry clobbered and healed, end. One clobbering a life: two in a
//! row are a fight, which is throttled on purpose.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use benches::report::Effort;

use crate::node::{Binaries, Node, PATIENCE, until};
use crate::{Figures, Goal};

const START: Goal = Goal { most: 500.0, unit: "ms" };
const HEAL: Goal = Goal { most: 100.0, unit: "ms" };

#[derive(Default)]
struct Lives {
    starts: Vec<f64>,
    heals: Vec<f64>,
    ends: Vec<f64>,
}

fn millis(took: Duration) -> f64 {
    took.as_secs_f64() * 1e3
}

/// Ours and the peer take turns.
pub(crate) fn measure(
    effort: Effort,
    binaries: &Binaries,
    peer: Option<&Path>,
    figures: &mut Figures,
) -> Result<()> {
    let agents = [Some(("", binaries.agent.as_path())), peer.map(|path| ("peer: ", path))];
    let mut all = [Lives::default(), Lives::default()];
    for _ in 0..effort.pick(1, 40) {
        for ((_, binary), lives) in agents.iter().flatten().zip(&mut all) {
            live(binaries, binary, lives)?;
        }
    }
    for ((who, _), lives) in agents.iter().flatten().zip(all) {
        figures.samples(&format!("{who}start to ready"), lives.starts, 1.0, START);
        figures.samples(&format!("{who}conflist clobbered to healed"), lives.heals, 1.0, HEAL);
        figures.samples(
            &format!("{who}told to end to ended"),
            lives.ends,
            1.0,
            Goal { most: 10_000.0, unit: "ms" },
        );
    }
    Ok(())
}

fn live(binaries: &Binaries, agent: &Path, lives: &mut Lives) -> Result<()> {
    let node = Node::create(binaries)?;
    let mut agent = node.start(agent, &[])?;
    lives.starts.push(millis(agent.ready()?));
    anyhow::ensure!(node.is_chained(), "the agent says that it is ready, and its entry is not there");
    node.clobber()?;
    let clobbered = Instant::now();
    until(PATIENCE, || Ok(node.is_chained().then_some(()))).context("wait until the conflist is healed")?;
    lives.heals.push(millis(clobbered.elapsed()));
    lives.ends.push(millis(agent.stop()?));
    Ok(())
}
