// SPDX-License-Identifier: Apache-2.0
//! Calls of webhooks: a creation goes through those that change it, one after another, then through those that judge it.
//!
//! As in a real server this happens before the object is given a UID, and its name if that is generated.

mod client;
mod endpoint;
mod review;

use std::collections::BTreeSet;

use bytes::Bytes;
use serde_json::{Value, json};

use crate::admission::hooks::{self, Hook, Stage};
use crate::admission::{Operation, Proposal};
use crate::apply::{Applier, applied};
use crate::call::Call;
use crate::error::ApiError;
use crate::kinds::ADMISSION;
use crate::patch::{PatchKind, patched};
use crate::route::{Target, Verb};
use crate::shared::Shared;
use crate::store::{Collection, Key};
use review::Verdict;

/// A creation on its way through webhooks.
struct Creation<'a> {
    call: &'a Call,
    key: Key,
    /// Namespace that selectors are about.
    namespace: Option<Value>,
    object: Value,
}

/// A webhook's answer that does not count.
enum Failure {
    /// It could not be called, or what it said makes no sense: its policy decides.
    Call(String),
    Rejected(ApiError),
}

impl Creation<'_> {
    fn proposal(&self) -> Proposal<'_> {
        Proposal {
            operation: Operation::Create,
            key: &self.key,
            subresource: None,
            object: Some(&self.object),
            old: None,
            dry_run: self.call.is_dry_run(),
        }
    }
}

impl Shared {
    /// The request as webhooks leave it.
    ///
    /// # Errors
    /// One denies it, or cannot be called and fails closed.
    pub(crate) async fn through_webhooks(
        &self,
        call: Call,
        target: Target,
    ) -> Result<(Call, Target), ApiError> {
        let configured = |stage| hooks::configured(stage, &self.lock().store);
        let (mutating, validating) = (configured(Stage::Mutating), configured(Stage::Validating));
        if mutating.is_empty() && validating.is_empty() {
            return Ok((call, target));
        }
        let Some(mut creation) = self.creation(&call, &target) else { return Ok((call, target)) };
        self.mutate(&mut creation, &mutating).await?;
        for hook in &validating {
            self.invoke(&mut creation, hook, Stage::Validating).await?;
        }
        let Creation { key, object, .. } = creation;
        let namespace = (!key.namespace.is_empty()).then_some(key.namespace);
        let collection = Collection { kind: key.kind, namespace };
        let content_type = "application/json".to_owned();
        let call = Call { verb: Verb::Create, content_type, body: Bytes::from(object.to_string()), ..call };
        Ok((call, Target::Resource { collection, name: None, subresource: None }))
    }

    /// Object that the request creates. One that is malformed is left to whoever carries it out.
    fn creation<'a>(&self, call: &'a Call, target: &Target) -> Option<Creation<'a>> {
        let Target::Resource { collection, name, subresource: None } = target else { return None };
        // Nothing is asked about those who are asked.
        if collection.kind.group == ADMISSION || (collection.needs_namespace() && name.is_none()) {
            return None;
        }
        let mut object = call.json().ok()?;
        match (call.verb, name) {
            (Verb::Create, None) => {}
            (Verb::Patch, Some(name)) => object = self.applied(call, &collection.key(name), &object)?,
            _ => return None,
        }
        if !object.is_object() || !object["metadata"].is_object() {
            return None;
        }
        let key = collection.key(object["metadata"]["name"].as_str().unwrap_or_default());
        if !key.namespace.is_empty() {
            object["metadata"]["namespace"] = json!(key.namespace);
        }
        (object["apiVersion"], object["kind"]) = (json!(key.kind.api_version()), json!(key.kind.name));
        let namespace = hooks::namespace(&key, &object, &self.lock().store);
        let is_there = namespace.is_some() || key.namespace.is_empty();
        is_there.then_some(Creation { call, key, namespace, object })
    }

    /// Object that applying makes where there is none. Its applier owns nothing of what webhooks add.
    fn applied(&self, call: &Call, key: &Key, body: &Value) -> Option<Value> {
        if PatchKind::of(&call.content_type) != Ok(PatchKind::Apply) || self.lock().store.get(key).is_ok() {
            return None;
        }
        let by = Applier { manager: call.query.get("fieldManager")?, force: call.query.is_true("force") };
        let mut object = applied(key, None, body, &by).ok()?;
        object["metadata"]["name"] = json!(key.name);
        Some(object)
    }

    /// A first round of all, and another of those that want one and saw an object that was changed after them.
    async fn mutate(&self, creation: &mut Creation<'_>, hooks: &[Hook]) -> Result<(), ApiError> {
        let (mut seen, mut again) = (BTreeSet::new(), BTreeSet::new());
        for (number, hook) in hooks.iter().enumerate() {
            let Some(changed) = self.invoke(creation, hook, Stage::Mutating).await? else { continue };
            if changed {
                again.append(&mut seen);
            }
            if hook.is_reinvoked() {
                seen.insert(number);
            }
        }
        for (number, hook) in hooks.iter().enumerate() {
            if again.contains(&number) {
                self.invoke(creation, hook, Stage::Mutating).await?;
            }
        }
        Ok(())
    }

    /// Calls a webhook if it matches; whether it changed the object.
    async fn invoke(
        &self,
        creation: &mut Creation<'_>,
        hook: &Hook,
        stage: Stage,
    ) -> Result<Option<bool>, ApiError> {
        if !hook.matches(&creation.call.who, &creation.proposal(), creation.namespace.as_ref())? {
            return Ok(None);
        }
        match self.ask(creation, hook, stage).await {
            Ok(None) => Ok(Some(false)),
            Ok(Some(patch)) => {
                let object = patched(&creation.object, &patch, PatchKind::Json)
                    .map_err(|error| ApiError::Internal(error.to_string()))?;
                let changed = object != creation.object;
                creation.object = object;
                Ok(Some(changed))
            }
            Err(Failure::Rejected(error)) => Err(error),
            Err(Failure::Call(_)) if hook.fails_open() => Ok(Some(false)),
            Err(Failure::Call(why)) => {
                Err(ApiError::Internal(format!("failed calling webhook \"{}\": {why}", hook.name())))
            }
        }
    }

    /// The patch of a webhook, if it has one.
    async fn ask(
        &self,
        creation: &Creation<'_>,
        hook: &Hook,
        stage: Stage,
    ) -> Result<Option<Value>, Failure> {
        let uid = self.lock().store.ids().uid();
        let request = hooks::request(&creation.call.who, &creation.proposal());
        let review = review::request(&uid, request, &creation.object);
        let answer = client::post(self, hook, &review)
            .await
            .map_err(|why| Failure::Call(format!("failed to call webhook: {why}")))?;
        let invalid = |why| Failure::Call(format!("received invalid webhook response: {why}"));
        let read = review::read(&uid, stage, &answer).map_err(invalid)?;
        creation.call.warnings.lock().extend(read.warnings);
        match read.verdict {
            Verdict::Allowed(patch) => Ok(patch),
            Verdict::Undecodable(why) => {
                Err(Failure::Call(format!("received undecodable patch in webhook response: {why}")))
            }
            Verdict::Denied { why, code, has_reason } => {
                let webhook = hook.name().to_owned();
                Err(Failure::Rejected(ApiError::Webhook { webhook, why, code, has_reason }))
            }
        }
    }
}
