// SPDX-License-Identifier: Apache-2.0
//! Pod Security: what a namespace allows its pods, asked of the API server as a user does.

use std::time::Duration;

use cluster::PodStart;
use cucumber::{given, then, when};
use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::steps::world::LabWorld;
use crate::stop::{Step, Stop};

/// Deadline of a pod's start.
const SOON: Duration = Duration::from_secs(60);

/// Answer of the API server to the last creation of a pod.
pub type Answered = Option<Result<(), String>>;

/// Labels it.
#[given(regex = r#"^namespace "([^"]+)" enforces Pod Security "(privileged|baseline|restricted)"$"#)]
async fn enforces(world: &mut LabWorld, namespace: String, level: String) -> Step {
    label_namespace(world, &namespace, "pod-security.kubernetes.io/enforce", &level).await
}

/// Adds a label to a namespace, which may have others, but is nobody else's.
pub(super) async fn label_namespace(world: &mut LabWorld, name: &str, key: &str, value: &str) -> Step {
    let tier = world.cluster().await?;
    let metadata = json!({ "name": name, "labels": { key: value } });
    let namespaces: Api<Namespace> = Api::all(tier.client());
    let Some(found) = namespaces.get_opt(name).await.map_err(Stop::harness)? else {
        let namespace = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": metadata });
        return Ok(tier.apply(namespace).await.map(drop)?);
    };
    tier.may_change(&found)?;
    let patch = Patch::Merge(json!({ "metadata": metadata }));
    namespaces.patch(name, &PatchParams::default(), &patch).await.map(drop).map_err(Stop::harness)
}

/// A pod whose own containers ask for nothing, as its author wrote it; what injection adds is as it is.
fn modest(mut pod: Value) -> Value {
    let profile = json!({ "type": "RuntimeDefault" });
    pod["spec"]["securityContext"] = json!({ "runAsNonRoot": true, "seccompProfile": profile });
    for container in pod["spec"]["containers"].as_array_mut().into_iter().flatten() {
        if container["name"] == "app" {
            container["securityContext"]["allowPrivilegeEscalation"] = json!(false);
            container["securityContext"]["capabilities"] = json!({ "drop": ["ALL"] });
        }
    }
    pod
}

/// Its own containers keep to `restricted`; injection has added its part.
#[when(regex = r#"^a user creates "([^"]+)"$"#)]
async fn create(world: &mut LabWorld, name: String) -> Step {
    world.it.clone_from(&name);
    let (namespace, object) = (world.it()?.namespace.clone(), world.it()?.admitted().map_err(Stop::harness)?);
    let tier = world.cluster().await?;
    let mut object = modest(object);
    object["spec"]["nodeName"] = json!(tier.node()?.name());
    world.objects.push(object.clone());
    let object = tier.as_made(object).await?;
    let pods: Api<Pod> = Api::namespaced(tier.client(), &namespace);
    let object = serde_json::from_value(object).map_err(Stop::harness)?;
    world.answered = match pods.create(&PostParams::default(), &object).await {
        Ok(_) => Some(Ok(())),
        Err(kube::Error::Api(status)) => Some(Err(status.message.clone())),
        Err(error) => return Err(Stop::harness(error)),
    };
    Ok(())
}

/// The message contains this text.
#[then(regex = r"^the API server refuses it: (.+)$")]
fn refused(world: &mut LabWorld, text: String) -> Step {
    match &world.answered {
        Some(Err(message)) if message.contains(&text) => Ok(()),
        other => Err(Stop::wrong(format!("it answered {other:?}"))),
    }
}

/// Waits until it runs: an init container that checks its rules has succeeded.
#[then("the API server admits it, and it runs")]
async fn admitted(world: &mut LabWorld) -> Step {
    if world.answered != Some(Ok(())) {
        return Err(Stop::wrong(format!("it answered {:?}", world.answered)));
    }
    let it = world.its_name()?;
    let tier = world.cluster().await?;
    let started = tier.node()?.pod_started(&it, SOON * tier.patience()).await?;
    match started {
        PodStart::Running { .. } => world.started(&it, started).await,
        other => Err(Stop::wrong(format!("its start ended with {other:?}"))),
    }
}
