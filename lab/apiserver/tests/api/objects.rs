// SPDX-License-Identifier: Apache-2.0
//! A kube client in process: reading and writing objects.

use crate::common::{World, pod, refusal};
use apiserver::Timestamp;
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{ConfigMap, Event, Namespace, Node, Pod};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions};
use serde_json::{Value, from_value, json};

fn typed<T: serde::de::DeserializeOwned>(value: Value) -> T {
    from_value(value).unwrap()
}

fn pods(world: &World) -> Api<Pod> {
    Api::namespaced(world.server.client(), "shop")
}

#[tokio::test]
async fn create_fills_in_what_the_server_owns() {
    let world = World::new();
    let mut given = pod("cart");
    given["status"] = json!({"phase": "Running"});
    given["metadata"]["uid"] = json!("mine");
    let made = pods(&world).create(&PostParams::default(), &typed(given)).await.unwrap();
    let uid = made.metadata.uid.unwrap();
    assert_eq!(uid.len(), 36);
    assert_eq!(made.metadata.creation_timestamp.unwrap().0, Timestamp::from_second(1_700_000_000).unwrap());
    assert_eq!(made.status.unwrap().phase.as_deref(), Some("Pending"), "the creator's status is dropped");
    assert_eq!(made.spec.unwrap().service_account_name.as_deref(), Some("default"));
    let read = pods(&world).get("cart").await.unwrap();
    assert_eq!(read.metadata.uid, Some(uid));
    assert_eq!(refusal(pods(&world).get("gone").await), (404, "NotFound".into()));
}

#[tokio::test]
async fn create_refuses_a_taken_name_and_an_unknown_namespace() {
    let world = World::new();
    let create = PostParams::default();
    pods(&world).create(&create, &typed(pod("cart"))).await.unwrap();
    assert_eq!(
        refusal(pods(&world).create(&create, &typed(pod("cart"))).await),
        (409, "AlreadyExists".into())
    );
    let mut nowhere = pod("cart");
    nowhere["metadata"]["namespace"] = json!("nowhere");
    let api: Api<Pod> = Api::namespaced(world.server.client(), "nowhere");
    assert_eq!(refusal(api.create(&create, &typed(nowhere.clone())).await), (404, "NotFound".into()));
    assert_eq!(refusal(pods(&world).create(&create, &typed(nowhere)).await), (400, "BadRequest".into()));
    let nameless = json!({"metadata": {}, "spec": {"containers": [{"name": "a", "image": "a"}]}});
    assert_eq!(refusal(pods(&world).create(&create, &typed(nameless)).await), (422, "Invalid".into()));
}

#[tokio::test]
async fn generate_name_makes_distinct_names_and_a_dry_run_makes_none() {
    let world = World::new();
    let template: Pod = typed(
        json!({"metadata": {"generateName": "cart-"}, "spec": {"containers": [{"name": "a", "image": "a"}]}}),
    );
    let dry = PostParams { dry_run: true, ..PostParams::default() };
    pods(&world).create(&dry, &template).await.unwrap();
    let first = pods(&world).create(&PostParams::default(), &template).await.unwrap().metadata.name.unwrap();
    let second = pods(&world).create(&PostParams::default(), &template).await.unwrap().metadata.name.unwrap();
    assert!(first.starts_with("cart-") && first.len() == 10 && first != second, "{first} {second}");
    assert_eq!(pods(&world).list(&ListParams::default()).await.unwrap().items.len(), 2);
}

#[tokio::test]
async fn list_selects_by_label_and_field_over_one_or_all_namespaces() {
    let world = World::new();
    world.server.create_namespace("other", &Default::default()).unwrap();
    for (namespace, name, node) in [("shop", "a", "n1"), ("shop", "b", "n2"), ("other", "c", "n1")] {
        let mut pod = pod(name);
        pod["metadata"]["namespace"] = json!(namespace);
        pod["metadata"]["labels"] = json!({"app": name});
        pod["spec"]["nodeName"] = json!(node);
        pod["status"] = json!({"phase": "Running"});
        world.server.upsert(pod).unwrap();
    }
    let all: Api<Pod> = Api::all(world.server.client());
    let names = async |api: &Api<Pod>, labels: &str, fields: &str| {
        let found = api.list(&ListParams::default().labels(labels).fields(fields)).await.unwrap();
        assert!(found.metadata.resource_version.is_some());
        found.items.into_iter().filter_map(|pod| pod.metadata.name).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(names(&all, "", "").await, "c a b", "in order of namespace and name");
    assert_eq!(names(&pods(&world), "", "").await, "a b");
    assert_eq!(names(&all, "", "spec.nodeName=n1").await, "c a");
    assert_eq!(names(&all, "app in (a,b)", "status.phase=Running,spec.nodeName!=n1").await, "b");
    assert_eq!(names(&all, "", "metadata.name=c").await, "c");
    let bad = all.list(&ListParams::default().fields("spec.hostname=x")).await;
    assert_eq!(refusal(bad), (400, "BadRequest".into()));
    let future = ListParams { resource_version: Some("9999".into()), ..ListParams::default() };
    assert_eq!(refusal(all.list(&future).await), (504, "Timeout".into()));
}

#[tokio::test]
async fn an_update_needs_the_version_it_was_made_from() {
    let world = World::new();
    let api: Api<ConfigMap> = Api::namespaced(world.server.client(), "shop");
    let map = typed(json!({"metadata": {"name": "m"}, "data": {"k": "1"}}));
    let old = api.create(&PostParams::default(), &map).await.unwrap();
    let mut new = old.clone();
    new.data.as_mut().unwrap().insert("k".into(), "2".into());
    let updated = api.replace("m", &PostParams::default(), &new).await.unwrap();
    assert_ne!(updated.metadata.resource_version, old.metadata.resource_version);
    assert_eq!(refusal(api.replace("m", &PostParams::default(), &new).await), (409, "Conflict".into()));
    let same = api.replace("m", &PostParams::default(), &updated).await.unwrap();
    assert_eq!(same, updated, "an update without a change makes no version");
    let stale = json!({"metadata": {"resourceVersion": old.metadata.resource_version}, "data": {"k": "3"}});
    let patch = api.patch("m", &PatchParams::default(), &Patch::Merge(stale)).await;
    assert_eq!(refusal(patch), (409, "Conflict".into()));
}

#[tokio::test]
async fn patches_merge() {
    let world = World::new();
    let mut given = pod("cart");
    given["metadata"]["labels"] = json!({"a": "1", "b": "2"});
    world.server.upsert(given).unwrap();
    let params = PatchParams::default();
    let labels = json!({"metadata": {"labels": {"a": null, "c": "3"}}});
    pods(&world).patch("cart", &params, &Patch::Merge(&labels)).await.unwrap();
    let annotated = json!({"metadata": {"annotations": {"x": "y"}}, "status": {"phase": "Failed"}});
    pods(&world).patch("cart", &params, &Patch::Merge(&annotated)).await.unwrap();
    let env = json!({"spec": {"containers": [{"name": "app", "env": [{"name": "A", "value": "1"}]}]}});
    pods(&world).patch("cart", &params, &Patch::Strategic(&env)).await.unwrap();
    let stored = world.server.pod("shop", "cart").unwrap();
    assert_eq!(stored["metadata"]["labels"], json!({"b": "2", "c": "3"}));
    assert_eq!(stored["metadata"]["annotations"], json!({"x": "y"}));
    let merged = json!([{"name": "A", "value": "1"}]);
    assert_eq!(stored["spec"]["containers"][0]["image"], "app");
    assert_eq!(stored["spec"]["containers"][0]["env"], merged, "a strategic patch merges containers by name");
    assert_eq!(stored["status"]["phase"], "Pending", "the main resource does not take a status");
    let gone = pods(&world).patch("gone", &params, &Patch::Merge(&labels)).await;
    assert_eq!(refusal(gone), (404, "NotFound".into()));
}

#[tokio::test]
async fn apply_creates_then_becomes_what_its_managers_want() {
    let world = World::new();
    let api: Api<ConfigMap> = Api::namespaced(world.server.client(), "shop");
    let apply = async |how: &PatchParams, data: serde_json::Value| {
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": data});
        api.patch("m", how, &Patch::Apply(map)).await.map(|made| json!(made.data))
    };
    let (chart, other) = (PatchParams::apply("chart"), PatchParams::apply("other"));
    assert_eq!(apply(&chart, json!({"a": "1", "b": "1"})).await.unwrap(), json!({"a": "1", "b": "1"}));
    assert_eq!(apply(&other, json!({"c": "1"})).await.unwrap(), json!({"a": "1", "b": "1", "c": "1"}));
    assert_eq!(apply(&chart, json!({"b": "2"})).await.unwrap(), json!({"b": "2", "c": "1"}));
    assert_eq!(refusal(apply(&chart, json!({"c": "2"})).await), (409, "Conflict".into()));
    assert_eq!(apply(&chart.clone().force(), json!({"c": "2"})).await.unwrap(), json!({"c": "2"}));
}

#[tokio::test]
async fn the_status_subresource_changes_status_and_labels_but_not_spec() {
    let world = World::new();
    world.server.upsert(pod("cart")).unwrap();
    let patch = json!({"metadata": {"labels": {"cni": "broken"}}, "spec": {"nodeName": "n9"}, "status": {"phase": "Running"}});
    let after =
        pods(&world).patch_status("cart", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    assert_eq!(after.status.unwrap().phase.as_deref(), Some("Running"));
    assert_eq!(after.spec.unwrap().node_name, None);
    assert_eq!(after.metadata.labels.unwrap()["cni"], "broken");
}

#[tokio::test]
async fn a_pod_on_a_node_is_deleted_when_its_kubelet_says_so() {
    let world = World::new();
    let mut on_node = pod("cart");
    on_node["spec"]["nodeName"] = json!("n1");
    world.server.upsert(on_node).unwrap();
    let first = pods(&world).delete("cart", &DeleteParams::default()).await.unwrap().left().unwrap();
    assert_eq!(first.metadata.deletion_grace_period_seconds, Some(30));
    let expected = Timestamp::from_second(1_700_000_030).unwrap();
    assert_eq!(first.metadata.deletion_timestamp.clone().unwrap().0, expected);
    let again = pods(&world).delete("cart", &DeleteParams::default()).await.unwrap().left().unwrap();
    assert_eq!(again.metadata.resource_version, first.metadata.resource_version);
    let wrong = Preconditions { uid: Some("another".into()), resource_version: None };
    let now = DeleteParams::default().grace_period(0);
    let refused = pods(&world).delete("cart", &now.clone().preconditions(wrong)).await;
    assert_eq!(refusal(refused), (409, "Conflict".into()));
    pods(&world).delete("cart", &now).await.unwrap();
    assert_eq!(refusal(pods(&world).delete("cart", &now).await), (404, "NotFound".into()));
}

#[tokio::test]
async fn a_pod_without_a_node_goes_at_once_but_not_before_its_finalizers() {
    let world = World::new();
    world.server.upsert(pod("free")).unwrap();
    pods(&world).delete("free", &DeleteParams::default()).await.unwrap();
    assert_eq!(world.server.pod("shop", "free"), None);
    let mut held = pod("held");
    held["metadata"]["finalizers"] = json!(["lab/wait"]);
    world.server.upsert(held).unwrap();
    pods(&world).delete("held", &DeleteParams::default()).await.unwrap();
    assert!(world.server.pod("shop", "held").unwrap()["metadata"]["deletionTimestamp"].is_string());
    let none = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    pods(&world).patch("held", &PatchParams::default(), &none).await.unwrap();
    assert_eq!(world.server.pod("shop", "held"), None);
}

#[tokio::test]
async fn a_namespace_takes_its_objects_with_it() {
    let world = World::new();
    let api: Api<Namespace> = Api::all(world.server.client());
    assert_eq!(
        api.get("shop").await.unwrap().metadata.labels.unwrap()["kubernetes.io/metadata.name"],
        "shop"
    );
    world.server.upsert(pod("cart")).unwrap();
    let mut runs = pod("runs");
    runs["spec"]["nodeName"] = "n1".into();
    world.server.upsert(runs).unwrap();
    let map =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "conf", "namespace": "shop"}});
    world.server.upsert(map).unwrap();
    let maps = Api::<ConfigMap>::namespaced(world.server.client(), "shop");

    let ending = api.delete("shop", &DeleteParams::default()).await.unwrap().left().unwrap();
    assert!(ending.metadata.deletion_timestamp.is_some());
    assert_eq!(ending.status.unwrap().phase.as_deref(), Some("Terminating"));
    assert_eq!(pods(&world).list(&ListParams::default()).await.unwrap().items.len(), 2, "not at once");
    let late = pods(&world).create(&PostParams::default(), &typed(pod("late"))).await;
    let Err(kube::Error::Api(late)) = late else { panic!("it was created") };
    assert!(late.code == 403 && late.message.ends_with("because it is being terminated"), "{}", late.message);

    while world.server.collect() {}
    let left = pods(&world).list(&ListParams::default()).await.unwrap().items;
    assert!(left.len() == 1 && left[0].metadata.deletion_timestamp.is_some(), "gracefully");
    maps.get("conf").await.expect("pods go first");
    pods(&world).delete("runs", &DeleteParams::default().grace_period(0)).await.unwrap();
    while world.server.collect() {}
    assert_eq!(refusal(maps.get("conf").await), (404, "NotFound".into()));
    assert_eq!(refusal(api.get("shop").await), (404, "NotFound".into()));
    let late = pods(&world).create(&PostParams::default(), &typed(pod("late"))).await;
    assert_eq!(refusal(late), (404, "NotFound".into()));
}

#[tokio::test]
async fn nodes_keep_their_first_status_and_daemonsets_count_generations() {
    let world = World::new();
    let nodes: Api<Node> = Api::all(world.server.client());
    let node = json!({"metadata": {"name": "n1"}, "status": {"nodeInfo": null, "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}]}});
    let made = nodes.create(&PostParams::default(), &typed(node)).await.unwrap();
    assert_eq!(made.status.unwrap().addresses.unwrap()[0].address, "10.0.0.1");
    let sets: Api<DaemonSet> = Api::namespaced(world.server.client(), "shop");
    let set = json!({"metadata": {"name": "agent"}, "spec": {"selector": {}, "template": {}}});
    let made = sets.create(&PostParams::default(), &typed(set)).await.unwrap();
    assert_eq!(made.metadata.generation, Some(1));
    let wait = Patch::Merge(json!({"spec": {"minReadySeconds": 5}}));
    let changed = sets.patch("agent", &PatchParams::default(), &wait).await.unwrap();
    assert_eq!(changed.metadata.generation, Some(2));
    assert_eq!(changed.status.unwrap().desired_number_scheduled, 0);
}

#[tokio::test]
async fn a_binding_gives_a_pod_a_node_once() {
    let world = World::new();
    world.server.upsert(pod("cart")).unwrap();
    let binding = json!({"metadata": {"name": "cart"}, "target": {"kind": "Node", "name": "n1"}});
    let bind = async || {
        let params = PostParams::default();
        pods(&world).create_subresource::<Value, Value>("binding", "cart", &params, &binding).await
    };
    bind().await.unwrap();
    assert_eq!(world.server.pod("shop", "cart").unwrap()["spec"]["nodeName"], "n1");
    assert_eq!(refusal(bind().await), (409, "Conflict".into()));
}

#[tokio::test]
async fn discovery_names_what_is_served() {
    let world = World::new();
    let client = world.server.client();
    assert_eq!(client.apiserver_version().await.unwrap().minor, "34");
    let core = client.list_core_api_resources("v1").await.unwrap();
    let names: Vec<_> = core.resources.iter().map(|resource| resource.name.as_str()).collect();
    for name in ["pods", "pods/status", "pods/binding", "serviceaccounts/token", "nodes"] {
        assert!(names.contains(&name), "{name} is not in {names:?}");
    }
    assert!(client.list_api_groups().await.unwrap().groups.iter().any(|group| group.name == "apps"));
    assert_eq!(client.list_api_group_resources("apps/v1").await.unwrap().resources[0].name, "daemonsets");
    let nothing = http::Request::get("/apis/widgets.example.com/v1/widgets").body(Vec::new()).unwrap();
    assert_eq!(refusal(client.request::<Value>(nothing).await).0, 404);
}

#[tokio::test]
async fn a_collection_is_deleted_by_selector() {
    let world = World::new();
    for (name, app) in [("a", "x"), ("b", "y"), ("c", "x")] {
        let mut pod = pod(name);
        pod["metadata"]["labels"] = json!({"app": app});
        world.server.upsert(pod).unwrap();
    }
    let chosen = ListParams::default().labels("app=x");
    let gone =
        pods(&world).delete_collection(&DeleteParams::default(), &chosen).await.unwrap().left().unwrap();
    assert_eq!(gone.items.len(), 2);
    let left = pods(&world).list(&ListParams::default()).await.unwrap();
    assert_eq!(left.items[0].metadata.name.as_deref(), Some("b"));
    assert_eq!(left.items.len(), 1);
}

#[tokio::test]
async fn events_are_found_by_what_they_are_about() {
    let world = World::new();
    let api: Api<Event> = Api::namespaced(world.server.client(), "shop");
    for name in ["cart", "basket"] {
        let about = json!({"kind": "Pod", "namespace": "shop", "name": name});
        let event =
            json!({"metadata": {"generateName": "e-"}, "involvedObject": about, "reason": "Repaired"});
        api.create(&PostParams::default(), &typed(event)).await.unwrap();
    }
    let params = ListParams::default().fields("involvedObject.name=cart,reason=Repaired");
    assert_eq!(api.list(&params).await.unwrap().items.len(), 1);
}

/// Whatever is sent, the answer is a `Status` with its own code, and the server lives.
#[tokio::test]
async fn odd_bodies_are_refused() {
    let world = World::new();
    world.server.upsert(pod("cart")).unwrap();
    let client = world.server.client();
    let (merge, json, cart) =
        ("application/merge-patch+json", "application/json", "/api/v1/namespaces/shop/pods/cart");
    let list = "/api/v1/namespaces/shop/pods";
    let deep = "[".repeat(100_000);
    let huge = format!("\"{}\"", "x".repeat(4 << 20));
    let cases = [
        ("POST", list, json, "", 400),
        ("POST", list, json, "[]", 400),
        ("POST", list, json, "{", 400),
        ("POST", list, json, &deep, 400),
        ("POST", list, json, &huge, 413),
        ("POST", list, "application/vnd.kubernetes.protobuf", "k8s", 415),
        ("POST", list, json, r#"{"metadata":7}"#, 400),
        ("POST", list, json, r#"{"metadata":{"name":"x","labels":[1]}}"#, 400),
        ("POST", list, json, r#"{"metadata":{"name":"x"},"spec":"s"}"#, 400),
        ("POST", list, json, r#"{"kind":"Node","metadata":{"name":"x"}}"#, 400),
        ("POST", "/api/v1/pods", json, r#"{"metadata":{"name":"x"}}"#, 405),
        ("PUT", list, json, "{}", 405),
        ("PUT", cart, json, r#"{"metadata":{"name":"x"}}"#, 400),
        ("PATCH", cart, merge, r#"{"metadata":"x"}"#, 400),
        ("PATCH", cart, merge, r#"{"metadata":null}"#, 400),
        ("PATCH", cart, merge, r#"{"spec":[1]}"#, 400),
        ("PATCH", cart, merge, "7", 400),
        ("PATCH", cart, "application/json-patch+json", "{}", 400),
        ("PATCH", cart, "application/x-patch", "[]", 415),
        ("GET", "/api/v1/pods?watch=true&resourceVersion=x", json, "", 500),
        ("GET", "/api/v1/pods?labelSelector=%28", json, "", 400),
        ("GET", "/api/v1/widgets", json, "", 404),
        ("GET", "/elsewhere", json, "", 404),
    ];
    for (method, path, content_type, body, code) in cases {
        let request = http::Request::builder().method(method).uri(path).header("content-type", content_type);
        let answer = client.request::<Value>(request.body(body.into()).unwrap()).await;
        let shown = body.get(..body.len().min(60));
        assert_eq!(refusal(answer).0, code, "{method} {path} {content_type} {shown:?}");
    }
    pods(&world).get("cart").await.unwrap();
}

#[tokio::test]
async fn a_json_patch_applies_whole_or_not_at_all() {
    let world = World::new();
    world.server.upsert(pod("cart")).unwrap();
    let patch = async |operations: Value| {
        let request = http::Request::patch("/api/v1/namespaces/shop/pods/cart")
            .header("content-type", "application/json-patch+json")
            .body(operations.to_string().into_bytes());
        world.server.client().request::<Pod>(request.unwrap()).await
    };
    let labelled = json!([{"op": "add", "path": "/metadata/labels", "value": {"a": "1"}}]);
    patch(labelled).await.unwrap();
    let tested = |value: &str| {
        json!([{"op": "test", "path": "/metadata/labels/a", "value": value},
               {"op": "replace", "path": "/metadata/labels/a", "value": "2"}])
    };
    assert_eq!(patch(tested("1")).await.unwrap().metadata.labels.unwrap()["a"], "2");
    let Err(kube::Error::Api(refused)) = patch(tested("1")).await else { panic!() };
    let expected = (422, "Invalid", "the server rejected our request due to an error in our request");
    assert_eq!((refused.code, refused.reason.as_str(), refused.message.as_str()), expected);
    let stale = json!([{"op": "replace", "path": "/metadata/resourceVersion", "value": "1"},
                       {"op": "replace", "path": "/metadata/labels/a", "value": "3"}]);
    assert_eq!(refusal(patch(stale).await), (409, "Conflict".into()));
    assert_eq!(world.server.pod("shop", "cart").unwrap()["metadata"]["labels"]["a"], "2");
}

#[tokio::test]
async fn a_patch_of_the_status_leaves_spec_and_owners() {
    let world = World::new();
    let mut given = pod("cart");
    given["metadata"]["ownerReferences"] =
        json!([{"uid": "u", "name": "o", "kind": "Job", "apiVersion": "batch/v1"}]);
    given["status"] =
        json!({"conditions": [{"type": "Ready", "status": "False"}, {"type": "Other", "status": "True"}]});
    world.server.upsert(given).unwrap();
    let patch = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}, "spec": {"nodeName": "n"},
                       "metadata": {"labels": {"a": "1"}, "ownerReferences": null}});
    pods(&world).patch_status("cart", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    let stored = world.server.pod("shop", "cart").unwrap();
    assert_eq!(stored["status"]["conditions"], json!([{"type": "Ready", "status": "True"}]));
    assert_eq!(
        (&stored["metadata"]["labels"]["a"], &stored["spec"]["nodeName"]),
        (&json!("1"), &Value::Null)
    );
    assert_eq!(stored["metadata"]["ownerReferences"][0]["uid"], "u");
}

/// A DaemonSet and its pods, which run on a node.
fn with_daemon() -> World {
    let world = World::new();
    let labels = json!({"a": "b"});
    let set = json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "d", "namespace": "shop"},
        "spec": {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": pod("d")["spec"]}},
    });
    let set = world.server.upsert(set).unwrap();
    for name in ["d-1", "d-2"] {
        let mut owned = pod(name);
        owned["metadata"]["ownerReferences"] = json!([{"uid": set["metadata"]["uid"], "name": "d", "kind": "DaemonSet", "apiVersion": "apps/v1"}]);
        owned["spec"]["nodeName"] = json!("n1");
        world.server.upsert(owned).unwrap();
    }
    world.server.upsert(pod("other")).unwrap();
    world
}

#[tokio::test]
async fn a_deleted_owner_takes_its_dependents_with_it_before_after_or_not() {
    let sets = |world: &World| Api::<DaemonSet>::namespaced(world.server.client(), "shop");
    let deleting =
        |world: &World| !world.server.pod("shop", "d-1").unwrap()["metadata"]["deletionTimestamp"].is_null();
    let now = DeleteParams::default().grace_period(0);

    let world = with_daemon();
    sets(&world).delete("d", &DeleteParams::background()).await.unwrap();
    assert_eq!(refusal(sets(&world).get("d").await), (404, "NotFound".into()));
    assert!(!deleting(&world), "not at once");
    while world.server.collect() {}
    assert!(deleting(&world), "its pod ends gracefully, after it");
    assert!(world.server.pod("shop", "other").is_some());

    let world = with_daemon();
    sets(&world).delete("d", &DeleteParams::foreground()).await.unwrap();
    let waiting = sets(&world).get("d").await.unwrap().metadata;
    assert!(waiting.deletion_timestamp.is_some() && !deleting(&world), "not at once");
    while world.server.collect() {}
    assert!(deleting(&world), "both are ending, the pod first");
    pods(&world).delete("d-1", &now).await.unwrap();
    while world.server.collect() {}
    sets(&world).get("d").await.unwrap();
    pods(&world).delete("d-2", &now).await.unwrap();
    while world.server.collect() {}
    assert_eq!(refusal(sets(&world).get("d").await), (404, "NotFound".into()));

    let world = with_daemon();
    sets(&world).delete("d", &DeleteParams::orphan()).await.unwrap();
    while world.server.collect() {}
    assert!(!deleting(&world));
    assert!(world.server.pod("shop", "d-1").unwrap()["metadata"]["ownerReferences"].is_null());
}

#[tokio::test]
async fn an_event_lives_where_the_object_is_that_it_is_about() {
    let world = World::new();
    let events: Api<Event> = Api::namespaced(world.server.client(), "shop");
    let event = |about: Value| typed(json!({"metadata": {"generateName": "e."}, "involvedObject": about}));
    let create = PostParams::default();
    events.create(&create, &event(json!({"namespace": "shop", "name": "cart"}))).await.unwrap();
    for about in [json!({"namespace": "other", "name": "cart"}), json!({"kind": "Node", "name": "n"})] {
        assert_eq!(refusal(events.create(&create, &event(about)).await), (422, "Invalid".into()));
    }
}
