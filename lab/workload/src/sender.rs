// SPDX-License-Identifier: Apache-2.0
//! The sender: opens connections from its first instruction on, whatever becomes of them, and says how many a proxy answered. Nobody listens
//! where it sends to, so that a connection that no rule redirects is one packet there; each has a source port of its own.

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
    answered: Cell<u64>,
}

impl Tally {
    fn count(&self, answer: &Answer) -> io::Result<()> {
        self.sent.set(self.sent.get() + 1);
        if matches!(answer, Answer::Proxy { .. } | Answer::App { .. }) {
            self.answered.set(self.answered.get() + 1);
        }
        let (sent, answered) = (self.sent.get(), self.answered.get());
        // Seldom enough for a log.
        if sent.is_power_of_two() || answered.is_power_of_two() {
            line::announce(&format!("sent {sent}, answered {answered}"))?;
        }
        Ok(())
    }
}

/// Sends to each of `to`, again and again, until it is killed.
pub async fn run(to: Vec<SocketAddr>, every: Duration) -> io::Result<()> {
    // Another process of this pod was here before, if a container starts again: its ports are not all free yet.
    let begin = u16::try_from(std::process::id() % u32::from(SENDER_PORTS.end - SENDER_PORTS.start));
    let mut ports = SENDER_PORTS.cycle().skip(usize::from(begin.unwrap_or_default()));
    let tally = Rc::new(Tally::default());
    let mut due = interval(every);
    due.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let endless = async {
        loop {
            due.tick().await;
            for (destination, source_port) in to.iter().zip(&mut ports) {
                let (traffic, tally) = (traffic(*destination, source_port), Rc::clone(&tally));
                tokio::task::spawn_local(async move {
                    // One that cannot be sent at all is none: its port is in use.
                    match client::send(&traffic, DEADLINE).await {
                        Ok(answer) => tally.count(&answer),
                        Err(_) => Ok(()),
                    }
                });
            }
        }
    };
    LocalSet::new().run_until(endless).await
}

fn traffic(destination: SocketAddr, source_port: u16) -> Traffic {
    let (destination, port) = (destination.ip(), destination.port());
    Traffic { transport: Transport::Tcp, destination, port, uid: 0, gid: 0, source: None, source_port }
}
