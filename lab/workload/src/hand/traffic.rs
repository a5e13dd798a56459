// SPDX-License-Identifier: Apache-2.0
//! Traffic that the hand sends, and rules that it reads, on a thread in the network: a socket is in the namespace of the thread that makes it, and
//! belongs to that thread's user, so no process has to be started for a packet.

use std::time::Duration;

use anyhow::Context as _;
use cluster::Traffic;
use cluster::hand::{Answer, Network};
use cluster::network::Wanted;
use cluster::traffic::{self, Stray};
use rustix::thread::CapabilitySet;

use super::{place, programs};
use crate::{client, network, stray};

/// Sends traffic, one after the other.
pub(crate) async fn send(place: Network, all: Vec<Traffic>, deadline: Duration) -> anyhow::Result<Answer> {
    let mut answers = Vec::with_capacity(all.len());
    for run in all.chunk_by(|one, next| (one.uid, one.gid) == (next.uid, next.gid)) {
        let run = run.to_vec();
        answers.extend(place::inside(place.clone(), move || send_as_one(&run, deadline)).await??);
    }
    Ok(Answer::Answers(answers))
}

/// Sends traffic of one user.
fn send_as_one(run: &[Traffic], deadline: Duration) -> anyhow::Result<Vec<traffic::Answer>> {
    let owner = run.first().map(|one| (one.uid, one.gid)).filter(|owner| *owner != (0, 0));
    owner.map_or(Ok(()), |owner| programs::take_on(owner, CapabilitySet::empty()))?;
    on_this_thread(async {
        let mut answers = Vec::with_capacity(run.len());
        for one in run {
            let answer = client::send(one, deadline).await;
            answers.push(answer.with_context(|| format!("send {one:?}"))?);
        }
        Ok(answers)
    })
}

/// Sends a segment of no connection.
pub(crate) async fn stray(place: Network, stray: Stray, deadline: Duration) -> anyhow::Result<Answer> {
    Ok(Answer::Ending(place::inside(place, move || stray::send(stray, deadline)).await??))
}

/// Lists what is in a network.
pub(crate) async fn inspect(place: Network) -> anyhow::Result<Answer> {
    let inspect = || on_this_thread(network::inspect());
    Ok(Answer::Network(place::inside(place, inspect).await??))
}

/// Compares the rules of a network with those that are wanted.
pub(crate) async fn compare(place: Network, wanted: Wanted) -> anyhow::Result<Answer> {
    Ok(Answer::Differences(place::inside(place, || network::compare(wanted)).await??))
}

/// A runtime of this thread's own: that of the hand has its sockets where the hand is.
fn on_this_thread<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(work)
}
