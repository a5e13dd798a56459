// SPDX-License-Identifier: Apache-2.0
//! The settings while the agent runs: the watched `ConfigMap` is heard, what can be applied reaches everyone who follows, the rest is told.

mod rights;
mod template;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::api::{Change, Client, Following, One, Resource};
use crate::events::{About, EventReason, Recorder};
use crate::leave::OwnFacts;
use crate::metrics::{Metrics, SettingKey, Watched};
use crate::settings::build::{NodeFacts, TemplateText, build};
use crate::settings::change::{Abilities, Able, Need, Refusal, RejectedChange, decide, needs};
use crate::settings::effective::SettingsReport;
use crate::settings::layers::{Data, Layers, Origin, SettingValue, Values};
use crate::settings::{Loaded, Settings};
use crate::time::pause;
use manifests::setting::Setting;
use manifests::table;
use template::TemplateFile;

/// The watched `ConfigMap`, in the agent's own namespace.
pub const CONFIG_MAP: &str = "istio-cni-config";

/// Retry interval for a right that is unknown.
const ASK_AGAIN: Duration = Duration::from_secs(30);
/// Retry interval for a right that is denied: roles are not watched.
const DENIED: Duration = Duration::from_secs(5 * 60);

/// Live settings.
#[derive(Debug)]
pub struct Live {
    layers: Layers,
    found: NodeFacts,
    abilities: Abilities,
    /// Values as logged: those of the start, and each logged change. A value held back until the pod's abilities are known is no change.
    logged: Values,
    settings: watch::Sender<Arc<Settings>>,
    report: watch::Sender<SettingsReport>,
}

impl Live {
    /// Begins with what is said at the start. What needs something of the pod that is not known yet is left out until it is; a gate
    /// that the node has stays until the pod is known not to be one for it.
    #[must_use]
    pub fn new(loaded: Loaded) -> Self {
        let Loaded { layers, found, mut values, .. } = loaded;
        let logged = values.clone();
        let held_back = |text: &str| SettingValue { text: text.to_owned(), origin: Origin::Default };
        if !found.gated {
            values.insert(&table::STATUS_GATE, held_back(table::STATUS_GATE.default));
        }
        values.insert(&table::REPAIR, held_back("false"));
        values.insert(&table::REPAIR_FALLBACK, held_back(table::REPAIR_FALLBACK.default));
        let (settings, _) = build(&values, &found);
        let report = SettingsReport { values, refused: vec![] };
        let mut live = Self {
            layers,
            found,
            abilities: Abilities::default(),
            logged,
            settings: watch::Sender::new(Arc::new(settings)),
            report: watch::Sender::new(report),
        };
        live.apply();
        live
    }

    /// Current settings, and changes of them.
    #[must_use]
    pub fn settings(&self) -> watch::Receiver<Arc<Settings>> {
        self.settings.subscribe()
    }

    /// Values, origins and rejections.
    #[must_use]
    pub fn report(&self) -> watch::Receiver<SettingsReport> {
        self.report.subscribe()
    }

    /// Hears what the `ConfigMap` says. What follows of it, [`Self::decide`] finds out.
    pub fn hear(&mut self, data: Data) {
        self.layers = self.layers.with_config_map(data);
    }

    /// Updates the pod's capabilities.
    pub fn know(&mut self, change: impl FnOnce(&mut Abilities)) {
        change(&mut self.abilities);
    }

    /// Updates the template's content.
    fn hear_template(&mut self, read: TemplateText) {
        tracing::info!(target: "cni-agent", "the template's file changed");
        self.found.template_file = read;
        let (settings, _) = build(&self.report.borrow().values, &self.found);
        self.settings.send_replace(Arc::new(settings));
    }

    /// Requirements that are not known to be met.
    #[must_use]
    pub fn open_questions(&self) -> Vec<Need> {
        let held = needs(&self.report.borrow().values);
        needs(&self.layers.values()).into_iter().filter(|need| !held.contains(need)).collect()
    }

    /// Applies what can be applied. What is refused and was not refused before is returned.
    pub fn decide(&mut self) -> Vec<RejectedChange> {
        let before = self.report.borrow().refused.clone();
        let applied = self.apply();
        let changed = self.changed(&applied);
        if !changed.is_empty() {
            tracing::info!(target: "cni-agent", keys = ?changed, "settings changed");
        }
        self.report.borrow().refused.iter().filter(|one| !before.contains(one)).cloned().collect()
    }

    /// The keys, among those that were applied, whose value is another one than a person was told.
    fn changed(&mut self, applied: &[&'static Setting]) -> Vec<&'static str> {
        let values = &self.report.borrow().values;
        let mut changed = Vec::new();
        for key in applied {
            let Some(value) = values.get(key) else { continue };
            let before = self.logged.insert(key, value.clone());
            if before.is_none_or(|before| before.text != value.text) {
                changed.push(key.name);
            }
        }
        changed
    }

    fn apply(&mut self) -> Vec<&'static Setting> {
        let held = self.report.borrow().values.clone();
        let changes = decide(&held, &self.layers.values(), self.abilities);
        if !changes.applied.is_empty() {
            let (settings, _) = build(&changes.values, &self.found);
            self.settings.send_replace(Arc::new(settings));
        }
        self.report.send_replace(SettingsReport { values: changes.values, refused: changes.refused });
        changes.applied
    }
}

/// Follower of the settings.
#[derive(Debug)]
pub struct Follower {
    pub live: Live,
    pub client: Client,
    pub metrics: Metrics,
    pub recorder: Recorder,
    pub own: watch::Receiver<OwnFacts>,
}

#[derive(Deserialize)]
struct ConfigMap {
    data: Option<Data>,
}

/// State of the `ConfigMap`. The first one tells which variables are copies of it, even if another one follows at once.
#[derive(Debug, Default)]
struct Heard {
    first: Option<Data>,
    last: Option<Data>,
}

impl Follower {
    /// Follows until it is cancelled. Without a namespace there is no `ConfigMap` to follow, and the settings stay as they are.
    pub async fn run(mut self, cancel: CancellationToken) {
        let namespace = self.live.settings.borrow().own.namespace.clone();
        let (said, hearing) = watch::channel(Heard::default());
        if namespace.is_empty() {
            tracing::warn!(target: "cni-agent", "POD_NAMESPACE is not set: the ConfigMap {CONFIG_MAP} is not followed");
            // Pending values still wait for their rights.
            cancel.run_until_cancelled(self.act(hearing)).await;
            return drop(said);
        }
        let resource = Resource::config_map(&namespace, CONFIG_MAP);
        let following = Following::new(self.client.clone(), resource);
        let metrics = self.metrics.clone();
        let listen = following.run(move |change| pass_on(change, &said, &metrics), &cancel);
        let act = cancel.run_until_cancelled(self.act(hearing));
        tokio::join!(listen, act);
    }

    async fn act(&mut self, mut hearing: watch::Receiver<Heard>) {
        let mut template = TemplateFile::of(self.live.report.borrow().values.clone());
        loop {
            let facts = *self.own.borrow_and_update();
            let sees = {
                let places = &self.live.settings.borrow().places;
                places.proc_dir.join("1").exists() || places.netns_dir.is_dir()
            };
            self.live.know(|abilities| {
                abilities.host_network = able(facts.host_network);
                abilities.enter_pods = able(Some(sees));
            });
            {
                let heard = hearing.borrow_and_update();
                heard.first.iter().chain(&heard.last).for_each(|data| self.live.hear(data.clone()));
            }
            let again = self.ask().await;
            for refused in self.live.decide() {
                self.tell(&refused);
            }
            self.metrics.settings_refused(self.live.report.borrow().refused.len());
            tokio::select! {
                heard = hearing.changed() => if heard.is_err() { return },
                Ok(()) = self.own.changed() => {}
                read = template.differs(&self.live.found.template_file) => self.live.hear_template(read),
                () = pause(again) => {}
            }
        }
    }

    /// Asks for the rights that a change needs; returns the retry interval.
    async fn ask(&mut self) -> Duration {
        let mut again = Duration::MAX;
        for need in self.live.open_questions() {
            let known = need.met(self.live.abilities);
            let Some(answer) = rights::ask(&self.client, need, known).await else { continue };
            again = again.min(match answer {
                Able::Yes => Duration::MAX,
                Able::No => DENIED,
                Able::Unknown => ASK_AGAIN,
            });
            self.live.know(|abilities| match need {
                Need::DeletePods => abilities.delete_pods = answer,
                Need::LabelPods => abilities.label_pods = answer,
                Need::EnterPods | Need::HostNetwork => {}
            });
        }
        again
    }

    fn tell(&self, RejectedChange { key, wanted, why }: &RejectedChange) {
        if matches!(why, Refusal::Lacks(Need::HostNetwork, Able::Unknown)) {
            return;
        }
        let (variable, value) = (key.variable(), &wanted.text);
        tracing::warn!(target: "cni-agent", key = variable, value, from = %wanted.origin, %why, "a changed setting is not applied");
        self.metrics.setting_rejected(SettingKey(key.name));
        let node = self.live.settings.borrow().own.node.clone();
        if !node.is_empty() {
            let message = format!("{variable}={value:?} from {} is not applied: {why}", wanted.origin);
            self.recorder.record(About::Node(node), EventReason::SettingRefused, message);
        }
    }
}

/// Forwards the `ConfigMap`'s data. When it is deleted, its last data stays in effect: that is how an uninstall begins, and no reason to
/// change a node.
fn pass_on(change: Change<ConfigMap>, said: &watch::Sender<Heard>, metrics: &Metrics) {
    let map = match change.one() {
        One::Now(map) => map,
        One::Alive => return,
        One::Lost(lost) => return metrics.watch_restarted(Watched::ConfigMap, lost.reason),
    };
    let Some(map) = map else {
        return tracing::info!(target: "cni-agent", "there is no ConfigMap {CONFIG_MAP}: what it said last holds, if anything");
    };
    let data = map.data.unwrap_or_default();
    said.send_modify(|heard| {
        heard.first.get_or_insert_with(|| data.clone());
        heard.last = Some(data);
    });
}

fn able(known: Option<bool>) -> Able {
    match known {
        Some(true) => Able::Yes,
        Some(false) => Able::No,
        None => Able::Unknown,
    }
}
