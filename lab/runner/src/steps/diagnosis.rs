// SPDX-License-Identifier: Apache-2.0
//! `istio-cni diagnose`, as somebody calls it on a node or in the node agent's container.

use std::ffi::OsStr;
use std::path::Path;

use cluster::PRIMARY;
use cluster::hand::{Network, PROMPT, Run, Writing};
use cucumber::gherkin::Step as Line;
use cucumber::{then, when};

use super::agent::agent;
use super::agent::objects::CONTAINER;
use crate::binaries::PLUGIN;
use crate::steps::world::LabWorld;
use crate::stop::{Step, Stop, expect, expect_eq};

/// A binary of the lab's own nodes is found by its name, and sees the machine's paths. `the object` is the text below the step, and is judged with the
/// node's configuration.
#[when(regex = "^it is diagnosed( by its process| by its object| by the object:| without a name|)$")]
async fn diagnosed(world: &mut LabWorld, how: String, step: &Line) -> Step {
    let it = world.its_name()?;
    world.run_pod(&it.name).await?;
    let workload = world.workload(&it.name).await?;
    let pid = workload.process("app").await?.ok_or_else(|| Stop::harness("its app has no process"))?;
    let cluster = world.cluster().await?;
    let node = cluster.node()?;
    let directories = node.directories();
    let (program, root, paths) = match node.paths() {
        Ok(paths) => (PLUGIN.to_owned(), None, paths),
        Err(_) => {
            (directories.bin_dir.join(PLUGIN).display().to_string(), Some("/".into()), directories.clone())
        }
    };
    let mut words = vec![program, "diagnose".to_owned(), "-o".to_owned(), "json".to_owned()];
    let mut option = |name: &str, value: String| words.extend([name.to_owned(), value]);
    match workload.netns() {
        _ if how == " by its process" => option("--pid", pid.to_string()),
        Ok(netns) => option("--netns", netns),
        Err(_) => option("--netns", format!("/proc/{pid}/ns/net")),
    }
    let object = format!("{}.json", it.name);
    let own = directories.run_dir.join(&object);
    let hand = node.hand().await?;
    let text = match how.as_str() {
        " by its object" => {
            let live = cluster.pod(&it).await?;
            Some(live.ok_or_else(|| Stop::harness("it has no object"))?.to_string())
        }
        _ => step.docstring.clone(),
    };
    if let Some(text) = &text {
        hand.write(&own, text.as_bytes(), Writing::WHOLE).await?;
        option("--pod-json", paths.run_dir.join(&object).display().to_string());
    }
    if !matches!(how.as_str(), " by its object" | " without a name") {
        option("--conf", paths.conf_dir.join(PRIMARY).display().to_string());
        if text.is_none() {
            option("--pod", it.to_string());
        }
    }
    let run = Run { root, ..Run::new(Network::Node, words, PROMPT) };
    world.answer = Some(hand.run(run).await?);
    if text.is_some() {
        hand.remove(&own).await?;
    }
    Ok(())
}

/// As `kubectl exec` does it, with the paths that the runtime's own tools print on the node.
#[when("it is diagnosed in the node agent's container")]
async fn diagnosed_in_container(world: &mut LabWorld) -> Step {
    let it = world.its_name()?;
    world.run_pod(&it.name).await?;
    let pod = it.to_string();
    let netns = world.workload(&it.name).await?.netns()?;
    let file = Path::new(&netns).file_name().and_then(OsStr::to_str).unwrap_or_default();
    let netns = format!("/var/run/netns/{file}");
    let program = format!("/opt/cni/bin/{PLUGIN}");
    let words = [&program, "diagnose", "-o", "json", "--netns", &netns, "--pod", &pod];
    let agent = agent(world).await?;
    world.answer = Some(world.cluster().await?.exec(&agent, CONTAINER, &words).await?);
    Ok(())
}

fn differences(world: &LabWorld) -> Result<Vec<String>, Stop> {
    let answer = world.answer()?;
    let found = answer.json()["differences"].as_array().cloned();
    let found = found.ok_or_else(|| Stop::wrong(format!("it answered {answer:?}")))?;
    Ok(found.iter().filter_map(|text| text.as_str().map(str::to_owned)).collect())
}

#[then("it is as it should be")]
fn healthy(world: &mut LabWorld) -> Step {
    expect_eq("the list of differences", &differences(world)?, &Vec::new())?;
    expect_eq("the exit code", &world.answer()?.exit, &Some(0))
}

#[then(regex = r#"^it differs: "(.*)"$"#)]
fn differs(world: &mut LabWorld, fragment: String) -> Step {
    let found = differences(world)?;
    if !found.iter().any(|difference| difference.contains(&fragment)) {
        return Err(Stop::wrong(format!("the differences are {found:#?}")));
    }
    expect_eq("the exit code", &world.answer()?.exit, &Some(1))
}

#[then(regex = r#"^it differs only in this: "(.*)"$"#)]
fn differs_only(world: &mut LabWorld, fragment: String) -> Step {
    differs(world, fragment)?;
    let found = differences(world)?;
    expect(found.len() == 1, || format!("the differences are {found:#?}"))
}

/// Beside the differences, which decide the exit code.
#[then(regex = r#"^the diagnosis notes "(.*)"$"#)]
fn notes(world: &mut LabWorld, fragment: String) -> Step {
    let answer = world.answer()?;
    let notes = answer.json()["notes"].as_array().cloned().unwrap_or_default();
    let said = notes.iter().filter_map(|note| note.as_str()).any(|note| note.contains(&fragment));
    expect(said, || format!("it answered {answer:?}"))
}

#[then(regex = r#"^its rules are in the forms? "(.*)"$"#)]
fn forms(world: &mut LabWorld, wanted: String) -> Step {
    let found = world.answer()?.json()["forms"].clone();
    let found: Vec<String> = serde_json::from_value(found).map_err(|error| Stop::wrong(error.to_string()))?;
    expect_eq("the list of forms", &found.join(" and "), &wanted)
}

#[then(regex = r#"^nobody can tell: "(.*)"$"#)]
fn unknown(world: &mut LabWorld, fragment: String) -> Step {
    let answer = world.answer()?;
    expect(answer.exit == Some(2) && answer.stderr.contains(&fragment), || format!("it answered {answer:?}"))
}
