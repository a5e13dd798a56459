// SPDX-License-Identifier: Apache-2.0
//! The sender: opens connections from its first instruction on, asks over UDP and asks to be called, whatever becomes of it, and says how many a proxy
//! answered. Nobody listens where it connects to, so that what no rule redirects is one packet there; each has a source port of its own.

use std::cell::Cell;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::time::{Duration, Instant};

use clap::Args;
use cluster::traffic::{CALLED, CALLER, SENDER_PORTS};
use cluster::{Answer, Traffic, Transport};
use tokio::task::LocalSet;
use tokio::time::{MissedTickBehavior, interval};

use crate::listen::Endpoint;
use crate::{app, client, line};

/// Deadline of a connection: below the first retransmission, so that none sends a second packet.
const CONNECTION: Duration = Duration::from_millis(900);
/// Pause after which answers are told of that are no power of two.
const SAID: Duration = Duration::from_millis(100);
/// Deadline of an answer to a datagram: a proxy may wait for a resolver that is silent, and says so ([`crate::proxy::PATIENCE`]).
const ANSWER: Duration = Duration::from_millis(1500);

#[derive(Debug, Clone, Args)]
pub struct SenderOptions {
    /// Where to, as `10.0.0.1:9`; several in turn.
    #[arg(long, required_unless_present = "caller")]
    to: Vec<SocketAddr>,
    /// Resolver that gets questions over UDP, as `10.0.0.1:53`.
    #[arg(long)]
    ask: Vec<SocketAddr>,
    /// Where a caller is to be asked for connections to this pod.
    #[arg(long)]
    caller: Vec<IpAddr>,
    /// Time between two connections to the same place.
    #[arg(long, default_value_t = 5)]
    every_ms: u64,
}

impl SenderOptions {
    /// Kinds of what is sent, those that there are, each with its destinations.
    fn kinds(self) -> Vec<(Transport, Vec<SocketAddr>)> {
        let callers = self.caller.into_iter().map(|caller| SocketAddr::new(caller, CALLER));
        let all =
            [(Transport::Tcp, self.to), (Transport::Udp, self.ask), (Transport::Udp, callers.collect())];
        all.into_iter().filter(|(_, destinations)| !destinations.is_empty()).collect()
    }
}

/// Numbers so far.
#[derive(Debug, Default)]
struct Tally {
    sent: Cell<u64>,
    /// Of each kind.
    answered: Vec<Cell<u64>>,
    /// The last that was said, and when.
    said: Cell<(u64, u64, Option<Instant>)>,
}

impl Tally {
    fn count(&self, kind: usize, answer: &Answer) -> io::Result<()> {
        self.sent.set(self.sent.get() + 1);
        let of_its_kind = self.answered.get(kind);
        if let (Some(answered), Answer::Proxy { .. } | Answer::App { .. }) = (of_its_kind, answer) {
            answered.set(answered.get() + 1);
        }
        let (sent, answered) = (self.sent.get(), self.answered());
        // Seldom enough for a log.
        let (sent_before, answered_before, at) = self.said.get();
        let is_due = |now: u64, before: u64| now != before && now.is_power_of_two();
        let is_old = answered != answered_before && at.is_none_or(|at| at.elapsed() > SAID);
        if is_old || is_due(sent, sent_before) || is_due(answered, answered_before) {
            self.said.set((sent, answered, Some(Instant::now())));
            line::announce(&format!("sent {sent}, answered {answered}"))?;
        }
        Ok(())
    }

    /// Of each kind at least so many.
    fn answered(&self) -> u64 {
        self.answered.iter().map(Cell::get).min().unwrap_or_default()
    }
}

/// Sends to each destination, again and again, until it is killed. Whoever is to be called listens first.
pub async fn run(options: SenderOptions) -> io::Result<()> {
    if !options.caller.is_empty() {
        app::serve_on(Endpoint { transport: Transport::Tcp, port: CALLED })?;
    }
    // Another process of this pod was here before, if a container starts again: its ports are not all free yet.
    let begin = u16::try_from(std::process::id() % u32::from(SENDER_PORTS.end - SENDER_PORTS.start));
    let mut ports = SENDER_PORTS.cycle().skip(usize::from(begin.unwrap_or_default()));
    let mut due = interval(Duration::from_millis(options.every_ms));
    let kinds = options.kinds();
    let tally =
        Rc::new(Tally { answered: kinds.iter().map(|_| Cell::default()).collect(), ..Tally::default() });
    let all: Vec<_> = kinds.into_iter().enumerate().flat_map(one_by_one).collect();
    due.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let endless = async {
        loop {
            due.tick().await;
            for (&(kind, transport, destination), source_port) in all.iter().zip(&mut ports) {
                let traffic = traffic(transport, destination, source_port);
                let deadline = if transport == Transport::Tcp { CONNECTION } else { ANSWER };
                let tally = Rc::clone(&tally);
                tokio::task::spawn_local(async move {
                    // One that cannot be sent at all is none: its port is in use.
                    match client::send(&traffic, deadline).await {
                        Ok(answer) => tally.count(kind, &answer),
                        Err(_) => Ok(()),
                    }
                });
            }
        }
    };
    LocalSet::new().run_until(endless).await
}

/// A kind's destinations, each with the kind's number.
fn one_by_one(
    (kind, (transport, destinations)): (usize, (Transport, Vec<SocketAddr>)),
) -> impl Iterator<Item = (usize, Transport, SocketAddr)> {
    destinations.into_iter().map(move |destination| (kind, transport, destination))
}

fn traffic(transport: Transport, destination: SocketAddr, source_port: u16) -> Traffic {
    let (destination, port) = (destination.ip(), destination.port());
    // `Exposure::of` counts packets by their source port: a request to the caller has one that the kernel chooses.
    let source_port = if port == CALLER { 0 } else { source_port };
    Traffic { transport, destination, port, uid: 0, gid: 0, source_port }
}
