// SPDX-License-Identifier: Apache-2.0
//! The rules of a configuration: the same rules in the same order as upstream's generator of its dialect.
//!
//! The steps are the same in both dialects. What the native one does differently with every rule is in `native`; where a
//! step differs by more than that, it asks for the dialect.
//!
//! Each file is a group of steps. The order between groups is fixed here and matters: within one chain it is the order of
//! evaluation, and inserts count from what is there already.

mod dns;
mod inbound;
mod interfaces;
mod native;
mod outbound;
mod owners;
mod sink;
mod tproxy;

use crate::config::{Config, ConfigError};
use crate::list::Selection;
use crate::ruleset::{
    Chain, Cidr, CtStates, Dialect, Family, Match, Origin, Protocol, Ruleset, Table, Target,
};

use sink::{At, Sink};

/// Makes the rules of `config`.
///
/// # Errors
/// The configuration names a prefix that does not exist.
pub fn ruleset(config: &Config) -> Result<Ruleset, ConfigError> {
    check(config)?;
    let mut sink = Sink::new(config);
    interfaces::excluded(&mut sink, config);
    interfaces::shield_virtual(&mut sink, config);
    if config.drop_invalid {
        drop_invalid(&mut sink);
    }
    inbound::always(&mut sink, config);
    inbound::capture(&mut sink, config);
    outbound::enter(&mut sink, config);
    owners::proxy(&mut sink, config);
    owners::groups(&mut sink, config);
    dns::capture(&mut sink, config);
    outbound::capture(&mut sink, config);
    tproxy::marks(&mut sink, config);
    let ruleset = Ruleset { dialect: config.dialect, ipv6: config.ipv6, rules: sink.into_rules() };
    Ok(ruleset)
}

fn check(config: &Config) -> Result<(), ConfigError> {
    let bits = |cidr: &Cidr| if cidr.family() == Family::V4 { 32 } else { 128 };
    if config.loopback.family() != Family::V4 {
        return Err(ConfigError::Loopback(config.loopback));
    }
    let include = match &config.outbound_ranges_include {
        Selection::All => &[],
        Selection::List(list) => list.as_slice(),
    };
    let mut all = include.iter().chain(&config.outbound_ranges_exclude).chain([&config.loopback]);
    all.find(|cidr| cidr.length > bits(cidr)).map_or(Ok(()), |cidr| Err(ConfigError::PrefixLength(*cidr)))
}

/// Packets that conntrack cannot place would be answered with a reset by the pod's own stack; dropped, the connection lives.
fn drop_invalid(sink: &mut Sink) {
    let invalid = Match::Conntrack(CtStates::INVALID);
    let invalid = match sink.dialect() {
        Dialect::Iptables => vec![invalid],
        Dialect::Nft => vec![Match::Protocol(Protocol::Tcp), invalid],
    };
    sink.append(PREROUTING_MANGLE.because(Origin::DropInvalid), invalid, Target::Jump(Chain::IstioDrop));
    sink.append(At(Table::Mangle, Chain::IstioDrop).because(Origin::DropInvalid), vec![], Target::Drop);
}

const PREROUTING_NAT: At = At(Table::Nat, Chain::Prerouting);
const PREROUTING_MANGLE: At = At(Table::Mangle, Chain::Prerouting);
const OUTPUT_NAT: At = At(Table::Nat, Chain::Output);
const OUTPUT_MANGLE: At = At(Table::Mangle, Chain::Output);
/// All outbound decisions.
const OUTBOUND: At = At(Table::Nat, Chain::IstioOutput);
