// SPDX-License-Identifier: Apache-2.0
//! A rule's words to conditions and actions.

use std::borrow::Cow;

use super::family;
use crate::found::value::{cidr, number};
use crate::found::{Action, Condition, FoundRule};
use crate::list;
use crate::ruleset::{CtStates, Dialect, Match, Owner, Port, Protocol, Sense};

pub(super) struct Reader<'a> {
    words: Vec<&'a str>,
    at: usize,
    rule: FoundRule,
}

/// Parse result of a word.
enum Found {
    Condition(Match),
    Conditions([Match; 2]),
    Action(Action),
    /// Words that say nothing about the packet.
    Nothing,
}

impl<'a> Reader<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        // A comment is quoted and stands last.
        let text = text.split(" comment \"").next().unwrap_or(text);
        Self {
            words: text.split_whitespace().collect(),
            at: 0,
            rule: FoundRule {
                conditions: Vec::new(),
                actions: Vec::new(),
                dialect: Dialect::Nft,
                text: text.trim().to_owned(),
                packets: None,
                handle: None,
            },
        }
    }

    /// A word that is not known takes the rest of the rule with it: nobody knows where it ends.
    pub(super) fn read(mut self) -> FoundRule {
        while self.at < self.words.len() {
            let start = self.at;
            match self.one() {
                Some(Found::Condition(one)) if self.rule.actions.is_empty() => {
                    self.rule.conditions.push(Condition::Known(one));
                }
                Some(Found::Conditions(two)) if self.rule.actions.is_empty() => {
                    self.rule.conditions.extend(two.map(Condition::Known));
                }
                Some(Found::Action(action)) => self.rule.actions.push(action),
                Some(Found::Nothing) => {}
                None | Some(Found::Condition(_) | Found::Conditions(_)) => {
                    let rest = self.words.get(start..).unwrap_or_default().join(" ");
                    // Words run in order: a condition behind an action does not keep that from what it does.
                    if self.rule.actions.is_empty() {
                        // A field of a header asks for its protocol.
                        let header = self.words.get(start).filter(|word| ["tcp", "udp"].contains(word));
                        let protocol = header.and_then(|word| Protocol::from_name(word)).map(Match::Protocol);
                        self.rule.conditions.extend(protocol.map(Condition::Known));
                        self.rule.conditions.push(Condition::Unknown(rest.clone()));
                    }
                    // The rest may end the packet's way as well.
                    self.rule.actions.push(Action::Unknown(rest));
                    break;
                }
            }
        }
        self.rule
    }

    fn next(&mut self) -> Option<&'a str> {
        let word = self.words.get(self.at).copied()?;
        self.at += 1;
        Some(word)
    }

    fn next_is(&mut self, wanted: &str) -> bool {
        let is = self.words.get(self.at) == Some(&wanted);
        self.at += usize::from(is);
        is
    }

    fn sense(&mut self) -> Sense {
        if self.next_is("!=") { Sense::Not } else { Sense::Is }
    }

    fn one(&mut self) -> Option<Found> {
        let word = self.next()?;
        match word {
            "meta" => {
                let key = self.next()?;
                self.meta(key)
            }
            "iifname" | "oifname" | "skuid" | "skgid" | "mark" => self.meta(word),
            "ct" => self.ct(),
            "ip" | "ip6" => self.address(),
            "tcp" | "udp" => self.port(word),
            "counter" => {
                if self.next_is("packets") {
                    self.rule.packets = self.next()?.parse().ok();
                    self.at += 2;
                }
                Some(Found::Nothing)
            }
            "log" => self.log(),
            _ => self.action(word).map(Found::Action),
        }
    }

    /// Skips the options of a log statement.
    fn log(&mut self) -> Option<Found> {
        while let Some(option) = self.words.get(self.at).copied() {
            match option {
                "prefix" => {
                    self.at += 1;
                    self.quotation()?;
                }
                "level" | "flags" | "group" | "snaplen" | "queue-threshold" => {
                    self.at += if self.words.get(self.at + 1) == Some(&"tcp") { 3 } else { 2 };
                }
                _ => break,
            }
        }
        Some(Found::Nothing)
    }

    /// A text in quotation marks, which may have blanks.
    fn quotation(&mut self) -> Option<()> {
        let first = self.next()?.strip_prefix('"')?;
        if first.ends_with('"') {
            return Some(());
        }
        while !self.next()?.ends_with('"') {}
        Some(())
    }

    fn action(&mut self, word: &str) -> Option<Action> {
        Some(match word {
            "accept" => Action::Accept,
            "drop" => Action::Drop,
            "return" => Action::Return,
            "jump" => Action::Jump(self.next()?.to_owned()),
            "goto" => Action::Goto(self.next()?.to_owned()),
            "redirect" if self.next_is("to") => Action::Redirect(self.local_port()?),
            "tproxy" => {
                let _family = self.next_is("ip") || self.next_is("ip6");
                if !self.next_is("to") {
                    return None;
                }
                Action::Tproxy(self.local_port()?)
            }
            _ => return None,
        })
    }

    fn local_port(&mut self) -> Option<u16> {
        self.next()?.strip_prefix(':')?.parse().ok()
    }

    fn meta(&mut self, key: &str) -> Option<Found> {
        if key == "mark" && self.next_is("set") {
            if self.next_is("ct") {
                return self.next_is("mark").then_some(Found::Action(Action::RestoreMark));
            }
            return Some(Found::Action(Action::SetMark(number(self.next()?)?)));
        }
        let sense = self.sense();
        // A set, by name or with its elements, or a comparison.
        let value = self.next().filter(|value| !value.starts_with(['@', '{', '<', '>']))?;
        let name = || (sense == Sense::Is).then(|| Cow::Owned(value.trim_matches('"').to_owned()));
        let id = || {
            let id = list::id(value.trim_matches('"'));
            let is_range = value.contains('-') && value.starts_with(|first: char| first.is_ascii_digit());
            (!is_range).then_some(id)
        };
        Some(Found::Condition(match key {
            "iifname" => Match::InInterface(name()?),
            "oifname" => Match::OutInterface(name()?),
            "skuid" => Match::Owner(sense, Owner::Uid(id()?)),
            "skgid" => Match::Owner(sense, Owner::Gid(id()?)),
            "mark" => Match::Mark(sense, number(value)?),
            "l4proto" if sense == Sense::Is => Match::Protocol(Protocol::from_name(value)?),
            "nfproto" if sense == Sense::Is => Match::Family(family(value)?),
            _ => return None,
        }))
    }

    fn ct(&mut self) -> Option<Found> {
        match self.next()? {
            "state" => self.states().map(|states| Found::Condition(Match::Conntrack(states))),
            "mark" if self.next_is("set") => {
                let _keyword = self.next_is("meta");
                self.next_is("mark").then_some(Found::Action(Action::SaveMark))
            }
            "mark" => Some(Found::Condition(Match::ConnMark(number(self.next()?)?))),
            "zone" if self.next_is("set") => {
                Some(Found::Action(Action::CtZone(number(self.next()?)?.try_into().ok()?)))
            }
            _ => None,
        }
    }

    fn states(&mut self) -> Option<CtStates> {
        if self.next_is("!") {
            return Some(CtStates::from_names(self.next()?)?.inverted());
        }
        let sense = self.sense();
        let states = if self.next_is("{") {
            let mut names = String::new();
            loop {
                match self.next()? {
                    "}" => break CtStates::from_names(&names),
                    name => names.push_str(name),
                }
            }
        } else {
            // `!=` compares all bits: with more than one state it holds of every packet.
            let names = self.next()?;
            CtStates::from_names(names).filter(|_| sense == Sense::Is || !names.contains(','))
        }?;
        Some(if sense == Sense::Is { states } else { states.inverted() })
    }

    fn address(&mut self) -> Option<Found> {
        let side = self.next()?;
        let sense = self.sense();
        let cidr = cidr(self.next()?)?;
        Some(Found::Condition(match side {
            "saddr" => Match::Source(sense, cidr),
            "daddr" => Match::Destination(sense, cidr),
            _ => return None,
        }))
    }

    fn port(&mut self, header: &str) -> Option<Found> {
        let side = self.next()?;
        let sense = self.sense();
        let port = if self.next_is("{") {
            let mut ports = Vec::new();
            loop {
                match self.next()? {
                    "}" => break,
                    port => ports.push(port.trim_end_matches(',').parse().ok()?),
                }
            }
            (side == "dport").then_some(Match::DestinationPorts(sense, ports))?
        } else {
            let port = range(self.next()?)?;
            match side {
                "sport" => Match::SourcePort(sense, port),
                "dport" => Match::DestinationPort(sense, port),
                _ => return None,
            }
        };
        Some(Found::Conditions([Match::Protocol(Protocol::from_name(header)?), port]))
    }
}

fn range(text: &str) -> Option<Port> {
    match text.split_once('-') {
        Some((low, high)) => Some(Port::Range(low.parse().ok()?, high.parse().ok()?)),
        None => text.parse().ok().map(Port::One),
    }
}
