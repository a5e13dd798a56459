// SPDX-License-Identifier: Apache-2.0
//! Rules of the native back end in the same namespace.

use netfilter::{Applied, apply, compare, has_rules_of_ours, legacy, read};
use redirect::found::compare::Difference;
use redirect::ruleset::Family;

use crate::world::World;
use crate::{Case, Needs, rules, tools};

pub(crate) const CASES: &[Case] = &[
    Case("tables_of_the_native_back_end_are_replaced", Needs::Tools, replaced),
    Case("what_others_put_into_native_tables_goes_and_their_tables_stay", Needs::Tools, others_inside),
    Case("rules_of_iptables_make_way_for_native_ones", Needs::Tools, make_way),
    Case("differences_of_native_rules_are_told_in_words", Needs::Tools, differences),
    Case("a_fresh_namespace_has_no_legacy_tables", Needs::Namespace, no_legacy_tables),
];

const NATIVE: &str = "
table inet istio-proxy-nat {
    chain istio-inbound {
        meta l4proto tcp counter redirect to :15006
    }
    chain prerouting {
        type nat hook prerouting priority -100;
        meta l4proto tcp counter jump istio-inbound
    }
}
table inet istio-proxy-raw {
    chain output {
        type filter hook output priority -300;
    }
}
table inet istio-ambient-nat {
    chain output {
        type nat hook output priority -100;
    }
}
";

fn replaced(world: World) {
    let ruleset = world.allow(rules::ordinary());
    world.fresh(|| {
        tools::nft(NATIVE);
        let held = read().unwrap();
        assert!(has_rules_of_ours(&held));
        let other = |difference: &&Difference| matches!(difference, Difference::SecondSet(..));
        assert_eq!(compare(&held, &ruleset).iter().filter(other).count(), 2);
        assert_eq!(apply(&ruleset).unwrap(), Applied::Replaced);
        assert_eq!(compare(&read().unwrap(), &ruleset), []);
        let listing = tools::listing().to_string();
        assert!(!listing.contains("istio-proxy"), "{listing}");
        assert!(listing.contains("istio-ambient-nat"), "ambient mode is not ours: {listing}");
    });
}

/// Foreign additions to our tables, and a foreign table.
const INSIDE: &str = "
add chain inet istio-proxy-nat mine { type nat hook prerouting priority -101; }
add rule inet istio-proxy-nat mine tcp dport { 1, 2 } counter accept
add rule inet istio-proxy-nat istio-output counter accept
add set inet istio-proxy-nat ports { type inet_service; elements = { 7 }; }
add rule inet istio-proxy-nat istio-inbound tcp dport @ports return
add table inet istio-proxy-raw
add table inet mine
add chain inet mine prerouting { type nat hook prerouting priority -101; }
add rule inet mine prerouting tcp dport { 1, 2 } counter accept
";

fn others_inside(world: World) {
    let ruleset = world.allow(rules::native());
    world.fresh(|| {
        apply(&ruleset).unwrap();
        let ours = tools::listing();
        tools::nft(INSIDE);
        let held = read().unwrap();
        let said: Vec<_> = compare(&held, &ruleset).iter().map(ToString::to_string).collect();
        assert_eq!(
            said,
            [
                "rule 6 of inet istio-proxy-nat istio-inbound is not expected: meta l4proto tcp [lookup] return",
                "rule 16 of inet istio-proxy-nat istio-output is not expected: counter accept",
                "chain inet istio-proxy-nat mine is not expected",
                "table inet istio-proxy-raw is not expected",
            ]
        );
        assert_eq!(apply(&ruleset).unwrap(), Applied::Replaced);
        assert_eq!(compare(&read().unwrap(), &ruleset), []);
        let theirs = "tcp dport { 1, 2 } counter accept";
        assert!(tools::listed_rules().iter().any(|rule| rule == theirs), "their own table stays");
        tools::nft("delete table inet mine\n");
        assert_eq!(tools::listing(), ours, "nothing of theirs is left in ours");
    });
}

/// Foreign rules in the tables of iptables, one jumping to a chain of ours.
const BESIDE: &str = "\
*nat
:MINE - [0:0]
-A OUTPUT -p udp -j ACCEPT
-A MINE -p tcp -j ISTIO_OUTPUT
COMMIT
";

fn make_way(world: World) {
    let (compat, native) = (world.allow(rules::everything()), world.allow(rules::native()));
    world.fresh(|| {
        apply(&compat).unwrap();
        tools::restore(Family::V4, BESIDE).unwrap();
        let said: Vec<_> = compare(&read().unwrap(), &native).iter().map(ToString::to_string).collect();
        for table in ["ip mangle", "ip nat", "ip raw", "ip6 mangle", "ip6 nat", "ip6 raw"] {
            let words =
                format!("rules are also in table {table}: two sets of rules count and redirect twice");
            assert!(said.contains(&words), "{words}: {said:#?}");
        }
        assert_eq!(apply(&native).unwrap(), Applied::Replaced);
        assert_eq!(compare(&read().unwrap(), &native), [], "a chain that others jump to stays, and is empty");
        assert_eq!(apply(&native).unwrap(), Applied::Unchanged);
        let added: Vec<_> =
            tools::save(Family::V4).into_iter().filter(|line| line.starts_with("-A")).collect();
        assert_eq!(added, ["-A OUTPUT -p udp -j ACCEPT", "-A MINE -p tcp -j ISTIO_OUTPUT"]);
        assert_eq!(apply(&compat).unwrap(), Applied::Replaced);
        assert_eq!(compare(&read().unwrap(), &compat), []);
        assert!(!tools::listing().to_string().contains("istio-proxy"), "and the way back");
    });
}

fn differences(world: World) {
    let ruleset = world.allow(rules::native());
    let said = |commands: &str| {
        world.fresh(|| {
            apply(&ruleset).unwrap();
            tools::nft(commands);
            let said: Vec<_> = compare(&read().unwrap(), &ruleset).iter().map(ToString::to_string).collect();
            assert_eq!(apply(&ruleset).unwrap(), Applied::Replaced, "{commands}");
            assert_eq!(compare(&read().unwrap(), &ruleset), [], "{commands}");
            said
        })
    };
    let missing = "rule 1 of inet istio-proxy-nat output is missing: counter jump istio-output";
    assert_eq!(said("flush chain inet istio-proxy-nat output\n"), [missing]);
    let policy = "add chain inet istio-proxy-nat output { policy drop; }\n";
    assert_eq!(said(policy), ["chain inet istio-proxy-nat output drops what no rule decides"]);
    let inserted = "insert rule inet istio-proxy-nat istio-inbound tcp dport != { 1, 2 } counter return\n";
    assert_eq!(
        said(inserted),
        [
            "rule 1 of inet istio-proxy-nat istio-inbound is not expected: tcp dport != { 1, 2 } counter return"
        ]
    );
    let dormant = "add table inet istio-proxy-nat { flags dormant; }\n";
    let chains = ["output", "prerouting"];
    let uncalled = chains
        .map(|chain| format!("chain inet istio-proxy-nat {chain} is there, and the kernel does not call it"));
    let mut said = said(dormant);
    said.sort_unstable();
    assert_eq!(said, uncalled);
}

fn no_legacy_tables(world: World) {
    world.fresh(|| {
        for family in [Family::V4, Family::V6] {
            assert_eq!(legacy::tables(family).unwrap(), Vec::<String>::new());
        }
    });
}
