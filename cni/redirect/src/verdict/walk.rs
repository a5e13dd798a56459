// SPDX-License-Identifier: Apache-2.0
//! A packet's way through the chains of its hook.

use super::conditions::holds;
use crate::packet::{Connection, Hook, Outcome, Packet, Step, Verdict};
use crate::ruleset::{Chain, ChainRules, Dialect, Rule, Ruleset, Table, Target};
use crate::text;

/// The tables in the order in which hooks call them (priorities -300, -150, -100). No filter: we have no rules there.
const ORDER: [Table; 3] = [Table::Raw, Table::Mangle, Table::Nat];

/// What rules have made of a packet so far.
#[derive(Debug, Clone, Copy)]
pub(super) struct State {
    pub(super) mark: u32,
    pub(super) connmark: u32,
    zone: Option<u16>,
}

/// How a chain was left.
enum Left {
    /// At its end, or by RETURN: the caller goes on; a built-in chain accepts.
    Returned,
    /// The packet passes this table.
    Accepted,
    /// The packet is gone.
    Dropped,
}

pub(super) struct Walk<'a> {
    packet: &'a Packet,
    dialect: Dialect,
    chains: Vec<ChainRules<'a>>,
    /// Chains that are being walked. The kernel refuses a ruleset that comes back to one of them.
    inside: Vec<Chain>,
    state: State,
    outcome: Outcome,
    steps: Vec<Step>,
}

impl<'a> Walk<'a> {
    pub(super) fn new(ruleset: &'a Ruleset, packet: &'a Packet) -> Self {
        Self {
            packet,
            dialect: ruleset.dialect,
            chains: match ruleset.dialect {
                Dialect::Iptables => ruleset.chains(packet.family()),
                Dialect::Nft => ruleset.inet_chains(),
            },
            inside: Vec::with_capacity(4),
            state: State { mark: packet.mark, connmark: packet.connmark, zone: None },
            outcome: Outcome::Untouched,
            steps: Vec::new(),
        }
    }

    pub(super) fn run(mut self) -> Verdict {
        let entry = match self.packet.hook {
            Hook::Prerouting => Chain::Prerouting,
            Hook::Output => Chain::Output,
        };
        for table in ORDER {
            if table == Table::Nat && !self.meets_nat() {
                break;
            }
            if matches!(self.chain(table, entry), Left::Dropped) {
                self.outcome = Outcome::Dropped;
                break;
            }
        }
        let State { mark, connmark, zone } = self.state;
        Verdict { outcome: self.outcome, steps: self.steps, mark, connmark, zone: zone.unwrap_or(0) }
    }

    /// Whether this packet meets the nat table: only the first of a connection does, and only once for its destination. A
    /// packet that arrives from `lo` has been through OUTPUT with the same conntrack entry, which settled it.
    /// (The first packet of a connection that a conntrack helper expected would meet it, too; no namespace of ours has one.)
    fn meets_nat(&self) -> bool {
        self.packet.connection == Connection::New && !self.is_looped()
    }

    fn is_looped(&self) -> bool {
        self.packet.hook == Hook::Prerouting && self.packet.interface == "lo"
    }

    fn chain(&mut self, table: Table, chain: Chain) -> Left {
        let Some(at) = self.chains.iter().position(|rules| (rules.table, rules.chain) == (table, chain))
        else {
            return Left::Returned;
        };
        if self.inside.contains(&chain) {
            return Left::Returned;
        }
        self.inside.push(chain);
        let left = self.rules(at);
        self.inside.pop();
        left
    }

    fn rules(&mut self, at: usize) -> Left {
        for index in 0..self.chains[at].rules.len() {
            let rule = self.chains[at].rules[index];
            if !rule.matches.iter().all(|condition| holds(condition, self.packet, &self.state, self.dialect))
            {
                continue;
            }
            self.note(rule, index);
            if let Some(left) = self.target(rule) {
                return left;
            }
        }
        Left::Returned
    }

    fn note(&mut self, rule: &Rule, index: usize) {
        self.steps.push(Step {
            table: rule.table,
            chain: match self.dialect {
                Dialect::Iptables => rule.chain.name(),
                Dialect::Nft => rule.chain.native_name(),
            },
            position: index + 1,
            rule: text::rule(self.dialect, rule),
            origin: rule.origin,
        });
    }

    /// Does what a rule says; `None` goes on with the next rule.
    fn target(&mut self, rule: &Rule) -> Option<Left> {
        match rule.target {
            Target::Accept => return Some(Left::Accepted),
            Target::Drop => return Some(Left::Dropped),
            Target::Return => return Some(Left::Returned),
            Target::Jump(chain) => {
                return match self.chain(rule.table, chain) {
                    Left::Returned => None,
                    left => Some(left),
                };
            }
            Target::Redirect { port } => {
                // A packet that TPROXY gave to a socket stays with it, whatever nat writes into its header.
                if self.outcome == Outcome::Untouched {
                    self.outcome = Outcome::Redirected { port };
                }
                return Some(Left::Accepted);
            }
            Target::Tproxy { mark, port } => {
                self.state.mark = mark;
                self.outcome = Outcome::Intercepted { port };
                return Some(Left::Accepted);
            }
            Target::SetMark(mark) => self.state.mark = mark,
            Target::SaveMark if self.is_tracked() => self.state.connmark = self.state.mark,
            Target::RestoreMark if self.is_tracked() => self.state.mark = self.state.connmark,
            // Both xt's CT (xt_ct_target) and nft's `ct zone set` (nft_ct_set_zone_eval) leave a packet alone that has a
            // conntrack entry or a template already: the first zone stays.
            Target::CtZone(zone) if self.state.zone.is_none() && !self.is_looped() => {
                self.state.zone = Some(zone);
            }
            Target::SaveMark | Target::RestoreMark | Target::CtZone(_) => {}
        }
        None
    }

    fn is_tracked(&self) -> bool {
        self.packet.connection != Connection::Invalid
    }
}
