// SPDX-License-Identifier: Apache-2.0
//! Images of the lab's pods, and of a proxy with the product's `istio-iptables`: for nodes of the lab's own, or written to an archive for
//! those that no registry reaches.

use std::fs::File;
use std::path::Path;

use anyhow::Context as _;
use real::image::{self, Image};

use crate::binaries::TOOL;
use crate::board;
use crate::carried::{WORKLOAD, needs_source};
use crate::exit::Exit;
use crate::locate::Workspace;
use crate::plan::Sut;
use crate::sut;

/// Tag of all images.
pub const TAG: &str = "1";

/// An image of the pods' binary, which runs `entrypoint`.
///
/// # Errors
/// It cannot be read.
pub fn workload(name: &str, program: &Path, entrypoint: &[&str]) -> anyhow::Result<Image> {
    let programs = [("/usr/local/bin/workload", program.to_owned())];
    Ok(Image::of(&format!("{name}:{TAG}"), &programs, entrypoint)?)
}

/// The proxy's: all that it has is what checks and writes rules.
///
/// # Errors
/// The product has no such binary.
pub fn proxy(sut: &Sut) -> anyhow::Result<Image> {
    let programs = [("/usr/local/bin/istio-iptables", sut.dir.join(TOOL))];
    Ok(Image::of(&format!("proxyv2:{TAG}"), &programs, &[])?)
}

/// Writes both to an archive, and says their names.
pub fn write(to: &Path, sut: Option<&Path>) -> anyhow::Result<Exit> {
    let workspace = Workspace::find()?;
    let (sut, program) = match (sut, &workspace.carried) {
        (None, Some(_)) => return Ok(needs_source("image")),
        (Some(path), Some(_)) => (sut::read(path, &workspace), workspace.root.join(WORKLOAD)),
        (Some(path), None) => (sut::read(path, &workspace), sut::build_workload(&workspace)?),
        (None, None) => (sut::build_static(&workspace), sut::build_workload(&workspace)?),
    };
    let sut = match sut {
        Ok(sut) => sut,
        Err(error) => {
            eprintln!("cnilab: --sut: {error:#}");
            return Ok(Exit::Usage);
        }
    };
    let images = [workload("workload", &program, &["workload"])?, proxy(&sut)?];
    let file = File::create(to).with_context(|| format!("cannot write {}", to.display()))?;
    for name in image::archive(&images, file).with_context(|| format!("cannot write {}", to.display()))? {
        board::say(&name);
    }
    Ok(Exit::Ok)
}
