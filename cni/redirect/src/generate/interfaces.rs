// SPDX-License-Identifier: Apache-2.0
//! Interfaces that are left alone, and those behind which a guest has its own outbound traffic.

use super::sink::Sink;
use super::{OUTPUT_MANGLE, OUTPUT_NAT, PREROUTING_MANGLE, PREROUTING_NAT};
use crate::config::{Config, Mode};
use crate::ruleset::{Match, Origin, Target};

/// First of all: what an excluded interface carries is seen by nothing else of ours, in mangle only where TPROXY works there.
pub(super) fn excluded(sink: &mut Sink, config: &Config) {
    let mangle = (config.mode == Mode::Tproxy).then_some((PREROUTING_MANGLE, OUTPUT_MANGLE));
    for (prerouting, output) in [(PREROUTING_NAT, OUTPUT_NAT)].into_iter().chain(mangle) {
        for name in &config.exclude_interfaces {
            let origin = Origin::ExcludeInterfaces;
            sink.append(prerouting.because(origin), vec![Match::InInterface(name.clone())], Target::Return);
            sink.append(output.because(origin), vec![Match::OutInterface(name.clone())], Target::Return);
        }
    }
}

/// Exempts guest traffic: it is not inbound to the pod. Rules that redirect it are inserted above these later.
pub(super) fn shield_virtual(sink: &mut Sink, config: &Config) {
    for name in &config.virtual_interfaces {
        let spot = PREROUTING_NAT.because(Origin::VirtualInterfaces);
        sink.insert(spot, 1, vec![Match::InInterface(name.clone())], Target::Return);
    }
}
