// SPDX-License-Identifier: Apache-2.0
//! The real tools, run in the calling thread's namespace.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use redirect::ruleset::Family;
use serde_json::Value;

const NEEDED: [&str; 7] = [
    "iptables-nft",
    "ip6tables-nft",
    "iptables-nft-restore",
    "ip6tables-nft-restore",
    "iptables-nft-save",
    "ip6tables-nft-save",
    "nft",
];

/// A tool that is not installed.
pub(crate) fn missing() -> Option<&'static str> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let installed =
        |name: &&str| std::env::split_paths(&path).any(|directory| directory.join(name).is_file());
    NEEDED.into_iter().find(|name| !installed(name))
}

fn tool(family: Family, suffix: &str) -> Command {
    let name = match family {
        Family::V4 => "iptables-nft",
        Family::V6 => "ip6tables-nft",
    };
    Command::new(format!("{name}{suffix}"))
}

fn output(mut command: Command, input: &str) -> Result<String, String> {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| format!("{command:?}: {error}"))?;
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    if output.status.success() {
        Ok(String::from_utf8(output.stdout).unwrap())
    } else {
        Err(format!("{command:?}: {}: {}", output.status, String::from_utf8_lossy(&output.stderr)))
    }
}

/// `iptables-nft-restore --noflush`
pub(crate) fn restore(family: Family, text: &str) -> Result<(), String> {
    let mut command = tool(family, "-restore");
    command.arg("--noflush");
    output(command, text).map(drop)
}

/// `iptables-nft ARGUMENTS`
pub(crate) fn iptables(family: Family, arguments: &str) -> Result<String, String> {
    let mut command = tool(family, "");
    command.args(arguments.split_whitespace());
    output(command, "")
}

/// `iptables-nft-save` without its comments, which hold the time.
pub(crate) fn save(family: Family) -> Vec<String> {
    let text = output(tool(family, "-save"), "").unwrap();
    text.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect()
}

/// `nft -f -`
pub(crate) fn nft(script: &str) {
    let mut command = Command::new("nft");
    command.args(["-f", "-"]);
    output(command, script).unwrap();
}

/// `nft -j list ruleset` without handles, which say only in which order something was made.
pub(crate) fn listing() -> Value {
    let mut command = Command::new("nft");
    command.args(["-j", "list", "ruleset"]);
    let mut listing = serde_json::from_str(&output(command, "").unwrap()).unwrap();
    strip(&mut listing);
    listing
}

/// `nft list ruleset`
pub(crate) fn list() -> String {
    let mut command = Command::new("nft");
    command.args(["list", "ruleset"]);
    output(command, "").unwrap()
}

/// Other versions of nft, which `ci/other-nft` fetches: programs, separated as in `PATH`.
pub(crate) fn others() -> Vec<PathBuf> {
    let all = std::env::var_os("NFT_OTHERS").unwrap_or_default();
    std::env::split_paths(&all).filter(|path| !path.as_os_str().is_empty()).collect()
}

/// The rules of `nft --stateless list ruleset`, in order, without counters.
pub(crate) fn listed_rules() -> Vec<String> {
    rules_listed_by(Path::new("nft"))
}

/// The same by another program. That it crashes is a failure.
pub(crate) fn rules_listed_by(nft: &Path) -> Vec<String> {
    let mut command = Command::new(nft);
    command.args(["--stateless", "list", "ruleset"]);
    let text = output(command, "").unwrap();
    let is_rule = |line: &&str| !(line.is_empty() || line.ends_with(['{', '}']) || line.starts_with("type "));
    text.lines().map(str::trim).filter(is_rule).map(str::to_owned).collect()
}

fn strip(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.remove("handle");
            map.values_mut().for_each(strip);
        }
        Value::Array(list) => list.iter_mut().for_each(strip),
        _ => {}
    }
}

fn legacy_tool(family: Family, suffix: &str) -> Command {
    let name = match family {
        Family::V4 => "iptables-legacy",
        Family::V6 => "ip6tables-legacy",
    };
    let mut command = Command::new(format!("{name}{suffix}"));
    command.env("XTABLES_LOCKFILE", "/proc/self/ns/net");
    command
}

/// `iptables-legacy-restore --noflush`
pub(crate) fn legacy_restore(family: Family, text: &str) {
    let mut command = legacy_tool(family, "-restore");
    command.arg("--noflush");
    output(command, text).unwrap();
}

/// `iptables-legacy ARGUMENTS`
pub(crate) fn legacy(family: Family, arguments: &str) {
    let mut command = legacy_tool(family, "");
    command.args(arguments.split_whitespace());
    output(command, "").unwrap();
}

/// `iptables-legacy-save` without its comments.
pub(crate) fn legacy_save(family: Family) -> Vec<String> {
    let text = output(legacy_tool(family, "-save"), "").unwrap();
    text.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect()
}
