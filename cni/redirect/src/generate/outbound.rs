// SPDX-License-Identifier: Apache-2.0
//! Outbound traffic by port and destination, before and after it is looked at by owner.

use super::sink::{Insertion, Sink};
use super::{OUTBOUND, OUTPUT_NAT, PREROUTING_NAT};
use crate::config::Config;
use crate::list::Selection;
use crate::ruleset::{Chain, Cidr, Family, Match, Origin, Protocol, Sense, Target};

const TO_PROXY: Target = Target::Jump(Chain::IstioRedirect);

/// The way into the outbound chain, excluded ports, and the proxy's own connections to the app.
pub(super) fn enter(sink: &mut Sink, config: &Config) {
    sink.append(OUTPUT_NAT.because(Origin::Always), vec![], Target::Jump(Chain::IstioOutput));
    for port in &config.outbound_ports_exclude {
        for protocol in [Protocol::Tcp, Protocol::Udp] {
            let port = Match::DestinationPort(Sense::Is, port.clone());
            let spot = OUTBOUND.because(Origin::ExcludeOutboundPorts);
            sink.append(spot, vec![sink.port_protocol(protocol), port], Target::Return);
        }
    }
    let from = |source| vec![Match::OutInterface("lo".into()), Match::Source(Sense::Is, source)];
    sink.append_inbound(OUTBOUND.because(Origin::Always), from, &Target::Return);
}

/// Rules that follow the owner rules: loopback and excluded ranges return, then included ports and
/// ranges go to the proxy.
pub(super) fn capture(sink: &mut Sink, config: &Config) {
    let to = |cidr| vec![Match::Destination(Sense::Is, cidr)];
    sink.append_loopback(OUTBOUND.because(Origin::Loopback), to, &Target::Return);
    for family in [Family::V4, Family::V6] {
        for cidr in of(&config.outbound_ranges_exclude, family) {
            let spot = OUTBOUND.because(Origin::ExcludeOutboundRanges);
            sink.append_only(spot, family, to(cidr), Target::Return);
        }
    }
    for port in &config.outbound_ports_include {
        let port = Match::DestinationPort(Sense::Is, port.clone());
        let spot = OUTBOUND.because(Origin::IncludeOutboundPorts);
        sink.append(spot, vec![sink.port_protocol(Protocol::Tcp), port], TO_PROXY);
    }
    match &config.outbound_ranges_include {
        Selection::All => everywhere(sink, config),
        Selection::List(ranges) => {
            for family in [Family::V4, Family::V6] {
                for cidr in of(ranges, family) {
                    range(sink, config, cidr);
                }
            }
        }
    }
}

fn of(ranges: &[Cidr], family: Family) -> impl Iterator<Item = Cidr> {
    ranges.iter().copied().filter(move |cidr| cidr.family() == family)
}

fn everywhere(sink: &mut Sink, config: &Config) {
    sink.append(OUTBOUND.because(Origin::IncludeOutboundRanges), vec![], TO_PROXY);
    for name in &config.virtual_interfaces {
        let spot = PREROUTING_NAT.because(Origin::VirtualInterfaces);
        sink.insert(spot, 1, vec![Match::InInterface(name.clone())], TO_PROXY);
    }
}

fn range(sink: &mut Sink, config: &Config, cidr: Cidr) {
    let family = cidr.family();
    let to = Match::Destination(Sense::Is, cidr);
    for name in &config.virtual_interfaces {
        let spot = PREROUTING_NAT.because(Origin::VirtualInterfaces);
        let conditions = vec![Match::InInterface(name.clone()), to.clone()];
        sink.insert_only(spot, Insertion { at: 1, family }, conditions, TO_PROXY);
    }
    sink.append_only(OUTBOUND.because(Origin::IncludeOutboundRanges), family, vec![to], TO_PROXY);
}
