// SPDX-License-Identifier: Apache-2.0
//! Inbound traffic: to the proxy by REDIRECT in nat, or by TPROXY in mangle.

use super::sink::{At, Sink};
use super::{PREROUTING_MANGLE, PREROUTING_NAT};
use crate::config::{Config, Mode};
use crate::list::Selection;
use crate::ruleset::{Chain, CtStates, Match, Origin, Port, Protocol, Sense, Table, Target};

const TCP: Match = Match::Protocol(Protocol::Tcp);

/// The tunnel port, and the two chains that redirect. They are there in every mode, even if nothing leads to them.
pub(super) fn always(sink: &mut Sink, config: &Config) {
    let at = |chain| At(Table::Nat, chain).because(Origin::Always);
    let tunnel = Match::DestinationPort(Sense::Is, Port::One(config.inbound_tunnel_port));
    sink.append(at(Chain::IstioInbound), vec![TCP, tunnel], Target::Return);
    sink.append(at(Chain::IstioRedirect), vec![TCP], Target::Redirect { port: config.proxy_port });
    sink.append(
        at(Chain::IstioInRedirect),
        vec![TCP],
        Target::Redirect { port: config.inbound_capture_port },
    );
}

/// Leads the chosen ports to the proxy. A list of ports to include leaves no room for exclusions.
pub(super) fn capture(sink: &mut Sink, config: &Config) {
    let Some(include) = &config.inbound_ports_include else {
        return;
    };
    let (prerouting, table) = match config.mode {
        Mode::Redirect => (PREROUTING_NAT, Table::Nat),
        Mode::Tproxy => (PREROUTING_MANGLE, Table::Mangle),
    };
    if config.mode == Mode::Tproxy {
        tproxy_chains(sink, config);
    }
    let origin = Origin::IncludeInboundPorts;
    sink.append(prerouting.because(origin), vec![TCP], Target::Jump(Chain::IstioInbound));
    match include {
        Selection::All => {
            let spot = At(table, Chain::IstioInbound).because(Origin::ExcludeInboundPorts);
            for port in &config.inbound_ports_exclude {
                let port = Match::DestinationPort(Sense::Is, port.clone());
                sink.append(spot, vec![TCP, port], Target::Return);
            }
            lead(sink, config.mode, None);
        }
        Selection::List(ports) => {
            for port in ports {
                lead(sink, config.mode, Some(port));
            }
        }
    }
}

/// Leads one port, or all, to the proxy.
fn lead(sink: &mut Sink, mode: Mode, port: Option<&Port>) {
    let conditions = |more: Option<Match>| -> Vec<Match> {
        let port = port.map(|port| Match::DestinationPort(Sense::Is, port.clone()));
        [Some(TCP), port, more].into_iter().flatten().collect()
    };
    let at = |table| At(table, Chain::IstioInbound).because(Origin::IncludeInboundPorts);
    match mode {
        Mode::Redirect => {
            sink.append(at(Table::Nat), conditions(None), Target::Jump(Chain::IstioInRedirect));
        }
        Mode::Tproxy => {
            let known = Match::Conntrack(CtStates::RELATED_ESTABLISHED);
            sink.append(at(Table::Mangle), conditions(Some(known)), Target::Jump(Chain::IstioDivert));
            sink.append(at(Table::Mangle), conditions(None), Target::Jump(Chain::IstioTproxy));
        }
    }
}

/// The chains that keep a known connection with its socket and give a new one to the proxy.
fn tproxy_chains(sink: &mut Sink, config: &Config) {
    let mark = config.tproxy_mark;
    let divert = At(Table::Mangle, Chain::IstioDivert).because(Origin::Tproxy);
    sink.append(divert, vec![], Target::SetMark(mark));
    sink.append(divert, vec![], Target::Accept);
    let tproxy = At(Table::Mangle, Chain::IstioTproxy).because(Origin::Tproxy);
    let conditions = |loopback| vec![Match::Destination(Sense::Not, loopback), TCP];
    sink.append_loopback(tproxy, conditions, &Target::Tproxy { mark, port: config.inbound_capture_port });
}
