// SPDX-License-Identifier: Apache-2.0
//! Drives repair: what becomes known of pods and settings goes to [`Controller`], what it wants is done, one action and one look at a time,
//! each with a deadline.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use k8s_openapi::jiff::Timestamp;
use netfilter::Wish;
use protocol::netconf::BACKEND_RECORD;
use redirect::Redirect;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::actions;
use super::ask::{BackendWanted, ChildRequest, PodOutcome, TargetPod, Task};
use super::child::Program;
use super::decide::{ActionResult, Controller, Enrolled, News, Pace, RepairAction, RepairEvent};
use super::detect::Rules;
use super::gather::Grounds;
use crate::api::Client;
use crate::events::{About, EventReason, Recorder};
use crate::metrics::Metrics;
use crate::pods::{NodePod, PodEvent, Pods};
use crate::settings::{RepairPolicy, Settings};

/// The longest that a repair may take: the iptables tools, where they are used, end before.
const REPAIR_LIMIT: Duration = Duration::from_secs(15);
/// Deadline of a survey's batch.
const LOOK_LIMIT: Duration = Duration::from_secs(10);

/// Dependencies of repair.
#[derive(Debug, Clone)]
pub struct RepairContext {
    pub settings: watch::Receiver<Arc<Settings>>,
    pub pods: Pods,
    pub client: Client,
    /// Events for pods' owners.
    pub events: Recorder,
    pub metrics: Metrics,
    pub program: Program,
}

pub async fn run(context: RepairContext, stop: CancellationToken) {
    let _ = stop.run_until_cancelled(work(context)).await;
}

async fn work(mut context: RepairContext) {
    let rules = Rules::of(&context.settings.borrow_and_update(), None);
    let mut worker = Worker {
        controller: Controller::new(rules.clone(), Pace::default()),
        rules,
        start: Instant::now(),
        work: JoinSet::new(),
        seen: BTreeSet::new(),
        context,
    };
    worker.run().await;
}

struct Worker {
    context: RepairContext,
    controller: Controller,
    rules: Rules,
    start: Instant,
    work: JoinSet<RepairEvent>,
    /// UIDs known to the controller.
    seen: BTreeSet<String>,
}

impl Worker {
    async fn run(&mut self) {
        let mut events = self.context.pods.subscribe();
        let mut settings = self.context.settings.clone();
        self.everything();
        loop {
            let wake = self.controller.wake().map(|wake| self.start + wake);
            let asleep = async {
                match wake {
                    Some(wake) => tokio::time::sleep_until(wake).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                event = events.next() => match event {
                    Some(PodEvent::Set(pod)) => self.set(pod),
                    Some(PodEvent::Removed(pod)) => self.hear(RepairEvent::Gone(pod.metadata.facts.uid.clone())),
                    Some(PodEvent::All) => self.everything(),
                    None => return,
                },
                Some(event) = self.work.join_next() => {
                    if let Ok(event) = event { self.hear(event); }
                }
                Ok(()) = settings.changed() => self.changed(&settings.borrow_and_update().clone()),
                () = asleep => self.hear(RepairEvent::Tick),
            }
        }
    }

    fn changed(&mut self, settings: &Settings) {
        let rules = Rules::of(settings, Some(&self.rules));
        if rules != self.rules {
            self.rules = rules.clone();
            self.hear(RepairEvent::Rules(Box::new(rules)));
        }
    }

    fn set(&mut self, pod: Arc<NodePod>) {
        self.seen.insert(pod.metadata.facts.uid.clone());
        self.hear(RepairEvent::Pod(pod));
    }

    /// Resync: sends all pods to the controller, and deletions of those that are gone.
    fn everything(&mut self) {
        let pods = self.context.pods.all();
        let uids: BTreeSet<String> = pods.iter().map(|pod| pod.metadata.facts.uid.clone()).collect();
        let gone = std::mem::replace(&mut self.seen, uids.clone());
        gone.into_iter().filter(|uid| !uids.contains(uid)).for_each(|uid| self.hear(RepairEvent::Gone(uid)));
        pods.into_iter().for_each(|pod| self.hear(RepairEvent::Pod(pod)));
    }

    fn hear(&mut self, event: RepairEvent) {
        if let RepairEvent::Gone(uid) = &event {
            self.seen.remove(uid);
        }
        for action in self.controller.decide(event, self.start.elapsed()) {
            self.act(action);
        }
    }

    fn act(&mut self, action: RepairAction) {
        let metrics = &self.context.metrics;
        match action {
            RepairAction::Repair(one) => {
                let request = self.request(Task::Repair, std::slice::from_ref(&one));
                self.start(&one.pod, repair(self.context.program.clone(), request));
            }
            RepairAction::Verify(one) => {
                let request = self.request(Task::Verify, std::slice::from_ref(&one));
                self.start(&one.pod, repair(self.context.program.clone(), request));
            }
            RepairAction::Evict(pod) => {
                let client = self.context.client.clone();
                let own = self.context.settings.borrow().own.clone();
                self.start(&pod.clone(), async move { actions::evict(&client, &pod, &own).await });
            }
            RepairAction::Delete(pod) => {
                let client = self.context.client.clone();
                self.start(&pod.clone(), async move { actions::delete(&client, &pod).await });
            }
            RepairAction::Label(pod) => {
                let client = self.context.client.clone();
                let label = self.context.settings.borrow().repair.label.clone();
                self.start(&pod.clone(), async move { actions::label(&client, &pod, &label).await });
            }
            RepairAction::Look(pods) => {
                let uids: Vec<_> = pods.iter().map(|one| one.pod.metadata.facts.uid.clone()).collect();
                let work = look(self.context.program.clone(), self.request(Task::Look, &pods));
                self.work.spawn(async move {
                    let outcomes = work.await.into_iter().map(Some);
                    RepairEvent::Looked(
                        uids.into_iter().zip(outcomes.chain(std::iter::repeat(None))).collect(),
                    )
                });
            }
            RepairAction::Tell(pod, news) => self.tell(&pod, news),
            RepairAction::Ended(policy, result, took) => metrics.repaired(policy, result, took),
            RepairAction::Exposed(pod) => metrics.redirected(age(&pod)),
            RepairAction::Unrepairable(reason) => metrics.unrepairable(reason),
            RepairAction::Unredirected(pods) => metrics.unredirected(pods),
            RepairAction::Sandboxed(pods) => metrics.sandboxed(pods),
        }
    }

    /// Starts an action on a pod.
    fn start(&mut self, pod: &NodePod, action: impl Future<Output = ActionResult> + Send + 'static) {
        let uid = pod.metadata.facts.uid.clone();
        self.work.spawn(async move { RepairEvent::Done(uid, action.await, Timestamp::now()) });
    }

    fn request(&self, task: Task, pods: &[Enrolled]) -> ChildRequest {
        let places = &self.context.settings.borrow().places;
        let wish = self.rules.plugin.as_ref().map_or(Wish::Auto, |plugin| plugin.wish);
        ChildRequest {
            task,
            grounds: Grounds {
                netns_dir: places.netns_dir.clone(),
                node_netns_dir: places.node_netns_dir.clone(),
                cache_dir: places.cache_dir.clone(),
                proc_dir: places.proc_dir.clone(),
            },
            backend: BackendWanted { wish, record: places.run_dir.join(BACKEND_RECORD) },
            pods: pods.iter().map(target).collect(),
        }
    }

    fn tell(&self, pod: &NodePod, news: News) {
        let facts = &pod.metadata.facts;
        let (reason, message) = message(news);
        let (namespace, pod, uid, why) = (&facts.namespace, &facts.name, &facts.uid, reason.name());
        if reason.is_good() {
            tracing::info!(target: "cni-repair", namespace, pod, uid, reason = why, "{message}");
        } else {
            tracing::warn!(target: "cni-repair", namespace, pod, uid, reason = why, "{message}");
        }
        let about = About::Pod {
            namespace: facts.namespace.clone(),
            name: facts.name.clone(),
            uid: facts.uid.clone(),
        };
        self.context.events.record(about, reason, message);
    }
}

/// Age of a pod; zero if unknown.
fn age(pod: &NodePod) -> Duration {
    let start = pod.status.start_time.as_ref().and_then(|text| text.parse::<Timestamp>().ok());
    let start = start.map(SystemTime::from);
    start.and_then(|start| SystemTime::now().duration_since(start).ok()).unwrap_or_default()
}

const NO_POLICY: &str =
    "pod detected as broken: its traffic is not redirected, and no repair policy is on; delete it";

/// Reason and message of a pod's event. Upstream's events have upstream's words.
#[expect(clippy::too_many_lines, reason = "a table: an arm for each event")]
fn message(news: News) -> (EventReason, String) {
    match news {
        News::Broken => (EventReason::UnredirectedPod, NO_POLICY.to_owned()),
        News::Repaired(proofs) => {
            (EventReason::RepairedBrokenPod, format!("pod detected as broken, repaired: {proofs}"))
        }
        News::Unproven(known) => (
            EventReason::RepairUnproven,
            format!("pod detected as broken, rules written, which no packet could prove: {known}"),
        ),
        News::RightBefore(proofs) => (
            EventReason::AlreadyRedirected,
            format!(
                "pod detected as broken, but its redirection works: {proofs}; if its validation fails once more, that has another reason"
            ),
        ),
        News::FailsOtherwise(proofs) => (
            EventReason::AlreadyRedirected,
            format!(
                "pod detected as broken, but its redirection works, and did when its validation began: {proofs}; see why its validation fails"
            ),
        ),
        News::Failed(RepairPolicy::Repair, why) => (
            EventReason::RepairFailed,
            format!("pod detected as broken, not repaired yet, tried again: {why}"),
        ),
        News::Failed(RepairPolicy::Delete, why) => {
            (EventReason::DeleteFailed, format!("pod detected as broken, but failed to delete it: {why}"))
        }
        News::Failed(RepairPolicy::Label, why) => {
            (EventReason::LabelFailed, format!("pod detected as broken, but failed to label it: {why}"))
        }
        News::Deleted => (EventReason::DeleteBrokenPod, "pod detected as broken, deleted".to_owned()),
        News::Spared(pods, wait) => (
            EventReason::DeletionDelayed,
            format!(
                "pod detected as broken, not deleted for the next {} s: {pods} times pods of its controller were deleted on this node, and those made in their place are broken as well; see why their validation fails",
                wait.as_secs()
            ),
        ),
        News::Labelled => (EventReason::LabelBrokenPod, "pod detected as broken, labeled".to_owned()),
        News::Unrepairable(why, fallback) => (
            EventReason::UnrepairableBrokenPod,
            format!("pod detected as broken, and cannot be repaired in place: {why}; {}", remedy(fallback)),
        ),
        News::Excluded(why) => (
            EventReason::UnrepairableBrokenPod,
            format!(
                "validation of this pod fails, and will: {why}, so neither the plugin nor the agent writes rules for it. Take the namespace off excludeNamespaces and make the pod anew, or keep it from being injected (label sidecar.istio.io/inject: \"false\")"
            ),
        ),
        News::Unredirected(differences) => (
            EventReason::UnredirectedPod,
            format!("traffic of this pod is not redirected as it should be: {differences}; delete it"),
        ),
        News::Overtaken(rules) => (
            EventReason::UnredirectedPod,
            format!("traffic of this pod is not redirected, though its rules are there: {rules}"),
        ),
        News::Differs(differences) => (
            EventReason::RulesDiffer,
            format!(
                "traffic of this pod is redirected, by rules that differ from those that it would get now: {differences}; delete it when that suits"
            ),
        ),
        News::Evicted => (EventReason::EvictUnredirectedPod, "pod runs unredirected, evicted".to_owned()),
        News::EvictionHeld(why) => (
            EventReason::EvictionHeld,
            format!("pod runs unredirected, and is not evicted now: {why}; it is tried again"),
        ),
        News::Restored => {
            (EventReason::RedirectionRestored, "traffic of this pod is redirected as it should be".to_owned())
        }
        News::Sandboxed(sandboxed) => (EventReason::SandboxedRuntime, sandboxed.to_string()),
        News::SharedAccount(containers) => (EventReason::SharedProxyAccount, containers),
        News::Unseen(why) => (
            EventReason::RedirectionUnknown,
            format!("it is not known whether traffic of this pod is redirected: {why}"),
        ),
    }
}

/// Remedy for a pod that cannot be repaired, or what is done instead.
fn remedy(fallback: Option<RepairPolicy>) -> &'static str {
    match fallback {
        Some(RepairPolicy::Delete) => "it is to be deleted instead",
        Some(RepairPolicy::Label) => "it is to be labelled instead",
        Some(RepairPolicy::Repair) | None => "delete it",
    }
}

async fn repair(program: Program, request: ChildRequest) -> ActionResult {
    let answer = program.ask(&request, REPAIR_LIMIT).await;
    match answer.map(|answer| answer.outcomes.into_iter().next()) {
        Ok(Some(outcome)) => ActionResult::Repaired(outcome),
        Ok(None) => ActionResult::Failed("the process in the namespace said nothing".to_owned()),
        Err(error) => ActionResult::Failed(error.to_string()),
    }
}

/// Surveys pods; outcomes in order, as far as it came.
async fn look(program: Program, request: ChildRequest) -> Vec<PodOutcome> {
    match program.ask(&request, LOOK_LIMIT).await {
        Ok(answer) => answer.outcomes,
        Err(error) => {
            tracing::warn!(target: "cni-repair", pods = request.pods.len(), "failed to look at pods' rules: {error}");
            Vec::new()
        }
    }
}

fn target(Enrolled { pod, redirect }: &Enrolled) -> TargetPod {
    TargetPod {
        identity: (&pod.metadata.facts).into(),
        addresses: pod.addresses(),
        redirect: Redirect::clone(redirect),
    }
}
