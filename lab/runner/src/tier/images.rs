// SPDX-License-Identifier: Apache-2.0
//! Images of the lab's pods, and of a proxy with the product's `istio-iptables`: for nodes of the lab's own, and for those of others.

use std::fs::File;
use std::path::Path;
#[cfg(feature = "container")]
use std::path::PathBuf;

use real::image::{self, Image};
use real::registry;

use crate::binaries::TOOL;

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

/// The proxy's: the lab's stand-in for it, and what checks and writes rules, from the product's directory. By their names: an injector's container has
/// arguments alone.
///
/// # Errors
/// The product has no such binary.
pub fn proxy(program: &Path, sut: &Path) -> anyhow::Result<Image> {
    let programs =
        [("/usr/local/bin/istio-iptables", sut.join(TOOL)), ("/usr/local/bin/proxy", program.to_owned())];
    Ok(Image::of(&format!("proxyv2:{TAG}"), &programs, &[])?)
}

/// Writes them to an archive, and returns their names.
///
/// # Errors
/// A program cannot be read, or the archive cannot be written.
pub fn archive(program: &Path, sut: &Path, to: File) -> anyhow::Result<Vec<String>> {
    let images = [workload("workload", program, &["workload"])?, proxy(program, sut)?];
    Ok(image::archive(&images, registry::NAME, to)?)
}

/// Writes an archive of one image, of these files by their paths in it.
///
/// # Errors
/// A file cannot be read, or the archive cannot be written.
#[cfg(feature = "container")]
pub fn of_files(registry: &str, name: &str, files: &[(String, PathBuf)], to: &File) -> anyhow::Result<()> {
    let files: Vec<_> = files.iter().map(|(at, path)| (at.as_str(), path.clone())).collect();
    image::archive(&[Image::of(name, &files, &[])?], registry, to)?;
    Ok(())
}
