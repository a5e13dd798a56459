// SPDX-License-Identifier: Apache-2.0
//! The agent's log: one line per decision, as upstream writes it (time, level, scope, message, fields) or as JSON. A scope is a target of
//! `tracing`; its level can change while the agent runs. What libraries say is heard from warnings on, unless their scope is named.

mod levels;
mod line;

use std::io::{self, Write as _};
use std::sync::{Arc, RwLock};

use k8s_openapi::jiff::Timestamp;
use protocol::log::Level;
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::Interest;
use tracing::{Event, Metadata, Subscriber};

pub use levels::{Levels, LevelsError};
use line::Line;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Format {
    /// Tab-separated: time, level, scope, message.
    #[default]
    Text,
    /// One JSON object a line: `--log_as_json`.
    Json,
}

#[derive(Debug)]
enum Target {
    /// Upstream's default.
    Stdout,
    #[cfg(test)]
    Memory(std::sync::Mutex<String>),
}

/// Log of this process: cheap to clone, clones share it.
#[derive(Debug, Clone)]
pub struct Log(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    levels: RwLock<Levels>,
    format: Format,
    target: Target,
}

/// Begins the log on standard output. What is said before goes nowhere.
///
/// # Errors
/// This process has one already.
pub fn begin(levels: Levels, format: Format) -> io::Result<Log> {
    let log = Log(Arc::new(Shared { levels: RwLock::new(levels), format, target: Target::Stdout }));
    tracing::subscriber::set_global_default(log.clone())
        .map_err(|_| io::Error::other("failed to set up the log: this process has one already"))?;
    Ok(log)
}

impl Log {
    /// For tests: keeps its lines in memory.
    #[cfg(test)]
    pub(crate) fn in_memory() -> Self {
        Self::remembering("info")
    }

    #[cfg(test)]
    fn remembering(levels: &str) -> Self {
        let levels = RwLock::new(levels.parse().unwrap_or_default());
        let target = Target::Memory(std::sync::Mutex::default());
        Self(Arc::new(Shared { levels, format: Format::Text, target }))
    }

    /// For tests: the lines in memory.
    #[cfg(test)]
    pub(crate) fn said(&self) -> String {
        let Target::Memory(text) = &self.0.target else { return String::new() };
        text.lock().map(|text| text.clone()).unwrap_or_default()
    }

    pub fn set_levels(&self, levels: Levels) {
        *self.0.levels.write().unwrap_or_else(std::sync::PoisonError::into_inner) = levels;
        tracing::callsite::rebuild_interest_cache();
    }

    /// Writes a line of the plugin (a JSON object), with the time that it has, in the agent's format.
    ///
    /// # Errors
    /// It is no such object.
    pub fn relay(&self, json: &str) -> Result<(), serde_json::Error> {
        let (level, scope, line) = line::of_plugin(json)?;
        if self.shows(scope, level) {
            self.put(&line);
        }
        Ok(())
    }

    fn shows(&self, scope: &str, level: Level) -> bool {
        self.0.levels.read().unwrap_or_else(std::sync::PoisonError::into_inner).shows(scope, level)
    }

    /// One write: lines do not mix. Nothing can be done about a log that cannot be written.
    fn put(&self, line: &Line<'_>) {
        let text = line.text(self.0.format);
        let _ = match &self.0.target {
            Target::Stdout => std::io::stdout().write_all(text.as_bytes()),
            #[cfg(test)]
            Target::Memory(all) => {
                all.lock().map(|mut all| all.push_str(&text)).map_err(|_| std::io::ErrorKind::Other.into())
            }
        };
    }
}

/// There are no spans: an event carries all its fields.
impl Subscriber for Log {
    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        if self.enabled(metadata) { Interest::always() } else { Interest::never() }
    }

    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event()
            && levels::of_event(metadata.level()).is_some_and(|level| self.shows(metadata.target(), level))
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(LevelFilter::DEBUG)
    }

    fn event(&self, event: &Event<'_>) {
        let Some(level) = levels::of_event(event.metadata().level()) else { return };
        let mut line = Line::new(Timestamp::now(), level, event.metadata().target());
        event.record(&mut line);
        self.put(&line);
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn said(log: &Log) -> BTreeSet<String> {
        let Target::Memory(text) = &log.0.target else { unreachable!() };
        std::mem::take(&mut *text.lock().unwrap())
            .lines()
            .map(|line| line.split_once('\t').unwrap().1.to_owned())
            .collect()
    }

    fn speak() {
        tracing::debug!(target: "cni-agent", file = "a", count = 2, "detail");
        tracing::info!(target: "repair", "decided");
        tracing::info!(target: "hyper::proto", "of a library");
        let error = std::io::Error::other("no space");
        tracing::error!(target: "cni-agent", error = &error as &(dyn std::error::Error + 'static), "failed");
    }

    #[test]
    fn levels_change_while_running() {
        let log = Log::remembering("info");
        tracing::subscriber::with_default(log.clone(), || {
            speak();
            assert_eq!(
                said(&log),
                BTreeSet::from(
                    ["info\trepair\tdecided", "error\tcni-agent\tfailed\terror=\"no space\""]
                        .map(str::to_owned)
                )
            );
            log.set_levels("cni-agent:debug,repair:none".parse().unwrap());
            speak();
            let after = said(&log);
            assert!(after.contains("debug\tcni-agent\tdetail\tfile=a count=2"), "{after:?}");
            assert!(!after.contains("info\trepair\tdecided"), "{after:?}");
        });
    }

    #[test]
    fn the_plugins_lines_have_a_level_of_their_own() {
        let log = Log::remembering("info,cni-plugin:error");
        log.relay(r#"{"level":"info","msg":"rules hold"}"#).unwrap();
        log.relay(r#"{"level":"error","msg":"no rules"}"#).unwrap();
        assert_eq!(said(&log), BTreeSet::from(["error\tcni-plugin\tno rules".to_owned()]));
    }
}
