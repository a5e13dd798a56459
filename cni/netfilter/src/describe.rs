// SPDX-License-Identifier: Apache-2.0
//! A rule's expressions as a person knows them: those in a table of `ip` or `ip6` from `iptables -S`, without `-A CHAIN`, those in a
//! table of `inet` from `nft list`; pure. What has no such spelling is shown by the name of its expression in brackets.

mod extension;
mod native;

use std::net::{Ipv4Addr, Ipv6Addr};

use redirect::ruleset::Dialect;

use crate::expression::{Expression, parse};
use crate::nft::{header, meta, operation, verdict};
use crate::snapshot::NfFamily;
pub(crate) use extension::spell_match;
use extension::{native, spell_target};

/// The rule in the words of `iptables -S` or `nft list`, whichever lists tables of this family.
#[must_use]
pub fn describe(family: NfFamily, expressions: &[u8]) -> String {
    let Ok(expressions) = parse(expressions) else { return "[malformed]".to_owned() };
    if family == NfFamily::Inet {
        return native::describe(&expressions);
    }
    let mut text = Text { any_address: any_address(family), ..Text::default() };
    for expression in &expressions {
        text.add(expression);
    }
    text.finish()
}

/// Content of the register.
#[derive(Debug, Clone, Copy)]
enum Loaded<'a> {
    Meta(u32),
    Payload { base: u32, offset: u32, length: u32, mask: Option<&'a [u8]> },
}

/// `iptables -S` lists addresses, interfaces and the protocol first, whatever the order in the kernel.
const RANKS: usize = 7;
const SOURCE: usize = 0;
const DESTINATION: usize = 1;
const IN_INTERFACE: usize = 2;
const OUT_INTERFACE: usize = 3;
const PROTOCOL: usize = 4;
const OTHERS: usize = 5;
const TARGET: usize = 6;

#[derive(Default)]
struct Text<'a> {
    loaded: Option<Loaded<'a>>,
    protocol: &'static str,
    any_address: &'static str,
    /// True after `-m tcp`.
    ports: bool,
    parts: [String; RANKS],
}

impl<'a> Text<'a> {
    fn add(&mut self, expression: &Expression<'a>) {
        match *expression {
            Expression::Counter => {}
            Expression::Meta { key, .. } => {
                self.flush();
                self.loaded = Some(Loaded::Meta(key));
            }
            Expression::Payload { base, offset, length, .. } => {
                self.flush();
                self.loaded = Some(Loaded::Payload { base, offset, length, mask: None });
            }
            Expression::Mask { mask: kept, .. } => match &mut self.loaded {
                Some(Loaded::Payload { mask, .. }) => *mask = Some(kept),
                _ => self.say(OTHERS, "[bitwise]"),
            },
            Expression::Compare { operation, value, .. } => self.compare(operation, value),
            Expression::Range { operation, from, to, .. } => self.range(operation, from, to),
            Expression::Verdict { code, chain } => self.verdict(code, chain),
            Expression::Match(extension) => {
                let spelled = spell_match(extension);
                self.say(OTHERS, &spelled);
            }
            Expression::Target(extension) => {
                let spelled = spell_target(extension, self.any_address);
                self.say(TARGET, &spelled);
            }
            Expression::SetMeta { .. } => self.say(TARGET, "[meta]"),
            Expression::Ct { .. } => self.say(OTHERS, "[ct]"),
            Expression::SetCt { .. } => self.say(TARGET, "[ct]"),
            Expression::Immediate { .. } => self.say(OTHERS, "[immediate]"),
            Expression::Among { .. } => self.say(OTHERS, "[lookup]"),
            Expression::Redirect { .. } => self.say(TARGET, "[redir]"),
            Expression::Tproxy { .. } => self.say(TARGET, "[tproxy]"),
            Expression::Other { name, .. } => {
                let name = format!("[{}]", String::from_utf8_lossy(name));
                self.say(OTHERS, &name);
            }
        }
    }

    fn say(&mut self, rank: usize, words: &str) {
        if let Some(part) = self.parts.get_mut(rank) {
            if !part.is_empty() {
                part.push(' ');
            }
            part.push_str(words);
        }
    }

    /// Lists an uncompared load. `-i +` is kept so, and iptables does not list it.
    fn flush(&mut self) {
        match self.loaded.take() {
            None | Some(Loaded::Meta(meta::IN_INTERFACE | meta::OUT_INTERFACE)) => {}
            Some(Loaded::Meta(_)) => self.say(OTHERS, "[meta]"),
            Some(Loaded::Payload { .. }) => self.say(OTHERS, "[payload]"),
        }
    }

    fn compare(&mut self, operation: u32, value: &[u8]) {
        let not = if operation == operation::NOT_EQUAL { "! " } else { "" };
        match self.loaded.take() {
            Some(Loaded::Meta(meta::IN_INTERFACE)) => {
                self.say(IN_INTERFACE, &format!("{not}-i {}", interface(value)));
            }
            Some(Loaded::Meta(meta::OUT_INTERFACE)) => {
                self.say(OUT_INTERFACE, &format!("{not}-o {}", interface(value)));
            }
            Some(Loaded::Meta(meta::PROTOCOL)) => {
                self.protocol = protocol(value);
                let number = value.first().map(u8::to_string).unwrap_or_default();
                let name = if self.protocol.is_empty() { &number } else { self.protocol };
                self.say(PROTOCOL, &format!("{not}-p {name}"));
            }
            Some(Loaded::Meta(meta::MARK)) if value.len() == 4 => {
                self.say(OTHERS, &format!("-m mark {not}--mark {:#x}", native(value, 0)));
            }
            Some(Loaded::Payload { base: header::NETWORK, offset, length, mask }) => {
                self.address(not, offset, length, mask, value);
            }
            Some(Loaded::Payload { base: header::TRANSPORT, offset, .. }) => {
                let port = port(value);
                match operation {
                    operation::AT_MOST => self.ports("", offset, format!("0:{port}")),
                    // As iptables lists what it keeps of `! --dport 0:PORT`.
                    operation::GREATER => {
                        self.ports("", offset, format!("{}:{}", port.saturating_add(1), u16::MAX));
                    }
                    _ => self.ports(not, offset, port.to_string()),
                }
            }
            _ => self.say(OTHERS, "[cmp]"),
        }
    }

    fn range(&mut self, operation: u32, from: &[u8], to: &[u8]) {
        let not = if operation == operation::NOT_EQUAL { "! " } else { "" };
        match self.loaded.take() {
            Some(Loaded::Payload { base: header::TRANSPORT, offset, .. }) => {
                self.ports(not, offset, format!("{}:{}", port(from), port(to)));
            }
            _ => self.say(OTHERS, "[range]"),
        }
    }

    fn ports(&mut self, not: &str, offset: u32, ports: impl AsRef<str>) {
        let option = match offset {
            0 => "--sport",
            2 => "--dport",
            _ => return self.say(OTHERS, "[payload]"),
        };
        if !self.ports {
            self.ports = true;
            let name = format!("-m {}", self.protocol);
            self.say(OTHERS, &name);
        }
        self.say(OTHERS, &format!("{not}{option} {}", ports.as_ref()));
    }

    fn address(&mut self, not: &str, offset: u32, length: u32, mask: Option<&[u8]>, value: &[u8]) {
        let bits: u32 = match mask {
            Some(mask) => mask.iter().map(|byte| byte.count_ones()).sum(),
            None => length.saturating_mul(8),
        };
        let mut whole = [0; 16];
        for (to, from) in whole.iter_mut().zip(value) {
            *to = *from;
        }
        let v4 = Ipv4Addr::new(whole[0], whole[1], whole[2], whole[3]);
        let v6 = ipv6(Ipv6Addr::from(whole));
        match offset {
            12 => self.say(SOURCE, &format!("{not}-s {v4}/{bits}")),
            16 => self.say(DESTINATION, &format!("{not}-d {v4}/{bits}")),
            8 => self.say(SOURCE, &format!("{not}-s {v6}/{bits}")),
            24 => self.say(DESTINATION, &format!("{not}-d {v6}/{bits}")),
            _ => self.say(OTHERS, "[payload]"),
        }
    }

    fn verdict(&mut self, code: i32, chain: Option<&[u8]>) {
        let chain = String::from_utf8_lossy(chain.unwrap_or_default());
        let spelled = match code {
            verdict::ACCEPT => "-j ACCEPT".to_owned(),
            verdict::DROP => "-j DROP".to_owned(),
            verdict::RETURN => "-j RETURN".to_owned(),
            verdict::JUMP => format!("-j {chain}"),
            verdict::GOTO => format!("-g {chain}"),
            code => format!("[verdict {code}]"),
        };
        self.say(TARGET, &spelled);
    }

    fn finish(mut self) -> String {
        self.flush();
        let parts: Vec<&str> =
            self.parts.iter().map(String::as_str).filter(|part| !part.is_empty()).collect();
        parts.join(" ")
    }
}

/// C libraries, and so iptables, show an address of 96 zero bits as `::127.0.0.53`.
fn ipv6(address: Ipv6Addr) -> String {
    match address.segments() {
        [0, 0, 0, 0, 0, 0, high, low] if high != 0 => {
            let [a, b] = high.to_be_bytes();
            let [c, d] = low.to_be_bytes();
            format!("::{}", Ipv4Addr::new(a, b, c, d))
        }
        _ => address.to_string(),
    }
}

/// The name of an interface as rules of this dialect have it.
pub(crate) fn interface_name(dialect: Dialect, value: &[u8]) -> String {
    match dialect {
        Dialect::Nft => native::name(value).trim_matches('"').to_owned(),
        Dialect::Iptables => interface(value),
    }
}

/// A name compared with its NUL is whole; one without is a prefix.
fn interface(value: &[u8]) -> String {
    match value.split_last() {
        Some((0, name)) => String::from_utf8_lossy(crate::wire::text(name)).into_owned(),
        _ => format!("{}+", String::from_utf8_lossy(value)),
    }
}

fn protocol(value: &[u8]) -> &'static str {
    match value {
        [6] => "tcp",
        [17] => "udp",
        _ => "",
    }
}

fn port(value: &[u8]) -> u16 {
    value.first_chunk().copied().map_or(0, u16::from_be_bytes)
}

fn any_address(family: NfFamily) -> &'static str {
    match family {
        NfFamily::Ip6 => "::",
        NfFamily::Ip | NfFamily::Inet => "0.0.0.0",
    }
}
