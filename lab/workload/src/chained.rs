// SPDX-License-Identifier: Apache-2.0
//! Stands in for the plugins of other networks, under their names: the one that has the lab's ranges in its configuration wires the pod as
//! `lab-net` does, any other hands the result on, as plugins for ports and bandwidth do. One of them writes its node's lists anew when it is asked for its
//! versions, as their owner may at any moment.

use std::io::{self, Read as _, Write as _};
use std::path::Path;
use std::process::ExitCode;

use serde_json::Value;

use crate::basenet;

/// Key of a configuration that the lab's base plugin can be given.
const RANGES: &str = "ranges";
/// What that plugin reads; the others are keys of whose name it has.
const READ: [&str; 9] = [
    RANGES,
    "networks",
    "stateDir",
    "cniVersion",
    "name",
    "type",
    "prevResult",
    "runtimeConfig",
    "cni.dev/valid-attachments",
];

/// The plugin that writes lists anew.
const OWNER: &str = "list-owner";
/// Ending of the name of a list's next text.
const NEXT: &str = ".next";

/// Runs the plugin on this process' environment and standard streams.
pub fn main() -> ExitCode {
    let mut text = Vec::new();
    if let Err(error) = io::stdin().read_to_end(&mut text) {
        eprintln!("failed to read standard input: {error}");
        return ExitCode::FAILURE;
    }
    let mut conf: Value = serde_json::from_slice(&text).unwrap_or_default();
    let command = std::env::var("CNI_COMMAND").unwrap_or_default();
    if command == "VERSION"
        && let Err(error) = write_lists(Path::new(&std::env::args_os().next().unwrap_or_default()))
    {
        eprintln!("failed to write lists: {error}");
        return ExitCode::FAILURE;
    }
    if !conf[RANGES].is_null() || command == "VERSION" {
        if let Some(keys) = conf.as_object_mut() {
            keys.retain(|key, _| READ.contains(&key.as_str()));
        }
        return basenet::serve(conf.to_string().as_bytes());
    }
    let result = &conf["prevResult"];
    if command == "ADD" && writeln!(io::stdout().lock(), "{result}").is_err() {
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

/// Each list whose next text lies beside it takes that.
fn write_lists(program: &Path) -> io::Result<()> {
    let (Some(name), Some(root)) = (program.file_name(), program.ancestors().nth(4)) else { return Ok(()) };
    if name != OWNER {
        return Ok(());
    }
    for entry in std::fs::read_dir(root.join("etc/cni/net.d"))? {
        let next = entry?.path();
        if let Some(list) = next.to_str().and_then(|next| next.strip_suffix(NEXT)) {
            std::fs::rename(&next, list)?;
        }
    }
    Ok(())
}
