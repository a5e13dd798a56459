// SPDX-License-Identifier: Apache-2.0
//! One look at everything that has to be on the node, and what it takes to put it right. What it then says was read back.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::binaries::{self, Known};
use super::fight::Rival;
use super::kubeconfig::{self, KubeconfigError};
use super::versions::Versions;
use super::{KUBECONFIG, directory};
use crate::conflist::entry::{self, EntryError};
use crate::conflist::networks::{Networks, networks};
use crate::conflist::plan::{self, DesiredConflist, NotRight, Plan, Step};
use crate::conflist::scan::DirectorySnapshot;
use crate::conflist::{OUR_TYPE, copy};
use crate::files::{self, Doing, FileError, Replaced};
use crate::settings::{Places, Settings};

/// More rounds than any plan needs: another writer is active all the time.
const ROUNDS: usize = 4;

#[derive(Debug, thiserror::Error)]
pub enum ConflistError {
    #[error(transparent)]
    File(#[from] FileError),
    /// No entry to install.
    #[error(transparent)]
    Entry(#[from] EntryError),
    /// The user or the primary CNI has to change this directory.
    #[error("{}", .0.within(.1))]
    NotRight(NotRight, PathBuf),
    /// A configuration that names a plugin which is not there would stop every pod.
    #[error("our entry is not written before the plugin's binary and its credentials are there")]
    TooEarly,
    /// Another writer keeps removing our entry.
    #[error("{0}")]
    Fight(String),
    /// The directory changes faster than it is read.
    #[error("the directory changes all the time")]
    Restless,
}

/// Permission to touch the configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Touch {
    Now,
    /// Not yet: backoff of a fight.
    Later(String),
}

/// Outcome for a file that nobody else writes by right: a binary, the credentials.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Written {
    /// Nothing: it was right.
    Not,
    /// It was not there, or is to be another one now.
    New,
    /// It is to be what this process wrote before: somebody else had replaced or removed it.
    Again,
}

impl Written {
    /// Of a write; `same` if this process has written that content before.
    #[must_use]
    pub fn after(same: bool) -> Self {
        if same { Self::Again } else { Self::New }
    }

    /// Decides if it may be written.
    ///
    /// # Errors
    /// Somebody is fought over it.
    pub fn may(self, path: &Path, touch: &Touch) -> Result<(), FileError> {
        match (self, touch) {
            (Self::Again, Touch::Later(why)) => Err(Doing::Write.failed(path, io::Error::other(why.clone()))),
            _ => Ok(()),
        }
    }
}

/// Permissions of a pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Permits {
    /// Configurations.
    pub conflist: Touch,
    /// Binaries that are as they were shipped before, and credentials that say what they said.
    pub files: Touch,
}

impl Permits {
    /// Nobody is fought.
    pub const ALL: Self = Self { conflist: Touch::Now, files: Touch::Now };
}

/// Report of a pass.
#[derive(Debug)]
pub struct PassReport {
    /// Of all binaries.
    pub binaries: Result<Written, FileError>,
    /// Of the credentials.
    pub kubeconfig: Result<Written, KubeconfigError>,
    /// File with our entry.
    pub conflist: Result<String, ConflistError>,
    /// Steps taken on configurations.
    pub steps: Vec<Step>,
    /// Other writer.
    pub rival: Rival,
    /// Time since the file with our entry and the directory changed, as far as the clock tells.
    pub unchanged: Option<Duration>,
    /// Networks of the directory with our entry in it.
    pub networks: Networks,
}

/// State between passes.
#[derive(Debug, Default)]
pub struct Installer {
    known: Known,
    /// The credentials that were written last, and their mode.
    credentials: Option<(String, u32)>,
    made: BTreeSet<String>,
    versions: Versions,
    /// Temporaries that a killed agent left among the configurations were removed.
    tidy: bool,
    rival: Rival,
    networks: Networks,
}

impl Installer {
    /// Reconciles the node.
    pub fn pass(&mut self, settings: &Settings, permits: &Permits) -> PassReport {
        let binaries = binaries::install(&settings.places, &mut self.known, &permits.files);
        let kubeconfig = credentials(settings, &mut self.credentials, &permits.files);
        let mut steps = Vec::new();
        let conflist = self.conflist(settings, &permits.conflist, &mut steps);
        let unchanged =
            conflist.as_ref().ok().and_then(|file| directory::unchanged(&settings.places.net_dir, file));
        let networks = self.networks.clone();
        PassReport { binaries, kubeconfig, conflist, steps, rival: self.rival, unchanged, networks }
    }

    fn conflist(
        &mut self,
        settings: &Settings,
        touch: &Touch,
        taken: &mut Vec<Step>,
    ) -> Result<String, ConflistError> {
        let chain = &settings.chain;
        let entry = if chain.chained { entry::chained(settings)? } else { entry::standalone(settings)? };
        let net_dir = &settings.places.net_dir;
        for _ in 0..ROUNDS {
            let path = settings.places.on_node.get(net_dir).cloned();
            let now = DirectorySnapshot { path, ..directory::read(net_dir)? };
            self.rival = Rival::among(now.files.keys().map(String::as_str));
            if !self.tidy {
                directory::tidy(net_dir)?;
                self.tidy = true;
            }
            let types = if chain.raise_version { now.types() } else { BTreeSet::new() };
            let able = self.versions.able(&settings.places.target_dirs, types);
            let plan = DesiredConflist { chain, entry: &entry, made: &self.made, able: &able }.plan(&now);
            if plan.steps.is_empty() {
                self.networks = networks(&now);
                let target = plan
                    .then
                    .map_err(|why| ConflistError::NotRight(why, settings.places.shown(net_dir).to_owned()))?;
                // A file of our own, also if a former agent made it.
                if chain.owned || !chain.chained {
                    self.made.insert(target.clone());
                }
                if !chain.chained {
                    is_called(&settings.places)?;
                }
                return Ok(target);
            }
            may(settings, touch)?;
            directory::tidy(net_dir)?;
            self.take(settings, &now, plan, taken)?;
        }
        Err(ConflistError::Restless)
    }

    fn take(
        &mut self,
        settings: &Settings,
        now: &DirectorySnapshot,
        plan: Plan,
        taken: &mut Vec<Step>,
    ) -> Result<(), ConflistError> {
        let ours = settings.chain.mode();
        for step in plan.steps {
            if directory::apply(&settings.places.net_dir, &step, now, ours)? == Replaced::Changed {
                tracing::info!(target: "install", "a configuration was written by somebody else at the same time: what they wrote counts");
                return Ok(());
            }
            match &step {
                Step::Write { name, text, .. } if !text.contains(OUR_TYPE) => {
                    tracing::info!(target: "install", file = name, "took our entry out of a configuration that is not to have it");
                }
                Step::Write { name, text, .. } => {
                    match copy::marked_in(text) {
                        Some(owner) => {
                            tracing::info!(target: "install", file = name, owner, "wrote a list of our own that repeats the owner's configuration, which stays as it is")
                        }
                        None => {
                            tracing::info!(target: "install", file = name, "wrote our entry into the network's configuration")
                        }
                    }
                    if !now.files.contains_key(name) {
                        self.made.insert(name.clone());
                    }
                }
                Step::Remove { name } => {
                    tracing::info!(target: "install", file = name, "removed a configuration of ours that no network needs any more");
                }
            }
            taken.push(step);
        }
        Ok(())
    }
}

/// Checks that runtimes call Multus and Multus finds our file, where the runtimes' directory is mounted.
fn is_called(places: &Places) -> Result<(), ConflistError> {
    let Some(directory) = &places.multus_dir else { return Ok(()) };
    let path = places.on_node.get(directory).cloned();
    let runtime = DirectorySnapshot { path, ..directory::read(directory)? };
    let called = plan::called(&runtime, places.on_node.get(&places.net_dir).map(PathBuf::as_path));
    called.map_err(|why| ConflistError::NotRight(why, places.shown(directory).to_owned()))
}

/// The credentials, and the directory that they are in.
fn credentials(
    settings: &Settings,
    last: &mut Option<(String, u32)>,
    touch: &Touch,
) -> Result<Written, KubeconfigError> {
    let run_dir = &settings.places.run_dir;
    files::make_directory(run_dir)?;
    // Not those of the back end's record, which is written beside this.
    files::remove_stale_temporaries(run_dir, &|name| name == KUBECONFIG)?;
    kubeconfig::install(settings, last, touch)
}

/// Decides if the configuration may be changed now.
fn may(settings: &Settings, touch: &Touch) -> Result<(), ConflistError> {
    if let Touch::Later(why) = touch {
        return Err(ConflistError::Fight(why.clone()));
    }
    if binaries::are_there(&settings.places) && kubeconfig::path(settings).is_file() {
        return Ok(());
    }
    Err(ConflistError::TooEarly)
}
