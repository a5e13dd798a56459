// SPDX-License-Identifier: Apache-2.0
//! Documents that are in use, as their manuals show them, and what comes of them.

use manifests::Mistakes;
use manifests::inputs::install::{Installation, Source, Sources, install};
use manifests::resolve::Context;
use manifests::values::{Provider, TaintMode, Values};

fn from(documents: &[&str], platform: Option<&str>) -> Result<Installation, Mistakes> {
    let source = |text: &&str| Source { name: "mesh.yaml".to_owned(), text: (*text).to_owned() };
    let sources = Sources { documents: documents.iter().map(source).collect(), ..Sources::default() };
    install(&sources, &Context { platform: platform.map(str::to_owned), ..Context::default() })
}

fn values(text: &str) -> Result<Installation, Mistakes> {
    let source = Source { name: "values.yaml".to_owned(), text: text.to_owned() };
    install(&Sources { values: vec![source], ..Sources::default() }, &Context::default())
}

fn told(installation: &Installation) -> Vec<String> {
    installation.notes.iter().map(ToString::to_string).collect()
}

fn rendered(installation: Installation) -> Values {
    let Some(values) = installation.values else { panic!("nothing is installed: {:?}", installation.notes) };
    values
}

const COMPONENT: &str = "\
apiVersion: asm.alauda.io/v1alpha1
kind: ServiceMesh
spec:
  componentConfig:
    - name: istioCni
      group: istio
      cni:
        namespace: kube-system
";

const ADVANCED: &str = "        # Advanced configuration
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
    assert_eq!(told(&installation), ["note: set on the control plane: pilot.cni.enabled=true"]);
    let mut values = rendered(installation);
    assert_eq!(values.release.namespace, "kube-system");
    values.release = manifests::Release::default();
    assert_eq!(values, Values::resolve(&serde_json::Value::Null, &Context::default()).unwrap());
}

#[test]
fn a_mesh_with_everything_that_its_manual_shows() {
    let installation = from(&[&format!("{COMPONENT}{ADVANCED}")], None).unwrap();
    assert!(!told(&installation).iter().any(|note| note.contains("logLevel")), "{:?}", told(&installation));
    let values = rendered(installation);
    assert_eq!(
        (values.logging.level.as_str(), values.chained, values.provider),
        ("info", true, Provider::Default)
    );
    assert_eq!(
        (values.cni_bin_dir.as_str(), values.cni_netns_dir.as_str()),
        ("/opt/cni/bin", "/var/run/netns")
    );
    assert_eq!(values.exclude_namespaces, ["istio-system", "kube-system"]);
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
        told(&installation),
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
    let error = from(&[&format!("{COMPONENT}{ADVANCED}")], Some("openshift")).unwrap_err().to_string();
    let place = "spec.componentConfig[istioCni].cni.values";
    let want = [
        format!(
            "{place}.chained: true contradicts platform: \"openshift\": OpenShift runs the plugin by Multus; set chained: false, or leave it out"
        ),
        format!(
            "{place}.provider: \"default\" contradicts platform: \"openshift\": OpenShift runs the plugin by Multus; set provider: multus, or leave it out"
        ),
    ];
    assert_eq!(error.lines().collect::<Vec<_>>(), want);
    let fine = ADVANCED.replace("chained: true", "chained: false").replace("default", "multus");
    let values = rendered(from(&[&format!("{COMPONENT}{fine}")], Some("openshift")).unwrap());
    assert_eq!(values.cni_bin_dir, "/var/lib/cni/bin");
}

#[test]
fn multus_and_a_chain_are_named_both() {
    let text = format!("{COMPONENT}{}", ADVANCED.replace("provider: default", "provider: multus"));
    let error = from(&[&text], None).unwrap_err().to_string();
    let place = "spec.componentConfig[istioCni].cni.values";
    assert!(
        error.starts_with(&format!("{place}.chained: true contradicts {place}.provider: \"multus\": ")),
        "{error}"
    );
}

#[test]
fn injector_and_node_agent_have_one_provider() {
    let multus = INJECTOR.replace("default", "multus");
    let error = from(&[&format!("{COMPONENT}{ADVANCED}"), &multus], None).unwrap_err().to_string();
    let want = "spec.istioConfig.cni.provider: \"multus\" contradicts spec.componentConfig[istioCni].cni.values.provider: \"default\": ";
    assert!(error.starts_with(want), "{error}");
}

#[test]
fn an_injector_that_does_not_count_on_the_agent_is_told() {
    let installation = from(&[COMPONENT, &INJECTOR.replace("true", "false")], None).unwrap();
    assert!(
        told(&installation)[0]
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
    let error = from(&[text], None).unwrap_err().to_string();
    let place = "spec.componentConfig[istioCni].cni";
    let want = [
        format!("{place}.namespace: 7: must be a text"),
        format!("{place}.values.chaind: true: there is no such value; did you mean chained?"),
        format!("{place}.values.cniNetnsDir: \"netns\": must be an absolute path"),
        "spec.istioConfig.cni.enable: true: there is no such value; did you mean enabled?".to_owned(),
        "spec.istioConfig.cni.provider: \"calico\": must be one of \"default\", \"multus\"".to_owned(),
    ];
    assert_eq!(error.lines().collect::<Vec<_>>(), want);
    for (wrong, want) in [
        ("group: istio", "spec.componentConfig[istioCni].group: null: must be \"istio\""),
        (
            "namespace: kube-system",
            "spec.componentConfig[istioCni].cni.namespaces: \"x\": there is no such value; did you mean namespace?",
        ),
    ] {
        let text =
            COMPONENT.replace(wrong, if wrong.starts_with("group") { "# no group" } else { "namespaces: x" });
        assert_eq!(from(&[&text], None).unwrap_err().to_string(), want);
    }
}

const OPERATOR: &str = "\
apiVersion: install.istio.io/v1alpha1
kind: IstioOperator
spec:
  components:
    cni:
      enabled: true
";

#[test]
fn an_operator_with_the_component_installs_it() {
    let values = rendered(from(&[OPERATOR], None).unwrap());
    assert_eq!((values.release.namespace.as_str(), values.chained), ("istio-system", true));
    let values = rendered(
        from(
            &[&OPERATOR
                .replace("enabled: true", "{namespace: istio-system, enabled: true}")
                .replace("cni:\n      {", "cni: {")],
            None,
        )
        .unwrap(),
    );
    assert_eq!(values.release.namespace, "istio-system");
}

#[test]
fn an_operator_for_gke() {
    let text = format!(
        "{OPERATOR}      namespace: kube-system\n  values:\n    cni:\n      cniBinDir: /home/kubernetes/bin\n"
    );
    let values = rendered(from(&[&text], None).unwrap());
    assert_eq!(
        (values.cni_bin_dir.as_str(), values.release.namespace.as_str()),
        ("/home/kubernetes/bin", "kube-system")
    );
}

#[test]
fn an_operator_for_openshift_of_former_releases() {
    let text = format!(
        "{OPERATOR}      namespace: kube-system
  values:
    sidecarInjectorWebhook:
      injectedAnnotations:
        k8s.v1.cni.cncf.io/networks: istio-cni
    cni:
      cniBinDir: /var/lib/cni/bin
      cniConfDir: /etc/cni/multus/net.d
      cniConfFileName: istio-cni.conf
      chained: false
"
    );
    let installation = from(&[&text], None).unwrap();
    let told = told(&installation);
    assert!(told[0].starts_with("warning: spec.values.sidecarInjectorWebhook.injectedAnnotations.k8s.v1.cni.cncf.io/networks: \"istio-cni\": "), "{told:?}");
    assert_eq!(told[1], "note: set on the control plane: pilot.cni.enabled=true, pilot.cni.provider=multus");
    let values = rendered(installation);
    assert_eq!((values.provider, values.chained), (Provider::Multus, false));
    assert_eq!(values.cni_conf_file_name, "istio-cni.conf");
    let wrong = text.replace("chained: false", "chained: false\n      provider: default");
    let error = from(&[&wrong], None).unwrap_err().to_string();
    assert!(
        error.contains(
            "k8s.v1.cni.cncf.io/networks: \"istio-cni\" contradicts spec.values.cni.provider: \"default\""
        ),
        "{error}"
    );
}

#[test]
fn a_canarys_document_is_the_node_agent_alone() {
    let text = "\
apiVersion: install.istio.io/v1alpha1
kind: IstioOperator
spec:
  profile: empty # Do not include other components
  components:
    cni:
      enabled: true
  values:
    cni:
      excludeNamespaces:
        - istio-system
        - kube-system
";
    let values = rendered(from(&[text], None).unwrap());
    assert_eq!(values.exclude_namespaces, ["istio-system", "kube-system"]);
    assert_eq!(values.profile, "empty");
}

#[test]
fn a_revisioned_control_plane_installs_no_node_agent() {
    for values in [
        "  values:\n    pilot:\n      cni:\n        enabled: true\n",
        "values:\n  istio_cni:\n    enabled: true\n",
    ] {
        let text = format!(
            "apiVersion: install.istio.io/v1alpha1\nkind: IstioOperator\nspec:\n  revision: REVISION_NAME\n{values}"
        );
        let installation = from(&[&text], None).unwrap();
        assert_eq!(installation.values, None, "{text}");
        assert_eq!(
            told(&installation).last().unwrap(),
            "note: set on the control plane: pilot.cni.enabled=true"
        );
    }
}

#[test]
fn a_revision_beside_the_component_is_its_label_and_told() {
    let installation = from(&[&format!("{OPERATOR}  revision: canary\n")], None).unwrap();
    assert!(
        told(&installation)[0]
            .starts_with("note: spec.revision: \"canary\": the node agent is one per cluster"),
        "{installation:?}"
    );
    assert_eq!(rendered(installation).revision, "canary");
}

#[test]
fn tags_too_far_apart_are_told() {
    for (tag, beyond) in [
        ("1.18.2", true),
        ("1.19.0", false),
        ("1.21.5-distroless", false),
        ("1.22.0", true),
        ("latest", false),
    ] {
        let text = format!("{OPERATOR}      tag: {tag}\n  hub: example.com/istio\n  tag: 1.20.3\n");
        let installation = from(&[&text], None).unwrap();
        assert_eq!(told(&installation).iter().any(|note| note.contains("minor version")), beyond, "{tag}");
        let values = rendered(installation);
        assert_eq!(
            (values.tag.as_str(), values.global.tag.as_str(), values.global.hub.as_str()),
            (tag, "1.20.3", "example.com/istio")
        );
    }
}

#[test]
fn a_profile_of_the_operator_may_be_a_platform() {
    let text = "apiVersion: install.istio.io/v1alpha1\nkind: IstioOperator\nspec: {profile: openshift}\n";
    let values = rendered(from(&[text], None).unwrap());
    assert_eq!((values.platform.as_str(), values.provider), ("openshift", Provider::Multus));
    let error = from(&[&text.replace("openshift", "huge")], None).unwrap_err().to_string();
    assert!(error.starts_with("spec.profile: \"huge\": unknown; known are ambient, default, "), "{error}");
}

#[test]
fn kubernetes_settings_of_the_component_are_values_or_refused() {
    let text = format!(
        "{OPERATOR}      k8s:\n        resources: {{limits: {{cpu: 1}}}}\n        env: [{{name: A, value: b}}]\n"
    );
    let values = rendered(from(&[&text], None).unwrap());
    assert_eq!(values.resources["limits"]["cpu"], 1);
    assert_eq!(values.env["A"], "b");
    let error = from(&[&format!("{text}        overlays: []\n        tolerations: x\n")], None)
        .unwrap_err()
        .to_string();
    let want = [
        "spec.components.cni.k8s.overlays: []: must be left out: it has no value of ours; change the rendered object instead",
        "spec.components.cni.k8s.tolerations: \"x\": must be a list of maps",
    ];
    assert_eq!(error.lines().collect::<Vec<_>>(), want);
}

#[test]
fn what_is_wrong_in_an_operator_is_told_as_it_is_written() {
    let text = format!(
        "{OPERATOR}      namespac: x\n  component: []\n  values:\n    cni: {{chained: 1, logLevel: [], repair: {{x: 1}}}}\n    global: {{logAsJson: 3, meshID: x}}\n"
    );
    let error = from(&[&text], None).unwrap_err().to_string();
    for want in [
        "spec.component: []: there is no such value; did you mean components?",
        "spec.values.cni.chained: 1: must be true or false",
        "spec.values.cni.logging.level: []: must be a text",
        "spec.values.cni.repair.x: 1: there is no such value",
        "spec.values.global.logAsJson: 3: must be true or false",
    ] {
        assert!(error.lines().any(|line| line == want), "{want}\n{error}");
    }
    let other = "apiVersion: v1\nkind: ConfigMap\n";
    let error = from(&[other], None).unwrap_err().to_string();
    assert!(error.starts_with("mesh.yaml: apiVersion \"v1\", kind \"ConfigMap\": neither "), "{error}");
}

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
    let told = told(&installation).join("\n");
    for new in [
        "logging.level",
        "taint.mode",
        "updateStrategy.rollingUpdate.maxUnavailable",
        "privileged: false has no effect",
        "psp_cluster_role",
        "ambient.redirectMode",
    ] {
        assert!(told.contains(new), "{new}\n{told}");
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
    assert!(told(&installation)[0].contains("taint.mode: untaint"), "{installation:?}");
    assert_eq!(rendered(installation).taint.mode, TaintMode::Off);
}

#[test]
fn later_inputs_win_and_the_namespace_that_is_asked_for_does() {
    let source = |text: &str| Source { name: "x".to_owned(), text: text.to_owned() };
    let sources = Sources {
        documents: vec![source(&format!("{COMPONENT}{ADVANCED}"))],
        values: vec![
            source("excludeNamespaces: [a]\nrepair: {enabled: false}\n"),
            source("excludeNamespaces: [b]\n"),
        ],
        set: vec!["repair.enabled=true".to_owned()],
        namespace: Some("asked".to_owned()),
    };
    let values = rendered(install(&sources, &Context::default()).unwrap());
    assert_eq!(
        (values.exclude_namespaces.as_slice(), values.repair.enabled),
        (["b".to_owned()].as_slice(), true)
    );
    assert_eq!(values.release.namespace, "asked");
}
