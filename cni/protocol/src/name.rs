// SPDX-License-Identifier: Apache-2.0
//! The one rule for network names and container ids.

/// Whether `text` starts with a letter or digit and goes on with letters, digits, `_`, `.` and `-` (ASCII all).
pub(crate) fn is_valid(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-'))
}
