// SPDX-License-Identifier: Apache-2.0
//! The lab's stand-in for Multus, as a node has it: where it finds the node's paths, the calls that it made of other plugins, and the daemon of
//! the thick one.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use cluster::{CniAnswer, CniCall, MultusFile};
use tokio::sync::Mutex as AsyncMutex;

use crate::error::Error;
use crate::process::{Process, Program};
use crate::view::Viewed;
use crate::volumes::Host;

/// Plugins of Multus: thin, and the shim of thick.
pub const TYPES: [&str; 2] = ["multus", "multus-shim"];
/// Variable: where the node's paths are.
const PLACES: &str = "LAB_PLACES";
/// Variable: file of the calls that it makes.
const RECORD: &str = "LAB_MULTUS_RECORD";
/// Directory of the daemon's socket, as the node names it.
const SOCKETS: &str = "/run/multus";
/// Directories of the node that the daemon of Multus' own manifest sees, by their names there.
const SEEN: [(&str, &str); 7] = [
    ("/host/etc/cni/net.d", "/etc/cni/net.d"),
    ("/opt/cni/bin", "/opt/cni/bin"),
    ("/run/multus", "/run/multus"),
    ("/run/netns", "/run/netns"),
    ("/hostroot", "/"),
    ("/var/lib/cni/multus", "/var/lib/cni/multus"),
    ("/etc/cni/net.d/multus.d", "/etc/cni/net.d/multus.d"),
];

/// Multus on a node.
#[derive(Debug)]
pub struct Multus {
    workload: PathBuf,
    netns: PathBuf,
    host: Host,
    view: Viewed,
    /// Directory of records.
    records: PathBuf,
    calls: AtomicU64,
    daemon: AsyncMutex<Option<Process>>,
}

/// Record of the calls that one call of Multus makes.
#[derive(Debug)]
pub struct Record(PathBuf);

impl Record {
    /// The calls, in order; the record is gone afterwards.
    #[must_use]
    pub fn take(self) -> Vec<(CniCall, CniAnswer)> {
        let text = fs::read_to_string(&self.0).unwrap_or_default();
        // There is none where it made no call.
        let _ = fs::remove_file(&self.0);
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }
}

impl Multus {
    /// A node without the daemon. Records are kept in `records`.
    ///
    /// # Errors
    /// The directory cannot be made.
    pub fn new(
        workload: &Path,
        netns: &Path,
        host: &Host,
        view: &Viewed,
        records: PathBuf,
    ) -> Result<Self, Error> {
        fs::create_dir_all(&records).map_err(Error::file("make", &records))?;
        Ok(Self {
            workload: workload.to_owned(),
            netns: netns.to_owned(),
            host: host.clone(),
            view: view.clone(),
            records,
            calls: AtomicU64::default(),
            daemon: AsyncMutex::default(),
        })
    }

    /// Variables of a call beyond CNI's, and its record.
    #[must_use]
    pub fn environment(&self) -> (Vec<(String, String)>, Record) {
        let number = self.calls.fetch_add(1, Ordering::Relaxed);
        let record = self.records.join(number.to_string());
        let set = vec![
            (PLACES.to_owned(), self.host.described()),
            (RECORD.to_owned(), record.display().to_string()),
        ];
        (set, Record(record))
    }

    /// Starts the daemon, which sees what its manifest shows it and the directories of the node in `more`, and writes its file.
    ///
    /// # Errors
    /// It did not come up before the deadline.
    pub async fn serve(&self, more: &[PathBuf], own: &MultusFile, deadline: Duration) -> Result<(), Error> {
        let seen = SEEN.into_iter().map(|(at, of)| (PathBuf::from(at), PathBuf::from(of)));
        let seen = seen.chain(more.iter().map(|path| (path.clone(), path.clone())));
        let places: Vec<_> =
            seen.map(|(at, of)| format!("{}={}", at.display(), self.host.find(&of).display())).collect();
        let directory = self.host.find(Path::new(SOCKETS)).display().to_string();
        let mut arguments = vec!["multus-daemon".to_owned(), "--directory".to_owned(), directory];
        if !own.text.is_empty() {
            let file = self.host.find(&own.path).display().to_string();
            arguments.extend(["--file".to_owned(), file, "--configuration".to_owned(), own.text.clone()]);
        }
        let mut program = Program::new(&self.workload, arguments);
        program.view = Some(self.view.now());
        program.env.insert(PLACES.to_owned(), places.join("\n"));
        let started = Process::start(&program, &self.netns).await?;
        if let Some(exit) = started.ready(deadline).await? {
            let why = format!("ended with {exit:?}: {:?}", started.output().lines());
            return Err(Error::Process { program: self.workload.clone(), why });
        }
        *self.daemon.lock().await = Some(started);
        Ok(())
    }

    /// Ends the daemon by SIGTERM.
    pub async fn terminate(&self, grace: Duration) {
        if let Some(daemon) = self.daemon.lock().await.take() {
            daemon.terminate(grace).await;
        }
    }

    /// Kills the daemon; its socket stays.
    pub async fn stop(&self) {
        if let Some(daemon) = self.daemon.lock().await.take() {
            daemon.kill().await;
        }
    }
}
