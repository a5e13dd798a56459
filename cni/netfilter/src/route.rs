// SPDX-License-Identifier: Apache-2.0
//! Policy routes: marked packets are looked up in a table of their own, whose one route delivers everything locally. That is how
//! a packet to anywhere reaches the socket that a TPROXY rule chose.
//!
//! Setting up is idempotent: what is there already counts, and rules and routes of others stay. A new rule is never refused as
//! a double: kernels differ in what they take for one, so the rules are listed first.

mod error;
mod message;
mod rule;

use std::fmt;

use redirect::ruleset::Family;
use rustix::io::Errno;

pub use error::RouteError;
use message::{
    Change, RTM_NEWROUTE, RTM_NEWRULE, is_local_default, list_routes, list_rules, loopback_up, number, write,
};
use rule::{PolicyRule, free_priority};

use crate::address::{ATTEMPTS, Rtnetlink};
use crate::netlink::{ExchangeError, Socket, deadline};
use crate::wire::{Malformed, Writer};

/// Packets that are delivered locally, and the table that says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PolicyRoutes {
    /// The mark of the packets.
    pub mark: u32,
    /// The table.
    pub table: u32,
    /// True if IPv6 packets are, too.
    pub ipv6: bool,
}

/// Half of what one family needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    /// `fwmark MARK lookup TABLE` at a priority.
    Rule { priority: u32 },
    /// `local default dev lo table TABLE`
    Route,
}

/// One change, for errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RouteChange {
    verb: &'static str,
    wanted: PolicyRoutes,
    family: Family,
    part: Part,
}

impl fmt::Display for RouteChange {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PolicyRoutes { mark, table, .. } = self.wanted;
        let (option, all) = match self.family {
            Family::V4 => ("", "0.0.0.0/0"),
            Family::V6 => (" -6", "::/0"),
        };
        match self.part {
            Part::Rule { .. } => write!(out, "ip{option} rule {} fwmark {mark} lookup {table}", self.verb),
            Part::Route => write!(out, "ip{option} route {} local {all} dev lo table {table}", self.verb),
        }
    }
}

/// Additions, so that exactly those can be taken back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddedRoutes {
    wanted: PolicyRoutes,
    parts: Vec<(Family, Part)>,
}

impl AddedRoutes {
    /// True if everything was there before.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }
}

impl Rtnetlink {
    /// Makes the namespace hold the policy routes. On an error it is as it was before, but for `lo`, which an IPv6 route needs up: containerd has
    /// it set up by a plugin of its own, at the same time as the pod's network (`setup_serially = false`).
    ///
    /// # Errors
    /// See [`RouteError`].
    pub fn add_policy_routes(&mut self, wanted: PolicyRoutes) -> Result<AddedRoutes, RouteError> {
        check(wanted)?;
        match self.try_add(wanted) {
            Err(RouteError::LoopbackDown(step)) => {
                let answer = self.socket().ask(&loopback_up(), |_| Ok(()));
                answer.map_err(|error| match error {
                    ExchangeError::Refused(_) => RouteError::LoopbackDown(step),
                    error => RouteError::listing(error),
                })?;
                self.try_add(wanted)
            }
            added => added,
        }
    }

    fn try_add(&mut self, wanted: PolicyRoutes) -> Result<AddedRoutes, RouteError> {
        let rules = self.policy_rules()?;
        let mut missing = Vec::with_capacity(4);
        for family in families(wanted) {
            let number = number(family);
            let ruled = rules.iter().any(|rule| rule.sends(number, wanted.mark, wanted.table));
            if !ruled {
                missing.push((family, Part::Rule { priority: free_priority(&rules, number) }));
            }
            missing.push((family, Part::Route));
        }
        let mut added = AddedRoutes { wanted, parts: Vec::with_capacity(missing.len()) };
        let mut failed = None;
        for ((family, part), errno) in self.change(Change::Add, wanted, &missing)? {
            match errno {
                0 => added.parts.push((family, part)),
                errno => {
                    failed = failed.or(self.missing(RouteChange { verb: "add", wanted, family, part }, errno))
                }
            }
        }
        let Some(error) = failed else { return Ok(added) };
        // Parts left if this fails, too, lead no packet anywhere: nothing has the mark without rules.
        let _ = self.take_back_routes(&added);
        Err(error)
    }

    /// True if the policy routes are there. Anybody may ask.
    ///
    /// # Errors
    /// If rules or routes cannot be listed.
    pub fn has_policy_routes(&mut self, wanted: PolicyRoutes) -> Result<bool, RouteError> {
        let rules = self.policy_rules()?;
        for family in families(wanted) {
            let number = number(family);
            let ruled = rules.iter().any(|rule| rule.sends(number, wanted.mark, wanted.table));
            if !ruled || !self.has_route(family, wanted.table)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Error for a rejected step; `None` if what it would add is there.
    fn missing(&mut self, step: RouteChange, errno: i32) -> Option<RouteError> {
        match (Errno::from_raw_os_error(errno), step.part) {
            // Somebody was quicker with the very same one.
            (Errno::EXIST, Part::Rule { .. }) => None,
            (Errno::EXIST, Part::Route) => match self.has_route(step.family, step.wanted.table) {
                Ok(true) => None,
                Ok(false) => Some(RouteError::Occupied(step)),
                Err(error) => Some(error),
            },
            _ => Some(RouteError::refused(step, errno)),
        }
    }

    /// Takes back what [`Rtnetlink::add_policy_routes`] added.
    ///
    /// # Errors
    /// See [`RouteError`]. What is gone already is none.
    pub fn take_back_routes(&mut self, added: &AddedRoutes) -> Result<(), RouteError> {
        self.remove(added.wanted, &added.parts)
    }

    /// Removes the policy routes, whoever added them: every rule that sends exactly these packets to the table, and the table's
    /// local default route.
    ///
    /// # Errors
    /// See [`RouteError`]. Having nothing to remove is none.
    pub fn remove_policy_routes(&mut self, wanted: PolicyRoutes) -> Result<(), RouteError> {
        check(wanted)?;
        let rules = self.policy_rules()?;
        let mut parts = Vec::new();
        for family in families(wanted) {
            let ours = rules.iter().filter(|rule| rule.sends(number(family), wanted.mark, wanted.table));
            parts.extend(ours.map(|rule| (family, Part::Rule { priority: rule.priority })));
            parts.push((family, Part::Route));
        }
        self.remove(wanted, &parts)
    }

    fn remove(&mut self, wanted: PolicyRoutes, parts: &[(Family, Part)]) -> Result<(), RouteError> {
        for ((family, part), errno) in self.change(Change::Remove, wanted, parts)? {
            if errno == 0 {
                continue;
            }
            match Errno::from_raw_os_error(errno) {
                Errno::NOENT | Errno::SRCH => {}
                // Without the family there is nothing to remove.
                Errno::AFNOSUPPORT | Errno::OPNOTSUPP => {}
                _ => {
                    return Err(RouteError::refused(
                        RouteChange { verb: "del", wanted, family, part },
                        errno,
                    ));
                }
            }
        }
        Ok(())
    }

    /// Sends all changes at once; each comes back with its error number, 0 if it was made.
    fn change<'p>(
        &mut self,
        change: Change,
        wanted: PolicyRoutes,
        parts: &'p [(Family, Part)],
    ) -> Result<impl Iterator<Item = ((Family, Part), i32)> + use<'p>, RouteError> {
        let mut answers = vec![None; parts.len()];
        if !parts.is_empty() {
            let mut request = Writer::with_capacity(64 * parts.len());
            for (family, part) in parts {
                write(&mut request, change, wanted, (*family, *part));
            }
            let socket = self.socket();
            socket.send(&request.into_bytes()).map_err(|errno| RouteError::Socket(errno.into()))?;
            let taken = socket.acknowledgements(|sequence, errno| {
                let place = usize::try_from(sequence).ok().and_then(|sequence| sequence.checked_sub(1));
                if let Some(answer) = place.and_then(|place| answers.get_mut(place)) {
                    *answer = Some(errno);
                }
            });
            taken.map_err(RouteError::listing)?;
        }
        if answers.contains(&None) {
            return Err(RouteError::Malformed);
        }
        Ok(parts.iter().copied().zip(answers.into_iter().flatten()))
    }

    fn policy_rules(&mut self) -> Result<Vec<PolicyRule>, RouteError> {
        self.dump(&list_rules(), |kind, body| match kind {
            RTM_NEWRULE => PolicyRule::read(body).map(Some),
            _ => Ok(None),
        })
    }

    /// True if the table's default route is the one that we would add.
    fn has_route(&mut self, family: Family, table: u32) -> Result<bool, RouteError> {
        let found = self.dump(&list_routes(family), |kind, body| match kind {
            RTM_NEWROUTE => is_local_default(body, table).map(|is| is.then_some(())),
            _ => Ok(None),
        })?;
        Ok(!found.is_empty())
    }

    fn dump<T>(
        &mut self,
        request: &[u8],
        mut read: impl FnMut(u16, &[u8]) -> Result<Option<T>, Malformed>,
    ) -> Result<Vec<T>, RouteError> {
        let deadline = deadline();
        for _ in 0..ATTEMPTS {
            let mut found = Vec::with_capacity(8);
            let answer = self.socket().ask_until(deadline, request, |message| {
                found.extend(read(message.kind, message.body)?);
                Ok(())
            });
            match answer {
                Ok(()) => return Ok(found),
                // The rest of this list is still to come: it must not be taken for the next one.
                Err(ExchangeError::Interrupted) => {
                    *self.socket() = Socket::route().map_err(|errno| RouteError::Socket(errno.into()))?;
                }
                Err(error) => return Err(RouteError::listing(error)),
            }
        }
        Err(RouteError::Busy)
    }
}

fn check(wanted: PolicyRoutes) -> Result<(), RouteError> {
    match wanted {
        PolicyRoutes { mark: 0, .. } => Err(RouteError::NoMark),
        PolicyRoutes { table: table @ (0 | 253..=255), .. } => Err(RouteError::ReservedTable(table)),
        _ => Ok(()),
    }
}

fn families(wanted: PolicyRoutes) -> impl Iterator<Item = Family> {
    [Family::V4].into_iter().chain(wanted.ipv6.then_some(Family::V6))
}
