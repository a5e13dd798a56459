// SPDX-License-Identifier: Apache-2.0
//! How many requests of a kind are, and were at most, in flight at once: from their arrival to the last byte of the answer.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::route::Verb;

/// Which requests are counted together.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Route {
    pub(crate) user: String,
    pub(crate) verb: Verb,
    pub(crate) resource: String,
}

/// Requests in flight.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct InFlight {
    /// Now.
    pub now: usize,
    /// At most so far.
    pub peak: usize,
}

/// The count of every route that was ever flown.
#[derive(Clone, Default)]
pub(crate) struct Flights(Arc<Mutex<BTreeMap<Route, InFlight>>>);

impl Flights {
    fn change(&self, route: &Route, change: impl FnOnce(&mut InFlight)) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        change(all.entry(route.clone()).or_default());
    }

    /// A request that flies until the guard is dropped.
    pub(crate) fn begin(&self, route: Route) -> Flight {
        self.change(&route, |count| {
            count.now += 1;
            count.peak = count.peak.max(count.now);
        });
        Flight { route, all: self.clone() }
    }

    pub(crate) fn of(&self, route: &Route) -> InFlight {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.get(route).copied().unwrap_or_default()
    }
}

/// A request in flight.
pub(crate) struct Flight {
    route: Route,
    all: Flights,
}

impl Drop for Flight {
    fn drop(&mut self) {
        self.all.change(&self.route, |count| count.now = count.now.saturating_sub(1));
    }
}
