// SPDX-License-Identifier: Apache-2.0
//! A node is looked at, and made what it was.

use std::collections::BTreeSet;
use std::path::Path;

use cluster::LabError;
use cluster::hand::{Entry, Hand, Handed, Kind, Writing};
use k8s_openapi::api::core::v1::Node;
use kube::Api;

use crate::before::{Before, Change, Content, Entries, changes, difference};
use crate::cordon;
use crate::error::Error;
use crate::node::RemoteNode;

/// State of a node.
pub(crate) async fn look(node: &RemoteNode) -> Result<Before, LabError> {
    let (hand, paths) = (node.its_hand()?, cluster::Node::directories(node));
    let configurations = configurations(&hand, &paths.conf_dir).await?;
    let plugins = plugins(&hand, &paths.bin_dir).await?;
    Ok(Before { configurations, plugins, node: object(node).await? })
}

/// Writes configurations that the node has no longer: without a network, runtimes take no pod down.
pub(crate) async fn give_back(node: &RemoteNode, before: &Before) -> Result<(), LabError> {
    let (hand, directory) = (node.its_hand()?, cluster::Node::directories(node).conf_dir);
    carry_out(node, before.gone(&configurations(&hand, &directory).await?)).await
}

/// Makes the node what it was.
pub(crate) async fn restore(node: &RemoteNode, before: &Before) -> Result<(), LabError> {
    let (hand, paths) = (node.its_hand()?, cluster::Node::directories(node));
    let now = configurations(&hand, &paths.conf_dir).await?;
    carry_out(node, changes(&now, &before.configurations)).await?;
    for name in plugins(&hand, &paths.bin_dir).await?.difference(&before.plugins) {
        hand.remove(&paths.bin_dir.join(name)).await?;
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

async fn configurations(hand: &dyn Hand, directory: &Path) -> Handed<Entries> {
    let mut found = Entries::new();
    for entry in listed(hand, directory).await? {
        let content = match (entry.kind, entry.target) {
            (Kind::File, _) => Content::File(hand.read(&directory.join(&entry.name)).await?),
            (Kind::Link, Some(target)) => Content::Link(target),
            _ => Content::Unknown,
        };
        found.insert(entry.name, content);
    }
    Ok(found)
}

async fn plugins(hand: &dyn Hand, directory: &Path) -> Handed<BTreeSet<String>> {
    Ok(listed(hand, directory).await?.into_iter().map(|entry| entry.name).collect())
}

/// Entries of a directory: none if it is not there.
async fn listed(hand: &dyn Hand, directory: &Path) -> Handed<Vec<Entry>> {
    match hand.list(directory).await {
        Err(error) if error.is_absence() => Ok(Vec::new()),
        listed => listed,
    }
}

async fn object(node: &RemoteNode) -> Result<Node, Error> {
    let (nodes, name) = (Api::<Node>::all(node.view.session.client.clone()), &node.name);
    nodes.get(name).await.map_err(Error::api(format!("get node {name}")))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use async_trait::async_trait;
    use cluster::hand::{Answer, Follow, HandError, Work};

    use super::*;

    /// A node without directories.
    #[derive(Debug)]
    struct Empty;

    #[async_trait]
    impl Hand for Empty {
        async fn carry_out(&self, work: Work, _: Duration) -> Handed<Answer> {
            Err(HandError::Refused {
                what: work.to_string(),
                why: "it is not there".to_owned(),
                errno: Some(2),
            })
        }

        async fn follow(&self, work: Work) -> Handed<Box<dyn Follow>> {
            unreachable!("{work}")
        }
    }

    #[tokio::test]
    async fn a_directory_that_is_not_there_has_no_entries() {
        assert!(plugins(&Empty, Path::new("/opt/cni/bin")).await.unwrap().is_empty());
        assert!(configurations(&Empty, Path::new("/etc/cni/net.d")).await.unwrap().is_empty());
    }
}
