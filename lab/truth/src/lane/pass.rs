// SPDX-License-Identifier: Apache-2.0
//! A configuration while its packets are sent.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use anyhow::ensure;
use redirect::ruleset::{Dialect, Family};
use redirect::verdict::Judge;

use crate::counters::{Known, Live, Place, met_by};
use crate::data::Case;
use crate::exchange::{self, Proxy};
use crate::expect::{self, Expected};
use crate::flow::Pod;
use crate::packet::Spec;

use super::Plan;

/// A configuration that is programmed.
pub(super) struct Pass<'a> {
    pub(super) case: &'a Case,
    pub(super) judge: Judge<'a>,
    pub(super) pod: &'a Pod,
    pub(super) proxy: &'a Proxy,
    pub(super) known: &'a [Known],
    pub(super) counters: Vec<(Place, u64)>,
    pub(super) live: Live,
    pub(super) met: BTreeSet<Place>,
    /// Families, whether UDP, and ports of the senders that conntrack may know.
    pub(super) senders: BTreeSet<(Family, bool, u16)>,
    /// Timeout for the expected counters.
    pub(super) settling: Duration,
}

impl Pass<'_> {
    /// The rules that moved since the last packet, of the tables that packets of its family meet. A packet that gets no answer ends without an event,
    /// so counters are read until they say what was expected, or for as long as one may be behind.
    pub(super) fn moved(
        &mut self,
        dialect: Dialect,
        family: Family,
        expected: &Expected,
    ) -> anyhow::Result<BTreeSet<Place>> {
        let deadline = Instant::now() + self.settling;
        let tables = met_by(dialect, family);
        loop {
            let after = self.live.packets(dialect, family)?;
            let before = || self.counters.iter().filter(|(place, _)| place.family == tables);
            ensure!(after.len() == before().count(), "{} rules are not those that were there", after.len());
            let pairs = before().zip(&after).filter(|((_, before), now)| before != *now);
            let moved: BTreeSet<Place> = pairs.map(|((place, _), _)| place.clone()).collect();
            if moved == expected.moved || Instant::now() >= deadline {
                let before = self.counters.iter_mut().filter(|(place, _)| place.family == tables);
                before.zip(after).for_each(|((_, before), now)| *before = now);
                return Ok(moved);
            }
        }
    }

    pub(super) fn describe(
        &self,
        plan: &Plan,
        spec: &Spec,
        expected: &Expected,
        seen: &exchange::Seen,
        moved: &BTreeSet<Place>,
    ) -> String {
        let mut text = format!("{} {}: {spec}", plan.backend, self.case.name);
        if !expect::agrees(&expected.seen, seen) {
            text.push_str(&format!("\n    evaluator: {:?}\n    kernel:    {seen:?}", expected.seen));
        }
        let rule = |place: &Place| {
            let known = self.known.iter().find(|rule| rule.place == *place);
            known.map_or_else(|| place.to_string(), |rule| format!("{place}  {}", rule.text))
        };
        for place in &expected.moved {
            let mark = if moved.contains(place) { ' ' } else { '-' };
            text.push_str(&format!("\n    {mark} {}", rule(place)));
        }
        for place in moved.difference(&expected.moved) {
            text.push_str(&format!("\n    + {}", rule(place)));
        }
        text
    }
}
