// SPDX-License-Identifier: Apache-2.0
//! From [`Values`] to the objects of an installation. `cni/chart` says the same to Helm; a test holds the two against each other, object by
//! object.
//!
//! The DaemonSet comes first. kubectl neither sorts nor waits: it deletes in the order of the file, and an agent whose roles and account go
//! before its DaemonSet does has to guess why. It applies in the same order, which costs nothing: the DaemonSet controller is refused pods
//! until their account is there, and tries again after 5, 10, 20 … ms; the kubelet starts no container before the ConfigMap is there. Helm
//! sorts by kind: accounts, roles, then the DaemonSet, and to uninstall, the DaemonSet, roles, accounts.

mod admission;
mod agent;
mod config;
mod container;
mod extra;
mod make;
mod purge;
mod rights;
mod taint;

use serde_json::Value;

use crate::values::{ResourceScope, Values};
pub(crate) use admission::has_policies;
pub(crate) use container::image;
use make::Maker;
pub use purge::purge;

/// The objects of an installation, in the order in which they are applied and deleted.
#[must_use]
pub fn render(values: &Values) -> Vec<Value> {
    if !values.enabled {
        return Vec::new();
    }
    let make = Maker::agent(values);
    let mut objects = vec![agent::daemon_set(&make)];
    objects.extend(extra::quota(&make));
    objects.push(rights::account(&make, rights::AGENT));
    objects.extend(rights::agent(&make));
    objects.push(config::config_map(&make));
    objects.extend(admission::policies(&make));
    objects.extend(extra::network_policy(&make, rights::AGENT, agent::NAME));
    objects.extend(extra::network(&make));
    objects.extend(taint::controller(values));
    let is_namespaced = |object: &Value| !object["metadata"]["namespace"].is_null();
    objects.retain(|object| match values.global.resource_scope {
        ResourceScope::All => true,
        ResourceScope::Cluster => !is_namespaced(object),
        ResourceScope::Namespace => is_namespaced(object),
    });
    objects
}
