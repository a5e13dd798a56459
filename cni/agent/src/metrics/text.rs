// SPDX-License-Identifier: Apache-2.0
//! The scraped text. OpenMetrics for those who ask for it; Prometheus' older text for the rest, in which a counter is announced under its
//! full name.

use prometheus_client::encoding::text::{encode, encode_registry};
use prometheus_client::registry::Registry;

/// Exposition format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exposition {
    /// `application/openmetrics-text; version=1.0.0`
    OpenMetrics,
    /// `text/plain; version=0.0.4`
    Prometheus,
}

impl Exposition {
    /// Content negotiation.
    #[must_use]
    pub fn for_accept(accept: &str) -> Self {
        if accept.contains("application/openmetrics-text") { Self::OpenMetrics } else { Self::Prometheus }
    }

    #[must_use]
    pub const fn content_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
        }
    }
}

pub(super) fn write(registry: &Registry, exposition: Exposition) -> Result<String, std::fmt::Error> {
    let mut text = String::with_capacity(16 * 1024);
    match exposition {
        Exposition::OpenMetrics => encode(&mut text, registry)?,
        Exposition::Prometheus => {
            let mut open = String::with_capacity(16 * 1024);
            encode_registry(&mut open, registry)?;
            in_full(&open, &mut text);
        }
    }
    Ok(text)
}

/// Announces counters under the name that their samples have. `HELP` comes before `TYPE`, so it waits for it.
fn in_full(open: &str, text: &mut String) {
    let mut help = None;
    for line in open.lines() {
        if line.starts_with("# HELP ") {
            help = Some(line);
            continue;
        }
        let counter = line.strip_prefix("# TYPE ").and_then(|rest| rest.strip_suffix(" counter"));
        match (help.take(), counter) {
            (Some(help), Some(name)) => {
                push(text, &help.replacen(name, &format!("{name}_total"), 1));
                push(text, &format!("# TYPE {name}_total counter"));
            }
            (help, _) => {
                help.into_iter().for_each(|help| push(text, help));
                push(text, line);
            }
        }
    }
}

fn push(text: &mut String, line: &str) {
    text.push_str(line);
    text.push('\n');
}
