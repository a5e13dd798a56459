// SPDX-License-Identifier: Apache-2.0
//! The pod as a whole: what is added to it, and in which order its containers then are.

use serde_json::{Map, Value, json};

use crate::config::{Config, Placement, Platform, Programming, Provider};
use crate::error::InjectError;
use crate::networks::{self, NETWORKS};
use crate::traffic::Traffic;
use crate::{containers, openshift, overrides, validate, workload};

/// Annotation of injected pods.
pub(crate) const STATUS: &str = "sidecar.istio.io/status";

/// Revision of the control plane that injects.
const REVISION: &str = "default";

/// The pod as its admission leaves it.
///
/// # Errors
/// It is no pod, or its annotations cannot be obeyed.
pub fn inject(pod: &Value, config: &Config) -> Result<Value, InjectError> {
    let mut pod = pod.clone();
    if config.platform == Platform::OpenShift {
        openshift::forget_assigned(&mut pod);
    }
    let none = Map::new();
    let own = pod["metadata"]["annotations"].as_object().unwrap_or(&none);
    validate::annotations(own)?;
    let config = &config.of_pod(own)?;
    let traffic = Traffic::of(own, config);
    let (mut first, mut proxy) = (containers::first(&traffic, config), containers::proxy(&traffic, config));
    describe(&mut pod, &traffic, config, &status(first.as_ref(), config))?;
    let spec = pod.get_mut("spec").and_then(Value::as_object_mut).ok_or(InjectError::NoPod("spec"))?;
    let (mut init, mut beside) = (list(spec, "initContainers"), list(spec, "containers"));
    if let Some(first) = &mut first
        && let Some(declared) = overrides::take(&mut init, &first["name"])
    {
        overrides::overlay(first, &declared);
    }
    let of_proxy = Value::from(containers::PROXY);
    if let Some(declared) =
        overrides::take(&mut init, &of_proxy).or_else(|| overrides::take(&mut beside, &of_proxy))
    {
        overrides::overlay(&mut proxy, &declared);
        overrides::adjust(&declared, traffic.mode, first.as_mut(), &mut proxy);
    }
    match config.placement {
        Placement::Native => {
            // Rules, then the proxy, then everybody who may need both.
            init.splice(0..0, first.into_iter().chain([proxy]));
        }
        Placement::Beside => {
            // A container that writes rules goes last: without a proxy, nobody behind it has a network. One that validates goes first.
            let at = if config.programming == Programming::Init { init.len() } else { 0 };
            init.splice(at..at, first);
            beside.push(proxy);
        }
    }
    spec.insert("initContainers".to_owned(), Value::Array(init));
    spec.insert("containers".to_owned(), Value::Array(beside));
    Ok(pod)
}

fn list(spec: &Map<String, Value>, name: &str) -> Vec<Value> {
    spec.get(name).and_then(Value::as_array).cloned().unwrap_or_default()
}

/// Value of the annotation [`STATUS`].
fn status(first: Option<&Value>, config: &Config) -> Value {
    let first = first.map(|container| container["name"].clone());
    let proxy = Value::from(containers::PROXY);
    let (init, beside) = match config.placement {
        Placement::Native => (first.into_iter().chain([proxy]).collect(), Vec::new()),
        Placement::Beside => (first.into_iter().collect(), vec![proxy]),
    };
    let or_null = |names: Vec<Value>| if names.is_empty() { Value::Null } else { Value::Array(names) };
    json!({ "initContainers": or_null(init), "containers": or_null(beside), "revision": REVISION })
}

/// Labels and annotations.
fn describe(pod: &mut Value, traffic: &Traffic, config: &Config, status: &Value) -> Result<(), InjectError> {
    let (labels, default_container) = (workload::labels(&pod["metadata"]), workload::default_container(pod));
    let metadata =
        pod.get_mut("metadata").and_then(Value::as_object_mut).ok_or(InjectError::NoPod("metadata"))?;
    let mut all = taken(metadata, "labels");
    all.extend(labels.map(|(name, value)| (name.to_owned(), Value::from(value))));
    metadata.insert("labels".to_owned(), Value::Object(all));
    let mut annotations = taken(metadata, "annotations");
    for (name, value) in default_container {
        annotations.entry(name).or_insert(Value::from(value));
    }
    annotations.insert("istio.io/rev".to_owned(), Value::from(REVISION));
    annotations.insert(STATUS.to_owned(), Value::from(status.to_string()));
    if config.programming == Programming::Cni {
        for (name, value) in traffic.annotations() {
            annotations.insert(name.to_owned(), Value::from(value));
        }
        if config.provider == Provider::Multus {
            let existing = annotations.get(NETWORKS).and_then(Value::as_str).unwrap_or_default();
            let networks = networks::with_ours(existing);
            annotations.insert(NETWORKS.to_owned(), Value::from(networks));
        }
    }
    metadata.insert("annotations".to_owned(), Value::Object(annotations));
    Ok(())
}

/// Takes a field that is an object out of another one; an empty one in place of anything else.
fn taken(of: &mut Map<String, Value>, name: &str) -> Map<String, Value> {
    match of.remove(name) {
        Some(Value::Object(object)) => object,
        _ => Map::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Mode;

    fn pod() -> Value {
        json!({
            "metadata": { "name": "cart", "annotations": { "a": "b" } },
            "spec": { "initContainers": [{ "name": "migrate" }], "containers": [{ "name": "app" }] },
        })
    }

    fn names(pod: &Value, list: &str) -> Vec<String> {
        let all = pod["spec"][list].as_array().unwrap().iter();
        all.map(|container| container["name"].as_str().unwrap().to_owned()).collect()
    }

    #[test]
    fn with_a_plugin_the_check_comes_first_and_may_do_nothing() {
        let injected = inject(&pod(), &Config::default()).unwrap();
        assert_eq!(names(&injected, "initContainers"), ["istio-validation", "migrate"]);
        assert_eq!(names(&injected, "containers"), ["app", "istio-proxy"]);
        let check = &injected["spec"]["initContainers"][0];
        assert_eq!(check["securityContext"]["capabilities"], json!({ "drop": ["ALL"] }));
        assert_eq!(check["securityContext"]["runAsUser"], 1337);
        let args: Vec<_> =
            check["args"].as_array().unwrap().iter().map(|arg| arg.as_str().unwrap()).collect();
        assert_eq!(
            args[args.len() - 3..],
            ["--log_output_level=default:info", "--run-validation", "--skip-rule-apply"]
        );
        let annotations = &injected["metadata"]["annotations"];
        assert_eq!(annotations["sidecar.istio.io/interceptionMode"], "REDIRECT");
        assert_eq!(annotations["traffic.sidecar.istio.io/excludeInboundPorts"], "15020");
        assert_eq!(annotations["a"], "b");
    }

    #[test]
    fn without_a_plugin_the_rules_come_last_unless_the_proxy_is_there_before() {
        let config = Config { programming: Programming::Init, ..Config::default() };
        assert_eq!(names(&inject(&pod(), &config).unwrap(), "initContainers"), ["migrate", "istio-init"]);
        let config = Config { placement: Placement::Native, ..config };
        let native = inject(&pod(), &config).unwrap();
        assert_eq!(names(&native, "initContainers"), ["istio-init", "istio-proxy", "migrate"]);
        assert_eq!(native["spec"]["initContainers"][1]["restartPolicy"], "Always");
        assert!(native["metadata"]["annotations"].get("sidecar.istio.io/interceptionMode").is_none());
    }

    #[test]
    fn tproxy_makes_the_proxy_root_of_the_usual_group() {
        let config = Config { mode: Mode::Tproxy, uid: 5, gid: 6, ..Config::default() };
        let injected = inject(&pod(), &config).unwrap();
        let context = &injected["spec"]["containers"][1]["securityContext"];
        assert_eq!((&context["runAsUser"], &context["runAsGroup"]), (&json!(0), &json!(1337)));
        assert_eq!(context["capabilities"]["add"], json!(["NET_ADMIN"]));
    }

    fn declaring(context: &Value) -> Value {
        let mut pod = pod();
        let proxy = json!({ "name": "istio-proxy", "image": "own", "securityContext": context });
        pod["spec"]["containers"].as_array_mut().unwrap().insert(0, proxy);
        pod
    }

    #[test]
    fn a_declared_proxy_is_merged_and_its_identity_is_checked_for() {
        let own = declaring(&json!({ "runAsUser": 5, "runAsGroup": 6 }));
        let injected = inject(&own, &Config::default()).unwrap();
        assert_eq!(names(&injected, "containers"), ["app", "istio-proxy"]);
        let proxy = &injected["spec"]["containers"][1];
        assert_eq!((&proxy["image"], &proxy["securityContext"]["runAsUser"]), (&json!("own"), &json!(5)));
        let check = &injected["spec"]["initContainers"][0];
        let context = &check["securityContext"];
        assert_eq!((&context["runAsUser"], &context["runAsGroup"]), (&json!(5), &json!(6)));
        assert_eq!(check["args"][6], "5");
    }

    #[test]
    fn root_is_never_named_and_programming_stays_root() {
        let root = inject(&declaring(&json!({ "runAsUser": 0 })), &Config::default()).unwrap();
        assert_eq!(root["spec"]["initContainers"][0]["securityContext"]["runAsUser"], 0);
        assert_eq!(root["spec"]["initContainers"][0]["args"][6], "1337");
        let config = Config { programming: Programming::Init, ..Config::default() };
        let programmed = inject(&declaring(&json!({ "runAsUser": 5 })), &config).unwrap();
        let init = &programmed["spec"]["initContainers"][1];
        assert_eq!((&init["securityContext"]["runAsUser"], &init["args"][6]), (&json!(0), &json!("5")));
        let config = Config { mode: Mode::Tproxy, ..Config::default() };
        let tproxy = inject(&declaring(&json!({ "runAsUser": 5 })), &config).unwrap();
        assert_eq!(tproxy["spec"]["containers"][1]["securityContext"]["runAsUser"], 0);
        assert_eq!(tproxy["spec"]["initContainers"][0]["securityContext"]["runAsUser"], 1337);
    }

    #[test]
    fn a_pod_asks_multus_for_the_plugin_only_where_multus_calls_it() {
        let config = Config { provider: Provider::Multus, ..Config::default() };
        let annotations =
            |config: &Config| inject(&pod(), config).unwrap()["metadata"]["annotations"].clone();
        assert_eq!(annotations(&config)[NETWORKS], "default/istio-cni");
        assert!(annotations(&Config::default()).get(NETWORKS).is_none());
        let init = Config { programming: Programming::Init, ..config };
        assert!(annotations(&init).get(NETWORKS).is_none());
    }

    #[test]
    fn openshifts_own_choice_of_a_user_is_not_the_pods() {
        let mut own = declaring(&json!({ "runAsUser": 7 }));
        own["spec"]["containers"][1]["securityContext"] = json!({ "runAsUser": 7 });
        let user = |config: &Config| {
            inject(&own, config).unwrap()["spec"]["containers"][1]["securityContext"]["runAsUser"].clone()
        };
        assert_eq!(user(&Config { platform: Platform::OpenShift, ..Config::default() }), 1337);
        assert_eq!(user(&Config::default()), 7);
    }

    #[test]
    fn mode_none_has_a_proxy_and_nobody_for_rules() {
        let config = Config { mode: Mode::None, ..Config::default() };
        assert_eq!(names(&inject(&pod(), &config).unwrap(), "initContainers"), ["migrate"]);
    }

    #[test]
    fn what_is_no_pod_is_refused() {
        assert_eq!(inject(&json!({}), &Config::default()), Err(InjectError::NoPod("metadata")));
    }
}
