// SPDX-License-Identifier: Apache-2.0
//! `istio-cni diagnose`, in the same world as a runtime's calls.

use redirect::config::Config;
use redirect::found::{FoundRules, save};
use redirect::generate::ruleset;
use redirect::list::Selection;
use redirect::ruleset::{Family, Port};
use redirect::text;

use super::*;

/// The rules of the pod of a [`Scene`], after a change of their text.
fn held(change: impl Fn(String) -> String) -> FoundRules {
    let ports = [15020, 15021, 15090].map(Port::One).to_vec();
    let config = Config {
        inbound_ports_include: Some(Selection::All),
        inbound_ports_exclude: ports,
        outbound_ranges_include: Selection::All,
        outbound_ports_exclude: vec![Port::One(15020)],
        ..Config::default()
    };
    let text = text::restore(&ruleset(&config).unwrap(), Family::V4);
    save::parse(&change(text), Family::V4).unwrap()
}

fn diagnosed(line: &str, found: FoundRules) -> Outcome {
    diagnosed_of(pod_json(), line, found)
}

fn diagnosed_of(object: Value, line: &str, found: FoundRules) -> Outcome {
    let words = line.split_whitespace().map(str::to_owned).collect();
    Scene::new("ADD")
        .set("CNI_COMMAND", "")
        .with(|scene| {
            scene.args = words;
            scene.object = object;
            scene.site.found = found;
            scene.api = api_pod;
        })
        .run()
}

#[test]
fn a_pod_that_is_as_it_should_be_has_no_difference() {
    let json = diagnosed("diagnose --netns /run/netns/x --pod-json {dir}/pod.json", held(|text| text));
    assert_eq!((json.exit, json.done.as_slice()), (Exit::Success, &["enter"][..]), "{}", json.stderr);
    assert!(json.stdout.ends_with("As it should be.\n"), "{}", json.stdout);
    let named = diagnosed(
        "diagnose --netns /run/netns/x --pod shop/cart --conf {dir}/10-k8s.conf -o json",
        held(|text| text),
    );
    assert_eq!(named.exit, Exit::Success, "{}", named.stderr);
    assert_eq!((named.heard.len(), named.requests), (0, 1), "who names no UID wants what is true now");
    let report: Value = serde_json::from_str(&named.stdout).unwrap();
    assert_eq!(report["forms"], json!(["iptables"]));
    assert_eq!(report["expected"], "redirected as pod shop/cart says");
}

#[test]
fn what_is_wrong_is_said_in_plain_words() {
    let bypass = |text: String| {
        text.replace(
            "-A OUTPUT -j ISTIO_OUTPUT",
            "-A OUTPUT -p tcp --dport 443 -j ACCEPT\n-A OUTPUT -j ISTIO_OUTPUT",
        )
        .replace("-A ISTIO_INBOUND -p tcp --dport 15090 -j RETURN\n", "")
    };
    let said = diagnosed("diagnose --netns /run/netns/x --pod-json {dir}/pod.json", held(bypass));
    assert_eq!(said.exit, Exit::Failure);
    for wanted in [
        "2 differences:",
        "is somebody else's and comes before ours: -p tcp --dport 443 -j ACCEPT",
        "is missing: -p tcp --dport 15090 -j RETURN",
    ] {
        assert!(said.stdout.contains(wanted), "{wanted}: {}", said.stdout);
    }
    let none = diagnosed("diagnose --netns /run/netns/x", FoundRules::default());
    assert_eq!(none.exit, Exit::Failure);
    assert!(none.stdout.contains("all traffic bypasses the proxy"), "{}", none.stdout);
    assert!(none.stdout.contains("(no pod was named)"), "{}", none.stdout);
}

#[test]
fn what_nobody_can_tell_is_not_called_fine() {
    let gone = diagnosed("diagnose --netns /nowhere", FoundRules::default());
    assert_eq!((gone.exit, gone.stdout.as_str()), (Exit::Undecided, ""));
    assert!(gone.stderr.contains("/nowhere"), "{}", gone.stderr);
    let file = diagnosed("diagnose --netns /run/netns/x --pod-json {dir}/none.json", FoundRules::default());
    assert_eq!(file.exit, Exit::Undecided);
    assert!(file.stderr.contains("none.json"), "{}", file.stderr);
    assert!(file.done.is_empty(), "nothing was entered");
    let usage = diagnosed("diagnose --pod cart", FoundRules::default());
    assert_eq!(usage.exit, Exit::Usage);
    let help = diagnosed("diagnose --help", FoundRules::default());
    assert_eq!(help.exit, Exit::Success);
    assert!(help.stdout.contains("Examples:"));
}

#[test]
fn the_object_in_a_file_is_one_pod_and_a_whole_one() {
    let line = "diagnose --netns /run/netns/x --pod-json {dir}/pod.json";
    for (object, reason) in [
        (json!({}), "it has nothing"),
        (json!([]), "it has nothing"),
        (json!({"kind": "Deployment", "spec": {"template": pod_json()}}), "it has Deployment"),
        (json!({"kind": "List", "items": []}), "it has nothing"),
        (json!({"kind": "List", "items": [pod_json(), pod_json()]}), "it has cart, cart; give one of them"),
        (json!({"kind": "Pod", "metadata": {"name": "cart"}}), "it has no container"),
    ] {
        let said = diagnosed_of(object.clone(), line, FoundRules::default());
        assert_eq!((said.exit, said.stdout.as_str()), (Exit::Undecided, ""), "{object}");
        let wanted = format!("pod.json is not a pod in JSON: {reason}\n");
        assert!(said.stderr.ends_with(&wanted), "{object}: {}", said.stderr);
        assert!(said.done.is_empty(), "nothing was entered");
    }
    let list = json!({"kind": "List", "items": [{"kind": "Service"}, pod_json()]});
    let listed = diagnosed_of(list, line, held(|text| text));
    assert_eq!(listed.exit, Exit::Success, "{}{}", listed.stdout, listed.stderr);
}

#[test]
fn a_pod_that_the_node_leaves_alone_by_its_name_has_no_rules() {
    let object = |namespace: &str, name: &str| {
        let mut pod = pod_json();
        (pod["metadata"]["namespace"], pod["metadata"]["name"]) = (namespace.into(), name.into());
        pod
    };
    for (namespace, name, reason) in [
        ("kube-system", "dns", "namespace kube-system is excluded"),
        ("istio-system", "istio-cni-node-x", "the node agent's own pod"),
    ] {
        for which in [format!("--pod {namespace}/{name}"), "--pod-json {dir}/pod.json".to_owned()] {
            let line = format!("diagnose --netns /run/netns/x {which} --conf {{dir}}/10-k8s.conf");
            let none = diagnosed_of(object(namespace, name), &line, FoundRules::default());
            assert_eq!((none.exit, none.requests), (Exit::Success, 0), "{line}: {}", none.stderr);
            assert!(none.stdout.contains(&format!("should be  left alone: {reason}\n")), "{}", none.stdout);
            let rules = diagnosed_of(object(namespace, name), &line, held(|text| text));
            assert_eq!(rules.exit, Exit::Failure, "{line}");
            assert!(rules.stdout.contains("the pod is not to be redirected"), "{}", rules.stdout);
        }
    }
    let nameless = json!({"kind": "Pod", "metadata": {"annotations": {"sidecar.istio.io/status": "{}"}},
        "spec": pod_json()["spec"]});
    let line = "diagnose --netns /run/netns/x --pod-json {dir}/pod.json --conf {dir}/10-k8s.conf";
    let said = diagnosed_of(nameless, line, held(|text| text));
    assert_eq!(said.exit, Exit::Success, "a manifest may lack its name: {}", said.stdout);
}

#[test]
fn words_do_not_matter_to_a_runtimes_call() {
    let add = Scene::new("ADD").with(|scene| scene.args = vec!["diagnose".to_owned()]).run();
    assert_eq!(add.result()["cniVersion"], "1.1.0");
}
