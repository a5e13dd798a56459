// SPDX-License-Identifier: Apache-2.0
//! The process on a node that runs programs for us, over whatever stream leads to it.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use cluster::CniAnswer;
use cluster::hand::{Done, Network, Order, READY};
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader, Lines};
use tokio::sync::{mpsc, oneshot};

use crate::error::Error;

/// Deadline of the first line, and the grace beyond an order's own deadline.
const HANGING: Duration = Duration::from_secs(10);

/// A connected hand; cheap to clone.
#[derive(Clone)]
pub struct Hand {
    node: String,
    orders: mpsc::UnboundedSender<(Order, oneshot::Sender<Result<CniAnswer, String>>)>,
}

impl fmt::Debug for Hand {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Hand").field("node", &self.node).finish_non_exhaustive()
    }
}

/// A program for the hand to run.
#[derive(Debug, Clone)]
pub struct Program<'a> {
    /// Network namespace.
    pub network: Network,
    /// The program and its arguments; `workload` is the hand's own binary.
    pub words: &'a [&'a str],
    pub stdin: String,
    /// User and group.
    pub owner: (u32, u32),
    pub deadline: Duration,
}

impl<'a> Program<'a> {
    /// A program in a pod's network, as root.
    #[must_use]
    pub fn in_pod(address: IpAddr, words: &'a [&'a str], deadline: Duration) -> Self {
        Self { network: Network::Pod(address), words, stdin: String::new(), owner: (0, 0), deadline }
    }
}

impl Hand {
    /// Takes the hand at the far end of a stream, once it has said that it is ready. `connection` is kept as long as the streams are.
    ///
    /// # Errors
    /// It says something else, or nothing.
    pub async fn over(
        node: &str,
        from: impl AsyncRead + Send + Unpin + 'static,
        to: impl AsyncWrite + Send + Unpin + 'static,
        connection: impl Send + 'static,
    ) -> Result<Self, Error> {
        let failed = |why: String| Error::Hand { node: node.to_owned(), why };
        let mut lines = BufReader::new(from).lines();
        let first = tokio::time::timeout(HANGING, lines.next_line()).await;
        match first {
            Ok(Ok(Some(line))) if line == READY => {}
            Ok(Ok(line)) => return Err(failed(format!("its first line is {line:?} and not {READY:?}"))),
            Ok(Err(error)) => return Err(failed(error.to_string())),
            Err(_) => return Err(failed(format!("it says nothing within {HANGING:?}"))),
        }
        let (orders, asked) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            attend(lines, to, asked).await;
            drop(connection);
        });
        Ok(Self { node: node.to_owned(), orders })
    }

    /// Runs a program to its end.
    ///
    /// # Errors
    /// The hand could not run it to its end, or is gone.
    pub async fn run(&self, program: Program<'_>) -> Result<CniAnswer, Error> {
        let failed = |why: String| Error::Hand { node: self.node.clone(), why };
        let gone = || failed("it is gone".to_owned());
        let order = Order {
            id: 0,
            network: program.network,
            words: program.words.iter().map(|word| (*word).to_owned()).collect(),
            stdin: program.stdin,
            owner: program.owner,
            deadline_ms: u64::try_from(program.deadline.as_millis()).unwrap_or(u64::MAX),
        };
        let (answer, done) = oneshot::channel();
        self.orders.send((order, answer)).map_err(|_| gone())?;
        let deadline = program.deadline + HANGING;
        let late = |_| failed(format!("no answer within {deadline:?}"));
        tokio::time::timeout(deadline, done).await.map_err(late)?.map_err(|_| gone())?.map_err(failed)
    }
}

/// Writes orders and hands answers to those who wait for them, until either side is gone.
async fn attend(
    mut lines: Lines<BufReader<impl AsyncRead + Unpin>>,
    mut to: impl AsyncWrite + Unpin,
    mut asked: mpsc::UnboundedReceiver<(Order, oneshot::Sender<Result<CniAnswer, String>>)>,
) {
    let mut waiting = BTreeMap::new();
    let mut last = 0;
    loop {
        tokio::select! {
            order = asked.recv() => {
                let Some((mut order, answer)) = order else { return };
                last += 1;
                order.id = last;
                let Ok(mut text) = serde_json::to_vec(&order) else { continue };
                text.push(b'\n');
                if to.write_all(&text).await.is_err() || to.flush().await.is_err() {
                    return;
                }
                waiting.insert(last, answer);
            }
            line = lines.next_line() => {
                let Ok(Some(line)) = line else { return };
                let Ok(Done { id, result }) = serde_json::from_str(&line) else { continue };
                if let Some(answer) = waiting.remove(&id) {
                    let _nobody_waits = answer.send(result);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(text: &str) -> CniAnswer {
        CniAnswer { exit: Some(0), stdout: text.to_owned(), stderr: String::new(), took: Duration::ZERO }
    }

    /// A far side that answers two orders in the reverse order.
    #[tokio::test]
    async fn an_answer_reaches_who_asked_whatever_the_order() {
        let (ours, theirs) = tokio::io::duplex(4096);
        let (from, to) = tokio::io::split(ours);
        let far = tokio::spawn(async move {
            let (from, mut to) = tokio::io::split(theirs);
            to.write_all(b"ready hand\n").await.unwrap();
            let mut lines = BufReader::new(from).lines();
            let mut orders = Vec::new();
            while orders.len() < 2 {
                let line = lines.next_line().await.unwrap().unwrap();
                orders.push(serde_json::from_str::<Order>(&line).unwrap());
            }
            for order in orders.iter().rev() {
                let done = Done { id: order.id, result: Ok(answer(&order.words[0])) };
                to.write_all((serde_json::to_string(&done).unwrap() + "\n").as_bytes()).await.unwrap();
            }
        });
        let hand = Hand::over("node-1", from, to, ()).await.unwrap();
        let run = |words| hand.run(Program::in_pod([10, 0, 0, 1].into(), words, Duration::from_secs(5)));
        let (one, two) = tokio::join!(run(&["one"]), run(&["two"]));
        assert_eq!((one.unwrap().stdout, two.unwrap().stdout), ("one".to_owned(), "two".to_owned()));
        far.await.unwrap();
        let gone = hand.run(Program::in_pod([10, 0, 0, 1].into(), &["three"], Duration::from_secs(5))).await;
        assert_eq!(gone.unwrap_err().to_string(), "hand on node node-1: it is gone");
    }

    #[tokio::test]
    async fn what_is_no_hand_is_told_apart() {
        let (mut theirs, ours) = tokio::io::duplex(64);
        theirs.write_all(b"bash: workload: not found\n").await.unwrap();
        let (from, to) = tokio::io::split(ours);
        let error = Hand::over("node-1", from, to, ()).await.unwrap_err().to_string();
        assert!(error.contains("workload: not found"), "{error}");
    }
}
