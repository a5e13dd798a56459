// SPDX-License-Identifier: Apache-2.0
//! The controllers of taints: pods of their own, each with an account that may do exactly what its mode needs.
//!
//! | step | what it does or claims |
//! |---|---|
//! | `Given/When the taint controller runs with "…"` | `install-cni taint` with these words |
//! | `Given the taint controllers "a" and "b" run with "…"` | both are candidates for one lease, and one of them leads |
//! | `Given the ConfigMap "M" says "K":` | in the controllers' namespace |
//! | `Given the taint controller may not patch nodes`, `When … may patch nodes again` | its rights |
//! | `Then the taint controller says "…"` | a line of its log, waited for |
//! | `Then the taint controller becomes ready`, `… is not ready: "…"` | its probe |
//! | `Then the taint controller ends with C`, `… with C: "…"` | its exit code, and what it said |
//! | `Then the taint controller was denied nothing` | no request of it lacked a right |
//! | `When the leader is killed`, `When the leader is told to stop` | whoever holds the lease |
//! | `When the leader cannot renew its lease` | 503 is all that it hears of it from now on |
//! | `Then another one leads within N s` | than at the last of these steps |
//! | `Then nobody acted who did not hold the lease` | each patch came from the last one to write it |
//! | `Given the first patch of a node hangs`, `When a patch is on its way` | the API server has it, and waits until it is well again |
//! | `Given lists of pods take N ms` | those of the controller |
//! | `Then the taint controller changed node "N" C times`, `Then the node agent changed the node C times` | patches that succeeded |
//! | `Then an event "R" about node "N" is there` | waited for |
//! | `Then the taint controller counts "…"` | in its metrics: a line of the scrape, waited for |

use std::collections::BTreeMap;
use std::time::Duration;

use apiserver::{Account, Effect, Fault, Grant, Logged, Verb};
use cluster::{Cluster as _, PodName, PodStart};
use cucumber::{gherkin, given, then, when};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Event;
use kube::Api;
use kube::api::ListParams;
use kubelet::NetnsCluster;
use kubelet::tier::SYSTEM_NAMESPACE;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use super::SOON;
use crate::steps::agent::{bare, eventually};
use crate::stop::{Step, Stop, expect_eq};
use crate::world::LabWorld;

/// The controller where there is one.
const ALONE: &str = "taint";
const CONTAINER: &str = "taint-controller";
/// How often each candidate has looked at the lease before anything else happens: who leads is settled then.
const TRIES: usize = 4;
/// `/metrics`
const MONITORING: u16 = 15014;

/// The controllers of a scenario.
#[derive(Debug, Default)]
pub struct Controllers {
    /// Their names.
    names: Vec<String>,
    /// Who led when it was disturbed.
    leader: Option<String>,
}

fn account(name: &str) -> Account {
    Account { namespace: SYSTEM_NAMESPACE.to_owned(), name: name.to_owned() }
}

fn user(name: &str) -> String {
    format!("system:serviceaccount:{SYSTEM_NAMESPACE}:{name}")
}

/// What the words of a command line need.
fn grants(words: &str) -> Vec<Grant> {
    use Verb::{Create, Get, List, Patch, Update, Watch};
    let named = |flag: &str, usual: &'static str| {
        let mut words = words.split([' ', '=']).skip_while(|word| *word != flag);
        words.nth(1).unwrap_or(usual).to_owned()
    };
    let readiness = words.contains("readiness");
    let lease = if readiness { "istio-taint-lock" } else { "istio-node-untaint" };
    let mut grants = vec![
        Grant::rule(&[Get, List, Watch, Patch], "nodes"),
        Grant::rule(&[List, Watch], "pods").within(SYSTEM_NAMESPACE),
        Grant::rule(&[Create, Patch], "events").within("default"),
        Grant::new(Create, "leases.coordination.k8s.io").within(SYSTEM_NAMESPACE),
        Grant::rule(&[Get, Update], "leases.coordination.k8s.io").named(&[lease]).within(SYSTEM_NAMESPACE),
    ];
    if readiness {
        let map = named("--configmap-name", "istio-cni-taint-configmap");
        grants.push(Grant::rule(&[List, Watch], "configmaps").named(&[&map]).within(SYSTEM_NAMESPACE));
    }
    grants
}

fn pod(name: &str, words: &str) -> Value {
    let daemon = !words.contains("--run-as-daemon=false");
    let field =
        |name: &str, path: &str| json!({ "name": name, "valueFrom": { "fieldRef": { "fieldPath": path } } });
    let args: Vec<&str> = std::iter::once("taint").chain(words.split(' ')).collect();
    let mut container = json!({
        "name": CONTAINER, "image": "install-cni", "command": ["install-cni"], "args": args,
        "securityContext": { "runAsUser": 1337, "runAsGroup": 1337, "capabilities": { "drop": ["ALL"] } },
        "env": [field("POD_NAME", "metadata.name"), field("POD_NAMESPACE", "metadata.namespace")],
    });
    if daemon {
        container["readinessProbe"] = json!({ "httpGet": { "path": "/readyz", "port": 8000 } });
    }
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": name, "namespace": SYSTEM_NAMESPACE, "labels": { "sidecar.istio.io/inject": "false" } },
        "spec": {
            "serviceAccountName": name, "automountServiceAccountToken": true, "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 30, "containers": [container],
        },
    })
}

async fn start(world: &mut LabWorld, name: &str, words: &str) -> Step {
    bare(world)?;
    let tier = world.cluster().await?;
    let metadata = json!({ "name": name, "namespace": SYSTEM_NAMESPACE });
    tier.apply(json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata })).await?;
    tier.api().allow(&account(name), grants(words)).map_err(Stop::harness)?;
    world.taints.controllers.names.push(name.to_owned());
    match tier.start_pod(SYSTEM_NAMESPACE, name, pod(name, words)).await? {
        PodStart::Running { .. } => Ok(()),
        // How one that ends by itself ended is another step's.
        PodStart::ContainerFailed { .. } if words.contains("--run-as-daemon=false") => Ok(()),
        other => Err(Stop::wrong(format!("the start of {name} ended with {other:?}"))),
    }
}

#[given(regex = r#"^the taint controller runs with "(.+)"$"#)]
#[when(regex = r#"^the taint controller runs with "(.+)"$"#)]
async fn runs(world: &mut LabWorld, words: String) -> Step {
    start(world, ALONE, &words).await
}

#[given(regex = r#"^the taint controllers "([^"]+)" and "([^"]+)" run with "(.+)"$"#)]
async fn both_run(world: &mut LabWorld, one: String, other: String, words: String) -> Step {
    start(world, &one, &words).await?;
    start(world, &other, &words).await?;
    let tier = world.cluster().await?;
    for name in [one, other] {
        let asked = |request: &Logged| {
            let of_lease = request.resource.as_deref() == Some("leases.coordination.k8s.io");
            of_lease && request.verb == Verb::Get && request.user == user(&name)
        };
        let tried = tier.api().until_requests(TRIES, asked);
        tokio::time::timeout(SOON, tried)
            .await
            .map_err(|_| Stop::wrong(format!("{name} does not try to lead")))?;
    }
    Ok(())
}

#[given(regex = r#"^the ConfigMap "([^"]+)" says "([^"]+)":$"#)]
#[when(regex = r#"^the ConfigMap "([^"]+)" says "([^"]+)":$"#)]
async fn config_map(world: &mut LabWorld, name: String, key: String, step: &gherkin::Step) -> Step {
    bare(world)?;
    let text = step.docstring.as_deref().ok_or_else(|| Stop::harness("no text is below the step"))?;
    let data = BTreeMap::from([(key, text.trim_start().to_owned())]);
    let metadata = json!({ "name": name, "namespace": SYSTEM_NAMESPACE });
    let map = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data });
    world.cluster().await?.apply(map).await?;
    Ok(())
}

/// What the controllers have printed.
pub async fn logs(world: &mut LabWorld) -> Result<Vec<String>, Stop> {
    let mut lines = world.cluster().await?.logs();
    lines.retain(|line| line.contains(CONTAINER));
    Ok(lines)
}

#[then(regex = r#"^the taint controller says "(.+)"$"#)]
async fn says(world: &mut LabWorld, fragment: String) -> Step {
    let fragment = fragment.replace('\'', "\"");
    eventually(SOON, async || {
        let lines = logs(world).await?;
        match lines.iter().any(|line| line.contains(&fragment)) {
            true => Ok(()),
            false => Err(Stop::wrong(format!("it said {lines:#?}"))),
        }
    })
    .await
}

#[given("the taint controller becomes ready")]
#[then("the taint controller becomes ready")]
async fn ready(world: &mut LabWorld) -> Step {
    let tier = world.cluster().await?;
    eventually(SOON, async || {
        let conditions =
            tier.api().pod(SYSTEM_NAMESPACE, ALONE).unwrap_or_default()["status"]["conditions"].clone();
        let is_ready = |one: &Value| one["type"] == "Ready" && one["status"] == "True";
        match conditions.as_array().is_some_and(|all| all.iter().any(is_ready)) {
            true => Ok(()),
            false => Err(Stop::wrong(format!("its conditions are {conditions}"))),
        }
    })
    .await
}

#[then(regex = r#"^the taint controller is not ready: "(.+)"$"#)]
async fn not_ready(world: &mut LabWorld, fragment: String) -> Step {
    let tier = world.cluster().await?;
    let fragment = fragment.replace('\'', "\"");
    eventually(SOON, async || {
        let seen = tier.unready(&PodName::new(SYSTEM_NAMESPACE, ALONE)).await?;
        match seen.iter().any(|why| why.contains(&fragment)) {
            true => Ok(()),
            false => Err(Stop::wrong(format!("its probe says {seen:?}"))),
        }
    })
    .await
}

#[then(regex = r#"^the taint controller ends with (\d+)(?:: "(.+)")?$"#)]
async fn ends(world: &mut LabWorld, code: i64, fragment: String) -> Step {
    let tier = world.cluster().await?;
    eventually(SOON, async || {
        let pod = tier.api().pod(SYSTEM_NAMESPACE, ALONE).unwrap_or_default();
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

#[given("the taint controller may not patch nodes")]
async fn may_not(world: &mut LabWorld) -> Step {
    let mut grants = grants("untaint");
    grants.remove(0);
    grants.push(Grant::rule(&[Verb::Get, Verb::List, Verb::Watch], "nodes"));
    world.cluster().await?.api().allow(&account(ALONE), grants).map_err(Stop::harness)?;
    Ok(())
}

#[when("the taint controller may patch nodes again")]
async fn may(world: &mut LabWorld) -> Step {
    world.cluster().await?.api().allow(&account(ALONE), grants("untaint")).map_err(Stop::harness)?;
    Ok(())
}

async fn requests(world: &mut LabWorld) -> Result<Vec<Logged>, Stop> {
    let users: Vec<_> = world.taints.controllers.names.iter().map(|name| user(name)).collect();
    let mut requests = world.cluster().await?.api().requests();
    requests.retain(|one| users.contains(&one.user));
    Ok(requests)
}

#[then("the taint controller was denied nothing")]
async fn denied_nothing(world: &mut LabWorld) -> Step {
    let denied: Vec<_> = requests(world).await?.into_iter().filter_map(|one| one.missing).collect();
    if denied.is_empty() { Ok(()) } else { Err(Stop::wrong(format!("it lacked {denied:?}"))) }
}

/// The name of the controller that the lease names.
async fn leader(world: &mut LabWorld) -> Result<String, Stop> {
    let leases: Api<Lease> = Api::namespaced(world.cluster().await?.api().client(), SYSTEM_NAMESPACE);
    eventually(SOON, async || {
        let lease = leases.get("istio-node-untaint").await.map_err(|error| Stop::wrong(error.to_string()))?;
        let holder = lease.spec.and_then(|spec| spec.holder_identity).unwrap_or_default();
        match holder.split_once('_') {
            Some((name, _)) => Ok(name.to_owned()),
            None => Err(Stop::wrong("nobody leads")),
        }
    })
    .await
}

async fn disturbed(world: &mut LabWorld) -> Result<String, Stop> {
    let name = leader(world).await?;
    world.taints.controllers.leader = Some(name.clone());
    Ok(name)
}

#[when(regex = "^the leader is (killed|told to stop)$")]
async fn killed(world: &mut LabWorld, how: String) -> Step {
    let name = disturbed(world).await?;
    let workload = world.cluster().await?.starting(SYSTEM_NAMESPACE, &name).await?;
    let pid = workload.process(CONTAINER).and_then(|pid| i32::try_from(pid).ok());
    let pid = pid.ok_or_else(|| Stop::wrong("it does not run"))?;
    let signal = if how == "killed" { Signal::SIGKILL } else { Signal::SIGTERM };
    kill(Pid::from_raw(pid), signal).map_err(Stop::harness)
}

#[when("the leader cannot renew its lease")]
async fn cannot_renew(world: &mut LabWorld) -> Step {
    let name = disturbed(world).await?;
    for verb in [Verb::Get, Verb::Update] {
        let effect = Effect::answer(http::StatusCode::SERVICE_UNAVAILABLE);
        let fault = Fault::about(verb, "leases.coordination.k8s.io", effect);
        world.cluster().await?.faults().add(Fault { user: Some(user(&name)), ..fault });
    }
    Ok(())
}

#[then(regex = r"^another one leads within (\d+) s$")]
async fn another(world: &mut LabWorld, seconds: u64) -> Step {
    let former = world.taints.controllers.leader.clone();
    eventually(Duration::from_secs(seconds), async || match leader(world).await? {
        name if Some(&name) != former.as_ref() => Ok(()),
        name => Err(Stop::wrong(format!("{name} still leads"))),
    })
    .await
}

#[then("nobody acted who did not hold the lease")]
async fn one_at_a_time(world: &mut LabWorld) -> Step {
    let (mut holder, mut acted) = (None, 0);
    for one in requests(world).await? {
        let written = one.code.is_some_and(|code| code < 300);
        match (one.verb, one.resource.as_deref()) {
            (Verb::Create | Verb::Update, Some("leases.coordination.k8s.io")) if written => {
                holder = Some(one.user)
            }
            (Verb::Patch, Some("nodes")) if holder.as_ref() == Some(&one.user) => acted += 1,
            (Verb::Patch, Some("nodes")) => {
                return Err(Stop::wrong(format!(
                    "{} patched {:?} while {holder:?} held the lease",
                    one.user, one.name
                )));
            }
            _ => {}
        }
    }
    if acted > 0 { Ok(()) } else { Err(Stop::harness("nobody acted at all")) }
}

#[given("the first patch of a node hangs")]
async fn hangs(world: &mut LabWorld) -> Step {
    let fault = Fault::about(Verb::Patch, "nodes", Effect::Hold(None)).first(1);
    let fault = Fault { user: Some(user(ALONE)), ..fault };
    bare(world)?;
    world.cluster().await?.faults().add(fault);
    Ok(())
}

#[given(regex = r"^lists of pods take (\d+) ms$")]
async fn slow_lists(world: &mut LabWorld, millis: u64) -> Step {
    let effect = Effect::Hold(Some(Duration::from_millis(millis)));
    let fault = Fault { user: Some(user(ALONE)), ..Fault::about(Verb::List, "pods", effect) };
    bare(world)?;
    world.cluster().await?.faults().add(fault);
    Ok(())
}

#[when("a patch is on its way")]
async fn on_its_way(world: &mut LabWorld) -> Step {
    let tier = world.cluster().await?;
    let is_patch = |one: &Logged| {
        one.verb == Verb::Patch && one.resource.as_deref() == Some("nodes") && one.user == user(ALONE)
    };
    let arrived = tier.api().until_requests(1, is_patch);
    tokio::time::timeout(SOON, arrived).await.map_err(|_| Stop::wrong("no node was patched"))
}

#[then(regex = r#"^the taint controller counts "(.+)"$"#)]
async fn counts(world: &mut LabWorld, line: String) -> Step {
    let line = line.replace('\'', "\"");
    let tier = world.cluster().await?;
    eventually(SOON, async || {
        let (_, text) = tier.fetch(&PodName::new(SYSTEM_NAMESPACE, ALONE), MONITORING, "/metrics").await?;
        match text.lines().any(|one| one == line) {
            true => Ok(()),
            false => Err(Stop::wrong(text)),
        }
    })
    .await
}

/// How many of a user's patches of a node succeeded.
async fn changes(world: &mut LabWorld, user: &str, node: &str) -> Result<usize, Stop> {
    let is_change = |one: &Logged| {
        let of_node = one.verb == Verb::Patch && one.resource.as_deref() == Some("nodes");
        of_node && one.name.as_deref() == Some(node) && one.user == user && one.code == Some(200)
    };
    Ok(world.cluster().await?.api().count(is_change))
}

#[then(regex = r#"^the taint controller changed node "([^"]+)" (\d+) times?$"#)]
async fn changed(world: &mut LabWorld, node: String, wanted: usize) -> Step {
    expect_eq("the number of changes", &changes(world, &user(ALONE), &node).await?, &wanted)
}

#[then(regex = r"^the node agent changed the node (\d+) times?$")]
async fn agent_changed(world: &mut LabWorld, wanted: usize) -> Step {
    let node = world.cluster().await?.node()?.name().to_owned();
    expect_eq("the number of changes", &changes(world, &NetnsCluster::plugin_user(), &node).await?, &wanted)
}

#[then(regex = r#"^an event "(\w+)" about node "([^"]+)" is there$"#)]
async fn event(world: &mut LabWorld, reason: String, node: String) -> Step {
    let events: Api<Event> = Api::namespaced(world.cluster().await?.api().client(), "default");
    eventually(SOON, async || {
        let all = events.list(&ListParams::default()).await.map_err(Stop::harness)?.items;
        let is_it = |one: &Event| {
            one.reason.as_deref() == Some(&*reason) && one.involved_object.name.as_deref() == Some(&*node)
        };
        match all.iter().any(is_it) {
            true => Ok(()),
            false => Err(Stop::wrong(format!(
                "there are {:?}",
                all.iter().map(|one| &one.reason).collect::<Vec<_>>()
            ))),
        }
    })
    .await
}
