// SPDX-License-Identifier: Apache-2.0
//! Our readings and wordings against a recording of Go's (`record.go`).

use redirect::go::{Quoted, parse_bool, parse_port, parse_prefix};
use serde::Deserialize;

#[derive(Deserialize)]
struct Entry {
    text: String,
    quoted: String,
    prefix: String,
    port: String,
    #[serde(rename = "bool")]
    truth: String,
}

/// The value as Go prints it, or the error.
fn says<T: ToString, E: ToString>(result: Result<T, E>) -> String {
    result.map_or_else(|error| error.to_string(), |value| value.to_string())
}

#[test]
fn everything_is_read_and_refused_as_go_does() {
    let entries: Vec<Entry> = serde_json::from_str(include_str!("wordings.json")).unwrap();
    assert!(entries.len() >= 600, "the recording is short: {}", entries.len());
    let (mut good, mut bad) = (0, 0);
    for entry in &entries {
        let text = entry.text.as_str();
        assert_eq!(Quoted(text).to_string(), entry.quoted);
        assert_eq!(says(parse_prefix(text)), entry.prefix, "{text:?}");
        assert_eq!(says(parse_port(text)), entry.port, "{text:?}");
        assert_eq!(says(parse_bool(text)), entry.truth, "{text:?}");
        *if parse_prefix(text).is_ok() { &mut good } else { &mut bad } += 1;
    }
    assert!(good >= 30 && bad >= 500, "{good} good and {bad} bad prefixes");
}
