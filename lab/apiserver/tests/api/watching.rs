// SPDX-License-Identifier: Apache-2.0
//! Watches: through a kube client, from a version, out of the window, with bookmarks; and the lab's own subscription.

use crate::common::{World, pod, refusal, soon};
use apiserver::store::Action;
use apiserver::{Gates, Read};
use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, VersionMatch, WatchEvent, WatchParams};
use serde_json::json;

/// `ADDED name`, or the type of another event.
fn short(event: &WatchEvent<Pod>) -> String {
    let name = |pod: &Pod| pod.metadata.name.clone().unwrap_or_default();
    match event {
        WatchEvent::Added(pod) => format!("ADDED {}", name(pod)),
        WatchEvent::Modified(pod) => format!("MODIFIED {}", name(pod)),
        WatchEvent::Deleted(pod) => format!("DELETED {}", name(pod)),
        WatchEvent::Bookmark(bookmark) => format!("BOOKMARK {}", bookmark.metadata.resource_version),
        WatchEvent::Error(status) => format!("ERROR {} {}", status.code, status.reason),
    }
}

async fn take(world: &World, params: WatchParams, from: &str, count: usize) -> Vec<String> {
    let pods: Api<Pod> = Api::namespaced(world.server.client(), "shop");
    let stream = pods.watch(&params, from).await.unwrap().take(count);
    soon(stream.map_ok(|event| short(&event)).try_collect()).await.unwrap()
}

async fn version(world: &World) -> String {
    let pods: Api<Pod> = Api::namespaced(world.server.client(), "shop");
    pods.list(&ListParams::default()).await.unwrap().metadata.resource_version.unwrap()
}

fn plain() -> WatchParams {
    WatchParams { bookmarks: false, ..WatchParams::default() }
}

#[tokio::test]
async fn a_watch_from_a_version_sees_exactly_the_later_events() {
    let world = World::new();
    world.server.upsert(pod("before")).unwrap();
    let from = version(&world).await;
    world.server.upsert(pod("past")).unwrap();
    let pods: Api<Pod> = Api::namespaced(world.server.client(), "shop");
    let mut stream = pods.watch(&plain(), &from).await.unwrap().boxed();
    world.server.create_namespace("other", &Default::default()).unwrap();
    pods.delete("before", &DeleteParams::default()).await.unwrap();
    let label = Patch::Merge(json!({"metadata": {"labels": {"a": "b"}}}));
    pods.patch("past", &PatchParams::default(), &label).await.unwrap();
    pods.patch("past", &PatchParams::default(), &label).await.unwrap();
    world.server.upsert(pod("last")).unwrap();
    let mut seen = Vec::new();
    while seen.last().is_none_or(|last| last != "ADDED last") {
        seen.push(short(&soon(stream.next()).await.unwrap().unwrap()));
    }
    // The second patch changed nothing and is no event; neither is the other namespace.
    assert_eq!(seen, ["ADDED past", "DELETED before", "MODIFIED past", "ADDED last"]);
}

#[tokio::test]
async fn a_watch_without_a_version_begins_with_what_is_there() {
    let world = World::new();
    world.server.upsert(pod("a")).unwrap();
    world.server.upsert(pod("b")).unwrap();
    for from in ["0", ""] {
        assert_eq!(take(&world, plain(), from, 2).await, ["ADDED a", "ADDED b"]);
    }
}

#[tokio::test]
async fn a_pod_that_begins_or_ceases_to_match_is_added_or_deleted() {
    let world = World::new();
    let from = version(&world).await;
    let mut moved = pod("cart");
    world.server.upsert(moved.clone()).unwrap();
    for phase in ["Running", "Succeeded"] {
        moved["status"] = json!({"phase": phase});
        world.server.upsert(moved.clone()).unwrap();
    }
    let running = plain().fields("status.phase=Running");
    assert_eq!(take(&world, running, &from, 2).await, ["ADDED cart", "DELETED cart"]);
}

#[tokio::test]
async fn a_version_out_of_the_window_has_expired() {
    let world = World::with(|options| options.history = 2);
    let from = version(&world).await;
    for name in ["a", "b"] {
        world.server.upsert(pod(name)).unwrap();
    }
    assert_eq!(take(&world, plain(), &from, 2).await, ["ADDED a", "ADDED b"], "still within the window");
    world.server.upsert(pod("c")).unwrap();
    assert_eq!(take(&world, plain(), &from, 9).await, ["ERROR 410 Expired"]);
    assert_eq!(take(&world, plain().timeout(1), "9999", 9).await, [""; 0], "the future is waited for");
    let newest = version(&world).await;
    world.server.upsert(pod("d")).unwrap();
    world.server.compact();
    assert_eq!(take(&world, plain(), &newest, 9).await, ["ERROR 410 Expired"]);
}

#[tokio::test(start_paused = true)]
async fn bookmarks_come_to_those_who_ask_and_the_limit_ends_a_watch() {
    let world = World::new();
    let from = version(&world).await;
    let limited = WatchParams { timeout: Some(90), ..WatchParams::default() };
    let bookmark = format!("BOOKMARK {from}");
    let both = vec![bookmark.clone(), bookmark];
    let pods: Api<Pod> = Api::namespaced(world.server.client(), "shop");
    let stream = pods.watch(&limited, &from).await.unwrap();
    let seen: Vec<String> = stream.map_ok(|event| short(&event)).try_collect().await.unwrap();
    assert_eq!(seen, both, "one after a minute and one at the end");
    let silent = pods.watch(&WatchParams { bookmarks: false, ..limited }, &from).await.unwrap();
    assert_eq!(silent.boxed().next().await.map(|event| short(&event.unwrap())), None);
}

#[tokio::test]
async fn a_streaming_list_ends_with_a_marked_bookmark() {
    let world = World::new();
    world.server.upsert(pod("a")).unwrap();
    let pods: Api<Pod> = Api::namespaced(world.server.client(), "shop");
    let params = WatchParams::default().initial_events();
    let stream = pods.watch(&params, "0").await.unwrap();
    let seen: Vec<_> = soon(stream.take(2).try_collect()).await.unwrap();
    let WatchEvent::Bookmark(bookmark) = &seen[1] else { panic!("{seen:?}") };
    assert_eq!(bookmark.metadata.annotations["k8s.io/initial-events-end"], "true");
}

#[tokio::test]
async fn the_lab_subscribes_and_waits_without_polling() {
    let world = World::new();
    let mut changes = world.server.subscribe();
    let server = world.server.clone();
    let running = tokio::spawn(async move {
        soon(
            server
                .until(|server| server.pod("shop", "cart").filter(|pod| pod["status"]["phase"] == "Running")),
        )
        .await
    });
    world.server.upsert(pod("cart")).unwrap();
    let mut up = pod("cart");
    up["status"] = json!({"phase": "Running"});
    world.server.upsert(up).unwrap();
    assert_eq!(running.await.unwrap()["metadata"]["name"], "cart");
    for action in [Action::Added, Action::Modified] {
        let change = soon(changes.next()).await.unwrap();
        assert_eq!((change.action, change.key.name.as_str()), (action, "cart"));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watchers_miss_nothing_while_many_write() {
    let world = World::new();
    let from = version(&world).await;
    let pods: Api<Pod> = Api::namespaced(world.server.client(), "shop");
    let writers = (0..4).map(|writer| {
        let server = world.server.clone();
        tokio::spawn(async move {
            for number in 0..50 {
                server.upsert(pod(&format!("p{writer}-{number}"))).unwrap();
            }
        })
    });
    let watchers: Vec<_> = (0..4)
        .map(|_| {
            let (pods, from) = (pods.clone(), from.clone());
            tokio::spawn(async move {
                let stream = pods.watch(&plain(), &from).await.unwrap().take(200);
                let events: Vec<_> = soon(stream.try_collect()).await.unwrap();
                events.iter().map(short).collect::<Vec<_>>()
            })
        })
        .collect();
    futures::future::try_join_all(writers).await.unwrap();
    let mut orders = futures::future::try_join_all(watchers).await.unwrap();
    let first = orders.pop().unwrap();
    assert!(orders.iter().all(|order| *order == first), "watchers saw different orders");
    let distinct: std::collections::BTreeSet<_> = first.iter().collect();
    assert_eq!(distinct.len(), 200);
}

#[tokio::test]
async fn a_streaming_list_is_refused_where_the_server_has_none_and_by_what_does_not_fit() {
    let world = World::with(|options| options.gates = Gates::OLDEST);
    let pods: Api<Pod> = Api::namespaced(world.server.client(), "shop");
    let streamed = WatchParams::default().initial_events();
    let (code, reason) = refusal(pods.watch(&streamed, "0").await.map(drop));
    assert_eq!((code, reason.as_str()), (422, "Invalid"));
    world.server.set_gates(Gates::default());
    assert!(pods.watch(&streamed, "0").await.is_ok());
    assert_eq!(take(&world, streamed, "9999", 9).await, ["ERROR 504 Timeout"]);
}

#[tokio::test]
async fn a_list_of_an_old_version_expires_only_if_it_has_to_be_of_exactly_that() {
    let world = World::new();
    world.server.upsert(pod("a")).unwrap();
    let old = version(&world).await;
    world.server.upsert(pod("b")).unwrap();
    let pods: Api<Pod> = Api::namespaced(world.server.client(), "shop");
    let at_old = || ListParams::default().at(&old);
    let names = async |params: &ListParams| pods.list(params).await.map(|list| list.items.len());
    assert_eq!(names(&at_old().matching(VersionMatch::Exact)).await.unwrap(), 1);
    assert_eq!(names(&at_old().limit(5)).await.unwrap(), 1, "as older servers understand it");
    world.server.compact();
    assert_eq!(refusal(names(&at_old().limit(5)).await).0, 410);
    assert_eq!(names(&at_old().matching(VersionMatch::NotOlderThan)).await.unwrap(), 2);
    assert_eq!(names(&at_old()).await.unwrap(), 2);
}

#[tokio::test]
async fn the_log_says_who_answered_a_read() {
    let world = World::new();
    world.server.upsert(pod("a")).unwrap();
    let pods: Api<Pod> = Api::namespaced(world.server.client(), "shop");
    pods.get("a").await.unwrap();
    pods.list(&ListParams::default().at("0")).await.unwrap();
    pods.list(&ListParams::default()).await.unwrap();
    let mut stream = pods.watch(&WatchParams::default().initial_events(), "0").await.unwrap().boxed();
    for _ in 0..2 {
        soon(stream.next()).await.unwrap().unwrap();
    }
    let reads: Vec<_> = world.server.requests().iter().map(|one| one.read).collect();
    assert_eq!(reads, [Some(Read::Storage), Some(Read::Cache), Some(Read::Version), Some(Read::Cache)]);
}

#[tokio::test]
async fn pages_are_of_one_version_until_it_is_forgotten() {
    let world = World::new();
    for name in ["a", "b", "c"] {
        world.server.upsert(pod(name)).unwrap();
    }
    let pods: Api<Pod> = Api::namespaced(world.server.client(), "shop");
    let names = |list: &kube::core::ObjectList<Pod>| {
        list.items.iter().filter_map(|pod| pod.metadata.name.clone()).collect::<String>()
    };
    let first = pods.list(&ListParams::default().limit(2)).await.unwrap();
    assert_eq!((names(&first).as_str(), first.metadata.remaining_item_count), ("ab", Some(1)));
    world.server.upsert(pod("d")).unwrap();
    let token = first.metadata.continue_.clone().unwrap();
    let rest = ListParams::default().limit(2).continue_token(&token);
    let second = pods.list(&rest).await.unwrap();
    assert_eq!((names(&second).as_str(), second.metadata.continue_.as_deref().unwrap_or("")), ("c", ""));
    assert_eq!(second.metadata.resource_version, first.metadata.resource_version);
    world.server.compact();
    assert_eq!(refusal(pods.list(&rest).await), (410, "Expired".into()));
    let bad = ListParams::default().continue_token("nonsense");
    assert_eq!(refusal(pods.list(&bad).await), (400, "BadRequest".into()));
}
