// SPDX-License-Identifier: Apache-2.0
//! Target triples: that of what ships, and of a machine that cannot build it.

use std::path::PathBuf;
use std::process::Command;

use anyhow::Context as _;

/// Binaries of a run on a machine without the musl target.
pub(super) const NOT_MUSL: &str = "static glibc, not optimized as a whole";

/// Target triple of production builds, with its flags.
pub(super) struct Target {
    pub(super) triple: String,
    pub(super) how: &'static str,
}

impl Target {
    /// musl where it is installed: it starts faster. Else the host's own libc, linked statically, as `.cargo/config.toml` has it.
    pub(super) fn choose() -> anyhow::Result<Self> {
        if let Some(triple) = musl() {
            return Ok(Self { triple, how: "static musl" });
        }
        Ok(Self { triple: host_triple()?, how: "static glibc" })
    }
}

/// The musl target, if it is installed.
pub(super) fn musl() -> Option<String> {
    let triple = format!("{}-unknown-linux-musl", std::env::consts::ARCH);
    target_libdir(&triple).is_some_and(|dir| dir.is_dir()).then_some(triple)
}

/// Linkage of the binaries of a run without the musl target; `None` where it is installed.
#[must_use]
pub fn without_musl() -> Option<String> {
    let lacking =
        || format!("the target is not installed: what runs is {NOT_MUSL}, and starts slower than what ships");
    musl().is_none().then(lacking)
}

fn target_libdir(triple: &str) -> Option<PathBuf> {
    let output =
        Command::new("rustc").args(["--print", "target-libdir", "--target", triple]).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| PathBuf::from(text.trim()))
}

pub(super) fn host_triple() -> anyhow::Result<String> {
    let output = Command::new("rustc").arg("-vV").output().context("cannot run rustc")?;
    let text = String::from_utf8(output.stdout)?;
    let host = text.lines().find_map(|line| line.strip_prefix("host: ")).context("rustc names no host")?;
    Ok(host.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_that_is_not_installed_is_not_chosen() {
        assert!(target_libdir("no-such-triple").is_none());
        let host = host_triple().unwrap();
        assert!(target_libdir(&host).unwrap().is_dir());
    }
}
