// SPDX-License-Identifier: Apache-2.0
//! Configurations of Multus as they are found on nodes, and what each comes to where our entry is in one file of the directory.

use super::super::scan::Content;
use super::*;

const WITH: &str = r#"{"name":"with","cniVersion":"1.0.0","plugins":[{"type":"a"},{"type":"istio-cni"}]}"#;
const WITHOUT: &str = r#"{"name":"without","cniVersion":"1.0.0","plugins":[{"type":"b"}]}"#;
const OVN: &str =
    r#"{"cniVersion":"0.4.0","name":"ovn-kubernetes","type":"ovn-k8s-cni-overlay","ipam":{},"dns":{}}"#;

const THICK: &str = r#"{"capabilities":{"bandwidth":true,"portMappings":true},"cniVersion":"0.3.1","logLevel":"verbose","logToStderr":true,"name":"multus-cni-network","clusterNetwork":"/host/etc/cni/net.d/10-flannel.conflist","type":"multus-shim"}"#;
const OPENSHIFT: &str = r#"{"binDir":"/var/lib/cni/bin","clusterNetwork":"/host/run/multus/cni/net.d/10-ovn-kubernetes.conf","cniVersion":"0.3.1","daemonSocketDir":"/run/multus/socket","globalNamespaces":"default,openshift-multus","name":"multus-cni-network","namespaceIsolation":true,"type":"multus-shim"}"#;
const ON_OVN: &str = r#"{"capabilities":{"portMappings":true},"cniVersion":"0.3.1","name":"multus-cni-network","readinessindicatorfile":"/etc/cni/net.d/10-ovn-kubernetes.conf","clusterNetwork":"/host/etc/cni/net.d/10-ovn-kubernetes.conf","type":"multus-shim"}"#;
const THIN: &str = r#"{
    "cniVersion": "1.0.0",
    "name": "multus-cni-network",
    "plugins": [ {
        "type": "multus",
        "capabilities": {"portMappings":true},
        "kubeconfig": "/etc/cni/net.d/multus.d/multus.kubeconfig",
        "delegates": [ INLINE ]
    }]
}"#;

fn directory(path: Option<&str>, files: &[(&str, &str)]) -> DirectorySnapshot {
    let files = files.iter().map(|(name, text)| ((*name).to_owned(), Content::Text((*text).to_owned())));
    DirectorySnapshot {
        files: files.collect(),
        path: path.map(PathBuf::from),
        ..DirectorySnapshot::default()
    }
}

/// Reason why Multus, as the first file, does not call our plugin; empty if it does.
fn called(multus: &str, now: &DirectorySnapshot) -> String {
    let document = Document::parse(multus).unwrap();
    let multus = Multus::of(now, &document).unwrap();
    multus.calls(now, "10-with.conflist").err().map(|why| why.to_string()).unwrap_or_default()
}

const USUAL: &str = "/etc/cni/net.d";
const FLANNEL: &[(&str, &str)] = &[("10-flannel.conflist", WITH)];
const BOTH: &[(&str, &str)] = &[("05-without.conflist", WITHOUT), ("10-with.conflist", WITH)];

/// Checks what comes of Multus' file in the directory of this path; `""` if our plugin is called.
fn comes_to(multus: &str, path: &str, files: &[(&str, &str)], wanted: &str) {
    let got = called(multus, &directory(Some(path).filter(|path| !path.is_empty()), files));
    assert!(got.contains(wanted) && got.is_empty() == wanted.is_empty(), "{multus} in {path}: {got:?}");
}

/// Multus' file with these keys.
fn single(keys: &str) -> String {
    format!(r#"{{"name":"m","type":"multus",{keys}}}"#)
}

#[test]
fn thick_attaches_the_file_that_its_daemon_sees() {
    comes_to(THICK, USUAL, FLANNEL, "");
    comes_to(THICK, "/var/lib/rancher/k3s/agent/etc/cni/net.d", FLANNEL, "");
    comes_to(THICK, "", FLANNEL, "");
    comes_to(THICK, "/etc/cni/multus/net.d", FLANNEL, "not among the files of the agent's directory");
    let lacks = "network of 10-flannel.conflist, and that lacks istio-cni: set CNI_CONF_NAME to 10-flannel.conflist, or Multus' clusterNetwork to the path of 10-with.conflist";
    comes_to(THICK, USUAL, &[("10-flannel.conflist", WITHOUT), ("10-with.conflist", WITH)], lacks);
    comes_to(THICK, USUAL, BOTH, "10-flannel.conflist, and it is not there");
    comes_to(THICK, USUAL, &[("10-flannel.conflist", "{}")], "10-flannel.conflist, and it has no list");
    let elsewhere = "/host/run/multus/cni/net.d/10-ovn-kubernetes.conf, which is not among";
    comes_to(OPENSHIFT, USUAL, &[("10-ovn-kubernetes.conf", OVN)], elsewhere);
    comes_to(OPENSHIFT, "/var/run/multus/cni/net.d", &[("10-ovn-kubernetes.conf", OVN)], "lacks istio-cni");
}

#[test]
fn a_conf_has_no_entry_of_ours_and_may_be_waited_for() {
    let with_owner = [("10-ovn-kubernetes.conf", OVN), ("10-with.conflist", WITH)];
    let lacks = "10-ovn-kubernetes.conf, and that lacks istio-cni: set no CNI_CONF_NAME, so that istio-cni is chained to Multus' own file, or Multus' clusterNetwork to the path of 10-with.conflist";
    comes_to(ON_OVN, USUAL, &with_owner, lacks);
    let waits = "before /etc/cni/net.d/10-ovn-kubernetes.conf is there (readinessindicatorfile)";
    comes_to(ON_OVN, USUAL, &[("10-with.conflist", WITH)], waits);
    let unseen = r#""clusterNetwork":"/etc/cni/net.d/10-with.conflist","readinessindicatorfile":"/run/multus/cni/ready""#;
    comes_to(&single(unseen), USUAL, BOTH, "");
}

#[test]
fn thin_attaches_what_it_has_inline_unless_a_network_is_named() {
    let inline = |lists: &[&str]| THIN.replace("INLINE", &lists.join(","));
    let copies = "none has istio-cni: restart Multus, so that it copies 10-with.conflist again";
    comes_to(&inline(&[WITHOUT]), USUAL, BOTH, copies);
    comes_to(&inline(&[WITH]), USUAL, BOTH, "");
    comes_to(&inline(&[WITHOUT, WITH]), USUAL, BOTH, "");
    for (file, inline, wanted) in [("10-with", WITHOUT, ""), ("05-without", WITH, "lacks istio-cni")] {
        let keys = format!(r#""clusterNetwork":"/etc/cni/net.d/{file}.conflist","delegates":[{inline}]"#);
        comes_to(&single(&keys), USUAL, BOTH, wanted);
    }
    comes_to(&single(r#""kubeconfig":"/k""#), USUAL, BOTH, "names no network (clusterNetwork, delegates)");
    let odd = r#""clusterNetwork":7,"delegates":"x","defaultNetworks":{},"confDir":null"#;
    comes_to(&single(odd), USUAL, BOTH, "names no network");
}

#[test]
fn a_name_is_looked_up_in_its_directory_and_further_networks_count() {
    let named = |name: &str, more: &str| single(&format!(r#""clusterNetwork":"{name}"{more}"#));
    let here = r#","confDir":"/etc/cni/net.d""#;
    comes_to(&named("with", here), USUAL, BOTH, "");
    comes_to(&named("without", here), USUAL, BOTH, "network of 05-without.conflist");
    comes_to(&named("with", ""), USUAL, BOTH, "network with, which is not among");
    comes_to(&named("other", here), USUAL, BOTH, "network other, which is not among");
    comes_to(&named("/etc/cni/net.d", ""), USUAL, BOTH, "which is not among");
    let further = |file: &str| format!(r#","defaultNetworks":["/etc/cni/net.d/{file}"]"#);
    let without = "/etc/cni/net.d/05-without.conflist";
    comes_to(&named(without, &further("10-with.conflist")), USUAL, BOTH, "");
    comes_to(&named("other", &further("05-without.conflist")), USUAL, BOTH, "network other");
}

#[test]
fn the_daemons_own_configuration_replaces_keys() {
    let files = [("05-without.conflist", WITHOUT), ("10-flannel.conflist", WITH)];
    let with_daemon = |daemon: &str| {
        let now = directory(Some("/etc/cni/net.d"), &files);
        called(THICK, &DirectorySnapshot { multus_daemon: Some(daemon.to_owned()), ..now })
    };
    assert_eq!(with_daemon(r#"{"chrootDir":"/hostroot","logLevel":"verbose"}"#), "");
    assert!(with_daemon(r#"{"clusterNetwork":"/host/etc/cni/net.d/05-without.conflist"}"#).contains("lacks"));
    assert_eq!(with_daemon("no JSON"), "", "its daemon does not start with it");
}

#[test]
fn networks_without_a_configuration_are_looked_up_in_one_directory() {
    for (said, of_node, is_same) in [
        (None, "/etc/cni/multus/net.d", true),
        (None, "/etc/cni/net.d", false),
        (Some("/host/etc/cni/net.d"), "/etc/cni/multus/net.d", false),
        (Some("/host/etc/cni/net.d"), "/etc/cni/net.d", true),
        (Some("/hostroot/etc/cni/multus/net.d"), "/etc/cni/multus/net.d", true),
        (Some("/etc/cni/net.d"), "/var/lib/rancher/k3s/agent/etc/cni/net.d", true),
        (Some("/run/cni"), "/var/run/cni", true),
        (Some("/"), "/etc/cni/net.d", false),
        (Some("/host"), "/etc/cni/net.d", false),
        (Some(""), "/etc/cni/multus/net.d", true),
    ] {
        let key = said.map(|said| format!(r#","confDir":"{said}""#)).unwrap_or_default();
        let text = format!(r#"{{"name":"m","type":"multus-shim"{key}}}"#);
        let multus = Multus::of(&DirectorySnapshot::default(), &Document::parse(&text).unwrap()).unwrap();
        assert_eq!(multus.looks_in(Path::new(of_node)).is_ok(), is_same, "{said:?} and {of_node}");
    }
}

#[test]
fn a_file_of_another_plugin_is_not_its() {
    for text in [WITH, WITHOUT, OVN, r#"{"name":"n","plugins":[]}"#] {
        let document = Document::parse(text).unwrap();
        assert_eq!(Multus::of(&DirectorySnapshot::default(), &document), None, "{text}");
    }
}
