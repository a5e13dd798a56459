// SPDX-License-Identifier: Apache-2.0
//! Policy rules and routes of the calling thread's namespace: made, deleted and listed over netlink, by a library that the code under test
//! does not use.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use futures::TryStreamExt as _;
use redirect::ruleset::Family;
use rtnetlink::packet_route::AddressFamily;
use rtnetlink::packet_route::route::{
    RouteAddress, RouteAttribute, RouteMessage, RouteProtocol, RouteScope, RouteType,
};
use rtnetlink::packet_route::rule::{RuleAction, RuleAttribute, RuleFlags, RuleMessage};
use rtnetlink::{Error, Handle, IpVersion, RouteMessageBuilder};

use rig::link::ask;

const LOOPBACK: u32 = 1;

/// A policy rule by mark.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ByMark {
    pub(crate) family: Family,
    pub(crate) mark: u32,
    pub(crate) mask: Option<u32>,
    pub(crate) table: u32,
    pub(crate) priority: Option<u32>,
    /// Only packets that come in through `lo`.
    pub(crate) from_lo: bool,
    /// All other packets.
    pub(crate) not: bool,
}

/// `ip rule add fwmark 1337 lookup 133`
pub(crate) const PLAIN: ByMark = ByMark {
    family: Family::V4,
    mark: 1337,
    mask: None,
    table: 133,
    priority: None,
    from_lo: false,
    not: false,
};

impl ByMark {
    fn message(self) -> RuleMessage {
        let mut message = RuleMessage::default();
        message.header.family = address_family(self.family);
        message.header.action = RuleAction::ToTable;
        if self.not {
            message.header.flags = RuleFlags::Invert;
        }
        message.attributes = vec![RuleAttribute::FwMark(self.mark), RuleAttribute::Table(self.table)];
        message.attributes.extend(self.mask.map(RuleAttribute::FwMask));
        message.attributes.extend(self.priority.map(RuleAttribute::Priority));
        message.attributes.extend(self.from_lo.then(|| RuleAttribute::Iifname("lo".to_owned())));
        message
    }

    /// `ip rule add`
    pub(crate) fn add(self) {
        ask(async |handle| {
            let mut request = handle.rule().add();
            *request.message_mut() = self.message();
            request.execute().await
        });
    }

    /// `ip rule del`
    pub(crate) fn delete(self) {
        ask(async |handle| handle.rule().del(self.message()).execute().await);
    }
}

/// A default route of a kind, in table 133, with the protocol that `ip route add` gives it.
pub(crate) fn add_default(family: Family, kind: RouteType) {
    let any: IpAddr = match family {
        Family::V4 => Ipv4Addr::UNSPECIFIED.into(),
        Family::V6 => Ipv6Addr::UNSPECIFIED.into(),
    };
    let route = RouteMessageBuilder::<IpAddr>::new().destination_prefix(any, 0).unwrap();
    let route = route.table_id(PLAIN.table).kind(kind).protocol(RouteProtocol::Boot);
    let route = match kind {
        RouteType::Local => route.scope(RouteScope::Host).output_interface(LOOPBACK),
        _ => route.priority(1024),
    };
    ask(async |handle| handle.route().add(route.build()).execute().await);
}

/// All policy rules and all routes of both families, a line for each, as `ip` would show the parts that matter.
pub(crate) fn listing() -> Vec<String> {
    ask(async |handle| {
        let mut lines = Vec::new();
        for family in [Family::V4, Family::V6] {
            lines.extend(rules(&handle, family).await?.iter().map(rule_line));
            lines.extend(routes(&handle, family).await?.iter().map(route_line));
        }
        Ok(lines)
    })
}

async fn rules(handle: &Handle, family: Family) -> Result<Vec<RuleMessage>, Error> {
    let version = if family == Family::V4 { IpVersion::V4 } else { IpVersion::V6 };
    handle.rule().get(version).execute().try_collect().await
}

async fn routes(handle: &Handle, family: Family) -> Result<Vec<RouteMessage>, Error> {
    let mut question = RouteMessage::default();
    question.header.address_family = address_family(family);
    handle.route().get(question).execute().try_collect().await
}

fn address_family(family: Family) -> AddressFamily {
    match family {
        Family::V4 => AddressFamily::Inet,
        Family::V6 => AddressFamily::Inet6,
    }
}

fn rule_line(rule: &RuleMessage) -> String {
    let (mut priority, mut table) = (0, u32::from(rule.header.table));
    let (mut mark, mut mask, mut from) = (String::new(), String::new(), String::new());
    for attribute in &rule.attributes {
        match attribute {
            RuleAttribute::Priority(number) => priority = *number,
            RuleAttribute::Table(number) => table = *number,
            RuleAttribute::FwMark(number) => mark = format!(" fwmark {number:#x}"),
            RuleAttribute::FwMask(u32::MAX) => {}
            RuleAttribute::FwMask(number) => mask = format!("/{number:#x}"),
            RuleAttribute::Iifname(name) => from = format!(" iif {name}"),
            _ => {}
        }
    }
    let not = if rule.header.flags.contains(RuleFlags::Invert) { "not " } else { "" };
    format!("{priority}: {not}from all{mark}{mask}{from} lookup {table}")
}

fn route_line(route: &RouteMessage) -> String {
    let (mut to, mut table) = ("default".to_owned(), u32::from(route.header.table));
    let (mut by, mut metric) = (0, 0);
    for attribute in &route.attributes {
        match attribute {
            RouteAttribute::Destination(RouteAddress::Inet(address)) => to = address.to_string(),
            RouteAttribute::Destination(RouteAddress::Inet6(address)) => to = address.to_string(),
            RouteAttribute::Table(number) => table = *number,
            RouteAttribute::Oif(number) => by = *number,
            RouteAttribute::Priority(number) => metric = *number,
            _ => {}
        }
    }
    let length = route.header.destination_prefix_length;
    let to = if length == 0 { "default".to_owned() } else { format!("{to}/{length}") };
    let by = if by == LOOPBACK { "lo".to_owned() } else { by.to_string() };
    let kind = format!("{:?}", route.header.kind).to_lowercase();
    format!("{kind} {to} dev {by} table {table} metric {metric}")
}
