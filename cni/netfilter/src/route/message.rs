// SPDX-License-Identifier: Apache-2.0
//! Policy rules and routes as rtnetlink messages. Pure.

use redirect::ruleset::Family;

use super::rule::{FRA_FWMARK, FRA_FWMASK, FRA_PRIORITY, FRA_TABLE, LOOK_UP};
use super::{Part, PolicyRoutes};
use crate::address::{AF_INET, AF_INET6, AF_UNSPEC, LOOPBACK};
use crate::wire::{ACK, CREATE, DUMP, EXCL, Malformed, Writer, attributes, fixed};

pub(super) const RTM_NEWROUTE: u16 = 24;
const RTM_DELROUTE: u16 = 25;
const RTM_GETROUTE: u16 = 26;
pub(super) const RTM_NEWRULE: u16 = 32;
const RTM_DELRULE: u16 = 33;
const RTM_GETRULE: u16 = 34;
const RTM_NEWLINK: u16 = 16;
/// `IFF_UP`
const UP: u32 = 1;
/// Length of `struct rtmsg`.
const ROUTE_HEADER: usize = 12;
const RTA_OIF: u16 = 4;
const RTA_TABLE: u16 = 15;
/// `RTPROT_BOOT`: what `ip route` says.
const BY_HAND: u8 = 3;
/// `RT_SCOPE_HOST`
const HOST: u8 = 254;
/// `RTN_LOCAL`
const LOCAL: u8 = 2;

/// In which direction.
#[derive(Clone, Copy)]
pub(super) enum Change {
    Add,
    Remove,
}

pub(super) fn number(family: Family) -> u8 {
    match family {
        Family::V4 => AF_INET,
        Family::V6 => AF_INET6,
    }
}

/// Asks for the policy rules of all families.
pub(super) fn list_rules() -> Vec<u8> {
    list(RTM_GETRULE, AF_UNSPEC)
}

/// Asks for the routes of a family, in all tables.
pub(super) fn list_routes(family: Family) -> Vec<u8> {
    list(RTM_GETROUTE, number(family))
}

fn list(kind: u16, family: u8) -> Vec<u8> {
    let mut request = Writer::with_capacity(32);
    request.message(kind, DUMP);
    request.raw([family, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    request.into_bytes()
}

/// Sets `lo` up (`struct ifinfomsg`: family, type, index, flags, and which of them change).
pub(super) fn loopback_up() -> Vec<u8> {
    let mut request = Writer::with_capacity(32);
    request.message(RTM_NEWLINK, ACK);
    request.raw([AF_UNSPEC, 0, 0, 0]);
    for field in [LOOPBACK, UP, UP] {
        request.raw(field.to_ne_bytes());
    }
    request.into_bytes()
}

/// Writes one change.
pub(super) fn write(
    request: &mut Writer,
    change: Change,
    wanted: PolicyRoutes,
    (family, part): (Family, Part),
) {
    let family = number(family);
    let table = wanted.table.to_ne_bytes();
    let (flags, message) = match (change, part) {
        (Change::Add, Part::Rule { .. }) => (CREATE | EXCL | ACK, RTM_NEWRULE),
        (Change::Add, Part::Route) => (CREATE | EXCL | ACK, RTM_NEWROUTE),
        (Change::Remove, Part::Rule { .. }) => (ACK, RTM_DELRULE),
        (Change::Remove, Part::Route) => (ACK, RTM_DELROUTE),
    };
    request.message(message, flags);
    match part {
        Part::Rule { priority } => {
            request.raw([family, 0, 0, 0, 0, 0, 0, LOOK_UP, 0, 0, 0, 0]);
            request.attribute(FRA_PRIORITY, priority.to_ne_bytes());
            request.attribute(FRA_FWMARK, wanted.mark.to_ne_bytes());
            request.attribute(FRA_FWMASK, u32::MAX.to_ne_bytes());
            request.attribute(FRA_TABLE, table);
        }
        Part::Route => {
            request.raw([family, 0, 0, 0, 0, BY_HAND, HOST, LOCAL, 0, 0, 0, 0]);
            request.attribute(RTA_OIF, LOOPBACK.to_ne_bytes());
            request.attribute(RTA_TABLE, table);
        }
    }
}

/// True if the body of a route's message is about the route that we add to this table.
pub(super) fn is_local_default(body: &[u8], wanted: u32) -> Result<bool, Malformed> {
    let (header, rest) = body.split_at_checked(ROUTE_HEADER).ok_or(Malformed)?;
    let [_, to, from, tos, table, _, _, kind, ..] = fixed::<ROUTE_HEADER>(Some(header))?;
    let (mut table, mut interface) = (u32::from(table), 0);
    for attribute in attributes(rest) {
        match attribute? {
            (RTA_TABLE, payload) => table = u32::from_ne_bytes(fixed(Some(payload))?),
            (RTA_OIF, payload) => interface = u32::from_ne_bytes(fixed(Some(payload))?),
            _ => {}
        }
    }
    Ok((to, from, tos, kind) == (0, 0, 0, LOCAL) && (table, interface) == (wanted, LOOPBACK))
}
