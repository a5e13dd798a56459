// SPDX-License-Identifier: Apache-2.0
//! The sweeps that there are: each step exists, each page is that of its data.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use super::*;
use crate::locate::Workspace;

/// What is behind it is generated.
const MARK: &str = "<!-- From here on: UPDATE=1 cargo test -p cnilab sweep -->";

fn sweeps() -> Vec<(PathBuf, String, Sweep)> {
    let root = Workspace::find().unwrap().root;
    let all = names(&root).unwrap().into_iter();
    all.map(|name| (root.clone(), name.clone(), Sweep::read(&root, &name).unwrap())).collect()
}

/// Files of measured cells, by name.
fn measured(root: &Path, name: &str) -> Vec<Measured> {
    let Ok(directory) = fs::read_dir(root.join(SWEEPS).join(name)) else { return Vec::new() };
    let mut paths: Vec<_> = directory.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let json = paths.iter().filter(|path| path.extension().is_some_and(|kind| kind == "json"));
    json.map(|path| serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()).collect()
}

#[test]
fn titles_of_cells_differ() {
    for (_, name, sweep) in sweeps() {
        let titles: BTreeSet<String> = sweep.cells().map(|(s, p, late)| title(s, p, late)).collect();
        assert_eq!(titles.len(), sweep.cells().count(), "{name}");
    }
}

#[test]
fn what_was_measured_is_of_cells_that_there_are() {
    for (root, name, sweep) in sweeps() {
        for file in measured(&root, &name) {
            let of_file: Vec<_> =
                file.cells.iter().map(|cell| (&*cell.situation, &*cell.policy, cell.late)).collect();
            let of_sweep: Vec<_> = sweep.cells().map(|(s, p, late)| (&*s.name, &*p.name, late)).collect();
            assert_eq!(of_file, of_sweep, "{name} of {}: play it again", file.product);
        }
    }
}

/// What a document says of us must be so; what upstream's does is only told.
#[test]
fn no_claim_is_refuted_by_millrace() {
    for (root, name, sweep) in sweeps() {
        for file in measured(&root, &name).iter().filter(|file| file.product == "millrace") {
            for claim in &sweep.claims {
                assert_eq!(page::holds(claim, file), "yes", "{}", claim.says);
            }
        }
    }
}

/// `UPDATE=1` writes the page, behind the head that a person wrote.
#[test]
fn the_page_is_that_of_the_data() {
    for (root, name, sweep) in sweeps() {
        let (products, path) = (measured(&root, &name), root.join(format!("docs/{name}.md")));
        if products.is_empty() {
            continue;
        }
        let there = fs::read_to_string(&path).unwrap_or_default();
        let (head, _) = there.split_once(MARK).unwrap_or_default();
        let want = page(&format!("{head}{MARK}"), &sweep, &products);
        if std::env::var_os("UPDATE").is_some() {
            fs::write(&path, &want).unwrap();
        }
        let there = fs::read_to_string(&path).unwrap_or_default();
        assert!(there == want, "{}: not current; UPDATE=1 cargo test -p cnilab sweep", path.display());
    }
}
