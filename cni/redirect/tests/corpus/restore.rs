// SPDX-License-Identifier: Apache-2.0
//! Restore text as the recorded cases list it: the lines of each table.

use std::collections::BTreeMap;
use std::fs;
use std::net::IpAddr;
use std::path::PathBuf;

use redirect::ruleset::{Family, Ruleset};
use redirect::text::restore;
use serde::de::DeserializeOwned;

/// The lines of each table, chains to make first.
pub(crate) type Tables = BTreeMap<String, Vec<String>>;

/// Reads a recorded file of `scenarios/`.
pub(crate) fn recorded<T: DeserializeOwned>(path: &str) -> Vec<T> {
    let file = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../scenarios").join(path);
    let text = fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

/// Dry-run output for one family.
pub(crate) fn tables(ruleset: &Ruleset, family: Family) -> Tables {
    let mut tables = Tables::new();
    let mut current = None;
    for line in restore(ruleset, family).lines() {
        match (line.strip_prefix("* "), current.as_mut()) {
            (Some(table), None) => current = Some((table.to_owned(), Vec::new())),
            (None, Some(_)) if line == "COMMIT" => tables.extend(current.take()),
            (None, Some((_, lines))) => lines.push(normal(line)),
            _ => panic!("not restore text: {line}"),
        }
    }
    assert!(current.is_none(), "a table is not committed");
    tables
}

/// The recorded lines, spelled alike; tables without lines do not count.
pub(crate) fn wanted(tables: &Tables) -> Tables {
    let lines = |lines: &Vec<String>| lines.iter().map(|line| normal(line)).collect();
    tables
        .iter()
        .filter(|(_, rules)| !rules.is_empty())
        .map(|(name, rules)| (name.clone(), lines(rules)))
        .collect()
}

/// One spelling for runs of spaces and for IPv6 addresses; nothing else is evened out.
pub(crate) fn normal(line: &str) -> String {
    let token = |token: &str| {
        let (address, length) =
            token.split_once('/').map_or((token, None), |(address, length)| (address, Some(length)));
        match (address.parse::<IpAddr>(), length) {
            (Ok(address @ IpAddr::V6(_)), Some(length)) => format!("{address}/{length}"),
            (Ok(address @ IpAddr::V6(_)), None) => address.to_string(),
            _ => token.to_owned(),
        }
    };
    line.split(' ').filter(|token| !token.is_empty()).map(token).collect::<Vec<_>>().join(" ")
}

/// The first difference between two listings, for a message.
pub(crate) fn difference(got: &Tables, want: &Tables) -> Option<String> {
    let none = Vec::new();
    for table in got.keys().chain(want.keys()) {
        let (got, want) = (got.get(table).unwrap_or(&none), want.get(table).unwrap_or(&none));
        if let Some(difference) = first_difference(got, want) {
            return Some(format!("{table} {difference}"));
        }
    }
    None
}

/// The first difference between two lists of lines, for a message.
pub(crate) fn first_difference(got: &[String], want: &[String]) -> Option<String> {
    let at = got.iter().zip(want).position(|(got, want)| got != want);
    let at = at.or_else(|| (got.len() != want.len()).then_some(got.len().min(want.len())))?;
    Some(format!("line {at}: got {:?}, want {:?}", got.get(at), want.get(at)))
}
