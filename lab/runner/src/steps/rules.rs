// SPDX-License-Identifier: Apache-2.0
//! The rules in a pod's namespace: ours compared with what is wanted, and others' before and after.

use std::path::PathBuf;

use cluster::{CniCall, LiveRule};
use cucumber::{given, then, when};
use netfilter::snapshot::{ChainState, RuleState, TableState};
use netfilter::{Netns, Snapshot, legacy};
use redirect::found::FoundFamily;
use redirect::ruleset::{
    Chain, Family, Match, Origin, Port, Protocol, Rule, RulePlace, Ruleset, Scope, Sense, Table, Target,
};

use super::damage::{Dialect, rules_of};
use crate::steps::world::LabWorld;
use crate::stop::{Step, Stop, expect_eq};
use crate::tier::Tier;

/// All rules of a namespace: nf_tables does not list those of legacy iptables, nor the reverse.
#[derive(Debug, Clone)]
pub struct Held {
    pub nf_tables: Snapshot,
    pub legacy: Vec<LegacyRule>,
}

/// A rule of legacy iptables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LegacyRule {
    /// Family and table.
    pub place: String,
    /// As `iptables-legacy -S` lists it.
    pub text: String,
    pub packets: u64,
}

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

/// Runs a closure in a pod's namespace, on a thread of its own.
pub(super) async fn inside<T: Send + 'static>(
    world: &mut LabWorld,
    work: impl FnOnce() -> Result<T, String> + Send + 'static,
) -> Result<T, Stop> {
    let name = world.it.clone();
    world.run_pod(&name).await?;
    let path = PathBuf::from(world.workload(&name).await?.netns()?);
    let done = tokio::task::spawn_blocking(move || {
        Netns::open(path).and_then(|netns| netns.enter(work)).map_err(|error| error.to_string())
    });
    done.await.map_err(Stop::harness)?.map_err(Stop::harness)?.map_err(Stop::harness)
}

pub(super) async fn snapshot(world: &mut LabWorld) -> Result<Snapshot, Stop> {
    inside(world, || netfilter::read().map_err(|error| error.to_string())).await
}

pub(super) async fn held(world: &mut LabWorld) -> Result<Held, Stop> {
    inside(world, || {
        let nf_tables = netfilter::read().map_err(|error| error.to_string())?;
        Ok(Held { nf_tables, legacy: legacy_rules()? })
    })
    .await
}

/// Rules in tables of legacy iptables in the calling thread's namespace. To ask for a table makes it, so only those that exist are read.
pub(super) fn legacy_rules() -> Result<Vec<LegacyRule>, String> {
    let mut all = Vec::new();
    for table in legacy::read().map_err(|error| error.to_string())?.tables {
        let family = if table.family == FoundFamily::Legacy(Family::V4) { "ip" } else { "ip6" };
        for chain in table.chains {
            all.extend(chain.rules.into_iter().map(|rule| LegacyRule {
                place: format!("legacy {family} {}", table.name),
                text: format!("-A {} {}", chain.name, rule.text),
                packets: rule.packets.unwrap_or_default(),
            }));
        }
    }
    Ok(all)
}

fn listed(rules: &[LegacyRule]) -> Vec<String> {
    rules.iter().map(|rule| format!("{} {}", rule.place, rule.text)).collect()
}

async fn wanted(world: &mut LabWorld) -> Result<Ruleset, Stop> {
    let name = world.it.clone();
    let addresses = world.workload(&name).await?.addresses();
    rules_of(world.it()?, &addresses, Dialect::IPTABLES)
}

#[then("its namespace holds no rule")]
async fn none(world: &mut LabWorld) -> Step {
    let name = world.it.clone();
    world.run_pod(&name).await?;
    let rules = world.workload(&name).await?.rules().await?;
    let texts: Vec<String> = rules.iter().map(rule_text).collect();
    expect_eq("the list of its rules", &texts, &Vec::new())
}

fn rule_text(rule: &LiveRule) -> String {
    format!("{} {} -A {} {}", rule.family, rule.table, rule.chain, rule.text)
}

#[then("its namespace holds exactly the rules that it wants")]
#[then("its rules are complete")]
async fn complete(world: &mut LabWorld) -> Step {
    let name = world.it.clone();
    world.run_pod(&name).await?;
    let wanted = world.it()?.redirect().map_err(Stop::harness)?;
    let differences = world.workload(&name).await?.differences(&wanted).await?;
    expect_eq("the list of differences", &differences, &Vec::new())
}

fn text(table: &TableState, rule: &RuleState) -> String {
    netfilter::describe::describe(table.family, &rule.expressions)
}

/// A rule that none of our generators writes, by a port that nothing else here uses.
fn foreign(table: Table, chain: Chain, port: u16, target: Target) -> Rule {
    Rule {
        table,
        chain,
        scope: Scope::Both,
        place: RulePlace::Append,
        matches: vec![Match::Protocol(Protocol::Tcp), Match::DestinationPort(Sense::Is, Port::One(port))],
        target,
        origin: Origin::Always,
    }
}

fn before_ours() -> Vec<Rule> {
    vec![
        foreign(Table::Nat, Chain::Output, 9901, Target::Return),
        foreign(Table::Nat, Chain::Prerouting, 9902, Target::Accept),
        foreign(Table::Mangle, Chain::Output, 9903, Target::SetMark(77)),
    ]
}

fn behind_ours() -> Vec<Rule> {
    vec![
        foreign(Table::Nat, Chain::Output, 9911, Target::Accept),
        foreign(Table::Nat, Chain::Prerouting, 9912, Target::Return),
        foreign(Table::Filter, Chain::Output, 9913, Target::Drop),
    ]
}

#[given(regex = "^its namespace holds rules of others around (all|half|none) of ours$")]
async fn around(world: &mut LabWorld, how_many: String) -> Step {
    let name = world.it.clone();
    world.run_pod(&name).await?;
    let ours = wanted(world).await?;
    let kept = match how_many.as_str() {
        "all" => ours.rules.len(),
        "half" => ours.rules.len() / 2,
        _ => 0,
    };
    let rules: Vec<Rule> =
        before_ours().into_iter().chain(ours.rules.iter().take(kept).cloned()).chain(behind_ours()).collect();
    let mixed = Ruleset { rules, ..ours };
    inside(world, move || netfilter::apply(&mixed).map_err(|error| error.to_string())).await?;
    let snapshot = snapshot(world).await?;
    world.foreign = others(&snapshot);
    let planted = before_ours().len() + behind_ours().len();
    if world.foreign.len() < planted {
        return Err(Stop::harness(format!(
            "of {planted} rules of others only {:?} are there",
            world.foreign
        )));
    }
    Ok(())
}

/// Foreign rules: neither in a chain of ours nor leading to one.
fn others(snapshot: &Snapshot) -> Vec<ForeignRule> {
    let is_ours = |name: &str, text: &str| name.starts_with("ISTIO_") || text.contains("ISTIO_");
    let rules = |table: &TableState, chain: &ChainState| -> Vec<ForeignRule> {
        chain
            .rules
            .iter()
            .map(|rule| ForeignRule {
                place: format!("{} {} {}", table.family, table.name, chain.name),
                text: text(table, rule),
                handle: rule.handle,
            })
            .filter(|rule| !is_ours(&chain.name.to_string(), &rule.text))
            .collect()
    };
    let mut found: Vec<_> = snapshot
        .tables
        .iter()
        .flat_map(|table| table.chains.iter().flat_map(move |chain| rules(table, chain)))
        .collect();
    // Within a chain order is meaning; between chains it is the order in which they were made.
    found.sort_by(|a, b| a.place.cmp(&b.place));
    found
}

#[then("the rules of others are the same, in the same order")]
async fn unchanged(world: &mut LabWorld) -> Step {
    let now = others(&snapshot(world).await?);
    expect_eq("the list of others' rules", &now, &world.foreign.clone())
}

/// The runtime's ADD call of the plugin for a pod.
pub(super) fn recorded_add(tier: &Tier) -> Result<CniCall, Stop> {
    let calls = tier.node()?.cni_calls()?;
    calls
        .into_iter()
        .map(|(call, _)| call)
        .rfind(|call| {
            call.plugin == crate::binaries::PLUGIN
                && call.env.get("CNI_COMMAND").is_some_and(|it| it == "ADD")
        })
        .ok_or_else(|| Stop::harness("the runtime has not called ADD"))
}

#[when("the plugin's ADD is repeated")]
async fn repeat(world: &mut LabWorld) -> Step {
    let name = world.it.clone();
    world.run_pod(&name).await?;
    world.before = Some(held(world).await?);
    let tier = world.cluster().await?;
    let call = recorded_add(&tier)?;
    world.answer = Some(tier.node()?.call_plugin(call).await?);
    Ok(())
}

/// nf_tables counts its transactions. Legacy tables do not: a rule that was replaced by the same one shows by a counter that began anew.
#[then("nothing in its namespace was written")]
async fn untouched(world: &mut LabWorld) -> Step {
    let now = held(world).await?;
    let before = world.before.as_ref().ok_or_else(|| Stop::harness("nothing was repeated"))?;
    expect_eq("the generation of its rules", &now.nf_tables.generation, &before.nf_tables.generation)?;
    expect_eq("the list of its legacy rules", &listed(&now.legacy), &listed(&before.legacy))?;
    let pairs = now.legacy.iter().zip(&before.legacy);
    let replaced: Vec<_> = pairs.filter(|(now, before)| now.packets < before.packets).collect();
    expect_eq("the list of legacy rules that were written again", &replaced, &Vec::new())
}
