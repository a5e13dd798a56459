// SPDX-License-Identifier: Apache-2.0
//! Both dialects do the same with every packet, but for differences that have a name.

use proptest::prelude::*;
use redirect::Config;
use redirect::generate::ruleset;
use redirect::packet::{Connection, Hook, Layer4, Packet, Verdict};
use redirect::ruleset::Dialect;
use redirect::verdict::verdict;

use crate::cases;
use crate::configs::iptables_config;
use crate::packets::packet;

/// Where the native dialect may do something else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Difference {
    /// Drop-invalid asks for TCP.
    InvalidButNotTcp,
    /// A packet without a socket is somebody else's to `! --uid-owner`; `skuid !=` does not hold of it.
    NoSocket,
    /// `eth+` is a pattern of iptables, `eth*` one of nft.
    InterfacePattern,
}

impl Difference {
    const ALL: [Self; 3] = [Self::InvalidButNotTcp, Self::NoSocket, Self::InterfacePattern];

    fn excuses(self, config: &Config, packet: &Packet) -> bool {
        match self {
            Self::InvalidButNotTcp => {
                config.drop_invalid
                    && packet.connection == Connection::Invalid
                    && !matches!(packet.layer4, Layer4::Tcp { .. } | Layer4::Other(6))
            }
            Self::NoSocket => packet.hook == Hook::Output && (packet.uid.is_none() || packet.gid.is_none()),
            Self::InterfacePattern => {
                let mut named = config.exclude_interfaces.iter().chain(&config.virtual_interfaces);
                named.any(|name| name.ends_with(['+', '*']))
            }
        }
    }
}

/// A verdict without the rules that led there.
fn end(verdict: &Verdict) -> impl PartialEq + std::fmt::Debug + use<> {
    (verdict.outcome, verdict.mark, verdict.connmark, verdict.zone)
}

/// The two verdicts, iptables' first.
fn both(config: &Config, packet: &Packet) -> [Verdict; 2] {
    [Dialect::Iptables, Dialect::Nft].map(|dialect| {
        let ruleset = ruleset(&Config { dialect, ..config.clone() }).unwrap();
        verdict(&ruleset, packet)
    })
}

proptest! {
    #![proptest_config(cases(4000))]

    #[test]
    fn both_dialects_agree_but_for_named_differences(config in iptables_config(), packet in packet()) {
        let [iptables, native] = both(&config, &packet);
        if end(&iptables) != end(&native) {
            let excuse = Difference::ALL.into_iter().find(|difference| difference.excuses(&config, &packet));
            prop_assert!(excuse.is_some(), "iptables: {iptables:?}\nnative: {native:?}");
        }
    }
}

/// An excuse that nothing needs would hide a fault one day.
#[test]
fn every_named_difference_is_seen_alone() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;

    let mut runner = TestRunner::deterministic();
    let mut seen: Vec<Difference> = Vec::new();
    for _ in 0..60_000 {
        let config = iptables_config().new_tree(&mut runner).unwrap().current();
        let packet = packet().new_tree(&mut runner).unwrap().current();
        let excuses: Vec<_> =
            Difference::ALL.into_iter().filter(|difference| difference.excuses(&config, &packet)).collect();
        if let [only] = excuses[..]
            && !seen.contains(&only)
        {
            let [iptables, native] = both(&config, &packet);
            if end(&iptables) != end(&native) {
                seen.push(only);
            }
        }
        if seen.len() == Difference::ALL.len() {
            return;
        }
    }
    panic!("seen: {seen:?}");
}
