// SPDX-License-Identifier: Apache-2.0
//! Waiting for one object by a watch, or for a line of a container's log. No wait here is as long as a server lets a watch live.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::time::Duration;

use async_trait::async_trait;
use cluster::{News, Position};
use futures::AsyncBufReadExt as _;
use futures::stream::{BoxStream, SelectAll, StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::{Event, Pod};
use k8s_openapi::jiff::Timestamp;
use kube::api::{ApiResource, DynamicObject, LogParams, WatchEvent, WatchParams};
use kube::{Api, Client, ResourceExt};
use serde::de::DeserializeOwned;

use crate::error::Error;

/// Version from which a watch begins with what there is, or has been: a server may tell it from a cache that lags.
pub(crate) const FROM_NOW: &str = "0";

/// An object that can be watched.
pub(crate) trait Watched: ResourceExt + Clone + DeserializeOwned + Debug + Send + 'static {}
impl<T: ResourceExt + Clone + DeserializeOwned + Debug + Send + 'static> Watched for T {}

/// Events of the objects whose `field` is `value`; those that are there come first.
pub(crate) async fn follow<T: Watched>(
    api: &Api<T>,
    field: &str,
    value: &str,
    from: &str,
) -> Result<BoxStream<'static, Result<WatchEvent<T>, Error>>, Error> {
    let what = format!("watch objects with {field}={value}");
    let selected = WatchParams::default().fields(&format!("{field}={value}"));
    let events = api.watch(&selected, from).await.map_err(Error::api(what.clone()))?;
    Ok(events.map_err(move |error| Error::api(what.clone())(error)).boxed())
}

/// As [`follow`], without those that are gone.
pub(crate) async fn objects<T: Watched>(
    api: &Api<T>,
    field: &str,
    value: &str,
    from: &str,
) -> Result<BoxStream<'static, Result<T, Error>>, Error> {
    let events = follow(api, field, value, from).await?;
    let object = |event| async move {
        match event {
            Ok(WatchEvent::Added(object) | WatchEvent::Modified(object)) => Some(Ok(object)),
            Ok(WatchEvent::Deleted(_) | WatchEvent::Bookmark(_)) => None,
            Ok(WatchEvent::Error(status)) => {
                Some(Err(Error::Watch { what: "objects".to_owned(), why: status.message.clone() }))
            }
            Err(error) => Some(Err(error)),
        }
    };
    Ok(events.filter_map(object).boxed())
}

/// Waits until an object is as wanted.
pub(crate) async fn until<T: Watched>(
    api: &Api<T>,
    name: &str,
    what: impl Fn() -> String,
    deadline: Duration,
    wanted: impl Fn(&T) -> bool,
) -> Result<T, Error> {
    let found = async {
        let mut objects = objects(api, "metadata.name", name, FROM_NOW).await?;
        while let Some(object) = objects.try_next().await? {
            if wanted(&object) {
                return Ok(object);
            }
        }
        Err(Error::Watch { what: what(), why: "the server ended the watch".to_owned() })
    };
    tokio::time::timeout(deadline, found).await.map_err(|_| Error::Deadline { what: what(), deadline })?
}

/// Waits until the object of this uid is gone.
pub(crate) async fn until_gone<T: Watched>(
    api: &Api<T>,
    object: &T,
    what: impl Fn() -> String,
    deadline: Duration,
) -> Result<(), Error> {
    let name = object.name_any();
    let gone = async {
        let now = api.get_opt(&name).await.map_err(Error::api(format!("get {name}")))?;
        let Some(now) = now.filter(|now| now.uid() == object.uid()) else { return Ok(()) };
        let from = now.resource_version().unwrap_or_default();
        let mut events = follow(api, "metadata.name", &name, &from).await?;
        while let Some(event) = events.try_next().await? {
            if matches!(event, WatchEvent::Deleted(_)) {
                return Ok(());
            }
        }
        Err(Error::Watch { what: what(), why: "the server ended the watch".to_owned() })
    };
    tokio::time::timeout(deadline, gone).await.map_err(|_| Error::Deadline { what: what(), deadline })?
}

/// Watches of pods and events in a guest's namespaces.
pub(crate) struct Told(SelectAll<BoxStream<'static, ()>>);

impl Told {
    pub(crate) async fn of(client: &Client, namespaces: &BTreeSet<String>) -> Result<Self, Error> {
        let mut all = SelectAll::new();
        for namespace in namespaces {
            for kind in [ApiResource::erase::<Pod>(&()), ApiResource::erase::<Event>(&())] {
                all.push(told(client, namespace, &kind).await?);
            }
        }
        Ok(Self(all))
    }
}

#[async_trait]
impl News for Told {
    async fn next(&mut self) {
        if self.0.next().await.is_none() {
            // The server has ended every watch: whoever waits looks again in a while anyway.
            std::future::pending::<()>().await;
        }
    }
}

async fn told(client: &Client, namespace: &str, kind: &ApiResource) -> Result<BoxStream<'static, ()>, Error> {
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, kind);
    let events = api.watch(&WatchParams::default(), FROM_NOW).await;
    Ok(events.map_err(Error::api(format!("watch objects in namespace {namespace}")))?.map(drop).boxed())
}

/// Difference of the clocks of a node and of this machine.
const SKEW: Duration = Duration::from_secs(2);

/// Waits for a line of a container's process with `fragment` in it.
pub(crate) async fn first_line(
    pods: &Api<Pod>,
    (pod, container): (&str, &str),
    fragment: &str,
    from: Position,
) -> Result<String, Error> {
    let since = match from {
        Position::Ever => None,
        Position::Since(time) => Timestamp::try_from(time - SKEW).ok(),
    };
    let follow = LogParams {
        container: Some(container.to_owned()),
        follow: true,
        // Whole seconds: what is before is told by each line's own time.
        since_time: since,
        timestamps: true,
        ..LogParams::default()
    };
    let what = || format!("follow the log of container {container} in pod {pod}");
    let stream = pods.log_stream(pod, &follow).await.map_err(Error::api(what()))?;
    let mut lines = stream.lines();
    while let Some(line) = lines.next().await {
        let line = line.map_err(|error| Error::Watch { what: what(), why: error.to_string() })?;
        let (time, line) = line.split_once(' ').unwrap_or_default();
        let at = time.parse::<Timestamp>().ok();
        if at >= since && line.contains(fragment) {
            return Ok(line.to_owned());
        }
    }
    Err(Error::Missing(format!("line with {fragment:?} in the log of container {container} of pod {pod}")))
}
