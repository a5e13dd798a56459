// SPDX-License-Identifier: Apache-2.0
//! Events as the API has them.

use cluster::PodName;
use k8s_openapi::api::core::v1::Event;
use k8s_openapi::jiff::Timestamp;
use kube::Api;
use kube::api::ListParams;

use crate::steps::marks::Mark;
use crate::stop::Stop;
use crate::tier::Tier;

/// True for a step that looks at events.
#[must_use]
pub fn is_about(step: &str) -> bool {
    step.contains("event") || step.contains("tells of it")
}

/// Version of the API's events now.
pub async fn version(tier: &Tier) -> Result<Option<u64>, Stop> {
    let all: Api<Event> = Api::all(tier.client());
    let listed = all.list_metadata(&ListParams::default().limit(1)).await.map_err(Stop::harness)?;
    Ok(listed.metadata.resource_version.and_then(|version| version.parse().ok()))
}

/// True if an event was recorded, or counted once more, behind a mark. Where the server did not tell its version then, the event's own time decides, which
/// is in whole seconds.
#[must_use]
pub fn is_behind(event: &Event, mark: &Mark) -> bool {
    match (event.metadata.resource_version.as_ref().and_then(|version| version.parse().ok()), mark.version) {
        (Some::<u64>(version), Some(marked)) => version > marked,
        _ => {
            let time = event.last_timestamp.as_ref().or(event.first_timestamp.as_ref());
            let marked = Timestamp::try_from(mark.time).map(Timestamp::as_second).unwrap_or(i64::MIN);
            time.is_none_or(|time| time.0.as_second() >= marked)
        }
    }
}

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

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use serde_json::json;

    use super::*;

    #[test]
    fn an_event_of_before_is_not_behind_a_mark() {
        let event = |version: &str, second: i64| -> Event {
            let time = Timestamp::from_second(second).unwrap().to_string();
            let object = json!({
                "metadata": { "resourceVersion": version }, "involvedObject": {},
                "firstTimestamp": time, "lastTimestamp": time,
            });
            serde_json::from_value(object).unwrap()
        };
        let time = SystemTime::UNIX_EPOCH + Duration::from_millis(10_500);
        let marked = Mark { time, version: Some(7), ..Mark::default() };
        assert!(is_behind(&event("8", 10), &marked) && !is_behind(&event("7", 11), &marked));
        let untold = Mark { version: None, ..marked };
        assert!(is_behind(&event("7", 10), &untold) && !is_behind(&event("8", 9), &untold));
        assert!(is_behind(&event("1", 0), &Mark::default()));
    }
}
