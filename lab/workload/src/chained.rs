// SPDX-License-Identifier: Apache-2.0
//! Stands in for the plugins of other networks, under their names: the one that has the lab's ranges in its configuration wires the pod as
//! `lab-net` does, any other hands the result on, as plugins for ports and bandwidth do.

use std::io::{self, Read as _, Write as _};
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

/// Runs the plugin on this process' environment and standard streams.
pub fn main() -> ExitCode {
    let mut text = Vec::new();
    if let Err(error) = io::stdin().read_to_end(&mut text) {
        eprintln!("failed to read standard input: {error}");
        return ExitCode::FAILURE;
    }
    let mut conf: Value = serde_json::from_slice(&text).unwrap_or_default();
    let command = std::env::var("CNI_COMMAND").unwrap_or_default();
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
