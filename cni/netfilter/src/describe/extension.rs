// SPDX-License-Identifier: Apache-2.0
//! xtables extensions in the words of `iptables -S`, read from their C structures.

use std::fmt::Write as _;

use crate::expression::Extension;

/// A number of a C structure, 0 behind its end.
pub(super) fn native(info: &[u8], at: usize) -> u32 {
    info.get(at..).and_then(|rest| rest.first_chunk().copied()).map_or(0, u32::from_ne_bytes)
}

/// A short number of a C structure.
fn short(info: &[u8], at: usize) -> [u8; 2] {
    info.get(at..).and_then(|rest| rest.first_chunk().copied()).unwrap_or_default()
}

fn byte(info: &[u8], at: usize) -> u8 {
    info.get(at).copied().unwrap_or_default()
}

pub(crate) fn spell_match(extension: Extension<'_>) -> String {
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

pub(super) fn spell_target(extension: Extension<'_>, any_address: &str) -> String {
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
