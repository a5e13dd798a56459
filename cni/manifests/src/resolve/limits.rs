// SPDX-License-Identifier: Apache-2.0
//! Validation of single values: an image must be named, one agent per node.

use serde_json::{Value, json};

use crate::mistake::{Given, Mistake};
use crate::place::Place;
use crate::values::{Scope, Values};

/// Values that cannot be rendered.
pub(super) fn limits(values: &Values, place: Place) -> Vec<Mistake> {
    let has_pods = values.enabled && values.global.resource_scope != Scope::Cluster;
    let image = has_pods.then(|| unnamed(values, place)).flatten();
    image.into_iter().chain(surge(values, place)).collect()
}

/// There is no image of ours on any registry: a name that was guessed could be anybody's, and it runs with the node's rights.
fn unnamed(values: &Values, place: Place) -> Option<Mistake> {
    let wrong = |field: &str, value: &str, why| {
        Some(Mistake::Image { given: Given::new(place.name(field), value), why })
    };
    if let Some((_, name)) = values.image.rsplit_once('/') {
        let is_fixed = name.contains([':', '@']);
        return if is_fixed { None } else { wrong("image", &values.image, "it has no tag and no digest") };
    }
    let global = &values.global;
    if values.hub.is_empty() && global.hub.is_empty() {
        let why = "set hub and tag (or global.hub and global.tag) to where you keep the image, or image to a whole reference such as registry.example.com/mesh/install-cni@sha256:…";
        return wrong("hub", "", why);
    }
    if values.tag.is_empty() && global.tag.is_empty() {
        return wrong("tag", "", "set tag (or global.tag), or image to a whole reference with its digest");
    }
    None
}

/// With a surge, a node has the old agent and the new one at once, each of which restores what it has installed itself.
fn surge(values: &Values, place: Place) -> Option<Mistake> {
    let path = ["rollingUpdate", "maxSurge"];
    let given = values.update_strategy.get(path[0]).and_then(|rolling| rolling.get(path[1]))?;
    let is_none = [Value::Null, json!(0), json!("0"), json!("0%")].contains(given);
    let field = place.name(&format!("updateStrategy.{}", path.join(".")));
    (!is_none).then(|| Mistake::Wrong { given: Given::new(field, given.clone()), wanted: SURGE.to_owned() })
}

/// Permitted `maxSurge`, and why.
const SURGE: &str = "0: two agents on one node, the old one and the new, would undo each other's work; set maxUnavailable instead";
