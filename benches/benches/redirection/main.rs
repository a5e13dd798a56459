// SPDX-License-Identifier: Apache-2.0
//! Costs of redirection, piece by piece: rules in memory, rules into a namespace by back end and by number, beside a held lock, and many
//! pods at once. In process, beside the floor, the iptables tools and `nft`, all in turns in one run.
//!
//! `cargo bench -p benches --bench redirection -- [--quick] [--json PATH]`
//!
//! | part | what it times |
//! |---|---|
//! | `memory` | pure code: generation, text, encoding, comparison, verdict |
//! | `apply` | one pod, by back end; rulesets of 18, 100 and 1,000 rules |
//! | `locked` | one pod while another process holds a lock |
//! | `crowd` | 110 pods, 16 at a time |

#![expect(clippy::print_stdout, reason = "the report is the product")]

mod apply;
mod crowd;
mod locked;
mod memory;

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use benches::holder;
use benches::report::{self, Effort, Table};
use clap::Parser;
use rig::mounts;

/// Times what redirection costs.
#[derive(Debug, Parser)]
struct Options {
    /// A few rounds only: proves that the bench runs and that no cost grows faster than the rules. Its figures are worth nothing.
    #[arg(long)]
    quick: bool,
    /// Where the figures go as JSON; `target/redirection.json` if not given.
    #[arg(long)]
    json: Option<PathBuf>,
    /// Hold a lock instead (see `benches::holder`).
    #[arg(long, hide = true)]
    hold: Option<PathBuf>,
    /// What `cargo bench` passes.
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() -> Result<()> {
    let options = Options::parse();
    if let Some(file) = &options.hold {
        return holder::hold(file);
    }
    // The lock that is held in it is nobody else's, and goes with this process.
    mounts::private();
    mounts::tmpfs("/run");
    fs::write(holder::NODE, "")?;
    let effort = if options.quick { Effort::Quick } else { Effort::Full };
    let scratch = tempfile::tempdir()?;
    let (memory, growth) = memory::measure(effort)?;
    let mut tables = vec![memory];
    tables.extend(apply::measure(effort, scratch.path())?);
    tables.push(locked::measure(effort)?);
    tables.push(crowd::measure(effort, scratch.path())?);
    println!();
    for table in &tables {
        println!("{table}");
    }
    write_json(&options, &tables)?;
    // Behind the report, so that it shows by how much.
    ensure!(growth.is_empty(), "these cost more for each rule, the more rules there are: {growth:?}");
    Ok(())
}

fn write_json(options: &Options, tables: &[Table]) -> Result<()> {
    let in_target = || -> Result<PathBuf> {
        // target/TRIPLE/release/deps/redirection-…
        let binary = std::env::current_exe()?;
        Ok(binary.ancestors().nth(4).context("not in a target directory")?.join("redirection.json"))
    };
    let path = options.json.clone().map_or_else(in_target, Ok)?;
    fs::write(&path, format!("{:#}\n", report::json(tables)))?;
    println!("figures as JSON: {}", path.display());
    Ok(())
}
