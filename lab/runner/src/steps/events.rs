// SPDX-License-Identifier: Apache-2.0
//! Events as the API has them.

use cluster::PodName;
use k8s_openapi::api::core::v1::Event;
use kube::Api;
use kube::api::ListParams;

use crate::stop::Stop;
use crate::tier::Tier;

/// Events of all namespaces.
pub async fn all(tier: &Tier) -> Result<Vec<Event>, Stop> {
    listed(Api::all(tier.client()), &ListParams::default()).await
}

/// Events of a namespace.
pub async fn of_namespace(tier: &Tier, namespace: &str) -> Result<Vec<Event>, Stop> {
    listed(Api::namespaced(tier.client(), namespace), &ListParams::default()).await
}

/// Events about pods of this name, former ones included.
pub async fn about(tier: &Tier, pod: &PodName) -> Result<Vec<Event>, Stop> {
    let about = ListParams::default().fields(&format!("involvedObject.name={}", pod.name));
    listed(Api::namespaced(tier.client(), &pod.namespace), &about).await
}

async fn listed(events: Api<Event>, which: &ListParams) -> Result<Vec<Event>, Stop> {
    Ok(events.list(which).await.map_err(Stop::harness)?.items)
}
