// SPDX-License-Identifier: Apache-2.0
//! Capabilities of this tier on this machine, with the attempts as evidence.

use std::fs;
use std::path::Path;

use cluster::Probe;

/// The proxy's usual user: rules name it, so the user namespace must map it.
const PROXY_UID: u64 = 1337;

#[must_use]
pub fn all() -> Vec<Probe> {
    vec![real_kernel(), ipv6(), proxy_uid(), iptables_tools()]
}

fn probe(need: &str, met: bool, evidence: String) -> Probe {
    Probe { need: need.to_owned(), met, evidence }
}

fn real_kernel() -> Probe {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    probe("real-kernel", true, format!("made a network namespace on Linux {}", release.trim()))
}

fn ipv6() -> Probe {
    let path = "/proc/sys/net/ipv6/conf/all/disable_ipv6";
    match fs::read_to_string(path) {
        Ok(value) => probe("ipv6", value.trim() == "0", format!("{path} is {}", value.trim())),
        Err(error) => probe("ipv6", false, format!("{path}: {error}")),
    }
}

fn proxy_uid() -> Probe {
    let path = "/proc/self/uid_map";
    let map = fs::read_to_string(path).unwrap_or_default();
    let met = map.lines().any(|line| maps(line, PROXY_UID));
    let shown = map.split_whitespace().collect::<Vec<_>>().join(" ");
    probe("proxy-uid", met, format!("{path} is {shown}"))
}

/// True if a line of a uid map (`inside outside count`) covers `uid`.
fn maps(line: &str, uid: u64) -> bool {
    let mut numbers = line.split_whitespace().map(str::parse::<u64>);
    match (numbers.next(), numbers.next(), numbers.next()) {
        (Some(Ok(first)), Some(Ok(_)), Some(Ok(count))) => uid >= first && uid - first < count,
        _ => false,
    }
}

fn iptables_tools() -> Probe {
    let path = std::env::var("PATH").unwrap_or_default();
    let found = path.split(':').map(|at| Path::new(at).join("iptables-nft-restore")).find(|at| at.exists());
    match found {
        Some(at) => probe("iptables-tools", true, at.display().to_string()),
        None => probe("iptables-tools", false, format!("no iptables-nft-restore in {path}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_map_of_one_user_does_not_hold_the_proxys() {
        assert!(maps("         0          0 4294967295", 1337));
        assert!(maps("1000 100000 338", 1337));
        assert!(!maps("0 1000 1", 1337));
        assert!(!maps("1000 100000 337", 1337));
    }
}
