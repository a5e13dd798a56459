// SPDX-License-Identifier: Apache-2.0
//! Sockets for the plugin: `agent.sock` serves pods' facts, `log.sock` takes log lines. The path of upstream's event socket
//! (`pluginevent.sock`) belongs to ambient mode: nobody listens there.
//!
//! | module | what |
//! |---|---|
//! | [`socket`] | lifecycle of a socket's file: atomic bind, supervision, removal |
//! | [`lookup`] | a pod's facts: from the cache, else one request to the API server |
//! | `requests` | the connections of `agent.sock` |
//! | `peer`, `fairness` | identity of the client process; limits per client |
//! | `lines`, `phases` | the connections of `log.sock`; durations of an ADD, from its last line |

pub(crate) mod fairness;
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
    /// Where the sockets' state is reported.
    pub readiness: Readiness,
}

/// A socket, served until dropped.
struct Served {
    file: SocketFile,
    stop: CancellationToken,
}

impl Drop for Served {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

type Open = fn(&Sockets, CancellationToken) -> Result<SocketFile, SocketError>;

impl Sockets {
    /// Serves both until it is cancelled, each whatever becomes of the other. Files that somebody takes away are put back.
    pub async fn run(self, cancel: CancellationToken) {
        let mut look = tokio::time::interval(LOOK_EVERY);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut sockets: [(Open, Option<Served>); 2] = [(Self::open_agent, None), (Self::open_log, None)];
        let mut logged: Option<String> = None;
        loop {
            tokio::select! {
                _ = look.tick() => {}
                () = cancel.cancelled() => return,
            }
            let (mut is_open, mut failed) = (false, None::<String>);
            for (open, served) in &mut sockets {
                if served.as_ref().is_some_and(|served| served.file.is_served()) {
                    continue;
                }
                let stop = cancel.child_token();
                match open(&self, stop.clone()) {
                    // The former one goes only now: another file has its name.
                    Ok(file) => (*served, is_open) = (Some(Served { file, stop }), true),
                    // The one that pods need is the first.
                    Err(error) => failed = failed.or(Some(error.to_string())),
                }
            }
            match failed {
                Some(why) => {
                    self.readiness.set_unready(Part::Sockets, why.as_str());
                    if logged.replace(why.clone()).is_none_or(|before| before != why) {
                        tracing::error!(target: "cni-agent", "{why}");
                    }
                }
                // Another agent may serve what failed here.
                None if logged.take().is_some() || is_open => {
                    self.readiness.set_ready(Part::Sockets);
                    tracing::info!(target: "cni-agent", dir = %self.run_dir.display(), "sockets are open");
                }
                None => {}
            }
        }
    }

    fn open_agent(&self, stop: CancellationToken) -> Result<SocketFile, SocketError> {
        let (questions, file) = socket::open(&self.run_dir.join(protocol::agent::SOCKET), 0o600)?;
        tokio::spawn(answer(questions, self.lookup.clone(), Limits::default(), stop));
        Ok(file)
    }

    /// As upstream: any user's plugin may log.
    fn open_log(&self, stop: CancellationToken) -> Result<SocketFile, SocketError> {
        let (lines, file) = socket::open(&self.run_dir.join(LOG_SOCKET), 0o666)?;
        tokio::spawn(take_lines(lines, self.log.clone(), self.lookup.clone(), stop));
        Ok(file)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::MetadataExt as _;

    use super::*;
    use crate::pods::Pods;

    #[tokio::test(start_paused = true)]
    async fn a_name_that_is_taken_for_the_log_keeps_no_plugin_waiting() {
        let dir = tempfile::tempdir().unwrap();
        let (asked, logged) = (dir.path().join(protocol::agent::SOCKET), dir.path().join(LOG_SOCKET));
        // Runtimes make a directory of what a pod mounts and is not there.
        fs::create_dir(&logged).unwrap();
        let (readiness, metrics, cancel) =
            (Readiness::of(&[Part::Sockets]), crate::metrics::Metrics::default(), CancellationToken::new());
        let mut changes = readiness.changes();
        let sockets = Sockets {
            run_dir: dir.path().to_owned(),
            lookup: Lookup::new(Pods::default(), None, metrics),
            log: Log::in_memory(),
            readiness,
        };
        let _stop = cancel.clone().drop_guard();
        tokio::spawn(sockets.run(cancel));
        let says_so = changes.wait_for(|missing| missing.iter().any(|(_, why)| why.contains(LOG_SOCKET)));
        drop(says_so.await.unwrap());
        let is_served = || socket::connect(&asked).map(|()| fs::metadata(&asked).unwrap().ino()).unwrap();
        let before = is_served();
        fs::remove_dir(&logged).unwrap();
        drop(changes.wait_for(crate::readiness::Missing::is_ready).await.unwrap());
        assert_eq!(is_served(), before, "it stays while the other one is tried again");
        socket::connect(&logged).unwrap();
    }
}
