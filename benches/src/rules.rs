// SPDX-License-Identifier: Apache-2.0
//! The rules that are applied: those of a default sidecar, and rulesets of a given size.

use anyhow::{Result, bail, ensure};
use protocol::pod::PodFacts;
use redirect::annotations::{Annotation, MAX_INTERFACES, MAX_LIST};
use redirect::config::Config;
use redirect::enrol::{Enrolment, enrol};
use redirect::generate::ruleset;
use redirect::host::Environment;
use redirect::list::Selection;
use redirect::ruleset::{Dialect, Port, Ruleset};
use serde_json::json;

/// A sidecar with default settings, IPv4 and IPv6.
pub const POD: &str = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"cart","namespace":"shop","uid":"u",
"labels":{"app":"cart"},"annotations":{"sidecar.istio.io/status":"{}"}},"spec":{"containers":[{"name":"app","image":"app"},
{"name":"istio-proxy","image":"proxy","args":["proxy","sidecar"],"env":[{"name":"ISTIO_DUAL_STACK","value":"true"}],
"securityContext":{"runAsUser":1337,"runAsGroup":1337}}]}}"#;

/// The pod of [`POD`] as an API server has it: 15 kB, most of it for nobody but the server.
pub fn stored_pod() -> Result<String> {
    let mut pod: serde_json::Value = serde_json::from_str(POD)?;
    let fields = |at: usize| {
        let container = format!("k:{{\"name\":\"app-{at}\"}}");
        json!({"f:spec": {"f:containers": {container: {".": {}, "f:image": {}, "f:env": {".": {}}, "f:terminationMessagePath": {}}}}})
    };
    let managed = (0..80).map(|at| json!({"manager": "kubelet", "operation": "Update", "fieldsType": "FieldsV1", "fieldsV1": fields(at)}));
    pod["metadata"]["managedFields"] = managed.collect();
    Ok(pod.to_string())
}

/// The pod of [`POD`] with each list in its annotations as long as is accepted.
pub fn worst_pod() -> Result<PodFacts> {
    let mut pod: PodFacts = serde_json::from_str(POD)?;
    let ports = |from: usize| (from..from + MAX_LIST).map(|port| port.to_string()).collect();
    let ranges = |net: u8| (0..MAX_LIST).map(|at| format!("10.{net}.{}.{}/32", at / 256, at % 256)).collect();
    let lists: [(Annotation, Vec<String>); 8] = [
        (Annotation::IncludeInboundPorts, ports(1)),
        (Annotation::ExcludeInboundPorts, ports(2_000)),
        (Annotation::IncludeOutboundPorts, ports(20_000)),
        (Annotation::ExcludeOutboundPorts, ports(30_000)),
        (Annotation::IncludeOutboundRanges, ranges(1)),
        (Annotation::ExcludeOutboundRanges, ranges(2)),
        (Annotation::ExcludeInterfaces, (0..MAX_INTERFACES).map(|at| format!("net{at}")).collect()),
        (Annotation::RerouteVirtualInterfaces, vec!["k6t-eth0".to_owned()]),
    ];
    let annotations = lists.map(|(annotation, list)| (annotation.key().to_owned(), list.join(",")));
    pod.metadata.annotations.extend(annotations);
    Ok(pod)
}

/// Configuration of a pod's rules.
pub fn config(pod: &PodFacts) -> Result<Config> {
    let Enrolment::Enrol(redirect) = enrol(pod)? else { bail!("the bench's pod is not enrolled") };
    let config = redirect.config_for([[10, 9, 0, 2].into()], &Environment::default())?;
    Ok(Config { ipv6: true, ..config })
}

/// Configuration of the rules of [`POD`].
pub fn pod_config(dialect: Dialect) -> Result<Config> {
    Ok(Config { dialect, ..config(&serde_json::from_str(POD)?)? })
}

/// Configuration of exactly `count` IPv4 rules: a sidecar with as many excluded inbound ports as it takes.
pub fn sized_config(dialect: Dialect, count: u16) -> Result<Config> {
    let config = |ports: u16| Config {
        dialect,
        inbound_ports_include: Some(Selection::All),
        inbound_ports_exclude: (0..ports).map(|port| Port::One(20_000 + port)).collect(),
        outbound_ranges_include: Selection::All,
        ..Config::default()
    };
    let least = u16::try_from(ruleset(&config(0))?.rules.len())?;
    ensure!(least <= count, "the least sidecar has {least} rules");
    Ok(config(count - least))
}

/// Exactly `count` IPv4 rules.
pub fn sized(dialect: Dialect, count: u16) -> Result<Ruleset> {
    Ok(ruleset(&sized_config(dialect, count)?)?)
}

#[cfg(test)]
mod tests {
    use redirect::ruleset::Family;

    use super::*;

    #[test]
    fn a_stored_pod_is_the_same_pod_and_of_the_usual_size() {
        let stored = stored_pod().unwrap();
        assert!((12_000..20_000).contains(&stored.len()), "{}", stored.len());
        let facts: PodFacts = serde_json::from_str(&stored).unwrap();
        assert_eq!(facts, serde_json::from_str(POD).unwrap());
    }

    #[test]
    fn a_ruleset_has_the_size_that_was_asked_for() {
        for dialect in [Dialect::Iptables, Dialect::Nft] {
            for count in [18, 100, 1000] {
                let rules = sized(dialect, count).unwrap();
                assert_eq!(rules.rules.len(), usize::from(count));
                assert!(!rules.enables(Family::V6));
            }
        }
        assert!(sized(Dialect::Iptables, 3).is_err());
    }
}
