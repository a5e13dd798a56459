// SPDX-License-Identifier: Apache-2.0
//! Finds out once which back end is right for this node, and writes it down for the plugin, which else finds out at each pod.

use std::sync::Arc;

use netfilter::Wish;
use netfilter::backend::{Record, choose, probe};
use protocol::netconf::BACKEND_RECORD;
use tokio::task::spawn_blocking;

use crate::files;
use crate::settings::Settings;

/// Probes and writes, beside all else. A failure is logged and leaves no record: the plugin then finds out itself.
pub(super) async fn find_out(settings: Arc<Settings>) {
    // It panics, or it is done.
    let _ = spawn_blocking(move || record(&settings)).await;
}

fn record(settings: &Settings) {
    let run_dir = &settings.places.run_dir;
    if let Err(error) = files::remove_stale_temporaries(run_dir, &|name| name == BACKEND_RECORD) {
        tracing::warn!(target: "cni-agent", "{error}");
    }
    let path = run_dir.join(BACKEND_RECORD);
    let text = match text() {
        Ok(text) => text,
        Err(why) => {
            tracing::warn!(target: "cni-agent", why, "no back end is recorded for this node");
            return match files::remove(&path) {
                Ok(()) => {}
                Err(error) => tracing::warn!(target: "cni-agent", "{error}"),
            };
        }
    };
    match files::atomic_write(&path, &mut text.as_bytes(), 0o644) {
        Ok(()) => {
            let record = text.lines().next().unwrap_or_default();
            tracing::info!(target: "cni-agent", record, "recorded this node's back end");
        }
        Err(error) => tracing::warn!(target: "cni-agent", "{error}"),
    }
}

fn text() -> Result<String, String> {
    let facts = probe().map_err(|error| format!("failed to probe: {error}"))?;
    let choice = choose(Wish::Auto, &facts).map_err(|error| error.to_string())?;
    Ok(Record { choice, facts }.encode())
}
