// SPDX-License-Identifier: Apache-2.0
//! A node is looked at, and made what it was.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use cluster::hand::{Entry, Hand, Handed, Kind, Work, Writing};
use cluster::{LabError, Leftovers, NodePaths};
use k8s_openapi::api::core::v1::Node;
use kube::Api;

use crate::before::{Before, Change, Content, Entries, changes, difference};
use crate::closed::{open, unmake};
use crate::cordon;
use crate::error::Error;
use crate::node::RemoteNode;

/// Times that a node may change while it is put back.
const CONFLICTS: usize = 10;

/// State of a node.
pub(crate) async fn look(node: &RemoteNode) -> Result<Before, LabError> {
    let (hand, paths) = (node.its_hand()?, cluster::Node::directories(node));
    let configurations = configurations(&hand, &paths.conf_dir).await?;
    let plugins = plugins(&hand, &paths.bin_dir).await?;
    Ok(Before { configurations, plugins, node: object(node).await? })
}

/// Opens what is closed, and writes configurations that the node has no longer: without a network, runtimes take no pod down.
pub(crate) async fn give_back(node: &RemoteNode, before: &Before, closed: &[(String, Work)]) -> Leftovers {
    let mut left = Leftovers::default();
    let given = async {
        let (hand, directory) = (node.its_hand()?, cluster::Node::directories(node).conf_dir);
        for opened in open(&hand, &node.name, closed).await {
            left.note(opened);
        }
        let now = configurations(&hand, &directory).await?;
        carry_out(&hand, &directory, before.gone(&now), &mut left).await;
        Ok::<_, LabError>(())
    };
    let given = given.await;
    left.note(given);
    left
}

/// Makes the node what it was. Every step is tried whatever became of the others.
pub(crate) async fn restore(node: &RemoteNode, before: &Before, made: &[(String, PathBuf)]) -> Leftovers {
    let mut left = Leftovers::default();
    match node.its_hand() {
        Ok(hand) => {
            restore_files(&hand, &cluster::Node::directories(node), before, &mut left).await;
            for removed in unmake(&hand, &node.name, made).await {
                left.note(removed);
            }
        }
        Err(error) => {
            left.note(Err(error));
        }
    }
    left.note(restore_object(node, before).await);
    left
}

async fn restore_files(hand: &dyn Hand, paths: &NodePaths, before: &Before, left: &mut Leftovers) {
    match configurations(hand, &paths.conf_dir).await {
        Ok(now) => carry_out(hand, &paths.conf_dir, changes(&now, &before.configurations), left).await,
        Err(error) => {
            left.note(Err(error));
        }
    }
    match plugins(hand, &paths.bin_dir).await {
        Ok(now) => {
            for name in now.difference(&before.plugins) {
                left.note(hand.remove(&paths.bin_dir.join(name)).await);
            }
        }
        Err(error) => {
            left.note(Err(error));
        }
    }
}

/// Labels, taints and cordon. The patch replaces all taints, so it fails on a node that has changed since the look, and both are done again.
async fn restore_object(node: &RemoteNode, before: &Before) -> Result<(), Error> {
    let mut tries = 0..CONFLICTS;
    loop {
        let Some(difference) = difference(&object(node).await?, &before.node) else { return Ok(()) };
        match cordon::patch(&node.view.session.client, &node.name, difference).await {
            Err(error) if error.is_conflict() && tries.next().is_some() => {}
            patched => return patched,
        }
    }
}

/// Carries out changes of the configuration directory.
async fn carry_out(hand: &dyn Hand, directory: &Path, changes: Vec<Change<'_>>, left: &mut Leftovers) {
    for change in changes {
        left.note(match change {
            Change::Remove(name) => hand.remove(&directory.join(name)).await,
            Change::Put(name, content) => put(hand, directory, name, content).await,
        });
    }
}

async fn put(hand: &dyn Hand, directory: &Path, name: &str, content: &Content) -> Handed<()> {
    hand.make_directory(directory).await?;
    match content {
        Content::File(text, mode) => {
            hand.write(&directory.join(name), text, Writing::Whole { mode: *mode }).await
        }
        Content::Link(target) => hand.link(&directory.join(name), target).await,
        // Nobody could ever put it back, and later scenarios would not begin.
        Content::Unknown => Ok(()),
    }
}

async fn configurations(hand: &dyn Hand, directory: &Path) -> Handed<Entries> {
    let mut found = Entries::new();
    for entry in listed(hand, directory).await? {
        let content = match (entry.kind, entry.target) {
            (Kind::File, _) => Content::File(hand.read(&directory.join(&entry.name)).await?, entry.mode),
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
    use parking_lot::Mutex;
    use std::time::Duration;

    use async_trait::async_trait;
    use cluster::hand::{Answer, Follow, HandError};

    use super::*;

    /// A node whose directories all have one entry, which rejects orders for one path with an error number.
    #[derive(Debug)]
    struct Stubborn {
        path: PathBuf,
        errno: i32,
        /// Paths that it has written or removed.
        changed: Mutex<Vec<PathBuf>>,
    }

    fn stubborn(path: PathBuf, errno: i32) -> Stubborn {
        Stubborn { path, errno, changed: Mutex::default() }
    }

    #[async_trait]
    impl Hand for Stubborn {
        async fn carry_out(&self, mut work: Work, _: Duration) -> Handed<Answer> {
            if work.paths_mut().contains(&&mut self.path.clone()) {
                let (what, errno) = (work.to_string(), Some(self.errno));
                return Err(HandError::Refused { what, why: "stubborn".to_owned(), errno });
            }
            match work {
                Work::List { .. } => {
                    let entry = serde_json::json!({
                        "name": "made", "kind": "directory", "mode": 0, "owner": [0, 0], "size": 0, "inode": [0, 0],
                        "modified": [0, 0],
                    });
                    return Ok(Answer::Entries(vec![serde_json::from_value(entry).unwrap()]));
                }
                Work::Write { path, .. } | Work::Remove { path } => self.changed.lock().push(path),
                _ => {}
            }
            Ok(Answer::Done)
        }

        async fn follow(&self, work: Work) -> Handed<Box<dyn Follow>> {
            unreachable!("{work}")
        }
    }

    #[tokio::test]
    async fn a_directory_that_is_not_there_has_no_entries() {
        let paths = NodePaths::default();
        assert!(plugins(&stubborn(paths.bin_dir.clone(), 2), &paths.bin_dir).await.unwrap().is_empty());
        assert!(
            configurations(&stubborn(paths.conf_dir.clone(), 2), &paths.conf_dir).await.unwrap().is_empty()
        );
        plugins(&stubborn(paths.bin_dir.clone(), 5), &paths.bin_dir).await.unwrap_err();
    }

    #[tokio::test]
    async fn plugins_go_whatever_becomes_of_configurations() {
        let (paths, mut left) = (NodePaths::default(), Leftovers::default());
        let (configurations, plugins, node) = Default::default();
        let hand = stubborn(paths.conf_dir.clone(), 5);
        restore_files(&hand, &paths, &Before { configurations, plugins, node }, &mut left).await;
        assert_eq!(left.faults.len(), 1, "{left:?}");
        assert_eq!(*hand.changed.lock(), [paths.bin_dir.join("made")]);
    }

    #[tokio::test]
    async fn one_configuration_that_stays_keeps_no_other_from_coming_back() {
        let (directory, mut left) = (NodePaths::default().conf_dir, Leftovers::default());
        let hand = stubborn(directory.join("stays"), 5);
        let file = Content::File(Vec::new(), 0o600);
        let changes = vec![
            Change::Remove("stays"),
            Change::Put("directory", &Content::Unknown),
            Change::Put("list", &file),
        ];
        carry_out(&hand, &directory, changes, &mut left).await;
        assert_eq!(left.faults.len(), 1, "{left:?}");
        assert_eq!(*hand.changed.lock(), [directory.join("list")]);
    }
}
