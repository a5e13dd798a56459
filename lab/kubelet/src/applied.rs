// SPDX-License-Identifier: Apache-2.0
//! Objects that a scenario makes, as any administrator makes them: through the API and its admission.

use apiserver::kinds::Kind;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::controllers::actions::api_of;
use crate::error::Error;

/// Creates an object, or merges it into the one that is there; then reports its status, if it has one: no request does both.
pub(crate) async fn apply(client: &kube::Client, mut object: Value) -> Result<Value, Error> {
    let status = object.as_object_mut().and_then(|fields| fields.remove("status"));
    let kind = Kind::of(&object).ok_or_else(|| Error::Missing(format!("kind {}", object["kind"])))?;
    let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
    let (api, name) = (api_of(client, kind.name, text("namespace"))?, text("name").to_owned());
    let created = api.create(&PostParams::default(), &serde_json::from_value(object.clone())?).await;
    let mut applied = match created {
        Err(kube::Error::Api(status)) if status.is_already_exists() => {
            api.patch(&name, &PatchParams::default(), &Patch::Merge(object)).await?
        }
        created => created?,
    };
    if let Some(status) = status {
        let patch = Patch::Merge(json!({ "status": status }));
        applied = api.patch_status(&name, &PatchParams::default(), &patch).await?;
    }
    Ok(serde_json::to_value(applied)?)
}
