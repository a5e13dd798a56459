// SPDX-License-Identifier: Apache-2.0
//! A node is looked at, and made what it was.

use std::collections::BTreeSet;

use cluster::LabError;
use cluster::hand::{Hand as _, Kind, Writing};
use k8s_openapi::api::core::v1::Node;
use kube::Api;

use crate::before::{Before, Change, Content, Entries, changes, difference};
use crate::cordon;
use crate::error::Error;
use crate::node::RemoteNode;

/// State of a node.
pub(crate) async fn look(node: &RemoteNode) -> Result<Before, LabError> {
    let (configurations, plugins) = (configurations(node).await?, plugins(node).await?);
    Ok(Before { configurations, plugins, node: object(node).await? })
}

/// Writes configurations that the node has no longer: without a network, runtimes take no pod down.
pub(crate) async fn give_back(node: &RemoteNode, before: &Before) -> Result<(), LabError> {
    carry_out(node, before.gone(&configurations(node).await?)).await
}

/// Makes the node what it was.
pub(crate) async fn restore(node: &RemoteNode, before: &Before) -> Result<(), LabError> {
    carry_out(node, changes(&configurations(node).await?, &before.configurations)).await?;
    let (hand, directory) = (node.its_hand()?, cluster::Node::directories(node).bin_dir);
    for name in plugins(node).await?.difference(&before.plugins) {
        hand.remove(&directory.join(name)).await?;
    }
    match difference(&object(node).await?, &before.node) {
        Some(difference) => Ok(cordon::patch(&node.view.session.client, &node.name, difference).await?),
        None => Ok(()),
    }
}

/// Carries out changes of the configuration directory.
async fn carry_out(node: &RemoteNode, changes: Vec<Change<'_>>) -> Result<(), LabError> {
    let (hand, directory) = (node.its_hand()?, cluster::Node::directories(node).conf_dir);
    for change in changes {
        match change {
            Change::Remove(name) => hand.remove(&directory.join(name)).await?,
            Change::Put(name, content) => {
                hand.make_directory(&directory).await?;
                match content {
                    Content::File(text) => hand.write(&directory.join(name), text, Writing::WHOLE).await?,
                    Content::Link(target) => hand.link(&directory.join(name), target).await?,
                    Content::Unknown => return Err(Error::Missing(name.to_owned()).into()),
                }
            }
        }
    }
    Ok(())
}

async fn configurations(node: &RemoteNode) -> Result<Entries, LabError> {
    let (hand, directory) = (node.its_hand()?, cluster::Node::directories(node).conf_dir);
    let mut found = Entries::new();
    let entries = match hand.list(&directory).await {
        Err(error) if error.is_absence() => Vec::new(),
        listed => listed?,
    };
    for entry in entries {
        let content = match (entry.kind, entry.target) {
            (Kind::File, _) => Content::File(hand.read(&directory.join(&entry.name)).await?),
            (Kind::Link, Some(target)) => Content::Link(target),
            _ => Content::Unknown,
        };
        found.insert(entry.name, content);
    }
    Ok(found)
}

async fn plugins(node: &RemoteNode) -> Result<BTreeSet<String>, LabError> {
    let there = node.its_hand()?.list(&cluster::Node::directories(node).bin_dir).await?;
    Ok(there.into_iter().map(|entry| entry.name).collect())
}

async fn object(node: &RemoteNode) -> Result<Node, Error> {
    let (nodes, name) = (Api::<Node>::all(node.view.session.client.clone()), &node.name);
    nodes.get(name).await.map_err(Error::api(format!("get node {name}")))
}
