// SPDX-License-Identifier: Apache-2.0
//! Undoing of what a scenario closes on a node, by mode or by the immutable flag, and makes outside of the directories that are looked at before and after it. It is
//! noted before it is done, as a run that is interrupted leaves nobody else who knows.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use cluster::hand::{Answer, Follow, Hand, Handed, PROMPT, Work};
use cluster::{LabError, NodePaths, PRIMARY};
use parking_lot::Mutex;

use crate::baseline::Baseline;
use crate::error::Error;

/// A node's hand that notes what undoes its orders.
#[derive(Debug)]
pub(crate) struct Noting<H> {
    pub(crate) hand: H,
    pub(crate) node: String,
    /// Name of the list of its network.
    pub(crate) list: Option<String>,
    pub(crate) paths: NodePaths,
    pub(crate) baseline: Arc<Mutex<Baseline>>,
}

/// Order that opens what this one may close, as long as that has not been carried out.
async fn opens(hand: &impl Hand, work: &Work) -> Handed<Option<Work>> {
    Ok(match work {
        Work::SetImmutable { path, immutable: true } => {
            Some(Work::SetImmutable { path: path.clone(), immutable: false })
        }
        Work::SetMode { path, .. } => {
            hand.look(path).await?.map(|entry| Work::SetMode { path: path.clone(), mode: entry.mode })
        }
        _ => None,
    })
}

/// Path that the order makes, if it is a step's to remove: neither one of the node's directories nor above them, and not in those that [`crate::restore`] sees to.
async fn makes(hand: &impl Hand, work: &Work, paths: &NodePaths) -> Handed<Option<PathBuf>> {
    let (Work::Write { path, .. } | Work::MakeDirectory { path } | Work::Link { path, .. }) = work else {
        return Ok(None);
    };
    let restored = [&paths.conf_dir, &paths.bin_dir];
    let own = [&paths.conf_dir, &paths.bin_dir, &paths.run_dir, &paths.cache_dir, &paths.netns_dir];
    if own.iter().any(|own| own.starts_with(path)) || restored.iter().any(|one| path.starts_with(one)) {
        return Ok(None);
    }
    Ok(hand.look(path).await?.is_none().then(|| path.clone()))
}

/// Removes what was made on this node, the last first.
pub(crate) async fn unmake(hand: &dyn Hand, node: &str, made: &[(String, PathBuf)]) -> Vec<Handed<()>> {
    let mut done = Vec::new();
    for (_, path) in made.iter().rev().filter(|(of, _)| of == node) {
        done.push(unless_absent(hand.remove(path).await));
    }
    done
}

/// Carries out those of the orders that are for this node, the last first. What is gone needs none.
pub(crate) async fn open(hand: &dyn Hand, node: &str, orders: &[(String, Work)]) -> Vec<Handed<()>> {
    let mut done = Vec::new();
    for (_, work) in orders.iter().rev().filter(|(of, _)| of == node) {
        done.push(unless_absent(hand.carry_out(work.clone(), PROMPT).await.map(drop)));
    }
    done
}

fn unless_absent(done: Handed<()>) -> Handed<()> {
    match done {
        Err(error) if error.is_absence() => Ok(()),
        done => done,
    }
}

impl<H> Noting<H> {
    /// Scenarios call the list of a node's network [`PRIMARY`]: where it has another name, what they do to that file says nothing about the product.
    fn names_list(&self, work: &mut Work) -> Result<(), Error> {
        let Some(list) = self.list.as_ref().filter(|list| *list != PRIMARY) else { return Ok(()) };
        let primary = self.paths.conf_dir.join(PRIMARY);
        match work.paths_mut().iter().any(|path| **path == primary) {
            true => Err(Error::Unmet(format!("find the list of its network as {PRIMARY}: it is {list}"))),
            false => Ok(()),
        }
    }
}

#[async_trait]
impl<H: Hand> Hand for Noting<H> {
    async fn carry_out(&self, mut work: Work, deadline: Duration) -> Handed<Answer> {
        self.names_list(&mut work).map_err(LabError::from)?;
        if let Some(undoes) = opens(&self.hand, &work).await? {
            self.baseline.lock().changes.closed.push((self.node.clone(), undoes));
        }
        if let Some(path) = makes(&self.hand, &work, &self.paths).await? {
            self.baseline.lock().changes.made.push((self.node.clone(), path));
        }
        self.hand.carry_out(work, deadline).await
    }

    async fn follow(&self, work: Work) -> Handed<Box<dyn Follow>> {
        self.hand.follow(work).await
    }
}
