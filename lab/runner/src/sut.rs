// SPDX-License-Identifier: Apache-2.0
//! The system under test: built from this workspace, or taken from a directory; then looked at.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail};
use sha2::{Digest as _, Sha256};

use crate::elf::{Linkage, linkage};
use crate::locate::Workspace;
use crate::plan::Binary;

/// The plugin's file name.
pub const PLUGIN: &str = "istio-cni";

/// Builds the plugin as production ships it and returns where it is.
pub fn build_plugin(workspace: &Workspace) -> anyhow::Result<PathBuf> {
    let target = Target::choose()?;
    eprintln!("building {PLUGIN} (release, {}, {})", target.triple, target.how);
    let mut cargo = cargo(workspace);
    cargo.args(["build", "--release", "--locked", "--package", PLUGIN, "--target", &target.triple]);
    if let Some(flags) = target.rustflags {
        cargo.env("RUSTFLAGS", flags);
    }
    succeed(&mut cargo)?;
    Ok(workspace.target.join(&target.triple).join("release").join(PLUGIN))
}

/// Builds the processes of the lab's pods and returns where they are.
pub fn build_workload(workspace: &Workspace) -> anyhow::Result<PathBuf> {
    eprintln!("building workload (dev)");
    succeed(cargo(workspace).args(["build", "--locked", "--package", "workload"]))?;
    Ok(workspace.target.join("debug/workload"))
}

/// Reads a binary and asks it for its version.
pub fn inspect(path: &Path) -> anyhow::Result<Binary> {
    let path = path.canonicalize().with_context(|| format!("no binary at {}", path.display()))?;
    let bytes = std::fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let linkage = linkage(&bytes).with_context(|| format!("{} is not a binary", path.display()))?;
    let name = path.file_name().map(OsStr::to_string_lossy).unwrap_or_default().into_owned();
    Ok(Binary {
        name,
        version: version(&path)?,
        sha256: hex(&Sha256::digest(&bytes)),
        bytes: bytes.len() as u64,
        is_static: linkage == Linkage::Static,
        path,
    })
}

/// The target that production is built for, and how.
struct Target {
    triple: String,
    how: &'static str,
    rustflags: Option<&'static str>,
}

impl Target {
    /// musl where it is installed: it starts faster. Else the host's own libc, linked statically.
    fn choose() -> anyhow::Result<Self> {
        let musl = format!("{}-unknown-linux-musl", std::env::consts::ARCH);
        if target_libdir(&musl).is_some_and(|dir| dir.is_dir()) {
            return Ok(Self { triple: musl, how: "static musl", rustflags: None });
        }
        let rustflags = "-C target-feature=+crt-static -C relocation-model=static";
        Ok(Self { triple: host_triple()?, how: "static glibc", rustflags: Some(rustflags) })
    }
}

fn target_libdir(triple: &str) -> Option<PathBuf> {
    let output =
        Command::new("rustc").args(["--print", "target-libdir", "--target", triple]).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| PathBuf::from(text.trim()))
}

fn host_triple() -> anyhow::Result<String> {
    let output = Command::new("rustc").arg("-vV").output().context("cannot run rustc")?;
    let text = String::from_utf8(output.stdout)?;
    let host = text.lines().find_map(|line| line.strip_prefix("host: ")).context("rustc names no host")?;
    Ok(host.to_owned())
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

/// The version of a plugin: called without a command it says what it is on standard error.
fn version(path: &Path) -> anyhow::Result<String> {
    let output = Command::new(path)
        .env_clear()
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot run {}", path.display()))?;
    let text = String::from_utf8_lossy(&output.stderr);
    let about =
        text.lines().find_map(|line| line.strip_prefix("CNI plugin ")).unwrap_or("of unknown version");
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    Ok(about.trim_start_matches(name.as_ref()).trim().to_owned())
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_spelled_as_sha256sum_does() {
        let digest = hex(&Sha256::digest(b"abc"));
        assert_eq!(digest, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    }

    #[test]
    fn a_target_that_is_not_installed_is_not_chosen() {
        assert!(target_libdir("no-such-triple").is_none());
        let host = host_triple().unwrap();
        assert!(target_libdir(&host).unwrap().is_dir());
    }

    #[test]
    fn a_binary_that_is_not_there_is_named_in_the_error() {
        let error = inspect(Path::new("/nonexistent/istio-cni")).unwrap_err();
        assert!(error.to_string().contains("/nonexistent/istio-cni"));
    }
}
