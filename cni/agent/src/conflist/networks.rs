// SPDX-License-Identifier: Apache-2.0
//! Networks of a CNI directory by name. The name in an ADD shows which of them the runtime uses.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::OUR_TYPE;
use super::copy;
use super::document::Document;
use super::scan::DirectorySnapshot;

/// Networks of the CNI directory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Networks {
    /// Names of those whose list has our entry.
    pub ours: BTreeSet<String>,
    /// File of each, the one that runtimes find first.
    pub files: BTreeMap<String, String>,
    /// The first one.
    pub first: Option<FirstNetwork>,
    /// A list repeats another one with our entry: pods must not be added to both.
    pub repeats: bool,
}

/// Network that runtimes find first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FirstNetwork {
    pub name: String,
    /// Our entry, if its list has it.
    pub entry: Option<Value>,
}

/// Networks of the usable files, those included that Multus has inline.
#[must_use]
pub fn networks(now: &DirectorySnapshot) -> Networks {
    let mut networks = Networks::default();
    for (file, document) in now.usable() {
        if networks.first.is_none() {
            let entry = document.ours().first().and_then(|entry| serde_json::from_str(entry).ok());
            networks.first = Some(FirstNetwork { name: document.network().unwrap_or_default(), entry });
        }
        networks.repeats |= copy::mark(&document).is_some();
        note(&mut networks, file, &document);
        for inline in document.inline() {
            if let Ok(inline) = Document::parse(inline) {
                note(&mut networks, file, &inline);
            }
        }
    }
    networks
}

fn note(networks: &mut Networks, file: &str, document: &Document<'_>) {
    let Some(name) = document.network() else { return };
    let alone = matches!(document, Document::Single(members) if members.kind().as_deref() == Some(OUR_TYPE));
    if alone || !document.ours().is_empty() {
        networks.ours.insert(name.clone());
    }
    networks.files.entry(name).or_insert_with(|| file.to_owned());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conflist::scan::Content;

    #[test]
    fn lists_files_of_one_plugin_and_those_inline_are_networks() {
        let mut now = DirectorySnapshot::default();
        for (name, text) in [
            (
                "00-multus.conf",
                r#"{"name":"multus-cni-network","type":"multus","delegates":[{"name":"inline","plugins":[{"type":"a"},{"type":"istio-cni"}]}]}"#,
            ),
            ("10-a.conflist", r#"{"name":"a","plugins":[{"type":"a"},{"type":"istio-cni"}]}"#),
            ("20-a.conflist", r#"{"name":"a","plugins":[{"type":"b"}]}"#),
            ("30-c.conf", r#"{"name":"c","type":"c"}"#),
            ("istio.conf", r#"{"name":"istio-cni","type":"istio-cni"}"#),
            ("torn.conflist", r#"{"name":"torn""#),
        ] {
            now.files.insert(name.to_owned(), Content::Text(text.to_owned()));
        }
        let found = networks(&now);
        assert_eq!(found.ours.iter().collect::<Vec<_>>(), ["a", "inline", "istio-cni"]);
        assert_eq!(found.first, Some(FirstNetwork { name: "multus-cni-network".to_owned(), entry: None }));
        assert!(!found.repeats);
        let files: Vec<_> = found.files.iter().map(|(name, file)| (name.as_str(), file.as_str())).collect();
        assert_eq!(
            files,
            [
                ("a", "10-a.conflist"),
                ("c", "30-c.conf"),
                ("inline", "00-multus.conf"),
                ("istio-cni", "istio.conf"),
                ("multus-cni-network", "00-multus.conf"),
            ]
        );
    }

    #[test]
    fn a_list_of_our_own_repeats_another_one() {
        let text = r#"{"name":"a","plugins":[{"type":"a"},{"type":"istio-cni","millrace_copy_of":"10-a.conflist"}]}"#;
        let mut now = DirectorySnapshot::default();
        now.files.insert("02-istio-cni.conflist".to_owned(), Content::Text(text.to_owned()));
        let found = networks(&now);
        assert!(found.repeats);
        assert_eq!(found.first.unwrap().entry.unwrap()["type"], "istio-cni");
    }
}
