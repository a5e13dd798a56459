// SPDX-License-Identifier: Apache-2.0
//! One look at everything that has to be on the node, and what it takes to put it right. What it then says was read back.

use std::collections::BTreeSet;

use super::binaries::{self, Known};
use super::fight::Rival;
use super::kubeconfig::{self, KubeconfigError};
use super::versions::Versions;
use super::{KUBECONFIG, directory};
use crate::conflist::OUR_TYPE;
use crate::conflist::entry::{self, EntryError};
use crate::conflist::plan::{DesiredConflist, NotRight, Plan, Step};
use crate::conflist::scan::DirectorySnapshot;
use crate::files::{self, FileError, Replaced};
use crate::settings::Settings;

/// More rounds than any plan needs: another writer is active all the time.
const ROUNDS: usize = 4;

#[derive(Debug, thiserror::Error)]
pub enum ConflistError {
    #[error(transparent)]
    File(#[from] FileError),
    /// No entry to install.
    #[error(transparent)]
    Entry(#[from] EntryError),
    /// Needs an action of somebody else.
    #[error(transparent)]
    NotRight(#[from] NotRight),
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

/// Report of a pass.
#[derive(Debug)]
pub struct PassReport {
    /// True if a binary was written.
    pub binaries: Result<bool, FileError>,
    /// True if the credentials were written.
    pub kubeconfig: Result<bool, KubeconfigError>,
    /// File with our entry.
    pub conflist: Result<String, ConflistError>,
    /// Steps taken on configurations.
    pub steps: Vec<Step>,
    /// Other writer.
    pub rival: Rival,
}

/// State between passes.
#[derive(Debug, Default)]
pub struct Installer {
    known: Known,
    made: BTreeSet<String>,
    versions: Versions,
    /// Temporaries that a killed agent left among the configurations were removed.
    tidy: bool,
    rival: Rival,
}

impl Installer {
    /// Reconciles the node.
    pub fn pass(&mut self, settings: &Settings, touch: &Touch) -> PassReport {
        let binaries = binaries::install(&settings.places, &mut self.known);
        let kubeconfig = credentials(settings);
        let mut steps = Vec::new();
        let conflist = self.conflist(settings, touch, &mut steps);
        PassReport { binaries, kubeconfig, conflist, steps, rival: self.rival }
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
            let now = directory::read(net_dir)?;
            self.rival = Rival::among(now.files.keys().map(String::as_str));
            if !self.tidy {
                directory::tidy(net_dir)?;
                self.tidy = true;
            }
            let types = if chain.raise_version { now.types() } else { BTreeSet::new() };
            let able = self.versions.able(&settings.places.target_dirs, types);
            let plan = DesiredConflist { chain, entry: &entry, made: &self.made, able: &able }.plan(&now);
            if plan.steps.is_empty() {
                let target = plan.then?;
                // A file of our own, also if a former agent made it.
                if chain.owned || !chain.chained {
                    self.made.insert(target.clone());
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
                Step::Write { name, .. } => {
                    tracing::info!(target: "install", file = name, "wrote our entry into the network's configuration");
                    if !now.files.contains_key(name) {
                        self.made.insert(name.clone());
                    }
                }
                Step::Remove { name } => {
                    tracing::info!(target: "install", file = name, "removed a configuration whose place another took");
                }
            }
            taken.push(step);
        }
        Ok(())
    }
}

/// The credentials, and the directory that they are in. Whether they were not right.
fn credentials(settings: &Settings) -> Result<bool, KubeconfigError> {
    let run_dir = &settings.places.run_dir;
    files::make_directory(run_dir)?;
    // Not those of the back end's record, which is written beside this.
    files::remove_stale_temporaries(run_dir, &|name| name == KUBECONFIG)?;
    kubeconfig::install(settings)
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
