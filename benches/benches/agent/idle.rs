// SPDX-License-Identifier: Apache-2.0
//! API requests of an idle agent, on a node whose pods are as they should be. Requests of some minutes are counted, not of an hour; the
//! report says of how many.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use benches::contender::SetUp as _;
use benches::pod::PodNamespace;
use benches::report::Effort;
use benches::{in_process, rules};
use protocol::agent::PodKey;
use redirect::config::Config;

use crate::node::{Binaries, Node, PATIENCE, until};
use crate::{Figures, pods, socket};

pub(crate) fn measure(effort: Effort, binaries: &Binaries, figures: &mut Figures) -> Result<()> {
    let node = Node::create(binaries)?;
    let keys = pods::fill(&node, 110)?;
    let facts = serde_json::from_value(pods::realistic("cart")?)?;
    // As the runtime's answer has it, the pods have IPv4 only.
    let programmed = in_process::whole("rules", Config { ipv6: false, ..rules::config(&facts)? });
    for key in &keys {
        let namespace = PodNamespace::create()?;
        programmed.set_up(&namespace)?;
        pods::place(&node, key, &namespace)?;
    }
    let mut agent = node.start(&binaries.agent, &[("REPAIR_ENABLED", "true")])?;
    agent.ready()?;
    socket::known(&node, &keys)?;
    // Requests of the start come at once.
    pass(Duration::from_secs(effort.pick(1, 10)));
    let begun = node.api.requests();
    let watched = Duration::from_secs(effort.pick(2, 300));
    pass(watched);
    let requests = node.api.requests();
    hears(&node, &keys[0])?;
    let since = &requests[begun.len()..];
    let mut kinds = BTreeMap::<String, usize>::new();
    for request in since {
        *kinds.entry(format!("{:?} {}", request.verb, request.path)).or_default() += 1;
    }
    let kinds: String = kinds.iter().map(|(kind, times)| format!("; {times} x {kind}")).collect();
    figures.note(
        "API requests while idle",
        &format!(
            "{} in {} s with 110 pods, {:.0} an hour at that rate; {} at the start{kinds}",
            since.len(),
            watched.as_secs(),
            since.len() as f64 * 3600.0 / watched.as_secs_f64(),
            begun.len(),
        ),
    );
    Ok(())
}

/// Makes sure that the agent still follows: one that follows nothing asks for nothing, and would look best of all.
fn hears(node: &Node, key: &PodKey) -> Result<()> {
    let mut pod = node.api.pod(&key.namespace, &key.name).context("a pod that was stored")?;
    pod["metadata"]["labels"]["bench"] = "changed".into();
    node.api.upsert(pod)?;
    let changed = || Ok(socket::facts(node, key)?.metadata.labels.contains_key("bench").then_some(()));
    until(PATIENCE, changed).context("wait until the agent knows of a change")
}

/// Lets time pass: that nothing happens in it is the point.
fn pass(time: Duration) {
    let end = Instant::now() + time;
    while let Some(left) = end.checked_duration_since(Instant::now()) {
        thread::park_timeout(left);
    }
}
