// SPDX-License-Identifier: Apache-2.0
//! Actions of controllers on the API, and their execution.

use std::sync::Arc;
use std::time::Duration;

use apiserver::ApiServer;
use apiserver::kinds::Kind;
use kube::api::{ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, PostParams, Preconditions};
use kube::core::Request;
use kube::{Api, Resource as _};
use serde_json::{Value, json};

use crate::error::Error;

/// An object: never another one of its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectId {
    pub kind: &'static str,
    pub namespace: String,
    pub name: String,
    pub uid: String,
}

impl ObjectId {
    #[must_use]
    pub fn of(kind: &'static str, object: &Value) -> Self {
        let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
        Self { kind, namespace: text("namespace"), name: text("name"), uid: text("uid") }
    }
}

/// Action of a controller.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Creates an object of this kind.
    Create(&'static str, Value),
    /// Deletes an object.
    Delete(ObjectId),
    /// Merges this into an object.
    Merge(ObjectId, Value),
    /// Replaces fields of an object's status.
    Status(ObjectId, Value),
}

/// Outcome of a controller's look at one object.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct Decision {
    /// Actions, in order.
    pub actions: Vec<Action>,
    /// Time after which it is due again, whatever happens.
    pub again: Option<Duration>,
}

impl Decision {
    /// Adds a write of the status, if that differs.
    pub fn report(&mut self, kind: &'static str, object: &Value, status: Value) {
        let fields = status.as_object().into_iter().flatten();
        if fields.clone().any(|(field, value)| object["status"][field] != *value) {
            self.actions.push(Action::Status(ObjectId::of(kind, object), status));
        }
    }
}

fn kind(name: &str) -> Result<&'static Kind, Error> {
    Kind::named(name).ok_or_else(|| Error::Missing(format!("kind {name}")))
}

fn resource(kind: &Kind) -> ApiResource {
    ApiResource {
        group: kind.group.to_owned(),
        version: kind.version.to_owned(),
        api_version: kind.api_version(),
        kind: kind.name.to_owned(),
        plural: kind.plural.to_owned(),
    }
}

/// All objects of a kind.
pub(crate) fn list(api: &ApiServer, of: &str) -> Result<Vec<Arc<Value>>, Error> {
    Ok(api.all(kind(of)?))
}

/// API of a kind's objects in a namespace, which is empty for those without one.
pub(crate) fn api_of(client: &kube::Client, of: &str, namespace: &str) -> Result<Api<DynamicObject>, Error> {
    let resource = resource(kind(of)?);
    Ok(match namespace {
        "" => Api::all_with(client.clone(), &resource),
        namespace => Api::namespaced_with(client.clone(), namespace, &resource),
    })
}

/// Merges this into an object, whose status alone can change.
pub(crate) async fn write_status(
    client: &kube::Client,
    (of, namespace, name): (&str, &str, &str),
    patch: Value,
) -> Result<(), Error> {
    let (params, patch) = (PatchParams::default(), Patch::Merge(patch));
    send(client, request_of(of, namespace)?.patch_subresource("status", name, &params, &patch)).await
}

/// Creates an object of a kind.
pub(crate) async fn create(client: &kube::Client, of: &str, mut object: Value) -> Result<(), Error> {
    let served = kind(of)?;
    (object["apiVersion"], object["kind"]) = (json!(served.api_version()), json!(served.name));
    let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default();
    let request = request_of(of, namespace)?.create(&PostParams::default(), serde_json::to_vec(&object)?);
    send(client, request).await
}

/// Request for a kind's objects in a namespace.
fn request_of(of: &str, namespace: &str) -> Result<Request, Error> {
    let namespace = (!namespace.is_empty()).then_some(namespace);
    Ok(Request::new(DynamicObject::url_path(&resource(kind(of)?), namespace)))
}

/// Sends a request. The answer is not decoded: nobody looks at it.
async fn send(
    client: &kube::Client,
    request: Result<http::Request<Vec<u8>>, kube::core::request::Error>,
) -> Result<(), Error> {
    client.request_text(request.map_err(kube::Error::BuildRequest)?).await?;
    Ok(())
}

/// Executes an action.
pub(super) async fn act(client: &kube::Client, action: Action) -> Result<(), Error> {
    match action {
        Action::Create(of, object) => create(client, of, object).await,
        Action::Delete(id) => {
            let own = Preconditions { uid: Some(id.uid), resource_version: None };
            let params = DeleteParams { preconditions: Some(own), ..DeleteParams::default() };
            send(client, request_of(id.kind, &id.namespace)?.delete(&id.name, &params)).await
        }
        Action::Merge(id, mut patch) => {
            patch["metadata"]["uid"] = json!(id.uid);
            let (params, patch) = (PatchParams::default(), Patch::Merge(patch));
            send(client, request_of(id.kind, &id.namespace)?.patch(&id.name, &params, &patch)).await
        }
        Action::Status(id, status) => {
            let patch = json!({ "metadata": { "uid": id.uid }, "status": status });
            write_status(client, (id.kind, &id.namespace, &id.name), patch).await
        }
    }
}
