// SPDX-License-Identifier: Apache-2.0
//! The truth table, as one behaviour: the evaluator and the kernel say the same.

use ::truth::data::Author;
use ::truth::{Binary, Writer};
use cucumber::{then, when};
use netfilter::Wish;
use serde::Serialize;
use serde_json::{Map, Value};
use tokio::sync::Mutex;

use crate::stop::{Step, Stop};
use crate::truth::compare::Findings;
use crate::truth::{data, kernel};
use crate::world::{Lab, LabWorld, Scale};

/// Findings in a message; the rest is counted.
const SHOWN: usize = 12;

#[when("every packet of the truth table is judged by the evaluator and by the kernel")]
async fn judge(world: &mut LabWorld) -> Step {
    let lab = world.lab()?;
    let dir = lab.plan.root.join("scenarios/truth");
    let groups = data::read(&dir).map_err(|error| Stop::harness(format!("{error:#}")))?;
    let tier = world.cluster().await?;
    let seen =
        kernel::run(&lab.plan, &tier, &groups).await.map_err(|error| Stop::harness(format!("{error:#}")))?;
    let findings = Findings::of(&groups, &seen);
    world.notes.push(findings.to_string());
    if world.node.mutant.is_none() {
        report(&lab, "pods", &findings).await?;
    }
    world.findings = Some(findings);
    Ok(())
}

/// Enters a part of the table into `truth.json`. Parts are judged side by side, and each may be the first.
async fn report(lab: &Lab, part: &str, findings: &impl Serialize) -> Step {
    static FILE: Mutex<()> = Mutex::const_new(());
    let _one = FILE.lock().await;
    let file = lab.plan.report_dir.join("truth.json");
    let mut parts: Map<String, Value> = match tokio::fs::read(&file).await {
        Ok(text) => serde_json::from_slice(&text).map_err(Stop::harness)?,
        Err(_) => Map::new(),
    };
    parts.insert(part.to_owned(), serde_json::to_value(findings).map_err(Stop::harness)?);
    let json = serde_json::to_vec_pretty(&parts).map_err(Stop::harness)?;
    tokio::fs::write(file, json).await.map_err(Stop::harness)
}

#[when(regex = r#"^(\d+) packets are sent in each configuration, programmed through ([a-z-]+)$"#)]
async fn at_scale(world: &mut LabWorld, packets: usize, backend: String) -> Step {
    judge_at_scale(world, packets, &backend, Writer::Library).await
}

#[when(
    regex = r#"^(\d+) packets are sent in each configuration by hand that istio-iptables programs through ([a-z-]+)$"#
)]
async fn by_the_binary(world: &mut LabWorld, packets: usize, backend: String) -> Step {
    let path = world.lab()?.plan.sut.dir.join("istio-iptables");
    let mutant = world.node.mutant.clone();
    judge_at_scale(world, packets, &backend, Writer::Binary(Binary { path, mutant })).await
}

async fn judge_at_scale(world: &mut LabWorld, packets: usize, backend: &str, writer: Writer) -> Step {
    let lab = world.lab()?;
    let Ok(Wish::Only(backend)) = backend.parse() else {
        return Err(Stop::harness(format!("{backend:?} is not a back end")));
    };
    let mut table = ::truth::data::read(&lab.plan.root.join("scenarios")).map_err(wrong_harness)?;
    let part = match &writer {
        Writer::Library | Writer::Misled(_) => backend.name().to_owned(),
        Writer::Binary(_) => {
            table.cases.retain(|case| case.author == Author::Hand);
            format!("istio-iptables, {backend}")
        }
    };
    // One packet that shows a defect is enough.
    let enough = if world.node.mutant.is_some() { 1 } else { usize::MAX };
    let lanes = std::thread::available_parallelism().map_or(1, usize::from);
    let plan =
        ::truth::Plan { writer, backend, cases: table.cases, packets, lanes, seed: lab.plan.seed, enough };
    let plan = plan.possible();
    // Its threads are its own: they live in namespaces that no other task may find itself in.
    let judged = tokio::task::spawn_blocking(move || ::truth::run(&plan)).await.map_err(Stop::harness)?;
    let mut found = judged.map_err(wrong_harness)?;
    found.backend.clone_from(&part);
    world.notes.push(found.to_string());
    if world.node.mutant.is_none() {
        report(&lab, &part, &found).await?;
    }
    world.scale = Some(Scale { gaps: found.gaps(&table.unreachable), findings: found });
    Ok(())
}

#[expect(clippy::needless_pass_by_value, reason = "what map_err hands over")]
fn wrong_harness(error: anyhow::Error) -> Stop {
    Stop::harness(format!("{error:#}"))
}

fn scale(world: &LabWorld) -> Result<&Scale, Stop> {
    world.scale.as_ref().ok_or_else(|| Stop::harness("no packets have been sent at scale"))
}

#[then(regex = r"^at least (\d+) packets over at least (\d+) configurations were judged$")]
fn scale_size(world: &mut LabWorld, packets: usize, pods: usize) -> Step {
    let found = &scale(world)?.findings;
    if found.packets >= packets && found.pods >= pods {
        Ok(())
    } else {
        Err(Stop::wrong(format!("there were {} packets over {} configurations", found.packets, found.pods)))
    }
}

#[then("each packet was got by whom the evaluator says, as what it says")]
fn nothing_astray(world: &mut LabWorld) -> Step {
    let astray = &scale(world)?.findings.astray;
    none("packets astray", &repeatable(world, astray)?)
}

#[then("each rule is in its place, and its counter moved when the evaluator says")]
fn counters_agree(world: &mut LabWorld) -> Step {
    let disagreements = &scale(world)?.findings.disagreements;
    none("disagreements", &repeatable(world, disagreements)?)
}

/// Findings with commands to reproduce them.
fn repeatable(world: &LabWorld, found: &[String]) -> Result<Vec<String>, Stop> {
    let seed = world.lab()?.plan.seed_text();
    let again = |text: &String| format!("{text}\n    again: cargo lab run --only {} --seed {seed}", world.id);
    Ok(found.iter().map(again).collect())
}

#[then("every kind of rule was met by some packet, or is listed with the reason why none can")]
fn scale_covers(world: &mut LabWorld) -> Step {
    none("gaps", &scale(world)?.gaps)
}

fn findings(world: &LabWorld) -> Result<&Findings, Stop> {
    world.findings.as_ref().ok_or_else(|| Stop::harness("the truth table has not been judged"))
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

#[then(regex = r"^there are at least (\d+) packets over at least (\d+) pods$")]
fn size(world: &mut LabWorld, packets: usize, pods: usize) -> Step {
    let findings = findings(world)?;
    if findings.packets >= packets && findings.pods >= pods {
        Ok(())
    } else {
        Err(Stop::wrong(format!("there are {} packets over {} pods", findings.packets, findings.pods)))
    }
}

#[then("the two agree on who answers each packet and on every rule's counter")]
fn agree(world: &mut LabWorld) -> Step {
    none("disagreements", &findings(world)?.disagreements)
}

#[then("every rule was met by some packet, or is listed with the reason why none can")]
fn covered(world: &mut LabWorld) -> Step {
    none("gaps", &findings(world)?.uncovered)
}

#[then("no outcome is rare")]
fn shared(world: &mut LabWorld) -> Step {
    none("rare outcomes", &findings(world)?.rare())
}
