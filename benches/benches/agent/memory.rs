// SPDX-License-Identifier: Apache-2.0
//! The resident set of an agent that knows all pods of its node.

use anyhow::Result;
use benches::report::Effort;

use crate::node::{Binaries, Node};
use crate::{Figures, Goal, pods, socket};

/// As many pods as a kubelet takes by default, and as many as the largest nodes have; with the most MiB that the agent may hold.
const SIZES: [(usize, f64); 2] = [(110, 20.0), (1000, 40.0)];

pub(crate) fn measure(_: Effort, binaries: &Binaries, figures: &mut Figures) -> Result<()> {
    for (count, most) in SIZES {
        let node = Node::create(binaries)?;
        let keys = pods::fill(&node, count)?;
        let mut agent = node.start(&binaries.agent, &[("REPAIR_ENABLED", "true")])?;
        agent.ready()?;
        socket::known(&node, &keys)?;
        let goal = Goal { most, unit: "MiB" };
        figures.one(&format!("resident with {count} pods of 15 kB"), agent.kib("VmRSS")? / 1024.0, goal);
        figures.one(&format!("the most ever resident with {count} pods"), agent.kib("VmHWM")? / 1024.0, goal);
    }
    Ok(())
}
