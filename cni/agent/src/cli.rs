// SPDX-License-Identifier: Apache-2.0
//! The command line: upstream's flags ([`crate::settings`]), and what a person at the node can ask for.

use clap::{Parser, Subcommand};

/// Installs the CNI plugin on a node and keeps it installed.
#[derive(Debug, Parser)]
#[command(name = "install-cni", version)]
pub struct Cli {
    /// What to do instead of running as the node's agent.
    #[command(subcommand)]
    pub command: Option<Command>,
}

/// What a person can ask for.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Print what is installed on this node, what is wrong and what to do about it.
    Status,
}
