// SPDX-License-Identifier: Apache-2.0
//! `cnilab doctor`: what this machine can do, and how that was found out. Asked inside the sandbox, where it matters.

use cluster::Probe;

use crate::exit::Exit;
use crate::machine::kernel_release;
use crate::plan::{Place, Privilege};
use crate::tier::netns;
use crate::{board, lacks, probe};

/// Prints every probe with its evidence, and how to install missing tools.
pub async fn run(place: &Place, strict: bool, without_musl: Option<&str>) -> anyhow::Result<Exit> {
    if place.is_sandbox() {
        netns::set_loopback_up(netns::OWN.as_ref()).await?;
    }
    let probes = probe::gather(place).await?;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    board::say(&format!("kernel {} · {cores} cores · {}", kernel_release(), sandbox(&place.privilege)));
    for probe in &probes {
        board::say(&format!("{} @{:14} {}", mark(probe), probe.need, probe.evidence));
    }
    let lacks = lacks::of_machine(&probes, without_musl);
    if !lacks.is_empty() {
        board::say(&lacks::render(&lacks));
    }
    let needed = probes.iter().any(|probe| !probe.met && !lacks::is_excusable(probe));
    Ok(if needed || (strict && !lacks.is_empty()) { Exit::Partial } else { Exit::Ok })
}

fn mark(probe: &Probe) -> char {
    match probe.met {
        true => '✓',
        false if lacks::is_excusable(probe) => '–',
        false => '✗',
    }
}

fn sandbox(privilege: &Privilege) -> &'static str {
    match privilege {
        Privilege::Root => "sandbox: pid, mount and network namespaces",
        Privilege::UserNamespace { .. } => "sandbox: the same below a user namespace",
        Privilege::Denied { .. } => "no sandbox",
    }
}
