// SPDX-License-Identifier: Apache-2.0
//! Where the last action of a scenario began. Steps that look at logs, requests and events look behind it, so that what happened before is no answer.
//!
//! An action is a `When` with the `And`s after it: the mark is set before the first of them. Before any action it is the scenario's begin.

use std::collections::BTreeSet;
use std::sync::LazyLock;
use std::time::{Duration, SystemTime};

use cluster::{Asked, Position};
use cucumber::World as _;
use cucumber::codegen::{StepConstructor, WorldInventory, inventory};
use cucumber::gherkin::StepType;
use cucumber::step::{Collection, Context};
use futures::FutureExt as _;
use futures::future::LocalBoxFuture;

use crate::steps::events;
use crate::steps::world::LabWorld;
use crate::stop::Stop;

/// Time for the API server to tell its version: one that a fault holds up is not waited for.
const TOLD: Duration = Duration::from_secs(1);

/// A position in all that a scenario records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark {
    pub time: SystemTime,
    /// Number of the first request after it.
    pub requests: u64,
    /// Numbers of those before it that had no answer yet.
    pub open: BTreeSet<u64>,
    /// Version of the API's objects, if the server told it.
    pub version: Option<u64>,
}

impl Default for Mark {
    fn default() -> Self {
        Self { time: SystemTime::UNIX_EPOCH, requests: 0, open: BTreeSet::new(), version: None }
    }
}

impl Mark {
    /// Lines of a process that lives now.
    #[must_use]
    pub fn position(&self) -> Position {
        Position::Since(self.time)
    }

    /// True for a request that arrived behind it, or whose answer did.
    #[must_use]
    pub fn precedes(&self, request: &Asked) -> bool {
        request.order >= self.requests || request.code.is_some() && self.open.contains(&request.order)
    }
}

/// The marks of a scenario.
#[derive(Debug, Default)]
pub struct Marks {
    /// Keyword of the step before.
    last: Option<StepType>,
    current: Mark,
    former: Mark,
    /// The step that runs has set the mark.
    is_new: bool,
}

impl Marks {
    /// True if a step begins an action.
    fn begins(&self, step: StepType) -> bool {
        step == StepType::When && self.last != Some(StepType::When)
    }

    fn set(&mut self, mark: Mark) {
        self.former = std::mem::replace(&mut self.current, mark);
    }

    fn enter(&mut self, step: StepType, is_new: bool) {
        (self.last, self.is_new) = (Some(step), is_new);
    }

    /// The begin of the last action.
    #[must_use]
    pub fn last(&self) -> Mark {
        self.current.clone()
    }

    /// For a `When` that waits for an event: one that begins an action waits for what the action before it caused.
    #[must_use]
    pub fn awaited(&self) -> Mark {
        if self.is_new { self.former.clone() } else { self.current.clone() }
    }
}

/// The position of now.
async fn now(world: &LabWorld) -> Mark {
    let mut mark = Mark { time: SystemTime::now(), ..Mark::default() };
    if let Some(tier) = &world.cluster {
        let requests = tier.front().map(|front| front.requests()).unwrap_or_default();
        mark.requests = requests.last().map_or(0, |last| last.order + 1);
        mark.open = requests.iter().filter(|one| one.code.is_none()).map(|one| one.order).collect();
        if world.looks_at_events {
            let told = tokio::time::timeout(TOLD, events::version(tier)).await;
            mark.version = told.ok().and_then(Result::ok).flatten();
        }
    }
    mark
}

/// Every step, as its macro registered it.
static STEPS: LazyLock<Collection<LabWorld>> = LazyLock::new(LabWorld::collection);

/// Every step, each behind [`marked`].
#[must_use]
pub fn collection() -> Collection<LabWorld> {
    let mut all = Collection::new();
    for step in inventory::iter::<<LabWorld as WorldInventory>::Given> {
        let (location, regex, _) = step.inner();
        all = all.given(Some(location), regex(), marked);
    }
    for step in inventory::iter::<<LabWorld as WorldInventory>::When> {
        let (location, regex, _) = step.inner();
        all = all.when(Some(location), regex(), marked);
    }
    for step in inventory::iter::<<LabWorld as WorldInventory>::Then> {
        let (location, regex, _) = step.inner();
        all = all.then(Some(location), regex(), marked);
    }
    all
}

/// Sets the mark where an action begins, and runs the step.
fn marked(world: &mut LabWorld, context: Context) -> LocalBoxFuture<'_, ()> {
    async move {
        let begins = world.marks.begins(context.step.ty);
        if begins {
            let mark = now(world).await;
            world.marks.set(mark);
        }
        world.marks.enter(context.step.ty, begins);
        match STEPS.find(&context.step) {
            Ok(Some((step, ..))) => step(world, context).await,
            // The runner has found it under the same pattern.
            _ => std::panic::panic_any(Stop::harness("the step is in no collection").to_string()),
        }
    }
    .boxed_local()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(requests: u64) -> Mark {
        Mark { requests, ..Mark::default() }
    }

    /// Plays steps; the marks after each of them.
    fn played(steps: &[StepType]) -> Vec<(u64, u64)> {
        let mut marks = Marks::default();
        let mut played = Vec::new();
        for (at, step) in (1..).zip(steps) {
            let begins = marks.begins(*step);
            if begins {
                marks.set(mark(at));
            }
            marks.enter(*step, begins);
            played.push((marks.last().requests, marks.awaited().requests));
        }
        played
    }

    #[test]
    fn a_mark_is_set_where_an_action_begins_and_stays_until_the_next_one() {
        use StepType::{Given, Then, When};
        let steps = [Given, Then, When, When, Then, Then, When, Then];
        let last = [(0, 0), (0, 0), (3, 0), (3, 3), (3, 3), (3, 3), (7, 3), (7, 7)];
        assert_eq!(played(&steps), last);
    }

    #[test]
    fn every_step_is_behind_a_mark() {
        let patterns = |all: &Collection<LabWorld>| format!("{all:?}").matches("steps/").count();
        assert_eq!(patterns(&collection()), patterns(&STEPS));
        assert!(patterns(&STEPS) > 300);
    }
}
