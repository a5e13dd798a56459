// SPDX-License-Identifier: Apache-2.0
//! Observability of the node agent: its ports, `install-cni status`, events.

use std::time::Duration;

use cluster::{CniAnswer, Fetched};
use cucumber::then;
use k8s_openapi::api::core::v1::Event;
use serde_json::Value;

use super::agent::agent;
use super::agent::objects::CONTAINER;
use super::files::files;
use super::taint::{controller, named};
use crate::steps::events;
use crate::steps::wait::eventually;
use crate::steps::world::LabWorld;
use crate::stop::{Step, Stop, expect, expect_eq};

/// `/metrics`
pub(super) const MONITORING: u16 = 15014;
/// Deadline of an event.
const SOON: Duration = Duration::from_secs(20);
/// Deadline of reports by the agent itself: the count of an event is written every 10 s.
const TELLING: Duration = Duration::from_secs(30);

async fn fetch(world: &mut LabWorld, port: u16, path: &str) -> Result<Fetched, Stop> {
    let pod = agent(world).await?;
    Ok(world.cluster().await?.fetch(&pod, port, path).await?)
}

/// Asks from the node.
#[then(regex = r#"^its port (\d+) answers "(/[a-z]*)" with (\d+)$"#)]
async fn answers(world: &mut LabWorld, port: u16, path: String, code: u16) -> Step {
    let found = fetch(world, port, &path).await?;
    expect_eq(&format!("the code of {path} ({})", found.body.trim()), &found.code, &Some(code))
}

/// Asks from the node.
#[then(regex = r#"^its port (\d+) answers "(/[a-z]*)" with a header that begins "([a-z-]+): (.+)"$"#)]
async fn header(world: &mut LabWorld, port: u16, path: String, name: String, value: String) -> Step {
    let found = fetch(world, port, &path).await?;
    let begins = found.headers.get(&name).is_some_and(|found| found.starts_with(&value));
    expect(begins, || format!("{path} is answered with {:?}", found.headers))
}

/// Waits for a line of the scrape.
#[then(regex = r#"^(its|the taint controller's) metrics have "(.+)"$"#)]
async fn metrics(world: &mut LabWorld, whose: String, line: String) -> Step {
    let line = line.replace('\'', "\"");
    eventually(world, TELLING, async |world| {
        let pod = if whose == "its" { agent(world).await? } else { controller::name() };
        let text = world.cluster().await?.fetch(&pod, MONITORING, "/metrics").await?.body;
        if text.lines().any(|one| one == line) {
            return Ok(());
        }
        let name = line.split(['{', ' ']).next().unwrap_or_default();
        let near: Vec<_> = text.lines().filter(|one| one.starts_with(name)).collect();
        Err(Stop::wrong(format!("the metrics have {near:#?}")))
    })
    .await
}

/// Waits for a line of the scrape that begins so and ends with a number above zero.
#[then(regex = r#"^its metrics have "(.+)" above zero$"#)]
async fn above_zero(world: &mut LabWorld, begin: String) -> Step {
    let begin = begin.replace('\'', "\"");
    eventually(world, TELLING, async |world| {
        let text = fetch(world, MONITORING, "/metrics").await?.body;
        let of_it = text.lines().filter_map(|line| line.strip_prefix(&begin)?.strip_prefix(' '));
        let values: Vec<f64> = of_it.filter_map(|value| value.trim().parse().ok()).collect();
        expect(values.iter().any(|value| *value > 0.0), || format!("its values are {values:?}"))
    })
    .await
}

async fn status(world: &mut LabWorld, arguments: &[&str]) -> Result<CniAnswer, Stop> {
    let pod = agent(world).await?;
    Ok(world.cluster().await?.exec(&pod, CONTAINER, arguments).await?)
}

/// Last output of `install-cni status` contains this text.
#[then(regex = r#"^the status says "(.+)"$"#)]
fn says(world: &mut LabWorld, fragment: String) -> Step {
    let text = &world.answer()?.stdout;
    expect(text.lines().any(|line| line.contains(&fragment)), || text)
}

/// Waits until `install-cni status` in the agent's container exits with 0.
#[then("its status finds nothing wrong")]
async fn well(world: &mut LabWorld) -> Step {
    let answer = eventually(world, TELLING, async |world| {
        let answer = status(world, &["status"]).await?;
        if answer.stdout.ends_with("\nnothing is wrong\n") {
            Ok(answer)
        } else {
            Err(Stop::wrong(answer.stdout))
        }
    })
    .await?;
    expect_eq("the exit code", &answer.exit, &Some(0))?;
    world.answer = Some(answer);
    Ok(())
}

/// Waits until `install-cni status` reports this with a remedy and exits with 1.
#[then(regex = r#"^its status finds "(.+)"$"#)]
async fn finds(world: &mut LabWorld, fragment: String) -> Step {
    eventually(world, TELLING, async |world| {
        let answer = status(world, &["status"]).await?;
        let mut lines = answer.stdout.lines();
        let found = lines.any(|line| line.starts_with("wrong: ") && line.contains(&fragment));
        let remedy = lines.next().is_some_and(|line| line.starts_with("  "));
        if !(found && remedy) {
            return Err(Stop::wrong(answer.stdout));
        }
        expect_eq("the exit code", &answer.exit, &Some(1))
    })
    .await
}

/// True if the event was recorded, for the first time or once more, since the scenario began: on somebody's cluster events outlive scenarios.
pub(super) fn is_of_scenario(event: &Event, begun: i64) -> bool {
    let time = event.last_timestamp.as_ref().or(event.first_timestamp.as_ref());
    time.is_none_or(|time| time.0.as_second() >= begun)
}

/// Those of this scenario.
async fn own_events(world: &mut LabWorld) -> Result<Vec<Value>, Stop> {
    // Times of events are whole seconds.
    let begun = world.begun.as_second();
    let all = events::all(&*world.cluster().await?).await?;
    let own = all.iter().filter(|event| is_of_scenario(event, begun));
    own.map(serde_json::to_value).collect::<Result<_, _>>().map_err(Stop::harness)
}

/// Waits for the event, since the last action; of any type unless the step names it.
#[then(
    regex = r#"^an event "(\w+)"(?: of type (Warning|Normal))?(?: about node "([^"]+)")? (?:is there|says "(.+)")$"#
)]
async fn event(world: &mut LabWorld, reason: String, kind: String, node: String, fragment: String) -> Step {
    let tier = world.cluster().await?;
    let (from, begun) = (world.marks.last(), world.begun.as_second());
    eventually(world, SOON, async |_| {
        let mut all = events::all(&tier).await?;
        all.retain(|one| is_of_scenario(one, begun) && events::is_behind(one, &from));
        let is_it = |one: &Event| {
            one.reason.as_deref() == Some(&*reason)
                && (kind.is_empty() || one.type_.as_deref() == Some(&*kind))
                && one.message.as_deref().unwrap_or_default().contains(&fragment)
                && (node.is_empty() || one.involved_object.name.as_deref() == Some(&*node))
        };
        let said = || all.iter().map(|one| (&one.type_, &one.reason, &one.message)).collect::<Vec<_>>();
        expect(all.iter().any(is_it), || format!("the events are {:?}", said()))
    })
    .await
}

/// Waits for a single Event object with this count.
#[then(regex = r#"^one event "(\w+)" about (the node|node "[^"]+") counts (\d+)$"#)]
async fn one_event(world: &mut LabWorld, reason: String, node: String, count: u64) -> Step {
    let node = named(world, &node).await?;
    eventually(world, TELLING, async |world| {
        let all = own_events(world).await?;
        let about = |event: &&Value| {
            let of = &event["involvedObject"];
            event["reason"] == *reason && of["kind"] == "Node" && of["name"] == *node
        };
        let counts: Vec<_> = all.iter().filter(about).map(|event| event["count"].clone()).collect();
        expect_eq("the list of counts", &counts, &vec![Value::from(count)])
    })
    .await
}

/// Not in log, status, metrics or events.
#[then("the plugin's token is told nowhere")]
async fn told_nowhere(world: &mut LabWorld) -> Step {
    let node = files(world).await?;
    let config = node.json(&node.paths.run_dir.join("istio-cni-kubeconfig")).await?;
    let token = config["users"][0]["user"]["token"].as_str().unwrap_or_default().to_owned();
    // The last part is the signature: without it the rest is of no use to anybody.
    let secret = token.rsplit('.').next().filter(|part| part.len() > 20);
    let secret = secret.ok_or_else(|| Stop::wrong("the plugin has no token"))?;
    let pod = agent(world).await?;
    let workload = world.cluster().await?.starting(&pod).await?;
    let mut told = vec![
        ("log", workload.logs().await?.join("\n")),
        ("status", status(world, &["status"]).await?.stdout),
        ("status as JSON", status(world, &["status", "-o", "json"]).await?.stdout),
        ("events", Value::from(own_events(world).await?).to_string()),
    ];
    // `/settings` is for the agent's own network: `status` has it.
    for (port, path) in [(MONITORING, "/metrics"), (8000, "/readyz")] {
        let Fetched { code, body: text, .. } = fetch(world, port, path).await?;
        // Ready or not.
        let answered = code.filter(|code| *code == 200 || path == "/readyz");
        let code =
            answered.ok_or_else(|| Stop::wrong(format!("{path} is answered with {code:?}: {text}")))?;
        told.push((path, format!("{code} {text}")));
    }
    is_in_none(&told, secret)
}

/// Places that say nothing prove nothing.
fn is_in_none(told: &[(&str, String)], secret: &str) -> Step {
    for (place, text) in told {
        if text.trim().is_empty() {
            return Err(Stop::wrong(format!("the {place} says nothing")));
        }
        if text.contains(secret) {
            return Err(Stop::wrong(format!("it is in the {place}")));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_in_no_place_only_if_each_says_something() {
        let told = |log: &str| {
            is_in_none(&[("status", "nothing is wrong".to_owned()), ("log", log.to_owned())], "key")
        };
        assert!(told("started").is_ok());
        assert!(told("").is_err());
        assert!(told("the key").is_err());
    }
}
