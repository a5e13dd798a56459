// SPDX-License-Identifier: Apache-2.0
//! An ordinary pod's rules, found whole and with something wrong.

use super::*;
use crate::found::save;
use crate::list::Selection;
use crate::ruleset::Port;

fn wanted() -> Ruleset {
    ruleset(&Config {
        inbound_ports_include: Some(Selection::All),
        inbound_ports_exclude: vec![Port::One(15090)],
        outbound_ranges_include: Selection::All,
        ..Config::default()
    })
    .unwrap()
}

/// Differences from the wanted rules after a change of their text.
fn said(change: impl Fn(String) -> String) -> Vec<String> {
    let text = change(text::restore(&wanted(), Family::V4));
    let found = save::parse(&text, Family::V4).unwrap();
    differences(&found, &wanted(), Form::Iptables).iter().map(ToString::to_string).collect()
}

#[test]
fn what_is_there_as_wanted_has_no_difference() {
    assert_eq!(said(|text| text), [""; 0]);
    // As iptables-save spells it.
    let saved = said(|text| text.replace("-p tcp --dport 15008", "-p tcp -m tcp --dport 15008:15008"));
    assert_eq!(saved, [""; 0]);
}

#[test]
fn each_difference_is_said_in_plain_words() {
    assert_eq!(said(|_| String::new()), ["there is no redirection: all traffic bypasses the proxy"]);
    assert_eq!(
        said(|text| text
            .replace("-A PREROUTING -p tcp -j ISTIO_INBOUND\n", "-A PREROUTING -p udp -j ACCEPT\n")),
        ["rule 1 of ip nat PREROUTING is missing: -p tcp -j ISTIO_INBOUND"]
    );
    assert_eq!(
        said(|text| text.replace("--to-ports 15001", "--to-ports 15002")),
        [
            "rule 1 of ip nat ISTIO_REDIRECT is missing: -p tcp -j REDIRECT --to-ports 15001",
            "rule 1 of ip nat ISTIO_REDIRECT is not expected: -p tcp -j REDIRECT --to-ports 15002",
        ]
    );
    let swapped = said(|text| {
        text.replace("--dport 15008 -j RETURN", "--dport X -j RETURN")
            .replace("--dport 15090 -j RETURN", "--dport 15008 -j RETURN")
            .replace("--dport X -j RETURN", "--dport 15090 -j RETURN")
    });
    assert_eq!(swapped, [""; 0], "which of two ports is left alone first does not matter");
    let last = "-A ISTIO_INBOUND -p tcp -j ISTIO_IN_REDIRECT\n";
    let earlier = said(|text| {
        let port = "-A ISTIO_INBOUND -p tcp --dport 15090 -j RETURN\n";
        assert!(text.contains(last) && text.contains(port), "{text}");
        text.replace(last, "").replace(port, &format!("{last}{port}"))
    });
    assert_eq!(earlier, ["the rules of ip nat ISTIO_INBOUND are in another order"]);
    assert_eq!(
        said(|text| text.replace(
            "-A OUTPUT -j ISTIO_OUTPUT",
            "-A OUTPUT -d 10.0.0.0/8 -j ACCEPT\n-A OUTPUT -j ISTIO_OUTPUT"
        )),
        ["rule 1 of ip nat OUTPUT is somebody else's and comes before ours: -d 10.0.0.0/8 -j ACCEPT"]
    );
    assert_eq!(
        said(|text| text.replace("COMMIT", "-A ISTIO_OLD -j RETURN\n:OUTPUT DROP\nCOMMIT")),
        ["chain ip nat OUTPUT drops what no rule decides", "chain ip nat ISTIO_OLD is not expected"]
    );
    let doubled = said(|text| {
        text.replace("-A OUTPUT -j ISTIO_OUTPUT", "-A OUTPUT -j ISTIO_OUTPUT\n-A OUTPUT -j ISTIO_OUTPUT")
    });
    assert_eq!(doubled, ["rule 2 of ip nat OUTPUT is not expected: -j ISTIO_OUTPUT"]);
}

#[test]
fn a_rule_of_others_behind_ours_does_not_matter() {
    assert_eq!(
        said(|text| text
            .replace("-A OUTPUT -j ISTIO_OUTPUT", "-A OUTPUT -j ISTIO_OUTPUT\n-A OUTPUT -p udp -j ACCEPT")),
        [""; 0]
    );
}

#[test]
fn a_second_set_is_found() {
    let mut found = save::parse(&text::restore(&wanted(), Family::V4), Family::V4).unwrap();
    let native = ruleset(&Config { dialect: Dialect::Nft, ..Config::default() }).unwrap();
    let chain = native.inet_chains().remove(0);
    let rules =
        chain.rules.iter().map(|rule| crate::found::native::rule(&text::rule(Dialect::Nft, rule))).collect();
    found.tables.push(FoundTable {
        family: FoundFamily::Inet,
        name: "istio-proxy-nat".to_owned(),
        chains: vec![FoundChain {
            name: chain.chain.native_name().to_owned(),
            entry: None,
            rules,
            handle: None,
        }],
    });
    assert_eq!(forms(&found), [Form::Iptables, Form::Native]);
    let said = differences(&found, &wanted(), Form::Iptables);
    assert_eq!(said, [Difference::SecondSet(FoundFamily::Inet, "istio-proxy-nat".to_owned())]);
}
