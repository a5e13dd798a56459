// SPDX-License-Identifier: Apache-2.0
//! Injection as a webhook: an `AdmissionReview` of a pod goes in, one with a JSON patch comes out.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::config::Config;
use crate::inject::{STATUS, inject};
use crate::patch;

/// The label, once an annotation, by which a pod says if it is injected.
const INJECT: &str = "sidecar.istio.io/inject";

/// Namespaces of the platform, which istiod leaves alone.
const IGNORED: [&str; 4] = ["kube-system", "kube-public", "kube-node-lease", "local-path-storage"];

/// Answers a review.
#[must_use]
pub fn answer(review: &Value, config: &Config) -> Value {
    let request = &review["request"];
    let mut response = match decide(&request["object"], &request["namespace"], config) {
        Ok(None) => json!({ "allowed": true }),
        Ok(Some(patch)) => {
            let patch = STANDARD.encode(Value::Array(patch).to_string());
            json!({ "allowed": true, "patchType": "JSONPatch", "patch": patch })
        }
        Err(why) => json!({ "allowed": false, "status": { "message": why } }),
    };
    response["uid"] = request["uid"].clone();
    reply(review, &response)
}

/// Answer of a webhook that changes nothing and refuses nothing.
#[must_use]
pub fn allowed(review: &Value) -> Value {
    reply(review, &json!({ "allowed": true, "uid": review["request"]["uid"] }))
}

fn reply(review: &Value, response: &Value) -> Value {
    json!({ "apiVersion": review["apiVersion"], "kind": review["kind"], "response": response })
}

fn decide(pod: &Value, namespace: &Value, config: &Config) -> Result<Option<Vec<Value>>, String> {
    if !is_injected(pod, namespace.as_str().unwrap_or_default()) {
        return Ok(None);
    }
    let injected = inject(pod, config).map_err(|error| error.to_string())?;
    Ok(Some(patch::between(pod, &injected)))
}

/// The namespace and the pod's own labels were asked about by the webhook's selectors. A pod that was injected before is left as it is, where
/// istiod injects it anew.
fn is_injected(pod: &Value, namespace: &str) -> bool {
    let (labels, annotations) = (&pod["metadata"]["labels"], &pod["metadata"]["annotations"]);
    let wish = labels[INJECT].as_str().or_else(|| annotations[INJECT].as_str());
    pod["spec"]["hostNetwork"] != true
        && !IGNORED.contains(&namespace)
        && wish != Some("false")
        && annotations[STATUS].is_null()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod() -> Value {
        json!({ "metadata": { "name": "cart" }, "spec": { "containers": [{ "name": "app" }] } })
    }

    fn asked(namespace: &str, pod: &Value) -> Value {
        let request = json!({ "uid": "u", "namespace": namespace, "object": pod });
        answer(&json!({ "apiVersion": "v", "kind": "k", "request": request }), &Config::default())
    }

    #[test]
    fn a_patch_makes_the_pod_what_injection_makes_of_it() {
        let answer = asked("shop", &pod());
        assert_eq!((&answer["apiVersion"], &answer["response"]["uid"]), (&json!("v"), &json!("u")));
        assert_eq!(answer["response"]["patchType"], "JSONPatch");
        let patch = STANDARD.decode(answer["response"]["patch"].as_str().unwrap()).unwrap();
        let patch: Value = serde_json::from_slice(&patch).unwrap();
        let paths: Vec<_> =
            patch.as_array().unwrap().iter().map(|one| one["path"].as_str().unwrap()).collect();
        let expected =
            ["/metadata/annotations", "/metadata/labels", "/spec/containers", "/spec/initContainers"];
        assert_eq!(paths, expected);
    }

    #[test]
    fn who_is_not_injected_is_let_through_as_it_is() {
        let with = |path: [&str; 2], value: Value| {
            let mut pod = pod();
            pod[path[0]][path[1]] = value;
            pod
        };
        for (namespace, pod) in [
            ("kube-system", pod()),
            ("shop", with(["spec", "hostNetwork"], json!(true))),
            ("shop", with(["metadata", "labels"], json!({ INJECT: "false" }))),
            ("shop", with(["metadata", "annotations"], json!({ INJECT: "false" }))),
            ("shop", with(["metadata", "annotations"], json!({ STATUS: "{}" }))),
        ] {
            let expected = json!({ "allowed": true, "uid": "u" });
            assert_eq!(asked(namespace, &pod)["response"], expected, "{namespace} {pod}");
        }
    }

    #[test]
    fn annotations_that_cannot_be_obeyed_deny_the_pod() {
        let mut pod = pod();
        pod["metadata"]["annotations"] = json!({ "sidecar.istio.io/interceptionMode": "SOMEHOW" });
        let response = asked("shop", &pod)["response"].clone();
        assert_eq!(response["allowed"], false);
        assert!(response["status"]["message"].as_str().unwrap().contains("SOMEHOW"), "{response}");
    }
}
