// SPDX-License-Identifier: Apache-2.0
//! The sender: opens connections from its first instruction on, and asks over UDP, whatever becomes of them, and says how many a proxy answered.
//! Nobody listens where it sends to, so that what no rule redirects is one packet there; each has a source port of its own.

use std::cell::Cell;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use cluster::traffic::SENDER_PORTS;
use cluster::{Answer, Traffic, Transport};
use tokio::task::LocalSet;
use tokio::time::{MissedTickBehavior, interval};

use crate::{client, line};

/// Deadline of a connection: below the first retransmission, so that none sends a second packet.
const DEADLINE: Duration = Duration::from_millis(900);

/// Numbers so far.
#[derive(Debug, Default)]
struct Tally {
    sent: Cell<u64>,
    connections_answered: Cell<u64>,
    questions_answered: Cell<u64>,
    /// True if there are questions.
    asks: bool,
    /// The last that was said.
    said: Cell<(u64, u64)>,
}

impl Tally {
    fn count(&self, transport: Transport, answer: &Answer) -> io::Result<()> {
        self.sent.set(self.sent.get() + 1);
        let of_its_kind = match transport {
            Transport::Tcp => &self.connections_answered,
            Transport::Udp => &self.questions_answered,
        };
        if matches!(answer, Answer::Proxy { .. } | Answer::App { .. }) {
            of_its_kind.set(of_its_kind.get() + 1);
        }
        let (sent, answered) = (self.sent.get(), self.answered());
        // Seldom enough for a log.
        let (sent_before, answered_before) = self.said.get();
        let is_due = |now: u64, before: u64| now != before && now.is_power_of_two();
        if is_due(sent, sent_before) || is_due(answered, answered_before) {
            self.said.set((sent, answered));
            line::announce(&format!("sent {sent}, answered {answered}"))?;
        }
        Ok(())
    }

    /// Of each kind that is sent at least so many.
    fn answered(&self) -> u64 {
        let connections = self.connections_answered.get();
        if self.asks { connections.min(self.questions_answered.get()) } else { connections }
    }
}

/// Connects to each of `to` and asks each of `ask`, again and again, until it is killed.
pub async fn run(to: Vec<SocketAddr>, ask: Vec<SocketAddr>, every: Duration) -> io::Result<()> {
    // Another process of this pod was here before, if a container starts again: its ports are not all free yet.
    let begin = u16::try_from(std::process::id() % u32::from(SENDER_PORTS.end - SENDER_PORTS.start));
    let mut ports = SENDER_PORTS.cycle().skip(usize::from(begin.unwrap_or_default()));
    let tally = Rc::new(Tally { asks: !ask.is_empty(), ..Tally::default() });
    let connections = to.into_iter().map(|to| (Transport::Tcp, to));
    let all: Vec<_> = connections.chain(ask.into_iter().map(|to| (Transport::Udp, to))).collect();
    let mut due = interval(every);
    due.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let endless = async {
        loop {
            due.tick().await;
            for (&(transport, destination), source_port) in all.iter().zip(&mut ports) {
                let traffic = traffic(transport, destination, source_port);
                let tally = Rc::clone(&tally);
                tokio::task::spawn_local(async move {
                    // One that cannot be sent at all is none: its port is in use.
                    match client::send(&traffic, DEADLINE).await {
                        Ok(answer) => tally.count(transport, &answer),
                        Err(_) => Ok(()),
                    }
                });
            }
        }
    };
    LocalSet::new().run_until(endless).await
}

fn traffic(transport: Transport, destination: SocketAddr, source_port: u16) -> Traffic {
    let (destination, port) = (destination.ip(), destination.port());
    Traffic { transport, destination, port, uid: 0, gid: 0, source: None, source_port }
}
