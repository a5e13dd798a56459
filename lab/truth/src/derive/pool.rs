// SPDX-License-Identifier: Apache-2.0
//! The ports, addresses, users and groups that a configuration speaks of, and those next to them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use redirect::Config;
use redirect::config::Dns;
use redirect::ruleset::{Cidr, Family, Id, Port};

use super::APP;
use crate::net::stranger;

/// Values that a configuration names.
pub(super) struct Pool {
    pub(super) ports: Vec<u16>,
    pub(super) hosts: Vec<IpAddr>,
    pub(super) uids: Vec<u32>,
    pub(super) gids: Vec<u32>,
}

impl Pool {
    pub(super) fn of(config: &Config) -> Self {
        let mut ports = vec![53, 80, 443, 8080, 15020, 15021, 15053, 15090];
        ports.extend([config.proxy_port, config.inbound_capture_port, config.inbound_tunnel_port]);
        let lists = [
            config.inbound_ports_include.as_ref().map_or(&[][..], |include| include.listed()),
            &config.inbound_ports_exclude,
            &config.outbound_ports_include,
            &config.outbound_ports_exclude,
        ];
        ports.extend(lists.into_iter().flatten().flat_map(around_port));
        let ranges = config.outbound_ranges_include.listed().iter().chain(&config.outbound_ranges_exclude);
        let mut hosts = vec![stranger(Family::V4), stranger(Family::V6)];
        hosts.extend(ranges.chain([&config.loopback]).flat_map(around_range));
        if let Dns::Servers { v4, v6 } = &config.dns {
            hosts.extend(v4.iter().copied().map(IpAddr::from));
            hosts.extend(v6.iter().copied().map(IpAddr::from));
        }
        let number = |id: &Id| match id {
            Id::Number(id) => Some(*id),
            Id::Name(_) => None,
        };
        let groups = config.owner_groups_include.listed().iter().chain(&config.owner_groups_exclude);
        Self {
            ports,
            hosts,
            uids: config.proxy_uids.iter().filter_map(number).chain([0, APP.uid]).collect(),
            gids: config.proxy_gids.iter().chain(groups).filter_map(number).chain([0, APP.gid]).collect(),
        }
    }
}

fn around_port(port: &Port) -> Vec<u16> {
    match port {
        Port::One(port) => vec![*port],
        Port::Range(low, high) => vec![*low, *high, low.saturating_sub(1), high.saturating_add(1)],
        Port::Verbatim(_) => Vec::new(),
    }
}

/// An address of a range, its last one, and the one behind it.
pub(super) fn around_range(cidr: &Cidr) -> Vec<IpAddr> {
    match cidr.address {
        IpAddr::V4(address) => {
            let host = u32::MAX.checked_shr(u32::from(cidr.length)).unwrap_or(0);
            let last = address.to_bits() | host;
            [address.to_bits(), last, last.wrapping_add(1)]
                .map(|bits| Ipv4Addr::from_bits(bits).into())
                .into()
        }
        IpAddr::V6(address) => {
            let host = u128::MAX.checked_shr(u32::from(cidr.length)).unwrap_or(0);
            let last = address.to_bits() | host;
            [address.to_bits(), last, last.wrapping_add(1)]
                .map(|bits| Ipv6Addr::from_bits(bits).into())
                .into()
        }
    }
}
