// SPDX-License-Identifier: Apache-2.0
//! The expressions of a rule in the order of iptables-nft: interfaces, protocol, addresses, the other conditions in text order,
//! counter, target.

use redirect::ruleset::{Cidr, Family, Match, Port, Rule, Sense, Target};

use super::Unencodable;
use super::extension::{self, ConnMark};
use super::list::{self, Content, List, Template};
use super::prefix::Prefix;
use super::rule::{Side, TCP, equality, interface, port_range, protocol};
use crate::nft::{header, meta, operation, verdict};

// Each with the revision that iptables 1.8.9 picks, and the lengths of the whole and of its structure.
const ANY_TCP: Template<56, 16> = list::extension("match", "tcp", 0);
const ANY_UDP: Template<56, 16> = list::extension("match", "udp", 0);
const OWNER: Template<68, 24> = list::extension("match", "owner", 1);
const MULTIPORT: Template<96, 48> = list::extension("match", "multiport", 1);
const CONNTRACK: Template<216, 168> = list::extension("match", "conntrack", 3);
const CONNMARK: Template<64, 16> = list::extension("match", "connmark", 1);
const REDIRECT_V4: Template<72, 24> = list::extension("target", "REDIRECT", 0);
const REDIRECT_V6: Template<88, 40> = list::extension("target", "REDIRECT", 0);
const SET_MARK: Template<52, 8> = list::extension("target", "MARK", 2);
const SET_CONNMARK: Template<64, 16> = list::extension("target", "CONNMARK", 2);
const TPROXY: Template<76, 32> = list::extension("target", "TPROXY", 1);
const CT: Template<112, 72> = list::extension("target", "CT", 2);

/// Writes a rule's expressions.
pub(super) fn write(list: &mut List<'_>, family: Family, wanted: &Rule) -> Result<(), Unencodable> {
    let mut rule = Expressions { list, family, protocol: protocol(wanted) };
    for turn in 0..=5 {
        for condition in wanted.matches.iter().filter(|condition| rank(condition) == turn) {
            rule.condition(condition)?;
        }
    }
    rule.list.counter();
    rule.target(&wanted.target);
    Ok(())
}

/// iptables writes what every rule can have first, whatever the order in the text; the rest keeps its order.
fn rank(condition: &Match) -> u8 {
    match condition {
        Match::InInterface(_) => 0,
        Match::OutInterface(_) => 1,
        Match::Protocol(_) | Match::PortProtocol(_) => 2,
        Match::Source(..) => 3,
        Match::Destination(..) => 4,
        _ => 5,
    }
}

/// The expressions of one rule while they are written.
struct Expressions<'a, 'b> {
    list: &'a mut List<'b>,
    family: Family,
    protocol: Option<u8>,
}

impl Expressions<'_, '_> {
    fn condition(&mut self, condition: &Match) -> Result<(), Unencodable> {
        match condition {
            Match::InInterface(name) => self.interface(meta::IN_INTERFACE, name),
            Match::OutInterface(name) => self.interface(meta::OUT_INTERFACE, name),
            Match::Protocol(_) | Match::PortProtocol(_) => {
                self.list.meta(meta::PROTOCOL);
                self.list.compare(operation::EQUAL, Content::new(&[self.protocol.unwrap_or_default()]));
                Ok(())
            }
            // The table says it.
            Match::Family(family) if *family == self.family => Ok(()),
            Match::Family(family) => Err(Unencodable::OtherFamily(*family)),
            Match::Source(sense, cidr) => self.address(Side::Source, *sense, *cidr),
            Match::Destination(sense, cidr) => self.address(Side::Destination, *sense, *cidr),
            Match::SourcePort(sense, port) => self.port(Side::Source, *sense, port),
            Match::DestinationPort(sense, port) => self.port(Side::Destination, *sense, port),
            Match::DestinationPorts(sense, ports) => {
                self.protocol.ok_or(Unencodable::PortWithoutProtocol)?;
                self.list.extension(MULTIPORT, extension::multiport(*sense, ports)?);
                Ok(())
            }
            Match::Owner(sense, owner) => {
                self.list.extension(OWNER, extension::owner(*sense, owner)?);
                Ok(())
            }
            Match::Conntrack(states) => {
                self.list.extension(CONNTRACK, extension::conntrack(*states));
                Ok(())
            }
            Match::Mark(sense, mark) => {
                self.list.meta(meta::MARK);
                self.list.compare(equality(*sense), Content::new(&mark.to_ne_bytes()));
                Ok(())
            }
            Match::ConnMark(mark) => {
                self.list.extension(CONNMARK, extension::connmark(*mark));
                Ok(())
            }
        }
    }

    fn target(&mut self, target: &Target) {
        let list = &mut *self.list;
        match target {
            Target::Accept => list.verdict(verdict::ACCEPT),
            Target::Drop => list.verdict(verdict::DROP),
            Target::Return => list.verdict(verdict::RETURN),
            Target::Jump(chain) => list.jump(chain.name()),
            Target::Redirect { port } => match self.family {
                Family::V4 => list.extension(REDIRECT_V4, extension::redirect_v4(*port)),
                Family::V6 => list.extension(REDIRECT_V6, extension::redirect_v6(*port)),
            },
            Target::SetMark(mark) => list.extension(SET_MARK, extension::set_mark(*mark)),
            Target::Tproxy { mark, port } => list.extension(TPROXY, extension::tproxy(*mark, *port)),
            Target::SaveMark => list.extension(SET_CONNMARK, extension::set_connmark(ConnMark::Save)),
            Target::RestoreMark => list.extension(SET_CONNMARK, extension::set_connmark(ConnMark::Restore)),
            Target::CtZone(zone) => list.extension(CT, extension::zone(*zone)),
        }
    }

    /// A name is compared with its NUL, a prefix (`eth+`) without; `+` alone loads and compares nothing, as iptables has it.
    fn interface(&mut self, key: u32, name: &str) -> Result<(), Unencodable> {
        let bytes = interface(name)?;
        self.list.meta(key);
        match bytes.split_last() {
            Some((b'+', [])) => {}
            Some((b'+', prefix)) => self.list.compare(operation::EQUAL, Content::new(prefix)),
            _ => self.list.compare(operation::EQUAL, Content::with_nul(bytes)),
        }
        Ok(())
    }

    /// /0 is no condition.
    fn address(&mut self, side: Side, sense: Sense, cidr: Cidr) -> Result<(), Unencodable> {
        if cidr.family() != self.family {
            return Err(Unencodable::Family(cidr));
        }
        if cidr.length == 0 {
            return if sense == Sense::Is { Ok(()) } else { Err(Unencodable::NoAddressLeft(cidr)) };
        }
        Prefix::new(side, cidr)?.write(self.list, equality(sense));
        Ok(())
    }

    fn port(&mut self, side: Side, sense: Sense, port: &Port) -> Result<(), Unencodable> {
        let protocol = self.protocol.ok_or(Unencodable::PortWithoutProtocol)?;
        let (low, high) = port_range(port)?;
        if (low, high) == (0, u16::MAX) {
            return self.any_port(protocol, sense);
        }
        self.list.payload(header::TRANSPORT, side.port_offset(), 2);
        let same = equality(sense);
        if low == high {
            self.list.compare(same, Content::new(&low.to_be_bytes()));
        } else if low == 0 {
            let outside = if sense == Sense::Is { operation::AT_MOST } else { operation::GREATER };
            self.list.compare(outside, Content::new(&high.to_be_bytes()));
        } else {
            self.list.range(same, low.to_be_bytes(), high.to_be_bytes());
        }
        Ok(())
    }

    /// `--dport 0:65535` asks nothing but that there are ports, and is kept as an extension.
    fn any_port(&mut self, protocol: u8, sense: Sense) -> Result<(), Unencodable> {
        if sense == Sense::Not {
            return Err(Unencodable::NoPortLeft);
        }
        let template = if protocol == TCP { ANY_TCP } else { ANY_UDP };
        self.list.extension(template, extension::any_port());
        Ok(())
    }
}
