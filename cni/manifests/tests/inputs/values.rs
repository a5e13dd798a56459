// SPDX-License-Identifier: Apache-2.0
//! Values of charts, old and new.

use manifests::values::{Provider, TaintMode};

use super::{notes, rendered, values};

#[test]
fn values_of_old_charts_are_translated() {
    let text = "\
revision: canary
cni:
  hub: example.com/istio
  tag: 1.12.0
  image: install-cni
  logLevel: debug
  cniBinDir: \"\"
  cniConfDir: /etc/cni/net.d
  cniConfFileName: \"\"
  cniNetnsDir:
  excludeNamespaces: [istio-system, kube-system]
  podAnnotations: {}
  psp_cluster_role: \"\"
  chained: true
  privileged: false
  provider: \"default\"
  ambient: {enabled: false, redirectMode: iptables, configDir: \"\"}
  repair: {enabled: true, hub: \"\", tag: \"\", labelPods: true, deletePods: true, repairPods: false}
  taint: {enabled: true}
  resourceQuotas: {enabled: false, pods: 5000}
  rollingMaxUnavailable: 1
global:
  hub: gcr.io/istio-testing
  logging: {level: \"default:info,cni:info\"}
  defaultResources: {requests: {cpu: 100m}}
istio_cni: {enabled: true, chained: true}
pilot: {cni: {enabled: true, provider: default}}
";
    let installation = values(text).unwrap();
    let notes = notes(&installation).join("\n");
    for new in [
        "logging.pluginLevel",
        "taint.mode",
        "updateStrategy.rollingUpdate.maxUnavailable",
        "privileged: false has no effect",
        "psp_cluster_role",
        "ambient.redirectMode",
    ] {
        assert!(notes.contains(new), "{new}\n{notes}");
    }
    let values = rendered(installation);
    assert_eq!(
        (values.revision.as_str(), values.tag.as_str(), values.taint.mode),
        ("canary", "1.12.0", TaintMode::Readiness)
    );
    assert!(values.repair.delete_pods && values.repair.label_pods && !values.repair.repair_pods);
}

#[test]
fn old_keys_of_the_injector_must_agree_with_the_new_ones_and_with_the_agent() {
    let error =
        values("istio_cni: {chained: false}\npilot: {cni: {provider: default}}\n").unwrap_err().to_string();
    assert_eq!(
        error,
        "pilot.cni.provider: \"default\" contradicts istio_cni.chained: false: both are said of the control plane"
    );
    let error = values("pilot: {cni: {provider: multus}}\nchained: false\nprovider: default\n")
        .unwrap_err()
        .to_string();
    assert!(
        error.starts_with("pilot.cni.provider: \"multus\" contradicts provider: \"default\": "),
        "{error}"
    );
    let values = rendered(values("istio_cni: {enabled: true, chained: false}\nchained: false\n").unwrap());
    assert_eq!(values.provider, Provider::Multus);
}

#[test]
fn the_control_planes_own_untainter_is_told() {
    let installation = values("taint: {enabled: true, namespace: istio-system}\n").unwrap();
    assert!(notes(&installation)[0].contains("taint.mode: untaint"), "{installation:?}");
    assert_eq!(rendered(installation).taint.mode, TaintMode::Off);
}

#[test]
fn what_is_neither_on_nor_off_is_told() {
    for (text, place) in [("cni: {enabled: maybe}", "enabled"), ("enabled: \"false\"", "enabled")] {
        let error = values(text).unwrap_err().to_string();
        assert!(
            error.starts_with(&format!("{place}: ")) && error.contains("must be true or false"),
            "{error}"
        );
    }
    assert!(values("cni: {enabled: false}").unwrap().values.is_none());
}
