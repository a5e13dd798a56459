// SPDX-License-Identifier: Apache-2.0
//! `cnilab image`: an archive of images for nodes that no registry reaches.

use std::fs::File;
use std::path::Path;

use anyhow::Context as _;

use crate::carried::{WORKLOAD, needs_product};
use crate::exit::{Exit, Usage};
use crate::locate::Workspace;
use crate::tier::images;
use crate::{board, sut};

/// Writes the pods' images to an archive, and says their names.
pub fn write(to: &Path, sut: Option<&Path>) -> anyhow::Result<Exit> {
    let workspace = Workspace::find()?;
    let (sut, program) = match (sut, &workspace.carried) {
        (None, Some(_)) => return Err(needs_product("image").into()),
        (Some(path), Some(_)) => (sut::read(path, &workspace), workspace.root.join(WORKLOAD)),
        (Some(path), None) => (sut::read(path, &workspace), sut::build_workload(&workspace)?),
        (None, None) => (sut::build_static(&workspace), sut::build_workload(&workspace)?),
    };
    let sut = sut.context(Usage("--sut".to_owned()))?;
    let file = File::create(to).with_context(|| format!("cannot write {}", to.display()))?;
    let names = images::archive(&program, &sut.dir, file);
    for name in names.with_context(|| format!("cannot write {}", to.display()))? {
        board::say(&name);
    }
    Ok(Exit::Ok)
}
