// SPDX-License-Identifier: Apache-2.0
//! The record, and faults by what is asked, by number and by time.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use cluster::{Effect, Fault, Front as _, Verb};
use http::header::AUTHORIZATION;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::{Api, ListParams};

use crate::common::{USER, World, pod, refusal};

fn busy() -> Effect {
    Effect::answer(503)
}

/// Results of some gets of `cart`: true if the server answered.
async fn gets(world: &World, count: usize) -> Vec<bool> {
    let mut seen = Vec::new();
    for _ in 0..count {
        seen.push(world.pods().get("cart").await.is_ok());
    }
    seen
}

#[tokio::test]
async fn what_is_asked_is_recorded_with_who_asks_and_what_the_server_said() {
    for world in World::both().await {
        world.pods().get("cart").await.unwrap();
        assert_eq!(refusal(world.pods().get("gone").await).0, 404);
        let maps: Api<ConfigMap> = Api::namespaced(world.client(), "shop");
        assert_eq!(refusal(maps.list(&ListParams::default()).await).0, 403);
        let stranger: Api<Pod> = Api::all(world.client_with("a stranger's"));
        assert_eq!(refusal(stranger.list(&ListParams::default()).await).0, 401);
        let seen = world.front.requests();
        let seen: Vec<_> =
            seen.iter().map(|one| (one.order, one.verb, one.resource.as_deref(), one.code)).collect();
        assert_eq!(
            seen,
            [
                (0, Verb::Get, Some("pods"), Some(200)),
                (1, Verb::Get, Some("pods"), Some(404)),
                (2, Verb::List, Some("configmaps"), Some(403)),
                (3, Verb::List, Some("pods"), Some(401)),
            ]
        );
        let requests = world.front.requests();
        assert_eq!((requests[0].user.as_str(), requests[3].user.as_str()), (USER, "(opaque token)"));
        let denied: Vec<_> = requests.iter().filter_map(|one| one.denied.as_deref()).collect();
        let why = "configmaps is forbidden: User \"system:serviceaccount:shop:default\" cannot list resource \
                   \"configmaps\" in API group \"\" in the namespace \"shop\"";
        assert_eq!(denied, [why]);
    }
}

#[tokio::test]
async fn a_fault_meets_only_its_resource_name_user_and_path() {
    for world in World::both().await {
        let front = &world.front;
        front.add(Fault { name: Some("cart".into()), ..Fault::about(Verb::Get, "pods", busy()) });
        assert_eq!(refusal(world.pods().get("cart").await), (503, "ServiceUnavailable".into()));
        assert_eq!(refusal(world.pods().get("other").await), (404, "NotFound".into()));
        front.clear();
        front.add(Fault { name: Some("cart".into()), ..Fault::about(Verb::List, "pods", busy()) });
        world.pods().list(&ListParams::default()).await.unwrap();
        let named = world.pods().list(&ListParams::default().fields("metadata.name=cart")).await;
        assert_eq!(refusal(named), (503, "ServiceUnavailable".into()));
        front.clear();
        front.add(Fault { user: Some("system:anonymous".into()), ..Fault::always(busy()) });
        front.add(Fault::on(Verb::Get, "/api/v1/nodes", busy()));
        assert_eq!(gets(&world, 1).await, [true]);
        front.add(Fault {
            user: Some(USER.into()),
            ..Fault::on(Verb::Get, "/api/v1/namespaces/shop", busy())
        });
        assert_eq!(gets(&world, 1).await, [false]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_fault_ends_by_number_and_time() {
    let world = World::in_process();
    let front = &world.front;
    front.add(Fault::about(Verb::Get, "pods", busy()).first(2));
    assert_eq!(gets(&world, 4).await, [false, false, true, true]);
    front.clear();
    let lasts = Some(Duration::from_secs(6));
    front.add(Fault { lasts, ..Fault::about(Verb::Get, "pods", busy()) });
    for expected in [false, false, true] {
        assert_eq!(gets(&world, 1).await, [expected]);
        tokio::time::advance(Duration::from_secs(5)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_trickles() {
    let world = World::in_process();
    let drip = Effect::Drip { bytes: 10, every: Duration::from_secs(1) };
    world.front.add(Fault::about(Verb::List, "pods", drip));
    let start = tokio::time::Instant::now();
    let (api, lists) = (world.pods(), ListParams::default());
    let both = futures::future::join(api.list(&lists), api.list(&lists)).await;
    assert_eq!(both.0.unwrap().items.len() + both.1.unwrap().items.len(), 2);
    assert!(start.elapsed() > Duration::from_secs(20), "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_hold_with_a_limit_then_a_failure_is_a_slow_failure() {
    let world = World::in_process();
    let front = &world.front;
    front.add(Fault::on(Verb::Get, "/", Effect::Hold(Some(Duration::from_secs(5)))));
    front.add(Fault::on(Verb::Get, "/", busy()));
    let start = tokio::time::Instant::now();
    assert_eq!(refusal(world.pods().get("cart").await), (503, "ServiceUnavailable".into()));
    assert_eq!(start.elapsed().as_secs(), 5);
    front.clear();
    front.add(Fault::on(Verb::Get, "/", Effect::Drop));
    assert!(matches!(world.pods().get("cart").await, Err(kube::Error::Service(_))));
}

#[tokio::test]
async fn a_cache_that_is_behind_answers_whoever_takes_any_version_and_nobody_else() {
    for world in World::both().await {
        let newest =
            world.pods().list(&ListParams::default()).await.unwrap().metadata.resource_version.unwrap();
        world.front.add(Fault::always(Effect::Past(newest.parse().unwrap())));
        world.server.upsert(pod("second")).unwrap();
        let seen = async |lists: ListParams| {
            let list = world.pods().list(&lists).await.unwrap();
            let names = list.items.into_iter().filter_map(|pod| pod.metadata.name).collect::<Vec<_>>();
            (names.join(" "), list.metadata.resource_version.unwrap() == newest)
        };
        let any = || ListParams::default().match_any();
        assert_eq!(seen(any()).await, ("cart".to_owned(), true));
        // With a limit kube asks without a version, and of that only a server that knows all may answer.
        assert_eq!(seen(any().limit(1)).await, ("cart".to_owned(), false));
        assert_eq!(seen(any().at(&newest).matching(kube::api::VersionMatch::NotOlderThan)).await.0, "cart");
        assert_eq!(seen(ListParams::default()).await, ("cart second".to_owned(), false));
        let next = (newest.parse::<u64>().unwrap() + 1).to_string();
        let not_older = ListParams::default().at(&next).matching(kube::api::VersionMatch::NotOlderThan);
        assert_eq!(seen(not_older).await, ("cart second".to_owned(), false));
    }
}

#[tokio::test]
async fn a_page_has_its_code_and_is_no_status() {
    let world = World::in_process();
    for (code, kind, again) in [(429, "text/plain; charset=utf-8", Some("1")), (502, "text/html", None)] {
        world.front.clear();
        world.front.add(Fault::about(Verb::Get, "pods", Effect::Page(code)));
        let request =
            http::Request::get("/api/v1/namespaces/shop/pods/cart").body(kube::client::Body::empty());
        let answer = world.front.answer(request.unwrap()).await.unwrap();
        let header = |name| answer.headers().get(name).map(|value| value.to_str().unwrap());
        assert_eq!(
            (answer.status().as_u16(), header("content-type"), header("retry-after")),
            (code, Some(kind), again)
        );
        let body = http_body_util::BodyExt::collect(answer.into_body()).await.unwrap().to_bytes();
        assert!(!body.is_empty() && !body.starts_with(b"{"), "{body:?}");
    }
}

#[tokio::test]
async fn a_pod_of_before_is_none_of_a_front_that_begins_anew() {
    let world = World::in_process();
    let ask = async |uid: &str| {
        let claims = format!(r#"{{"sub":"a","kubernetes.io":{{"pod":{{"name":"p","uid":"{uid}"}}}}}}"#);
        let token = format!("Bearer e30.{}.c2ln", URL_SAFE_NO_PAD.encode(claims));
        let request = http::Request::get("/version").header(AUTHORIZATION, token);
        world.front.answer(request.body(kube::client::Body::empty()).unwrap()).await.unwrap();
        world.front.requests().len()
    };
    assert_eq!((ask("1").await, ask("2").await), (1, 2));
    world.front.renew();
    assert_eq!((ask("1").await, ask("3").await, ask("2").await, ask("3").await), (0, 1, 1, 2));
}

#[tokio::test]
async fn a_front_that_begins_anew_has_neither_faults_nor_requests() {
    for world in World::both().await {
        world.front.add(Fault::about(Verb::Get, "pods", busy()));
        assert_eq!(gets(&world, 1).await, [false]);
        world.front.renew();
        assert!(world.front.requests().is_empty());
        assert_eq!(gets(&world, 1).await, [true]);
        // The answer is noted where it belongs, although numbers go on.
        let seen = world.front.requests();
        assert_eq!(seen.iter().map(|one| (one.order, one.code)).collect::<Vec<_>>(), [(1, Some(200))]);
    }
}
