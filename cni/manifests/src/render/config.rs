// SPDX-License-Identifier: Apache-2.0
//! The agent's settings, under the names that the agent reads.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::make::{CONFIG_MAP, Maker, or};
use super::taint;
use crate::values::{StatusGate, TaintMode, Values};

/// `ConfigMap` that the agent watches.
pub(super) fn config_map(make: &Maker<'_>) -> Value {
    let mut data = settings(make.values);
    data.extend(make.values.env.clone());
    make.local(CONFIG_MAP, "istio-cni-config", json!({ "data": data }))
}

pub(super) fn settings(values: &Values) -> BTreeMap<String, String> {
    let mut data: BTreeMap<_, _> = switches(values).map(|(key, on)| (key, on.to_string())).into();
    data.extend(texts(values));
    let when_said = [
        ("CNI_CONF_NAME", values.cni_conf_file_name.as_str(), true),
        (
            "ISTIO_OWNED_CNI_CONFIG_FILENAME",
            &values.istio_owned_cni_config_file_name,
            values.istio_owned_cni_config,
        ),
    ];
    for (key, text, counts) in when_said {
        if counts && !text.is_empty() {
            data.insert(key, text.to_owned());
        }
    }
    if values.status_gate == StatusGate::Agent {
        data.insert("MILLRACE_STATUS_GATE", "agent".to_owned());
    }
    if values.taint.mode == TaintMode::Node {
        data.insert("MILLRACE_TAINT_OWN_NODE", "true".to_owned());
        data.insert("MILLRACE_TAINT_NAME", taint::name(&values.taint).to_owned());
    }
    data.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

fn switches(values: &Values) -> [(&'static str, bool); 15] {
    let (ambient, repair) = (&values.ambient, &values.repair);
    [
        ("AMBIENT_ENABLED", ambient.enabled),
        ("AMBIENT_DNS_CAPTURE", ambient.dns_capture),
        ("AMBIENT_IPV6", ambient.ipv6),
        ("AMBIENT_RECONCILE_POD_RULES_ON_STARTUP", ambient.reconcile_iptables_on_startup),
        ("ENABLE_AMBIENT_DETECTION_RETRY", ambient.enable_ambient_detection_retry),
        ("CHAINED_CNI_PLUGIN", values.chained),
        ("CNI_CONF_GROUP_READ", values.cni_conf_group_read),
        ("ISTIO_OWNED_CNI_CONFIG", values.istio_owned_cni_config),
        ("LOG_AS_JSON", values.global.log_as_json),
        ("MILLRACE_RAISE_CNI_VERSION", values.raise_cni_version),
        ("MILLRACE_REPAIR_UNREDIRECTED", repair.unredirected),
        ("NATIVE_NFTABLES", values.global.native_nftables),
        ("REPAIR_ENABLED", repair.enabled),
        ("REPAIR_DELETE_PODS", repair.delete_pods),
        ("REPAIR_REPAIR_PODS", repair.repair_pods),
    ]
}

fn texts(values: &Values) -> [(&'static str, String); 11] {
    let (repair, global) = (&values.repair, &values.global);
    [
        ("CURRENT_AGENT_VERSION", or(&or(&values.tag, &global.tag), env!("CARGO_PKG_VERSION"))),
        ("AMBIENT_ENABLEMENT_SELECTOR", json!(values.ambient.enablement_selectors).to_string()),
        ("EXCLUDE_NAMESPACES", values.exclude_namespaces.join(",")),
        ("KUBECONFIG_MODE", values.kubeconfig_mode.clone()),
        ("LOG_OUTPUT_LEVEL", or(&values.logging.level, &global.logging.level)),
        ("MILLRACE_BACKEND", word(values.backend)),
        ("MILLRACE_REPAIR_FALLBACK", word(repair.fallback)),
        ("REPAIR_BROKEN_POD_LABEL_KEY", repair.broken_pod_label_key.clone()),
        ("REPAIR_BROKEN_POD_LABEL_VALUE", repair.broken_pod_label_value.clone()),
        ("REPAIR_INIT_CONTAINER_NAME", repair.init_container_name.clone()),
        ("REPAIR_LABEL_PODS", repair.label_pods.to_string()),
    ]
}

/// Name of a variant.
pub(super) fn word(one: impl serde::Serialize) -> String {
    json!(one).as_str().unwrap_or_default().to_owned()
}
