// SPDX-License-Identifier: Apache-2.0
//! A rule's expressions as a person knows them from `iptables -S`, without `-A CHAIN`; pure. What has no such spelling is shown
//! by the name of its expression in brackets.

use std::fmt::Write as _;
use std::net::{Ipv4Addr, Ipv6Addr};

use crate::expression::{Expression, Extension, parse};
use crate::nft::{header, meta, operation, verdict};
use crate::snapshot::NfFamily;

/// The rule in the words of `iptables -S`.
#[must_use]
pub fn describe(family: NfFamily, expressions: &[u8]) -> String {
    let Ok(expressions) = parse(expressions) else { return "[malformed]".to_owned() };
    let mut text = Text { any_address: any_address(family), ..Text::default() };
    for expression in &expressions {
        text.add(expression);
    }
    text.finish()
}

/// What the register holds.
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
    /// Whether `-m tcp` was said.
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

    /// What was loaded and not compared. `-i +` is kept so, and iptables does not list it.
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
                    // How iptables lists what it keeps of `! --dport 0:PORT`.
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
            None => length * 8,
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

/// A number of a C structure, 0 behind its end.
fn native(info: &[u8], at: usize) -> u32 {
    info.get(at..).and_then(|rest| rest.first_chunk().copied()).map_or(0, u32::from_ne_bytes)
}

/// A short number of a C structure.
fn short(info: &[u8], at: usize) -> [u8; 2] {
    info.get(at..).and_then(|rest| rest.first_chunk().copied()).unwrap_or_default()
}

fn byte(info: &[u8], at: usize) -> u8 {
    info.get(at).copied().unwrap_or_default()
}

fn spell_match(extension: Extension<'_>) -> String {
    let info = extension.info;
    match (extension.name, extension.revision) {
        (b"owner", 1) => owner(info),
        (b"multiport", 1) => multiport(info),
        (b"conntrack", 3) => {
            let states = u16::from_ne_bytes(short(info, 150));
            let names = [(1, "INVALID"), (8, "NEW"), (4, "RELATED"), (2, "ESTABLISHED")];
            let named: Vec<_> =
                names.iter().filter(|(bit, _)| states & bit != 0).map(|(_, name)| *name).collect();
            format!("-m conntrack --ctstate {}", named.join(","))
        }
        (b"connmark", 1) => {
            let not = if byte(info, 8) == 0 { "" } else { "! " };
            format!("-m connmark {not}--mark {:#x}", native(info, 0))
        }
        (name @ (b"tcp" | b"udp"), 0) => format!("-m {}", String::from_utf8_lossy(name)),
        (name, revision) => format!("[match {} {revision}]", String::from_utf8_lossy(name)),
    }
}

fn owner(info: &[u8]) -> String {
    let mut text = "-m owner".to_owned();
    let (asked, inverted) = (byte(info, 16), byte(info, 17));
    for (bit, option, at) in [(1, "--uid-owner", 0), (2, "--gid-owner", 8)] {
        if asked & bit != 0 {
            let not = if inverted & bit == 0 { "" } else { "! " };
            let (low, high) = (native(info, at), native(info, at + 4));
            let _infallible = write!(text, " {not}{option} {low}");
            if low != high {
                let _infallible = write!(text, "-{high}");
            }
        }
    }
    text
}

fn multiport(info: &[u8]) -> String {
    let option = match byte(info, 0) {
        0 => "--sports",
        1 => "--dports",
        _ => "--ports",
    };
    let not = if byte(info, 47) == 0 { "" } else { "! " };
    let count = usize::from(byte(info, 1)).min(15);
    let ports: Vec<_> =
        (0..count).map(|index| u16::from_ne_bytes(short(info, 2 + 2 * index)).to_string()).collect();
    format!("-m multiport {not}{option} {}", ports.join(","))
}

fn spell_target(extension: Extension<'_>, any_address: &str) -> String {
    let info = extension.info;
    match (extension.name, extension.revision, info.len()) {
        (b"REDIRECT", 0, 24) => redirect(info, 16),
        (b"REDIRECT", 0, 40) => redirect(info, 36),
        (b"MARK", 2, _) => format!("-j MARK --set-xmark {:#x}/{:#x}", native(info, 0), native(info, 4)),
        (b"TPROXY", 1, _) => tproxy(info, any_address),
        (b"CONNMARK", 2, _) => {
            let masks = format!("--nfmask {:#x} --ctmask {:#x}", native(info, 8), native(info, 4));
            match byte(info, 14) {
                1 => format!("-j CONNMARK --save-mark {masks}"),
                2 => format!("-j CONNMARK --restore-mark {masks}"),
                _ => "-j CONNMARK".to_owned(),
            }
        }
        (b"CT", 2, _) => format!("-j CT --zone {}", u16::from_ne_bytes(short(info, 2))),
        (name, revision, _) => format!("-j [target {} {revision}]", String::from_utf8_lossy(name)),
    }
}

fn redirect(info: &[u8], at: usize) -> String {
    let (low, high) = (u16::from_be_bytes(short(info, at)), u16::from_be_bytes(short(info, at + 2)));
    if low == high {
        format!("-j REDIRECT --to-ports {low}")
    } else {
        format!("-j REDIRECT --to-ports {low}-{high}")
    }
}

/// Rules here never name the address that TPROXY hands packets to: it stays all zeros.
fn tproxy(info: &[u8], any_address: &str) -> String {
    let port = u16::from_be_bytes(short(info, 24));
    let (mark, mask) = (native(info, 4), native(info, 0));
    format!("-j TPROXY --on-port {port} --on-ip {any_address} --tproxy-mark {mark:#x}/{mask:#x}")
}

fn any_address(family: NfFamily) -> &'static str {
    match family {
        NfFamily::Ip6 => "::",
        NfFamily::Ip | NfFamily::Inet => "0.0.0.0",
    }
}
