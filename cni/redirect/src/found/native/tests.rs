// SPDX-License-Identifier: Apache-2.0
//! Listings of nft 1.0.6, and the rules that we write.

use super::*;
use crate::found::testing::{everything, of_the_proxy};
use crate::found::{Action, Condition};
use crate::ruleset::{Dialect, Match, Port, Sense};
use crate::text;

const LISTING: &str = r#"table ip other {
	set s {
		type ipv4_addr
		elements = { 1.2.3.4 }
	}

	chain c {
		ip saddr @s drop
	}
}
table arp x {
	chain c {
	}
}
table inet istio-proxy-nat {
	chain output {
		type nat hook output priority dstnat; policy accept;
		oifname "lo" ip daddr != 127.0.0.1 tcp dport != { 53, 15008 } skuid 1337 counter packets 3 bytes 180 jump istio-in-redirect
		meta l4proto tcp meta mark 0x00000539 counter packets 0 bytes 0 ct mark set meta mark comment "x { y"
	}

	chain p {
		type filter hook prerouting priority mangle + 5; policy drop;
		tproxy ip to :15006 meta mark set 0x00000539 counter packets 0 bytes 0 accept
		tcp dport 5-9 limit rate 5/minute accept
	}
}
"#;

#[test]
fn a_listing_is_read_whole() {
    let rules = parse(LISTING).unwrap();
    assert_eq!(rules.tables.len(), 2);
    let foreign = &rules.tables[0].chains[0].rules[0];
    assert_eq!(foreign.conditions, [Condition::Unknown("ip saddr @s drop".to_owned())]);
    let [output, p] = rules.tables[1].chains.as_slice() else { panic!("{rules:?}") };
    let entry = |hook, priority, kind, policy| Some(Entry { hook, priority, kind, policy });
    assert_eq!(output.entry, entry(FoundHook::Output, -100, ChainKind::First, Policy::Accept));
    assert_eq!(p.entry, entry(FoundHook::Prerouting, -145, ChainKind::Every, Policy::Drop));
    let first = &output.rules[0];
    assert_eq!(first.conditions, of_the_proxy());
    assert_eq!(
        (first.packets, &first.actions[..]),
        (Some(3), &[Action::Jump("istio-in-redirect".into())][..])
    );
    assert_eq!(output.rules[1].actions, [Action::SaveMark]);
    assert_eq!(p.rules[0].actions, [Action::Tproxy(15006), Action::SetMark(1337), Action::Accept]);
    assert_eq!(
        p.rules[1].conditions[1..],
        [
            Condition::Known(Match::DestinationPort(Sense::Is, Port::Range(5, 9))),
            Condition::Unknown("limit rate 5/minute accept".to_owned())
        ]
    );
}

#[test]
fn what_is_not_known_is_kept_and_not_guessed() {
    for text in [
        "iifname { \"a\", \"b\" } accept",
        "oifname @outside accept",
        "meta skuid { 1, 2 } accept",
        "meta skuid 1000-1999 accept",
        "meta skgid > 7 accept",
        "log prefix \"unclosed drop",
    ] {
        assert_eq!(rule(text).conditions, [Condition::Unknown(text.to_owned())]);
    }
    let late = rule("meta mark set 5 tcp dport 80 accept");
    assert_eq!(late.conditions, [], "the mark is set whatever comes behind it");
    assert_eq!(late.actions, [Action::SetMark(5), Action::Unknown("tcp dport 80 accept".to_owned())]);
}

#[test]
fn a_log_line_does_not_hide_what_comes_behind_it() {
    for text in [
        "log drop",
        "log prefix \"no drop here: \" level warn drop",
        "log prefix \"x\" group 2 snaplen 9 queue-threshold 1 counter packets 1 bytes 2 drop",
        "log flags tcp sequence,options drop",
        "log flags all drop",
    ] {
        let read = rule(text);
        assert_eq!((read.conditions, read.actions), (vec![], vec![Action::Drop]), "{text}");
    }
}

#[test]
fn a_comment_of_a_chain_is_no_rule() {
    let text = "table inet t {\n chain c {\n comment \"what for\"\n type filter hook output priority filter;\n drop\n }\n}";
    let rules = parse(text).unwrap();
    let [chain] = rules.tables[0].chains.as_slice() else { panic!("{rules:?}") };
    assert!(chain.entry.is_some());
    assert_eq!(chain.rules.len(), 1);
}

#[test]
fn the_rules_that_we_write_are_understood_whole() {
    let ruleset = crate::generate::ruleset(&everything(Dialect::Nft)).unwrap();
    for wanted in &ruleset.rules {
        let read = rule(&text::rule(Dialect::Nft, wanted));
        let unknown = read.conditions.iter().any(|condition| matches!(condition, Condition::Unknown(_)));
        assert!(!unknown && !read.actions.is_empty(), "{read:?}");
        assert!(!read.actions.iter().any(|action| matches!(action, Action::Unknown(_))), "{read:?}");
    }
}

#[test]
fn what_is_no_listing_is_refused_with_its_line() {
    for (text, wanted) in [
        ("chain x {", "line 1: \"chain x {\" is outside of any table"),
        (
            "table ip t {\n chain c {\n type nat;\n",
            "line 3: \"type nat;\" does not say where the chain is called from",
        ),
        ("table ip t {\n chain c {\n", "line 2: the text ends before the last \"}\""),
    ] {
        assert_eq!(parse(text).unwrap_err().to_string(), wanted);
    }
}
