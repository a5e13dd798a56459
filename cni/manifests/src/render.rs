// SPDX-License-Identifier: Apache-2.0
//! From [`Values`] to the objects of an installation, in the order in which they are applied. `cni/chart` says the same to Helm; a test holds
//! the two against each other, object by object.

mod admission;
mod agent;
mod config;
mod container;
mod extra;
mod make;
mod rights;
mod taint;

use protocol::mutant;
use serde_json::Value;

use crate::values::{Scope, Values};
use make::Maker;

/// The objects of an installation: what others need comes first.
#[must_use]
pub fn render(values: &Values) -> Vec<Value> {
    if !values.enabled {
        return Vec::new();
    }
    let make = Maker::agent(values);
    let mut objects = Vec::new();
    objects.extend(extra::quota(&make));
    objects.push(rights::account(&make, rights::AGENT));
    objects.extend(rights::agent(&make));
    objects.push(config::config_map(&make));
    objects.extend(admission::policies(&make));
    objects.extend(extra::network_policy(&make, rights::AGENT, agent::NAME));
    objects.extend(extra::network(&make));
    objects.push(agent::daemon_set(&make));
    objects.extend(taint::controller(values));
    let scope = match mutant!("scope-ignored") {
        true => Scope::All,
        false => values.global.resource_scope,
    };
    let is_namespaced = |object: &Value| !object["metadata"]["namespace"].is_null();
    objects.retain(|object| match scope {
        Scope::All => true,
        Scope::Cluster => !is_namespaced(object),
        Scope::Namespace => is_namespaced(object),
    });
    objects
}
