// SPDX-License-Identifier: Apache-2.0
//! `IstioOperator`.

use manifests::inputs::install::{NamedText, Sources, install};
use manifests::resolve::Context;
use manifests::values::Provider;

use super::{from, named_image, notes, refusal, rendered};

pub(super) const OPERATOR: &str = "\
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
    let notes = notes(&installation);
    assert!(notes[0].starts_with("warning: spec.values.sidecarInjectorWebhook.injectedAnnotations.k8s.v1.cni.cncf.io/networks: \"istio-cni\": "), "{notes:?}");
    let directory = "note: spec.values.cni.cniConfDir: \"/etc/cni/multus/net.d\": that is OpenShift";
    assert!(notes[1].starts_with(directory), "{notes:?}");
    assert_eq!(notes[2], "note: set on the control plane: pilot.cni.enabled=true, pilot.cni.provider=multus");
    let values = rendered(installation);
    assert_eq!((values.provider, values.chained), (Provider::Multus, false));
    assert_eq!(
        (values.cni_conf_file_name.as_str(), values.platform.as_str()),
        ("istio-cni.conf", "openshift")
    );
    let elsewhere = text.replace("/var/lib/cni/bin", "/opt/cni/bin");
    assert_eq!(rendered(from(&[&elsewhere], None).unwrap()).platform, "", "one directory says nothing");
    assert_eq!(rendered(from(&[&text], Some("k3s")).unwrap()).platform, "k3s", "the operator knows better");
    let wrong = text.replace("chained: false", "chained: false\n      provider: default");
    let error = refusal(&[&wrong], None);
    assert!(
        error[0].contains(
            "k8s.v1.cni.cncf.io/networks: \"istio-cni\" contradicts spec.values.cni.provider: \"default\""
        ),
        "{error:?}"
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
    assert_eq!(values.all["excludeNamespaces"], serde_json::json!(["istio-system", "kube-system"]));
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
            notes(&installation).last().unwrap(),
            "note: set on the control plane: pilot.cni.enabled=true"
        );
    }
}

#[test]
fn a_revision_beside_the_component_is_its_label_and_told() {
    let installation = from(&[&format!("{OPERATOR}  revision: canary\n")], None).unwrap();
    assert!(
        notes(&installation)[0]
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
        assert_eq!(notes(&installation).iter().any(|note| note.contains("minor version")), beyond, "{tag}");
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
    let error = refusal(&[&text.replace("openshift", "huge")], None);
    assert!(
        error[0].starts_with("spec.profile: \"huge\": unknown; known are ambient, default, "),
        "{error:?}"
    );
}

#[test]
fn kubernetes_settings_of_the_component_are_values_or_refused() {
    let text = format!(
        "{OPERATOR}      k8s:\n        resources: {{limits: {{cpu: 1}}}}\n        env: [{{name: A, value: b}}]\n"
    );
    let values = rendered(from(&[&text], None).unwrap());
    assert_eq!(values.resources["limits"]["cpu"], 1);
    assert_eq!(values.env["A"], "b");
    let error = refusal(&[&format!("{text}        overlays: []\n        tolerations: x\n")], None);
    let want = [
        "spec.components.cni.k8s.overlays: []: must be left out: it has no value of ours; change the rendered object instead",
        "spec.components.cni.k8s.tolerations: \"x\": must be a list of maps",
    ];
    assert_eq!(error, want);
}

#[test]
fn what_is_wrong_in_an_operator_is_told_as_it_is_written() {
    let text = format!(
        "{OPERATOR}      namespac: x\n  component: []\n  values:\n    cni: {{chained: 1, logLevel: [], repair: {{x: 1}}}}\n    global: {{logAsJson: 3, meshID: x}}\n"
    );
    let error = refusal(&[&text], None);
    for want in [
        "spec.component: []: there is no such value; did you mean components?",
        "spec.values.cni.chained: 1: must be true or false",
        "spec.values.cni.logging.pluginLevel: []: must be a text",
        "spec.values.cni.repair.x: 1: there is no such value",
        "spec.values.global.logAsJson: 3: must be true or false",
    ] {
        assert!(error.iter().any(|line| line == want), "{want}\n{error:?}");
    }
    let other = "apiVersion: v1\nkind: ConfigMap\n";
    let error = refusal(&[other], None);
    assert!(error[0].starts_with("mesh.yaml: apiVersion \"v1\", kind \"ConfigMap\": neither "), "{error:?}");
}

#[test]
fn the_meshs_namespace_is_the_components_unless_it_has_its_own() {
    let mesh = format!("{OPERATOR}  namespace: mesh\n  values:\n    global: {{istioNamespace: other}}\n");
    let own = |name: &str| mesh.replace("enabled: true", &format!("enabled: true\n      namespace: {name}"));
    let other = mesh.replace("  namespace: mesh\n", "");
    for (text, wanted) in [
        (&mesh, "mesh"),
        (&own("kube-system"), "kube-system"),
        (&own("\"\""), "mesh"),
        (&other, "other"),
        (&mesh.replace("namespace: mesh", "namespace: \"\""), "other"),
    ] {
        assert_eq!(rendered(from(&[text], None).unwrap()).release.namespace, wanted, "{text}");
    }
    let error = refusal(&[&mesh.replace("namespace: mesh", "namespace: 7")], None);
    assert_eq!(error, ["spec.namespace: 7: must be a text"]);
}

#[test]
fn values_that_the_document_does_not_have_are_refused() {
    let error = refusal(&[&format!("{OPERATOR}  platform: openshift\n  variant: debug\n")], None);
    let want = [
        "spec.platform: \"openshift\": there is no such value",
        "spec.variant: \"debug\": there is no such value",
    ];
    assert_eq!(error, want);
}

#[test]
fn our_own_version_is_not_compared_with_the_control_planes() {
    let text = format!("{OPERATOR}      tag: 0.1.0\n  tag: 1.28.0\n");
    assert!(!notes(&from(&[&text], None).unwrap()).iter().any(|note| note.contains("minor version")));
}

#[test]
fn an_image_that_follows_from_the_meshs_hub_alone_is_told() {
    let mesh = format!("{OPERATOR}  hub: docker.io/istio\n  tag: 1.24.0\n");
    let in_values = format!(
        "{OPERATOR}  tag: 1.24.0\n  values:\n    global: {{hub: docker.io/istio, variant: distroless}}\n"
    );
    let own = mesh.replace("enabled: true", "enabled: true\n      hub: example.com/mesh\n      tag: 0.1.0");
    let tags = mesh.replace("enabled: true", "enabled: true\n      tag: 0.1.0");
    let unnamed = Context::default();
    let warning = |name: &str, variant: &str| {
        format!(
            "warning: {name}: \"docker.io/istio\": the control plane's, and nothing else names the node agent's image: \
             docker.io/istio/install-cni:1.24.0{variant} may be upstream's program; name this one's with --image, or with \
             spec.components.cni.hub and tag"
        )
    };
    for (text, set, context, want) in [
        (&mesh, "", &unnamed, Some(warning("spec.hub", ""))),
        (&in_values, "", &unnamed, Some(warning("spec.values.global.hub", "-distroless"))),
        (&own, "", &unnamed, None),
        (&tags, "", &unnamed, None),
        (&mesh, "", &named_image(), None),
        (&mesh, "image=example.com/mesh/install-cni:1", &unnamed, None),
        (&mesh, "global.hub=example.com/mesh", &unnamed, None),
    ] {
        let document = NamedText { name: "mesh.yaml".to_owned(), text: text.clone() };
        let set = Some(set.to_owned()).filter(|set| !set.is_empty()).into_iter().collect();
        let sources = Sources { documents: vec![document], set, ..Sources::default() };
        let told = notes(&install(&sources, context).unwrap());
        assert_eq!(told.into_iter().find(|note| note.contains("install-cni:1.24.0")), want, "{text}");
    }
}
