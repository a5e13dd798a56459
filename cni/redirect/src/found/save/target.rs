// SPDX-License-Identifier: Apache-2.0
//! Parser of a rule's target and its options.

use crate::found::Action;
use crate::found::save::words::Words;
use crate::found::value::{number, whole_mark};

/// Actions of `-j TARGET`; its options are all that is left of the rule.
pub(super) fn read(target: String, words: &mut Words) -> Vec<Action> {
    vec![match target.as_str() {
        "ACCEPT" => Action::Accept,
        "DROP" => Action::Drop,
        "RETURN" => Action::Return,
        "LOG" | "NFLOG" => {
            options(words);
            Action::Nothing
        }
        "REDIRECT" | "MARK" | "CONNMARK" | "CT" | "TPROXY" => return extension(&target, &options(words)),
        // Names of targets that end a packet's way otherwise; any other name is a chain.
        "REJECT" | "DNAT" | "SNAT" | "MASQUERADE" | "NOTRACK" | "QUEUE" | "NFQUEUE" | "TRACE" | "TCPMSS"
        | "DSCP" | "TOS" | "TEE" | "NETMAP" | "SET" | "CLASSIFY" | "CHECKSUM" | "AUDIT" => {
            unknown(&target, &options(words))
        }
        _ => Action::Jump(target),
    }]
}

fn options(words: &mut Words) -> Vec<String> {
    std::iter::from_fn(|| words.next()).collect()
}

fn unknown(target: &str, options: &[String]) -> Action {
    Action::Unknown(format!("-j {target} {}", options.join(" ")).trim_end().to_owned())
}

/// A target of ours, if it does what rules of ours ask of it.
fn extension(target: &str, options: &[String]) -> Vec<Action> {
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
    known.unwrap_or_else(|| vec![unknown(target, options)])
}
