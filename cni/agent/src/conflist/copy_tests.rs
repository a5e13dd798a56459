// SPDX-License-Identifier: Apache-2.0
//! Copies of a `.conf` or `.json`: their names, what they follow, and when they are removed.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::plan::{DesiredConflist, NotRight, Step};
use super::plan_tests::{
    CALICO, COPY, FLANNEL, chain, directory, entry, installed, kinds, names, settle, take,
};
use super::scan::{ConfigFormat, Content};
use super::{copy, leave, splice};
use crate::settings::ChainSettings;

#[test]
fn a_conf_stays_and_a_list_before_it_has_its_name_and_version() {
    let (now, then) = installed(&chain(), &[("10-flannel.conf", FLANNEL)]);
    assert_eq!(then, Ok(COPY.to_owned()));
    assert_eq!((names(&now), now.text("10-flannel.conf")), (vec![COPY, "10-flannel.conf"], Some(FLANNEL)));
    assert_eq!(kinds(&now, COPY), ["flannel", "istio-cni"]);
    let list: Value = serde_json::from_str(now.text(COPY).unwrap()).unwrap();
    assert_eq!((&list["name"], &list["cniVersion"]), (&json!("cbr0"), &json!("0.4.0")));
    assert_eq!(
        list["plugins"][0],
        json!({"name": "cbr0", "type": "flannel", "id": 9_007_199_254_740_993_u64})
    );
    assert_eq!(list["plugins"][1]["millrace_copy_of"], "10-flannel.conf");
}

/// `before` is a network that runtimes read before the named file.
#[test]
fn a_copy_sorts_right_before_its_owner() {
    let expected = [
        ("10-x.conf", None, "10-x-istio-cni.conflist"),
        ("10-x.json", None, "10-x-istio-cni.conflist"),
        ("00-multus.conf", None, "00-multus-istio-cni.conflist"),
        ("x.y.conf", None, "x.y-istio-cni.conflist"),
        (".conf", None, "-istio-cni.conflist"),
        ("10-x.conf", Some("10-x-a.conflist"), "10-x-istio-cni.conflist"),
        ("10-x.conf", Some("10-x-z.conf"), "10-x-z.conf-istio-cni.conflist"),
        ("10-x.json", Some("10-x.conf"), "10-x.conf-istio-cni.conflist"),
        ("10-x.conf.conf", Some("10-x.conf"), "10-x.conf-istio-cni.conflist"),
    ];
    for (owner, before, name) in expected {
        let names = copy::names(owner, before);
        assert_eq!(names[0], name, "{owner} {before:?}");
        for name in names {
            assert!(name.as_str() < owner && before < Some(name.as_str()), "{before:?} {name} {owner}");
            assert_eq!(ConfigFormat::of(&name), Some(ConfigFormat::List));
        }
    }
}

#[test]
fn a_copy_of_a_named_conf_takes_no_other_networks_place() {
    let chain = ChainSettings { conf_name: "10-x.conf".to_owned(), ..chain() };
    for before in ["05-a.conflist", "10-x-a.conflist", "10-x-z.conflist"] {
        let (now, then) = installed(&chain, &[(before, CALICO), ("10-x.conf", FLANNEL)]);
        let Err(NotRight::Preempted { first, ours }) = then else { panic!("{then:?}") };
        assert_eq!((first.as_str(), now.text(before)), (before, Some(CALICO)));
        assert_eq!(names(&now), [before, &ours, "10-x.conf"]);
        assert_eq!(kinds(&now, &ours), ["flannel", "istio-cni"]);
    }
}

#[test]
fn a_foreign_file_of_a_copys_name_stays() {
    let files = [("10-flannel.conf", FLANNEL), ("10-flannel-istio-cni.conflist", "{}")];
    let (mut now, then) = installed(&chain(), &files);
    assert_eq!(then, Ok("10-flannel-istio-cni-1.conflist".to_owned()));
    assert_eq!(now.text(COPY), Some("{}"));
    now.files.remove(COPY);
    assert_eq!(settle(&chain(), &mut now, &BTreeSet::new()), Ok(COPY.to_owned()));
    assert_eq!(names(&now), [COPY, "10-flannel.conf"]);
    let taken = copy::names("10-flannel.conf", None);
    let taken = taken.iter().map(|name| (name.as_str(), "{}")).chain([("10-flannel.conf", FLANNEL)]);
    let (now, then) = installed(&chain(), &taken.collect::<Vec<_>>());
    assert_eq!((then, now.text(COPY)), (Err(NotRight::Foreign(COPY.to_owned())), Some("{}")));
}

#[test]
fn a_copy_whose_entry_somebody_took_out_is_restored() {
    let (mut now, _) = installed(&chain(), &[("10-flannel.conf", FLANNEL)]);
    let stripped = splice::without_entries(now.text(COPY).unwrap()).unwrap();
    for made in [BTreeSet::new(), BTreeSet::from([COPY.to_owned()])] {
        now.files.insert(COPY.to_owned(), Content::Text(stripped.clone()));
        assert_eq!(settle(&chain(), &mut now, &made), Ok(COPY.to_owned()));
        assert_eq!((names(&now).len(), kinds(&now, COPY).len()), (2, 2));
    }
}

#[test]
fn a_copy_has_the_mode_of_its_owners_file() {
    let (mut now, _) = installed(&chain(), &[("10-flannel.conf", FLANNEL)]);
    for (mode, writes) in [(0o600, 0), (0o644, 1)] {
        now.modes = [(COPY.to_owned(), 0o600), ("10-flannel.conf".to_owned(), mode)].into();
        let (chain, entry, none) = (chain(), entry(), BTreeSet::new());
        let plan = DesiredConflist { chain: &chain, entry: &entry, made: &none, able: &none }.plan(&now);
        assert_eq!((plan.steps.len(), plan.then), (writes, Ok(COPY.to_owned())));
    }
}

/// A running agent and a starting one make the same plan.
#[test]
fn a_copy_is_removed_with_its_owners_file() {
    let named = ChainSettings { conf_name: "10-flannel.conf".to_owned(), ..chain() };
    for (chain, why) in
        [(chain(), NotRight::NoPrimary), (named, NotRight::Waiting("10-flannel.conf".to_owned()))]
    {
        let (mut now, _) = installed(&chain, &[("10-flannel.conf", FLANNEL)]);
        now.files.remove("10-flannel.conf");
        assert_eq!(settle(&chain, &mut now, &BTreeSet::new()), Err(why));
        assert_eq!(names(&now), [""; 0]);
    }
    let files = [("10-flannel.conf", FLANNEL), ("20-calico.conflist", CALICO)];
    let (mut now, _) = installed(&chain(), &files);
    now.files.remove("10-flannel.conf");
    let (chain, entry, none) = (chain(), entry(), BTreeSet::new());
    let plan = DesiredConflist { chain: &chain, entry: &entry, made: &none, able: &none }.plan(&now);
    let touched = plan.steps.iter().map(|(Step::Write { name, .. } | Step::Remove { name })| name.as_str());
    assert_eq!(
        touched.collect::<Vec<_>>(),
        ["20-calico.conflist", COPY],
        "pods are redirected at every moment"
    );
    assert_eq!(settle(&chain, &mut now, &BTreeSet::new()), Ok("20-calico.conflist".to_owned()));
    assert_eq!(names(&now), ["20-calico.conflist"]);
}

#[test]
fn a_copy_stays_while_its_owner_writes_the_file_and_that_is_told() {
    let (mut now, _) = installed(&chain(), &[("10-flannel.conf", FLANNEL)]);
    now.files.insert("10-flannel.conf".to_owned(), Content::Text(FLANNEL[..20].to_owned()));
    let why = settle(&chain(), &mut now, &BTreeSet::new()).unwrap_err().to_string();
    assert!(why.starts_with("10-flannel.conf: it is not a JSON object"), "{why}");
    assert_eq!(names(&now), [COPY, "10-flannel.conf"]);
}

#[test]
fn a_conf_that_comes_beside_somebody_elses_list_overwrites_nothing() {
    let list = r#"{"name":"cbr0","cniVersion":"0.3.1","plugins":[{"type":"flannel"},{"type":"portmap"}]}"#;
    let alone = r#"{"name":"cbr0","cniVersion":"0.3.1","plugins":[{"type":"flannel"}]}"#;
    for list in [list, alone] {
        let (mut now, then) = installed(&chain(), &[("10-flannel.conflist", list)]);
        assert_eq!(then, Ok("10-flannel.conflist".to_owned()));
        now.files.insert("10-flannel.conf".to_owned(), Content::Text(FLANNEL.to_owned()));
        let then = settle(&chain(), &mut now, &BTreeSet::new());
        assert_eq!(then, Ok(COPY.to_owned()));
        for step in leave::steps(&chain(), &now) {
            take(&mut now, &step);
        }
        assert_eq!(now, directory(&[("10-flannel.conf", FLANNEL), ("10-flannel.conflist", list)]));
    }
}

#[test]
fn a_null_in_a_conf_says_nothing() {
    for (conf, network) in [
        (r#"{"name":"a","cniVersion":null,"type":"x"}"#, "a"),
        (r#"{"name":null,"type":"x"}"#, "k8s-pod-network"),
    ] {
        let (now, then) = installed(&chain(), &[("10-b.conf", conf)]);
        assert_eq!(then, Ok("10-b-istio-cni.conflist".to_owned()), "{conf}");
        let list: Value = serde_json::from_str(now.text("10-b-istio-cni.conflist").unwrap()).unwrap();
        assert_eq!((&list["name"], list.get("cniVersion")), (&json!(network), None));
    }
}

/// By an agent that did not make the copy, each time.
#[test]
fn a_conf_that_its_owner_writes_again_is_followed() {
    for owner in ["10-flannel.conf", "10-flannel.json"] {
        let (mut now, _) = installed(&chain(), &[(owner, FLANNEL)]);
        let other = FLANNEL.replace("flannel", "bridge").replace("cbr0", "cbr1");
        for (text, kind) in [(other.as_str(), "bridge"), (FLANNEL, "flannel"), (&other, "bridge")] {
            now.files.insert(owner.to_owned(), Content::Text(text.to_owned()));
            assert_eq!(settle(&chain(), &mut now, &BTreeSet::new()), Ok(COPY.to_owned()));
            assert_eq!((names(&now), now.text(owner)), (vec![COPY, owner], Some(text)));
            assert_eq!(kinds(&now, COPY), [kind, "istio-cni"]);
        }
    }
}

/// Lists of Millrace and of upstream's agent that took the place of a `.conf`.
#[test]
fn a_list_that_took_a_confs_place_is_the_network_until_its_owner_writes_that_again() {
    let single = r#"{"name":"cbr0","type":"flannel","id":9007199254740993}"#;
    let made = |name: &str, version: &str| {
        format!(r#"{{"cniVersion":"{version}","name":"{name}","plugins":[{single},{{"type":"istio-cni"}}]}}"#)
    };
    for list in [made("cbr0", "0.4.0"), made("k8s-pod-network", "0.3.1")] {
        for (name, owner) in [
            ("10-x.conflist", "10-x.conf"),
            ("10-x.conf.conflist", "10-x.conf"),
            ("10-x.json.conflist", "10-x.json"),
        ] {
            for conf_name in ["", owner, "10-x.conflist"] {
                if conf_name == "10-x.conflist" && name != conf_name {
                    continue;
                }
                let chain = ChainSettings { conf_name: conf_name.to_owned(), ..chain() };
                let (mut now, then) = installed(&chain, &[(name, &list)]);
                assert_eq!(then, Ok(name.to_owned()), "{conf_name}");
                now.files.insert(owner.to_owned(), Content::Text(FLANNEL.to_owned()));
                let copied = "10-x-istio-cni.conflist";
                assert_eq!(
                    settle(&chain, &mut now, &BTreeSet::new()),
                    Ok(copied.to_owned()),
                    "{conf_name} {name}"
                );
                assert_eq!((names(&now), now.text(owner)), (vec![copied, owner], Some(FLANNEL)));
            }
        }
        let left = |files: &[(&str, &str)]| {
            let mut now = directory(files);
            leave::steps(&chain(), &now).iter().for_each(|step| take(&mut now, step));
            now
        };
        assert_eq!(
            left(&[("10-x.conf", FLANNEL), ("10-x.conflist", &list)]),
            directory(&[("10-x.conf", FLANNEL)])
        );
        let alone = left(&[("10-x.conflist", &list)]);
        assert_eq!(kinds(&alone, "10-x.conflist"), ["flannel"], "it is the only network");
    }
}

#[test]
fn a_foreign_list_beside_a_conf_is_never_lost() {
    let files = [("10-x.conf", FLANNEL), ("10-x.conflist", CALICO)];
    for conf_name in ["", "10-x.conf"] {
        let chain = ChainSettings { conf_name: conf_name.to_owned(), ..chain() };
        let (mut now, then) = installed(&chain, &files);
        assert_eq!(then, Ok("10-x-istio-cni.conflist".to_owned()));
        assert_eq!(names(&now), ["10-x-istio-cni.conflist", "10-x.conf", "10-x.conflist"]);
        for step in leave::steps(&chain, &now) {
            take(&mut now, &step);
        }
        assert_eq!(now, directory(&files));
    }
}

#[test]
fn a_conf_that_multus_names_by_its_path_needs_the_user() {
    let multus =
        r#"{"name":"m","type":"multus-shim","clusterNetwork":"/host/etc/cni/net.d/10-flannel.conf"}"#;
    let files = [("00-multus.conf", multus), ("10-flannel.conf", FLANNEL)];
    let named = ChainSettings { conf_name: "10-flannel.conf".to_owned(), ..chain() };
    let (now, then) = installed(&named, &files);
    let why = then.unwrap_err();
    assert!(why.needs_user() && why.to_string().contains("set no CNI_CONF_NAME"), "{why}");
    assert_eq!(now.text("10-flannel.conf"), Some(FLANNEL));
    let (now, then) = installed(&chain(), &files);
    assert_eq!(then, Ok("00-multus-istio-cni.conflist".to_owned()), "as the reason says");
    assert_eq!(names(&now), ["00-multus-istio-cni.conflist", "00-multus.conf", "10-flannel.conf"]);
    assert!(!NotRight::NoPrimary.needs_user());
}

#[test]
fn a_copy_that_multus_names_by_its_path_stays_as_a_network_when_we_leave() {
    let shim = |path: &str| format!(r#"{{"name":"m","type":"multus-shim","clusterNetwork":"{path}"}}"#);
    let named = ChainSettings { conf_name: "10-flannel.conf".to_owned(), ..chain() };
    for (path, stays) in
        [(format!("/host/etc/cni/net.d/{COPY}"), true), ("/etc/10-flannel.conf".to_owned(), false)]
    {
        let files = [("00-multus.conf", shim(&path)), ("10-flannel.conf", FLANNEL.to_owned())];
        let mut now = directory(&files.each_ref().map(|(name, text)| (*name, text.as_str())));
        let _ = settle(&named, &mut now, &BTreeSet::new());
        assert_eq!(kinds(&now, COPY), ["flannel", "istio-cni"]);
        leave::steps(&named, &now).iter().for_each(|step| take(&mut now, step));
        assert_eq!(now.is_gone(COPY), !stays, "{path}");
        assert_eq!(now.text("10-flannel.conf"), Some(FLANNEL));
        if stays {
            assert_eq!(kinds(&now, COPY), ["flannel"]);
            now.files.insert("10-flannel.conf".to_owned(), Content::Text(FLANNEL.replace("cbr0", "cbr1")));
            let _ = settle(&named, &mut now, &BTreeSet::new());
            assert_eq!(kinds(&now, COPY), ["flannel", "istio-cni"], "it is known as ours again");
        }
    }
}
