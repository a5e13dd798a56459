// SPDX-License-Identifier: Apache-2.0
//! The API server and the agent misbehaving, and how often they were asked.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use cluster::{AgentStandIn, Asked, Effect, Fault, InitialEvents, Verb};
use cucumber::{given, then, when};
use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use kube::api::ListParams;

use crate::steps::agent::bare;
use crate::steps::wait::eventually;
use crate::steps::world::LabWorld;
use crate::stop::{Step, Stop, expect};
use crate::tier::Tier;

/// Faults apply to pods of every namespace.
const NAMESPACES: &str = "/api/v1/namespaces/";

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

/// The collection that an agent follows. An agent that does not know its node follows its own pod, in its namespace.
const NODES_PODS: &str = "the node's pods";

/// Deadline of the agent's watch.
const SOON: Duration = Duration::from_secs(30);

/// The resource that a feature's words mean, and how the paths of its requests begin.
fn meant(words: &str) -> (&str, &'static str) {
    if words == NODES_PODS { ("pods", "/api/v1/pods") } else { (words, "") }
}

/// Parses an effect: its numbers are the effect's.
fn effect(words: &str) -> Result<Effect, Stop> {
    let unknown = || Stop::harness(format!("{words:?} is nothing that can go wrong"));
    let numbers: Vec<u64> = words.split(' ').filter_map(|word| word.parse().ok()).collect();
    let code = |code: &u64| u16::try_from(*code).map_err(|_| unknown());
    let plain: Vec<&str> = words.split(' ').filter(|word| word.parse::<u64>().is_err()).collect();
    Ok(match (plain.join(" ").as_str(), numbers.as_slice()) {
        ("hangs", []) => Effect::Hold(None),
        ("takes ms", [millis]) => Effect::Hold(Some(Duration::from_millis(*millis))),
        ("drops the connection", []) => Effect::Drop,
        ("answers garbage", []) => Effect::Garbage,
        ("breaks off in the middle", []) => Effect::Truncate,
        ("answers", [number]) => Effect::answer(code(number)?),
        ("answers without a Status", [number]) => Effect::Page(code(number)?),
        ("answers with Retry-After", [number, seconds]) => Effect::Answer {
            code: code(number)?,
            retry_after: Some(u32::try_from(*seconds).map_err(Stop::harness)?),
        },
        ("drips bytes every ms", [bytes, millis]) => Effect::Drip {
            bytes: usize::try_from(*bytes).map_err(Stop::harness)?,
            every: Duration::from_millis(*millis),
        },
        ("falls silent", []) => Effect::Silence,
        ("reports an ERROR event", [number]) => Effect::ErrorEvent(code(number)?),
        ("cuts the stream after events", [after]) => Effect::Cut { after: *after },
        _ => return Err(unknown()),
    })
}

#[given(
    regex = r"^the API server (hangs|drops the connection|answers garbage|breaks off in the middle|takes \d+ ms|answers \d+(?: without a Status)?)( the first time| the first \d+ times)?$"
)]
async fn fails(world: &mut LabWorld, words: String, times: String) -> Step {
    let fault = Fault { times: first(&times), ..Fault::on(Verb::Get, NAMESPACES, effect(&words)?) };
    asked_cluster(world).await?.add_fault(fault)?;
    Ok(())
}

/// Number in ` the first 3 times`, 1 in ` the first time`; `None` if it is always.
fn first(times: &str) -> Option<u32> {
    let number = times.split(' ').find_map(|word| word.parse().ok());
    number.or_else(|| (!times.is_empty()).then_some(1))
}

/// For one verb and one resource: `the API server answers 429 with Retry-After 2 on a list of the node's pods the first 3
/// times`. On a watch, what happens to its stream happens to those that are open as well.
#[given(
    regex = r#"^the API server ([A-Za-z0-9 -]+) on an? ([a-z]+) of (the node's pods|[a-z./]+)( the first time| the first \d+ times)?$"#
)]
#[when(
    regex = r#"^the API server ([A-Za-z0-9 -]+) on an? ([a-z]+) of (the node's pods|[a-z./]+)( the first time| the first \d+ times)?$"#
)]
async fn about(world: &mut LabWorld, words: String, verb: String, resource: String, times: String) -> Step {
    let (resource, path) = meant(&resource);
    let about = Fault::about(verb_of(&verb)?, resource, effect(&words)?);
    let fault = Fault { times: first(&times), path: path.to_owned(), ..about };
    asked_cluster(world).await?.add_fault(fault)?;
    Ok(())
}

/// The cluster, for what is asked of its API server. A scenario that deploys no agent means what the plugin asks by itself, and where an agent had to
/// bring the plugin it asks nothing.
async fn asked_cluster(world: &mut LabWorld) -> Result<Arc<Tier>, Stop> {
    world.cluster_without_agent("give a node the plugin without its agent").await
}

fn verb_of(word: &str) -> Result<Verb, Stop> {
    let found = Verb::ALL.into_iter().find(|verb| verb.to_string() == word);
    found.ok_or_else(|| Stop::harness(format!("{word:?} is no verb")))
}

/// Of several API servers one has a watch cache that goes no further. What a client takes from any cache (`resourceVersion=0`, or not older than
/// what was before this step) is answered from there; the rest by a server that is up to date.
#[when("an API server's watch cache falls behind")]
async fn falls_behind(world: &mut LabWorld) -> Step {
    let tier = asked_cluster(world).await?;
    let all: Api<Namespace> = Api::all(tier.client());
    let now =
        all.list(&ListParams::default().limit(1)).await.map_err(Stop::harness)?.metadata.resource_version;
    let now = now.unwrap_or_default().parse().map_err(Stop::harness)?;
    tier.add_fault(Fault::always(Effect::Past(now)))?;
    Ok(())
}

/// New ones.
#[given("the API server resets connections")]
#[when("the API server resets connections")]
async fn connections(world: &mut LabWorld) -> Step {
    asked_cluster(world).await?.front()?.reset_connections();
    Ok(())
}

#[when("the API server is well again")]
async fn well(world: &mut LabWorld) -> Step {
    world.cluster().await?.front()?.clear();
    Ok(())
}

async fn requests(world: &mut LabWorld, is_meant: impl Fn(&&Asked) -> bool) -> Result<Vec<String>, Stop> {
    let requests = asked_cluster(world).await?.front()?.requests();
    Ok(requests.iter().filter(is_meant).map(described).collect())
}

/// A request, for a message.
pub fn described(one: &Asked) -> String {
    let code = one.code.map_or_else(|| "no answer".to_owned(), |code| code.to_string());
    let query = one.query.iter().map(|query| format!("?{query}")).collect::<String>();
    format!("{} {}{query} of {}: {code}", one.verb.to_string().to_uppercase(), one.path, one.user)
}

/// By anybody but the lab, in whatever way.
#[then(regex = r"^the API server was asked for pods (?:between (\d+) and )?(\d+) times?$")]
async fn asked(world: &mut LabWorld, least: String, most: usize) -> Step {
    let least = if least.is_empty() { most } else { least.parse().map_err(Stop::harness)? };
    let requests = requests(world, |one| one.resource.as_deref() == Some("pods")).await?;
    expect((least..=most).contains(&requests.len()), || format!("the requests were {requests:?}"))
}

/// Number of requests of the system under test with a verb on a resource.
async fn count(world: &mut LabWorld, verb: &str, resource: &str) -> Result<usize, Stop> {
    let (verb, user) = (verb_of(verb)?, cluster::plugin_user());
    let (resource, path) = meant(resource);
    let counts = |one: &Asked| {
        let is_about = one.resource.as_deref() == Some(resource) && one.path.starts_with(path);
        // A watch that begins with a list is both.
        let is_verb = one.verb == verb || verb == Verb::List && one.initial.is_some();
        is_verb && one.initial != Some(InitialEvents::Refused) && is_about && one.user == user
    };
    Ok(world.cluster().await?.front()?.count(&counts))
}

/// Waits for so many watches of a resource by each agent, which began after what was there had been told.
async fn followed(world: &mut LabWorld, resource: &str, times: usize) -> Step {
    let user = cluster::plugin_user();
    let (resource, path) = meant(resource);
    let follows = |one: &Asked| {
        let is_about = one.resource.as_deref() == Some(resource) && one.path.starts_with(path);
        let is_told = one.initial.is_none_or(|events| events == InitialEvents::Told);
        one.verb == Verb::Watch && is_about && one.user == user && is_told
    };
    let nodes = world.cluster().await?.nodes().len();
    eventually(world, SOON, async |world| {
        let requests = world.cluster().await?.front()?.requests();
        let watches: Vec<_> = requests.into_iter().filter(&follows).map(|one| one.pod).collect();
        let agents = watches.iter().collect::<BTreeSet<_>>().len();
        if agents >= nodes && watches.len() >= nodes * times {
            return Ok(());
        }
        Err(Stop::wrong(format!("{agents} agents of {nodes} nodes do, with {} watches", watches.len())))
    })
    .await
}

/// It may be ready before: what it is asked until then, it asks for itself.
#[given("the node agent follows the node's pods")]
#[then("the node agent follows the node's pods")]
async fn follows(world: &mut LabWorld) -> Step {
    followed(world, NODES_PODS, 1).await
}

/// Only then it knows which of its variables are copies of what the ConfigMap says.
#[given("the node agent follows its ConfigMap")]
async fn follows_config_map(world: &mut LabWorld) -> Step {
    followed(world, "configmaps", 1).await
}

/// After a restart: it had followed them before.
#[then("the node agent follows the node's pods again")]
async fn follows_again(world: &mut LabWorld) -> Step {
    followed(world, NODES_PODS, 2).await
}

/// It had followed it before, and has read it again.
#[then("the node agent follows its ConfigMap again")]
async fn follows_config_map_again(world: &mut LabWorld) -> Step {
    followed(world, "configmaps", 2).await
}

/// None as before Kubernetes 1.32, and in 1.33; or it would, but for its etcd (before 3.4.31, and 3.5 before 3.5.13).
#[given(regex = "^the API server streams (no )?lists(, and its etcd cannot)?$")]
async fn streams(world: &mut LabWorld, no: String, etcd: String) -> Step {
    bare(world)?;
    world.cluster().await?.server()?.stream_lists(no.is_empty(), etcd.is_empty());
    Ok(())
}

#[then(regex = r"^the API server has refused to stream a list of the node's pods (\d+) times?$")]
async fn refused(world: &mut LabWorld, times: usize) -> Step {
    let (user, (_, path)) = (cluster::plugin_user(), meant(NODES_PODS));
    let is_refused = |one: &Asked| one.initial == Some(InitialEvents::Refused);
    let refused = |one: &Asked| is_refused(one) && one.path.starts_with(path) && one.user == user;
    let seen = world.cluster().await?.front()?.count(&refused);
    expect(seen == times, || format!("it has refused {seen} times"))
}

#[then(
    regex = r"^the API server was asked for an? ([a-z]+) of (the node's pods|[a-z./]+) between (\d+) and (\d+) times$"
)]
async fn counted(world: &mut LabWorld, verb: String, resource: String, least: usize, most: usize) -> Step {
    let seen = count(world, &verb, &resource).await?;
    expect((least..=most).contains(&seen), || format!("it was asked {seen} times"))
}

/// Lists and watches: a watch cache answers them, or etcd is asked for the objects or for the newest version.
#[then(regex = r"^etcd was asked for pods between (\d+) and (\d+) times on the node agent's behalf$")]
async fn read_from_etcd(world: &mut LabWorld, least: usize, most: usize) -> Step {
    let seen = world.cluster().await?.server()?.etcd_reads(&cluster::plugin_user(), "pods");
    expect((least..=most).contains(&seen), || format!("it was asked {seen} times"))
}

#[then("the API server was not asked for anything")]
async fn not_asked(world: &mut LabWorld) -> Step {
    let requests = requests(world, |_| true).await?;
    expect(requests.is_empty(), || format!("the requests were {requests:?}"))
}

#[then(regex = r"^the agent was asked for pods (\d+) times?$")]
async fn agent_asked(world: &mut LabWorld, times: usize) -> Step {
    let mut requests = world.cluster().await?.node()?.agent_requests();
    requests.retain(|request| request["kind"] == "pod");
    expect(requests.len() == times, || format!("the requests were {requests:?}"))
}
