// SPDX-License-Identifier: Apache-2.0
//! A line. Whatever a value holds, a line stays one line: a pod's text cannot look like another line of the log.

use std::borrow::Cow;
use std::fmt::{Debug, Write as _};

use k8s_openapi::jiff::Timestamp;
use protocol::log::Level;
use protocol::text::one_line;
use serde_json::Map;
use tracing::field::{Field, Visit};

use super::Format;

pub(super) type Value = serde_json::Value;

#[derive(Debug)]
pub(super) struct Line<'a> {
    time: Cow<'a, str>,
    level: Level,
    scope: Cow<'a, str>,
    message: String,
    fields: Vec<(Cow<'a, str>, Value)>,
}

impl<'a> Line<'a> {
    pub(super) fn new(time: Timestamp, level: Level, scope: &'a str) -> Self {
        Self {
            time: Cow::Owned(format!("{time:.6}")),
            level,
            scope: Cow::Borrowed(scope),
            message: String::new(),
            fields: Vec::new(),
        }
    }

    pub(super) fn text(&self, format: Format) -> String {
        match format {
            Format::Text => self.plain(),
            Format::Json => self.json(),
        }
    }

    /// As upstream: the scope `default` is left out.
    fn plain(&self) -> String {
        let mut text = format!("{}\t{}\t", self.time, self.level.name());
        if self.scope != "default" {
            text.push_str(&one_line(&self.scope));
            text.push('\t');
        }
        text.push_str(&one_line(&self.message));
        for (index, (name, value)) in self.fields.iter().enumerate() {
            let value = match value {
                Value::String(value) => quoted_where_needed(value),
                other => Cow::Owned(other.to_string()),
            };
            let _ = write!(text, "{}{}={value}", if index == 0 { '\t' } else { ' ' }, one_line(name));
        }
        text.push('\n');
        text
    }

    fn json(&self) -> String {
        let mut map = Map::new();
        map.insert("level".to_owned(), self.level.name().into());
        map.insert("time".to_owned(), (*self.time).into());
        map.insert("scope".to_owned(), (*self.scope).into());
        map.insert("msg".to_owned(), (*self.message).into());
        for (name, value) in &self.fields {
            // Fields cannot override the line's own keys.
            map.entry(name.as_ref()).or_insert_with(|| value.clone());
        }
        format!("{}\n", Value::Object(map))
    }

    fn put(&mut self, field: &Field, value: Value) {
        if field.name() == "message" {
            self.message = if let Value::String(text) = value { text } else { value.to_string() };
        } else {
            self.fields.push((Cow::Borrowed(field.name()), value));
        }
    }
}

impl Visit for Line<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.put(field, Value::String(format!("{value:?}")));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, value.into());
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field, value.into());
    }

    fn record_error(&mut self, field: &Field, value: &(dyn std::error::Error + 'static)) {
        let chain = std::iter::successors(Some(value), |error| error.source());
        let text: Vec<String> = chain.map(ToString::to_string).collect();
        self.put(field, text.join(": ").into());
    }
}

fn quoted_where_needed(text: &str) -> Cow<'_, str> {
    let plain = |char: char| !char.is_whitespace() && !char.is_control() && !matches!(char, '"' | '=');
    if !text.is_empty() && text.chars().all(plain) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(one_line(&format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))).into_owned())
}

/// Log line from the plugin, with its level and scope.
pub(super) fn of_plugin(json: &str) -> Result<(Level, &'static str, Line<'static>), serde_json::Error> {
    let mut map: Map<String, Value> = serde_json::from_str(json)?;
    let mut take = |name: &str| match map.remove(name) {
        Some(Value::String(text)) => text,
        _ => String::new(),
    };
    let level = match take("level").as_str() {
        "debug" => Level::Debug,
        "warn" => Level::Warn,
        "error" | "fatal" => Level::Error,
        _ => Level::Info,
    };
    let time = take("time").parse().unwrap_or_else(|_| Timestamp::now());
    let message = take("msg");
    // Whatever it says: this is the plugin's socket.
    drop(take("scope"));
    let mut line = Line::new(time, level, "cni-plugin");
    line.message = message;
    line.fields = map.into_iter().map(|(name, value)| (Cow::Owned(name), value)).collect();
    Ok((level, "cni-plugin", line))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(scope: &str) -> Line<'_> {
        let time: Timestamp = "2026-03-04T05:06:07.000089Z".parse().unwrap();
        let mut line = Line::new(time, Level::Warn, scope);
        line.message = "entry was removed".to_owned();
        line
    }

    #[test]
    fn text_is_as_upstreams() {
        assert_eq!(
            line("cni-agent").text(Format::Text),
            "2026-03-04T05:06:07.000089Z\twarn\tcni-agent\tentry was removed\n"
        );
        let mut line = line("default");
        line.fields = vec![
            (Cow::Borrowed("file"), "10-x.conflist".into()),
            (Cow::Borrowed("count"), 3.into()),
            (Cow::Borrowed("why"), "two words".into()),
        ];
        let text = line.text(Format::Text);
        assert!(
            text.ends_with("Z\twarn\tentry was removed\tfile=10-x.conflist count=3 why=\"two words\"\n"),
            "{text}"
        );
    }

    #[test]
    fn json_is_one_object_whose_own_keys_no_field_takes() {
        let mut line = line("repair");
        line.fields =
            vec![(Cow::Borrowed("pod"), "shop/cart".into()), (Cow::Borrowed("level"), "fatal".into())];
        let json: Value = serde_json::from_str(&line.text(Format::Json)).unwrap();
        assert_eq!(
            json,
            serde_json::json!({
                "level": "warn", "time": "2026-03-04T05:06:07.000089Z", "scope": "repair", "msg": "entry was removed", "pod": "shop/cart"
            })
        );
    }

    #[test]
    fn no_value_begins_another_line() {
        let evil = "x\n2026-01-01T00:00:00.000000Z\tinfo\tfine\u{1b}[2J\u{2028}";
        let mut line = line("cni-agent");
        line.message = evil.to_owned();
        line.fields = vec![(Cow::Borrowed("why"), evil.into())];
        for format in [Format::Text, Format::Json] {
            let text = line.text(format);
            assert_eq!(text.matches('\n').count(), 1, "{text:?}");
            assert!(!text.contains('\u{1b}'), "{text:?}");
        }
    }

    #[test]
    fn a_line_of_the_plugin_keeps_its_time_and_fields_and_cannot_take_another_scope() {
        let json = r#"{"level":"error","time":"2026-03-04T05:06:07.5Z","scope":"cni-agent","msg":"no rules","pod":"shop/cart"}"#;
        let (level, scope, line) = of_plugin(json).unwrap();
        assert_eq!((level, scope), (Level::Error, "cni-plugin"));
        assert_eq!(
            line.text(Format::Text),
            "2026-03-04T05:06:07.500000Z\terror\tcni-plugin\tno rules\tpod=shop/cart\n"
        );
        assert!(of_plugin("[]").is_err());
        assert!(of_plugin("no json").is_err());
        assert_eq!(of_plugin("{}").unwrap().0, Level::Info);
    }
}
