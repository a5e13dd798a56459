// SPDX-License-Identifier: Apache-2.0
//! A program that stays as long as the cluster does, and writes a log.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::process::{Child, Command};
use tokio::time::{Instant, interval, timeout_at};

use crate::error::Error;
use crate::place::Place;

/// Pause between two looks at something that tells nobody when it is ready.
const LOOK: Duration = Duration::from_millis(50);

/// A kubelet gives its pods no time when it ends, and runtimes none.
const END: Duration = Duration::from_secs(30);

/// A running program; it is killed when this is dropped.
#[derive(Debug)]
pub struct Program {
    name: String,
    log: PathBuf,
    child: Child,
}

impl Program {
    /// Starts a program with these arguments, in the namespaces of a place or in those of the lab. Its environment is `PATH` and `HOME`.
    ///
    /// # Errors
    /// It cannot be run.
    pub async fn start(
        place: Option<&Place>,
        path: &Path,
        arguments: &[String],
        directories: &[&Path],
        logs: &Path,
    ) -> Result<Self, Error> {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let whose = place.map_or_else(String::new, |place| format!("{}-", place.name()));
        let log = logs.join(format!("{whose}{name}.log"));
        let to = File::options().create(true).append(true).open(&log).map_err(Error::file("make", &log))?;
        let errors = to.try_clone().map_err(Error::file("open", &log))?;
        let mut command = Command::new(path);
        command.args(arguments).env_clear().env("PATH", search(directories)).env("HOME", "/root");
        command.stdin(Stdio::null()).stdout(to).stderr(errors).kill_on_drop(true);
        let child = match place {
            Some(place) => place.spawn(command).await?,
            None => command.spawn().map_err(Error::file("run", path))?,
        };
        Ok(Self { name, log, child })
    }

    /// Waits until `look` finds what it looks for.
    ///
    /// # Errors
    /// The program ended, or it was not so within `deadline`.
    pub async fn until<T, F: Future<Output = Option<T>>>(
        &mut self,
        what: &str,
        deadline: Duration,
        mut look: impl FnMut() -> F,
    ) -> Result<T, Error> {
        let (mut due, end) = (interval(LOOK), Instant::now() + deadline);
        loop {
            due.tick().await;
            if let Ok(Some(found)) = timeout_at(end, look()).await {
                return Ok(found);
            }
            self.goes_on()?;
            if Instant::now() > end {
                return Err(self.failed(format!("{what} not within {deadline:?}")));
            }
        }
    }

    /// Checks that it has not ended.
    ///
    /// # Errors
    /// It has.
    pub fn goes_on(&mut self) -> Result<(), Error> {
        match self.child.try_wait().map_err(|e| Error::System("wait for a program", e))? {
            Some(status) => Err(self.failed(format!("ended with {status}"))),
            None => Ok(()),
        }
    }

    /// Asks it to end, and waits until it has.
    ///
    /// # Errors
    /// It cannot be told, or waited for.
    pub async fn end(&mut self) -> Result<(), Error> {
        let pid = self.child.id().and_then(|pid| i32::try_from(pid).ok());
        if let Some(pid) = pid {
            let asked = kill(Pid::from_raw(pid), Signal::SIGTERM);
            asked.map_err(|errno| Error::System("end a program", errno.into()))?;
        }
        match tokio::time::timeout(END, self.child.wait()).await {
            Ok(ended) => ended.map(drop).map_err(|e| Error::System("wait for a program", e)),
            Err(_) => Err(self.failed(format!("goes on {END:?} after SIGTERM"))),
        }
    }

    /// Kills it, and waits until it has ended: it is no child of its node's first process, which cannot end before somebody has waited for it.
    ///
    /// # Errors
    /// It cannot be waited for.
    pub async fn kill(&mut self) -> Result<(), Error> {
        self.child.kill().await.map_err(|source| Error::System("end a program", source))
    }

    fn failed(&self, why: String) -> Error {
        Error::Program { program: self.name.clone(), why, log: self.log.clone() }
    }
}

/// `PATH` of a program: these directories before the machine's.
fn search(directories: &[&Path]) -> String {
    let first = directories.iter().map(|one| format!("{}:", one.display()));
    format!("{}/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", first.collect::<String>())
}
