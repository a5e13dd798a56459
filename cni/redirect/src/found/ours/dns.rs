// SPDX-License-Identifier: Apache-2.0
//! DNS rules that upstream 1.20 to 1.24 appended to built-in chains. Later releases have them in chains of their own.
//!
//! | table, chain | rule | ours |
//! |---|---|---|
//! | nat `OUTPUT` | `-p udp --dport 53 [-d SERVER] -j REDIRECT --to-ports 15053` | always |
//! | nat `OUTPUT` | `-p udp --dport 53 OWNERS -j RETURN` | if `ISTIO_OUTPUT`, or a desired chain, returns for the same owners, beside the rule above or a jump to `ISTIO_OUTPUT` for TCP alone |
//! | raw `OUTPUT` | `-p udp --sport 15053 OWNER -j CT --zone 2` | always |
//! | raw `OUTPUT` | `-p udp --dport 53 OWNER -j CT --zone 1` | if the rule above names the same owner |
//! | raw `OUTPUT` | `-p udp --dport 53 [-d SERVER] -j CT --zone 2` | beside a rule for port 15053 |
//! | raw `PREROUTING` | `-p udp --sport 53 [-s SERVER or -d SERVER] -j CT --zone 1` | beside a rule for port 15053 in `OUTPUT` |
//!
//! Each in this form alone: a rule with any other condition or action is foreign.

use std::collections::BTreeSet;

use crate::config::DNS_PORT;
use crate::found::{Action, Condition, FoundChain, FoundRule, FoundTable};
use crate::ruleset::{Cidr, Family, Match, Owner, Protocol, Rule, Sense, Table, Target};

use super::does_something;

/// Port of DNS servers.
const SERVER_PORT: u16 = 53;
/// Conntrack zones of what the proxy asks, and of what the application asks.
const PROXY_ZONE: u16 = 1;
const APPLICATION_ZONE: u16 = 2;

type Owners<'a> = BTreeSet<(Sense, &'a Owner)>;

/// Recognition of these rules in the built-in chains of a table.
pub(super) struct Dns<'a> {
    table: Option<Table>,
    /// Owners for which rules of ours return.
    returned: Vec<Owners<'a>>,
    /// True if nat holds a rule that those releases alone wrote.
    is_former: bool,
    /// Owners that raw's rules for port 15053 name.
    zoned: Vec<Owners<'a>>,
}

impl<'a> Dns<'a> {
    /// In `table`, where `wanted` should be.
    pub(super) fn of(found: &'a FoundTable, wanted: &'a [Rule]) -> Self {
        let table = [Table::Nat, Table::Raw].into_iter().find(|table| table.name() == found.name);
        let mut dns = Self { table, returned: Vec::new(), is_former: false, zoned: Vec::new() };
        let output = || found.find("OUTPUT").into_iter().flat_map(|chain| &chain.rules);
        match table {
            Some(Table::Nat) => {
                dns.is_former = output().any(|rule| is_redirect(rule) || is_jump_for_tcp(rule));
                if dns.is_former {
                    let chains = found.chains.iter().filter(|chain| chain.is_ours());
                    dns.returned = chains.flat_map(|chain| &chain.rules).filter_map(returns_for).collect();
                    let of_nat =
                        wanted.iter().filter(|rule| rule.table == Table::Nat && !rule.chain.is_builtin());
                    dns.returned.extend(
                        of_nat
                            .filter(|rule| rule.target == Target::Return)
                            .filter_map(|rule| owners(rule.matches.iter())),
                    );
                }
            }
            Some(Table::Raw) => dns.zoned = output().filter_map(zoned_by_our_port).collect(),
            _ => {}
        }
        dns
    }

    /// True if a rule in a built-in chain is one of them.
    pub(super) fn has(&self, chain: &FoundChain, rule: &FoundRule) -> bool {
        match (self.table, chain.name.as_str()) {
            (Some(Table::Nat), "OUTPUT") => is_redirect(rule) || self.returns(rule),
            (Some(Table::Raw), "OUTPUT") => zoned_by_our_port(rule).is_some() || self.zones_queries(rule),
            (Some(Table::Raw), "PREROUTING") => self.zones_answers(rule),
            _ => false,
        }
    }

    fn returns(&self, rule: &FoundRule) -> bool {
        self.is_former
            && does(rule) == Some(&Action::Return)
            && Query::of(rule).is_some_and(|query| {
                query.port == AskedPort::To(SERVER_PORT)
                    && query.server.is_none()
                    && self.returned.contains(&query.owners)
            })
    }

    fn zones_queries(&self, rule: &FoundRule) -> bool {
        let Some(query) = Query::of(rule).filter(|query| query.port == AskedPort::To(SERVER_PORT)) else {
            return false;
        };
        match does(rule) {
            Some(Action::CtZone(PROXY_ZONE)) => query.server.is_none() && self.zoned.contains(&query.owners),
            Some(Action::CtZone(APPLICATION_ZONE)) => {
                !self.zoned.is_empty() && query.owners.is_empty() && query.server != Some(End::Source)
            }
            _ => false,
        }
    }

    fn zones_answers(&self, rule: &FoundRule) -> bool {
        !self.zoned.is_empty()
            && does(rule) == Some(&Action::CtZone(PROXY_ZONE))
            && Query::of(rule)
                .is_some_and(|query| query.port == AskedPort::From(SERVER_PORT) && query.owners.is_empty())
    }
}

/// Sends DNS queries to the agent.
fn is_redirect(rule: &FoundRule) -> bool {
    does(rule) == Some(&Action::Redirect(DNS_PORT))
        && Query::of(rule).is_some_and(|query| {
            query.port == AskedPort::To(SERVER_PORT)
                && query.owners.is_empty()
                && query.server != Some(End::Source)
        })
}

/// Later releases jump for every protocol.
fn is_jump_for_tcp(rule: &FoundRule) -> bool {
    matches!(rule.conditions.as_slice(), [Condition::Known(Match::Protocol(Protocol::Tcp))])
        && matches!(does(rule), Some(Action::Jump(chain)) if chain == "ISTIO_OUTPUT")
}

/// The owner of the agent's answers, if the rule is about these.
fn zoned_by_our_port(rule: &FoundRule) -> Option<Owners<'_>> {
    let query = Query::of(rule).filter(|query| query.port == AskedPort::From(DNS_PORT))?;
    let is_one = matches!(query.owners.first(), Some((Sense::Is, _))) && query.owners.len() == 1;
    (does(rule) == Some(&Action::CtZone(APPLICATION_ZONE)) && is_one && query.server.is_none())
        .then_some(query.owners)
}

/// The owners of a rule that asks for nothing else and returns.
fn returns_for(rule: &FoundRule) -> Option<Owners<'_>> {
    let known: Option<Vec<&Match>> = rule.conditions.iter().map(Condition::known).collect();
    (does(rule) == Some(&Action::Return)).then(|| owners(known?.into_iter()))?
}

/// The owners of conditions that ask for nothing else.
fn owners<'a>(conditions: impl Iterator<Item = &'a Match>) -> Option<Owners<'a>> {
    conditions
        .map(|condition| match condition {
            Match::Owner(sense, owner) => Some((*sense, owner)),
            _ => None,
        })
        .collect()
}

/// Its only action.
fn does(rule: &FoundRule) -> Option<&Action> {
    let mut actions = does_something(rule);
    actions.next().filter(|_| actions.next().is_none())
}

/// Port of a UDP packet.
#[derive(Clone, Copy, PartialEq, Eq)]
enum AskedPort {
    From(u16),
    To(u16),
}

/// End of a packet's way.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Source,
    Destination,
}

/// Conditions of a rule about UDP packets of one port, perhaps of one server or of some owners.
struct Query<'a> {
    port: AskedPort,
    server: Option<End>,
    owners: Owners<'a>,
}

impl<'a> Query<'a> {
    /// None if the rule asks for anything else.
    fn of(rule: &'a FoundRule) -> Option<Self> {
        let (mut is_udp, mut port, mut server, mut owners) = (false, None, None, BTreeSet::new());
        for condition in &rule.conditions {
            let is_new = match condition.known()? {
                Match::Protocol(Protocol::Udp) => !std::mem::replace(&mut is_udp, true),
                Match::SourcePort(Sense::Is, from) => {
                    port.replace(AskedPort::From(one(from.bounds()?)?)).is_none()
                }
                Match::DestinationPort(Sense::Is, to) => {
                    port.replace(AskedPort::To(one(to.bounds()?)?)).is_none()
                }
                Match::Source(Sense::Is, cidr) if is_host(*cidr) => server.replace(End::Source).is_none(),
                Match::Destination(Sense::Is, cidr) if is_host(*cidr) => {
                    server.replace(End::Destination).is_none()
                }
                Match::Owner(sense, owner) => {
                    owners.insert((*sense, owner));
                    true
                }
                _ => false,
            };
            if !is_new {
                return None;
            }
        }
        Some(Self { port: port.filter(|_| is_udp)?, server, owners })
    }
}

fn one((low, high): (u16, u16)) -> Option<u16> {
    (low == high).then_some(low)
}

fn is_host(cidr: Cidr) -> bool {
    cidr.length == if cidr.family() == Family::V4 { 32 } else { 128 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::found::save;
    use crate::generate::ruleset;

    /// The rules of built-in chains that are taken for ours, as they were written.
    fn ours(table: &str, lines: &str, wanted: &[Rule]) -> Vec<String> {
        let rules = save::parse(&format!("*{table}\n{lines}\nCOMMIT\n"), Family::V4).unwrap();
        let table = &rules.tables[0];
        let dns = Dns::of(table, wanted);
        let built_in = table.chains.iter().filter(|chain| chain.is_built_in());
        let rules = built_in.flat_map(|chain| chain.rules.iter().map(move |rule| (chain, rule)));
        rules.filter(|(chain, rule)| dns.has(chain, rule)).map(|(_, rule)| rule.text.clone()).collect()
    }

    const REDIRECT: &str = "-p udp --dport 53 -j REDIRECT --to-port 15053";
    const ANSWERS: &str = "-p udp --sport 15053 -m owner --uid-owner 1337 -j CT --zone 2";

    #[test]
    fn what_names_our_port_is_ours_by_itself_and_what_else_asks_anything_is_not() {
        let to_server = "-p udp --dport 53 -d 10.96.0.10/32 -j REDIRECT --to-ports 15053";
        for rule in [REDIRECT, to_server] {
            assert_eq!(ours("nat", &format!("-A OUTPUT {rule}"), &[]), [rule]);
            assert_eq!(ours("nat", &format!("-A PREROUTING {rule}"), &[]), [""; 0], "another chain");
            assert_eq!(ours("mangle", &format!("-A OUTPUT {rule}"), &[]), [""; 0], "another table");
        }
        for foreign in [
            "-p udp --dport 53 -j REDIRECT --to-ports 5353",
            "-p tcp --dport 53 -j REDIRECT --to-ports 15053",
            "-p udp --dport 5353 -j REDIRECT --to-ports 15053",
            "-p udp --dport 53 -d 10.96.0.0/12 -j REDIRECT --to-ports 15053",
            "-p udp --dport 53 ! -d 10.96.0.10/32 -j REDIRECT --to-ports 15053",
            "-p udp --dport 53 -s 10.9.0.2/32 -j REDIRECT --to-ports 15053",
            "-o eth0 -p udp --dport 53 -j REDIRECT --to-ports 15053",
            "-p udp --dport 53 -m owner ! --uid-owner 1337 -j REDIRECT --to-ports 15053",
            "-p udp --dport 53 -j DNAT --to-destination 127.0.0.1:15053",
        ] {
            assert_eq!(ours("nat", &format!("-A OUTPUT {foreign}"), &[]), [""; 0], "{foreign}");
        }
        assert_eq!(ours("raw", &format!("-A OUTPUT {ANSWERS}"), &[]), [ANSWERS]);
        for foreign in [
            "-p udp --sport 15053 -j CT --zone 2",
            "-p udp --sport 15053 -m owner --uid-owner 1337 -j CT --zone 1",
            "-p udp --sport 15053 -m owner ! --uid-owner 1337 -j CT --zone 2",
            "-p udp --sport 15053 -m owner --uid-owner 1337 -j CT --notrack",
        ] {
            assert_eq!(ours("raw", &format!("-A OUTPUT {foreign}"), &[]), [""; 0], "{foreign}");
        }
    }

    #[test]
    fn exemptions_are_ours_for_owners_that_our_chains_let_through() {
        let chain = "-N ISTIO_OUTPUT\n-A ISTIO_OUTPUT -m owner --uid-owner 1337 -j RETURN\n\
                     -A ISTIO_OUTPUT -m owner ! --gid-owner 201 -m owner ! --gid-owner 202 -j RETURN";
        let proxy = "-p udp --dport 53 -m owner --uid-owner 1337 -j RETURN";
        let groups = "-p udp --dport 53 -m owner ! --gid-owner 202 -m owner ! --gid-owner 201 -j RETURN";
        let foreign = "-p udp --dport 53 -m owner --uid-owner 1000 -j RETURN";
        let rules = format!(
            "-A OUTPUT {proxy}\n-A OUTPUT {groups}\n-A OUTPUT {foreign}\n-A OUTPUT -p udp --dport 53 -j RETURN"
        );
        let former = format!("{chain}\n-A OUTPUT -p tcp -j ISTIO_OUTPUT\n{rules}");
        assert_eq!(ours("nat", &former, &[]), [proxy, groups], "no server of this family");
        let redirected = format!("{chain}\n-A OUTPUT -j ISTIO_OUTPUT\n{rules}\n-A OUTPUT {REDIRECT}");
        assert_eq!(ours("nat", &redirected, &[]), [proxy, groups, REDIRECT]);
        let later = format!("{chain}\n-A OUTPUT -j ISTIO_OUTPUT\n{rules}");
        assert_eq!(ours("nat", &later, &[]), [""; 0], "beside rules of later releases it is somebody's own");
        let alone = format!("{rules}\n-A OUTPUT {REDIRECT}");
        assert_eq!(ours("nat", &alone, &[]), [REDIRECT], "nobody knows the proxy's user");
        let wanted = ruleset(&Config::default()).unwrap().rules;
        assert_eq!(
            ours("nat", &alone, &wanted),
            [proxy, REDIRECT],
            "the chains are gone, the configuration is known"
        );
    }

    #[test]
    fn zones_are_ours_beside_those_of_our_port() {
        let queries = "-p udp --dport 53 -m owner --uid-owner 1337 -j CT --zone 1";
        let [asked, asked_one] =
            ["", "-d 10.96.0.10/32 "].map(|server| format!("-p udp --dport 53 {server}-j CT --zone 2"));
        let answered = ["", "-s 10.96.0.10/32 ", "-d 10.96.0.10/32 "]
            .map(|server| format!("-p udp --sport 53 {server}-j CT --zone 1"));
        let foreign = [
            "-p udp --dport 53 -m owner --uid-owner 1000 -j CT --zone 1",
            "-p udp --dport 53 -j CT --zone 3",
            "-p udp --dport 53 -j CT --notrack",
            "-p tcp --dport 53 -j CT --zone 2",
            "-p udp --dport 53 -s 10.9.0.2/32 -j CT --zone 2",
        ];
        let all = |chain: &str, rules: &[&str]| {
            rules.iter().map(|rule| format!("-A {chain} {rule}\n")).collect::<String>()
        };
        let output = all("OUTPUT", &[queries, &asked, &asked_one]) + &all("OUTPUT", &foreign);
        let prerouting = all("PREROUTING", &answered.each_ref().map(String::as_str))
            + &all(
                "PREROUTING",
                &["-p udp --sport 53 -j CT --zone 2", "-i eth0 -p udp --sport 53 -j CT --zone 1"],
            );
        assert_eq!(ours("raw", &format!("{output}{prerouting}"), &[]), [""; 0]);
        let with = format!("-A OUTPUT {ANSWERS}\n{output}{prerouting}");
        let mut want = vec![ANSWERS.to_owned(), queries.to_owned(), asked, asked_one];
        want.extend(answered);
        assert_eq!(ours("raw", &with, &[]), want);
    }
}
