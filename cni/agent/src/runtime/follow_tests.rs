// SPDX-License-Identifier: Apache-2.0
//! What is published, and when.

use std::collections::BTreeMap;

use serde_json::json;

use super::*;
use crate::api::Change;
use crate::api::testing::{Script, Scripted};
use crate::readiness::Missing;
use crate::settings;

struct Bench {
    readiness: Readiness,
    runtime: Runtime,
    pods: Pods,
    _stop: tokio_util::sync::DropGuard,
}

impl Bench {
    fn new(answers: Vec<Scripted>) -> Self {
        let readiness = Readiness::of(&[Part::Runtime]);
        let (runtime, stop) = (Runtime::new(readiness.clone()), CancellationToken::new());
        let values = if answers.is_empty() { vec![] } else { vec![("NODE_NAME".to_owned(), "n".to_owned())] };
        let values: BTreeMap<String, String> = values.into_iter().collect();
        let settings = settings::load(BTreeMap::new(), &values, |_| false).settings;
        let client = (!answers.is_empty()).then(|| Script::new(answers).client());
        let pods = Pods::default();
        let followed = Followed {
            client,
            pods: pods.clone(),
            settings: watch::channel(Arc::new(settings)).1,
            installs: watch::channel(true).1,
        };
        tokio::spawn(runtime.clone().run(followed, stop.clone()));
        Self { readiness, runtime, pods, _stop: stop.drop_guard() }
    }

    fn installed(&self, since: Option<Instant>) {
        let networks = Networks {
            ours: ["net".to_owned()].into(),
            files: [("net".to_owned(), "10-x.conflist".to_owned())].into(),
            ..Networks::default()
        };
        self.runtime.installed(Installed {
            file: "/etc/cni/net.d/10-x.conflist".to_owned(),
            networks,
            since,
        });
    }

    fn reason(&self) -> Option<String> {
        self.readiness.missing().iter().next().map(|(_, why)| why.to_owned())
    }

    async fn ready(&self) {
        drop(self.readiness.changes().wait_for(Missing::is_ready).await.unwrap());
    }

    async fn unready(&self) -> String {
        drop(self.readiness.changes().wait_for(|missing| !missing.is_ready()).await.unwrap());
        self.reason().unwrap()
    }
}

#[tokio::test(start_paused = true)]
async fn the_part_becomes_ready_by_itself_when_the_runtime_has_had_its_time() {
    let bench = Bench::new(vec![]);
    bench.runtime.is(RuntimeKind::CriO);
    let written = Instant::now();
    bench.installed(Some(written));
    assert!(bench.reason().unwrap().contains("10-x.conflist"));
    bench.ready().await;
    let took = written.elapsed();
    assert!(took >= RuntimeKind::CriO.settle() && took < RuntimeKind::CriO.settle() * 2, "{took:?}");
    // A heal: somebody else's list may be the one that is loaded.
    bench.installed(Some(Instant::now()));
    assert!(bench.reason().is_some(), "at once");
    bench.runtime.lost();
    pause(RuntimeKind::CriO.settle() * 2).await;
    assert_eq!(bench.reason().unwrap(), "there is nothing to load yet");
    bench.installed(None);
    assert_eq!(bench.reason(), None, "as it was before this agent came");
}

#[tokio::test(start_paused = true)]
async fn a_slower_runtime_that_becomes_known_has_the_rest_of_its_time() {
    let node = json!({ "status": { "nodeInfo": { "containerRuntimeVersion": "docker://25.0.14" } } });
    let bench = Bench::new(vec![Scripted::new(503, "{}"), Scripted::new(200, node.to_string())]);
    let written = Instant::now();
    bench.installed(Some(written));
    bench.ready().await;
    assert!(written.elapsed() >= RuntimeKind::CriDockerd.settle(), "{:?}", written.elapsed());
}

fn pod(name: &str, labels: &serde_json::Value, started: Timestamp) -> NodePod {
    serde_json::from_value(json!({
        "metadata": {"namespace": "shop", "name": name, "uid": name, "annotations": labels},
        "spec": {"containers": [{"name": "app"}, {"name": "istio-proxy", "args": ["proxy", "sidecar"]}]},
        "status": {"phase": "Running", "podIP": "10.0.0.1", "startTime": started.to_string()},
    }))
    .unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_mesh_pod_that_starts_without_an_add_ends_readiness_and_the_next_add_begins_it_again() {
    let bench = Bench::new(vec![]);
    bench.installed(None);
    bench.ready().await;
    let injected = json!({"sidecar.istio.io/status": "{}"});
    let later = Timestamp::from_second(Timestamp::now().as_second() + 5).unwrap();
    // Nobody wants rules here, and one that the kubelet took on before.
    bench.pods.hear(Change::Set(pod("outside", &json!({}), later)));
    bench.pods.hear(Change::Set(pod("before", &injected, Timestamp::UNIX_EPOCH)));
    pause(Duration::from_secs(60)).await;
    assert_eq!(bench.reason(), None);
    bench.pods.hear(Change::Set(pod("cart", &injected, later)));
    let why = bench.unready().await;
    assert!(why.contains("shop/cart") && why.contains("/etc/cni/net.d/10-x.conflist"), "{why}");
    let key = |name: &str, network: &str| PodKey {
        namespace: "shop".to_owned(),
        name: name.to_owned(),
        network: network.to_owned(),
        ..PodKey::default()
    };
    bench.runtime.added(&key("till", ""));
    assert!(bench.reason().is_some(), "a CHECK, or a diagnosis");
    bench.runtime.added(&key("till", "net"));
    assert_eq!(bench.reason(), None);
}

#[tokio::test(start_paused = true)]
async fn networks_that_come_and_go_beside_our_entry_give_the_runtime_another_chance() {
    let bench = Bench::new(vec![]);
    bench.installed(None);
    pause(Duration::from_secs(60)).await;
    let key = PodKey { name: "cart".to_owned(), network: "other".to_owned(), ..PodKey::default() };
    bench.runtime.added(&key);
    assert!(bench.reason().unwrap().contains("\"other\""));
    bench.runtime.networks(&Networks { ours: ["other".to_owned()].into(), ..Networks::default() });
    assert_eq!(bench.reason(), None);
}

#[tokio::test(start_paused = true)]
async fn the_runtime_goes_by_a_file_that_is_not_the_first_where_it_says_so_or_adds_come() {
    let bench = Bench::new(vec![]);
    let files = [("lab", "10-lab.conflist"), ("azure", "20-azure.conflist")];
    let networks = Networks {
        ours: ["azure".to_owned()].into(),
        files: files.map(|(name, file)| (name.to_owned(), file.to_owned())).into(),
        ..Networks::default()
    };
    bench.runtime.networks(&networks);
    let goes_by = || ["10-lab.conflist", "20-azure.conflist"].map(|file| bench.runtime.goes_by(file));
    assert_eq!(goes_by(), [false, false]);
    pause(Duration::from_secs(60)).await;
    let key = PodKey { name: "cart".to_owned(), network: "azure".to_owned(), ..PodKey::default() };
    bench.runtime.added(&key);
    assert_eq!(goes_by(), [false, true]);
    bench.runtime.networks(&Networks { repeats: true, ..networks.clone() });
    assert_eq!(goes_by(), [false, false], "with other files it may go by another");
    let default_network = Some("azure".to_owned());
    let configured = protocol::directories::Directories { default_network, ..Default::default() };
    bench.runtime.hear(Heard::Said(Answer::Configured(configured), Instant::now()));
    assert_eq!(goes_by(), [false, true]);
}
