// SPDX-License-Identifier: Apache-2.0
//! The evaluator's prediction for a packet, in observable terms.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use redirect::Config;
use redirect::packet::Outcome;
use redirect::ruleset::{Dialect, Family};
use redirect::verdict::Judge;

use crate::counters::{Place as RulePlace, met_by};
use crate::derive::{APP, proxy, proxy_ports};
use crate::exchange::Seen;
use crate::flow::{Course, End, Pod, Shape, follow};
use crate::net::{self, Place};
use crate::packet::{Kind, Spec};

/// Predicted observation of a packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expected {
    /// Its outcome.
    pub seen: Seen,
    /// Verdict on the first packet, in a word.
    pub word: &'static str,
    /// The rules whose counters move.
    pub moved: BTreeSet<RulePlace>,
}

/// The pod that a configuration is programmed into, as the evaluator knows it.
#[must_use]
pub fn pod(config: &Config) -> Pod {
    let mut routed_marks = Vec::new();
    if let Some(routes) = netfilter::ground::policy_routes(config) {
        routed_marks.push((Family::V4, routes.mark));
        if routes.ipv6 {
            routed_marks.push((Family::V6, routes.mark));
        }
    }
    Pod {
        links: net::links(),
        routed_marks,
        app: APP,
        proxy: proxy(config),
        proxy_ports: proxy_ports(config),
    }
}

/// Course of a packet and of its reply.
#[must_use]
pub fn course(judge: &Judge<'_>, pod: &Pod, spec: &Spec, source_port: u16) -> Course {
    follow(judge, pod, &spec.packet(source_port), spec.shape())
}

/// The evaluator's prediction.
#[must_use]
pub fn expect(dialect: Dialect, spec: &Spec, source_port: u16, course: &Course) -> Expected {
    let family = met_by(dialect, spec.family());
    let steps = course.verdicts.iter().flat_map(|verdict| &verdict.steps);
    let place = |step: &redirect::packet::Step| RulePlace {
        family,
        table: step.table.name_in(dialect).to_owned(),
        chain: step.chain.to_owned(),
        position: step.position,
    };
    let moved = steps.map(place).collect();
    Expected { seen: seen(spec, source_port, course), word: word(course), moved }
}

fn seen(spec: &Spec, source_port: u16, course: &Course) -> Seen {
    let (place, port, local) = match course.end {
        End::Dropped => return Seen::Silence,
        End::Left => (Place::Outside, spec.destination.port(), spec.destination),
        End::Delivered { port, local } => (Place::Pod, port, local),
    };
    if matches!(spec.shape(), Shape::Echo | Shape::Stray) {
        return if course.is_answered { Seen::Answered } else { Seen::Silence };
    }
    let is_stream = spec.kind == Kind::Tcp;
    if is_stream && !course.is_answered {
        // Nobody accepts half a handshake.
        return Seen::Silence;
    }
    Seen::Got {
        place,
        port,
        local: is_stream.then_some(local),
        peer: SocketAddr::new(spec.source, source_port),
        original: (is_stream && local != spec.destination).then_some(spec.destination),
        is_answered: course.is_answered,
    }
}

fn word(course: &Course) -> &'static str {
    let outcomes = || course.verdicts.iter().map(|verdict| verdict.outcome);
    let is = |wanted: fn(&Outcome) -> bool| outcomes().any(|outcome| wanted(&outcome));
    match course.end {
        End::Dropped => "dropped",
        _ if is(|outcome| matches!(outcome, Outcome::Intercepted { .. })) => "intercepted",
        _ if is(|outcome| matches!(outcome, Outcome::Redirected { .. })) => "redirected",
        _ => "untouched",
    }
}

/// True if `seen` is as expected. Conntrack's original destination is ignored where nothing changed it.
#[must_use]
pub fn agrees(expected: &Seen, seen: &Seen) -> bool {
    match (expected, seen) {
        (Seen::Got { original: None, .. }, Seen::Got { place, port, local, peer, is_answered, .. }) => {
            let without = Seen::Got {
                place: *place,
                port: *port,
                local: *local,
                peer: *peer,
                original: None,
                is_answered: *is_answered,
            };
            *expected == without
        }
        _ => expected == seen,
    }
}
