// SPDX-License-Identifier: Apache-2.0
//! Fixtures for tests of the readers.

use super::Condition;
use crate::config::{Config, Dns, Mode};
use crate::list::Selection;
use crate::ruleset::{Dialect, Id, Match, Owner, Protocol, Sense};

/// A configuration that makes every kind of rule.
pub(super) fn everything(dialect: Dialect) -> Config {
    Config {
        dialect,
        ipv6: true,
        mode: Mode::Tproxy,
        inbound_ports_include: Some(Selection::All),
        outbound_ranges_include: Selection::All,
        exclude_interfaces: vec!["net1".into()],
        virtual_interfaces: vec!["k6t".into()],
        owner_groups_include: Selection::List(vec![Id::Number(7)]),
        dns: Dns::All,
        drop_invalid: true,
        ..Config::default()
    }
}

/// Conditions in both nft listings on the proxy's own traffic to the pod.
pub(super) fn of_the_proxy() -> Vec<Condition> {
    [
        Match::OutInterface("lo".into()),
        Match::Destination(Sense::Not, crate::host::LOOPBACK_V4),
        Match::Protocol(Protocol::Tcp),
        Match::DestinationPorts(Sense::Not, vec![53, 15008]),
        Match::Owner(Sense::Is, Owner::Uid(Id::Number(1337))),
    ]
    .map(Condition::Known)
    .to_vec()
}
