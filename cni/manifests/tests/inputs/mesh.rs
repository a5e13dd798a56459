// SPDX-License-Identifier: Apache-2.0
//! `ServiceMesh`.

use manifests::values::{Provider, Values};

use super::{from, named_image, notes, refusal, rendered};

pub(super) const COMPONENT: &str = "\
apiVersion: asm.alauda.io/v1alpha1
kind: ServiceMesh
spec:
  componentConfig:
    - name: istioCni
      group: istio
      cni:
        namespace: kube-system
";

pub(super) const ADVANCED: &str = "        # Advanced configuration
        values:
          logLevel: info
          cniBinDir: \"\"
          cniConfDir: /etc/cni/net.d
          cniConfFileName: \"\"
          cniNetnsDir:
          excludeNamespaces:
            - istio-system
            - kube-system
          chained: true
          provider: default
";

const INJECTOR: &str = "\
apiVersion: asm.alauda.io/v1alpha1
kind: ServiceMesh
spec:
  istioConfig:
    cni:
      enabled: true
      provider: default
";

const REPAIR: &str = "\
apiVersion: asm.alauda.io/v1alpha1
kind: ServiceMesh
spec:
  componentConfig:
    - name: istioCni
      group: istio
      cni:
        values:
          repair:
            enabled: true
            repairPods: true
            deletePods: false
            labelPods: false
";

#[test]
fn a_mesh_with_the_component_is_the_defaults_in_its_namespace() {
    let installation = from(&[COMPONENT], None).unwrap();
    assert_eq!(notes(&installation), ["note: set on the control plane: pilot.cni.enabled=true"]);
    let mut values = rendered(installation);
    assert_eq!(values.release.namespace, "kube-system");
    values.release = manifests::Release::default();
    assert_eq!(values, Values::resolve(&serde_json::Value::Null, &named_image()).unwrap());
}

#[test]
fn a_mesh_with_everything_that_its_manual_shows() {
    let installation = from(&[&format!("{COMPONENT}{ADVANCED}")], None).unwrap();
    assert!(!notes(&installation).iter().any(|note| note.contains("logLevel")), "{:?}", notes(&installation));
    let values = rendered(installation);
    assert_eq!(
        (values.logging.plugin_level.as_str(), values.chained, values.provider),
        ("info", true, Provider::Default)
    );
    assert_eq!(
        (values.cni_bin_dir.as_str(), values.cni_netns_dir.as_str()),
        ("/opt/cni/bin", "/var/run/netns")
    );
    assert_eq!(values.all["excludeNamespaces"], serde_json::json!(["istio-system", "kube-system"]));
}

#[test]
fn the_parts_of_a_mesh_are_one() {
    let installation = from(&[COMPONENT, INJECTOR, REPAIR], None).unwrap();
    let values = rendered(installation);
    assert!(values.release.namespace == "kube-system" && values.repair.repair_pods);
}

#[test]
fn a_list_of_documents_is_its_items() {
    let list =
        format!("kind: List\napiVersion: v1\nitems:\n- {}", COMPONENT.trim_end().replace('\n', "\n  "));
    assert_eq!(rendered(from(&[&list], None).unwrap()).release.namespace, "kube-system");
}

#[test]
fn a_mesh_without_the_component_installs_nothing_except_on_openshift() {
    let installation = from(&[INJECTOR], None).unwrap();
    assert_eq!(installation.values, None);
    assert_eq!(
        notes(&installation),
        [
            "warning: nothing is installed: no input asks for the node agent",
            "warning: spec.istioConfig.cni.enabled: true: pods wait in istio-validation until a node agent is installed",
            "note: set on the control plane: pilot.cni.enabled=true, pilot.cni.provider=default",
        ]
    );
    let mesh = "apiVersion: asm.alauda.io/v1alpha1\nkind: ServiceMesh\n";
    let values = rendered(from(&[mesh], Some("openshift")).unwrap());
    assert_eq!((values.provider, values.release.namespace.as_str()), (Provider::Multus, "kube-system"));
}

#[test]
fn on_openshift_a_mesh_must_not_say_otherwise() {
    let error = refusal(&[&format!("{COMPONENT}{ADVANCED}")], Some("openshift"));
    let place = "spec.componentConfig[istioCni].cni.values";
    let want = [
        format!(
            "{place}.chained: true contradicts platform: \"openshift\": OpenShift runs the plugin by Multus; set chained: false, or leave it out"
        ),
        format!(
            "{place}.provider: \"default\" contradicts platform: \"openshift\": OpenShift runs the plugin by Multus; set provider: multus, or leave it out"
        ),
    ];
    assert_eq!(error, want);
    let fine = ADVANCED.replace("chained: true", "chained: false").replace("default", "multus");
    let values = rendered(from(&[&format!("{COMPONENT}{fine}")], Some("openshift")).unwrap());
    assert_eq!(values.cni_bin_dir, "/var/lib/cni/bin");
}

#[test]
fn multus_and_a_chain_are_named_both() {
    let text = format!("{COMPONENT}{}", ADVANCED.replace("provider: default", "provider: multus"));
    let error = refusal(&[&text], None);
    let place = "spec.componentConfig[istioCni].cni.values";
    assert!(
        error[0].starts_with(&format!("{place}.chained: true contradicts {place}.provider: \"multus\": ")),
        "{error:?}"
    );
}

#[test]
fn injector_and_node_agent_have_one_provider() {
    let multus = INJECTOR.replace("default", "multus");
    let error = refusal(&[&format!("{COMPONENT}{ADVANCED}"), &multus], None);
    let want = "spec.istioConfig.cni.provider: \"multus\" contradicts spec.componentConfig[istioCni].cni.values.provider: \"default\": ";
    assert!(error[0].starts_with(want), "{error:?}");
}

#[test]
fn an_injector_that_does_not_count_on_the_agent_is_told() {
    let installation = from(&[COMPONENT, &INJECTOR.replace("true", "false")], None).unwrap();
    assert!(
        notes(&installation)[0]
            .starts_with("warning: spec.istioConfig.cni.enabled: false: pods get istio-init"),
        "{installation:?}"
    );
}

#[test]
fn everything_unknown_in_a_mesh_is_told() {
    let text = "\
apiVersion: asm.alauda.io/v1alpha1
kind: ServiceMesh
spec:
  componentConfig:
    - name: istioCni
      group: istio
      cni:
        namespace: 7
        values:
          chaind: true
          cniNetnsDir: netns
  istioConfig:
    cni: {enable: true, provider: calico}
";
    let error = refusal(&[text], None);
    let place = "spec.componentConfig[istioCni].cni";
    let want = [
        format!("{place}.namespace: 7: must be a text"),
        format!("{place}.values.chaind: true: there is no such value; did you mean chained?"),
        format!("{place}.values.cniNetnsDir: \"netns\": must be an absolute path"),
        "spec.istioConfig.cni.enable: true: there is no such value; did you mean enabled?".to_owned(),
        "spec.istioConfig.cni.provider: \"calico\": must be one of \"default\", \"multus\"".to_owned(),
    ];
    assert_eq!(error, want);
    for (wrong, want) in [
        ("group: istio", "spec.componentConfig[istioCni].group: null: must be \"istio\""),
        (
            "namespace: kube-system",
            "spec.componentConfig[istioCni].cni.namespaces: \"x\": there is no such value; did you mean namespace?",
        ),
    ] {
        let text =
            COMPONENT.replace(wrong, if wrong.starts_with("group") { "# no group" } else { "namespaces: x" });
        assert_eq!(refusal(&[&text], None), [want]);
    }
}
