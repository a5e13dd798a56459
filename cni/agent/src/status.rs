// SPDX-License-Identifier: Apache-2.0
//! `install-cni status`: what is installed on this node, what is wrong, and what to do about it, for a person who is on call. It looks at the
//! node itself, so that it tells the truth with the agent down, too; the agent is asked only what it says of itself, and which settings it
//! goes by.

mod decide;
mod gather;
mod print;

use std::io::{self, Write};
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::Serialize;

use crate::settings::{Loaded, Origin};

/// How it is told.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum StatusOutput {
    /// For a person.
    #[default]
    Text,
    /// For a program.
    Json,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(crate) struct NodeStatus {
    binaries: Vec<Binary>,
    credentials: Credentials,
    conflist: Conflist,
    sockets: Vec<Socket>,
    /// Back end that the agent recorded; `None` without a record.
    backend: Option<String>,
    agent: Agent,
    /// The agent's pod, if the plugin does not know it by its name.
    unknown_name: Option<String>,
    /// Origin of the settings that the node is compared with.
    judged_by: JudgedBy,
    /// Settings that are not defaults.
    settings: Vec<Setting>,
    /// Malformed or unapplied settings.
    mistakes: Vec<String>,
}

/// The plugin's binary in a directory of the node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Binary {
    path: String,
    content: Content,
}

/// Content of a binary. A digest is for telling two strangers apart, and is made for those only: the agent's own plugin is compared.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Content {
    /// The same as this agent's.
    Shipped,
    /// Another one, by its SHA-256.
    Other(String),
    /// Nothing to compare with; its SHA-256.
    Unjudged(String),
    /// Unreadable, and why.
    Unreadable(String),
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
struct Conflist {
    /// Files that runtimes accept, the one that they use first.
    usable: Vec<String>,
    file: Option<String>,
    /// Reason for which pods bypass our entry.
    problem: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Setting {
    /// Key of the `ConfigMap`.
    key: String,
    value: String,
    origin: Origin,
}

/// The plugin's credentials. Never the token itself.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
struct Credentials {
    path: String,
    /// Permission bits.
    mode: Option<u32>,
    /// When the token expires, in seconds since 1970; `None` if it does not say.
    token_expires: Option<u64>,
    problem: Option<String>,
}

/// Origin of the settings that the node is compared with.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum JudgedBy {
    Agent,
    /// This process's own flags and environment: what the `ConfigMap` says is not known.
    #[default]
    Surroundings,
}

/// Purpose of a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Use {
    Questions,
    Lines,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Socket {
    path: String,
    purpose: Use,
    /// Failure of the connection, if it fails.
    problem: Option<String>,
}

/// The agent's own report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Agent {
    Ready,
    /// Unready parts, with reasons.
    NotReady(std::collections::BTreeMap<String, String>),
    /// No answer, and why.
    Silent(String),
}

impl Default for Agent {
    fn default() -> Self {
        Self::Silent("nobody asked".to_owned())
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Finding {
    what: String,
    remedy: String,
}

/// Looks, and writes what there is to say to `out`. 0: all is well; 1: something is wrong.
///
/// # Errors
/// `out` cannot be written to.
pub fn run(loaded: &Loaded, output: StatusOutput, out: &mut dyn Write) -> io::Result<ExitCode> {
    let seen = gather::gather(loaded);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let findings = decide::decide(&seen, now);
    print::print(&seen, &findings, now, output, out)?;
    Ok(if findings.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

#[cfg(test)]
mod tests;
