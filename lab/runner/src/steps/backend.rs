// SPDX-License-Identifier: Apache-2.0
//! Back ends: the node's request, features that its kernel lacks or denies, foreign rules, and the plugin's choice with its reason.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use cluster::{CniAnswer, Entering, Files, LiveNetwork};
use cucumber::gherkin::Step as Line;
use cucumber::{given, then, when};
use serde_json::Value;

use super::files::files;
use super::rules::{legacy, network};
use crate::binaries::PLUGIN;
use crate::steps::world::LabWorld;
use crate::stop::{Step, Stop, expect, expect_eq};
use crate::tier::Tier;

/// Upstream's setting for native rules.
const NATIVE: &str = "native_nftables";
/// Our setting for a back end by name.
pub(super) const BACK_END: &str = "millrace_backend";
/// Name of the agent's record in the run directory.
const RECORD: &str = "backend";
/// Deadline of the agent's probe.
const RECORDED: Duration = Duration::from_secs(10);
/// Default lock of the legacy tools.
const NODE_LOCK: &str = "/run/xtables.lock";
/// Directories of the tools, in a `PATH` or not.
const DIRECTORIES: [&str; 6] =
    ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"];
/// Names of the restore tools.
const TOOLS: [&str; 6] = [
    "iptables-restore",
    "ip6tables-restore",
    "iptables-legacy-restore",
    "ip6tables-legacy-restore",
    "iptables-nft-restore",
    "ip6tables-nft-restore",
];

#[given(regex = "^a node whose back end is (nft-compat|nft|iptables-nft|iptables-legacy)$")]
fn back_end(world: &mut LabWorld, name: String) {
    match name.as_str() {
        // Default of a node.
        "nft-compat" => {}
        "nft" => drop(world.node.plugin_conf.insert(NATIVE.to_owned(), true.into())),
        _ => drop(world.node.plugin_conf.insert(BACK_END.to_owned(), name.into())),
    }
}

#[given(regex = "^a node whose kernel lacks ([a-z0-9, -]+)$")]
fn lacks(world: &mut LabWorld, names: String) -> Step {
    if names != "nothing" {
        let lacks = names.split([',', ' ']).filter(|name| !name.is_empty() && *name != "and");
        world.node.kernel.without = lacks.map(str::parse).collect::<Result<_, _>>().map_err(Stop::harness)?;
    }
    Ok(())
}

/// A relative path starts at the node's own root: the tools in `/usr` are the machine's.
#[given(regex = r#"^a node that forbids "([^"]+)"$"#)]
fn forbids(world: &mut LabWorld, path: String) {
    world.node.kernel.deny.push(PathBuf::from(path));
}

#[given("a node that forbids to enter namespaces")]
fn no_entering(world: &mut LabWorld) {
    world.node.kernel.entering = Entering::Forbidden;
}

#[given("a node whose file systems are read-only")]
fn read_only(world: &mut LabWorld) {
    world.node.kernel.files = Files::ReadOnly;
}

#[given("a node without the iptables tools")]
fn no_tools(world: &mut LabWorld) {
    let files = DIRECTORIES.iter().flat_map(|at| TOOLS.iter().map(move |name| PathBuf::from(at).join(name)));
    world.node.kernel.deny.extend(files);
}

#[given("a node without a shell and without any tool")]
fn bare(world: &mut LabWorld) {
    world.node.kernel.deny.extend(DIRECTORIES.map(PathBuf::from));
}

#[given(regex = r#"^the node's record of the back end says "([^"]*)"$"#)]
fn record(world: &mut LabWorld, text: String) {
    // A line each, as the agent writes it.
    world.node.run_files.insert(RECORD.to_owned(), text.replace(", ", "\n") + "\n");
}

#[given("its network leaves rules of iptables-legacy")]
fn leaves(world: &mut LabWorld, step: &Line) -> Step {
    let text = step.docstring.as_deref().ok_or_else(|| Stop::harness("the step has no rules"))?;
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    world.left = lines.clone().filter(|line| line.starts_with("-A")).map(str::to_owned).collect();
    let text = lines.map(|line| format!("{line}\n")).collect::<String>();
    world.node.base_conf.insert("leaves".to_owned(), text.into());
    Ok(())
}

#[given("its network switches IPv6 off")]
fn no_ipv6(world: &mut LabWorld) {
    let off = serde_json::json!({ "ipv6/conf/all/disable_ipv6": "1", "ipv6/conf/default/disable_ipv6": "1" });
    world.node.base_conf.insert("sysctls".to_owned(), off);
}

#[given("another process holds the node's lock of the tables")]
async fn node_lock(world: &mut LabWorld) -> Step {
    // Two scenarios may hold the node's at a time; a legacy tool of a third has it for itself, for a moment.
    let lock = files(world).await?.hand.lock(Path::new(NODE_LOCK)).await?;
    world.locks.push(lock);
    Ok(())
}

#[given("another process holds its namespace's lock of the tables")]
async fn pod_lock(world: &mut LabWorld) -> Step {
    let name = world.it.clone();
    world.run_pod(&name).await?;
    let (netns, node) = (world.workload(&name).await?.netns()?, files(world).await?);
    let lock = node.hand.lock(&node.namespace(&netns)).await?;
    world.locks.push(lock);
    Ok(())
}

#[when("that process lets it go")]
async fn let_go(world: &mut LabWorld) -> Step {
    let lock = world.locks.pop().ok_or_else(|| Stop::harness("nobody holds a lock"))?;
    Ok(lock.release().await?)
}

/// Answer to the plugin's last ADD.
fn last_add(tier: &Tier) -> Result<CniAnswer, Stop> {
    let calls = tier.node()?.cni_calls()?;
    let last = calls.into_iter().rfind(|(call, _)| call.plugin == PLUGIN && call.command() == "ADD");
    last.map(|(_, answer)| answer).ok_or_else(|| Stop::harness("the runtime has not called ADD"))
}

/// Lines of the plugin's log, as JSON.
pub fn log_lines(answer: &CniAnswer) -> impl Iterator<Item = Value> + '_ {
    answer.stderr.lines().filter_map(|line| serde_json::from_str(line).ok())
}

/// Back end of an ADD, and why.
#[must_use]
pub fn taken(answer: &CniAnswer) -> Option<String> {
    log_lines(answer).find_map(|line| Some(line["backend"].as_str()?.to_owned()))
}

#[then(regex = r#"^the plugin took back end (\S+) because "([^"]+)"$"#)]
async fn took(world: &mut LabWorld, name: String, reason: String) -> Step {
    let it = world.it.clone();
    world.run_pod(&it).await?;
    let answer = last_add(&*world.cluster().await?)?;
    match taken(&answer) {
        Some(taken) if taken.strip_prefix(&format!("{name}: ")).is_some_and(|why| why.contains(&reason)) => {
            Ok(())
        }
        taken => Err(Stop::wrong(format!("it took {taken:?}; standard error {:?}", answer.stderr))),
    }
}

/// Back end of a record.
fn named(record: &str) -> Option<String> {
    record.lines().find_map(|line| line.strip_prefix("backend=")).map(str::to_owned)
}

#[then("the node agent records the back end that pods then get")]
async fn recorded(world: &mut LabWorld) -> Step {
    let node = files(world).await?;
    let path = node.paths.run_dir.join(RECORD);
    let recorded = node
        .until(RECORDED, &[&path], async || {
            let text = node.text(&path).await?;
            named(&text).ok_or_else(|| Stop::wrong(format!("the record says {text:?}")))
        })
        .await?;
    let it = world.it.clone();
    world.run_pod(&it).await?;
    let answer = last_add(&*world.cluster().await?)?;
    match taken(&answer) {
        Some(taken) if taken.starts_with(&format!("{recorded}: ")) => Ok(()),
        taken => Err(Stop::wrong(format!("it took {taken:?}, recorded is {recorded}"))),
    }
}

#[then(regex = r#"^the plugin warns "([^"]+)"$"#)]
async fn warns(world: &mut LabWorld, fragment: String) -> Step {
    let answer = last_add(&*world.cluster().await?)?;
    let warned =
        log_lines(&answer).any(|line| line["level"] == "warn" && line.to_string().contains(&fragment));
    expect(warned, || format!("standard error {:?}", answer.stderr))
}

/// Dialect of our rules in a namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// Tables of iptables, in nf_tables.
    Compat,
    /// Native tables.
    Native,
    /// Tables of legacy iptables.
    Legacy,
}

pub(super) fn forms(network: &LiveNetwork) -> Vec<Form> {
    let held = |legacy: bool| {
        let rules = network.rules.iter().filter(|rule| rule.is_legacy() == legacy && rule.family != "inet");
        let chains = network.tables.iter().filter(|table| table.is_legacy() == legacy);
        rules.clone().any(|rule| is_ours(&rule.chain, &rule.text))
            || chains.flat_map(|table| &table.chains).any(|chain| is_ours(chain, ""))
    };
    let native =
        network.tables.iter().any(|table| table.family == "inet" && table.name.starts_with("istio-proxy-"));
    let found = [(held(false), Form::Compat), (native, Form::Native), (held(true), Form::Legacy)];
    found.into_iter().filter_map(|(there, form)| there.then_some(form)).collect()
}

#[then(
    regex = "^its namespace holds one set of rules, that of (nft-compat|nft|iptables-nft|iptables-legacy)$"
)]
async fn one_set(world: &mut LabWorld, name: String) -> Step {
    let network = network(world).await?;
    let found = forms(&network);
    let wanted = match name.as_str() {
        "iptables-legacy" => Form::Legacy,
        "nft" => Form::Native,
        _ => Form::Compat,
    };
    expect_eq("the forms of its rules", &found, &vec![wanted])?;
    let twice = twice(&network);
    expect(twice.is_empty(), || format!("there twice: {twice:?}"))
}

/// Our rules that a chain has more than once, legacy ones as well: no set has two alike.
fn twice(network: &LiveNetwork) -> Vec<String> {
    let mut seen = BTreeSet::new();
    let ours = network.rules.iter().filter(|rule| is_ours(&rule.chain, &rule.text));
    let shown = ours.map(|rule| format!("{} {} {} {}", rule.family, rule.table, rule.chain, rule.text));
    shown.filter(|rule| !seen.insert(rule.clone())).collect()
}

fn is_ours(chain: &str, text: &str) -> bool {
    chain.starts_with("ISTIO_") || text.contains("ISTIO_")
}

#[then("the rules that its network left are the same, in the same order")]
async fn left(world: &mut LabWorld) -> Step {
    let network = network(world).await?;
    let rules = legacy(&network).map(|rule| format!("-A {} {}", rule.chain, rule.text));
    let others = rules.filter(|text| !text.contains("ISTIO_")).collect();
    expect_eq("the list of its network's rules", &others, &world.left.clone())
}
