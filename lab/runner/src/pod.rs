// SPDX-License-Identifier: Apache-2.0
//! A pod as features describe it, and as the API gets it: what an injector would have made of it included.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use anyhow::bail;
use cluster::network::{FAMILIES, NETWORKS};
use injector::{Config, InjectError, Placement, Programming, inject};
use protocol::pod::PodFacts;
use redirect::host::Environment;
use redirect::{Enrolment, Redirect, enrol};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::tier::Families;

/// Annotation of injected pods.
pub const STATUS: &str = "sidecar.istio.io/status";

/// Annotation with the interception mode.
const INTERCEPTION: &str = "sidecar.istio.io/interceptionMode";

/// The user and group that an injector gives the proxy unless the platform says otherwise.
pub const PROXY_ID: i64 = 1337;

/// Ports that an app answers on unless a feature says otherwise. 15008 is the tunnel's, 53 is DNS: both are special to rules.
pub const APP_PORTS: [&str; 10] = [
    "tcp:53",
    "tcp:80",
    "tcp:443",
    "tcp:8080",
    "tcp:9090",
    "tcp:15008",
    "udp:53",
    "udp:443",
    "udp:8080",
    "udp:15020",
];

/// Handling of captured connections by the proxy stand-in.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ProxyMode {
    /// Forwards to the original destination.
    #[default]
    Forward,
    /// Answers by itself, so that no packet follows.
    Sink,
}

#[derive(Debug, Clone)]
pub struct Proxy {
    /// Name of the container.
    pub name: String,
    /// `runAsUser` of its container.
    pub uid: Option<i64>,
    /// `runAsGroup` of its container.
    pub gid: Option<i64>,
    pub env: BTreeMap<String, String>,
    pub args: Vec<String>,
    /// Additional capabilities.
    pub capabilities: Vec<String>,
    /// Native sidecar: an init container that keeps running.
    pub native: bool,
    /// Handling of connections.
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
            capabilities: Vec::new(),
            native: false,
            mode: ProxyMode::default(),
        }
    }
}

/// A container that sends from the pod's first moment on, to places where nobody listens.
#[derive(Debug, Clone)]
pub struct Sender {
    pub to: Vec<SocketAddr>,
    /// Asked over UDP.
    pub ask: Vec<SocketAddr>,
    /// Asked for connections to the pod.
    pub callers: Vec<IpAddr>,
    pub every: Duration,
}

/// Name of its container.
pub const SENDER: &str = "sender";

/// Name that injection gives the container that checks rules.
const VALIDATION: &str = "istio-validation";

#[derive(Debug, Clone, Default)]
pub struct Pod {
    pub name: String,
    pub namespace: String,
    pub annotations: BTreeMap<String, String>,
    pub labels: BTreeMap<String, String>,
    pub proxy: Option<Proxy>,
    /// Init containers of its app.
    pub init: Vec<Value>,
    /// The first container of its own.
    pub sender: Option<Sender>,
    /// Opens a connection to each sender that asks for one.
    pub is_caller: bool,
    /// Ports of its app, as `tcp:8080`.
    pub ports: Vec<String>,
    /// Address families.
    pub families: Families,
    /// Additional interfaces.
    pub networks: Vec<String>,
    /// Interface that leads to a guest.
    pub guest: Option<String>,
    /// User and group of its `securityContext`, which containers without their own run as.
    pub run_as: Option<(i64, i64)>,
    /// `runtimeClassName`
    pub runtime_class: Option<String>,
    /// User namespace of its own (`hostUsers: false`).
    pub own_users: bool,
    /// `restartPolicy: Never`
    pub starts_once: bool,
    /// Network namespace of its node (`hostNetwork: true`). Its app listens on no port there.
    pub host_network: bool,
    /// Name of its node, if not the first.
    pub node: Option<String>,
    /// Owner (`ownerReferences`).
    pub owner: Option<Value>,
    /// Its validation fails, whatever its rules.
    pub fails_validation: bool,
    /// Name of the container that checks its rules, if its template has another one.
    pub validation: Option<String>,
    pub resolvers: Vec<IpAddr>,
    /// Writer of its rules, where a real injector has to add the container for it.
    pub programming: Option<Programming>,
    /// Mesh configuration, where the pod and its proxy say nothing.
    pub mesh: Config,
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

    /// A pod that was not injected.
    #[must_use]
    pub fn plain(name: &str, namespace: &str) -> Self {
        Self {
            name: name.to_owned(),
            namespace: namespace.to_owned(),
            ports: APP_PORTS.map(str::to_owned).to_vec(),
            ..Self::default()
        }
    }

    /// Has inbound traffic caught by TPROXY, as an injector does it: the proxy may then take what is addressed to others.
    pub fn intercept_by_tproxy(&mut self) {
        self.annotations.insert(INTERCEPTION.to_owned(), "TPROXY".to_owned());
        if let Some(proxy) = &mut self.proxy {
            (proxy.uid, proxy.gid) = (Some(0), Some(PROXY_ID));
            proxy.capabilities.push("NET_ADMIN".to_owned());
            proxy.env.insert("ISTIO_META_INTERCEPTION_MODE".to_owned(), "TPROXY".to_owned());
        }
    }

    /// True if inbound traffic is intercepted by TPROXY.
    #[must_use]
    pub fn is_tproxy(&self) -> bool {
        self.annotations.get(INTERCEPTION).is_some_and(|mode| mode == "TPROXY")
    }

    /// The user and group that the proxy's process has; not what rules name if it is root.
    #[must_use]
    pub fn proxy_process(&self) -> (u32, u32) {
        let root = self.proxy.as_ref().is_some_and(|proxy| proxy.uid == Some(0));
        (if root { 0 } else { self.proxy_uid() }, self.proxy_gid())
    }

    /// The proxy's user, as rules must name it: root is not accepted as a proxy's identity.
    #[must_use]
    pub fn proxy_uid(&self) -> u32 {
        self.proxy_id(|proxy| proxy.uid.or(self.run_as.map(|(user, _)| user)))
    }

    #[must_use]
    pub fn proxy_gid(&self) -> u32 {
        self.proxy_id(|proxy| proxy.gid.or(self.run_as.map(|(_, group)| group)))
    }

    fn proxy_id(&self, id: impl Fn(&Proxy) -> Option<i64>) -> u32 {
        let id = self.proxy.as_ref().and_then(id).filter(|id| *id != 0).unwrap_or(PROXY_ID);
        u32::try_from(id).unwrap_or(u32::MAX)
    }

    /// The object as the API admits it: an injector may have been at it.
    ///
    /// # Errors
    /// It cannot be injected.
    pub fn admitted(&self) -> Result<Value, InjectError> {
        let (Some(programming), Some(proxy)) = (self.programming, &self.proxy) else {
            return Ok(self.object());
        };
        let mut bare = Self { proxy: None, ..self.clone() };
        bare.annotations.remove(STATUS);
        let id = |id: Option<i64>| id.and_then(|id| u32::try_from(id).ok());
        let mut config = Config { programming, ..self.mesh.clone() };
        config.placement = if proxy.native { Placement::Native } else { Placement::Beside };
        config.uid = id(proxy.uid).unwrap_or(config.uid);
        config.gid = id(proxy.gid).unwrap_or(config.gid);
        config.metadata.extend(proxy.env.clone());
        let mut object = inject(&bare.object(), &config)?;
        let containers = object["spec"]["initContainers"].as_array_mut().into_iter().flatten();
        for container in containers.filter(|container| container["name"] == VALIDATION) {
            container["name"] = json!(self.validation());
        }
        Ok(object)
    }

    /// Name of the container that checks its rules.
    #[must_use]
    pub fn validation(&self) -> &str {
        self.validation.as_deref().unwrap_or(VALIDATION)
    }

    /// Parameters of its redirection.
    pub fn redirect(&self) -> anyhow::Result<Redirect> {
        let facts: PodFacts = serde_json::from_value(self.admitted()?)?;
        match enrol(&facts)? {
            Enrolment::Enrol(redirect) => Ok(*redirect),
            Enrolment::Skip(reason) => bail!("it would be left alone: {reason}"),
        }
    }

    /// The plugin's configuration for it where these are its addresses. The kernel lists all of IPv4 before IPv6, whatever the order in
    /// which they were added.
    pub fn config(&self, addresses: &[IpAddr]) -> anyhow::Result<redirect::Config> {
        let redirect = self.redirect()?;
        let mut addresses = addresses.to_vec();
        addresses.sort_by_key(IpAddr::is_ipv6);
        Ok(redirect.config_for(addresses, &Environment::default())?)
    }

    /// Object for the API, injected by a stand-in.
    #[must_use]
    pub fn object(&self) -> Value {
        let mut annotations = self.annotations.clone();
        annotations.insert(FAMILIES.to_owned(), self.families.annotation().to_owned());
        if !self.networks.is_empty() {
            annotations.insert(NETWORKS.to_owned(), self.networks.join(","));
        }
        let mut init = Vec::new();
        if self.fails_validation {
            let mut validation = ending(self.validation());
            validation["args"] = json!(["126"]);
            init.push(validation);
        }
        init.extend(self.sender.iter().map(Sender::container));
        let mut containers = vec![app(&self.ports)];
        if let Some(proxy) = &self.proxy {
            if proxy.native { init.push(proxy.container()) } else { containers.push(proxy.container()) }
        }
        // An injector puts a native sidecar before them.
        init.extend(self.init.iter().cloned());
        containers.extend(self.guest.as_deref().map(guest));
        if self.is_caller {
            containers
                .push(json!({ "name": "caller", "image": "workload", "command": ["workload", "caller"] }));
        }
        let mut object = json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": self.name,
                "namespace": self.namespace,
                "annotations": annotations,
                "labels": self.labels,
                "ownerReferences": self.owner.as_slice(),
            },
            "spec": {
                "initContainers": init,
                "containers": containers,
                "hostUsers": !self.own_users,
                "restartPolicy": if self.starts_once { "Never" } else { "Always" },
            },
        });
        if !self.resolvers.is_empty() {
            object["spec"]["dnsPolicy"] = json!("None");
            object["spec"]["dnsConfig"] = json!({ "nameservers": self.resolvers });
        }
        if let Some((user, group)) = self.run_as {
            object["spec"]["securityContext"] = json!({ "runAsUser": user, "runAsGroup": group });
        }
        if let Some(class) = &self.runtime_class {
            object["spec"]["runtimeClassName"] = json!(class);
        }
        if self.host_network {
            object["spec"]["hostNetwork"] = json!(true);
        }
        if let Some(node) = &self.node {
            object["spec"]["nodeName"] = json!(node);
        }
        object
    }
}

impl Sender {
    /// A native sidecar: it goes on while others start and run.
    fn container(&self) -> Value {
        let mut command = vec!["workload".to_owned(), SENDER.to_owned()];
        command.extend(self.to.iter().flat_map(|to| ["--to".to_owned(), to.to_string()]));
        command.extend(self.ask.iter().flat_map(|to| ["--ask".to_owned(), to.to_string()]));
        command.extend(self.callers.iter().flat_map(|caller| ["--caller".to_owned(), caller.to_string()]));
        command.extend(["--every-ms".to_owned(), self.every.as_millis().to_string()]);
        let rights = json!({ "runAsUser": 1000, "runAsGroup": 1000 });
        json!({
            "name": SENDER, "image": "workload", "command": command, "restartPolicy": "Always", "securityContext": rights,
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
                let mut context = json!({ "runAsUser": self.uid, "runAsGroup": self.gid });
                if !self.capabilities.is_empty() {
                    context["capabilities"] = json!({ "add": self.capabilities });
                }
                object.insert("securityContext".to_owned(), context);
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

/// A stand-in for a virtual machine: it makes its link to the pod itself, as the launcher of a real one does.
fn guest(interface: &str) -> Value {
    let command = ["workload", "guest", "--interface", interface];
    let rights = json!({ "runAsUser": 0, "capabilities": { "add": ["NET_ADMIN", "SYS_ADMIN"] } });
    json!({ "name": "guest", "image": "workload", "command": command, "securityContext": rights })
}

/// A container that exits at once.
pub fn ending(name: &str) -> Value {
    json!({ "name": name, "image": "workload", "command": ["workload", "exit"] })
}

/// A container that exits once somebody answers it there over TCP.
pub fn connecting(name: &str, to: SocketAddr, user: Option<u32>) -> Value {
    json!({
        "name": name,
        "image": "workload",
        "command": ["workload", "connect", to.to_string()],
        "securityContext": { "runAsUser": user },
    })
}

#[cfg(test)]
mod tests {
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
        assert_eq!(pod.proxy_process(), (0, 5));
    }
}
