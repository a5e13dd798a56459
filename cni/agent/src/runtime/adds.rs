// SPDX-License-Identifier: Apache-2.0
//! Whether pods are set up through our entry, by the ADDs that come: of which network they are, and whether one came for each pod that needs it.
//! Pure: times are arguments.
//!
//! | observed | decided |
//! |---|---|
//! | an ADD of a network whose list has our entry | the runtime goes by it |
//! | an ADD of another network, a while after the last change of our list | the runtime goes by a list that the agent does not keep right |
//! | a mesh pod that the kubelet took on after our list was loaded has its address, and no ADD came | the runtime goes by a list without our entry |
//!
//! The last two hold until an ADD of the right network comes or our list changes.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use tokio::time::Instant;

use crate::conflist::networks::Networks;

/// An ADD may have begun with a list that was replaced meanwhile: how long after a change of ours it proves nothing.
const UNDER_WAY: Duration = Duration::from_secs(30);
/// A pod gets its address after its ADD; how long the ADD may take to be heard of after the address.
const GRACE: Duration = Duration::from_secs(2);
/// Pods that are remembered: a node has far fewer.
const LIMIT: usize = 1024;

/// A pod, by namespace and name.
pub type PodName = (String, String);

/// A pod of the mesh on this node, as far as its ADD goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MeshPod {
    pub name: PodName,
    /// When the kubelet took it on (`status.startTime`, in whole seconds), if it did.
    pub started: Option<Timestamp>,
    pub has_address: bool,
    /// Told by the watch; in a list it may be as it was before this agent listened.
    pub is_news: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Doubt {
    /// The runtime called the plugin for another network.
    Other(String),
    /// It did not call it for this pod.
    Missed(PodName),
}

/// What was observed since our list changed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Adds {
    changed: Option<Instant>,
    /// Time of the last ADD of each pod.
    seen: BTreeMap<PodName, Timestamp>,
    /// Pods that were observed before the kubelet took them on.
    fresh: BTreeSet<PodName>,
    /// Pods with an address and without an ADD, and when that counts.
    waiting: BTreeMap<PodName, Instant>,
    doubt: Option<Doubt>,
    /// Network of the last ADD that began after the change.
    last: Option<String>,
}

impl Adds {
    /// Our list, or whatever runtimes read before it, changed: nothing is known of the new one.
    pub fn list_changed(&mut self, now: Instant) {
        (self.changed, self.doubt, self.last) = (Some(now), None, None);
        self.waiting.clear();
        self.fresh.clear();
    }

    /// An ADD came; `network` is empty where its sender did not say.
    pub fn added(
        &mut self,
        pod: PodName,
        network: &str,
        networks: &Networks,
        now: Instant,
        clock: Timestamp,
    ) {
        self.waiting.remove(&pod);
        if self.doubt == Some(Doubt::Missed(pod.clone())) {
            self.doubt = None;
        }
        if self.seen.len() >= LIMIT {
            let oldest = self.seen.iter().min_by_key(|(_, at)| **at).map(|(pod, _)| pod.clone());
            oldest.map(|pod| self.seen.remove(&pod));
        }
        self.seen.insert(pod, clock);
        if network.is_empty() {
            return;
        }
        let is_of_now = self.changed.is_none_or(|at| now >= at + UNDER_WAY);
        if is_of_now {
            self.last = Some(network.to_owned());
        }
        if networks.ours.contains(network) {
            self.doubt = None;
        } else if is_of_now {
            self.doubt = Some(Doubt::Other(network.to_owned()));
        }
    }

    /// True if the runtime was seen to go by that network.
    #[must_use]
    pub fn goes_by(&self, network: &str) -> bool {
        self.last.as_deref() == Some(network)
    }

    /// A mesh pod is on the node. `since`: our list was loaded, and ADDs were listened to; a pod that was taken on before proves nothing.
    pub fn observed(&mut self, pod: &MeshPod, since: Timestamp, now: Instant) {
        let MeshPod { name, started, has_address, is_news } = pod;
        if started.is_none() && *is_news && self.fresh.len() < LIMIT {
            self.fresh.insert(name.clone());
        }
        // Whole seconds, rounded down: one that is later is later.
        let is_later = started.is_some_and(|started| started.as_second() > since.as_second());
        if !has_address || !(is_later || self.fresh.contains(name)) {
            self.waiting.remove(name);
            return;
        }
        // The ADD of this pod, not of a former one of its name.
        let is_its = |at: &Timestamp| started.is_none_or(|started| at.as_second() >= started.as_second());
        if !self.seen.get(name).is_some_and(is_its) && self.waiting.len() < LIMIT {
            self.waiting.entry(name.clone()).or_insert(now + GRACE);
        }
    }

    /// A pod is deleted, or not one of the mesh any more.
    pub fn gone(&mut self, pod: &PodName) {
        self.waiting.remove(pod);
        self.fresh.remove(pod);
    }

    /// Reason why the runtime does not go by our entry, and the next time at which that may change by itself.
    pub fn verdict(
        &mut self,
        file: &str,
        networks: &Networks,
        now: Instant,
    ) -> (Option<String>, Option<Instant>) {
        let due: Vec<_> =
            self.waiting.iter().filter(|(_, at)| **at <= now).map(|(pod, _)| pod.clone()).collect();
        for pod in due {
            self.waiting.remove(&pod);
            self.doubt.get_or_insert(Doubt::Missed(pod));
        }
        let why = self.doubt.as_ref().map(|doubt| reason(doubt, file, networks));
        (why, self.waiting.values().min().copied())
    }
}

fn reason(doubt: &Doubt, file: &str, networks: &Networks) -> String {
    match doubt {
        Doubt::Other(network) => {
            let of = networks.files.get(network).map_or_else(
                || "which is in no file here: check cniConfDir".to_owned(),
                |of| format!("whose list is {of}: set CNI_CONF_NAME to {of}"),
            );
            format!("our entry is in {file}, and the runtime goes by network {network:?}, {of}")
        }
        Doubt::Missed((namespace, name)) => format!(
            "our entry is in {file}, and the runtime started pod {namespace}/{name} without it: set CNI_CONF_NAME to the file of the runtime's network (cni_default_network of CRI-O), or cniConfDir to its directory"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLOCK: i64 = 1_000;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn name(pod: &str) -> PodName {
        ("shop".to_owned(), pod.to_owned())
    }

    fn cart(started: Option<i64>) -> MeshPod {
        MeshPod {
            name: name("cart"),
            started: started.map(at),
            has_address: started.is_some(),
            is_news: true,
        }
    }

    /// CRI-O's own list has our entry, Azure's is beside it.
    fn networks() -> Networks {
        Networks {
            ours: ["crio".to_owned()].into(),
            files: [("crio", "100-crio-bridge.conflist"), ("azure", "15-azure.conflist")]
                .map(|(name, file)| (name.to_owned(), file.to_owned()))
                .into(),
            ..Networks::default()
        }
    }

    fn verdict(adds: &mut Adds, now: Instant) -> Option<String> {
        adds.verdict("/etc/cni/net.d/100-crio-bridge.conflist", &networks(), now).0
    }

    #[tokio::test(start_paused = true)]
    async fn a_mesh_pod_that_gets_an_address_without_an_add_is_missed_after_the_grace() {
        let (mut adds, now) = (Adds::default(), Instant::now());
        adds.list_changed(now);
        adds.observed(&cart(None), at(CLOCK), now);
        assert_eq!(adds.verdict("f", &networks(), now), (None, None), "it has no address yet");
        adds.observed(&cart(Some(CLOCK + 1)), at(CLOCK), now);
        assert_eq!(adds.verdict("f", &networks(), now), (None, Some(now + GRACE)));
        // Told of again and again: it counts from the first time on.
        adds.observed(&cart(Some(CLOCK + 1)), at(CLOCK), now + GRACE / 2);
        let why = verdict(&mut adds, now + GRACE).unwrap();
        for fragment in
            ["/etc/cni/net.d/100-crio-bridge.conflist", "shop/cart", "cni_default_network", "CNI_CONF_NAME"]
        {
            assert!(why.contains(fragment), "{why}");
        }
        adds.gone(&name("cart"));
        assert!(verdict(&mut adds, now + GRACE).is_some(), "its deletion changes nothing of the runtime");
        adds.added(name("till"), "crio", &networks(), now + GRACE, at(CLOCK + 9));
        assert_eq!(verdict(&mut adds, now + GRACE), None);
    }

    #[tokio::test(start_paused = true)]
    async fn an_add_in_time_or_a_little_late_is_no_miss() {
        let (mut adds, now) = (Adds::default(), Instant::now());
        adds.list_changed(now);
        adds.added(name("cart"), "crio", &networks(), now, at(CLOCK + 1));
        adds.observed(&cart(Some(CLOCK + 1)), at(CLOCK), now);
        assert_eq!(verdict(&mut adds, now + GRACE * 9), None);
        // One of the same name, whose ADD was before this one began.
        adds.observed(&cart(Some(CLOCK + 5)), at(CLOCK), now);
        assert!(adds.verdict("f", &networks(), now).1.is_some());
        // Of a plugin that does not say the network, or from its log line.
        adds.added(name("cart"), "", &networks(), now, at(CLOCK + 5));
        assert_eq!(adds.verdict("f", &networks(), now + GRACE), (None, None));
    }

    #[tokio::test(start_paused = true)]
    async fn what_the_kubelet_took_on_before_the_list_was_loaded_proves_nothing() {
        let (mut adds, now) = (Adds::default(), Instant::now());
        for started in [CLOCK - 5, CLOCK] {
            adds.observed(&cart(Some(started)), at(CLOCK), now);
            assert_eq!(adds.verdict("f", &networks(), now + GRACE), (None, None), "{started}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_is_observed_before_the_kubelet_takes_it_on_counts_within_the_second() {
        let (mut adds, now) = (Adds::default(), Instant::now());
        adds.observed(&cart(None), at(CLOCK), now);
        adds.observed(&cart(Some(CLOCK)), at(CLOCK), now);
        assert!(adds.verdict("f", &networks(), now + GRACE).0.is_some());
        let mut listed = Adds::default();
        listed.observed(&MeshPod { is_news: false, ..cart(None) }, at(CLOCK), now);
        listed.observed(&cart(Some(CLOCK)), at(CLOCK), now);
        assert_eq!(listed.verdict("f", &networks(), now + GRACE), (None, None));
        // The list that it met is another one by now.
        adds.observed(&cart(None), at(CLOCK), now);
        adds.list_changed(now);
        adds.observed(&cart(Some(CLOCK)), at(CLOCK), now);
        assert_eq!(adds.verdict("f", &networks(), now + GRACE), (None, None));
    }

    #[tokio::test(start_paused = true)]
    async fn an_add_of_another_network_counts_once_none_can_be_under_way() {
        let (mut adds, now) = (Adds::default(), Instant::now());
        adds.list_changed(now);
        adds.added(name("cart"), "azure", &networks(), now + UNDER_WAY - GRACE, at(CLOCK));
        assert_eq!(verdict(&mut adds, now), None, "it may have begun before the change");
        assert!(!adds.goes_by("azure"));
        adds.added(name("cart"), "azure", &networks(), now + UNDER_WAY, at(CLOCK));
        let why = verdict(&mut adds, now).unwrap();
        assert!(why.contains("\"azure\"") && why.contains("set CNI_CONF_NAME to 15-azure.conflist"), "{why}");
        assert!(adds.goes_by("azure") && !adds.goes_by("crio"));
        adds.added(name("till"), "elsewhere", &networks(), now + UNDER_WAY, at(CLOCK));
        assert!(verdict(&mut adds, now).unwrap().contains("check cniConfDir"));
        adds.list_changed(now);
        assert_eq!(verdict(&mut adds, now), None, "the new list has its chance");
        assert!(!adds.goes_by("elsewhere"));
    }

    #[tokio::test(start_paused = true)]
    async fn memory_is_bounded() {
        let (mut adds, now) = (Adds::default(), Instant::now());
        for number in 0..i64::try_from(LIMIT * 2).unwrap() {
            let mut pod =
                MeshPod { name: name(&number.to_string()), started: None, has_address: false, is_news: true };
            adds.observed(&pod, at(CLOCK), now);
            (pod.started, pod.has_address) = (Some(at(CLOCK + 1)), true);
            adds.observed(&pod, at(CLOCK), now);
            adds.added(name(&format!("x{number}")), "crio", &networks(), now, at(number));
        }
        assert_eq!((adds.seen.len(), adds.waiting.len(), adds.fresh.len()), (LIMIT, LIMIT, LIMIT));
        assert!(adds.seen.contains_key(&name(&format!("x{}", LIMIT * 2 - 1))), "the latest stay");
    }
}
