// SPDX-License-Identifier: Apache-2.0
//! Rules that are read back from their text are judged as those that the text was written from.

use proptest::prelude::*;
use redirect::Config;
use redirect::found::{native, save};
use redirect::generate::ruleset;
use redirect::ruleset::{Chain, Dialect, Id, Match, Owner, Port, Ruleset, Table};
use redirect::text;
use redirect::verdict::{found_verdict, verdict};

use crate::cases;
use crate::configs::iptables_config;
use crate::packets::packet;

/// Text has no form for a port or an id that a kernel cannot hold: such rules are refused before any text of theirs exists.
pub(crate) fn is_writable(rules: &Ruleset) -> bool {
    rules.rules.iter().flat_map(|rule| &rule.matches).all(|condition| match condition {
        Match::SourcePort(_, port) | Match::DestinationPort(_, port) => !matches!(port, Port::Verbatim(_)),
        Match::Owner(_, Owner::Uid(id) | Owner::Gid(id)) => matches!(id, Id::Number(_)),
        _ => true,
    })
}

/// Rules as `nft list ruleset` prints them.
pub(crate) fn listing(rules: &Ruleset) -> String {
    let mut text = String::new();
    for chain in rules.inet_chains() {
        let hook = match (chain.table, chain.chain) {
            (Table::Mangle, Chain::Output) => "type route hook output priority mangle; policy accept;",
            (Table::Mangle, Chain::Prerouting) => {
                "type filter hook prerouting priority mangle; policy accept;"
            }
            (Table::Nat, Chain::Output) => "type nat hook output priority dstnat; policy accept;",
            (Table::Nat, Chain::Prerouting) => "type nat hook prerouting priority dstnat; policy accept;",
            (_, Chain::Output) => "type filter hook output priority raw; policy accept;",
            (_, Chain::Prerouting) => "type filter hook prerouting priority raw; policy accept;",
            _ => "",
        };
        let (table, name) = (chain.table.native_name(), chain.chain.native_name());
        text.push_str(&format!("table inet {table} {{\n\tchain {name} {{\n\t\t{hook}\n"));
        for rule in chain.rules {
            text.push_str(&format!("\t\t{}\n", text::rule(Dialect::Nft, rule)));
        }
        text.push_str("\t}\n}\n");
    }
    text
}

proptest! {
    #![proptest_config(cases(400))]

    #[test]
    fn a_text_is_judged_as_what_it_was_written_from(config in iptables_config(), packet in packet()) {
        let rules = ruleset(&config).unwrap();
        let family = packet.family();
        prop_assume!(is_writable(&rules) && rules.enables(family));
        let read = save::parse(&text::restore(&rules, family), family).unwrap();
        let (wanted, found) = (verdict(&rules, &packet), found_verdict(&read, &packet));
        prop_assert_eq!(found.outcome, Ok(wanted.outcome));
        let wanted = wanted.steps.iter().map(|step| (step.table.name(), step.chain, step.position));
        let found = found.steps.iter().map(|step| (step.table.as_str(), step.chain.as_str(), step.position));
        prop_assert_eq!(found.collect::<Vec<_>>(), wanted.collect::<Vec<_>>());
    }

    #[test]
    fn a_listing_is_judged_as_what_it_was_written_from(config in iptables_config(), packet in packet()) {
        let rules = ruleset(&Config { dialect: Dialect::Nft, ..config }).unwrap();
        prop_assume!(is_writable(&rules));
        let read = native::parse(&listing(&rules)).unwrap();
        let (wanted, found) = (verdict(&rules, &packet), found_verdict(&read, &packet));
        prop_assert_eq!(found.outcome, Ok(wanted.outcome));
        let wanted = wanted.steps.iter().map(|step| (step.table.native_name(), step.chain, step.position));
        let found = found.steps.iter().map(|step| (step.table.as_str(), step.chain.as_str(), step.position));
        prop_assert_eq!(found.collect::<Vec<_>>(), wanted.collect::<Vec<_>>());
    }
}
