// SPDX-License-Identifier: Apache-2.0
//! Parameters of a request, once it is known who asks for what.

use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use serde_json::Value;

use crate::access::{self, Identity};
use crate::error::ApiError;
use crate::kinds::Kind;
use crate::patch::PatchKind;
use crate::protobuf;
use crate::rbac::Attributes;
use crate::route::{Query, Target, Verb};
use crate::schema;
use crate::selector::Selector;
use crate::store::{Collection, Key, Store};
use crate::table::Form;

/// Media types of bodies, as the real server lists them.
const BODIES: &str = "application/json, application/yaml, application/vnd.kubernetes.protobuf";

/// Parameters of a request.
pub(crate) struct Call {
    pub(crate) who: Identity,
    pub(crate) verb: Verb,
    pub(crate) query: Query,
    pub(crate) content_type: String,
    pub(crate) body: Bytes,
    pub(crate) warnings: Warnings,
    pub(crate) form: Form,
}

/// Texts of `Warning` headers.
pub(crate) type Warnings = Arc<Mutex<Vec<String>>>;

impl Call {
    /// The body as JSON; `Null` if there is none.
    pub(crate) fn json(&self) -> Result<Value, ApiError> {
        if self.content_type == protobuf::MEDIA_TYPE {
            return protobuf::json(&self.body).ok_or(ApiError::MediaType(BODIES));
        }
        let readable =
            ["", "application/json"].contains(&self.content_type.split(';').next().unwrap_or("").trim());
        if !readable && self.verb != Verb::Patch {
            return Err(ApiError::MediaType(BODIES));
        }
        if self.body.is_empty() {
            return Ok(Value::Null);
        }
        serde_json::from_slice(&self.body)
            .map_err(|error| ApiError::BadRequest(format!("the body is not JSON: {error}")))
    }

    /// An object of this kind without unknown fields. With `fieldValidation=Strict` one that has any is refused, without a warning is sent. `old`: what is
    /// stored, if it is a patch's result.
    pub(crate) fn object(
        &self,
        kind: &Kind,
        mut object: Value,
        old: Option<&Value>,
    ) -> Result<Value, ApiError> {
        let unknown = schema::prune(kind, &mut object, old)?;
        match self.query.get("fieldValidation") {
            Some("Strict") if !unknown.is_empty() => {
                let why = format!("strict decoding error: {}", unknown.join(", "));
                return Err(schema::unreadable(kind, &why));
            }
            Some("Ignore") => {}
            _ => self.warnings.lock().extend(unknown),
        }
        Ok(object)
    }

    /// True if it applies an object that is not there.
    pub(crate) fn creates(&self, key: &Key, store: &Store) -> bool {
        PatchKind::of(&self.content_type) == Ok(PatchKind::Apply) && store.get(key).is_err()
    }

    pub(crate) fn may_create(&self, target: &Target, store: &Store) -> bool {
        let create = Attributes::of(Verb::Create, target, None);
        create.is_some_and(|create| access::may(&self.who, &create, store))
    }

    pub(crate) fn is_dry_run(&self) -> bool {
        self.query.get("dryRun").is_some()
    }

    pub(crate) fn selector(&self, collection: &Collection) -> Result<Selector, ApiError> {
        Selector::parse(collection.kind, self.query.get("labelSelector"), self.query.get("fieldSelector"))
    }
}
