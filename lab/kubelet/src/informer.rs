// SPDX-License-Identifier: Apache-2.0
//! Informer: list and watch of pods, services and nodes, from whichever API server nodes belong to.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use apiserver::kinds::Kind;
use apiserver::store::{Action, Change, Key};
use apiserver::{ApiServer, Changes};
use futures::TryStreamExt as _;
use kube::Api;
use kube::api::{DynamicObject, ListParams, WatchEvent, WatchParams};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval};

use crate::api_access::ApiAccess;
use crate::controllers::actions::api_of;
use crate::error::Error;

/// Interval of new lists after one that failed, or a watch that has ended.
const AGAIN: Duration = Duration::from_secs(1);

/// Changes from now on, in order.
pub(crate) enum Informer {
    /// Of the lab's own server, which tells of every kind.
    Own(ApiServer, Changes),
    /// Of one that is there; the objects that it has come first. Watches end with this value.
    There(
        mpsc::UnboundedReceiver<Arc<Change>>,
        #[expect(dead_code, reason = "held for its drop")] JoinSet<()>,
    ),
}

impl Informer {
    /// Changes of these kinds, by their names in the core group; the lab's own server tells of all.
    ///
    /// # Errors
    /// A kind is unknown.
    pub(crate) fn of(access: &ApiAccess, kinds: &[&str]) -> Result<Self, Error> {
        if let Some(api) = &access.own {
            return Ok(Self::Own(api.clone(), api.subscribe()));
        }
        let (told, changes) = mpsc::unbounded_channel();
        let mut watches = JoinSet::new();
        for name in kinds {
            let kind = Kind::named(name).ok_or_else(|| Error::Missing(format!("kind {name}")))?;
            watches.spawn(follow(api_of(&access.client, name, "")?, kind, told.clone()));
        }
        Ok(Self::There(changes, watches))
    }

    /// The next one.
    pub(crate) async fn next(&mut self) -> Arc<Change> {
        loop {
            match self {
                Self::Own(api, changes) => match changes.next().await {
                    Ok(change) => return change,
                    // Only who sleeps through the API's whole history comes here.
                    Err(_) => *changes = api.subscribe(),
                },
                Self::There(changes, _) => match changes.recv().await {
                    Some(change) => return change,
                    None => std::future::pending().await,
                },
            }
        }
    }
}

/// Objects of a kind as they were told last, by namespace and name.
type Known = BTreeMap<(String, String), Arc<Value>>;

/// Lists a kind and watches it, again and again, until nobody listens.
async fn follow(api: Api<DynamicObject>, kind: &'static Kind, to: mpsc::UnboundedSender<Arc<Change>>) {
    let mut known = Known::new();
    let mut due = interval(AGAIN);
    due.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        due.tick().await;
        // Whoever fails is asked again.
        let _failed = list_and_watch(&api, kind, &mut known, &to).await;
        if to.is_closed() {
            return;
        }
    }
}

async fn list_and_watch(
    api: &Api<DynamicObject>,
    kind: &'static Kind,
    known: &mut Known,
    to: &mpsc::UnboundedSender<Arc<Change>>,
) -> Result<(), Error> {
    let version = relist(api, kind, known, to).await?;
    let events = api.watch(&WatchParams::default(), &version).await?;
    let mut events = pin!(events);
    while let Some(event) = events.try_next().await? {
        match event {
            WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                tell(kind, Action::Modified, whole(kind, object)?, known, to);
            }
            WatchEvent::Deleted(object) => tell(kind, Action::Deleted, whole(kind, object)?, known, to),
            WatchEvent::Bookmark(_) => {}
            WatchEvent::Error(_) => return Ok(()),
        }
    }
    Ok(())
}

/// Tells of what there is, and of what has gone since the last time; returns the list's resource version.
async fn relist(
    api: &Api<DynamicObject>,
    kind: &'static Kind,
    known: &mut Known,
    to: &mpsc::UnboundedSender<Arc<Change>>,
) -> Result<String, Error> {
    let list = api.list(&ListParams::default()).await?;
    let mut gone = std::mem::take(known);
    for object in list.items {
        let object = whole(kind, object)?;
        gone.remove(&name_of(&object));
        tell(kind, Action::Modified, object, known, to);
    }
    for object in gone.into_values() {
        tell(kind, Action::Deleted, object, known, to);
    }
    Ok(list.metadata.resource_version.unwrap_or_default())
}

/// An object with its kind, which items of lists lack.
fn whole(kind: &Kind, object: DynamicObject) -> Result<Arc<Value>, Error> {
    let mut object = serde_json::to_value(object)?;
    (object["apiVersion"], object["kind"]) = (json!(kind.api_version()), json!(kind.name));
    Ok(Arc::new(object))
}

fn name_of(object: &Value) -> (String, String) {
    let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
    (text("namespace"), text("name"))
}

fn tell(
    kind: &'static Kind,
    action: Action,
    object: Arc<Value>,
    known: &mut Known,
    to: &mpsc::UnboundedSender<Arc<Change>>,
) {
    let (namespace, name) = name_of(&object);
    let place = (namespace.clone(), name.clone());
    let previous = match action {
        Action::Deleted => known.remove(&place),
        _ => known.insert(place, Arc::clone(&object)),
    };
    let revision = object["metadata"]["resourceVersion"].as_str().and_then(|text| text.parse().ok());
    let key = Key { kind, namespace, name };
    let change = Change { revision: revision.unwrap_or_default(), key, action, object, previous };
    // Whoever listened is gone.
    let _ = to.send(Arc::new(change));
}

#[cfg(test)]
mod tests {
    use apiserver::ServerOptions;

    use super::*;

    /// Enough for a busy machine.
    const SOON: Duration = Duration::from_secs(10);

    fn pod(name: &str) -> Value {
        let spec = json!({ "containers": [{ "name": "app", "image": "app" }] });
        let metadata = json!({ "name": name, "namespace": "shop" });
        json!({ "apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec })
    }

    async fn next(informer: &mut Informer) -> (&'static str, Action, String) {
        let change = tokio::time::timeout(SOON, informer.next()).await.unwrap();
        assert_eq!(change.object["kind"], change.key.kind.name);
        (change.key.kind.name, change.action, change.key.name.clone())
    }

    #[tokio::test]
    async fn objects_of_a_server_that_is_there_come_first_and_their_changes_after_them() {
        let server = ApiServer::new(ServerOptions::default()).unwrap();
        server.create_namespace("shop", &BTreeMap::new()).unwrap();
        server.upsert(pod("cart")).unwrap();
        let mut informer =
            Informer::of(&ApiAccess { own: None, ..ApiAccess::from(&server) }, &["Pod"]).unwrap();
        assert_eq!(next(&mut informer).await, ("Pod", Action::Modified, "cart".to_owned()));
        server.upsert(pod("till")).unwrap();
        assert_eq!(next(&mut informer).await, ("Pod", Action::Modified, "till".to_owned()));
        let pods = api_of(&server.client(), "Pod", "shop").unwrap();
        pods.delete("till", &kube::api::DeleteParams::default().grace_period(0)).await.unwrap();
        assert_eq!(next(&mut informer).await, ("Pod", Action::Deleted, "till".to_owned()));
    }

    #[tokio::test]
    async fn what_went_while_nobody_watched_is_told_as_gone() {
        let server = ApiServer::new(ServerOptions::default()).unwrap();
        server.create_namespace("shop", &BTreeMap::new()).unwrap();
        let kind = Kind::find("", "v1", "pods").unwrap();
        let (to, mut told) = mpsc::unbounded_channel();
        let mut known = Known::new();
        tell(kind, Action::Modified, Arc::new(pod("cart")), &mut known, &to);
        let api = api_of(&server.client(), "Pod", "").unwrap();
        relist(&api, kind, &mut known, &to).await.unwrap();
        let seen: Vec<_> = [told.try_recv(), told.try_recv()].map(|one| one.unwrap().action).into();
        assert_eq!(seen, [Action::Modified, Action::Deleted]);
        assert!(told.try_recv().is_err());
    }
}
