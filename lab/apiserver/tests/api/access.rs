// SPDX-License-Identifier: Apache-2.0
//! Tokens, and what a service account may do.

use std::time::Duration;

use crate::common::{World, pod, refusal};
use apiserver::{Account, Grant, Verb};
use futures::StreamExt as _;
use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::core::v1::{Pod, ServiceAccount};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::{from_value, json};

fn account() -> Account {
    Account { namespace: "shop".into(), name: "default".into() }
}

fn with_agent() -> World {
    let world = World::new();
    world.server.upsert(pod("agent")).unwrap();
    world
        .server
        .allow(&account(), [Grant::new(Verb::Get, "pods"), Grant::new(Verb::Patch, "pods/status")])
        .unwrap();
    world
}

async fn read(world: &World, token: &str) -> kube::Result<Pod> {
    Api::namespaced(world.server.client_with_token(token), "shop").get("agent").await
}

#[tokio::test]
async fn a_bound_token_dies_with_its_pod_even_if_the_name_returns() {
    let world = with_agent();
    let token = world.server.token(&account(), Some("agent"), Duration::from_secs(600)).unwrap();
    read(&world, &token).await.unwrap();
    let pods: Api<Pod> = Api::namespaced(world.server.client(), "shop");
    pods.delete("agent", &DeleteParams::default()).await.unwrap();
    world.pass(10);
    assert_eq!(refusal(read(&world, &token).await), (401, "Unauthorized".into()));
    world.server.upsert(pod("agent")).unwrap();
    assert_eq!(refusal(read(&world, &token).await), (401, "Unauthorized".into()));
}

#[tokio::test]
async fn a_token_ends_with_its_time_or_when_revoked() {
    let world = with_agent();
    let token = || world.server.token(&account(), None, Duration::from_secs(60)).unwrap();
    let (first, second) = (token(), token());
    world.pass(49);
    read(&world, &first).await.unwrap();
    assert!(world.server.revoke(&second) && !world.server.revoke(&second));
    assert_eq!(refusal(read(&world, &second).await), (401, "Unauthorized".into()));
    world.pass(11);
    assert_eq!(refusal(read(&world, &first).await), (401, "Unauthorized".into()));
    let expired = world.server.expired_token(&account(), None).unwrap();
    assert_eq!(refusal(read(&world, &expired).await), (401, "Unauthorized".into()));
    assert_eq!(refusal(read(&world, "nonsense").await), (401, "Unauthorized".into()));
    read(&world, &world.server.admin_token()).await.unwrap();
}

#[tokio::test]
async fn a_token_that_was_accepted_is_not_looked_up_again_for_ten_seconds() {
    let world = with_agent();
    let token = || world.server.token(&account(), None, Duration::from_secs(600)).unwrap();
    let (used, fresh) = (token(), token());
    read(&world, &used).await.unwrap();
    let accounts: Api<ServiceAccount> = Api::namespaced(world.server.client(), "shop");
    accounts.delete("default", &DeleteParams::default()).await.unwrap();
    let gone = || (401, "Unauthorized".to_owned());
    assert_eq!(
        refusal(read(&world, &fresh).await),
        gone(),
        "failures and what was never used are not cached"
    );
    world.pass(9);
    read(&world, &used).await.unwrap();
    world.pass(1);
    assert_eq!(refusal(read(&world, &used).await), gone(), "a use does not prolong it");
}

#[tokio::test]
async fn tokens_can_be_made_to_be_looked_up() {
    let world = with_agent();
    let token = world.server.token(&account(), None, Duration::from_secs(600)).unwrap();
    read(&world, &token).await.unwrap();
    let accounts: Api<ServiceAccount> = Api::namespaced(world.server.client(), "shop");
    accounts.delete("default", &DeleteParams::default()).await.unwrap();
    read(&world, &token).await.unwrap();
    world.server.forget_tokens();
    assert_eq!(refusal(read(&world, &token).await), (401, "Unauthorized".into()));
}

#[tokio::test]
async fn other_signing_keys_refuse_earlier_tokens_and_end_watches() {
    let world = with_agent();
    let token = world.server.token(&account(), None, Duration::from_secs(600)).unwrap();
    read(&world, &token).await.unwrap();
    let pods: Api<Pod> = Api::namespaced(world.server.client(), "shop");
    let watch = pods.watch(&kube::api::WatchParams::default(), "0").await.unwrap();
    world.server.rotate_keys();
    assert!(watch.collect::<Vec<_>>().await.iter().all(Result::is_ok), "it ends in good order");
    assert_eq!(refusal(read(&world, &token).await), (401, "Unauthorized".into()));
    let token = world.server.token(&account(), None, Duration::from_secs(600)).unwrap();
    read(&world, &token).await.unwrap();
}

#[tokio::test]
async fn an_account_may_do_what_it_was_granted_and_no_more() {
    let world = with_agent();
    let token = world.server.token(&account(), None, Duration::from_secs(600)).unwrap();
    let pods: Api<Pod> = Api::namespaced(world.server.client_with_token(&token), "shop");
    pods.get("agent").await.unwrap();
    let status = Patch::Merge(json!({"status": {"phase": "Running"}}));
    pods.patch_status("agent", &PatchParams::default(), &status).await.unwrap();
    assert_eq!(
        refusal(pods.patch("agent", &PatchParams::default(), &status).await),
        (403, "Forbidden".into())
    );
    assert_eq!(refusal(pods.list(&ListParams::default()).await), (403, "Forbidden".into()));
    let Err(kube::Error::Api(refused)) = pods.delete("agent", &DeleteParams::default()).await else {
        panic!()
    };
    let expected = "pods \"agent\" is forbidden: User \"system:serviceaccount:shop:default\" cannot delete \
                    resource \"pods\" in API group \"\" in the namespace \"shop\"";
    assert_eq!(refused.message, expected);
    let users: Vec<_> =
        world.server.requests().into_iter().map(|logged| (logged.user, logged.code)).collect();
    assert_eq!(users[0], ("system:serviceaccount:shop:default".into(), Some(200)));
    assert_eq!(users.last().unwrap().1, Some(403));
}

#[tokio::test]
async fn a_token_request_binds_to_the_pod_it_names() {
    let world = with_agent();
    let accounts: Api<ServiceAccount> = Api::namespaced(world.server.client(), "shop");
    let request = |bound: serde_json::Value| -> TokenRequest {
        let spec = json!({"expirationSeconds": 900, "boundObjectRef": bound});
        from_value(json!({"metadata": {}, "spec": spec})).unwrap()
    };
    let ask =
        async |bound| accounts.create_token_request("default", &PostParams::default(), &request(bound)).await;
    let answer = ask(json!({"kind": "Pod", "name": "agent"})).await.unwrap().status.unwrap();
    assert_eq!(answer.expiration_timestamp.unwrap().0.as_second(), 1_700_000_900);
    read(&world, &answer.token.unwrap()).await.unwrap();
    let wrong_uid = json!({"kind": "Pod", "name": "agent", "uid": "another"});
    assert_eq!(refusal(ask(wrong_uid).await), (409, "Conflict".into()));
    assert_eq!(refusal(ask(json!({"kind": "Pod", "name": "gone"})).await), (404, "NotFound".into()));
    let mut foreign = pod("foreign");
    foreign["spec"]["serviceAccountName"] = json!("robot");
    let refused = world.server.upsert(foreign.clone()).unwrap_err().to_string();
    let why = "pods \"foreign\" is forbidden: error looking up service account shop/robot: serviceaccount \"robot\" not found";
    assert_eq!(refused, why, "nobody runs a pod under an account that is not there");
    let robot = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot", "namespace": "shop"}});
    world.server.upsert(robot).unwrap();
    world.server.upsert(foreign).unwrap();
    assert_eq!(refusal(ask(json!({"kind": "Pod", "name": "foreign"})).await), (400, "BadRequest".into()));
}

#[tokio::test]
async fn a_named_grant_lists_and_watches_only_with_the_name_as_field_selector() {
    use futures::StreamExt as _;
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::api::WatchParams;

    let world = with_agent();
    let reading = Grant::rule(&[Verb::Get, Verb::List, Verb::Watch], "configmaps");
    let unneeded = Grant::rule(&[Verb::Get, Verb::Delete], "daemonsets.apps");
    world.server.allow(&account(), [reading.named(&["conf"]).within("shop"), unneeded]).unwrap();
    let token = world.server.token(&account(), None, Duration::from_secs(600)).unwrap();
    let client = world.server.client_with_token(&token);
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "shop");
    let named = ListParams::default().fields("metadata.name=conf");
    maps.list(&named).await.unwrap();
    let watch = WatchParams::default().fields("metadata.name=conf").timeout(1);
    assert!(maps.watch(&watch, "0").await.unwrap().boxed().next().await.is_none_or(|event| event.is_ok()));
    assert_eq!(refusal(maps.get("conf").await), (404, "NotFound".into()));
    for refused in [
        refusal(maps.list(&ListParams::default()).await),
        refusal(maps.list(&ListParams::default().fields("metadata.name!=conf")).await),
        refusal(maps.list(&ListParams::default().fields("metadata.name=other")).await),
        refusal(maps.get("other").await),
        refusal(Api::<ConfigMap>::all(client).list(&named).await),
    ] {
        assert_eq!(refused, (403, "Forbidden".into()));
    }
    let missing: Vec<String> =
        world.server.requests().iter().filter_map(|one| one.missing.as_ref().map(Grant::to_string)).collect();
    let expected = [
        "list configmaps in namespace shop",
        "list configmaps in namespace shop",
        "list configmaps named other in namespace shop",
        "get configmaps named other in namespace shop",
        "list configmaps named conf",
    ];
    assert_eq!(missing, expected);
}

#[tokio::test]
async fn a_namespace_can_be_read_with_a_grant_in_it() {
    use k8s_openapi::api::core::v1::Namespace;

    let world = with_agent();
    world.server.allow(&account(), [Grant::new(Verb::Get, "namespaces").within("shop")]).unwrap();
    let token = world.server.token(&account(), None, Duration::from_secs(600)).unwrap();
    let namespaces: Api<Namespace> = Api::all(world.server.client_with_token(&token));
    namespaces.get("shop").await.unwrap();
    let Err(kube::Error::Api(refused)) = namespaces.get("other").await else { panic!() };
    let expected = "namespaces \"other\" is forbidden: User \"system:serviceaccount:shop:default\" cannot get \
                    resource \"namespaces\" in API group \"\" in the namespace \"other\"";
    assert_eq!(
        (refused.message.as_str(), refused.details.clone().unwrap().name.as_str()),
        (expected, "other")
    );
}

#[tokio::test]
async fn a_review_tells_the_asker_what_it_may_do_and_is_no_use_of_it() {
    use k8s_openapi::api::authorization::v1::SelfSubjectAccessReview;

    let world = with_agent();
    world.server.allow(&account(), [Grant::new(Verb::Patch, "pods/status").within("shop")]).unwrap();
    let token = world.server.token(&account(), None, Duration::from_secs(600)).unwrap();
    let ask = async |client: kube::Client, attributes: serde_json::Value| {
        let spec = json!({ "resourceAttributes": attributes });
        let review: SelfSubjectAccessReview = from_value(json!({"metadata": {}, "spec": spec})).unwrap();
        let answer = Api::all(client).create(&PostParams::default(), &review).await?;
        kube::Result::Ok(answer.status.unwrap().allowed)
    };
    let own = || world.server.client_with_token(&token);
    let label = json!({"verb": "patch", "resource": "pods", "subresource": "status", "namespace": "shop"});
    let everywhere = json!({"verb": "patch", "resource": "pods", "subresource": "status"});
    let delete = json!({"verb": "delete", "resource": "pods", "namespace": "shop"});
    assert!(ask(own(), label).await.unwrap());
    assert!(!ask(own(), everywhere).await.unwrap());
    assert!(!ask(own(), delete.clone()).await.unwrap());
    assert!(ask(world.server.client(), delete.clone()).await.unwrap(), "an administrator may");
    assert!(!ask(own(), json!({"verb": "*", "group": "*", "resource": "*"})).await.unwrap());
    let nobody = world.server.client_with_token("nonsense");
    assert_eq!(refusal(ask(nobody, delete).await), (401, "Unauthorized".into()));
    let resource = Some("selfsubjectaccessreviews.authorization.k8s.io".to_owned());
    assert!(world.server.requests().iter().all(|one| one.resource == resource && one.missing.is_none()));
}

#[tokio::test]
async fn a_user_may_do_what_roles_of_the_own_group_allow() {
    let world = with_agent();
    let rbac = "rbac.authorization.k8s.io";
    let role = json!({"apiGroup": rbac, "kind": "ClusterRole", "name": "system:node"});
    for object in [
        json!({"apiVersion": format!("{rbac}/v1"), "kind": "ClusterRole", "metadata": {"name": "system:node"},
               "rules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]}),
        json!({"apiVersion": format!("{rbac}/v1"), "kind": "ClusterRoleBinding", "metadata": {"name": "system:node"},
               "roleRef": role, "subjects": [{"apiGroup": rbac, "kind": "Group", "name": "system:nodes"}]}),
    ] {
        world.server.upsert(object).unwrap();
    }
    let node = world.server.user_token("system:node:one", &["system:nodes"]);
    read(&world, &node).await.unwrap();
    let pods: Api<Pod> = Api::namespaced(world.server.client_with_token(&node), "shop");
    assert_eq!(refusal(pods.delete("agent", &DeleteParams::default()).await).0, 403);
    let stranger = world.server.user_token("system:node:one", &[]);
    assert_eq!(refusal(read(&world, &stranger).await).0, 403);
    let master = world.server.user_token("admin", &["system:masters"]);
    let pods: Api<Pod> = Api::namespaced(world.server.client_with_token(&master), "shop");
    pods.delete("agent", &DeleteParams::default()).await.unwrap();
}
