// SPDX-License-Identifier: Apache-2.0
//! Stands in for the plugins of other networks, under their names: the one that has the node's own network in its configuration wires the pod as
//! that does, any other hands the result on, as plugins for ports and bandwidth do. One of them writes its node's lists anew when it is asked for its
//! versions, as their owner may at any moment.

use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use serde_json::Value;

use crate::basenet;

/// Key of the configuration of the plugin that wires pods: that of the node's own network.
const WIRED_BY: &str = "wiredBy";
/// Keys that the runtime gives a plugin, whichever it is.
const GIVEN: [&str; 4] = ["cniVersion", "prevResult", "runtimeConfig", "cni.dev/valid-attachments"];

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
    let conf: Value = serde_json::from_slice(&text).unwrap_or_default();
    let command = std::env::var("CNI_COMMAND").unwrap_or_default();
    let program = PathBuf::from(std::env::args_os().next().unwrap_or_default());
    if command == "VERSION" {
        if let Err(error) = write_lists(&program) {
            eprintln!("failed to write lists: {error}");
            return ExitCode::FAILURE;
        }
        return basenet::serve(&text);
    }
    if let Some(own) = wired_by(&conf) {
        // Runtimes call plugins by their paths, and it lies beside this one.
        let beside = program.with_file_name(own["type"].as_str().unwrap_or_default());
        return call(&beside, &own).unwrap_or_else(|error| {
            eprintln!("failed to call {}: {error}", beside.display());
            ExitCode::FAILURE
        });
    }
    let result = &conf["prevResult"];
    if command == "ADD" && writeln!(io::stdout().lock(), "{result}").is_err() {
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

/// Configuration of the node's own network, if this is the plugin that wires pods.
fn wired_by(conf: &Value) -> Option<Value> {
    let mut own = conf[WIRED_BY].as_object()?.clone();
    for key in GIVEN {
        own.extend(conf.get(key).map(|value| (key.to_owned(), value.clone())));
    }
    Some(Value::Object(own))
}

/// Calls another plugin with this process' environment and standard output.
fn call(program: &Path, conf: &Value) -> io::Result<ExitCode> {
    let mut child = Command::new(program).stdin(Stdio::piped()).spawn()?;
    let mut input = child.stdin.take().ok_or(io::ErrorKind::BrokenPipe)?;
    input.write_all(conf.to_string().as_bytes())?;
    drop(input);
    let code = child.wait()?.code().and_then(|code| u8::try_from(code).ok());
    Ok(code.map_or(ExitCode::FAILURE, ExitCode::from))
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
