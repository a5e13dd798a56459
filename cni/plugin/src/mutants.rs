// SPDX-License-Identifier: Apache-2.0
//! Named defects ([`mod@protocol::mutant`]) that take more than a condition.

use std::path::PathBuf;

use protocol::env::Command;
use protocol::mutant;
use redirect::ruleset::{Dialect, Ruleset};

use crate::call::Call;

/// Removes what a DEL or a GC must leave alone: the rules of the named namespace, or of every namespace beside it.
pub(crate) fn clean(call: &Call<'_>) {
    let Some(named) = &call.invocation.netns else { return };
    let all: Vec<PathBuf> = match call.invocation.command {
        Command::Del if mutant!("del-cleans") => vec![named.clone()],
        Command::Gc if mutant!("gc-collects") => {
            let beside = named.parent().and_then(|dir| std::fs::read_dir(dir).ok());
            beside.into_iter().flatten().flatten().map(|entry| entry.path()).collect()
        }
        _ => return,
    };
    for path in all {
        let Ok(netns) = call.kernel.open(&path) else { continue };
        if netns.enter().is_ok() {
            // What a defect fails to break is not caught, which is what the lab then says.
            let _ = netfilter::apply(&Ruleset { dialect: Dialect::Iptables, ipv6: true, rules: Vec::new() });
        }
    }
}
