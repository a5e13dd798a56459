// SPDX-License-Identifier: Apache-2.0
//! The truth table of what the binaries under test wrote: the evaluator and the kernel say the same.

use ::truth::{Backend, Fates, Judge, Writer, data};
use cucumber::{then, when};
use serde_json::{Map, Value};
use tokio::runtime::Handle;
use tokio::sync::Mutex;

use crate::directory;
use crate::names;
use crate::steps::world::{Judged, Lab, LabWorld};
use crate::stop::{Step, Stop, expect};
use crate::truth::{Plugin, Seat, Tool, pods};

/// Findings in a message; the rest is counted.
const SHOWN: usize = 12;

/// Each configuration of scenarios/truth and scenarios/rules that a command line can ask for, at least so many packets each.
#[when(regex = r"^(\d+) packets are sent in each configuration that istio-iptables programs as ([a-z-]+)$")]
async fn by_the_tool(world: &mut LabWorld, packets: usize, backend: String) -> Step {
    let table = data::read(&world.lab()?.plan.root.join("scenarios")).map_err(harness)?;
    let writer = Tool::new(seat(world).await?);
    judge(world, packets, &backend, ("istio-iptables", Box::new(writer)), table).await
}

/// Each pod of scenarios/truth/pods.yaml.
#[when(regex = r"^(\d+) packets are sent in each pod that istio-cni programs as ([a-z-]+)$")]
async fn by_the_plugin(world: &mut LabWorld, packets: usize, backend: String) -> Step {
    let scenarios = world.lab()?.plan.root.join("scenarios");
    let mut table = data::read(&scenarios).map_err(harness)?;
    let (cases, pods) = pods(&scenarios.join("truth/pods.yaml")).map_err(harness)?;
    table.cases = cases;
    let writer = Plugin { seat: seat(world).await?, pods };
    judge(world, packets, &backend, ("istio-cni", Box::new(writer)), table).await
}

/// Each configuration of `scenarios/truth/fates.json`, with the packets that are recorded there. Without a back end the product chooses.
#[when(
    regex = r"^the recorded packets are sent in each configuration that istio-iptables programs(?: as ([a-z-]+))?$"
)]
async fn recorded(world: &mut LabWorld, backend: String) -> Step {
    let scenarios = world.lab()?.plan.root.join("scenarios");
    let table = data::read(&scenarios).map_err(harness)?;
    let fates = Fates::read(&scenarios).map_err(harness)?;
    let mut writer = Tool::new(seat(world).await?);
    writer.says_backend = !backend.is_empty();
    world.notes.push(format!("judged by fates of packets with rules of {}", fates.of));
    let backend = if backend.is_empty() { Backend::NftCompat.name() } else { &backend };
    let who = if writer.says_backend {
        "istio-iptables, recorded"
    } else {
        "istio-iptables by its own choice, recorded"
    };
    judge_by(world, 0, backend, (who, Box::new(writer)), table, Judge::Recorded(fates)).await
}

async fn seat(world: &mut LabWorld) -> Result<Seat, Stop> {
    let tier = world.cluster().await?;
    // Its pods are namespaces beside the node's.
    tier.node()?.paths()?;
    Ok(Seat { tier, runtime: Handle::current() })
}

async fn judge(
    world: &mut LabWorld,
    packets: usize,
    backend: &str,
    writer: (&str, Box<dyn Writer>),
    table: data::Table,
) -> Step {
    world.notes.push("judged by our own evaluator of our own rules".to_owned());
    judge_by(world, packets, backend, writer, table, Judge::Evaluator).await
}

async fn judge_by(
    world: &mut LabWorld,
    packets: usize,
    backend: &str,
    (who, writer): (&str, Box<dyn Writer>),
    table: data::Table,
    judge: Judge,
) -> Step {
    let lab = world.lab()?;
    let Some(backend) = Backend::ALL.into_iter().find(|one| one.name() == backend) else {
        return Err(Stop::harness(format!("{backend:?} is not a back end")));
    };
    // One packet that shows a defect is enough.
    let enough = if world.node.mutant.is_some() { 1 } else { usize::MAX };
    let lanes = std::thread::available_parallelism().map_or(1, usize::from);
    let (cases, seed) = (table.cases.clone(), lab.plan.seed);
    let plan = ::truth::Plan { writer, backend, cases, packets, lanes, seed, enough, judge }.possible();
    let unreachable = table.unreachable_in(&plan.cases);
    // Its threads are its own: they live in namespaces that no other task may find itself in.
    let judged = tokio::task::spawn_blocking(move || ::truth::run(&plan)).await.map_err(Stop::harness)?;
    let mut findings = judged.map_err(harness)?;
    findings.backend = part(who, backend);
    world.notes.push(findings.to_string());
    if world.node.mutant.is_none() {
        report(&lab, &findings).await?;
    }
    world.judged = Some(Judged { gaps: findings.gaps(&unreachable), findings });
    Ok(())
}

fn part(who: &str, backend: Backend) -> String {
    format!("{who}, {backend}")
}

/// Enters a part of the table into `truth.json`. Parts are judged side by side, and each may be the first.
async fn report(lab: &Lab, findings: &::truth::Findings) -> Step {
    const NAME: &str = "truth.json";
    static FILE: Mutex<()> = Mutex::const_new(());
    let _one = FILE.lock().await;
    let dir = &lab.plan.report_dir;
    let mut parts: Map<String, Value> = match tokio::fs::read(dir.join(NAME)).await {
        Ok(text) => serde_json::from_slice(&text).map_err(Stop::harness)?,
        Err(_) => Map::new(),
    };
    parts.insert(findings.backend.clone(), serde_json::to_value(findings).map_err(Stop::harness)?);
    let json = serde_json::to_vec_pretty(&parts).map_err(Stop::harness)?;
    directory::write(dir, NAME, &json).map_err(harness)
}

#[expect(clippy::needless_pass_by_value, reason = "what map_err hands over")]
fn harness(error: anyhow::Error) -> Stop {
    Stop::harness(format!("{error:#}"))
}

fn judged(world: &LabWorld) -> Result<&Judged, Stop> {
    world.judged.as_ref().ok_or_else(|| Stop::harness("no packets have been sent"))
}

#[then(regex = r"^at least (\d+) packets over at least (\d+) (?:configurations|pods) were judged$")]
fn size(world: &mut LabWorld, packets: usize, pods: usize) -> Step {
    let found = &judged(world)?.findings;
    expect(found.packets >= packets && found.pods >= pods, || {
        format!("there were {} packets over {} configurations", found.packets, found.pods)
    })
}

#[then("each packet was got by whom the evaluator says, as what it says")]
fn nothing_astray(world: &mut LabWorld) -> Step {
    let astray = &judged(world)?.findings.astray;
    none("packets astray", &repeatable(world, astray)?)
}

#[then("each packet has the fate that it had with the rules of upstream")]
fn fates_agree(world: &mut LabWorld) -> Step {
    nothing_astray(world)
}

#[then("each rule is in its place, and its counter moved when the evaluator says")]
fn counters_agree(world: &mut LabWorld) -> Step {
    let disagreements = &judged(world)?.findings.disagreements;
    none("disagreements", &repeatable(world, disagreements)?)
}

#[then("every kind of rule was met by some packet, or is listed with the reason why none can")]
fn covered(world: &mut LabWorld) -> Step {
    none("gaps", &judged(world)?.gaps)
}

/// Findings with commands to reproduce them.
fn repeatable(world: &LabWorld, found: &[String]) -> Result<Vec<String>, Stop> {
    let seed = world.lab()?.plan.seed_text();
    let id = names::quoted(&world.id);
    let again = |text: &String| format!("{text}\n    again: cargo lab run --only {id} --seed {seed}");
    Ok(found.iter().map(again).collect())
}

/// Fails on any finding.
fn none(what: &str, found: &[String]) -> Step {
    if found.is_empty() {
        return Ok(());
    }
    let mut text = format!("{} {what}", found.len());
    for line in found.iter().take(SHOWN) {
        text.push_str("\n- ");
        text.push_str(line);
    }
    if found.len() > SHOWN {
        text.push_str("\n- …");
    }
    Err(Stop::wrong(text))
}
