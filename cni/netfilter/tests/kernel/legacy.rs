// SPDX-License-Identifier: Apache-2.0
//! Rules through the iptables tools, and what the kernel then holds.

use netfilter::address::Rtnetlink;
use netfilter::iptables::{self, IptablesError, Problem, Variant};
use netfilter::program::{self, Options};
use netfilter::{Applied, Backend, Wish, compare, legacy, read};
use redirect::config::Dns;
use redirect::found::{FoundFamily, Policy};
use redirect::generate::ruleset;
use redirect::ruleset::{Family, Id, Match, Owner, Ruleset, Sense};
use redirect::text;

use crate::backends::{config, do_program, full};
use crate::world::World;
use crate::{Case, Needs, random, rules, tools};
use rig::link::up;

pub(crate) const CASES: &[Case] = &[
    Case("what_legacy_iptables_stored_is_read_as_what_was_wanted", Needs::ToolsAndUsers, read_back),
    Case("reading_legacy_tables_makes_none", Needs::Tools, makes_none),
    Case("legacy_rules_are_replaced_and_those_of_others_stay", Needs::ToolsAndUsers, replaced),
    Case("half_of_a_set_is_replaced_through_either_variant", Needs::ToolsAndUsers, half),
    Case("iptables_nft_leaves_what_nft_compat_would", Needs::ToolsAndUsers, same_as_ours),
    Case("rules_of_former_releases_are_replaced_and_removed_whole", Needs::ToolsAndUsers, former),
    Case("rails_are_gone_after_a_reconcile_and_stale_ones_too", Needs::ToolsAndUsers, rails),
];

pub(crate) fn through(variant: Variant, ruleset: &Ruleset) -> Applied {
    let done = iptables::apply(variant, ruleset, &Options::default()).unwrap();
    assert_eq!(done.unsandboxed, None);
    done.applied
}

fn read_back(world: World) {
    let edges = rules::edges().into_iter().map(|ruleset| ("edges", ruleset));
    for (name, ruleset) in rules::all().into_iter().chain(edges) {
        world.fresh(|| {
            for family in [Family::V4, Family::V6] {
                tools::legacy_restore(family, &text::restore(&ruleset, family));
            }
            assert_eq!(through(Variant::Legacy, &ruleset), Applied::Unchanged, "{name}");
            let held = legacy::read().unwrap();
            assert!(held.hold_ours(), "{name}");
        });
    }
}

fn makes_none(world: World) {
    world.fresh(|| {
        assert_eq!(legacy::read().unwrap().tables, vec![]);
        assert_eq!(legacy::tables(Family::V4).unwrap(), Vec::<String>::new());
        tools::legacy(Family::V4, "-t filter -P OUTPUT DROP");
        tools::legacy(Family::V4, "-t nat -N MINE");
        let held = legacy::read().unwrap();
        let filter = held.find(FoundFamily::Legacy(Family::V4), "filter").unwrap();
        assert_eq!(filter.find("OUTPUT").unwrap().entry.unwrap().policy, Policy::Drop);
        let nat = held.find(FoundFamily::Legacy(Family::V4), "nat").unwrap();
        assert_eq!(nat.find("MINE").unwrap().rules, vec![]);
        assert!(!legacy::ours::has_rules_of_others(&held), "neither policies nor chains are rules");
        assert_eq!(legacy::tables(Family::V6).unwrap(), Vec::<String>::new());
        tools::legacy(Family::V4, "-t nat -A MINE -p tcp -m time --timestart 01:00 -j ACCEPT");
        assert!(legacy::ours::has_rules_of_others(&legacy::read().unwrap()));
    });
}

const OTHERS: &str = "*nat
:MINE - [0:0]
-A PREROUTING -p tcp --dport 8080 -j RETURN
-A OUTPUT -d 192.0.2.0/24 -p udp -j ACCEPT
-A MINE -m ttl --ttl-eq 3 -j ISTIO_OUTPUT
-A MINE -j RETURN
-A OUTPUT -p gre -j MINE
COMMIT
";

fn replaced(world: World) {
    let (one, other) = (ruleset(&full()).unwrap(), ruleset(&config()).unwrap());
    world.fresh(|| {
        assert_eq!(through(Variant::Legacy, &one), Applied::Created);
        tools::legacy_restore(Family::V4, OTHERS);
        tools::legacy(Family::V4, "-t nat -I OUTPUT 1 -p gre -j ACCEPT");
        assert_eq!(through(Variant::Legacy, &one), Applied::Unchanged, "others do not matter");
        assert_eq!(through(Variant::Legacy, &other), Applied::Replaced);
        assert_eq!(through(Variant::Legacy, &other), Applied::Unchanged);
        let save = tools::legacy_save(Family::V4);
        let at = |line: &str| {
            save.iter().position(|found| found == line).unwrap_or_else(|| panic!("{line}: {save:#?}"))
        };
        assert!(at("-A OUTPUT -p gre -j ACCEPT") < at("-A OUTPUT -d 192.0.2.0/24 -p udp -j ACCEPT"));
        assert!(at("-A OUTPUT -d 192.0.2.0/24 -p udp -j ACCEPT") < at("-A OUTPUT -j ISTIO_OUTPUT"));
        assert!(
            at("-A PREROUTING -p tcp -m tcp --dport 8080 -j RETURN")
                < at("-A PREROUTING -p tcp -j ISTIO_INBOUND")
        );
        at("-A MINE -m ttl --ttl-eq 3 -j ISTIO_OUTPUT");
        assert!(!save.iter().any(|line| line.contains("vm") || line.contains("ISTIO_TPROXY")), "{save:#?}");
    });
}

fn half(world: World) {
    let wanted = ruleset(&full()).unwrap();
    for variant in [Variant::Legacy, Variant::Nft] {
        world.fresh(|| {
            through(variant, &wanted);
            let damage =
                ["-t nat -D OUTPUT -j ISTIO_OUTPUT", "-t nat -F ISTIO_REDIRECT", "-t mangle -N ISTIO_EXTRA"];
            for one in damage {
                match variant {
                    Variant::Legacy => tools::legacy(Family::V4, one),
                    Variant::Nft => drop(tools::iptables(Family::V4, one).unwrap()),
                }
                assert_eq!(through(variant, &wanted), Applied::Replaced, "{variant} {one}");
                assert_eq!(through(variant, &wanted), Applied::Unchanged, "{variant} {one}");
            }
        });
    }
}

fn same_as_ours(world: World) {
    for (name, ruleset) in rules::all() {
        world.fresh(|| {
            assert_eq!(through(Variant::Nft, &ruleset), Applied::Created, "{name}");
            assert_eq!(compare(&read().unwrap(), &ruleset), [], "{name}");
            assert_eq!(netfilter::apply(&ruleset).unwrap(), Applied::Unchanged, "{name}");
            assert_eq!(through(Variant::Nft, &ruleset), Applied::Unchanged, "{name}");
        });
    }
}

fn rails(world: World) {
    let (one, other) = (ruleset(&config()).unwrap(), ruleset(&full()).unwrap());
    let options = Options { reconcile: true, ..Options::default() };
    let save = |variant| match variant {
        Variant::Legacy => tools::legacy_save(Family::V4),
        Variant::Nft => tools::save(Family::V4),
    };
    for variant in [Variant::Legacy, Variant::Nft] {
        world.fresh(|| {
            iptables::apply(variant, &one, &options).unwrap();
            assert!(!save(variant).iter().any(|line| line == "*filter"), "nothing to guard");
            // As one that was killed would leave them.
            let stale = "*filter\n:ISTIO_GUARDRAILS - [0:0]\n-A ISTIO_GUARDRAILS -p tcp -j DROP\n-I OUTPUT 1 -j ISTIO_GUARDRAILS\nCOMMIT\n";
            match variant {
                Variant::Legacy => tools::legacy_restore(Family::V4, stale),
                Variant::Nft => tools::restore(Family::V4, stale).unwrap(),
            }
            iptables::apply(variant, &other, &options).unwrap();
            let held = save(variant).join("\n");
            assert!(held.contains("*filter") && !held.contains("GUARDRAILS"), "{held}");
            assert_eq!(iptables::apply(variant, &other, &options).unwrap().applied, Applied::Unchanged);
            let for_owner = |id| {
                let mut rules = one.clone();
                let owner = Match::Owner(Sense::Is, Owner::Gid(id));
                rules.rules.iter_mut().for_each(|rule| rule.matches.push(owner.clone()));
                iptables::apply(variant, &rules, &options).unwrap_err()
            };
            // The tool does not know the name: nothing is touched.
            let before = save(variant);
            let error = for_owner(Id::Name("nobody-has-this-name".to_owned()));
            assert!(matches!(error, IptablesError::Failed { problem: Problem::Parameter, .. }), "{error}");
            assert_eq!(save(variant), before);
            // The kernel does not know owners of packets that come in: the rails, which are up by then, come down.
            let error = for_owner(Id::Number(0));
            assert!(matches!(error, IptablesError::Failed { .. }), "{error}");
            assert!(!save(variant).join("\n").contains("GUARDRAILS"));
        });
    }
}

/// Rules of a family with their tables, as the tools of both variants list them. Tables are listed in the order in which they were made.
fn listed(family: Family) -> Vec<(String, String)> {
    let (mut rules, mut table) = (Vec::new(), String::new());
    for line in tools::save(family).into_iter().chain(tools::legacy_save(family)) {
        match line.strip_prefix('*') {
            Some(name) => table = name.to_owned(),
            None if line.starts_with("-A") => rules.push((table.clone(), line)),
            None => {}
        }
    }
    rules.sort_by(|(one, _), (other, _)| one.cmp(other));
    rules
}

const FOREIGN: &str = "-A OUTPUT -p udp -m udp --dport 53 -j REDIRECT --to-ports 5353";

fn former(world: World) {
    let all: Vec<_> = random::former_configurations(24).collect();
    assert!(all.iter().filter(|(config, _)| config.dns != Dns::Off).count() > 8);
    for (index, (config, former)) in all.iter().enumerate() {
        for variant in [Variant::Nft, Variant::Legacy] {
            let put = || {
                up(&[]);
                for family in former.families() {
                    let text = format!("{}*nat\n{FOREIGN}\nCOMMIT\n", text::restore(former, family));
                    match variant {
                        Variant::Nft => tools::restore(family, &text).unwrap(),
                        Variant::Legacy => tools::legacy_restore(family, &text),
                    }
                }
            };
            let families = [Family::V4, Family::V6];
            let foreign = former.families().count();
            world.fresh(|| {
                put();
                let mut rtnetlink = Rtnetlink::open().unwrap();
                program::remove(&mut rtnetlink, config, &Options::default()).unwrap();
                let left: Vec<_> = families.into_iter().flat_map(listed).collect();
                assert_eq!(
                    left,
                    vec![("nat".to_owned(), FOREIGN.to_owned()); foreign],
                    "{index} {variant}: {config:?}"
                );
            });
            let next = &all[(index + 1) % all.len()].0;
            let backend = match variant {
                Variant::Nft => Backend::NftCompat,
                Variant::Legacy => Backend::IptablesLegacy,
            };
            let fresh = world.fresh(|| {
                up(&[]);
                do_program(next.clone(), Wish::Only(backend));
                families.map(listed)
            });
            world.fresh(|| {
                put();
                assert_eq!(do_program(next.clone(), Wish::Only(backend)).applied, Applied::Replaced);
                let mut ours = families.map(listed);
                ours.iter_mut().for_each(|lines| lines.retain(|(_, line)| line != FOREIGN));
                assert_eq!(ours, fresh, "{index} {variant}: {config:?}");
            });
        }
    }
}
