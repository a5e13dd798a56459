// SPDX-License-Identifier: Apache-2.0
//! Damaged namespaces of pods: partial rules, rules of upstream's tools, no policy routes.

use std::net::IpAddr;
use std::path::PathBuf;

use cluster::{Errand, Workload};
use cucumber::{given, when};
use futures::TryStreamExt as _;
use netfilter::Netns;
use netfilter::address::Rtnetlink;
use netfilter::backend::{Backend, Wish};
use netfilter::program::{Options, Request};
use netfilter::route::PolicyRoutes;
use redirect::config::Dns;
use redirect::ruleset::{Chain, Family, Match, Owner, Rule, Ruleset, Sense, Table, Target};
use redirect::{Config, generate, text};
use rtnetlink::packet_route::address::AddressMessage;

use super::policy::ask;
use super::rules::inside;
use crate::pod::Pod;
use crate::steps::world::LabWorld;
use crate::stop::{Step, Stop};

/// Dialect of the rules of a node's pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Dialect(redirect::ruleset::Dialect);

impl Dialect {
    pub(super) fn of(world: &LabWorld) -> Self {
        let native = world.node.plugin_conf.get("native_nftables").is_some_and(|value| *value == true);
        Self(if native { redirect::ruleset::Dialect::Nft } else { redirect::ruleset::Dialect::Iptables })
    }

    pub(super) const IPTABLES: Self = Self(redirect::ruleset::Dialect::Iptables);
    pub(super) const NATIVE: Self = Self(redirect::ruleset::Dialect::Nft);
}

/// The plugin's rules for a pod, as the API has it.
pub(super) fn rules_of(pod: &Pod, addresses: &[IpAddr], dialect: Dialect) -> Result<Ruleset, Stop> {
    generate::ruleset(&config_of(pod, addresses, dialect)?).map_err(Stop::harness)
}

fn config_of(pod: &Pod, addresses: &[IpAddr], dialect: Dialect) -> Result<Config, Stop> {
    let config = pod.config(addresses).map_err(Stop::harness)?;
    Ok(Config { dialect: dialect.0, ..config })
}

/// Replaces our rules in a pod's namespace.
async fn program(workload: &dyn Workload, rules: Ruleset) -> Step {
    within(workload, move || netfilter::apply(&rules).map(drop).map_err(|error| error.to_string())).await
}

/// Makes a pod's namespace hold everything that redirection needs, as a node agent would.
pub(super) async fn repair(workload: &dyn Workload, pod: &Pod, dialect: Dialect) -> Step {
    let config = config_of(pod, &workload.addresses(), dialect)?;
    let backend = if dialect == Dialect::IPTABLES { Backend::NftCompat } else { Backend::Nft };
    let request = Request { config, wish: Wish::Only(backend), recorded: None, options: Options::default() };
    within(workload, move || {
        let mut rtnetlink = Rtnetlink::open().map_err(|error| error.to_string())?;
        netfilter::program(&mut rtnetlink, request).map(drop).map_err(|error| error.to_string())
    })
    .await
}

pub(super) async fn within(
    workload: &dyn Workload,
    work: impl FnOnce() -> Result<(), String> + Send + 'static,
) -> Step {
    let path = PathBuf::from(workload.netns()?);
    let done = move || {
        let netns = Netns::open(path).map_err(|error| error.to_string())?;
        netns.enter(work).map_err(|error| error.to_string())?
    };
    tokio::task::spawn_blocking(done).await.map_err(Stop::harness)?.map_err(Stop::harness)
}

#[given(
    regex = "^its namespace loses (all its rules|its rules of IPv6|its inbound rules|its DNS rules|what exempts its proxy)$"
)]
#[when(
    regex = "^its namespace loses (all its rules|its rules of IPv6|its inbound rules|its DNS rules|what exempts its proxy)$"
)]
async fn loses(world: &mut LabWorld, what: String) -> Step {
    let name = world.it.clone();
    world.run_pod(&name).await?;
    let workload = world.workload(&name).await?;
    let mut config = config_of(&world.it()?.clone(), &workload.addresses(), Dialect::of(world))?;
    match what.as_str() {
        "its rules of IPv6" => config.ipv6 = false,
        "its DNS rules" => config.dns = Dns::Off,
        _ => {}
    }
    let mut rules = generate::ruleset(&config).map_err(Stop::harness)?;
    rules.rules.retain(|rule| !is_part(rule, &what));
    program(&*workload, rules).await
}

fn is_part(rule: &Rule, part: &str) -> bool {
    match part {
        "all its rules" => true,
        "its inbound rules" => {
            rule.chain == Chain::Prerouting || (rule.chain == Chain::IstioInbound && rule.table != Table::Raw)
        }
        "what exempts its proxy" => {
            let is_its = |one: &Match| matches!(one, Match::Owner(Sense::Is, Owner::Uid(_) | Owner::Gid(_)));
            rule.matches.iter().any(is_its) && rule.target == Target::Return
        }
        _ => false,
    }
}

/// Flushes a pod's tables without an event for anybody.
#[when("its namespace loses its rules")]
async fn lose_rules(world: &mut LabWorld) -> Step {
    let name = world.it.clone();
    let workload = world.workload(&name).await?;
    program(&*workload, Ruleset { dialect: Dialect::IPTABLES.0, ipv6: true, rules: Vec::new() }).await
}

#[given("its namespace loses its policy routes")]
#[when("its namespace loses its policy routes")]
async fn loses_routes(world: &mut LabWorld) -> Step {
    inside(world, || {
        let routes = PolicyRoutes { mark: 1337, table: 133, ipv6: true };
        let mut rtnetlink = Rtnetlink::open().map_err(|error| error.to_string())?;
        rtnetlink.remove_policy_routes(routes).map_err(|error| error.to_string())
    })
    .await
}

/// As a network plugin leaves it that has lost the pod.
#[when("its namespace loses its addresses")]
async fn loses_addresses(world: &mut LabWorld) -> Step {
    ask(world, async |handle| {
        let all: Vec<AddressMessage> = handle.address().get().execute().try_collect().await?;
        for address in all {
            // An address may go with another one of its interface.
            let _ = handle.address().del(address).execute().await;
        }
        Ok(())
    })
    .await
}

/// The text is upstream's, word for word: the reference corpora say so.
#[given(regex = "^(iptables-nft|iptables-legacy) writes upstream's rules into its namespace$")]
#[when(regex = "^(iptables-nft|iptables-legacy) writes upstream's rules into its namespace$")]
async fn restored(world: &mut LabWorld, tool: String) -> Step {
    let name = world.it.clone();
    world.run_pod(&name).await?;
    let workload = world.workload(&name).await?;
    let rules = rules_of(&world.it()?.clone(), &workload.addresses(), Dialect::IPTABLES)?;
    for family in rules.families() {
        let tool = if family == Family::V4 { tool.clone() } else { format!("ip6{}", &tool[2..]) };
        let errand = Errand {
            words: vec![format!("{tool}-restore"), "--noflush".to_owned()],
            stdin: text::restore(&rules, family).into_bytes(),
            netns: Some(workload.netns()?),
            ..Errand::default()
        };
        let answer = world.cluster().await?.node()?.run(errand).await?;
        if answer.exit != Some(0) {
            return Err(Stop::harness(format!("{tool}-restore answered {answer:?}")));
        }
    }
    Ok(())
}
