// SPDX-License-Identifier: Apache-2.0
//! Plans where the wish is another one than before: another name, another mode, another installer. Nothing of the former one may stay where
//! a runtime reads it.

use std::collections::BTreeSet;

use serde_json::json;

use super::copy::OWNED;
use super::leave;
use super::plan::{DesiredConflist, Step};
use super::plan_tests::{CALICO, chain, directory, entry, installed, kinds, names, settle, take};
use super::scan::Content;
use crate::settings::ChainSettings;

/// The primary's list with an outdated entry of ours.
const FORMER: &str = r#"{"name":"k8s-pod-network","cniVersion":"1.0.0","plugins":[{"type":"calico"},{"type":"portmap"},{"type":"istio-cni","exclude_namespaces":["old"]}]}"#;

#[test]
fn lists_of_our_own_under_former_names_go_and_are_never_taken_for_the_primarys() {
    let changed = CALICO.replace(r#""calico""#, r#""calico","mtu":2"#);
    let named = |name: &str| ChainSettings { owned: true, owned_name: name.to_owned(), ..chain() };
    for (former, name) in [("02.conflist", "01.conflist"), ("01.conflist", "02.conflist")] {
        let (mut now, _) = installed(&named(former), &[("10.conflist", CALICO)]);
        now.files.insert("10.conflist".to_owned(), Content::Text(changed.clone()));
        assert_eq!(settle(&named(name), &mut now, &BTreeSet::new()), Ok(name.to_owned()));
        assert_eq!(names(&now), [name, "10.conflist"]);
        assert!(now.text(name).unwrap().contains(r#""mtu":2"#), "made of the primary's, not of {former}");
    }
    for (name, chain, left) in [
        ("01.conflist", chain(), vec!["10.conflist"]),
        (
            "01.conflist",
            ChainSettings { chained: false, ..chain() },
            vec!["10.conflist", "YYY-istio-cni.conf"],
        ),
        (OWNED, ChainSettings { chained: false, ..chain() }, vec!["10.conflist", "YYY-istio-cni.conf"]),
    ] {
        let (mut now, _) = installed(&named(name), &[("10.conflist", CALICO)]);
        assert!(settle(&chain, &mut now, &BTreeSet::new()).is_ok());
        assert_eq!(names(&now), left);
    }
}

#[test]
fn a_list_of_our_own_is_removed_with_its_owners_in_another_mode_and_known_whatever_its_name_is() {
    let named = ChainSettings { owned: true, owned_name: "01.conflist".to_owned(), ..chain() };
    let (owned, _) = installed(&named, &[("10.conflist", CALICO)]);
    for chain in [chain(), ChainSettings { chained: false, ..chain() }] {
        let mut now = owned.clone();
        now.files.remove("10.conflist");
        let _ = settle(&chain, &mut now, &BTreeSet::new());
        assert!(now.is_gone("01.conflist"), "{now:?}");
    }
    let mut now = owned;
    for step in leave::steps(&chain(), &now) {
        take(&mut now, &step);
    }
    assert_eq!(now, directory(&[("10.conflist", CALICO)]), "whoever leaves need not know how it was called");
}

#[test]
fn another_installers_list_of_the_usual_name_goes_only_where_there_is_another_network() {
    let upstreams = CALICO.replace("]}", r#",{"type":"istio-cni"}]}"#);
    let left = |files: &[(&str, &str)]| {
        let mut now = directory(files);
        for step in leave::steps(&chain(), &now) {
            take(&mut now, &step);
        }
        now
    };
    let both = left(&[(OWNED, &upstreams), ("10.conflist", CALICO)]);
    assert_eq!(both, directory(&[("10.conflist", CALICO)]));
    assert_eq!(left(&[(OWNED, &upstreams)]), directory(&[(OWNED, CALICO)]));
}

#[test]
fn what_runtimes_read_before_our_file_says_what_ours_says() {
    let named = ChainSettings { conf_name: "20-b.conflist".to_owned(), ..chain() };
    let multus = r#"{"name":"m","type":"multus","clusterNetwork":"/etc/cni/net.d/20-b.conflist"}"#;
    for first in [None, Some(("00-multus.conf", multus))] {
        let files = [("10-a.conflist", FORMER), ("20-b.conflist", CALICO), ("30-c.conflist", FORMER)];
        let files: Vec<_> = first.into_iter().chain(files).collect();
        let (now, then) = installed(&named, &files);
        assert_eq!(then, Ok("20-b.conflist".to_owned()));
        for name in ["10-a.conflist", "20-b.conflist"] {
            assert_eq!(kinds(&now, name), ["calico", "portmap", "istio-cni"]);
            assert!(!now.text(name).unwrap().contains("old"), "{name}");
        }
        assert_eq!(now.text("30-c.conflist"), Some(FORMER), "no runtime gets there");
    }
}

#[test]
fn a_chained_entry_goes_once_a_file_of_our_own_stands() {
    let alone = ChainSettings { chained: false, ..chain() };
    let owned = ChainSettings { owned: true, ..chain() };
    for (chain, ours) in [(alone, "YYY-istio-cni.conf"), (owned, OWNED)] {
        let (now, then) = installed(&chain, &[("10-a.conflist", FORMER)]);
        assert_eq!((then, now.text("10-a.conflist")), (Ok(ours.to_owned()), Some(CALICO)));
        let entry = json!({"type": "istio-cni", "name": "istio-cni"});
        let wish =
            DesiredConflist { chain: &chain, entry: &entry, made: &BTreeSet::new(), able: &BTreeSet::new() };
        let steps = wish.plan(&directory(&[("10-a.conflist", FORMER)])).steps;
        let names = steps.iter().map(|(Step::Write { name, .. } | Step::Remove { name })| name.as_str());
        assert_eq!(names.collect::<Vec<_>>(), [ours, "10-a.conflist"], "pods are redirected at every moment");
    }
}

#[test]
fn a_file_of_its_own_goes_when_it_is_to_have_another_name() {
    let named = |name: &str| ChainSettings { chained: false, conf_name: name.to_owned(), ..chain() };
    let (mut now, _) = installed(&named("a.conf"), &[("10.conflist", CALICO)]);
    assert_eq!(settle(&named("b.conf"), &mut now, &BTreeSet::new()), Ok("b.conf".to_owned()));
    assert_eq!(names(&now), ["10.conflist", "b.conf"]);
}

#[test]
fn a_file_of_its_own_goes_once_the_entry_is_chained_wherever_it_sorts() {
    for (name, former) in [("00-istio.conf", "00-istio.conf"), ("", "YYY-istio-cni.conf")] {
        let alone = ChainSettings { chained: false, conf_name: name.to_owned(), ..chain() };
        for wish in [chain(), ChainSettings { conf_name: "10.conflist".to_owned(), ..chain() }] {
            let (mut now, _) = installed(&alone, &[("10.conflist", CALICO)]);
            assert!(now.files.contains_key(former), "{former}");
            let (entry, none) = (entry(), BTreeSet::new());
            let plan = DesiredConflist { chain: &wish, entry: &entry, made: &none, able: &none }.plan(&now);
            let names =
                plan.steps.iter().map(|(Step::Write { name, .. } | Step::Remove { name })| name.as_str());
            assert_eq!(
                names.collect::<Vec<_>>(),
                ["10.conflist", former],
                "pods are redirected at every moment"
            );
            assert_eq!(settle(&wish, &mut now, &BTreeSet::new()), Ok("10.conflist".to_owned()));
            assert_eq!(now.files.keys().collect::<Vec<_>>(), ["10.conflist"]);
        }
    }
}

#[test]
fn another_mode_reaches_files_of_our_own_and_no_others() {
    let alone = ChainSettings { chained: false, ..chain() };
    let owned = ChainSettings { owned: true, ..chain() };
    for (chain, ours) in [(alone, "YYY-istio-cni.conf"), (owned, OWNED)] {
        let (mut now, _) = installed(&chain, &[("10.conflist", CALICO)]);
        now.modes = [(ours.to_owned(), 0o600), ("10.conflist".to_owned(), 0o644)].into();
        for (group_read, writes) in [(false, 0), (true, 1)] {
            let chain = ChainSettings { group_read, ..chain.clone() };
            let (entry, none) = (entry(), BTreeSet::new());
            let plan = DesiredConflist { chain: &chain, entry: &entry, made: &none, able: &none }.plan(&now);
            assert_eq!((plan.steps.len(), plan.then), (writes, Ok(ours.to_owned())));
        }
    }
}

#[test]
fn what_multus_copied_into_its_own_configuration_goes_and_all_else_stays() {
    // Thin Multus copies the primary's list; in the form for CNI 1.0.0 its configuration is a list itself.
    let single = |inline: &str| {
        format!(r#"{{ "name":"m", "type":"multus", "delegates":[ {{"type":"a"}}, {inline} ] }}"#)
    };
    let list = |inline: &str| {
        format!(
            r#"{{"name":"m","plugins":[ {{"type":"multus","delegates":[{inline}]}},  {{"type":"b"}} , {{"type":"c"}}]}}"#
        )
    };
    let without = FORMER.replace(r#",{"type":"istio-cni","exclude_namespaces":["old"]}"#, "");
    for (name, of) in [("00.conf", &single as &dyn Fn(&str) -> String), ("00.conflist", &list)] {
        let mut now = directory(&[(name, &of(FORMER)), ("10.conflist", FORMER)]);
        for step in leave::steps(&chain(), &now) {
            take(&mut now, &step);
        }
        assert_eq!(now, directory(&[(name, &of(&without)), ("10.conflist", &without)]));
        assert_eq!(leave::steps(&chain(), &now), []);
        assert_eq!(leave::inline(&now), [""; 0]);
        let now = directory(&[(name, &of(r#"{"type":"istio-cni"}"#))]);
        assert_eq!((leave::steps(&chain(), &now), leave::inline(&now)), (vec![], vec![name.to_owned()]));
    }
}
