// SPDX-License-Identifier: Apache-2.0
//! An OCI runtime on a machine that refuses what a container runtime asks for: what a container or a process of it
//! starts with is loosened before, and everything else is the runtime's own.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;

use anyhow::Context as _;
use clap::Args;
use rustix::thread::{CapabilitySet, capability_is_in_bounding_set};
use serde_json::Value;

/// File of a bundle (OCI runtime specification 1.2, bundle).
const CONFIG: &str = "config.json";

#[derive(Debug, Clone, Args)]
pub struct OciOptions {
    /// The runtime.
    #[arg(long)]
    program: PathBuf,
    /// Its arguments.
    #[arg(last = true)]
    arguments: Vec<OsString>,
}

/// Becomes the runtime.
pub fn run(options: &OciOptions) -> anyhow::Result<()> {
    if let Some(path) = configuration(&options.arguments) {
        let text = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let mut read =
            serde_json::from_slice(&text).with_context(|| format!("{} is no JSON", path.display()))?;
        without_refused(&mut read, is_had);
        fs::write(&path, read.to_string()).with_context(|| format!("cannot write {}", path.display()))?;
    }
    let error = Command::new(&options.program).args(&options.arguments).exec();
    Err(error).with_context(|| format!("cannot run {}", options.program.display()))
}

/// File that says what these arguments start: a container's configuration, or one of its processes.
fn configuration(arguments: &[OsString]) -> Option<PathBuf> {
    let is = |one: &OsString, name: &str| one == OsStr::new(name);
    let after = |long: &str, short: &str| {
        let found = arguments.windows(2).find(|pair| is(&pair[0], long) || is(&pair[0], short))?;
        Some(PathBuf::from(&found[1]))
    };
    match arguments.iter().find_map(|one| ["create", "exec"].into_iter().find(|name| is(one, name)))? {
        "create" => Some(after("--bundle", "-b")?.join(CONFIG)),
        _ => after("--process", "-p"),
    }
}

/// True if this process could hand a capability on.
fn is_had(name: &str) -> bool {
    let known = name.strip_prefix("CAP_").and_then(CapabilitySet::from_name);
    // The runtime knows capabilities of kernels newer than this list.
    known.is_none_or(|one| capability_is_in_bounding_set(one).unwrap_or(true))
}

/// Nobody gives a container what they have not themselves; an out-of-memory score below one's own needs `CAP_SYS_RESOURCE`, and limits of
/// huge pages need their controller.
fn without_refused(config: &mut Value, is_had: impl Fn(&str) -> bool) {
    let process = if config["process"].is_object() { &mut config["process"] } else { &mut *config };
    if let Some(score) = process.get_mut("oomScoreAdj") {
        *score = score.as_i64().unwrap_or_default().max(0).into();
    }
    if let Some(Value::Object(sets)) = process.get_mut("capabilities") {
        for set in sets.values_mut().filter_map(Value::as_array_mut) {
            set.retain(|name| name.as_str().is_none_or(&is_had));
        }
    }
    if let Some(Value::Object(resources)) = config.pointer_mut("/linux/resources") {
        resources.remove("hugepageLimits");
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_starts_has_a_file() {
        let file = |line: &str| configuration(&line.split(' ').map(OsString::from).collect::<Vec<_>>());
        let of = |path: &str| Some(PathBuf::from(path));
        assert_eq!(file("--root /r create --bundle /run/b --pid-file p one"), of("/run/b/config.json"));
        assert_eq!(file("create -b /run/b one"), of("/run/b/config.json"));
        assert_eq!(file("exec --pid-file p --process /run/p.json one"), of("/run/p.json"));
        assert_eq!(file("--root /r start one"), None);
    }

    #[test]
    fn a_score_is_never_lowered() {
        for (asked, given) in [(-998, 0), (0, 0), (1000, 1000)] {
            let mut config = json!({ "process": { "oomScoreAdj": asked, "cwd": "/" } });
            without_refused(&mut config, |_| true);
            assert_eq!(config, json!({ "process": { "oomScoreAdj": given, "cwd": "/" } }));
        }
    }

    #[test]
    fn capabilities_are_those_that_there_are() {
        let mut config = json!({ "process": { "capabilities": { "bounding": ["CAP_KILL", "CAP_SYS_RESOURCE"], "ambient": [] } } });
        without_refused(&mut config, |name| name == "CAP_KILL");
        assert_eq!(config["process"]["capabilities"], json!({ "bounding": ["CAP_KILL"], "ambient": [] }));
    }

    #[test]
    fn a_process_of_a_container_is_the_whole_file() {
        let mut process = json!({ "args": ["sh"], "capabilities": { "bounding": ["CAP_SYS_RESOURCE"] } });
        without_refused(&mut process, |_| false);
        assert_eq!(process, json!({ "args": ["sh"], "capabilities": { "bounding": [] } }));
    }

    #[test]
    fn of_resources_the_limits_of_huge_pages_go() {
        let mut config =
            json!({ "linux": { "resources": { "hugepageLimits": [], "pids": { "limit": 1 } } } });
        without_refused(&mut config, |_| true);
        assert_eq!(config, json!({ "linux": { "resources": { "pids": { "limit": 1 } } } }));
    }
}
