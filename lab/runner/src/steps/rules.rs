// SPDX-License-Identifier: Apache-2.0
//! The rules in a pod's namespace: ours compared with what is wanted, and others' before and after.

use std::time::Duration;

use cluster::network::Share;
use cluster::{Disturbance, LiveNetwork, LiveRule};
use cucumber::{given, then, when};
use serde_json::Value;

use super::backend::forms;
use super::damage::wanted;
use crate::binaries::PLUGIN;
use crate::steps::wait::throughout;
use crate::steps::world::LabWorld;
use crate::stop::{Step, Stop, expect_eq};

/// A rule of somebody else, with everything by which one could notice that it was touched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForeignRule {
    /// Family, table and chain.
    pub place: String,
    /// Text of the rule.
    pub text: String,
    /// The kernel's number of it: a rule that was removed and put back has another.
    pub handle: u64,
}

/// Rules and policy routes of the pod that `it` means, once it runs.
pub(super) async fn network(world: &mut LabWorld) -> Result<LiveNetwork, Stop> {
    let name = world.it.clone();
    world.run_pod(&name).await?;
    Ok(world.workload(&name).await?.network().await?)
}

/// And no chain or table of ours.
#[then("its namespace holds no rule")]
async fn none(world: &mut LabWorld) -> Step {
    let network = network(world).await?;
    let texts: Vec<String> = network.rules.iter().map(rule_text).collect();
    expect_eq("the list of its rules", &texts, &Vec::new())?;
    expect_eq("what has chains or tables of ours", &forms(&network), &Vec::new())
}

/// For so long nobody writes any: whoever wanted to would have.
#[then(regex = r"^for (\d+) s its namespace holds no rule$")]
async fn stays_empty(world: &mut LabWorld, seconds: u64) -> Step {
    throughout(world, Duration::from_secs(seconds), none).await
}

/// A rule with its place.
pub(super) fn rule_text(rule: &LiveRule) -> String {
    format!("{} {} -A {} {}", rule.family, rule.table, rule.chain, rule.text)
}

#[then("its rules are complete")]
async fn complete(world: &mut LabWorld) -> Step {
    let wanted = wanted(world, false).await?;
    let name = world.it.clone();
    let differences = world.workload(&name).await?.differences(&wanted).await?;
    expect_eq("the list of differences", &differences, &Vec::new())
}

/// Rules of others that surround ours: three before and three behind them.
const STRANGERS: usize = 6;

#[given(regex = "^its namespace holds rules of others around (all|half|none) of ours$")]
async fn around(world: &mut LabWorld, how_many: String) -> Step {
    let share = match how_many.as_str() {
        "all" => Share::All,
        "half" => Share::Half,
        _ => Share::None,
    };
    let wanted = wanted(world, false).await?;
    let name = world.it.clone();
    world.workload(&name).await?.disturb(&Disturbance::Surrounded(wanted, share)).await?;
    world.foreign = others(&network(world).await?);
    if world.foreign.len() < STRANGERS {
        return Err(Stop::harness(format!(
            "of {STRANGERS} rules of others only {:?} are there",
            world.foreign
        )));
    }
    Ok(())
}

/// Foreign rules of nf_tables: neither in a chain of ours nor leading to one.
fn others(network: &LiveNetwork) -> Vec<ForeignRule> {
    let is_ours = |rule: &&LiveRule| rule.chain.starts_with("ISTIO_") || rule.text.contains("ISTIO_");
    let foreign = network.rules.iter().filter(|rule| !rule.is_legacy() && !is_ours(rule));
    let mut found: Vec<_> = foreign
        .map(|rule| ForeignRule {
            place: format!("{} {} {}", rule.family, rule.table, rule.chain),
            text: rule.text.clone(),
            handle: rule.handle,
        })
        .collect();
    // Within a chain order is meaning; between chains it is the order in which they were made.
    found.sort_by(|a, b| a.place.cmp(&b.place));
    found
}

#[then("the rules of others are the same, in the same order")]
async fn unchanged(world: &mut LabWorld) -> Step {
    let now = others(&network(world).await?);
    expect_eq("the list of others' rules", &now, &world.foreign.clone())
}

/// Calls the plugin's ADD of the pod once more, with one more key in its configuration if there is one.
#[when(regex = r#"^the plugin's ADD is repeated(?: with "([^"]+)" = (.+))?$"#)]
async fn repeat(world: &mut LabWorld, key: String, value: String) -> Step {
    let name = world.it.clone();
    world.run_pod(&name).await?;
    world.before = Some(network(world).await?);
    let tier = world.cluster().await?;
    let mut call = tier.node()?.last_add(PLUGIN, &name).await?;
    if !key.is_empty() {
        let mut conf: Value = serde_json::from_slice(&call.stdin).map_err(Stop::harness)?;
        conf[key] = serde_json::from_str(&value).map_err(Stop::harness)?;
        call.stdin = conf.to_string().into_bytes();
    }
    world.answer = Some(tier.node()?.call_plugin(call).await?);
    Ok(())
}

/// Rules in tables of legacy iptables.
pub(super) fn legacy(network: &LiveNetwork) -> impl Iterator<Item = &LiveRule> {
    network.rules.iter().filter(|rule| rule.is_legacy())
}

/// nf_tables counts its transactions. Legacy tables do not: a rule that was replaced by the same one shows by a counter that began anew.
/// Lookups by mark and addresses are the same.
#[then("nothing in its namespace was written")]
async fn untouched(world: &mut LabWorld) -> Step {
    let now = network(world).await?;
    let before = world.before.as_ref().ok_or_else(|| Stop::harness("nothing was repeated"))?;
    expect_eq("the generation of its rules", &now.generation, &before.generation)?;
    expect_eq("the list of its lookups by mark", &now.policies, &before.policies)?;
    expect_eq("the list of its addresses", &now.addresses, &before.addresses)?;
    let texts = |network| legacy(network).map(rule_text).collect::<Vec<_>>();
    expect_eq("the list of its legacy rules", &texts(&now), &texts(before))?;
    if legacy(before).next().is_some() && legacy(before).all(|rule| rule.packets == 0) {
        return Err(Stop::harness(
            "no packet had met its legacy rules: nobody could tell new ones from old ones",
        ));
    }
    let pairs = legacy(&now).zip(legacy(before));
    let replaced: Vec<_> = pairs.filter(|(now, before)| now.packets < before.packets).collect();
    expect_eq("the list of legacy rules that were written again", &replaced, &Vec::new())
}
