// SPDX-License-Identifier: Apache-2.0
//! Init containers that program rules or check them, and the same program called by somebody: what it says, how it ends.

use std::iter;
use std::time::Duration;

use cluster::{Disturbance, PodStart, Position};
use cucumber::{given, then, when};

use crate::binaries::TOOL;
use crate::steps::configuration::is_in_no_line;
use crate::steps::damage::{is_native, wanted_by};
use crate::steps::wait::eventually;
use crate::steps::world::LabWorld;
use crate::stop::{Step, Stop, expect};

/// Deadline of containers' restart.
const RESTART: Duration = Duration::from_secs(60);

/// Deadline of reading a terminated container's output.
const READ: Duration = Duration::from_secs(10);

/// Log message of validation when its first connection was not redirected.
const WAITS: &str = "not redirected yet";

#[when("its containers start again")]
async fn restart(world: &mut LabWorld) -> Step {
    let pod = world.its_name()?;
    world.run_pod(&pod.name).await?;
    let ended = world.cluster().await?.node()?.retry_pod(&pod, RESTART).await?;
    world.started(&pod, ended).await
}

/// As a node agent repairs the pod during its validation.
#[when(regex = r#"^it starts, and gets its rules while "([^"]+)" waits for them$"#)]
async fn repaired(world: &mut LabWorld, container: String) -> Step {
    let it = world.its_name()?;
    let (pod, native) = (world.it()?.clone(), is_native(world));
    let cluster = world.cluster().await?;
    let arrival = async {
        let workload = cluster.starting(&it).await?;
        workload.said(&container, WAITS, Position::Ever).await?;
        let wanted = wanted_by(&pod, workload.addresses(), native)?;
        Ok(workload.disturb(&Disturbance::Repaired(wanted)).await?)
    };
    let (started, arrived) = tokio::join!(world.start(&it.name), arrival);
    arrived.and(started.map(drop))
}

/// The log separates fields by tabs, which a feature would not show.
fn plain(text: &str) -> String {
    text.replace('\t', " ")
}

fn words(text: &str) -> Vec<String> {
    text.split(' ').filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

#[given(regex = r#"^its init container "([^"]+)" runs again(?: with "([^"]*)")?$"#)]
#[when(regex = r#"^its init container "([^"]+)" runs again(?: with "([^"]*)")?$"#)]
async fn again(world: &mut LabWorld, container: String, more: String) -> Step {
    let name = world.it.clone();
    if let PodStart::Running { .. } = world.start(&name).await? {
        world.before = Some(super::rules::network(world).await?);
    }
    world.answer = Some(world.workload(&name).await?.run_again(&container, &words(&more)).await?);
    Ok(())
}

#[when(regex = r#"^istio-iptables runs in it as (its proxy|root) with "([^"]*)"$"#)]
async fn tool(world: &mut LabWorld, who: String, arguments: String) -> Step {
    let name = world.it.clone();
    world.cluster().await?.has_programs()?;
    world.start(&name).await?;
    let pod = world.it()?;
    let owner = if who == "root" { (0, 0) } else { (pod.proxy_uid(), pod.proxy_gid()) };
    let arguments = words(&arguments);
    let words: Vec<_> = iter::once(TOOL).chain(arguments.iter().map(String::as_str)).collect();
    world.answer = Some(world.workload(&name).await?.run(&words, "", owner).await?);
    Ok(())
}

#[given(regex = r"^it ends with exit code (\d+)$")]
#[then(regex = r"^it ends with exit code (\d+)$")]
fn ends(world: &mut LabWorld, code: i32) -> Step {
    let answer = world.answer()?;
    expect(answer.exit == Some(code), || format!("it answered {answer:?}"))
}

#[then(regex = r#"^it ends with exit code (\d+) and says "(.*)"$"#)]
fn ends_and_says(world: &mut LabWorld, code: i32, fragment: String) -> Step {
    ends(world, code)?;
    let answer = world.answer()?;
    if plain(&format!("{}{}", answer.stdout, answer.stderr)).contains(&fragment) {
        Ok(())
    } else {
        Err(Stop::wrong(format!("it answered {answer:?}")))
    }
}

async fn said(world: &mut LabWorld, container: &str) -> Result<Vec<String>, Stop> {
    let name = world.it.clone();
    world.start(&name).await?;
    let mut lines = world.workload(&name).await?.logs().await?;
    lines.retain(|line| line.starts_with(&format!("{container}: ")));
    Ok(lines)
}

#[then(regex = r#"^its init container "([^"]+)" has said "(.*)"$"#)]
async fn has_said(world: &mut LabWorld, container: String, fragment: String) -> Step {
    // It may be over before all that it said is read.
    eventually(world, READ, async |world| {
        let lines = said(world, &container).await?;
        expect(lines.iter().any(|line| plain(line).contains(&fragment)), || format!("it said {lines:#?}"))
    })
    .await
}

/// In none of its lines: it has ended.
#[then(regex = r#"^its init container "([^"]+)" has not said "(.*)"$"#)]
async fn has_not_said(world: &mut LabWorld, container: String, fragment: String) -> Step {
    let name = world.it.clone();
    world.start(&name).await?;
    let lines = world.workload(&name).await?.whole_output(&container).await?;
    is_in_no_line(lines.iter().map(|line| plain(line)).collect(), &fragment)
}
