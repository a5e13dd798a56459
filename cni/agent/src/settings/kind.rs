// SPDX-License-Identifier: Apache-2.0
//! Reads the text of a value. Pure.

use manifests::setting::{Kind, Setting};
use manifests::table;
use netfilter::Wish;
use protocol::netconf::LogLevel;
use redirect::go;

use super::{RepairPolicy, selectors, template};
use crate::log::{Levels, LevelsError};
use crate::selector::{self, BadSelector, Requirement};

/// Malformed value, with the allowed ones.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    #[error("allowed are true and false (also 1, t, T, TRUE, True, 0, f, F, FALSE, False)")]
    Bool,
    #[error("allowed are whole numbers from -2147483648 to 2147483647")]
    Number,
    #[error("allowed are 0 (none) to 65535")]
    Port,
    #[error("allowed are permissions up to 0777, octal with a leading 0 (0600) or decimal (384)")]
    Mode,
    #[error("allowed is the name of a file in the CNI directory, without a directory")]
    FileName,
    /// Of [`Kind::OpenList`]: the one list that the agent reads is of ambient's selectors.
    #[error("allowed is a YAML list of {{podSelector, namespaceSelector}}: {0}")]
    Selectors(String),
    #[error("allowed is a JSON object of type istio-cni: {0}")]
    Template(template::TemplateError),
    #[error("{0}")]
    Levels(LevelsError),
    /// Of [`Kind::OneOf`].
    #[error("allowed are {}", listed(.0))]
    OneOf(&'static [&'static str]),
    /// Of pods, as the API server takes it.
    #[error(
        "allowed is a selector of labels, such as app=cart,tier in (a,b), or of pods' fields, such as status.phase!=Succeeded: {0}"
    )]
    Selector(BadSelector),
    /// A file that was named is not there, or is no text.
    #[error("the file cannot be read: {0}")]
    File(String),
}

/// The words of a sentence.
fn listed(words: &[&str]) -> String {
    let mut words: Vec<_> = words.iter().map(|word| if word.is_empty() { "nothing" } else { word }).collect();
    let last = words.pop().unwrap_or_default();
    format!("{} and {last}", words.join(", "))
}

/// Checks a text against the kind of its setting.
///
/// # Errors
/// Malformed; the message says what is allowed.
pub fn check(setting: &Setting, text: &str) -> Result<(), Problem> {
    match setting.kind {
        Kind::Bool => boolean(text).map(drop),
        Kind::Number => number(text).map(drop),
        Kind::Port => port(text).map(drop),
        Kind::Mode => mode(text).map(drop),
        Kind::FileName => file_name(text).map(drop),
        Kind::OpenList => selectors::to_json(text).map(drop),
        Kind::Template => template::check(text).map_err(Problem::Template),
        Kind::Levels => levels(text).map(drop),
        Kind::LabelSelector => label_selector(text).map(drop),
        Kind::FieldSelector => field_selector(text).map(drop),
        Kind::OneOf(words) => {
            if text.is_empty() || words.contains(&text) {
                Ok(())
            } else {
                Err(Problem::OneOf(words))
            }
        }
        _ => Ok(()),
    }
}

pub(crate) fn boolean(text: &str) -> Result<bool, Problem> {
    go::parse_bool(text).map_err(|_| Problem::Bool)
}

pub(super) fn number(text: &str) -> Result<i32, Problem> {
    integer(text).and_then(|number| i32::try_from(number).ok()).ok_or(Problem::Number)
}

pub(super) fn port(text: &str) -> Result<Option<u16>, Problem> {
    match integer(text) {
        Some(number) if number <= 0 => Ok(None),
        Some(number) => u16::try_from(number).map(Some).map_err(|_| Problem::Port),
        None => Err(Problem::Port),
    }
}

pub(super) fn mode(text: &str) -> Result<u32, Problem> {
    let number = integer(text).filter(|_| !text.is_empty()).ok_or(Problem::Mode)?;
    u32::try_from(number).ok().filter(|mode| (1..=0o777).contains(mode)).ok_or(Problem::Mode)
}

pub(super) fn file_name(text: &str) -> Result<String, Problem> {
    if text.contains(['/', '\0']) || text == "." || text == ".." {
        return Err(Problem::FileName);
    }
    Ok(text.to_owned())
}

/// `REPAIR_LABEL_SELECTORS`
pub(super) fn label_selector(text: &str) -> Result<Option<Vec<Requirement>>, Problem> {
    selector::labels(text).map(Some).map_err(Problem::Selector)
}

/// `REPAIR_FIELD_SELECTORS`
pub(super) fn field_selector(text: &str) -> Result<Option<Vec<Requirement>>, Problem> {
    selector::fields(text).map(Some).map_err(Problem::Selector)
}

/// `MILLRACE_STATUS_GATE`
pub(super) fn gate(text: &str) -> Result<bool, Problem> {
    check(&table::STATUS_GATE, text)?;
    Ok(text == "agent")
}

/// `MILLRACE_BACKEND`
pub(super) fn backend(text: &str) -> Result<Wish, Problem> {
    check(&table::BACKEND, text)?;
    Ok(text.parse().unwrap_or(Wish::Auto))
}

/// `MILLRACE_SANDBOXED_RUNTIMES`
pub(super) fn sandboxed(text: &str) -> Result<bool, Problem> {
    check(&table::SANDBOXED_RUNTIMES, text)?;
    Ok(text == "refuse")
}

/// `MILLRACE_INTERCEPTION_MODE_NONE`
pub(super) fn no_interception(text: &str) -> Result<bool, Problem> {
    check(&table::NO_INTERCEPTION, text)?;
    Ok(text == "skip")
}

/// `MILLRACE_REPAIR_FALLBACK`
pub(super) fn fallback(text: &str) -> Result<Option<RepairPolicy>, Problem> {
    check(&table::REPAIR_FALLBACK, text)?;
    Ok(match text {
        "delete" => Some(RepairPolicy::Delete),
        "label" => Some(RepairPolicy::Label),
        _ => None,
    })
}

/// A list by comma: blanks around its elements and empty ones count for nothing.
pub(super) fn list(text: &str) -> Vec<String> {
    text.split(',').map(str::trim).filter(|one| !one.is_empty()).map(str::to_owned).collect()
}

pub(super) fn levels(text: &str) -> Result<Levels, Problem> {
    text.parse().map_err(Problem::Levels)
}

pub(super) fn level_name(level: LogLevel) -> &'static str {
    match level {
        LogLevel::Debug => "debug",
        LogLevel::Info => "info",
        LogLevel::Warn => "warn",
        LogLevel::Error => "error",
        LogLevel::Fatal => "fatal",
        LogLevel::None => "none",
    }
}

/// Go's integers with a prefix for their base; nothing is 0, as upstream's library has it.
fn integer(text: &str) -> Option<i64> {
    let (negative, rest) = match text.as_bytes() {
        [] => return Some(0),
        [b'-', ..] => (true, &text[1..]),
        [b'+', ..] => (false, &text[1..]),
        _ => (false, text),
    };
    let lower = rest.to_ascii_lowercase();
    let (digits, radix) = match lower.as_bytes() {
        [b'0', b'x', ..] => (&lower[2..], 16),
        [b'0', b'o', ..] => (&lower[2..], 8),
        [b'0', b'b', ..] => (&lower[2..], 2),
        [b'0', _, ..] => (&lower[1..], 8),
        _ => (lower.as_str(), 10),
    };
    if !digits.starts_with(|first: char| first.is_ascii_hexdigit()) {
        return None;
    }
    let number = i64::from_str_radix(digits, radix).ok()?;
    Some(if negative { -number } else { number })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mode_is_octal_only_with_a_leading_zero() {
        for (text, want) in [
            ("0600", 0o600),
            ("384", 0o600),
            ("0644", 0o644),
            ("420", 0o644),
            ("0o640", 0o640),
            ("0x180", 0o600),
        ] {
            assert_eq!(mode(text), Ok(want), "{text}");
        }
        for text in ["", "0", "600", "-1", "01000", "rw", "0o", "0x+1", "09", " 0600"] {
            assert_eq!(mode(text), Err(Problem::Mode), "{text:?}");
        }
    }

    #[test]
    fn a_port_can_be_none() {
        assert_eq!(port("15014"), Ok(Some(15014)));
        assert_eq!((port("0"), port("-1"), port("")), (Ok(None), Ok(None), Ok(None)));
        assert_eq!((port("65536"), port("http")), (Err(Problem::Port), Err(Problem::Port)));
    }

    #[test]
    fn a_list_drops_blanks_and_empties_and_keeps_order_and_doubles() {
        assert_eq!(list(" a , b,, "), ["a", "b"]);
        assert_eq!(list("b,a,b"), ["b", "a", "b"]);
        assert_eq!(list(","), [""; 0]);
    }

    #[test]
    fn a_file_name_stays_in_its_directory() {
        for text in ["../x", "/etc/x", "a/b", "..", ".", "a\0b"] {
            assert_eq!(file_name(text), Err(Problem::FileName), "{text:?}");
        }
        assert_eq!(file_name("ü b.conflist").as_deref(), Ok("ü b.conflist"));
    }

    #[test]
    fn a_fallback_is_no_repair() {
        assert_eq!(fallback("delete"), Ok(Some(RepairPolicy::Delete)));
        assert_eq!(fallback("label"), Ok(Some(RepairPolicy::Label)));
        assert_eq!((fallback(""), fallback("none")), (Ok(None), Ok(None)));
        assert_eq!(fallback("repair"), Err(Problem::OneOf(&["none", "delete", "label"])));
    }

    #[test]
    fn each_default_of_a_key_is_a_value_of_its_kind() {
        for key in table::keys() {
            assert_eq!(check(key, key.default), Ok(()), "{}", key.name);
        }
    }

    #[test]
    fn every_word_for_a_back_end_is_one() {
        let Kind::OneOf(words) = table::BACKEND.kind else { panic!("a back end is one of some words") };
        for word in words {
            assert_eq!(word.parse().ok(), backend(word).ok(), "{word}");
        }
        assert_eq!(backend(""), Ok(Wish::Auto));
    }

    #[test]
    fn allowed_words_are_a_sentence() {
        assert_eq!(Problem::OneOf(&["", "agent"]).to_string(), "allowed are nothing and agent");
        assert_eq!(
            backend("ipvs").unwrap_err().to_string(),
            "allowed are auto, nft-compat, nft, iptables-nft and iptables-legacy"
        );
    }

    #[test]
    fn levels_have_their_names_back() {
        for name in ["debug", "info", "warn", "error", "fatal", "none"] {
            assert_eq!(LogLevel::from_text(name).map(level_name), Some(name));
        }
    }
}
