// SPDX-License-Identifier: Apache-2.0
//! One rule: options to conditions and actions.

use std::borrow::Cow;

use crate::found::value::{cidr, is_masked, whole_mark};
use crate::found::{Action, Condition, FoundRule};
use crate::list::{id, port};
use crate::ruleset::{Cidr, CtStates, Dialect, Match, Owner, Port, Protocol, Sense};

use super::SaveReason;
use super::target;
use super::words::Words;

/// Reads what stands behind the chain's name.
pub(super) fn parse(words: Words, text: String, packets: Option<u64>) -> Result<FoundRule, SaveReason> {
    let mut reader = RuleReader { words, conditions: Vec::new(), actions: Vec::new(), module: None };
    reader.run()?;
    let RuleReader { conditions, actions, .. } = reader;
    Ok(FoundRule { conditions, actions, dialect: Dialect::Iptables, text, packets, handle: None })
}

struct RuleReader {
    words: Words,
    conditions: Vec<Condition>,
    actions: Vec<Action>,
    /// The match that was named last (`-m`).
    module: Option<String>,
}

/// Modules whose options are all read here. What `-m comment` says is no condition.
const MODULES: [&str; 9] =
    ["tcp", "udp", "multiport", "owner", "conntrack", "state", "mark", "connmark", "comment"];

impl RuleReader {
    fn run(&mut self) -> Result<(), SaveReason> {
        while let Some(word) = self.words.next() {
            let (sense, option) = match word.as_str() {
                "!" => (Sense::Not, self.words.value("!")?),
                _ => (Sense::Is, word),
            };
            match option.as_str() {
                "-j" | "--jump" => {
                    let target = self.words.value("-j")?;
                    self.actions.extend(target::read(target, &mut self.words));
                }
                "-g" | "--goto" => {
                    let chain = self.words.value(&option)?;
                    self.actions.push(Action::Goto(chain));
                }
                "-m" | "--match" => self.module()?,
                _ => self.condition(sense, &option)?,
            }
        }
        Ok(())
    }

    /// A module that is not known takes everything up to the next module or the target with it.
    fn module(&mut self) -> Result<(), SaveReason> {
        let name = self.words.value("-m")?;
        if !MODULES.contains(&name.as_str()) {
            let mut text = format!("-m {name}");
            while let Some(next) = self.words.peek() {
                if ["-m", "--match", "-j", "--jump", "-g", "--goto"].contains(&next) {
                    break;
                }
                text.push(' ');
                text.push_str(&self.words.next().unwrap_or_default());
            }
            self.conditions.push(Condition::Unknown(text));
            return Ok(());
        }
        self.module = Some(name);
        Ok(())
    }

    fn condition(&mut self, sense: Sense, option: &str) -> Result<(), SaveReason> {
        let module = self.module.as_deref().unwrap_or_default();
        if (module, option) == ("comment", "--comment") {
            return self.words.value(option).map(drop);
        }
        let found = match option {
            "-i" | "--in-interface" => self.interface(sense, option, Match::InInterface)?,
            "-o" | "--out-interface" => self.interface(sense, option, Match::OutInterface)?,
            "-s" | "--source" | "--src" => self.address(sense, option, Match::Source)?,
            "-d" | "--destination" | "--dst" => self.address(sense, option, Match::Destination)?,
            "-p" | "--protocol" => self.protocol(sense)?,
            "--sport" | "--source-port" => Some(Match::SourcePort(sense, self.port(option)?)),
            "--dport" | "--destination-port" => Some(Match::DestinationPort(sense, self.port(option)?)),
            "--dports" | "--destination-ports" => self.ports(sense, option)?,
            "--uid-owner" => self.owner(sense, option, Owner::Uid)?,
            "--gid-owner" => self.owner(sense, option, Owner::Gid)?,
            "--ctstate" | "--state" => self.states(sense, option)?,
            "--mark" if module == "connmark" => match (sense, self.mark(option)?) {
                (Sense::Is, (Some(mark), _)) => Some(Match::ConnMark(mark)),
                (_, (_, value)) => self.unknown(sense, option, &format!("{value} (of the connection)")),
            },
            "--mark" => match self.mark(option)? {
                (Some(mark), _) => Some(Match::Mark(sense, mark)),
                (None, value) => self.unknown(sense, option, &value),
            },
            "--suppl-groups" => {
                self.widen_groups();
                self.unknown(sense, option, "")
            }
            _ => {
                let value = match self.words.peek() {
                    Some(next) if !next.starts_with('-') && next != "!" => self.words.next(),
                    _ => None,
                };
                self.unknown(sense, option, &value.unwrap_or_default())
            }
        };
        self.conditions.extend(found.map(Condition::Known));
        Ok(())
    }

    /// Keeps a condition that cannot be judged.
    fn unknown(&mut self, sense: Sense, option: &str, value: &str) -> Option<Match> {
        let not = if sense == Sense::Not { "! " } else { "" };
        let text = format!("{not}{option} {value}").trim_end().to_owned();
        self.conditions.push(Condition::Unknown(text));
        None
    }

    fn interface(
        &mut self,
        sense: Sense,
        option: &str,
        of: fn(Cow<'static, str>) -> Match,
    ) -> Result<Option<Match>, SaveReason> {
        let name = self.words.value(option)?;
        Ok(match sense {
            Sense::Is => Some(of(Cow::Owned(name))),
            Sense::Not => self.unknown(sense, option, &name),
        })
    }

    /// A mask that is no prefix cannot be judged.
    fn address(
        &mut self,
        sense: Sense,
        option: &str,
        of: fn(Sense, Cidr) -> Match,
    ) -> Result<Option<Match>, SaveReason> {
        let value = self.words.value(option)?;
        match cidr(&value) {
            Some(cidr) => Ok(Some(of(sense, cidr))),
            None if is_masked(&value) => Ok(self.unknown(sense, option, &value)),
            None => Err(SaveReason::Value { option: option.to_owned(), value }),
        }
    }

    /// With all groups of a process in view, its first one settles nothing.
    fn widen_groups(&mut self) {
        for condition in &mut self.conditions {
            if matches!(condition, Condition::Known(Match::Owner(_, Owner::Gid(_)))) {
                *condition = Condition::Unknown("--gid-owner with --suppl-groups".to_owned());
            }
        }
    }

    fn protocol(&mut self, sense: Sense) -> Result<Option<Match>, SaveReason> {
        let name = self.words.value("-p")?;
        Ok(match (sense, name.as_str(), Protocol::from_name(&name)) {
            (Sense::Is, "all" | "0", _) => None,
            (Sense::Is, _, Some(protocol)) => Some(Match::Protocol(protocol)),
            _ => self.unknown(sense, "-p", &name),
        })
    }

    fn port(&mut self, option: &str) -> Result<Port, SaveReason> {
        let value = self.words.value(option)?;
        match (port(&value), port(&value).bounds()) {
            (Port::One(port), _) => Ok(Port::One(port)),
            (_, Some((low, high))) => Ok(Port::Range(low, high)),
            _ => Err(SaveReason::Value { option: option.to_owned(), value }),
        }
    }

    fn ports(&mut self, sense: Sense, option: &str) -> Result<Option<Match>, SaveReason> {
        let value = self.words.value(option)?;
        let ports: Option<Vec<u16>> = value.split(',').map(|port| port.parse().ok()).collect();
        Ok(match ports {
            Some(ports) => Some(Match::DestinationPorts(sense, ports)),
            None => self.unknown(sense, option, &value),
        })
    }

    /// A range of ids cannot be judged. Whose a name is, a verdict says that it does not know.
    fn owner(
        &mut self,
        sense: Sense,
        option: &str,
        of: fn(crate::ruleset::Id) -> Owner,
    ) -> Result<Option<Match>, SaveReason> {
        let value = self.words.value(option)?;
        Ok(match value.split_once('-') {
            Some((low, high)) if low.parse::<u32>().is_ok() && high.parse::<u32>().is_ok() => {
                self.unknown(sense, option, &value)
            }
            _ => Some(Match::Owner(sense, of(id(&value)))),
        })
    }

    fn states(&mut self, sense: Sense, option: &str) -> Result<Option<Match>, SaveReason> {
        let value = self.words.value(option)?;
        Ok(match (sense, CtStates::from_names(&value)) {
            (Sense::Is, Some(states)) => Some(Match::Conntrack(states)),
            (Sense::Not, Some(states)) => Some(Match::Conntrack(states.inverted())),
            (_, None) => self.unknown(sense, option, &value),
        })
    }

    /// A mark without a mask, or with one of all bits; and as it was written.
    fn mark(&mut self, option: &str) -> Result<(Option<u32>, String), SaveReason> {
        let value = self.words.value(option)?;
        match whole_mark(&value) {
            Some(mark) => Ok((mark, value)),
            None => Err(SaveReason::Value { option: option.to_owned(), value }),
        }
    }
}
