// SPDX-License-Identifier: Apache-2.0
//! Durations as kubectl's users read them: `HumanDuration` of apimachinery.

use k8s_openapi::jiff::Timestamp;
use serde_json::Value;

/// Time since a field's time; `<unknown>` if there is none.
pub(super) fn since(time: &Value, now: Timestamp) -> String {
    match time.as_str().and_then(|text| text.parse().ok()) {
        Some(time) => between(time, now),
        None => "<unknown>".to_owned(),
    }
}

pub(super) fn between(from: Timestamp, to: Timestamp) -> String {
    human(to.as_second() - from.as_second())
}

/// A duration in seconds.
pub(super) fn human(seconds: i64) -> String {
    // `d 8h`: the second part is left out if there is none of it.
    let two = |first: i64, unit: &str, second: i64, of: &str| match second {
        0 => format!("{first}{unit}"),
        _ => format!("{first}{unit}{second}{of}"),
    };
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match seconds {
        // Clocks of two machines may differ a little.
        ..-1 => "<invalid>".to_owned(),
        -1 => "0s".to_owned(),
        0..120 => format!("{seconds}s"),
        _ if minutes < 10 => two(minutes, "m", seconds % 60, "s"),
        _ if minutes < 180 => format!("{minutes}m"),
        _ if hours < 8 => two(hours, "h", minutes % 60, "m"),
        _ if hours < 48 => format!("{hours}h"),
        _ if hours < 192 => two(days, "d", hours % 24, "h"),
        _ if days < 730 => format!("{days}d"),
        _ if days < 2920 => two(days / 365, "y", days % 365, "d"),
        _ => format!("{}y", days / 365),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The cases of `TestHumanDuration`.
    #[test]
    fn durations_read_as_those_of_apimachinery() {
        let (minute, hour, day) = (60, 3600, 86_400);
        let year = 365 * day;
        for (seconds, text) in [
            (-2, "<invalid>"),
            (-1, "0s"),
            (0, "0s"),
            (1, "1s"),
            (70, "70s"),
            (119, "119s"),
            (120, "2m"),
            (190, "3m10s"),
            (70 * minute, "70m"),
            (47 * hour, "47h"),
            (49 * hour, "2d1h"),
            (8 * day + 2 * hour, "8d"),
            (367 * day, "367d"),
            (4 * year, "4y"),
            (2 * year, "2y"),
            (2 * year + day, "2y1d"),
            (8 * year - 1, "7y364d"),
            (8 * year, "8y"),
            (10 * minute - 1, "9m59s"),
            (10 * minute, "10m"),
            (3 * hour - 1, "179m"),
            (3 * hour, "3h"),
            (8 * hour - 1, "7h59m"),
            (8 * hour, "8h"),
            (48 * hour - 1, "47h"),
            (48 * hour, "2d"),
        ] {
            assert_eq!(human(seconds), text, "{seconds}");
        }
    }

    #[test]
    fn a_time_that_is_not_there_is_unknown() {
        let now = "2026-01-02T03:04:05Z".parse().unwrap();
        assert_eq!(since(&"2026-01-02T03:04:00Z".into(), now), "5s");
        assert_eq!(since(&Value::Null, now), "<unknown>");
    }
}
