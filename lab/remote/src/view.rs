// SPDX-License-Identifier: Apache-2.0
//! A scenario's names and objects, as they are in the cluster.

use cluster::SYSTEM_NAMESPACE;
use cluster::network::NETWORKS;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use serde_json::{Value, json};

use crate::error::Error;
use crate::session::{LABEL, Session};

/// Mark of a mirror of a static pod, which only a kubelet makes.
const MIRROR: &str = "kubernetes.io/config.mirror";

/// The sysctl that says from which port on anybody may listen.
const LOW_PORTS: &str = "net.ipv4.ip_unprivileged_port_start";

/// Images as scenarios name them: the lab's own, and a proxy's.
const IMAGE: &str = "workload";
const PROXY: &str = "proxyv2";

/// Namespaces that belong to the cluster, and that a guest leaves alone.
const NOT_OURS: [&str; 2] = ["kube-system", SYSTEM_NAMESPACE];

/// A scenario in a cluster.
#[derive(Debug, Clone)]
pub(crate) struct View {
    pub(crate) session: Session,
    /// Begin of the names of a guest's namespaces.
    pub(crate) prefix: String,
}

impl View {
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
        let pod =
            if object["kind"] == "Pod" { Some(&mut object) } else { object.pointer_mut("/spec/template") };
        if let Some(pod) = pod {
            let annotations = &pod["metadata"]["annotations"];
            if annotations[NETWORKS].is_string() {
                return Err(Error::Unsupported("add networks to a pod".to_owned()));
            }
            if annotations[MIRROR].is_string() {
                return Err(Error::Unsupported("give a kubelet the file of a static pod".to_owned()));
            }
            if pod["spec"].is_object() {
                self.adapt_spec(&mut pod["spec"])?;
            }
        }
        Ok(object)
    }

    fn adapt_spec(&self, spec: &mut Value) -> Result<(), Error> {
        spec["terminationGracePeriodSeconds"] = json!(0);
        if spec["serviceAccountName"].is_null() {
            spec["automountServiceAccountToken"] = json!(false);
        }
        if spec["hostNetwork"] != true && spec["securityContext"]["sysctls"].is_null() {
            // containerd lets anybody listen on low ports, CRI-O does not; a safe sysctl, which is the pod's own.
            spec["securityContext"]["sysctls"] = json!([{ "name": LOW_PORTS, "value": "0" }]);
        }
        for kind in ["initContainers", "containers"] {
            for container in spec[kind].as_array_mut().into_iter().flatten() {
                let (name, word) = (&container["image"], &container["args"][0]);
                container["image"] = json!(self.image(name.as_str().unwrap_or_default(), word == "proxy")?);
                for word in container["args"].as_array_mut().into_iter().flatten() {
                    if word == PROXY {
                        *word = json!(self.image(PROXY, false)?);
                    }
                }
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
}

/// An object with the label of a run. Its namespace, if it has one, may be somebody's and stay.
pub(crate) fn labelled(object: &Value, run: &str) -> Value {
    let mut object = object.clone();
    object["metadata"]["labels"][LABEL] = json!(run);
    object
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_found_by_the_runs_label() {
        let role = json!({ "kind": "ClusterRole", "metadata": { "name": "a", "labels": { "app": "a" } } });
        assert_eq!(labelled(&role, "one")["metadata"]["labels"], json!({ "app": "a", LABEL: "one" }));
        let map = json!({ "kind": "ConfigMap", "metadata": { "name": "a", "namespace": "b" } });
        assert_eq!(labelled(&map, "one")["metadata"]["labels"], json!({ LABEL: "one" }));
    }
}
