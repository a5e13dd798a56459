// SPDX-License-Identifier: Apache-2.0
//! Restore text back into rules, for the forms that are written.

use std::str::SplitWhitespace;

use redirect::list;
use redirect::ruleset::{Chain, CtStates, Match, Owner, Protocol, RulePlace, Sense, Table, Target};

/// A rule as text can tell it.
#[derive(Debug, PartialEq)]
pub(crate) struct Parsed {
    pub(crate) table: Table,
    pub(crate) chain: Chain,
    pub(crate) place: RulePlace,
    pub(crate) matches: Vec<Match>,
    pub(crate) target: Target,
}

/// The chains that are made and the rules, in order.
pub(crate) fn parse(text: &str) -> (Vec<(Table, Chain)>, Vec<Parsed>) {
    let (mut chains, mut rules, mut table) = (Vec::new(), Vec::new(), None);
    for line in text.lines() {
        let mut words = line.split_whitespace();
        match (words.next().unwrap(), table) {
            ("*", None) => {
                let name = words.next().unwrap();
                table = Table::ALL.into_iter().find(|table| table.name() == name);
                assert!(table.is_some(), "no such table: {name}");
            }
            ("COMMIT", Some(_)) => table = None,
            ("-N", Some(table)) => chains.push((table, chain(words.next().unwrap()))),
            (verb, Some(table)) => rules.push(rule(table, verb, words)),
            (word, None) => panic!("outside of a table: {word}"),
        }
    }
    assert!(table.is_none(), "a table is not committed");
    (chains, rules)
}

fn chain(name: &str) -> Chain {
    Chain::from_name(name).unwrap_or_else(|| panic!("no such chain: {name}"))
}

fn rule(table: Table, verb: &str, mut words: SplitWhitespace<'_>) -> Parsed {
    let chain = chain(words.next().unwrap());
    let place = match verb {
        "-A" => RulePlace::Append,
        "-I" => RulePlace::Insert(words.next().unwrap().parse().unwrap()),
        other => panic!("no such verb: {other}"),
    };
    let (mut matches, mut module, mut sense) = (Vec::new(), "", Sense::Is);
    loop {
        match words.next().expect("a rule has a target") {
            "!" => sense = Sense::Not,
            "-m" => module = words.next().unwrap(),
            "-j" => return Parsed { table, chain, place, matches, target: target(words) },
            option => {
                matches.push(condition(module, option, sense, words.next().unwrap()));
                sense = Sense::Is;
            }
        }
    }
}

fn condition(module: &str, option: &str, sense: Sense, value: &str) -> Match {
    let cidr = || list::cidrs(value).unwrap()[0];
    match (option, sense, module) {
        ("-i", Sense::Is, _) => Match::InInterface(value.to_owned().into()),
        ("-o", Sense::Is, _) => Match::OutInterface(value.to_owned().into()),
        ("-s", sense, _) => Match::Source(sense, cidr()),
        ("-d", sense, _) => Match::Destination(sense, cidr()),
        ("-p", Sense::Is, _) => Match::Protocol(if value == "tcp" { Protocol::Tcp } else { Protocol::Udp }),
        ("--sport", sense, _) => Match::SourcePort(sense, list::port(value)),
        ("--dport", sense, _) => Match::DestinationPort(sense, list::port(value)),
        ("--dports", sense, "multiport") => {
            Match::DestinationPorts(sense, value.split(',').map(|port| port.parse().unwrap()).collect())
        }
        ("--uid-owner", sense, "owner") => Match::Owner(sense, Owner::Uid(list::id(value))),
        ("--gid-owner", sense, "owner") => Match::Owner(sense, Owner::Gid(list::id(value))),
        ("--ctstate", Sense::Is, "conntrack") if value == "INVALID" => Match::Conntrack(CtStates::INVALID),
        ("--ctstate", Sense::Is, "conntrack") => Match::Conntrack(CtStates::RELATED_ESTABLISHED),
        ("--mark", sense, "mark") => Match::Mark(sense, value.parse().unwrap()),
        ("--mark", Sense::Is, "connmark") => Match::ConnMark(value.parse().unwrap()),
        other => panic!("no such condition: {other:?}"),
    }
}

fn target(mut words: SplitWhitespace<'_>) -> Target {
    let name = words.next().unwrap();
    let rest: Vec<&str> = words.collect();
    match (name, rest.as_slice()) {
        ("ACCEPT", []) => Target::Accept,
        ("DROP", []) => Target::Drop,
        ("RETURN", []) => Target::Return,
        ("REDIRECT", ["--to-ports" | "--to-port", port]) => Target::Redirect { port: port.parse().unwrap() },
        ("MARK", ["--set-mark", mark]) => Target::SetMark(mark.parse().unwrap()),
        ("TPROXY", ["--tproxy-mark", mark, "--on-port", port]) => Target::Tproxy {
            mark: mark.strip_suffix("/0xffffffff").unwrap().parse().unwrap(),
            port: port.parse().unwrap(),
        },
        ("CONNMARK", ["--save-mark"]) => Target::SaveMark,
        ("CONNMARK", ["--restore-mark"]) => Target::RestoreMark,
        ("CT", ["--zone", zone]) => Target::CtZone(zone.parse().unwrap()),
        (name, []) => Target::Jump(chain(name)),
        other => panic!("no such target: {other:?}"),
    }
}
