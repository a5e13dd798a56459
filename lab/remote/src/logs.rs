// SPDX-License-Identifier: Apache-2.0
//! What containers have printed.

use k8s_openapi::api::core::v1::Pod;
use kube::api::{ListParams, LogParams};
use kube::{Api, Client, ResourceExt as _};

use crate::error::Error;

/// Output of all containers of a namespace's pods, `namespace/pod container: line`. A container that was not started yet has none; of those that were
/// started again it is that of the present one.
pub(crate) async fn of_namespace(client: &Client, namespace: &str) -> Result<Vec<String>, Error> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let all = pods.list(&ListParams::default()).await.map_err(Error::api("list pods"))?;
    let mut lines = Vec::new();
    for pod in all {
        let from = format!("{namespace}/{} ", pod.name_any());
        lines.extend(of_pod(&pods, &pod).await?.into_iter().map(|line| from.clone() + &line));
    }
    Ok(lines)
}

/// Output of a pod's containers, `container: line`.
pub(crate) async fn of_pod(pods: &Api<Pod>, pod: &Pod) -> Result<Vec<String>, Error> {
    let (name, status) = (pod.name_any(), pod.status.clone().unwrap_or_default());
    let containers =
        [status.init_container_statuses, status.container_statuses].into_iter().flatten().flatten();
    let mut lines = Vec::new();
    // A runtime has named those that it has started.
    for container in containers.filter(|container| container.container_id.is_some()) {
        let asked = LogParams { container: Some(container.name.clone()), ..LogParams::default() };
        match pods.logs(&name, &asked).await {
            Ok(text) => lines.extend(text.lines().map(|line| format!("{}: {line}", container.name))),
            // It is gone by now.
            Err(kube::Error::Api(status)) if status.is_not_found() || status.code == 400 => {}
            Err(error) => return Err(Error::api(format!("read the log of pod {name}"))(error)),
        }
    }
    Ok(lines)
}
