// SPDX-License-Identifier: Apache-2.0
//! Many node agents at once, each with the follower that the real one has: what they cost the server when all lose their watches.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use agent::api::{Change, Client, Following, Resource};
use agent::pods::NodePod;
use apiserver::{Gates, Logged, Read};
use cluster::{Effect, Fault, Front as _, Verb};
use serde_json::json;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::common::{World, pod};

/// Deadline of all of them on a busy machine.
const LONG: Duration = Duration::from_secs(120);

/// Node agents, each with its node's pod.
struct Agents {
    world: World,
    /// Completed lists, of all agents together.
    told: Arc<AtomicUsize>,
    _stop: DropGuard,
}

impl Agents {
    async fn start(count: usize, gates: Gates) -> Self {
        let world = World::with(gates);
        let (told, cancel) = (Arc::new(AtomicUsize::new(0)), CancellationToken::new());
        for number in 0..count {
            let node = format!("n-{number}");
            let mut pod = pod(&format!("p-{number}"));
            pod["spec"]["nodeName"] = json!(node);
            world.server.upsert(pod).unwrap();
            let client = Client::from(world.client());
            let resource = Resource::pods_of(&node).unwrap();
            let following = Following::new(client, resource);
            let (told, cancel) = (Arc::clone(&told), cancel.clone());
            tokio::spawn(async move {
                let sink = |change: Change<NodePod>| {
                    if let Change::All(pods) = change {
                        assert_eq!(pods.len(), 1, "its node's");
                        told.fetch_add(1, Ordering::Relaxed);
                    }
                };
                following.run(sink, &cancel).await;
            });
        }
        let agents = Self { world, told, _stop: cancel.drop_guard() };
        agents.until_told(count).await;
        agents
    }

    /// Waits until so many lists were told, and the watches behind them are open.
    async fn until_told(&self, lists: usize) {
        let watches = |one: &Logged| one.verb == Verb::Watch && one.code == Some(200);
        let open = self.world.server.until_requests(lists, watches);
        tokio::time::timeout(LONG, open).await.expect("watches are open");
        let mut due = tokio::time::interval(Duration::from_millis(10));
        let told = async {
            while self.told.load(Ordering::Relaxed) < lists {
                due.tick().await;
            }
        };
        tokio::time::timeout(LONG, told).await.expect("lists are told");
    }

    /// All watches come to a version that the server has forgotten, as after a compaction that none of them has followed: nothing is awaited
    /// in between.
    fn expire(&self) {
        self.world.server.upsert(pod("of-no-node")).unwrap();
        self.world.server.compact();
    }

    /// Reads of pods since `from` that etcd had to answer, and those that the watch cache did.
    fn reads(&self, from: u64) -> (Vec<Logged>, Vec<Logged>) {
        let reads =
            self.world.server.requests().into_iter().filter(|one| one.order >= from && one.read.is_some());
        reads.partition(|one| one.read != Some(Read::Cache))
    }

    fn next_order(&self) -> u64 {
        self.world.server.requests().last().map_or(0, |one| one.order + 1)
    }
}

#[tokio::test]
async fn a_thousand_agents_that_lose_their_watches_ask_etcd_for_nothing() {
    const COUNT: usize = 1000;
    for gates in [Gates::default(), Gates::OLDEST] {
        let agents = Agents::start(COUNT, gates).await;
        assert_eq!(agents.reads(0).0, [], "{gates:?}: the first lists");
        let mark = agents.next_order();
        agents.expire();
        agents.until_told(2 * COUNT).await;
        let (etcd, cache) = agents.reads(mark);
        assert_eq!(etcd, [], "{gates:?}");
        let again = if gates.watch_list { COUNT } else { 2 * COUNT };
        assert_eq!(cache.len(), again, "{gates:?}: a streamed list each, or a list and a watch");
        let first = cache.iter().find_map(|one| one.query.clone()).unwrap();
        assert!(first.contains("resourceVersionMatch=NotOlderThan") && !first.contains("limit="), "{first}");
    }
}

#[tokio::test]
async fn an_agent_whose_version_is_refused_twice_asks_etcd_once() {
    for (gates, read) in [(Gates::default(), Read::Version), (Gates::OLDEST, Read::Storage)] {
        let agents = Agents::start(1, gates).await;
        let mark = agents.next_order();
        agents.world.front.add(Fault::about(Verb::List, "pods", Effect::answer(410)).first(1));
        agents.expire();
        agents.until_told(2).await;
        let (etcd, _) = agents.reads(mark);
        assert_eq!(etcd.iter().map(|one| one.read).collect::<Vec<_>>(), [Some(read)], "{gates:?}");
    }
}
