// SPDX-License-Identifier: Apache-2.0
//! Properties of any pod, whatever its annotations.

use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use protocol::pod::{Container, EnvVar, Metadata, PodFacts, SecurityContext, Spec};
use redirect::annotations::Annotation;
use redirect::generate::ruleset;
use redirect::host::{Environment, Stack, decide_addresses};
use redirect::text::restore;
use redirect::{Enrolment, Redirect, enrol};

use crate::cases;
use crate::configs::address;

const ANNOTATIONS: [Annotation; 10] = [
    Annotation::InterceptionMode,
    Annotation::IncludeOutboundRanges,
    Annotation::ExcludeOutboundRanges,
    Annotation::ExcludeInboundPorts,
    Annotation::IncludeInboundPorts,
    Annotation::ExcludeOutboundPorts,
    Annotation::IncludeOutboundPorts,
    Annotation::ExcludeInterfaces,
    Annotation::RerouteVirtualInterfaces,
    Annotation::KubevirtInterfaces,
];

fn value() -> impl Strategy<Value = String> {
    prop_oneof![
        "\\PC{0,20}",
        "[0-9a-f.:/%, *+-]{0,30}",
        select(vec![
            "",
            "*",
            "80",
            "80,443",
            "10.0.0.0/8",
            "::/0,10.0.0.0/8",
            "eth0",
            "TPROXY",
            "80-90",
            ","
        ])
        .prop_map(str::to_owned),
    ]
}

fn context() -> impl Strategy<Value = Option<SecurityContext>> {
    let id = || option::of(prop_oneof![any::<i64>(), select(vec![0, 1337, 2000])]);
    option::of(
        (id(), id()).prop_map(|(run_as_user, run_as_group)| SecurityContext { run_as_user, run_as_group }),
    )
}

fn container() -> impl Strategy<Value = Container> {
    let names = vec!["app", "istio-proxy", "istio-proxy", "istio-proxy", "istio-init"];
    let env = (
        select(vec!["ISTIO_META_DNS_CAPTURE", "ISTIO_DUAL_STACK", "INVALID_DROP", "DISABLE_ENVOY", "X"]),
        value(),
    );
    let env = env.prop_map(|(name, value)| EnvVar { name: name.to_owned(), value });
    let args = vec(select(vec!["proxy", "sidecar", "router", ""]).prop_map(str::to_owned), 0..3);
    let restart = option::of(Just("Always".to_owned()));
    (select(names), args, vec(env, 0..4), restart, context()).prop_map(
        |(name, args, env, restart_policy, security_context)| Container {
            name: name.to_owned(),
            args,
            env,
            restart_policy,
            security_context,
        },
    )
}

fn pod() -> impl Strategy<Value = PodFacts> {
    let keys =
        ANNOTATIONS.map(Annotation::key).into_iter().chain(["sidecar.istio.io/inject"]).collect::<Vec<_>>();
    let annotations = btree_map(select(keys).prop_map(str::to_owned), value(), 0..3);
    let containers = || vec(container(), 0..2);
    (annotations, any::<bool>(), context(), containers(), containers()).prop_map(
        |(mut annotations, injected, security_context, init_containers, containers)| {
            if injected {
                annotations.insert("sidecar.istio.io/status".to_owned(), String::new());
            }
            let metadata = Metadata { annotations, ..Metadata::default() };
            PodFacts {
                metadata,
                spec: Spec { security_context, init_containers, containers, ..Spec::default() },
            }
        },
    )
}

proptest! {
    #![proptest_config(cases(4000))]

    #[test]
    fn every_pod_is_skipped_refused_or_gets_rules(pod in pod(), addresses in vec(address(), 0..4)) {
        match enrol(&pod) {
            Ok(Enrolment::Skip(reason)) => prop_assert!(!reason.to_string().is_empty() && !reason.code().is_empty()),
            Err(error) => {
                prop_assert!(pod.metadata.annotations.contains_key(error.annotation.key()));
                let start = format!("annotation value error for value {}; ", error.annotation.short_name());
                prop_assert!(error.to_string().starts_with(&start));
            }
            Ok(Enrolment::Enrol(redirect)) => {
                let Ok(config) = redirect.config_for(addresses, &Environment::default()) else { return Ok(()) };
                let ruleset = ruleset(&config).unwrap();
                prop_assert!(ruleset.families().all(|family| restore(&ruleset, family).ends_with("COMMIT\n")));
            }
        }
    }

    #[test]
    fn a_pod_s_context_is_that_of_each_container_that_says_nothing(pod in pod()) {
        let mut written_out = pod.clone();
        let of_pod = written_out.spec.security_context.take().unwrap_or_default();
        for container in written_out.spec.init_containers.iter_mut().chain(&mut written_out.spec.containers) {
            let own = container.security_context.unwrap_or_default();
            container.security_context = Some(SecurityContext {
                run_as_user: own.run_as_user.or(of_pod.run_as_user),
                run_as_group: own.run_as_group.or(of_pod.run_as_group),
            });
        }
        let proxies = pod.spec.init_containers.iter().chain(&pod.spec.containers);
        // Of several proxies a later one without a context leaves an earlier one's, as upstream reads them.
        prop_assume!(proxies.filter(|container| container.name == "istio-proxy").count() < 2);
        if let (Ok(Enrolment::Enrol(whole)), Ok(Enrolment::Enrol(out))) = (enrol(&pod), enrol(&written_out)) {
            prop_assert_eq!((&whole.uid.value, &whole.gid.value), (&out.uid.value, &out.gid.value));
            prop_assert_eq!(&whole.shared, &out.shared);
        }
    }

    #[test]
    fn a_redirection_is_the_same_in_another_process(pod in pod()) {
        if let Ok(Enrolment::Enrol(redirect)) = enrol(&pod) {
            let text = serde_json::to_string(&redirect).unwrap();
            prop_assert_eq!(serde_json::from_str::<Redirect>(&text).unwrap(), *redirect);
        }
    }

    #[test]
    fn dual_stack_only_ever_adds_ipv6(addresses in vec(address(), 0..5)) {
        let first = decide_addresses(addresses.clone(), Stack::FirstAddress);
        let dual = decide_addresses(addresses, Stack::Dual);
        prop_assert_eq!(first.map(|families| families.first), dual.map(|families| families.first));
        if let (Ok(first), Ok(dual)) = (first, dual) {
            prop_assert!(dual.ipv6 || !first.ipv6);
        }
    }
}
