// SPDX-License-Identifier: Apache-2.0
//! Policy routes: added, found, taken back, next to those of others.

use netfilter::address::Rtnetlink;
use netfilter::route::{PolicyRoutes, RouteError};
use redirect::ruleset::Family;
use rtnetlink::packet_route::route::RouteType;
use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities};

use crate::policy::{self, ByMark, PLAIN, add_default};
use crate::world::World;
use crate::{Case, Needs};
use rig::link::up;

pub(crate) const CASES: &[Case] = &[
    Case("policy_routes_are_added_once_and_taken_back", Needs::Namespace, added_once),
    Case("custom_marks_and_tables_are_used", Needs::Namespace, custom),
    Case("what_is_there_of_the_policy_routes_is_completed", Needs::Namespace, partial),
    Case("policy_rules_of_others_stay", Needs::Namespace, others_stay),
    Case("an_occupied_routing_table_is_told_and_nothing_is_left", Needs::Namespace, occupied),
    Case("policy_routes_that_would_catch_everything_are_refused", Needs::Namespace, reserved),
    Case("policy_routes_set_lo_up_for_ipv6", Needs::Namespace, loopback_down),
    Case("policy_routes_without_ipv6_are_told", Needs::Namespace, ipv6_disabled),
    Case("policy_routes_without_privilege_are_told", Needs::Namespace, without_privilege),
    Case("policy_routes_are_removed_whoever_added_them", Needs::Namespace, removed),
];

const ORDINARY: PolicyRoutes = PolicyRoutes { mark: 1337, table: 133, ipv6: true };

const RULE: &str = "32765: from all fwmark 0x539 lookup 133";
const ROUTE: &str = "local default dev lo table 133 ";

/// The policy rules of both families, and the routes that they could lead to.
fn listing() -> Vec<String> {
    // The kernel's own entries come late.
    let mut lines = policy::listing();
    lines.retain(|line| line.contains("lookup") || line.contains(" default "));
    lines
}

/// Number of listed lines with this text.
fn count(text: &str) -> usize {
    listing().iter().filter(|line| line.contains(text)).count()
}

fn added_once(world: World) {
    world.fresh(|| {
        up(&[]);
        let before = listing();
        let mut rtnetlink = Rtnetlink::open().unwrap();
        let added = rtnetlink.add_policy_routes(ORDINARY).unwrap();
        assert!(!added.is_empty());
        assert_eq!((count(RULE), count(ROUTE)), (2, 2), "{:?}", listing());
        let after = listing();
        assert!(rtnetlink.add_policy_routes(ORDINARY).unwrap().is_empty());
        let v4 = PolicyRoutes { ipv6: false, ..ORDINARY };
        let nothing = rtnetlink.add_policy_routes(v4).unwrap();
        rtnetlink.take_back_routes(&nothing).unwrap();
        assert_eq!(listing(), after);
        rtnetlink.take_back_routes(&added).unwrap();
        assert_eq!(listing(), before);
        rtnetlink.take_back_routes(&added).unwrap();
        rtnetlink.add_policy_routes(v4).unwrap();
        assert_eq!((count(RULE), count(ROUTE)), (1, 1), "{:?}", listing());
    });
}

fn custom(world: World) {
    world.fresh(|| {
        up(&[]);
        let wanted = PolicyRoutes { mark: 0x8000_0001, table: 70_000, ipv6: false };
        let mut rtnetlink = Rtnetlink::open().unwrap();
        rtnetlink.add_policy_routes(wanted).unwrap();
        assert_eq!(count("fwmark 0x80000001 lookup 70000"), 1, "{:?}", listing());
        assert_eq!(count("local default dev lo table 70000 "), 1, "{:?}", listing());
        assert!(rtnetlink.add_policy_routes(wanted).unwrap().is_empty());
    });
}

fn partial(world: World) {
    let parts: [(&str, fn()); 4] = [
        ("a rule", || PLAIN.add()),
        ("a rule of IPv6", || ByMark { family: Family::V6, priority: Some(7), ..PLAIN }.add()),
        ("a route", || add_default(Family::V4, RouteType::Local)),
        ("a route of IPv6", || add_default(Family::V6, RouteType::Local)),
    ];
    for (there, add) in parts {
        world.fresh(|| {
            up(&[]);
            add();
            let before = listing();
            let mut rtnetlink = Rtnetlink::open().unwrap();
            let added = rtnetlink.add_policy_routes(ORDINARY).unwrap();
            let (rules, routes) = (count("fwmark 0x539 lookup 133"), count(ROUTE));
            assert_eq!((rules, routes), (2, 2), "{there}: {:?}", listing());
            rtnetlink.take_back_routes(&added).unwrap();
            assert_eq!(listing(), before, "{there}: only what was added");
        });
    }
}

fn others_stay(world: World) {
    const BEFORE_THEIRS: &str = "99: from all fwmark 0x539 lookup 133";
    let at_100 = ByMark { priority: Some(100), ..PLAIN };
    for (theirs, ours) in [
        (ByMark { table: 134, ..at_100 }, BEFORE_THEIRS),
        (ByMark { mask: Some(0xff), ..at_100 }, BEFORE_THEIRS),
        (ByMark { priority: Some(40000), ..PLAIN }, RULE),
        (ByMark { from_lo: true, ..at_100 }, BEFORE_THEIRS),
        (ByMark { not: true, ..at_100 }, BEFORE_THEIRS),
    ] {
        world.fresh(|| {
            up(&[]);
            theirs.add();
            let before = listing();
            let mut rtnetlink = Rtnetlink::open().unwrap();
            let wanted = PolicyRoutes { ipv6: false, ..ORDINARY };
            let added = rtnetlink.add_policy_routes(wanted).unwrap();
            assert_eq!(count(ours), 1, "beside {theirs:?}: {:?}", listing());
            assert!(before.iter().all(|line| listing().contains(line)), "{theirs:?}: {:?}", listing());
            assert!(rtnetlink.add_policy_routes(wanted).unwrap().is_empty(), "{theirs:?}");
            rtnetlink.take_back_routes(&added).unwrap();
            assert_eq!(listing(), before, "{theirs:?}");
        });
    }
}

fn occupied(world: World) {
    world.fresh(|| {
        up(&[]);
        add_default(Family::V6, RouteType::Unreachable);
        let before = listing();
        let refused = Rtnetlink::open().unwrap().add_policy_routes(ORDINARY).unwrap_err();
        assert!(matches!(refused, RouteError::Occupied(_)), "{refused}");
        assert!(
            refused.to_string().starts_with("ip -6 route add local ::/0 dev lo table 133: "),
            "{refused}"
        );
        assert_eq!(listing(), before, "what was added before is gone again");
    });
}

fn reserved(world: World) {
    world.fresh(|| {
        let mut rtnetlink = Rtnetlink::open().unwrap();
        for table in [0, 253, 254, 255] {
            let refused = rtnetlink.add_policy_routes(PolicyRoutes { table, ..ORDINARY });
            assert!(
                matches!(refused, Err(RouteError::ReservedTable(reserved)) if reserved == table),
                "{refused:?}"
            );
        }
        let refused = rtnetlink.add_policy_routes(PolicyRoutes { mark: 0, ..ORDINARY });
        assert!(matches!(refused, Err(RouteError::NoMark)), "{refused:?}");
    });
}

fn loopback_down(world: World) {
    world.fresh(|| {
        Rtnetlink::open().unwrap().add_policy_routes(ORDINARY).unwrap();
        assert_eq!(count(ROUTE), 2, "{:?}", listing());
    });
}

fn ipv6_disabled(world: World) {
    world.fresh(|| {
        up(&[]);
        std::fs::write("/proc/sys/net/ipv6/conf/lo/disable_ipv6", "1").unwrap();
        let before = listing();
        let refused = Rtnetlink::open().unwrap().add_policy_routes(ORDINARY).unwrap_err();
        assert!(matches!(refused, RouteError::Ipv6Disabled(_)), "{refused}");
        assert_eq!(listing(), before);
    });
}

fn without_privilege(world: World) {
    world.fresh(|| {
        // Of this thread alone.
        let none = CapabilitySet::empty();
        let sets = CapabilitySets { effective: none, permitted: none, inheritable: none };
        set_capabilities(None, sets).unwrap();
        let refused = Rtnetlink::open().unwrap().add_policy_routes(ORDINARY).unwrap_err();
        assert!(matches!(refused, RouteError::Permission(_)), "{refused}");
    });
}

fn removed(world: World) {
    world.fresh(|| {
        up(&[]);
        let before = listing();
        PLAIN.add();
        ByMark { priority: Some(9), ..PLAIN }.add();
        add_default(Family::V4, RouteType::Local);
        let mut rtnetlink = Rtnetlink::open().unwrap();
        rtnetlink.remove_policy_routes(ORDINARY).unwrap();
        assert_eq!(listing(), before);
        rtnetlink.remove_policy_routes(ORDINARY).unwrap();
    });
}
