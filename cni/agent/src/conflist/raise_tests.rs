// SPDX-License-Identifier: Apache-2.0
//! The list's cniVersion: raised while every plugin can do it, and the owner's again otherwise.

use std::collections::BTreeSet;

use serde_json::Value;

use super::leave;
use super::plan::{DesiredConflist, Step};
use super::plan_tests::{CALICO, FLANNEL, chain, directory, entry, installed, kinds, take};
use super::scan::DirectorySnapshot;
use crate::settings::ChainSettings;

#[test]
fn the_version_is_raised_only_where_it_is_wanted_and_every_plugin_can_do_it() {
    let newer = CALICO.replace("1.0.0", "1.2.0");
    let escaped = CALICO.replace("1.0.0", "1\\u002e0.0");
    for (wanted, name, text, version) in [
        (true, "10-calico.conflist", CALICO, "1.1.0"),
        (false, "10-calico.conflist", CALICO, "1.0.0"),
        (true, "10-calico.conflist", newer.as_str(), "1.2.0"),
        (true, "10-calico.conflist", escaped.as_str(), "1.0.0"),
        (true, "10-flannel.conf", FLANNEL, "0.4.0"),
        (true, "10-calico.conf", r#"{"name":"n","cniVersion":"0.3.1","type":"calico"}"#, "1.1.0"),
    ] {
        let chain = ChainSettings { raise_version: wanted, ..chain() };
        let (now, seen) = installed(&chain, &[(name, text)]);
        let is: Value = serde_json::from_str(now.text(&seen.unwrap()).unwrap()).unwrap();
        assert_eq!(is["cniVersion"], version, "{wanted} {text}");
    }
}

/// `kinds`: of the plugins that can do the newest version.
fn planned(chain: &ChainSettings, now: &DirectorySnapshot, kinds: &[&str]) -> Vec<Step> {
    let (entry, made) = (entry(), BTreeSet::new());
    let able = kinds.iter().map(|kind| (*kind).to_owned()).collect();
    DesiredConflist { chain, entry: &entry, made: &made, able: &able }.plan(now).steps
}

const KINDNET: &str = "\n{\n\t\"cniVersion\": \"0.3.1\",\n\t\"name\": \"kindnet\",\n\t\"plugins\": [\n\t{\n\t\t\"type\": \"ptp\",\n\t\t\"ipam\": {\n\t\t\t\"type\": \"host-local\"\n\t\t}\n\t\t,\n\t\t\"mtu\": 1500\n\t},\n\t{\n\t\t\"type\": \"portmap\"\n\t}\n\t]\n}\n";

#[test]
fn a_raised_version_is_the_owners_again_when_it_has_to_be() {
    const ALL: [&str; 4] = ["istio-cni", "ptp", "portmap", "host-local"];
    let raising = ChainSettings { raise_version: true, ..chain() };
    let name = "10-kindnet.conflist";
    let version = |now: &DirectorySnapshot| {
        let list: Value = serde_json::from_str(now.text(name).unwrap()).unwrap();
        list["cniVersion"].as_str().unwrap().to_owned()
    };
    let mut raised = directory(&[(name, KINDNET)]);
    planned(&raising, &raised, &ALL).iter().for_each(|step| take(&mut raised, step));
    assert_eq!((version(&raised), kinds(&raised, name).len()), ("1.1.0".to_owned(), 3));
    assert_eq!(planned(&raising, &raised, &ALL), [], "it is right by any agent, whatever made it");
    let mut plain = directory(&[(name, KINDNET)]);
    planned(&chain(), &plain, &[]).iter().for_each(|step| take(&mut plain, step));
    // A plugin, or its IPAM plugin, can no longer do it; nobody wants it any more.
    for (chain, able) in [(&raising, &ALL[..2]), (&raising, &ALL[..3]), (&chain(), &ALL)] {
        let mut now = raised.clone();
        planned(chain, &now, able).iter().for_each(|step| take(&mut now, step));
        assert_eq!(now, plain, "{able:?}");
    }
    for mut now in [raised.clone(), plain] {
        leave::steps(&chain(), &now).iter().for_each(|step| take(&mut now, step));
        assert_eq!(now, directory(&[(name, KINDNET)]), "the owner's bytes");
    }
    // A version that the owner writes beside our entry becomes the owner's version.
    let older = raised.text(name).unwrap().replacen("1.1.0", "1.0.0", 1);
    let mut now = directory(&[(name, &older)]);
    leave::steps(&chain(), &now).iter().for_each(|step| take(&mut now, step));
    assert_eq!(version(&now), "1.0.0");
    // As thin Multus copied it.
    let multus = |inline: &str| format!(r#"{{"type":"multus","delegates":[{inline}]}}"#);
    let mut now = directory(&[("00-multus.conf", &multus(raised.text(name).unwrap()))]);
    leave::steps(&chain(), &now).iter().for_each(|step| take(&mut now, step));
    assert_eq!(now, directory(&[("00-multus.conf", &multus(KINDNET))]));
}

#[test]
fn plugins_that_plugins_call_are_asked_as_well() {
    let called = |text: &str| {
        let types = directory(&[("10.conflist", text), ("10.conf", text)]).types();
        types.into_iter().filter(|kind| kind != "istio-cni").collect::<Vec<_>>().join(" ")
    };
    let list = |plugin: &str| format!(r#"{{"name":"n","cniVersion":"1.0.0","plugins":[{plugin}]}}"#);
    for (plugin, types) in [
        (r#"{"type":"ptp","ipam":{"type":"host-local"}}"#, "host-local ptp"),
        (r#"{"Type":"ptp","IPAM":{"TYPE":"dhcp"}}"#, "dhcp ptp"),
        (r#"{"type":"ovn","ipam":{}}"#, "ovn"),
        (r#"{"type":"calico","policy":{"type":"k8s"}}"#, "calico"),
        (r#"{"type":"flannel"}"#, "bridge flannel host-local"),
        (r#"{"type":"flannel","delegate":{"type":"ipvlan"}}"#, "flannel host-local ipvlan"),
        (r#"{"type":"flannel","delegate":{"ipam":{"type":"dhcp"}}}"#, "bridge dhcp flannel"),
        (
            r#"{"type":"multus","delegates":[{"type":"a"},{"name":"m","plugins":[{"type":"b","ipam":{"type":"c"}}]}]}"#,
            "a b c multus",
        ),
    ] {
        assert_eq!(called(&list(plugin)), types, "{plugin}");
        assert_eq!(called(plugin), types, "{plugin}");
    }
}
