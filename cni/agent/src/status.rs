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
pub enum Output {
    /// For a person.
    #[default]
    Text,
    /// For a program.
    Json,
}

/// What is seen.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Seen {
    binaries: Vec<Binary>,
    credentials: Credentials,
    conflist: Conflist,
    sockets: Vec<Socket>,
    /// What the agent recorded of the kernel; `None` if there is no record.
    backend: Option<String>,
    agent: Agent,
    /// The agent's pod, if the plugin does not know it by its name.
    unknown_name: Option<String>,
    /// Whose settings the node is compared with.
    judged_by: JudgedBy,
    /// The settings that somebody gave.
    settings: Vec<Setting>,
    /// Those that cannot be used, or are not applied.
    mistakes: Vec<String>,
}

/// The plugin in a directory of the node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Binary {
    path: String,
    content: Content,
}

/// What is there. A digest is for telling two strangers apart, and is made for those only: the agent's own plugin is compared.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Content {
    /// What this agent ships.
    Shipped,
    /// Something else, by its SHA-256.
    Other(String),
    /// Something that there is nothing to compare with, by its SHA-256.
    Unjudged(String),
    /// It cannot be read, and why.
    Unreadable(String),
}

/// Our entry in the configuration that runtimes read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
struct Conflist {
    /// The files that runtimes take, the one that they use first.
    usable: Vec<String>,
    /// The file with our entry.
    file: Option<String>,
    /// Why pods are not set up through it as they should be.
    problem: Option<String>,
}

/// A setting.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Setting {
    /// As in the `ConfigMap`.
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
    /// Why they cannot be used.
    problem: Option<String>,
}

/// Whose settings the node is compared with.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum JudgedBy {
    /// The running agent's.
    Agent,
    /// This process's own flags and environment: what the `ConfigMap` says is not known.
    #[default]
    Surroundings,
}

/// What a socket is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Use {
    /// The plugin's questions.
    Questions,
    /// The plugin's log lines.
    Lines,
}

/// A socket of the run directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Socket {
    path: String,
    /// What it is for.
    purpose: Use,
    /// Why nobody answers; `None` if somebody does.
    problem: Option<String>,
}

/// What the agent says of itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Agent {
    /// It is ready.
    Ready,
    /// It is not: parts and reasons.
    NotReady(std::collections::BTreeMap<String, String>),
    /// It does not answer, and why.
    Silent(String),
}

impl Default for Agent {
    fn default() -> Self {
        Self::Silent("nobody asked".to_owned())
    }
}

/// Something wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Finding {
    what: String,
    remedy: String,
}

/// Looks, and writes what there is to say to `out`. 0: all is well; 1: something is wrong.
///
/// # Errors
/// `out` cannot be written to.
pub fn run(loaded: &Loaded, output: Output, out: &mut dyn Write) -> io::Result<ExitCode> {
    let seen = gather::gather(loaded);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let findings = decide::decide(&seen, now);
    print::print(&seen, &findings, now, output, out)?;
    Ok(if findings.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

#[cfg(test)]
mod tests;
