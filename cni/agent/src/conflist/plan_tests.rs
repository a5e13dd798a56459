// SPDX-License-Identifier: Apache-2.0
//! Plans against directories as they are found on nodes. Each plan is carried out on the snapshot, step by step, and asked again: at every
//! moment a runtime must find a configuration, and in the end nothing is left to do.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::copy::OWNED;
use super::multus::NotCalled;
use super::plan::{DesiredConflist, FileMode, NotRight, Step};
use super::scan::{Content, DirectorySnapshot};
use super::{copy, leave};
use crate::settings::ChainSettings;

pub(super) const CALICO: &str =
    r#"{"name":"k8s-pod-network","cniVersion":"1.0.0","plugins":[{"type":"calico"},{"type":"portmap"}]}"#;
/// Copy of `10-flannel.conf`.
pub(super) const COPY: &str = "10-flannel-istio-cni.conflist";
pub(super) const FLANNEL: &str =
    r#"{"cniVersion":"0.4.0","name":"cbr0","type":"flannel","id":9007199254740993}"#;

pub(super) fn chain() -> ChainSettings {
    ChainSettings {
        conf_name: String::new(),
        chained: true,
        owned: false,
        owned_name: OWNED.to_owned(),
        group_read: false,
        raise_version: false,
        template: Some(String::new()),
    }
}

pub(super) fn entry() -> Value {
    json!({"type": "istio-cni", "name": "istio-cni", "exclude_namespaces": null})
}

pub(super) fn directory(files: &[(&str, &str)]) -> DirectorySnapshot {
    let files = files.iter().map(|(name, text)| ((*name).to_owned(), Content::Text((*text).to_owned())));
    DirectorySnapshot { files: files.collect(), ..DirectorySnapshot::default() }
}

#[test]
fn nothing_is_done_while_it_is_not_known_what_runtimes_read_first() {
    let (entry, made, able) = (entry(), BTreeSet::new(), BTreeSet::new());
    let plan = |chain: &ChainSettings, denied: &str| {
        let mut now = directory(&[("20-calico.conflist", CALICO)]);
        now.files.insert(denied.to_owned(), Content::Denied("failed to read it".to_owned()));
        DesiredConflist { chain, entry: &entry, made: &made, able: &able }.plan(&now)
    };
    let unknown = Err(NotRight::Denied("failed to read it".to_owned()));
    let owned = ChainSettings { owned: true, ..chain() };
    let named = ChainSettings { conf_name: "20-calico.conflist".to_owned(), ..chain() };
    let alone = ChainSettings { chained: false, conf_name: "10-net.conf".to_owned(), ..chain() };
    for chain in [&chain(), &owned, &named, &alone] {
        let stopped = plan(chain, "10-net.conf");
        assert_eq!((stopped.steps.len(), &stopped.then), (0, &unknown), "{chain:?}");
        let behind = plan(chain, "30-net.conflist");
        assert!(behind.then.is_ok() && !behind.steps.is_empty(), "{chain:?}: {behind:?}");
    }
    let hidden = plan(&named, "20-calico.conflist");
    assert_eq!((hidden.steps.len(), &hidden.then), (0, &unknown), "the network itself");
}

pub(super) fn take(now: &mut DirectorySnapshot, step: &Step) {
    match step {
        Step::Write { name, text, mode } => {
            if let FileMode::Of(like) = mode {
                assert!(now.files.contains_key(like), "the mode of {like}, which is not there");
            }
            now.files.insert(name.clone(), Content::Text(text.clone()));
        }
        Step::Remove { name } => assert!(now.files.remove(name).is_some(), "{name} is not there"),
    }
}

/// Carries plans out until there is nothing to do, and says what is then.
pub(super) fn settle(
    chain: &ChainSettings,
    now: &mut DirectorySnapshot,
    made: &BTreeSet<String>,
) -> Result<String, NotRight> {
    let orphans = copy::orphans(now);
    let is_network = |name: &str| !orphans.iter().any(|orphan| orphan == name);
    let found = now.usable().any(|(name, document)| !document.others().is_empty() && is_network(name));
    for _ in 0..4 {
        let entry = entry();
        let able = ["istio-cni", "calico", "portmap"].map(str::to_owned).into();
        let plan = DesiredConflist { chain, entry: &entry, made, able: &able }.plan(now);
        if plan.steps.is_empty() {
            return plan.then;
        }
        for step in &plan.steps {
            take(now, step);
            assert!(!found || now.usable().next().is_some(), "a runtime finds no network after {step:?}");
        }
    }
    panic!("there is always something to do");
}

pub(super) fn installed(
    chain: &ChainSettings,
    files: &[(&str, &str)],
) -> (DirectorySnapshot, Result<String, NotRight>) {
    let mut now = directory(files);
    let then = settle(chain, &mut now, &BTreeSet::new());
    (now, then)
}

pub(super) fn kinds(now: &DirectorySnapshot, name: &str) -> Vec<String> {
    let file: Value = serde_json::from_str(now.text(name).unwrap()).unwrap();
    file["plugins"]
        .as_array()
        .unwrap()
        .iter()
        .map(|plugin| plugin["type"].as_str().unwrap().to_owned())
        .collect()
}

pub(super) fn names(now: &DirectorySnapshot) -> Vec<&str> {
    now.files.keys().map(String::as_str).collect()
}

#[test]
fn our_entry_comes_last_into_the_file_that_runtimes_read_first() {
    let broken = ("00-broken.conflist", r#"{"plugins":[{"type":"bridge"}]}"#);
    let (now, then) =
        installed(&chain(), &[("10-calico.conflist", CALICO), ("87-podman.conflist", CALICO), broken]);
    assert_eq!(then, Ok("10-calico.conflist".to_owned()));
    assert_eq!(kinds(&now, "10-calico.conflist"), ["calico", "portmap", "istio-cni"]);
    assert_eq!(now.text("87-podman.conflist"), Some(CALICO));
    assert_eq!(now.text(broken.0), Some(broken.1));
}

#[test]
fn entries_of_older_installers_are_replaced_by_one() {
    let old = r#"{"name":"n","plugins":[{"type":"istio-cni","log_level":"info"},{"type":"ptp","x":1.50},{"type":"istio-cni"}],"y":2.50e3}"#;
    let (now, then) = installed(&chain(), &[("10.conflist", old)]);
    assert_eq!(
        (then.is_ok(), kinds(&now, "10.conflist")),
        (true, vec!["ptp".to_owned(), "istio-cni".to_owned()])
    );
    let text = now.text("10.conflist").unwrap();
    assert!(text.contains(r#"{"type":"ptp","x":1.50}"#) && text.ends_with(r#"],"y":2.50e3}"#), "{text}");
}

#[test]
fn a_changed_setting_reaches_the_file_and_an_equal_entry_is_left_as_it_is_written() {
    let (mut now, _) = installed(&chain(), &[("10.conflist", CALICO)]);
    let other = json!({"type": "istio-cni", "name": "istio-cni", "exclude_namespaces": ["a"]});
    let chain = chain();
    let plan =
        DesiredConflist { chain: &chain, entry: &other, made: &BTreeSet::new(), able: &BTreeSet::new() }
            .plan(&now);
    assert_eq!(plan.steps.len(), 1);
    let spaced = CALICO.replace(
        "]}",
        ", { \"exclude_namespaces\" : null, \"name\":\"istio-cni\", \"type\":\"istio-cni\" } ]}",
    );
    now = directory(&[("10.conflist", &spaced)]);
    assert_eq!(settle(&chain, &mut now, &BTreeSet::new()), Ok("10.conflist".to_owned()));
    assert_eq!(now.text("10.conflist"), Some(spaced.as_str()));
}

#[test]
fn a_value_that_runtimes_refuse_makes_a_file_none() {
    for key in [
        r#""dns":{"nameservers":"10.0.0.1"}"#,
        r#""ipam":"host-local""#,
        r#""capabilities":["portMappings"]"#,
        r#""capabilities":{"portMappings":"true"}"#,
        r#""name":5"#,
        r#""prevResult":[]"#,
        r#""mtu":1e400"#,
    ] {
        let list = format!(r#"{{"name":"a","cniVersion":"1.0.0","plugins":[{{"type":"bridge",{key}}}]}}"#);
        let (now, then) = installed(&chain(), &[("10-a.conflist", &list), ("20-b.conflist", CALICO)]);
        assert_eq!((then, now.text("10-a.conflist")), (Ok("20-b.conflist".to_owned()), Some(list.as_str())));
        let conf = format!(r#"{{"name":"a","cniVersion":"1.0.0","type":"bridge",{key}}}"#);
        let (_, then) = installed(&chain(), &[("10-a.conf", &conf), ("20-b.conflist", CALICO)]);
        assert_eq!(then, Ok("20-b.conflist".to_owned()), "{conf}");
    }
    let fine = r#"{"name":"a","cniVersion":"1.0.0","plugins":[{"type":"x","dns":{"search":[null]},"ipam":{},"ipam":null,"capabilities":{"x":null}}]}"#;
    assert_eq!(installed(&chain(), &[("10-a.conflist", fine)]).1, Ok("10-a.conflist".to_owned()));
}

/// Thin Multus takes the first file beside `00-multus.conf*` for the network, and has it inline.
#[test]
fn the_network_that_multus_has_inline_is_the_one_that_gets_our_entry() {
    let multus = |inline: &str| format!(r#"{{"name":"m","type":"multus","delegates":[{inline}]}}"#);
    for (network, text, ours) in
        [("10-calico.conflist", CALICO, "10-calico.conflist"), ("10-flannel.conf", FLANNEL, COPY)]
    {
        let (mut now, then) = installed(&chain(), &[("00-multus.conf", &multus(text)), (network, text)]);
        let why = NotCalled::Inline { ours: ours.to_owned() };
        assert_eq!(then, Err(NotRight::Multus { file: "00-multus.conf".to_owned(), why: why.into() }));
        let followed = multus(now.text(ours).unwrap());
        now.files.insert("00-multus.conf".to_owned(), Content::Text(followed.clone()));
        assert_eq!(settle(&chain(), &mut now, &BTreeSet::new()), Ok(ours.to_owned()));
        assert_eq!(now.text("00-multus.conf"), Some(followed.as_str()));
    }
    let (now, then) =
        installed(&chain(), &[("00-multus.conf", &multus(CALICO)), ("10-flannel.conf", FLANNEL)]);
    assert_eq!(then, Ok("00-multus-istio-cni.conflist".to_owned()), "nobody else's file has that network");
    assert_eq!(kinds(&now, "00-multus-istio-cni.conflist"), ["multus", "istio-cni"]);
}

#[test]
fn an_earlier_file_that_comes_later_is_followed() {
    let (mut now, _) = installed(&chain(), &[("10-calico.conflist", CALICO)]);
    now.files.insert("05-cilium.conflist".to_owned(), Content::Text(CALICO.to_owned()));
    assert_eq!(settle(&chain(), &mut now, &BTreeSet::new()), Ok("05-cilium.conflist".to_owned()));
    for step in leave::steps(&chain(), &now) {
        take(&mut now, &step);
    }
    assert_eq!(now, directory(&[("05-cilium.conflist", CALICO), ("10-calico.conflist", CALICO)]));
}

#[test]
fn a_named_file_is_right_only_if_runtimes_get_to_it() {
    let chain = ChainSettings { conf_name: "20-b.conflist".to_owned(), ..chain() };
    let (_, then) = installed(&chain, &[("20-b.conflist", CALICO)]);
    assert_eq!(then, Ok("20-b.conflist".to_owned()));
    let (now, then) = installed(&chain, &[("20-b.conflist", CALICO), ("10-a.conflist", CALICO)]);
    let preempted =
        NotRight::Preempted { first: "10-a.conflist".to_owned(), ours: "20-b.conflist".to_owned() };
    assert_eq!((then, now.text("10-a.conflist")), (Err(preempted), Some(CALICO)));
    let of = |list: &str| {
        format!(r#"{{"name":"m","type":"multus-shim","clusterNetwork":"/host/etc/cni/net.d/{list}"}}"#)
    };
    let (multus, elsewhere) = (of("20-b.conflist"), of("30-c.conflist"));
    let (now, then) = installed(&chain, &[("20-b.conflist", CALICO), ("00-multus.conf", &multus)]);
    assert_eq!((then, now.text("00-multus.conf")), (Ok("20-b.conflist".to_owned()), Some(multus.as_str())));
    let files = [("20-b.conflist", CALICO), ("30-c.conflist", CALICO), ("00-multus.conf", &elsewhere)];
    let (_, then) = installed(&chain, &files);
    let (network, ours) = ("30-c.conflist".to_owned(), "20-b.conflist".to_owned());
    let why = NotCalled::Lacks { network, ours };
    assert_eq!(then, Err(NotRight::Multus { file: "00-multus.conf".to_owned(), why: why.into() }));
    let inline = |list: &str| format!(r#"{{"name":"m","type":"multus","delegates":[{list}]}}"#);
    for (copy, is_ours) in [(CALICO, false), (now.text("20-b.conflist").unwrap(), true)] {
        let (_, then) = installed(&chain, &[("20-b.conflist", CALICO), ("00-multus.conf", &inline(copy))]);
        assert_eq!(then.is_ok(), is_ours, "Multus reads no file beside {copy}: {then:?}");
    }
}

#[test]
fn a_list_of_our_own_is_right_where_multus_hands_on_to_it() {
    let chain = ChainSettings { owned: true, ..chain() };
    let multus =
        |list: &str| format!(r#"{{"name":"m","type":"multus","clusterNetwork":"/etc/cni/net.d/{list}"}}"#);
    let named = ChainSettings { conf_name: "10-b.conflist".to_owned(), ..chain };
    let files = |multus: &str| installed(&named, &[("00-multus.conf", multus), ("10-b.conflist", CALICO)]).1;
    assert_eq!(files(&multus(OWNED)), Ok(OWNED.to_owned()));
    let then = files(&multus("10-b.conflist"));
    assert!(
        matches!(then, Err(NotRight::Multus { ref why, .. }) if matches!(**why, NotCalled::Lacks { .. })),
        "{then:?}"
    );
}

#[test]
fn a_named_file_is_found_under_its_other_name_or_waited_for() {
    let named = |name: &str| ChainSettings { conf_name: name.to_owned(), ..chain() };
    let copied = "x-istio-cni.conflist".to_owned();
    assert_eq!(installed(&named("x.conflist"), &[("x.conf", FLANNEL)]).1, Ok(copied.clone()));
    assert_eq!(installed(&named("x.conf"), &[("x.conf", FLANNEL)]).1, Ok(copied));
    assert_eq!(installed(&named("x.conf"), &[("x.conflist", CALICO)]).1, Ok("x.conflist".to_owned()));
    assert_eq!(
        installed(&named("x.conf"), &[("y.conf", FLANNEL)]).1,
        Err(NotRight::Waiting("x.conf".to_owned()))
    );
    for name in ["x", "../x.conf", "/x.conf"] {
        assert_eq!(installed(&named(name), &[("x", FLANNEL)]).1, Err(NotRight::Name(name.to_owned())));
    }
}

#[test]
fn what_no_runtime_would_take_is_left_alone() {
    for (text, why) in [
        ("", "not a JSON object"),
        ("[]", "not a JSON object"),
        (r#"{"name":"n","plugins":[]}"#, "plugin"),
        (r#"{"name":"n","plugins":[{"type":"a"},{"kind":"b"}]}"#, "plugin 1"),
        (r#"{"name":7,"plugins":[{"type":"a"}]}"#, "\"name\""),
        (r#"{"name":"n","cniVersion":1,"plugins":[{"type":"a"}]}"#, "\"cniVersion\""),
        (r#"{"name":"n","disableCheck":"maybe","plugins":[{"type":"a"}]}"#, "\"disableCheck\""),
        ("\u{feff}{\"name\":\"n\",\"plugins\":[{\"type\":\"a\"}]}", "not a JSON object"),
    ] {
        let (now, then) = installed(&chain(), &[("x.conflist", text)]);
        assert_eq!((then, now.text("x.conflist")), (Err(NotRight::NoPrimary), Some(text)));
        let named = ChainSettings { conf_name: "x.conflist".to_owned(), ..chain() };
        let (now, then) = installed(&named, &[("x.conflist", text)]);
        let error = then.unwrap_err().to_string();
        assert!(error.starts_with("x.conflist: ") && error.contains(why), "{text}: {error}");
        assert_eq!(now.text("x.conflist"), Some(text));
    }
}

#[test]
fn a_file_of_its_own_that_no_runtime_would_take_is_not_written() {
    for name in ["a.conf", "a.conflist"] {
        let chain = ChainSettings { chained: false, conf_name: name.to_owned(), ..chain() };
        let (entry, none) = (json!({"type": "istio-cni", "name": 7}), BTreeSet::new());
        let plan =
            DesiredConflist { chain: &chain, entry: &entry, made: &none, able: &none }.plan(&directory(&[]));
        let why = plan.then.unwrap_err().to_string();
        assert!(plan.steps.is_empty() && why.contains("\"name\""), "{why}");
    }
    let foreign = ("00.conf", r#"{"name":7,"type":"ptp"}"#);
    let (now, then) = installed(&chain(), &[foreign, ("10.conflist", CALICO)]);
    assert_eq!((then, now.text(foreign.0)), (Ok("10.conflist".to_owned()), Some(foreign.1)));
}

#[test]
fn our_plugin_alone_is_no_network() {
    for alone in [r#"{"name":"n","type":"istio-cni"}"#, r#"{"name":"n","type":"istio-cni","x":1}"#] {
        let (now, then) = installed(&chain(), &[("Z.conf", alone)]);
        assert_eq!((then, names(&now).len()), (Err(NotRight::NoPrimary), 0));
        let (now, then) = installed(&chain(), &[("00.conf", alone), ("10.conflist", CALICO)]);
        assert_eq!((then, names(&now)), (Ok("10.conflist".to_owned()), vec!["10.conflist"]));
    }
}

#[test]
fn a_file_of_its_own_is_made_and_healed_and_never_takes_another_ones_place() {
    let alone = ChainSettings { chained: false, ..chain() };
    let (mut now, then) = installed(&alone, &[("10.conflist", CALICO)]);
    assert_eq!(then, Ok("YYY-istio-cni.conf".to_owned()));
    assert_eq!(serde_json::from_str::<Value>(now.text("YYY-istio-cni.conf").unwrap()).unwrap(), entry());
    now.files.insert("YYY-istio-cni.conf".to_owned(), Content::Text(CALICO.to_owned()));
    let foreign = Err(NotRight::Foreign("YYY-istio-cni.conf".to_owned()));
    assert_eq!(settle(&alone, &mut now, &BTreeSet::new()), foreign);
    assert_eq!(now.text("YYY-istio-cni.conf"), Some(CALICO));
    let made = BTreeSet::from(["YYY-istio-cni.conf".to_owned()]);
    assert_eq!(settle(&alone, &mut now, &made), Ok("YYY-istio-cni.conf".to_owned()));
}

#[test]
fn a_list_of_our_own_follows_the_primary_and_leaves_it_alone() {
    let owned = ChainSettings { owned: true, ..chain() };
    let (mut now, then) = installed(&owned, &[("10.conf", FLANNEL)]);
    assert_eq!((then, now.text("10.conf")), (Ok(OWNED.to_owned()), Some(FLANNEL)));
    assert_eq!(kinds(&now, OWNED), ["flannel", "istio-cni"]);
    assert!(now.text(OWNED).unwrap().contains(r#""name": "cbr0""#));
    now.files.insert("05.conflist".to_owned(), Content::Text(CALICO.to_owned()));
    assert_eq!(settle(&owned, &mut now, &BTreeSet::new()), Ok(OWNED.to_owned()));
    assert_eq!(kinds(&now, OWNED), ["calico", "portmap", "istio-cni"]);
    now.files.insert("01.conflist".to_owned(), Content::Text(CALICO.to_owned()));
    let not_first = NotRight::OwnedNotFirst { first: "01.conflist".to_owned(), ours: OWNED.to_owned() };
    assert_eq!(settle(&owned, &mut now, &BTreeSet::new()), Err(not_first));
    for step in leave::steps(&owned, &now) {
        take(&mut now, &step);
    }
    assert_eq!(now, directory(&[("01.conflist", CALICO), ("05.conflist", CALICO), ("10.conf", FLANNEL)]));
}

#[test]
fn a_list_of_our_own_goes_when_the_primarys_is_used_again() {
    let (mut now, _) = installed(&ChainSettings { owned: true, ..chain() }, &[("10.conflist", CALICO)]);
    assert_eq!(settle(&chain(), &mut now, &BTreeSet::new()), Ok("10.conflist".to_owned()));
    assert_eq!((names(&now), kinds(&now, "10.conflist").len()), (vec!["10.conflist"], 3));
}

#[test]
fn leaving_takes_every_entry_out_and_no_file_that_is_shared() {
    let both = r#"{"name":"n","plugins":[{"type":"istio-cni"},{"type":"ptp"},{"type":"istio-cni"}]}"#;
    let files = [
        ("1.conflist", both),
        ("2.conf", r#"{"type":"istio-cni"}"#),
        ("3.conflist", r#"{"name":"n","plugins":[{"type":"istio-cni"}]}"#),
        ("4.conflist", "{broken istio-cni"),
        ("5.conf", FLANNEL),
    ];
    let mut now = directory(&files);
    let owned_without_chain =
        ChainSettings { chained: false, owned: true, owned_name: "1.conflist".to_owned(), ..chain() };
    for step in leave::steps(&owned_without_chain, &now) {
        take(&mut now, &step);
    }
    let left = r#"{"name":"n","plugins":[{"type":"ptp"}]}"#;
    assert_eq!(
        now,
        directory(&[("1.conflist", left), ("4.conflist", "{broken istio-cni"), ("5.conf", FLANNEL)])
    );
    assert_eq!(leave::unreadable(&now), ["4.conflist"]);
    assert_eq!(leave::steps(&chain(), &now), []);
}

#[test]
fn what_goes_in_comes_out_to_the_byte() {
    for text in [
        CALICO,
        "{\n  \"name\": \"n\",\n  \"plugins\": [\n    {\n      \"type\": \"a\"\n    }\n  ]\n}\n",
        "{\r\n\t\"name\": \"n\",\r\n\t\"plugins\": [\r\n\t\t{ \"type\": \"a\" },\r\n\t\t{\"type\": \"b\"}\r\n\t]\r\n}",
        "{\"plugins\": [{\"type\": \"a\", \"n\": 123456789012345678901234567890}], \"name\": \"n\", \"note\": \"<&\\u2028\"}",
        "{\"name\":\"n\",\"plugins\":[ {\"type\":\"a\"} , {\"type\":\"b\"} ]}",
        "{\"name\":\"n\",\"plugins\":[{\"type\":\"a\"},{\"type\":\"b\"},\n  {\"type\":\"c\"}]}",
    ] {
        let (mut now, then) = installed(&chain(), &[("x.conflist", text)]);
        assert_eq!(then, Ok("x.conflist".to_owned()));
        assert!(now.text("x.conflist").unwrap().contains("istio-cni"));
        for step in leave::steps(&chain(), &now) {
            take(&mut now, &step);
        }
        assert_eq!(now.text("x.conflist"), Some(text));
    }
}

/// libcni reads `plugins` alone of a `.conflist`, and `type` of a `.conf`.
#[test]
fn a_type_beside_plugins_counts_in_a_conf_alone() {
    let both = r#"{"name":"n","cniVersion":"1.0.0","type":"ptp","plugins":[{"type":"bridge"}]}"#;
    let files = [("05.conflist", both), ("10.conflist", CALICO)];
    let (mut now, then) = installed(&chain(), &files);
    assert_eq!(then, Ok("05.conflist".to_owned()));
    assert_eq!(kinds(&now, "05.conflist"), ["bridge", "istio-cni"]);
    for step in leave::steps(&chain(), &now) {
        take(&mut now, &step);
    }
    assert_eq!(now, directory(&files));
    for conf in [both.to_owned(), both.replace("[{\"type\":\"bridge\"}]", "null")] {
        let (now, then) = installed(&chain(), &[("05.conf", &conf)]);
        assert_eq!(then, Ok("05-istio-cni.conflist".to_owned()), "{conf}");
        assert_eq!(kinds(&now, "05-istio-cni.conflist"), ["ptp", "istio-cni"], "{conf}");
    }
}
