// SPDX-License-Identifier: Apache-2.0
//! Rules of others in the same tables: they stay, unchanged and in order, and ours stand where iptables would have put them.

use netfilter::snapshot::{NfFamily, Snapshot};
use netfilter::{Applied, ApplyError, PlanError, apply, compare, read};
use redirect::ruleset::Family;
use redirect::text;

use crate::parity::{equal, shape};
use crate::world::World;
use crate::{Case, Needs, rules, tools};

pub(crate) const CASES: &[Case] = &[
    Case("rules_of_others_stay_when_ours_come", Needs::Tools, ours_come),
    Case("rules_of_others_stay_when_ours_are_replaced", Needs::Tools, ours_are_replaced),
    Case("inserted_rules_go_where_iptables_puts_them", Needs::Tools, inserted_rules),
    Case("a_chain_of_ours_that_others_jump_to_is_refilled", Needs::Tools, held_chain),
    Case("interfaces_that_others_exclude_stay_excluded", Needs::Tools, excluded_interfaces),
    Case("unknown_chains_and_rules_of_older_versions_go", Needs::Tools, older_versions),
    Case("policies_and_tables_of_others_stay", Needs::Tools, policies),
    Case("a_chain_at_another_hook_is_refused", Needs::Tools, another_hook),
    Case("a_dormant_table_is_refused", Needs::Tools, dormant),
];

/// Rules of others in all tables, chains and forms.
const OTHERS: &str = "\
*filter
:INPUT DROP [0:0]
:MINE - [0:0]
-A INPUT -i lo -j ACCEPT
-A INPUT -p tcp -m tcp --dport 22 -j MINE
-A OUTPUT -p tcp -j DROP
-A MINE -m limit --limit 3/min -j LOG --log-prefix \"seen \"
-A MINE -m comment --comment \"ISTIO_OUTPUT is not meant\" -j RETURN
COMMIT
*mangle
:MINE - [0:0]
-A PREROUTING -p tcp -m mark --mark 0x5 -j CONNMARK --save-mark
-A OUTPUT -o lo -p tcp -m mark --mark 0x5 -j RETURN
-A OUTPUT -p tcp -m connmark --mark 0x5 -j CONNMARK --restore-mark
-A OUTPUT -o lo -p tcp -m owner --uid-owner 0 -j MARK --set-mark 5
-A POSTROUTING -j MINE
COMMIT
*nat
:MINE - [0:0]
-A PREROUTING -p tcp -m tcp --dport 8080 -j REDIRECT --to-ports 80
-A PREROUTING -j MINE
-A OUTPUT -p udp -j MINE
-A POSTROUTING -o eth0 -j MASQUERADE
-A MINE -d 192.0.2.1 -p tcp -j DNAT --to-destination 192.0.2.2:80
COMMIT
*raw
-A PREROUTING -p udp -j NOTRACK
-A OUTPUT -p udp -m udp --dport 123 -j CT --zone 7
COMMIT
";

fn others(family: Family) -> String {
    match family {
        Family::V4 => OTHERS.to_owned(),
        Family::V6 => OTHERS.replace("192.0.2.1", "2001:db8::1").replace("192.0.2.2:80", "[2001:db8::2]:80"),
    }
}

fn add_others() {
    for family in [Family::V4, Family::V6] {
        tools::restore(family, &others(family)).unwrap();
    }
}

/// Foreign rules still there, with handles, in order.
fn of_others(snapshot: &Snapshot, theirs: &[(NfFamily, u64, String)]) -> Vec<(NfFamily, u64, String)> {
    all_rules(snapshot).into_iter().filter(|rule| theirs.contains(rule)).collect()
}

fn all_rules(snapshot: &Snapshot) -> Vec<(NfFamily, u64, String)> {
    let mut rules = Vec::new();
    for table in &snapshot.tables {
        for chain in &table.chains {
            for rule in &chain.rules {
                let words =
                    format!("{} {} {:?} {:?}", table.name, chain.name, rule.expressions, rule.userdata);
                rules.push((table.family, rule.handle, words));
            }
        }
    }
    rules
}

fn ours_come(world: World) {
    for (name, ruleset) in rules::all() {
        let ruleset = world.allow(ruleset);
        let ours = world.fresh(|| {
            add_others();
            let theirs = all_rules(&read().unwrap());
            assert_eq!(apply(&ruleset).unwrap(), Applied::Created, "{name}");
            let held = read().unwrap();
            assert_eq!(of_others(&held, &theirs), theirs, "{name}");
            assert_eq!(compare(&held, &ruleset), [], "{name}");
            assert_eq!(apply(&ruleset).unwrap(), Applied::Unchanged, "{name}");
            [Family::V4, Family::V6].map(tools::save)
        });
        let by_iptables = world.fresh(|| {
            add_others();
            for family in [Family::V4, Family::V6] {
                tools::restore(family, &text::restore(&ruleset, family)).unwrap();
            }
            [Family::V4, Family::V6].map(tools::save)
        });
        equal(&format!("{name}, IPv4, beside others"), &ours[0], &by_iptables[0]);
        equal(&format!("{name}, IPv6, beside others"), &ours[1], &by_iptables[1]);
    }
}

fn ours_are_replaced(world: World) {
    let every: Vec<_> = rules::every().map(|(name, ruleset)| (name, world.allow(ruleset))).collect();
    for (first, one) in &every {
        for (second, other) in every.iter().filter(|(second, _)| second != first) {
            world.fresh(|| {
                let before = "*nat\n-A OUTPUT -p icmp -j ACCEPT\nCOMMIT\n";
                tools::restore(Family::V4, before).unwrap();
                apply(one).unwrap();
                add_others();
                // One in front and one between ours.
                tools::iptables(Family::V4, "-t nat -I PREROUTING 1 -p udp -j ACCEPT").unwrap();
                tools::iptables(Family::V4, "-t nat -I OUTPUT 2 -p gre -j ACCEPT").unwrap();
                tools::iptables(Family::V4, "-t raw -I OUTPUT 1 -p gre -j ACCEPT").unwrap();
                let held = read().unwrap();
                assert_eq!(compare(&held, one), [], "others do not matter: {first}");
                assert_eq!(apply(one).unwrap(), Applied::Unchanged, "others do not matter: {first}");
                let ours = all_rules(&world.fresh(|| {
                    apply(one).unwrap();
                    read().unwrap()
                }));
                let is_ours = |words: &String| ours.iter().any(|(_, _, own)| own == words);
                let theirs: Vec<_> =
                    all_rules(&held).into_iter().filter(|(_, _, words)| !is_ours(words)).collect();
                assert!(theirs.len() > 30, "{}", theirs.len());
                assert_eq!(apply(other).unwrap(), Applied::Replaced, "{second} over {first}");
                let held = read().unwrap();
                assert_eq!(of_others(&held, &theirs), theirs, "{second} over {first}");
                assert_eq!(compare(&held, other), [], "{second} over {first}");
                assert_eq!(apply(other).unwrap(), Applied::Unchanged, "{second} over {first}");
            });
        }
    }
}

fn inserted_rules(world: World) {
    let ruleset = world.allow(rules::everything());
    let nat = |held: Vec<String>| -> Vec<String> {
        let table = held.into_iter().skip_while(|line| line != "*nat").take_while(|line| line != "COMMIT");
        table.filter(|line| line.starts_with("-A PREROUTING")).collect()
    };
    let lines = world.fresh(|| {
        add_others();
        apply(&ruleset).unwrap();
        // Once more, over what is there.
        tools::iptables(Family::V4, "-t nat -D PREROUTING -p tcp -j ISTIO_INBOUND").unwrap_err();
        tools::iptables(Family::V4, "-t nat -D OUTPUT -j ISTIO_OUTPUT").unwrap();
        assert_eq!(apply(&ruleset).unwrap(), Applied::Replaced);
        nat(tools::save(Family::V4))
    });
    let at = |words: &str| lines.iter().position(|line| line.contains(words)).unwrap();
    assert!(at("-i vm1 -j ISTIO_REDIRECT") < at("-i vm0 -j ISTIO_REDIRECT"), "{lines:#?}");
    assert!(at("-i vm0 -j RETURN") < at("--dport 8080"), "inserted in front of others: {lines:#?}");
    assert!(at("-i eth1 -j RETURN") > at("-j MINE"), "appended behind others: {lines:#?}");
}

fn held_chain(world: World) {
    let (one, other) = (world.allow(rules::everything()), world.allow(rules::ordinary()));
    world.fresh(|| {
        apply(&one).unwrap();
        let mine = "*nat\n:MINE - [0:0]\n-A MINE -p tcp -j ISTIO_OUTPUT\n-A MINE -p udp -j ISTIO_OUTPUT_DNS\nCOMMIT\n";
        tools::restore(Family::V4, mine).unwrap();
        assert_eq!(apply(&other).unwrap(), Applied::Replaced);
        let held = read().unwrap();
        let chains = |name: &str| {
            let table = held.table(NfFamily::Ip, "nat").unwrap();
            table.chain(name).map(|chain| chain.rules.len())
        };
        assert_eq!(chains("MINE"), Some(2), "a rule of somebody else stays");
        assert_eq!(chains("ISTIO_OUTPUT_DNS"), Some(0), "what it jumps to is emptied");
        assert_ne!(chains("ISTIO_OUTPUT"), Some(0), "or filled anew");
    });
}

fn excluded_interfaces(world: World) {
    let ruleset = world.allow(rules::ordinary());
    let excluding = world.allow(rules::excluding("eth9"));
    let exclude = |name: &str| {
        for rule in [format!("PREROUTING -i {name}"), format!("OUTPUT -o {name}")] {
            tools::iptables(Family::V4, &format!("-t nat -A {rule} -j RETURN")).unwrap();
        }
    };
    world.fresh(|| {
        exclude("eth6");
        apply(&excluding).unwrap();
        exclude("eth7");
        tools::iptables(Family::V4, "-t nat -A OUTPUT -o eth8 -j RETURN").unwrap();
        assert_eq!(apply(&excluding).unwrap(), Applied::Unchanged, "rules of others are no difference");
        assert_eq!(apply(&ruleset).unwrap(), Applied::Replaced, "eth9 is excluded, and should not be");
        assert_eq!(apply(&ruleset).unwrap(), Applied::Unchanged);
        let save = tools::save(Family::V4).join("\n");
        assert_eq!(
            ["eth6", "eth7", "eth8", "eth9"].map(|name| save.matches(name).count()),
            [2, 2, 1, 0],
            "{save}"
        );
    });
    let guests = world.allow(rules::guests_alone("eth9"));
    world.fresh(|| {
        apply(&guests).unwrap();
        assert_eq!(apply(&ruleset).unwrap(), Applied::Replaced, "eth9 has no guest");
        let save = tools::save(Family::V4).join("\n");
        assert!(!save.contains("eth9"), "without a range to redirect nothing else names it: {save}");
    });
    world.fresh(|| {
        tools::restore(Family::V4, &text::restore(&excluding, Family::V4)).unwrap();
        assert_eq!(apply(&ruleset).unwrap(), Applied::Replaced);
        let save = tools::save(Family::V4).join("\n");
        assert!(!save.contains("eth9"), "what iptables-restore wrote for us is ours, too: {save}");
    });
}

fn older_versions(world: World) {
    let ruleset = world.allow(rules::ordinary());
    let old = "\
*filter
:ISTIO_WHATEVER - [0:0]
-A INPUT -j ISTIO_WHATEVER
-A FORWARD -g ISTIO_WHATEVER
COMMIT
*mangle
-A PREROUTING -p tcp -m mark --mark 1337 -j CONNMARK --save-mark
-A OUTPUT -o lo -p tcp -m mark --mark 1337 -j RETURN
-A OUTPUT ! -d 127.0.0.1/32 -o lo -p tcp -m owner --uid-owner 0 -j MARK --set-mark 1338
-A OUTPUT -p tcp -m connmark --mark 1337 -j CONNMARK --restore-mark
COMMIT
*nat
:ISTIO_OLD - [0:0]
:ISTIO_OUTPUT - [0:0]
-A OUTPUT -p tcp -j ISTIO_OUTPUT
-A ISTIO_OUTPUT -j ISTIO_OLD
-A ISTIO_OLD -j RETURN
COMMIT
";
    world.fresh(|| {
        tools::restore(Family::V4, old).unwrap();
        assert_eq!(apply(&ruleset).unwrap(), Applied::Replaced);
        let held = read().unwrap();
        assert_eq!(compare(&held, &ruleset), []);
        let left = held.counters().filter(|rule| *rule.table != "nat").count();
        assert_eq!(left, 0, "{:#?}", tools::save(Family::V4));
        assert!(!tools::save(Family::V4).iter().any(|line| line.contains("ISTIO_OLD")));
    });
}

/// Foreign nft tables.
const OTHER_TABLES: &str = "
table inet mine {
    set addresses {
        type ipv4_addr
        elements = { 192.0.2.1 }
    }
    chain in {
        type filter hook input priority 5; policy drop;
        ip saddr @addresses counter drop
    }
}
table ip nat {
    chain mine {
        type nat hook prerouting priority -150;
    }
}
";

fn policies(world: World) {
    let ruleset = world.allow(rules::everything());
    world.fresh(|| {
        tools::nft(OTHER_TABLES);
        tools::iptables(Family::V4, "-t mangle -P PREROUTING DROP").unwrap();
        apply(&ruleset).unwrap();
        apply(&world.allow(rules::ordinary())).unwrap();
        let listing = tools::listing().to_string();
        assert!(listing.contains("192.0.2.1") && listing.contains("\"mine\""), "{listing}");
        let save = tools::save(Family::V4).join("\n");
        assert!(save.contains(":PREROUTING DROP"), "{save}");
    });
}

fn another_hook(world: World) {
    let ruleset = world.allow(rules::ordinary());
    world.fresh(|| {
        tools::nft(
            "add table ip nat\nadd chain ip nat PREROUTING { type nat hook prerouting priority -90; }\n",
        );
        let before = read().unwrap();
        let Err(ApplyError::Plan(PlanError::WrongHook(place))) = apply(&ruleset) else { panic!() };
        assert_eq!(place.to_string(), "ip nat PREROUTING");
        assert_eq!(shape(&read().unwrap()), shape(&before));
    });
}

fn dormant(world: World) {
    let ruleset = world.allow(rules::ordinary());
    world.fresh(|| {
        tools::nft("add table ip6 nat { flags dormant; }\n");
        let Err(ApplyError::Plan(PlanError::Dormant { .. })) = apply(&ruleset) else { panic!() };
    });
}
