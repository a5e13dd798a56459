// SPDX-License-Identifier: Apache-2.0
//! Effects of a pass: readiness, metrics, events, and the delay of the next pass.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::fight::{self, Fight, Rival};
use super::pass::{ConflistError, PassReport, Permits, Touch, Written};
use super::task::InstallContext;
use crate::conflist::plan::Step;
use crate::events::{About, EventReason};
use crate::metrics::InstallResult;
use crate::readiness::Part;
use crate::runtime::Runtime;
use crate::runtime::loaded::{Installed, before};
use crate::settings::Settings;

/// Events can get lost (network file systems, an overflow): so much later it is looked all the same.
pub(super) const NET: Duration = Duration::from_secs(10);
/// First retry after an error.
const SOON: Duration = Duration::from_millis(250);
/// Longest retry after an error: inotify reports most of what ends one.
const LATE: Duration = NET;

/// Result of a pass.
#[derive(Debug)]
pub struct Look {
    /// Settings of the pass.
    pub settings: Arc<Settings>,
    pub report: PassReport,
    /// Start of the pass.
    pub begun: Instant,
    /// When the first of the changes that led to it was heard of; its beginning if it was due.
    pub since: Instant,
}

/// State between passes.
#[derive(Debug, Default)]
pub struct Judge {
    fight: Fight,
    rival: Rival,
    files: Fight,
    /// Contested of them.
    contested: &'static str,
    right: Option<Right>,
    /// The last pass found our entry, or wrote it.
    is_installed: bool,
    said: Option<Said>,
    failures: u32,
}

/// Our entry, while it is installed.
#[derive(Debug, Clone)]
struct Right {
    /// Its file.
    file: String,
    /// Its settings: a change of them is ours to write, and no heal.
    settings: Arc<Settings>,
}

/// Last log line on the installation as a whole.
#[derive(Debug, PartialEq, Eq)]
enum Said {
    Installed,
    Not(String),
}

impl Right {
    fn is_still_wanted(&self, settings: &Settings) -> bool {
        (&self.settings.chain, &self.settings.entry) == (&settings.chain, &settings.entry)
    }
}

impl Judge {
    /// Decides what may be touched now.
    #[must_use]
    pub fn permits(&self, now: Instant) -> Permits {
        let unless = |fight: &Fight, why: &dyn Fn() -> String| match fight.hold(now) {
            Some(_) => Touch::Later(why()),
            None => Touch::Now,
        };
        let file = self.file().unwrap_or("the configuration");
        Permits {
            conflist: unless(&self.fight, &|| fight::reason(file, self.rival)),
            files: unless(&self.files, &|| fight::reason_of_files(self.contested)),
        }
    }

    fn file(&self) -> Option<&str> {
        self.right.as_ref().map(|right| right.file.as_str())
    }

    /// Publishes the result of a pass; returns the delay of the next one.
    pub fn judge(&mut self, look: &Look, context: &InstallContext) -> Duration {
        let (report, readiness) = (&look.report, &context.readiness);
        match &report.binaries {
            Ok(_) => readiness.set_ready(Part::Binaries),
            Err(error) => readiness.set_unready(Part::Binaries, error.to_string()),
        }
        match &report.kubeconfig {
            Ok(_) => readiness.set_ready(Part::Kubeconfig),
            Err(error) => readiness.set_unready(Part::Kubeconfig, error.to_string()),
        }
        self.load(look, &context.runtime);
        match &report.conflist {
            Ok(_) => readiness.set_ready(Part::Conflist),
            Err(error) => readiness.set_unready(Part::Conflist, error.to_string()),
        }
        self.heal(look, context);
        self.heal_files(look, context);
        self.count(report, context);
        self.next(report, look.begun)
    }

    /// Reports to the runtime's follower since when it has to load our entry.
    fn load(&mut self, Look { settings, report, .. }: &Look, runtime: &Runtime) {
        let Ok(file) = &report.conflist else {
            self.is_installed = false;
            return runtime.lost();
        };
        let was_installed = std::mem::replace(&mut self.is_installed, true);
        let now = tokio::time::Instant::now();
        let since = if !report.steps.is_empty() {
            Some(now)
        } else if was_installed && self.file() == Some(file) {
            return runtime.networks(&report.networks);
        } else {
            // Another agent's node, or a foreign change that made the directory right.
            before(now, report.unchanged)
        };
        let file = settings.places.shown(&settings.places.net_dir).join(file).display().to_string();
        runtime.installed(Installed { file, networks: report.networks.clone(), since });
    }

    /// Records a heal, if our entry was reverted. Whoever is faster than a pass reverts each of its writes, and is fought as often.
    fn heal(&mut self, look: &Look, context: &InstallContext) {
        let Look { settings, report, begun, since } = look;
        self.rival = report.rival;
        if let Some(before) = self.right.as_ref().filter(|before| before.is_still_wanted(settings)) {
            if report.conflist.is_ok() && !report.steps.is_empty() {
                context.metrics.healed(since.elapsed());
            }
            if (0..rounds(&report.steps)).any(|_| self.fight.healed(*begun).is_some()) {
                context.metrics.fight();
                tell_fight(fight::reason(&before.file, self.rival), context);
            }
        }
        if let Ok(file) = &report.conflist {
            self.right = Some(Right { file: file.clone(), settings: settings.clone() });
        } else if report.steps.iter().any(|step| matches!(step, Step::Remove { .. })) {
            self.right = None;
        }
    }

    /// Records that a file of ours was replaced.
    fn heal_files(&mut self, look: &Look, context: &InstallContext) {
        let is_again = |written: Option<&Written>| written == Some(&Written::Again);
        let of_binaries = is_again(look.report.binaries.as_ref().ok());
        if of_binaries || is_again(look.report.kubeconfig.as_ref().ok()) {
            self.contested = if of_binaries { "the plugin's binary" } else { "the plugin's credentials" };
            if self.files.healed(look.begun).is_some() {
                tell_fight(fight::reason_of_files(self.contested), context);
            }
        }
    }

    fn count(&mut self, report: &PassReport, context: &InstallContext) {
        let (result, failure) = outcome(report);
        let changed = !report.steps.is_empty()
            || report.binaries.as_ref().is_ok_and(|binaries| *binaries != Written::Not)
            || report.kubeconfig.as_ref().is_ok_and(|kubeconfig| *kubeconfig != Written::Not);
        let said = failure.map_or(Said::Installed, Said::Not);
        let news = self.said.as_ref().is_none_or(|before| *before != said);
        // A failure that lasts is counted each time, so that its rate tells of it.
        let again = result != InstallResult::Success;
        if news || changed || again {
            context.metrics.installed(result);
        }
        match &said {
            Said::Installed if news || changed => {
                tracing::info!(target: "install", file = self.file().unwrap_or_default(), "installed");
            }
            Said::Not(reason) if news => {
                tracing::warn!(target: "install", reason, "not installed");
                if matches!(&report.conflist, Err(ConflistError::NotRight(why, _)) if why.needs_user()) {
                    record(EventReason::CniConfigUnreached, reason.clone(), context);
                }
            }
            Said::Installed | Said::Not(_) => {}
        }
        self.said = Some(said);
    }

    /// After a failure sooner and then later; and when a fight's wait is over.
    fn next(&mut self, report: &PassReport, begun: Instant) -> Duration {
        let broken = report.binaries.is_err()
            || report.kubeconfig.is_err()
            || matches!(report.conflist, Err(ConflistError::File(_) | ConflistError::Restless));
        self.failures = if broken { self.failures + 1 } else { 0 };
        let wait = match self.failures {
            0 => NET,
            many => SOON.saturating_mul(1 << (many - 1).min(10)).min(LATE),
        };
        [&self.fight, &self.files].into_iter().filter_map(|fight| fight.hold(begun)).fold(wait, Duration::min)
    }
}

/// Rounds of a fight in a pass: as often as one file was touched. Whoever makes a file again that we remove is fought, too.
fn rounds(steps: &[Step]) -> usize {
    let mut touched = BTreeMap::new();
    for Step::Write { name, .. } | Step::Remove { name } in steps {
        *touched.entry(name).or_default() += 1;
    }
    touched.into_values().max().unwrap_or(0)
}

fn tell_fight(why: String, context: &InstallContext) {
    tracing::warn!(target: "install", "{why}");
    record(EventReason::CniConfigFight, why, context);
}

/// Records an event on the node.
fn record(reason: EventReason, why: String, context: &InstallContext) {
    let node = context.settings.borrow().own.node.clone();
    if !node.is_empty() {
        context.events.record(About::Node(node), reason, why);
    }
}

/// Metric label, and the error's text.
fn outcome(report: &PassReport) -> (InstallResult, Option<String>) {
    if let Err(error) = &report.binaries {
        return (InstallResult::CopyBinariesFailure, Some(error.to_string()));
    }
    if let Err(error) = &report.kubeconfig {
        return (InstallResult::CreateKubeconfigFailure, Some(error.to_string()));
    }
    match &report.conflist {
        Err(error) => (InstallResult::CreateCniConfigFailure, Some(error.to_string())),
        Ok(_) => (InstallResult::Success, None),
    }
}

#[cfg(test)]
#[path = "judge_tests.rs"]
mod tests;
