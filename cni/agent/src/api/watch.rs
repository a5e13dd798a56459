// SPDX-License-Identifier: Apache-2.0
//! A watch, read line by line: each line is one event.

use std::collections::VecDeque;

use kube::core::Status;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::error::ApiError;

/// Maximum length of a line.
const LINE_LIMIT: usize = 8 * 1024 * 1024;

/// Splits a stream into lines.
#[derive(Debug, Default)]
pub(super) struct Lines {
    partial: Vec<u8>,
    whole: VecDeque<Vec<u8>>,
}

impl Lines {
    /// Appends the next chunk.
    pub(super) fn take(&mut self, piece: &[u8]) -> Result<(), ApiError> {
        let mut rest = piece;
        while let Some(end) = rest.iter().position(|&byte| byte == b'\n') {
            self.partial.extend_from_slice(&rest[..end]);
            self.whole.push_back(std::mem::take(&mut self.partial));
            rest = &rest[end + 1..];
        }
        self.partial.extend_from_slice(rest);
        if self.partial.len() > LINE_LIMIT {
            return Err(ApiError::Malformed(format!("an event is longer than {LINE_LIMIT} bytes")));
        }
        Ok(())
    }

    /// Next line that is complete and not empty.
    pub(super) fn next(&mut self) -> Option<Vec<u8>> {
        std::iter::from_fn(|| self.whole.pop_front()).find(|line| !line.trim_ascii().is_empty())
    }

    /// True if the stream ended inside a line.
    pub(super) fn is_cut(&self) -> bool {
        !self.partial.trim_ascii().is_empty()
    }
}

/// Type of a watch event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EventType {
    Set,
    Removed,
    Bookmark,
}

#[derive(Debug)]
pub(super) struct WatchEvent<'a> {
    pub(super) kind: EventType,
    /// Resource version after it.
    pub(super) version: String,
    /// Namespace and name of the object.
    pub(super) key: (String, String),
    /// Bookmark that ends the initial events (`k8s.io/initial-events-end`).
    pub(super) ends_initial: bool,
    /// The object, not parsed yet.
    pub(super) object: &'a str,
}

#[derive(Deserialize)]
struct Raw<'a> {
    #[serde(rename = "type")]
    kind: String,
    #[serde(borrow)]
    object: &'a RawValue,
}

#[derive(Deserialize)]
struct Object {
    metadata: Metadata,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    resource_version: String,
    #[serde(default)]
    namespace: String,
    #[serde(default)]
    name: String,
    #[serde(default)]
    annotations: Option<Annotations>,
}

#[derive(Default, Deserialize)]
struct Annotations {
    #[serde(rename = "k8s.io/initial-events-end", default)]
    initial_events_end: String,
}

impl<'a> WatchEvent<'a> {
    /// Parses a line; an `ERROR` event is an error here, too.
    pub(super) fn parse(line: &'a [u8]) -> Result<Self, ApiError> {
        let malformed = |error: serde_json::Error| ApiError::Malformed(error.to_string());
        let raw: Raw<'a> = serde_json::from_slice(line).map_err(malformed)?;
        let object = raw.object.get();
        let kind = match raw.kind.as_str() {
            "ADDED" | "MODIFIED" => EventType::Set,
            "DELETED" => EventType::Removed,
            "BOOKMARK" => EventType::Bookmark,
            "ERROR" => {
                return Err(ApiError::of_status(serde_json::from_str::<Status>(object).map_err(malformed)?));
            }
            other => return Err(ApiError::Malformed(format!("an event of type {other:?}"))),
        };
        let Metadata { resource_version: version, namespace, name, annotations } =
            serde_json::from_str::<Object>(object).map_err(malformed)?.metadata;
        let ends_initial =
            kind == EventType::Bookmark && annotations.unwrap_or_default().initial_events_end == "true";
        Ok(Self { kind, version, key: (namespace, name), ends_initial, object })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_found_wherever_they_are_cut() {
        let text = b"{\"a\":1}\n\n{\"b\":2}\r\n{\"c\"";
        for size in 1..text.len() {
            let (mut lines, mut got) = (Lines::default(), Vec::new());
            for piece in text.chunks(size) {
                lines.take(piece).unwrap();
                got.extend(std::iter::from_fn(|| lines.next()));
            }
            assert_eq!(got, [&b"{\"a\":1}"[..], b"{\"b\":2}\r"]);
            assert!(lines.is_cut());
        }
    }

    #[test]
    fn a_line_without_end_is_given_up() {
        let mut lines = Lines::default();
        let piece = vec![b'x'; LINE_LIMIT / 2 + 1];
        lines.take(&piece).unwrap();
        assert_eq!(lines.take(&piece).unwrap_err().name(), "malformed");
    }

    #[test]
    fn an_event_has_a_kind_and_a_version() {
        for (name, kind) in [
            ("ADDED", EventType::Set),
            ("MODIFIED", EventType::Set),
            ("DELETED", EventType::Removed),
            ("BOOKMARK", EventType::Bookmark),
        ] {
            let line =
                format!(r#"{{"object":{{"metadata":{{"resourceVersion":"7","x":[]}}}},"type":"{name}"}}"#);
            let event = WatchEvent::parse(line.as_bytes()).unwrap();
            assert_eq!((event.kind, event.version.as_str()), (kind, "7"));
            assert!(event.object.starts_with("{\"metadata\""));
        }
    }

    #[test]
    fn only_the_marked_bookmark_ends_the_initial_events() {
        for (kind, annotations, ends) in [
            ("BOOKMARK", r#"{"k8s.io/initial-events-end":"true"}"#, true),
            ("BOOKMARK", r#"{"a":"b"}"#, false),
            ("BOOKMARK", "null", false),
            ("ADDED", r#"{"k8s.io/initial-events-end":"true"}"#, false),
        ] {
            let metadata = format!(r#"{{"resourceVersion":"7","annotations":{annotations}}}"#);
            let line = format!(r#"{{"type":"{kind}","object":{{"metadata":{metadata}}}}}"#);
            assert_eq!(WatchEvent::parse(line.as_bytes()).unwrap().ends_initial, ends, "{line}");
        }
    }

    #[test]
    fn errors_are_sorted_and_nonsense_is_malformed() {
        let name = |text: &str| WatchEvent::parse(text.as_bytes()).unwrap_err().name();
        assert_eq!(name(r#"{"type":"ERROR","object":{"kind":"Status","code":410}}"#), "gone");
        assert_eq!(name(r#"{"type":"ERROR","object":{"kind":"Status","code":500}}"#), "server_error");
        for bad in ["", "{}", "not JSON", r#"{"type":"NEW","object":{}}"#, r#"{"type":"ADDED","object":{}}"#]
        {
            assert_eq!(name(bad), "malformed", "{bad}");
        }
    }
}
