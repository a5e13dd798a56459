// SPDX-License-Identifier: Apache-2.0
//! Matching of requests by a fault: by resource, user, number, time and chance.

use std::ops::Range;

use k8s_openapi::jiff::Timestamp;

use super::{Effect, RequestInfo, Rule};
use crate::route::Verb;

/// A rule: matching requests, their number, and the effect.
#[derive(Debug, Clone)]
pub struct Fault {
    /// Verb; a list is also a watch that begins with one.
    pub verb: Option<Verb>,
    /// Prefix of the path; empty for all.
    pub path: String,
    /// Only this resource, written as in [`crate::Grant::new`]: `pods`, `pods/status`, `daemonsets.apps`.
    pub resource: Option<String>,
    /// Only this object; for a list or a watch, only if its field selector asks for this name.
    pub name: Option<String>,
    /// Only this user (`system:admin`, `system:serviceaccount:NAMESPACE:NAME`, `system:anonymous`).
    pub user: Option<String>,
    /// Only with the token of a pod of this name: pods of one account are one user.
    pub pod: Option<String>,
    /// Number of matching requests to skip.
    pub skip: u32,
    /// Number of requests to hit after those; then the rule is spent.
    pub times: Option<u32>,
    /// Limits the rule to a time by the API server's clock.
    pub during: Option<Range<Timestamp>>,
    /// Limits the rule to a random part.
    pub odds: Option<Odds>,
    pub effect: Effect,
}

/// A random choice that repeats with its seed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Odds {
    pub percent: u8,
    pub seed: u64,
}

impl Fault {
    /// A fault for every request.
    #[must_use]
    pub fn always(effect: Effect) -> Self {
        let path = String::new();
        Self {
            verb: None,
            path,
            resource: None,
            name: None,
            user: None,
            pod: None,
            skip: 0,
            times: None,
            during: None,
            odds: None,
            effect,
        }
    }

    /// A fault for every request of a verb whose path begins with `path`.
    #[must_use]
    pub fn on(verb: Verb, path: &str, effect: Effect) -> Self {
        Self { verb: Some(verb), path: path.to_owned(), ..Self::always(effect) }
    }

    /// A fault for every request of a verb about a resource.
    #[must_use]
    pub fn about(verb: Verb, resource: &str, effect: Effect) -> Self {
        Self { verb: Some(verb), resource: Some(resource.to_owned()), ..Self::always(effect) }
    }

    /// Limits the fault to the first `times` requests.
    #[must_use]
    pub fn first(self, times: u32) -> Self {
        Self { times: Some(times), ..self }
    }
}

impl Rule {
    /// True if a request is hit; a match is counted.
    pub(super) fn strikes(&mut self, asked: &RequestInfo, now: Timestamp) -> bool {
        let fault = &self.fault;
        let spent = fault.times.is_some_and(|times| self.hits >= times);
        let fits = |only: &Option<String>, is: Option<&String>| only.is_none() || only.as_ref() == is;
        let is_verb = |only| only == asked.verb || only == Verb::List && asked.is_streamed_list;
        let meant = fault.verb.is_none_or(is_verb)
            && asked.path.starts_with(&fault.path)
            && fits(&fault.resource, asked.resource.as_ref())
            && fits(&fault.name, asked.name.as_ref())
            && fits(&fault.user, Some(&asked.user))
            && fits(&fault.pod, asked.pod.as_ref())
            && fault.during.as_ref().is_none_or(|during| during.contains(&now));
        if spent || !meant {
            return false;
        }
        self.seen += 1;
        let lucky = fault.odds.is_some_and(|odds| self.dice.percent() >= u64::from(odds.percent));
        if self.seen <= fault.skip || lucky {
            return false;
        }
        self.hits += 1;
        true
    }
}
