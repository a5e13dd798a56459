// SPDX-License-Identifier: Apache-2.0
//! Turns cucumber's events into verdicts: records them in the ledger and shows them on the board.

use std::any::Any;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use cucumber::event::{Cucumber, Feature, Hook, RetryableScenario, Scenario, Step, StepError};
use cucumber::{Event, cli, gherkin, parser, writer};

use crate::board::Show;
use crate::catalogue::Catalogue;
use crate::ledger::Ledger;
use crate::steps::world::LabWorld;
use crate::stop::Stop;
use crate::verdict::{Record, Verdict};

/// A scenario that has begun.
struct Running {
    since: Instant,
    record: Record,
}

pub struct Writer {
    catalogue: Arc<Catalogue>,
    ledger: Ledger,
    board: Box<dyn Show>,
    running: HashMap<String, Running>,
}

impl Writer {
    /// A writer that knows scenarios by this catalogue.
    #[must_use]
    pub fn new(catalogue: Arc<Catalogue>, ledger: Ledger, board: Box<dyn Show>) -> Self {
        Self { catalogue, ledger, board, running: HashMap::new() }
    }

    /// Adds a scenario that ended without having run.
    pub fn enter(&mut self, record: Record) {
        let record = self.ledger.enter(record);
        self.board.ended(&record);
    }

    fn scenario(
        &mut self,
        feature: &gherkin::Feature,
        scenario: &gherkin::Scenario,
        event: Scenario<LabWorld>,
    ) {
        let Some(entry) = self.catalogue.find(feature, scenario) else { return };
        let id = &entry.id;
        match event {
            Scenario::Started => {
                let record = entry.record(Verdict::Pass, None);
                self.running.insert(id.clone(), Running { since: Instant::now(), record });
            }
            Scenario::Background(step, event) | Scenario::Step(step, event) => {
                if let (Some((verdict, reason)), Some(running)) = (stopped(event), self.running.get_mut(id)) {
                    running.record.verdict = verdict;
                    running.record.reason = Some(reason);
                    running.record.step = Some(format!("{} {}", step.keyword.trim(), step.value));
                    running.record.step_kind = Some(step.ty.into());
                }
            }
            Scenario::Hook(which, Hook::Failed(_, info)) => {
                if let Some(running) = self.running.get_mut(id) {
                    running.record.verdict = Verdict::Inconclusive;
                    running.record.reason = Some(format!("the {which} hook failed: {}", text_of(&info)));
                }
            }
            Scenario::Finished => {
                if let Some(mut running) = self.running.remove(id) {
                    running.record.seconds = running.since.elapsed().as_secs_f64();
                    self.enter(running.record);
                }
            }
            Scenario::Hook(..) | Scenario::Log(_) => {}
        }
    }
}

/// Verdict of a step's event, if it ends the scenario.
fn stopped(event: Step<LabWorld>) -> Option<(Verdict, String)> {
    match event {
        Step::Started | Step::Passed(..) => None,
        Step::Skipped | Step::Failed(.., StepError::NotFound) => {
            Some((Verdict::Fail, "no step of this lab matches this line".to_owned()))
        }
        Step::Failed(.., StepError::AmbiguousMatch(error)) => {
            Some((Verdict::Inconclusive, format!("several steps match this line: {error}")))
        }
        Step::Failed(.., StepError::Panic(info)) => Some(Stop::classify(&text_of(&info))),
    }
}

fn text_of(info: &Arc<dyn Any + Send>) -> String {
    info.downcast_ref::<String>()
        .cloned()
        .or_else(|| info.downcast_ref::<&str>().map(ToString::to_string))
        .unwrap_or_else(|| "a panic without text".to_owned())
}

impl cucumber::Writer<LabWorld> for Writer {
    type Cli = cli::Empty;

    async fn handle_event(&mut self, event: parser::Result<Event<Cucumber<LabWorld>>>, _cli: &Self::Cli) {
        // The catalogue has parsed all features before, so an error of the parser cannot occur here.
        let Ok(event) = event else { return };
        if let Cucumber::Feature(feature, Feature::Scenario(scenario, RetryableScenario { event, .. })) =
            event.into_inner()
        {
            self.scenario(&feature, &scenario, event);
        }
    }
}

/// Events of different scenarios may interleave: each is told by its scenario's identity.
impl writer::Normalized for Writer {}
