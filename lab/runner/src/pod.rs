// SPDX-License-Identifier: Apache-2.0
//! A pod as features describe it, and as the API gets it: what an injector would have made of it included.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::tier::Families;

/// The annotation that an injector leaves.
pub const STATUS: &str = "sidecar.istio.io/status";

/// The annotation by which the lab's base plugin knows which addresses a pod wants.
const FAMILIES: &str = "lab.millrace.dev/families";

/// The user and group that an injector gives the proxy unless the platform says otherwise.
pub const PROXY_ID: i64 = 1337;

/// Ports that an app answers on unless a feature says otherwise. 15008 is the tunnel's, 53 is DNS: both are special to rules.
pub const APP_PORTS: [&str; 9] =
    ["tcp:80", "tcp:443", "tcp:8080", "tcp:9090", "tcp:15008", "udp:53", "udp:443", "udp:8080", "udp:15020"];

/// What the proxy stand-in does with a connection that it caught.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ProxyMode {
    /// It carries it on to where it was addressed.
    #[default]
    Forward,
    /// It answers by itself, so that no packet follows from it.
    Sink,
}

/// The proxy of a pod.
#[derive(Debug, Clone)]
pub struct Proxy {
    /// The container's name.
    pub name: String,
    /// `runAsUser` of its container.
    pub uid: Option<i64>,
    /// `runAsGroup` of its container.
    pub gid: Option<i64>,
    /// Its environment.
    pub env: BTreeMap<String, String>,
    /// Its arguments.
    pub args: Vec<String>,
    /// Whether it is a native sidecar: an init container that keeps running.
    pub native: bool,
    /// What it does with connections.
    pub mode: ProxyMode,
}

impl Default for Proxy {
    fn default() -> Self {
        Self {
            name: "istio-proxy".to_owned(),
            uid: Some(PROXY_ID),
            gid: Some(PROXY_ID),
            env: BTreeMap::new(),
            args: vec!["proxy".to_owned(), "sidecar".to_owned()],
            native: false,
            mode: ProxyMode::default(),
        }
    }
}

/// A pod.
#[derive(Debug, Clone, Default)]
pub struct Pod {
    /// Its name.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
    /// Its annotations.
    pub annotations: BTreeMap<String, String>,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its proxy, if it has one.
    pub proxy: Option<Proxy>,
    /// Containers that end at once, before the others start.
    pub init: Vec<String>,
    /// What its app listens on, as `tcp:8080`.
    pub ports: Vec<String>,
    /// The addresses that it gets.
    pub families: Families,
}

impl Pod {
    /// A pod of the mesh, as an injector leaves it.
    #[must_use]
    pub fn meshed(name: &str, namespace: &str) -> Self {
        let mut pod = Self::plain(name, namespace);
        pod.proxy = Some(Proxy::default());
        pod.annotations.insert(STATUS.to_owned(), "{}".to_owned());
        pod
    }

    /// A pod that no injector has seen.
    #[must_use]
    pub fn plain(name: &str, namespace: &str) -> Self {
        Self {
            name: name.to_owned(),
            namespace: namespace.to_owned(),
            ports: APP_PORTS.map(str::to_owned).to_vec(),
            ..Self::default()
        }
    }

    /// The proxy's user, as rules must name it: root is not accepted as a proxy's identity.
    #[must_use]
    pub fn proxy_uid(&self) -> u32 {
        self.proxy_id(|proxy| proxy.uid)
    }

    /// The proxy's group, likewise.
    #[must_use]
    pub fn proxy_gid(&self) -> u32 {
        self.proxy_id(|proxy| proxy.gid)
    }

    fn proxy_id(&self, id: impl Fn(&Proxy) -> Option<i64>) -> u32 {
        let id = self.proxy.as_ref().and_then(id).filter(|id| *id != 0).unwrap_or(PROXY_ID);
        u32::try_from(id).unwrap_or(u32::MAX)
    }

    /// The object that the API gets.
    #[must_use]
    pub fn object(&self) -> Value {
        let mut annotations = self.annotations.clone();
        annotations.insert(FAMILIES.to_owned(), self.families.annotation().to_owned());
        let mut init: Vec<Value> = self.init.iter().map(|name| ending(name)).collect();
        let mut containers = vec![app(&self.ports)];
        if let Some(proxy) = &self.proxy {
            if proxy.native { init.push(proxy.container()) } else { containers.push(proxy.container()) }
        }
        json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": self.name,
                "namespace": self.namespace,
                "annotations": annotations,
                "labels": self.labels,
            },
            "spec": { "initContainers": init, "containers": containers },
        })
    }
}

impl Proxy {
    fn container(&self) -> Value {
        let mut env: Vec<Value> =
            self.env.iter().map(|(name, value)| json!({ "name": name, "value": value })).collect();
        if self.mode == ProxyMode::Sink {
            env.push(json!({ "name": "LAB_PROXY_MODE", "value": "sink" }));
        }
        let mut container = json!({
            "name": self.name,
            "image": "workload",
            "command": ["workload"],
            "args": self.args,
            "env": env,
        });
        if let Some(object) = container.as_object_mut() {
            if self.uid.is_some() || self.gid.is_some() {
                object.insert(
                    "securityContext".to_owned(),
                    json!({ "runAsUser": self.uid, "runAsGroup": self.gid }),
                );
            }
            if self.native {
                object.insert("restartPolicy".to_owned(), json!("Always"));
            }
        }
        container
    }
}

fn app(ports: &[String]) -> Value {
    let mut command = vec!["workload", "app"];
    for port in ports {
        command.extend(["--listen", port]);
    }
    json!({ "name": "app", "image": "workload", "command": command, "securityContext": { "runAsUser": 1000, "runAsGroup": 1000 } })
}

fn ending(name: &str) -> Value {
    json!({ "name": name, "image": "workload", "command": ["workload", "exit"] })
}

#[cfg(test)]
mod tests {
    use protocol::pod::PodFacts;

    use super::*;

    fn facts(pod: &Pod) -> PodFacts {
        serde_json::from_value(pod.object()).unwrap()
    }

    #[test]
    fn a_meshed_pod_is_one_that_the_plugin_would_enrol() {
        let facts = facts(&Pod::meshed("cart", "shop"));
        assert!(facts.metadata.annotations.contains_key(STATUS));
        let proxy = facts.spec.containers.iter().find(|container| container.name == "istio-proxy").unwrap();
        assert_eq!(proxy.args, ["proxy", "sidecar"]);
        assert_eq!(proxy.security_context.unwrap().run_as_user, Some(PROXY_ID));
    }

    #[test]
    fn a_native_sidecar_is_an_init_container() {
        let mut pod = Pod::meshed("cart", "shop");
        pod.proxy = Some(Proxy { native: true, ..Proxy::default() });
        let facts = facts(&pod);
        assert_eq!(facts.spec.init_containers.len(), 1);
        assert_eq!(facts.spec.containers.len(), 1);
    }

    #[test]
    fn root_is_no_identity_for_rules() {
        let mut pod = Pod::meshed("cart", "shop");
        pod.proxy = Some(Proxy { uid: Some(0), gid: Some(5), ..Proxy::default() });
        assert_eq!((pod.proxy_uid(), pod.proxy_gid()), (1337, 5));
    }
}
