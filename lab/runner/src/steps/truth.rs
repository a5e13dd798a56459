// SPDX-License-Identifier: Apache-2.0
//! The truth table, as one behaviour: the evaluator and the kernel say the same.

use cucumber::{then, when};

use crate::stop::{Step, Stop};
use crate::truth::compare::Findings;
use crate::truth::{data, kernel};
use crate::world::LabWorld;

/// How many findings a message shows; the rest is counted.
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
        let json = serde_json::to_vec_pretty(&findings).map_err(Stop::harness)?;
        let file = lab.plan.report_dir.join("truth.json");
        tokio::fs::write(file, json).await.map_err(Stop::harness)?;
    }
    world.findings = Some(findings);
    Ok(())
}

fn findings(world: &LabWorld) -> Result<&Findings, Stop> {
    world.findings.as_ref().ok_or_else(|| Stop::harness("the truth table has not been judged"))
}

/// Nothing of what was looked for may have been found.
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
