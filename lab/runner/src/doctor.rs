// SPDX-License-Identifier: Apache-2.0
//! `cnilab doctor`: what this machine can do, and how that was found out. Asked inside the sandbox, where it matters.

use crate::exit::Exit;
use crate::plan::{Place, Privilege};
use crate::report::kernel_release;
use crate::{board, net, probe};

/// Prints every probe with its evidence.
pub async fn run(place: &Place) -> anyhow::Result<Exit> {
    if place.is_sandbox() {
        net::raise_loopback().await?;
    }
    let probes = probe::gather(place).await?;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    board::say(&format!("kernel {} · {cores} cores · {}", kernel_release(), sandbox(&place.privilege)));
    for probe in &probes {
        let mark = if probe.met { '✓' } else { '✗' };
        board::say(&format!("{mark} @{:12} {}", probe.need, probe.evidence));
    }
    let unmet = probes.iter().filter(|probe| !probe.met).count();
    Ok(if unmet == 0 { Exit::Ok } else { Exit::Partial })
}

fn sandbox(privilege: &Privilege) -> &'static str {
    match privilege {
        Privilege::Root => "sandbox: pid, mount and network namespaces",
        Privilege::UserNamespace { .. } => "sandbox: the same below a user namespace",
        Privilege::Denied { .. } => "no sandbox",
    }
}
