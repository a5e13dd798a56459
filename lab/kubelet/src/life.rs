// SPDX-License-Identifier: Apache-2.0
//! A pod from the moment that it is its node's until it is gone: started, looked after, started again. When and what is tried
//! again is decided here; the node does it.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use cluster::{Actor, PodStart};
use futures::future::{BoxFuture, FutureExt as _, select_all};

use crate::containers::{self, Ending, NOT_PROBED};
use crate::network::TRANSIENT;
use crate::node::NetnsNode;
use crate::pace;
use crate::pod::{Planned, Restart};
use crate::probe::{PlannedProbe, Seen};
use crate::slot::{Parts, Slot};

/// Maximum backoff of a kubelet.
const LONGEST: Duration = Duration::from_secs(300);

/// Next action on a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    /// Waits for an event.
    Wait,
    /// Restarts stopped containers, after this long.
    Again(Duration),
}

/// Retries of each part of a pod; the sandbox' name is empty.
type Tries = BTreeMap<String, u32>;

/// Lives a pod's life. A start that has begun is never abandoned, so that an end finds everything that there is.
pub async fn live(node: Arc<NetnsNode>, slot: Arc<Slot>) {
    let mut ending = slot.ending();
    pace::late(&node.options.chaos, Actor::Kubelet).await;
    if node.rejects(&slot).await {
        return;
    }
    node.start(&slot).await;
    let mut tries = Tries::new();
    while !slot.is_ending() {
        let mut parts = slot.parts.lock().await;
        if containers::are_over(&slot.plan, &parts.containers) {
            let sidecars = parts.containers.iter().filter(|container| container.runs());
            containers::end(sidecars, Ending::Graceful(slot.plan.grace)).await;
        }
        let next = decide(&slot, &mut parts, &mut tries, node.options.back_off);
        if next != Next::Wait {
            node.report(&slot, &mut parts).await;
        }
        let changes = changes(&node, &slot, &parts);
        drop(parts);
        let event = async {
            match next {
                Next::Again(after) => backed_off(after).await,
                Next::Wait => changed(changes).await,
            }
        };
        tokio::select! {
            () = event => {}
            _ = ending.wait_for(|ending| *ending) => return,
        }
        match next {
            Next::Again(_) => node.start_again(&slot).await,
            Next::Wait => {
                let mut parts = slot.parts.lock().await;
                slot.show(&parts);
                node.report(&slot, &mut parts).await;
            }
        }
    }
}

fn decide(slot: &Slot, parts: &mut Parts, tries: &mut Tries, back_off: Option<Duration>) -> Next {
    let Some(base) = back_off else { return Next::Wait };
    if containers::are_over(&slot.plan, &parts.containers) {
        return Next::Wait;
    }
    if parts.lacks_network {
        return Next::Again(TRANSIENT);
    }
    if parts.sandbox.is_none() && parts.start.is_none() {
        // After a reboot.
        return Next::Again(Duration::ZERO);
    }
    let mut delay = |name: &str| {
        let tried = tries.entry(name.to_owned()).or_default();
        *tried += 1;
        *tried - 1
    };
    if parts.sandbox.is_none() {
        return Next::Again(nth(base, delay("").max(1)));
    }
    let wanted = parts.containers.iter_mut().find(|container| container.is_wanted(slot.plan.restart));
    if let Some(container) = wanted {
        let after = nth(base, delay(&container.name));
        container.backs_off = !after.is_zero();
        return Next::Again(after);
    }
    if let Some(unpulled) = &mut parts.unpulled {
        // Whatever the pod's policy is: nothing has run yet.
        unpulled.backs_off = true;
        return Next::Again(nth(base, delay(&unpulled.container.clone()).max(1)));
    }
    let failed_for_good = slot.plan.restart == Restart::Never;
    match &parts.start {
        // A container that could not even be started: its ConfigMap is not there yet, say.
        Some(PodStart::ContainerFailed { container, exit: None, .. }) if !failed_for_good => {
            Next::Again(nth(base, delay(container).max(1)))
        }
        _ => Next::Wait,
    }
}

/// Backoff before the `n`th retry, from 0: that comes at once.
pub(crate) fn nth(base: Duration, n: u32) -> Duration {
    match n.checked_sub(1) {
        None => Duration::ZERO,
        Some(doublings) => base.saturating_mul(1 << doublings.min(16)).min(LONGEST),
    }
}

/// Event of a running pod: a process ended, or a probe's result changed.
fn changes(node: &Arc<NetnsNode>, slot: &Arc<Slot>, parts: &Parts) -> Vec<BoxFuture<'static, ()>> {
    let running = parts.containers.iter().filter(|container| container.runs());
    let untold = parts.containers.iter().filter(|container| !container.end_told);
    let ends = untold.map(|container| container.process.end().boxed());
    let probed = running.filter_map(|container| {
        let (node, slot, name) = (Arc::clone(node), Arc::clone(slot), container.name.clone());
        container.seen.as_ref()?;
        Some(probe(node, slot, name).boxed())
    });
    ends.chain(probed).collect()
}

/// Backoff.
pub(crate) async fn backed_off(time: Duration) {
    tokio::time::sleep_until(tokio::time::Instant::now() + time).await;
}

async fn changed(changes: Vec<BoxFuture<'static, ()>>) {
    if changes.is_empty() {
        std::future::pending::<()>().await;
    }
    drop(select_all(changes).await);
}

/// Probes a container until the result changes.
async fn probe(node: Arc<NetnsNode>, slot: Arc<Slot>, name: String) {
    let planned = slot.plan.containers.iter().find(|planned| planned.name == name);
    let Some((planned, probe)) = planned.and_then(|planned| Some((planned, planned.probe.clone()?))) else {
        return std::future::pending().await;
    };
    if is_new(&slot, &name).await {
        started(&node, &slot, planned, &probe).await;
    } else {
        backed_off(node.options.probed_in(probe.period)).await;
    }
    loop {
        let seen = probe.look(node.netns.path(), address(&slot), pid(&slot, &name)).await;
        let mut parts = slot.parts.lock().await;
        let Some(container) = parts.containers.iter_mut().find(|container| container.name == name) else {
            return std::future::pending().await;
        };
        if container.runs() && container.seen.as_ref() != Some(&seen) {
            container.seen = Some(seen.clone());
            drop(parts);
            return unhealthy(&node, &slot, "Readiness", &seen).await;
        }
        drop(parts);
        backed_off(node.options.probed_in(probe.period)).await;
    }
}

/// Address of a pod; that of a node that has none of its own is its loopback.
fn address(slot: &Slot) -> IpAddr {
    slot.shown().addresses.first().copied().unwrap_or(Ipv4Addr::LOCALHOST.into())
}

/// Process of a container, as the lab numbers it.
fn pid(slot: &Slot, name: &str) -> Option<u32> {
    slot.shown().pids.into_iter().find(|(one, _)| one == name).map(|(_, pid)| pid)
}

/// Waits until a container's startup probe succeeds. Before that a kubelet does not ask whether it is ready, and as soon as it has, it does
/// (`pkg/kubelet/prober/prober_manager.go`, `UpdatePodStatus`); never again after that.
async fn started(node: &NetnsNode, slot: &Slot, planned: &Planned, readiness: &PlannedProbe) {
    let Some(probe) = &planned.startup else {
        return backed_off(node.options.probed_in(readiness.delay)).await;
    };
    backed_off(node.options.probed_in(probe.delay)).await;
    let mut last = None;
    loop {
        let seen = probe.look(node.netns.path(), address(slot), pid(slot, &planned.name)).await;
        if seen == Seen::Ready {
            return;
        }
        if last.as_ref() != Some(&seen) {
            unhealthy(node, slot, "Startup", &seen).await;
        }
        last = Some(seen);
        backed_off(node.options.probed_in(probe.period)).await;
    }
}

/// True before the first probe of a container.
async fn is_new(slot: &Slot, name: &str) -> bool {
    let parts = slot.parts.lock().await;
    let container = parts.containers.iter().find(|container| container.name == name);
    container.is_some_and(|container| container.seen == Some(Seen::NotReady(NOT_PROBED.to_owned())))
}

/// Emits `Unhealthy` for a failed probe. One that fails as before only counts the event up, which nobody looks at here.
async fn unhealthy(node: &NetnsNode, slot: &Slot, which: &str, seen: &Seen) {
    if let Seen::NotReady(why) = seen {
        node.tell(&slot.plan, "Unhealthy", &format!("{which} probe failed: {why}")).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_new_try_comes_at_once_and_then_each_waits_twice_as_long() {
        let base = Duration::from_secs(10);
        let waits: Vec<_> = (0..8).map(|n| nth(base, n).as_secs()).collect();
        assert_eq!(waits, [0, 10, 20, 40, 80, 160, 300, 300]);
    }
}
