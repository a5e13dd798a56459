// SPDX-License-Identifier: Apache-2.0
//! TPROXY's marks: which packets policy routing hands to the proxy, and which of the proxy's own it must not hand back.

use super::sink::{At, Insertion, Sink};
use super::{OUTPUT_MANGLE, PREROUTING_MANGLE};
use crate::config::{Config, Mode, OUTBOUND_MARK};
use crate::host::{INBOUND_V4, INBOUND_V6};
use crate::ruleset::{Chain, Family, Match, Origin, Owner, Protocol, Sense, Table, Target};

const TCP: Match = Match::Protocol(Protocol::Tcp);

/// All of them, if the mode is TPROXY, whether or not inbound traffic is captured.
pub(super) fn marks(sink: &mut Sink, config: &Config) {
    if config.mode != Mode::Tproxy {
        return;
    }
    let marked = || Match::Mark(Sense::Is, config.tproxy_mark);
    let prerouting = PREROUTING_MANGLE.because(Origin::Tproxy);
    let output = OUTPUT_MANGLE.because(Origin::Tproxy);
    // The proxy answers with the mark of what it answers: remember it with the connection.
    sink.append(prerouting, vec![TCP, marked()], Target::SaveMark);
    sink.append(output, vec![TCP, Match::OutInterface("lo".into()), marked()], Target::Return);
    let uids = config.proxy_uids.iter().map(|uid| (Owner::Uid(uid.clone()), Origin::ProxyUid));
    let gids = config.proxy_gids.iter().map(|gid| (Owner::Gid(gid.clone()), Origin::ProxyGid));
    for (owner, origin) in uids.chain(gids) {
        let conditions = |loopback| {
            let not_loopback = Match::Destination(Sense::Not, loopback);
            let owner = Match::Owner(Sense::Is, owner.clone());
            vec![not_loopback, TCP, Match::OutInterface("lo".into()), owner]
        };
        sink.append_loopback(OUTPUT_MANGLE.because(origin), conditions, &Target::SetMark(OUTBOUND_MARK));
    }
    // The app's replies on such a connection go back to the proxy.
    sink.append(output, vec![TCP, Match::ConnMark(config.tproxy_mark)], Target::RestoreMark);
    exempt(sink, config);
}

/// Inserted above everything inbound: packets that the proxy has seen already, its own connections to the app, and the app's to
/// itself.
fn exempt(sink: &mut Sink, config: &Config) {
    let inbound = At(Table::Mangle, Chain::IstioInbound).because(Origin::Tproxy);
    sink.insert(inbound, 1, vec![TCP, Match::Mark(Sense::Is, config.tproxy_mark)], Target::Return);
    for (family, helper) in [(Family::V4, INBOUND_V4), (Family::V6, INBOUND_V6)] {
        let conditions = vec![TCP, Match::Source(Sense::Is, helper), Match::InInterface("lo".into())];
        sink.insert_only(inbound, Insertion { at: 2, family }, conditions, Target::Return);
    }
    let unmarked = Match::Mark(Sense::Not, OUTBOUND_MARK);
    sink.insert(inbound, 3, vec![TCP, Match::InInterface("lo".into()), unmarked], Target::Return);
}
