// SPDX-License-Identifier: Apache-2.0
//! Settings from layers of texts.

use std::collections::BTreeMap;

use super::*;
use crate::settings::RepairPolicy;
use crate::settings::layers::Layers;

fn settings_of(pairs: &[(&str, &str)]) -> (Settings, Vec<Mistake>) {
    let environment: BTreeMap<String, String> =
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    build(&Layers::new(BTreeMap::new(), &environment).values(), &NodeFacts::default())
}

fn of(pairs: &[(&str, &str)]) -> Settings {
    let (settings, mistakes) = settings_of(pairs);
    assert_eq!(mistakes, []);
    settings
}

#[test]
fn defaults_are_upstreams() {
    let settings = of(&[]);
    assert_eq!(settings.places.net_dir, PathBuf::from("/host/etc/cni/net.d"));
    assert_eq!(settings.places.run_dir, PathBuf::from("/var/run/istio-cni"));
    assert!(settings.chain.chained && !settings.chain.owned && !settings.chain.group_read);
    assert_eq!(settings.chain.owned_name, "02-istio-cni.conflist");
    assert_eq!((settings.chain.conf_name.as_str(), settings.chain.template.as_deref()), ("", Some("")));
    assert_eq!(settings.kubeconfig.mode, 0o600);
    assert_eq!(settings.kubeconfig.ca_file, PathBuf::from(ACCOUNT_DIR).join("ca.crt"));
    assert_eq!(settings.monitoring_port, Some(15014));
    assert_eq!(
        (settings.entry.log_level.as_str(), settings.entry.enablement_selectors.as_str()),
        ("info", "[]")
    );
    let repair = settings.repair;
    assert!(repair.enabled && repair.policy.is_none() && repair.fallback.is_none());
    assert_eq!((repair.exit_code, repair.init_container.as_str()), (126, "istio-validation"));
    assert_eq!(repair.label, ("cni.istio.io/uninitialized".to_owned(), "true".to_owned()));
    assert_eq!(settings.own.daemonset, "istio-cni-node");
    assert!(settings.blocked.is_empty() && !settings.always_uninstall);
}

#[test]
fn a_selector_of_repair_that_cannot_be_read_is_no_selector_of_everything() {
    for (key, text) in [("REPAIR_LABEL_SELECTORS", "app in (x"), ("REPAIR_FIELD_SELECTORS", "spec.volumes=x")]
    {
        let (settings, mistakes) = settings_of(&[(key, text)]);
        assert!(!settings.repair.enabled, "{key}");
        assert!(mistakes[0].blocks() && mistakes[0].to_string().starts_with(key), "{}", mistakes[0]);
    }
}

#[test]
fn what_is_no_truth_value_is_false_as_upstream_has_it_and_is_told() {
    for text in ["nope", "x", ""] {
        let (settings, mistakes) = settings_of(&[("CHAINED_CNI_PLUGIN", text), ("NATIVE_NFTABLES", text)]);
        assert!(!settings.chain.chained && !settings.entry.native_nftables, "{text:?}");
        assert!(settings.blocked.is_empty(), "upstream installs, too");
        let keys: Vec<_> = mistakes.iter().map(|mistake| mistake.key.name).collect();
        assert_eq!(keys, ["chained-cni-plugin", "native-nftables"], "all at once");
    }
    let (_, mistakes) = settings_of(&[("CHAINED_CNI_PLUGIN", "nope")]);
    assert_eq!(
        mistakes[0].to_string(),
        r#"CHAINED_CNI_PLUGIN="nope" from the environment is not usable: allowed are true and false (also 1, t, T, TRUE, True, 0, f, F, FALSE, False); "false" holds instead"#
    );
    assert!(of(&[("CHAINED_CNI_PLUGIN", "TRUE"), ("NATIVE_NFTABLES", "1")]).entry.native_nftables);
}

#[test]
fn a_flag_that_is_no_value_stops_our_entry() {
    let flags = BTreeMap::from([(&table::CHAINED, "nope".to_owned())]);
    let (settings, mistakes) = build(&Layers::new(flags, &BTreeMap::new()).values(), &NodeFacts::default());
    assert!(mistakes[0].blocks());
    assert!(
        settings.blocked[0].starts_with(r#"--chained-cni-plugin="nope" is not usable"#),
        "{:?}",
        settings.blocked
    );
}

#[test]
fn what_cannot_be_guessed_stops_our_entry_and_nothing_else() {
    for (key, value) in [
        ("AMBIENT_ENABLEMENT_SELECTOR", "{not: [valid"),
        ("CNI_CONF_NAME", "../10-x.conflist"),
        ("ISTIO_OWNED_CNI_CONF_FILENAME", "a/b"),
        ("CNI_NETWORK_CONFIG", "{"),
        ("CNI_NETWORK_CONFIG", r#"{"type": "calico"}"#),
    ] {
        let (settings, mistakes) = settings_of(&[(key, value), ("KUBECONFIG_MODE", "0640")]);
        assert_eq!((mistakes.len(), settings.blocked.len()), (1, 1), "{key}");
        assert!(settings.blocked[0].contains(&format!("{value:?}")), "{key}: {:?}", settings.blocked);
        assert_eq!(settings.kubeconfig.mode, 0o640);
    }
}

#[test]
fn numbers_that_are_none_leave_the_default() {
    let (settings, mistakes) = settings_of(&[
        ("KUBECONFIG_MODE", "rw"),
        ("MONITORING_PORT", "http"),
        ("REPAIR_INIT_CONTAINER_EXIT_CODE", "x"),
        ("MILLRACE_BACKEND", "ebpf"),
        ("MILLRACE_REPAIR_FALLBACK", "repair"),
        ("LOG_OUTPUT_LEVEL", "loud"),
    ]);
    assert_eq!((settings.kubeconfig.mode, settings.monitoring_port), (0o600, Some(15014)));
    assert_eq!((settings.repair.exit_code, settings.repair.fallback), (126, None));
    assert_eq!((mistakes.len(), settings.blocked.len()), (6, 0));
    let settings = of(&[("MONITORING_PORT", "0"), ("REPAIR_INIT_CONTAINER_EXIT_CODE", "")]);
    assert_eq!((settings.monitoring_port, settings.repair.exit_code), (None, 0));
}

#[test]
fn the_first_policy_that_is_on_counts() {
    let all = [("REPAIR_LABEL_PODS", "true"), ("REPAIR_DELETE_PODS", "true"), ("REPAIR_REPAIR_PODS", "true")];
    assert_eq!(of(&all).repair.policy, Some(RepairPolicy::Repair));
    assert_eq!(of(&all[..2]).repair.policy, Some(RepairPolicy::Delete));
    assert_eq!(of(&all[..1]).repair.policy, Some(RepairPolicy::Label));
}

#[test]
fn the_agents_namespace_is_the_accounts_if_nobody_says() {
    let found = NodeFacts { account_namespace: "mesh".to_owned(), ..NodeFacts::default() };
    for variable in [None, Some("")] {
        let environment: BTreeMap<String, String> =
            variable.map(|value| ("POD_NAMESPACE".to_owned(), value.to_owned())).into_iter().collect();
        let (settings, _) = build(&Layers::new(BTreeMap::new(), &environment).values(), &found);
        assert_eq!(settings.own.namespace, "mesh", "{variable:?}");
        assert_eq!(
            settings.entry.pod_namespace, "mesh",
            "the plugin compares the agent's namespace with this"
        );
    }
    assert_eq!(of(&[("POD_NAMESPACE", "a")]).entry.pod_namespace, "a");
}

#[test]
fn the_node_is_the_one_that_the_cluster_names() {
    assert_eq!(of(&[("NODE_NAME", "a"), ("KUBERNETES_NODE_NAME", "b")]).own.node, "a");
    let settings = of(&[("REPAIR_NODE_NAME", "r"), ("KUBERNETES_NODE_NAME", "b")]);
    assert_eq!((settings.own.node.as_str(), settings.repair.node_name.as_str()), ("b", "r"));
    assert_eq!(of(&[("NODE_NAME", "a")]).repair.node_name, "a");
}

#[test]
fn the_plugins_level_comes_from_its_own_scope() {
    let level = |text| of(&[("LOG_OUTPUT_LEVEL", text)]).entry.log_level;
    assert_eq!(level("default:debug"), "info");
    assert_eq!(level("default:info,cni-plugin:debug"), "debug");
    assert_eq!(level("all:error"), "error");
}

#[test]
fn a_template_is_filled_in_and_its_file_wins() {
    let template = |text: &str| format!(r#"{{"type": "istio-cni", "x": "{text}"}}"#);
    let inline = template("__KUBECONFIG_FILEPATH__ on __KUBERNETES_NODE_NAME__");
    let said = [("CNI_NETWORK_CONFIG", inline.as_str()), ("CNI_AGENT_RUN_DIR", "/r")];
    let environment: BTreeMap<String, String> =
        said.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    let values = Layers::new(BTreeMap::new(), &environment).values();
    let mut found = NodeFacts { hostname: "h".to_owned(), ..NodeFacts::default() };
    assert_eq!(build(&values, &found).0.chain.template, Some(template("/r/istio-cni-kubeconfig on h")));
    found.template_file = Some(Ok(template("file")));
    assert_eq!(build(&values, &found).0.chain.template, Some(template("file")));
    found.template_file = Some(Err("no such file".to_owned()));
    let (settings, mistakes) = build(&values, &found);
    assert_eq!((settings.chain.template, mistakes[0].key), (None, &table::TEMPLATE_FILE));
    assert!(mistakes[0].blocks());
}
