// SPDX-License-Identifier: Apache-2.0
//! A rule's expressions as conditions and actions; pure. An expression that rules of ours do not have keeps its name.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use redirect::found::{Action, Condition, FoundRule};
use redirect::ruleset::{Cidr, CtStates, Dialect, Family, Id, Match, Owner, Port, Protocol, Sense};

use crate::describe::{interface_name, spell_match};
use crate::expression::{Expression, Extension, parse, values};
use crate::legacy::rule::{known_match, known_target, lossy};
use crate::nft::{ct, family, header, meta, operation, verdict};
use crate::snapshot::{NfFamily, RuleState};

/// The rule as anybody's, without its text.
pub(crate) fn decode(family: NfFamily, state: &RuleState) -> FoundRule {
    let (dialect, known) = match family {
        NfFamily::Ip => (Dialect::Iptables, Some(Family::V4)),
        NfFamily::Ip6 => (Dialect::Iptables, Some(Family::V6)),
        NfFamily::Inet => (Dialect::Nft, None),
    };
    let mut reader = Reader { dialect, family: known, ..Reader::default() };
    match parse(&state.expressions) {
        Ok(expressions) => expressions.iter().for_each(|expression| reader.read(expression)),
        Err(_) => reader.unknown("malformed"),
    }
    reader.flush();
    FoundRule {
        conditions: reader.conditions,
        actions: reader.actions,
        dialect,
        text: String::new(),
        packets: state.counter.map(|counter| counter.packets),
        handle: Some(state.handle),
    }
}

/// Content of the register that rules like ours use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Loaded<'a> {
    Meta(u32),
    Ct(u32),
    Payload { base: u32, offset: u32 },
    Value(&'a [u8]),
}

#[derive(Default)]
struct Reader<'a> {
    dialect: Dialect,
    /// The family that addresses are of, if that is known.
    family: Option<Family>,
    has_protocol: bool,
    register: u32,
    loaded: Option<Loaded<'a>>,
    is_used: bool,
    mask: Option<&'a [u8]>,
    /// The lower end of what may become a range.
    low: Option<u16>,
    conditions: Vec<Condition>,
    actions: Vec<Action>,
}

/// Expressions that do something with the packet, and which are not known any further.
const ACTS: [&[u8]; 9] =
    [b"nat", b"masq", b"redir", b"reject", b"queue", b"tproxy", b"synproxy", b"dup", b"fwd"];

impl<'a> Reader<'a> {
    fn read(&mut self, expression: &Expression<'a>) {
        match *expression {
            Expression::Counter => {}
            Expression::Meta { key, register } => self.load(register, Loaded::Meta(key)),
            Expression::Ct { key, register } => self.load(register, Loaded::Ct(key)),
            Expression::Payload { base, offset, register, .. } => {
                self.load(register, Loaded::Payload { base, offset });
            }
            Expression::Immediate { value, register } => self.load(register, Loaded::Value(value)),
            Expression::Mask { register, mask } => match self.held(register) {
                Some(Loaded::Payload { base: header::NETWORK, .. } | Loaded::Ct(ct::STATE)) => {
                    self.mask = Some(mask);
                }
                _ => self.unknown("bitwise"),
            },
            Expression::Compare { register, operation, value } => {
                let known = self.compare(register, operation, value);
                self.condition(known, "cmp");
            }
            Expression::Range { register, operation, from, to } => {
                let range = port(from).zip(port(to)).map(|(from, to)| Port::Range(from, to));
                let known = sense(operation).zip(range);
                let known = known.and_then(|(sense, range)| self.port(register, sense, range));
                self.condition(known, "range");
            }
            Expression::Among { register, inverted, values: list } => {
                let sense = if inverted { Sense::Not } else { Sense::Is };
                let known = self.destination_ports(register, sense, list);
                let known = known.or_else(|| self.states_among(register, sense, list));
                self.condition(known, "lookup");
            }
            Expression::Match(extension) => self.extension(extension),
            _ => self.action(expression),
        }
    }

    fn action(&mut self, expression: &Expression<'a>) {
        let (known, name) = match *expression {
            Expression::SetMeta { key, register } => {
                let known = match (key, self.held(register)) {
                    (meta::MARK, Some(Loaded::Value(value))) => number(value).map(Action::SetMark),
                    (meta::MARK, Some(Loaded::Ct(ct::MARK))) => Some(Action::RestoreMark),
                    _ => None,
                };
                (known, "meta")
            }
            Expression::SetCt { key, register } => {
                let known = match (key, self.held(register)) {
                    (ct::MARK, Some(Loaded::Meta(meta::MARK))) => Some(Action::SaveMark),
                    (ct::ZONE, Some(Loaded::Value(zone))) => {
                        zone.first_chunk().copied().map(u16::from_ne_bytes).map(Action::CtZone)
                    }
                    _ => None,
                };
                (known, "ct")
            }
            Expression::Redirect { from, to, .. } => {
                (self.local_port(from).filter(|_| from == to).map(Action::Redirect), "redir")
            }
            Expression::Tproxy { port, .. } => (self.local_port(port).map(Action::Tproxy), "tproxy"),
            Expression::Verdict { code, chain } => (end(code, chain), "verdict"),
            Expression::Target(Extension { name, revision, info }) => {
                let revision = u8::try_from(revision).unwrap_or(u8::MAX);
                return match known_target(name, revision, info) {
                    Some(target) => self.actions.extend(Action::of(&target, Dialect::Iptables)),
                    None => self.unknown_action(&format!("target {} {revision}", lossy(name))),
                };
            }
            Expression::Other { name, .. } if ACTS.contains(&name) => {
                (None, std::str::from_utf8(name).unwrap_or("nat"))
            }
            // Nobody knows whether it asks or does something: what it asks is asked of all that comes behind it.
            Expression::Other { name, .. } => return self.unknown(&lossy(name)),
            _ => (None, "expression"),
        };
        match known {
            Some(action) => self.actions.push(action),
            None => self.unknown_action(name),
        }
        self.is_used = true;
    }

    fn load(&mut self, register: u32, loaded: Loaded<'a>) {
        self.flush();
        (self.register, self.loaded, self.is_used) = (register, Some(loaded), false);
        (self.mask, self.low) = (None, None);
    }

    /// Keeps a load without a use as unknown, but for interfaces: `-i +` is stored so.
    fn flush(&mut self) {
        if let Some(loaded) = self.loaded.take().filter(|_| !self.is_used) {
            match loaded {
                Loaded::Meta(meta::IN_INTERFACE | meta::OUT_INTERFACE) | Loaded::Value(_) => {}
                Loaded::Meta(_) => self.unknown("meta"),
                Loaded::Ct(_) => self.unknown("ct"),
                Loaded::Payload { .. } => self.unknown("payload"),
            }
        }
    }

    fn held(&self, register: u32) -> Option<Loaded<'a>> {
        self.loaded.filter(|_| self.register == register)
    }

    fn local_port(&self, register: u32) -> Option<u16> {
        match self.held(register)? {
            Loaded::Value(value) => port(value),
            _ => None,
        }
    }

    fn condition(&mut self, known: Option<Match>, name: &str) {
        self.is_used = true;
        match known {
            // Expressions run in order: a condition behind an action does not keep that from what it does.
            Some(known) if self.actions.is_empty() => self.conditions.push(Condition::Known(known)),
            _ => self.unknown(name),
        }
    }

    fn unknown(&mut self, name: &str) {
        if self.actions.is_empty() {
            self.conditions.push(Condition::Unknown(format!("[{name}]")));
        } else {
            self.unknown_action(name);
        }
    }

    fn unknown_action(&mut self, name: &str) {
        self.actions.push(Action::Unknown(format!("[{name}]")));
    }

    fn extension(&mut self, extension: Extension<'_>) {
        let revision = u8::try_from(extension.revision).unwrap_or(u8::MAX);
        match known_match(extension.name, revision, extension.info) {
            Some(known) if self.actions.is_empty() => {
                self.conditions.extend(known.into_iter().map(Condition::Known));
            }
            _ => self.conditions.push(Condition::Unknown(spell_match(extension))),
        }
    }

    fn compare(&mut self, register: u32, operation: u32, value: &[u8]) -> Option<Match> {
        let loaded = self.held(register)?;
        if let Loaded::Payload { base: header::TRANSPORT, .. } = loaded {
            return self.port_compared(register, operation, port(value)?);
        }
        let sense = sense(operation)?;
        let is = || (sense == Sense::Is).then_some(value);
        let interface = |value| Some(interface_name(self.dialect, value).into());
        Some(match loaded {
            Loaded::Meta(meta::IN_INTERFACE) => Match::InInterface(is().and_then(interface)?),
            Loaded::Meta(meta::OUT_INTERFACE) => Match::OutInterface(is().and_then(interface)?),
            Loaded::Meta(meta::PROTOCOL) => {
                let protocol = is().and_then(protocol)?;
                self.has_protocol = true;
                Match::Protocol(protocol)
            }
            Loaded::Meta(meta::FAMILY) => {
                let family = is().and_then(nf_family)?;
                self.family = Some(family);
                Match::Family(family)
            }
            Loaded::Meta(meta::MARK) => Match::Mark(sense, number(value)?),
            // Native expressions and iptables' extension disagree about packets without a socket.
            Loaded::Meta(meta::USER | meta::GROUP)
                if sense == Sense::Not && self.dialect == Dialect::Iptables =>
            {
                return None;
            }
            Loaded::Meta(meta::USER) => Match::Owner(sense, Owner::Uid(Id::Number(number(value)?))),
            Loaded::Meta(meta::GROUP) => Match::Owner(sense, Owner::Gid(Id::Number(number(value)?))),
            Loaded::Ct(ct::MARK) => Match::ConnMark(is().and_then(number)?),
            Loaded::Ct(ct::STATE) => Match::Conntrack(self.states(sense, number(value)?)?),
            Loaded::Payload { base: header::NETWORK, offset } => self.address(sense, offset, value)?,
            _ => return None,
        })
    }

    /// nft masks the states and compares with 0, or compares with the one bit of a state.
    fn states(&self, sense: Sense, value: u32) -> Option<CtStates> {
        let (is_among, bits) = match (self.mask, value) {
            (Some(mask), 0) => (sense == Sense::Not, number(mask)?),
            (None, one) if one.is_power_of_two() => (sense == Sense::Is, one),
            _ => return None,
        };
        let states = CtStates::from_bits(bits)?;
        Some(if is_among { states } else { states.inverted() })
    }

    fn address(&mut self, sense: Sense, offset: u32, value: &[u8]) -> Option<Match> {
        let mut whole = [0; 16];
        for (to, from) in whole.iter_mut().zip(value) {
            *to = *from;
        }
        let [a, b, c, d, ..] = whole;
        let (address, is_source) = match (self.family?, offset) {
            (Family::V4, 12 | 16) => (IpAddr::from(Ipv4Addr::new(a, b, c, d)), offset == 12),
            (Family::V6, 8 | 24) => (IpAddr::from(Ipv6Addr::from(whole)), offset == 8),
            _ => return None,
        };
        let length = match self.mask {
            Some(mask) => prefix_length(mask)?,
            None => u8::try_from(value.len() * 8).ok()?,
        };
        let cidr = Cidr { address, length };
        Some(if is_source { Match::Source(sense, cidr) } else { Match::Destination(sense, cidr) })
    }

    /// nft compares with both ends of a range, one after the other.
    fn port_compared(&mut self, register: u32, operation: u32, port: u16) -> Option<Match> {
        let low = self.low.take();
        let (sense, range) = match operation {
            operation::EQUAL => (Sense::Is, Port::One(port)),
            operation::NOT_EQUAL => (Sense::Not, Port::One(port)),
            operation::LESS => (Sense::Is, Port::Range(0, port.checked_sub(1)?)),
            operation::GREATER => (Sense::Is, Port::Range(port.checked_add(1)?, u16::MAX)),
            operation::AT_LEAST => {
                self.low = Some(port);
                (Sense::Is, Port::Range(port, u16::MAX))
            }
            operation::AT_MOST => {
                if low.is_some() {
                    self.conditions.pop();
                }
                (Sense::Is, Port::Range(low.unwrap_or(0), port))
            }
            _ => return None,
        };
        self.port(register, sense, range)
    }

    fn port(&self, register: u32, sense: Sense, port: Port) -> Option<Match> {
        match self.held(register).filter(|_| self.has_protocol)? {
            Loaded::Payload { base: header::TRANSPORT, offset: 0 } => Some(Match::SourcePort(sense, port)),
            Loaded::Payload { base: header::TRANSPORT, offset: 2 } => {
                Some(Match::DestinationPort(sense, port))
            }
            _ => None,
        }
    }

    fn destination_ports(&self, register: u32, sense: Sense, list: &[u8]) -> Option<Match> {
        let is_port = self.held(register) == Some(Loaded::Payload { base: header::TRANSPORT, offset: 2 });
        let ports = values(list).map(port).collect::<Option<_>>()?;
        (is_port && self.has_protocol).then_some(Match::DestinationPorts(sense, ports))
    }
}

/// A packet is in exactly one state, so looking it up asks the same as masking does.
impl Reader<'_> {
    fn states_among(&self, register: u32, sense: Sense, list: &[u8]) -> Option<Match> {
        self.held(register).filter(|loaded| *loaded == Loaded::Ct(ct::STATE) && self.mask.is_none())?;
        let bits = values(list).try_fold(0, |bits, value| Some(bits | number(value)?))?;
        let states = CtStates::from_bits(bits)?;
        Some(Match::Conntrack(if sense == Sense::Is { states } else { states.inverted() }))
    }
}

fn end(code: i32, chain: Option<&[u8]>) -> Option<Action> {
    let chain = || lossy(chain.unwrap_or_default());
    match code {
        verdict::ACCEPT => Some(Action::Accept),
        verdict::DROP => Some(Action::Drop),
        verdict::RETURN => Some(Action::Return),
        verdict::JUMP => Some(Action::Jump(chain())),
        verdict::GOTO => Some(Action::Goto(chain())),
        _ => None,
    }
}

fn sense(operation: u32) -> Option<Sense> {
    match operation {
        operation::EQUAL => Some(Sense::Is),
        operation::NOT_EQUAL => Some(Sense::Not),
        _ => None,
    }
}

fn number(value: &[u8]) -> Option<u32> {
    value.try_into().ok().map(u32::from_ne_bytes)
}

fn port(value: &[u8]) -> Option<u16> {
    value.try_into().ok().map(u16::from_be_bytes)
}

fn protocol(value: &[u8]) -> Option<Protocol> {
    match value {
        [number] => Some(Protocol::from_number(*number)),
        _ => None,
    }
}

fn nf_family(value: &[u8]) -> Option<Family> {
    match value {
        [family::IPV4] => Some(Family::V4),
        [family::IPV6] => Some(Family::V6),
        _ => None,
    }
}

fn prefix_length(mask: &[u8]) -> Option<u8> {
    let ones: u32 = mask.iter().map(|byte| byte.leading_ones()).sum();
    let count: u32 = mask.iter().map(|byte| byte.count_ones()).sum();
    let is_prefix = mask.windows(2).all(|pair| pair[0] == 0xff || pair[1] == 0);
    (ones == count && is_prefix).then(|| u8::try_from(ones).ok())?
}
