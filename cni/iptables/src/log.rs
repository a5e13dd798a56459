// SPDX-License-Identifier: Apache-2.0
//! Log lines on standard error, one a decision: as text, or as JSON where `--log_as_json` asks for it.

use std::fmt::Display;
use std::io::Write;

use protocol::log::Level;
use protocol::netconf::LogLevel;
use serde_json::{Map, Value};

use crate::flag;
use crate::given::FlagValues;

/// Format of lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    Text,
    Json,
}

pub struct Log<'w> {
    out: &'w mut dyn Write,
    /// Threshold.
    least: LogLevel,
    format: Format,
}

impl<'w> Log<'w> {
    /// Log as configured by the flags.
    pub fn new(out: &'w mut dyn Write, given: &FlagValues) -> Self {
        let format = if given.is_on(&flag::LOG_AS_JSON) { Format::Json } else { Format::Text };
        Self { out, least: least(given.text(&flag::LOG_OUTPUT_LEVEL)), format }
    }

    pub fn add(&mut self, level: Level, message: &str, fields: &[(&str, &dyn Display)]) {
        if !level.reaches(self.least) {
            return;
        }
        let line = match self.format {
            Format::Text => {
                let mut line = format!("{}\t{message}", level.name());
                for (name, value) in fields {
                    line.push_str(&format!("\t{name}={value}"));
                }
                line
            }
            Format::Json => {
                let mut line = Map::new();
                line.insert("level".to_owned(), Value::from(level.name()));
                line.insert("msg".to_owned(), Value::from(message));
                for (name, value) in fields {
                    line.insert((*name).to_owned(), Value::from(value.to_string()));
                }
                Value::Object(line).to_string()
            }
        };
        // Where standard error is closed, nobody listens.
        let _ = writeln!(self.out, "{line}");
    }
}

/// The level of scope `default` or `all` in `SCOPE:LEVEL,…`; a level without a scope is that of `default`. Info without one.
fn least(text: &str) -> LogLevel {
    let mut least = LogLevel::default();
    for part in text.split(',').filter(|part| !part.is_empty()) {
        let (scope, level) = part.split_once(':').unwrap_or(("default", part));
        if matches!(scope, "default" | "all") {
            least = match LogLevel::from_text(level).unwrap_or_default() {
                // The plugin's `fatal` is this tool's `error`.
                LogLevel::Fatal => LogLevel::Error,
                known => known,
            };
        }
    }
    least
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_level_is_that_of_the_default_scope() {
        for (text, want) in [
            ("", LogLevel::Info),
            ("info", LogLevel::Info),
            ("default:debug", LogLevel::Debug),
            ("ads:debug", LogLevel::Info),
            ("ads:debug,all:warn", LogLevel::Warn),
            ("default:none", LogLevel::None),
            ("default:loud", LogLevel::Info),
        ] {
            assert_eq!(least(text), want, "{text}");
        }
    }
}
