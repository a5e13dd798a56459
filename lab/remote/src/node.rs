// SPDX-License-Identifier: Apache-2.0
//! The node that a run uses, and pods on it.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use cluster::hand::Hand;
use cluster::{CniAnswer, CniCall, LabError, Node, PodStart, SYSTEM_NAMESPACE};
use futures::TryStreamExt as _;
use k8s_openapi::api::core::v1::{Event, Pod};
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};

use crate::error::Error;
use crate::session::Session;
use crate::start::{Progress, progress, sandbox_failure};
use crate::watch::{first_line, objects};

/// Annotations of the lab's base plugin: a cluster's own network knows none of them.
const FAMILIES: &str = "lab.millrace.dev/families";
const NETWORKS: &str = "lab.millrace.dev/networks";

/// The sysctl that says from which port on anybody may listen.
const LOW_PORTS: &str = "net.ipv4.ip_unprivileged_port_start";

/// Images as scenarios name them: the lab's own, and a proxy's.
const IMAGE: &str = "workload";
const PROXY: &str = "proxyv2";

/// Namespaces that belong to the cluster, and that a guest leaves alone.
const NOT_OURS: [&str; 2] = ["kube-system", SYSTEM_NAMESPACE];

/// The node that a run uses.
#[derive(Debug)]
pub(crate) struct RemoteNode {
    pub(crate) session: Session,
    /// Begin of the names of a guest's namespaces.
    pub(crate) prefix: String,
}

impl RemoteNode {
    /// The name in the cluster of a namespace that a scenario names.
    pub(crate) fn real(&self, namespace: &str) -> Result<String, Error> {
        if self.session.options.whole.is_some() {
            return Ok(namespace.to_owned());
        }
        if NOT_OURS.contains(&namespace) {
            return Err(Error::Unsupported(format!(
                "make pods in namespace {namespace}, which is not the lab's"
            )));
        }
        Ok(format!("{}-{namespace}", self.prefix))
    }

    pub(crate) fn pods(&self, namespace: &str) -> Result<Api<Pod>, Error> {
        Ok(Api::namespaced(self.session.client.clone(), &self.real(namespace)?))
    }

    /// A scenario's object for this cluster: a pod, or what has a template of one.
    pub(crate) fn adapt(&self, object: &Value, namespace: &str) -> Result<Value, Error> {
        let mut object = object.clone();
        object["metadata"]["namespace"] = json!(namespace);
        let pod = if object["kind"] == "Pod" { &mut object } else { &mut object["spec"]["template"] };
        if pod["metadata"]["annotations"][NETWORKS].is_string() {
            return Err(Error::Unsupported("add networks to a pod".to_owned()));
        }
        if pod["spec"].is_object() {
            self.adapt_spec(&mut pod["spec"])?;
        }
        Ok(object)
    }

    fn adapt_spec(&self, spec: &mut Value) -> Result<(), Error> {
        spec["terminationGracePeriodSeconds"] = json!(0);
        spec["automountServiceAccountToken"] = json!(false);
        let resolvers = spec["dnsConfig"]["nameservers"].as_array().map_or(0, Vec::len);
        if resolvers == 0 {
            // A real API server demands one with the policy None.
            spec["dnsPolicy"] = json!("Default");
            spec["dnsConfig"] = Value::Null;
        }
        if spec["hostNetwork"] != true && spec["securityContext"]["sysctls"].is_null() {
            // containerd lets anybody listen on low ports, CRI-O does not; a safe sysctl, which is the pod's own.
            spec["securityContext"]["sysctls"] = json!([{ "name": LOW_PORTS, "value": "0" }]);
        }
        for kind in ["initContainers", "containers"] {
            for container in spec[kind].as_array_mut().into_iter().flatten() {
                let (name, word) = (&container["image"], &container["args"][0]);
                container["image"] = json!(self.image(name.as_str().unwrap_or_default(), word == "proxy")?);
                container["imagePullPolicy"] = json!("IfNotPresent");
            }
        }
        Ok(())
    }

    /// The cluster's name of an image that a scenario names. The proxy itself is the lab's.
    fn image(&self, name: &str, is_proxy: bool) -> Result<String, Error> {
        let options = &self.session.options;
        match (name, &options.whole) {
            (IMAGE, _) => Ok(options.image.clone()),
            (PROXY, _) if is_proxy => Ok(options.image.clone()),
            (PROXY, Some(whole)) => Ok(whole.proxy.clone()),
            (PROXY, None) => Err(Error::Unsupported("give a pod a proxy's image".to_owned())),
            (other, _) => Ok(other.to_owned()),
        }
    }

    /// Waits for the end of a pod's start: its status tells, or an event of its sandbox.
    async fn ended(&self, pods: &Api<Pod>, name: &str) -> Result<(Pod, PodStart), Error> {
        let events: Api<Event> =
            Api::namespaced(self.session.client.clone(), pods.namespace().unwrap_or_default());
        let mut events = objects(&events, "involvedObject.name", name).await?;
        let mut pods = objects(pods, "metadata.name", name).await?;
        let ended =
            || Error::Watch { what: format!("pod {name}"), why: "the server ended the watch".to_owned() };
        let mut last = None;
        loop {
            tokio::select! {
                pod = pods.try_next() => {
                    let pod = pod?.ok_or_else(ended)?;
                    match progress(&pod) {
                        Progress::Starting => last = Some(pod),
                        Progress::Ended(start) => return Ok((pod, start)),
                        Progress::NoImage(why) => return Err(Error::Missing(format!("image {why}"))),
                    }
                }
                event = events.try_next() => {
                    let event = event?.ok_or_else(ended)?;
                    if let Some(pod) = &last && let Some(start) = sandbox_failure(&event, pod) {
                        return Ok((pod.clone(), start));
                    }
                }
            }
        }
    }

    /// Waits until each of the pod's containers that stay has said something: the lab's do when they listen.
    async fn listens(&self, pods: &Api<Pod>, pod: &Pod) -> Result<(), Error> {
        let spec = pod.spec.clone().unwrap_or_default();
        let sidecars = spec.init_containers.into_iter().flatten();
        let sidecars = sidecars.filter(|one| one.restart_policy.as_deref() == Some("Always"));
        for container in sidecars.chain(spec.containers) {
            if container.image.as_ref() == Some(&self.session.options.image) {
                first_line(pods, &pod.name_any(), &container.name, "").await?;
            }
        }
        Ok(())
    }
}

#[async_trait]
impl Node for RemoteNode {
    fn name(&self) -> &str {
        &self.session.node
    }

    async fn write_conflist(&self, file: &str, _text: &str) -> Result<(), LabError> {
        Err(Error::Unsupported(format!("write {file} of a node's network configuration")).into())
    }

    async fn pod_started(
        &self,
        namespace: &str,
        name: &str,
        deadline: Duration,
    ) -> Result<PodStart, LabError> {
        let pods = self.pods(namespace)?;
        let start = async {
            let (pod, start) = self.ended(&pods, name).await?;
            if let PodStart::Running { addresses } = &start {
                has_families(&pod, addresses)?;
                self.listens(&pods, &pod).await?;
            }
            Ok::<_, Error>(start)
        };
        let what = || format!("the start of pod {namespace}/{name}");
        let ended = tokio::time::timeout(deadline, start).await;
        Ok(ended.map_err(|_| Error::Deadline { what: what(), deadline })??)
    }

    async fn hand(&self) -> Result<Arc<dyn Hand>, LabError> {
        Ok(Arc::new(self.session.hand.clone()))
    }

    async fn call_plugin(&self, call: CniCall) -> Result<CniAnswer, LabError> {
        Err(Error::Unsupported(format!("call {} outside of a pod's life", call.plugin)).into())
    }
}

/// A scenario that speaks of families needs a cluster that gives them, in that order.
fn has_families(pod: &Pod, addresses: &[std::net::IpAddr]) -> Result<(), Error> {
    let Some(wanted) = pod.annotations().get(FAMILIES) else { return Ok(()) };
    let families: Vec<_> = addresses.iter().map(|one| if one.is_ipv4() { "v4" } else { "v6" }).collect();
    let found = families.join(",");
    // With IPv4 alone a scenario does not mind a second family, with others it does.
    if found == *wanted || (wanted == "v4" && families.first() == Some(&"v4")) {
        return Ok(());
    }
    Err(Error::Unsupported(format!("give a pod addresses of {wanted}: it has {found}")))
}
