// SPDX-License-Identifier: Apache-2.0
//! Defects of the plugin that take more than an expression, for the entries of `protocol.yaml` and `serve.yaml`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use protocol::env::Command;
use redirect::ruleset::{Dialect, Ruleset};
use rustls::crypto::CryptoProvider;

use crate::context::Call;

/// At DEL removes the rules of the namespace that is named.
pub(crate) fn clean_at_del(call: &Call<'_>) {
    if call.invocation.command == Command::Del {
        clean(call, |named| vec![named.to_owned()]);
    }
}

/// At GC removes the rules of every namespace beside the one that is named; a real runtime names none, and keeps them where all do.
pub(crate) fn clean_at_gc(call: &Call<'_>) {
    if call.invocation.command == Command::Gc {
        clean(call, |named| {
            let beside = named.parent().and_then(|dir| std::fs::read_dir(dir).ok());
            beside.into_iter().flatten().flatten().map(|entry| entry.path()).collect()
        });
    }
}

fn clean(call: &Call<'_>, all: impl Fn(&Path) -> Vec<PathBuf>) {
    let kept = Path::new("/var/run/netns/any");
    let named = call.invocation.netns.as_deref().or((call.invocation.command == Command::Gc).then_some(kept));
    for path in named.into_iter().flat_map(all) {
        let Ok(netns) = call.kernel.open(&path) else { continue };
        if netns.enter().is_ok() {
            // A defect that breaks nothing is not caught, and the lab reports it.
            let _ = netfilter::apply(&Ruleset { dialect: Dialect::Iptables, ipv6: true, rules: Vec::new() });
        }
    }
}

/// TLS as of a build that knows no RSA.
pub(crate) fn without_rsa() -> Arc<CryptoProvider> {
    let mut provider = rustls::crypto::ring::default_provider();
    let known = &mut provider.signature_verification_algorithms;
    let mut rest = known.mapping.to_vec();
    rest.retain(|(scheme, _)| !format!("{scheme:?}").starts_with("RSA"));
    known.mapping = rest.leak();
    Arc::new(provider)
}
