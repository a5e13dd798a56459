// SPDX-License-Identifier: Apache-2.0
//! Faults by what is asked, by number, by time and by chance; streams that go wrong while they are open; pages.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use apiserver::{Connecting, Effect, Fault, Odds, Timestamp, Verb};
use futures::StreamExt as _;
use http::StatusCode;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::{Api, ListParams, WatchEvent, WatchParams};

use crate::common::{World, pod, refusal, soon};

fn pods(world: &World) -> Api<Pod> {
    Api::namespaced(world.server.client(), "shop")
}

fn busy() -> Effect {
    Effect::answer(StatusCode::SERVICE_UNAVAILABLE)
}

/// Results of some gets of `cart`: true if the store answered.
async fn gets(world: &World, count: usize) -> Vec<bool> {
    let mut seen = Vec::new();
    for _ in 0..count {
        seen.push(pods(world).get("cart").await.is_ok());
    }
    seen
}

fn with_cart() -> World {
    let world = World::new();
    world.server.upsert(pod("cart")).unwrap();
    world
}

#[tokio::test]
async fn a_fault_meets_only_its_resource_and_name() {
    let world = with_cart();
    let faults = world.server.faults();
    faults.add(Fault { name: Some("cart".into()), ..Fault::about(Verb::Get, "pods", busy()) });
    assert_eq!(refusal(pods(&world).get("cart").await), (503, "ServiceUnavailable".into()));
    assert_eq!(refusal(pods(&world).get("other").await), (404, "NotFound".into()));
    let maps: Api<ConfigMap> = Api::namespaced(world.server.client(), "shop");
    assert_eq!(refusal(maps.get("cart").await), (404, "NotFound".into()));
    faults.add(Fault { name: Some("conf".into()), ..Fault::about(Verb::List, "configmaps", busy()) });
    maps.list(&ListParams::default()).await.unwrap();
    let named = maps.list(&ListParams::default().fields("metadata.name=conf")).await;
    assert_eq!(refusal(named), (503, "ServiceUnavailable".into()));
}

#[tokio::test]
async fn a_fault_begins_and_ends_by_number_time_and_chance() {
    let world = with_cart();
    let faults = world.server.faults();
    faults.add(Fault { skip: 2, ..Fault::about(Verb::Get, "pods", busy()) }.first(1));
    assert_eq!(gets(&world, 4).await, [true, true, false, true]);
    faults.clear();
    let at = |second: i64| Timestamp::from_second(1_700_000_000 + second).unwrap();
    faults.add(Fault { during: Some(at(5)..at(10)), ..Fault::about(Verb::Get, "pods", busy()) });
    for expected in [true, false, true] {
        assert_eq!(gets(&world, 1).await, [expected]);
        world.pass(5);
    }
    let chance = async |seed| {
        faults.clear();
        let odds = Some(Odds { percent: 50, seed });
        faults.add(Fault { odds, ..Fault::about(Verb::Get, "pods", busy()) });
        gets(&world, 64).await
    };
    let first = chance(1).await;
    assert!(first.contains(&true) && first.contains(&false));
    assert_eq!((chance(1).await == first, chance(2).await == first), (true, false));
}

#[tokio::test]
async fn an_open_watch_falls_silent_and_comes_back() {
    let world = with_cart();
    let mut watch = pods(&world).watch(&WatchParams::default(), "0").await.unwrap().boxed();
    assert!(matches!(soon(watch.next()).await, Some(Ok(WatchEvent::Added(_)))));
    let silence = world.server.faults().add(Fault::about(Verb::Watch, "pods", Effect::Silence));
    world.server.upsert(pod("late")).unwrap();
    assert!(tokio::time::timeout(Duration::from_millis(50), watch.next()).await.is_err(), "nothing is told");
    assert_eq!(world.server.faults().hits(silence), 1);
    world.server.faults().remove(silence);
    assert!(matches!(soon(watch.next()).await, Some(Ok(WatchEvent::Added(_)))));
}

#[tokio::test]
async fn an_open_watch_ends_with_an_error_event_or_is_cut() {
    let world = with_cart();
    let open = async || pods(&world).watch(&WatchParams::default(), "0").await.unwrap().boxed();
    let mut watch = open().await;
    soon(watch.next()).await.unwrap().unwrap();
    let gone = Effect::ErrorEvent(StatusCode::GONE);
    world.server.faults().add(Fault::about(Verb::Watch, "pods", gone).first(1));
    let Some(Ok(WatchEvent::Error(status))) = soon(watch.next()).await else { panic!() };
    assert_eq!((status.code, status.reason.as_str()), (410, "Expired"));
    assert!(soon(watch.next()).await.is_none());
    world.server.upsert(pod("second")).unwrap();
    world.server.faults().add(Fault::about(Verb::Watch, "pods", Effect::Cut { after: 1 }).first(1));
    let mut watch = open().await;
    assert!(matches!(soon(watch.next()).await, Some(Ok(WatchEvent::Added(_)))));
    assert!(matches!(soon(watch.next()).await, Some(Err(_))));
    let mut whole = open().await;
    for _ in 0..2 {
        assert!(matches!(soon(whole.next()).await, Some(Ok(WatchEvent::Added(_)))));
    }
}

#[tokio::test]
async fn the_past_is_listed_and_told_again() {
    let world = with_cart();
    world.server.upsert(pod("second")).unwrap();
    let newest = pods(&world).list(&ListParams::default()).await.unwrap().metadata.resource_version.unwrap();
    world.server.faults().add(Fault::about(Verb::List, "pods", Effect::Past(1)));
    let old = pods(&world).list(&ListParams::default()).await.unwrap();
    assert_eq!((old.items.len(), old.metadata.resource_version.unwrap() < newest), (1, true));
    world.server.faults().add(Fault::about(Verb::Watch, "pods", Effect::Past(1)));
    let mut watch = pods(&world).watch(&WatchParams::default(), &newest).await.unwrap().boxed();
    let Some(Ok(WatchEvent::Added(again))) = soon(watch.next()).await else { panic!() };
    assert_eq!(again.metadata.name.as_deref(), Some("second"));
}

#[tokio::test(start_paused = true)]
async fn an_answer_trickles() {
    let world = with_cart();
    let drip = Effect::Drip { bytes: 10, every: Duration::from_secs(1) };
    world.server.faults().add(Fault::about(Verb::List, "pods", drip));
    let start = tokio::time::Instant::now();
    let (api, lists) = (pods(&world), ListParams::default());
    let both = futures::future::join(api.list(&lists), api.list(&lists)).await;
    assert_eq!(both.0.unwrap().items.len() + both.1.unwrap().items.len(), 2);
    assert!(start.elapsed() > Duration::from_secs(20), "{:?}", start.elapsed());
}

#[tokio::test]
async fn pages_are_of_one_version_until_it_is_forgotten() {
    let world = World::new();
    for name in ["a", "b", "c"] {
        world.server.upsert(pod(name)).unwrap();
    }
    let names = |list: &kube::core::ObjectList<Pod>| {
        list.items.iter().filter_map(|pod| pod.metadata.name.clone()).collect::<String>()
    };
    let first = pods(&world).list(&ListParams::default().limit(2)).await.unwrap();
    assert_eq!((names(&first).as_str(), first.metadata.remaining_item_count), ("ab", Some(1)));
    world.server.upsert(pod("d")).unwrap();
    let token = first.metadata.continue_.clone().unwrap();
    let rest = ListParams::default().limit(2).continue_token(&token);
    let second = pods(&world).list(&rest).await.unwrap();
    assert_eq!((names(&second).as_str(), second.metadata.continue_.as_deref().unwrap_or("")), ("c", ""));
    assert_eq!(second.metadata.resource_version, first.metadata.resource_version);
    world.server.compact();
    assert_eq!(refusal(pods(&world).list(&rest).await), (410, "Expired".into()));
    let bad = ListParams::default().continue_token("nonsense");
    assert_eq!(refusal(pods(&world).list(&bad).await), (400, "BadRequest".into()));
}

#[tokio::test]
async fn connections_are_reset_before_or_in_the_handshake() {
    let world = World::new();
    let handle = world.server.serve_tls(TcpListener::bind("127.0.0.1:0").unwrap()).unwrap();
    let address = handle.address();
    for effect in [Connecting::Reset, Connecting::ResetHandshake] {
        world.server.faults().connections(effect, Some(1));
        let call = tokio::task::spawn_blocking(move || {
            // Whichever call meets the reset first reports it.
            let asked = TcpStream::connect(address).and_then(|mut stream| {
                stream.set_read_timeout(Some(Duration::from_secs(10)))?;
                stream.write_all(b"\x16\x03\x01")?;
                stream.read(&mut [0; 16])
            });
            asked.map_err(|error| error.kind())
        });
        assert_eq!(soon(call).await.unwrap(), Err(std::io::ErrorKind::ConnectionReset), "{effect:?}");
    }
}
