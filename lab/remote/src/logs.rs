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
        let spec = pod.spec.clone().unwrap_or_default();
        for container in spec.init_containers.into_iter().flatten().chain(spec.containers) {
            let asked = LogParams { container: Some(container.name.clone()), ..LogParams::default() };
            let name = pod.name_any();
            match pods.logs(&name, &asked).await {
                Ok(text) => {
                    let from = format!("{namespace}/{name} {}", container.name);
                    lines.extend(text.lines().map(|line| format!("{from}: {line}")));
                }
                // It was not started, or is gone by now.
                Err(kube::Error::Api(status)) if status.is_not_found() || status.code == 400 => {}
                Err(error) => {
                    return Err(Error::api(format!("read the log of pod {namespace}/{name}"))(error));
                }
            }
        }
    }
    Ok(lines)
}
