// SPDX-License-Identifier: Apache-2.0
//! Watches that go wrong while they are open, and what the record says of their initial events.

use std::time::Duration;

use cluster::{Asked, Effect, Fault, Front as _, InitialEvents, Verb};
use futures::StreamExt as _;
use futures::stream::BoxStream;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{WatchEvent, WatchParams};

use apiserver::Gates;

use crate::common::{World, pod, soon};

type Events = BoxStream<'static, kube::Result<WatchEvent<Pod>>>;

async fn open(world: &World, from: &str) -> Events {
    world.pods().watch(&WatchParams::default(), from).await.unwrap().boxed()
}

async fn added(watch: &mut Events) -> String {
    match soon(watch.next()).await {
        Some(Ok(WatchEvent::Added(pod))) => pod.metadata.name.unwrap_or_default(),
        other => panic!("{other:?} came"),
    }
}

#[tokio::test]
async fn an_open_watch_falls_silent_and_comes_back() {
    for world in World::both().await {
        let mut watch = open(&world, "0").await;
        assert_eq!(added(&mut watch).await, "cart");
        world.front.add(Fault::about(Verb::Watch, "pods", Effect::Silence));
        world.server.upsert(pod("late")).unwrap();
        let told = tokio::time::timeout(Duration::from_millis(50), watch.next()).await;
        assert!(told.is_err(), "nothing is told");
        world.front.clear();
        assert_eq!(added(&mut watch).await, "late");
    }
}

#[tokio::test]
async fn an_open_watch_ends_with_an_error_event_or_is_cut() {
    for world in World::both().await {
        let mut watch = open(&world, "0").await;
        added(&mut watch).await;
        world.front.add(Fault::about(Verb::Watch, "pods", Effect::ErrorEvent(410)).first(1));
        let Some(Ok(WatchEvent::Error(status))) = soon(watch.next()).await else { panic!() };
        assert_eq!((status.code, status.reason.as_str()), (410, "Expired"));
        assert!(soon(watch.next()).await.is_none());
        world.server.upsert(pod("second")).unwrap();
        world.front.add(Fault::about(Verb::Watch, "pods", Effect::Cut { after: 1 }).first(1));
        let mut watch = open(&world, "0").await;
        assert_eq!(added(&mut watch).await, "cart");
        assert!(matches!(soon(watch.next()).await, Some(Err(_))));
        let mut whole = open(&world, "0").await;
        for name in ["cart", "second"] {
            assert_eq!(added(&mut whole).await, name);
        }
    }
}

#[tokio::test]
async fn the_record_says_when_the_initial_events_were_told_and_when_they_are_refused() {
    let refusing = || World::with(Gates { request_watch_progress: false, ..Gates::default() });
    let [in_process, over_the_network] = World::both().await;
    for (world, wanted) in [
        (in_process, InitialEvents::Told),
        (over_the_network, InitialEvents::Told),
        (refusing(), InitialEvents::Refused),
        (World::with(Gates::OLDEST), InitialEvents::Refused),
    ] {
        let streamed = WatchParams::default().initial_events();
        let watch = world.pods().watch(&streamed, "0").await;
        let events = async {
            match watch {
                Ok(watch) => watch.boxed().for_each(|_| async {}).await,
                Err(_) => std::future::pending().await,
            }
        };
        let is_known = |one: &Asked| one.initial == Some(wanted);
        let known = world.front.until_requests(1, &is_known);
        soon(futures::future::select(Box::pin(events), Box::pin(known))).await;
        assert_eq!(world.front.requests()[0].initial, Some(wanted));
    }
}
