// SPDX-License-Identifier: Apache-2.0
//! Turns cucumber's events into verdicts: records them in the ledger and shows them on the board.

use std::any::Any;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use cucumber::event::{Cucumber, Feature, Hook, RetryableScenario, Scenario, Step, StepError};
use cucumber::{Event, cli, gherkin, parser, writer};

use crate::board::Show;
use crate::catalogue::Catalogue;
use crate::ledger::Ledger;
use crate::pulse;
use crate::steps::world::LabWorld;
use crate::stop::Stop;
use crate::verdict::{Class, Record, StepKind, StepTime, Verdict};

/// A scenario that has begun.
struct Running {
    since: SystemTime,
    /// Time that the machine had stood still until then.
    stalled: Duration,
    /// Start of the step that runs.
    step_since: SystemTime,
    /// Number of expectations that were met.
    met: usize,
    record: Record,
}

/// End of steps that choose a pod and expect nothing, whatever their keyword.
const CHOOSES: &str = "is meant";

/// True for a step that compares something.
fn is_expectation(step: &gherkin::Step) -> bool {
    StepKind::from(step.ty).is_expectation() && !step.value.ends_with(CHOOSES)
}

/// Reason why nothing is known of a scenario whose steps all passed.
const NOTHING_ASKED: &str =
    "no expectation was evaluated: a scenario has a Then step that looks at the system under test";

impl Running {
    /// Handles the event of a step: its duration, and the verdict if it ends the scenario.
    fn step(&mut self, step: &gherkin::Step, event: Step<LabWorld>, at: SystemTime) {
        let text = || format!("{} {}", step.keyword.trim(), step.value);
        if matches!(event, Step::Started) {
            self.step_since = at;
            return;
        }
        self.record.steps.push(StepTime { step: text(), seconds: seconds(self.step_since, at) });
        self.met += usize::from(matches!(event, Step::Passed(..)) && is_expectation(step));
        if let Some((verdict, class, reason)) = stopped(event) {
            self.record.verdict = verdict;
            self.record.class = class;
            self.record.reason = Some(reason);
            self.record.step = Some(text());
            self.record.step_kind = Some(step.ty.into());
        }
    }

    /// Record of the scenario that has ended: what asked nothing has shown nothing.
    fn ended(mut self, at: SystemTime) -> Record {
        self.record.seconds = seconds(self.since, at);
        if self.record.verdict == Verdict::Fail {
            self.excused(pulse::stalled().saturating_sub(self.stalled), at);
        }
        if self.record.verdict == Verdict::Pass && self.met == 0 {
            (self.record.verdict, self.record.reason) =
                (Verdict::Inconclusive, Some(NOTHING_ASKED.to_owned()));
        }
        self.record
    }

    /// Takes a failure back where the machine stood still for so long that it decides nothing.
    fn excused(&mut self, stalled: Duration, at: SystemTime) {
        let Some(why) = pulse::excuse(stalled, at.duration_since(self.since).unwrap_or_default()) else {
            return;
        };
        let record = &mut self.record;
        let failed = record.reason.replace(why).unwrap_or_default();
        record.notes.push(format!("failed beside that: {failed}"));
        (record.verdict, record.class) = (Verdict::Inconclusive, Some(Class::Machine));
    }
}

/// Time between two events, in seconds. A clock that was set back in between gives 0.
fn seconds(since: SystemTime, until: SystemTime) -> f64 {
    until.duration_since(since).unwrap_or_default().as_secs_f64()
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
        (event, at): (Scenario<LabWorld>, SystemTime),
    ) {
        let Some(entry) = self.catalogue.find(feature, scenario) else { return };
        let id = &entry.id;
        match event {
            Scenario::Started => {
                let record = entry.record(Verdict::Pass, None);
                self.running.insert(
                    id.clone(),
                    Running { since: at, stalled: pulse::stalled(), step_since: at, met: 0, record },
                );
            }
            Scenario::Background(step, event) | Scenario::Step(step, event) => {
                if let Some(running) = self.running.get_mut(id) {
                    running.step(&step, event, at);
                }
            }
            Scenario::Hook(which, Hook::Failed(_, info)) => {
                if let Some(running) = self.running.get_mut(id) {
                    let why = format!("the {which} hook failed: {}", text_of(&info));
                    if running.record.verdict == Verdict::Pass {
                        (running.record.verdict, running.record.reason) = (Verdict::Inconclusive, Some(why));
                    } else {
                        running.record.notes.push(why);
                    }
                }
            }
            Scenario::Finished => {
                if let Some(running) = self.running.remove(id) {
                    self.enter(running.ended(at));
                }
            }
            Scenario::Hook(..) | Scenario::Log(_) => {}
        }
    }
}

/// Verdict of a step's event, if it ends the scenario.
fn stopped(event: Step<LabWorld>) -> Option<(Verdict, Option<Class>, String)> {
    match event {
        Step::Started | Step::Passed(..) => None,
        Step::Skipped | Step::Failed(.., StepError::NotFound) => {
            let why = "no step of this lab matches this line, with this keyword: `cnilab steps WORD` prints those with a word in them";
            Some((Verdict::Inconclusive, None, why.to_owned()))
        }
        Step::Failed(.., StepError::AmbiguousMatch(error)) => {
            Some((Verdict::Inconclusive, None, format!("several steps match this line: {error}")))
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
        // The catalogue has parsed all features before, so an error of the parser cannot occur here. Times are those of the events: a step
        // that blocks the executor delays their handling.
        let Ok(Event { value: event, at, .. }) = event else { return };
        if let Cucumber::Feature(feature, Feature::Scenario(scenario, RetryableScenario { event, .. })) =
            event
        {
            self.scenario(&feature, &scenario, (event, at));
        }
    }
}

/// Events of different scenarios may interleave: each is told by its scenario's identity.
impl writer::Normalized for Writer {}
