// SPDX-License-Identifier: Apache-2.0
//! The controllers of taints: pods of the Deployment that the chart renders in `taint.mode` `readiness` and `untaint`, with its account and
//! what its roles allow. Who leads is [`super::leading`]'s, what reached the API server [`super::asked`]'s.

use cluster::condition::is_ready;
use cluster::{PodName, PodStart, SYSTEM_NAMESPACE};
use cucumber::{gherkin, given, then, when};
use serde_json::{Value, json};

use super::SOON;
use crate::steps::account::Account;
use crate::steps::agent::{bare, chart, patch_config_map};
use crate::steps::readiness;
use crate::steps::wait::eventually;
use crate::steps::world::LabWorld;
use crate::stop::{Step, Stop, expect, expect_eq};

/// Name of the Deployment, its account and its ClusterRole; prefix of its other objects.
const NAME: &str = "istio-cni-taint";
/// Name of the pod where there is one.
pub const ALONE: &str = "taint";

/// Its pod.
#[must_use]
pub fn name() -> PodName {
    PodName::in_system(ALONE)
}

pub const CONTAINER: &str = "taint-controller";
/// Flag for a single pass over all nodes.
const ONCE: &str = "--run-as-daemon=false";

/// Taint controllers of a scenario.
#[derive(Debug, Default)]
pub struct Controllers {
    /// Their objects of the chart, once they are applied.
    applied: Vec<Value>,
    pub account: Account,
    /// Leader before the disturbance.
    pub(super) leader: Option<String>,
}

/// The user that their requests come from.
#[must_use]
pub fn user() -> String {
    cluster::system_user(NAME)
}

/// Applies what the chart renders for the controllers, once in a scenario.
async fn install(world: &mut LabWorld) -> Step {
    if !world.taints.controllers.applied.is_empty() {
        return Ok(());
    }
    bare(world)?;
    let mut objects = chart::objects(world).await?;
    objects.retain(|object| object["metadata"]["name"].as_str().is_some_and(|name| name.starts_with(NAME)));
    if objects.is_empty() {
        return Err(Stop::harness("taint.mode is none that has a controller"));
    }
    // Steps make its pods, under names of theirs: its controller would make others beside them.
    let (_, others): (Vec<_>, Vec<_>) = objects.iter().cloned().partition(|one| one["kind"] == "Deployment");
    chart::put(world, &others).await?;
    world.taints.controllers.applied = objects;
    world.taints.controllers.account.applied(user());
    Ok(())
}

/// One of the controllers' objects, as rendered.
fn rendered(world: &LabWorld, kind: &str) -> Result<Value, Stop> {
    let found = world.taints.controllers.applied.iter().find(|object| object["kind"] == kind);
    found.cloned().ok_or_else(|| Stop::wrong(format!("the chart renders no {kind} for the taint controller")))
}

/// Pod of a Deployment, with more arguments.
fn pod(deployment: &Value, name: &str, words: &str) -> Value {
    let mut pod = deployment["spec"]["template"].clone();
    (pod["apiVersion"], pod["kind"]) = (json!("v1"), json!("Pod"));
    (pod["metadata"]["name"], pod["metadata"]["namespace"]) = (json!(name), json!(SYSTEM_NAMESPACE));
    let words: Vec<&str> = words.split(' ').filter(|word| !word.is_empty()).collect();
    let flag = |word: &str| word.split('=').next().unwrap_or_default().to_owned();
    let said = |arg: &Value| arg.as_str().is_some_and(|arg| words.iter().any(|word| flag(word) == flag(arg)));
    let container = &mut pod["spec"]["containers"][0];
    let mut args = container["args"].as_array().cloned().unwrap_or_default();
    args.retain(|arg| !said(arg));
    args.extend(words.iter().map(|word| json!(word)));
    container["args"] = json!(args);
    if words.contains(&ONCE) {
        // It is no Deployment's then: it has no port to be asked at, and it ends.
        container["readinessProbe"] = Value::Null;
        pod["spec"]["restartPolicy"] = json!("Never");
    }
    pod
}

pub(super) async fn start(world: &mut LabWorld, name: &str, words: &str) -> Step {
    install(world).await?;
    let pod = pod(&rendered(world, "Deployment")?, name, words);
    world.applied.push(pod.clone());
    match world.cluster().await?.start_pod(&PodName::in_system(name), pod).await? {
        PodStart::Running { .. } => Ok(()),
        // The result of one that ends by itself is checked by another step.
        PodStart::ContainerFailed { .. } if words.contains(ONCE) => Ok(()),
        other => Err(Stop::wrong(format!("the start of {name} ended with {other:?}"))),
    }
}

/// Applies the chart's objects for it and starts one pod of its Deployment; the given words replace the chart's for the same flag.
#[given(regex = r#"^the taint controller runs(?: with "(.+)")?$"#)]
#[when(regex = r#"^the taint controller runs(?: with "(.+)")?$"#)]
async fn runs(world: &mut LabWorld, words: String) -> Step {
    start(world, ALONE, &words).await
}

/// ConfigMap of the chart; its objects are applied before.
#[given(regex = r#"^the ConfigMap "([^"]+)" says "([^"]+)":$"#)]
#[when(regex = r#"^the ConfigMap "([^"]+)" says "([^"]+)":$"#)]
async fn config_map(world: &mut LabWorld, name: String, key: String, step: &gherkin::Step) -> Step {
    install(world).await?;
    let text = step.docstring.as_deref().ok_or_else(|| Stop::harness("no text is below the step"))?;
    patch_config_map(world, &name, json!({ key: text.trim_start() })).await
}

/// The role in the cluster, as the chart renders it, but for these verbs.
async fn put_role(world: &mut LabWorld, without: &[&str]) -> Step {
    let mut role = rendered(world, "ClusterRole")?;
    for rule in role["rules"].as_array_mut().into_iter().flatten() {
        if let Some(verbs) = rule["verbs"].as_array_mut() {
            verbs.retain(|verb| !without.iter().any(|gone| verb == gone));
        }
    }
    chart::put(world, &[role]).await
}

/// Removes the right from its role.
#[given("the taint controller may not patch nodes")]
async fn may_not(world: &mut LabWorld) -> Step {
    let tier = world.cluster().await?;
    world.taints.controllers.account.tried(&tier);
    put_role(world, &["patch"]).await
}

#[when("the taint controller may patch nodes again")]
async fn may_again(world: &mut LabWorld) -> Step {
    put_role(world, &[]).await
}

/// Output of the controllers.
pub async fn logs(world: &mut LabWorld) -> Result<Vec<String>, Stop> {
    let mut lines = world.cluster().await?.logs().await?;
    lines.retain(|line| line.contains(CONTAINER));
    Ok(lines)
}

/// Waits for a line of one of them, since the last action and of a process that lives now.
#[then(regex = r#"^the taint controller says "(.+)"$"#)]
async fn says(world: &mut LabWorld, fragment: String) -> Step {
    let fragment = fragment.replace('\'', "\"");
    world.errors.push(fragment.clone());
    let from = world.marks.last().position();
    let tier = world.cluster().await?;
    let pods = tier.pods(SYSTEM_NAMESPACE, ("k8s-app", NAME)).await?;
    let names = pods.iter().filter_map(|pod| pod["metadata"]["name"].as_str()).map(PodName::in_system);
    let said = names.map(|name| {
        let (tier, fragment) = (&tier, &fragment);
        Box::pin(async move { tier.starting(&name).await?.said(CONTAINER, fragment, from).await })
    });
    let said: Vec<_> = said.collect();
    if said.is_empty() {
        return Err(Stop::wrong("no taint controller is there"));
    }
    futures::future::select_ok(said).await?;
    Ok(())
}

/// Waits for its probe.
#[given("the taint controller becomes ready")]
#[then("the taint controller becomes ready")]
async fn ready(world: &mut LabWorld) -> Step {
    let tier = world.cluster().await?;
    eventually(world, SOON, async |_| {
        let pod = tier.pod(&name()).await?.unwrap_or_default();
        expect(is_ready(&pod), || format!("its conditions are {}", pod["status"]["conditions"]))
    })
    .await
}

/// Asked directly: a kubelet tells of what lasts some seconds at least.
#[then(regex = r"^the taint controller's probe answers (\d+)$")]
async fn answers(world: &mut LabWorld, code: u16) -> Step {
    let tier = world.cluster().await?;
    let pod = name();
    eventually(world, SOON, async |_| readiness::answers(&tier, &pod, code).await).await
}

/// Exit code, and a text of its output.
#[then(regex = r#"^the taint controller ends with (\d+)(?:: "(.+)")?$"#)]
async fn ends(world: &mut LabWorld, code: i64, fragment: String) -> Step {
    let tier = world.cluster().await?;
    eventually(world, SOON, async |world| {
        let pod = tier.pod(&name()).await?.unwrap_or_default();
        let state = pod["status"]["containerStatuses"][0]["state"].clone();
        let lines = logs(world).await?;
        expect_eq(
            &format!("the exit code in {state}, after {lines:#?}"),
            &state["terminated"]["exitCode"].as_i64(),
            &Some(code),
        )
    })
    .await?;
    if fragment.is_empty() { Ok(()) } else { says(world, fragment).await }
}
