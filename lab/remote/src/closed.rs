// SPDX-License-Identifier: Apache-2.0
//! What a scenario closes on a node, by mode or by the immutable flag: noted before it is closed, as a run that is interrupted leaves nobody else who knows.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use cluster::hand::{Answer, Follow, Hand, Handed, PROMPT, Work};
use parking_lot::Mutex;

use crate::baseline::Baseline;

/// A node's hand that notes what undoes its orders.
#[derive(Debug)]
pub(crate) struct Noting<H> {
    pub(crate) hand: H,
    pub(crate) node: String,
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

/// Carries out those of the orders that are for this node, the last first. What is gone needs none.
pub(crate) async fn open(hand: &dyn Hand, node: &str, orders: &[(String, Work)]) -> Vec<Handed<()>> {
    let mut done = Vec::new();
    for (_, work) in orders.iter().rev().filter(|(of, _)| of == node) {
        match hand.carry_out(work.clone(), PROMPT).await {
            Err(error) if error.is_absence() => {}
            carried_out => done.push(carried_out.map(drop)),
        }
    }
    done
}

#[async_trait]
impl<H: Hand> Hand for Noting<H> {
    async fn carry_out(&self, work: Work, deadline: Duration) -> Handed<Answer> {
        if let Some(undoes) = opens(&self.hand, &work).await? {
            self.baseline.lock().changes.closed.push((self.node.clone(), undoes));
        }
        self.hand.carry_out(work, deadline).await
    }

    async fn follow(&self, work: Work) -> Handed<Box<dyn Follow>> {
        self.hand.follow(work).await
    }
}
