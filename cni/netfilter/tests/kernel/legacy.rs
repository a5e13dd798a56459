// SPDX-License-Identifier: Apache-2.0
//! Back ends that use the iptables tools, and namespaces that hold rules of more than one.

use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use netfilter::address::Rtnetlink;
use netfilter::iptables::{self, IptablesError, Problem, Variant};
use netfilter::legacy::{self, Policy};
use netfilter::program::{self, Options, Programmed, Removed, Request, Surroundings};
use netfilter::{Applied, Backend, Choice, Reason, Wish, backend, compare, has_rules_of_ours, read};
use nix::fcntl::{Flock, FlockArg};
use nix::mount::{MsFlags, mount};
use redirect::config::{Config, Dns, Mode};
use redirect::generate::ruleset;
use redirect::list::Selection;
use redirect::ruleset::{Family, Id, Match, Owner, Ruleset, Sense, Table};
use redirect::text;

use crate::world::World;
use crate::{Case, Needs, rules, tools};

pub(crate) const CASES: &[Case] = &[
    Case("what_legacy_iptables_stored_is_read_as_what_was_wanted", Needs::ToolsAndUsers, read_back),
    Case("reading_legacy_tables_makes_none", Needs::Tools, makes_none),
    Case("legacy_rules_are_replaced_and_those_of_others_stay", Needs::ToolsAndUsers, replaced),
    Case("half_of_a_set_is_replaced_through_either_variant", Needs::ToolsAndUsers, half),
    Case("iptables_nft_leaves_what_nft_compat_would", Needs::ToolsAndUsers, same_as_ours),
    Case("rails_are_gone_after_a_reconcile_and_stale_ones_too", Needs::ToolsAndUsers, rails),
    Case("a_namespace_ends_with_one_set_whatever_it_held", Needs::ToolsAndUsers, one_set),
    Case("legacy_rules_of_others_decide_and_empty_tables_do_not", Needs::ToolsAndUsers, auto),
    Case("removing_leaves_nothing_of_any_back_end", Needs::ToolsAndUsers, removing),
    Case("a_held_lock_of_the_node_stops_nobody", Needs::ToolsAndUsers, node_lock),
    Case("a_held_lock_of_the_pod_stops_legacy_in_time_and_nobody_else", Needs::ToolsAndUsers, pod_lock),
    Case("without_legacy_tools_the_error_says_what_to_do", Needs::ToolsAndUsers, no_tools),
    Case("a_probe_tells_what_the_node_has_and_leaves_nothing", Needs::ToolsAndUsers, probed),
    Case("old_tools_lock_a_file_of_the_pod_too", Needs::ToolsAndUsers, old_tools),
    Case("sixteen_pods_at_once_through_legacy", Needs::ToolsAndUsers, sixteen),
];

fn config() -> Config {
    Config {
        inbound_ports_include: Some(Selection::All),
        outbound_ranges_include: Selection::All,
        ipv6: true,
        ..Config::default()
    }
}

fn full() -> Config {
    Config {
        mode: Mode::Tproxy,
        dns: Dns::All,
        drop_invalid: true,
        exclude_interfaces: vec!["eth1".into()],
        virtual_interfaces: vec!["vm0".into(), "vm1".into()],
        ..config()
    }
}

fn do_program(config: Config, wish: Wish) -> Programmed {
    let options = Options::default();
    let request = Request { config, wish, recorded: None, options };
    program::program(&mut Rtnetlink::open().unwrap(), request).unwrap()
}

fn through(variant: Variant, ruleset: &Ruleset) -> Applied {
    let done = iptables::apply(variant, ruleset, &Options::default()).unwrap();
    assert_eq!(done.unsandboxed, None);
    done.applied
}

fn lo_up() {
    let done = std::process::Command::new("ip").args(["link", "set", "lo", "up"]).status().unwrap();
    assert!(done.success());
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
            assert!(legacy::ours::has_rules_of_ours(&held), "{name}");
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
        let filter = held.table(Family::V4, Table::Filter).unwrap();
        assert_eq!(filter.chain("OUTPUT").unwrap().policy, Some(Policy::Drop));
        let nat = held.table(Family::V4, Table::Nat).unwrap();
        assert_eq!(nat.chain("MINE").unwrap().rules, vec![]);
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

/// Which back ends hold rules of ours.
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
    (has_rules_of_ours(&tables), native, legacy::ours::has_rules_of_ours(&legacy::read().unwrap()))
}

fn one_set(world: World) {
    for first in Backend::ALL {
        for second in Backend::ALL {
            world.fresh(|| {
                lo_up();
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
        lo_up();
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
            lo_up();
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

/// Hides the node's `/run` from this thread, and holds the lock in the new one.
fn hold_node_lock() -> Flock<std::fs::File> {
    private_mounts();
    let none: Option<&str> = None;
    mount(Some("none"), "/run", Some("tmpfs"), MsFlags::empty(), none).unwrap();
    let file = std::fs::File::create("/run/xtables.lock").unwrap();
    Flock::lock(file, FlockArg::LockExclusiveNonblock).unwrap()
}

fn node_lock(world: World) {
    for backend in Backend::ALL {
        world.fresh(|| {
            lo_up();
            let _held = hold_node_lock();
            let start = Instant::now();
            assert_eq!(do_program(config(), Wish::Only(backend)).applied, Applied::Created);
            assert!(start.elapsed() < Duration::from_secs(1), "{backend}: {:?}", start.elapsed());
        });
    }
}

/// The tools as if they were of a version that cannot be told which file to lock.
const OLD: &str = "#!/bin/sh
case \"$1\" in --version) echo 'iptables v1.8.4 (legacy)'; exit;; esac
unset XTABLES_LOCKFILE
exec REAL \"${0##*/}\" \"$@\"
";

fn old_tools(world: World) {
    let wanted = ruleset(&config()).unwrap();
    world.fresh(|| {
        let _held = hold_node_lock();
        let tool = tool("xtables-legacy-multi").canonicalize().unwrap();
        std::fs::copy(&tool, "/run/real").unwrap();
        std::fs::write("/run/old", OLD.replace("REAL", "/run/real")).unwrap();
        std::fs::set_permissions("/run/old", std::fs::Permissions::from_mode(0o755)).unwrap();
        let none: Option<&str> = None;
        mount(Some("/run/old"), &tool, none, MsFlags::MS_BIND, none).unwrap();
        let options = Options { deadline: Duration::from_millis(1800), ..Options::default() };
        let naked = Options { surroundings: Surroundings::Container, ..options };
        let error = iptables::apply(Variant::Legacy, &wanted, &naked).unwrap_err();
        assert!(matches!(error, IptablesError::Locked { lock: "/run/xtables.lock", .. }), "{error}");
        assert_eq!(through(Variant::Legacy, &wanted), Applied::Created, "another file is mounted over it");
    });
}

fn pod_lock(world: World) {
    let wanted = ruleset(&config()).unwrap();
    world.fresh(|| {
        lo_up();
        let file = std::fs::File::open("/proc/thread-self/ns/net").unwrap();
        let held = Flock::lock(file, FlockArg::LockExclusiveNonblock).unwrap();
        for backend in [Backend::NftCompat, Backend::Nft, Backend::IptablesNft] {
            do_program(config(), Wish::Only(backend));
        }
        for surroundings in [Surroundings::Node, Surroundings::Container] {
            let options =
                Options { surroundings, deadline: Duration::from_millis(1800), ..Options::default() };
            let start = Instant::now();
            let error = iptables::apply(Variant::Legacy, &wanted, &options).unwrap_err();
            assert!(start.elapsed() < Duration::from_millis(2500), "{:?}", start.elapsed());
            assert!(error.is_retriable());
            let IptablesError::Locked { lock, holder, .. } = error else { panic!("{error}") };
            assert_eq!((lock, holder), ("/proc/self/ns/net", Some(std::process::id())));
        }
        drop(held);
        assert_eq!(through(Variant::Legacy, &wanted), Applied::Created);
    });
}

fn sixteen(world: World) {
    std::thread::scope(|scope| {
        let pods: Vec<_> = (0..16)
            .map(|_| {
                scope.spawn(|| {
                    world.fresh(|| {
                        lo_up();
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

/// What this thread mounts from here on, nobody else sees.
fn private_mounts() {
    nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNS).unwrap();
    let none: Option<&str> = None;
    mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none).unwrap();
}

/// A program of `PATH`.
fn tool(name: &str) -> PathBuf {
    let path = std::env::var_os("PATH").unwrap();
    std::env::split_paths(&path).map(|directory| directory.join(name)).find(|file| file.exists()).unwrap()
}

/// Hides a tool from this thread.
fn hide(name: &str) {
    private_mounts();
    let none: Option<&str> = None;
    mount(Some("/dev/null"), &tool(name), none, MsFlags::MS_BIND, none).unwrap();
}

fn no_tools(world: World) {
    world.fresh(|| {
        lo_up();
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

fn probed(world: World) {
    world.fresh(|| {
        let before = read().unwrap();
        let facts = backend::probe().unwrap();
        assert_eq!(legacy::read().unwrap().tables, vec![], "nothing is made here");
        assert_eq!(read().unwrap(), before);
        assert!(facts.nf_tables && facts.nft_compat && facts.native && facts.nft_tools && facts.legacy_tools);
        // What a kernel has of legacy iptables, by its own account of another namespace.
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
