// SPDX-License-Identifier: Apache-2.0
//! Metrics: upstream's under upstream's names, and ours (`millrace_…`). Every series exists from the start, so that `increase()` sees the
//! first failure. Labels are enums.

mod labels;
mod process;
mod text;

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use manifests::table;
use prometheus_client::encoding::EncodeMetric;
use prometheus_client::metrics::TypedMetric;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::{Family, MetricConstructor};
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::readiness::{Missing, Part};
use crate::settings::RepairPolicy;

pub use labels::{
    AddPhase, AddResult, CacheResult, Deed, InstallResult, Lead, LineSkipped, RepairResult, RestartReason,
    SettingKey, TaintResult, Unrepairable, Watched,
};
use process::Process;
pub use text::Exposition;

type Labels<const N: usize> = [(&'static str, &'static str); N];
type Counters<const N: usize> = Family<Labels<N>, Counter>;
type Gauges<const N: usize> = Family<Labels<N>, Gauge>;
type Histograms<const N: usize> = Family<Labels<N>, Histogram, fn() -> Histogram>;

/// An answer to the plugin: 50 µs from the cache, seconds from a server that is slow.
const ANSWER: [f64; 12] =
    [0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.05, 0.25, 1.0, 5.0];
/// Buckets in seconds of heals and repairs: their targets are 0.1 and 1 second.
const ACTION: [f64; 10] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0];
/// A broken pod's way to redirection: kubelet's back-off alone is up to five minutes.
const EXPOSED: [f64; 9] = [1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 150.0, 300.0, 900.0];

/// Metrics of this process: cheap to clone, clones share them.
#[derive(Debug, Clone)]
pub struct Metrics(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    registry: Registry,
    all: Series,
}

/// One field for each metric; `register` names them.
#[derive(Debug)]
struct Series {
    build: Gauges<1>,
    process: Process,
    installs: Counters<1>,
    install_ready: Gauge,
    repaired: Counters<2>,
    parts: Gauges<1>,
    add: Histograms<2>,
    heal: Histogram,
    repair: Histograms<1>,
    exposed: Histogram,
    cache: Counters<1>,
    fights: Counter,
    rejected: Counters<1>,
    refused: Gauge,
    restarts: Counters<2>,
    unredirected: Gauge,
    sandboxed: Gauge,
    ambient: Gauge,
    unrepairable: Counters<1>,
    events_dropped: Counter,
    lines_skipped: Counters<1>,
    token_expiry: Gauge<f64, AtomicU64>,
    taints: Counters<2>,
    tainted: Gauge,
    leads: Gauge,
}

impl Default for Series {
    fn default() -> Self {
        let action: fn() -> Histogram = || Histogram::new(ACTION);
        Self {
            build: Gauges::default(),
            process: Process::default(),
            installs: Counters::default(),
            install_ready: Gauge::default(),
            repaired: Counters::default(),
            parts: Gauges::default(),
            add: Family::new_with_constructor(|| Histogram::new(ANSWER)),
            heal: action(),
            repair: Family::new_with_constructor(action),
            exposed: Histogram::new(EXPOSED),
            cache: Counters::default(),
            fights: Counter::default(),
            rejected: Counters::default(),
            refused: Gauge::default(),
            restarts: Counters::default(),
            unredirected: Gauge::default(),
            sandboxed: Gauge::default(),
            ambient: Gauge::default(),
            unrepairable: Counters::default(),
            events_dropped: Counter::default(),
            lines_skipped: Counters::default(),
            token_expiry: Gauge::default(),
            taints: Counters::default(),
            tainted: Gauge::default(),
            leads: Gauge::default(),
        }
    }
}

impl Default for Metrics {
    fn default() -> Self {
        let all = Series::default();
        all.begin();
        Self(Arc::new(Inner { registry: all.register(), all }))
    }
}

impl Metrics {
    /// Those of the controller of taints: nothing that could be taken for an agent's.
    #[must_use]
    pub fn of_controller() -> Self {
        let all = Series::default();
        all.begin();
        let mut registry = Registry::default();
        let mut add = Registrar(&mut registry);
        all.register_common(&mut add);
        add.metric("millrace_tainted_nodes", "Nodes that carry the taint", &all.tainted);
        add.metric("millrace_taint_leader", "Whether this controller leads: 1 or 0", &all.leads);
        Self(Arc::new(Inner { registry, all }))
    }
}

impl Series {
    /// Names without `_total`: the encoder appends it to counters.
    fn register(&self) -> Registry {
        let mut registry = Registry::default();
        let mut add = Registrar(&mut registry);
        add.metric("istio_cni_installs", "Installations by result", &self.installs);
        add.metric("istio_cni_install_ready", "Whether everything is installed: 1 or 0", &self.install_ready);
        add.metric(
            "istio_cni_repair_pods_repaired",
            "Broken pods by what was done and how it ended",
            &self.repaired,
        );
        add.metric("millrace_part_right", "Whether a part of the installation is right: 1 or 0", &self.parts);
        add.metric(
            "millrace_add_seconds",
            "What the agent adds to a pod's start, by phase and result",
            &self.add,
        );
        add.metric(
            "millrace_heal_seconds",
            "From the notice of a foreign change on disk until it is undone",
            &self.heal,
        );
        add.metric(
            "millrace_repair_seconds",
            "From the detection of a broken pod to the end of the action",
            &self.repair,
        );
        let exposed = "From the start of a pod found broken to proven redirection";
        add.metric("millrace_broken_to_redirected_seconds", exposed, &self.exposed);
        add.metric(
            "millrace_cache_requests",
            "Questions of the plugin by where the answer came from",
            &self.cache,
        );
        let fights = "Times that another writer and the agent undid each other's configuration";
        add.metric("millrace_conflist_fights", fights, &self.fights);
        add.metric(
            "millrace_settings_rejected",
            "Changed settings that were not applied, by key",
            &self.rejected,
        );
        let refused = "Changed settings that are not applied now";
        add.metric("millrace_settings_refused", refused, &self.refused);
        self.register_pods(&mut add);
        let skipped = "Log lines of the plugin, or requests with them, that were not taken, by reason";
        add.metric("millrace_log_lines_skipped", skipped, &self.lines_skipped);
        let expiry = "When the plugin's token expires, in seconds since 1970; 0 if unknown";
        add.metric("millrace_kubeconfig_token_expiry_timestamp_seconds", expiry, &self.token_expiry);
        self.register_common(&mut add);
        registry
    }

    /// Numbers of the node's pods that need somebody.
    fn register_pods(&self, add: &mut Registrar<'_>) {
        add.metric(
            "millrace_unredirected_pods",
            "Enrolled pods of the node without our rules",
            &self.unredirected,
        );
        add.metric(
            "millrace_sandboxed_pods",
            "Enrolled pods of the node that run in a guest, whose packets meet no rules",
            &self.sandboxed,
        );
        add.metric(
            "millrace_ambient_pods",
            "Pods of the node in ambient mode, whose traffic nothing redirects to ztunnel",
            &self.ambient,
        );
        add.metric(
            "millrace_unrepairable_pods",
            "Broken pods that cannot be repaired, by reason",
            &self.unrepairable,
        );
    }

    /// Metrics that agent and taint controller share.
    fn register_common(&self, add: &mut Registrar<'_>) {
        add.metric("millrace_build_info", "1, with the version of the program", &self.build);
        self.process.register(add);
        add.metric("millrace_watch_restarts", "Watches begun anew, by resource and reason", &self.restarts);
        let dropped = "Kubernetes events that were not delivered";
        add.metric("millrace_events_dropped", dropped, &self.events_dropped);
        let taints = "Changes of nodes' taints by what was done and how it ended";
        add.metric("millrace_node_taints", taints, &self.taints);
    }

    /// Initializes every series whose labels are known beforehand.
    fn begin(&self) {
        self.build.get_or_create(&[("version", env!("CARGO_PKG_VERSION"))]).set(1);
        for result in InstallResult::ALL {
            touch(&self.installs, [("result", result.name())]);
        }
        for kind in RepairPolicy::ALL {
            for result in RepairResult::ALL {
                // Only a label that was there already is skipped, and only rules can be unproven.
                let can_be = match result {
                    RepairResult::Skip => *kind == RepairPolicy::Label,
                    RepairResult::Unproven => *kind == RepairPolicy::Repair,
                    RepairResult::Success | RepairResult::Fail => true,
                };
                if can_be {
                    touch(&self.repaired, [("type", kind.name()), ("result", result.name())]);
                }
            }
            touch(&self.repair, [("type", kind.name())]);
        }
        for part in Part::ALL {
            touch(&self.parts, [("part", part.name())]);
        }
        for phase in AddPhase::ALL {
            for result in phase.results() {
                touch(&self.add, [("phase", phase.name()), ("result", result.name())]);
            }
        }
        CacheResult::ALL.iter().for_each(|result| touch(&self.cache, [("result", result.name())]));
        LineSkipped::ALL.iter().for_each(|why| touch(&self.lines_skipped, [("reason", why.name())]));
        touch(&self.rejected, [("key", SettingKey::UNKNOWN.0)]);
        table::keys().for_each(|key| touch(&self.rejected, [("key", key.name)]));
        for watched in Watched::ALL {
            for reason in RestartReason::ALL {
                touch(&self.restarts, [("resource", watched.name()), ("reason", reason.name())]);
            }
        }
        Unrepairable::ALL.iter().for_each(|reason| touch(&self.unrepairable, [("reason", reason.name())]));
        for deed in Deed::ALL {
            for result in TaintResult::ALL {
                touch(&self.taints, [("deed", deed.name()), ("result", result.name())]);
            }
        }
    }
}

struct Registrar<'a>(&'a mut Registry);

impl Registrar<'_> {
    fn metric<M>(&mut self, name: &str, help: &str, metric: &M)
    where
        M: EncodeMetric + TypedMetric + Clone + Send + Sync + std::fmt::Debug + 'static,
    {
        self.0.register(name, help, metric.clone());
    }
}

fn touch<const N: usize, M, C: MetricConstructor<M>>(family: &Family<Labels<N>, M, C>, labels: Labels<N>) {
    drop(family.get_or_create(&labels));
}

impl Metrics {
    pub fn installed(&self, result: InstallResult) {
        self.0.all.installs.get_or_create(&[("result", result.name())]).inc();
    }

    /// Sets the readiness gauges, as a whole and part by part.
    pub fn readiness(&self, missing: &Missing) {
        self.0.all.install_ready.set(missing.is_ready().into());
        for part in Part::ALL {
            let wrong = missing.iter().any(|(other, _)| other == part);
            self.0.all.parts.get_or_create(&[("part", part.name())]).set((!wrong).into());
        }
    }

    /// A repair action ended, `took` after the pod was found broken.
    pub fn repaired(&self, kind: RepairPolicy, result: RepairResult, took: Duration) {
        self.0.all.repaired.get_or_create(&[("type", kind.name()), ("result", result.name())]).inc();
        if result != RepairResult::Skip {
            self.0.all.repair.get_or_create(&[("type", kind.name())]).observe(took.as_secs_f64());
        }
    }

    /// A pod that was found broken redirects, `since_start` after it began to run.
    pub fn redirected(&self, since_start: Duration) {
        self.0.all.exposed.observe(since_start.as_secs_f64());
    }

    pub fn unrepairable(&self, reason: Unrepairable) {
        self.0.all.unrepairable.get_or_create(&[("reason", reason.name())]).inc();
    }

    /// Sets the number of enrolled pods without our rules.
    pub fn unredirected(&self, pods: usize) {
        self.0.all.unredirected.set(i64::try_from(pods).unwrap_or(i64::MAX));
    }

    /// Sets the number of enrolled pods that run in a guest.
    pub fn sandboxed(&self, pods: usize) {
        self.0.all.sandboxed.set(i64::try_from(pods).unwrap_or(i64::MAX));
    }

    /// Sets the number of pods in ambient mode.
    pub fn ambient(&self, pods: usize) {
        self.0.all.ambient.set(i64::try_from(pods).unwrap_or(i64::MAX));
    }

    pub fn add(&self, phase: AddPhase, result: AddResult, took: Duration) {
        self.0
            .all
            .add
            .get_or_create(&[("phase", phase.name()), ("result", result.name())])
            .observe(took.as_secs_f64());
    }

    pub fn cache(&self, result: CacheResult) {
        self.0.all.cache.get_or_create(&[("result", result.name())]).inc();
    }

    pub fn healed(&self, took: Duration) {
        self.0.all.heal.observe(took.as_secs_f64());
    }

    pub fn fight(&self) {
        self.0.all.fights.inc();
    }

    pub fn setting_rejected(&self, key: SettingKey) {
        self.0.all.rejected.get_or_create(&[("key", key.0)]).inc();
    }

    /// Number of changed settings that are not applied now.
    pub fn settings_refused(&self, count: usize) {
        self.0.all.refused.set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    pub fn watch_restarted(&self, watched: Watched, reason: RestartReason) {
        self.0.all.restarts.get_or_create(&[("resource", watched.name()), ("reason", reason.name())]).inc();
    }

    pub fn taint(&self, deed: Deed, result: TaintResult) {
        self.0.all.taints.get_or_create(&[("deed", deed.name()), ("result", result.name())]).inc();
    }

    /// Sets the number of nodes with the taint.
    pub fn tainted(&self, nodes: usize) {
        self.0.all.tainted.set(i64::try_from(nodes).unwrap_or(i64::MAX));
    }

    /// Sets whether this replica is the leader.
    pub fn leads(&self, leads: Lead) {
        self.0.all.leads.set((leads == Lead::Ours).into());
    }

    pub fn event_dropped(&self) {
        self.0.all.events_dropped.inc();
    }

    pub fn line_skipped(&self, why: LineSkipped) {
        self.0.all.lines_skipped.get_or_create(&[("reason", why.name())]).inc();
    }

    /// When the plugin's token expires, in seconds since 1970; `None` if it does not say.
    pub fn token_expires(&self, at: Option<u64>) {
        #[expect(clippy::cast_precision_loss, reason = "seconds since 1970 are far below 2^53")]
        self.0.all.token_expiry.set(at.map_or(0.0, |at| at as f64));
    }

    /// The text that is scraped.
    ///
    /// # Errors
    /// A metric that cannot be written, which is a defect of it.
    pub fn scrape(&self, exposition: Exposition) -> Result<String, std::fmt::Error> {
        self.0.all.process.look();
        text::write(&self.0.registry, exposition)
    }
}

#[cfg(test)]
mod tests;
