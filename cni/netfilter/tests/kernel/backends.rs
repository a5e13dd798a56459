// SPDX-License-Identifier: Apache-2.0
//! Namespaces that hold rules of more than one back end, and which one is taken.

use netfilter::address::{HELPER, Rtnetlink, list};
use netfilter::iptables::{self, Variant};
use netfilter::program::{self, Options, Programmed, Removed, Request};
use netfilter::{Applied, Backend, Choice, Reason, Wish, backend, has_rules_of_ours, legacy, read};
use redirect::config::Config;
use redirect::list::Selection;
use redirect::ruleset::{Family, Table};

use crate::lock::{hide, replace};
use crate::world::World;
use crate::{Case, Needs, rules, tools};
use rig::link::up;

pub(crate) const CASES: &[Case] = &[
    Case("a_namespace_ends_with_one_set_whatever_it_held", Needs::ToolsAndUsers, one_set),
    Case("legacy_rules_of_others_decide_and_empty_tables_do_not", Needs::ToolsAndUsers, auto),
    Case("removing_leaves_nothing_of_any_back_end", Needs::ToolsAndUsers, removing),
    Case("without_legacy_tools_the_error_says_what_to_do", Needs::ToolsAndUsers, no_tools),
    Case(
        "rules_that_cannot_be_removed_do_not_take_the_ground_from_new_ones",
        Needs::ToolsAndUsers,
        left_behind,
    ),
    Case("legacy_tools_that_fail_leave_it_to_nf_tables", Needs::ToolsAndUsers, failing_tool),
    Case("empty_legacy_chains_are_no_error_without_tools", Needs::ToolsAndUsers, empty_chain),
    Case("a_tool_that_lies_is_not_believed", Needs::ToolsAndUsers, lying),
    Case("a_probe_tells_what_the_node_has_and_leaves_nothing", Needs::ToolsAndUsers, probed),
    Case("sixteen_pods_at_once_through_legacy", Needs::ToolsAndUsers, sixteen),
];

pub(crate) fn config() -> Config {
    Config {
        inbound_ports_include: Some(Selection::All),
        outbound_ranges_include: Selection::All,
        ipv6: true,
        ..Config::default()
    }
}

pub(crate) fn full() -> Config {
    rules::with_everything(config())
}

pub(crate) fn do_program(config: Config, wish: Wish) -> Programmed {
    let options = Options::default();
    let request = Request { config, wish, recorded: None, options };
    program::program(&mut Rtnetlink::open().unwrap(), request).unwrap()
}

/// Back ends that hold rules of ours.
fn sets() -> (bool, bool, bool) {
    let held = read().unwrap();
    let native = held.tables.iter().any(|table| table.name.to_string().starts_with("istio-proxy"));
    let tables = netfilter::Snapshot {
        tables: held
            .tables
            .into_iter()
            .filter(|table| !table.name.to_string().starts_with("istio"))
            .collect(),
        ..held
    };
    (has_rules_of_ours(&tables), native, legacy::read().unwrap().hold_ours())
}

fn one_set(world: World) {
    for first in Backend::ALL {
        for second in Backend::ALL {
            world.fresh(|| {
                up(&[]);
                let done = do_program(full(), Wish::Only(first));
                assert_eq!((done.choice.backend, done.applied), (first, Applied::Created));
                let done = do_program(config(), Wish::Only(second));
                assert_eq!(
                    (done.choice.reason, done.applied),
                    (Reason::Asked, Applied::Replaced),
                    "{first} {second}"
                );
                let expected = match second {
                    Backend::NftCompat | Backend::IptablesNft => (true, false, false),
                    Backend::Nft => (false, true, false),
                    Backend::IptablesLegacy => (false, false, true),
                };
                assert_eq!(sets(), expected, "{second} after {first}");
                assert_eq!(
                    do_program(config(), Wish::Only(second)).applied,
                    Applied::Unchanged,
                    "{second} after {first}"
                );
            });
        }
    }
}

fn auto(world: World) {
    world.fresh(|| {
        up(&[]);
        tools::legacy(Family::V4, "-t nat -N MINE");
        assert_eq!(
            do_program(config(), Wish::Auto).choice,
            Choice { backend: Backend::NftCompat, reason: Reason::Usual },
            "chains without rules decide nothing"
        );
        tools::legacy(Family::V4, "-t filter -A INPUT -p tcp --dport 9 -j DROP");
        let done = do_program(config(), Wish::Auto);
        assert_eq!(done.choice, Choice { backend: Backend::IptablesLegacy, reason: Reason::LegacyRules });
        assert_eq!(sets(), (false, false, true));
        tools::legacy(Family::V4, "-t filter -F INPUT");
        let done = do_program(config(), Wish::Auto);
        assert_eq!(done.choice.backend, Backend::NftCompat);
        assert_eq!((done.applied, sets()), (Applied::Replaced, (true, false, false)));
    });
}

fn removing(world: World) {
    for backend in Backend::ALL {
        world.fresh(|| {
            up(&[]);
            tools::legacy_restore(Family::V4, "*nat\n-A OUTPUT -p gre -j ACCEPT\nCOMMIT\n");
            do_program(full(), Wish::Only(backend));
            let mut rtnetlink = Rtnetlink::open().unwrap();
            let remove =
                |rtnetlink: &mut Rtnetlink| program::remove(rtnetlink, &full(), &Options::default()).unwrap();
            assert_eq!(remove(&mut rtnetlink), Removed::Rules, "{backend}");
            assert_eq!(sets(), (false, false, false), "{backend}");
            assert_eq!(remove(&mut rtnetlink), Removed::Nothing, "{backend}");
            let left: Vec<_> =
                tools::legacy_save(Family::V4).into_iter().filter(|line| line.starts_with("-A")).collect();
            assert_eq!(left, ["-A OUTPUT -p gre -j ACCEPT"], "{backend}");
        });
    }
}

fn no_tools(world: World) {
    world.fresh(|| {
        up(&[]);
        tools::legacy(Family::V4, "-t nat -A OUTPUT -p gre -j ACCEPT");
        hide("xtables-legacy-multi");
        assert!(!iptables::is_installed(Variant::Legacy) && iptables::is_installed(Variant::Nft));
        let done = do_program(config(), Wish::Auto);
        let choice = Choice { backend: Backend::NftCompat, reason: Reason::LegacyRulesOutOfReach };
        assert_eq!((done.choice, done.applied), (choice, Applied::Created));
        let request = Request {
            config: config(),
            wish: Wish::Only(Backend::IptablesLegacy),
            recorded: None,
            options: Options::default(),
        };
        let refused = program::program(&mut Rtnetlink::open().unwrap(), request).unwrap_err().to_string();
        assert!(refused.contains("iptables-legacy-restore") && refused.contains("install"), "{refused}");
        assert!(refused.contains("nft-compat"), "{refused}");
    });
}

/// It is of variant legacy, and fails as where the kernel has no table `nat`.
const FAILING: &str = "#!/bin/sh
case \"$1\" in --version) echo 'iptables v1.8.9 (legacy)'; exit;; esac
echo \"iptables-legacy-restore: unable to initialize table 'nat'\" >&2
exit 1
";

fn failing_tool(world: World) {
    for (table, recorded) in
        [("filter", None), ("mangle", Some(Choice { backend: Backend::Nft, reason: Reason::NoNftCompat }))]
    {
        world.fresh(|| {
            up(&[]);
            tools::legacy(Family::V4, &format!("-t {table} -A OUTPUT -p tcp --dport 9901 -j RETURN"));
            replace("xtables-legacy-multi", FAILING);
            let request =
                || Request { config: full(), wish: Wish::Auto, recorded, options: Options::default() };
            let done = program::program(&mut Rtnetlink::open().unwrap(), request()).unwrap();
            let backend = recorded.map_or(Backend::NftCompat, |recorded| recorded.backend);
            let choice = Choice { backend, reason: Reason::LegacyRulesOutOfReach };
            assert_eq!((done.choice, done.applied), (choice, Applied::Created), "{table}");
            assert_eq!(sets(), (backend == Backend::NftCompat, backend == Backend::Nft, false), "{table}");
            let again = program::program(&mut Rtnetlink::open().unwrap(), request()).unwrap();
            assert_eq!(again.applied, Applied::Unchanged, "{table}");
            let wish = Wish::Only(Backend::IptablesLegacy);
            let asked = program::program(&mut Rtnetlink::open().unwrap(), Request { wish, ..request() });
            let error = asked.unwrap_err().to_string();
            assert!(error.contains("unable to initialize table 'nat'"), "{error}");
        });
    }
}

fn empty_chain(world: World) {
    world.fresh(|| {
        up(&[]);
        tools::legacy(Family::V4, "-t nat -N ISTIO_REDIRECT");
        hide("xtables-legacy-multi");
        let done = do_program(config(), Wish::Auto);
        assert_eq!((done.choice.backend, done.applied), (Backend::NftCompat, Applied::Created));
        assert_eq!(sets(), (true, false, false));
    });
}

/// Its `--version` is true; otherwise it reads its input and does nothing.
const LIAR: &str = "#!/bin/sh
case \"$1\" in --version) echo 'iptables v1.8.9 (VARIANT)'; exit;; esac
exec cat > /dev/null
";

fn lying(world: World) {
    for (backend, program, variant) in [
        (Backend::IptablesLegacy, "xtables-legacy-multi", "legacy"),
        (Backend::IptablesNft, "xtables-nft-multi", "nf_tables"),
    ] {
        world.fresh(|| {
            up(&[]);
            let request = || Request {
                config: full(),
                wish: Wish::Only(backend),
                recorded: None,
                options: Options::default(),
            };
            let mut rtnetlink = Rtnetlink::open().unwrap();
            replace(program, &LIAR.replace("VARIANT", variant));
            let error = program::program(&mut rtnetlink, request()).unwrap_err().to_string();
            assert!(error.contains("does not hold the rules"), "{error}");
            assert_eq!(sets(), (false, false, false));
        });
        world.fresh(|| {
            up(&[]);
            do_program(full(), Wish::Only(backend));
            replace(program, &LIAR.replace("VARIANT", variant));
            let removed = program::remove(&mut Rtnetlink::open().unwrap(), &full(), &Options::default());
            // Rules that iptables-nft wrote go without it.
            assert_eq!(removed.is_ok(), backend == Backend::IptablesNft, "{removed:?}");
        });
    }
}

fn left_behind(world: World) {
    world.fresh(|| {
        up(&[]);
        do_program(full(), Wish::Only(Backend::IptablesLegacy));
        Rtnetlink::open().unwrap().remove_loopback_helper().unwrap();
        hide("xtables-legacy-multi");
        let request = Request {
            config: full(),
            wish: Wish::Only(Backend::NftCompat),
            recorded: None,
            options: Options::default(),
        };
        let refused = program::program(&mut Rtnetlink::open().unwrap(), request).unwrap_err();
        assert!(refused.to_string().contains("iptables-legacy-restore"), "{refused}");
        assert_eq!(sets(), (true, false, true), "the new rules stand beside the old ones");
        let addresses = list().unwrap();
        assert!(addresses.iter().any(|address| address.ip == HELPER), "they stand on it: {addresses:?}");
        let options = Options::default();
        program::remove(&mut Rtnetlink::open().unwrap(), &full(), &options).unwrap_err();
        assert_eq!(sets(), (false, false, true), "what can be removed goes");
    });
}

fn probed(world: World) {
    world.fresh(|| {
        let before = read().unwrap();
        let facts = backend::probe().unwrap();
        assert_eq!(legacy::read().unwrap().tables, vec![], "nothing is made here");
        assert_eq!(read().unwrap(), before);
        assert!(facts.nf_tables && facts.nft_compat && facts.native && facts.nft_tools && facts.legacy_tools);
        // The kernel's legacy tables, by its own account of another namespace.
        let listed = world.fresh(|| {
            for table in Table::ALL {
                tools::legacy(Family::V4, &format!("-t {} -S", table.name()));
            }
            legacy::tables(Family::V4).unwrap()
        });
        assert_eq!(listed.iter().any(|name| name == "nat"), facts.legacy.nat);
        assert_eq!(backend::choose(Wish::Auto, &facts).unwrap().backend, Backend::NftCompat);
    });
}

fn sixteen(world: World) {
    std::thread::scope(|scope| {
        let pods: Vec<_> = (0..16)
            .map(|_| {
                scope.spawn(|| {
                    world.fresh(|| {
                        up(&[]);
                        do_program(config(), Wish::Only(Backend::IptablesLegacy)).applied
                    })
                })
            })
            .collect();
        for pod in pods {
            assert_eq!(pod.join().unwrap(), Applied::Created);
        }
    });
}
