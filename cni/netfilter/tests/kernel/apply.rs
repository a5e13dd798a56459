// SPDX-License-Identifier: Apache-2.0
//! Applying: twice, over halves, with failures, by two at once.

use std::sync::Barrier;

use netfilter::address::{AddressError, add_loopback_helper};
use netfilter::{
    Applied, ApplyError, Netns, ReadError, Removed, apply, compare, has_rules_of_ours, read, remove,
};
use redirect::config::{Config, Mode};
use redirect::generate::ruleset;
use redirect::ruleset::{
    Chain, CtStates, Dialect, Family, Id, Match, Owner, Port, Protocol, Ruleset, Sense, Target,
};
use redirect::text;
use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities};

use crate::parity::{equal, shape};
use crate::world::{Users, World};
use crate::{Case, Needs, rules, tools};

pub(crate) const CASES: &[Case] = &[
    Case("a_second_apply_changes_nothing", Needs::Namespace, second_apply),
    Case("another_ruleset_replaces_the_first", Needs::Namespace, another_ruleset),
    Case("what_is_ours_is_removed", Needs::Namespace, removal),
    Case("what_is_ours_in_both_back_ends_is_removed_at_once", Needs::Tools, removal_of_all_at_once),
    Case("a_half_applied_native_state_is_replaced_at_every_cut", Needs::Tools, every_native_cut),
    Case("a_half_applied_state_is_replaced_at_every_cut", Needs::Tools, every_cut),
    Case("a_refused_rule_leaves_everything_as_it_was", Needs::Namespace, refused_rule),
    Case("a_refused_native_rule_leaves_everything_as_it_was", Needs::Namespace, refused_native_rule),
    Case("what_cannot_be_encoded_is_refused_before_anything_is_sent", Needs::Namespace, unencodable),
    Case("two_writers_leave_the_rules_of_one", Needs::Namespace, two_writers),
    Case("without_privilege_it_says_so", Needs::Namespace, without_privilege),
    Case("a_thousand_rules_are_one_transaction", Needs::Namespace, thousand_rules),
];

fn second_apply(world: World) {
    for (name, ruleset) in rules::every() {
        let ruleset = world.allow(ruleset);
        world.fresh(|| {
            assert_eq!(read().unwrap().generation, 1, "{name}: a fresh namespace");
            assert_eq!(apply(&ruleset).unwrap(), Applied::Created, "{name}");
            let first = read().unwrap();
            assert_eq!(compare(&first, &ruleset), [], "{name}");
            assert!(has_rules_of_ours(&first), "{name}");
            assert_eq!(apply(&ruleset).unwrap(), Applied::Unchanged, "{name}");
            assert_eq!(read().unwrap(), first, "{name}: generation, handles and all");
        });
    }
}

fn another_ruleset(world: World) {
    let every: Vec<_> = rules::every().map(|(name, ruleset)| (name, world.allow(ruleset))).collect();
    for (first, one) in &every {
        for (second, other) in every.iter().filter(|(second, _)| second != first) {
            world.fresh(|| {
                apply(one).unwrap();
                assert_eq!(apply(other).unwrap(), Applied::Replaced, "{second} over {first}");
                let held = read().unwrap();
                assert_eq!(compare(&held, other), [], "{second} over {first}");
                assert_eq!(apply(other).unwrap(), Applied::Unchanged, "{second} over {first}");
            });
        }
    }
}

fn removal(world: World) {
    for (name, ruleset) in rules::every() {
        let ruleset = world.allow(ruleset);
        world.fresh(|| {
            assert_eq!(remove().unwrap(), Removed::Nothing);
            assert_eq!(read().unwrap().generation, 1, "nothing was sent");
            apply(&ruleset).unwrap();
            assert_eq!(remove().unwrap(), Removed::Rules, "{name}");
            let held = read().unwrap();
            assert!(!has_rules_of_ours(&held), "{name}");
            assert_eq!(held.counters().count(), 0, "{name}: no rule is left");
            assert_eq!(remove().unwrap(), Removed::Nothing, "{name}");
            assert_eq!(read().unwrap(), held, "{name}: nothing was sent");
        });
    }
}

/// Rules of both back ends, a second set of ours in neither's words, and a rule of somebody else.
fn removal_of_all_at_once(world: World) {
    let mark = Config { mode: Mode::Tproxy, tproxy_mark: 77, ..rules::config() };
    let compat = world.allow(ruleset(&mark).unwrap());
    let native = world.allow(rules::native());
    world.fresh(|| {
        apply(&compat).unwrap();
        tools::iptables(Family::V4, "-t mangle -A OUTPUT -p udp -j ACCEPT").unwrap();
        tools::nft(&text::native(&native));
        assert_eq!(remove().unwrap(), Removed::Rules);
        let held = read().unwrap();
        assert!(!has_rules_of_ours(&held));
        assert_eq!(held.counters().count(), 1, "{:#?}", tools::save(Family::V4));
        assert_eq!(remove().unwrap(), Removed::Nothing);
    });
}

/// nft's commands, cut behind each rule, and what each dialect makes of that.
fn every_native_cut(world: World) {
    let every: Vec<_> = rules::every().map(|(name, ruleset)| (name, world.allow(ruleset))).collect();
    for (name, native) in every.iter().filter(|(_, ruleset)| ruleset.dialect == Dialect::Nft) {
        let commands = text::native(native);
        let lines: Vec<_> = commands.lines().collect();
        let rules = lines.iter().enumerate().filter(|(_, line)| line.contains(" rule ")).map(|(at, _)| at);
        for last in rules {
            // A jump is to a chain of the same table, all of which are made before its rules.
            let half = lines[..=last].join("\n") + "\n";
            let (wanted_name, wanted) = &every[last % every.len()];
            world.fresh(|| {
                tools::nft(&half);
                let applied = apply(wanted).unwrap();
                let whole = last + 1 == lines.len() && wanted == native;
                let expected = if whole { Applied::Unchanged } else { Applied::Replaced };
                assert_eq!(applied, expected, "{name} cut at {last}, then {wanted_name}");
                assert_eq!(compare(&read().unwrap(), wanted), [], "{name} cut at {last}, then {wanted_name}");
                assert_eq!(apply(wanted).unwrap(), Applied::Unchanged, "{name} cut at {last}");
            });
        }
    }
}

/// The restore text of one family, cut behind its `rules`th rule; whole tables after the cut are missing.
fn cut(text: &str, rules: usize) -> String {
    let mut kept = String::new();
    let mut seen = 0;
    for line in text.lines() {
        if line.starts_with("-A") || line.starts_with("-I") {
            seen += 1;
            if seen > rules {
                return kept + "COMMIT\n";
            }
        }
        kept += line;
        kept += "\n";
    }
    kept
}

fn every_cut(world: World) {
    for (name, ruleset) in rules::all() {
        let ruleset = world.allow(ruleset);
        let whole = world.fresh(|| {
            apply(&ruleset).unwrap();
            [Family::V4, Family::V6].map(tools::save)
        });
        let [v4, v6] = [Family::V4, Family::V6].map(|family| text::restore(&ruleset, family));
        let count = v4.lines().filter(|line| line.starts_with("-A") || line.starts_with("-I")).count();
        for rules in 0..=count {
            world.fresh(|| {
                tools::restore(Family::V4, &cut(&v4, rules)).unwrap();
                assert_eq!(apply(&ruleset).unwrap(), Applied::Replaced, "{name} cut at {rules}");
                check_whole(&format!("{name} cut at {rules}"), &ruleset, &whole);
            });
        }
        world.fresh(|| {
            tools::restore(Family::V4, &v4).unwrap();
            tools::restore(Family::V6, &cut(&v6, 3)).unwrap();
            assert_eq!(apply(&ruleset).unwrap(), Applied::Replaced, "{name}: IPv4 whole, IPv6 cut");
            check_whole(name, &ruleset, &whole);
        });
        world.fresh(|| {
            tools::restore(Family::V4, &v4).unwrap();
            tools::restore(Family::V6, &v6).unwrap();
            assert_eq!(apply(&ruleset).unwrap(), Applied::Unchanged, "{name}: whole, by iptables");
        });
    }
}

fn check_whole(what: &str, ruleset: &Ruleset, whole: &[Vec<String>; 2]) {
    let [v4, v6] = [Family::V4, Family::V6].map(tools::save);
    equal(what, &v4, &whole[0]);
    equal(what, &v6, &whole[1]);
    assert_eq!(compare(&read().unwrap(), ruleset), [], "{what}");
    assert_eq!(apply(ruleset).unwrap(), Applied::Unchanged, "{what}");
}

fn refused_rule(world: World) {
    let ruleset = world.allow(rules::ordinary());
    let mut bad = ruleset.clone();
    // A mark cannot be set in a table whose chains run where TPROXY does not.
    let last = bad.rules.last_mut().unwrap();
    last.matches = vec![Match::Protocol(Protocol::Tcp)];
    last.target = Target::Tproxy { mark: 1, port: 1 };
    refused(world, &ruleset, &bad, "TPROXY --on-port 1");
}

fn refused_native_rule(world: World) {
    let ruleset = world.allow(rules::native());
    let mut bad = ruleset.clone();
    // The kernel has all that it takes, so the chain must be what is missing.
    let last = bad.rules.last_mut().unwrap();
    last.matches = vec![Match::Conntrack(CtStates::INVALID)];
    last.target = Target::Jump(Chain::IstioDrop);
    refused(world, &ruleset, &bad, "\"ct state invalid counter jump istio-drop\"");
}

fn refused(world: World, ruleset: &Ruleset, bad: &Ruleset, words: &str) {
    let refused = |before: &str| match apply(bad) {
        Err(ApplyError::Refused { step, .. }) => {
            assert!(step.to_string().contains(words), "{before}: {step}");
        }
        other => panic!("{before}: {other:?}"),
    };
    world.fresh(|| {
        refused("into a fresh namespace");
        assert_eq!(shape(&read().unwrap()), Vec::<String>::new());
        apply(ruleset).unwrap();
        let before = read().unwrap();
        refused("over rules of ours");
        assert_eq!(read().unwrap(), before);
    });
}

fn unencodable(world: World) {
    let verbatim = Match::DestinationPort(Sense::Is, Port::Verbatim("http".to_owned()));
    let named = Match::Owner(Sense::Is, Owner::Gid(Id::Name("www-data".to_owned())));
    for (condition, value) in [(verbatim, "http"), (named, "www-data")] {
        let mut bad = rules::ordinary();
        let last = bad.rules.last_mut().unwrap();
        last.matches = vec![Match::Protocol(Protocol::Tcp), condition];
        world.fresh(|| {
            let Err(ApplyError::Encode(error)) = apply(&bad) else { panic!("{value} was encoded") };
            let source = std::error::Error::source(&error).unwrap().to_string();
            assert!(error.to_string().contains(&format!("{value} -j ")), "{error}");
            assert!(source.contains(value), "{source}");
            assert_eq!(read().unwrap().generation, 1, "nothing was sent");
        });
    }
}

fn two_writers(world: World) {
    let [one, other, native] = [rules::ordinary(), rules::everything(), rules::native()];
    let [one, other, native] = [one, other, native].map(|ruleset| world.allow(ruleset));
    for (one, other) in [(&one, &other), (&one, &native)].into_iter().cycle().take(40) {
        world.fresh(|| {
            let here = Netns::current().unwrap();
            let start = Barrier::new(2);
            std::thread::scope(|scope| {
                for ruleset in [one, other] {
                    let (here, start) = (&here, &start);
                    scope.spawn(move || {
                        here.enter_for_good().unwrap();
                        start.wait();
                        apply(ruleset).unwrap();
                    });
                }
            });
            let held = read().unwrap();
            let holds = [one, other].map(|ruleset| compare(&held, ruleset).is_empty());
            assert!(holds[0] != holds[1], "one of them, whole: {holds:?}");
        });
    }
}

fn thousand_rules(world: World) {
    for ruleset in [rules::ordinary(), rules::native()] {
        thousand_rules_of(world, world.allow(ruleset));
    }
}

fn thousand_rules_of(world: World, mut ruleset: Ruleset) {
    let rule = ruleset.rules.iter().find(|rule| rule.matches.len() == 2).unwrap().clone();
    // Without root the kernel takes no more than net.core.wmem_max allows.
    let of_both_families = if world.users == Users::Any { 1000 } else { 400 };
    let count = if ruleset.dialect == Dialect::Nft { 2 * of_both_families } else { of_both_families };
    for port in 1..=count {
        let condition = Match::DestinationPort(Sense::Is, Port::One(port));
        ruleset.rules.push(redirect::ruleset::Rule {
            matches: vec![Match::Protocol(Protocol::Tcp), condition],
            ..rule.clone()
        });
    }
    let bytes = netfilter::encode::batch(&ruleset, None).unwrap().len();
    assert!(bytes > 212_992, "more than a socket's usual buffer: {bytes}");
    world.fresh(|| {
        assert_eq!(apply(&ruleset).unwrap(), Applied::Created);
        assert_eq!(compare(&read().unwrap(), &ruleset), []);
        assert_eq!(apply(&ruleset).unwrap(), Applied::Unchanged);
    });
}

fn without_privilege(world: World) {
    let ruleset = world.allow(rules::ordinary());
    world.fresh(|| {
        // Of this thread alone.
        let none = CapabilitySet::empty();
        let sets = CapabilitySets { effective: none, permitted: none, inheritable: none };
        set_capabilities(None, sets).unwrap();
        assert!(matches!(apply(&ruleset), Err(ApplyError::Permission)));
        assert!(matches!(read(), Err(ReadError::Permission)));
        assert!(matches!(add_loopback_helper(), Err(AddressError::Permission(_))));
    });
}
