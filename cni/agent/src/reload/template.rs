// SPDX-License-Identifier: Apache-2.0
//! The file of the template: it may come after the agent, and change while it runs.

use std::future::pending;
use std::time::Duration;

use tokio::time::timeout;

use crate::settings::build::TemplateText;
use crate::settings::layers::Values;
use crate::settings::load;
use crate::watch::{Names, WatchedDirectory, Watcher};
use manifests::table;

/// Poll interval: inotify can lose events.
const NET: Duration = Duration::from_secs(10);

/// Watched file, if one is set.
#[derive(Debug)]
pub(super) struct TemplateFile {
    values: Values,
    place: Option<WatchedDirectory>,
    watcher: Option<Watcher>,
}

impl TemplateFile {
    pub(super) fn of(values: Values) -> Self {
        let file = values.get(&&table::TEMPLATE_FILE).map(|value| value.text.as_str()).unwrap_or_default();
        let place = std::path::absolute(file).ok().and_then(|path| {
            let name = path.file_name()?.to_string_lossy().into_owned();
            Some(WatchedDirectory { directory: path.parent()?.to_owned(), names: Names::One(name) })
        });
        let watcher = place.as_ref().and_then(|_| {
            let failed = |error: &_| tracing::error!(target: "cni-agent", %error, "failed to watch {file}; reading it every 10 s");
            Watcher::new().inspect_err(failed).ok()
        });
        Self { values, place, watcher }
    }

    /// Waits until its content differs.
    pub(super) async fn differs(&mut self, before: &TemplateText) -> TemplateText {
        let Some(place) = self.place.clone() else {
            return pending().await;
        };
        loop {
            // Before it is read: what happens after that is told.
            if let Some(watcher) = &mut self.watcher {
                watcher.arm(std::slice::from_ref(&place));
            }
            let read = load::template_file(&self.values);
            if read != *before {
                return read;
            }
            let changed = async {
                match &mut self.watcher {
                    Some(watcher) => drop(watcher.changed().await),
                    None => pending().await,
                }
            };
            let _elapsed = timeout(NET, changed).await;
        }
    }
}
