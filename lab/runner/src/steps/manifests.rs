// SPDX-License-Identifier: Apache-2.0
//! Input of `install-cni manifests`, and its objects.

use std::time::{Duration, Instant};

use cluster::{CniAnswer, DAEMONSET};
use cucumber::{gherkin, given, then, when};
use serde_json::Value;

use crate::alone::{self, Call};
use crate::binaries::{AGENT, MUTANT};
use crate::chart::DEADLINE;
use crate::steps::agent::objects::{CONFIG_MAP, CONTAINER};
use crate::steps::world::LabWorld;
use crate::stop::{Step, Stop, expect, expect_eq};

/// Standard input.
#[derive(Debug, Clone, Default)]
pub struct HandedIn {
    /// Option that takes it.
    option: Option<&'static str>,
    /// Documents, in order.
    documents: Vec<String>,
    /// Image, where the documents name none.
    image: Option<String>,
}

impl HandedIn {
    /// The documents, read.
    ///
    /// # Errors
    /// They are no YAML.
    pub fn read(&self) -> Result<Vec<Value>, Stop> {
        serde_saphyr::from_multiple(&self.documents.join("\n---\n")).map_err(Stop::harness)
    }
}

fn hand_in(world: &mut LabWorld, option: &'static str, step: &gherkin::Step) -> Step {
    let text = step.docstring.as_deref().ok_or_else(|| Stop::harness("the step has no document"))?;
    let handed = &mut world.handed_in;
    if handed.option.is_some_and(|before| before != option) {
        return Err(Stop::harness("values and documents cannot both come from stdin"));
    }
    handed.option = Some(option);
    handed.documents.push(text.to_owned());
    Ok(())
}

#[given("a mesh's document:")]
#[given("beside it a mesh's document:")]
fn document(world: &mut LabWorld, step: &gherkin::Step) -> Step {
    hand_in(world, "--from", step)
}

#[given("values of the chart:")]
fn values(world: &mut LabWorld, step: &gherkin::Step) -> Step {
    hand_in(world, "--values", step)
}

#[given(regex = r#"^there "([^"]*)" is "([^"]*)"$"#)]
fn replaced(world: &mut LabWorld, old: String, new: String) -> Step {
    let documents = &mut world.handed_in.documents;
    if !documents.iter().any(|text| text.contains(&old)) {
        return Err(Stop::harness(format!("no document has {old:?}")));
    }
    documents.iter_mut().for_each(|text| *text = text.replace(&old, &new));
    Ok(())
}

#[given(regex = r#"^the agent's image is "([^"]+)"$"#)]
fn named_image(world: &mut LabWorld, image: String) {
    world.handed_in.image = Some(image);
}

#[when("manifests are rendered")]
async fn rendered(world: &mut LabWorld) -> Step {
    rendered_with(world, String::new()).await
}

#[when(regex = r#"^manifests are rendered with "([^"]*)"$"#)]
async fn rendered_with(world: &mut LabWorld, arguments: String) -> Step {
    let handed = world.handed_in.clone();
    let words = arguments.split(' ').filter(|word| !word.is_empty());
    let image = handed.image.iter().flat_map(|image| ["--image", image]);
    let option = handed.option.iter().flat_map(|option| [*option, "-"]);
    let call = Call {
        arguments: ["manifests"]
            .into_iter()
            .chain(words)
            .chain(image)
            .chain(option)
            .map(str::to_owned)
            .collect(),
        environment: world.node.mutant.iter().map(|name| (MUTANT.to_owned(), name.clone())).collect(),
        input: handed.documents.join("\n---\n"),
    };
    let started = Instant::now();
    let output = alone::run(&world.lab()?.plan.sut, AGENT, call, DEADLINE).await;
    let output = output.map_err(|error| Stop::wrong(format!("{error:#}")))?;
    world.answer = Some(CniAnswer::of(&output, started.elapsed(), Duration::ZERO));
    Ok(())
}

/// By whoever may do everything.
#[when("what was rendered is applied")]
async fn applied(world: &mut LabWorld) -> Step {
    for object in objects(world)? {
        world.apply(object).await?;
    }
    Ok(())
}

fn objects(world: &LabWorld) -> Result<Vec<Value>, Stop> {
    let answer = world.answer()?;
    if answer.exit != Some(0) {
        return Err(Stop::wrong(format!("it answered {answer:?}")));
    }
    serde_saphyr::from_multiple(&answer.stdout)
        .map_err(|error| Stop::wrong(format!("it wrote no YAML: {error}")))
}

/// Number of the objects that are meant, of those that are rendered: where none is at all, none lacks.
fn count(world: &LabWorld, is_meant: impl Fn(&Value) -> bool) -> Result<usize, Stop> {
    let all = objects(world)?;
    expect(!all.is_empty(), || "nothing is rendered at all")?;
    Ok(all.into_iter().filter(is_meant).count())
}

fn find(world: &LabWorld, kind: &str, name: &str) -> Result<Value, Stop> {
    let objects = objects(world)?;
    let there = objects.iter().find(|object| object["kind"] == kind && object["metadata"]["name"] == name);
    there.cloned().ok_or_else(|| {
        let names = objects.iter().map(|object| format!("{} {}", object["kind"], object["metadata"]["name"]));
        Stop::wrong(format!("there is no {kind} {name}, only {}", names.collect::<Vec<_>>().join(", ")))
    })
}

/// The value at a JSON pointer; an entry of a list may be named by its `name`.
fn at<'a>(object: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('/').try_fold(object, |value, key| {
        let key = key.replace("~1", "/");
        match value {
            Value::Array(list) => {
                let named = list.iter().find(|entry| entry["name"] == key.as_str());
                named.or_else(|| list.get(key.parse::<usize>().ok()?))
            }
            value => value.get(&key),
        }
    })
}

#[then(regex = r#"^(\w+) "([^"]+)" has (\S+) = (.+)$"#)]
fn has(world: &mut LabWorld, kind: String, name: String, path: String, wanted: String) -> Step {
    let object = find(world, &kind, &name)?;
    let wanted: Value = serde_json::from_str(&wanted).map_err(Stop::harness)?;
    expect_eq(&path, &at(&object, &path), &Some(&wanted))
}

#[then(regex = r#"^(\w+) "([^"]+)" has no (\S+)$"#)]
fn has_no(world: &mut LabWorld, kind: String, name: String, path: String) -> Step {
    expect_eq(&path, &at(&find(world, &kind, &name)?, &path), &None)
}

#[then(regex = r#"^there is (?:a|an) (\w+) "([^"]+)" in namespace "([^"]+)"$"#)]
fn is_there(world: &mut LabWorld, kind: String, name: String, namespace: String) -> Step {
    expect_eq("its namespace", &find(world, &kind, &name)?["metadata"]["namespace"], &namespace.into())
}

#[then(regex = r"^there is no (\w+)$")]
fn is_not_there(world: &mut LabWorld, kind: String) -> Step {
    let there = count(world, |object| object["kind"] == kind.as_str())?;
    expect_eq(&format!("the number of objects {kind}"), &there, &0)
}

#[then(regex = r#"^there is no (\w+) "([^"]+)"$"#)]
fn none_is_named(world: &mut LabWorld, kind: String, name: String) -> Step {
    let is_meant =
        |object: &Value| object["kind"] == kind.as_str() && object["metadata"]["name"] == name.as_str();
    expect_eq(&format!("the number of objects {kind} {name}"), &count(world, is_meant)?, &0)
}

#[then("nothing is rendered")]
fn nothing(world: &mut LabWorld) -> Step {
    expect_eq("stdout", &world.answer()?.stdout.as_str(), &"")
}

/// The node's directories and the agent's settings at a glance.
#[then(regex = r#"^the agent sees "([^"]+)" as (\S+)$"#)]
fn sees(world: &mut LabWorld, on_node: String, inside: String) -> Step {
    let set = find(world, "DaemonSet", DAEMONSET)?;
    let pod = &set["spec"]["template"]["spec"];
    let mounts = pod["containers"][0]["volumeMounts"].as_array().cloned().unwrap_or_default();
    let mount = mounts.iter().find(|mount| mount["mountPath"] == inside.as_str());
    let volume =
        mount.and_then(|mount| at(pod, &format!("volumes/{}/hostPath/path", mount["name"].as_str()?)));
    expect_eq(&format!("what is mounted at {inside}"), &volume, &Some(&on_node.into()))
}

#[then(regex = r#"^its setting (\w+) is "([^"]*)"$"#)]
fn setting(world: &mut LabWorld, key: String, wanted: String) -> Step {
    let map = find(world, "ConfigMap", CONFIG_MAP)?;
    expect_eq(&key, &map["data"][&key], &wanted.into())
}

/// Settings in the pod's template, not in its `ConfigMap`.
#[then(regex = r#"^its container has ([A-Z_]+) = "([^"]*)"$"#)]
fn variable(world: &mut LabWorld, name: String, wanted: String) -> Step {
    let set = find(world, "DaemonSet", DAEMONSET)?;
    let path = format!("spec/template/spec/containers/{CONTAINER}/env/{name}/value");
    expect_eq(&path, &at(&set, &path), &Some(&wanted.into()))
}

#[then(regex = r#"^it says "(.*)"$"#)]
fn says(world: &mut LabWorld, fragment: String) -> Step {
    let told = &world.answer()?.stderr;
    expect(told.contains(&fragment), || format!("it said {told:?}"))
}

#[then(regex = r#"^it does not say "(.*)"$"#)]
fn does_not_say(world: &mut LabWorld, fragment: String) -> Step {
    let told = &world.answer()?.stderr;
    if told.contains(&fragment) { Err(Stop::wrong(format!("it said {told:?}"))) } else { Ok(()) }
}
