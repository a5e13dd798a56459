// SPDX-License-Identifier: Apache-2.0
//! Waits of steps. Each deadline is that of the lab's own cluster, stretched by the tier's patience.

use std::fmt;
use std::pin::pin;
use std::time::Duration;

use cluster::{Cluster, News};
use futures::StreamExt as _;
use kube::Api;
use kube::api::{ListParams, WatchEvent, WatchParams};
use serde::de::DeserializeOwned;
use tokio::time::{Instant, timeout, timeout_at};

use crate::steps::world::LabWorld;
use crate::stop::{Step, Stop};

/// Length of a burst of news: one change touches several objects, and takes several requests.
const BURST: Duration = Duration::from_millis(8);
/// Times that a burst takes as long as the look before it, if that is more: where news never ends, looks take a quarter of the time.
const SHARE: u32 = 3;
/// Longest pause between looks at what nobody tells of.
const PAUSE: Duration = Duration::from_millis(200);

/// Longest wait where defects are played quickly: mostly what they break never comes.
pub const TRIAL: Duration = Duration::from_secs(12);

/// Deadline of a wait: where defects are played quickly, it is [`TRIAL`] at most.
pub fn deadline_of(world: &LabWorld, wanted: Duration) -> Duration {
    if world.is_quick() { wanted.min(TRIAL) } else { wanted }
}

/// Looks until `found` finds something, or the deadline has passed, which the tier's patience stretches: then what it saw last is the reason.
/// It looks again as soon as the cluster tells that something has happened, and now and then for what nobody tells of.
pub async fn eventually<T>(
    world: &mut LabWorld,
    deadline: Duration,
    mut found: impl AsyncFnMut(&mut LabWorld) -> Result<T, Stop>,
) -> Result<T, Stop> {
    let tier = world.cluster().await?;
    until(&**tier, deadline_of(world, deadline), async || found(world).await).await
}

/// Looks for as long as `window`, whenever the cluster tells that something has happened: what does not hold once is the reason. The tier's patience
/// stretches the window, too.
pub async fn throughout(
    world: &mut LabWorld,
    window: Duration,
    mut holds: impl AsyncFnMut(&mut LabWorld) -> Step,
) -> Step {
    let tier = world.cluster().await?;
    during(&**tier, window, async || holds(world).await).await
}

/// Judges each version of an object for as long as `window`, by a watch: also one that nobody would find in a look. `None` is its absence. The
/// tier's patience stretches the window.
pub async fn throughout_versions<K>(
    world: &mut LabWorld,
    objects: &Api<K>,
    name: &str,
    window: Duration,
    judge: impl Fn(Option<&K>) -> Step,
) -> Step
where
    K: Clone + fmt::Debug + DeserializeOwned,
{
    let end = Instant::now() + window * world.cluster().await?.patience();
    versions(objects, name, end, judge).await
}

async fn versions<K>(objects: &Api<K>, name: &str, end: Instant, judge: impl Fn(Option<&K>) -> Step) -> Step
where
    K: Clone + fmt::Debug + DeserializeOwned,
{
    let field = format!("metadata.name={name}");
    // Again where a server ends the watch.
    while Instant::now() < end {
        let found = objects.list(&ListParams::default().fields(&field)).await.map_err(Stop::harness)?;
        judge(found.items.first())?;
        let version = found.metadata.resource_version.unwrap_or_default();
        let watch = objects.watch(&WatchParams::default().fields(&field), &version).await;
        let mut versions = pin!(watch.map_err(Stop::harness)?);
        while let Ok(Some(told)) = timeout_at(end, versions.next()).await {
            match told {
                Ok(WatchEvent::Added(object) | WatchEvent::Modified(object)) => judge(Some(&object))?,
                Ok(WatchEvent::Deleted(_)) => judge(None)?,
                Ok(WatchEvent::Bookmark(_)) => {}
                Ok(WatchEvent::Error(_)) | Err(_) => break,
            }
        }
    }
    Ok(())
}

/// An event's value, or the error of its lateness.
pub async fn within<T>(
    tier: &dyn Cluster,
    deadline: Duration,
    comes: impl Future<Output = T>,
    late: impl FnOnce() -> Stop,
) -> Result<T, Stop> {
    timeout(deadline * tier.patience(), comes).await.map_err(|_| late())
}

/// Time that a look may take beyond the end of a wait.
const LOOK: Duration = Duration::from_secs(30);

/// One look, with so much left of the wait. One that does not end is a fault of the lab.
async fn look<T>(left: Duration, look: impl Future<Output = Result<T, Stop>>) -> Result<T, Stop> {
    let limit = left + LOOK;
    let late = |_| Err(Stop::harness(format!("a look at the cluster does not end within {limit:?}")));
    timeout(limit, Box::pin(look)).await.unwrap_or_else(late)
}

async fn until<T>(
    tier: &dyn Cluster,
    deadline: Duration,
    mut found: impl AsyncFnMut() -> Result<T, Stop>,
) -> Result<T, Stop> {
    let (since, deadline) = (Instant::now(), deadline * tier.patience());
    let mut news = tier.news().await?;
    loop {
        let began = Instant::now();
        match look(deadline.saturating_sub(since.elapsed()), found()).await {
            Err(Stop::Wrong(_) | Stop::Harness(_)) if since.elapsed() < deadline => {}
            ended => return ended,
        }
        let poll = tier.poll_interval();
        // A look costs the processor that the awaited needs.
        let pause = (since.elapsed() / 8).clamp(poll, PAUSE.max(poll));
        let burst = (began.elapsed() * SHARE).clamp(BURST, PAUSE);
        burst_over(&mut *news, pause, burst).await;
    }
}

/// Returns once a burst of news is over, or after the pause.
async fn burst_over(news: &mut dyn News, pause: Duration, burst: Duration) {
    if timeout(pause, news.next()).await.is_ok() {
        let over = Instant::now() + burst;
        while timeout_at(over, news.next()).await.is_ok() {}
    }
}

async fn during(tier: &dyn Cluster, window: Duration, mut holds: impl AsyncFnMut() -> Step) -> Step {
    let (since, window) = (Instant::now(), window * tier.patience());
    let mut news = tier.news().await?;
    while since.elapsed() < window {
        look(window.saturating_sub(since.elapsed()), holds()).await?;
        let _told = timeout(tier.poll_interval(), news.next()).await;
    }
    look(Duration::ZERO, holds()).await
}

#[cfg(test)]
mod tests {
    use async_trait::async_trait;
    use cluster::{LabError, News, Node, PodName, Workload};
    use kube::api::{Patch, PatchParams, PostParams};
    use serde_json::{Value, json};
    use tokio::sync::Notify;

    use super::*;
    use crate::stop::expect;
    use crate::tier::api_server;

    /// Twice as slow as the lab's own, and silent: what is looked at every second is all that is known.
    struct Slow;

    struct Silence;

    #[async_trait]
    impl News for Silence {
        async fn next(&mut self) {
            std::future::pending().await
        }
    }

    #[async_trait]
    impl Cluster for Slow {
        fn tier(&self) -> &'static str {
            "slow"
        }

        fn patience(&self) -> u32 {
            2
        }

        fn poll_interval(&self) -> Duration {
            Duration::from_secs(1)
        }

        async fn news(&self) -> Result<Box<dyn News>, LabError> {
            Ok(Box::new(Silence))
        }

        fn nodes(&self) -> Vec<&dyn Node> {
            Vec::new()
        }

        async fn apply(&self, object: Value) -> Result<Value, LabError> {
            Ok(object)
        }

        async fn pod(&self, _: &PodName) -> Result<Option<Value>, LabError> {
            Ok(None)
        }

        async fn delete_pod(&self, _: &PodName) -> Result<(), LabError> {
            Ok(())
        }

        async fn workload(&self, _: &PodName) -> Result<Box<dyn Workload>, LabError> {
            Err(LabError::unsupported("slow", "have pods"))
        }

        async fn comes_up(&self, _: &PodName, _: Duration) -> Result<(), LabError> {
            Ok(())
        }
    }

    const FIVE: Duration = Duration::from_secs(5);

    #[tokio::test(start_paused = true)]
    async fn what_never_comes_is_looked_for_with_the_tiers_patience_and_at_its_interval() {
        let (began, mut looks) = (Instant::now(), 0);
        let ended = until(&Slow, FIVE, async || {
            looks += 1;
            Err::<(), _>(Stop::wrong("not there"))
        });
        assert!(matches!(ended.await, Err(Stop::Wrong(_))));
        assert_eq!((began.elapsed().as_secs(), looks), (10, 11));
    }

    #[tokio::test(start_paused = true)]
    async fn what_must_hold_is_looked_at_for_as_long() {
        let (began, mut looks) = (Instant::now(), 0);
        let ended = during(&Slow, FIVE, async || {
            looks += 1;
            Ok(())
        });
        assert!(ended.await.is_ok());
        assert_eq!((began.elapsed().as_secs(), looks), (10, 11));
    }

    #[tokio::test(start_paused = true)]
    async fn a_look_that_hangs_is_a_fault_of_the_lab() {
        let began = Instant::now();
        let ended = until(&Slow, FIVE, async || std::future::pending::<Result<(), Stop>>().await);
        assert!(matches!(ended.await, Err(Stop::Harness(_))));
        assert_eq!(began.elapsed().as_secs(), 40);
        let ended = during(&Slow, FIVE, async || std::future::pending::<Step>().await);
        assert!(matches!(ended.await, Err(Stop::Harness(_))));
        assert_eq!(began.elapsed().as_secs(), 80);
    }

    #[tokio::test(start_paused = true)]
    async fn an_event_may_be_as_late() {
        let comes = async |seconds| {
            let late = || Stop::wrong("late");
            let event = timeout(Duration::from_secs(seconds), std::future::pending::<()>());
            within(&Slow, FIVE, event, late).await.is_ok()
        };
        assert!(comes(9).await);
        assert!(!comes(11).await);
    }

    #[tokio::test]
    async fn a_version_that_no_look_would_find_is_judged() {
        let nodes: Api<k8s_openapi::api::core::v1::Node> = Api::all(api_server());
        let named = |name: &str| serde_json::from_value(json!({ "metadata": { "name": name } })).unwrap();
        nodes.create(&PostParams::default(), &named("a")).await.unwrap();
        let seen = Notify::new();
        let judge = |node: Option<&k8s_openapi::api::core::v1::Node>| {
            seen.notify_one();
            let labels = node.and_then(|node| node.metadata.labels.clone()).unwrap_or_default();
            expect(!labels.contains_key("x"), || "it has the label")
        };
        let label = async |value: Value| {
            let patch = Patch::Merge(json!({ "metadata": { "labels": { "x": value } } }));
            nodes.patch("a", &PatchParams::default(), &patch).await.unwrap();
        };
        // Between two looks, both.
        let for_a_moment = async {
            seen.notified().await;
            label(json!("1")).await;
            label(Value::Null).await;
        };
        let end = Instant::now() + Duration::from_secs(10);
        let (judged, ()) = tokio::join!(versions(&nodes, "a", end, judge), for_a_moment);
        assert_eq!(judged.unwrap_err().to_string(), "wrong: it has the label");
        let soon = Instant::now() + Duration::from_millis(20);
        assert!(versions(&nodes, "a", soon, judge).await.is_ok());
    }
}
