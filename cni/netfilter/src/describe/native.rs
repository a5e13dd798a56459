// SPDX-License-Identifier: Apache-2.0
//! Rules in the words of `nft --stateless list`.

use std::fmt::Write as _;
use std::net::Ipv4Addr;

use super::extension::native as number;
use super::{ipv6, port, protocol};
use crate::expression::{Expression, values};
use crate::nft::{ct, family, header, meta, operation, verdict};

/// Content of the register.
#[derive(Debug, Clone, Copy)]
enum Loaded<'a> {
    Meta(u32),
    Ct(u32),
    Payload { base: u32, offset: u32 },
    Value(&'a [u8]),
}

/// A part of the rule, and whether it goes without saying as soon as something else is asked for.
struct Part {
    words: String,
    implied_by: Option<u32>,
}

#[derive(Default)]
struct Text<'a> {
    register: u32,
    loaded: Option<Loaded<'a>>,
    mask: Option<&'a [u8]>,
    /// The protocol and family asked for.
    protocol: &'static str,
    family: u8,
    /// The lower end of what may become a range.
    low: Option<u16>,
    parts: Vec<Part>,
}

pub(super) fn describe(expressions: &[Expression<'_>]) -> String {
    let mut text = Text::default();
    for expression in expressions {
        text.add(expression);
    }
    let words: Vec<_> = text.parts.iter().map(|part| part.words.as_str()).collect();
    words.join(" ")
}

impl<'a> Text<'a> {
    fn add(&mut self, expression: &Expression<'a>) {
        match *expression {
            Expression::Meta { key, register } => self.load(register, Loaded::Meta(key)),
            Expression::Ct { key, register } => self.load(register, Loaded::Ct(key)),
            Expression::Payload { base, offset, register, .. } => {
                self.load(register, Loaded::Payload { base, offset });
            }
            Expression::Immediate { value, register } => self.load(register, Loaded::Value(value)),
            Expression::Mask { mask, .. } => self.mask = Some(mask),
            Expression::Compare { register, operation, value } => self.compare(register, operation, value),
            Expression::Range { register, operation, from, to } => {
                let range = format!("{}-{}", port(from), port(to));
                self.port(register, not(operation), &range);
            }
            Expression::Among { register, inverted, values: list } => {
                let ports: Vec<_> = values(list).map(|value| port(value).to_string()).collect();
                self.port(
                    register,
                    if inverted { "!= " } else { "" },
                    &format!("{{ {} }}", ports.join(", ")),
                );
            }
            Expression::Counter => self.say("counter".to_owned()),
            Expression::SetMeta { key: meta::MARK, register } => {
                let value = self.source(register);
                self.say(format!("meta mark set {value}"));
            }
            Expression::SetCt { key: ct::MARK, register } => {
                let value = self.source(register);
                self.say(format!("ct mark set {value}"));
            }
            Expression::SetCt { key: ct::ZONE, register } => match self.held(register) {
                Some(Loaded::Value(value)) => {
                    let zone = value.first_chunk().copied().map_or(0, u16::from_ne_bytes);
                    self.say(format!("ct zone set {zone}"));
                }
                _ => self.say("[ct]".to_owned()),
            },
            Expression::Redirect { from, to, .. } if from == to => {
                let port = self.local_port(from);
                self.say(format!("redirect to {port}"));
            }
            Expression::Tproxy { family, port } => {
                let port = self.local_port(port);
                let family = if family == 0 { String::new() } else { format!("{} ", ip(family)) };
                self.say(format!("tproxy {family}to {port}"));
            }
            Expression::Verdict { code, chain } => self.verdict(code, chain),
            Expression::Match(extension) => self.say(foreign("match", extension.name)),
            Expression::Target(extension) => self.say(foreign("target", extension.name)),
            Expression::SetMeta { .. } => self.say("[meta]".to_owned()),
            Expression::SetCt { .. } => self.say("[ct]".to_owned()),
            Expression::Redirect { .. } => self.say("[redir]".to_owned()),
            Expression::Other { name, .. } => self.say(format!("[{}]", String::from_utf8_lossy(name))),
        }
    }

    fn load(&mut self, register: u32, loaded: Loaded<'a>) {
        self.register = register;
        self.loaded = Some(loaded);
        self.mask = None;
        self.low = None;
    }

    fn held(&self, register: u32) -> Option<Loaded<'a>> {
        self.loaded.filter(|_| self.register == register)
    }

    fn say(&mut self, words: String) {
        self.parts.push(Part { words, implied_by: None });
    }

    /// Says what is left out if the rule goes on to ask for a field of that header.
    fn say_unless(&mut self, header: u32, words: String) {
        self.parts.push(Part { words, implied_by: Some(header) });
    }

    fn imply(&mut self, header: u32) {
        self.parts.retain(|part| part.implied_by != Some(header));
    }

    fn compare(&mut self, register: u32, operation: u32, value: &[u8]) {
        let not = not(operation);
        match self.held(register) {
            Some(Loaded::Meta(meta::IN_INTERFACE)) => self.say(format!("iifname {not}{}", name(value))),
            Some(Loaded::Meta(meta::OUT_INTERFACE)) => self.say(format!("oifname {not}{}", name(value))),
            Some(Loaded::Meta(meta::PROTOCOL)) => {
                let known = protocol(value);
                let other = value.first().map(u8::to_string).unwrap_or_default();
                let words = format!("meta l4proto {not}{}", if known.is_empty() { &other } else { known });
                if operation == operation::EQUAL && !known.is_empty() {
                    self.protocol = known;
                    self.say_unless(header::TRANSPORT, words);
                } else {
                    self.say(words);
                }
            }
            Some(Loaded::Meta(meta::FAMILY)) => {
                self.family = value.first().copied().unwrap_or_default();
                let name = if self.family == family::IPV4 { "ipv4" } else { "ipv6" };
                let words = format!("meta nfproto {not}{name}");
                self.say_unless(header::NETWORK, words);
            }
            Some(Loaded::Meta(meta::MARK)) => self.say(format!("meta mark {not}{}", mark(value))),
            Some(Loaded::Meta(meta::USER)) => self.say(format!("meta skuid {not}{}", number(value, 0))),
            Some(Loaded::Meta(meta::GROUP)) => self.say(format!("meta skgid {not}{}", number(value, 0))),
            Some(Loaded::Ct(ct::MARK)) => self.say(format!("ct mark {not}{}", mark(value))),
            Some(Loaded::Ct(ct::STATE)) => {
                let not = match (self.mask, operation) {
                    (Some(_), operation::EQUAL) => "! ",
                    (Some(_), _) => "",
                    (None, _) => not,
                };
                self.say(format!("ct state {not}{}", states(number(self.mask.unwrap_or(value), 0))));
            }
            Some(Loaded::Payload { base: header::NETWORK, offset }) => self.address(not, offset, value),
            Some(Loaded::Payload { base: header::TRANSPORT, .. }) => {
                self.port_compared(register, operation, port(value));
            }
            _ => self.say("[cmp]".to_owned()),
        }
    }

    fn port_compared(&mut self, register: u32, operation: u32, port: u16) {
        let sign = match operation {
            operation::NOT_EQUAL => "!= ",
            operation::LESS => "< ",
            operation::AT_MOST => match self.low.take() {
                Some(low) => {
                    self.parts.pop();
                    return self.port(register, "", &format!("{low}-{port}"));
                }
                None => "<= ",
            },
            operation::GREATER => "> ",
            operation::AT_LEAST => {
                self.low = Some(port);
                ">= "
            }
            _ => "",
        };
        self.port(register, sign, &port.to_string());
    }

    fn port(&mut self, register: u32, sign: &str, ports: &str) {
        let side = match self.held(register) {
            Some(Loaded::Payload { base: header::TRANSPORT, offset: 0 }) => "sport",
            Some(Loaded::Payload { base: header::TRANSPORT, offset: 2 }) => "dport",
            _ => return self.say("[payload]".to_owned()),
        };
        self.imply(header::TRANSPORT);
        let protocol = if self.protocol.is_empty() { "th" } else { self.protocol };
        self.say(format!("{protocol} {side} {sign}{ports}"));
    }

    fn address(&mut self, not: &str, offset: u32, value: &[u8]) {
        let mut whole = [0; 16];
        for (to, from) in whole.iter_mut().zip(value) {
            *to = *from;
        }
        let (side, address, length) = match (self.family, offset) {
            (family::IPV4, 12 | 16) => {
                let v4 = Ipv4Addr::new(whole[0], whole[1], whole[2], whole[3]).to_string();
                (if offset == 12 { "saddr" } else { "daddr" }, v4, 32)
            }
            (family::IPV6, 8 | 24) => (if offset == 8 { "saddr" } else { "daddr" }, ipv6(whole.into()), 128),
            _ => return self.say("[payload]".to_owned()),
        };
        let bits = self.mask.map_or(value.len() * 8, |mask| {
            mask.iter().map(|byte| usize::try_from(byte.count_ones()).unwrap_or(0)).sum()
        });
        self.imply(header::NETWORK);
        let mut words = format!("{} {side} {not}{address}", ip(self.family.into()));
        if bits != length {
            let _infallible = write!(words, "/{bits}");
        }
        self.say(words);
    }

    /// The value that is set.
    fn source(&self, register: u32) -> String {
        match self.held(register) {
            Some(Loaded::Value(value)) => mark(value),
            Some(Loaded::Meta(meta::MARK)) => "meta mark".to_owned(),
            Some(Loaded::Ct(ct::MARK)) => "ct mark".to_owned(),
            _ => "[register]".to_owned(),
        }
    }

    fn local_port(&self, register: u32) -> String {
        match self.held(register) {
            Some(Loaded::Value(value)) => format!(":{}", port(value)),
            _ => "[register]".to_owned(),
        }
    }

    fn verdict(&mut self, code: i32, chain: Option<&[u8]>) {
        let chain = String::from_utf8_lossy(chain.unwrap_or_default());
        self.say(match code {
            verdict::ACCEPT => "accept".to_owned(),
            verdict::DROP => "drop".to_owned(),
            verdict::RETURN => "return".to_owned(),
            verdict::JUMP => format!("jump {chain}"),
            verdict::GOTO => format!("goto {chain}"),
            code => format!("[verdict {code}]"),
        });
    }
}

fn not(operation: u32) -> &'static str {
    if operation == operation::NOT_EQUAL { "!= " } else { "" }
}

fn ip(family: u32) -> &'static str {
    if family == u32::from(family::IPV4) { "ip" } else { "ip6" }
}

fn mark(value: &[u8]) -> String {
    format!("{:#010x}", number(value, 0))
}

/// A name is compared with all the bytes that it can have; fewer are a prefix.
pub(super) fn name(value: &[u8]) -> String {
    let text = String::from_utf8_lossy(crate::wire::text(value));
    match text.strip_suffix('*') {
        _ if value.len() < 16 => format!("\"{text}*\""),
        Some(start) => format!("\"{start}\\*\""),
        None => format!("\"{text}\""),
    }
}

/// nft's order.
fn states(bits: u32) -> String {
    let names = [(1, "invalid"), (2, "established"), (4, "related"), (8, "new"), (64, "untracked")];
    let named: Vec<_> = names.iter().filter(|(bit, _)| bits & bit != 0).map(|(_, name)| *name).collect();
    named.join(",")
}

fn foreign(kind: &str, name: &[u8]) -> String {
    format!("xt {kind} \"{}\"", String::from_utf8_lossy(name))
}
