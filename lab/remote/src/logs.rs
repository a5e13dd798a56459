// SPDX-License-Identifier: Apache-2.0
//! Output of containers.

use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use kube::api::{ListParams, LogParams};
use kube::{Api, Client, ResourceExt as _};

use crate::error::Error;

/// Bytes of a container's log, from its beginning.
const MOST: i64 = 16 << 20;

/// Output of all containers of a namespace's pods with a label, `namespace/pod container: line`. A container that was not started yet has none; of those that were
/// started again it is that of the last two.
pub(crate) async fn of_namespace(
    client: &Client,
    namespace: &str,
    label: &str,
) -> Result<Vec<String>, Error> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let all = pods.list(&ListParams::default().labels(label)).await.map_err(Error::api("list pods"))?;
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
    for asked in containers.filter(|container| container.container_id.is_some()).flat_map(wanted) {
        let container = asked.container.clone().unwrap_or_default();
        match pods.logs(&name, &asked).await {
            Ok(text) => lines.extend(text.lines().map(|line| format!("{container}: {line}"))),
            // It is gone by now.
            Err(kube::Error::Api(status)) if status.is_not_found() || status.code == 400 => {}
            Err(error) => return Err(Error::api(format!("read the log of pod {name}"))(error)),
        }
    }
    Ok(lines)
}

/// Logs of a container, the former one's first: a kubelet keeps one.
fn wanted(of: ContainerStatus) -> impl Iterator<Item = LogParams> {
    let former = (of.restart_count > 0).then_some(true);
    let of_it = move |previous| LogParams {
        container: Some(of.name.clone()),
        previous,
        limit_bytes: Some(MOST),
        ..LogParams::default()
    };
    former.into_iter().chain([false]).map(of_it)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_container_that_was_started_again_has_a_former_log() {
        let asked = |restarts: u32| -> Vec<bool> {
            let status =
                json!({ "name": "app", "image": "", "imageID": "", "ready": true, "restartCount": restarts });
            wanted(serde_json::from_value(status).unwrap()).map(|asked| asked.previous).collect()
        };
        assert_eq!(asked(0), [false]);
        assert_eq!(asked(2), [true, false]);
    }
}
