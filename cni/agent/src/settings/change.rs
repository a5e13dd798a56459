// SPDX-License-Identifier: Apache-2.0
//! Effect of changed values on the running agent: applied or rejected. Pure.

use std::fmt;

use super::kind::{self, Problem};
use super::layers::{Origin, SettingValue, Values};
use manifests::setting::{Setting, TakesEffect};
use manifests::table;

/// Answer to a capability question.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Able {
    Yes,
    No,
    /// Not known yet.
    #[default]
    Unknown,
}

/// Capabilities of this pod, as it was created.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Abilities {
    /// RBAC: delete pods.
    pub delete_pods: Able,
    /// RBAC: patch pods' status.
    pub label_pods: Able,
    /// Mounts: the node's processes or namespaces.
    pub enter_pods: Able,
    /// Host network.
    pub host_network: Able,
}

/// Requirement of a setting on the pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// [`Abilities::delete_pods`]
    DeletePods,
    /// [`Abilities::label_pods`]
    LabelPods,
    /// [`Abilities::enter_pods`]
    EnterPods,
    /// [`Abilities::host_network`]
    HostNetwork,
}

impl Need {
    /// The ability that it asks for.
    #[must_use]
    pub fn met(self, abilities: Abilities) -> Able {
        match self {
            Self::DeletePods => abilities.delete_pods,
            Self::LabelPods => abilities.label_pods,
            Self::EnterPods => abilities.enter_pods,
            Self::HostNetwork => abilities.host_network,
        }
    }

    fn remedy(self) -> &'static str {
        match self {
            Self::DeletePods => "its ClusterRole needs the verb delete on pods",
            Self::LabelPods => "its ClusterRole needs the verb patch on pods/status",
            Self::EnterPods => "its pod needs the node's /proc at /host/proc",
            Self::HostNetwork => "its pod needs hostNetwork, or the node never gets ready enough to start it",
        }
    }
}

/// Reason for the rejection of a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// It belongs with other volumes than this pod's.
    Mount,
    /// It needs a new pod.
    Pod,
    /// It counts in the pod's template alone.
    Template,
    /// Malformed.
    Problem(Problem),
    /// The pod lacks the capability, or is not known to have it.
    Lacks(Need, Able),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mount => {
                f.write_str("it belongs with other volumes than this pod was made with: change the DaemonSet, it takes effect with the rollout")
            }
            Self::Pod => f.write_str("it holds from the next start of the pod on: restart the DaemonSet"),
            Self::Template => f.write_str(
                "it is not taken from the ConfigMap: set it in the DaemonSet's pod template (a flag, or env of the chart)",
            ),
            Self::Problem(problem) => problem.fmt(f),
            Self::Lacks(need, Able::Unknown) => {
                write!(f, "whether the agent can do that is not known yet: {}", need.remedy())
            }
            Self::Lacks(need, _) => write!(f, "the agent cannot do that: {}", need.remedy()),
        }
    }
}

/// A rejected change: the old value stays in effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RejectedChange {
    /// The key.
    pub key: &'static Setting,
    /// New value.
    pub wanted: SettingValue,
    /// Reason.
    pub why: Refusal,
}

/// Effect of a change.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Changes {
    /// Keys that have another value now.
    pub applied: Vec<&'static Setting>,
    /// Keys that keep their value although another one is said.
    pub refused: Vec<RejectedChange>,
    /// Values in effect.
    pub values: Values,
}

/// The keys that say together what is done about a broken pod, and so which rights that needs.
fn of_policy(key: &Setting) -> bool {
    [&table::REPAIR, &table::REPAIR_PODS, &table::DELETE_PODS, &table::LABEL_PODS, &table::REPAIR_FALLBACK]
        .contains(&key)
}

/// Goes from what holds (`old`) to what is said (`new`), as far as the pod can.
#[must_use]
pub fn decide(old: &Values, new: &Values, abilities: Abilities) -> Changes {
    let mut changes = Changes { values: old.clone(), ..Changes::default() };
    for (key, wanted) in new {
        let same = old.get(key).is_some_and(|held| held.text == wanted.text);
        // A capability of the agent before this one may be lacking here.
        let lost = **key == table::STATUS_GATE && abilities.host_network == Able::No;
        let refusal = if same && !lost { None } else { refusal(key, wanted, abilities) };
        match refusal {
            Some(why) => {
                changes.refused.push(RejectedChange { key, wanted: wanted.clone(), why });
                if same {
                    let off = SettingValue { text: key.default.to_owned(), origin: Origin::Default };
                    changes.values.insert(key, off);
                    changes.applied.push(key);
                }
                continue;
            }
            _ if !same => changes.applied.push(key),
            _ => {}
        }
        changes.values.insert(key, wanted.clone());
    }
    refuse_policy(old, abilities, &mut changes);
    changes
}

fn refusal(key: &'static Setting, wanted: &SettingValue, abilities: Abilities) -> Option<Refusal> {
    match key.change {
        TakesEffect::Unread => return None,
        TakesEffect::Mount => return Some(Refusal::Mount),
        TakesEffect::Pod => return Some(Refusal::Pod),
        TakesEffect::Template => return Some(Refusal::Template),
        TakesEffect::Live => {}
    }
    if let Err(problem) = kind::check(key, &wanted.text) {
        return Some(Refusal::Problem(problem));
    }
    let gate = *key == table::STATUS_GATE && kind::gate(&wanted.text) == Ok(true);
    (gate && abilities.host_network != Able::Yes)
        .then_some(Refusal::Lacks(Need::HostNetwork, abilities.host_network))
}

/// The keys of the policy are applied together or not at all: a policy that lacks a right fails at each pod. A fallback that lacks one
/// stands alone, since repair goes on without it.
fn refuse_policy(old: &Values, abilities: Abilities, changes: &mut Changes) {
    let before = needs(old);
    let lacking = |values: &Values| {
        needs(values).into_iter().find(|need| !before.contains(need) && need.met(abilities) != Able::Yes)
    };
    let Some(need) = lacking(&changes.values) else { return };
    let mut without = changes.values.clone();
    without.remove(&table::REPAIR_FALLBACK);
    let of_it = |key: &Setting| match lacking(&without) {
        None => *key == table::REPAIR_FALLBACK,
        Some(_) => of_policy(key),
    };
    let (policy, others): (Vec<_>, Vec<_>) = changes.applied.drain(..).partition(|key| of_it(key));
    changes.applied = others;
    for key in policy {
        let Some(wanted) = changes.values.get(key).cloned() else { continue };
        match old.get(key) {
            Some(held) => changes.values.insert(key, held.clone()),
            None => changes.values.remove(key),
        };
        changes.refused.push(RejectedChange { key, wanted, why: Refusal::Lacks(need, need.met(abilities)) });
    }
    // One that was held without a question, as it did not count, may count now.
    let key = &table::REPAIR_FALLBACK;
    let off = SettingValue { text: key.default.to_owned(), origin: Origin::Default };
    if let Some(need) = lacking(&changes.values)
        && let Some(wanted) = changes.values.insert(key, off)
    {
        changes.applied.push(key);
        changes.refused.push(RejectedChange { key, wanted, why: Refusal::Lacks(need, need.met(abilities)) });
    }
}

/// Requirements of the policy of these values: the first mode that is on, and the fallback of repair.
#[must_use]
pub fn needs(values: &Values) -> Vec<Need> {
    let text = |key: &'static Setting| values.get(key).map_or(key.default, |value| value.text.as_str());
    let on = |key| kind::boolean(text(key)) == Ok(true);
    if !on(&table::REPAIR) {
        return vec![];
    }
    if on(&table::REPAIR_PODS) {
        let fallback = match text(&table::REPAIR_FALLBACK) {
            "delete" => Some(Need::DeletePods),
            "label" => Some(Need::LabelPods),
            _ => None,
        };
        return std::iter::once(Need::EnterPods).chain(fallback).collect();
    }
    let modes = [(&table::DELETE_PODS, Need::DeletePods), (&table::LABEL_PODS, Need::LabelPods)];
    modes.into_iter().find(|(key, _)| on(key)).map(|(_, need)| need).into_iter().collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::settings::layers::Layers;

    const ALL: Abilities = Abilities {
        delete_pods: Able::Yes,
        label_pods: Able::Yes,
        enter_pods: Able::Yes,
        host_network: Able::Yes,
    };

    fn values(pairs: &[(&str, &str)]) -> Values {
        let said: BTreeMap<String, String> =
            pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        Layers::new(BTreeMap::new(), &BTreeMap::new()).with_config_map(said).values()
    }

    fn names(changes: &Changes) -> (Vec<&str>, Vec<&str>) {
        let applied = changes.applied.iter().map(|key| key.name).collect();
        (applied, changes.refused.iter().map(|refused| refused.key.name).collect())
    }

    #[test]
    fn what_the_running_agent_can_follow_is_applied() {
        let new = values(&[
            ("EXCLUDE_NAMESPACES", "a"),
            ("LOG_OUTPUT_LEVEL", "debug"),
            ("ISTIO_OWNED_CNI_CONFIG", "true"),
        ]);
        let changes = decide(&values(&[]), &new, Abilities::default());
        assert_eq!(
            names(&changes),
            (vec!["exclude-namespaces", "istio-owned-cni-config", "log_output_level"], vec![])
        );
        assert_eq!(changes.values, new);
        let again = decide(&changes.values, &new, Abilities::default());
        assert_eq!(names(&again), (vec![], vec![]));
    }

    #[test]
    fn what_needs_another_pod_is_refused_and_the_rest_is_applied() {
        let new = values(&[
            ("MOUNTED_CNI_NET_DIR", "/x"),
            ("MONITORING_PORT", "1"),
            ("AMBIENT_ENABLED", "true"),
            ("NATIVE_NFTABLES", "true"),
            ("CHAINED_CNI_PLUGIN", "false"),
            ("CNI_CONF_NAME", "istio-cni.conf"),
            ("SKIP_TLS_VERIFY", "true"),
        ]);
        let changes = decide(&values(&[]), &new, ALL);
        let refused = [
            "chained-cni-plugin",
            "cni-conf-name",
            "monitoring-port",
            "mounted-cni-net-dir",
            "skip-tls-verify",
        ];
        assert_eq!(names(&changes), (vec!["ambient-enabled", "native-nftables"], refused.to_vec()));
        assert_eq!(changes.values[&table::NET_DIR].text, "/host/etc/cni/net.d");
        let whys: Vec<_> = changes.refused.iter().map(|one| &one.why).collect();
        let mount = &Refusal::Mount;
        assert_eq!(whys, [mount, mount, &Refusal::Pod, mount, &Refusal::Template]);
    }

    #[test]
    fn a_bad_value_keeps_the_old_one_of_its_key() {
        let old = values(&[("MILLRACE_BACKEND", "nft")]);
        let new = values(&[
            ("MILLRACE_BACKEND", "rw"),
            ("CNI_CONF_GROUP_READ", "nope"),
            ("EXCLUDE_NAMESPACES", "a"),
        ]);
        let changes = decide(&old, &new, ALL);
        assert_eq!(
            names(&changes),
            (vec!["exclude-namespaces"], vec!["cni-conf-group-read", "millrace-backend"])
        );
        assert_eq!(changes.values[&table::BACKEND].text, "nft");
        assert_eq!(changes.refused[0].why, Refusal::Problem(Problem::Bool));
    }

    #[test]
    fn a_policy_needs_its_rights_and_is_refused_as_a_whole() {
        let old = values(&[("REPAIR_REPAIR_PODS", "true")]);
        let new = values(&[
            ("REPAIR_REPAIR_PODS", "false"),
            ("REPAIR_DELETE_PODS", "true"),
            ("EXCLUDE_NAMESPACES", "a"),
        ]);
        for able in [Able::No, Able::Unknown] {
            let changes = decide(&old, &new, Abilities { delete_pods: able, ..ALL });
            assert_eq!(
                names(&changes),
                (vec!["exclude-namespaces"], vec!["repair-delete-pods", "repair-repair-pods"])
            );
            assert_eq!(changes.values[&table::REPAIR_PODS].text, "true", "and not: nothing at all");
            assert_eq!(changes.refused[0].why, Refusal::Lacks(Need::DeletePods, able));
        }
        assert_eq!(names(&decide(&old, &new, ALL)).1, [""; 0]);
    }

    #[test]
    fn a_policy_that_does_not_count_needs_nothing() {
        let old = values(&[("REPAIR_REPAIR_PODS", "true")]);
        let new = values(&[
            ("REPAIR_REPAIR_PODS", "true"),
            ("REPAIR_DELETE_PODS", "true"),
            ("REPAIR_LABEL_PODS", "true"),
        ]);
        assert_eq!(names(&decide(&old, &new, Abilities::default())).1, [""; 0]);
        let new = values(&[("REPAIR_ENABLED", "false"), ("REPAIR_DELETE_PODS", "true")]);
        assert_eq!(names(&decide(&old, &new, Abilities::default())).1, [""; 0]);
        let new = values(&[("REPAIR_REPAIR_PODS", "true"), ("MILLRACE_REPAIR_FALLBACK", "delete")]);
        let refused = decide(&old, &new, Abilities { delete_pods: Able::No, ..ALL });
        assert_eq!(names(&refused).1, ["millrace-repair-fallback"]);
        let off = values(&[("REPAIR_ENABLED", "false")]);
        let begun = decide(&off, &new, Abilities { delete_pods: Able::No, ..ALL });
        assert_eq!(names(&begun).1, ["millrace-repair-fallback"], "repair goes on without it");
        assert_eq!(needs(&begun.values), [Need::EnterPods]);
        let held = values(&[("REPAIR_ENABLED", "false"), ("MILLRACE_REPAIR_FALLBACK", "delete")]);
        let begun = decide(&held, &new, Abilities { delete_pods: Able::No, ..ALL });
        assert_eq!(names(&begun).1, ["millrace-repair-fallback"], "it was held while it did not count");
        assert_eq!(needs(&begun.values), [Need::EnterPods]);
    }

    #[test]
    fn the_status_gate_needs_the_nodes_network() {
        let new = values(&[("MILLRACE_STATUS_GATE", "agent")]);
        for able in [Able::No, Able::Unknown] {
            let changes = decide(&values(&[]), &new, Abilities { host_network: able, ..ALL });
            assert_eq!(names(&changes).1, ["millrace-status-gate"]);
            assert_eq!(changes.values[&table::STATUS_GATE].text, "");
        }
        assert_eq!(names(&decide(&values(&[]), &new, ALL)).0, ["millrace-status-gate"]);
        let off = decide(&new, &values(&[]), Abilities::default());
        assert_eq!(names(&off).0, ["millrace-status-gate"], "to take it away needs nothing");
    }
}
