// SPDX-License-Identifier: Apache-2.0
//! The expressions of a rule as nft 1.0.6 writes them into a table of family `inet`: conditions in text order, each behind what it
//! depends on (an address behind its family, a port behind its protocol), counter, statement. Only TPROXY hands the packet over
//! before it counts.

use redirect::ruleset::{Cidr, Family, Match, Owner, Port, Rule, Scope, Sense, Target};

use super::Unencodable;
use super::list::{Content, List};
use super::prefix::Prefix;
use super::rule::{Side, equality, interface, number, port_range, protocol};
use crate::nft::{ct, family, header, meta, operation, verdict};

/// `IFNAMSIZ`: a whole name is compared with all the bytes that it can have.
const NAME_LENGTH: usize = 16;

/// A rule's references to its sets of ports.
#[derive(Debug, Clone, Copy)]
pub(super) enum Sets<'a> {
    /// By these numbers, one for each set, in order.
    Made(&'a [u32]),
    /// Not at all: the ports stand where the kernel names a set.
    SpelledOut,
}

/// Writes a rule's expressions.
pub(super) fn write(list: &mut List<'_>, sets: Sets<'_>, wanted: &Rule) -> Result<(), Unencodable> {
    let named = protocol(wanted);
    let mut rule = Expressions { list, sets, named, protocol: None, family: None };
    for condition in &wanted.matches {
        rule.condition(condition)?;
    }
    rule.target(wanted);
    Ok(())
}

/// The expressions of one rule while they are written.
struct Expressions<'a, 'b> {
    list: &'a mut List<'b>,
    sets: Sets<'a>,
    /// The protocol that the rule names.
    named: Option<u8>,
    /// The protocol that was asked for already.
    protocol: Option<u8>,
    /// The family that was asked for already.
    family: Option<Family>,
}

impl Expressions<'_, '_> {
    fn condition(&mut self, condition: &Match) -> Result<(), Unencodable> {
        match condition {
            Match::InInterface(name) => self.interface(meta::IN_INTERFACE, name),
            Match::OutInterface(name) => self.interface(meta::OUT_INTERFACE, name),
            Match::Protocol(_) => self.protocol(),
            // The port asks for it.
            Match::PortProtocol(_) => Ok(()),
            Match::Family(family) => self.in_family(*family),
            Match::Source(sense, cidr) => self.address(Side::Source, *sense, *cidr),
            Match::Destination(sense, cidr) => self.address(Side::Destination, *sense, *cidr),
            Match::SourcePort(sense, port) => self.port(Side::Source, *sense, port),
            Match::DestinationPort(sense, port) => self.port(Side::Destination, *sense, port),
            Match::DestinationPorts(sense, ports) => self.ports(*sense, ports),
            Match::Owner(sense, owner) => {
                let (key, id) = match owner {
                    Owner::Uid(id) => (meta::USER, id),
                    Owner::Gid(id) => (meta::GROUP, id),
                };
                let id = number(id)?;
                self.list.meta(key);
                self.compare(*sense, &id.to_ne_bytes())
            }
            Match::Conntrack(states) => {
                let bits = states.bits().to_ne_bytes();
                self.list.ct(ct::STATE);
                self.list.mask(Content::new(&bits));
                self.compare(Sense::Not, &[0; 4])
            }
            Match::Mark(sense, mark) => {
                self.list.meta(meta::MARK);
                self.compare(*sense, &mark.to_ne_bytes())
            }
            Match::ConnMark(mark) => {
                self.list.ct(ct::MARK);
                self.compare(Sense::Is, &mark.to_ne_bytes())
            }
        }
    }

    #[expect(clippy::unnecessary_wraps, reason = "how most conditions end")]
    fn compare(&mut self, sense: Sense, value: &[u8]) -> Result<(), Unencodable> {
        self.list.compare(equality(sense), Content::new(value));
        Ok(())
    }

    /// A whole name is compared with the NULs behind it, a prefix (`eth*`) without. Every name has the empty prefix.
    fn interface(&mut self, key: u32, name: &str) -> Result<(), Unencodable> {
        let bytes = interface(name)?;
        match bytes.split_last() {
            Some((b'*', [])) => Ok(()),
            Some((b'*', prefix)) => {
                self.list.meta(key);
                self.compare(Sense::Is, prefix)
            }
            _ => {
                let mut whole = [0; NAME_LENGTH];
                for (to, from) in whole.iter_mut().zip(bytes) {
                    *to = *from;
                }
                self.list.meta(key);
                self.compare(Sense::Is, &whole)
            }
        }
    }

    /// Asks for the protocol that the rule names, once.
    fn protocol(&mut self) -> Result<(), Unencodable> {
        let named = self.named.ok_or(Unencodable::PortWithoutProtocol)?;
        if self.protocol == Some(named) {
            return Ok(());
        }
        self.protocol = Some(named);
        self.list.meta(meta::PROTOCOL);
        self.compare(Sense::Is, &[named])
    }

    /// Asks for a family, once.
    fn in_family(&mut self, family: Family) -> Result<(), Unencodable> {
        if self.family == Some(family) {
            return Ok(());
        }
        self.family = Some(family);
        self.list.meta(meta::FAMILY);
        self.compare(Sense::Is, &[number_of(family)])
    }

    fn address(&mut self, side: Side, sense: Sense, cidr: Cidr) -> Result<(), Unencodable> {
        let prefix = Prefix::new(side, cidr)?;
        self.in_family(cidr.family())?;
        prefix.write(self.list, equality(sense));
        Ok(())
    }

    fn port(&mut self, side: Side, sense: Sense, port: &Port) -> Result<(), Unencodable> {
        let (low, high) = port_range(port)?;
        self.protocol()?;
        self.list.payload(header::TRANSPORT, side.port_offset(), 2);
        let [low, high] = [low, high].map(u16::to_be_bytes);
        match (port, sense) {
            (Port::One(_), _) => self.list.compare(equality(sense), Content::new(&low)),
            (_, Sense::Is) => {
                self.list.compare(operation::AT_LEAST, Content::new(&low));
                self.list.compare(operation::AT_MOST, Content::new(&high));
            }
            (_, Sense::Not) => self.list.range(operation::NOT_EQUAL, low, high),
        }
        Ok(())
    }

    /// One port is compared; several are a set.
    fn ports(&mut self, sense: Sense, ports: &[u16]) -> Result<(), Unencodable> {
        if let [port] = ports {
            return self.port(Side::Destination, sense, &Port::One(*port));
        }
        if ports.is_empty() {
            return Err(Unencodable::PortCount(0));
        }
        self.protocol()?;
        self.list.payload(header::TRANSPORT, Side::Destination.port_offset(), 2);
        match self.sets {
            Sets::SpelledOut => self.list.among(sense, ports),
            Sets::Made(sets) => {
                let (id, rest) = sets.split_first().map_or((0, sets), |(id, rest)| (*id, rest));
                self.sets = Sets::Made(rest);
                self.list.lookup(sense, id);
            }
        }
        Ok(())
    }

    fn target(&mut self, wanted: &Rule) {
        if let Target::Tproxy { mark, port } = wanted.target {
            self.hand_over(wanted.scope, mark, port);
        }
        let list = &mut *self.list;
        list.counter();
        match wanted.target {
            Target::Accept | Target::Tproxy { .. } => list.verdict(verdict::ACCEPT),
            Target::Drop => list.verdict(verdict::DROP),
            Target::Return => list.verdict(verdict::RETURN),
            Target::Jump(chain) => list.jump(chain.native_name()),
            Target::Redirect { port } => {
                list.immediate(Content::new(&port.to_be_bytes()));
                list.redirect();
            }
            Target::SetMark(mark) => {
                list.immediate(Content::new(&mark.to_ne_bytes()));
                list.set_meta(meta::MARK);
            }
            Target::SaveMark => {
                list.meta(meta::MARK);
                list.set_ct(ct::MARK);
            }
            Target::RestoreMark => {
                list.ct(ct::MARK);
                list.set_meta(meta::MARK);
            }
            Target::CtZone(zone) => {
                list.immediate(Content::new(&zone.to_ne_bytes()));
                list.set_ct(ct::ZONE);
            }
        }
    }

    fn hand_over(&mut self, scope: Scope, mark: u32, port: u16) {
        self.list.immediate(Content::new(&port.to_be_bytes()));
        self.list.tproxy(match scope {
            Scope::Both => u32::from(family::UNSPECIFIED),
            Scope::Only(only) => u32::from(number_of(only)),
        });
        self.list.immediate(Content::new(&mark.to_ne_bytes()));
        self.list.set_meta(meta::MARK);
    }
}

/// `NFPROTO_*`
fn number_of(family: Family) -> u8 {
    match family {
        Family::V4 => family::IPV4,
        Family::V6 => family::IPV6,
    }
}
