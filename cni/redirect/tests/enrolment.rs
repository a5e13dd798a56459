// SPDX-License-Identifier: Apache-2.0
//! Skipped pods with reasons, and settings of enrolled ones, from pods as the API server returns them.
#![expect(clippy::unwrap_used, reason = "a test that cannot read its own data has to stop")]

use protocol::pod::PodFacts;
use redirect::annotations::Annotation;
use redirect::config::{Dns, Mode};
use redirect::enrol::SkipReason;
use redirect::host::{Environment, Stack};
use redirect::list::Selection;
use redirect::parameters::{ProxyEnv, Redirect, Source, Sourced};
use redirect::ruleset::{Id, Port};
use redirect::{Enrolment, enrol};
use serde_json::{Value, json};

/// An injected pod, changed by `change`.
fn pod(change: impl FnOnce(&mut Value)) -> PodFacts {
    let mut pod = json!({
        "metadata": {"name": "cart", "namespace": "shop", "labels": {}, "annotations": {"sidecar.istio.io/status": ""}},
        "spec": {"initContainers": [], "containers": [
            {"name": "app"},
            {"name": "istio-proxy", "args": ["proxy", "sidecar"], "env": []},
        ]},
    });
    change(&mut pod);
    serde_json::from_value(pod).unwrap()
}

fn skipped(change: impl FnOnce(&mut Value)) -> Option<SkipReason> {
    match enrol(&pod(change)).unwrap() {
        Enrolment::Skip(reason) => Some(reason),
        Enrolment::Enrol(_) => None,
    }
}

fn enrolled(change: impl FnOnce(&mut Value)) -> Redirect {
    match enrol(&pod(change)).unwrap() {
        Enrolment::Skip(reason) => panic!("skipped: {reason}"),
        Enrolment::Enrol(redirect) => *redirect,
    }
}

fn annotate<'a>(key: &'a str, value: &'a str) -> impl FnOnce(&mut Value) + 'a {
    move |pod| pod["metadata"]["annotations"][key] = value.into()
}

fn env(pod: &mut Value, name: &str, value: &str) {
    let env = pod["spec"]["containers"][1]["env"].as_array_mut().unwrap();
    env.push(json!({"name": name, "value": value}));
}

#[test]
fn every_exclusion_has_its_reason() {
    assert_eq!(skipped(|_| {}), None);
    assert_eq!(skipped(|pod| pod["spec"]["hostNetwork"] = true.into()), Some(SkipReason::HostNetwork));
    let init = |pod: &mut Value| pod["spec"]["initContainers"] = json!([{"name": "istio-init"}]);
    assert_eq!(skipped(init), Some(SkipReason::IstioInit));
    assert_eq!(skipped(|pod| env(pod, "DISABLE_ENVOY", "T")), Some(SkipReason::EnvoyDisabled));
    let names = |pod: &mut Value| {
        pod["spec"]["containers"] = json!([{"name": "web"}, {"name": "app"}, {"name": "web"}]);
        pod["spec"]["initContainers"] = json!([{"name": "migrate"}]);
    };
    let containers = ["app", "migrate", "web"].map(str::to_owned).to_vec();
    assert_eq!(skipped(names), Some(SkipReason::NoProxy { containers }));
    let router = |pod: &mut Value| pod["spec"]["containers"][1]["args"][1] = "router".into();
    assert_eq!(skipped(router), Some(SkipReason::ProxyType { kind: "router".to_owned() }));
    assert_eq!(skipped(annotate("sidecar.istio.io/inject", "FALSE")), Some(SkipReason::InjectionOff));
    assert_eq!(skipped(|pod| pod["metadata"]["annotations"] = Value::Null), Some(SkipReason::NotInjected));
}

#[test]
fn exclusions_are_judged_in_order() {
    let mut steps: Vec<fn(&mut Value)> = vec![
        |pod| pod["metadata"]["annotations"] = json!({}),
        |pod| pod["metadata"]["labels"]["sidecar.istio.io/inject"] = "false".into(),
        |pod| pod["spec"]["containers"][1]["args"][1] = "waypoint".into(),
        |pod| env(pod, "DISABLE_ENVOY", "1"),
        |pod| pod["spec"]["initContainers"] = json!([{"name": "istio-init"}]),
        |pod| pod["spec"]["hostNetwork"] = true.into(),
    ];
    let codes =
        ["not-injected", "injection-off", "proxy-type", "envoy-disabled", "istio-init", "host-network"];
    for count in (1..=steps.len()).rev() {
        let reason = skipped(|pod| steps.iter().for_each(|step| step(pod)));
        assert_eq!(reason.map(|reason| reason.code()), Some(codes[count - 1]));
        steps.pop();
    }
}

#[test]
fn a_bad_annotation_of_a_pod_outside_the_mesh_is_nobody_s_business() {
    let bad = |pod: &mut Value| {
        pod["metadata"]["annotations"] = json!({"sidecar.istio.io/interceptionMode": "NONE"})
    };
    assert_eq!(skipped(bad), Some(SkipReason::NotInjected));
    let error = enrol(&pod(annotate("sidecar.istio.io/interceptionMode", "NONE"))).unwrap_err();
    assert_eq!(
        error.to_string(),
        "annotation value error for value redirectMode; annotationFound = true: interceptionMode invalid: NONE"
    );
}

#[test]
fn the_inject_label_hides_the_annotation_even_if_empty() {
    for (label, annotation, out) in
        [("", "false", false), ("true", "false", false), ("false", "true", true), ("no", "false", false)]
    {
        let reason = skipped(|pod| {
            pod["metadata"]["labels"]["sidecar.istio.io/inject"] = label.into();
            pod["metadata"]["annotations"]["sidecar.istio.io/inject"] = annotation.into();
        });
        assert_eq!(reason.is_some(), out, "label {label:?}, annotation {annotation:?}");
    }
}

#[test]
fn only_proxy_as_first_argument_names_a_type() {
    for args in [
        json!([]),
        json!(["proxy"]),
        json!(["run", "router"]),
        json!(["proxy", ""]),
        json!(["proxy", "sidecar", "x"]),
    ] {
        assert_eq!(skipped(|pod| pod["spec"]["containers"][1]["args"] = args.clone()), None, "{args}");
    }
}

#[test]
fn values_remember_where_they_come_from() {
    let redirect = enrolled(|pod| {
        pod["metadata"]["annotations"]["traffic.sidecar.istio.io/includeInboundPorts"] = "80, 443".into();
        pod["spec"]["containers"][1]["securityContext"] =
            json!({"runAsUser": 1_000_659_999, "runAsGroup": 0});
        env(pod, "ISTIO_DUAL_STACK", "true");
    });
    let ports = Some(Selection::List(vec![Port::One(80), Port::One(443)]));
    let annotation = Source::Annotation(Annotation::IncludeInboundPorts);
    assert_eq!(redirect.include_inbound_ports, Sourced { value: ports, source: annotation });
    assert_eq!(redirect.uid, Sourced { value: Id::Number(1_000_659_999), source: Source::SecurityContext });
    assert_eq!(redirect.gid, Sourced { value: Id::Number(1337), source: Source::Default });
    assert_eq!(redirect.stack, Sourced { value: Stack::Dual, source: Source::Env(ProxyEnv::DualStack) });
    assert_eq!(redirect.mode, Sourced { value: Mode::Redirect, source: Source::Default });
    let own = [15020, 15021, 15090].map(Port::One).to_vec();
    assert_eq!(redirect.exclude_inbound_ports, Sourced { value: own, source: Source::Default });
}

#[test]
fn the_proxy_s_own_ports_follow_the_user_s_each_spelling_once() {
    let key = "traffic.sidecar.istio.io/excludeInboundPorts";
    for (value, ports) in [
        ("", vec![15020, 15021, 15090]),
        ("8080", vec![8080, 15020, 15021, 15090]),
        (" 15021,8080,15021 ", vec![15021, 8080, 15020, 15090]),
        ("80, 80", vec![80, 80, 15020, 15021, 15090]),
    ] {
        let want: Vec<Port> = ports.into_iter().map(Port::One).collect();
        assert_eq!(enrolled(annotate(key, value)).exclude_inbound_ports.value, want, "{value:?}");
    }
}

#[test]
fn the_older_name_of_virtual_interfaces_counts_only_alone() {
    let both = |pod: &mut Value| {
        pod["metadata"]["annotations"]["istio.io/reroute-virtual-interfaces"] = "net1".into();
        pod["metadata"]["annotations"]["traffic.sidecar.istio.io/kubevirtInterfaces"] = "not valid".into();
    };
    let newer = Source::Annotation(Annotation::RerouteVirtualInterfaces);
    assert_eq!(enrolled(both).virtual_interfaces, Sourced { value: vec!["net1".into()], source: newer });
    let older = enrolled(annotate("traffic.sidecar.istio.io/kubevirtInterfaces", "k6t-eth0"));
    assert_eq!(older.virtual_interfaces.source, Source::Annotation(Annotation::KubevirtInterfaces));
}

#[test]
fn a_switch_that_cannot_be_read_is_off_and_said_so() {
    let redirect = enrolled(|pod| {
        env(pod, "ISTIO_META_DNS_CAPTURE", "yes");
        let env = pod["spec"]["containers"][1]["env"].as_array_mut().unwrap();
        env.push(json!({"name": "INVALID_DROP", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}));
    });
    assert_eq!(redirect.dns, Sourced { value: false, source: Source::Env(ProxyEnv::DnsCapture) });
    let said: Vec<String> = redirect.warnings.iter().map(ToString::to_string).collect();
    assert_eq!(
        said,
        [
            r#"environment variable ISTIO_META_DNS_CAPTURE counts as false: strconv.ParseBool: parsing "yes": invalid syntax"#,
            r#"environment variable INVALID_DROP counts as false: strconv.ParseBool: parsing "": invalid syntax"#,
        ]
    );
}

#[test]
fn of_several_proxies_the_later_overwrites_what_it_says_itself() {
    let redirect = enrolled(|pod| {
        pod["spec"]["initContainers"] = json!([{
            "name": "istio-proxy", "args": ["proxy", "sidecar"],
            "env": [{"name": "ISTIO_META_DNS_CAPTURE", "value": "true"}, {"name": "INVALID_DROP", "value": "true"}],
            "securityContext": {"runAsUser": 2000, "runAsGroup": 2000},
        }]);
        pod["spec"]["containers"][1]["args"] = json!([]);
        pod["spec"]["containers"][1]["securityContext"] = json!({"runAsUser": 3000});
        env(pod, "INVALID_DROP", "false");
    });
    assert!(redirect.dns.value && !redirect.drop_invalid.value);
    assert_eq!(redirect.uid.value, Id::Number(3000));
    assert_eq!(
        redirect.gid.value,
        Id::Number(1337),
        "a security context without a group takes the group away"
    );
}

#[test]
fn the_proxy_runs_as_its_container_says_else_as_the_pod_says() {
    let ids = |of_pod: Value, of_container: Value| {
        let redirect = enrolled(|pod| {
            pod["spec"]["securityContext"] = of_pod.clone();
            pod["spec"]["containers"][1]["securityContext"] = of_container.clone();
        });
        [redirect.uid, redirect.gid].map(|id| (id.value.to_string(), id.source))
    };
    let (default, own, pod) = (Source::Default, Source::SecurityContext, Source::PodSecurityContext);
    let both = json!({"runAsUser": 1_000_650_000, "runAsGroup": 2000});
    for (of_pod, of_container, user, group) in [
        (both.clone(), Value::Null, ("1000650000", pod), ("2000", pod)),
        (both.clone(), json!({"readOnlyRootFilesystem": true}), ("1000650000", pod), ("2000", pod)),
        (both.clone(), json!({"runAsUser": 7}), ("7", own), ("2000", pod)),
        (both.clone(), json!({"runAsGroup": 7}), ("1000650000", pod), ("7", own)),
        (both, json!({"runAsUser": 0, "runAsGroup": 7}), ("1337", default), ("7", own)),
        (json!({"runAsUser": 0}), Value::Null, ("1337", default), ("1337", default)),
        (json!({"runAsGroup": 9}), json!({"runAsUser": 7}), ("7", own), ("9", pod)),
        (json!({"fsGroup": 9}), Value::Null, ("1337", default), ("1337", default)),
    ] {
        let want = [(user.0.to_owned(), user.1), (group.0.to_owned(), group.1)];
        assert_eq!(ids(of_pod.clone(), of_container.clone()), want, "{of_pod} {of_container}");
    }
}

#[test]
fn an_app_with_the_proxy_s_user_or_group_is_named() {
    let shared = |of_pod: Value, of_app: Value, of_proxy: Value| -> Vec<String> {
        let redirect = enrolled(|pod| {
            pod["spec"]["securityContext"] = of_pod.clone();
            pod["spec"]["containers"][0]["securityContext"] = of_app.clone();
            pod["spec"]["containers"][1]["securityContext"] = of_proxy.clone();
        });
        redirect.shared.iter().map(|one| format!("{:?} {}", one.account, one.id)).collect()
    };
    let one = json!({"runAsUser": 1_000_650_000, "runAsGroup": 0});
    let none = Value::Null;
    assert_eq!(shared(none.clone(), one.clone(), one.clone()), ["User 1000650000"]);
    assert_eq!(shared(one.clone(), none.clone(), none.clone()), ["User 1000650000"]);
    assert_eq!(shared(none.clone(), json!({"runAsUser": 1337}), none.clone()), ["User 1337"]);
    assert_eq!(
        shared(json!({"runAsGroup": 5}), json!({"runAsUser": 3}), json!({"runAsUser": 4})),
        ["Group 5"]
    );
    assert_eq!(shared(one, json!({"runAsUser": 3, "runAsGroup": 3}), none.clone()), [""; 0]);
    assert_eq!(shared(none.clone(), none.clone(), none), [""; 0], "nobody knows the images' users");
}

#[test]
fn istio_s_own_init_containers_and_those_that_end_may_run_as_the_proxy() {
    let redirect = enrolled(|pod| {
        let context = json!({"runAsUser": 1337, "runAsGroup": 8});
        pod["spec"]["initContainers"] = json!([
            {"name": "istio-validation", "securityContext": context},
            {"name": "migrate", "securityContext": context},
            {"name": "vault-agent", "restartPolicy": "Always", "securityContext": context},
        ]);
    });
    let said: Vec<String> = redirect.shared.iter().map(ToString::to_string).collect();
    assert_eq!(
        said,
        [
            "container vault-agent runs with the proxy's user 1337: its outbound traffic bypasses the proxy in plain text; give it another \
             runAsUser"
        ]
    );
}

#[test]
fn a_pod_that_an_older_agent_describes_lacks_its_context_if_the_proxy_depends_on_it() {
    for (of_pod, of_proxy, lacks) in [
        (Value::Null, Value::Null, true),
        (Value::Null, json!({"runAsUser": 7}), true),
        (Value::Null, json!({"runAsUser": 7, "runAsGroup": 7}), false),
        (json!({}), Value::Null, false),
    ] {
        let pod = pod(|pod| {
            pod["spec"]["securityContext"] = of_pod.clone();
            pod["spec"]["containers"][1]["securityContext"] = of_proxy.clone();
        });
        assert_eq!(redirect::lacks_pod_context(&pod), lacks, "{of_pod} {of_proxy}");
    }
}

#[test]
fn the_configuration_adds_what_the_host_says() {
    let redirect = enrolled(|pod| env(pod, "ISTIO_META_DNS_CAPTURE", "1"));
    let environment =
        Environment::read(|name| (name == Environment::GROUPS).then(|| "java,202".to_owned())).unwrap();
    let config = redirect.config_for(["fd00:9::2".parse().unwrap()], &environment).unwrap();
    assert!(config.ipv6);
    assert_eq!(config.dns, Dns::All);
    assert_eq!(
        config.owner_groups_include,
        Selection::List(vec![Id::Name("java".to_owned()), Id::Number(202)])
    );
    assert_eq!(
        (config.proxy_port, config.inbound_capture_port, config.inbound_tunnel_port),
        (15001, 15006, 15008)
    );
    assert!(!config.needs_policy_routes());
}
