// SPDX-License-Identifier: Apache-2.0
//! The system under test: built from this workspace, or taken from a directory or from where a description says; then looked at, and never run:
//! it is a stranger's, and outside of the sandbox.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail};
use data_encoding::HEXLOWER;
use sha2::{Digest as _, Sha256};

use crate::binaries::{AGENT, OPTIONAL, PLUGIN, TOOL};
use crate::elf::{Linkage, linkage};
use crate::locate::Workspace;
use crate::mutants::copy;
use crate::plan::{Binary, Sut};
use crate::product::{self, Description, Product, ROLES};
use crate::suite;

mod target;

pub use target::without_musl;
use target::{NOT_MUSL, Target, host_triple, musl};

/// This package. Builds of the lab's parts select it, too, so that they share what it depends on: which features a dependency
/// has, and so whether it is built again, follows from all packages that are selected.
const LAB: &str = env!("CARGO_PKG_NAME");

/// The binaries of the release profile: they start for each pod, and are optimized as a whole.
const STARTED_OFTEN: [&str; 2] = [PLUGIN, TOOL];

/// Builds the binaries that ship, and returns the directory that holds them and nothing else.
///
/// The agent shares the lab's own profile, and with it most of what is compiled at all. Where the target is the lab's, too, only the agent's own
/// crates are left to build. The two builds lock different directories, so one links beside the other.
pub fn build(workspace: &Workspace) -> anyhow::Result<PathBuf> {
    let target = Target::choose()?;
    eprintln!("building {} ({}, {})", packages().join(", "), target.triple, target.how);
    let mut often = production(workspace, &target);
    often
        .arg("--release")
        .args(STARTED_OFTEN.iter().flat_map(|package| ["--package", package, "--bin", package]));
    let mut agent = production(workspace, &target);
    agent.args(["--package", LAB, "--package", AGENT, "--bin", AGENT]);
    std::thread::scope(|scope| {
        let beside = scope.spawn(|| succeed(&mut often));
        let agent = succeed(&mut agent);
        beside
            .join()
            .map_err(|_| anyhow::anyhow!("building {} panicked", STARTED_OFTEN.join(", ")))?
            .and(agent)
    })?;
    let built = workspace.target.join(&target.triple);
    let release = STARTED_OFTEN.map(|name| built.join("release").join(name));
    let built = release.into_iter().chain([built.join("debug").join(AGENT)]);
    let named = built.map(|path| (path.file_name().unwrap_or_default().to_owned(), path));
    collect(named, workspace.target.join("lab/production"))
}

/// Builds what a run puts under test, and inspects it: the binaries that ship where they can be built, else the same code as the lab is built.
pub fn build_static(workspace: &Workspace) -> anyhow::Result<Sut> {
    let built_of = suite::production(&workspace.root)?;
    let dir = if musl().is_some() { build(workspace)? } else { build_beside(workspace)? };
    let sut = Sut { built_of, ..inspect_all(&dir)? };
    if let Some(binary) = sut.binaries.iter().find(|binary| !binary.is_static) {
        bail!("{} is not static: a node has no libraries that it could rely on", binary.path.display());
    }
    Ok(sut)
}

/// Builds the binaries in the lab's own profile and for its target, and returns the directory that holds them and nothing else. All that they
/// depend on is the lab's already; plugin and tool in the release profile would have it compiled once more, to be no more of what ships: that is musl's.
fn build_beside(workspace: &Workspace) -> anyhow::Result<PathBuf> {
    let triple = host_triple()?;
    eprintln!("building {} ({triple}, {NOT_MUSL})", packages().join(", "));
    // With the lab's own wrapper, if there is one: what is the lab's, too, is there.
    let mut cargo = cargo(workspace);
    cargo.args(["build", "--locked", "--package", LAB]);
    cargo.args(packages().iter().flat_map(|package| ["--package", package, "--bin", package]));
    succeed(&mut cargo)?;
    let built = workspace.target.join(triple).join("debug");
    let named = packages().into_iter().map(|name| (name.into(), built.join(name)));
    collect(named, workspace.target.join("lab/beside"))
}

/// Builds the binaries with all named defects in them and returns their directory. They never run on a node: that they are built soon
/// matters more than how fast they start.
///
/// The copy that is built has a workspace of its own. What it shares with this one is cargo's build directory, and there every
/// dependency; where cargo leaves the binaries is not, as those of production have the same names.
pub fn build_mutants(workspace: &Workspace) -> anyhow::Result<PathBuf> {
    let copy = copy::refresh(workspace)?;
    eprintln!("building {} (with defects, in {})", packages().join(", "), copy.display());
    let output = workspace.target.join("lab/mutants");
    let mut cargo = cargo(workspace);
    // No lint is about the copy.
    cargo.env_remove("RUSTC_WORKSPACE_WRAPPER");
    cargo.env("CARGO_BUILD_BUILD_DIR", &workspace.target).env("CARGO_TARGET_DIR", &output);
    cargo.args(["build", "--locked", "--features", "protocol/mutants", "--manifest-path"]);
    cargo.arg(copy.join("Cargo.toml")).args(["--package", LAB]);
    cargo.args(packages().iter().flat_map(|package| ["--package", package, "--bin", package]));
    succeed(&mut cargo)?;
    Ok(output.join(host_triple()?).join("debug"))
}

/// Copies binaries into a directory of their own, by these names, as the next build replaces what cargo wrote. Whoever runs the former copy keeps it.
fn collect(binaries: impl Iterator<Item = (OsString, PathBuf)>, into: PathBuf) -> anyhow::Result<PathBuf> {
    std::fs::create_dir_all(&into).with_context(|| format!("cannot make {}", into.display()))?;
    for (name, from) in binaries {
        let to = into.join(name);
        let cannot = || format!("cannot copy {} to {}", from.display(), into.display());
        // Of a name of its own, and closed before it has the other: another run may copy or run the same at the same time.
        let fresh = tempfile::NamedTempFile::new_in(&into).with_context(cannot)?.into_temp_path();
        std::fs::copy(&from, &fresh).with_context(cannot)?;
        fresh.persist(&to).with_context(cannot)?;
    }
    Ok(into)
}

fn production(workspace: &Workspace, target: &Target) -> Command {
    let mut cargo = cargo(workspace);
    // Release builds bypass wrappers of the lab's own code (coverage, for example).
    cargo.env_remove("RUSTC_WORKSPACE_WRAPPER");
    cargo.args(["build", "--locked", "--target", &target.triple]);
    cargo
}

/// The packages of the system under test; each has one binary of its own name.
fn packages() -> Vec<&'static str> {
    [PLUGIN].into_iter().chain(OPTIONAL).collect()
}

/// Builds the binary of the lab's pods, for the target of what ships: some ten of its processes start in each scenario, and with musl sooner.
/// Returns its path.
pub fn build_workload(workspace: &Workspace) -> anyhow::Result<PathBuf> {
    let target = Target::choose()?;
    eprintln!("building workload ({}, dev)", target.triple);
    let mut cargo = cargo(workspace);
    if musl().is_some() {
        // As the agent is built, with whose dependencies it shares its own.
        cargo.env_remove("RUSTC_WORKSPACE_WRAPPER");
    }
    cargo.args(["build", "--locked", "--target", &target.triple]);
    succeed(cargo.args(["--package", LAB, "--package", "workload", "--bin", "workload"]))?;
    Ok(workspace.target.join(target.triple).join("debug/workload"))
}

/// System under test that `--sut` names: a description, or a directory.
///
/// # Errors
/// A description cannot be read, or a directory has no plugin.
pub fn read(path: &Path, workspace: &Workspace) -> anyhow::Result<Sut> {
    if path.is_dir() {
        inspect_all(path)
    } else {
        described(product::read(path)?, &workspace.target.join("lab/products"))
    }
}

/// Reads the binaries of a directory: the plugin, and those others that are there.
///
/// # Errors
/// One of them is no binary, or there is no plugin.
pub fn inspect_all(dir: &Path) -> anyhow::Result<Sut> {
    let plugin = inspect(&dir.join(PLUGIN))?;
    let there = OPTIONAL.into_iter().map(|name| dir.join(name)).filter(|path| path.exists());
    let others = there.map(|path| inspect(&path)).collect::<anyhow::Result<Vec<_>>>()?;
    let dir = plugin.path.parent().unwrap_or(Path::new("/")).to_owned();
    let binaries: Vec<_> = std::iter::once(plugin).chain(others).collect();
    let found: Vec<_> = binaries.iter().map(|binary| binary.name.as_str()).collect();
    let product = Product::of_directory(&dir, &found);
    Ok(Sut { dir, binaries, product, is_sealed: false, built_of: String::new() })
}

/// Gathers the binaries of a description by the names of their roles, in a directory that is named after their content: whoever describes another
/// product of this name has another. One that is not there, or is none, is the product's failure.
fn described(description: Description, into: &Path) -> anyhow::Result<Sut> {
    let Description { mut product, binaries } = description;
    let mut found = Vec::new();
    let mut content = Sha256::new();
    for (role, path) in binaries {
        match inspect(&path) {
            Ok(binary) => {
                content.update(format!("{role} {}\n", binary.sha256));
                found.push((role.into(), path));
            }
            Err(error) => drop(
                product.missing.insert(role.to_owned(), format!("{} claims {role}: {error:#}", product.name)),
            ),
        }
    }
    let dir = into.join(format!("{}-{}", product.name, &HEXLOWER.encode(&content.finalize())[..16]));
    let dir = collect(found.into_iter(), dir)?.canonicalize()?;
    let there = ROLES.into_iter().map(|role| dir.join(role)).filter(|path| path.exists());
    let binaries = there.map(|path| inspect(&path)).collect::<anyhow::Result<Vec<_>>>()?;
    Ok(Sut { dir, binaries, product, is_sealed: false, built_of: String::new() })
}

/// Inspects a binary.
pub fn inspect(path: &Path) -> anyhow::Result<Binary> {
    let path = path.canonicalize().with_context(|| format!("no binary at {}", path.display()))?;
    let bytes = std::fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let linkage = linkage(&bytes).with_context(|| format!("{} is not a binary", path.display()))?;
    let name = path.file_name().map(OsStr::to_string_lossy).unwrap_or_default().into_owned();
    Ok(Binary {
        name,
        version: String::new(),
        sha256: HEXLOWER.encode(&Sha256::digest(&bytes)),
        bytes: bytes.len() as u64,
        is_static: linkage == Linkage::Static,
        path,
    })
}

/// Cargo, told nothing by the cargo that may have started us: build scripts that look at a package's name would run again
/// and rebuild what depends on them, each time one of the two follows the other.
fn cargo(workspace: &Workspace) -> Command {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut cargo = Command::new(program);
    cargo.current_dir(&workspace.root).env("CARGO_TARGET_DIR", &workspace.target).stdin(Stdio::null());
    for (key, _) in std::env::vars_os() {
        let name = key.to_string_lossy();
        if name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_") {
            cargo.env_remove(&key);
        }
    }
    cargo
}

fn succeed(command: &mut Command) -> anyhow::Result<()> {
    let status = command.status().with_context(|| format!("cannot run {:?}", command.get_program()))?;
    if !status.success() {
        bail!("{:?} failed: {status}", command.get_program());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_binary_that_is_not_there_is_named_in_the_error() {
        let error = inspect(Path::new("/nonexistent/istio-cni")).unwrap_err();
        assert!(error.to_string().contains("/nonexistent/istio-cni"));
    }
}
