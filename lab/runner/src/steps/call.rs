// SPDX-License-Identifier: Apache-2.0
//! Calls of the plugin that a feature puts together itself: commands, versions, malformed input, errors.

use std::collections::BTreeMap;
use std::time::Duration;

use cluster::CniCall;
use cucumber::gherkin::Step as Line;
use cucumber::{given, then, when};
use serde_json::{Value, json};

use crate::binaries::PLUGIN;
use crate::steps::world::LabWorld;
use crate::stop::{Step, Stop, expect, expect_eq};
use crate::stopwatch::Spent;

/// A call that steps compose.
#[derive(Debug, Clone)]
pub struct CallPlan {
    env: BTreeMap<String, String>,
    conf: Value,
    raw: Option<String>,
}

/// A call that a runtime could make for a pod that is unknown to Kubernetes.
#[given(regex = r"^a call of ([A-Z]+)$")]
async fn a_call(world: &mut LabWorld, command: String) -> Step {
    let tier = world.cluster().await?;
    let paths = tier.node()?.paths()?;
    let env = [
        ("CNI_COMMAND", command),
        ("CNI_CONTAINERID", "c0ffee".to_owned()),
        ("CNI_NETNS", paths.netns_dir.join("gone").display().to_string()),
        ("CNI_IFNAME", "eth0".to_owned()),
        ("CNI_PATH", paths.bin_dir.display().to_string()),
    ];
    let conf = json!({
        "cniVersion": "1.1.0",
        "name": "lab",
        "type": PLUGIN,
        "cni_agent_run_dir": paths.run_dir,
        "exclude_namespaces": ["kube-system"],
        "pod_namespace": "istio-system",
    });
    let env = env.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    world.call = Some(CallPlan { env, conf, raw: None });
    Ok(())
}

fn call(world: &mut LabWorld) -> Result<&mut CallPlan, Stop> {
    world.call.as_mut().ok_or_else(|| Stop::harness("no step has begun a call"))
}

#[given(regex = r#"^its variable ([A-Z0-9_]+) is "([^"]*)"$"#)]
fn variable(world: &mut LabWorld, name: String, value: String) -> Step {
    call(world)?.env.insert(name, value);
    Ok(())
}

#[given(regex = r"^its variables? ([A-Z0-9_, ]+) (?:is|are) missing$")]
fn missing(world: &mut LabWorld, names: String) -> Step {
    let call = call(world)?;
    for name in names.split(", ") {
        call.env.remove(name);
    }
    Ok(())
}

/// The call is for a running pod, in its namespace.
#[given(regex = r#"^it is for pod "([^"]+)"$"#)]
async fn for_pod(world: &mut LabWorld, name: String) -> Step {
    world.it.clone_from(&name);
    world.run_pod(&name).await?;
    let netns = world.workload(&name).await?.netns()?;
    let namespace = world.pod(&name)?.namespace.clone();
    let args = format!("IgnoreUnknown=1;K8S_POD_NAMESPACE={namespace};K8S_POD_NAME={name}");
    let call = call(world)?;
    call.env.insert("CNI_NETNS".to_owned(), netns);
    call.env.insert("CNI_ARGS".to_owned(), args);
    Ok(())
}

#[given(regex = r#"^its configuration's "([^"]+)" is (.+)$"#)]
fn setting(world: &mut LabWorld, key: String, value: String) -> Step {
    let value: Value = serde_json::from_str(&value).map_err(Stop::harness)?;
    call(world)?.conf[key] = value;
    Ok(())
}

#[given(regex = r#"^its configuration has no "([^"]+)"$"#)]
fn no_setting(world: &mut LabWorld, key: String) -> Step {
    if let Some(conf) = call(world)?.conf.as_object_mut() {
        conf.remove(&key);
    }
    Ok(())
}

#[given(regex = r"^its configuration is the text `(.*)`$")]
fn raw(world: &mut LabWorld, text: String) -> Step {
    call(world)?.raw = Some(text);
    Ok(())
}

#[given("its previous result is")]
fn previous(world: &mut LabWorld, step: &Line) -> Step {
    let previous = document(step)?;
    call(world)?.conf["prevResult"] = previous;
    Ok(())
}

fn document(step: &Line) -> Result<Value, Stop> {
    let text = step.docstring.as_deref().ok_or_else(|| Stop::harness("the step has no document"))?;
    serde_json::from_str(text).map_err(|error| Stop::harness(format!("the document is no JSON: {error}")))
}

#[when("the plugin is called")]
async fn called(world: &mut LabWorld) -> Step {
    let plan = call(world)?.clone();
    let stdin = plan.raw.unwrap_or_else(|| plan.conf.to_string()).into_bytes();
    let tier = world.cluster().await?;
    let call = CniCall { plugin: PLUGIN.to_owned(), env: plan.env, stdin };
    world.answer = Some(tier.node()?.call_plugin(call).await?);
    Ok(())
}

#[then("the plugin succeeds")]
fn succeeds(world: &mut LabWorld) -> Step {
    let answer = world.answer()?;
    expect(answer.exit == Some(0), || format!("it answered {answer:?}"))
}

#[then("the plugin succeeds without output")]
fn silent(world: &mut LabWorld) -> Step {
    succeeds(world)?;
    expect_eq("its standard output", &world.answer()?.stdout.as_str(), &"")
}

#[then("the plugin succeeds with")]
fn with(world: &mut LabWorld, step: &Line) -> Step {
    let wanted = document(step)?;
    succeeds(world)?;
    expect_eq("its result", &world.answer()?.json(), &wanted)
}

#[then(regex = r#"^the plugin fails: code (\d+), "(.*)"$"#)]
fn fails(world: &mut LabWorld, code: u32, fragment: String) -> Step {
    let answer = world.answer()?;
    let error = answer.json();
    // In one of the two: a text of both together would be nobody's.
    let says = ["msg", "details"]
        .iter()
        .any(|field| error[field].as_str().is_some_and(|text| text.contains(&fragment)));
    expect(answer.exit == Some(1) && error["code"] == code && says, || {
        format!("exit {:?}, standard output {:?}", answer.exit, answer.stdout)
    })
}

#[then(regex = r#"^its standard error says "(.*)"$"#)]
fn says(world: &mut LabWorld, fragment: String) -> Step {
    let answer = world.answer()?;
    expect(answer.stderr.contains(&fragment), || format!("standard error is {:?}", answer.stderr))
}

#[then(regex = r"^it took at most (\d+) ms$")]
fn took(world: &mut LabWorld, limit: u64) -> Step {
    Spent::of([world.answer()?]).within(Duration::from_millis(limit))
}
