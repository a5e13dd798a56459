// SPDX-License-Identifier: Apache-2.0
//! No rule is out of reach, unless the configuration says the same twice or upstream's order wants it so.

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use redirect::Config;
use redirect::config::Mode;
use redirect::generate::ruleset;
use redirect::list::Selection;
use redirect::ruleset::{Chain, Match, Origin, Protocol, Rule, Ruleset, Table, Target};

use crate::cases;
use crate::configs::config;
use crate::rulesets::walks;

/// Purpose of a rule that no packet reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reason {
    /// The configuration says the same twice.
    Repeated,
    /// An exclusion beats an inclusion of the same port, range, interface or owner.
    Excluded,
    /// The tunnel's port is never captured, so that excluding or including it changes nothing.
    Tunnel,
    /// No group's traffic is captured: everything behind that decision is out of reach.
    NoGroup,
}

fn is_tcp(rule: &Rule) -> bool {
    rule.matches.iter().any(|condition| {
        matches!(condition, Match::Protocol(Protocol::Tcp) | Match::PortProtocol(Protocol::Tcp))
    })
}

/// True if `first` ends the walk of the chain for every packet that meets `second`.
fn hides(first: &Rule, second: &Rule) -> bool {
    let ends = match first.target {
        Target::Accept | Target::Drop | Target::Return | Target::Redirect { .. } | Target::Tproxy { .. } => {
            true
        }
        // These chains redirect all TCP; what else arrives there goes on.
        Target::Jump(Chain::IstioRedirect | Chain::IstioInRedirect) => is_tcp(first) || is_tcp(second),
        _ => false,
    };
    let holds = |condition: &Match| match condition {
        Match::Protocol(Protocol::Tcp) | Match::PortProtocol(Protocol::Tcp) => is_tcp(second),
        condition => second.matches.contains(condition),
    };
    ends && first.matches.iter().all(holds)
}

fn reason(first: &Rule, second: &Rule) -> Option<Reason> {
    use Origin::*;
    let same = first.matches == second.matches && first.origin == second.origin;
    match (first.origin, second.origin) {
        _ if same => Some(Reason::Repeated),
        (ExcludeOutboundPorts, _)
        | (ExcludeInboundPorts, IncludeInboundPorts)
        | (ExcludeOutboundRanges, IncludeOutboundRanges)
        | (ExcludeInterfaces, _)
        | (VirtualInterfaces, ExcludeInterfaces) => Some(Reason::Excluded),
        (Always, ExcludeInboundPorts | IncludeInboundPorts) if first.chain == Chain::IstioInbound => {
            Some(Reason::Tunnel)
        }
        (OwnerGroups, _) if first.matches.is_empty() => Some(Reason::NoGroup),
        // The same group is the proxy's and excluded, or two of the proxy's.
        (ProxyUid | ProxyGid, OwnerGroups | ProxyUid | ProxyGid) => Some(Reason::Repeated),
        (OwnerGroups, OwnerGroups) => Some(Reason::Repeated),
        (Loopback, ExcludeOutboundRanges | IncludeOutboundRanges) => Some(Reason::Excluded),
        _ => None,
    }
}

/// Each rule that another hides, behind the first that does.
fn hidden(ruleset: &Ruleset) -> Vec<(&Rule, &Rule)> {
    let mut pairs = Vec::new();
    for at in walks(ruleset).iter().flatten() {
        for (index, &second) in at.rules.iter().enumerate() {
            let first = at.rules[..index].iter().find(|first| hides(first, second));
            pairs.extend(first.map(|&first| (first, second)));
        }
    }
    pairs
}

/// True if a chain is written although nothing may lead there.
fn stands_alone(config: &Config, table: Table, chain: Chain) -> bool {
    match (table, chain) {
        (Table::Nat, Chain::IstioInbound) => {
            config.mode == Mode::Tproxy || config.inbound_ports_include.is_none()
        }
        (Table::Nat, Chain::IstioRedirect | Chain::IstioInRedirect) => true,
        // TPROXY's marks come even if no inbound traffic is captured, its chains even if no port is in the list.
        (Table::Mangle, Chain::IstioInbound) => config.inbound_ports_include.is_none(),
        (Table::Mangle, Chain::IstioDivert | Chain::IstioTproxy) => {
            config.inbound_ports_include == Some(Selection::List(vec![]))
        }
        _ => false,
    }
}

proptest! {
    #![proptest_config(cases(2000))]

    #[test]
    fn a_rule_behind_one_that_takes_its_packets_has_a_reason(config in config()) {
        let ruleset = ruleset(&config).unwrap();
        for (first, second) in hidden(&ruleset) {
            prop_assert!(reason(first, second).is_some(), "{first:?}\nhides\n{second:?}");
        }
    }

    #[test]
    fn something_leads_to_every_chain_but_to_those_that_may_stand_alone(config in config()) {
        let ruleset = ruleset(&config).unwrap();
        for chains in walks(&ruleset) {
            for at in &chains {
                let to = |rule: &&Rule| rule.target == Target::Jump(at.chain);
                let led = chains.iter().filter(|from| from.table == at.table).any(|from| from.rules.iter().any(to));
                prop_assert!(
                    led || at.chain.is_builtin() || stands_alone(&config, at.table, at.chain),
                    "nothing leads to {:?} {:?}", at.table, at.chain
                );
            }
        }
    }
}

#[test]
fn every_reason_is_seen() {
    let mut runner = TestRunner::deterministic();
    let all = [Reason::Repeated, Reason::Excluded, Reason::Tunnel, Reason::NoGroup];
    let mut seen: Vec<Reason> = Vec::new();
    for _ in 0..5_000 {
        let ruleset = ruleset(&config().new_tree(&mut runner).unwrap().current()).unwrap();
        seen.extend(hidden(&ruleset).into_iter().filter_map(|(first, second)| reason(first, second)));
        if all.iter().all(|reason| seen.contains(reason)) {
            return;
        }
    }
    let missing: Vec<Reason> = all.into_iter().filter(|reason| !seen.contains(reason)).collect();
    panic!("never seen: {missing:?}");
}
