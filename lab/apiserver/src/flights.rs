// SPDX-License-Identifier: Apache-2.0
//! Requests in flight by kind, now and at most: from their arrival to the last byte of the response.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::route::Verb;

/// Requests that are counted together.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FlightKey {
    pub(crate) user: String,
    pub(crate) verb: Verb,
    pub(crate) resource: String,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct InFlight {
    pub now: usize,
    /// Maximum so far.
    pub peak: usize,
}

/// Counts of every route so far.
#[derive(Clone, Default)]
pub(crate) struct Flights(Arc<Mutex<BTreeMap<FlightKey, InFlight>>>);

impl Flights {
    fn change(&self, route: &FlightKey, change: impl FnOnce(&mut InFlight)) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        change(all.entry(route.clone()).or_default());
    }

    /// Request in flight until the guard is dropped.
    pub(crate) fn begin(&self, route: FlightKey) -> Flight {
        self.change(&route, |count| {
            count.now += 1;
            count.peak = count.peak.max(count.now);
        });
        Flight { route, all: self.clone() }
    }

    pub(crate) fn of(&self, route: &FlightKey) -> InFlight {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.get(route).copied().unwrap_or_default()
    }
}

pub(crate) struct Flight {
    route: FlightKey,
    all: Flights,
}

impl Drop for Flight {
    fn drop(&mut self) {
        self.all.change(&self.route, |count| count.now = count.now.saturating_sub(1));
    }
}
