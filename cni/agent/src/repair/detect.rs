// SPDX-License-Identifier: Apache-2.0
//! Scope of repair, and detection of pods that came up without redirection; pure.
//!
//! A pod is broken if validation failed before its present run: the first failure shows once the kubelet restarts it. A pod whose
//! containers are never restarted is broken with its first failure.

use std::sync::Arc;

use netfilter::{Wish, backend};
use protocol::netconf::{NetConf, NoInterception};
use protocol::pod::PodFacts;
use redirect::skip::{Exclusions, NamedPod, SkipReason, precheck};
use redirect::{Enrolment, Redirect, enrol_by};

use crate::conflist::entry;
use crate::pods::{ContainerStatus, NodePod, Terminated};
use crate::settings::{RepairSettings, Settings};

/// Settings of repair, and those of the plugin that it goes by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rules {
    pub settings: RepairSettings,
    /// None while nobody knows what the plugin goes by: then nothing is repaired.
    pub plugin: Option<PluginRules>,
}

/// Keys of our entry by which the plugin treats pods.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PluginRules {
    /// Where the agent lives: no pod of it is redirected.
    pub agent_namespace: String,
    /// Namespaces whose pods are not.
    pub excluded: Vec<String>,
    /// Requested back end.
    pub wish: Wish,
    /// Treatment of pods without interception.
    pub no_interception: NoInterception,
}

impl Rules {
    /// Of these settings. While a template of our entry cannot be used, the plugin has a former one: what was known of that counts.
    #[must_use]
    pub fn of(settings: &Settings, former: Option<&Self>) -> Self {
        let plugin = entry::as_read(settings).map(PluginRules::of);
        Self { settings: settings.repair.clone(), plugin: plugin.or_else(|| former?.plugin.clone()) }
    }
}

impl PluginRules {
    /// True if the plugin would redirect the pod.
    #[must_use]
    pub fn redirects(&self, pod: &NodePod) -> bool {
        let facts = pod.facts();
        exclusion(&facts, self).is_none()
            && matches!(enrol_by(&facts, self.no_interception), Ok(Enrolment::Enrol(_)))
    }

    #[must_use]
    pub fn of(entry: NetConf) -> Self {
        // The plugin passes over a name that it does not know.
        let backend = entry.backend.parse().unwrap_or(Wish::Auto);
        let native_nftables = entry.native_nftables;
        Self {
            agent_namespace: entry.pod_namespace,
            excluded: entry.exclude_namespaces,
            wish: backend::Settings { backend, native_nftables, forced_binary: None }.wish(),
            no_interception: entry.no_interception,
        }
    }
}

/// Relation of repair to a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RepairScope {
    /// Out of scope.
    Out,
    /// The plugin leaves it alone whatever it says of itself, and why.
    Excluded(String),
    /// To be redirected, like this.
    In(Arc<Redirect>),
    /// To be redirected, with annotations that cannot be implemented.
    Impossible(String),
}

/// Scope of a pod, on this node, now.
#[must_use]
pub fn scope(pod: &NodePod, rules: &Rules) -> RepairScope {
    let (repair, Some(plugin)) = (&rules.settings, &rules.plugin) else { return RepairScope::Out };
    let facts = pod.facts();
    let elsewhere = !repair.node_name.is_empty() && pod.spec.node_name != repair.node_name;
    let leaves = pod.metadata.deletion_timestamp.is_some();
    if !repair.enabled
        || elsewhere
        || leaves
        || !repair.selectors.select(&pod.metadata.facts.labels, &pod.fields())
    {
        return RepairScope::Out;
    }
    if let Some(reason) = exclusion(&facts, plugin) {
        return RepairScope::Excluded(reason.to_string());
    }
    match enrol_by(&facts, plugin.no_interception) {
        Ok(Enrolment::Enrol(redirect)) => RepairScope::In(Arc::from(redirect)),
        Ok(Enrolment::Skip(_)) => RepairScope::Out,
        Err(error) => RepairScope::Impossible(error.to_string()),
    }
}

fn exclusion(facts: &PodFacts, plugin: &PluginRules) -> Option<SkipReason> {
    let pod = NamedPod { name: &facts.metadata.name, namespace: &facts.metadata.namespace };
    let exclusions = Exclusions { agent_namespace: &plugin.agent_namespace, namespaces: &plugin.excluded };
    precheck(pod, exclusions)
}

/// Identity of a failed run of the validation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ValidationRun {
    /// `restartCount`
    pub restarts: i32,
    pub started: Option<String>,
    pub finished: Option<String>,
}

/// Lifecycle of a broken pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lifecycle {
    /// Its validation is restarted.
    Again,
    /// Its containers are never restarted.
    StartsOnce,
    /// It has terminated.
    Finished,
}

/// Pod that failed validation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broken {
    pub run: ValidationRun,
    /// Its lifecycle.
    pub lifecycle: Lifecycle,
}

/// Reads the result of the pod's validation.
#[must_use]
pub fn detect(pod: &NodePod, rules: &Rules) -> Option<Broken> {
    let repair = &rules.settings;
    let key = &repair.sidecar_annotation;
    if !key.is_empty() && !pod.metadata.facts.annotations.contains_key(key) {
        return None;
    }
    let starts_once = pod.spec.restart_policy == "Never";
    let is_over = matches!(pod.status.phase.as_str(), "Succeeded" | "Failed");
    let lifecycle = match (starts_once, is_over) {
        (true, _) => Lifecycle::StartsOnce,
        (false, true) => Lifecycle::Finished,
        (false, false) => Lifecycle::Again,
    };
    validations(pod, rules).find_map(|container| {
        let failure = failure(container, lifecycle, rules)?;
        let run = ValidationRun {
            restarts: container.restart_count,
            started: failure.started_at.clone(),
            finished: failure.finished_at.clone(),
        };
        Some(Broken { run, lifecycle })
    })
}

/// True if the pod's validation succeeded.
#[must_use]
pub fn is_validated(pod: &NodePod, rules: &Rules) -> bool {
    let passed = |one: &ContainerStatus| one.state.terminated.as_ref().is_some_and(has_passed);
    let mut all = validations(pod, rules).peekable();
    all.peek().is_some() && all.all(passed)
}

fn validations<'a>(pod: &'a NodePod, rules: &'a Rules) -> impl Iterator<Item = &'a ContainerStatus> {
    let name = &rules.settings.init_container;
    pod.status.init_container_statuses.iter().filter(move |one| name.is_empty() || one.name == *name)
}

fn has_passed(ended: &Terminated) -> bool {
    ended.reason == "Completed" || ended.exit_code == 0
}

fn failure<'a>(
    container: &'a ContainerStatus,
    lifecycle: Lifecycle,
    rules: &Rules,
) -> Option<&'a Terminated> {
    let now = container.state.terminated.as_ref();
    if now.is_some_and(has_passed) {
        return None;
    }
    let first_counts = lifecycle == Lifecycle::StartsOnce;
    let failure = container.last_state.terminated.as_ref().or(now.filter(|_| first_counts))?;
    let repair = &rules.settings;
    let message = &repair.termination_message;
    let is_said = message.is_empty() || failure.message.trim() == message;
    let is_code = repair.exit_code == 0 || failure.exit_code == repair.exit_code;
    (is_said && is_code).then_some(failure)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use netfilter::Backend;

    use super::*;
    use crate::settings::build::{NodeFacts, build};
    use crate::settings::layers::Layers;

    #[test]
    fn repair_goes_by_what_the_plugin_reads_in_our_entry() {
        let settings = |template: &str| {
            let said = [("EXCLUDE_NAMESPACES", "kube-system"), ("CNI_NETWORK_CONFIG", template)];
            let environment: BTreeMap<_, _> = said.map(|(key, value)| (key.into(), value.into())).into();
            let values = Layers::new(BTreeMap::new(), &environment).values();
            build(&values, &NodeFacts::default()).0
        };
        let read = |template: &str| {
            let PluginRules { agent_namespace, excluded, wish, .. } =
                Rules::of(&settings(template), None).plugin.unwrap();
            (agent_namespace, excluded.join(","), wish)
        };
        let said = r#"{"exclude_namespaces":["foo"],"pod_namespace":"mesh","native_nftables":true}"#;
        assert_eq!(read(said), ("mesh".to_owned(), "foo".to_owned(), Wish::Only(Backend::Nft)));
        let (_, excluded, wish) = read(r#"{"millrace_backend":"unheard-of"}"#);
        assert_eq!((excluded.as_str(), wish), ("kube-system", Wish::Auto));
        let unusable = settings(r#"{"type":"calico"}"#);
        let unknown = Rules::of(&unusable, None);
        assert_eq!(Rules::of(&unusable, Some(&unknown)).plugin, None, "nobody knows what it leaves alone");
        let former = Rules::of(&settings(said), None);
        assert_eq!(Rules::of(&unusable, Some(&former)), former);
    }
}
