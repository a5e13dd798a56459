// SPDX-License-Identifier: Apache-2.0
//! The controllers of a cluster: each is a pure `decide` over what the API has; this is the loop that reads, asks them, and acts. That
//! dependents go with their owners is the API's business.
//!
//! | module | decides |
//! |---|---|
//! | [`daemonset`] | one pod on each node that fits |
//! | [`replicaset`], [`deployment`] | as many pods of a template as wanted; how a change of the template rolls through |
//! | [`statefulset`] | pods with names that stay, in order |
//! | [`job`] | pods that run to their end, and their count |
//! | [`lifecycle`] | taints of nodes that are not ready |
//! | [`eviction`] | pods that go because of a `NoExecute` taint |
//! | [`owned`] | ownership, adoption, readiness: shared |
//! | [`actions`] | what they do to the API |

pub mod actions;
pub mod daemonset;
pub mod deployment;
pub mod eviction;
pub mod job;
pub mod lifecycle;
pub mod owned;
pub mod replicaset;
pub mod statefulset;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use apiserver::{ApiServer, Changes, Timestamp};
use cluster::{Actor, Chaos};
use futures::FutureExt as _;
use serde_json::Value;

use self::actions::{Action, Decision, act, list};
use self::job::Failures;
use crate::error::Error;
use crate::fit;
use crate::pace;

/// The first wait after a failure; doubled for each that follows. A real controller's queue begins with 5 ms.
const FIRST_WAIT: Duration = Duration::from_millis(5);

/// Maximum backoff. A real controller's queue goes up to 1000 s.
const LAST_WAIT: Duration = Duration::from_secs(1);

/// Kinds with a controller here.
const OWNERS: [&str; 6] = ["DaemonSet", "Deployment", "ReplicaSet", "StatefulSet", "Job", "Node"];

struct Controllers {
    api: ApiServer,
    client: kube::Client,
    /// Kinds of which there ever was an object: nothing is read for the others.
    used: Vec<&'static str>,
    failures: BTreeMap<String, Failures>,
    /// When a taint was first seen to concern a pod, by UID.
    tainted: BTreeMap<String, Timestamp>,
    /// First backoff of Jobs; a real one has 10 s.
    job_backoff: Duration,
}

/// Follows owners, nodes and pods until it is aborted. What fails is tried again: a pod's account may not be there yet.
pub async fn run(api: ApiServer, mut changes: Changes, job_backoff: Duration, chaos: Chaos) {
    let mut all = Controllers {
        api: api.clone(),
        client: api.client(),
        used: Vec::new(),
        failures: BTreeMap::new(),
        tainted: BTreeMap::new(),
        job_backoff,
    };
    let (mut wait, mut again) = (None, None);
    loop {
        let timer = backed_off(wait.into_iter().chain(again).min().unwrap_or(Duration::MAX));
        let due = tokio::select! {
            () = timer => true,
            due = all.concerned(&mut changes) => due,
        };
        if due {
            pace::late(&chaos, Actor::Controller).await;
            let (failed, next) = all.reconcile().await;
            wait = failed.then(|| wait.map_or(FIRST_WAIT, |wait: Duration| (wait * 2).min(LAST_WAIT)));
            again = next;
        }
    }
}

async fn backed_off(time: Duration) {
    let _elapsed = tokio::time::timeout(time, std::future::pending::<()>()).await;
}

impl Controllers {
    /// Waits for a change, and takes all that are there with it; whether one concerns a controller.
    async fn concerned(&mut self, changes: &mut Changes) -> bool {
        let mut next = Some(changes.next().await);
        let mut due = false;
        while let Some(change) = next {
            let Ok(change) = change else {
                // Only a controller that sleeps through the API's whole history comes here.
                *changes = self.api.subscribe();
                return true;
            };
            let kind = change.key.kind.name;
            let object = &change.object;
            let concerns = kind != "Node" || eviction::evicts(object) || lifecycle::decide(object).is_some();
            let owner = OWNERS.into_iter().find(|owner| *owner == kind && concerns);
            self.used.extend(owner.filter(|owner| !self.used.contains(owner)));
            let nodes = kind == "Node" && self.used.contains(&"DaemonSet");
            due |= self.used.contains(&kind) || (kind == "Pod" && !self.used.is_empty()) || nodes;
            next = changes.next().now_or_never();
        }
        due
    }

    /// True if something failed, and the time until it is due again without a change.
    async fn reconcile(&mut self) -> (bool, Option<Duration>) {
        let (mut failed, mut again) = (false, None);
        for kind in OWNERS.into_iter().filter(|kind| self.used.contains(kind)).collect::<Vec<_>>() {
            let Ok(decisions) = self.decide(kind) else {
                failed = true;
                continue;
            };
            for decision in decisions {
                again = again.into_iter().chain(decision.again).min();
                for action in decision.actions {
                    // The rest of this object's actions may count on it.
                    if act(&self.client, action).await.is_err() {
                        failed = true;
                        break;
                    }
                }
            }
        }
        (failed, again)
    }

    /// A decision for each object of a kind.
    fn decide(&mut self, kind: &'static str) -> Result<Vec<Decision>, Error> {
        let (owners, pods) = (list(&self.api, kind)?, list(&self.api, "Pod")?);
        let others = match kind {
            "DaemonSet" => list(&self.api, "Node")?,
            "Deployment" => list(&self.api, "ReplicaSet")?,
            _ => Vec::new(),
        };
        let now = Timestamp::now();
        let one = |owner: &Arc<Value>| match kind {
            // The real API server rejects it: without a selector an owner neither claims nor releases.
            "Deployment" | "ReplicaSet" | "StatefulSet" if fit::is_empty(&owner["spec"]["selector"]) => {
                Decision::default()
            }
            "Deployment" => {
                let (sets, claims) = owned::claim(owner, ("apps/v1", kind), ("ReplicaSet", &others));
                first(claims, || deployment::decide(owner, &sets, &pods, now))
            }
            "Job" => {
                let (own, claims) = owned::claim(owner, ("batch/v1", kind), ("Pod", &pods));
                let known = self.failures.entry(owned::text(owner, "uid").to_owned()).or_default();
                *known = known.and_of(owner, &own, now);
                first(claims, || job::decide(owner, &own, *known, self.job_backoff, now))
            }
            "Node" => {
                let mut decision = eviction::decide(owner, &pods, &mut self.tainted, now);
                decision.actions.extend(lifecycle::decide(owner));
                decision
            }
            // It adopts nothing here: scenarios have pods of its template beside its own.
            "DaemonSet" => {
                let uid = Some(&owner["metadata"]["uid"]);
                let mut own = pods.iter().map(|pod| &**pod).collect::<Vec<_>>();
                own.retain(|pod| owned::controller(pod).map(|by| &by["uid"]) == uid);
                daemonset::decide(owner, &others, &own)
            }
            _ => {
                let (own, claims) = owned::claim(owner, ("apps/v1", kind), ("Pod", &pods));
                first(claims, || match kind {
                    "StatefulSet" => statefulset::decide(owner, &own, now),
                    _ => replicaset::decide(owner, &own, now),
                })
            }
        };
        Ok(owners.iter().map(one).collect())
    }
}

/// Claims come first: the decision is about the objects that are owned after them.
fn first(claims: Vec<Action>, decide: impl FnOnce() -> Decision) -> Decision {
    if claims.is_empty() { decide() } else { Decision { actions: claims, again: None } }
}
