// SPDX-License-Identifier: Apache-2.0
//! A packet's way through the chains of its hook.

use super::compiled::{Asked, Called, Compiled, CompiledAction, CompiledRule};
use super::conditions::holds;
use crate::found::{ChainKind, Condition, Policy};
use crate::packet::{Connection, Hook, Outcome, Packet};
use crate::ruleset::{Id, Match, Owner};

/// Marks and zone of a packet so far.
#[derive(Debug, Clone, Copy)]
pub(super) struct State {
    pub(super) mark: u32,
    pub(super) connmark: u32,
    pub(super) zone: Option<u16>,
}

/// A rule: the numbers of its chain and of itself in it, from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RuleAt {
    pub(super) chain: usize,
    pub(super) rule: usize,
}

/// A rule that cannot be judged, and what of it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stop<'a> {
    pub(super) at: RuleAt,
    pub(super) what: &'a str,
}

/// Exit from a chain.
enum Left {
    /// At its end, or by RETURN: the caller goes on; a chain that the kernel called applies its policy.
    Returned,
    /// The packet passes this hook's chain.
    Accepted,
    /// The packet is gone.
    Dropped,
    /// Nobody can say.
    Stopped,
}

pub(super) struct Walk<'a> {
    packet: &'a Packet,
    rules: &'a Compiled<'a>,
    /// Chains that are being walked. The kernel refuses rules that come back to one of them.
    inside: Vec<usize>,
    pub(super) state: State,
    pub(super) outcome: Outcome,
    /// The port that REDIRECT wrote into the packet.
    pub(super) rewritten: Option<u16>,
    pub(super) steps: Vec<RuleAt>,
    pub(super) stopped: Option<Stop<'a>>,
}

impl<'a> Walk<'a> {
    pub(super) fn new(rules: &'a Compiled<'a>, packet: &'a Packet) -> Self {
        Self {
            packet,
            rules,
            inside: Vec::with_capacity(4),
            state: State { mark: packet.mark, connmark: packet.connmark, zone: None },
            outcome: Outcome::Untouched,
            rewritten: None,
            steps: Vec::new(),
            stopped: None,
        }
    }

    /// Walks the chains that run before `priority`.
    pub(super) fn before(&mut self, priority: i32) {
        let rules = self.rules;
        for called in rules.called.iter().take_while(|called| called.priority < priority) {
            if called.kind == ChainKind::First && !self.meets_nat() {
                continue;
            }
            match self.called(*called) {
                Left::Dropped => {
                    self.outcome = Outcome::Dropped;
                    return;
                }
                Left::Stopped => return,
                Left::Returned | Left::Accepted => {}
            }
        }
    }

    fn called(&mut self, called: Called) -> Left {
        match (self.chain(called.chain), called.policy) {
            (Left::Returned, Policy::Drop) => Left::Dropped,
            (left, _) => left,
        }
    }

    /// True if this packet meets the nat table: only the first of a connection does, and only until its destination is
    /// decided. A packet that arrives from `lo` has been through OUTPUT with the same conntrack entry, which settled it.
    /// (The first packet of a connection that a conntrack helper expected would meet it, too; no namespace of ours has one.)
    fn meets_nat(&self) -> bool {
        let is_decided = matches!(self.outcome, Outcome::Redirected { .. });
        self.packet.connection == Connection::New && !self.is_looped() && !is_decided
    }

    fn is_looped(&self) -> bool {
        self.packet.hook == Hook::Prerouting && self.packet.interface == "lo"
    }

    fn chain(&mut self, chain: usize) -> Left {
        let rules = self.rules;
        self.inside.push(chain);
        let left = self.rules(chain, &rules.chains[chain]);
        self.inside.pop();
        left
    }

    fn rules(&mut self, chain: usize, rules: &'a [CompiledRule<'a>]) -> Left {
        for (index, rule) in rules.iter().enumerate() {
            let at = RuleAt { chain, rule: index };
            match self.asks(rule) {
                Answer::No => continue,
                Answer::Yes => {}
                // Whatever it asks, it changes nothing.
                Answer::Unknown(_) if rule.done.iter().all(|done| *done == CompiledAction::Nothing) => {
                    continue;
                }
                Answer::Unknown(what) => return self.stop(at, what),
            }
            self.steps.push(at);
            for done in &rule.done {
                if let Some(left) = self.does(*done, at) {
                    return left;
                }
            }
        }
        Left::Returned
    }

    /// A condition that does not hold settles it, whatever the others are.
    fn asks(&self, rule: &CompiledRule<'a>) -> Answer<'a> {
        let holds = |condition| holds(condition, self.packet, &self.state, rule.dialect);
        match rule.asked {
            Asked::Wanted(matches) => {
                if matches.iter().all(holds) {
                    Answer::Yes
                } else {
                    Answer::No
                }
            }
            Asked::Found(conditions) => {
                let mut answer = Answer::Yes;
                for condition in conditions {
                    match condition {
                        Condition::Known(Match::Owner(
                            _,
                            Owner::Uid(Id::Name(name)) | Owner::Gid(Id::Name(name)),
                        )) if self.packet.uid.is_some() => {
                            answer = Answer::Unknown(name);
                        }
                        Condition::Known(known) if holds(known) => {}
                        Condition::Known(_) => return Answer::No,
                        Condition::Unknown(what) => answer = Answer::Unknown(what),
                    }
                }
                answer
            }
        }
    }

    fn stop(&mut self, at: RuleAt, what: &'a str) -> Left {
        self.stopped = Some(Stop { at, what });
        Left::Stopped
    }

    /// Does one thing that a rule says; `None` goes on with the next.
    fn does(&mut self, done: CompiledAction<'a>, at: RuleAt) -> Option<Left> {
        match done {
            CompiledAction::Accept => return Some(Left::Accepted),
            CompiledAction::Drop => return Some(Left::Dropped),
            CompiledAction::Return => return Some(Left::Returned),
            CompiledAction::Jump(chain) | CompiledAction::Goto(chain) if self.inside.contains(&chain) => {
                return Some(self.stop(at, "a jump back to where it came from"));
            }
            CompiledAction::Goto(chain) => return Some(self.chain(chain)),
            CompiledAction::Jump(chain) => {
                return match self.chain(chain) {
                    Left::Returned => None,
                    left => Some(left),
                };
            }
            CompiledAction::Redirect(port) => {
                self.rewritten = Some(port);
                // A packet that TPROXY gave to a socket stays with it, whatever nat writes into its header.
                if self.outcome == Outcome::Untouched {
                    self.outcome = Outcome::Redirected { port };
                }
                return Some(Left::Accepted);
            }
            CompiledAction::Unknown(what) => return Some(self.stop(at, what)),
            CompiledAction::Tproxy(port) => self.outcome = Outcome::Intercepted { port },
            CompiledAction::SetMark(mark) => self.state.mark = mark,
            CompiledAction::SaveMark if self.is_tracked() => self.state.connmark = self.state.mark,
            CompiledAction::RestoreMark if self.is_tracked() => self.state.mark = self.state.connmark,
            // Both xt's CT (xt_ct_target) and nft's `ct zone set` (nft_ct_set_zone_eval) leave a packet alone that has a
            // conntrack entry or a template already: the first zone stays.
            CompiledAction::CtZone(zone) if self.state.zone.is_none() && !self.is_looped() => {
                self.state.zone = Some(zone);
            }
            CompiledAction::SaveMark
            | CompiledAction::RestoreMark
            | CompiledAction::CtZone(_)
            | CompiledAction::Nothing => {}
        }
        None
    }

    fn is_tracked(&self) -> bool {
        self.packet.connection != Connection::Invalid
    }
}

/// Match result of a rule's conditions.
enum Answer<'a> {
    Yes,
    No,
    /// It depends on this.
    Unknown(&'a str),
}
