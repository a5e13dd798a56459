// SPDX-License-Identifier: Apache-2.0
//! nft commands into rules, for the forms that occur. It does not share code with what writes commands, so that both can be wrong
//! only separately.

use std::net::IpAddr;
use std::str::SplitWhitespace;

use redirect::ruleset::{
    Chain, Cidr, CtStates, Dialect, Family, Id, Match, Origin, Owner, Port, Protocol, Rule, RulePlace,
    Ruleset, Scope, Sense, Table, Target,
};

use crate::restore::{group, user};

/// The rule set that these commands make.
pub(crate) fn ruleset<'a>(commands: impl IntoIterator<Item = &'a str>) -> Ruleset {
    let rules = commands.into_iter().filter(|line| line.contains(" rule ")).map(rule).collect();
    Ruleset { dialect: Dialect::Nft, ipv6: true, rules }
}

fn rule(line: &str) -> Rule {
    let (place, mut words) = (RulePlace::Append, line.split_whitespace());
    let verb = words.next().unwrap();
    assert_eq!([words.next(), words.next()], [Some("rule"), Some("inet")], "{line}");
    let (table, chain) = (words.next().unwrap(), words.next().unwrap());
    let mut rule = Rule {
        table: Table::ALL.into_iter().find(|known| known.native_name() == table).unwrap(),
        chain: chain_of(chain),
        scope: Scope::Both,
        place,
        matches: Vec::new(),
        target: Target::Accept,
        origin: Origin::Always,
    };
    let mut words = words.peekable();
    if verb == "insert" {
        assert_eq!(words.next(), Some("index"));
        rule.place = RulePlace::Insert(words.next().unwrap().parse::<u16>().unwrap() + 1);
    }
    let rest: Vec<&str> = words.collect();
    let text = rest.join(" ");
    let mut words = text.split_whitespace();
    while let Some(word) = words.next() {
        step(&mut rule, word, &mut words);
    }
    rule
}

fn chain_of(name: &str) -> Chain {
    Chain::ALL.into_iter().find(|known| known.native_name() == name).unwrap()
}

/// A value, and whether `!=` stands before it.
fn value<'a>(words: &mut SplitWhitespace<'a>) -> (Sense, &'a str) {
    match words.next().unwrap() {
        "!=" => (Sense::Not, words.next().unwrap()),
        word => (Sense::Is, word),
    }
}

fn next<'a>(words: &mut SplitWhitespace<'a>) -> &'a str {
    words.next().unwrap()
}

fn step(rule: &mut Rule, word: &str, words: &mut SplitWhitespace<'_>) {
    match word {
        "iifname" => rule.matches.push(Match::InInterface(next(words).to_owned().into())),
        "oifname" => rule.matches.push(Match::OutInterface(next(words).to_owned().into())),
        "ip" | "ip6" => {
            let is_source = next(words) == "saddr";
            let (sense, cidr) = value(words);
            let cidr = self::cidr(cidr);
            rule.scope = Scope::Only(cidr.family());
            rule.matches.push(if is_source {
                Match::Source(sense, cidr)
            } else {
                Match::Destination(sense, cidr)
            });
        }
        "tcp" | "udp" => ports(rule, protocol(word), words),
        "skuid" => {
            let (sense, name) = value(words);
            rule.matches.push(Match::Owner(sense, Owner::Uid(Id::Number(user(name)))));
        }
        "skgid" => {
            let (sense, name) = value(words);
            rule.matches.push(Match::Owner(sense, Owner::Gid(Id::Number(group(name)))));
        }
        "mark" => {
            let (sense, mark) = value(words);
            rule.matches.push(Match::Mark(sense, mark.parse().unwrap()));
        }
        "ct" => connection(rule, words),
        "meta" => match next(words) {
            "l4proto" => rule.matches.push(Match::Protocol(protocol(next(words)))),
            "mark" => set_mark(rule, words),
            owner => step(rule, owner, words),
        },
        "tproxy" => {
            let family = next(words);
            rule.scope = Scope::Only(if family == "ip" { Family::V4 } else { Family::V6 });
            assert_eq!(next(words), "to");
            rule.target = Target::Tproxy { mark: 0, port: local_port(next(words)) };
        }
        "redirect" => {
            assert_eq!(next(words), "to");
            rule.target = Target::Redirect { port: local_port(next(words)) };
        }
        "jump" => rule.target = Target::Jump(chain_of(next(words))),
        "return" => rule.target = Target::Return,
        "drop" => rule.target = Target::Drop,
        // TPROXY's is part of it.
        "accept" | "counter" => {}
        word => panic!("what is {word}?"),
    }
}

fn ports(rule: &mut Rule, protocol: Protocol, words: &mut SplitWhitespace<'_>) {
    if !rule.matches.contains(&Match::Protocol(protocol)) {
        rule.matches.push(Match::PortProtocol(protocol));
    }
    let is_source = next(words) == "sport";
    let (sense, first) = value(words);
    rule.matches.push(match first {
        "{" => {
            let list = words.take_while(|word| *word != "}");
            Match::DestinationPorts(
                sense,
                list.map(|port| port.trim_end_matches(',').parse().unwrap()).collect(),
            )
        }
        port if is_source => Match::SourcePort(sense, Port::One(port.parse().unwrap())),
        port => Match::DestinationPort(sense, Port::One(port.parse().unwrap())),
    });
}

fn connection(rule: &mut Rule, words: &mut SplitWhitespace<'_>) {
    match (next(words), next(words)) {
        ("state", "invalid") => rule.matches.push(Match::Conntrack(CtStates::INVALID)),
        ("state", _) => rule.matches.push(Match::Conntrack(CtStates::RELATED_ESTABLISHED)),
        ("zone", "set") => rule.target = Target::CtZone(next(words).parse().unwrap()),
        ("mark", "set") => {
            assert_eq!(next(words), "mark");
            rule.target = Target::SaveMark;
        }
        ("mark", mark) => rule.matches.push(Match::ConnMark(mark.parse().unwrap())),
        other => panic!("what is ct {other:?}?"),
    }
}

fn set_mark(rule: &mut Rule, words: &mut SplitWhitespace<'_>) {
    assert_eq!(next(words), "set");
    let source = next(words);
    rule.target = match rule.target {
        _ if source == "ct" => {
            assert_eq!(next(words), "mark");
            Target::RestoreMark
        }
        Target::Tproxy { port, .. } => Target::Tproxy { mark: source.parse().unwrap(), port },
        _ => Target::SetMark(source.parse().unwrap()),
    };
}

fn local_port(word: &str) -> u16 {
    word.strip_prefix(':').unwrap().parse().unwrap()
}

fn protocol(word: &str) -> Protocol {
    if word == "tcp" { Protocol::Tcp } else { Protocol::Udp }
}

fn cidr(text: &str) -> Cidr {
    let (address, length) = text.split_once('/').unwrap();
    Cidr { address: address.parse::<IpAddr>().unwrap(), length: length.parse().unwrap() }
}
