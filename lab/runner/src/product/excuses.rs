// SPDX-License-Identifier: Apache-2.0
//! Texts by which a description excuses errors in a product's logs, and lines that nothing excuses.

/// Fewest characters of a text that excuses errors: a shorter one is in too many lines.
const FEWEST: usize = 12;

/// Lines that no text of a product's description may match: panics, and what every error has around its message.
const NEVER_EXCUSED: [&str; 8] = [
    "thread 'main' (7) panicked at src/main.rs:1:2:",
    "thread 'main' (7) has overflowed its stack",
    "fatal runtime error: stack overflow, aborting",
    "note: run with `RUST_BACKTRACE=1` environment variable to display a backtrace",
    "panic: runtime error: invalid memory address or nil pointer dereference",
    "fatal error: all goroutines are asleep - deadlock!",
    "2026-01-01T00:00:00.000000Z\terror\tinstall\t",
    r#"{"level":"error","time":"2026-01-01T00:00:00.000000Z","scope":"install","msg":"#,
];

/// Reason why a text excuses no errors.
#[must_use]
pub fn fault(text: &str) -> Option<String> {
    if text.trim().chars().count() < FEWEST {
        return Some(format!("a text of fewer than {FEWEST} characters is in too many lines"));
    }
    let never = NEVER_EXCUSED.iter().find(|line| line.contains(text.trim()));
    let never = never.map(|line| format!("it is in a line that is never excused: {line}"));
    never.or_else(|| is_panic(text.trim()).then(|| "a panic is never excused".to_owned()))
}

/// True for a line in which a runtime, Rust's or Go's, reports that its program ends by its own fault.
#[must_use]
pub fn is_panic(line: &str) -> bool {
    let of_rust = line.starts_with("thread '")
        && (line.contains(" panicked at ") || line.ends_with(" has overflowed its stack"));
    of_rust
        || ["fatal runtime error: ", "panic: ", "fatal error: "].iter().any(|begin| line.starts_with(begin))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_would_excuse_everything_is_at_fault() {
        for text in [
            "",
            "e",
            "error",
            "panicked",
            "            ",
            "disk is ful",
            "thread 'main'",
            " panicked at src/",
            "panic: runtime error",
            "thread 'tokio' panicked at lib.rs",
            r#""level":"error""#,
            "\terror\tinstall\t",
        ] {
            assert!(fault(text).is_some(), "{text:?}");
        }
        for text in
            ["retrying (retry count", "error watching node CNI config: context canceled", "disk is full"]
        {
            assert_eq!(fault(text), None);
        }
    }
}
