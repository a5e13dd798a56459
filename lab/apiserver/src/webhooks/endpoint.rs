// SPDX-License-Identifier: Apache-2.0
//! The address of a webhook's service: a ready pod of it, as `--enable-aggregator-routing` has it. Without that flag a real server sends to
//! the service's own address. Pure.

use std::net::{IpAddr, SocketAddr};

use cluster::condition::is_ready;
use serde_json::Value;

use crate::kinds;
use crate::selector::{self, Selector};
use crate::store::{Collection, Key, Store};

/// # Errors
/// There is none, in the real server's words.
pub(super) fn of_service(
    store: &Store,
    namespace: &str,
    name: &str,
    port: u16,
) -> Result<SocketAddr, String> {
    let key = Key { kind: &kinds::SERVICE, namespace: namespace.to_owned(), name: name.to_owned() };
    let service = store.get(&key).map_err(|_| format!("service \"{name}\" not found"))?;
    let spec = &service["spec"];
    let served = spec["ports"].as_array().into_iter().flatten().find(|one| one["port"] == port);
    let served = served.ok_or_else(|| format!("no service port {port} found for service \"{name}\""))?;
    let target = if served["targetPort"].is_null() { &served["port"] } else { &served["targetPort"] };
    let none = || format!("no endpoints available for service \"{name}\"");
    let selected = selector::written(&serde_json::json!({ "matchLabels": spec["selector"] }));
    let selector = Selector::parse(&kinds::POD, Some(&selected), None).map_err(|_| none())?;
    if selector.matches_all() {
        return Err(none());
    }
    let collection = Collection { kind: &kinds::POD, namespace: Some(namespace.to_owned()) };
    let endpoint = |pod: &Value| is_serving(pod).then(|| address(pod, target)).flatten();
    store.list(&collection, &selector).find_map(|(_, pod)| endpoint(pod)).ok_or_else(none)
}

fn is_serving(pod: &Value) -> bool {
    pod["metadata"]["deletionTimestamp"].is_null() && is_ready(pod)
}

/// Where a pod has a port, which may be a name of one of its containers' ports.
fn address(pod: &Value, port: &Value) -> Option<SocketAddr> {
    let ip: IpAddr = pod["status"]["podIP"].as_str()?.parse().ok()?;
    let named = |name: &str| {
        let mut containers = pod["spec"]["containers"].as_array().into_iter().flatten();
        containers.find_map(|container| {
            let mut ports = container["ports"].as_array().into_iter().flatten();
            ports.find(|one| one["name"] == name)?["containerPort"].as_u64()
        })
    };
    let number = port.as_u64().or_else(|| named(port.as_str()?))?;
    Some(SocketAddr::new(ip, u16::try_from(number).ok()?))
}
