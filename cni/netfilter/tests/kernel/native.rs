// SPDX-License-Identifier: Apache-2.0
//! Rules of the native back end in the same namespace.

use netfilter::{Applied, Difference, apply, compare, has_rules_of_ours, legacy, read};
use redirect::ruleset::Family;

use crate::world::World;
use crate::{Case, Needs, rules, tools};

pub(crate) const CASES: &[Case] = &[
    Case("tables_of_the_native_back_end_are_replaced", Needs::Tools, replaced),
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
        let other = |difference: &&Difference| matches!(difference, Difference::OtherBackend { .. });
        assert_eq!(compare(&held, &ruleset).iter().filter(other).count(), 2);
        assert_eq!(apply(&ruleset).unwrap(), Applied::Replaced);
        assert_eq!(compare(&read().unwrap(), &ruleset), []);
        let listing = tools::listing().to_string();
        assert!(!listing.contains("istio-proxy"), "{listing}");
        assert!(listing.contains("istio-ambient-nat"), "ambient mode is not ours: {listing}");
    });
}

fn no_legacy_tables(world: World) {
    world.fresh(|| {
        for family in [Family::V4, Family::V6] {
            assert_eq!(legacy::tables(family).unwrap(), Vec::<String>::new());
        }
    });
}
