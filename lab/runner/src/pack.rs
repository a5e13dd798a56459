// SPDX-License-Identifier: Apache-2.0
//! `cnilab pack`: this program, and what it needs of the workspace, as one file.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::Context as _;

use crate::carried::{self, WORKLOAD};
use crate::locate::Workspace;
use crate::suite::{CHECKOUT, Checkout};
use crate::sut;

/// Directories of the workspace that are carried: what is run, and the sources that `cnilab steps` takes descriptions from.
const DIRECTORIES: [&str; 3] = ["features", "scenarios", "lab/runner/src/steps"];

/// Makes one file of this program and what it needs.
pub fn pack(workspace: &Workspace, to: &Path) -> anyhow::Result<()> {
    let mut files = BTreeMap::new();
    for directory in DIRECTORIES {
        collect(&workspace.root, &workspace.root.join(directory), &mut files)?;
    }
    files.insert(WORKLOAD.to_owned(), read(&sut::build_workload(workspace)?)?);
    if let Some(checkout) = Checkout::of(&workspace.root) {
        files.insert(CHECKOUT.to_owned(), serde_json::to_vec(&checkout)?);
    }
    carried::bind(files, to)
}

fn collect(root: &Path, directory: &Path, files: &mut BTreeMap<String, Vec<u8>>) -> anyhow::Result<()> {
    for entry in fs::read_dir(directory).with_context(|| format!("cannot list {}", directory.display()))? {
        let path = entry?.path();
        if path.is_dir() {
            collect(root, &path, files)?;
        } else {
            files.insert(path.strip_prefix(root)?.display().to_string(), read(&path)?);
        }
    }
    Ok(())
}

fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("cannot read {}", path.display()))
}
