// SPDX-License-Identifier: Apache-2.0
//! The chart's objects, as a scenario wants them, applied as an operator does it.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use cucumber::{gherkin, given, when};
use kube::Api;
use kube::api::{ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, TypeMeta};
use kube::core::{GroupVersionKind, Status};
use serde_json::{Value, json};

use super::AgentPlan;
use super::leaving::remember_pods;
use super::objects::CONTAINER;
use super::time;
use crate::product::Deployment;
use crate::product::objects::Lacking;
use crate::steps::world::LabWorld;
use crate::stop::{Step, Stop};

/// Field manager.
const MANAGER: &str = "helm";

const TOO_MANY_REQUESTS: u16 = 429;
/// Cause of a denial in a namespace that is about to go.
const TERMINATING: &str = "NamespaceTerminating";

/// Binding of the agent to the rights of its repair policy.
const WRITES: &str = "istio-cni-repair-rolebinding";

/// The keys of the ConfigMap, and the chart's value that each is rendered from.
static SETTINGS: LazyLock<BTreeMap<String, Setting>> = LazyLock::new(|| {
    let text = include_str!("../../../../../cni/chart/files/settings.yaml");
    serde_saphyr::from_str(text).unwrap_or_default()
});

#[derive(serde::Deserialize)]
struct Setting {
    value: String,
}

pub fn set(plan: &mut AgentPlan, path: &str, value: Value) {
    let place = path.split('.').fold(&mut plan.values, |place, key| &mut place[key]);
    *place = value;
}

/// Value before the deployment, read as YAML.
#[given(regex = r#"^the chart's value "([A-Za-z.]+)" is "([^"]*)"$"#)]
fn value(world: &mut LabWorld, path: String, text: String) -> Step {
    let value = serde_saphyr::from_str(&text).map_err(Stop::harness)?;
    set(&mut world.agent, &path, value);
    Ok(())
}

/// Several values, separated by commas.
#[given(regex = r#"^the chart's values are "([^"]*)"$"#)]
fn values(world: &mut LabWorld, all: String) -> Step {
    for pair in all.split(", ") {
        let (path, text) =
            pair.split_once('=').ok_or_else(|| Stop::harness(format!("{pair:?} sets nothing")))?;
        value(world, path.to_owned(), text.to_owned())?;
    }
    Ok(())
}

/// Value that a key of the ConfigMap is rendered from; `env` for a key without one.
#[given(regex = r#"^the node agent's setting "([A-Z_0-9]+)" is "([^"]*)"$"#)]
fn setting(world: &mut LabWorld, key: String, text: String) {
    let path = SETTINGS.get(&key).map(|setting| setting.value.as_str());
    let value = match (path, text.as_str()) {
        (Some("excludeNamespaces"), names) => json!(names.split(',').collect::<Vec<_>>()),
        (Some(_), "true") => json!(true),
        (Some(_), "false") => json!(false),
        (_, text) => json!(text),
    };
    match path {
        Some(path) => set(&mut world.agent, path, value),
        None => world.agent.values["env"][key] = value,
    }
}

/// The same, from the text below the step.
#[given(regex = r#"^the node agent's setting "([A-Z_0-9]+)" is:$"#)]
fn long_setting(world: &mut LabWorld, key: String, step: &gherkin::Step) -> Step {
    let text = step.docstring.as_deref().ok_or_else(|| Stop::harness("no text is below the step"))?;
    setting(world, key, text.trim().to_owned());
    Ok(())
}

/// Variable of the DaemonSet's container only.
#[given(regex = r#"^the node agent's environment has "([A-Z_0-9]+)" = "([^"]*)"$"#)]
fn environment(world: &mut LabWorld, key: String, value: String) {
    world.agent.env.push(json!({ "name": key, "value": value }));
}

/// Argument of the DaemonSet's container.
#[given(regex = r#"^the node agent has the flag "([^"]+)"$"#)]
fn flagged(world: &mut LabWorld, flag: String) {
    world.agent.flags.push(flag);
}

/// Sets `hostNetwork`.
#[given("the node agent is on the host's network")]
fn host_network(world: &mut LabWorld) {
    world.agent.values["hostNetwork"] = json!(true);
}

/// Path of the volume on the node.
#[given(regex = r#"^the node agent's CNI directory is "(/[^"]+)"$"#)]
fn net_dir(world: &mut LabWorld, path: String) {
    world.agent.values["cniConfDir"] = json!(path);
}

/// Removes these rights, whatever its policy needs.
#[given("the node agent has no rights to change pods")]
fn no_writes(world: &mut LabWorld) {
    world.agent.no_writes = true;
}

/// ConfigMap of the chart with these values; nothing else is applied yet.
#[when(regex = r#"^its ConfigMap is that of "([^"]*)"$"#)]
async fn config_map(world: &mut LabWorld, all: String) -> Step {
    values(world, all)?;
    let mut maps = objects(world).await?;
    maps.retain(|object| object["kind"] == "ConfigMap");
    put(world, &maps).await
}

/// Applies the whole chart; the DaemonSet rolls.
#[when(regex = r#"^the chart is applied again with "([^"]*)"$"#)]
async fn again(world: &mut LabWorld, all: String) -> Step {
    values(world, all.clone())?;
    remember_pods(world).await?;
    let mut objects = objects(world).await?;
    for set in objects.iter_mut().filter(|object| object["kind"] == "DaemonSet") {
        // A value that the template does not show takes a restart.
        set["spec"]["template"]["metadata"]["annotations"]["kubectl.kubernetes.io/restartedAt"] =
            json!(format!("again with {all}"));
    }
    put(world, &objects).await?;
    world.agent.applied = objects;
    world.agent.account.applied(cluster::plugin_user());
    Ok(())
}

/// Objects rendered for a scenario, with its steps' additions to the container.
pub async fn objects(world: &LabWorld) -> Result<Vec<Value>, Stop> {
    let lab = world.lab()?;
    let values = Some(&world.agent.values).filter(|values| values.is_object());
    let values = values.cloned().unwrap_or_else(|| json!({}));
    let product = &lab.plan.sut.product;
    let mut objects = if let Deployment::Objects(beforehand) = &product.deployed {
        let lacking = |Lacking(value)| Stop::Unsupported(format!("{}: no setting for {value}", product.name));
        beforehand.with(&values).map_err(lacking)?
    } else {
        let rendered = lab.rendered.objects(&lab.plan.sut, world.node.mutant.as_deref(), &values).await;
        Arc::unwrap_or_clone(rendered.map_err(|error| Stop::wrong(format!("{error:#}")))?)
    };
    objects.retain(|object| !(world.agent.no_writes && object["metadata"]["name"] == WRITES));
    for set in objects.iter_mut().filter(|object| object["kind"] == "DaemonSet") {
        let containers = set["spec"]["template"]["spec"]["containers"].as_array_mut();
        for container in containers.into_iter().flatten().filter(|one| one["name"] == CONTAINER) {
            add(&mut container["env"], &world.agent.env);
            let flags: Vec<Value> = world.agent.flags.iter().map(|flag| json!(flag)).collect();
            add(&mut container["args"], &flags);
            if let Some(times) = world.agent.times {
                time::hasten(container, times, world.node.mutant.as_deref());
            }
            let has = container["securityContext"]["capabilities"]["add"].as_array_mut();
            has.into_iter()
                .for_each(|has| has.retain(|one| !world.agent.lacks.iter().any(|lacks| one == lacks)));
        }
    }
    Ok(objects)
}

fn add(list: &mut Value, more: &[Value]) {
    if more.is_empty() {
        return;
    }
    let mut all = list.as_array().cloned().unwrap_or_default();
    all.extend(more.iter().cloned());
    *list = json!(all);
}

pub async fn apply(world: &mut LabWorld) -> Step {
    let objects = objects(world).await?;
    put(world, &objects).await?;
    world.agent.applied = objects;
    world.agent.account.applied(cluster::plugin_user());
    Ok(())
}

pub async fn put(world: &mut LabWorld, objects: &[Value]) -> Step {
    let tier = world.cluster().await?;
    let client = tier.client();
    for object in objects {
        tier.plays(object)?;
        let (api, name) = of(&client, object)?;
        world.applied.push(object.clone());
        let how = PatchParams::apply(MANAGER).force();
        let failed = |error| not_applied(&format!("{} {name}", object["kind"]), &error);
        api.patch(&name, &how, &Patch::Apply(tier.labelled(object))).await.map_err(failed)?;
    }
    Ok(())
}

/// An object that was not applied. What the API server rejects is the product's fault, unless it has too much to do, or the namespace is about to go;
/// everything else is the lab's.
fn not_applied(what: &str, error: &kube::Error) -> Stop {
    match error {
        kube::Error::Api(status) if is_rejection(status) => {
            Stop::wrong(format!("{what} was refused: {error}"))
        }
        _ => Stop::harness(format!("{what} cannot be applied: {error}")),
    }
}

fn is_rejection(status: &Status) -> bool {
    let causes = status.details.iter().flat_map(|details| &details.causes);
    let terminating = causes.into_iter().any(|cause| cause.reason == TERMINATING);
    (400..500).contains(&status.code) && status.code != TOO_MANY_REQUESTS && !terminating
}

/// Deletes the applied objects of a group.
pub async fn delete(world: &mut LabWorld, group: &str) -> Step {
    let its = |object: &&Value| object["apiVersion"].as_str().is_some_and(|of| of.starts_with(group));
    let objects: Vec<Value> = world.agent.applied.iter().filter(its).cloned().collect();
    remove(world, &objects, &DeleteParams::default()).await
}

/// Deletes objects in their order, without waiting.
pub async fn remove(world: &mut LabWorld, objects: &[Value], how: &DeleteParams) -> Step {
    let client = world.cluster().await?.client();
    for object in objects {
        let (api, name) = of(&client, object)?;
        api.delete(&name, how).await.map_err(Stop::harness)?;
    }
    Ok(())
}

/// API and name of an object.
fn of(client: &kube::Client, object: &Value) -> Result<(Api<DynamicObject>, String), Stop> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let types = TypeMeta { api_version: text(&object["apiVersion"]), kind: text(&object["kind"]) };
    let kind = GroupVersionKind::try_from(types).map_err(|error| Stop::wrong(error.to_string()))?;
    // The one whose plural does not follow from its kind.
    let resource = match kind.kind.as_str() {
        "NetworkAttachmentDefinition" => {
            ApiResource::from_gvk_with_plural(&kind, "network-attachment-definitions")
        }
        _ => ApiResource::from_gvk(&kind),
    };
    // The chart names the namespace of everything that has one.
    let api = match object["metadata"]["namespace"].as_str() {
        None => Api::all_with(client.clone(), &resource),
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
    };
    Ok((api, text(&object["metadata"]["name"])))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_charts_keys_are_read() {
        assert_eq!(SETTINGS["EXCLUDE_NAMESPACES"].value, "excludeNamespaces");
    }

    #[test]
    fn only_what_the_api_server_rejects_is_the_products_fault() {
        let of = |status: Value| {
            let status: Status = serde_json::from_value(status).unwrap();
            not_applied("ClusterRole a", &kube::Error::Api(status.into()))
        };
        assert!(matches!(of(json!({ "code": 422, "reason": "Invalid" })), Stop::Wrong(_)));
        assert!(matches!(of(json!({ "code": 403, "reason": "Forbidden" })), Stop::Wrong(_)));
        let causes = json!([{ "reason": TERMINATING, "field": "metadata.namespace" }]);
        let goes = json!({ "code": 403, "reason": "Forbidden", "details": { "causes": causes } });
        for passing in [goes, json!({ "code": 429 }), json!({ "code": 503 })] {
            assert!(matches!(of(passing.clone()), Stop::Harness(_)), "{passing}");
        }
        let unreachable = kube::Error::Service("connection refused".into());
        assert!(matches!(not_applied("ClusterRole a", &unreachable), Stop::Harness(_)));
    }
}
