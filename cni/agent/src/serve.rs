// SPDX-License-Identifier: Apache-2.0
//! Sockets for the plugin: `agent.sock` serves pods' facts, `log.sock` takes log lines. The path of upstream's event socket
//! (`pluginevent.sock`) belongs to ambient mode: nobody listens there.
//!
//! | module | what |
//! |---|---|
//! | [`socket`] | lifecycle of a socket's file: atomic bind, supervision, removal |
//! | [`lookup`] | a pod's facts: from the cache, else one request to the API server |
//! | `requests` | the connections of `agent.sock` |
//! | `peer`, `fairness` | identity of the client process; rate limit per process |
//! | `lines`, `phases` | the connections of `log.sock`; durations of an ADD, from its last line |

mod fairness;
mod lines;
pub mod lookup;
mod peer;
mod phases;
mod requests;
pub mod socket;

use std::path::PathBuf;
use std::time::Duration;

use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use crate::log::Log;
use crate::metrics::Metrics;
use crate::readiness::{Part, Readiness};
use lookup::Lookup;
use socket::{SocketError, SocketFile};

pub use fairness::Share;
pub use lines::{LOG_SOCKET, take_lines};
pub use requests::{Limits, answer};

/// Interval between checks of the sockets' files.
const LOOK_EVERY: Duration = Duration::from_secs(2);

#[derive(Debug, Clone)]
pub struct Sockets {
    /// Where they are: `/var/run/istio-cni`.
    pub run_dir: PathBuf,
    pub lookup: Lookup,
    pub log: Log,
    pub metrics: Metrics,
    /// Where the sockets' state is reported.
    pub readiness: Readiness,
}

/// Both sockets, served until dropped.
struct Served {
    files: [SocketFile; 2],
    stop: CancellationToken,
}

impl Drop for Served {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl Sockets {
    /// Serves both until it is cancelled. Files that somebody takes away are put back.
    pub async fn run(self, cancel: CancellationToken) {
        let mut look = tokio::time::interval(LOOK_EVERY);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut served: Option<Served> = None;
        let mut logged = None;
        loop {
            tokio::select! {
                _ = look.tick() => {}
                () = cancel.cancelled() => return,
            }
            if served.as_ref().is_some_and(|served| served.files.iter().all(SocketFile::is_served)) {
                continue;
            }
            match self.open(&cancel) {
                Ok(open) => {
                    // The former sockets go only now: other files have their names.
                    served = Some(open);
                    logged = None;
                    self.readiness.set_ready(Part::Sockets);
                    tracing::info!(target: "cni-agent", dir = %self.run_dir.display(), "sockets are open");
                }
                Err(error) => {
                    let why = error.to_string();
                    self.readiness.set_unready(Part::Sockets, why.as_str());
                    if logged.replace(why.clone()).is_none_or(|before| before != why) {
                        tracing::error!(target: "cni-agent", "{why}");
                    }
                }
            }
        }
    }

    fn open(&self, cancel: &CancellationToken) -> Result<Served, SocketError> {
        let (questions, agent) = socket::open(&self.run_dir.join(protocol::agent::SOCKET), 0o600)?;
        // As upstream: any user's plugin may log.
        let (lines, log) = socket::open(&self.run_dir.join(LOG_SOCKET), 0o666)?;
        let stop = cancel.child_token();
        tokio::spawn(answer(questions, self.lookup.clone(), Limits::default(), stop.clone()));
        tokio::spawn(take_lines(lines, self.log.clone(), self.metrics.clone(), stop.clone()));
        Ok(Served { files: [agent, log], stop })
    }
}
