// SPDX-License-Identifier: Apache-2.0
//! Differences of a namespace that does not hold what it should.

use netfilter::snapshot::Counter;
use netfilter::{Applied, apply, compare, read};
use redirect::ruleset::Family;

use crate::world::World;
use crate::{Case, Needs, rules, tools};

pub(crate) const CASES: &[Case] = &[
    Case("differences_are_told_in_words", Needs::Tools, in_words),
    Case("counters_are_read_and_do_not_count", Needs::Tools, counters),
];

/// Differences after somebody ran these commands.
fn differences(world: World, commands: &[&str]) -> Vec<String> {
    let ruleset = world.allow(rules::ordinary());
    world.fresh(|| {
        apply(&ruleset).unwrap();
        for command in commands {
            tools::iptables(Family::V4, command).unwrap();
        }
        let differences = compare(&read().unwrap(), &ruleset).iter().map(ToString::to_string).collect();
        assert_eq!(apply(&ruleset).unwrap(), Applied::Replaced, "{commands:?}");
        assert_eq!(compare(&read().unwrap(), &ruleset), [], "{commands:?}");
        differences
    })
}

fn in_words(world: World) {
    let cases: [(&[&str], &[&str]); 7] = [
        (&["-t nat -D OUTPUT -j ISTIO_OUTPUT"], &["rule 1 of ip nat OUTPUT is missing: -j ISTIO_OUTPUT"]),
        (
            &["-t nat -D ISTIO_INBOUND 1"],
            &["rule 1 of ip nat ISTIO_INBOUND is missing: -p tcp --dport 15008 -j RETURN"],
        ),
        (
            &["-t nat -A ISTIO_OUTPUT -p udp -j ACCEPT"],
            &["rule 12 of ip nat ISTIO_OUTPUT is not expected: -p udp -j ACCEPT"],
        ),
        (
            &["-t nat -D ISTIO_INBOUND 1", "-t nat -A ISTIO_INBOUND -p tcp --dport 15008 -j RETURN"],
            &["the rules of ip nat ISTIO_INBOUND are in another order"],
        ),
        (
            &["-t nat -A PREROUTING -p tcp -j ISTIO_INBOUND"],
            &["rule 2 of ip nat PREROUTING is not expected: -p tcp -j ISTIO_INBOUND"],
        ),
        (&["-t raw -N ISTIO_OUTPUT_DNS"], &["chain ip raw ISTIO_OUTPUT_DNS is not expected"]),
        (
            &["-t nat -F ISTIO_INBOUND", "-t nat -D PREROUTING 1", "-t nat -X ISTIO_INBOUND"],
            &[
                "chain ip nat ISTIO_INBOUND is missing",
                "rule 1 of ip nat PREROUTING is missing: -p tcp -j ISTIO_INBOUND",
            ],
        ),
    ];
    for (commands, expected) in cases {
        assert_eq!(differences(world, commands), expected, "{commands:?}");
    }
}

fn counters(world: World) {
    let ruleset = world.allow(rules::ordinary());
    world.fresh(|| {
        apply(&ruleset).unwrap();
        tools::iptables(Family::V4, "-t nat -R OUTPUT 1 -j ISTIO_OUTPUT -c 7 420").unwrap();
        let held = read().unwrap();
        let counted: Vec<_> = held.counters().filter(|rule| rule.counter.packets > 0).collect();
        assert_eq!(counted.len(), 1);
        assert_eq!(
            (counted[0].table.to_string(), counted[0].chain.to_string()),
            ("nat".into(), "OUTPUT".into())
        );
        assert_eq!((counted[0].position, counted[0].counter), (1, Counter { packets: 7, bytes: 420 }));
        assert_eq!(compare(&held, &ruleset), []);
        assert_eq!(apply(&ruleset).unwrap(), Applied::Unchanged);
    });
}
