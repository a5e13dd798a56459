// SPDX-License-Identifier: Apache-2.0
//! The agent's DaemonSet, followed by name. A watch that is open outlives the roles, the account and the token that it was opened with: the
//! API server asks for them once, at its beginning.

use std::time::Duration;

use serde::Deserialize;

use super::decide::Watched;
use crate::api::Change;
use crate::metrics::RestartReason;

/// Watched state of the DaemonSet.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct WatchedDaemonSet {
    pub(super) watched: Watched,
    /// `terminationGracePeriodSeconds` of its pods.
    pub(super) grace: Option<Duration>,
    /// The API server was out of reach or ended the watch early, as one that restarts, and the watch has told nothing since.
    pub(super) cut: bool,
    /// UID of the last one that the watch reported.
    pub(super) uid: String,
    /// Number of times that a DaemonSet took the place of one that was deleted.
    pub(super) successors: u32,
}

/// Fields read of it.
#[derive(Deserialize)]
pub(super) struct SlimSet {
    metadata: SlimMetadata,
    #[serde(default)]
    spec: SlimSpec,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SlimMetadata {
    #[serde(default)]
    uid: String,
    deletion_timestamp: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct SlimSpec {
    template: SlimTemplate,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct SlimTemplate {
    spec: SlimPod,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct SlimPod {
    termination_grace_period_seconds: Option<u64>,
}

impl WatchedDaemonSet {
    pub(super) fn hear(mut self, change: Change<SlimSet>) -> Self {
        let there = Watched::There { live: true };
        self.cut = match &change {
            Change::Lost(lost) => {
                let is_away = matches!(lost.reason, RestartReason::Disconnected | RestartReason::Stalled);
                self.cut || lost.early || is_away
            }
            _ => false,
        };
        match change {
            Change::All(sets) => match sets.into_iter().next() {
                Some(set) => self.hear(Change::Set(set)),
                None => Self { watched: Watched::Gone, ..self },
            },
            Change::Set(set) => {
                let watched =
                    if set.metadata.deletion_timestamp.is_some() { Watched::Deleting } else { there };
                let grace = set.spec.template.spec.termination_grace_period_seconds.map(Duration::from_secs);
                let is_another = self.uid != set.metadata.uid && self.watched != Watched::Unknown;
                let successors = self.successors + u32::from(is_another);
                Self { watched, grace: grace.or(self.grace), uid: set.metadata.uid, successors, ..self }
            }
            Change::Removed(_) => Self { watched: Watched::Gone, ..self },
            Change::Alive if matches!(self.watched, Watched::There { .. }) => Self { watched: there, ..self },
            Change::Lost(_) if self.watched == there => {
                Self { watched: Watched::There { live: false }, ..self }
            }
            Change::Alive | Change::Lost(_) => self,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::api::Lost;

    fn set(metadata: &serde_json::Value, grace: u64) -> SlimSet {
        let spec = json!({ "template": { "spec": { "terminationGracePeriodSeconds": grace } } });
        serde_json::from_value(json!({ "metadata": metadata, "spec": spec })).unwrap()
    }

    fn lost_by(reason: RestartReason) -> Change<SlimSet> {
        Change::Lost(Lost { reason, error: None, early: false })
    }

    fn lost() -> Change<SlimSet> {
        lost_by(RestartReason::Forbidden)
    }

    #[test]
    fn what_was_deleted_stays_so_whatever_becomes_of_the_watch() {
        let deleted = || json!({ "deletionTimestamp": "2026-01-01T00:00:00Z" });
        let live = Watched::There { live: true };
        for (changes, want) in [
            (vec![], Watched::Unknown),
            (vec![Change::Alive, lost()], Watched::Unknown),
            (vec![Change::All(vec![])], Watched::Gone),
            (vec![Change::All(vec![set(&json!({}), 30)])], live),
            (vec![Change::All(vec![set(&json!({}), 30)]), lost()], Watched::There { live: false }),
            (vec![Change::All(vec![set(&json!({}), 30)]), lost(), Change::Alive], live),
            (
                vec![Change::All(vec![set(&json!({}), 30)]), Change::Removed(set(&json!({}), 30))],
                Watched::Gone,
            ),
            (vec![Change::Removed(set(&json!({}), 30)), lost(), Change::Alive], Watched::Gone),
            (vec![Change::Set(set(&deleted(), 30)), lost(), Change::Alive], Watched::Deleting),
            (vec![Change::Removed(set(&json!({}), 30)), Change::Set(set(&json!({}), 30))], live),
        ] {
            let seen = changes.into_iter().fold(WatchedDaemonSet::default(), WatchedDaemonSet::hear);
            assert_eq!(seen.watched, want);
        }
    }

    #[test]
    fn a_cut_lasts_until_something_is_told() {
        use RestartReason::{Disconnected, Ended, Forbidden, Stalled, Unauthorized};
        let after = |changes: Vec<Change<SlimSet>>| {
            changes.into_iter().fold(WatchedDaemonSet::default(), WatchedDaemonSet::hear).cut
        };
        for reason in [Ended, Forbidden, Unauthorized] {
            assert!(!after(vec![lost_by(reason)]), "{reason:?}: it answered");
        }
        let early = || Change::Lost(Lost { reason: Ended, error: None, early: true });
        for (number, cut) in [|| lost_by(Disconnected), || lost_by(Stalled), early].into_iter().enumerate() {
            for answered in [Ended, Forbidden, Unauthorized] {
                assert!(after(vec![cut(), lost_by(answered)]), "{number} {answered:?}");
            }
            let there = || json!({});
            for told in [
                Change::Alive,
                Change::All(vec![]),
                Change::All(vec![set(&there(), 30)]),
                Change::Set(set(&there(), 30)),
                Change::Removed(set(&there(), 30)),
            ] {
                assert!(!after(vec![cut(), told]), "{number}");
            }
        }
    }

    #[test]
    fn a_daemonset_of_another_uid_is_a_successor() {
        let of = |uid: &str| set(&json!({ "uid": uid }), 30);
        let successors = |changes: Vec<Change<SlimSet>>| {
            changes.into_iter().fold(WatchedDaemonSet::default(), WatchedDaemonSet::hear).successors
        };
        for (changes, want) in [
            (vec![Change::All(vec![of("a")]), Change::Set(of("a"))], 0),
            (vec![Change::Set(of("a")), Change::Removed(of("a"))], 0),
            (vec![Change::Set(of("a")), Change::Removed(of("a")), Change::Set(of("b"))], 1),
            (vec![Change::Set(of("a")), lost(), Change::All(vec![of("b")])], 1),
            (vec![Change::All(vec![]), Change::Set(of("a"))], 1),
        ] {
            assert_eq!(successors(changes), want);
        }
    }

    #[test]
    fn the_grace_period_is_that_of_the_template() {
        let seen = WatchedDaemonSet::default().hear(Change::All(vec![set(&json!({}), 7)]));
        assert_eq!(seen.grace, Some(Duration::from_secs(7)));
        assert_eq!(seen.hear(Change::Removed(set(&json!({}), 7))).grace, Some(Duration::from_secs(7)));
    }
}
