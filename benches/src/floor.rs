// SPDX-License-Identifier: Apache-2.0
//! Builds the floor process (`floor/floor.rs`) around the transaction that the plugin sends for the same pod.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use redirect::ruleset::Ruleset;

/// The system calls of a run, in order. Anything else would flatter whoever is compared with it.
pub const SYSTEM_CALLS: [&str; 6] = ["open", "setns", "socket", "sendto", "recvfrom", "exit"];

/// Builds it into `directory` and returns its path. Needs `rustc` and a C linker; x86-64 only.
pub fn build(ruleset: &Ruleset, directory: &Path) -> Result<PathBuf> {
    let batch = directory.join("floor.batch");
    std::fs::write(&batch, netfilter::encode::batch(ruleset, Some(1)).context("encode the transaction")?)?;
    let binary = directory.join("floor");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("floor/floor.rs");
    let status = Command::new("rustc")
        .args([
            "--edition",
            "2024",
            "-C",
            "opt-level=3",
            "-C",
            "panic=abort",
            "-C",
            "relocation-model=static",
        ])
        .args(["-C", "link-arg=-nostartfiles", "-C", "link-arg=-nostdlib", "-C", "link-arg=-static"])
        .arg("-o")
        .args([&binary, &source])
        .env("FLOOR_BATCH", &batch)
        .status()
        .context("run rustc")?;
    ensure!(status.success(), "rustc could not build the floor: {status}");
    Ok(binary)
}
