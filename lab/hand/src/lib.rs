// SPDX-License-Identifier: Apache-2.0
//! The near side of the hand: orders over whatever stream leads to the lab's process on a node. The far side is `workload hand`.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Component;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use cluster::LabError;
use cluster::hand::{Answer, Done, Follow, Hand, HandError, Handed, Order, PROMPT, READY, Refusal, Work};
use parking_lot::Mutex;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader, Lines};
use tokio::sync::mpsc;

/// Answers of an order that nobody has taken yet. Beyond it they are lost, and whoever follows the order is told.
const BACKLOG: usize = 8192;

type Answers = mpsc::Sender<Result<Answer, Refusal>>;

/// A connected hand; cheap to clone. It ends with the last clone.
#[derive(Clone)]
pub struct Client {
    node: String,
    orders: mpsc::UnboundedSender<(Order, Option<Waiting>)>,
    last: Arc<AtomicU64>,
    /// The tier, if it lets nobody change its nodes.
    looks_only: Option<&'static str>,
}

impl fmt::Debug for Client {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Client").field("node", &self.node).finish_non_exhaustive()
    }
}

/// Whoever waits for answers.
struct Waiting {
    answers: Answers,
    /// Answers that found no room.
    lost: Arc<AtomicU64>,
}

impl Client {
    /// Takes the hand at the far end of a stream, once it has said that it is ready. `connection` is kept as long as the streams are.
    ///
    /// # Errors
    /// It says something else, or nothing.
    pub async fn over(
        node: &str,
        from: impl AsyncRead + Send + Unpin + 'static,
        to: impl AsyncWrite + Send + Unpin + 'static,
        connection: impl Send + 'static,
    ) -> Result<Self, LabError> {
        let failed = |why: String| failure(node, why);
        let mut lines = BufReader::new(from).lines();
        let first = tokio::time::timeout(PROMPT, lines.next_line()).await;
        match first {
            Ok(Ok(Some(line))) if line == READY => {}
            Ok(Ok(line)) => return Err(failed(format!("its first line is {line:?} and not {READY:?}"))),
            Ok(Err(error)) => return Err(failed(error.to_string())),
            Err(_) => return Err(failed(format!("it says nothing within {PROMPT:?}"))),
        }
        let (orders, asked) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            attend(lines, to, asked).await;
            drop(connection);
        });
        Ok(Self { node: node.to_owned(), orders, last: Arc::default(), looks_only: None })
    }

    /// The same for a tier that lets nobody change its nodes.
    #[must_use]
    pub fn that_only_looks(self, tier: &'static str) -> Self {
        Self { looks_only: Some(tier), ..self }
    }

    /// True if it carries out nothing any more.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        self.orders.is_closed()
    }

    fn gone(&self) -> LabError {
        failure(&self.node, "it is gone")
    }

    /// Sends an order; its number, and its answers.
    fn order(&self, mut work: Work, backlog: usize) -> Result<Following, LabError> {
        if let Some(tier) = self.looks_only.filter(|_| work.changes_node()) {
            return Err(LabError::unsupported(tier, work.to_string()));
        }
        let what = work.to_string();
        if work.paths_mut().iter().any(|path| path.components().any(|part| part == Component::ParentDir)) {
            return Err(LabError::harness(what, "`..` is in the path; name it from the node's root on"));
        }
        let id = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        let (answers, receiver) = mpsc::channel(backlog);
        let lost = Arc::new(AtomicU64::new(0));
        let waiting = Waiting { answers, lost: Arc::clone(&lost) };
        self.orders.send((Order { id, work }, Some(waiting))).map_err(|_| self.gone())?;
        Ok(Following { client: self.clone(), id, what, answers: receiver, lost, goes_on: false })
    }
}

fn failure(node: &str, why: impl std::fmt::Display) -> LabError {
    LabError::harness(format!("use the hand on node {node}"), why)
}

#[async_trait]
impl Hand for Client {
    async fn carry_out(&self, work: Work, deadline: Duration) -> Handed<Answer> {
        let mut order = self.order(work, 1)?;
        order.within(deadline + PROMPT).await
    }

    async fn follow(&self, work: Work) -> Handed<Box<dyn Follow>> {
        let mut order = self.order(work, BACKLOG)?;
        match order.within(PROMPT).await? {
            Answer::Following => {
                order.goes_on = true;
                Ok(Box::new(order))
            }
            other => Err(failure(&self.node, format!("it answers {other:?}")).into()),
        }
    }
}

/// An order and its answers.
#[derive(Debug)]
struct Following {
    client: Client,
    id: u64,
    what: String,
    answers: mpsc::Receiver<Result<Answer, Refusal>>,
    lost: Arc<AtomicU64>,
    goes_on: bool,
}

impl Following {
    async fn one(&mut self) -> Handed<Answer> {
        match self.answers.recv().await {
            None => Err(self.client.gone().into()),
            Some(Ok(answer)) => Ok(answer),
            Some(Err(refusal)) => {
                self.goes_on = false;
                let (why, errno) = (refusal.why, refusal.errno);
                Err(HandError::Refused { what: self.what.clone(), why, errno })
            }
        }
    }

    async fn within(&mut self, deadline: Duration) -> Handed<Answer> {
        let late = failure(&self.client.node, format!("{}: no answer within {deadline:?}", self.what));
        tokio::time::timeout(deadline, self.one()).await.unwrap_or_else(|_| Err(late.into()))
    }

    /// Tells the hand to stop it. Nobody waits for the answer to that.
    fn tell(&mut self) {
        if std::mem::take(&mut self.goes_on) {
            let work = Work::Stop { order: self.id };
            let id = self.client.last.fetch_add(1, Ordering::Relaxed) + 1;
            let _gone = self.client.orders.send((Order { id, work }, None));
        }
    }

    fn nothing_lost(&self) -> Result<(), LabError> {
        match self.lost.load(Ordering::Relaxed) {
            0 => Ok(()),
            lost => Err(failure(&self.client.node, format!("{lost} answers to {:?} were lost", self.what))),
        }
    }
}

#[async_trait]
impl Follow for Following {
    async fn next(&mut self) -> Handed<Answer> {
        self.nothing_lost()?;
        self.one().await
    }

    async fn stop(mut self: Box<Self>) -> Handed<Vec<Answer>> {
        self.tell();
        let mut rest = Vec::new();
        loop {
            let answer = self.within(PROMPT).await?;
            self.nothing_lost()?;
            let is_last = !answer.has_next();
            rest.push(answer);
            if is_last {
                return Ok(rest);
            }
        }
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        self.tell();
    }
}

/// Writes orders and hands answers to those who wait for them, until either side is gone. Both at once: a hand that cannot get rid of its
/// answers reads no orders.
async fn attend(
    lines: Lines<BufReader<impl AsyncRead + Unpin>>,
    to: impl AsyncWrite + Unpin,
    asked: mpsc::UnboundedReceiver<(Order, Option<Waiting>)>,
) {
    let all = Mutex::new(BTreeMap::new());
    tokio::select! {
        () = pass_on(asked, to, &all) => {}
        () = give_out(lines, &all) => {}
    }
}

type AllWaiting = Mutex<BTreeMap<u64, Waiting>>;

async fn pass_on(
    mut asked: mpsc::UnboundedReceiver<(Order, Option<Waiting>)>,
    mut to: impl AsyncWrite + Unpin,
    all: &AllWaiting,
) {
    while let Some((order, waiting)) = asked.recv().await {
        let Ok(mut text) = serde_json::to_vec(&order) else { continue };
        text.push(b'\n');
        let waiting = waiting.map(|waiting| (order.id, waiting));
        all.lock().extend(waiting);
        if to.write_all(&text).await.is_err() || to.flush().await.is_err() {
            return;
        }
    }
}

async fn give_out(mut lines: Lines<BufReader<impl AsyncRead + Unpin>>, all: &AllWaiting) {
    while let Ok(Some(line)) = lines.next_line().await {
        let Ok(Done { id, result }) = serde_json::from_str(&line) else { continue };
        let is_last = !result.as_ref().is_ok_and(Answer::has_next);
        let mut all = all.lock();
        let Some(waiting) = all.get(&id) else { continue };
        if let Err(mpsc::error::TrySendError::Full(_)) = waiting.answers.try_send(result) {
            waiting.lost.fetch_add(1, Ordering::Relaxed);
        }
        if is_last {
            all.remove(&id);
        }
    }
}

#[cfg(test)]
mod tests;
