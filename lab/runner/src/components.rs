// SPDX-License-Identifier: Apache-2.0
//! `cnilab components`: builds real components, and says what is there.

use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use indicatif::{ProgressBar, ProgressStyle};
use real::components::State;
use real::{Components, Error, Progress};

use crate::board;
use crate::carried::{self, needs_source};
use crate::cli::{ComponentsCommand, Format};
use crate::exit::Exit;
use crate::locate::Workspace;

/// Does what the command line asks for.
pub fn start(command: &ComponentsCommand) -> anyhow::Result<Exit> {
    if carried::is_carrying() {
        return Err(needs_source("components").into());
    }
    let (modules, cache) = places(&Workspace::find()?)?;
    let all = Components::read(&modules, &cache)?;
    let done = match command {
        ComponentsCommand::Build { names } => build(&all, names),
        ComponentsCommand::List { output } => list(&all, *output),
        ComponentsCommand::Path { name } => path(&all, name),
    };
    Ok(match done {
        Ok(()) => Exit::Ok,
        Err(error) => {
            board::complain(&error);
            match error {
                Error::Unknown(_) => Exit::Usage,
                Error::Missing { .. } => Exit::Partial,
                _ => Exit::Inconclusive,
            }
        }
    })
}

/// Directories of the recipes and of the user's cache.
///
/// # Errors
/// Nobody says where the cache is.
pub fn places(workspace: &Workspace) -> anyhow::Result<(PathBuf, PathBuf)> {
    let of = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let cache = Components::cache_of(of("XDG_CACHE_HOME"), of("HOME"));
    let cache = cache.context("there is no place for the cache: set HOME or XDG_CACHE_HOME")?;
    Ok((workspace.root.join("ci/components"), cache))
}

fn build(all: &Components, names: &[String]) -> Result<(), Error> {
    for recipe in all.select(names)? {
        let bar = bar();
        all.build(recipe, &mut |progress| match progress {
            Progress::Cached(name) => eprintln!("{name}: there"),
            Progress::Begun(name) => {
                bar.set_message(format!("{name} {}", recipe.version));
                if bar.is_hidden() {
                    eprintln!("building {name} {}", recipe.version);
                }
            }
            Progress::Compiled(_, packages) => bar.set_position(packages as u64),
            Progress::Built(name, took) => {
                bar.suspend(|| eprintln!("{name}: built in {:.0} s", took.as_secs_f64()));
            }
        })?;
        bar.finish_and_clear();
    }
    Ok(())
}

/// Shown where somebody watches.
fn bar() -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new_spinner();
    if let Ok(style) = ProgressStyle::with_template("{spinner} {msg}: {pos} packages compiled, {elapsed}") {
        bar.set_style(style);
    }
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

fn list(all: &Components, output: Format) -> Result<(), Error> {
    let states: Vec<_> =
        all.select(&[])?.into_iter().map(|recipe| all.state(recipe)).collect::<Result<_, _>>()?;
    board::say(&match output {
        Format::Json => serde_json::to_string(&states).unwrap_or_default(),
        Format::Text => states.iter().map(line).collect::<Vec<_>>().join("\n"),
    });
    Ok(())
}

fn line(state: &State) -> String {
    let is = match state.missing.as_slice() {
        [] => format!("{} MiB in {}", state.bytes >> 20, state.path.display()),
        missing => format!("not built: {}", missing.join(", ")),
    };
    format!("{:<16} {:<8} {is}", state.name, state.version)
}

fn path(all: &Components, name: &str) -> Result<(), Error> {
    let names = [name.to_owned()];
    for recipe in all.select(&names)? {
        let state = all.state(recipe)?;
        if let Some(binary) = state.missing.first() {
            let (binary, component) = (binary.clone(), name.to_owned());
            return Err(Error::Missing { binary, component, directory: state.path });
        }
        board::say(&state.path.display().to_string());
    }
    Ok(())
}
