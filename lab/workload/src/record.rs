// SPDX-License-Identifier: Apache-2.0
//! A CNI plugin that tells what it was called with: it writes that down, then the plugin itself is run with the same.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::{self, Read as _, Write as _};
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};

use anyhow::Context as _;
use clap::Args;
use cluster::CniCall;

#[derive(Debug, Clone, Args)]
pub struct RecordOptions {
    /// The plugin.
    #[arg(long)]
    program: PathBuf,
    /// File that a line of JSON is added to for each call.
    #[arg(long)]
    to: PathBuf,
}

/// Runs the plugin to its end; its output and its exit code are this program's.
pub fn run(options: &RecordOptions) -> anyhow::Result<ExitCode> {
    let mut stdin = Vec::new();
    io::stdin().read_to_end(&mut stdin).context("cannot read standard input")?;
    let plugin = options.program.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let env: BTreeMap<_, _> = std::env::vars().collect();
    let call = CniCall { plugin, env, stdin };
    let to = || options.to.display();
    let mut file = OpenOptions::new().create(true).append(true).open(&options.to);
    let file = file.as_mut().map_err(|error| anyhow::anyhow!("cannot open {}: {error}", to()))?;
    // In one write: others add lines at the same time.
    let line = format!("{}\n", call.told());
    file.write_all(line.as_bytes()).with_context(|| format!("cannot write {}", to()))?;
    let mut command = Command::new(&options.program);
    let mut child = command
        .stdin(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot run {}", options.program.display()))?;
    if let Some(mut input) = child.stdin.take() {
        // A plugin that ends without reading all of its input is within its rights.
        let _ = input.write_all(&call.stdin);
    }
    let code = child.wait().context("cannot wait for the plugin")?.code();
    Ok(code.and_then(|code| u8::try_from(code).ok()).map_or(ExitCode::FAILURE, ExitCode::from))
}
