// SPDX-License-Identifier: Apache-2.0
//! Changes of the network namespace that this process is in, as somebody else than the plugin makes them.

// One stranger for the agent's own tests and for the lab.
#[path = "../../../cni/agent/tests/kernel/stranger.rs"]
#[expect(dead_code, reason = "the agent's tests need more of it")]
pub(crate) mod stranger;

use std::io;

use anyhow::{Context as _, ensure};
use cluster::network::{Disturbance, Foreign, Part, Share, Wanted};
use futures::{StreamExt as _, TryStreamExt as _};
use netfilter::address::Rtnetlink;
use netfilter::backend::{Backend, Wish};
use netfilter::program::{Options, Request};
use netfilter::route::PolicyRoutes;
use redirect::config::Dns;
use redirect::generate;
use redirect::ruleset::{
    Chain, Dialect, Match, Origin, Owner, Port, Protocol, Rule, RulePlace, Ruleset, Scope, Sense, Table,
    Target,
};
use rtnetlink::IpVersion;
use rtnetlink::packet_core::{
    NLM_F_ACK, NLM_F_CREATE, NLM_F_EXCL, NLM_F_REQUEST, NetlinkMessage, NetlinkPayload,
};
use rtnetlink::packet_route::RouteNetlinkMessage;
use rtnetlink::packet_route::address::AddressMessage;
use rtnetlink::packet_route::rule::{RuleAction, RuleAttribute, RuleMessage};
use rtnetlink::packet_route::tc::{TcAttribute, TcHandle, TcMessage};

use crate::network::{config_of, mark_of, netlink};

/// Interface of a pod in its first network.
const FIRST: &str = "eth0";

/// Mark and table of the CNI's own policy routes.
const OURS: PolicyRoutes = PolicyRoutes { mark: 1337, table: 133, ipv6: true };

/// Carries out the [`Disturbance`] on standard input.
pub async fn run() -> anyhow::Result<()> {
    match serde_json::from_reader(io::stdin()).context("the disturbance")? {
        Disturbance::Repaired(wanted) => repair(wanted),
        Disturbance::Lost(wanted, part) => lose(wanted, part),
        Disturbance::Flushed => apply(&Ruleset { dialect: Dialect::Iptables, ipv6: true, rules: Vec::new() }),
        Disturbance::Surrounded(wanted, share) => surround(wanted, share),
        Disturbance::Unrouted => Ok(Rtnetlink::open()?.remove_policy_routes(OURS).map(drop)?),
        Disturbance::Unaddressed => lose_addresses().await,
        Disturbance::Rerouted { mark, table } => reroute(mark, table).await,
        Disturbance::Untracked => Ok(stranger::untrack()?),
        Disturbance::Overtaken(port) => {
            Ok(stranger::take(stranger::PREROUTING, stranger::DESTINATION_NAT, port)?)
        }
        Disturbance::CutOff => drop_all(true).await,
        Disturbance::Joined => drop_all(false).await,
        Disturbance::Tracked => Ok(stranger::track()?),
        Disturbance::Filtered(foreign) => {
            let asked = match foreign {
                Foreign::Established => stranger::Asked::Established,
                Foreign::Direction => stranger::Asked::Direction,
            };
            Ok(stranger::rule(asked, stranger::FILTER, stranger::ACCEPT)?)
        }
    }
}

fn apply(rules: &Ruleset) -> anyhow::Result<()> {
    Ok(netfilter::apply(rules).map(drop)?)
}

fn repair(wanted: Wanted) -> anyhow::Result<()> {
    let backend = if wanted.native { Backend::Nft } else { Backend::NftCompat };
    let config = config_of(wanted)?;
    let request = Request { config, wish: Wish::Only(backend), recorded: None, options: Options::default() };
    Ok(netfilter::program(&mut Rtnetlink::open()?, request).map(drop)?)
}

fn lose(wanted: Wanted, part: Part) -> anyhow::Result<()> {
    let mut config = config_of(wanted)?;
    match part {
        Part::Ipv6 => config.ipv6 = false,
        Part::Dns => config.dns = Dns::Off,
        Part::All | Part::Inbound | Part::ProxyExemption => {}
    }
    let mut rules = generate::ruleset(&config)?;
    rules.rules.retain(|rule| !is_of(rule, part));
    apply(&rules)
}

fn is_of(rule: &Rule, part: Part) -> bool {
    match part {
        Part::All => true,
        Part::Inbound => {
            rule.chain == Chain::Prerouting || (rule.chain == Chain::IstioInbound && rule.table != Table::Raw)
        }
        Part::ProxyExemption => {
            let is_its = |one: &Match| matches!(one, Match::Owner(Sense::Is, Owner::Uid(_) | Owner::Gid(_)));
            rule.matches.iter().any(is_its) && rule.target == Target::Return
        }
        Part::Ipv6 | Part::Dns => false,
    }
}

fn surround(wanted: Wanted, share: Share) -> anyhow::Result<()> {
    let ours = generate::ruleset(&config_of(wanted)?)?;
    let kept = match share {
        Share::All => ours.rules.len(),
        Share::Half => ours.rules.len() / 2,
        Share::None => 0,
    };
    let ours_kept = ours.rules.iter().take(kept).cloned();
    let rules = before_ours().into_iter().chain(ours_kept).chain(behind_ours()).collect();
    apply(&Ruleset { rules, ..ours })
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

fn before_ours() -> [Rule; 3] {
    [
        foreign(Table::Nat, Chain::Output, 9901, Target::Return),
        foreign(Table::Nat, Chain::Prerouting, 9902, Target::Accept),
        foreign(Table::Mangle, Chain::Output, 9903, Target::SetMark(77)),
    ]
}

fn behind_ours() -> [Rule; 3] {
    [
        foreign(Table::Nat, Chain::Output, 9911, Target::Accept),
        foreign(Table::Nat, Chain::Prerouting, 9912, Target::Return),
        foreign(Table::Filter, Chain::Output, 9913, Target::Drop),
    ]
}

async fn lose_addresses() -> anyhow::Result<()> {
    let handle = netlink()?;
    let all: Vec<AddressMessage> = handle.address().get().execute().try_collect().await?;
    for address in all {
        // An address may go with another one of its interface.
        let _ = handle.address().del(address).execute().await;
    }
    Ok(())
}

async fn reroute(mark: u32, table: u32) -> anyhow::Result<()> {
    let handle = netlink()?;
    let rules: Vec<RuleMessage> = handle.rule().get(IpVersion::V4).execute().try_collect().await?;
    let own: Vec<_> = rules.into_iter().filter(|rule| mark_of(rule) == Some(mark)).collect();
    ensure!(own.len() == 1, "{} rules were there for mark {mark}", own.len());
    for rule in own {
        handle.rule().del(rule).execute().await?;
    }
    let mut add = handle.rule().add().v4().fw_mark(mark).action(RuleAction::ToTable);
    let message = add.message_mut();
    message.header.table = u8::try_from(table).unwrap_or_default();
    message.attributes.push(RuleAttribute::Table(table));
    Ok(add.execute().await?)
}

/// Puts the queue before the first interface that drops what comes (`sch_blackhole`), or takes it away.
async fn drop_all(begins: bool) -> anyhow::Result<()> {
    let mut handle = netlink()?;
    let mut links = handle.link().get().match_name(FIRST.to_owned()).execute();
    let link = links.try_next().await?.with_context(|| format!("there is no {FIRST}"))?;
    let mut message = TcMessage::with_index(i32::try_from(link.header.index)?);
    message.header.parent = TcHandle::ROOT;
    message.attributes.push(TcAttribute::Kind("blackhole".to_owned()));
    let (message, flags) = match begins {
        true => (RouteNetlinkMessage::NewQueueDiscipline(message), NLM_F_CREATE | NLM_F_EXCL),
        false => (RouteNetlinkMessage::DelQueueDiscipline(message), 0),
    };
    let mut request = NetlinkMessage::from(message);
    request.header.flags = NLM_F_REQUEST | NLM_F_ACK | flags;
    let mut answers = handle.request(request)?;
    while let Some(answer) = answers.next().await {
        if let NetlinkPayload::Error(error) = answer.payload
            && error.code.is_some()
        {
            return Err(error.to_io()).context("the kernel refuses the queue");
        }
    }
    Ok(())
}
