// SPDX-License-Identifier: Apache-2.0
//! Listings of nft 1.0.6.

use super::*;
use crate::found::testing::of_the_proxy;
use crate::found::{Action, Condition};
use crate::ruleset::{CtStates, Match, Port, Protocol, Sense};

const LISTING: &str = r#"{"nftables": [
 {"metainfo": {"version": "1.0.6", "json_schema_version": 1}},
 {"table": {"family": "inet", "name": "istio-proxy-nat", "handle": 1}},
 {"chain": {"family": "inet", "table": "istio-proxy-nat", "name": "output", "handle": 2, "type": "nat", "hook": "output", "prio": -100, "policy": "accept"}},
 {"chain": {"family": "inet", "table": "istio-proxy-nat", "name": "istio-output", "handle": 3}},
 {"rule": {"family": "inet", "table": "istio-proxy-nat", "chain": "output", "handle": 5, "expr": [
   {"match": {"op": "==", "left": {"meta": {"key": "oifname"}}, "right": "lo"}},
   {"match": {"op": "!=", "left": {"payload": {"protocol": "ip", "field": "daddr"}}, "right": "127.0.0.1"}},
   {"match": {"op": "!=", "left": {"payload": {"protocol": "tcp", "field": "dport"}}, "right": {"set": [53, 15008]}}},
   {"match": {"op": "==", "left": {"meta": {"key": "skuid"}}, "right": 1337}},
   {"counter": {"packets": 7, "bytes": 420}}, {"jump": {"target": "istio-output"}}]}},
 {"rule": {"family": "inet", "table": "istio-proxy-nat", "chain": "istio-output", "handle": 6, "expr": [
   {"match": {"op": "in", "left": {"ct": {"key": "state"}}, "right": ["established", "related"]}},
   {"tproxy": {"family": "ip", "port": 15006}}, {"mangle": {"key": {"meta": {"key": "mark"}}, "value": 1337}}, {"accept": null}]}},
 {"rule": {"family": "inet", "table": "istio-proxy-nat", "chain": "istio-output", "handle": 7, "expr": [
   {"xt": {"type": "match", "name": "owner"}}, {"mangle": {"key": {"ct": {"key": "mark"}}, "value": {"meta": {"key": "mark"}}}},
   {"mangle": {"key": {"ct": {"key": "zone"}}, "value": 1}}, {"xt": {"type": "target", "name": "REDIRECT"}}]}},
 {"table": {"family": "arp", "name": "other", "handle": 9}}
]}"#;

#[test]
fn a_listing_is_read_whole() {
    let rules = parse(LISTING).unwrap();
    assert_eq!(rules.tables.len(), 1, "arp is nothing that a packet of ours meets");
    let [output, own] = rules.tables[0].chains.as_slice() else { panic!("{rules:?}") };
    assert_eq!(
        output.entry,
        Some(Entry {
            hook: FoundHook::Output,
            priority: -100,
            kind: ChainKind::First,
            policy: Policy::Accept
        })
    );
    assert_eq!(own.entry, None);
    let rule = &output.rules[0];
    assert_eq!(rule.conditions, of_the_proxy());
    assert_eq!(
        (rule.packets, rule.actions.as_slice()),
        (Some(7), &[Action::Jump("istio-output".into())][..])
    );
    assert_eq!(
        rule.text,
        r#"meta oifname lo ip daddr != 127.0.0.1 tcp dport != {"set":[53,15008]} meta skuid 1337 jump {"target":"istio-output"}"#
    );
    assert_eq!(own.rules[0].conditions, [Condition::Known(Match::Conntrack(CtStates::RELATED_ESTABLISHED))]);
    assert_eq!(own.rules[0].actions, [Action::Tproxy(15006), Action::SetMark(1337), Action::Accept]);
}

#[test]
fn what_nft_does_not_show_cannot_be_judged() {
    let rules = parse(LISTING).unwrap();
    let rule = &rules.tables[0].chains[1].rules[1];
    assert_eq!(rule.conditions, [Condition::Unknown("xt match owner".into())]);
    assert_eq!(
        rule.actions,
        [Action::SaveMark, Action::CtZone(1), Action::Unknown("xt target REDIRECT".into())]
    );
}

#[test]
fn ports_prefixes_and_names_are_read() {
    let read = |left: &str, op: &str, right: &str| {
        let text = format!(
            r#"{{"nftables":[{{"rule":{{"family":"ip","table":"t","chain":"c","expr":[{{"match":{{"op":"{op}","left":{left},"right":{right}}}}}]}}}}]}}"#
        );
        parse(&text).unwrap().tables[0].chains[0].rules[0].conditions.clone()
    };
    let dport = r#"{"payload":{"protocol":"udp","field":"dport"}}"#;
    let udp = Condition::Known(Match::Protocol(Protocol::Udp));
    let range = Match::DestinationPort(Sense::Is, Port::Range(5, 9));
    assert_eq!(read(dport, "==", r#"{"range":[5,9]}"#), [udp, Condition::Known(range)]);
    let saddr = r#"{"payload":{"protocol":"ip","field":"saddr"}}"#;
    let source = Match::Source(
        Sense::Is,
        "10.0.0.0".parse().map(|address| crate::ruleset::Cidr { address, length: 8 }).unwrap(),
    );
    assert_eq!(read(saddr, "==", r#"{"prefix":{"addr":"10.0.0.0","len":8}}"#), [Condition::Known(source)]);
    let name = Match::InInterface("eth*".into());
    assert_eq!(read(r#"{"meta":{"key":"iifname"}}"#, "==", "\"eth*\""), [Condition::Known(name)]);
    for (left, op, right) in [
        (dport, "<", "7"),
        (saddr, "==", r#"{"set":["1.2.3.4"]}"#),
        (r#"{"meta":{"key":"cpu"}}"#, "==", "1"),
        (r#"{"ct":{"key":"state"}}"#, "!=", r#"["invalid","new"]"#),
        (r#"{"prefix":3}"#, "==", "1"),
    ] {
        assert!(
            matches!(read(left, op, right).as_slice(), [.., Condition::Unknown(_)]),
            "{left} {op} {right}"
        );
    }
}

#[test]
fn what_is_no_listing_is_refused_by_name() {
    assert!(matches!(parse("* nat"), Err(JsonError::Json(_))));
    assert!(matches!(parse("{}"), Err(JsonError::NotNft)));
    let error = parse(r#"{"nftables":[{"chain":{"family":"ip","table":"t"}}]}"#).unwrap_err();
    assert_eq!(error.to_string(), "object 0 (chain) has no usable name");
}
