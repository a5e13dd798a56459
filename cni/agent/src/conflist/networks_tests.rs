// SPDX-License-Identifier: Apache-2.0
//! Networks of the field (`scenarios/networks`): installed, written again by their owners, and left, each file is its owner's to the byte.

use std::collections::BTreeSet;
use std::path::Path;

use proptest::prelude::*;
use serde::Deserialize;

use super::document::Document;
use super::plan_tests::{chain, directory, names, settle, take};
use super::scan::{ConfigFormat, Content};
use super::{copy, leave, unused};
use crate::settings::ChainSettings;

#[derive(Deserialize)]
struct Network {
    file: String,
    list: String,
}

fn networks() -> Vec<Network> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/networks");
    let files = std::fs::read_dir(directory).unwrap();
    let texts = files.map(|entry| std::fs::read_to_string(entry.unwrap().path()).unwrap());
    texts.map(|text| serde_saphyr::from_str(&text).unwrap()).collect()
}

#[test]
fn each_network_gets_our_entry_and_loses_it_to_the_byte() {
    let networks = networks();
    let (mut lists, mut singles) = (0, 0);
    for Network { file, list: text } in &networks {
        let before = directory(&[(file, text)]);
        let mut now = before.clone();
        let is_list = ConfigFormat::of(file) == Some(ConfigFormat::List);
        *(if is_list { &mut lists } else { &mut singles }) += 1;
        if unused::is_unused(&Document::parse(text).unwrap()) {
            assert!(settle(&chain(), &mut now, &BTreeSet::new()).is_err(), "{file} is no network of pods");
            assert_eq!(now, before, "{file}");
            continue;
        }
        // The owner writes the same, then another text, and nobody else does anything.
        let other = text.replacen('{', "{ \"x-more\": 1,", 1);
        for owners in [text, text, &other] {
            now.files.insert(file.clone(), Content::Text(owners.clone()));
            let ours = settle(&chain(), &mut now, &BTreeSet::new()).unwrap();
            assert_eq!(&ours == file, is_list, "{file}");
            let (first, document) = now.usable().next().unwrap();
            assert_eq!(first, ours, "{file}: {:?}", names(&now));
            let Document::List(list) = &document else { panic!("{file} is read first") };
            assert!(list.plugins.last().unwrap().is_ours(), "{file}: {}", list.text);
            assert_eq!(document.ours().len(), 1);
            let owner = Document::parse(owners).unwrap();
            assert_eq!((document.network(), document.others()), (owner.network(), owner.others()), "{file}");
            if !is_list {
                assert_eq!(now.text(file), Some(owners.as_str()));
            }
        }
        for step in leave::steps(&chain(), &now) {
            take(&mut now, &step);
        }
        assert_eq!(now, directory(&[(file, &other)]), "{file}");
        assert_ne!(now, before);
    }
    assert!(lists >= 16 && singles >= 7, "{lists} lists and {singles} files of one plugin");
}

/// Files of owners, which plans must neither write nor remove unless they are lists.
#[test]
fn no_plan_touches_a_file_of_one_plugin() {
    let networks = networks();
    let singles =
        networks.iter().filter(|network| ConfigFormat::of(&network.file) == Some(ConfigFormat::Single));
    for Network { file, list: text } in singles {
        for other in &networks {
            let (name, other) = (&other.file, &other.list);
            if name == file {
                continue;
            }
            let mut now = directory(&[(file, text), (name, other)]);
            let _ = settle(&chain(), &mut now, &BTreeSet::new());
            assert_eq!(now.text(file), Some(text.as_str()), "{file} beside {name}");
            now.files.remove(name);
            let _ = settle(&chain(), &mut now, &BTreeSet::new());
            assert_eq!(
                (now.text(file), names(&now).len()),
                (Some(text.as_str()), 2),
                "{file} without {name}"
            );
            for step in leave::steps(&chain(), &now) {
                take(&mut now, &step);
            }
            assert_eq!(now, directory(&[(file, text)]), "{file} without {name}");
        }
    }
}

/// Names that owners give their files; some are those of copies, and of lists beside a `.conf`.
const NAMES: [&str; 9] = [
    "00-multus.conf",
    "10-x-istio-cni.conflist",
    "10-x-k.conf",
    "10-x-z.conflist",
    "10-x.conf",
    "10-x.conf.conflist",
    "10-x.conflist",
    "10-x.json",
    "20-y.conflist",
];
const SINGLES: [&str; 5] = [
    r#"{"name":"a","cniVersion":"0.3.1","type":"ptp","ipam":{"type":"host-local"}}"#,
    r#"{"type":"bridge"}"#,
    r#"{"name":"m","type":"multus-shim"}"#,
    r#"{"name":"m","type":"multus","delegates":[{"name":"b","plugins":[{"type":"calico"}]}]}"#,
    r#"{"name":"a","type":"#,
];
const LISTS: [&str; 4] = [
    r#"{"name":"b","cniVersion":"0.4.0","plugins":[{"type":"calico"}]}"#,
    "{ \"name\": \"a\",\n\t\"plugins\": [ {\"type\": \"ptp\"} , {\"type\": \"portmap\"} ] }\n",
    r#"{"name":"c","cniVersion":"1.0.0","plugins":[{"type":"x"},{"type":"y","ipam":{"type":"z"}}],"more":1}"#,
    r#"{"plugins":[]}"#,
];

/// A change by the owner (write or remove a file), and the settings of the agents that reconcile afterwards; empty if no agent runs.
#[derive(Debug, Clone)]
struct Change {
    name: &'static str,
    text: Option<&'static str>,
    seen: bool,
}

fn changes() -> impl Strategy<Value = Vec<Change>> {
    let change = (0..NAMES.len(), any::<Option<prop::sample::Index>>(), any::<bool>()).prop_map(
        |(name, text, seen)| {
            let name = NAMES[name];
            let texts: &[&str] =
                if ConfigFormat::of(name) == Some(ConfigFormat::List) { &LISTS } else { &SINGLES };
            Change { name, text: text.map(|index| texts[index.index(texts.len())]), seen }
        },
    );
    prop::collection::vec(change, 1..8)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever owners do and in whatever order, in the end each of their files is theirs to the byte, and nothing else is there.
    #[test]
    fn owners_have_their_files_in_the_end(
        changes in changes(),
        owned in any::<bool>(),
        raise_version in any::<bool>(),
        conf_name in prop::sample::select(vec!["", "10-x.conf", "10-x.conflist", "20-y.conflist"]),
    ) {
        let chain = ChainSettings { owned, raise_version, conf_name: conf_name.to_owned(), ..chain() };
        let (mut theirs, mut now) = (directory(&[]), directory(&[]));
        for Change { name, text, seen } in changes {
            for files in [&mut theirs.files, &mut now.files] {
                match text {
                    Some(text) => drop(files.insert(name.to_owned(), Content::Text(text.to_owned()))),
                    None => drop(files.remove(name)),
                }
            }
            if !seen {
                continue;
            }
            let then = settle(&chain, &mut now, &BTreeSet::new());
            for (name, content) in &theirs.files {
                if ConfigFormat::of(name) == Some(ConfigFormat::Single) {
                    prop_assert_eq!(now.files.get(name), Some(content), "{}", name);
                }
            }
            let first = now.usable().next();
            let is_through = first.is_some_and(|(_, first)| {
                !first.ours().is_empty() || first.others().iter().flatten().any(|kind| kind.starts_with("multus"))
            });
            prop_assert!(then.is_err() || is_through, "{:?}: {:?}", then, now);
            if !owned {
                let ours = copy::orphans(&now);
                prop_assert!(ours.is_empty(), "{:?} outlive their owners", ours);
            }
        }
        for step in leave::steps(&chain, &now) {
            take(&mut now, &step);
        }
        prop_assert_eq!(now.files, theirs.files);
    }
}
