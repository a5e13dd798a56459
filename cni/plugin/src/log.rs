// SPDX-License-Identifier: Apache-2.0
//! Log lines: JSON objects, on stderr at once and kept for the agent and the rolling file ([`crate::log_out`]), which get
//! them all together when the call ends. Never on stdout, which belongs to the result.

use std::fmt::Display;
use std::io::Write;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use protocol::log::Level;
use protocol::netconf::LogLevel;
use serde::ser::{Serialize, SerializeMap, Serializer};

use crate::clock::Clock;

/// Size of a field's text, in bytes: what is longer is cut. The agent takes no line of more than 16 KiB, and an annotation has up to 256.
const FIELD_LIMIT: usize = 2048;

/// A field of a line: its name and its value.
pub type Field<'a> = (&'a str, &'a dyn Display);

/// A line that was shown or is to be kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// Its level.
    pub level: Level,
    /// The JSON object, without the end of line.
    pub json: String,
}

/// Takes lines.
pub struct Log<'w> {
    stderr: &'w mut dyn Write,
    clock: &'w dyn Clock,
    threshold: LogLevel,
    labels: Vec<(&'static str, String)>,
    lines: Vec<Line>,
}

impl<'w> Log<'w> {
    /// A log at level info.
    pub fn new(stderr: &'w mut dyn Write, clock: &'w dyn Clock) -> Self {
        Self { stderr, clock, threshold: LogLevel::default(), labels: Vec::new(), lines: Vec::new() }
    }

    /// Shows lines from `threshold` on. The file keeps info and above whatever this says.
    pub fn set_threshold(&mut self, threshold: LogLevel) {
        self.threshold = threshold;
    }

    /// Adds a field to each line from now on.
    pub fn label(&mut self, name: &'static str, value: String) {
        self.labels.push((name, value));
    }

    /// Takes a line, if anybody wants lines of that level.
    pub fn add(&mut self, level: Level, message: &str, fields: &[Field<'_>]) {
        let shown = level.reaches(self.threshold);
        if !shown && !level.reaches(LogLevel::Info) {
            return;
        }
        let entry = Entry { level, time: self.clock.wall(), message, labels: &self.labels, fields };
        let Ok(mut json) = serde_json::to_string(&entry) else { return };
        if shown {
            json.push('\n');
            // Where stderr is closed or nobody reads it, there are still the agent and the file.
            let _ = self.stderr.write_all(json.as_bytes());
            json.pop();
        }
        self.lines.push(Line { level, json });
    }

    /// [`Level::Debug`].
    pub fn debug(&mut self, message: &str, fields: &[Field<'_>]) {
        self.add(Level::Debug, message, fields);
    }

    /// [`Level::Info`].
    pub fn info(&mut self, message: &str, fields: &[Field<'_>]) {
        self.add(Level::Info, message, fields);
    }

    /// [`Level::Warn`].
    pub fn warn(&mut self, message: &str, fields: &[Field<'_>]) {
        self.add(Level::Warn, message, fields);
    }

    /// [`Level::Error`].
    pub fn error(&mut self, message: &str, fields: &[Field<'_>]) {
        self.add(Level::Error, message, fields);
    }

    /// The lines for the agent: what stderr shows.
    pub fn shown(&self) -> impl Iterator<Item = &str> {
        self.lines.iter().filter(|line| line.level.reaches(self.threshold)).map(|line| line.json.as_str())
    }

    /// The lines for the file: info and above.
    pub fn kept(&self) -> impl Iterator<Item = &str> {
        self.lines.iter().filter(|line| line.level.reaches(LogLevel::Info)).map(|line| line.json.as_str())
    }
}

struct Entry<'a> {
    level: Level,
    time: SystemTime,
    message: &'a str,
    labels: &'a [(&'static str, String)],
    fields: &'a [Field<'a>],
}

impl Serialize for Entry<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("level", self.level.name())?;
        map.serialize_entry("time", &rfc3339(self.time))?;
        map.serialize_entry("scope", "cni-plugin")?;
        map.serialize_entry("msg", self.message)?;
        for (name, value) in self.labels {
            map.serialize_entry(name, value)?;
        }
        for (name, value) in self.fields {
            map.serialize_entry(name, &bounded(value.to_string()))?;
        }
        map.end()
    }
}

fn bounded(mut text: String) -> String {
    if text.len() > FIELD_LIMIT {
        text.truncate(text.floor_char_boundary(FIELD_LIMIT));
        text.push('…');
    }
    text
}

/// `time` in UTC with microseconds. Days become a date as in Howard Hinnant's `civil_from_days`, in years that start in March.
#[must_use]
pub fn rfc3339(time: SystemTime) -> String {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    let (days, second) = (since.as_secs() / 86_400, since.as_secs() % 86_400);
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{:06}Z", since.subsec_micros())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::FakeClock;

    #[test]
    fn dates_are_right_at_the_edges() {
        let at = |seconds: u64| rfc3339(UNIX_EPOCH + Duration::from_secs(seconds));
        assert_eq!(at(0), "1970-01-01T00:00:00.000000Z");
        assert_eq!(at(951_782_399), "2000-02-28T23:59:59.000000Z");
        assert_eq!(at(951_782_400), "2000-02-29T00:00:00.000000Z");
        assert_eq!(at(1_709_251_199), "2024-02-29T23:59:59.000000Z");
        assert_eq!(at(1_767_225_599), "2025-12-31T23:59:59.000000Z");
        assert_eq!(at(4_107_542_400), "2100-03-01T00:00:00.000000Z");
    }

    #[test]
    fn the_threshold_rules_stderr_and_the_agent_but_not_the_file() {
        for (threshold, shown, kept) in [
            (LogLevel::Debug, 4, 3),
            (LogLevel::Info, 3, 3),
            (LogLevel::Error, 1, 3),
            (LogLevel::Fatal, 0, 3),
            (LogLevel::None, 0, 3),
        ] {
            let (clock, mut stderr) = (FakeClock::new(), Vec::new());
            let mut log = Log::new(&mut stderr, &clock);
            log.set_threshold(threshold);
            log.debug("d", &[]);
            log.info("i", &[]);
            log.warn("w", &[]);
            log.error("e", &[]);
            assert_eq!((log.shown().count(), log.kept().count()), (shown, kept), "{threshold:?}");
            assert_eq!(String::from_utf8(stderr).unwrap().lines().count(), shown, "{threshold:?}");
        }
    }

    #[test]
    fn a_line_is_never_too_long_for_the_agent() {
        let (clock, mut stderr) = (FakeClock::new(), Vec::new());
        let mut log = Log::new(&mut stderr, &clock);
        // Each takes six bytes in JSON, and the limit is within a character.
        let annotation = format!("é{}", "\u{1}é".repeat(90_000));
        log.error("call failed", &[("command", &"ADD"), ("error", &annotation)]);
        let line = log.shown().next().unwrap();
        assert!(line.len() < 16 * 1024, "{}", line.len());
        let value: serde_json::Value = serde_json::from_str(line).unwrap();
        assert!(value["error"].as_str().unwrap().ends_with('…'));
    }

    #[test]
    fn a_line_is_one_json_object_with_labels_and_fields() {
        let (clock, mut stderr) = (FakeClock::new(), Vec::new());
        let mut log = Log::new(&mut stderr, &clock);
        log.label("pod", "shop/cart".to_owned());
        log.info("two\nlines", &[("count", &3)]);
        let text = String::from_utf8(stderr).unwrap();
        assert_eq!(text.lines().count(), 1);
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(json["level"], "info");
        assert_eq!(json["msg"], "two\nlines");
        assert_eq!(json["pod"], "shop/cart");
        assert_eq!(json["count"], "3");
        assert_eq!(json["time"], rfc3339(clock.wall()));
    }
}
