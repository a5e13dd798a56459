// SPDX-License-Identifier: Apache-2.0
//! Kinds that controllers make pods for: what the server fills in, refuses and scales.

use crate::common::{World, pod, refusal};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::autoscaling::v1::Scale;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::{Value, from_value, json};

fn job(policy: &Value) -> Job {
    let template = json!({"spec": {"containers": [], "restartPolicy": policy}});
    from_value(json!({"metadata": {"name": "sum"}, "spec": {"template": template}})).unwrap()
}

#[tokio::test]
async fn a_job_selects_its_pods_by_its_uid_and_has_defaults() {
    let world = World::new();
    let jobs: Api<Job> = Api::namespaced(world.server.client(), "shop");
    let made = jobs.create(&PostParams::default(), &job(&json!("Never"))).await.unwrap();
    let (uid, spec) = (made.metadata.uid.unwrap(), made.spec.unwrap());
    assert_eq!((spec.completions, spec.parallelism, spec.backoff_limit), (Some(1), Some(1), Some(6)));
    let selector = spec.selector.unwrap().match_labels.unwrap();
    assert_eq!(selector.get("batch.kubernetes.io/controller-uid"), Some(&uid));
    let labels = spec.template.metadata.unwrap().labels.unwrap();
    let keys = ["batch.kubernetes.io/controller-uid", "controller-uid"].map(|key| labels.get(key));
    assert_eq!(keys, [Some(&uid), Some(&uid)]);
    assert_eq!(labels.get("job-name").map(String::as_str), Some("sum"));
}

#[tokio::test]
async fn a_job_whose_pods_never_end_is_refused() {
    let world = World::new();
    let jobs: Api<Job> = Api::namespaced(world.server.client(), "shop");
    for policy in [json!("Always"), Value::Null] {
        let refused = jobs.create(&PostParams::default(), &job(&policy)).await;
        assert_eq!(refusal(refused), (422, "Invalid".into()), "{policy}");
    }
}

#[tokio::test]
async fn scale_reads_and_changes_the_replicas_alone() {
    let world = World::new();
    let sets: Api<Deployment> = Api::namespaced(world.server.client(), "shop");
    let template = json!({"metadata": {"labels": {"app": "cart"}}, "spec": {"containers": []}});
    let selector = json!({"matchLabels": {"app": "cart"}});
    let made = from_value(
        json!({"metadata": {"name": "cart"}, "spec": {"selector": selector, "template": template}}),
    );
    sets.create(&PostParams::default(), &made.unwrap()).await.unwrap();
    let scale: Scale = sets.get_scale("cart").await.unwrap();
    assert_eq!(scale.spec.unwrap().replicas, Some(1));
    assert_eq!(scale.status.unwrap().selector.as_deref(), Some("app=cart"));
    let patch = Patch::Merge(json!({"spec": {"replicas": 3}}));
    sets.patch_scale("cart", &PatchParams::default(), &patch).await.unwrap();
    let scaled = sets.get("cart").await.unwrap();
    assert_eq!(scaled.spec.replicas, Some(3));
    assert_eq!(scaled.metadata.generation, Some(2));
    let negative = Patch::Merge(json!({"spec": {"replicas": -1}}));
    assert_eq!(
        refusal(sets.patch_scale("cart", &PatchParams::default(), &negative).await),
        (422, "Invalid".into())
    );
}

/// A namespace with a level of Pod Security.
fn secured(mode: &str, level: &str) -> World {
    let world = World::new();
    let labels = [(format!("pod-security.kubernetes.io/{mode}"), level.to_owned())];
    world.server.create_namespace("shop", &labels.into()).unwrap();
    world
}

#[tokio::test]
async fn a_namespace_refuses_the_pods_of_a_workload_and_not_the_workload() {
    let world = secured("enforce", "restricted");
    let jobs: Api<Job> = Api::namespaced(world.server.client(), "shop");
    jobs.create(&PostParams::default(), &job(&json!("Never"))).await.unwrap();
    let pods: Api<Pod> = Api::namespaced(world.server.client(), "shop");
    let refused = pods.create(&PostParams::default(), &from_value(pod("cart")).unwrap()).await;
    let Err(kube::Error::Api(status)) = refused else { panic!("{refused:?}") };
    let wanted = "pods \"cart\" is forbidden: violates PodSecurity \"restricted:latest\": \
                  allowPrivilegeEscalation != false (container \"app\" must set";
    assert!(status.code == 403 && status.message.starts_with(wanted), "{}", status.message);
}

#[tokio::test]
async fn a_warning_is_a_header_and_nothing_is_refused() {
    let world = secured("warn", "baseline");
    let mut privileged = pod("cart");
    privileged["spec"]["hostNetwork"] = json!(true);
    let request =
        http::Request::post("/api/v1/namespaces/shop/pods").body(privileged.to_string().into_bytes());
    let answer = world.server.client().send(request.unwrap().map(kube::client::Body::from)).await.unwrap();
    assert_eq!(answer.status(), 201);
    let warnings: Vec<_> =
        answer.headers().get_all("warning").iter().map(|one| one.to_str().unwrap()).collect();
    let wanted =
        r#"299 - "would violate PodSecurity \"baseline:latest\": host namespaces (hostNetwork=true)""#;
    assert_eq!(warnings, [wanted]);
}
