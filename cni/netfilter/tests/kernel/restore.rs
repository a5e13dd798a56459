// SPDX-License-Identifier: Apache-2.0
//! Restore text into rules, for the forms that occur; names of groups are looked up as iptables does. It does not share code with
//! what writes text, so that both can be wrong only separately.

use std::net::IpAddr;
use std::str::SplitWhitespace;

use redirect::ruleset::{
    Chain, Cidr, CtStates, Family, Id, Match, Origin, Owner, Port, Protocol, Rule, RulePlace, Scope, Sense,
    Table, Target,
};

/// The rules of a table's lines (`-N`, `-A`, `-I`).
pub(crate) fn rules<'a>(
    family: Family,
    table: Table,
    lines: impl IntoIterator<Item = &'a str>,
) -> impl Iterator<Item = Rule> {
    lines.into_iter().filter(|line| !line.starts_with("-N")).map(move |line| rule(family, table, line))
}

fn rule(family: Family, table: Table, line: &str) -> Rule {
    let mut words = line.split_whitespace();
    let verb = words.next().unwrap();
    let chain = Chain::from_name(words.next().unwrap()).unwrap();
    let place = match verb {
        "-A" => RulePlace::Append,
        "-I" => RulePlace::Insert(words.next().unwrap().parse().unwrap()),
        verb => panic!("what is {verb}?"),
    };
    let (mut matches, mut target, mut sense) = (Vec::new(), None, Sense::Is);
    let mut module = "";
    while let Some(word) = words.next() {
        match word {
            "!" => {
                sense = Sense::Not;
                continue;
            }
            "-m" => module = words.next().unwrap(),
            "-j" => target = Some(self::target(&mut words)),
            "--mark" if module == "connmark" => {
                matches.push(Match::ConnMark(words.next().unwrap().parse().unwrap()));
            }
            option => matches.push(condition(option, sense, words.next().unwrap())),
        }
        sense = Sense::Is;
    }
    let target = target.unwrap();
    Rule { table, chain, scope: Scope::Only(family), place, matches, target, origin: Origin::Always }
}

fn condition(option: &str, sense: Sense, value: &str) -> Match {
    match option {
        "-i" => Match::InInterface(value.to_owned().into()),
        "-o" => Match::OutInterface(value.to_owned().into()),
        "-p" => Match::Protocol(if value == "tcp" { Protocol::Tcp } else { Protocol::Udp }),
        "-s" => Match::Source(sense, cidr(value)),
        "-d" => Match::Destination(sense, cidr(value)),
        "--sport" => Match::SourcePort(sense, port(value)),
        "--dport" => Match::DestinationPort(sense, port(value)),
        "--dports" => {
            Match::DestinationPorts(sense, value.split(',').map(|port| port.parse().unwrap()).collect())
        }
        "--uid-owner" => Match::Owner(sense, Owner::Uid(Id::Number(user(value)))),
        "--gid-owner" => Match::Owner(sense, Owner::Gid(Id::Number(group(value)))),
        "--ctstate" if value == "INVALID" => Match::Conntrack(CtStates::INVALID),
        "--ctstate" => Match::Conntrack(CtStates::RELATED_ESTABLISHED),
        "--mark" => Match::Mark(sense, value.parse().unwrap()),
        option => panic!("what is {option}?"),
    }
}

fn cidr(text: &str) -> Cidr {
    let (address, length) = text.split_once('/').unwrap();
    Cidr { address: address.parse::<IpAddr>().unwrap(), length: length.parse().unwrap() }
}

fn port(text: &str) -> Port {
    match text.split_once(':') {
        Some((low, high)) => Port::Range(low.parse().unwrap(), high.parse().unwrap()),
        None => text.parse().map_or_else(|_| Port::Verbatim(text.to_owned()), Port::One),
    }
}

/// A line whose groups this machine has: a name behind `option` that is not in its database gets a number.
pub(crate) fn with_known_groups(line: &str, option: &str) -> String {
    let mut after_option = false;
    let words = line.split(' ').map(|word| {
        let unknown = after_option && word.parse::<u32>().is_err() && listed("/etc/group", word).is_none();
        after_option = word == option || (after_option && word == "!=");
        if unknown && word != "!=" { "60001" } else { word }
    });
    words.collect::<Vec<_>>().join(" ")
}

pub(crate) fn user(name: &str) -> u32 {
    name.parse().unwrap_or_else(|_| listed("/etc/passwd", name).unwrap())
}

pub(crate) fn group(name: &str) -> u32 {
    name.parse().unwrap_or_else(|_| listed("/etc/group", name).unwrap())
}

/// The number of a name in a file of users or groups. The C library would load the machine's name services for it, which a static binary
/// of glibc does not survive.
fn listed(file: &str, name: &str) -> Option<u32> {
    let text = std::fs::read_to_string(file).unwrap();
    text.lines().map(|line| line.split(':').collect::<Vec<_>>()).find(|fields| fields[0] == name)?[2]
        .parse()
        .ok()
}

fn target(words: &mut SplitWhitespace<'_>) -> Target {
    let name = words.next().unwrap();
    let rest: Vec<&str> = words.collect();
    let option = |option: &str| {
        let at = rest.iter().position(|word| *word == option);
        at.and_then(|at| rest.get(at + 1)).map(|value| value.split('/').next().unwrap())
    };
    let number = |name: &str| option(name).unwrap().parse().unwrap();
    match name {
        "ACCEPT" => Target::Accept,
        "DROP" => Target::Drop,
        "RETURN" => Target::Return,
        "REDIRECT" => {
            let port = option("--to-ports").or(option("--to-port")).unwrap();
            Target::Redirect { port: port.parse().unwrap() }
        }
        "MARK" => Target::SetMark(number("--set-mark")),
        "TPROXY" => Target::Tproxy {
            mark: number("--tproxy-mark"),
            port: option("--on-port").unwrap().parse().unwrap(),
        },
        "CONNMARK" if rest == ["--save-mark"] => Target::SaveMark,
        "CONNMARK" => Target::RestoreMark,
        "CT" => Target::CtZone(option("--zone").unwrap().parse().unwrap()),
        name => Target::Jump(Chain::from_name(name).unwrap()),
    }
}
