// SPDX-License-Identifier: Apache-2.0
//! A container's environment: literals, fields of its pod, whole ConfigMaps. What has to be asked for is asked when the
//! container starts, so a restarted one finds what changed.

use std::collections::BTreeMap;
use std::net::IpAddr;

use k8s_openapi::api::core::v1::{ConfigMap, Container, EnvVar};
use kube::Api;

use crate::error::Error;
use crate::pod::Plan;

/// Sources of a container's environment.
#[derive(Debug, Clone, Default)]
pub struct Sources {
    /// ConfigMaps, in order; true for optional ones.
    maps: Vec<(String, bool)>,
    /// Variables, in order; later ones win.
    variables: Vec<EnvVar>,
}

impl Sources {
    #[must_use]
    pub fn of(container: &Container) -> Self {
        let map = |source: &k8s_openapi::api::core::v1::EnvFromSource| {
            let map = source.config_map_ref.as_ref()?;
            Some((map.name.clone(), map.optional == Some(true)))
        };
        Self {
            maps: container.env_from.iter().flatten().filter_map(map).collect(),
            variables: container.env.clone().unwrap_or_default(),
        }
    }

    /// Environment of the container.
    ///
    /// # Errors
    /// A ConfigMap is not there: a kubelet does not start the container then.
    pub async fn resolve(
        &self,
        api: &kube::Client,
        plan: &Plan,
        addresses: &[IpAddr],
    ) -> Result<BTreeMap<String, String>, Error> {
        let mut env = BTreeMap::new();
        for (name, optional) in &self.maps {
            let maps: Api<ConfigMap> = Api::namespaced(api.clone(), &plan.pod.namespace);
            match maps.get_opt(name).await? {
                Some(map) => env.extend(map.data.unwrap_or_default()),
                None if *optional => {}
                None => return Err(Error::Missing(format!("configmap {name:?}"))),
            }
        }
        for variable in &self.variables {
            let field = || {
                let from = variable.value_from.as_ref()?.field_ref.as_ref()?;
                field(plan, addresses, &from.field_path)
            };
            // One without a value is set to nothing, and hides what a ConfigMap says.
            let nothing = || variable.value_from.is_none().then(String::new);
            if let Some(value) = variable.value.clone().or_else(field).or_else(nothing) {
                env.insert(variable.name.clone(), value);
            }
        }
        Ok(env)
    }
}

/// Field of the pod, as the downward API names it.
fn field(plan: &Plan, addresses: &[IpAddr], path: &str) -> Option<String> {
    let keyed = |map: &str| path.strip_prefix(map)?.strip_prefix("['")?.strip_suffix("']");
    Some(match path {
        "metadata.name" => plan.pod.name.clone(),
        "metadata.namespace" => plan.pod.namespace.clone(),
        "metadata.uid" => plan.uid.clone(),
        "spec.nodeName" => plan.node.clone(),
        "spec.serviceAccountName" => plan.service_account.clone(),
        "status.podIP" => addresses.first()?.to_string(),
        "status.podIPs" => addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(","),
        _ => {
            let annotation = keyed("metadata.annotations").map(|key| plan.annotations.get(key));
            annotation
                .or_else(|| keyed("metadata.labels").map(|key| plan.facts.metadata.labels.get(key)))??
                .clone()
        }
    })
}
