// SPDX-License-Identifier: Apache-2.0
//! The API server and the agent misbehaving, and how often they were asked.

use std::time::Duration;

use apiserver::{Effect, Fault, Verb};
use cluster::{AgentStandIn, Cluster as _};
use cucumber::{given, then, when};

use crate::stop::{Step, Stop};
use crate::world::LabWorld;

/// What goes wrong goes wrong for pods of every namespace.
const NAMESPACES: &str = "/api/v1/namespaces/";

/// What the plugin asks the API server for.
const PODS: &str = "/api/v1/namespaces/shop/pods/";

#[given(regex = "^the node's agent is (up|silent|talking garbage|of an older version|wrong about pods)$")]
fn agent(world: &mut LabWorld, how: String) {
    world.node.agent = match how.as_str() {
        "up" => AgentStandIn::Serving,
        "silent" => AgentStandIn::Silent,
        "talking garbage" => AgentStandIn::Garbage,
        "of an older version" => AgentStandIn::Old,
        _ => AgentStandIn::WrongUid,
    };
}

#[given(regex = r#"^the plugin's environment has ([A-Z_0-9]+) = "([^"]*)"$"#)]
fn environment(world: &mut LabWorld, name: String, value: String) {
    world.node.plugin_env.insert(name, value);
}

#[given(regex = r#"^the plugin's configuration has "([^"]+)" = (.+)$"#)]
fn configuration(world: &mut LabWorld, key: String, value: String) -> Step {
    world.node.plugin_conf.insert(key, serde_json::from_str(&value).map_err(Stop::harness)?);
    Ok(())
}

/// What goes wrong, in a feature's words.
fn effect(words: &str) -> Result<Effect, Stop> {
    Ok(match words {
        "hangs" => Effect::Hold(None),
        "drops the connection" => Effect::Drop,
        "answers garbage" => Effect::Garbage,
        "breaks off in the middle" => Effect::Truncate,
        other => {
            let number = |text: &str| text.parse::<u64>().ok();
            let last = other.rsplit(' ').next().and_then(number);
            match (other, last) {
                (slow, _) if slow.starts_with("takes ") => {
                    let millis = slow.split(' ').nth(1).and_then(number);
                    Effect::Hold(millis.map(Duration::from_millis))
                }
                (_, Some(code)) => {
                    let code = u16::try_from(code).ok().and_then(|code| http_code(code).ok());
                    Effect::answer(code.ok_or_else(|| Stop::harness(format!("{other:?} is no answer")))?)
                }
                _ => return Err(Stop::harness(format!("{other:?} is nothing that can go wrong"))),
            }
        }
    })
}

fn http_code(code: u16) -> Result<http::StatusCode, http::status::InvalidStatusCode> {
    http::StatusCode::from_u16(code)
}

#[given(
    regex = r"^the API server (hangs|drops the connection|answers garbage|breaks off in the middle|takes \d+ ms|answers \d+)$"
)]
async fn always(world: &mut LabWorld, words: String) -> Step {
    add(world, &words, None).await
}

#[given(
    regex = r"^the API server (hangs|drops the connection|answers garbage|breaks off in the middle|takes \d+ ms|answers \d+) the first (?:(\d+) times|time)$"
)]
async fn at_first(world: &mut LabWorld, words: String, times: String) -> Step {
    let times = if times.is_empty() { 1 } else { times.parse().map_err(Stop::harness)? };
    add(world, &words, Some(times)).await
}

async fn add(world: &mut LabWorld, words: &str, times: Option<u32>) -> Step {
    let fault = Fault { times, ..Fault::on(Verb::Get, NAMESPACES, effect(words)?) };
    world.cluster().await?.add_fault(fault);
    Ok(())
}

#[when("the API server is well again")]
async fn well(world: &mut LabWorld) -> Step {
    world.cluster().await?.faults().clear();
    Ok(())
}

async fn requests(world: &mut LabWorld) -> Result<Vec<String>, Stop> {
    let mut requests = world.cluster().await?.api_requests();
    requests.retain(|request| request.contains(PODS));
    Ok(requests)
}

#[then(regex = r"^the API server was asked for pods (\d+) times?$")]
async fn asked(world: &mut LabWorld, times: usize) -> Step {
    let requests = requests(world).await?;
    if requests.len() == times { Ok(()) } else { Err(Stop::wrong(format!("the requests were {requests:?}"))) }
}

#[then(regex = r"^the API server was asked for pods between (\d+) and (\d+) times$")]
async fn asked_between(world: &mut LabWorld, least: usize, most: usize) -> Step {
    let requests = requests(world).await?;
    if (least..=most).contains(&requests.len()) {
        Ok(())
    } else {
        Err(Stop::wrong(format!("the requests were {requests:?}")))
    }
}

#[then("the API server was not asked for anything")]
async fn not_asked(world: &mut LabWorld) -> Step {
    let requests = world.cluster().await?.api_requests();
    if requests.is_empty() { Ok(()) } else { Err(Stop::wrong(format!("the requests were {requests:?}"))) }
}

#[then(regex = r"^the agent was asked for pods (\d+) times?$")]
async fn agent_asked(world: &mut LabWorld, times: usize) -> Step {
    let mut requests = world.cluster().await?.node()?.agent_requests();
    requests.retain(|request| request["kind"] == "pod");
    if requests.len() == times { Ok(()) } else { Err(Stop::wrong(format!("the requests were {requests:?}"))) }
}
