// SPDX-License-Identifier: Apache-2.0
//! One rule: options to conditions and actions.

use std::borrow::Cow;
use std::net::IpAddr;
use std::str::FromStr;

use crate::list::{id, port};
use crate::live::{Action, Condition, LiveRule};
use crate::ruleset::{Cidr, CtStates, Dialect, Match, Owner, Port, Protocol, Sense};

use super::Reason;
use super::words::Words;

/// Reads what stands behind the chain's name.
pub(super) fn parse(words: Words, text: String, packets: Option<u64>) -> Result<LiveRule, Reason> {
    let mut reader = RuleReader { words, conditions: Vec::new(), actions: Vec::new(), module: None };
    reader.run()?;
    let RuleReader { conditions, actions, .. } = reader;
    Ok(LiveRule { conditions, actions, dialect: Dialect::Iptables, text, packets })
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
    fn run(&mut self) -> Result<(), Reason> {
        while let Some(word) = self.words.next() {
            let (sense, option) = match word.as_str() {
                "!" => (Sense::Not, self.words.value("!")?),
                _ => (Sense::Is, word),
            };
            match option.as_str() {
                "-j" | "--jump" => self.jump()?,
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
    fn module(&mut self) -> Result<(), Reason> {
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

    fn condition(&mut self, sense: Sense, option: &str) -> Result<(), Reason> {
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
    ) -> Result<Option<Match>, Reason> {
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
    ) -> Result<Option<Match>, Reason> {
        let value = self.words.value(option)?;
        match cidr(&value) {
            Some(cidr) => Ok(Some(of(sense, cidr))),
            None if is_masked(&value) => Ok(self.unknown(sense, option, &value)),
            None => Err(Reason::Value { option: option.to_owned(), value }),
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

    fn protocol(&mut self, sense: Sense) -> Result<Option<Match>, Reason> {
        let name = self.words.value("-p")?;
        Ok(match (sense, name.as_str()) {
            (Sense::Is, "tcp" | "6") => Some(Match::Protocol(Protocol::Tcp)),
            (Sense::Is, "udp" | "17") => Some(Match::Protocol(Protocol::Udp)),
            (Sense::Is, "all" | "0") => None,
            _ => self.unknown(sense, "-p", &name),
        })
    }

    fn port(&mut self, option: &str) -> Result<Port, Reason> {
        let value = self.words.value(option)?;
        let (low, high) = value.split_once(':').unwrap_or((&value, &value));
        let whole = match (low, high) {
            ("", high) => format!("0:{high}"),
            (low, "") => format!("{low}:65535"),
            _ => value.clone(),
        };
        match port(&whole) {
            Port::Verbatim(_) => Err(Reason::Value { option: option.to_owned(), value }),
            port => Ok(port),
        }
    }

    fn ports(&mut self, sense: Sense, option: &str) -> Result<Option<Match>, Reason> {
        let value = self.words.value(option)?;
        let ports: Option<Vec<u16>> = value.split(',').map(|port| port.parse().ok()).collect();
        Ok(match ports {
            Some(ports) => Some(Match::DestinationPorts(sense, ports)),
            None => self.unknown(sense, option, &value),
        })
    }

    /// A range of ids cannot be judged. A name is nobody's, as in rules of ours.
    fn owner(
        &mut self,
        sense: Sense,
        option: &str,
        of: fn(crate::ruleset::Id) -> Owner,
    ) -> Result<Option<Match>, Reason> {
        let value = self.words.value(option)?;
        Ok(match value.split_once('-') {
            Some((low, high)) if low.parse::<u32>().is_ok() && high.parse::<u32>().is_ok() => {
                self.unknown(sense, option, &value)
            }
            _ => Some(Match::Owner(sense, of(id(&value)))),
        })
    }

    fn states(&mut self, sense: Sense, option: &str) -> Result<Option<Match>, Reason> {
        let value = self.words.value(option)?;
        let mut states: Vec<&str> = value.split(',').collect();
        states.sort_unstable();
        Ok(match (sense, states.as_slice()) {
            (Sense::Is, ["INVALID"]) => Some(Match::Conntrack(CtStates::Invalid)),
            (Sense::Is, ["ESTABLISHED", "RELATED"]) => Some(Match::Conntrack(CtStates::RelatedEstablished)),
            _ => self.unknown(sense, option, &value),
        })
    }

    /// A mark without a mask, or with one of all bits; and as it was written.
    fn mark(&mut self, option: &str) -> Result<(Option<u32>, String), Reason> {
        let value = self.words.value(option)?;
        match whole_mark(&value) {
            Some(mark) => Ok((mark, value)),
            None => Err(Reason::Value { option: option.to_owned(), value }),
        }
    }

    fn jump(&mut self) -> Result<(), Reason> {
        let target = self.words.value("-j")?;
        let action = match target.as_str() {
            "ACCEPT" => Action::Accept,
            "DROP" => Action::Drop,
            "RETURN" => Action::Return,
            "LOG" | "NFLOG" => {
                self.options();
                Action::Nothing
            }
            "REDIRECT" | "MARK" | "CONNMARK" | "CT" | "TPROXY" => return self.extension(&target),
            // Names of targets that end a packet's way otherwise; any other name is a chain.
            "REJECT" | "DNAT" | "SNAT" | "MASQUERADE" | "NOTRACK" | "QUEUE" | "NFQUEUE" | "TRACE"
            | "TCPMSS" | "DSCP" | "TOS" | "TEE" | "NETMAP" | "SET" | "CLASSIFY" | "CHECKSUM" | "AUDIT" => {
                let options = self.options().join(" ");
                Action::Unknown(format!("-j {target} {options}").trim_end().to_owned())
            }
            _ => Action::Jump(target),
        };
        self.actions.push(action);
        Ok(())
    }

    /// Everything behind a target.
    fn options(&mut self) -> Vec<String> {
        std::iter::from_fn(|| self.words.next()).collect()
    }

    fn extension(&mut self, target: &str) -> Result<(), Reason> {
        let options = self.options();
        let value = |name: &str| {
            let at = options.iter().position(|option| option == name)?;
            options.get(at + 1).map(String::as_str)
        };
        let has = |name: &str| options.iter().any(|option| option == name);
        let whole = |name: &str| value(name).is_none_or(|mask| number(mask) == Some(u32::MAX));
        let known = match target {
            "REDIRECT" => value("--to-ports")
                .or_else(|| value("--to-port"))
                .and_then(|port| port.parse().ok())
                .map(|port| vec![Action::Redirect(port)]),
            "MARK" => ["--set-mark", "--set-xmark"]
                .into_iter()
                .find_map(value)
                .and_then(|mark| whole_mark(mark).flatten())
                .map(|mark| vec![Action::SetMark(mark)]),
            "CONNMARK" if !whole("--nfmask") || !whole("--ctmask") || !whole("--mask") => None,
            "CONNMARK" if has("--save-mark") => Some(vec![Action::SaveMark]),
            "CONNMARK" if has("--restore-mark") => Some(vec![Action::RestoreMark]),
            "CT" => value("--zone")
                .and_then(|zone| number(zone)?.try_into().ok())
                .map(|zone| vec![Action::CtZone(zone)]),
            "TPROXY" if value("--on-ip").is_some_and(|ip| !["0.0.0.0", "::"].contains(&ip)) => None,
            "TPROXY" => value("--on-port").and_then(|port| port.parse().ok()).and_then(|port| {
                let given = [Action::Tproxy(port), Action::Accept];
                // Without a mark, which is listed as one without a bit, the packet keeps its own.
                match value("--tproxy-mark") {
                    None | Some("0x0/0x0") => Some(given.into()),
                    Some(mark) => {
                        let mark = Action::SetMark(whole_mark(mark).flatten()?);
                        Some([mark].into_iter().chain(given).collect())
                    }
                }
            }),
            _ => None,
        };
        let text = format!("-j {target} {}", options.join(" "));
        self.actions.extend(known.unwrap_or_else(|| vec![Action::Unknown(text.trim_end().to_owned())]));
        Ok(())
    }
}

/// A number as iptables writes it: decimal or hexadecimal.
fn number(text: &str) -> Option<u32> {
    match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// `MARK[/MASK]`: the mark if the mask has all bits, `Some(None)` if it has not, `None` if it is no mark.
fn whole_mark(text: &str) -> Option<Option<u32>> {
    let (mark, mask) = text.split_once('/').unwrap_or((text, "0xffffffff"));
    let (mark, mask) = (number(mark)?, number(mask)?);
    Some((mask == u32::MAX).then_some(mark))
}

/// `ADDRESS[/LENGTH]`; a mask that is written as an address is read if it is a prefix.
fn cidr(text: &str) -> Option<Cidr> {
    let (address, length) = text.split_once('/').unwrap_or((text, ""));
    let address = IpAddr::from_str(address).ok()?;
    let bits: u8 = if address.is_ipv4() { 32 } else { 128 };
    let length = match length {
        "" => bits,
        length => match length.parse() {
            Ok(length) => length,
            Err(_) => prefix_length(length)?,
        },
    };
    (length <= bits).then_some(Cidr { address, length })
}

/// `ADDRESS/MASK`, both written as addresses.
fn is_masked(text: &str) -> bool {
    text.split_once('/')
        .is_some_and(|(address, mask)| [address, mask].iter().all(|part| IpAddr::from_str(part).is_ok()))
}

fn prefix_length(mask: &str) -> Option<u8> {
    let bits = std::net::Ipv4Addr::from_str(mask).ok()?.to_bits();
    let length = bits.leading_ones();
    let whole = bits.checked_shl(length).unwrap_or(0) == 0;
    whole.then(|| u8::try_from(length).ok())?
}
