// SPDX-License-Identifier: Apache-2.0
//! Plays the scenarios of a run side by side. Cucumber polls all scenarios of one of its runs on one thread, where a step that computes
//! or blocks holds up the others: each scenario is a run of its own here, on one of as many threads as scenarios may run at a time.

use std::collections::VecDeque;
use std::panic;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};

use cluster::Probe;
use cucumber::{Cucumber, World as _, WriterExt as _, cli, event, gherkin, runner, step};
use futures::FutureExt as _;
use futures::stream;
use tokio::runtime::Handle;
use tokio::sync::watch;

use crate::board::{self, Board, Show};
use crate::catalogue::{self, Catalogue, Entry};
use crate::evidence;
use crate::ledger::Ledger;
use crate::mutants::progress::Progress;
use crate::plan::{Plan, Sut};
use crate::probe;
use crate::steps::world::{Lab, LabWorld};
use crate::tier::Session;
use crate::verdict::Verdict;
use crate::writer::Writer;

/// Tag of scenarios that have the machine for themselves.
const SERIAL: &str = "serial";

/// Runs every selected scenario that can run here; the others are entered with the reason. Returns when all have ended, or after
/// `stop`, and then true: what runs at that moment is dropped, with the nodes that it has.
pub async fn scenarios(
    plan: &Arc<Plan>,
    catalogue: &Arc<Catalogue>,
    ledger: &Ledger,
    probes: &[Probe],
    session: Option<Session>,
    stop: impl Future<Output = ()>,
) -> bool {
    let board: Box<dyn Show> = match &plan.mutants {
        Some(_) => Box::new(Progress::new(catalogue)),
        None => Box::new(Board::new(&catalogue.groups())),
    };
    let mut writer = Writer::new(Arc::clone(catalogue), ledger.clone(), board);
    let mut runnable = Vec::new();
    for feature in &catalogue.features {
        for scenario in &feature.scenarios {
            let entry = catalogue.find(feature, scenario);
            match entry.and_then(|entry| Some((entry, cannot_run(entry, &plan.sut, probes)?))) {
                Some((entry, (verdict, why))) => writer.enter(entry.record(verdict, Some(why))),
                None => runnable.push(alone(feature, scenario)),
            }
        }
    }
    runnable.sort_by_key(|feature| !catalogue::is_long(feature));
    let (serial, rest) = runnable.into_iter().partition(is_serial);
    let (stopping, stopped) = watch::channel(false);
    let player = Player {
        lab: Lab::new(Arc::clone(plan), Arc::clone(catalogue), ledger.clone(), session),
        queue: Queue::default(),
        writer,
        steps: LabWorld::collection(),
        stopped,
    };
    // Each run of cucumber takes the hook of panics and puts it back: what it puts back is silent, too.
    let told = panic::take_hook();
    panic::set_hook(Box::new(|_| {}));
    let mut all = pin!(async {
        player.side_by_side(serial, 1).await;
        player.side_by_side(rest, plan.jobs.max(1)).await;
    });
    let interrupted = tokio::select! {
        () = &mut all => false,
        () = stop => {
            stopping.send_replace(true);
            all.await;
            true
        }
    };
    panic::set_hook(told);
    interrupted
}

/// A feature with one of its scenarios.
fn alone(feature: &gherkin::Feature, scenario: &gherkin::Scenario) -> gherkin::Feature {
    gherkin::Feature {
        keyword: feature.keyword.clone(),
        name: feature.name.clone(),
        description: feature.description.clone(),
        background: feature.background.clone(),
        scenarios: vec![scenario.clone()],
        rules: Vec::new(),
        tags: feature.tags.clone(),
        span: feature.span,
        position: feature.position,
        path: feature.path.clone(),
    }
}

/// Reason why a scenario cannot run here, or with these binaries.
fn cannot_run(entry: &Entry, sut: &Sut, probes: &[Probe]) -> Option<(Verdict, String)> {
    if let Some(refusal) = sut.product.refusal(&entry.tags) {
        return Some(refusal);
    }
    probe::unmet(entry, probes).map(|why| (Verdict::Inapplicable, why))
}

/// Scenarios that have not begun, each in a feature of its own.
type Queue = Arc<Mutex<VecDeque<gherkin::Feature>>>;

fn is_serial(feature: &gherkin::Feature) -> bool {
    let of_scenarios = feature.scenarios.iter().flat_map(|scenario| &scenario.tags);
    feature.tags.iter().chain(of_scenarios).any(|tag| tag == SERIAL)
}

/// Plays scenarios, one at a time.
#[derive(Clone)]
struct Player {
    lab: Arc<Lab>,
    queue: Queue,
    writer: Writer,
    steps: step::Collection<LabWorld>,
    stopped: watch::Receiver<bool>,
}

impl Player {
    /// Plays these, at most so many at a time.
    async fn side_by_side(&self, scenarios: Vec<gherkin::Feature>, players: usize) {
        let queue = Queue::new(Mutex::new(scenarios.into()));
        let play = |_| {
            let player = Self { queue: Arc::clone(&queue), ..self.clone() };
            tokio::task::spawn_blocking(move || Handle::current().block_on(player.play()))
        };
        let playing: Vec<_> = (0..players).map(play).collect();
        for ended in playing {
            if let Err(error) = ended.await {
                board::say(&format!("a thread that plays scenarios broke off: {error}"));
            }
        }
    }

    /// Plays scenarios of the queue until there are no more, or the run is stopped.
    async fn play(mut self) {
        let mut stopped = self.stopped.clone();
        let all = async {
            while let Some(feature) = self.next() {
                self.one(feature).await;
            }
        };
        tokio::select! {
            biased;
            // An error tells that the run itself is gone.
            _ = stopped.wait_for(|stopped| *stopped) => {}
            () = all => {}
        }
    }

    fn next(&self) -> Option<gherkin::Feature> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }

    async fn one(&mut self, feature: gherkin::Feature) {
        let (before, after) = (Arc::clone(&self.lab), Arc::clone(&self.lab));
        let runner = runner::Basic::default()
            .steps(self.steps.clone())
            .before(move |feature, _, scenario, world: &mut LabWorld| {
                world.begin(&before, feature, scenario);
                async {}.boxed_local()
            })
            .after(move |feature, _, scenario, finished, world| {
                let lab = Arc::clone(&after);
                async move { evidence::conclude(&lab, feature, scenario, failed(finished), world).await }
                    .boxed_local()
            });
        Cucumber::<LabWorld, _, (), _, _>::custom(
            Parsed(feature),
            runner,
            self.writer.clone().fail_on_skipped(),
        )
        .with_default_cli()
        .run(())
        .await;
    }
}

fn failed(finished: &event::ScenarioFinished) -> bool {
    !matches!(finished, event::ScenarioFinished::StepPassed)
}

/// A parsed feature.
struct Parsed(gherkin::Feature);

impl cucumber::Parser<()> for Parsed {
    type Cli = cli::Empty;
    type Output = stream::Iter<std::iter::Once<cucumber::parser::Result<gherkin::Feature>>>;

    fn parse(self, (): (), _: cli::Empty) -> Self::Output {
        stream::iter(std::iter::once(Ok(self.0)))
    }
}
