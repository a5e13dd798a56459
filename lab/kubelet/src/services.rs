// SPDX-License-Identifier: Apache-2.0
//! kube-proxy: services with an address of their own, and the pods behind them, become rules of each node's nat chains. What the rules are is
//! decided purely.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use apiserver::Timestamp;
use apiserver::store::{Action, Change};
use cluster::condition::{TRANSLATED, is_ready};
use cluster::{Installed, Transport};
use serde_json::{Value, json};

use crate::controllers::actions::write_status;
use crate::error::Error;
use crate::fit;
use crate::informer::Informer;
use crate::node::NetnsNode;
use crate::options::{SERVICE, SERVICE_V6};
use crate::wire::{self, Translation, Wire};

/// Port of the API server on a node.
const API_PORT: u16 = 6443;

/// Namespace and name.
type Name = (String, String);

/// Services and pods, as the API has them.
#[derive(Debug, Default)]
struct Known {
    services: BTreeMap<Name, Arc<Value>>,
    pods: BTreeMap<Name, Arc<Value>>,
}

impl Known {
    /// Learns of a change; false if it is about something else. That a node was booted, the node itself knows.
    fn learn(&mut self, change: &Change) -> bool {
        let of = match change.key.kind.name {
            "Service" => &mut self.services,
            "Pod" => &mut self.pods,
            kind => return kind == "Node",
        };
        let name = (change.key.namespace.clone(), change.key.name.clone());
        match change.action {
            Action::Deleted => drop(of.remove(&name)),
            _ => drop(of.insert(name, Arc::clone(&change.object))),
        }
        true
    }

    fn translations(&self) -> Vec<Translation> {
        let of = |((namespace, _), service): (&Name, &Arc<Value>)| {
            let pods = self.pods.iter().filter(|((place, _), _)| place == namespace);
            translations(service, pods.map(|(_, pod)| &**pod))
        };
        self.services.iter().flat_map(of).collect()
    }
}

/// Translations of a service: to the first of its ready pods, where a real kube-proxy chooses by chance.
fn translations<'a>(service: &Value, pods: impl Iterator<Item = &'a Value>) -> Vec<Translation> {
    let spec = &service["spec"];
    let Some(address) = spec["clusterIP"].as_str().and_then(|text| text.parse::<IpAddr>().ok()) else {
        return Vec::new();
    };
    let selector = json!({ "matchLabels": spec["selector"] });
    let mut ready = pods.filter(|pod| fit::selects(&selector, &pod["metadata"]["labels"]) && is_ready(pod));
    let Some((pod, to)) = ready.find_map(|pod| Some((pod, address_of(pod, address)?))) else {
        return Vec::new();
    };
    let ports = spec["ports"].as_array().into_iter().flatten();
    let translation = |port: &Value| {
        let from = number(&port["port"])?;
        let target = match port["targetPort"].as_str() {
            Some(name) => named(pod, name, &port["protocol"])?,
            None => number(&port["targetPort"]).unwrap_or(from),
        };
        let transport = if port["protocol"] == "UDP" { Transport::Udp } else { Transport::Tcp };
        Some(Translation { transport, from: SocketAddr::new(address, from), to: SocketAddr::new(to, target) })
    };
    ports.filter_map(translation).collect()
}

fn number(value: &Value) -> Option<u16> {
    value.as_u64().and_then(|number| u16::try_from(number).ok())
}

/// A container's port of this name and protocol (`FindPort` in `pkg/api/v1/pod/util.go`), those of native sidecars included.
fn named(pod: &Value, name: &str, protocol: &Value) -> Option<u16> {
    let containers = |key: &str| pod["spec"][key].as_array().into_iter().flatten();
    let sidecars = containers("initContainers").filter(|container| container["restartPolicy"] == "Always");
    let mut ports =
        containers("containers").chain(sidecars).filter_map(|one| one["ports"].as_array()).flatten();
    let is_udp = |protocol: &Value| protocol == "UDP";
    let found = ports.find(|port| port["name"] == name && is_udp(&port["protocol"]) == is_udp(protocol));
    number(&found?["containerPort"])
}

/// The pod's address of the service's family.
fn address_of(pod: &Value, like: IpAddr) -> Option<IpAddr> {
    let mut all = pod["status"]["podIPs"].as_array().into_iter().flatten();
    all.find_map(|one| {
        one["ip"].as_str()?.parse().ok().filter(|address: &IpAddr| address.is_ipv4() == like.is_ipv4())
    })
}

/// Listeners of a node's API server, which the service `kubernetes` leads to.
#[must_use]
pub fn api_endpoints(number: u8) -> Vec<String> {
    of_api(number).iter().map(|translation| translation.to.to_string()).collect()
}

fn of_api(number: u8) -> Vec<Translation> {
    let pairs = [SERVICE.0, SERVICE_V6].into_iter().zip(wire::addresses(number));
    let pairs = pairs.filter(|(service, _)| wire::has_ipv6() || !service.contains(':'));
    let translation = |(service, own): (&str, String)| {
        Some(Translation {
            transport: Transport::Tcp,
            from: SocketAddr::new(service.parse().ok()?, SERVICE.1),
            to: SocketAddr::new(own.parse().ok()?, API_PORT),
        })
    };
    pairs.filter_map(translation).collect()
}

/// Has a node translate these, and its API server's service if that listens there.
///
/// # Errors
/// The kernel refuses it.
pub async fn translate(node: &NetnsNode, wire: &Wire, services: &[Translation]) -> Result<(), Error> {
    wire.translate(node.netns.path(), node.number, &[of_node(node), services.to_vec()].concat()).await
}

/// Its API server's service, if that listens there.
pub fn of_node(node: &NetnsNode) -> Vec<Translation> {
    if node.options.node.installed == Installed::ByAgent { of_api(node.number) } else { Vec::new() }
}

/// Follows services, pods and boots of nodes, which lose what they translated. Without a network between nodes it does nothing.
pub(crate) async fn run(
    client: kube::Client,
    nodes: Vec<Arc<NetnsNode>>,
    wire: Option<Arc<Wire>>,
    mut informer: Informer,
) {
    let Some(wire) = wire else { return };
    let (mut known, mut done) = (Known::default(), Vec::new());
    let mut booted: Vec<_> = nodes.iter().map(|node| node.boots()).collect();
    loop {
        let change = informer.next().await;
        if !known.learn(&change) {
            continue;
        }
        let wanted = known.translations();
        let is_news = wanted != done;
        for (node, booted) in nodes.iter().zip(&mut booted) {
            let boots = node.boots();
            if !is_news && *booted == boots {
                continue;
            }
            *booted = boots;
            if let Err(error) = translate(node, &wire, &wanted).await {
                let mut left = node.leftovers.lock();
                left.faults.push(format!("services of {}: {error}", node.name));
            }
        }
        if !is_news {
            continue;
        }
        for (namespace, name) in known.services.keys() {
            report(&client, namespace, name).await;
        }
        done = wanted;
    }
}

async fn report(client: &kube::Client, namespace: &str, name: &str) {
    let condition = json!({
        "type": TRANSLATED, "status": "True", "reason": "Translated", "message": "",
        "lastTransitionTime": Timestamp::now().to_string(),
    });
    let patch = json!({ "status": { "conditions": [condition] } });
    // One that was deleted meanwhile has no status.
    let _gone = write_status(client, ("Service", namespace, name), patch).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(ready: &str, ips: &[&str]) -> Value {
        let ips: Vec<_> = ips.iter().map(|ip| json!({ "ip": ip })).collect();
        json!({
            "metadata": { "labels": { "app": "a" } },
            "status": { "conditions": [{ "type": "Ready", "status": ready }], "podIPs": ips },
        })
    }

    #[test]
    fn a_service_leads_to_its_first_ready_pod_of_its_family() {
        let service = |address: &str| {
            let ports = json!([{ "port": 80, "targetPort": 8080 }, { "port": 53, "protocol": "UDP" }]);
            json!({ "spec": { "clusterIP": address, "selector": { "app": "a" }, "ports": ports } })
        };
        let pods = [pod("False", &["10.0.0.1"]), pod("True", &["10.0.0.2"]), pod("True", &["fd00::3"])];
        let of = |address: &str| {
            let all = translations(&service(address), pods.iter());
            all.iter().map(|one| format!("{} {}", one.from, one.to)).collect::<Vec<_>>()
        };
        assert_eq!(of("10.96.0.9"), ["10.96.0.9:80 10.0.0.2:8080", "10.96.0.9:53 10.0.0.2:53"]);
        assert_eq!(of("fd00:96::9")[0], "[fd00:96::9]:80 [fd00::3]:8080");
        let mut pod = pods[1].clone();
        pod["spec"]["containers"] = json!([
            { "ports": [{ "name": "dns", "containerPort": 5353 }] },
            { "ports": [{ "name": "dns", "containerPort": 5354, "protocol": "UDP" }] },
        ]);
        let mut named = service("10.96.0.9");
        named["spec"]["ports"] = json!([
            { "port": 53, "targetPort": "dns", "protocol": "UDP" }, { "port": 80, "targetPort": "lacking" },
        ]);
        let all = translations(&named, [&pod].into_iter());
        let all: Vec<_> = all.iter().map(|one| one.to.to_string()).collect();
        assert_eq!(all, ["10.0.0.2:5354"], "a port of no such name has no endpoint");
        assert!(of("None").is_empty(), "a headless service has no address");
        assert!(translations(&service("10.96.0.9"), pods.iter().take(1)).is_empty());
    }
}
