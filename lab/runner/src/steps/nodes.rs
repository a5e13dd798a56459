// SPDX-License-Identifier: Apache-2.0
//! The network between nodes and to the outside, and addresses of services that nodes translate.

use std::net::IpAddr;
use std::time::Duration;

use cluster::condition::TRANSLATED;
use cucumber::{given, then};
use k8s_openapi::api::core::v1::{Node, Pod, Service};
use kube::Api;
use redirect::ruleset::Family;
use serde_json::json;

use crate::steps::wait::eventually;
use crate::steps::world::LabWorld;
use crate::stop::{Step, Stop, expect_eq};

/// Deadline of a service's translation.
const SOON: Duration = Duration::from_secs(20);
/// Addresses of the host outside.
const OUTSIDE: [&str; 2] = ["203.0.113.10", "2001:db8:113::10"];
/// Namespace of services of scenarios.
const NAMESPACE: &str = "default";

#[given(regex = r#"^it is on node "([^"]+)"$"#)]
fn placed(world: &mut LabWorld, node: String) -> Step {
    world.it()?.node = Some(node);
    Ok(())
}

/// It answers on the ports 443 and 8080, and knows nodes only: they translate the addresses of their pods.
#[given("a host outside of the cluster")]
fn host_outside(world: &mut LabWorld) {
    world.node.outside = true;
}

/// As where pods have addresses of the network around the cluster.
#[given("a host outside of the cluster that knows where pods are")]
fn host_beside(world: &mut LabWorld) {
    (world.node.outside, world.node.pods_are_routed) = (true, true);
}

/// The network's plugin does not wait for duplicate address detection (`IFA_F_TENTATIVE`), which takes a second or two.
#[given("pods' IPv6 addresses are tentative at first")]
fn tentative(world: &mut LabWorld) {
    world.node.base_conf.insert("detects".to_owned(), json!(true));
}

/// `KUBERNETES_SERVICE_HOST` of pods, as where services are of IPv6 alone.
#[given("the API's service has an IPv6 address")]
fn ipv6_service(world: &mut LabWorld) -> Step {
    if world.cluster.is_some() {
        return Err(Stop::harness("the cluster is there already, with another service"));
    }
    world.node.service_is_ipv6 = true;
    Ok(())
}

/// Of the machine, and of the namespaces of its pods, which inherit it.
#[given(regex = r"^rp_filter is ([012]) on its node$")]
fn rp_filter(world: &mut LabWorld, value: u8) {
    world.node.rp_filter = Some(value);
}

/// Its app listens on the second port.
#[given(regex = r#"^service "([^"]+)" of port (\d+) is pod "([^"]+)" at port (\d+)$"#)]
async fn service(world: &mut LabWorld, name: String, port: u16, pod: String, target: u16) -> Step {
    let labels = &mut world.pod(&pod)?.labels;
    labels.insert("app".to_owned(), pod.clone());
    world.pod(&pod)?.namespace = NAMESPACE.to_owned();
    world.run_pod(&pod).await?;
    let spec = json!({
        "clusterIP": "10.96.0.20", "selector": { "app": pod },
        "ports": [{ "port": port, "targetPort": target, "protocol": "TCP" }],
    });
    let metadata = json!({ "name": name, "namespace": NAMESPACE });
    let service = json!({ "apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec });
    world.cluster().await?.apply(service).await?;
    let services = services(world).await?;
    eventually(world, SOON, async |_| {
        let service = services.get(&name).await.map_err(Stop::harness)?;
        let conditions = service.status.and_then(|status| status.conditions).unwrap_or_default();
        match conditions.iter().any(|one| one.type_ == TRANSLATED && one.status == "True") {
            true => Ok(()),
            false => Err(Stop::harness("its nodes do not translate it")),
        }
    })
    .await
}

/// Neither the machine's nor another's: of the network between nodes.
#[then(regex = r"^the pods' hostIPs are addresses of different nodes$")]
async fn host_ips(world: &mut LabWorld) -> Step {
    let names: Vec<String> = world.pods.keys().cloned().collect();
    let mut seen = Vec::new();
    for name in &names {
        world.run_pod(name).await?;
        let wanted = addresses(world, name).await?;
        let pod = object(world, name).await?;
        let host = pod.status.and_then(|status| status.host_ip).and_then(|ip| ip.parse::<IpAddr>().ok());
        expect_eq(&format!("the hostIP of {name}"), &host, &wanted.first().copied())?;
        seen.push(host);
    }
    seen.sort_unstable();
    seen.dedup();
    expect_eq("the number of nodes", &seen.len(), &2)
}

pub(super) fn outside(family: Family) -> Result<IpAddr, Stop> {
    let address = OUTSIDE[usize::from(family == Family::V6)];
    address.parse().map_err(Stop::harness)
}

pub(super) async fn address_of_service(world: &mut LabWorld, name: &str) -> Result<IpAddr, Stop> {
    let address = spec(world, name).await?.cluster_ip.unwrap_or_default();
    address.parse().map_err(Stop::harness)
}

/// Port of the app behind it.
pub(super) async fn port_of_service(world: &mut LabWorld, name: &str) -> Result<u16, Stop> {
    use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
    let ports = spec(world, name).await?.ports.unwrap_or_default();
    match ports.first().and_then(|port| port.target_port.clone()) {
        Some(IntOrString::Int(port)) => u16::try_from(port).map_err(Stop::harness),
        other => Err(Stop::harness(format!("service {name} leads to {other:?}"))),
    }
}

async fn services(world: &mut LabWorld) -> Result<Api<Service>, Stop> {
    Ok(Api::namespaced(world.cluster().await?.client(), NAMESPACE))
}

async fn spec(world: &mut LabWorld, name: &str) -> Result<k8s_openapi::api::core::v1::ServiceSpec, Stop> {
    let service = services(world).await?.get(name).await.map_err(Stop::harness)?;
    Ok(service.spec.unwrap_or_default())
}

async fn object(world: &mut LabWorld, name: &str) -> Result<Pod, Stop> {
    let pod = world.name_of(name)?;
    let found = world.cluster().await?.pod(&pod).await?;
    serde_json::from_value(found.ok_or_else(|| Stop::harness(format!("there is no pod {name}")))?)
        .map_err(Stop::harness)
}

/// Addresses of a pod's node, as its object has them.
pub(super) async fn addresses(world: &mut LabWorld, pod: &str) -> Result<Vec<IpAddr>, Stop> {
    let node = object(world, pod).await?.spec.and_then(|spec| spec.node_name).unwrap_or_default();
    let nodes: Api<Node> = Api::all(world.cluster().await?.client());
    let found = nodes.get(&node).await.map_err(Stop::harness)?;
    let listed = found.status.and_then(|status| status.addresses).unwrap_or_default();
    let own = listed.iter().filter(|one| one.type_ == "InternalIP");
    Ok(own.filter_map(|one| one.address.parse().ok()).collect())
}
